//! The coordinator's post: what arrives from workers goes to the slot it is for.
//!
//! There is one for a run. It knows which slots wait for a worker and which are with
//! one, and nothing of what they do there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::engine::{Asked, Engine, EngineError, Heard, Offers, Refused, Request};
use super::near::{Claimant, FromFar};
use super::parcel;
use super::wire::{Beat, Beaten, Claim, Claimed, FarEnd, Frame, ToSlot};
use crate::event::UnitId;

/// Most that waits for one slot to be heard. A slot says more only when what it said
/// before has gone to the dispatcher.
const ARRIVING_CAP: usize = 256;

/// Longest wait of a claim for the ends of those that had its place. Until then a
/// change lands; if that takes longer, its worker is free all the same.
const SETTLING: Duration = Duration::from_secs(1);

/// The post of a run.
pub(super) struct Post {
    pub(super) engine: Engine,
    /// What the run is called on the wire.
    pub(super) run: Arc<str>,
    // A mutex, because slots come and go on tasks of their own.
    slots: Mutex<HashMap<UnitId, Slot>>,
    /// Why nothing arrives any more. It is set while `slots` is locked.
    broken: OnceLock<Arc<str>>,
    /// Fires when a slot is over.
    over: Notify,
    /// How often a slot was granted to a worker.
    grants: AtomicU64,
    // Unbounded: a slot keeps all that it may not have heard, and asks for few
    // things at a time.
    telling: mpsc::UnboundedSender<Said>,
}

/// Something that is said to a slot.
struct Said {
    worker: Arc<str>,
    to: ToSlot,
}

/// Where a slot stands.
struct Slot {
    stand: Stand,
    /// Where what arrives for it goes, from its first grant on: what comes of an attempt
    /// that is lost may still come.
    sender: Option<mpsc::Sender<FromFar>>,
}

enum Stand {
    /// It waits for a worker, who is told to it.
    Waits(oneshot::Sender<Drawn>),
    /// A worker has asked for it and is about to be answered.
    Drawn,
    /// It is with a worker, for this attempt.
    Granted(u32),
}

/// What comes of waiting for a worker.
pub(super) enum Drawn {
    /// One asks for the slot.
    By(Claimant),
    /// None ever will: why.
    Refused(String),
}

/// Where a slot stood when a worker asked for it.
enum Stands {
    Unknown,
    Waits(oneshot::Sender<Drawn>),
    Drawn,
    Granted(mpsc::Sender<FromFar>),
}

impl Post {
    /// Opens the post of the run that is called so, until `over` fires.
    pub(super) async fn open(
        engine: Engine,
        run: Arc<str>,
        over: CancellationToken,
    ) -> Result<Arc<Self>, EngineError> {
        let claims = engine.claims(&run).await?;
        let beats = engine.beats(&run).await?;
        let heard = engine.listen(&run).await?;
        let (telling, said) = mpsc::unbounded_channel();
        let post = Arc::new(Self {
            engine,
            run,
            slots: Mutex::default(),
            broken: OnceLock::new(),
            over: Notify::new(),
            grants: AtomicU64::new(0),
            telling,
        });
        let working = Arc::clone(&post);
        tokio::spawn(over.run_until_cancelled_owned(async move {
            tokio::join!(
                working.claims(claims),
                working.beats(beats),
                working.heard(heard),
                working.tells(said),
            )
        }));
        Ok(post)
    }

    /// Says something to a slot that this worker has. It may be lost.
    pub(super) fn tell(&self, worker: &Arc<str>, to: &ToSlot) {
        // The run is over, if nobody sends it any more.
        let _ = self.telling.send(Said { worker: Arc::clone(worker), to: to.clone() });
    }

    /// Takes note of a slot that waits for a worker, and returns who that is.
    pub(super) fn waits(&self, unit: UnitId) -> oneshot::Receiver<Drawn> {
        let (sender, claimed) = oneshot::channel();
        let mut slots = self.lock();
        if let Some(why) = self.broken.get() {
            let _ = sender.send(Drawn::Refused(why.to_string()));
            return claimed;
        }
        let stand = Stand::Waits(sender);
        match slots.entry(unit) {
            Entry::Occupied(mut slot) => slot.get_mut().stand = stand,
            Entry::Vacant(place) => drop(place.insert(Slot { stand, sender: None })),
        }
        claimed
    }

