//! What is known of each unit: a fold over events.
//!
//! Only units that have not ended are kept; the others are numbers. So ten
//! thousand slots cost what waits and runs, not what is over. Of main only is
//! known what its request waits for. A unit that only holds the branch of steps
//! is no agent: it is known by its name, and neither counted nor listed.

mod counts;
mod hold;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use self::counts::Counts;
use self::hold::hold;
pub use self::hold::{Hold, HoldCause};
use crate::branch::Branch;
use crate::event::{
    Event, EventKind, NoticeLevel, Origin, Outcome, QuestionId, UnitEnd, UnitHead, UnitId,
    UnixMillis,
};
use crate::message::Usage;
use crate::tool_name::may_wait_for_agents;

/// The units of an invocation.
#[derive(Debug, Clone, Default)]
pub struct Units {
    open: BTreeMap<UnitId, Unit>,
    /// Those of `open` that run: a few among what may be thousands that wait.
    running: BTreeSet<UnitId>,
    /// Those of `open` that run beside their parents.
    beside: BTreeSet<UnitId>,
    counts: Counts,
    /// How many of the slots that were declared last have a model to ask.
    to_run: u32,
    main_hold: Option<Hold>,
    /// Questions without an answer, and whose they are.
    questions: BTreeMap<UnitId, BTreeSet<QuestionId>>,
    /// Children of main that ended in the background and of which it has not
    /// been told.
    untold: BTreeSet<UnitId>,
}

/// A unit that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// Who it is.
    pub head: UnitHead,
    /// Its branch, as of its last event that changed it.
    pub branch: Branch,
    /// When it started; `None` while it waits.
    pub started: Option<UnixMillis>,
    /// The worker that it was lost with last, if it ever was.
    pub lost_with: Option<Arc<str>>,
    /// The tokens of its requests so far.
    pub usage: Usage,
    /// The calls that have their output.
    pub tool_uses: u32,
    /// Its last call; `None` before the first.
    pub last_call: Option<LastCall>,
    /// Its calls without an output that may wait for other units. While there
    /// are any it may have lent its permit.
    waiting_calls: u32,
    /// Whether its last answer had no calls: what it does then is wait for
    /// units in the background, if any is out.
    has_answered: bool,
    /// How many units that it started in the background have not ended.
    background: u32,
    hold: Option<Hold>,
    /// Whether a failure of it, or of something in it, was told.
    has_told: bool,
}

/// A call that began to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCall {
    /// The tool's own name.
    pub tool: Arc<str>,
    /// What the call is about; may be anything.
    pub subject: Arc<str>,
}

impl Units {
    /// Takes note of an event. The end of a unit returns what was known of it:
    /// from then on it is only counted.
    pub fn take(&mut self, event: &Event) -> Option<Unit> {
        match &event.kind {
            EventKind::UnitEnded(end) => return self.end(event.unit, end),
            EventKind::InvocationStarted { .. } => self.forget_ended(),
            EventKind::InvocationEnded(_) => {
                self.main_hold = None;
                // Units beside main go on, and with them what they ask.
                self.questions.remove(&UnitId::MAIN);
            }
            // It was told of them, or has asked for all there is.
            EventKind::Notified { children, .. } | EventKind::Joined { children }
                if event.unit == UnitId::MAIN =>
            {
                self.untold.retain(|unit| !children.contains(unit));
            }
            EventKind::Asked { id, .. } => {
                self.questions.entry(event.unit).or_default().insert(*id);
            }
            EventKind::Answered { id, .. } => self.answered(event.unit, *id),
            EventKind::UnitQueued(head) => self.queue(event, head),
            EventKind::SetAside { units } => self.set_aside(event.unit, units),
            EventKind::Notice { level: NoticeLevel::Warning, text: _ } => self.told(event.unit),
            EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::Compacted(_)
                if event.unit == UnitId::MAIN =>
            {
                self.main_hold = hold(event);
            }
            EventKind::Lost { worker, attempt: _ } => self.lost(event, worker),
            EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::Compacted(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. } => self.change(event),
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Notice { level: NoticeLevel::Info, text: _ } => {}
        }
        None
    }

