//! The slots that a worker holds: who hears what the coordinator says to them, and
//! which of them are still wanted.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::state::State;
use super::taken::Taken;
use crate::event::UnitId;
use crate::fleet::engine::{Engine, Ticket};
use crate::fleet::far::Heard;
use crate::fleet::wire::{Beat, Beaten, Had, ToSlot};

/// Most slots that are known to be stopped: as many as can be granted in a round trip.
const STOPPED_CAP: usize = 4096;

/// Names a slot among those of all runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) run: Arc<str>,
    pub(super) unit: UnitId,
}

/// A slot that is held.
pub(super) struct Held {
    pub(super) attempt: u32,
    pub(super) ticket: Arc<Ticket>,
    pub(super) to: mpsc::Sender<ToSlot>,
    pub(super) heard: Arc<Heard>,
    /// Fires when it must stop.
    pub(super) cancel: CancellationToken,
    /// Fires when nobody wants to know what it comes to.
    pub(super) dropped: CancellationToken,
}

impl Held {
    fn drop_it(&self) {
        self.dropped.cancel();
        self.cancel.cancel();
    }
}

/// Has a slot held. When it goes the slot is left, whatever it goes for: the lease of
/// one beside which something panicked is not renewed for ever.
#[must_use = "a slot is held only as long as this"]
pub(super) struct Keeping<'a> {
    slots: &'a Slots,
    name: Name,
}

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.name);
    }
}

/// The slots that a worker holds.
pub(super) struct Slots {
    worker: Arc<str>,
    /// What it is said to have.
    labels: Vec<Arc<str>>,
    /// How many slots it takes at once.
    most: usize,
    // A mutex, because slots come and go on tasks of their own.
    held: Mutex<HashMap<Name, Held>>,
    /// What was held of each slot, also of those that are not any more.
    taken: Taken,
    /// What has ended here last: as much as could be held at once.
    ended: Mutex<VecDeque<(Name, Instant)>>,
    /// What was stopped last, held here or not: what was granted may be on its way.
    stopped: Mutex<VecDeque<Name>>,
    lived: Lived,
    hurry: Arc<Notify>,
    is_draining: AtomicBool,
}

impl Slots {
    pub(super) fn new(worker: Arc<str>, labels: Vec<Arc<str>>, most: usize) -> Self {
        Self {
            worker,
            labels,
            most,
            held: Mutex::default(),
            taken: Taken::default(),
            ended: Mutex::default(),
            stopped: Mutex::default(),
            lived: Lived::default(),
            hurry: Arc::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Takes note that no more are taken.
    pub(super) fn drains(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Returns what fires when a slot misses something that was said to it.
    pub(super) fn missing(&self) -> Arc<Notify> {
        Arc::clone(&self.hurry)
    }

    /// Waits until a slot misses something.
    pub(super) async fn hurry(&self) {
        self.hurry.notified().await;
    }

    /// Holds a slot for as long as what comes back is kept, also one that was told to
    /// stop before; `None` if it is held or this attempt was: its ticket came again before
    /// it was granted.
    pub(super) fn take(&self, name: Name, held: Held) -> Option<Keeping<'_>> {
        self.lived.note(&name.run);
        let cancel = held.cancel.clone();
        match self.lock().entry(name.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => {
                if !self.taken.begins(&name, held.attempt) {
                    return None;
                }
                place.insert(held);
            }
        }
        // Only now: what is stopped from here on is held.
        if self.stopped().contains(&name) {
            cancel.cancel();
        }
        Some(Keeping { slots: self, name })
    }

    /// Takes note of a slot whose result is stored.
    pub(super) fn note_end(&self, name: Name) {
        self.taken.note_end(&name);
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push_back((name, Instant::now()));
        if ended.len() > self.most {
            ended.pop_front();
        }
    }

    /// Returns what was held of a slot last, unless it is held again: its ticket came twice.
    pub(super) fn had(&self, name: &Name) -> Option<Had> {
        let held = self.lock();
        if held.contains_key(name) { None } else { self.taken.had(name) }
    }

    /// Forgets what was held of a run that never goes on.
    pub(super) fn forget(&self, run: &str) {
        self.taken.forget(run);
    }

    /// Returns the slots of a run that have ended here last. One whose end nobody has
    /// heard of for `limit` is not waited for: a server may have lost it.
    pub(super) fn ended(&self, run: &str, limit: Duration) -> Vec<UnitId> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|(_, since)| since.elapsed() < limit);
        ended.iter().filter(|(name, _)| *name.run == *run).map(|(name, _)| name.unit).collect()
    }

    /// Returns what this worker is, for whoever looks at all of them.
    pub(super) fn state(&self) -> Vec<u8> {
        let (labels, most) = (self.labels.clone(), self.most);
        let running = self.lock().len();
        let is_draining = self.is_draining.load(Ordering::Relaxed);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        State { version, labels, most, running, is_draining }.encode()
    }

