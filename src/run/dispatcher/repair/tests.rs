//! What a repair promises, for sessions that were cut off anywhere.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks at the events it is about; a new kind does not concern it"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::sync::oneshot;

use super::super::{Dispatcher, Effect, Input, Response, Seed};
use super::*;
use crate::agent::History;
use crate::event::{FailureKind, Origin, Replied, SessionHead, SessionId, SlotPosition};
use crate::line::testing::plain;
use crate::line::{Child, FromUnit, News, Seat, Tend, Told as Says, UnitEvent, Wait};
use crate::message::{Call, CallId, Head, Message, Reply, StopReason, Usage};

/// A session in which units do what chance says, as far as a unit can.
struct Session {
    dispatcher: Dispatcher,
    events: Vec<Event>,
    now: u64,
    units: BTreeMap<UnitId, Busy>,
    calls: u32,
}

/// What a unit of a [`Session`] is in the middle of.
#[derive(Debug, Clone, Default)]
struct Busy {
    is_running: bool,
    is_aside: bool,
    turns: u32,
    /// Its open calls and the units that each waits for.
    calls: Vec<(CallId, Vec<UnitId>)>,
}

impl Session {
    fn new() -> Self {
        let mut dispatcher = Dispatcher::new();
        let head = SessionHead {
            session: SessionId("s".into()),
            version: "0".into(),
            cwd: "/".into(),
            model: "m".into(),
            mode: "default".into(),
            forked_from: None,
            sandbox: None,
        };
        let opened = dispatcher.open(head, "go".into(), UnixMillis(0));
        Self::begun(dispatcher, opened)
    }

    fn after(past: &Past) -> Self {
        let mut dispatcher = Dispatcher::after(Seed::of(past));
        let opened = dispatcher.go_on("more".into(), UnixMillis(0));
        Self::begun(dispatcher, opened)
    }

    fn begun(dispatcher: Dispatcher, opened: Response) -> Self {
        let main = Busy { is_running: true, ..Busy::default() };
        let units = BTreeMap::from([(UnitId::MAIN, main)]);
        let mut session = Self { dispatcher, events: Vec::new(), now: 0, units, calls: 0 };
        session.carry_out(opened);
        session.say(UnitId::MAIN, Says::Prompted("go".into()));
        session
    }

    fn carry_out(&mut self, response: Response) {
        for effect in response.effects {
            match effect {
                Effect::Record(event) => self.events.push(event),
                Effect::Answer(answer) | Effect::AnswerSynced(answer) => answer.give(),
                Effect::Glimpse(_)
                | Effect::Sync
                | Effect::KeepRules(_)
                | Effect::StartDeadline
                | Effect::Finish
                | Effect::Over => {}
            }
        }
    }

    fn say(&mut self, unit: UnitId, event: impl Into<UnitEvent>) {
        self.now += 7;
        let input = Input::Unit(FromUnit { unit, event: event.into() });
        let response = self.dispatcher.handle(input, UnixMillis(self.now));
        self.carry_out(response);
    }

    fn ask<T>(
        &mut self,
        unit: UnitId,
        ask: impl FnOnce(oneshot::Sender<T>) -> UnitEvent,
    ) -> Option<T> {
        let (reply, mut answer) = oneshot::channel();
        self.say(unit, ask(reply));
        answer.try_recv().ok()
    }

    /// Does one thing: `what`, by the unit that `who` comes to.
    fn step(&mut self, who: u8, what: u8) {
        let ids: Vec<UnitId> = self.units.keys().copied().collect();
        let unit = ids[usize::from(who) % ids.len()];
        let busy = self.units[&unit].clone();
        if !busy.is_running {
            let started = self.ask(unit, |reply| UnitEvent::MayStart { reply });
            self.busy(unit).is_running = started.is_some();
            return;
        }
        if unit != UnitId::MAIN && what >= 232 {
            return self.lose(unit);
        }
        match (what % 8, busy.calls.last().cloned()) {
            (0..=3, None) => self.reply(unit, what),
            (4 | 5, None) => {
                drop(self.ask(unit, |reply| Tend::News { wait: Wait::No, reply }.into()));
            }
            (_, None) if unit == UnitId::MAIN => self.compact(what),
            (_, None) => self.end(unit),
            (0..=2, Some((call, children))) if children.is_empty() && unit.0 < 4 => {
                self.delegate(unit, &call, what);
            }
            (3, Some(_)) => self.take_all(unit),
            (_, Some((call, children))) => self.finish(unit, call, &children),
        }
    }

