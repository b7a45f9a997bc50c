//! Units on other machines.
//!
//! A unit that is submitted becomes a ticket in a queue that all workers share. The
//! worker that draws it asks for the slot: only then the unit asks to start, and its
//! task is put together and handed out. From then on its line leads here, and to the
//! dispatcher, as if it ran in this process. If its worker is lost, another one gets
//! it from its beginning.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, interval_at, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::engine::{Engine, EngineError, Job as Ticket, Offers};
use super::grant::grant;
use super::load::{Given, Load};
use super::lookout::Lookout;
use super::near::{self, Attempt, Claimant, Ended, FromFar, Near, STOPPING};
use super::permits::{self, Office};
use super::post::{Drawn, Post};
use super::wire::{Claimed, FarEnd, ToSlot};
use crate::event::{FailureKind, Outcome, UnitEnd, UnitId};
use crate::fanout::{
    self, Begins, Caller, Changes, Elsewhere, Far, Local, Permit, Pool, SlotExecutor, Submitted,
    Turn,
};
use crate::line::{Ahead, Line, Seat};
use crate::model::Models;

/// How often a slot is given to a worker. What takes three workers with it would
/// take the others, too.
const ATTEMPTS: u32 = 3;

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

/// What all slots of a run have in common.
struct Shared {
    post: Arc<Post>,
    /// How many are with workers at once, unless that is for these to say.
    cap: Option<Pool>,
    offers: Counter,
    load: Load,
    lease: Duration,
    lookout: Lookout,
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
            tokio::join!(served.refuses(refused), served.offers_again(|unit| again.offer(unit)))
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
            Some(cap) => Queued::Here(cap.clone(), cap.ticket()),
            None => Queued::There(place.queues()),
        };
        Box::new(There { place, queued })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let Post { engine, run, .. } = &*self.shared.post;
            // Few are given out behind those that are taken back; workers drop these.
            self.offering.cancel();
            let closing = async {
                self.offered.wait().await;
                tokio::join!(engine.stop(run, None), engine.withdraw_run(run))
            };
            // Workers that do not hear of it find nobody who knows their slots.
            let _ = tokio::time::timeout(CLOSING, closing).await;
        })
    }
}

/// A slot's place at the post, which goes with it.
struct Place {
    shared: Arc<Shared>,
    unit: UnitId,
    begins: Begins,
    /// That it is one of as few as may be with workers at once.
    permit: Option<Permit>,
}

/// Where the tickets of a run are given out.
#[derive(Clone)]
struct Counter {
    offers: Offers,
    run: Arc<str>,
    label: Option<Arc<str>>,
}

impl Counter {
    fn offer(&self, unit: UnitId) {
        let (run, label) = (Arc::clone(&self.run), self.label.clone());
        self.offers.push(Ticket { run, unit: unit.0, label });
    }
}

impl Place {
    /// Has the slot wait for a worker, who is told to what comes back.
    fn queues(&self) -> oneshot::Receiver<Drawn> {
        let claimed = self.shared.post.waits(self.unit);
        self.offer();
        claimed
    }

    /// Puts a ticket for the slot into the queue.
    fn offer(&self) {
        self.shared.offers.offer(self.unit);
    }

    /// Waits for a worker, and then packs what the slot is given. `None` if there will
    /// be none; the error says why there is none.
    async fn drawn(
        &mut self,
        queued: Queued,
        (caller, line): (&Caller, &Line),
    ) -> Option<Result<(Claimant, Given), String>> {
        let claimed = match queued {
            Queued::There(claimed) => claimed,
            Queued::Here(cap, ticket) => {
                self.permit = Some(cap.acquire(ticket).await);
                self.queues()
            }
        };
        let drawn = tokio::select! {
            drawn = claimed => drawn,
            never = self.shared.lookout.looks(line) => match never {},
        };
        match drawn {
            // Before it starts: packing may take its time.
            Ok(Drawn::By(claimant)) => {
                Some(self.given(caller).await.map(|given| (claimant, given)))
            }
            Ok(Drawn::Refused(why)) => Some(Err(why)),
            Err(_) => None,
        }
    }

