//! One Agent call: its slots are declared at once, run as permits come, and
//! come back together.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::pool::Ticket;
use super::slot::{self, Slot};
use super::text::{self, Ended};
use crate::event::{FailureKind, Origin, Outcome, SlotPosition};
use crate::line::{Child, Seat, Strand};
use crate::message::{CallId, Output};
use crate::tool::{Task, ToolError};

/// Runs the tasks of one call and returns its output.
///
/// A slot that fails, panics or is cancelled is told in its place of the
/// output; it never ends the batch.
pub(super) async fn run(
    caller: &Caller,
    call: &CallId,
    tasks: Vec<Task>,
    is_batch: bool,
) -> Result<Output, ToolError> {
    let total = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    let children = (0..total).zip(&tasks).map(|(index, task)| Child {
        description: Arc::clone(&task.description),
        agent: Arc::clone(&task.agent),
        slot: is_batch.then_some(SlotPosition { index, total }),
        origin: Origin::Prompt,
        is_background: false,
        strand: Strand::Fresh,
    });
    let Some(seats) = caller.line.declare(Some(call.clone()), children.collect()).await else {
        return Err(ToolError::Cancelled { after: std::time::Duration::ZERO });
    };
    let units = seats.iter().map(|seat| seat.unit).collect();
    let ended = caller.lend_while(run_slots(caller, tasks, seats)).await;
    caller.line.join(units).await;
    if !is_batch {
        return Ok(text::of_single(&ended));
    }
    let workspace = Arc::clone(&caller.fanout.workspace);
    let writing = tokio::task::spawn_blocking(move || text::of_batch(&ended, &workspace.spill));
    Ok(writing.await.expect("a batch's text is put together without panics"))
}

async fn run_slots(caller: &Caller, tasks: Vec<Task>, seats: Vec<Seat>) -> Vec<Ended> {
    let cancels: Vec<CancellationToken> = seats.iter().map(|seat| seat.cancel.clone()).collect();
    let mut ended: Vec<Ended> = tasks.iter().map(Ended::not_yet).collect();
    let mut running: FuturesUnordered<_> = tasks
        .into_iter()
        .zip(seats)
        .enumerate()
        .map(|(index, (task, seat))| {
            // Drawn here, in declared order, before any slot waits.
            let ticket = caller.fanout.pool.ticket();
            queue(caller, index, Queued { task, seat, ticket })
        })
        .collect();
    let mut stopped = false;
    loop {
        tokio::select! {
            biased;
            // The caller's own time limit does not pass through the
            // dispatcher, so its children hear of it here.
            () = caller.cancel.cancelled(), if !stopped => {
                cancels.iter().for_each(CancellationToken::cancel);
                stopped = true;
            }
            next = running.next() => match next {
                Some((index, Some(end))) => {
                    let slots = ended.len();
                    ended[index].ends(&end, slots, &caller.fanout.workspace.spill);
                }
                // The run was over before the slot could report.
                Some((_, None)) => {}
                None => return ended,
            },
        }
    }
}

struct Queued {
    task: Task,
    seat: Seat,
    ticket: Ticket,
}

/// Waits for a permit and runs the slot on it.
async fn queue(
    caller: &Caller,
    index: usize,
    queued: Queued,
) -> (usize, Option<Arc<crate::event::UnitEnd>>) {
    let Queued { task, seat, ticket } = queued;
    let line = caller.line.of(seat.unit);
    let permit = tokio::select! {
        biased;
        () = seat.cancel.cancelled() => None,
        permit = caller.fanout.pool.acquire(ticket) => Some(permit),
    };
    // Start is a question: once a cancel has begun nobody answers it.
    let permit = match permit {
        Some(permit) if line.may_start().await => permit,
        Some(_) | None => return (index, slot::never_ran(&line).await),
    };
    let slot =
        Slot::new(caller, task, seat, super::Hold::new(caller.fanout.pool.clone(), ticket, permit));
    // On a task of its own, so that a caller that panics or is dropped leaves
    // no slot without its end.
    match tokio::spawn(slot.run()).await {
        Ok(end) => (index, end),
        // The slot catches its own panics; this is one on the way to its end.
        Err(_) => {
            let lost = Outcome::failed(FailureKind::Panic, "the slot was lost");
            (index, line.ended(lost, None).await)
        }
    }
}
