//! The coordinator's side: it lets the requests of workers through its own gates.
//!
//! A permit is a pass of the gate that is kept here until its worker tells how the
//! request ended, or is silent for a lease.

use std::collections::HashMap;
use std::collections::hash_map;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::words::{Answer, Ask, Tell, ToOffice};
use crate::model::Models;
use crate::model::gate::{Entry, Pass, Shut, Throttle};

/// How often those that wait are told that they still do, and permits are looked
/// through for workers that are silent.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Most permits at a time, and places in queues. Workers go by their share above it.
const PLACES_CAP: usize = 10_000;

/// Something that a worker says.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) payload: Bytes,
    /// Dropping it is no answer.
    pub(super) reply: oneshot::Sender<Vec<u8>>,
}

/// What gives the permits of a run.
pub(in crate::fleet) struct Office {
    models: Arc<Models>,
    /// What the names of lanes are made with.
    run: Arc<str>,
    /// How long a worker may be silent.
    lease: Duration,
    places: HashMap<Key, Place>,
    /// Those whose turn it is not.
    waiting: JoinSet<(Key, Result<Pass, Shut>)>,
}

/// A worker, and its number for a permit.
type Key = (Arc<str>, u64);

/// A permit, or a place in a queue.
struct Place {
    heard_at: Instant,
    stands: Stands,
}

enum Stands {
    Waits { cause: Throttle, _queued: Queued, reply: Option<oneshot::Sender<Vec<u8>>> },
    Passed(Pass),
    Shut(Shut),
}

/// A place in a gate's queue. Dropping it gives the place up.
struct Queued(AbortHandle);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Place {
    /// Answers whoever asks for it, now or when there is something to say.
    fn answer(&mut self, to: oneshot::Sender<Vec<u8>>) {
        match &mut self.stands {
            Stands::Waits { reply, .. } => *reply = Some(to),
            Stands::Passed(_) => say(to, Answer::Passed),
            Stands::Shut(shut) => say(to, Answer::Shut(left(*shut))),
        }
    }
}

impl Office {
    /// The office of a run. Its lanes are those of `models`.
    pub(in crate::fleet) fn new(models: Arc<Models>, run: Arc<str>, lease: Duration) -> Self {
        let (places, waiting) = (HashMap::new(), JoinSet::new());
        Self { models, run, lease, places, waiting }
    }

    /// Answers until nobody can ask any more.
    pub(super) async fn work(mut self, mut questions: mpsc::Receiver<Question>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(turned) = self.waiting.join_next() => self.turned(turned),
                question = questions.recv() => match question {
                    Some(question) => self.hear(question).await,
                    None => return,
                },
                _ = ticks.tick() => self.look_around(),
            }
        }
    }

    async fn hear(&mut self, Question { payload, reply }: Question) {
        match ToOffice::decode(&payload) {
            Some(ToOffice::Ask(ask)) => self.asked(ask, reply).await,
            Some(ToOffice::Tell(tell)) => {
                self.told(tell);
                say(reply, Answer::Noted);
            }
            None => {}
        }
    }

    async fn asked(&mut self, ask: Ask, reply: oneshot::Sender<Vec<u8>>) {
        let Ask { worker, id, lane, bounds, estimate, waits: _ } = ask;
        let is_full = self.places.len() >= PLACES_CAP;
        let key = (worker, id);
        let free = match self.places.entry(key.clone()) {
            hash_map::Entry::Occupied(mut place) => {
                place.get_mut().heard_at = Instant::now();
                return place.get_mut().answer(reply);
            }
            hash_map::Entry::Vacant(free) => free,
        };
        if is_full {
            return;
        }
        // It leads to no other process: that takes no time.
        let entry = self.models.lane_called(&self.run, &lane, bounds).ask(estimate).await;
        let stands = match entry {
            Entry::Passed(pass) => {
                say(reply, Answer::Passed);
                Stands::Passed(pass)
            }
            Entry::Shut(shut) => return say(reply, Answer::Shut(left(shut))),
            Entry::Held(held) => {
                let cause = held.cause();
                say(reply, Answer::Held(cause));
                let turn = self.waiting.spawn(async move { (key, held.wait().await) });
                Stands::Waits { cause, _queued: Queued(turn), reply: None }
            }
        };
        free.insert(Place { heard_at: Instant::now(), stands });
    }

    fn told(&mut self, Tell { worker, alive, ended }: Tell) {
        for (id, end) in ended {
            // What is not known was taken back.
            match self.places.remove(&(Arc::clone(&worker), id)).map(|place| place.stands) {
                Some(Stands::Passed(pass)) => pass.end(end),
                Some(Stands::Waits { .. } | Stands::Shut(_)) | None => {}
            }
        }
        for id in alive {
            if let Some(place) = self.places.get_mut(&(Arc::clone(&worker), id)) {
                place.heard_at = Instant::now();
            }
        }
    }

    /// Somebody's turn has come.
    fn turned(&mut self, turned: Result<(Key, Result<Pass, Shut>), JoinError>) {
        // Whoever has left is told nothing; its pass goes to the next.
        let Ok((key, turn)) = turned else { return };
        let Some(place) = self.places.get_mut(&key) else { return };
        let stands = turn.map_or_else(Stands::Shut, Stands::Passed);
        let before = std::mem::replace(&mut place.stands, stands);
        if let Stands::Waits { cause: _, _queued: _, reply: Some(reply) } = before {
            place.answer(reply);
        }
    }

    /// Takes back what silent workers have, and tells all others that they wait.
    fn look_around(&mut self) {
        let lease = self.lease;
        self.places.retain(|_, place| place.heard_at.elapsed() <= lease);
        for place in self.places.values_mut() {
            if let Stands::Waits { cause, _queued: _, reply } = &mut place.stands
                && let Some(reply) = reply.take()
            {
                say(reply, Answer::Held(*cause));
            }
        }
    }
}

fn say(to: oneshot::Sender<Vec<u8>>, answer: Answer) {
    // Whoever asked may be gone.
    let _ = to.send(answer.encode());
}

fn left(Shut { until }: Shut) -> Duration {
    until.saturating_duration_since(Instant::now())
}
