//! A worker: it draws tickets, one for each permit it has free, and runs the slots
//! that they stand for.
//!
//! What a slot is run with is made by whoever starts the worker ([`Outfit`]); what
//! becomes of it is the coordinator's to say.

mod change;
mod gone;
mod held;
mod outfits;
mod refusals;
mod room;
mod slot;
mod state;
mod taken;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::engine::{Engine, EngineError, Stop, Stops, Ticket, Tickets, Told};
use super::ground::Grounds;
use super::packet::Packet;
use super::parcel;
use super::shipping::Opened;
use super::wire::ToSlot;
use crate::event::UnitId;
use crate::fanout::{Fanout, Permit, Pool};
use crate::guard::Policy;
use crate::tool::Registry;
use gone::Gone;
use held::Slots;
use outfits::Outfits;
use refusals::Refusals;
use room::Room;
use slot::Drawn;
pub use state::State;

/// What slots are run with in one checkout.
pub struct Outfitted {
    /// What they share.
    pub fanout: Arc<Fanout>,
    /// All tools that there are.
    pub tools: Registry,
    /// What the worker itself allows there.
    pub policy: Policy,
}

/// Makes what slots are run with.
pub trait Outfit: Send + Sync {
    /// Makes it for a run, in the checkout at `root`. May block.
    ///
    /// # Errors
    ///
    /// A sentence for whoever reads of the slot's end.
    fn outfit(&self, packet: &Packet, root: &Path, pool: &Pool) -> Result<Outfitted, String>;
}

/// What a worker is.
pub struct Worker {
    /// The server.
    pub engine: Engine,
    /// What it is called; no other worker is.
    pub name: Arc<str>,
    /// What it is said to have, beside what every worker has.
    pub labels: Vec<Arc<str>>,
    /// How many slots it runs at once.
    pub pool: Pool,
    /// The same, as a number.
    pub most: usize,
    /// What it keeps of the workspaces that it is told of.
    pub grounds: Grounds,
    /// Makes what slots are run with.
    pub outfit: Arc<dyn Outfit>,
    /// Tells whoever runs it what went wrong.
    pub say: fn(&str),
}

/// What all slots of a worker share.
struct Shop {
    engine: Engine,
    name: Arc<str>,
    slots: Slots,
    gone: Gone,
    outfits: Outfits,
    opened: Opened,
    room: Room,
    refusals: Refusals,
    say: fn(&str),
}

impl Worker {
    /// Works until `drain` fires: then it draws no more, and ends when what it has is
    /// over. When `stop` fires it drops what it has; the coordinator gives that to
    /// others.
    ///
    /// # Errors
    ///
    /// If the server does not do as it is asked; then it drops what it has, too.
    pub async fn work(
        self,
        drain: CancellationToken,
        stop: CancellationToken,
    ) -> Result<(), EngineError> {
        let Self { engine, name, labels, pool, most, grounds, outfit, say } = self;
        let slots = Slots::new(Arc::clone(&name), labels.clone(), most);
        let grounds = Arc::new(grounds);
        let room = Room::new(Arc::clone(&grounds), say);
        let outfits = Outfits::new(grounds, outfit, pool.clone());
        let lease = engine.lease();
        let mut tickets = engine.pull(&labels).await?.telling(say);
        let inbox = engine.inbox(&name).await?;
        let stops = engine.stops().await?;
        let opened = Opened::default();
        let shop = Arc::new(Shop {
            engine,
            name,
            slots,
            gone: Gone::new(lease),
            outfits,
            opened,
            room,
            refusals: Refusals::new(say),
            say,
        });
        let attending = Arc::clone(&shop);
        let attending = tokio::spawn(async move { attending.attends((inbox, stops), lease).await });
        let mut attending = AbortOnDropHandle::new(attending);
        let at_work = TaskTracker::new();
        let working = async {
            while let Some(next) = next(&mut tickets, (&pool, &shop), &drain).await {
                let ((ticket, drawn), shop) = (next?, Arc::clone(&shop));
                at_work.spawn(async move { Box::pin(shop.draws(ticket, drawn)).await });
            }
            shop.slots.drains();
            at_work.close();
            tokio::select! {
                () = at_work.wait() => {}
                () = stop.cancelled() => {}
            }
            Ok(())
        };
        let worked = tokio::select! {
            worked = working => worked,
            ended = &mut attending => Err(why_deaf(ended)),
        };
        // What is still there is not wanted, or cannot be heard of any more. Its commands
        // end, and its tickets go to others.
        at_work.close();
        shop.slots.drop_all();
        let dropping = async {
            at_work.wait().await;
            shop.engine.tidied().await;
        };
        let _ = tokio::time::timeout(DROPPING, dropping).await;
        worked
    }
}

