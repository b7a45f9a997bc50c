//! Every path of the dispatcher, driven without a runtime.

mod ahead;
mod budget;
mod lost;
mod orders;
mod questions;
mod sitting;
mod stopping;

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::branch::Token;
use crate::event::{
    Compaction, CompactionTrigger, FailureKind, Origin, Replied, SlotPosition, UnitState,
};
use crate::line::testing::plain;
use crate::line::{
    Budget, Child, News, Orders, RequestLeave, Seat, Sent, Strand, Tend, Told, Until, Wait,
};
use crate::message::{Call, Output, Reply, StopReason, Usage};

/// A dispatcher and everything it has said.
struct Bench {
    dispatcher: Dispatcher,
    events: Vec<Event>,
    /// Whether an invocation has ended.
    finished: bool,
    /// Whether nothing follows.
    over: bool,
    /// The rules that went to the settings.
    kept: Vec<Arc<str>>,
    now: u64,
}

impl Bench {
    fn new() -> Self {
        Self::of(Dispatcher::new())
    }

    fn of(mut dispatcher: Dispatcher) -> Self {
        let opened = dispatcher.open(head(), "do it".into(), UnixMillis(1_000));
        Self::opened(dispatcher, opened)
    }

    fn opened(dispatcher: Dispatcher, opened: Response) -> Self {
        let (events, kept) = (Vec::new(), Vec::new());
        let mut bench = Self { dispatcher, events, finished: false, over: false, kept, now: 1_000 };
        bench.carry_out(opened);
        bench
    }

    /// Does what the runtime does.
    fn carry_out(&mut self, response: Response) {
        for effect in response.effects {
            match effect {
                Effect::Record(event) => self.events.push(event),
                Effect::Answer(answer) | Effect::AnswerSynced(answer) => answer.give(),
                Effect::Finish => self.finished = true,
                Effect::Over => self.over = true,
                Effect::KeepRules(rules) => self.kept.extend(rules),
                Effect::Glimpse(_) | Effect::Sync | Effect::StartDeadline => {}
            }
        }
    }

    fn give(&mut self, input: Input) {
        self.now += 10;
        let response = self.dispatcher.handle(input, UnixMillis(self.now));
        self.carry_out(response);
    }

    fn say(&mut self, unit: UnitId, event: UnitEvent) {
        self.give(Input::Unit(FromUnit { unit, event }));
    }

    fn declare(&mut self, parent: UnitId, names: &[&str]) -> Vec<Seat> {
        let total = u32::try_from(names.len()).unwrap();
        let children = (0..total).zip(names).map(|(index, name)| Child {
            slot: Some(SlotPosition { index, total }),
            ..plain(*name)
        });
        self.declare_all(parent, children.collect())
    }

    fn declare_all(&mut self, parent: UnitId, children: Vec<Child>) -> Vec<Seat> {
        self.declare_with(parent, children, None)
    }

    fn declare_with(
        &mut self,
        parent: UnitId,
        children: Vec<Child>,
        orders: Option<Orders>,
    ) -> Vec<Seat> {
        let (reply, mut answer) = oneshot::channel();
        let call = Some("call".into());
        self.say(parent, UnitEvent::Declare { call, children, orders, reply });
        answer.try_recv().unwrap_or_default()
    }

    /// Declares forks that run in the background, and starts them.
    fn fork(&mut self, parent: UnitId, names: &[&str]) -> Vec<Seat> {
        let child = |name: &&str| Child {
            agent: "fork".into(),
            origin: Origin::Fork,
            is_background: true,
            ..plain(*name)
        };
        let seats = self.declare_all(parent, names.iter().map(child).collect());
        seats.iter().for_each(|seat| self.may_start(seat.unit).unwrap());
        seats
    }

    fn news(&mut self, unit: UnitId, wait: Wait) -> oneshot::Receiver<News> {
        let (reply, answer) = oneshot::channel();
        self.say(unit, Tend::News { wait, reply }.into());
        answer
    }