    /// Takes note of a slot that a worker has drawn for the first time, and returns
    /// what arrives for it from now on.
    pub(super) fn opens(&self, unit: UnitId) -> mpsc::Receiver<FromFar> {
        let (sender, arriving) = mpsc::channel(ARRIVING_CAP);
        let mut slots = self.lock();
        match self.broken.get() {
            Some(why) => drop(sender.try_send(FromFar::Broken(Arc::clone(why)))),
            None => drop(slots.insert(unit, Slot { stand: Stand::Drawn, sender: Some(sender) })),
        }
        arriving
    }

    /// Takes note of a slot that a worker has drawn once more, and that is not yet
    /// granted to it.
    pub(super) fn draws(&self, unit: UnitId) {
        if let Some(slot) = self.lock().get_mut(&unit) {
            slot.stand = Stand::Drawn;
        }
    }

    /// Takes note of a slot that is with a worker from now on.
    pub(super) fn granted(&self, unit: UnitId, attempt: u32) {
        self.grants.fetch_add(1, Ordering::Relaxed);
        if let Some(slot) = self.lock().get_mut(&unit) {
            slot.stand = Stand::Granted(attempt);
        }
    }

    /// Returns how often a slot was granted to a worker.
    pub(super) fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    /// Forgets a slot that is over, or never runs.
    pub(super) fn forget(&self, unit: UnitId) {
        self.lock().remove(&unit);
        self.over.notify_waiters();
    }

    async fn claims(self: &Arc<Self>, mut claims: Asked) {
        while let Some(request) = claims.next().await {
            let answering = Arc::clone(self).claimed(request);
            tokio::spawn(answering);
        }
    }

    async fn claimed(self: Arc<Self>, request: Request) {
        let since = Instant::now();
        let answer = match Claim::decode(&request.payload) {
            Ok(claim) if claim.version != env!("CARGO_PKG_VERSION") => Claimed::Refused(format!(
                "the coordinator is tine {}, this worker is tine {}; install the same on both",
                env!("CARGO_PKG_VERSION"),
                claim.version
            )),
            Ok(claim) => {
                let settling = SETTLING.min(self.engine.lease() / 4);
                // Past that its worker is free all the same.
                let _ = timeout(settling, self.settles(&claim.ended)).await;
                self.answer_to(claim, since).await
            }
            Err(error) => Claimed::Refused(format!("the claim cannot be read: {error}")),
        };
        let answered = async {
            let parcel = parcel::made(&self.engine, answer.encode()).await?;
            self.engine.answer(&request, parcel).await
        };
        let Err(error) = answered.await else { return };
        match answer {
            // Nobody else could be given it.
            Claimed::Granted(grant) => self.cannot_tell((grant.unit, grant.attempt), &error),
            // Whoever asked asks again.
            Claimed::Over | Claimed::Held | Claimed::Refused(_) => {}
        }
    }

    /// Ends an attempt that would wait in vain for what cannot be sent to its worker.
    fn cannot_tell(&self, (unit, attempt): (UnitId, u32), error: &EngineError) {
        let why = format!("what it is told cannot be sent: {}", super::spelt(error)).into();
        if let Some(sender) = self.holder(unit, attempt) {
            // If there is no room it is said again with the next beat.
            let _ = sender.try_send(FromFar::NoEnd { attempt: Some(attempt), why });
        }
    }

    /// Waits until slots are over that a worker has brought to their ends: what comes
    /// over a stream may come later than what that worker says next.
    async fn settles(&self, ended: &[UnitId]) {
        loop {
            let mut over = pin!(self.over.notified());
            over.as_mut().enable();
            if ended.iter().all(|unit| self.sender(*unit).is_none()) {
                return;
            }
            over.await;
        }
    }

    async fn answer_to(&self, claim: Claim, since: Instant) -> Claimed {
        let (reply, answer) = oneshot::channel();
        let claimant = Claimant { worker: claim.worker, had: claim.had, since, reply };
        // If whoever waited is gone, its answer never comes.
        match self.drawn(claim.unit) {
            Stands::Unknown => return Claimed::Over,
            Stands::Drawn => return Claimed::Held,
            Stands::Waits(sender) => drop(sender.send(Drawn::By(claimant))),
            Stands::Granted(sender) => drop(sender.send(FromFar::Claim(claimant)).await),
        }
        answer.await.unwrap_or(Claimed::Over)
    }

