//! What is open in a unit while it goes on, and what it is doing by that.

use std::collections::{BTreeMap, HashMap};

use super::{Activity, Doing, UnitTrace};
use crate::event::{Invocation, Origin, QuestionId, Seq, UnitHead, UnitId, UnitState, UnixMillis};
use crate::message::{Call, CallId};

use super::super::usage::Spent;

/// What is open in a unit.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Open {
    /// Whether it goes on: of main, whether an invocation does.
    pub(super) is_open: bool,
    /// Whether it was lost with its worker and has not started again.
    pub(super) waits_again: bool,
    /// Its request that is under way.
    pub(super) request: Option<usize>,
    /// Its request that has to wait.
    pub(super) wait: Option<usize>,
    /// Its calls that run.
    pub(super) calls: HashMap<CallId, usize>,
    /// What its calls without an output were given.
    pub(super) given: HashMap<CallId, Call>,
    /// Its questions that have no answer.
    pub(super) questions: BTreeMap<QuestionId, usize>,
    /// How many of its calls may wait for units.
    pub(super) waiting_calls: u32,
    /// Whether its last answer had no calls.
    pub(super) has_answered: bool,
    /// How many units that run beside it have not ended.
    pub(super) beside: u32,
    /// How many units that no call asked for it waits for.
    pub(super) steps: u32,
}

impl UnitTrace {
    pub(super) fn new(
        id: UnitId,
        head: Option<UnitHead>,
        invocation: Invocation,
        queued: UnixMillis,
    ) -> Self {
        Self {
            id,
            head,
            invocation,
            tokens: String::new(),
            path: "main".into(),
            queued,
            started: None,
            ended: None,
            state: UnitState::Queued,
            failure: None,
            doing: Vec::new(),
            spent: Spent::default(),
            turns: 0,
            tool_uses: 0,
            changed: Seq::default(),
            spans: Vec::new(),
            children: Vec::new(),
            open: Open::default(),
        }
    }

    /// Tells whether its parent goes on while it runs.
    pub(super) fn is_beside(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.is_background)
    }

    /// Tells whether it asks models: what only holds steps, or has its answer
    /// from an earlier walk, is at no work, however long it was there.
    pub(super) fn works(&self) -> bool {
        self.head.as_ref().is_none_or(|head| head.origin.asks())
    }

    fn activity(&self) -> Option<Activity> {
        let Open { is_open, wait, questions, waiting_calls, has_answered, beside, steps, .. } =
            &self.open;
        let started = self.started.filter(|_| !self.open.waits_again);
        let holds_steps = self.head.as_ref().is_some_and(|head| head.origin == Origin::Steps);
        let waits = *waiting_calls > 0 || *steps > 0 || (*has_answered && *beside > 0);
        Some(match (is_open, started) {
            (false, _) => return None,
            (true, None) => Activity::Queued,
            (true, Some(_)) if !questions.is_empty() => Activity::Asking,
            (true, Some(_)) if wait.is_some() => Activity::Throttled,
            (true, Some(_)) if waits || holds_steps => Activity::Waiting,
            (true, Some(_)) => Activity::Running,
        })
    }

    /// Takes note of what it does from now on.
    pub(super) fn settle(&mut self, at: UnixMillis, seq: Seq) {
        self.changed = seq;
        let activity = self.activity();
        if let Some(activity) = activity {
            self.state = match activity {
                Activity::Queued => UnitState::Queued,
                Activity::Running | Activity::Waiting => UnitState::Running,
                Activity::Throttled => UnitState::Throttled,
                Activity::Asking => UnitState::AwaitingApproval,
            };
        }
        let current = self.doing.last_mut().filter(|doing| doing.to.is_none());
        if current.as_ref().map(|doing| doing.activity) == activity {
            return;
        }
        if let Some(current) = current {
            current.to = Some(at);
            // What took no time at all says nothing.
            if current.from == at {
                self.doing.pop();
            }
        }
        let again = self
            .doing
            .last_mut()
            .filter(|doing| doing.to == Some(at) && Some(doing.activity) == activity);
        match (again, activity) {
            (Some(again), _) => again.to = None,
            (None, Some(activity)) => self.doing.push(Doing { activity, from: at, to: None }),
            (None, None) => {}
        }
    }

    /// Puts whatever is said to have ended later at a time when it is known to
    /// have been over.
    pub(super) fn cut_at(&mut self, at: UnixMillis) {
        self.ended = self.ended.map(|ended| ended.min(at).max(self.queued));
        for doing in self.doing.iter_mut().rev().take_while(|doing| doing.to > Some(at)) {
            doing.to = Some(at.max(doing.from));
        }
    }

    /// Returns how long it did something, in milliseconds.
    pub(super) fn time(&self, activity: Activity, end: UnixMillis) -> u64 {
        let doing = self.doing.iter().filter(|doing| doing.activity == activity);
        doing.map(|doing| doing.to.unwrap_or(end).since(doing.from)).sum()
    }
}