    fn look(&mut self, unit: UnitId, of: Option<UnitId>) -> Vec<(UnitId, UnitState)> {
        let (reply, mut answer) = oneshot::channel();
        self.say(unit, Tend::Look { unit: of, reply }.into());
        answer.try_recv().unwrap().iter().map(|glance| (glance.unit, glance.state)).collect()
    }

    fn send(&mut self, from: UnitId, to: UnitId, text: &str) -> Sent {
        let (reply, mut answer) = oneshot::channel();
        self.say(from, Tend::Send { to, text: text.into(), reply }.into());
        answer.try_recv().unwrap()
    }

    fn tokens(&self, unit: UnitId) -> String {
        self.dispatcher.units[&unit].branch.tokens.to_string()
    }

    /// Returns how often the end of a unit was told, by event.
    fn told(&self, unit: UnitId) -> usize {
        let tells = |event: &&Event| matches!(&event.kind, EventKind::Notified { children, .. } if children.contains(&unit));
        self.events.iter().filter(tells).count()
    }

    fn may_start(&mut self, unit: UnitId) -> Result<(), TryRecvError> {
        let (reply, mut answer) = oneshot::channel();
        self.say(unit, UnitEvent::MayStart { reply });
        answer.try_recv()
    }

    /// Asks for leave to send a request; the error is why there is none.
    fn may_request(&mut self, unit: UnitId, turn: Option<u32>) -> Result<RequestLeave, String> {
        let (reply, mut answer) = oneshot::channel();
        self.say(unit, UnitEvent::MayRequest { turn, reply });
        let leave = answer.try_recv().map_err(|error| error.to_string())?;
        leave.map_err(|failure| format!("{}: {}", failure.kind.as_str(), failure.message))
    }

    fn end(&mut self, unit: UnitId, outcome: Outcome) -> Option<Arc<UnitEnd>> {
        let (reply, mut answer) = oneshot::channel();
        self.say(unit, UnitEvent::Ended { outcome, output_file: None, reply });
        answer.try_recv().ok()
    }

    fn join(&mut self, parent: UnitId, seats: &[Seat]) {
        let (reply, _answer) = oneshot::channel();
        let children = seats.iter().map(|seat| seat.unit).collect();
        self.say(parent, UnitEvent::Join { children, reply });
    }

    fn reply(&mut self, unit: UnitId, text: &str, calls: &[&str]) {
        let call = |id: &&str| Call {
            id: (*id).into(),
            tool: "Read".to_owned(),
            arguments: "{}".to_owned(),
        };
        let reply = Reply {
            text: text.to_owned(),
            calls: calls.iter().map(call).collect(),
            ..Reply::default()
        };
        let usage = Usage { input: 10, output: 2, ..Usage::default() };
        self.say(
            unit,
            UnitEvent::Replied(Replied {
                reply: Arc::new(reply),
                model: "m".into(),
                usage,
                stop: StopReason::EndTurn,
                took_ms: 5,
            }),
        );
    }

    fn ends(&self) -> Vec<(UnitId, UnitState)> {
        self.events
            .iter()
            .filter_map(|event| {
                let EventKind::UnitEnded(end) = &event.kind else { return None };
                Some((event.unit, end.outcome.state()))
            })
            .collect()
    }

    fn last(&self) -> &Event {
        self.events.last().unwrap()
    }
}

fn head() -> SessionHead {
    SessionHead {
        session: crate::event::SessionId("s".into()),
        version: "0".into(),
        cwd: "/".into(),
        model: "m".into(),
        mode: "default".into(),
        forked_from: None,
        sandbox: None,
    }
}

fn compacted() -> UnitEvent {
    let compaction = Compaction {
        trigger: CompactionTrigger::Auto,
        text: "in short".into(),
        kept_prompts: 0,
        tokens_before: 900,
        tokens_after: 90,
        model: "m".into(),
        usage: Usage { input: 900, output: 30, ..Usage::default() },
        took_ms: 5,
    };
    Told::Compacted(Arc::new(compaction)).into()
}

