//! The slots that a worker holds: who hears what the coordinator says to them, and
//! which of them are still wanted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::state::State;
use crate::event::UnitId;
use crate::fleet::engine::{Engine, Ticket};
use crate::fleet::far::Heard;
use crate::fleet::wire::{Beat, Beaten, ToSlot};

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

/// The slots that a worker holds.
pub(super) struct Slots {
    worker: Arc<str>,
    /// What it is said to have, and how many slots it takes at once.
    is: (Vec<Arc<str>>, usize),
    // A mutex, because slots come and go on tasks of their own.
    held: Mutex<HashMap<Name, Held>>,
    /// What has ended here last: as much as could be held at once.
    ended: Mutex<VecDeque<Name>>,
    /// When the coordinators of runs were last heard of.
    lived: Mutex<HashMap<Arc<str>, Instant>>,
    hurry: Arc<Notify>,
    is_draining: AtomicBool,
}

impl Slots {
    pub(super) fn new(worker: Arc<str>, is: (Vec<Arc<str>>, usize)) -> Self {
        Self {
            worker,
            is,
            held: Mutex::default(),
            ended: Mutex::default(),
            lived: Mutex::default(),
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

    pub(super) fn take(&self, name: Name, held: Held) {
        self.lived().insert(Arc::clone(&name.run), Instant::now());
        self.lock().insert(name, held);
    }

    pub(super) fn leave(&self, name: &Name) {
        self.lock().remove(name);
    }

    /// Takes note of a slot whose result is stored.
    pub(super) fn note_end(&self, name: Name) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push_back(name);
        if ended.len() > self.is.1 {
            ended.pop_front();
        }
    }

    /// Returns the slots of a run that have ended here last.
    pub(super) fn ended(&self, run: &str) -> Vec<UnitId> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().filter(|name| *name.run == *run).map(|name| name.unit).collect()
    }

    /// Returns what this worker is, for whoever looks at all of them.
    pub(super) fn state(&self) -> Vec<u8> {
        let (labels, most) = &self.is;
        let running = self.lock().len();
        let is_draining = self.is_draining.load(Ordering::Relaxed);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        State { version, labels: labels.clone(), most: *most, running, is_draining }.encode()
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

    /// Has a slot stop; without a unit, all of a run, of which nobody wants to know
    /// any more.
    pub(super) fn stop(&self, run: &str, unit: Option<UnitId>) {
        for (name, held) in self.lock().iter() {
            match unit {
                Some(unit) if *name.run == *run && name.unit == unit => held.cancel.cancel(),
                None if *name.run == *run => held.drop_it(),
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
        join_all(tickets.iter().map(|ticket| ticket.progress())).await;
        let asking = runs.into_iter().map(|(run, slots)| self.asks(engine, run, slots));
        // Side by side: a coordinator that sleeps keeps nobody else's slots waiting.
        let asking = asking.map(|asking| timeout(every, asking));
        join_all(asking).await;
        let runs: HashSet<Arc<str>> =
            self.lock().keys().map(|name| Arc::clone(&name.run)).collect();
        self.lived().retain(|run, _| runs.contains(run));
        for run in runs {
            let since = self.lived().get(&run).copied();
            if since.is_none_or(|since| since.elapsed() > lease * 2) {
                self.stop(&run, None);
            }
        }
    }

    /// Asks a coordinator whether it still wants its slots.
    async fn asks(&self, engine: &Engine, run: Arc<str>, slots: Vec<(UnitId, u32, u64)>) {
        let beat = Beat { worker: Arc::clone(&self.worker), slots, broken: Vec::new() };
        let answer = engine.beat(&run, beat.encode().into()).await.ok();
        let Some(Beaten { gone }) = answer.and_then(|answer| Beaten::decode(&answer).ok()) else {
            return;
        };
        self.lived().insert(Arc::clone(&run), Instant::now());
        for unit in gone {
            if let Some(held) = self.lock().get(&Name { run: Arc::clone(&run), unit }) {
                held.drop_it();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lived(&self) -> MutexGuard<'_, HashMap<Arc<str>, Instant>> {
        self.lived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
