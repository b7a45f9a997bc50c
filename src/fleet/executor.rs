//! Units on other machines.
//!
//! A unit that is submitted becomes a ticket in a queue that all workers share. The
//! worker that draws it asks for the slot: only then the unit asks to start, and its
//! task is put together and handed out. From then on its line leads here, and to the
//! dispatcher, as if it ran in this process. If its worker is lost, another one gets
//! it from its beginning.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::engine::{Engine, EngineError};
use super::lent::Lent;
use super::load::Load;
use super::lookout::Lookout;
use super::permits::{self, Office};
use super::place::{Counter, Place, Queued, Shared};
use super::post::Post;
use crate::event::{FailureKind, Outcome, UnitEnd};
use crate::fanout::{self, Begins, Caller, Far, Local, Pool, SlotExecutor, Submitted, Turn};
use crate::line::Seat;
use crate::model::Models;

/// How long a run that is over waits for the server to know.
const CLOSING: Duration = Duration::from_secs(2);

/// Runs units on workers. What goes on from a conversation that has ended here, or has
/// tools or a model that workers do not have so, runs here.
pub struct Fleet {
    shared: Arc<Shared>,
    /// Ends what gives out tickets, which is waited for there.
    offering: CancellationToken,
    offered: TaskTracker,
    /// Ends what hands out what arrives.
    _over: DropGuard,
}

impl Fleet {
    /// Takes workers for the run that is called so: those with the label, if there is
    /// one. `load` is what all its slots share; requests that workers send pass the
    /// gates of `models`. No more slots than `most` are with workers at once.
    ///
    /// # Errors
    ///
    /// If the server does not do as it is asked.
    pub async fn open(
        engine: Engine,
        (run, label): (Arc<str>, Option<Arc<str>>),
        load: Load,
        models: Arc<Models>,
        most: Option<NonZeroUsize>,
    ) -> Result<Self, EngineError> {
        let lease = engine.lease();
        let over = CancellationToken::new();
        let office = Office::new(models, Arc::clone(load.session()), lease);
        let permits = engine.permits(load.session()).await?;
        let permitting = permits::serve(engine.clone(), permits, office);
        tokio::spawn(over.clone().run_until_cancelled_owned(permitting));
        let (offers, refused) = engine.offer_queue();
        let offers = Counter { offers, run: Arc::clone(&run), label: label.clone() };
        let post = Post::open(engine, run, over.clone()).await?;
        let (served, again) = (Arc::clone(&post), offers.clone());
        let offering = over.child_token();
        let (offered, until) = (TaskTracker::new(), offering.clone());
        offered.spawn(until.run_until_cancelled_owned(async move {
            let again = served.offers_again(&again.offers, |unit| again.offer(unit));
            tokio::join!(served.refuses(refused), again)
        }));
        offered.close();
        let lookout = Lookout::new(Arc::clone(&post), label, lease);
        let cap = most.map(Pool::new);
        let shared = Arc::new(Shared { post, cap, offers, load, lease, lookout });
        Ok(Self { shared, offering, offered, _over: over.drop_guard() })
    }
}

impl SlotExecutor for Fleet {
    fn submit(&self, caller: &Caller, seat: &Seat, begins: Begins) -> Box<dyn Turn> {
        let is_here = match &begins {
            Begins::Anew | Begins::EndedElsewhere(_) => false,
            // It is to have the very tools of its caller: their bytes are in what it
            // goes on from.
            Begins::Forked(point) => {
                let load = &self.shared.load;
                !caller.tools.is_everywhere() || !load.is_asked_alike(&**point.model())
            }
            Begins::Ended => true,
        };
        if is_here {
            return Local.submit(caller, seat, begins);
        }
        let (shared, unit) = (Arc::clone(&self.shared), seat.unit);
        let place = Place { shared, unit, begins, permit: None };
        let queued = match &self.shared.cap {
            Some(cap) => Queued::ForCap(cap.clone(), cap.ticket()),
            None => Queued::ForWorker(place.queues()),
        };
        Box::new(Waiting { place, queued })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let Post { engine, run, .. } = &*self.shared.post;
            // Few are given out behind those that are taken back; workers drop these.
            self.offering.cancel();
            let closing = async {
                self.offered.wait().await;
                tokio::join!(engine.stop(run, None), engine.withdraw_run(run), engine.tidied())
            };
            // Workers that do not hear of it find nobody who knows their slots.
            let _ = tokio::time::timeout(CLOSING, closing).await;
        })
    }
}

/// A slot that no worker has drawn.
struct Waiting {
    place: Place,
    queued: Queued,
}

impl Turn for Waiting {
    fn run<'a>(self: Box<Self>, slot: Submitted<'a>) -> BoxFuture<'a, Option<Arc<UnitEnd>>> {
        Box::pin(self.turn(slot))
    }
}

impl Waiting {
    async fn turn(self: Box<Self>, slot: Submitted<'_>) -> Option<Arc<UnitEnd>> {
        let Submitted { caller, seat, closing, make } = slot;
        let Self { mut place, queued } = *self;
        let line = caller.line.of(seat.unit);
        let drawn = tokio::select! {
            biased;
            () = seat.cancel.cancelled() => None,
            () = closing.closed() => None,
            drawn = place.drawn(queued, (caller, &line)) => drawn,
        };
        let (claimant, given) = match drawn {
            Some(Ok(both)) => both,
            Some(Err(why)) => {
                let outcome = Outcome::failed(FailureKind::Setup, why);
                return fanout::over(caller, &line, outcome, &closing).await;
            }
            None => return fanout::never_ran(&line).await,
        };
        // Start is a question: once a cancel has begun nobody answers it.
        if closing.is_closed() || !line.may_start().await {
            return fanout::never_ran(&line).await;
        }
        let job = match make() {
            Ok(job) => job,
            Err(outcome) => {
                // Nobody runs it, and its ticket goes.
                drop(claimant);
                return fanout::over(caller, &line, outcome, &closing).await;
            }
        };
        let far = Far { caller: caller.clone(), line: line.clone(), seat, job, closing };
        // On a task of its own, so that a caller that panics or is dropped leaves
        // no slot without its end.
        match tokio::spawn(Lent { place, far }.run((claimant, given))).await {
            Ok(end) => end,
            // This is one on the way to its end.
            Err(_) => {
                let lost = Outcome::failed(FailureKind::Panic, "the slot was lost");
                line.ended(lost, None).await
            }
        }
    }
}