fn done(text: &str) -> Outcome {
    Outcome::Done { text: text.into() }
}

#[test]
fn events_are_numbered_without_gaps() {
    let mut bench = Bench::new();
    bench.declare(UnitId::MAIN, &["a", "b"]);
    bench.end(UnitId::MAIN, done("x"));
    let numbers: Vec<u64> = bench.events.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn tokens_are_drawn_in_declared_order_and_joined_by_the_parent() {
    let mut bench = Bench::new();
    let tokens = |seats: &[Seat]| -> Vec<String> {
        seats.iter().map(|seat| seat.branch.tokens.to_string()).collect()
    };
    for expected in [["1", "2", "3"], ["1-4", "1-3,5", "1-3,6"], ["1-7", "1-6,8", "1-6,9"]] {
        let seats = bench.declare(UnitId::MAIN, &["a", "b", "c"]);
        assert_eq!(tokens(&seats), expected);
        bench.end(seats[0].unit, done("x"));
        bench.end(seats[1].unit, Outcome::failed(FailureKind::Panic, "x"));
        bench.end(seats[2].unit, Outcome::Cancelled { ran: false });
        bench.join(UnitId::MAIN, &seats);
    }
    assert_eq!(bench.last().branch.tokens.to_string(), "1-9");
}

#[test]
fn nested_units_get_their_parents_tokens_and_a_dotted_path() {
    let mut bench = Bench::new();
    let groups = bench.declare(UnitId::MAIN, &["left", "right"]);
    let leaves = bench.declare(groups[0].unit, &["leaf", "leaf"]);
    let names: Vec<String> =
        leaves.iter().map(|seat| format!("{} {}", seat.branch.path, seat.branch.tokens)).collect();
    assert_eq!(names, ["main.left.leaf 1,3", "main.left.leaf-2 1,4"]);
}

#[test]
fn siblings_never_share_a_path() {
    let mut bench = Bench::new();
    let long = "a very long description that is cut, first";
    let other = "a very long description that is cut, second";
    let seats = bench.declare(UnitId::MAIN, &["a", "a", "a-2", "A", "…", "!", long, other]);
    let mut paths: Vec<&str> = seats.iter().map(|seat| seat.branch.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), seats.len(), "{paths:?}");
}

#[test]
fn a_unit_starts_once_and_never_after_a_cancel_has_begun() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a", "b"]);
    assert_eq!(bench.may_start(seats[0].unit), Ok(()));
    assert_eq!(bench.may_start(seats[0].unit), Err(TryRecvError::Closed));
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert_eq!(bench.may_start(seats[1].unit), Err(TryRecvError::Closed));
    assert!(bench.declare(UnitId::MAIN, &["c"]).is_empty());
}

#[test]
fn a_cancel_holds_for_what_is_handled_right_after_it() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    let (reply, _answer) = oneshot::channel();
    let ask = FromUnit { unit: seats[0].unit, event: UnitEvent::MayStart { reply } };
    let cancel = Input::Cancel(Reach::Turn, CancelReason::Interrupt);
    let first = bench.dispatcher.handle(cancel, UnixMillis(0));
    let second = bench.dispatcher.handle(Input::Unit(ask), UnixMillis(0));
    assert!(first.effects.is_empty() && second.effects.is_empty(), "{first:?} {second:?}");
}

#[test]
fn a_child_that_was_lost_is_ended_before_it_is_joined() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    bench.may_start(seats[0].unit).unwrap();
    bench.join(UnitId::MAIN, &seats);
    assert_eq!(bench.ends(), [(seats[0].unit, UnitState::Failed)]);
}

#[test]
fn cancelling_one_unit_leaves_its_siblings_alone() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a", "b"]);
    bench.give(Input::Cancel(Reach::Unit(seats[0].unit), CancelReason::Interrupt));
    assert!(seats[0].cancel.is_cancelled());
    assert!(!seats[1].cancel.is_cancelled());
    assert_eq!(bench.may_start(seats[1].unit), Ok(()));
    assert_eq!(bench.dispatcher.cancel_reason(), None);
}

