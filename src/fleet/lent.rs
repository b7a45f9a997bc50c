//! A slot that is with a worker, or with one after another, until it is over.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::grant::grant;
use super::load::Given;
use super::near::{self, Attempt, Claimant, Ended, FromFar, Near, STOPPING};
use super::place::{Place, Shared};
use super::post::Drawn;
use super::wire::{Claimed, FarEnd, ToSlot};
use crate::event::{FailureKind, Outcome, UnitEnd};
use crate::fanout::{Changes, Elsewhere, Far};
use crate::line::Ahead;

/// How often a slot is given to a worker. What takes three workers with it would
/// take the others, too.
const ATTEMPTS: u32 = 3;

/// What became of a slot, what it changed, and what a message can continue.
type Brought = (Outcome, Option<Changes>, Option<Elsewhere>);

fn failed(why: impl Into<String>) -> Brought {
    (Outcome::failed(FailureKind::Setup, why.into()), None, None)
}

fn cancelled() -> Brought {
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
pub(super) struct Lent {
    pub(super) place: Place,
    pub(super) far: Far,
}

impl Lent {
    pub(super) async fn run(self, (claimant, given): (Claimant, Given)) -> Option<Arc<UnitEnd>> {
        let _stopping = AbortOnDropHandle::new(tokio::spawn(self.stops()));
        let arriving = self.place.shared.post.opens(self.far.seat.unit);
        let (outcome, changes, left) = tokio::select! {
            lived = Box::pin(self.lived((claimant, given), arriving)) => lived,
            never = self.place.shared.lookout.listens(&self.far.line) => match never {},
        };
        self.far.over(outcome, changes, left).await
    }

    /// Has its worker stop it once it is to stop, also one that does not hear what is
    /// said to it.
    fn stops(&self) -> impl Future<Output = ()> + Send + use<> {
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
                Ended::Stopped => return cancelled(),
                Ended::Broken(why) => return failed(&*why),
            };
            if !self.far.line.lost(worker, number).await {
                return cancelled();
            }
            if lost == ATTEMPTS {
                break;
            }
            (claimant, given) = match self.again(next, &mut arriving).await {
                Again::By(claimant, given) => (claimant, given),
                Again::Over(end) => return self.brought(end, &all).await,
                Again::Refused(why) => return failed(why),
                Again::Stopped => return cancelled(),
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
        let Claimant { worker, had: _, since, reply } = claimant;
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
        let post = &self.place.shared.post;
        let number = usize::try_from(end.attempt).unwrap_or(usize::MAX);
        let Some(given) = number.checked_sub(1).and_then(|index| given.get(index)) else {
            return failed("a worker has brought what nobody gave it");
        };
        let changes = given.changes(&post.engine, end.changes);
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
            () = stops => cancelled(),
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
        let Shared { post, lookout, .. } = &*place.shared;
        let claimant = match next {
            Some(claimant) => claimant,
            None => {
                let mut claimed = post.waits(far.seat.unit);
                // The ticket that it had may be gone. Later that is looked for with all
                // that wait.
                place.offer();
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
                            | FromFar::Unreadable { attempt: _ } => {}
                        },
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
