//! The units of one call that its caller waits for, and what a person may do
//! about them meanwhile: set them aside, or have one run again.
//!
//! What is done is decided by the dispatcher, and is in the log before it
//! arrives here as an [`Order`].

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::batch::{Queued, ends, queue, run_beside};
use super::caller::Caller;
use super::job::Job;
use super::text::Ended;
use crate::event::{SlotPosition, UnitEnd, UnitId};
use crate::line::{Child, Order};
use crate::message::CallId;

/// The units of a call that its caller waits for.
pub(super) struct Waiting {
    caller: Arc<Caller>,
    call: Option<CallId>,
    /// What each place of the call is for.
    jobs: Vec<Arc<Job>>,
    is_batch: bool,
    ordered: mpsc::Receiver<Order>,
    /// What each place of the call has come to.
    ended: Vec<Ended>,
    /// Which units are in which places.
    places: HashMap<UnitId, usize>,
    /// Those that have not ended, whether or not one has taken their place.
    open: BTreeSet<UnitId>,
    /// All that come back to the caller with this call.
    units: Vec<UnitId>,
    cancels: Vec<CancellationToken>,
    running: FuturesUnordered<BoxFuture<'static, (UnitId, Option<Arc<UnitEnd>>)>>,
}

/// What a call is made of.
pub(super) struct Of<'a> {
    pub(super) caller: &'a Caller,
    pub(super) call: Option<&'a CallId>,
    pub(super) jobs: Vec<Arc<Job>>,
    pub(super) is_batch: bool,
}

impl Waiting {
    pub(super) fn new(of: Of<'_>, ended: Vec<Ended>, ordered: mpsc::Receiver<Order>) -> Self {
        let Of { caller, call, jobs, is_batch } = of;
        Self {
            caller: Arc::new(caller.clone()),
            call: call.cloned(),
            jobs,
            is_batch,
            ordered,
            ended,
            places: HashMap::new(),
            open: BTreeSet::new(),
            units: Vec::new(),
            cancels: Vec::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// Waits for a unit, too, whose answer goes to this place.
    pub(super) fn add(&mut self, place: usize, queued: Queued) {
        let unit = queued.seat.unit;
        self.places.insert(unit, place);
        self.open.insert(unit);
        self.units.push(unit);
        self.cancels.push(queued.seat.cancel.clone());
        let caller = Arc::clone(&self.caller);
        self.running.push(Box::pin(async move { (unit, queue(&caller, queued).await) }));
    }

    /// Waits for all of them, as long as nothing else is ordered.
    pub(super) async fn wait(&mut self) {
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                // First: what was set aside is not stopped with the caller.
                Some(order) = self.ordered.recv() => {
                    if self.obey(order, stopped).await.is_break() {
                        return;
                    }
                }
                // The caller's own time limit does not pass through the
                // dispatcher, so its children hear of it here.
                () = self.caller.cancel.cancelled(), if !stopped => {
                    self.cancels.iter().for_each(CancellationToken::cancel);
                    stopped = true;
                }
                next = self.running.next() => match next {
                    Some((unit, end)) => self.ends(unit, end).await,
                    // Nothing more can be ordered; what was is still done.
                    None => {
                        self.ordered.close();
                        let Some(order) = self.ordered.recv().await else { return };
                        if self.obey(order, stopped).await.is_break() {
                            return;
                        }
                    }
                },
            }
        }
    }

    /// Returns what each place has come to, and the units that come back.
    pub(super) fn over(self) -> (Vec<Ended>, Vec<UnitId>) {
        (self.ended, self.units)
    }

    /// Does as is ordered; breaks if that leaves nothing to wait for.
    async fn obey(&mut self, order: Order, stopped: bool) -> ControlFlow<()> {
        match order {
            Order::Aside(units) => {
                self.set_aside(&units).await;
                return ControlFlow::Break(());
            }
            Order::Again(unit) if !stopped => self.run_again(unit).await,
            Order::Again(_) => {}
        }
        ControlFlow::Continue(())
    }

    async fn ends(&mut self, unit: UnitId, end: Option<Arc<UnitEnd>>) {
        self.open.remove(&unit);
        // Another has its place, or it is its caller's no more. Without an end
        // the run was over before it could report.
        if let (Some(&place), Some(end)) = (self.places.get(&unit), end) {
            ends(&self.caller, &mut self.ended, place, end).await;
        }
    }

    /// Lets units go on beside the caller. Of the others the dispatcher has
    /// heard the end, so those are on their way.
    async fn set_aside(&mut self, units: &[UnitId]) {
        for unit in units {
            self.open.remove(unit);
            if let Some(place) = self.places.remove(unit) {
                self.ended[place].is_set_aside(*unit);
            }
        }
        let aside: BTreeSet<UnitId> = units.iter().copied().collect();
        self.units.retain(|unit| !aside.contains(unit));
        // On a task of their own, so that they go on whatever becomes of the
        // caller while it still waits for one that was told to stop.
        let mut rest = std::mem::take(&mut self.running);
        let (say, mut ends) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(end) = rest.next().await {
                // They report their ends themselves; here is said only that
                // the caller need not wait for them.
                let _ = say.send(end).await;
            }
        });
        while !self.open.is_empty()
            && let Some((unit, end)) = ends.recv().await
        {
            self.ends(unit, end).await;
        }
    }

    async fn run_again(&mut self, unit: UnitId) {
        let Some(&place) = self.places.get(&unit) else { return };
        let job = Arc::clone(&self.jobs[place]);
        let total = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        let index = u32::try_from(place).unwrap_or(u32::MAX);
        let position = self.is_batch.then_some(SlotPosition { index, total });
        let child = Child { again: Some(unit), ..job.child(position) };
        let seats = self.caller.line.declare(self.call.clone(), vec![child]).await;
        // None once a cancel has begun: then what the unit came to stays.
        let Some(seat) = seats.and_then(|mut seats| seats.pop()) else { return };
        self.places.remove(&unit);
        self.ended[place] = Ended::not_yet(job.description(), &job.agent());
        let queued = Queued::new(&self.caller, job, seat);
        // The call was set aside before this one was there to be listed.
        if queued.seat.aside.is_cancelled() {
            self.ended[place].is_set_aside(queued.seat.unit);
            return run_beside(&self.caller, queued);
        }
        self.add(place, queued);
    }
}
