//! The gate as its callers have it, in paused time.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use super::*;
use crate::model::retry::Jitter;

fn gate(most_in_flight: usize) -> Gate {
    Gate::new(NonZeroUsize::new(most_in_flight))
}

fn lane(most_in_flight: usize) -> Lane {
    gate(most_in_flight).lane(Quota::default())
}

fn per_minute(requests: u32, tokens: u32) -> Quota {
    Quota {
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU32::new(tokens),
    }
}

/// Without a gate beyond, asking takes no time.
trait Enter {
    fn enter(&self, estimate: u64) -> Entry;
}

impl Enter for Lane {
    #[track_caller]
    fn enter(&self, estimate: u64) -> Entry {
        self.ask(estimate).now_or_never().expect("only another process takes time to answer")
    }
}

#[track_caller]
fn passed(entry: Entry) -> Pass {
    match entry {
        Entry::Passed(pass) => pass,
        Entry::Held(held) => panic!("held: {:?}", held.cause()),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

#[track_caller]
fn held(entry: Entry) -> Held {
    match entry {
        Entry::Held(held) => held,
        Entry::Passed(pass) => panic!("{pass:?}"),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

async fn pass(lane: &Lane, estimate: u64) -> Pass {
    through(lane.enter(estimate)).await
}

async fn through(entry: Entry) -> Pass {
    match entry {
        Entry::Passed(pass) => pass,
        Entry::Held(held) => held.wait().await.unwrap(),
        Entry::Shut(shut) => panic!("{shut:?}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn without_limits_everything_passes_at_once() {
    let lane = lane(0);
    let passes: Vec<_> = (0..1_000).map(|_| passed(lane.enter(u64::MAX))).collect();
    drop(passes);
}

#[tokio::test(start_paused = true)]
async fn a_lane_is_left_in_the_order_in_which_it_was_entered() {
    let lane = lane(2);
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut slots = JoinSet::new();
    for number in 0..100 {
        let entry = lane.enter(0);
        let order = Arc::clone(&order);
        slots.spawn(async move {
            let pass = through(entry).await;
            order.lock().unwrap().push(number);
            sleep(SECOND).await;
            pass.answered(0);
        });
    }
    slots.join_all().await;
    let order = order.lock().unwrap().clone();
    // Two are woken together, and may run in either order.
    let pairs = order.chunks(2).map(|pair| pair.iter().min().copied());
    assert_eq!(pairs.collect::<Vec<_>>(), (0..50).map(|pair| Some(2 * pair)).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn nothing_passes_before_the_later_of_the_times_that_were_said() {
    let lane = lane(0);
    let start = Instant::now();
    let first = passed(lane.enter(0));
    let second = passed(lane.enter(0));
    first.refused(Some(7 * SECOND));
    second.failed(1, Some(3 * SECOND));
    let waits = held(lane.enter(0));
    assert_eq!(waits.cause(), Throttle::Provider { until: start + 7 * SECOND });
    let pass = waits.wait().await.unwrap();
    assert_eq!(start.elapsed(), 7 * SECOND);
    pass.answered(0);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_while_others_wait_holds_them_too() {
    let lane = lane(2);
    let start = Instant::now();
    let (first, second) = (passed(lane.enter(0)), passed(lane.enter(0)));
    let third = tokio::spawn(held(lane.enter(0)).wait());
    yield_now().await;
    first.refused(Some(5 * SECOND));
    drop(second);
    drop(third.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_answer_lets_the_next_one_in_while_a_named_time_holds_back_more() {
    let lane = lane(0);
    let start = Instant::now();
    let [first, second, third] = [(); 3].map(|()| passed(lane.enter(0)));
    third.refused(Some(5 * SECOND));
    let waits = held(lane.enter(0));
    assert_eq!(waits.cause(), Throttle::Provider { until: start + 5 * SECOND });
    first.answered(0);
    let fourth = waits.wait().await.unwrap();
    assert_eq!((start.elapsed(), lane.in_flight()), (Duration::ZERO, 2));
    assert_eq!(held(lane.enter(0)).cause(), Throttle::InFlight);
    // The provider refuses what takes an answered one's place: it counts all requests.
    fourth.refused(Some(SECOND));
    let waits = held(lane.enter(0));
    second.answered(0);
    drop(waits.wait().await.unwrap());
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_second_request_passes_a_full_limit_but_no_named_time_and_no_quota() {
    let lane = lane(1);
    let first = passed(lane.enter(0));
    let second = lane.pass_beside().unwrap();
    let waits = held(lane.enter(0));
    assert_eq!(lane.in_flight(), 2);
    drop(second);
    assert_eq!(waits.cause(), Throttle::InFlight);
    first.refused(Some(5 * SECOND));
    assert_eq!(lane.pass_beside().unwrap_err(), Instant::now() + 5 * SECOND);
    let third = waits.wait().await.unwrap();
    drop((lane.pass_beside().unwrap(), third));
    assert_eq!(lane.in_flight(), 0);

    let lane = gate(0).lane(per_minute(6, 0));
    passed(lane.enter(0)).answered(0);
    assert_eq!(lane.pass_beside().unwrap_err(), Instant::now() + 10 * SECOND);
    let lane = gate(0).lane(Quota::default());
    passed(lane.enter(0)).refused(Some(3_600 * SECOND));
    assert_eq!(lane.pass_beside().unwrap_err(), Instant::now() + 3_600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn no_more_come_when_a_provider_is_back_than_were_there_when_it_went() {
    let lane = lane(0);
    let three = [(); 3].map(|()| passed(lane.enter(0)));
    for pass in three {
        pass.failed(1, Some(5 * SECOND));
    }
    let mut waits = FuturesUnordered::new();
    waits.extend((0..100).map(|_| held(lane.enter(0)).wait()));
    sleep(5 * SECOND).await;
    let mut passes = Vec::new();
    while let Some(Some(pass)) = waits.next().now_or_never() {
        passes.push(pass.unwrap());
    }
    assert_eq!(passes.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_refuses_all_and_says_nothing_is_asked_ever_more_seldom() {
    let lane = lane(0);
    let start = Instant::now();
    let mut asked = Vec::new();
    for _ in 0..7 {
        let pass = pass(&lane, 0).await;
        asked.push(start.elapsed().as_millis());
        pass.refused(None);
    }
    assert_eq!(asked, [0, 500, 1_500, 3_500, 7_500, 11_500, 15_500]);
    pass(&lane, 0).await.answered(0);
    passed(lane.enter(0)).refused(None);
    let again = Instant::now();
    drop(pass(&lane, 0).await);
    assert_eq!(again.elapsed(), SECOND / 2, "an answer ends it");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_given_up_leaves_its_place_to_the_next() {
    let lane = lane(1);
    let first = passed(lane.enter(0));
    let mut second = Box::pin(held(lane.enter(0)).wait());
    let mut third = Box::pin(held(lane.enter(0)).wait());
    assert!(second.as_mut().now_or_never().is_none());
    assert!(third.as_mut().now_or_never().is_none());
    // Its turn is given to the second, which goes before it could look.
    drop(first);
    drop(second);
    let pass = third.now_or_never().unwrap().unwrap();
    assert_eq!(held(lane.enter(0)).cause(), Throttle::InFlight);
    drop(pass);
    drop(passed(lane.enter(0)));
}

#[tokio::test(start_paused = true)]
async fn the_next_keeps_the_time_when_the_first_gives_up() {
    let lane = lane(0);
    let start = Instant::now();
    passed(lane.enter(0)).failed(1, Some(10 * SECOND));
    let first = timeout(4 * SECOND, held(lane.enter(0)).wait());
    let second = tokio::spawn(held(lane.enter(0)).wait());
    first.await.unwrap_err();
    drop(second.await.unwrap().unwrap());
    assert_eq!(start.elapsed(), 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_panics_gives_its_place_back() {
    let lane = lane(1);
    let pass = passed(lane.enter(0));
    let waits = held(lane.enter(0));
    let slot = tokio::spawn(async move {
        let _pass = pass;
        panic!("a slot's own");
    });
    slot.await.unwrap_err();
    drop(waits.wait().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_too_long_is_told_to_all_at_once() {
    let lane = lane(1);
    let start = Instant::now();
    let first = passed(lane.enter(0));
    let second = tokio::spawn(held(lane.enter(0)).wait());
    let hour = 3_600 * SECOND;
    first.refused(Some(hour));
    let shut = second.await.unwrap().unwrap_err();
    assert_eq!(shut, Shut { until: start + hour });
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(matches!(lane.enter(0), Entry::Shut(same) if same == shut));
}

/// When requests passed, and the tokens that each came to.
type Passes = Vec<(Duration, u64)>;

/// Sends as fast as the lane lets it, for five minutes.
async fn sent(quota: Quota, seed: u64, estimate: fn(u64) -> u64) -> Passes {
    let lane = gate(0).lane(quota);
    let start = Instant::now();
    let passes = Arc::new(Mutex::new(Vec::new()));
    let mut slots = JoinSet::new();
    for slot in 0..8 {
        let (lane, passes) = (lane.clone(), Arc::clone(&passes));
        let mut random = Jitter::new(seed).of(slot);
        slots.spawn(async move {
            while start.elapsed() < 300 * SECOND {
                let used = Duration::from_secs(1_000).mul_f64(random.draw()).as_secs();
                let pass = pass(&lane, estimate(used)).await;
                passes.lock().unwrap().push((start.elapsed(), used));
                sleep(SECOND.mul_f64(3.0 * random.draw())).await;
                pass.answered(used);
            }
        });
    }
    slots.join_all().await;
    let mut passes = passes.lock().unwrap().clone();
    passes.sort_unstable();
    passes
}

/// Returns the most that passed in any minute.
fn most_in_a_minute(passes: &Passes, count: impl Fn(u64) -> u64) -> u64 {
    let sums = passes.iter().enumerate().map(|(index, (from, _))| {
        let minute = passes[index..].iter().take_while(|(at, _)| *at < *from + 60 * SECOND);
        minute.map(|(_, used)| count(*used)).sum()
    });
    sums.max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_minute_has_more_requests_than_configured_and_a_burst() {
    for seed in 0..20 {
        let passes = sent(per_minute(60, 0), seed, |used| used).await;
        let most = most_in_a_minute(&passes, |_| 1);
        assert!(most <= 60 + 10, "seed {seed}: {most} in a minute");
        assert!(passes.len() >= 300, "seed {seed}: {} of 300 were let through", passes.len());
    }
}

#[tokio::test(start_paused = true)]
async fn no_minute_has_more_tokens_than_configured_and_what_was_saved_up() {
    // Exact, half, and twice: what is wrong is found out with the answer.
    let estimates: [fn(u64) -> u64; 3] = [|used| used, |used| used / 2, |used| used * 2];
    for seed in 0..20 {
        for estimate in estimates {
            let passes = sent(per_minute(0, 12_000), seed, estimate).await;
            let most = most_in_a_minute(&passes, |used| used);
            // A burst in the bucket and one of credit or, if they were thought
            // smaller, half of the largest in each of eight slots.
            assert!(most <= 12_000 + 2 * 2_000 + 8 * 500, "seed {seed}: {most} in a minute");
            let all: u64 = passes.iter().map(|(_, used)| used).sum();
            assert!(all >= 5 * 12_000, "seed {seed}: {all} of 60,000 were let through");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_provider_counted_decides_when_the_next_one_passes() {
    let lane = gate(0).lane(per_minute(0, 600));
    let start = Instant::now();
    // Ten tokens a second, a hundred in the bucket.
    passed(lane.enter(50)).answered(250);
    let next = held(lane.enter(50));
    // The debt is paid a burst at a time.
    let until = start + 5 * SECOND;
    assert_eq!(next.cause(), Throttle::Tokens { until });
    next.wait().await.unwrap().answered(0);
    assert_eq!(start.elapsed(), 20 * SECOND);
    passed(lane.enter(50)).answered(50);
    assert_eq!(start.elapsed(), 20 * SECOND, "what was not used is there at once");
}

/// Slots that enter, wait, give up, and end in any way, at random.
async fn anything(lanes: Vec<Lane>, most: usize, random: Jitter) -> usize {
    let running = Arc::new(AtomicUsize::new(0));
    let mut slots = JoinSet::new();
    for slot in 0..200 {
        let lane = lanes[slot % lanes.len()].clone();
        let running = Arc::clone(&running);
        let mut random = random.of(slot as u64);
        slots.spawn(async move {
            sleep(SECOND.mul_f64(60.0 * random.draw())).await;
            let patience = SECOND.mul_f64(100.0 * random.draw());
            let pass = match lane.enter(10) {
                Entry::Passed(pass) => pass,
                Entry::Held(held) if random.draw() < 0.5 => held.wait().await.unwrap(),
                Entry::Held(held) => match timeout(patience, held.wait()).await {
                    Ok(pass) => pass.unwrap(),
                    Err(_) => return false,
                },
                Entry::Shut(shut) => panic!("{shut:?}"),
            };
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= most, "{now} in flight under {most}");
            sleep(SECOND.mul_f64(2.0 * random.draw())).await;
            running.fetch_sub(1, Ordering::SeqCst);
            let retry_after = (random.draw() < 0.3).then(|| SECOND.mul_f64(random.draw()));
            match random.draw() {
                draw if draw < 0.1 => pass.refused(retry_after),
                draw if draw < 0.2 => pass.failed(1, retry_after),
                draw if draw < 0.3 => drop(pass),
                _ => pass.answered(20),
            }
            true
        });
    }
    slots.join_all().await.into_iter().filter(|passed| *passed).count()
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_passes_whatever_becomes_of_the_others() {
    for seed in 0..20 {
        let gate = gate(3);
        let lanes = [Quota::default(), per_minute(60, 0), per_minute(0, 1_200)];
        let lanes: Vec<_> = lanes.into_iter().map(|quota| gate.lane(quota)).collect();
        // Nothing keeps the clock of a gate that has lost somebody.
        let all = anything(lanes.clone(), 3, Jitter::new(seed));
        let passed = timeout(3_600 * SECOND, all).await.expect("nobody is lost");
        assert!(passed > 100, "seed {seed}: only {passed} passed");
        sleep(60 * SECOND).await;
        for lane in lanes {
            drop(self::passed(lane.enter(10)));
        }
    }
}

#[test]
fn threads_lose_no_place_and_no_wake_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lane = lane(3);
        let running = Arc::new(AtomicUsize::new(0));
        let mut slots = JoinSet::new();
        for slot in 0..5_000_u64 {
            let (lane, running) = (lane.clone(), Arc::clone(&running));
            slots.spawn(async move {
                let wait = pass(&lane, 0);
                let pass = if slot % 3 == 0 {
                    // Given up after it has looked a few times, or has passed.
                    let turns = async {
                        for _ in 0..slot % 7 {
                            yield_now().await;
                        }
                    };
                    tokio::select! { pass = wait => pass, () = turns => return }
                } else {
                    wait.await
                };
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(now <= 3, "{now} in flight under 3");
                yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                pass.answered(0);
            });
        }
        // Real time, and far more than it takes: else a fault would only hang.
        timeout(60 * SECOND, slots.join_all()).await.expect("nobody is lost");
        let all: Vec<_> = (0..3).map(|_| passed(lane.enter(0))).collect();
        assert_eq!(held(lane.enter(0)).cause(), Throttle::InFlight);
        drop(all);
    });
}
