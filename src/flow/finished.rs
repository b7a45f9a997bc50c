//! What earlier walks of a flow came to: a fold over the events of a session.
//!
//! A step that was asked the very same before, and has answered, need not run
//! again. Whatever was interrupted, failed, was cancelled or is asked something
//! else now is not in here, or is not found.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::event::{
    Event, EventKind, Failure, FailureKind, FlowHead, Invocation, Origin, Outcome, StepDigest,
    StepMark, UnitEnd, UnitHead, UnitId,
};
use crate::session::{self, LogError};

/// What earlier walks of flows came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    /// By the names of flows, then by the places of their steps.
    flows: HashMap<Arc<str>, HashMap<Arc<str>, Done>>,
    /// The same for steps that failed.
    failed: HashMap<Arc<str>, HashMap<Arc<str>, Done>>,
    /// Whether steps that failed are not run again either.
    reuses_failures: bool,
    /// Which flow each invocation walks.
    walks: HashMap<Invocation, Arc<FlowHead>>,
    /// The steps that have not ended.
    open: HashMap<UnitId, Open>,
}

/// A step that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Done {
    /// The unit that was asked.
    pub(super) unit: UnitId,
    digest: StepDigest,
    pub(super) end: Arc<UnitEnd>,
}

#[derive(Debug, Clone, PartialEq)]
struct Open {
    flow: Arc<str>,
    mark: StepMark,
    /// The unit that was asked first.
    unit: UnitId,
}

impl Finished {
    /// Reads what a session holds of it. A walk that did not succeed though none
    /// of its steps failed has left nothing: it is walked anew.
    ///
    /// # Errors
    ///
    /// There is no log that can be read.
    pub fn read(session: &Path) -> Result<Self, LogError> {
        let mut finished = Self::default();
        for event in session::read(session)?.events() {
            finished.take(&event);
            finished.forget_if_unmet(&event);
        }
        Ok(finished)
    }

    /// Reads what a session holds of walks that were cut off. One whose steps did their
    /// work is over: whoever asks for its flow after that wants it anew.
    ///
    /// # Errors
    ///
    /// There is no log that can be read.
    pub fn read_cut_off(session: &Path) -> Result<Self, LogError> {
        let mut finished = Self::default();
        for event in session::read(session)?.events() {
            finished.take(&event);
            finished.forget_if_over(&event);
        }
        Ok(finished)
    }

    /// Forgets what steps came to with the end of a walk that did not succeed though
    /// none of them failed: asked again, they may do better.
    fn forget_if_unmet(&mut self, event: &Event) {
        if let Some((walk, false)) = self.over(event) {
            self.flows.remove(&walk.name);
        }
    }

    /// Forgets all walks of a flow with the end of one whose steps did their work.
    fn forget_if_over(&mut self, event: &Event) {
        let Some((over, _)) = self.over(event) else { return };
        self.walks.retain(|_, walk| walk.name != over.name);
        self.flows.remove(&over.name);
        self.failed.remove(&over.name);
    }

    /// Returns the walk that an event ends whose steps did their work, and whether it
    /// has succeeded.
    fn over(&self, event: &Event) -> Option<(Arc<FlowHead>, bool)> {
        let EventKind::InvocationEnded(end) = &event.kind else { return None };
        let walk = self.walks.get(&event.invocation)?;
        let has_succeeded = match &end.outcome {
            Outcome::Done { text: _ } => true,
            // Where a step failed, those that did their work need not run again.
            Outcome::Failed(Failure { kind: FailureKind::Unmet, message: _ })
                if self.failed.get(&walk.name).is_none_or(HashMap::is_empty) =>
            {
                false
            }
            Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => {
                return None;
            }
        };
        Some((Arc::clone(walk), has_succeeded))
    }

    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        if let EventKind::Walked(head) = &event.kind {
            self.walks.insert(event.invocation, Arc::clone(head));
        } else if let EventKind::UnitQueued(head) = &event.kind {
            self.queued(event, head);
        } else if let EventKind::UnitEnded(end) = &event.kind {
            self.ended(event.unit, end);
        }
    }

    /// Has steps that failed when they were asked the very same fail again at
    /// once, with the same words, instead of being run.
    #[must_use]
    pub fn with_failures(self) -> Self {
        Self { reuses_failures: true, ..self }
    }

    /// Returns what the last walk of a flow was begun with.
    #[must_use]
    pub fn last_walk(&self, flow: &str) -> Option<&Arc<FlowHead>> {
        let walks = self.walks.iter().filter(|(_, head)| *head.name == *flow);
        walks.max_by_key(|(invocation, _)| **invocation).map(|(_, head)| head)
    }

    /// Tells whether a flow of this name was walked.
    #[must_use]
    pub fn has_walked(&self, flow: &str) -> bool {
        self.walks.values().any(|head| *head.name == *flow)
    }

    /// Finds what a step of a flow came to when it was asked the very same.
    pub(super) fn find<'a>(&'a self, flow: &str, mark: &StepMark) -> Option<&'a Done> {
        let find = |flows: &'a HashMap<Arc<str>, HashMap<Arc<str>, Done>>| {
            flows.get(flow)?.get(&mark.key).filter(|done| done.digest == mark.digest)
        };
        let failed = || find(&self.failed).filter(|_| self.reuses_failures);
        find(&self.flows).or_else(failed)
    }

    fn queued(&mut self, event: &Event, head: &UnitHead) {
        let Some((mark, walk)) = head.step.as_ref().zip(self.walks.get(&event.invocation)) else {
            return;
        };
        let unit = match head.origin {
            Origin::Reused(first) => first,
            Origin::Prompt
            | Origin::Visible
            | Origin::Fork
            | Origin::Continued(_)
            | Origin::Steps => event.unit,
        };
        let open = Open { flow: Arc::clone(&walk.name), mark: mark.clone(), unit };
        self.open.insert(event.unit, open);
    }

    fn ended(&mut self, unit: UnitId, end: &Arc<UnitEnd>) {
        let Some(Open { flow, mark, unit }) = self.open.remove(&unit) else { return };
        let flows = match &end.outcome {
            Outcome::Done { text: _ } => {
                if let Some(failed) = self.failed.get_mut(&flow) {
                    failed.remove(&mark.key);
                }
                &mut self.flows
            }
            // It says something of the key and nothing of the step.
            Outcome::Failed(failure) if failure.kind == FailureKind::Authentication => return,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Cancelled { ran: _ } | Outcome::Interrupted => return,
        };
        let done = Done { unit, digest: mark.digest, end: Arc::clone(end) };
        flows.entry(flow).or_default().insert(mark.key, done);
    }
}

impl<'a> FromIterator<&'a Event> for Finished {
    fn from_iter<I: IntoIterator<Item = &'a Event>>(events: I) -> Self {
        let mut finished = Self::default();
        events.into_iter().for_each(|event| finished.take(event));
        finished
    }
}

#[cfg(test)]
mod tests;
