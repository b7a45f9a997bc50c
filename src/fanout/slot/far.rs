//! A unit whose life and end are in two places: it runs on one machine, and is
//! declared and reported on another.

use std::sync::Arc;

use super::left::{context, escape_notes, noted, said};
use super::{Slot, isolation, keep_whole, policy, runs_beside};
use crate::event::{FailureKind, Outcome, UnitEnd};
use crate::fanout::caller::{Caller, Hold};
use crate::fanout::closing::Closing;
use crate::fanout::job::Job;
use crate::fanout::parked::{Elsewhere, Left, Parked};
use crate::fanout::worktree::{Landing, Wanted};
use crate::git::worktree::Snapshot;
use crate::guard::Policy;
use crate::line::{Line, Seat};

/// Runs a unit to what becomes of it, and leaves its end to whoever asked. If that one
/// goes on without it, what a message could continue comes back, too.
///
/// `notice` is what it must know of where it works, if it goes on from a conversation
/// that was held elsewhere.
pub(crate) async fn lived(
    caller: &Caller,
    job: Arc<Job>,
    seat: Seat,
    hold: Arc<Hold>,
    notice: Option<&str>,
) -> (Outcome, Option<Parked>) {
    let stop = seat.cancel.child_token();
    let slot = Slot::new(caller, job, seat, hold);
    let (outcome, parked) = slot.live(&stop, notice).await;
    (outcome, parked.filter(|_| runs_beside(&slot.job, &slot.seat)))
}

/// A unit that lives elsewhere.
pub(crate) struct Far {
    /// Who started it.
    pub(crate) caller: Caller,
    /// Its own line.
    pub(crate) line: Line,
    /// What it was declared as.
    pub(crate) seat: Seat,
    /// What it was started for.
    pub(crate) job: Arc<Job>,
    /// What may keep others from starting.
    pub(crate) closing: Closing,
}

/// What a unit changed elsewhere.
pub(crate) struct Changes {
    /// The state that it began with.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The change, as git writes it; `None` if there is none.
    pub(crate) patch: Option<Vec<u8>>,
}

impl Far {
    /// Returns what it may do before its type of agent has been looked at.
    pub(crate) fn policy(&self) -> Arc<Policy> {
        match &*self.job {
            Job::Typed { .. } | Job::Fork { .. } => Arc::clone(&self.caller.policy),
            Job::Continue { .. } => policy(&self.caller, &self.job),
        }
    }

    /// Puts what it changed into the workspace, as for a worktree here, and reports
    /// its end. `left` is what a message can continue.
    pub(crate) async fn over(
        &self,
        outcome: Outcome,
        changes: Option<Changes>,
        left: Option<Elsewhere>,
    ) -> Option<Arc<UnitEnd>> {
        let outcome = escape_notes(outcome);
        let (outcome, note) = match changes {
            Some(changes) => self.landed(outcome, changes).await,
            None => (outcome, None),
        };
        let Self { caller, line, closing, seat, job } = self;
        // Before its end is known: whoever hears of it may send a message.
        if let Some(left) = left.filter(|_| runs_beside(job, seat)) {
            caller.fanout.parking.keep(seat.unit, self.parked(left));
        }
        let end = over(caller, line, outcome, closing).await;
        end.map(|end| noted(end, note))
    }

    fn parked(&self, left: Elsewhere) -> Parked {
        let Self { caller, job, .. } = self;
        Parked {
            description: Arc::clone(job.description()),
            agent: job.agent(),
            policy: policy(caller, job),
            is_fork: caller.is_fork || job.is_fork(),
            max_tokens: job.max_tokens(),
            timeout: job.timeout(),
            isolation: isolation(&caller.fanout, job),
            former: Arc::from([]),
            left: Left::Elsewhere(Arc::new(left)),
        }
    }

    async fn landed(&self, outcome: Outcome, changes: Changes) -> (Outcome, Option<String>) {
        let Self { caller, line, seat, job, closing: _ } = self;
        let Changes { snapshot, patch } = changes;
        let policy = policy(caller, job);
        let context = context(caller, line, seat, (&caller.place.workspace, &policy));
        let wanted = Wanted {
            line,
            place: &caller.place,
            policy: &policy,
            // What it changed is put in as a patch: no path of the conversation is followed.
            former: &[],
            cancel: &seat.cancel,
            jitter: caller.fanout.jitter.of(seat.unit.0.into()),
        };
        let is_isolated = isolation(&caller.fanout, job).is_some();
        let landing =
            Landing { wanted, snapshot, patch, is_isolated, context: &context, outcome: &outcome };
        match caller.fanout.worktrees.land(landing).await {
            Ok(Some(note)) => said(outcome, note),
            Ok(None) => (outcome, None),
            // What it says it did is not there.
            Err(error) => (Outcome::failed(FailureKind::Setup, error.to_string()), None),
        }
    }
}

/// Reports the end of a unit that did not live here.
pub(crate) async fn over(
    caller: &Caller,
    line: &Line,
    outcome: Outcome,
    closing: &Closing,
) -> Option<Arc<UnitEnd>> {
    let output_file = keep_whole(&caller.fanout, line.unit(), &outcome).await;
    let end = line.ended(outcome, output_file).await;
    closing.hears(end.as_deref());
    end
}