    /// Returns why a unit's request does not go out yet, main's too; `None` if
    /// it does, or if there is none.
    #[must_use]
    pub fn hold(&self, unit: UnitId) -> Option<Hold> {
        if unit == UnitId::MAIN { self.main_hold } else { self.open.get(&unit)?.hold }
    }

    /// Returns how many questions of a unit have no answer, main's too.
    #[must_use]
    pub fn questions_of(&self, unit: UnitId) -> usize {
        self.questions.get(&unit).map_or(0, BTreeSet::len)
    }

    /// Tells whether a question was asked and has no answer.
    #[must_use]
    pub fn is_open(&self, unit: UnitId, question: QuestionId) -> bool {
        self.questions.get(&unit).is_some_and(|open| open.contains(&question))
    }

    fn answered(&mut self, unit: UnitId, question: QuestionId) {
        let Some(open) = self.questions.get_mut(&unit) else { return };
        open.remove(&question);
        if open.is_empty() {
            self.questions.remove(&unit);
        }
    }

    /// Returns the units that have a question without an answer, main too.
    pub fn asking(&self) -> impl Iterator<Item = UnitId> {
        self.questions.keys().copied()
    }

    /// Returns how many units have ended beside main without it being told.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.untold.len()
    }

    /// Returns how many of the slots that were declared last have a model to
    /// ask: those that hold steps, or were answered before, have none.
    #[must_use]
    pub fn to_run(&self) -> u32 {
        self.to_run
    }

    /// Returns the agents that wait for a permit, in the order they were
    /// declared.
    pub fn queued(&self) -> impl Iterator<Item = (UnitId, &Unit)> {
        let is_queued =
            |(id, unit): &(&UnitId, &Unit)| unit.head.is_agent() && !self.running.contains(*id);
        self.open.iter().filter(is_queued).map(|(&id, unit)| (id, unit))
    }

    /// Tells whether any question has no answer.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Returns a unit that has not ended; never main.
    #[must_use]
    pub fn get(&self, unit: UnitId) -> Option<&Unit> {
        self.open.get(&unit)
    }

    /// Returns the agents that run, in the order they were declared.
    pub fn running(&self) -> impl Iterator<Item = (UnitId, &Unit)> {
        self.running.iter().filter_map(|&id| Some((id, self.open.get(&id)?)))
    }

    /// Returns the units that run beside their parents, or wait to, in the
    /// order they were declared.
    pub fn background(&self) -> impl Iterator<Item = (UnitId, &Unit)> {
        self.beside.iter().filter_map(|&id| Some((id, self.open.get(&id)?)))
    }

    /// Returns how many units run beside their parents, or wait to.
    #[must_use]
    pub fn beside(&self) -> usize {
        self.beside.len()
    }

    /// Returns how many agents of this invocation are in each state.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn forget_ended(&mut self) {
        let Counts { queued, running, throttled, waiting, .. } = self.counts;
        self.counts = Counts { queued, running, throttled, waiting, ..Counts::default() };
    }

    fn queue(&mut self, event: &Event, head: &UnitHead) {
        if head.is_background {
            self.beside.insert(event.unit);
            self.adjust(head.parent, |parent| parent.background += 1);
        }
        if let Some(slot) = head.slot.filter(|_| head.again.is_none()) {
            let before = if slot.index == 0 { 0 } else { self.to_run };
            self.to_run = before + u32::from(head.origin.asks());
        }
        self.counts.queued += u64::from(head.is_agent());
        self.open.insert(event.unit, Unit::new(head.clone(), event));
    }

    fn set_aside(&mut self, parent: UnitId, units: &[UnitId]) {
        for id in units {
            let Some(unit) = self.open.get_mut(id).filter(|unit| !unit.head.is_background) else {
                continue;
            };
            unit.head.is_background = true;
            self.beside.insert(*id);
            self.adjust(parent, |parent| parent.background += 1);
        }
    }

    fn change(&mut self, event: &Event) {
        let Some(unit) = self.open.get_mut(&event.unit) else { return };
        if let EventKind::UnitStarted = event.kind
            && unit.head.is_agent()
            && self.running.insert(event.unit)
        {
            self.counts.queued -= 1;
            *self.counts.at_work(unit.doing()) += 1;
        }
        self.adjust(event.unit, |unit| unit.take(event));
    }

    /// A unit waits again. What it had started has ended by now.
    fn lost(&mut self, event: &Event, worker: &Arc<str>) {
        let Some(unit) = self.open.get_mut(&event.unit) else { return };
        if self.running.remove(&event.unit) {
            *self.counts.at_work(unit.doing()) -= 1;
            self.counts.queued += 1;
        }
        *unit = Unit {
            lost_with: Some(Arc::clone(worker)),
            usage: unit.usage,
            tool_uses: unit.tool_uses,
            background: unit.background,
            ..Unit::new(unit.head.clone(), event)
        };
    }

    /// Changes what is known of a unit that runs, and counts it anew.
    fn adjust(&mut self, id: UnitId, change: impl FnOnce(&mut Unit)) {
        let Some(unit) = self.open.get_mut(&id) else { return };
        let before = unit.doing();
        change(unit);
        let after = unit.doing();
        if self.running.contains(&id) {
            *self.counts.at_work(before) -= 1;
            *self.counts.at_work(after) += 1;
        }
    }

    fn end(&mut self, id: UnitId, end: &UnitEnd) -> Option<Unit> {
        let unit = self.open.remove(&id)?;
        self.questions.remove(&id);
        self.beside.remove(&id);
        if unit.head.is_background && unit.head.parent == UnitId::MAIN {
            self.untold.insert(id);
        }
        if unit.head.is_background {
            self.adjust(unit.head.parent, |parent| parent.background -= 1);
        }
        if let Outcome::Failed(_) = &end.outcome {
            self.told(unit.head.parent);
        }
        if !unit.head.is_agent() {
            return Some(unit);
        }
        if self.running.remove(&id) {
            *self.counts.at_work(unit.doing()) -= 1;
        } else {
            self.counts.queued -= 1;
        }
        *self.counts.ended(&end.outcome) += 1;
        Some(unit)
    }

    /// Takes note that a failure in a unit was told: its own need not be.
    fn told(&mut self, unit: UnitId) {
        if let Some(unit) = self.open.get_mut(&unit) {
            unit.has_told = true;
        }
    }
}