    /// Returns where a slot stands that a worker asks for.
    fn drawn(&self, unit: UnitId) -> Stands {
        let mut slots = self.lock();
        let Some(slot) = slots.get_mut(&unit) else { return Stands::Unknown };
        match (&slot.stand, &slot.sender) {
            (Stand::Granted(_), Some(sender)) => Stands::Granted(sender.clone()),
            (Stand::Granted(_) | Stand::Drawn, _) => Stands::Drawn,
            (Stand::Waits(_), _) => match std::mem::replace(&mut slot.stand, Stand::Drawn) {
                Stand::Waits(sender) => Stands::Waits(sender),
                Stand::Drawn | Stand::Granted(_) => Stands::Drawn,
            },
        }
    }

    async fn beats(&self, mut beats: Asked) {
        while let Some(request) = beats.next().await {
            // One that cannot be read is answered by nothing, and its slots are lost.
            let Ok(beat) = Beat::decode(&request.payload) else { continue };
            let Beat { worker: _, slots, broken } = beat;
            let mut gone = Vec::new();
            let mut breaks = |(unit, attempt, why)| {
                let Some(sender) = self.holder(unit, attempt) else {
                    gone.push(unit);
                    return true;
                };
                match sender.try_send(FromFar::NoEnd { attempt: Some(attempt), why }) {
                    Ok(()) => true,
                    Err(TrySendError::Full(_)) => false,
                    // It has just ended.
                    Err(TrySendError::Closed(_)) => {
                        gone.push(unit);
                        true
                    }
                }
            };
            if !broken.into_iter().all(&mut breaks) {
                // There is no room; without an answer the worker says so again.
                continue;
            }
            for (unit, attempt, heard) in slots {
                match self.holder(unit, attempt) {
                    // If there is no room there is much that says the same.
                    Some(sender) => drop(sender.try_send(FromFar::Beat { attempt, heard })),
                    None => gone.push(unit),
                }
            }
            // Without it the worker asks again.
            let _ = self.engine.answer(&request, Beaten { gone }.encode().into()).await;
        }
    }

    async fn heard(&self, mut heard: Heard) {
        let error = loop {
            let said = match heard.next().await {
                Ok(said) => said,
                Err(error) => break error,
            };
            let Some(sender) = self.sender(UnitId(said.unit)) else { continue };
            let read = parcel::opened(&self.engine, said.payload).await.and_then(|bytes| {
                let from = match said.is_result {
                    true => FarEnd::decode(&bytes).map(FromFar::End),
                    false => Frame::decode(&bytes).map(FromFar::Frame),
                };
                from.map_err(|error| error.to_string())
            });
            let from = match read {
                Ok(from) => from,
                // A slot has one result: another attempt's would come too late.
                Err(why) if said.is_result => {
                    let why = format!("what it came to cannot be read: {why}").into();
                    FromFar::NoEnd { attempt: None, why }
                }
                Err(why) => {
                    tracing::warn!("what agent {} says cannot be read: {why}", said.unit);
                    FromFar::Unreadable { attempt: said.attempt }
                }
            };
            // A slot that is over needs nothing more.
            let _ = sender.send(from).await;
        };
        self.breaks(&super::spelt(&error)).await;
    }

    /// Ends all slots: nothing arrives any more.
    async fn breaks(&self, why: &str) {
        let slots: Vec<Slot> = {
            let mut slots = self.lock();
            // What is told of afterwards is refused at once.
            let _ = self.broken.set(why.into());
            slots.drain().map(|(_, slot)| slot).collect()
        };
        self.over.notify_waiters();
        for Slot { stand, sender } in slots {
            if let Some(sender) = sender {
                // As above.
                let _ = sender.send(FromFar::Broken(why.into())).await;
            }
            if let Stand::Waits(sender) = stand {
                let _ = sender.send(Drawn::Refused(why.to_owned()));
            }
        }
    }