    /// Packs what a slot that starts now is given.
    async fn given(&self, caller: &Caller) -> Result<Given, String> {
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

/// A slot that no worker has drawn.
struct There {
    place: Place,
    queued: Queued,
}

/// What a slot waits for.
enum Queued {
    /// For as few of its run to be with workers as may be: none of these knows of it.
    Here(Pool, fanout::Ticket),
    /// For a worker.
    There(oneshot::Receiver<Drawn>),
}

impl Turn for There {
    fn run<'a>(self: Box<Self>, slot: Submitted<'a>) -> BoxFuture<'a, Option<Arc<UnitEnd>>> {
        Box::pin(self.turn(slot))
    }
}

impl There {
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

/// What became of a slot, what it changed, and what a message can continue.
type Brought = (Outcome, Option<Changes>, Option<Elsewhere>);

fn failed(why: impl Into<String>) -> Brought {
    (Outcome::failed(FailureKind::Setup, why.into()), None, None)
}

fn stopped() -> Brought {
    (Outcome::Cancelled { ran: true }, None, None)
}

/// What comes of waiting for another worker.
enum Again {
    /// It begins anew there, with this.
    By(Claimant, Given),
    /// The lost one has come to an outcome after all.
    Over(FarEnd),
    /// There will be none: why.
    Refused(String),
    /// It is to stop.
    Stopped,
}

/// A slot that is with a worker.
struct Lent {
    place: Place,
    far: Far,
}

impl Lent {
    async fn run(self, (claimant, given): (Claimant, Given)) -> Option<Arc<UnitEnd>> {
        let _stopping = AbortOnDropHandle::new(tokio::spawn(self.stopped()));
        let arriving = self.place.shared.post.opens(self.far.seat.unit);
        let (outcome, changes, left) = Box::pin(self.lived((claimant, given), arriving)).await;
        self.far.over(outcome, changes, left).await
    }

    /// Has its worker stop it once it is to stop, also one that does not hear what is
    /// said to it.
    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let (post, seat) = (Arc::clone(&self.place.shared.post), self.far.seat.clone());
        async move {
            seat.cancel.cancelled().await;
            // It is told on its line, too.
            let _ = post.engine.stop(&post.run, Some(seat.unit.0)).await;
        }
    }

    /// Has workers run it until one has brought it to an outcome.
    async fn lived(
        &self,
        (mut claimant, mut given): (Claimant, Given),
        mut arriving: mpsc::Receiver<FromFar>,
    ) -> Brought {
        let (mut all, mut lost) = (Vec::new(), 0);
        for number in 1.. {
            all.push(given.clone());
            let worker = Arc::clone(&claimant.worker);
            let next = match self.attempt(number, claimant, &given, &mut arriving).await {
                Ended::Over(end) => return self.brought(end, &all).await,
                Ended::Lost(next) => {
                    lost += 1;
                    next
                }
                Ended::NeverBegan(next) => next,
                Ended::Stopped => return stopped(),
                Ended::Broken(why) => return failed(&*why),
            };
            if !self.far.line.lost(worker, number).await {
                return stopped();
            }
            if lost == ATTEMPTS {
                break;
            }
            (claimant, given) = match self.again(next, &mut arriving).await {
                Again::By(claimant, given) => (claimant, given),
                Again::Over(end) => return self.brought(end, &all).await,
                Again::Refused(why) => return failed(why),
                Again::Stopped => return stopped(),
            };
        }
        failed(format!("it was lost with its worker, {ATTEMPTS} times"))
    }

