//! Main at rest, and what goes on meanwhile.

use super::*;
use crate::event::{CallQuestion, Question, Seq};
use crate::guard::Decided;

/// A run that lives on, in whose first invocation main works.
pub(super) fn sitting() -> Bench {
    let mut dispatcher = Dispatcher::new();
    let opened = dispatcher.live_on(Some(head()), UnixMillis(0));
    let mut bench = Bench::opened(dispatcher, opened);
    bench.give(Input::Begin("do it".into()));
    bench
}

fn at_rest(mut bench: Bench) -> Bench {
    bench.end(UnitId::MAIN, done("x"));
    assert!(bench.dispatcher.rests());
    bench
}

fn names(bench: &Bench) -> Vec<&'static str> {
    type Is = fn(&EventKind) -> bool;
    let known: [(&str, Is); 5] = [
        ("opened", |kind| matches!(kind, EventKind::SessionOpened(_))),
        ("started", |kind| matches!(kind, EventKind::InvocationStarted { .. })),
        ("ended", |kind| matches!(kind, EventKind::InvocationEnded(_))),
        ("unit ended", |kind| matches!(kind, EventKind::UnitEnded(_))),
        ("left", |kind| matches!(kind, EventKind::Left)),
    ];
    let name = |event: &Event| Some(known.iter().find(|(_, is)| is(&event.kind))?.0);
    bench.events.iter().filter_map(name).collect()
}

#[test]
fn one_invocation_follows_another_and_leaving_is_the_last() {
    let mut bench = at_rest(sitting());
    bench.give(Input::Begin("and this".into()));
    // Main works already.
    bench.give(Input::Begin("too early".into()));
    assert!(!bench.over);
    bench.end(UnitId::MAIN, done("y"));
    bench.give(Input::Leave);
    bench.give(Input::Begin("too late".into()));
    assert_eq!(names(&bench), ["opened", "started", "ended", "started", "ended", "left"]);
    let numbers: Vec<u32> = bench.events.iter().map(|event| event.invocation.0).collect();
    assert_eq!(numbers, [1, 1, 1, 2, 2, 2]);
    assert!(bench.over);
}

#[test]
fn the_end_of_a_turn_stops_what_main_waits_for_and_nothing_else() {
    let mut bench = sitting();
    let forks = bench.fork(UnitId::MAIN, &["beside"]);
    let slots = bench.declare(UnitId::MAIN, &["a", "b"]);
    bench.may_start(slots[0].unit).unwrap();
    let inner = bench.declare(slots[0].unit, &["inner"]);
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    let is_stopped = |seat: &Seat| seat.cancel.is_cancelled();
    assert!(slots.iter().chain(&inner).all(is_stopped) && !forks.iter().any(is_stopped));
    assert_eq!(bench.may_start(slots[1].unit), Err(TryRecvError::Closed));
    assert!(bench.declare(UnitId::MAIN, &["c"]).is_empty());

    // Whatever does not stop is given up with main; the fork is not.
    bench.give(Input::Overdue);
    let ended = bench.ends();
    assert_eq!(ended.len(), 3);
    assert!(!ended.iter().any(|(unit, _)| *unit == forks[0].unit));
    assert!(bench.dispatcher.rests() && !bench.dispatcher.is_quiet());
    bench.give(Input::Overdue);
    assert_eq!(bench.ends().len(), 3, "at rest nothing is overdue");
}

