//! Workers and their coordinator, tied together without a server, in paused time.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::asking::{Mail, Names, Numbers, Run, SILENCE};
use super::office::TICK;
use super::*;
use crate::config::{Config, Environment, ModelEntry, resolve_model};
use crate::model::gate::{Entry, Held, Lane, Pass, Shut, Throttle};
use crate::model::{Model, Models};

const LEASE: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// A coordinator, and the wire to it.
struct Coordinator {
    models: Arc<Models>,
    /// Its own model.
    model: Arc<dyn Model>,
    wire: Wire,
}

#[derive(Clone)]
struct Wire {
    questions: mpsc::Sender<Question>,
    /// Whether the coordinator hears nothing.
    is_cut: Arc<AtomicBool>,
}

/// A worker with one model.
struct Worker {
    model: Arc<dyn Model>,
    /// Its own wire.
    wire: Wire,
    numbers: Numbers,
}

impl Wire {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    fn mail(&self, own: &Self) -> Mail {
        let wires = (self.clone(), own.clone());
        Arc::new(move |payload, limit| {
            let (wire, own) = wires.clone();
            let asked = async move {
                let (reply, answer) = oneshot::channel();
                if wire.is_cut.load(Ordering::Relaxed) || own.is_cut.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                wire.questions.send(Question { payload: payload.into(), reply }).await.ok()?;
                answer.await.ok().map(Bytes::from)
            };
            async move { timeout(limit, asked).await.ok().flatten() }.boxed()
        })
    }
}

impl Coordinator {
    fn new(entry: ModelEntry) -> Self {
        let models = Arc::new(Models::default());
        let (questions, asked) = mpsc::channel(64);
        tokio::spawn(Office::new(Arc::clone(&models), "run".into(), LEASE).work(asked));
        let model = opened(&models, entry);
        Self { models, model, wire: Wire { questions, is_cut: Arc::default() } }
    }

    fn worker(&self, name: &str, entry: ModelEntry) -> Worker {
        let own = Wire { is_cut: Arc::default(), ..self.wire.clone() };
        let names = Names { run: "run".into(), worker: name.into() };
        let numbers = Numbers::default();
        let run = Run::new(names, self.wire.mail(&own), numbers.clone(), LEASE);
        let models = Models::default().leading_to(Arc::new(run));
        Worker { model: opened(&models, entry), wire: own, numbers }
    }

    fn lane(&self) -> &Lane {
        self.model.lane().unwrap()
    }
}

impl Worker {
    fn lane(&self) -> &Lane {
        self.model.lane().unwrap()
    }
}

fn opened(models: &Models, entry: ModelEntry) -> Arc<dyn Model> {
    let config = Config { models: [("m".to_owned(), entry)].into(), ..Config::default() };
    let environment = Environment::from_variables([("K1", "one"), ("K2", "two")]);
    models.open(&resolve_model(&config, &environment, Some("m")).unwrap()).unwrap()
}

fn entry(most: usize, requests: u32) -> ModelEntry {
    ModelEntry {
        base_url: Some("http://localhost:1/v1".to_owned()),
        key_env: Some("K1".to_owned()),
        max_in_flight: NonZeroUsize::new(most),
        requests_per_minute: NonZeroU32::new(requests),
        ..ModelEntry::default()
    }
}

fn any() -> ModelEntry {
    entry(0, 0)
}