    /// Has one worker run it.
    async fn attempt(
        &self,
        number: u32,
        claimant: Claimant,
        given: &Given,
        arriving: &mut mpsc::Receiver<FromFar>,
    ) -> Ended {
        let Self { place, far } = self;
        let Shared { post, lease, .. } = &*place.shared;
        let Some(Ahead { is_unlimited, news }) = far.line.ahead().await else {
            return Ended::Stopped;
        };
        let grant = grant(far, (number, is_unlimited), given);
        let Claimant { worker, since, reply } = claimant;
        let is_awaited = since.elapsed() < *lease;
        post.granted(far.seat.unit, number);
        // A worker that has gone is silent soon.
        let _ = reply.send(Claimed::Granted(Box::new(grant.clone())));
        let attempt = Attempt {
            run: &post.run,
            number,
            worker: &worker,
            lease: *lease,
            is_awaited,
            connected: &|| post.engine.connected_since(),
            send: &|to: &ToSlot| post.tell(&worker, to),
            grant: &|| Claimed::Granted(Box::new(grant.clone())),
        };
        Near::new(&far.line, &far.seat, news, attempt).relay(arriving).await
    }

    /// Returns what a worker has brought. `given` is what each attempt began with.
    async fn brought(&self, end: FarEnd, given: &[Given]) -> Brought {
        let Shared { post, load, .. } = &*self.place.shared;
        let number = usize::try_from(end.attempt).unwrap_or(usize::MAX);
        let Some(given) = number.checked_sub(1).and_then(|index| given.get(index)) else {
            return failed("a worker has brought what nobody gave it");
        };
        let changes = load.changes(&post.engine, given, end.changes);
        // What one has changed that was told to stop is kept, too; but the server may be
        // away.
        let stops = async {
            self.far.seat.cancel.cancelled().await;
            sleep(STOPPING).await;
        };
        tokio::select! {
            biased;
            changes = changes => match changes {
                Ok(changes) => (end.outcome, changes, end.left),
                Err(why) => failed(format!("what it changed did not come back: {why}")),
            },
            () = stops => stopped(),
        }
    }

    /// Takes what a lost worker has come to after all: it runs again, to its end.
    async fn late(&self, end: FarEnd) -> Again {
        match self.far.line.may_start().await {
            true => Again::Over(near::used(&self.far.line, end).await),
            false => Again::Stopped,
        }
    }

    /// Waits for another worker, unless one is there, or for what the lost one has
    /// come to after all.
    async fn again(&self, next: Option<Claimant>, arriving: &mut mpsc::Receiver<FromFar>) -> Again {
        let Self { place, far } = self;
        let Shared { post, lease, lookout, .. } = &*place.shared;
        let claimant = match next {
            Some(claimant) => claimant,
            None => {
                let mut claimed = post.waits(far.seat.unit);
                // The ticket that it had may be gone.
                place.offer();
                let mut offered = interval_at(Instant::now() + *lease * 2, *lease * 2);
                let mut looking = pin!(lookout.looks(&far.line));
                loop {
                    tokio::select! {
                        biased;
                        () = far.seat.cancel.cancelled() => return Again::Stopped,
                        drawn = &mut claimed => match drawn {
                            Ok(Drawn::By(claimant)) => break claimant,
                            Ok(Drawn::Refused(why)) => return Again::Refused(why),
                            Err(_) => return Again::Stopped,
                        },
                        Some(from) = arriving.recv() => match from {
                            FromFar::End(end) => return self.late(end).await,
                            // It asked before this one was known to be lost.
                            FromFar::Claim(claimant) => break claimant,
                            FromFar::NoEnd { attempt: None, why } | FromFar::Broken(why) => {
                                return Again::Refused(why.to_string());
                            }
                            FromFar::Frame(_)
                            | FromFar::Beat { .. }
                            | FromFar::NoEnd { .. }
                            | FromFar::Unreadable => {}
                        },
                        _ = offered.tick() => place.offer(),
                        never = &mut looking => match never {},
                    }
                }
            }
        };
        // Whoever asks meanwhile comes too late.
        post.draws(far.seat.unit);
        match far.seat.cancel.run_until_cancelled(place.given(&far.caller)).await {
            None => Again::Stopped,
            Some(Err(why)) => Again::Refused(why),
            Some(Ok(given)) => match far.line.may_start().await {
                true => Again::By(claimant, given),
                false => Again::Stopped,
            },
        }
    }
}