#[test]
fn main_that_ends_by_itself_waits_for_no_unit_beside_it() {
    let mut bench = sitting();
    let forks = bench.fork(UnitId::MAIN, &["a", "b"]);
    let mut bench = at_rest(bench);
    assert!(bench.events.iter().all(|event| !matches!(
        &event.kind,
        EventKind::InvocationEnded(end) if !end.unfinished.is_empty()
    )));
    bench.end(forks[0].unit, done("found"));
    bench.give(Input::Begin("next".into()));
    assert!(matches!(
        bench.news(UnitId::MAIN, Wait::No).try_recv(),
        Ok(News::Message(text)) if text.contains("found") && text.contains("1 agent is still out")
    ));
    // It comes home to the invocation that it was started in.
    let joined = bench.events.iter().find(|event| matches!(event.kind, EventKind::Joined { .. }));
    assert_eq!(joined.map(|event| event.invocation), Some(Invocation(1)));
    // And the tokens of the two do not mix.
    assert_eq!(bench.tokens(UnitId::MAIN), "");
    assert_eq!(bench.fork(UnitId::MAIN, &["c"])[0].branch.tokens.to_string(), "1");
}

#[test]
fn after_everything_was_stopped_the_next_invocation_waits_until_it_has() {
    let mut bench = sitting();
    let forks = bench.fork(UnitId::MAIN, &["a"]);
    let mut bench = at_rest(bench);
    bench.give(Input::Cancel(Reach::All, CancelReason::Interrupt));
    assert!(forks[0].cancel.is_cancelled());
    bench.give(Input::Begin("too early".into()));
    assert!(!bench.dispatcher.may_begin() && bench.dispatcher.rests());
    bench.give(Input::Overdue);
    assert_eq!(bench.ends(), [(forks[0].unit, UnitState::Cancelled)]);
    bench.give(Input::Begin("now".into()));
    let again = bench.fork(UnitId::MAIN, &["b"]);
    assert!(!again[0].cancel.is_cancelled());
    assert!(!bench.dispatcher.main_cancel().is_cancelled());
    assert_eq!(bench.dispatcher.cancel_reason(), None);
}

#[test]
fn leaving_waits_for_what_was_told_to_stop() {
    let mut bench = sitting();
    let forks = bench.fork(UnitId::MAIN, &["a", "b"]);
    let mut bench = at_rest(bench);
    bench.give(Input::Leave);
    assert!(forks.iter().all(|fork| fork.cancel.is_cancelled()) && !bench.over);
    bench.end(forks[0].unit, Outcome::Cancelled { ran: true });
    bench.give(Input::Overdue);
    let expected = ["opened", "started", "ended", "unit ended", "unit ended", "left"];
    assert_eq!(names(&bench), expected);
    assert!(bench.over);
}

#[test]
fn a_signal_to_the_process_ends_the_turn_and_then_leaves() {
    for reason in [CancelReason::OutputGone, CancelReason::Hangup, CancelReason::Terminate] {
        let mut bench = sitting();
        bench.fork(UnitId::MAIN, &["a"]);
        bench.give(Input::Cancel(Reach::All, reason));
        bench.end(UnitId::MAIN, Outcome::Cancelled { ran: true });
        assert!(!bench.over);
        bench.give(Input::Overdue);
        assert_eq!(names(&bench), ["opened", "started", "unit ended", "ended", "left"]);
        let cancel = bench.events.iter().find_map(|event| {
            let EventKind::InvocationEnded(end) = &event.kind else { return None };
            end.cancel
        });
        assert_eq!(cancel, Some(reason));
    }
}

#[test]
fn whoever_asks_again_gives_no_more_time() {
    let mut bench = sitting();
    bench.fork(UnitId::MAIN, &["a"]);
    let mut bench = at_rest(bench);
    let mut restarts = |input: Input| {
        let effects = bench.dispatcher.handle(input, UnixMillis(0)).effects;
        effects.iter().any(|effect| matches!(effect, Effect::StartDeadline))
    };
    assert!(restarts(Input::Cancel(Reach::All, CancelReason::Hangup)));
    assert!(!restarts(Input::Cancel(Reach::All, CancelReason::Terminate)));
    assert!(!restarts(Input::Leave));
}

