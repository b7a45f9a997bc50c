//! Questions, their answers, and what becomes of them without one.

use super::*;
use crate::event::{Question, Seq};

const BATCH: Question = Question::Batch { slots: 40 };

/// A run in which somebody answers.
fn answered() -> Bench {
    let mut bench = Bench::new();
    bench.dispatcher.ask_people();
    bench
}

fn ask(bench: &mut Bench, unit: UnitId) -> oneshot::Receiver<Verdict> {
    let (reply, answer) = oneshot::channel();
    bench.say(unit, UnitEvent::Ask { question: BATCH, reply });
    answer
}

fn started(bench: &mut Bench, name: &str) -> UnitId {
    let unit = bench.declare(UnitId::MAIN, &[name])[0].unit;
    bench.may_start(unit).unwrap();
    unit
}

/// Returns the questions that are in the log, oldest first.
fn asked(bench: &Bench) -> Vec<(QuestionId, UnitId)> {
    let asked = |event: &Event| {
        let EventKind::Asked { id, question } = &event.kind else { return None };
        assert_eq!((*id, question), (QuestionId(event.seq), &BATCH));
        Some((*id, event.unit))
    };
    bench.events.iter().filter_map(asked).collect()
}

fn answers(bench: &Bench) -> Vec<(QuestionId, UnitId, Verdict)> {
    let answered = |event: &Event| {
        let EventKind::Answered { id, question, answer } = &event.kind else { return None };
        assert_eq!(question, &BATCH);
        Some((*id, event.unit, answer.clone()))
    };
    bench.events.iter().filter_map(answered).collect()
}

fn state(bench: &Bench, unit: UnitId) -> UnitState {
    bench.dispatcher.units[&unit].state()
}

#[test]
fn an_answer_goes_to_whoever_asked_its_question_in_whatever_order_they_come() {
    let mut bench = answered();
    let slot = started(&mut bench, "slot");
    let mut of_main = ask(&mut bench, UnitId::MAIN);
    let mut of_slot = ask(&mut bench, slot);
    let [(first, _), (second, of)] = asked(&bench)[..] else { panic!("{:?}", bench.events) };
    assert_eq!(of, slot);
    bench.give(Input::Answer(second, Verdict::No));
    assert_eq!(of_slot.try_recv(), Ok(Verdict::No));
    assert!(of_main.try_recv().is_err());
    bench.give(Input::Answer(first, Verdict::Yes));
    assert_eq!(of_main.try_recv(), Ok(Verdict::Yes));
    let both = [(second, slot, Verdict::No), (first, UnitId::MAIN, Verdict::Yes)];
    assert_eq!(answers(&bench), both);
}

#[test]
fn a_late_yes_answers_nothing_else() {
    let mut bench = answered();
    let slot = started(&mut bench, "slot");
    let _gone = ask(&mut bench, slot);
    let late = asked(&bench)[0].0;
    bench.end(slot, Outcome::failed(FailureKind::Timeout, "late"));
    let mut next = ask(&mut bench, UnitId::MAIN);
    bench.give(Input::Answer(late, Verdict::Yes));
    bench.give(Input::Answer(QuestionId(Seq(999)), Verdict::Yes));
    assert!(next.try_recv().is_err());
    assert_eq!(answers(&bench), [(late, slot, Verdict::Withdrawn)]);
}

#[test]
fn a_unit_takes_its_questions_with_it_before_its_end_is_told() {
    let mut bench = answered();
    let slot = started(&mut bench, "slot");
    let (_one, _two) = (ask(&mut bench, slot), ask(&mut bench, slot));
    bench.end(slot, Outcome::Cancelled { ran: true });
    let verdicts: Vec<Verdict> =
        answers(&bench).iter().map(|(_, _, verdict)| verdict.clone()).collect();
    assert_eq!(verdicts, [Verdict::Withdrawn, Verdict::Withdrawn]);
    assert!(matches!(bench.last().kind, EventKind::UnitEnded(_)));
}

#[test]
fn a_run_that_is_given_up_leaves_no_question_open() {
    let mut bench = answered();
    let slot = started(&mut bench, "slot");
    let (_main, _slot) = (ask(&mut bench, UnitId::MAIN), ask(&mut bench, slot));
    bench.give(Input::Cancel(Reach::All, CancelReason::Terminate));
    bench.give(Input::Overdue);
    assert!(bench.finished);
    assert_eq!(answers(&bench).len(), 2);
}

#[test]
fn where_nobody_answers_a_question_is_answered_at_once() {
    let mut bench = Bench::new();
    let mut answer = ask(&mut bench, UnitId::MAIN);
    assert_eq!(answer.try_recv(), Ok(Verdict::NobodyToAsk));
    let id = QuestionId(bench.last().seq);
    assert_eq!(asked(&bench), []);
    assert_eq!(answers(&bench), [(id, UnitId::MAIN, Verdict::NobodyToAsk)]);
}

#[test]
fn once_nobody_answers_any_more_what_is_open_is_answered_and_so_is_what_comes_later() {
    let mut bench = answered();
    let mut before = ask(&mut bench, UnitId::MAIN);
    bench.give(Input::NobodyAnswers);
    let mut after = ask(&mut bench, UnitId::MAIN);
    let nobody = Ok(Verdict::NobodyToAsk);
    assert_eq!((before.try_recv(), after.try_recv()), (nobody.clone(), nobody));
}

#[test]
fn a_question_after_a_cancel_has_begun_is_dropped() {
    let mut bench = answered();
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert_eq!(ask(&mut bench, UnitId::MAIN).try_recv(), Err(TryRecvError::Closed));
    assert_eq!(asked(&bench), []);
}

#[test]
fn a_unit_awaits_approval_until_its_last_question_is_answered() {
    let mut bench = answered();
    let slot = started(&mut bench, "slot");
    let (_one, _two) = (ask(&mut bench, slot), ask(&mut bench, slot));
    for (id, _) in asked(&bench) {
        assert_eq!(state(&bench, slot), UnitState::AwaitingApproval);
        bench.give(Input::Answer(id, Verdict::Yes));
    }
    assert_eq!(state(&bench, slot), UnitState::Running);
}