    /// Tells whether a slot is held.
    pub(super) fn has(&self, name: &Name) -> bool {
        self.lock().contains_key(name)
    }

    /// Hands on what was said to a slot.
    pub(super) async fn tell(&self, to: ToSlot) {
        let name = Name { run: Arc::clone(&to.run), unit: to.unit };
        let sender = self.lock().get(&name).map(|held| held.to.clone());
        if let Some(sender) = sender {
            // It may be over by now.
            let _ = sender.send(to).await;
        }
    }

    /// Has a slot stop, also one that is still to come: none is granted again that was
    /// told to. Without a unit, all of a run that are held, of which nobody wants to know
    /// any more.
    pub(super) fn stop(&self, run: &Arc<str>, unit: Option<UnitId>) {
        if let Some(unit) = unit {
            let mut stopped = self.stopped();
            stopped.push_back(Name { run: Arc::clone(run), unit });
            if stopped.len() > STOPPED_CAP {
                stopped.pop_front();
            }
        }
        for (name, held) in self.lock().iter() {
            match unit {
                Some(unit) if name.run == *run && name.unit == unit => held.cancel.cancel(),
                None if name.run == *run => held.drop_it(),
                Some(_) | None => {}
            }
        }
    }

    /// Has a slot stop, of which nobody will know what it comes to.
    pub(super) fn drop_one(&self, name: &Name) {
        if let Some(held) = self.lock().get(name) {
            held.drop_it();
        }
    }

    pub(super) fn drop_all(&self) {
        self.lock().values().for_each(Held::drop_it);
    }

    /// Renews the leases of what is held. What a coordinator does not know any more
    /// is dropped, and so is all that belongs to one that is silent for too long.
    pub(super) async fn beat(&self, engine: &Engine, (every, lease): (Duration, Duration)) {
        let mut runs: HashMap<Arc<str>, Vec<(UnitId, u32, u64)>> = HashMap::new();
        let mut tickets = Vec::new();
        for (name, held) in self.lock().iter() {
            let slots = runs.entry(Arc::clone(&name.run)).or_default();
            slots.push((name.unit, held.attempt, held.heard.number()));
            tickets.push(Arc::clone(&held.ticket));
        }
        // Side by side: a coordinator that sleeps keeps nobody else's slots waiting, and a
        // server that is away keeps nobody from looking how long it has been silent.
        let renewing = join_all(tickets.iter().map(|ticket| ticket.progress()));
        let asking = runs.into_iter().map(|(run, slots)| self.asks(engine, run, slots));
        let asking = join_all(asking.map(|asking| timeout(every, asking)));
        // What was not renewed in time is renewed with the next beat.
        let _ = tokio::join!(timeout(every, renewing), asking);
        let runs: HashSet<Arc<str>> =
            self.lock().keys().map(|name| Arc::clone(&name.run)).collect();
        for run in self.lived.silent(runs, lease * 2) {
            self.stop(&run, None);
        }
    }

    /// Asks a coordinator whether it still wants its slots.
    async fn asks(&self, engine: &Engine, run: Arc<str>, slots: Vec<(UnitId, u32, u64)>) {
        let attempts: HashMap<_, _> =
            slots.iter().map(|&(unit, attempt, _)| (unit, attempt)).collect();
        let beat = Beat { worker: Arc::clone(&self.worker), slots, broken: Vec::new() };
        let answer = engine.beat(&run, beat.encode().into()).await.ok();
        let Some(Beaten { gone }) = answer.and_then(|answer| Beaten::decode(&answer).ok()) else {
            return;
        };
        self.lived.note(&run);
        for unit in gone {
            if let Some(&attempt) = attempts.get(&unit) {
                self.drop_attempt(&Name { run: Arc::clone(&run), unit }, attempt);
            }
        }
    }

    /// Drops a slot that is held for this attempt: it may have been granted anew.
    fn drop_attempt(&self, name: &Name, attempt: u32) {
        if let Some(held) = self.lock().get(name).filter(|held| held.attempt == attempt) {
            held.drop_it();
        }
    }

    fn stopped(&self) -> MutexGuard<'_, VecDeque<Name>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the coordinators of runs were last heard of.
#[derive(Default)]
struct Lived(Mutex<HashMap<Arc<str>, Instant>>);

impl Lived {
    fn note(&self, run: &Arc<str>) {
        self.lock().insert(Arc::clone(run), Instant::now());
    }

