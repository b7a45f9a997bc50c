//! Storms of 429s: many slots against providers that refuse, in paused time.
//!
//! The provider here counts as providers do, in requests in flight and in
//! windows; the slots do what the agent loop does, with the real gate and the
//! real decisions between.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::{Entry, Gate, Lane, Pass, Quota};
use crate::model::retry::{Decision, Jitter, Policy, Tried, decide};
use crate::model::{ModelError, ModelErrorKind};

const SEEDS: u64 = 20;

/// A window of the provider that counts in windows.
const WINDOW: Duration = Duration::from_secs(10);
/// What it takes in each.
const WINDOW_TAKES: u32 = 10;

/// What a provider takes, and what it says with a refusal.
#[derive(Debug, Clone, Copy)]
struct Terms {
    /// In flight, for the first half of the requests and for the other one.
    in_flight: Option<[u32; 2]>,
    /// Whether it counts in windows too.
    windows: bool,
    /// The status of a refusal for too many in flight, and when to come again: whole
    /// seconds, as in the header. `None` if it does not say, for windows neither.
    refusal: (u16, Option<Duration>),
    /// The mean time of an answer.
    service: Duration,
}

/// The clients of a provider.
#[derive(Debug, Clone, Copy)]
struct Load {
    slots: u32,
    /// Requests of each slot, one after the other.
    requests: u32,
    /// Slots that run at once.
    cap: usize,
    /// The time to start one.
    start: Duration,
    /// The mean time from here to the provider, and back.
    way: Duration,
}

impl Load {
    const fn all(self) -> u32 {
        self.slots * self.requests
    }
}

#[derive(Debug)]
struct Provider {
    terms: Terms,
    /// The number of requests of all slots.
    all: u32,
    start: Instant,
    in_flight: u32,
    /// How many this window has taken, and its number.
    window: (u32, u64),
    seen: Seen,
    /// Requests without an answer, as the client sees them.
    open: u32,
    /// Times that the client was told and that are not over.
    told: Vec<Told>,
}

/// A time that a client was told.
#[derive(Debug)]
struct Told {
    until: Instant,
    /// Other requests that were open at that moment.
    beside: u32,
    /// `true` once one of them was answered.
    is_answered: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    accepted: u32,
    refused: u32,
    /// Requests that were sent before a time that the client had been told, although nothing
    /// had been answered since or as many were open as at that moment.
    early: u32,
    dead: u32,
    /// The work of all requests over what was taken side by side: nothing can
    /// be faster.
    work: Duration,
}

impl Provider {
    fn new(terms: Terms, all: u32) -> Self {
        let (start, seen) = (Instant::now(), Seen::default());
        Self { terms, all, start, in_flight: 0, window: (0, 0), seen, open: 0, told: Vec::new() }
    }

    /// A client sends a request.
    fn send(&mut self) {
        let now = Instant::now();
        self.told.retain(|told| now < told.until);
        let is_early = |told: &Told| !told.is_answered || self.open >= told.beside;
        self.seen.early += u32::from(self.told.iter().any(is_early));
        self.open += 1;
    }

    /// Takes a request or says when to come again.
    fn take(&mut self, service: Duration) -> Result<(), Option<Duration>> {
        let now = Instant::now() - self.start;
        let number = now.as_secs() / WINDOW.as_secs();
        if self.window.1 != number {
            self.window = (0, number);
        }
        let (_, come_again) = self.terms.refusal;
        let half = usize::from(self.seen.accepted >= self.all / 2);
        let most = self.terms.in_flight.map_or(u32::MAX, |most| most[half]);
        if self.in_flight >= most {
            return Err(come_again);
        }
        if self.terms.windows && self.window.0 >= WINDOW_TAKES {
            let next = WINDOW * u32::try_from(number + 1).unwrap();
            return Err(come_again.map(|_| next - now));
        }
        self.in_flight += 1;
        self.seen.accepted += 1;
        self.window.0 += 1;
        self.seen.work += service / most;
        Ok(())
    }
}

/// The same provider for all slots.
#[derive(Clone)]
struct Server(Arc<Mutex<Provider>>);

