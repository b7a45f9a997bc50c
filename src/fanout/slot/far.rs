//! A unit whose life and end are in two places: it runs on one machine, and is
//! declared and reported on another.

use std::sync::Arc;

use super::left::{context, noted, said};
use super::{Slot, isolation, keep_whole, policy};
use crate::event::{FailureKind, Outcome, UnitEnd};
use crate::fanout::caller::{Caller, Hold};
use crate::fanout::closing::Closing;
use crate::fanout::job::Job;
use crate::fanout::worktree::{Landing, Wanted};
use crate::git::worktree::Snapshot;
use crate::line::{Line, Seat};

/// Runs a unit to what becomes of it, and leaves its end to whoever asked.
///
/// `notice` is what it must know of where it works, if it goes on from a conversation
/// that was held elsewhere.
pub(crate) async fn lived(
    caller: &Caller,
    job: Arc<Job>,
    seat: Seat,
    hold: Arc<Hold>,
    notice: Option<&str>,
) -> Outcome {
    let stop = seat.cancel.child_token();
    let slot = Slot::new(caller, job, seat, hold);
    // The conversation goes with this process.
    let (outcome, _parked) = slot.live(&stop, notice).await;
    outcome
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
    /// Puts what it changed into the workspace, as for a worktree here, and reports
    /// its end.
    pub(crate) async fn over(
        &self,
        outcome: Outcome,
        changes: Option<Changes>,
    ) -> Option<Arc<UnitEnd>> {
        let (outcome, note) = match changes {
            Some(changes) => self.landed(outcome, changes).await,
            None => (outcome, None),
        };
        let Self { caller, line, closing, .. } = self;
        let end = over(caller, line, outcome, closing).await;
        end.map(|end| noted(end, note))
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