    /// Returns those of these runs whose coordinators have been silent for longer than
    /// this, and forgets all others.
    fn silent(&self, runs: HashSet<Arc<str>>, limit: Duration) -> Vec<Arc<str>> {
        let mut lived = self.lock();
        lived.retain(|run, _| runs.contains(run));
        let mut silent = Vec::new();
        for run in runs {
            // Of one that is new here nothing is missing yet.
            let since = lived.entry(Arc::clone(&run)).or_insert_with(Instant::now);
            if since.elapsed() > limit {
                silent.push(run);
            }
        }
        silent
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures_util::FutureExt as _;
    use tokio::task::unconstrained;
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::fleet::engine::Job;

    const LEASE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_run_is_silent_once_nothing_was_heard_of_it_for_that_long() {
        let lived = Lived::default();
        let run: Arc<str> = "run".into();
        let silent = || lived.silent(HashSet::from([Arc::clone(&run)]), LEASE);
        // Its first slot was taken while the others were looked at.
        assert_eq!(silent(), []);
        advance(LEASE / 2).await;
        lived.note(&run);
        advance(LEASE).await;
        assert_eq!(silent(), []);
        advance(Duration::from_secs(1)).await;
        assert_eq!(silent(), [Arc::clone(&run)]);
    }

    /// An engine that reaches nobody, and who is there instead.
    async fn unanswered() -> (Engine, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (Engine::unanswered(&address, LEASE).await, listener)
    }

    fn name() -> Name {
        Name { run: "run".into(), unit: UnitId(1) }
    }

    /// A slot that is held, and what fires when it is dropped.
    fn held(engine: &Engine) -> (Held, CancellationToken) {
        let Name { run, unit } = name();
        let dropped = CancellationToken::new();
        let held = Held {
            attempt: 1,
            ticket: Arc::new(Ticket::of(engine, Job { run, unit: unit.0, label: None })),
            to: mpsc::channel(1).0,
            heard: Arc::new(Heard::new(Arc::default())),
            cancel: CancellationToken::new(),
            dropped: dropped.clone(),
        };
        (held, dropped)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_is_granted_twice_is_held_once() {
        let (engine, _listener) = unanswered().await;
        let slots = Slots::new("worker".into(), Vec::new(), 1);
        let ((first, dropped), (second, _)) = (held(&engine), held(&engine));
        let keeping = slots.take(name(), first);
        assert!(slots.take(name(), second).is_none());
        // It is the first one still.
        slots.drop_one(&name());
        assert!(dropped.is_cancelled());
        drop(keeping);
        assert!(!slots.has(&name()));
        // Nor is it once it has gone.
        let (late, _) = self::held(&engine);
        assert!(slots.take(name(), late).is_none());
        let (next, _) = self::held(&engine);
        let keeping = slots.take(name(), Held { attempt: 2, ..next });
        slots.note_end(name());
        assert_eq!(slots.had(&name()), None, "it has it still");
        drop(keeping);
        assert_eq!(slots.had(&name()), Some(Had { attempt: 2, has_ended: true }));
        slots.forget("run");
        assert_eq!(slots.had(&name()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_is_stopped_while_it_is_on_its_way_stops_when_it_comes() {
        let (engine, _listener) = unanswered().await;
        let slots = Slots::new("worker".into(), Vec::new(), 2);
        slots.stop(&name().run, Some(name().unit));
        let (first, _) = held(&engine);
        let cancel = first.cancel.clone();
        let _keeping = slots.take(name(), first);
        assert!(cancel.is_cancelled());
        let (second, dropped) = held(&engine);
        let cancel = second.cancel.clone();
        let _keeping = slots.take(Name { unit: UnitId(2), ..name() }, second);
        assert!(!cancel.is_cancelled() && !dropped.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_said_of_an_attempt_that_is_gone_drops_no_later_one() {
        let (engine, _listener) = unanswered().await;
        let slots = Slots::new("worker".into(), Vec::new(), 1);
        let (held, dropped) = held(&engine);
        let attempt = held.attempt;
        let _keeping = slots.take(name(), held);
        slots.drop_attempt(&name(), attempt - 1);
        assert!(!dropped.is_cancelled());
        slots.drop_attempt(&name(), attempt);
        assert!(dropped.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_nobody_hears_of_is_not_waited_for_for_ever() {
        let slots = Slots::new("worker".into(), Vec::new(), 2);
        let ended = || slots.ended("run", LEASE * 2);
        slots.note_end(name());
        advance(LEASE).await;
        slots.note_end(Name { unit: UnitId(2), ..name() });
        assert_eq!(ended(), [UnitId(1), UnitId(2)]);
        advance(LEASE).await;
        assert_eq!(ended(), [UnitId(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_dropped_after_two_leases_though_nothing_goes_out() {
        let (engine, _listener) = unanswered().await;
        let (held, dropped) = held(&engine);
        let slots = Slots::new("worker".into(), Vec::new(), 1);
        let _keeping = slots.take(name(), held).unwrap();
        let since = Instant::now();
        // As much waits to go out as may.
        while unconstrained(engine.tell("nobody", "x".into())).now_or_never().is_some() {}
        let every = LEASE / 4;
        let beating = async {
            while !dropped.is_cancelled() {
                slots.beat(&engine, (every, LEASE)).await;
                sleep(every).await;
            }
        };
        let beaten = timeout(LEASE * 10, beating).await;
        assert!(beaten.is_ok(), "it waits for the server");
        assert!(since.elapsed() < LEASE * 3, "{:?}", since.elapsed());
    }
}