impl Server {
    fn lock(&self) -> MutexGuard<'_, Provider> {
        self.0.lock().unwrap()
    }

    async fn ask(&self, way: Duration, random: &mut Jitter) -> Result<u64, ModelError> {
        let way = |random: &mut Jitter| way.mul_f64(0.5 + random.draw());
        self.lock().send();
        sleep(way(random)).await;
        let service = self.lock().terms.service.mul_f64(0.5 + random.draw());
        let taken = self.lock().take(service);
        match taken {
            Ok(()) => {
                sleep(service).await;
                self.lock().in_flight -= 1;
                sleep(way(random)).await;
                let mut provider = self.lock();
                provider.open -= 1;
                provider.told.iter_mut().for_each(|told| told.is_answered = true);
                Ok(1_000)
            }
            Err(again) => {
                sleep(way(random)).await;
                let mut provider = self.lock();
                provider.open -= 1;
                provider.seen.refused += 1;
                if let Some(again) = again {
                    let (until, beside) = (Instant::now() + again, provider.open);
                    provider.told.push(Told { until, beside, is_answered: false });
                }
                let (status, _) = provider.terms.refusal;
                let error = ModelError::new(ModelErrorKind::of_status(status), "too many");
                Err(ModelError { status: Some(status), retry_after: again, ..error })
            }
        }
    }
}

async fn pass(lane: &Lane) -> Pass {
    match lane.ask(1_000).await {
        Entry::Passed(pass) => pass,
        Entry::Held(held) => held.wait().await.unwrap(),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

/// Makes the requests of a slot one after the other; tells whether it got
/// through.
async fn slot(lane: Lane, server: Server, load: Load, mut random: Jitter) -> bool {
    for _ in 0..load.requests {
        let mut tried = Tried::default();
        loop {
            let pass = pass(&lane).await;
            match server.ask(load.way, &mut random).await {
                Ok(tokens) => {
                    pass.answered(tokens);
                    break;
                }
                Err(error) => {
                    assert!(error.is_refusal(), "{error:?}");
                    pass.refused(error.retry_after);
                    match decide(&error, tried, Policy::default(), false, random.draw()) {
                        Decision::Again { after } => sleep(after).await,
                        Decision::NextModel | Decision::GiveUp(_) => {
                            return false;
                        }
                    }
                    tried = tried.and(&error);
                }
            }
        }
    }
    true
}

fn storm(terms: Terms, load: Load, seed: u64) -> (Seen, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server(Arc::new(Mutex::new(Provider::new(terms, load.all()))));
        let lane = Gate::new(None).lane(Quota::default());
        let cap = Arc::new(Semaphore::new(load.cap));
        let start = Instant::now();
        let seeds = Jitter::new(seed);
        let mut slots = Vec::new();
        for unit in 0..load.slots {
            let running = Arc::clone(&cap).acquire_owned().await.unwrap();
            let slot = slot(lane.clone(), server.clone(), load, seeds.of(unit.into()));
            slots.push(tokio::spawn(async move {
                let lived = slot.await;
                drop(running);
                lived
            }));
            sleep(load.start).await;
        }
        for slot in slots {
            let lived = slot.await.unwrap();
            server.lock().seen.dead += u32::from(!lived);
        }
        let seen = server.lock().seen.clone();
        (seen, start.elapsed())
    })
}

/// Runs all seeds with answers of one, two and five seconds, and holds what is
/// promised for them.
///
/// Nothing can be faster than the work over what is taken side by side, nor
/// than all windows but the last, which may be used up as it begins.
#[track_caller]
fn check(terms: Terms, most_refused: u32, most_over: f64) {
    let (start, way) = (Duration::ZERO, Duration::from_millis(40));
    let load = Load { slots: 8, requests: 20, cap: 8, start, way };
    for service in [1, 2, 5].map(Duration::from_secs) {
        let terms = Terms { service, ..terms };
        for seed in 0..SEEDS {
            check_one(terms, load, seed, most_refused, most_over);
        }
    }
}