#[test]
fn reasons_only_get_harsher() {
    let mut bench = Bench::new();
    bench.give(Input::Cancel(Reach::All, CancelReason::Terminate));
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert_eq!(bench.dispatcher.cancel_reason(), Some(CancelReason::Terminate));
}

#[test]
fn a_unit_has_exactly_one_end_whatever_it_says_later() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    bench.may_start(seats[0].unit).unwrap();
    assert!(bench.end(seats[0].unit, done("x")).is_some());
    assert!(bench.end(seats[0].unit, Outcome::Cancelled { ran: true }).is_none());
    bench.reply(seats[0].unit, "late", &[]);
    assert_eq!(bench.ends(), [(seats[0].unit, UnitState::Completed)]);
    assert!(matches!(bench.last().kind, EventKind::UnitEnded(_)));
}

#[test]
fn open_calls_get_an_output_before_the_end() {
    let mut bench = Bench::new();
    bench.reply(UnitId::MAIN, "", &["a", "b"]);
    bench.say(
        UnitId::MAIN,
        UnitEvent::ToolFinished {
            call: "a".into(),
            tool: "Read".into(),
            output: Arc::new(Output::ok("x")),
            took_ms: 1,
        },
    );
    bench.end(UnitId::MAIN, Outcome::Cancelled { ran: true });
    let outputs: Vec<(&str, bool)> = bench
        .events
        .iter()
        .filter_map(|event| {
            let EventKind::ToolFinished { call, output, .. } = &event.kind else { return None };
            Some((&*call.0, output.is_error))
        })
        .collect();
    assert_eq!(outputs, [("a", false), ("b", true)]);
}

#[test]
fn an_end_tells_what_the_unit_had_done() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    let unit = seats[0].unit;
    bench.may_start(unit).unwrap();
    bench.may_request(unit, Some(1)).unwrap();
    bench.reply(unit, "so far", &["c1"]);
    bench.say(unit, UnitEvent::Delta(crate::event::Piece::Text("and th".into())));
    let end = bench.end(unit, Outcome::failed(FailureKind::Timeout, "late")).unwrap();
    let expected = UnitEnd {
        outcome: Outcome::failed(FailureKind::Timeout, "late"),
        text: "and th".into(),
        usage: Usage { input: 10, output: 2, ..Usage::default() },
        turns: 1,
        tool_uses: 1,
        duration_ms: 40,
        output_file: None,
        share: None,
    };
    assert_eq!(*end, expected);
}

#[test]
fn a_summary_of_main_is_seen_by_all_and_that_of_another_unit_by_its_own_strand() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    bench.may_start(seats[0].unit).unwrap();
    bench.say(seats[0].unit, compacted());
    assert_eq!(bench.last().branch, seats[0].branch);
    bench.end(seats[0].unit, done("x"));
    bench.join(UnitId::MAIN, &seats);
    bench.say(UnitId::MAIN, compacted());
    assert_eq!(bench.last().branch, Branch::root());
    assert_eq!(bench.tokens(UnitId::MAIN), "1");
}

#[test]
fn what_a_summary_cost_is_part_of_what_the_unit_cost() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    bench.may_start(seats[0].unit).unwrap();
    bench.reply(seats[0].unit, "x", &[]);
    bench.say(seats[0].unit, compacted());
    let usage = bench.end(seats[0].unit, done("x")).unwrap().usage;
    assert_eq!(usage, Usage { input: 910, output: 32, ..Usage::default() });
}

#[test]
fn a_parent_that_ends_takes_its_children_with_it() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a", "b"]);
    bench.may_start(seats[0].unit).unwrap();
    let nested = bench.declare(seats[0].unit, &["c"]);
    bench.end(UnitId::MAIN, Outcome::failed(FailureKind::Panic, "x"));
    assert!(seats.iter().all(|seat| seat.cancel.is_cancelled()) && !bench.finished);
    bench.give(Input::Overdue);
    assert_eq!(
        bench.ends(),
        [
            (nested[0].unit, UnitState::Skipped),
            (seats[0].unit, UnitState::Cancelled),
            (seats[1].unit, UnitState::Skipped),
        ]
    );
    assert!(bench.finished);
}

