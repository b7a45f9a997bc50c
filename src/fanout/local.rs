//! Units on this machine: each waits for a permit of the pool and runs in this
//! process.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::caller::{Caller, Hold};
use super::executor::{Begins, SlotExecutor, Submitted, Turn};
use super::pool::Ticket;
use super::slot::{self, Slot};
use crate::event::{FailureKind, Outcome, UnitEnd};
use crate::line::Seat;

/// Runs units in this process, as many at once as its pool has permits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Local;

impl SlotExecutor for Local {
    fn submit(&self, caller: &Caller, _seat: &Seat, _begins: Begins) -> Box<dyn Turn> {
        Box::new(Here(caller.fanout.pool.ticket()))
    }
}

/// A place in the order of arrival.
struct Here(Ticket);

impl Turn for Here {
    fn run<'a>(self: Box<Self>, slot: Submitted<'a>) -> BoxFuture<'a, Option<Arc<UnitEnd>>> {
        Box::pin(run(self.0, slot))
    }
}

async fn run(ticket: Ticket, slot: Submitted<'_>) -> Option<Arc<UnitEnd>> {
    let Submitted { caller, seat, closing, make } = slot;
    let line = caller.line.of(seat.unit);
    let permit = tokio::select! {
        biased;
        () = seat.cancel.cancelled() => None,
        () = closing.closed() => None,
        permit = caller.fanout.pool.acquire(ticket) => Some(permit),
    };
    // Start is a question: once a cancel has begun nobody answers it.
    let permit = match permit {
        Some(permit) if !closing.is_closed() && line.may_start().await => permit,
        Some(_) | None => return slot::never_ran(&line).await,
    };
    let job = match make() {
        Ok(job) => job,
        Err(outcome) => {
            let end = line.ended(outcome, None).await;
            closing.hears(end.as_deref());
            // As for any other: only now may the next one start.
            drop(permit);
            return end;
        }
    };
    let hold = Hold::new(caller.fanout.pool.clone(), ticket, permit, caller.hold.as_deref());
    let slot = Slot::new(caller, job, seat, Arc::new(hold));
    // On a task of its own, so that a caller that panics or is dropped leaves
    // no slot without its end.
    match tokio::spawn(slot.run(closing)).await {
        Ok(end) => end,
        // The slot catches its own panics; this is one on the way to its end.
        Err(_) => {
            let lost = Outcome::failed(FailureKind::Panic, "the slot was lost");
            line.ended(lost, None).await
        }
    }
}
