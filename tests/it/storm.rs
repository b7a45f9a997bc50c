//! Many agents on one provider that takes less than they would send.

use std::sync::Arc;
use std::time::Duration;

use tine::event::{EventKind, Outcome, UnitState};
use tine::model::Model;
use tine::model::retry::Policy;
use tine::run::Signal;

use crate::fanout::check_invariants;
use crate::support::inside::Setup;
use crate::support::provider::{Provider, Takes};

const SLOTS: usize = 8;
const EACH: u32 = 20;
const ALL: usize = SLOTS * EACH as usize;
const SEEDS: u64 = 20;

const FOUR_THEN_TWO: Takes = Takes::InFlight { first: 4, then: 2, all: ALL };
const TEN_EACH: Takes = Takes::Each { many: 10, window: Duration::from_secs(10) };

fn setup(provider: &Arc<Provider>, seed: u64) -> Setup {
    let model: Arc<dyn Model> = Arc::clone(provider) as Arc<dyn Model>;
    Setup { retries: Policy::default(), seed, ..Setup::on(model) }
}

/// Runs the storm with each seed. `bound` is how long the fastest possible way
/// takes for all requests, main's two included.
async fn check(takes: Takes, tells: bool, bound: Duration) {
    for seed in 0..SEEDS {
        let provider = Provider::new(takes, SLOTS, EACH, tells, seed);
        let story = setup(&provider, seed).run().await;
        let tally = provider.tally();
        assert_eq!(story.states(), [UnitState::Completed; SLOTS], "seed {seed}: {tally:?}");
        assert_eq!(tally.answered, ALL + 2, "seed {seed}");
        assert_eq!(tally.early, 0, "seed {seed}: a request came before its Retry-After");
        assert!(tally.refused <= ALL / 2, "seed {seed}: {tally:?}");
        assert!(story.took <= bound.mul_f64(1.3), "seed {seed}: {:?}, {tally:?}", story.took);
        check_invariants(&story);
    }
}

/// Main's first request, 80 s of work by four at once, 80 s by two, and main's
/// last request. Service is a second on average.
const IN_FLIGHT_BOUND: Duration = Duration::from_secs(1 + 20 + 40 + 1);

#[tokio::test(start_paused = true)]
async fn no_slot_dies_of_a_limit_in_flight_that_is_told_when_to_come_again() {
    check(FOUR_THEN_TWO, true, IN_FLIGHT_BOUND).await;
}

#[tokio::test(start_paused = true)]
async fn no_slot_dies_of_a_limit_in_flight_that_says_nothing_more() {
    check(FOUR_THEN_TWO, false, IN_FLIGHT_BOUND).await;
}

#[tokio::test(start_paused = true)]
async fn no_slot_dies_of_a_limit_for_each_stretch_of_time() {
    // 162 requests are seventeen stretches, of which the last need not be
    // waited for to its end.
    check(TEN_EACH, true, Duration::from_secs(16 * 10 + 1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_waits_is_throttled_until_it_goes_on() {
    let provider = Provider::new(FOUR_THEN_TWO, SLOTS, 3, true, 1);
    let story = setup(&provider, 1).run().await;
    let mut waiting = std::collections::BTreeSet::new();
    let mut waits = 0;
    for event in &story.events {
        match &event.kind {
            EventKind::Throttled(_) => {
                waits += 1;
                assert!(waiting.insert(event.unit), "it waits once at a time");
            }
            EventKind::RequestFailed(failed) => {
                assert_eq!((failed.status, &*failed.model), (Some(429), "provider"));
                assert!(waiting.insert(event.unit), "it fails while it asks");
            }
            EventKind::Admitted { .. } => {
                assert!(waiting.remove(&event.unit), "only who waits goes on");
            }
            EventKind::Replied(_) => assert!(!waiting.contains(&event.unit)),
            _ => {}
        }
    }
    assert!(waits > 0 && waiting.is_empty());
}

/// Interrupts the storm at each of many moments: in the gate, in a back-off, in
/// a request.
#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_every_one_at_once_wherever_it_waits() {
    for moment in (0..40).map(|step| Duration::from_millis(1_010 + 97 * step)) {
        let provider = Provider::new(FOUR_THEN_TWO, SLOTS, EACH, true, 3);
        let story = setup(&provider, 3).signal(moment, Signal::Interrupt).run().await;
        assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
        assert!(story.took <= moment + Duration::from_millis(100), "{moment:?}: {:?}", story.took);
        assert_eq!(story.states(), [UnitState::Cancelled; SLOTS], "{moment:?}");
        check_invariants(&story);
    }
}
