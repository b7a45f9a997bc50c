//! Units that were lost with their workers.

use super::questions::{answered, ask};
use super::*;
use crate::line::testing::plain;

fn lose(bench: &mut Bench, unit: UnitId, attempt: u32) -> Result<(), TryRecvError> {
    let (reply, mut answer) = oneshot::channel();
    bench.say(unit, UnitEvent::Lost { worker: "w-7".into(), attempt, reply });
    answer.try_recv()
}

/// A unit that runs.
fn started(bench: &mut Bench, parent: UnitId, name: &str) -> UnitId {
    let unit = bench.declare(parent, &[name])[0].unit;
    bench.may_start(unit).unwrap();
    unit
}

/// What happened after so many events, in words.
fn since(bench: &Bench, count: usize) -> Vec<String> {
    let words = |event: &Event| {
        let what = if let EventKind::Lost { worker, attempt } = &event.kind {
            format!("lost with {worker}, {attempt}")
        } else if event.kind == EventKind::UnitStarted {
            "started".to_owned()
        } else if let EventKind::UnitEnded(end) = &event.kind {
            end.outcome.state().as_str().to_owned()
        } else if let EventKind::ToolFinished { call, output, .. } = &event.kind {
            format!("{call}: {}", output.text.split(':').next().unwrap())
        } else if let EventKind::Answered { answer, .. } = &event.kind {
            format!("{answer:?}")
        } else {
            format!("{:?}", event.kind)
        };
        format!("{} {what}", event.unit)
    };
    bench.events[count..].iter().map(words).collect()
}

#[test]
fn a_lost_unit_waits_again_and_ends_once() {
    let mut bench = Bench::new();
    let unit = started(&mut bench, UnitId::MAIN, "a");
    let tokens = bench.tokens(unit);
    bench.may_request(unit, Some(1)).unwrap();
    bench.reply(unit, "so far", &["c1", "c2"]);
    let before = bench.events.len();
    assert_eq!(lose(&mut bench, unit, 1), Ok(()));
    assert_eq!(bench.dispatcher.units[&unit].state(), UnitState::Queued);
    assert_eq!(lose(&mut bench, unit, 1), Err(TryRecvError::Closed));
    assert_eq!(bench.may_start(unit), Ok(()));
    assert_eq!(bench.may_start(unit), Err(TryRecvError::Closed));
    assert_eq!(lose(&mut bench, unit, 2), Ok(()));
    assert_eq!(bench.may_start(unit), Ok(()));
    bench.end(unit, done("x"));
    assert!(lose(&mut bench, unit, 3).is_err());
    assert_eq!(
        since(&bench, before),
        [
            "agent-1 c1: lost with its worker",
            "agent-1 c2: lost with its worker",
            "agent-1 lost with w-7, 1",
            "agent-1 started",
            "agent-1 lost with w-7, 2",
            "agent-1 started",
            "agent-1 completed",
        ]
    );
    assert_eq!(bench.last().branch.tokens.to_string(), tokens);
}

#[test]
fn a_loss_is_on_disk_before_it_is_answered() {
    let mut bench = Bench::new();
    let unit = started(&mut bench, UnitId::MAIN, "a");
    let (reply, _answer) = oneshot::channel();
    let event = UnitEvent::Lost { worker: "w-7".into(), attempt: 1, reply };
    let input = Input::Unit(FromUnit { unit, event });
    let effects = bench.dispatcher.handle(input, UnixMillis(0)).effects;
    assert!(
        matches!(
            &effects[..],
            [Effect::Record(event), Effect::AnswerSynced(Answer::GoOn(_))]
                if matches!(event.kind, EventKind::Lost { .. })
        ),
        "{effects:?}"
    );
}