/// What a unit does that has started and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It works.
    Work,
    /// Its request has to wait.
    Hold(Hold),
    /// It waits for units that it started.
    Wait,
}

impl Unit {
    /// A unit that waits, as of an event.
    fn new(head: UnitHead, event: &Event) -> Self {
        Self {
            head,
            branch: event.branch.clone(),
            started: None,
            lost_with: None,
            usage: Usage::default(),
            tool_uses: 0,
            last_call: None,
            waiting_calls: 0,
            has_answered: false,
            background: 0,
            hold: None,
            has_told: false,
        }
    }

    /// Tells whether it ever started.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.started.is_some() || self.lost_with.is_some()
    }

    /// Returns what it does, if it has started.
    #[must_use]
    pub fn doing(&self) -> Doing {
        let waits = self.waiting_calls > 0
            || (self.has_answered && self.background > 0)
            || matches!(self.head.origin, Origin::Steps | Origin::Reused(_));
        match self.hold {
            Some(hold) => Doing::Hold(hold),
            None if waits => Doing::Wait,
            None => Doing::Work,
        }
    }

    /// Tells whether people are told how it ended. Where it only holds steps
    /// that is their end, so it is told if it failed and nothing in it has said
    /// so.
    #[must_use]
    pub fn tells(&self, end: &UnitEnd) -> bool {
        let is_news = matches!(end.outcome, Outcome::Failed(_)) && !self.has_told;
        self.head.is_agent() || is_news
    }

    /// Takes note of an event of this unit.
    fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::UnitStarted => self.started = Some(event.at),
            EventKind::Replied(replied) => {
                self.usage += replied.usage;
                self.has_answered = replied.reply.calls.is_empty();
                self.hold = None;
            }
            EventKind::TurnStarted { turn: _ } => self.has_answered = false,
            EventKind::Compacted(compaction) => {
                self.usage += compaction.usage;
                self.hold = None;
            }
            EventKind::Throttled(_) | EventKind::Admitted { waited_ms: _ } => {
                self.hold = hold(event);
            }
            EventKind::RequestFailed(failed) => {
                self.usage += failed.usage;
                self.hold = hold(event);
            }
            EventKind::ToolStarted { call: _, tool, subject, confinement: _ } => {
                self.waiting_calls += u32::from(may_wait_for_agents(tool));
                self.last_call = Some(LastCall { tool: tool.clone(), subject: subject.clone() });
            }
            EventKind::ToolFinished { tool, .. } => {
                self.tool_uses += 1;
                // A call that was refused never began to wait.
                let waited = u32::from(may_wait_for_agents(tool));
                self.waiting_calls = self.waiting_calls.saturating_sub(waited);
            }
            EventKind::Joined { children: _ } => self.branch = event.branch.clone(),
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::UnitQueued(_)
            | EventKind::Lost { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::testing::{Log, ended, queued};
    use crate::event::{AfterFailure, ThrottleCause};
    use crate::report::story::{Story, cancelled, done, failed, skipped, usage};

    #[test]
    fn of_a_unit_that_ends_beside_main_is_known_until_main_is_told() {
        let mut story = Story::new();
        story.batch("b", &["a", "b"]).start(1).start(2);
        story.push(0, EventKind::SetAside { units: vec![UnitId(1)] });
        story.end(1, done("x")).end(2, done("y"));
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        assert_eq!(units.untold(), 1);
        let told = EventKind::Notified { children: vec![UnitId(1)], text: "news".into(), wrote: 0 };
        story.push(0, told);
        drop(units.take(story.events().last().unwrap()));
        assert_eq!(units.untold(), 0);
    }

    #[test]
    fn a_unit_that_main_has_asked_for_is_no_news() {
        let mut story = Story::new();
        story.batch("b", &["a"]).start(1);
        story.push(0, EventKind::SetAside { units: vec![UnitId(1)] });
        story.end(1, done("x"));
        story.push(0, EventKind::Joined { children: vec![UnitId(1)] });
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        assert_eq!(units.untold(), 0);
    }

    #[test]
    fn a_unit_that_waits_for_its_children_does_not_count_as_running() {
        let mut story = Story::new();
        story.batch("b", &["parent", "child"]).start(1).call(1, "c", "Agent", "x").start(2);
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        let counts = Counts { running: 1, waiting: 1, ..Counts::default() };
        assert_eq!(units.counts(), counts);
    }

    #[test]
    fn units_that_are_set_aside_run_in_the_background_from_there_on() {
        let mut story = Story::new();
        story.batch("b", &["a", "b"]).start(1).start(2);
        let aside = EventKind::SetAside { units: vec![UnitId(1), UnitId(2), UnitId(9)] };
        story.push(0, aside).end(1, done("x"));
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        let beside: Vec<UnitId> = units.background().map(|(unit, _)| unit).collect();
        assert_eq!(beside, [UnitId(2)]);
    }

    #[test]
    fn a_unit_that_only_holds_the_branch_of_steps_is_known_and_never_counted() {
        let mut log = Log::default();
        log.put(1, "1", queued("sequence", 0, Origin::Steps, None))
            .put(1, "1", EventKind::UnitStarted)
            .put(2, "1", queued("Alice", 1, Origin::Visible, None))
            .put(2, "1", EventKind::UnitStarted);
        let mut units = Units::default();
        log.events.iter().for_each(|event| drop(units.take(event)));
        let counts = Counts { running: 1, ..Counts::default() };
        assert_eq!(units.counts(), counts);
        let running: Vec<UnitId> = units.running().map(|(unit, _)| unit).collect();
        assert_eq!((running, units.queued().count()), (vec![UnitId(2)], 0));
        assert!(units.get(UnitId(1)).is_some());
        log.put(1, "1", ended(failed("x"), "x"));
        units.take(&log.events[4]);
        assert_eq!(units.counts(), counts);
    }

    /// Tells whether the end of unit 1, which holds steps, is told after what
    /// went before.
    fn holder_tells(before: &[(u32, EventKind)], outcome: Outcome) -> bool {
        let mut log = Log::default();
        log.put(1, "1", queued("each", 0, Origin::Steps, None));
        log.put(1, "1", EventKind::UnitStarted);
        for (unit, kind) in before {
            log.put(*unit, "1", kind.clone());
        }
        log.put(1, "1", ended(outcome, ""));
        let EventKind::UnitEnded(end) = log.events.last().unwrap().kind.clone() else {
            unreachable!()
        };
        let mut units = Units::default();
        let known = log.events.iter().filter_map(|event| units.take(event)).last().unwrap();
        known.tells(&end)
    }

    #[test]
    fn what_holds_steps_tells_only_of_a_failure_that_nothing_in_it_has_told() {
        let declared = |unit, parent, origin| (unit, queued("x", parent, origin, None));
        let ends = |unit, outcome| (unit, ended(outcome, ""));
        let notice =
            |level| (1, EventKind::Notice { level, text: "the step `x` failed: no list".into() });
        let agent = |outcome| [declared(2, 1, Origin::Prompt), ends(2, outcome)];
        assert!(holder_tells(&[], failed("no list")));
        assert!(holder_tells(&[notice(NoticeLevel::Info)], failed("no list")));
        assert!(holder_tells(&agent(done("x")), failed("no list")));
        assert!(!holder_tells(&[notice(NoticeLevel::Warning)], failed("no list")));
        assert!(!holder_tells(&agent(failed("boom")), failed("`x` failed: boom")));
        let deep = [declared(2, 1, Origin::Steps), declared(3, 2, Origin::Prompt)];
        let deep = [&deep[..], &[ends(3, failed("boom")), ends(2, failed("boom"))]].concat();
        assert!(!holder_tells(&deep, failed("boom")));
        for outcome in [done("x"), cancelled(), skipped(), Outcome::Interrupted] {
            assert!(!holder_tells(&[], outcome));
        }
    }

    #[test]
    fn of_slots_declared_together_those_count_that_have_a_model_to_ask() {
        let mut log = Log::default();
        let slot = |index, origin| {
            let EventKind::UnitQueued(mut head) = queued("x", 0, origin, None) else {
                unreachable!()
            };
            head.slot = Some(crate::event::SlotPosition { index, total: 3 });
            EventKind::UnitQueued(head)
        };
        let origins = [Origin::Prompt, Origin::Steps, Origin::Reused(UnitId(9))];
        for (index, origin) in (0..).zip(origins) {
            log.put(index + 1, "", slot(index, origin));
        }
        for (index, origin) in (0..).zip([Origin::Steps, Origin::Fork, Origin::Visible]) {
            log.put(index + 4, "", slot(index, origin));
        }
        let mut units = Units::default();
        let counted = log.events.iter().map(|event| {
            units.take(event);
            units.to_run()
        });
        assert_eq!(counted.collect::<Vec<_>>(), [1, 1, 1, 0, 1, 2]);
    }

    #[test]
    fn a_unit_whose_request_waits_is_throttled_until_it_goes_out_is_answered_or_fails_for_good() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b", "c", "d"]);
        for unit in 1..=4 {
            story.start(unit).turn(unit, 1);
        }
        story.throttled(1, ThrottleCause::Provider, Some(12_000)).retried(2, 1, Some(503));
        story.retried(3, 1, None).throttled(3, ThrottleCause::InFlight, None);
        story.throttled(4, ThrottleCause::Tokens, None).throttled(0, ThrottleCause::Requests, None);
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        assert_eq!(units.counts(), Counts { throttled: 4, ..Counts::default() });
        let hold = |cause, wait_ms| Some((cause, wait_ms));
        assert_eq!(
            [0, 1, 2, 3].map(|unit| units.hold(UnitId(unit)).map(|it| (it.cause, it.wait_ms))),
            [
                hold(HoldCause::Gate(ThrottleCause::Requests), None),
                hold(HoldCause::Gate(ThrottleCause::Provider), Some(12_000)),
                hold(HoldCause::Retry { retry: 1, most: 10 }, Some(3_000)),
                hold(HoldCause::Gate(ThrottleCause::InFlight), None),
            ]
        );

        let told = story.events().len();
        story.admitted(1, 12_000).reply(2, "x", 1, 1).admitted(0, 10);
        story.request_failed(3, 2, Some(503), AfterFailure::Nothing).end(4, cancelled());
        story.events()[told..].iter().for_each(|event| drop(units.take(event)));
        let counts = Counts { running: 3, cancelled: 1, ..Counts::default() };
        assert_eq!(units.counts(), counts);
        assert_eq!([0, 1, 2, 3, 4].map(|unit| units.hold(UnitId(unit))), [None; 5]);
    }

    #[test]
    fn a_request_that_failed_counts_with_its_tokens() {
        let mut story = Story::new();
        story.batch("c", &["a"]).start(1).retried(1, 1, Some(503)).reply(1, "x", 10, 1);
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        assert_eq!(units.get(UnitId(1)).unwrap().usage, usage(15, 1));
    }

    #[test]
    fn every_unit_is_counted_in_exactly_one_state() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a", "b", "c", "d"]);
        story.start(1).start(2).start(3);
        story.end(1, done("x")).end(2, failed("boom")).end(4, skipped());

        let mut units = Units::default();
        for event in story.events() {
            units.take(event);
        }
        assert_eq!(
            units.counts(),
            Counts { running: 1, completed: 1, failed: 1, skipped: 1, ..Counts::default() }
        );
        assert_eq!(units.running().map(|(id, _)| id).collect::<Vec<_>>(), [UnitId(3)]);
    }

    #[test]
    fn a_unit_that_ended_leaves_nothing_but_its_count() {
        let mut story = Story::new();
        let names: Vec<String> = (0..100).map(|index| format!("slot {index}")).collect();
        story.invocation("go").batch("call-1", &names.iter().map(|n| &**n).collect::<Vec<_>>());
        for id in 1..=100 {
            story.start(id).end(id, done("x"));
        }
        let mut units = Units::default();
        for event in story.events() {
            units.take(event);
        }
        assert_eq!(units.open, BTreeMap::new());
        assert_eq!(units.counts(), Counts { completed: 100, ..Counts::default() });
    }

    #[test]
    fn the_end_of_a_unit_returns_what_was_known_of_it() {
        let mut story = Story::new();
        story.invocation("go").batch("call-1", &["a"]).start(1);
        story.reply(1, "hm", 10, 5).call(1, "c-1", "Read", "src/a.rs").output(1, "c-1", "Read", "");
        story.end(1, done("x"));
        let mut units = Units::default();
        let ended: Vec<Unit> =
            story.events().iter().filter_map(|event| units.take(event)).collect();
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].usage, Usage { input: 10, output: 5, ..Usage::default() });
        assert_eq!(ended[0].tool_uses, 1);
        let last = LastCall { tool: "Read".into(), subject: "src/a.rs".into() };
        assert_eq!(ended[0].last_call, Some(last));
    }

    #[test]
    fn a_unit_that_was_lost_is_queued_again_and_counted_once() {
        let mut story = Story::new();
        story.batch("b", &["a", "b"]).start(1).start(2).turn(1, 1);
        story.reply(1, "so far", 10, 2).call(1, "c", "Agent", "x").output(1, "c", "Agent", "gone");
        story.throttled(1, ThrottleCause::Provider, None).lose(1, 1);
        let mut units = Units::default();
        story.events().iter().for_each(|event| drop(units.take(event)));
        let counts = Counts { queued: 1, running: 1, ..Counts::default() };
        assert_eq!(units.counts(), counts);
        let queued: Vec<UnitId> = units.queued().map(|(unit, _)| unit).collect();
        assert_eq!(queued, [UnitId(1)]);
        let known = units.get(UnitId(1)).unwrap();
        assert_eq!((known.started, known.hold, &known.last_call), (None, None, &None));
        assert_eq!((known.usage.total(), known.lost_with.as_deref()), (12, Some("w-7")));
        let mut more = Story::new();
        more.start(1).end(1, done("x"));
        more.events().iter().for_each(|event| drop(units.take(event)));
        assert_eq!(units.counts(), Counts { running: 1, completed: 1, ..Counts::default() });
    }
}