#[test]
fn what_does_not_end_in_time_is_given_up_and_nothing_follows_the_result() {
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &["a"]);
    bench.may_start(seats[0].unit).unwrap();
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    bench.give(Input::Overdue);
    assert!(bench.finished);
    bench.reply(UnitId::MAIN, "late", &[]);
    bench.give(Input::Trouble("late".into()));
    let EventKind::InvocationEnded(end) = &bench.last().kind else {
        panic!("the result is not last: {:?}", bench.last());
    };
    assert_eq!(end.outcome, Outcome::Cancelled { ran: true });
    assert_eq!(end.cancel, Some(CancelReason::Interrupt));
    assert_eq!(end.unfinished, [seats[0].unit]);
    assert_eq!(bench.ends(), [(seats[0].unit, UnitState::Cancelled)]);
}

#[test]
fn ten_thousand_units_are_declared_ended_and_joined_in_little_time() {
    // Quadratic work would take minutes here.
    let names = vec!["same name"; 10_000];
    let mut bench = Bench::new();
    let seats = bench.declare(UnitId::MAIN, &names);
    for seat in &seats {
        bench.end(seat.unit, Outcome::Cancelled { ran: false });
    }
    bench.join(UnitId::MAIN, &seats);
    assert_eq!(bench.ends().len(), 10_000);
    assert_eq!(bench.last().branch.tokens.to_string(), "1-10000");
}

fn message(mut answer: oneshot::Receiver<News>) -> String {
    match answer.try_recv().unwrap() {
        News::Message(text) => text.to_string(),
        News::Nothing | News::NotYet => String::new(),
    }
}

#[test]
fn a_background_unit_joins_when_its_end_is_told_and_not_before() {
    let mut bench = Bench::new();
    let seats = bench.fork(UnitId::MAIN, &["a", "b"]);
    bench.end(seats[0].unit, done("found it"));
    assert_eq!(bench.tokens(UnitId::MAIN), "");
    let answer = bench.news(UnitId::MAIN, Wait::No);
    let text = message(answer);
    assert!(text.contains("found it") && text.contains("1 agent is still out"), "{text}");
    assert_eq!(bench.tokens(UnitId::MAIN), "1");
    assert_eq!((bench.told(seats[0].unit), bench.told(seats[1].unit)), (1, 0));
    let again = bench.news(UnitId::MAIN, Wait::No);
    assert_eq!(message(again), "");
}

#[test]
fn whoever_waits_for_news_gets_them_with_the_next_end_or_learns_that_none_come() {
    let mut bench = Bench::new();
    let nothing = bench.news(UnitId::MAIN, Wait::UntilThereAre);
    assert_eq!(message(nothing), "");
    let seats = bench.fork(UnitId::MAIN, &["a"]);
    let mut waiting = bench.news(UnitId::MAIN, Wait::UntilThereAre);
    assert_eq!(waiting.try_recv(), Err(TryRecvError::Empty));
    bench.end(seats[0].unit, Outcome::failed(FailureKind::Panic, "boom"));
    assert!(message(waiting).contains("boom"));
    let nothing = bench.news(UnitId::MAIN, Wait::UntilThereAre);
    assert_eq!(message(nothing), "");
}

#[test]
fn news_that_nobody_waits_for_any_more_are_kept_for_the_next_question() {
    let mut bench = Bench::new();
    let seats = bench.fork(UnitId::MAIN, &["a"]);
    drop(bench.news(UnitId::MAIN, Wait::UntilThereAre));
    bench.end(seats[0].unit, done("x"));
    assert_eq!(bench.told(seats[0].unit), 0);
    let answer = bench.news(UnitId::MAIN, Wait::No);
    assert!(message(answer).contains("completed"));
}

