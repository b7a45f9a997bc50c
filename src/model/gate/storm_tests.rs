//! Storms of 429s: eight slots against providers that refuse, in paused time.
//!
//! The provider here counts as providers do, in requests in flight and in
//! windows; the slots do what the agent loop does, with the real gate and the
//! real decisions between.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Entry, Gate, Lane, Pass, Quota};
use crate::model::retry::{Decision, Jitter, Policy, Tried, decide};
use crate::model::{ModelError, ModelErrorKind};

const SLOTS: u64 = 8;
const REQUESTS: u32 = 20;
const ALL: u32 = 8 * REQUESTS;
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
    /// Whether it says when to come again.
    says_when: bool,
    /// The mean time of an answer.
    service: Duration,
}

/// What a provider says after a refusal for too many in flight. Whole seconds,
/// as in the header.
const COME_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Provider {
    terms: Terms,
    start: Instant,
    in_flight: u32,
    /// How many this window has taken, and its number.
    window: (u32, u64),
    seen: Seen,
    /// What has reached a client so far.
    told: Instant,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    accepted: u32,
    refused: u32,
    /// Sent before a time that the client had been told.
    early: u32,
    dead: u32,
    /// The work of all requests over what was taken side by side: nothing can
    /// be faster.
    work: Duration,
}

impl Provider {
    fn new(terms: Terms) -> Self {
        let start = Instant::now();
        Self { terms, start, in_flight: 0, window: (0, 0), seen: Seen::default(), told: start }
    }

    /// Takes a request or says when to come again.
    fn take(&mut self, service: Duration) -> Result<(), Option<Duration>> {
        let now = Instant::now() - self.start;
        let number = now.as_secs() / WINDOW.as_secs();
        if self.window.1 != number {
            self.window = (0, number);
        }
        let says = |time| self.terms.says_when.then_some(time);
        let half = usize::from(self.seen.accepted >= ALL / 2);
        let most = self.terms.in_flight.map_or(u32::MAX, |most| most[half]);
        if self.in_flight >= most {
            return Err(says(COME_AGAIN));
        }
        if self.terms.windows && self.window.0 >= WINDOW_TAKES {
            let next = WINDOW * u32::try_from(number + 1).unwrap();
            return Err(says(next - now));
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

    async fn ask(&self, random: &mut Jitter) -> Result<u64, ModelError> {
        let way = |random: &mut Jitter| Duration::from_millis(40).mul_f64(0.5 + random.draw());
        {
            let mut provider = self.lock();
            let is_early = Instant::now() < provider.told;
            provider.seen.early += u32::from(is_early);
        }
        sleep(way(random)).await;
        let service = self.lock().terms.service.mul_f64(0.5 + random.draw());
        let taken = self.lock().take(service);
        match taken {
            Ok(()) => {
                sleep(service).await;
                self.lock().in_flight -= 1;
                sleep(way(random)).await;
                Ok(1_000)
            }
            Err(again) => {
                sleep(way(random)).await;
                let mut provider = self.lock();
                provider.seen.refused += 1;
                if let Some(again) = again {
                    provider.told = provider.told.max(Instant::now() + again);
                }
                let mut error = ModelError::new(ModelErrorKind::RateLimited, "too many");
                error.retry_after = again;
                Err(error)
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
async fn slot(lane: Lane, server: Server, mut random: Jitter) -> bool {
    for _ in 0..REQUESTS {
        let mut tried = Tried::default();
        loop {
            let pass = pass(&lane).await;
            match server.ask(&mut random).await {
                Ok(tokens) => {
                    pass.answered(tokens);
                    break;
                }
                Err(error) => {
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

fn storm(terms: Terms, seed: u64) -> (Seen, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server(Arc::new(Mutex::new(Provider::new(terms))));
        let lane = Gate::new(None).lane(Quota::default());
        let start = Instant::now();
        let seeds = Jitter::new(seed);
        let slots: Vec<_> = (0..SLOTS)
            .map(|unit| tokio::spawn(slot(lane.clone(), server.clone(), seeds.of(unit))))
            .collect();
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
    let windows = if terms.windows { WINDOW * (ALL / WINDOW_TAKES - 1) } else { Duration::ZERO };
    for service in [1, 2, 5].map(Duration::from_secs) {
        for seed in 0..SEEDS {
            let (seen, took) = storm(Terms { service, ..terms }, seed);
            let bound = seen.work.max(windows);
            let story = format!("seed {seed}, {service:?}: {took:?} over {bound:?}, {seen:?}");
            assert_eq!((seen.dead, seen.early, seen.accepted), (0, 0, ALL), "{story}");
            assert!(seen.refused <= most_refused, "{story}");
            assert!(took <= bound.mul_f64(most_over), "{story}");
        }
    }
}

const FOUR_THEN_TWO: Terms =
    Terms { in_flight: Some([4, 2]), windows: false, says_when: false, service: Duration::ZERO };

#[test]
fn a_provider_that_takes_four_and_then_two_in_flight_is_kept_full() {
    check(FOUR_THEN_TWO, 80, 1.3);
}

#[test]
fn nothing_reaches_a_provider_before_it_said() {
    check(Terms { says_when: true, ..FOUR_THEN_TWO }, 80, 1.3);
}

#[test]
fn a_provider_that_takes_ten_in_ten_seconds_gets_them() {
    check(Terms { in_flight: None, windows: true, says_when: true, ..FOUR_THEN_TWO }, 80, 1.3);
}

#[test]
fn a_provider_that_counts_both_ways_gets_what_it_takes() {
    check(Terms { windows: true, says_when: true, ..FOUR_THEN_TWO }, 80, 1.3);
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