    fn lose(&mut self, unit: UnitId) {
        let (worker, attempt) = ("w-7".into(), 1);
        if self.ask(unit, |reply| UnitEvent::Lost { worker, attempt, reply }).is_none() {
            // It had ended with its parent.
            return;
        }
        let is_aside = self.busy(unit).is_aside;
        *self.busy(unit) = Busy { is_aside, ..Busy::default() };
        let left = &self.dispatcher.units;
        self.units.retain(|id, _| left.contains_key(id));
    }

    fn busy(&mut self, unit: UnitId) -> &mut Busy {
        self.units.get_mut(&unit).unwrap()
    }

    fn reply(&mut self, unit: UnitId, calls: u8) {
        let busy = self.busy(unit);
        busy.turns += 1;
        let turn = busy.turns;
        drop(self.ask(unit, |reply| UnitEvent::MayRequest { turn: Some(turn), reply }));
        let calls = (0..calls % 3).map(|_| {
            self.calls += 1;
            let id: CallId = format!("call-{}", self.calls).as_str().into();
            Call { id, tool: "Read".to_owned(), arguments: "{}".to_owned() }
        });
        let calls: Vec<Call> = calls.collect();
        self.busy(unit).calls = calls.iter().map(|call| (call.id.clone(), Vec::new())).collect();
        let reply = Arc::new(Reply { text: format!("turn {turn}"), calls, ..Reply::default() });
        let usage = Usage { input: 3, ..Usage::default() };
        let (model, stop) = ("m".into(), StopReason::ToolUse);
        self.say(unit, UnitEvent::Replied(Replied { reply, model, usage, stop, took_ms: 1 }));
    }

    /// Starts a batch, a unit beside its caller, or nothing.
    fn delegate(&mut self, unit: UnitId, call: &CallId, what: u8) {
        let tool: Arc<str> = if what % 16 < 8 { AGENT.into() } else { "Bash".into() };
        let (id, subject) = (call.clone(), "it".into());
        self.say(
            unit,
            UnitEvent::ToolStarted { call: id, tool, subject, confinement: None, synced: None },
        );
        let is_background = what % 8 == 1;
        let total = if is_background { 1 } else { u32::from(what / 8 % 4) };
        let children = (0..total).map(|index| Child {
            slot: (!is_background).then_some(SlotPosition { index, total }),
            is_background,
            ..plain("look")
        });
        let (children, call) = (children.collect(), call.clone());
        let id = Some(call.clone());
        let seats =
            self.ask(unit, |reply| UnitEvent::Declare { call: id, children, orders: None, reply });
        let seats: Vec<Seat> = seats.unwrap_or_default();
        for seat in &seats {
            self.units.insert(seat.unit, Busy { is_aside: is_background, ..Busy::default() });
        }
        if is_background {
            self.finish(unit, call, &[]);
        } else {
            let last = self.busy(unit).calls.last_mut().unwrap();
            last.1 = seats.iter().map(|seat| seat.unit).collect();
        }
    }

    fn compact(&mut self, kept: u8) {
        let compaction = crate::event::Compaction {
            trigger: crate::event::CompactionTrigger::Auto,
            text: "in short".into(),
            kept_prompts: u32::from(kept / 8 % 3),
            tokens_before: 9,
            tokens_after: 3,
            model: "m".into(),
            usage: Usage { input: 3, ..Usage::default() },
            took_ms: 1,
        };
        self.say(UnitId::MAIN, Says::Compacted(Arc::new(compaction)));
    }

    fn take_all(&mut self, unit: UnitId) {
        let units = self.units.iter().filter(|(_, busy)| busy.is_aside).map(|(&id, _)| id);
        let gone = (1..self.dispatcher.next_unit).map(UnitId);
        let units = units.chain(gone).collect();
        let _ = self.ask(unit, |reply| Tend::Taken { units, reply }.into());
    }