/// Returns why a worker hears nothing any more. Where something panicked this does, too:
/// the worker is lost, and its slots go to others.
fn why_deaf(ended: Result<EngineError, JoinError>) -> EngineError {
    match ended {
        Ok(error) => error,
        Err(lost) => std::panic::resume_unwind(lost.into_panic()),
    }
}

/// Draws a ticket with a permit that is free; `None` once it is to draw no more.
async fn next(
    tickets: &mut Tickets,
    (pool, shop): (&Pool, &Shop),
    drain: &CancellationToken,
) -> Option<Result<(Ticket, Drawn), EngineError>> {
    loop {
        tokio::select! {
            biased;
            () = drain.cancelled() => return None,
            () = shop.room.some(async || shop.outfits.shed().await) => {}
        }
        let turn = pool.ticket();
        let permit: Permit = tokio::select! {
            biased;
            () = drain.cancelled() => return None,
            permit = pool.acquire(turn) => permit,
        };
        tokio::select! {
            biased;
            () = drain.cancelled() => return None,
            // What a slot here has started comes first: the slot waits for it.
            () = pool.is_wanted() => drop(permit),
            ticket = tickets.next() => {
                return Some(ticket.map(|ticket| (ticket, Drawn { turn, permit })));
            }
        }
    }
}

/// How often a worker says that it lives, as a part of the lease.
const BEATS: u32 = 4;

/// How long a ticket waits whose slot another worker holds, or for which nobody answers.
const SOON: Duration = Duration::from_millis(250);

/// How long what is dropped may take to end.
const DROPPING: Duration = Duration::from_secs(3);

/// How often a worker says what it is.
const REPORTS: Duration = Duration::from_secs(5);

impl Shop {
    /// Does what is to be done beside the slots, and returns why it cannot go on.
    async fn attends(&self, (inbox, stops): (Told, Stops), lease: Duration) -> EngineError {
        let tidies = self.outfits.tidies();
        let beats = async { tokio::join!(self.beats(lease), self.reports()) };
        let others = async { tokio::join!(self.hears(inbox), beats, self.looks(lease), tidies) };
        tokio::select! {
            error = self.obeys(stops) => error,
            ((), (never, _), ..) = others => match never {},
        }
    }

    /// Says when the server has not been there for a lease, and when it is again.
    async fn looks(&self, lease: Duration) -> Infallible {
        loop {
            let lost = self.engine.is_lost(lease).await;
            (self.say)(&format!("{}; waiting for it", lost.why));
            self.engine.is_back(&lost).await;
            (self.say)(lost.again());
        }
    }

    /// Hands on what is said to slots.
    async fn hears(&self, mut inbox: Told) {
        while let Some(message) = inbox.next().await {
            let Ok(bytes) = parcel::opened(&self.engine, message).await else { continue };
            // What cannot be read is missing, and said again.
            if let Ok(to) = ToSlot::decode(&bytes) {
                self.slots.tell(to).await;
            }
        }
    }

    /// Stops what is to stop, and returns why it does not hear of that any more.
    async fn obeys(&self, mut stops: Stops) -> EngineError {
        loop {
            match stops.next().await {
                Ok(Stop { run, unit }) => {
                    let run = run.into();
                    // First: whoever takes a slot meanwhile looks for that.
                    if unit.is_none() {
                        self.gone.note_over(&run);
                        self.slots.forget(&run);
                    }
                    self.slots.stop(&run, unit.map(UnitId));
                }
                Err(error) => return error,
            }
        }
    }

    /// Says what this worker is, for whoever looks at all of them.
    async fn reports(&self) -> Infallible {
        loop {
            // The next one may arrive.
            let report = self.engine.report(&self.name, self.slots.state().into());
            let _ = tokio::time::timeout(REPORTS, report).await;
            tokio::time::sleep(REPORTS).await;
        }
    }

    /// Renews the leases of what is held, and asks whether it is still wanted.
    async fn beats(&self, lease: Duration) -> Infallible {
        let every = lease / BEATS;
        loop {
            self.slots.beat(&self.engine, (every, lease)).await;
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = self.slots.hurry() => {}
            }
        }
    }
}
