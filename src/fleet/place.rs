//! A slot's place at the post, from when it is queued until it is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::engine::{Job as Ticket, Offers};
use super::load::{Given, Load};
use super::lookout::Lookout;
use super::near::Claimant;
use super::post::{Drawn, Post};
use super::wire::Claimed;
use crate::event::UnitId;
use crate::fanout::{self, Begins, Caller, Permit, Pool};
use crate::line::Line;

/// How often a slot waits for a worker that is still there when all is packed. Then it
/// begins: a workspace of which each state takes longer than that would begin nothing.
const ROUNDS: u32 = 3;

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
        let mut claimed = match queued {
            Queued::ForWorker(claimed) => claimed,
            Queued::ForCap(cap, ticket) => {
                self.permit = Some(cap.acquire(ticket).await);
                self.queues()
            }
        };
        let lookout = &self.shared.lookout;
        let drawn = async {
            let mut round = 1;
            loop {
                let drawn = tokio::select! {
                    drawn = claimed => drawn,
                    never = lookout.looks(line) => match never {},
                };
                let claimant = match drawn {
                    Ok(Drawn::By(claimant)) => claimant,
                    Ok(Drawn::Refused(why)) => return Some(Err(why)),
                    Err(_) => return None,
                };
                // Before it starts: packing may take its time.
                let given = self.given(caller).await;
                let is_awaited = claimant.since.elapsed() < self.shared.lease;
                if is_awaited || given.is_err() || round == ROUNDS {
                    return Some(given.map(|given| (claimant, given)));
                }
                // Its worker has given the ticket back: the slot would be at work nowhere.
                let _ = claimant.reply.send(Claimed::Held);
                claimed = self.queues();
                round += 1;
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