    fn finish(&mut self, unit: UnitId, call: CallId, children: &[UnitId]) {
        if children.iter().any(|child| self.units.contains_key(child)) {
            return;
        }
        if !children.is_empty() {
            let children = children.to_vec();
            let _ = self.ask(unit, |reply| UnitEvent::Join { children, reply });
        }
        self.busy(unit).calls.pop();
        let (tool, output) = ("Read".into(), Arc::new(Output::ok("fine")));
        self.say(unit, UnitEvent::ToolFinished { call, tool, output, took_ms: 1 });
    }

    fn end(&mut self, unit: UnitId) {
        let outcome = match unit.0 % 3 {
            0 => Outcome::failed(FailureKind::Panic, "boom"),
            _ => Outcome::Done { text: "done".into() },
        };
        drop(self.ask(unit, |reply| UnitEvent::Ended { outcome, output_file: None, reply }));
        self.units.remove(&unit);
    }
}

fn fold(events: &[Event]) -> Past {
    let mut past = Past::default();
    events.iter().for_each(|event| past.take(event));
    past
}

fn mended(past: &Past) -> Vec<Event> {
    let tell = |call: &OpenCall, children: &[Started<'_>]| {
        let states = children.iter().map(|child| child.end.outcome.state().as_str());
        Output::ok(format!("{}: {}", call.id, states.collect::<Vec<_>>().join(", ")))
    };
    repair(past, &tell, UnixMillis(1_000_000))
}

/// A session that did these steps and was then cut off.
fn cut_off(steps: &[(u8, u8)], cut: prop::sample::Index) -> Vec<Event> {
    let mut session = Session::new();
    steps.iter().for_each(|&(who, what)| session.step(who, what));
    let kept = 1 + cut.index(session.events.len());
    session.events.truncate(kept);
    session.events
}

fn any_steps() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec(any::<(u8, u8)>(), 0..60)
}

/// Returns how often each thing has its end, for what has to have one.
fn ends(events: &[Event]) -> BTreeMap<String, i32> {
    let mut ends = BTreeMap::new();
    let mut count = |name: String, by: i32| *ends.entry(name).or_insert(0) += by;
    for event in events {
        match &event.kind {
            EventKind::UnitQueued(_) => count(event.unit.to_string(), 0),
            EventKind::UnitEnded(_) => count(event.unit.to_string(), 1),
            EventKind::Replied(replied) => replied
                .reply
                .calls
                .iter()
                .for_each(|call| count(format!("{} {}", event.unit, call.id), 0)),
            EventKind::ToolFinished { call, .. } => count(format!("{} {call}", event.unit), 1),
            EventKind::InvocationStarted { .. } => count(format!("{:?}", event.invocation), 0),
            EventKind::InvocationEnded(_) => count(format!("{:?}", event.invocation), 1),
            _ => {}
        }
    }
    ends
}

fn states(events: &[Event]) -> BTreeMap<UnitId, UnitState> {
    let mut states = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::UnitQueued(_) => drop(states.insert(event.unit, UnitState::Queued)),
            EventKind::UnitStarted => drop(states.insert(event.unit, UnitState::Running)),
            // It waits again, but it did run.
            EventKind::Lost { .. } => drop(states.insert(event.unit, UnitState::Running)),
            EventKind::UnitEnded(end) => drop(states.insert(event.unit, end.outcome.state())),
            _ => {}
        }
    }
    states
}

/// Tells whether the dispatcher ended whoever waited for a unit before its end.
fn was_dropped(events: &[Event], head: &UnitHead) -> bool {
    events.iter().any(|event| match &event.kind {
        EventKind::ToolFinished { call, output, .. } => {
            let is_of = event.unit == head.parent && Some(call) == head.call.as_ref();
            let why = ["cancelled before", "lost with its worker"];
            is_of && why.iter().any(|why| output.text.starts_with(why))
        }
        _ => false,
    })
}

/// Tells whether what had started a unit was lost afterwards.
fn was_lost(events: &[Event], unit: UnitId) -> bool {
    let (place, parent) = events
        .iter()
        .enumerate()
        .find_map(|(place, event)| match &event.kind {
            EventKind::UnitQueued(head) if event.unit == unit => Some((place, head.parent)),
            _ => None,
        })
        .unwrap();
    let is_loss = |event: &Event| matches!(event.kind, EventKind::Lost { .. });
    events[place..].iter().any(|event| event.unit == parent && is_loss(event))
        || (parent != UnitId::MAIN && was_lost(events, parent))
}