#[test]
fn an_end_that_was_taken_is_not_told_again() {
    let mut bench = Bench::new();
    let seats = bench.fork(UnitId::MAIN, &["a"]);
    bench.end(seats[0].unit, done("x"));
    let (reply, _answer) = oneshot::channel();
    bench.say(UnitId::MAIN, Tend::Taken { units: vec![seats[0].unit], reply }.into());
    assert_eq!(bench.tokens(UnitId::MAIN), "1");
    let nothing = bench.news(UnitId::MAIN, Wait::No);
    assert_eq!(message(nothing), "");
    assert_eq!(bench.look(UnitId::MAIN, None), [(seats[0].unit, UnitState::Completed)]);
}

#[test]
fn a_unit_tends_its_own_background_units_and_no_others() {
    let mut bench = Bench::new();
    let slot = bench.declare(UnitId::MAIN, &["slot"])[0].unit;
    bench.may_start(slot).unwrap();
    let fork = bench.fork(slot, &["fork"])[0].unit;
    assert_eq!(bench.look(slot, None), [(fork, UnitState::Running)]);
    assert_eq!(bench.look(UnitId::MAIN, None), []);
    assert_eq!(bench.look(UnitId::MAIN, Some(fork)), []);
    assert_eq!(bench.send(UnitId::MAIN, fork, "hi"), Sent::Unknown);
    let (reply, mut answer) = oneshot::channel();
    bench.say(UnitId::MAIN, Tend::Stop { unit: slot, reply }.into());
    assert_eq!(answer.try_recv(), Ok(None));
    assert!(!bench.dispatcher.units[&slot].cancel.is_cancelled());
}

#[test]
fn a_message_reaches_a_unit_at_its_next_turn_and_never_one_that_has_ended() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    assert_eq!(bench.send(UnitId::MAIN, fork, "look there"), Sent::Queued);
    let answer = bench.news(fork, Wait::No);
    assert!(message(answer).contains("look there"));
    bench.end(fork, done("x"));
    let ended = Sent::Ended(UnitState::Completed);
    assert_eq!(bench.send(UnitId::MAIN, fork, "and there"), ended);
    assert_eq!(bench.send(UnitId::MAIN, UnitId(9), "who"), Sent::Unknown);
}

#[test]
fn a_message_that_came_too_late_is_told_with_the_end() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    assert_eq!(bench.send(UnitId::MAIN, fork, "look there"), Sent::Queued);
    bench.end(fork, done("x"));
    let answer = bench.news(UnitId::MAIN, Wait::No);
    assert!(message(answer).contains("1 of your messages came too late for it."));
}

#[test]
fn one_waits_for_any_or_for_all_of_several_units() {
    let mut bench = Bench::new();
    let seats = bench.fork(UnitId::MAIN, &["a", "b"]);
    let units: Vec<UnitId> = seats.iter().map(|seat| seat.unit).collect();
    let wait = |bench: &mut Bench, until| {
        let (reply, answer) = oneshot::channel();
        let units = units.clone();
        bench.say(UnitId::MAIN, Tend::Await { units, until, reply }.into());
        answer
    };
    let mut any = wait(&mut bench, Until::Any);
    let mut all = wait(&mut bench, Until::All);
    assert!(any.try_recv().is_err());
    bench.end(seats[1].unit, done("x"));
    assert!(any.try_recv().is_ok() && all.try_recv().is_err());
    bench.end(seats[0].unit, done("x"));
    assert!(all.try_recv().is_ok());
    assert!(wait(&mut bench, Until::All).try_recv().is_ok());
}

#[test]
fn the_end_of_a_turn_leaves_mains_background_units_alone_and_the_end_of_all_does_not() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"]).remove(0);
    let slot = bench.declare(UnitId::MAIN, &["slot"]).remove(0);
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    assert!(slot.cancel.is_cancelled() && !fork.cancel.is_cancelled());
    bench.give(Input::Cancel(Reach::All, CancelReason::Interrupt));
    assert!(fork.cancel.is_cancelled());
}

