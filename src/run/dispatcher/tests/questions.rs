//! Questions, their answers, and what becomes of them without one.

use super::*;
use crate::event::testing::form;
use crate::event::{CallQuestion, Entry, Lasting, Question, Seq, Terms, UnitState};
use crate::guard::{Decided, Decision, Mode, Policy};
use crate::run::dispatcher::questions::RULES_CAP;
use crate::session::Past;

const BATCH: Question = Question::Batch { slots: 40 };

/// A run in which somebody answers.
pub(super) fn answered() -> Bench {
    let mut bench = Bench::new();
    bench.dispatcher.ask_people();
    bench
}

pub(super) fn ask(bench: &mut Bench, unit: UnitId) -> oneshot::Receiver<Verdict> {
    let (reply, answer) = oneshot::channel();
    bench.say(unit, UnitEvent::Ask { question: BATCH, decided: Decided::default(), reply });
    answer
}

fn started(bench: &mut Bench, name: &str) -> UnitId {
    let unit = bench.declare(UnitId::MAIN, &[name])[0].unit;
    bench.may_start(unit).unwrap();
    unit
}

/// Returns the questions that are in the log, oldest first.
pub(super) fn asked(bench: &Bench) -> Vec<(QuestionId, UnitId)> {
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
fn what_nobody_waits_for_any_more_is_taken_back_and_the_rest_stays() {
    let mut bench = answered();
    let slot = started(&mut bench, "slot");
    let (left, mut kept) = (ask(&mut bench, slot), ask(&mut bench, slot));
    let of_main = ask(&mut bench, UnitId::MAIN);
    drop((left, of_main));
    bench.say(slot, UnitEvent::Unasked);
    let first = asked(&bench)[0].0;
    assert_eq!(answers(&bench), [(first, slot, Verdict::Withdrawn)]);
    let second = asked(&bench)[1].0;
    bench.give(Input::Answer(second, Verdict::Yes));
    assert_eq!(kept.try_recv(), Ok(Verdict::Yes));
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

/// A question about a command that `rules` would allow.
fn command(call: &str, rules: &[&str]) -> Question {
    Question::Call(Arc::new(CallQuestion {
        call: call.into(),
        tool: "Bash".into(),
        subject: "make".into(),
        arguments: r#"{"command":"make"}"#.into(),
        reason: "it may do anything".into(),
        rules: rules.iter().map(|rule| (*rule).into()).collect(),
        confinement: None,
    }))
}

/// Has a unit ask about a command; returns the question's number, too.
fn ask_about(
    bench: &mut Bench,
    unit: UnitId,
    rules: &[&str],
) -> (QuestionId, oneshot::Receiver<Verdict>) {
    ask_decided(bench, unit, rules, Decided::default())
}

/// The same about a command that was decided about.
fn ask_decided(
    bench: &mut Bench,
    unit: UnitId,
    rules: &[&str],
    decided: Decided,
) -> (QuestionId, oneshot::Receiver<Verdict>) {
    let (reply, answer) = oneshot::channel();
    bench.say(unit, UnitEvent::Ask { question: command("c", rules), decided, reply });
    let (EventKind::Asked { id, .. } | EventKind::Answered { id, .. }) = bench.last().kind else {
        panic!("a question leaves an event: {:?}", bench.last())
    };
    (id, answer)
}

/// Declares a batch and starts its slots.
fn started_batch(bench: &mut Bench, parent: UnitId, names: &[&str]) -> Vec<UnitId> {
    let seats = bench.declare(parent, names);
    seats.iter().for_each(|seat| bench.may_start(seat.unit).unwrap());
    seats.iter().map(|seat| seat.unit).collect()
}

/// What became of the questions, each with whether it was ever asked.
fn told(bench: &Bench) -> Vec<(bool, Verdict)> {
    let was_asked = |wanted: QuestionId| {
        let asks =
            |event: &Event| matches!(event.kind, EventKind::Asked { id, .. } if id == wanted);
        bench.events.iter().any(asks)
    };
    let answered = |event: &Event| {
        let EventKind::Answered { id, answer, .. } = &event.kind else { return None };
        Some((was_asked(*id), answer.clone()))
    };
    bench.events.iter().filter_map(answered).collect()
}

#[test]
fn a_yes_for_the_session_answers_what_is_open_and_what_comes_later() {
    let mut bench = answered();
    let slots = started_batch(&mut bench, UnitId::MAIN, &["a", "b", "c"]);
    let (first, mut of_a) = ask_about(&mut bench, slots[0], &["Bash(make *)"]);
    let (_, mut of_b) = ask_about(&mut bench, slots[1], &["Bash(make *)"]);
    let (other, mut of_c) = ask_about(&mut bench, slots[2], &["Bash(rm *)"]);
    bench.give(Input::Answer(first, Verdict::ForSession));
    let covered = Verdict::Covered(first);
    assert_eq!(of_a.try_recv(), Ok(Verdict::ForSession));
    assert_eq!(of_b.try_recv(), Ok(covered.clone()));
    assert!(of_c.try_recv().is_err());
    let (_, mut later) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    assert_eq!(later.try_recv(), Ok(covered.clone()));
    bench.give(Input::Answer(other, Verdict::No));
    let expected = [
        (true, Verdict::ForSession),
        (true, covered.clone()),
        (false, covered),
        (true, Verdict::No),
    ];
    assert_eq!(told(&bench), expected);
    assert_eq!(state(&bench, slots[1]), UnitState::Running);
}

#[test]
fn a_yes_for_the_batch_holds_for_its_slots_and_what_they_start_and_for_nobody_else() {
    let mut bench = answered();
    let slots = started_batch(&mut bench, UnitId::MAIN, &["a", "b"]);
    let others = started_batch(&mut bench, UnitId::MAIN, &["a", "b"]);
    let inner = started_batch(&mut bench, slots[1], &["deep", "deeper"]);
    let (id, _a) = ask_about(&mut bench, slots[0], &["Bash(make *)"]);
    bench.give(Input::Answer(id, Verdict::ForBatch));
    for unit in [slots[0], slots[1], inner[0], inner[1]] {
        let (_, mut answer) = ask_about(&mut bench, unit, &["Bash(make *)"]);
        assert_eq!(answer.try_recv(), Ok(Verdict::Covered(id)), "{unit}");
    }
    for unit in [UnitId::MAIN, others[0], others[1]] {
        let (_, mut answer) = ask_about(&mut bench, unit, &["Bash(make *)"]);
        assert_eq!(answer.try_recv(), Err(TryRecvError::Empty), "{unit}");
    }
}

#[test]
fn a_yes_for_an_inner_batch_does_not_hold_for_the_outer_one() {
    let mut bench = answered();
    let slots = started_batch(&mut bench, UnitId::MAIN, &["a", "b"]);
    let inner = started_batch(&mut bench, slots[0], &["deep", "deeper"]);
    let (id, _deep) = ask_about(&mut bench, inner[0], &["Bash(make *)"]);
    bench.give(Input::Answer(id, Verdict::ForBatch));
    for (unit, expected) in [
        (inner[1], Ok(Verdict::Covered(id))),
        (slots[0], Err(TryRecvError::Empty)),
        (slots[1], Err(TryRecvError::Empty)),
    ] {
        assert_eq!(ask_about(&mut bench, unit, &["Bash(make *)"]).1.try_recv(), expected, "{unit}");
    }
}

#[test]
fn outside_a_batch_a_yes_for_the_batch_is_one_for_the_call() {
    let mut bench = answered();
    let (id, mut first) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    bench.give(Input::Answer(id, Verdict::ForBatch));
    assert_eq!(first.try_recv(), Ok(Verdict::Yes));
    let (_, mut second) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    assert_eq!(second.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn every_part_of_a_call_must_be_allowed() {
    let mut bench = answered();
    let (make, _a) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    bench.give(Input::Answer(make, Verdict::ForSession));
    let (both, mut open) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)", "Bash(rm *)"]);
    assert_eq!(open.try_recv(), Err(TryRecvError::Empty));
    let (rm, _b) = ask_about(&mut bench, UnitId::MAIN, &["Bash(rm *)"]);
    bench.give(Input::Answer(rm, Verdict::ForSession));
    assert_eq!(open.try_recv(), Ok(Verdict::Covered(rm)));
    assert_ne!(both, rm);
}

/// What a guard without rules decides about a command.
fn decided(command: &str) -> Decided {
    let policy = Policy::new(Mode::Default, [std::path::PathBuf::from("/")]);
    let arguments = serde_json::json!({ "command": command });
    match policy.decide("Bash", crate::guard::Effect::Executes, &arguments) {
        Decision::Ask(ask) => ask.decided,
        decision @ (Decision::Allow(_) | Decision::Deny { .. }) => panic!("{decision:?}"),
    }
}

#[test]
fn a_granted_rule_answers_what_it_allows_of_what_was_decided_about() {
    let mut bench = answered();
    let (id, _a) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    let (_, mut open) = ask_decided(&mut bench, UnitId::MAIN, &["Bash(make x)"], decided("make x"));
    bench.give(Input::Answer(id, Verdict::ForSession));
    assert_eq!(open.try_recv(), Ok(Verdict::Covered(id)));
    for (command, expected) in [
        ("make y", Ok(Verdict::Covered(id))),
        ("make y && make z", Ok(Verdict::Covered(id))),
        ("make y && ./z", Err(TryRecvError::Empty)),
    ] {
        // The question's own arguments, `make`, are for people.
        let asked = ask_decided(&mut bench, UnitId::MAIN, &["Bash(x)"], decided(command));
        assert_eq!({ asked }.1.try_recv(), expected, "{command}");
    }
}

#[test]
fn past_the_most_rules_an_answer_holds_for_its_own_call() {
    let mut bench = answered();
    for number in 0..=RULES_CAP {
        let rule = format!("Bash(make {number})");
        let (id, mut answer) = ask_about(&mut bench, UnitId::MAIN, &[&rule]);
        bench.give(Input::Answer(id, Verdict::ForSession));
        assert_eq!(answer.try_recv(), Ok(Verdict::ForSession));
        let (_, mut again) = ask_about(&mut bench, UnitId::MAIN, &[&rule]);
        assert_eq!(again.try_recv().is_ok(), number < RULES_CAP, "{number}");
    }
}

#[test]
fn always_holds_for_the_session_and_its_rules_go_to_the_settings_once() {
    let mut bench = answered();
    let (id, _a) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    bench.give(Input::Answer(id, Verdict::Always));
    let (_, mut later) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    assert_eq!(later.try_recv(), Ok(Verdict::Covered(id)));
    assert_eq!(bench.kept, ["Bash(make *)".into()]);
}

#[test]
fn without_rules_an_answer_holds_for_its_call_only() {
    for answer in [Verdict::ForBatch, Verdict::ForSession, Verdict::Always] {
        let mut bench = answered();
        let (id, mut first) = ask_about(&mut bench, UnitId::MAIN, &[]);
        bench.give(Input::Answer(id, answer));
        assert_eq!(first.try_recv(), Ok(Verdict::Yes));
        let (_, mut second) = ask_about(&mut bench, UnitId::MAIN, &[]);
        assert_eq!((second.try_recv(), bench.kept.len()), (Err(TryRecvError::Empty), 0));
    }
}

#[test]
fn a_leave_for_one_large_batch_is_none_for_the_next() {
    let mut bench = answered();
    let mut first = ask(&mut bench, UnitId::MAIN);
    bench.give(Input::Answer(asked(&bench)[0].0, Verdict::ForSession));
    assert_eq!(first.try_recv(), Ok(Verdict::Yes));
    assert_eq!(ask(&mut bench, UnitId::MAIN).try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn what_was_allowed_for_the_session_holds_where_nobody_answers_any_more() {
    let mut bench = answered();
    let (id, _a) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    bench.give(Input::Answer(id, Verdict::ForSession));
    bench.give(Input::NobodyAnswers);
    let (_, mut allowed) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    let (_, mut refused) = ask_about(&mut bench, UnitId::MAIN, &["Bash(rm *)"]);
    assert_eq!(allowed.try_recv(), Ok(Verdict::Covered(id)));
    assert_eq!(refused.try_recv(), Ok(Verdict::NobodyToAsk));
}

#[test]
fn a_session_that_is_gone_on_with_remembers_what_was_allowed_for_it_and_nothing_else() {
    let mut bench = answered();
    let slots = started_batch(&mut bench, UnitId::MAIN, &["a", "b"]);
    for (unit, rule, answer) in [
        (UnitId::MAIN, "Bash(make *)", Verdict::ForSession),
        (UnitId::MAIN, "Bash(ls *)", Verdict::Always),
        (UnitId::MAIN, "Bash(cat *)", Verdict::Yes),
        (UnitId::MAIN, "Bash(rm *)", Verdict::No),
        (slots[0], "Bash(cp *)", Verdict::ForBatch),
    ] {
        let (id, _) = ask_about(&mut bench, unit, &[rule]);
        bench.give(Input::Answer(id, answer));
    }
    let mut past = Past::default();
    bench.events.iter().for_each(|event| past.take(event));
    let mut next = Bench::of(Dispatcher::after(Seed::of(&past)));
    next.dispatcher.ask_people();
    for (rule, is_allowed) in [
        ("Bash(make *)", true),
        ("Bash(ls *)", true),
        ("Bash(cat *)", false),
        ("Bash(rm *)", false),
        ("Bash(cp *)", false),
    ] {
        let (_, mut answer) = ask_about(&mut next, UnitId::MAIN, &[rule]);
        let covered = matches!(answer.try_recv(), Ok(Verdict::Covered(_)));
        assert_eq!(covered, is_allowed, "{rule}");
    }
}

#[track_caller]
fn check_terms(arguments: Option<&str>, lasting: Lasting, rules: &[&str], expected: &Verdict) {
    let mut bench = answered();
    let (id, mut answer) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    let rules = rules.iter().map(|rule| (*rule).into()).collect();
    let terms = Terms { arguments: arguments.map(Into::into), lasting, rules };
    bench.give(Input::Answer(id, Verdict::YesWith(Arc::new(terms))));
    assert_eq!(answer.try_recv().as_ref(), Ok(expected));
}

#[test]
fn terms_that_are_those_of_the_question_are_a_plain_yes() {
    let same = Some(r#" { "command" : "make" } "#);
    check_terms(same, Lasting::Once, &[], &Verdict::Yes);
    check_terms(None, Lasting::Session, &[], &Verdict::Yes);
    check_terms(same, Lasting::Session, &["Bash(make *)"], &Verdict::ForSession);
    check_terms(None, Lasting::Always, &["Bash(make *)"], &Verdict::Always);
    check_terms(None, Lasting::Once, &["Bash(make *)"], &Verdict::Yes);
    let other = |arguments: Option<&str>, lasting, rules: &[&str]| {
        let rules = rules.iter().map(|rule| (*rule).into()).collect();
        Verdict::YesWith(Arc::new(Terms { arguments: arguments.map(Into::into), lasting, rules }))
    };
    let changed = Some(r#"{"command":"make clean"}"#);
    check_terms(changed, Lasting::Once, &[], &other(changed, Lasting::Once, &[]));
    let wider = other(None, Lasting::Session, &["Bash"]);
    check_terms(same, Lasting::Session, &["Bash"], &wider);
}

#[test]
fn terms_allow_what_they_say_and_not_what_was_asked_for() {
    let mut bench = answered();
    let (id, _a) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    let rules = vec!["Bash(ls *)".into()];
    let terms = Terms { arguments: None, lasting: Lasting::Session, rules };
    bench.give(Input::Answer(id, Verdict::YesWith(Arc::new(terms))));
    let (_, mut ls) = ask_about(&mut bench, UnitId::MAIN, &["Bash(ls *)"]);
    let (_, mut make) = ask_about(&mut bench, UnitId::MAIN, &["Bash(make *)"]);
    let outcomes = (ls.try_recv(), make.try_recv());
    assert_eq!(outcomes, (Ok(Verdict::Covered(id)), Err(TryRecvError::Empty)));
}

/// Has main ask for what a form is filled in with, and answers it.
fn settled(answer: Verdict) -> Option<Verdict> {
    let mut bench = answered();
    let (reply, mut said) = oneshot::channel();
    let question = Question::Form(Arc::new(form(&["Which?", "How?"])));
    bench.say(UnitId::MAIN, UnitEvent::Ask { question, decided: Decided::default(), reply });
    let EventKind::Asked { id, .. } = bench.last().kind else { panic!("{:?}", bench.last()) };
    bench.give(Input::Answer(id, answer));
    said.try_recv().ok()
}

#[test]
fn a_form_is_filled_in_by_what_its_fields_take_and_by_nothing_else() {
    let filled = |given: [Entry; 2]| Some(Verdict::Filled(given.into()));
    let terms = |arguments: Option<&str>| {
        let arguments = arguments.map(Arc::from);
        let (lasting, rules) = (Lasting::Always, vec!["Bash(rm *)".into()]);
        Verdict::YesWith(Arc::new(Terms { arguments, lasting, rules }))
    };
    let no_and_words = [Entry::Picked(vec![1]), Entry::Words("so".into())];
    let answers = r#"{"answers":{"Which?":"no","How?":"so"}}"#;
    assert_eq!(settled(terms(Some(answers))), filled(no_and_words.clone()));
    assert_eq!(settled(Verdict::Filled(no_and_words.clone().into())), filled(no_and_words));
    for nothing in [terms(None), terms(Some("{}")), Verdict::Yes, Verdict::Always] {
        assert_eq!(settled(nothing), filled([Entry::Nothing, Entry::Nothing]));
    }
    let too_much = Verdict::Filled([Entry::Picked(vec![7]), Entry::Nothing, Entry::Nothing].into());
    assert_eq!(settled(too_much), filled([Entry::Nothing, Entry::Nothing]));
    assert_eq!(settled(Verdict::No), Some(Verdict::No));
}

#[test]
fn what_is_no_form_is_not_filled_in() {
    let mut bench = answered();
    let mut said = ask(&mut bench, UnitId::MAIN);
    let [(id, _)] = asked(&bench)[..] else { panic!("{:?}", bench.events) };
    bench.give(Input::Answer(id, Verdict::Filled([Entry::Nothing].into())));
    assert_eq!(said.try_recv(), Ok(Verdict::No));
}