/// Returns the units whose ends main has been told: by news, or by the output
/// of a call.
fn told(events: &[Event]) -> BTreeSet<UnitId> {
    let (mut told, mut soon, mut open) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for event in events.iter().filter(|event| event.unit == UnitId::MAIN) {
        match &event.kind {
            EventKind::Replied(replied) => {
                open = replied.reply.calls.iter().map(|call| call.id.to_string()).collect();
            }
            EventKind::Joined { children } if !open.is_empty() => soon.extend(children),
            EventKind::Notified { children, .. } => told.extend(children),
            EventKind::ToolFinished { call, output, .. } => {
                open.remove(&call.to_string());
                if output.text == CUT_OFF {
                    soon.clear();
                } else if open.is_empty() {
                    told.append(&mut soon);
                }
            }
            _ => {}
        }
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_cut_off_has_exactly_one_end_then(steps in any_steps(), cut: prop::sample::Index) {
        let mut events = cut_off(&steps, cut);
        let before = states(&events);
        let repair = mended(&fold(&events));
        events.extend(repair);
        let ends = ends(&events);
        prop_assert!(ends.values().all(|&count| count == 1), "{ends:?}");
        let expected = before.into_iter().map(|(unit, state)| {
            let state = match state {
                UnitState::Queued => UnitState::Skipped,
                UnitState::Running => UnitState::Interrupted,
                ended => ended,
            };
            (unit, state)
        });
        prop_assert_eq!(states(&events), expected.collect());
        let numbers: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
        prop_assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    }

    /// Foreground units join whoever waited for them, whatever became of them;
    /// those beside main join it once it was told.
    #[test]
    fn every_strand_comes_home(steps in any_steps(), cut: prop::sample::Index) {
        let mut events = cut_off(&steps, cut);
        events.extend(mended(&fold(&events)));
        let joins = fold(&events).joins().clone();
        let told = events.iter().filter_map(|event| match &event.kind {
            EventKind::Notified { children, .. } => Some(children.clone()),
            _ => None,
        });
        let told: Vec<UnitId> = told.flatten().collect();
        let ended = events.iter().filter(|event| matches!(event.kind, EventKind::UnitEnded(_)));
        let last: BTreeMap<UnitId, &TokenSet> =
            ended.map(|event| (event.unit, &event.branch.tokens)).collect();
        for event in &events {
            let EventKind::UnitQueued(head) = &event.kind else { continue };
            let home = match head.parent {
                UnitId::MAIN => joins.joined_in(event.invocation),
                parent => last[&parent].clone(),
            };
            let is_awaited = match head.is_background {
                false => !was_dropped(&events, head) && !was_lost(&events, event.unit),
                true => head.parent == UnitId::MAIN && told.contains(&event.unit),
            };
            prop_assert!(!is_awaited || last[&event.unit].is_subset_of(&home), "{:?}", event.unit);
        }
    }

    #[test]
    fn a_repair_that_is_cut_off_itself_is_completed_to_the_letter(
        steps in any_steps(), cut: prop::sample::Index, again: prop::sample::Index,
    ) {
        let mut events = cut_off(&steps, cut);
        let repair = mended(&fold(&events));
        let done = again.index(repair.len() + 1);
        events.extend_from_slice(&repair[..done]);
        prop_assert_eq!(mended(&fold(&events)), &repair[done..]);
    }

    #[test]
    fn a_conversation_that_was_cut_off_can_be_gone_on_with(steps in any_steps(), cut: prop::sample::Index) {
        let mut events = cut_off(&steps, cut);
        events.extend(mended(&fold(&events)));
        let head = Arc::new(Head::new(String::new(), Vec::new()));
        let folded = History::of(Arc::clone(&head), fold(&events).conversation());
        let of_main = events.iter().filter(|event| event.unit == UnitId::MAIN);
        let whole = History::of(head, of_main.map(|event| &event.kind));
        // Else it would be summed up again at once.
        prop_assert_eq!(folded.tokens(), whole.tokens());
        let messages: Vec<&Message> = folded.prefix().messages().collect();
        prop_assert_eq!(&messages, &whole.prefix().messages().collect::<Vec<_>>());
        let mut open = 0;
        for message in messages {
            match message {
                Message::Output { .. } => open -= 1,
                Message::User(_) => prop_assert_eq!(open, 0),
                Message::Model(reply) => {
                    prop_assert_eq!(open, 0);
                    open = reply.calls.len();
                }
            }
        }
        prop_assert_eq!(open, 0);
    }

    /// However often the process dies: each end of a background unit is told,
    /// and joins the invocation that it belongs to.
    #[test]
    fn no_end_of_a_background_unit_is_lost(
        steps in any_steps(), cut: prop::sample::Index, cut_again: prop::sample::Index,
    ) {
        let mut events = cut_off(&steps, cut);
        events.extend(mended(&fold(&events)));
        let aside = |event: &&Event| matches!(&event.kind, EventKind::UnitQueued(head) if head.is_background && head.parent == UnitId::MAIN);
        let aside: Vec<UnitId> = events.iter().filter(aside).map(|event| event.unit).collect();
        // The process dies as main is about to hear the news.
        let mut session = Session::after(&fold(&events));
        session.step(0, 4);
        let kept = cut_again.index(session.events.len() + 1);
        events.extend_from_slice(&session.events[..kept]);
        let mut past = fold(&events);
        let repair = mended(&past);
        repair.iter().for_each(|event| past.take(event));
        events.extend(repair);
        let mut session = Session::after(&past);
        session.step(0, 4);
        events.extend(session.events);
        let told = told(&events);
        prop_assert!(aside.iter().all(|unit| told.contains(unit)), "{aside:?} {told:?}");
        let past = fold(&events);
        prop_assert_eq!(past.untold().count(), 0);
        prop_assert!(past.joins().joined_in(Invocation(3)).is_empty());
    }

    #[test]
    fn no_token_is_ever_drawn_twice(steps in any_steps(), more in any_steps(), cut: prop::sample::Index) {
        let mut events = cut_off(&steps, cut);
        events.extend(mended(&fold(&events)));
        let mut session = Session::after(&fold(&events));
        more.iter().for_each(|&(who, what)| session.step(who, what));
        events.extend(session.events);
        let queued = events.iter().filter(|event| matches!(event.kind, EventKind::UnitQueued(_)));
        let mut tokens: Vec<_> =
            queued.map(|event| (event.invocation, event.branch.tokens.largest())).collect();
        let count = tokens.len();
        tokens.sort();
        tokens.dedup();
        prop_assert_eq!(tokens.len(), count);
    }
}

/// A session in which main has started this many units beside itself, and they
/// run.
fn with_aside(count: u32) -> Session {
    let mut session = Session::new();
    session.reply(UnitId::MAIN, 1);
    let call = session.units[&UnitId::MAIN].calls[0].0.clone();
    let child = |_| Child {
        agent: "fork".into(),
        origin: Origin::Fork,
        is_background: true,
        ..plain("look")
    };
    let (children, id) = ((0..count).map(child).collect(), Some(call.clone()));
    let seats = session.ask(UnitId::MAIN, |reply| UnitEvent::Declare {
        call: id,
        children,
        orders: None,
        reply,
    });
    for Seat { unit, .. } in seats.unwrap() {
        session.ask(unit, |reply| UnitEvent::MayStart { reply });
        session.units.insert(unit, Busy { is_running: true, is_aside: true, ..Busy::default() });
    }
    session.finish(UnitId::MAIN, call, &[]);
    session
}

#[test]
fn ten_thousand_units_are_brought_to_their_ends_in_little_time() {
    // Quadratic work would take minutes here.
    let mut session = Session::new();
    session.reply(UnitId::MAIN, 1);
    let call = session.units[&UnitId::MAIN].calls[0].0.clone();
    let (tool, subject, synced) = (AGENT.into(), "it".into(), None);
    session.say(
        UnitId::MAIN,
        UnitEvent::ToolStarted { call: call.clone(), tool, subject, confinement: None, synced },
    );
    let total = 10_000;
    let children = (0..total)
        .map(|index| Child { slot: Some(SlotPosition { index, total }), ..plain("look") });
    let (children, call) = (children.collect(), Some(call));
    let seats = session.ask(UnitId::MAIN, |reply| UnitEvent::Declare {
        call,
        children,
        orders: None,
        reply,
    });
    for seat in &seats.unwrap()[..5_000] {
        session.ask(seat.unit, |reply| UnitEvent::MayStart { reply });
    }
    let mut past = fold(&session.events);
    let repair = mended(&past);
    // An end each, what main joins, its output, and the end of it all.
    assert_eq!(repair.len(), 10_003);
    repair.iter().for_each(|event| past.take(event));
    assert!(past.units().is_empty() && mended(&past).is_empty());
    assert_eq!(past.joins().joined_in(Invocation(1)).to_string(), "1-10000");
}

/// The fixture: the log of an invocation holds at most 8, so 9 is next.
#[test]
fn units_of_an_invocation_go_on_after_the_largest_token_in_its_log() {
    let past = fold(&with_aside(8).events);
    let seed = Seed { invocation: Invocation(1), ..Seed::of(&past) };
    let mut dispatcher = Dispatcher::after(seed);
    assert_eq!(dispatcher.reserve(UnitId::MAIN, 1), crate::branch::Token(9));
}

#[test]
fn main_hears_of_what_was_cut_off_beside_it_and_joins_it_where_it_belongs() {
    let mut events = with_aside(2).events;
    events.extend(mended(&fold(&events)));
    let mut session = Session::after(&fold(&events));
    let news = session.ask(UnitId::MAIN, |reply| Tend::News { wait: Wait::No, reply }.into());
    let Some(News::Message(text)) = news else { panic!("{news:?}") };
    assert!(text.contains("agent-2 (fork)") && text.contains("has ended: interrupted"), "{text}");
    assert!(text.ends_with("No agent is out any more."), "{text}");
    let [.., joined, told] = &session.events[..] else { panic!() };
    assert_eq!(joined.kind, EventKind::Joined { children: vec![UnitId(1), UnitId(2)] });
    assert_eq!((joined.invocation, &*joined.branch.tokens.to_string()), (Invocation(1), "1-2"));
    assert!(matches!(told.kind, EventKind::Notified { .. }) && told.invocation == Invocation(2));
    events.extend(session.events);
    assert!(fold(&events).joins().joined_in(Invocation(2)).is_empty());
}

/// Main's branch takes theirs in before it is told, so the process may die in
/// between.
#[test]
fn an_end_that_was_joined_and_not_told_is_told_by_the_next_process() {
    let mut session = with_aside(1);
    session.end(UnitId(1));
    session.step(0, 4);
    let is_join = |event: &Event| matches!(event.kind, EventKind::Joined { .. });
    let joined = session.events.iter().position(is_join).unwrap();
    session.events.truncate(joined + 1);
    let mut events = session.events;
    events.extend(mended(&fold(&events)));
    let mut session = Session::after(&fold(&events));
    let news = session.ask(UnitId::MAIN, |reply| Tend::News { wait: Wait::No, reply }.into());
    assert!(matches!(news, Some(News::Message(_))), "{news:?}");
}

/// Only a line that cannot be read leaves an end told and not joined.
#[test]
fn an_end_that_was_told_joins_whatever_the_log_has_lost() {
    let mut session = with_aside(1);
    session.end(UnitId(1));
    session.step(0, 4);
    session.events.retain(|event| !matches!(event.kind, EventKind::Joined { .. }));
    let repair = mended(&fold(&session.events));
    assert_eq!(repair[0].kind, EventKind::Joined { children: vec![UnitId(1)] });
    assert_eq!(repair[0].branch.tokens.to_string(), "1");
}

#[test]
fn what_main_had_not_read_is_taken_back() {
    let mut session = Session::new();
    let wrote = |text: &str| EventKind::UserWrote { text: text.into() };
    let news = EventKind::Notified { children: Vec::new(), text: "one".into(), wrote: 1 };
    for kind in [wrote("one"), wrote("two"), news] {
        let seq = Seq(session.events.len() as u64 + 1);
        session.events.push(Event { seq, kind, ..session.events[1].clone() });
    }
    let mut past = fold(&session.events);
    assert_eq!(past.waiting(), 1);
    let events = mended(&past);
    let kinds: Vec<&EventKind> = events.iter().map(|event| &event.kind).collect();
    assert!(
        matches!(kinds[..], [EventKind::UserTookBack, EventKind::InvocationEnded(_)]),
        "{kinds:?}"
    );
    events.iter().for_each(|event| past.take(event));
    assert_eq!((past.waiting(), mended(&past)), (0, Vec::new()));
}