/// Runs one storm, which may take `most_over` times as long as it has to.
#[track_caller]
fn check_one(terms: Terms, load: Load, seed: u64, most_refused: u32, most_over: f64) {
    let windows = match terms.windows {
        true => WINDOW * (load.all() / WINDOW_TAKES - 1),
        false => Duration::ZERO,
    };
    let (seen, took) = storm(terms, load, seed);
    let bound = seen.work.max(windows);
    let story = format!("seed {seed}, {terms:?}, {load:?}: {took:?} over {bound:?}, {seen:?}");
    assert_eq!((seen.dead, seen.early, seen.accepted), (0, 0, load.all()), "{story}");
    assert!(seen.refused <= most_refused, "{story}");
    assert!(took <= bound.mul_f64(most_over), "{story}");
}

const SAYS_NOTHING: (u16, Option<Duration>) = (429, None);
const SAYS_WHEN: (u16, Option<Duration>) = (429, Some(Duration::from_secs(1)));

const FOUR_THEN_TWO: Terms = Terms {
    in_flight: Some([4, 2]),
    windows: false,
    refusal: SAYS_NOTHING,
    service: Duration::ZERO,
};

#[test]
fn a_provider_that_takes_four_and_then_two_in_flight_is_kept_full() {
    check(FOUR_THEN_TWO, 80, 1.3);
}

#[test]
fn nothing_reaches_a_provider_before_it_said() {
    check(Terms { refusal: SAYS_WHEN, ..FOUR_THEN_TWO }, 80, 1.3);
}

#[test]
fn a_provider_that_takes_ten_in_ten_seconds_gets_them() {
    let terms = Terms { in_flight: None, windows: true, refusal: SAYS_WHEN, ..FOUR_THEN_TWO };
    check(terms, 80, 1.3);
}

#[test]
fn a_provider_that_counts_both_ways_gets_what_it_takes() {
    check(Terms { windows: true, refusal: SAYS_WHEN, ..FOUR_THEN_TWO }, 80, 1.3);
}

#[test]
fn no_slot_dies_of_a_provider_that_counts_in_windows_and_says_nothing() {
    // It has to be asked to find out that it takes nothing, and is found to
    // take something again late.
    check(Terms { in_flight: None, windows: true, ..FOUR_THEN_TWO }, 120, 1.6);
    check(Terms { windows: true, ..FOUR_THEN_TWO }, 120, 1.6);
}

#[test]
fn a_provider_that_takes_more_again_is_found_out() {
    check(Terms { in_flight: Some([2, 8]), ..FOUR_THEN_TWO }, 80, 1.5);
}

/// One request of each of 160 slots, as a machine starts them: most are still to be
/// started when the first refusal comes.
#[test]
fn a_provider_with_a_fixed_limit_is_kept_full_whatever_its_refusals_say() {
    let rows = [
        // Status, seconds it names, milliseconds of an answer, limit, turns.
        (429, None, 200, 4, 1),
        (429, Some(1), 200, 4, 1),
        (429, Some(2), 200, 4, 1),
        (429, Some(5), 200, 4, 1),
        (429, None, 1_000, 4, 1),
        (429, Some(1), 1_000, 4, 1),
        (429, Some(5), 1_000, 4, 1),
        (429, None, 200, 4, 2),
        (429, None, 200, 2, 1),
        (429, Some(5), 200, 2, 1),
        (429, Some(2), 200, 1, 1),
        (529, None, 200, 4, 1),
        (529, Some(5), 200, 4, 1),
        (503, None, 200, 4, 1),
        (503, Some(5), 200, 4, 1),
    ];
    let milliseconds = Duration::from_millis;
    for (status, seconds, service, limit, requests) in rows {
        let refusal = (status, seconds.map(Duration::from_secs));
        let (service, in_flight) = (milliseconds(service), Some([limit; 2]));
        let terms = Terms { in_flight, windows: false, refusal, service };
        for cap in [8, 160] {
            let (start, way) = (milliseconds(2), milliseconds(4));
            let load = Load { slots: 160, requests, cap, start, way };
            (0..SEEDS).for_each(|seed| check_one(terms, load, seed, 40, 1.15));
        }
    }
}
