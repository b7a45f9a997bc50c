//! Units that were lost with the worker they ran on.
//!
//! A worker that dies takes an attempt at a unit with it and not the unit: what
//! is open in it is closed, what it had started is ended, and it waits again,
//! with the same name, branch and budget. Whoever runs it tells of that here,
//! and then asks whether it may start, as for any unit.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::super::ledger::{Ledger, Standing};
use super::{Dispatcher, Out};
use crate::event::{EventKind, Outcome, UnitId};
use crate::line::{Told, UnitEvent};

/// The output of a call that was open when its worker died. No model reads it:
/// the conversation that it stands in is over.
const LOST_WITH_WORKER: &str = "lost with its worker: it may have run, in part or altogether, and what it came to is not known";

/// Which attempt at a unit is lost.
pub(super) struct Attempt {
    pub(super) worker: Arc<str>,
    /// From 1.
    pub(super) number: u32,
}

impl Dispatcher {
    /// Tells whether what a unit says is heard. One whose end is in the log
    /// says nothing any more. Of one that was lost and has not started again
    /// the attempt that is over may have left words on their way: only what is
    /// said about the unit itself counts then.
    pub(super) fn is_heard(&self, unit: UnitId, event: &UnitEvent) -> bool {
        let Some(ledger) = self.units.get(&unit).filter(|ledger| !ledger.has_ended()) else {
            return false;
        };
        let is_about_it = matches!(
            event,
            UnitEvent::MayStart { .. }
                | UnitEvent::Ended { .. }
                | UnitEvent::Told(Told::Notice { .. })
        );
        !ledger.waits_again() || is_about_it
    }

    /// Puts a unit that was lost with its worker back to those that wait. Only
    /// one that runs can be lost. Once a cancel of it has begun the question is
    /// dropped, as that of one that wants to start.
    pub(super) fn lost(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        attempt: Attempt,
        reply: oneshot::Sender<()>,
    ) {
        let ledger = self.ledger(unit);
        let runs = ledger.standing == Standing::Running && ledger.parent.is_some();
        if !runs || ledger.cancel.is_cancelled() {
            return;
        }
        self.end_lost(out, unit);
        self.withdraw(out, unit);
        self.close_calls(out, unit, LOST_WITH_WORKER);
        self.ledger(unit).lost();
        let Attempt { worker, number: attempt } = attempt;
        self.record_synced(out, unit, EventKind::Lost { worker, attempt }, Some(reply));
    }

    /// Ends what a lost unit had started, deepest first: it ran in the same
    /// process. Nobody is told of it, and nobody will ask for it.
    fn end_lost(&mut self, out: &mut Out, unit: UnitId) {
        let below = self.below(unit);
        // First: an end must not become news of a unit that is lost, too.
        for id in below.iter().chain([&unit]) {
            self.ledger(*id).forgets_beside();
        }
        for &id in below.iter().rev() {
            let ledger = self.ledger(id);
            if ledger.has_ended() {
                continue;
            }
            ledger.cancel.cancel();
            let outcome = match ledger.has_run() {
                true => Outcome::Interrupted,
                false => Outcome::Cancelled { ran: false },
            };
            self.withdraw(out, id);
            self.close_calls(out, id, LOST_WITH_WORKER);
            self.end(out, id, outcome, None);
        }
        for id in &below {
            self.units.remove(id);
        }
    }

    /// Returns all that a unit has started and what that has.
    fn below(&self, unit: UnitId) -> BTreeSet<UnitId> {
        let mut below = BTreeSet::new();
        // Whoever starts a unit has the smaller name.
        for (&id, Ledger { parent, .. }) in self.units.range(unit..) {
            if parent.is_some_and(|parent| parent == unit || below.contains(&parent)) {
                below.insert(id);
            }
        }
        below
    }
}