#[test]
fn a_turn_that_was_ended_is_no_concern_of_what_goes_on_beside_it() {
    let mut bench = sitting();
    let forks = bench.fork(UnitId::MAIN, &["a"]);
    let inner = bench.declare(forks[0].unit, &["inner"]);
    bench.may_start(inner[0].unit).unwrap();
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    bench.end(UnitId::MAIN, Outcome::Cancelled { ran: true });
    assert_eq!(bench.dispatcher.cancel_reason(), None);
    bench.end(forks[0].unit, Outcome::failed(FailureKind::Panic, "panicked"));
    let EventKind::UnitEnded(end) = &bench.last().kind else { panic!("{:?}", bench.last()) };
    let message = "panicked; 1 agent that it had started stopped with it";
    assert_eq!(end.outcome, Outcome::failed(FailureKind::Panic, message));
    bench.give(Input::Begin("next".into()));
    bench.end(UnitId::MAIN, done("y"));
    let EventKind::InvocationEnded(end) = &bench.last().kind else { panic!("{:?}", bench.last()) };
    assert_eq!((end.cancel, &end.unfinished[..]), (None, &[][..]));
}

#[test]
fn everything_can_be_ended_at_rest_and_a_turn_that_is_over_cannot() {
    let mut bench = sitting();
    let forks = bench.fork(UnitId::MAIN, &["a", "b"]);
    let mut bench = at_rest(bench);
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert!(!forks[0].cancel.is_cancelled());
    bench.give(Input::Cancel(Reach::Unit(forks[0].unit), CancelReason::Interrupt));
    assert!(forks[0].cancel.is_cancelled() && !forks[1].cancel.is_cancelled());
    bench.give(Input::Cancel(Reach::All, CancelReason::Interrupt));
    assert!(forks[1].cancel.is_cancelled() && !bench.over);
    forks.iter().for_each(|fork| drop(bench.end(fork.unit, Outcome::Cancelled { ran: true })));
    assert!(bench.dispatcher.is_quiet() && bench.dispatcher.may_begin());
}

#[test]
fn a_limit_holds_for_all_prompts_together() {
    let mut bench = sitting();
    let most = std::num::NonZeroU64::new(13);
    bench.dispatcher.limit(Budget { tokens: most, ..Budget::default() });
    bench.reply(UnitId::MAIN, "x", &[]);
    let fork = bench.fork(UnitId::MAIN, &["a"]).remove(0);
    let mut bench = at_rest(bench);
    let may_request = |bench: &mut Bench| {
        let (reply, mut answer) = oneshot::channel();
        bench.say(UnitId::MAIN, UnitEvent::MayRequest { turn: Some(1), reply });
        answer.try_recv().unwrap().map(|_| ()).map_err(|failure| failure.kind)
    };
    bench.give(Input::Begin("two".into()));
    assert_eq!(may_request(&mut bench), Ok(()));
    let mut bench = at_rest(bench);
    // What is used at rest counts, too.
    bench.reply(fork.unit, "y", &[]);
    bench.give(Input::Begin("three".into()));
    assert_eq!(may_request(&mut bench), Err(FailureKind::MaxTokens));
}

#[test]
fn what_was_allowed_and_used_outlives_an_invocation() {
    let mut bench = sitting();
    bench.dispatcher.ask_people();
    let question = Question::Call(Arc::new(CallQuestion {
        call: "c".into(),
        tool: "Bash".into(),
        subject: "make".into(),
        arguments: "{}".into(),
        reason: "no rule allows it".into(),
        rules: vec!["Bash(make *)".into()],
        confinement: None,
    }));
    let ask = |bench: &mut Bench| {
        let (reply, answer) = oneshot::channel();
        let (question, decided) = (question.clone(), Decided::default());
        bench.say(UnitId::MAIN, UnitEvent::Ask { question, decided, reply });
        answer
    };
    let _first = ask(&mut bench);
    let id = QuestionId(Seq(bench.last().seq.0));
    bench.give(Input::Answer(id, Verdict::ForSession));
    bench.reply(UnitId::MAIN, "x", &[]);
    let mut bench = at_rest(bench);
    bench.give(Input::Begin("next".into()));
    assert_eq!(ask(&mut bench).try_recv(), Ok(Verdict::Covered(id)));
    assert_eq!(bench.dispatcher.units[&UnitId::MAIN].spent.usage.total(), 12);
}