    /// Has tickets given out anew that are gone, whenever there was no connection, and
    /// every two leases: a server may have lost some, and drops those that have waited
    /// for a day.
    pub(super) async fn offers_again(&self, offers: &Offers, offer: impl Fn(UnitId)) {
        let mut reconnections = self.engine.reconnections();
        loop {
            // Either way they are looked for.
            let _ = timeout(self.engine.lease() * 2, reconnections.next()).await;
            // What is on its way is not there yet.
            offers.settled().await;
            let waiting = self.waiting();
            if waiting.is_empty() {
                continue;
            }
            match self.engine.offered(&self.run).await {
                Ok(there) => {
                    let gone = waiting.into_iter().filter(|unit| !there.contains(&unit.0));
                    gone.for_each(&offer);
                }
                // They are looked for again.
                Err(error) => tracing::debug!("which tickets are there is not known: {error}"),
            }
        }
    }

    /// Returns the slots that wait for a worker, in their order.
    fn waiting(&self) -> Vec<UnitId> {
        let slots = self.lock();
        let waits = |slot: &Slot| matches!(slot.stand, Stand::Waits(_));
        let waiting = slots.iter().filter_map(|(unit, slot)| waits(slot).then_some(*unit));
        let mut waiting: Vec<UnitId> = waiting.collect();
        waiting.sort();
        waiting
    }

    /// Ends the wait of slots whose tickets no server takes.
    pub(super) async fn refuses(&self, mut refused: Refused) {
        while let Some((job, error)) = refused.next().await {
            if let Stands::Waits(sender) = self.drawn(UnitId(job.unit)) {
                let why = super::spelt(&error);
                let _ = sender.send(Drawn::Refused(why));
            }
        }
    }

    /// Sends what is said to slots, in its order.
    async fn tells(&self, mut telling: mpsc::UnboundedReceiver<Said>) {
        while let Some(Said { worker, to }) = telling.recv().await {
            let told = async {
                let parcel = parcel::made(&self.engine, to.encode()).await?;
                self.engine.tell(&worker, parcel).await
            };
            // What a worker does not get its slot misses, and says so. What cannot be sent
            // it would miss for ever.
            if let Err(error) = told.await {
                self.cannot_tell((to.unit, to.attempt), &error);
            }
        }
    }

    fn sender(&self, unit: UnitId) -> Option<mpsc::Sender<FromFar>> {
        self.lock().get(&unit)?.sender.clone()
    }

    /// Returns where to say that the worker of an attempt lives; `None` if nobody waits
    /// for that attempt.
    fn holder(&self, unit: UnitId, attempt: u32) -> Option<mpsc::Sender<FromFar>> {
        let slots = self.lock();
        let slot = slots.get(&unit)?;
        match slot.stand {
            Stand::Granted(number) if number == attempt => slot.sender.clone(),
            Stand::Granted(_) | Stand::Drawn | Stand::Waits(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<UnitId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const UNIT: UnitId = UnitId(1);

    /// A post at which nothing arrives, and who is there instead of a server.
    async fn post() -> (Post, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let post = Post {
            engine: Engine::unanswered(&address, Duration::from_secs(10)).await,
            run: "run".into(),
            slots: Mutex::default(),
            broken: OnceLock::new(),
            over: Notify::new(),
            grants: AtomicU64::new(0),
            telling: mpsc::unbounded_channel().0,
        };
        (post, listener)
    }

    #[tokio::test]
    async fn a_slot_that_is_drawn_when_nothing_arrives_any_more_hears_of_it() {
        let (post, _listener) = post().await;
        let _claimed = post.waits(UNIT);
        assert!(matches!(post.drawn(UNIT), Stands::Waits(_)));
        post.breaks("it is gone").await;
        // It was packed meanwhile.
        let mut arriving = post.opens(UNIT);
        let from = arriving.recv().await;
        assert!(matches!(&from, Some(FromFar::Broken(why)) if **why == *"it is gone"), "{from:?}");
    }

    #[tokio::test]
    async fn who_asks_for_a_slot_that_is_drawn_again_is_told_that_it_is_held() {
        let (post, _listener) = post().await;
        let _arriving = post.opens(UNIT);
        post.granted(UNIT, 1);
        // Its worker is lost, and another one has asked for it.
        let _claimed = post.waits(UNIT);
        post.draws(UNIT);
        assert!(matches!(post.drawn(UNIT), Stands::Drawn));
        assert_eq!(post.waiting(), []);
    }
}