#[test]
fn what_a_lost_unit_used_stays_used_and_its_turns_begin_anew() {
    let mut bench = Bench::new();
    let child = Child {
        budget: Budget { tokens: std::num::NonZeroU64::new(24), ..Budget::default() },
        ..plain("a")
    };
    let unit = bench.declare_all(UnitId::MAIN, vec![child])[0].unit;
    bench.may_start(unit).unwrap();
    bench.may_request(unit, Some(1)).unwrap();
    bench.reply(unit, "", &["c1"]);
    bench.may_request(unit, Some(2)).unwrap();
    bench.say(unit, UnitEvent::Delta(crate::event::Piece::Text("and th".into())));
    lose(&mut bench, unit, 1).unwrap();
    bench.now += 1_000;
    bench.may_start(unit).unwrap();
    bench.may_request(unit, Some(1)).unwrap();
    bench.reply(unit, "", &[]);
    let refused = bench.may_request(unit, Some(2)).unwrap_err();
    assert!(refused.starts_with("max_tokens"), "{refused}");
    let end = bench.end(unit, Outcome::failed(FailureKind::MaxTokens, "x")).unwrap();
    let expected = UnitEnd {
        outcome: Outcome::failed(FailureKind::MaxTokens, "x"),
        text: "".into(),
        usage: Usage { input: 20, output: 4, ..Usage::default() },
        turns: 1,
        tool_uses: 1,
        duration_ms: 40,
        output_file: None,
        share: None,
    };
    assert_eq!(*end, expected);
}

#[test]
fn what_a_lost_unit_had_started_ends_with_it_deepest_first() {
    let mut bench = Bench::new();
    let unit = started(&mut bench, UnitId::MAIN, "a");
    let over = started(&mut bench, unit, "over");
    bench.end(over, done("x"));
    let seats = bench.declare(unit, &["runs", "waits"]);
    let (runs, waits) = (seats[0].unit, seats[1].unit);
    bench.may_start(runs).unwrap();
    bench.reply(runs, "", &["c3"]);
    let deep = bench.fork(runs, &["deep"])[0].unit;
    let mut news = bench.news(runs, Wait::UntilThereAre);
    let sibling = started(&mut bench, UnitId::MAIN, "b");
    let before = bench.events.len();
    lose(&mut bench, unit, 1).unwrap();
    assert_eq!(
        since(&bench, before),
        [
            "agent-5 interrupted",
            "agent-4 skipped",
            "agent-3 c3: lost with its worker",
            "agent-3 interrupted",
            "agent-1 lost with w-7, 1",
        ]
    );
    assert!(seats.iter().all(|seat| seat.cancel.is_cancelled()));
    assert!(news.try_recv().is_err());
    assert_eq!(bench.dispatcher.units[&unit].open_children, 0);
    let known: Vec<UnitId> = bench.dispatcher.units.keys().copied().collect();
    assert_eq!(known, [UnitId::MAIN, unit, sibling]);
    // A late word of one that is gone changes nothing.
    let count = bench.events.len();
    for gone in [over, runs, waits, deep] {
        bench.reply(gone, "late", &[]);
        assert!(bench.end(gone, done("late")).is_none());
    }
    assert_eq!(bench.events.len(), count);
}

#[test]
fn a_lost_unit_is_where_it_began_and_its_children_have_names_of_their_own() {
    let mut bench = Bench::new();
    let unit = started(&mut bench, UnitId::MAIN, "a");
    let seats = bench.declare(unit, &["leaf"]);
    bench.may_start(seats[0].unit).unwrap();
    bench.end(seats[0].unit, done("x"));
    bench.join(unit, &seats);
    assert_eq!(bench.tokens(unit), "1-2");
    lose(&mut bench, unit, 1).unwrap();
    assert_eq!(bench.last().branch.tokens.to_string(), "1");
    bench.may_start(unit).unwrap();
    let again = &bench.declare(unit, &["leaf"])[0];
    assert_eq!(
        (again.branch.path.as_str(), &*again.branch.tokens.to_string()),
        ("main.a.leaf-2", "1,3")
    );
}

#[test]
fn what_a_lost_unit_asked_is_taken_back() {
    let mut bench = answered();
    let unit = started(&mut bench, UnitId::MAIN, "a");
    let below = started(&mut bench, unit, "below");
    let mut replies = [ask(&mut bench, unit), ask(&mut bench, below)];
    let before = bench.events.len();
    lose(&mut bench, unit, 1).unwrap();
    assert_eq!(
        replies.each_mut().map(|reply| reply.try_recv().unwrap()),
        [Verdict::Withdrawn, Verdict::Withdrawn]
    );
    assert_eq!(
        since(&bench, before),
        [
            "agent-2 Withdrawn",
            "agent-2 interrupted",
            "agent-1 Withdrawn",
            "agent-1 lost with w-7, 1"
        ]
    );
    assert!(bench.dispatcher.questions.is_empty());
}

