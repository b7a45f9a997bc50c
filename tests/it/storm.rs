//! Many agents on one provider that takes less than they would send.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tine::event::{EventKind, Outcome, UnitState};
use tine::model::Model;
use tine::model::retry::Policy;
use tine::run::Signal;

use crate::fanout::check_invariants;
use crate::support::inside::Setup;
use crate::support::provider::{Provider, Takes};
use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::Place;

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

/// The same over loopback: a server that has four places, and then two. How
/// long that takes is nobody's promise here.
#[test]
fn over_loopback_no_slot_dies_and_none_comes_before_its_time() {
    const SERVICE: Duration = Duration::from_millis(12);
    const WAIT: Duration = Duration::from_millis(30);
    let places = Arc::new(Mutex::new(Places::default()));
    let at_server = Arc::clone(&places);
    let tasks: Vec<_> = (0..SLOTS)
        .map(|number| {
            let name = format!("slot {number}");
            json!({ "description": name, "prompt": name, "subagent_type": "explore" })
        })
        .collect();
    let call = json!({ "tasks": tasks });
    let server = serve(move |talk| {
        let now = std::time::Instant::now();
        let mut places = at_server.lock().expect("nothing panics while it holds the lock");
        let closed = places.closed.remove(talk.task());
        places.early += usize::from(closed.is_some_and(|until| now < until));
        places.taken.retain(|end| *end > now);
        let most = if places.answered < ALL / 2 { 4 } else { 2 };
        if places.taken.len() >= most {
            places.refused += 1;
            places.closed.insert(talk.task().to_owned(), now + WAIT);
            let headers = vec![("retry-after-ms".to_owned(), WAIT.as_millis().to_string())];
            let body = json!({ "error": { "message": "slow" } }).to_string().into_bytes();
            return Reaction::Status { code: 429, headers, body };
        }
        places.answered += 1;
        places.taken.push(now + SERVICE);
        let turn = talk.turn();
        let answer = match talk.task() {
            "go" if turn == 1 => Reaction::call_reply(&[("Agent", call.clone())]),
            "go" => Reaction::text_reply("all done"),
            _ if turn >= EACH as usize => Reaction::text_reply("done"),
            _ => Reaction::call_reply(&[("Glob", json!({ "pattern": format!("*.{turn}") }))]),
        };
        answer.after(SERVICE)
    });
    let flags = ["-o", "json", "--config", "retry.most=10", "--config", "retry.base_ms=5"];
    let result = Place::new().ask(&server, &flags).exits(0).result();
    assert_eq!(result["result"], "all done");
    server.finish();
    let places = places.lock().expect("as above");
    assert_eq!((places.answered, places.early), (ALL + 2, 0));
    assert!(places.refused <= ALL / 2, "{}", places.refused);
}

/// What a server with few places knows.
#[derive(Default)]
struct Places {
    /// When those end that were taken.
    taken: Vec<std::time::Instant>,
    answered: usize,
    refused: usize,
    /// Requests that came before their Retry-After.
    early: usize,
    /// When those who were refused may come again, by their task.
    closed: HashMap<String, std::time::Instant>,
}
