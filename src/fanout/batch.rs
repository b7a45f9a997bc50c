//! One Agent call: its units are declared at once, run as permits come, and
//! come back together; those in the background come back by themselves.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::caller::Caller;
use super::closing::Closing;
use super::executor::{Submitted, Turn};
use super::job::Job;
use super::text::{self, Ended};
use super::waiting::{Of, Waiting};
use crate::event::{SlotPosition, UnitEnd, UnitId};
use crate::line::{ORDERS_CAP, Orders, Seat};
use crate::message::{CallId, Output};
use crate::tool::ToolError;

/// A declared unit that waits for its turn.
pub(super) struct Queued {
    /// What it is started for.
    pub(super) job: Arc<Job>,
    /// What it was declared as.
    pub(super) seat: Seat,
    /// Its place in the order of arrival.
    pub(super) turn: Box<dyn Turn>,
}

impl Queued {
    /// Takes a declared unit into the queue.
    pub(super) fn new(caller: &Caller, job: Arc<Job>, seat: Seat) -> Self {
        let turn = caller.fanout.executor.submit(caller, &seat, job.begins());
        Self { job, seat, turn }
    }
}

/// Runs the jobs of one call and returns its output.
///
/// A slot that fails, panics or is cancelled is told in its place of the
/// output; it never ends the batch.
pub(super) async fn run(
    caller: &Caller,
    call: Option<&CallId>,
    jobs: Vec<Job>,
    is_batch: bool,
) -> Result<Output, ToolError> {
    let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
    let mut ended: Vec<Ended> =
        jobs.iter().map(|job| Ended::not_yet(job.description(), &job.agent())).collect();
    let (orders, ordered) = mpsc::channel(ORDERS_CAP);
    let of = Of { caller, call, jobs, is_batch };
    let queued = declare(&of, orders).await?;
    let (beside, slots): (Vec<_>, Vec<_>) =
        queued.into_iter().enumerate().partition(|(_, queued)| queued.job.is_background());
    for (index, queued) in beside {
        ended[index].goes_on(queued.seat.unit);
        run_beside(caller, queued);
    }
    if !slots.is_empty() {
        let mut waiting = Waiting::new(of, ended, ordered);
        slots.into_iter().for_each(|(place, queued)| waiting.add(place, queued));
        caller.lend_while(waiting.wait()).await;
        let units;
        (ended, units) = waiting.over();
        // None come back if all were set aside.
        if !units.is_empty() {
            caller.line.join(units).await;
        }
    }
    if !is_batch {
        return Ok(text::of_single(&ended));
    }
    Ok(told(caller, ended).await)
}

/// Puts the text of a batch together, on a thread that may block.
pub(crate) async fn told(caller: &Caller, ended: Vec<Ended>) -> Output {
    let workspace = Arc::clone(&caller.fanout.workspace);
    let writing = tokio::task::spawn_blocking(move || text::of_batch(&ended, &workspace.spill));
    writing.await.expect("a batch's text is put together without panics")
}

/// Takes note of the end of one of some slots. What is too long for its share goes
/// to a file, on a thread that may block: only then the others wait for it.
pub(crate) async fn ends(caller: &Caller, slots: &mut [Ended], index: usize, end: Arc<UnitEnd>) {
    let (workspace, count) = (Arc::clone(&caller.fanout.workspace), slots.len());
    if !text::needs_a_file(&end, count) {
        return slots[index].ends(&end, count, &workspace.spill);
    }
    let elsewhere = Ended::not_yet(&Arc::default(), &Arc::default());
    let mut slot = std::mem::replace(&mut slots[index], elsewhere);
    let noting = tokio::task::spawn_blocking(move || {
        slot.ends(&end, count, &workspace.spill);
        slot
    });
    slots[index] = noting.await.expect("a slot's text is put together without panics");
}

/// Starts one job beside its caller and returns its name.
pub(super) async fn start_beside(
    caller: &Caller,
    call: &CallId,
    job: Job,
) -> Result<UnitId, ToolError> {
    let of = Of { caller, call: Some(call), jobs: vec![Arc::new(job)], is_batch: false };
    let mut queued = declare(&of, mpsc::channel(1).0).await?;
    let queued = queued.pop().expect("as many units are declared as there are jobs");
    let unit = queued.seat.unit;
    run_beside(caller, queued);
    Ok(unit)
}

/// Runs a declared unit without waiting for it: it reports its end itself.
pub(super) fn run_beside(caller: &Caller, queued: Queued) {
    let caller = caller.clone();
    tokio::spawn(async move { queue(&caller, queued).await });
}

/// Declares units and submits them, both in order and before any of them waits.
async fn declare(of: &Of<'_>, orders: Orders) -> Result<Vec<Queued>, ToolError> {
    let Of { caller, call, jobs, is_batch } = of;
    let total = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    let place = |index| is_batch.then_some(SlotPosition { index, total });
    let children = (0..total).zip(jobs).map(|(index, job)| job.child(place(index)));
    let seats = caller.line.declare_with(call.cloned(), children.collect(), orders).await;
    let Some(seats) = seats else {
        return Err(ToolError::Cancelled { after: std::time::Duration::ZERO });
    };
    let queued = |(job, seat)| Queued::new(caller, Arc::clone(job), seat);
    Ok(jobs.iter().zip(seats).map(queued).collect())
}

/// Waits for a unit's turn, runs it and reports its end; `None` if the run was over
/// before.
pub(super) async fn queue(caller: &Caller, queued: Queued) -> Option<Arc<UnitEnd>> {
    let Queued { job, seat, turn } = queued;
    let make = Box::new(|| Ok(job));
    turn.run(Submitted { caller, seat, closing: Closing::never(), make }).await
}