#[test]
fn only_what_runs_can_be_lost_and_nothing_once_a_cancel_has_begun() {
    let mut bench = Bench::new();
    let waits = bench.declare(UnitId::MAIN, &["waits"])[0].unit;
    let count = bench.events.len();
    assert_eq!(lose(&mut bench, UnitId::MAIN, 1), Err(TryRecvError::Closed));
    assert_eq!(lose(&mut bench, waits, 1), Err(TryRecvError::Closed));
    assert_eq!(bench.events.len(), count);
    bench.may_start(waits).unwrap();
    bench.give(Input::Cancel(Reach::Unit(waits), CancelReason::Interrupt));
    assert_eq!(lose(&mut bench, waits, 1), Err(TryRecvError::Closed));
    bench.end(waits, Outcome::Cancelled { ran: true });
    assert_eq!(bench.ends(), [(waits, UnitState::Cancelled)]);
}

#[test]
fn a_unit_that_is_cancelled_after_a_loss_did_run() {
    let mut bench = Bench::new();
    let [a, b] = ["a", "b"].map(|name| started(&mut bench, UnitId::MAIN, name));
    for unit in [a, b] {
        lose(&mut bench, unit, 1).unwrap();
    }
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert!(bench.may_start(a).is_err());
    bench.end(a, Outcome::Cancelled { ran: false });
    bench.give(Input::Overdue);
    assert_eq!(bench.ends(), [(a, UnitState::Cancelled), (b, UnitState::Cancelled)]);
}

#[test]
fn words_of_a_lost_attempt_that_come_late_are_not_heard() {
    let mut bench = Bench::new();
    let unit = started(&mut bench, UnitId::MAIN, "a");
    lose(&mut bench, unit, 1).unwrap();
    let count = bench.events.len();
    bench.reply(unit, "late", &["c1"]);
    assert!(bench.declare(unit, &["late"]).is_empty());
    assert!(bench.may_request(unit, Some(2)).is_err());
    assert_eq!(bench.events.len(), count);
    let notice = Told::Notice { level: NoticeLevel::Warning, text: "w-7 is gone".into() };
    bench.say(unit, notice.into());
    assert_eq!(bench.events.len(), count + 1);
}

#[test]
fn what_was_sent_to_a_lost_unit_and_not_read_waits_for_its_next_attempt() {
    let mut bench = Bench::new();
    let unit = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    assert_eq!(bench.send(UnitId::MAIN, unit, "look there, too"), Sent::Queued);
    lose(&mut bench, unit, 1).unwrap();
    assert_eq!(bench.look(UnitId::MAIN, None), [(unit, UnitState::Queued)]);
    bench.may_start(unit).unwrap();
    let News::Message(text) = bench.news(unit, Wait::No).try_recv().unwrap() else { panic!() };
    assert!(text.contains("look there, too"), "{text}");
    bench.end(unit, done("x"));
    assert!(matches!(bench.news(UnitId::MAIN, Wait::No).try_recv(), Ok(News::Message(_))));
}

#[test]
fn nobody_is_told_what_a_lost_unit_and_what_it_had_started_said() {
    let mut bench = Bench::new();
    bench.dispatcher.keep_context(Context::default());
    let unit = started(&mut bench, UnitId::MAIN, "a");
    // It goes on where its parent is, so its words would be seen.
    let step = Child { strand: Strand::Parents, ..plain("step") };
    let step = bench.declare_all(unit, vec![step])[0].unit;
    bench.may_start(step).unwrap();
    bench.reply(unit, "of the first attempt", &[]);
    bench.reply(step, "of its step", &[]);
    lose(&mut bench, unit, 1).unwrap();
    bench.may_start(unit).unwrap();
    bench.reply(unit, "of the second attempt", &[]);
    bench.end(unit, done("of the second attempt"));
    let (reply, _answer) = oneshot::channel();
    bench.say(UnitId::MAIN, UnitEvent::Join { children: vec![unit], reply });
    let (reply, mut answer) = oneshot::channel();
    bench.say(UnitId::MAIN, UnitEvent::Visible { reply });
    let seen = crate::prompt::context(&answer.try_recv().unwrap()).unwrap();
    assert!(seen.contains("of the second attempt"), "{seen}");
    assert!(!seen.contains("of the first attempt") && !seen.contains("of its step"), "{seen}");
}
