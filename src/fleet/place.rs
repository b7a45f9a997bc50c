//! A slot's place at the post, from when it is queued until it is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::engine::{Job as Ticket, Offers};
use super::load::{Given, Load};
use super::lookout::Lookout;
use super::near::Claimant;
use super::post::{Drawn, Post};
use crate::event::UnitId;
use crate::fanout::{self, Begins, Caller, Permit, Pool};
use crate::line::Line;

/// What all slots of a run have in common.
pub(super) struct Shared {
    pub(super) post: Arc<Post>,
    /// How many are with workers at once, unless that is for these to say.
    pub(super) cap: Option<Pool>,
    pub(super) offers: Counter,
    pub(super) load: Load,
    pub(super) lease: Duration,
    pub(super) lookout: Lookout,
}

/// What a slot waits for.
pub(super) enum Queued {
    /// For as few of its run to be with workers as may be: none of these knows of it.
    ForCap(Pool, fanout::Ticket),
    /// For a worker.
    ForWorker(oneshot::Receiver<Drawn>),
}

/// A slot's place at the post, which goes with it.
pub(super) struct Place {
    pub(super) shared: Arc<Shared>,
    pub(super) unit: UnitId,
    pub(super) begins: Begins,
    /// That it is one of as few as may be with workers at once.
    pub(super) permit: Option<Permit>,
}

/// Where the tickets of a run are given out.
#[derive(Clone)]
pub(super) struct Counter {
    pub(super) offers: Offers,
    pub(super) run: Arc<str>,
    pub(super) label: Option<Arc<str>>,
}

impl Counter {
    pub(super) fn offer(&self, unit: UnitId) {
        let (run, label) = (Arc::clone(&self.run), self.label.clone());
        self.offers.push(Ticket { run, unit: unit.0, label });
    }
}

impl Place {
    /// Has the slot wait for a worker, who is told to what comes back.
    pub(super) fn queues(&self) -> oneshot::Receiver<Drawn> {
        let claimed = self.shared.post.waits(self.unit);
        self.offer();
        claimed
    }

    /// Puts a ticket for the slot into the queue.
    pub(super) fn offer(&self) {
        self.shared.offers.offer(self.unit);
    }

    /// Waits for a worker, and then packs what the slot is given. `None` if there will
    /// be none; the error says why there is none.
    pub(super) async fn drawn(
        &mut self,
        queued: Queued,
        (caller, line): (&Caller, &Line),
    ) -> Option<Result<(Claimant, Given), String>> {
        let claimed = match queued {
            Queued::ForWorker(claimed) => claimed,
            Queued::ForCap(cap, ticket) => {
                self.permit = Some(cap.acquire(ticket).await);
                self.queues()
            }
        };
        let lookout = &self.shared.lookout;
        let drawn = async {
            let drawn = tokio::select! {
                drawn = claimed => drawn,
                never = lookout.looks(line) => match never {},
            };
            match drawn {
                // Before it starts: packing may take its time.
                Ok(Drawn::By(claimant)) => {
                    Some(self.given(caller).await.map(|given| (claimant, given)))
                }
                Ok(Drawn::Refused(why)) => Some(Err(why)),
                Err(_) => None,
            }
        };
        tokio::select! {
            drawn = drawn => drawn,
            never = lookout.listens(line) => match never {},
        }
    }

    /// Packs what a slot that starts now is given.
    pub(super) async fn given(&self, caller: &Caller) -> Result<Given, String> {
        let Shared { post, load, .. } = &*self.shared;
        load.given(&post.engine, caller, &self.begins).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Its ticket, if there is one, is dropped by the worker that draws it.
        self.shared.post.forget(self.unit);
    }
}