#[test]
fn a_run_names_the_background_units_that_it_left_behind() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    bench.end(UnitId::MAIN, Outcome::failed(FailureKind::Unfinished, "late"));
    // It has the time to end its commands.
    assert!(!bench.finished);
    bench.end(fork, Outcome::Cancelled { ran: true });
    let last = bench.events.last().unwrap();
    let EventKind::InvocationEnded(end) = &last.kind else { panic!("{last:?}") };
    assert_eq!(end.unfinished, [fork]);
    assert_eq!(bench.told(fork), 0);
}

#[test]
fn what_only_holds_the_branch_of_steps_is_not_among_the_agents_left_behind() {
    let mut bench = Bench::new();
    let child = |origin| Child { agent: "for_each".into(), origin, ..plain("correctness") };
    let holder = bench.declare_all(UnitId::MAIN, vec![child(Origin::Steps)]).remove(0);
    bench.may_start(holder.unit).unwrap();
    let agent = bench.declare_all(holder.unit, vec![child(Origin::Prompt)]).remove(0);
    bench.may_start(agent.unit).unwrap();
    bench.give(Input::Cancel(Reach::Turn, CancelReason::Interrupt));
    bench.give(Input::Overdue);
    let EventKind::InvocationEnded(end) = &bench.last().kind else { panic!("{:?}", bench.last()) };
    assert_eq!(end.unfinished, [agent.unit]);
    let ends = [agent.unit, holder.unit].map(|unit| (unit, UnitState::Cancelled));
    assert_eq!(bench.ends(), ends, "both have their end all the same");
}

#[test]
fn tokens_are_drawn_for_each_invocation_and_never_twice() {
    let (last, invocation, next_unit) = (Seq(7), Invocation(2), UnitId(5));
    let seed = Seed { last, invocation, next_unit, ..Seed::default() };
    let mut dispatcher = Dispatcher::after(seed);
    let response = dispatcher.go_on("more".into(), UnixMillis(1));
    let [Effect::Record(event), Effect::Sync] = &response.effects[..] else { panic!() };
    assert_eq!((event.seq, event.invocation), (Seq(8), Invocation(2)));
    let reserve = |dispatcher: &mut Dispatcher, count| {
        let (reply, mut answer) = oneshot::channel();
        let event = UnitEvent::Reserve { count, reply };
        let input = Input::Unit(FromUnit { unit: UnitId::MAIN, event });
        for effect in dispatcher.handle(input, UnixMillis(2)).effects {
            if let Effect::Answer(answer) = effect {
                answer.give();
            }
        }
        answer.try_recv().unwrap()
    };
    assert_eq!(reserve(&mut dispatcher, 3), Token(1));
    assert_eq!(reserve(&mut dispatcher, 1), Token(4));
}

/// Returns what a unit is told of others; `None` if nothing is kept of it.
fn told_to(bench: &mut Bench, unit: UnitId) -> Option<String> {
    let (reply, mut answer) = oneshot::channel();
    bench.say(unit, UnitEvent::Visible { reply });
    let said = answer.try_recv().ok()?;
    Some(crate::prompt::context(&said).unwrap_or_default())
}

#[test]
fn a_unit_is_told_what_its_branch_sees_and_nothing_of_siblings_or_strands_not_joined() {
    let mut bench = Bench::new();
    bench.dispatcher.keep_context(Context::default());
    let first = bench.declare(UnitId::MAIN, &["Alice", "Bob"]);
    bench.reply(first[0].unit, "alpha", &[]);
    assert_eq!(told_to(&mut bench, first[1].unit).as_deref(), Some(""));
    assert_eq!(told_to(&mut bench, UnitId::MAIN).as_deref(), Some(""));
    bench.end(first[1].unit, Outcome::failed(FailureKind::Panic, "beta broke"));
    bench.join(UnitId::MAIN, &first);
    let second = bench.declare(UnitId::MAIN, &["Charlie", "David"]);
    bench.reply(second[1].unit, "delta", &[]);
    let told = told_to(&mut bench, second[0].unit).unwrap();
    let places = [told.find("alpha"), told.find("beta broke")];
    assert!(places.is_sorted() && places[0].is_some(), "{told}");
    assert!(!told.contains("delta"), "{told}");
}