async fn passed(lane: &Lane) -> Pass {
    match lane.ask(10).await {
        Entry::Passed(pass) => pass,
        Entry::Held(held) => panic!("held: {:?}", held.cause()),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

async fn held(lane: &Lane) -> Held {
    match lane.ask(10).await {
        Entry::Held(held) => held,
        Entry::Passed(pass) => panic!("{pass:?}"),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

async fn through(lane: &Lane) -> Pass {
    match lane.ask(10).await {
        Entry::Passed(pass) => pass,
        Entry::Held(held) => held.wait().await.unwrap(),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

/// Lets all that is on its way arrive.
async fn arrive() {
    for _ in 0..50 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_all_machines_pass_in_the_order_in_which_they_came() {
    let coordinator = Coordinator::new(entry(1, 0));
    let (one, two) = (coordinator.worker("one", any()), coordinator.worker("two", any()));
    let first = passed(one.lane()).await;
    let order = Arc::<Mutex<Vec<&str>>>::default();
    let lanes = [("two", two.lane()), ("here", coordinator.lane()), ("one", one.lane())];
    let mut waiting = Vec::new();
    for (name, lane) in lanes {
        let held = held(lane).await;
        assert_eq!(held.cause(), Throttle::InFlight, "{name}");
        let order = Arc::clone(&order);
        waiting.push(tokio::spawn(async move {
            let pass = held.wait().await.unwrap();
            order.lock().unwrap().push(name);
            pass.answered(1);
        }));
    }
    sleep(5 * SECOND).await;
    assert!(order.lock().unwrap().is_empty());
    first.answered(1);
    for waiting in waiting {
        waiting.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["two", "here", "one"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_known_at_once() {
    let coordinator = Coordinator::new(entry(1, 0));
    let worker = coordinator.worker("one", any());
    let first = passed(coordinator.lane()).await;
    let waits = tokio::spawn(held(worker.lane()).await.wait());
    sleep(SECOND * 5 / 2).await;
    let start = Instant::now();
    drop(first);
    drop(waits.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_tells_one_worker_holds_for_all() {
    let coordinator = Coordinator::new(any());
    let (one, two) = (coordinator.worker("one", any()), coordinator.worker("two", any()));
    let start = Instant::now();
    passed(one.lane()).await.refused(Some(7 * SECOND));
    arrive().await;
    let until = start + 7 * SECOND;
    let there = held(two.lane()).await;
    assert_eq!(there.cause(), Throttle::Provider { until });
    assert_eq!(held(coordinator.lane()).await.cause(), Throttle::Provider { until });
    drop(there.wait().await.unwrap());
    assert_eq!(start.elapsed(), 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_away_for_long_is_so_for_all() {
    let coordinator = Coordinator::new(entry(1, 0));
    let (one, two) = (coordinator.worker("one", any()), coordinator.worker("two", any()));
    let until = Instant::now() + 3_600 * SECOND;
    let first = passed(one.lane()).await;
    let waits = tokio::spawn(held(two.lane()).await.wait());
    arrive().await;
    first.failed(0, Some(3_600 * SECOND));
    assert_eq!(waits.await.unwrap().unwrap_err(), Shut { until });
    assert!(matches!(two.lane().ask(1).await, Entry::Shut(shut) if shut == Shut { until }));
}

#[tokio::test(start_paused = true)]
async fn the_quota_of_the_coordinator_holds_over_all_workers() {
    let coordinator = Coordinator::new(entry(0, 60));
    let workers = ["one", "two"].map(|name| coordinator.worker(name, entry(0, 6_000)));
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < 120 * SECOND {
        for worker in &workers {
            through(worker.lane()).await.answered(10);
            count += 1;
        }
    }
    // And a burst.
    assert!((120..=132).contains(&count), "{count} in two minutes");
}

#[tokio::test(start_paused = true)]
async fn what_is_configured_only_there_holds_over_all_workers_with_the_same_key() {
    let coordinator = Coordinator::new(any());
    let other = |key: &str| ModelEntry {
        base_url: Some("http://localhost:2/v1".to_owned()),
        key_env: Some(key.to_owned()),
        ..entry(1, 0)
    };
    let (one, two) =
        (coordinator.worker("one", other("K1")), coordinator.worker("two", other("K1")));
    let three = coordinator.worker("three", other("K2"));
    let first = passed(one.lane()).await;
    let waits = held(two.lane()).await;
    assert_eq!(waits.cause(), Throttle::InFlight);
    drop(passed(three.lane()).await);
    // It also holds for the coordinator, from when it needs that provider.
    let own = opened(&coordinator.models, other("K1"));
    let last = held(own.lane().unwrap()).await;
    drop(first);
    drop(waits.wait().await.unwrap());
    drop(last.wait().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_silent_coordinator_leaves_each_worker_its_share() {
    let coordinator = Coordinator::new(any());
    let worker = coordinator.worker("one", entry(4, 60));
    worker.numbers.sharers.count.store(2, Ordering::Relaxed);
    coordinator.wire.cut();
    let start = Instant::now();
    let two = [passed(worker.lane()).await, passed(worker.lane()).await];
    assert_eq!(start.elapsed(), 2 * SILENCE);
    assert_eq!(held(worker.lane()).await.cause(), Throttle::InFlight);
    drop(two);
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < 120 * SECOND {
        through(worker.lane()).await.answered(10);
        count += 1;
    }
    assert!((55..=65).contains(&count), "{count} of 30 in a minute, in two minutes");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_coordinator_that_falls_silent_goes_by_its_share() {
    let coordinator = Coordinator::new(entry(1, 0));
    let worker = coordinator.worker("one", any());
    let _first = passed(coordinator.lane()).await;
    let waits = held(worker.lane()).await;
    coordinator.wire.cut();
    let start = Instant::now();
    drop(waits.wait().await.unwrap());
    assert_eq!(start.elapsed(), TICK + SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_permit_of_a_worker_that_is_gone_comes_back_after_the_lease() {
    let coordinator = Coordinator::new(entry(1, 0));
    let worker = coordinator.worker("one", any());
    let _lost = passed(worker.lane()).await;
    let waits = held(coordinator.lane()).await;
    let start = Instant::now();
    worker.wire.cut();
    drop(waits.wait().await.unwrap());
    assert!(start.elapsed() > LEASE - TICK && start.elapsed() <= LEASE + TICK);
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_kept_for_as_long_as_its_worker_has_it() {
    let coordinator = Coordinator::new(entry(1, 0));
    let worker = coordinator.worker("one", any());
    let pass = passed(worker.lane()).await;
    let waits = tokio::spawn(held(coordinator.lane()).await.wait());
    sleep(LEASE * 10).await;
    assert!(!waits.is_finished());
    pass.answered(10);
    drop(waits.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_leaves_the_queue() {
    let coordinator = Coordinator::new(entry(1, 0));
    let (one, two) = (coordinator.worker("one", any()), coordinator.worker("two", any()));
    let first = passed(coordinator.lane()).await;
    let before = tokio::spawn(held(one.lane()).await.wait());
    let waits = tokio::spawn(held(two.lane()).await.wait());
    arrive().await;
    before.abort();
    arrive().await;
    let start = Instant::now();
    drop(first);
    drop(waits.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_lost_is_told_again() {
    let coordinator = Coordinator::new(entry(1, 0));
    let worker = coordinator.worker("one", any());
    let pass = passed(worker.lane()).await;
    arrive().await;
    worker.wire.cut();
    let start = Instant::now();
    pass.refused(Some(5 * SECOND));
    sleep(SECOND).await;
    worker.wire.is_cut.store(false, Ordering::Relaxed);
    sleep(2 * SECOND).await;
    let waits = held(coordinator.lane()).await;
    assert!(matches!(waits.cause(), Throttle::Provider { until } if until > start + 5 * SECOND));
}

#[test]
fn only_messages_are_messages() {
    for bytes in ["", "{}", "[]", "{\"ask\":{}}", "{\"tell\":{\"worker\":\"w\"}}"] {
        assert_eq!(words::ToOffice::decode(bytes.as_bytes()), None, "{bytes}");
        assert_eq!(words::Answer::decode(bytes.as_bytes()), None, "{bytes}");
    }
}
