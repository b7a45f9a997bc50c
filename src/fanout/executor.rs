//! The seam between what asks for units and what runs them.
//!
//! A batch, a flow or a single call declares its units, submits each of them, and
//! awaits what it gets for that. How they are run, on this machine or on others, is
//! behind it: what happens in a unit is told over its line, it stops when its seat's
//! token fires, and it comes back as its one end. So whoever is above this cannot
//! tell one executor from another.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::caller::Caller;
use super::closing::Closing;
use super::job::Job;
use super::parked::Elsewhere;
use crate::event::{Outcome, UnitEnd};
use crate::line::Seat;
use crate::tool::ForkPoint;

/// Runs units, a capped number at a time.
pub trait SlotExecutor: Send + Sync {
    /// Takes a declared unit into the queue, here and now: the turns of those that
    /// were submitted before it come first.
    fn submit(&self, caller: &Caller, seat: &Seat, begins: Begins) -> Box<dyn Turn>;

    /// Leaves nothing behind of a run that is over. Asked once, at its end.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A unit's place in the queue. If it is dropped the unit never runs.
pub trait Turn: Send {
    /// Waits until it has come, runs the unit and reports its end; `None` if the run
    /// was over before.
    fn run<'a>(self: Box<Self>, slot: Submitted<'a>) -> BoxFuture<'a, Option<Arc<UnitEnd>>>;
}

/// What a unit's conversation begins with.
#[derive(Debug, Clone)]
pub enum Begins {
    /// A task, and nothing before it.
    Anew,
    /// What its caller has said until then.
    Forked(Arc<ForkPoint>),
    /// What was said in one that has ended, and that this process holds.
    Ended,
    /// The same, of one that has ended elsewhere.
    EndedElsewhere(Arc<Elsewhere>),
}

/// A declared unit whose turn is to come.
pub struct Submitted<'a> {
    /// The unit that wants it.
    pub(crate) caller: &'a Caller,
    /// What it was declared as.
    pub(crate) seat: Seat,
    /// What may keep it from starting.
    pub(crate) closing: Closing,
    /// Makes what it is started for. Asked only when it starts, and once: a unit
    /// that waits holds nothing that can be put together later. What it comes to if
    /// there is none is the error.
    pub(crate) make: Box<dyn FnOnce() -> Result<Arc<Job>, Outcome> + Send + 'a>,
}