#[test]
fn a_run_in_which_nobody_looks_at_others_keeps_nothing_of_what_they_said() {
    let mut bench = Bench::new();
    let unit = bench.declare(UnitId::MAIN, &["Alice"])[0].unit;
    bench.reply(unit, "alpha", &[]);
    assert_eq!(told_to(&mut bench, unit), None);
}

#[test]
fn a_unit_that_reads_no_messages_is_sent_only_so_many() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    let sent: Vec<Sent> = (0..40).map(|_| bench.send(UnitId::MAIN, fork, "look")).collect();
    assert_eq!(sent.iter().filter(|sent| **sent == Sent::Queued).count(), 32);
    assert_eq!(sent.last(), Some(&Sent::Full));
}

#[test]
fn messages_that_do_not_fit_are_told_at_the_next_boundary() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    let long = |mark: &str| format!("{mark}{}", "x".repeat(15_000));
    for mark in ["first", "second", "third"] {
        assert_eq!(bench.send(UnitId::MAIN, fork, &long(mark)), Sent::Queued);
    }
    let now = bench.news(fork, Wait::No);
    let now = message(now);
    assert!(now.contains("second") && !now.contains("third"));
    let later = bench.news(fork, Wait::No);
    assert!(message(later).contains("third"));
}

#[test]
fn news_that_nobody_reads_are_not_delivered() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    bench.end(fork, done("x"));
    let (reply, answer) = oneshot::channel();
    drop(answer);
    bench.say(UnitId::MAIN, Tend::News { wait: Wait::No, reply }.into());
    assert_eq!(bench.told(fork), 0);
}

#[test]
fn what_a_failed_unit_left_behind_is_told_with_its_failure_and_is_not_the_runs() {
    let mut bench = Bench::new();
    let slot = bench.declare(UnitId::MAIN, &["slot"])[0].unit;
    bench.may_start(slot).unwrap();
    bench.fork(slot, &["fork"]);
    let end = bench.end(slot, Outcome::failed(FailureKind::MaxTurns, "5 turns")).unwrap();
    let message = "5 turns; 1 agent that it had started stopped with it";
    assert_eq!(end.outcome, Outcome::failed(FailureKind::MaxTurns, message));
    bench.end(UnitId::MAIN, done("x"));
    let last = bench.events.last().unwrap();
    let EventKind::InvocationEnded(end) = &last.kind else { panic!("{last:?}") };
    assert_eq!(end.unfinished, []);
}

#[test]
fn a_unit_named_twice_is_waited_for_once() {
    let mut bench = Bench::new();
    let fork = bench.fork(UnitId::MAIN, &["a"])[0].unit;
    let (reply, mut answer) = oneshot::channel();
    let event = Tend::Await { units: vec![fork, fork], until: Until::Any, reply };
    bench.say(UnitId::MAIN, event.into());
    assert!(answer.try_recv().is_err());
    bench.end(fork, done("x"));
    assert!(answer.try_recv().is_ok());
}

#[test]
fn what_ends_well_in_the_time_it_is_given_is_not_unfinished() {
    let mut bench = Bench::new();
    let seats = bench.fork(UnitId::MAIN, &["a", "b"]);
    bench.end(UnitId::MAIN, Outcome::failed(FailureKind::Unfinished, "late"));
    bench.end(seats[0].unit, done("just in time"));
    bench.end(seats[1].unit, Outcome::Cancelled { ran: true });
    let last = bench.events.last().unwrap();
    let EventKind::InvocationEnded(end) = &last.kind else { panic!("{last:?}") };
    assert_eq!(end.unfinished, [seats[1].unit]);
}