#[test]
fn a_session_that_is_gone_on_with_rests_at_its_last_invocation() {
    let mut past = crate::session::Past::default();
    let mut bench = at_rest(sitting());
    bench.give(Input::Leave);
    bench.events.iter().for_each(|event| past.take(event));
    let mut dispatcher = Dispatcher::after(Seed::of(&past));
    let opened = dispatcher.live_on(None, UnixMillis(0));
    let mut bench = Bench::opened(dispatcher, opened);
    bench.give(Input::Trouble("the disk is full".into()));
    bench.give(Input::Begin("next".into()));
    let numbers: Vec<u32> = bench.events.iter().map(|event| event.invocation.0).collect();
    assert_eq!(numbers, [1, 2]);
}

fn wrote(bench: &mut Bench, text: &str) {
    bench.give(Input::Wrote(text.into()));
}

fn read(bench: &mut Bench) -> Option<String> {
    match bench.news(UnitId::MAIN, Wait::No).try_recv().unwrap() {
        News::Message(text) => Some(text.to_string()),
        News::NotYet | News::Nothing => None,
    }
}

/// Returns how many messages wait, as the log has it.
fn waiting(bench: &Bench) -> u32 {
    let mut past = crate::session::Past::default();
    bench.events.iter().for_each(|event| past.take(event));
    past.waiting()
}

#[test]
fn what_the_user_writes_is_read_in_order_at_the_next_boundary() {
    let mut bench = sitting();
    wrote(&mut bench, "first");
    wrote(&mut bench, "second");
    assert_eq!(waiting(&bench), 2);
    let text = read(&mut bench).unwrap();
    let place = |part| text.find(part).unwrap();
    assert!(place("<user-message>") < place("first") && place("first") < place("second"));
    assert_eq!((waiting(&bench), read(&mut bench)), (0, None));
}

#[test]
fn what_is_taken_back_is_read_by_nobody_and_what_was_read_stays() {
    let mut bench = sitting();
    wrote(&mut bench, "read");
    read(&mut bench).unwrap();
    wrote(&mut bench, "not meant");
    bench.give(Input::TookBack);
    assert_eq!((waiting(&bench), read(&mut bench)), (0, None));
    // There is nothing to take back any more.
    let before = bench.events.len();
    bench.give(Input::TookBack);
    assert_eq!(bench.events.len(), before);
}

#[test]
fn more_than_anybody_types_is_not_kept_and_says_so() {
    let mut bench = sitting();
    for _ in 0..=100 {
        wrote(&mut bench, "again");
    }
    assert_eq!(waiting(&bench), 100);
    assert!(matches!(bench.last().kind, EventKind::Notice { .. }));
    bench.give(Input::TookBack);
    wrote(&mut bench, &"x".repeat(200_000));
    wrote(&mut bench, &"x".repeat(60_000));
    assert_eq!(waiting(&bench), 1);
}

#[test]
fn what_comes_when_main_has_just_come_to_rest_waits_for_the_next_invocation() {
    let mut bench = at_rest(sitting());
    wrote(&mut bench, "late");
    bench.give(Input::Begin("".into()));
    assert!(read(&mut bench).unwrap().contains("late"));
    wrote(&mut bench, "too late");
    let mut bench = at_rest(bench);
    bench.give(Input::Leave);
    let last: Vec<&EventKind> =
        bench.events.iter().rev().take(2).map(|event| &event.kind).collect();
    assert_eq!(last, [&EventKind::Left, &EventKind::UserTookBack]);
}
