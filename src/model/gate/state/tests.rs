//! The gate's state under schedules of any order: who is woken, who is not.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use super::*;
use crate::model::retry::Jitter;

/// Tells whether a waiter has been woken since it last looked.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A waiter as the runtime has it: it looks only when it is woken or its timer
/// is due.
#[derive(Debug)]
struct Waiting {
    lane: LaneIndex,
    woken: Arc<Flag>,
    timer: Option<Instant>,
    has_looked: bool,
}

/// A gate, and everybody around it.
struct World {
    state: State,
    now: Instant,
    lanes: Vec<LaneIndex>,
    waiting: BTreeMap<Ticket, Waiting>,
    passes: Vec<Charge>,
    random: Jitter,
}

impl World {
    fn new(most_in_flight: Option<usize>, quotas: &[Quota], seed: u64) -> Self {
        let now = Instant::now();
        let mut state = State::new(most_in_flight.and_then(NonZeroUsize::new));
        let lanes = quotas.iter().map(|quota| state.add_lane(*quota, now)).collect();
        let random = Jitter::new(seed);
        Self { state, now, lanes, waiting: BTreeMap::new(), passes: Vec::new(), random }
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u32::try_from(limit).unwrap();
        let number = Duration::from_secs(limit.into()).mul_f64(self.random.draw());
        usize::try_from(number.as_secs()).unwrap()
    }

    fn enter(&mut self, lane: LaneIndex, estimate: u64) {
        match self.state.enter(lane, estimate, self.now) {
            Entered::Passed(charge) => self.passes.push(charge),
            Entered::Held(ticket) => {
                let woken = Arc::default();
                let waiting = Waiting { lane, woken, timer: None, has_looked: false };
                self.waiting.insert(ticket, waiting);
            }
            Entered::Shut(_) => {}
        }
        self.check();
    }

    fn enter_beside(&mut self, lane: LaneIndex) {
        let is_paused = self.state.pause.until(self.now).is_some();
        match self.state.enter_beside(lane, self.now) {
            Ok(charge) => {
                assert!(!is_paused, "nothing passes before the time that was said");
                self.passes.push(charge);
            }
            Err(until) => assert!(until > self.now, "asking again at once is of no use"),
        }
        self.check();
    }

    fn look(&mut self, ticket: Ticket) {
        let waiting = self.waiting.get_mut(&ticket).unwrap();
        waiting.woken.0.store(false, Ordering::Relaxed);
        waiting.has_looked = true;
        let waker = Waker::from(Arc::clone(&waiting.woken));
        match self.state.look(waiting.lane, ticket, &waker, self.now) {
            Look::Wait(timer) => waiting.timer = timer,
            Look::Passed(charge) => {
                self.passes.push(charge);
                self.leave(ticket);
            }
            Look::Shut(_) => self.leave(ticket),
        }
        self.check();
    }

    fn leave(&mut self, ticket: Ticket) {
        let waiting = self.waiting.remove(&ticket).unwrap();
        self.state.leave(waiting.lane, ticket, self.now);
        self.check();
    }

    fn end(&mut self, index: usize, end: End) {
        let charge = self.passes.swap_remove(index);
        self.state.end(charge, end, self.now);
        self.check();
    }

    /// Those who look by themselves now.
    fn due(&self) -> Vec<Ticket> {
        let is_due = |waiting: &Waiting| {
            !waiting.has_looked
                || waiting.woken.0.load(Ordering::Relaxed)
                || waiting.timer.is_some_and(|timer| timer <= self.now)
        };
        let due = self.waiting.iter().filter(|(_, waiting)| is_due(waiting));
        due.map(|(ticket, _)| *ticket).collect()
    }

    /// Holds what must be true after every input.
    fn check(&mut self) {
        for waker in self.state.woken() {
            waker.wake();
        }
        let state = &self.state;
        assert_eq!(state.passed, self.passes.len(), "each pass is counted once");
        let sum = |count: fn(&Lane) -> usize| state.lanes.iter().map(count).sum::<usize>();
        assert_eq!(state.granted, sum(|lane| lane.granted.len()));
        assert_eq!(state.waiting, sum(|lane| lane.waiting.len()));
        assert_eq!(state.granted + state.waiting, self.waiting.len(), "nobody is left behind");
        let is_paused = state.pause.until(self.now).is_some();
        assert!(!is_paused || state.granted == 0, "nothing passes before the time that was said");
        assert!(state.granted == 0 || state.passed + state.granted <= state.limit.get());
        for lane in &state.lanes {
            assert!(lane.shut_until(self.now).is_none() || lane.granted.is_empty());
            let last = lane.granted.last_key_value().map(|(last, _)| *last);
            let first = lane.waiting.first_key_value().map(|(first, _)| *first);
            assert!(last.is_none() || first.is_none() || last < first, "first come, first served");
        }
    }

    /// Lets everybody through, with nobody looking unasked.
    fn drain(&mut self) {
        while !self.waiting.is_empty() || !self.passes.is_empty() {
            if let Some(ticket) = self.due().first() {
                self.look(*ticket);
            } else if !self.passes.is_empty() {
                self.end(0, End::Answered { tokens: 10 });
            } else {
                let next = self.waiting.values().filter_map(|waiting| waiting.timer).min();
                self.now = next.expect("somebody waits, and nobody will wake it");
            }
        }
        assert_eq!((self.state.passed, self.state.granted, self.state.waiting), (0, 0, 0));
    }

    fn step(&mut self) {
        match self.below(10) {
            0..=2 => {
                let (lane, estimate) = (self.below(self.lanes.len()), self.below(40));
                self.enter(self.lanes[lane], u64::try_from(estimate).unwrap());
            }
            3 | 4 => {
                let due = self.due();
                if !due.is_empty() {
                    let index = self.below(due.len());
                    self.look(due[index]);
                }
            }
            5 if !self.waiting.is_empty() => {
                let index = self.below(self.waiting.len());
                let ticket = *self.waiting.keys().nth(index).unwrap();
                self.leave(ticket);
            }
            6 | 7 if !self.passes.is_empty() => {
                let index = self.below(self.passes.len());
                let end = self.any_end();
                self.end(index, end);
            }
            8 if self.below(4) == 0 => {
                let lane = self.below(self.lanes.len());
                self.enter_beside(self.lanes[lane]);
            }
            _ => self.now += Duration::from_secs(2).mul_f64(self.random.draw()),
        }
    }

    fn any_end(&mut self) -> End {
        let tokens = u64::try_from(self.below(60)).unwrap();
        // Now and then more than anyone waits for.
        let seconds = if self.below(20) == 0 { 700.0 } else { 3.0 };
        let said = Duration::from_secs_f64(seconds * self.random.draw());
        let retry_after = (self.below(2) == 0).then_some(said);
        match self.below(8) {
            0 => End::Refused { retry_after },
            1 => End::Failed { tokens: 1, retry_after },
            2 => End::Dropped,
            _ => End::Answered { tokens },
        }
    }
}

fn quota(requests: u32, tokens: u32) -> Quota {
    Quota {
        requests_per_minute: NonZeroU32::new(requests),
        tokens_per_minute: NonZeroU32::new(tokens),
    }
}

#[test]
fn no_order_of_events_loses_a_place_or_a_wake_up() {
    let lanes = [quota(0, 0), quota(30, 0), quota(0, 600), quota(60, 300)];
    for seed in 0..2_000 {
        let most = [None, Some(1), Some(2), Some(5)][usize::try_from(seed % 4).unwrap()];
        let count = 1 + usize::try_from(seed / 4 % 4).unwrap();
        let mut world = World::new(most, &lanes[..count], seed);
        for _ in 0..200 {
            world.step();
        }
        world.drain();
    }
}

#[test]
fn a_turn_that_was_not_taken_yet_is_taken_back_when_the_provider_refuses() {
    let mut world = World::new(Some(2), &[Quota::default()], 0);
    let lane = world.lanes[0];
    (0..4).for_each(|_| world.enter(lane, 0));
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    world.end(0, End::Answered { tokens: 0 });
    assert_eq!((world.state.granted, world.due().len()), (1, 1));
    let minute = Duration::from_secs(60);
    world.end(0, End::Refused { retry_after: Some(minute) });
    assert_eq!(world.state.granted, 0);
    let ticket = world.due()[0];
    world.look(ticket);
    let until = world.now + minute;
    assert_eq!(world.waiting[&ticket].timer, Some(until));
    assert_eq!(world.state.throttle(lane), Throttle::Provider { until });
    world.drain();
}

#[test]
fn only_one_of_a_lane_is_woken_when_the_time_has_come() {
    let mut world = World::new(Some(1), &[Quota::default()], 0);
    let lane = world.lanes[0];
    (0..1_000).for_each(|_| world.enter(lane, 0));
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    world.end(0, End::Failed { tokens: 1, retry_after: Some(Duration::from_secs(5)) });
    // The first sets its timer; the others know nothing of it.
    assert_eq!(world.due().len(), 1);
    let first = world.due()[0];
    world.look(first);
    assert_eq!(world.due(), []);
    world.now += Duration::from_secs(5);
    assert_eq!(world.due(), [first]);
    world.look(first);
    assert_eq!((world.passes.len(), world.due().len()), (1, 0));
}

#[test]
fn a_place_that_is_free_goes_to_who_came_first_over_all_lanes() {
    let mut world = World::new(Some(1), &[Quota::default(), Quota::default()], 0);
    let (here, there) = (world.lanes[0], world.lanes[1]);
    for lane in [here, there, here, there, there, here] {
        world.enter(lane, 0);
    }
    let mut order = Vec::new();
    while let Some(pass) = world.passes.first() {
        order.push(pass.lane);
        world.end(0, End::Dropped);
        world.due().into_iter().for_each(|ticket| world.look(ticket));
    }
    assert_eq!(order, [here, there, here, there, there, here]);
}

#[test]
fn a_lane_whose_quota_is_used_up_holds_up_no_other() {
    let mut world = World::new(Some(2), &[quota(6, 0), Quota::default()], 0);
    let (slow, free) = (world.lanes[0], world.lanes[1]);
    (0..3).for_each(|_| world.enter(slow, 0));
    (0..3).for_each(|_| world.enter(free, 0));
    let of = |world: &World, lane| world.passes.iter().filter(|pass| pass.lane == lane).count();
    assert_eq!((of(&world, slow), of(&world, free)), (1, 1));
    let until = world.now + Duration::from_secs(10);
    world.end(1, End::Dropped);
    assert_eq!(world.state.throttle(slow), Throttle::InFlight);
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    assert_eq!((of(&world, slow), of(&world, free)), (1, 1));
    // With a place to spare it is the quota that holds them.
    (0..2).for_each(|_| world.end(0, End::Dropped));
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    assert_eq!(world.state.throttle(slow), Throttle::Requests { until });
    world.drain();
}

#[test]
fn nobody_overtakes_with_a_smaller_request() {
    let mut world = World::new(None, &[quota(0, 600)], 0);
    let lane = world.lanes[0];
    world.enter(lane, 50);
    world.enter(lane, 100);
    world.enter(lane, 1);
    assert_eq!((world.passes.len(), world.waiting.len()), (1, 2));
}

#[test]
fn the_first_is_woken_when_its_moment_comes_nearer() {
    let mut world = World::new(None, &[quota(0, 600)], 0);
    let lane = world.lanes[0];
    world.enter(lane, 100);
    world.enter(lane, 100);
    let first = world.due()[0];
    world.look(first);
    let start = world.now;
    assert_eq!(world.waiting[&first].timer, Some(start + Duration::from_secs(10)));
    // Half of what the other was charged comes back.
    world.end(0, End::Answered { tokens: 50 });
    assert_eq!(world.due(), [first]);
    world.look(first);
    assert_eq!(world.waiting[&first].timer, Some(start + Duration::from_secs(5)));
}

#[test]
fn what_was_charged_for_a_request_that_was_never_sent_is_given_back() {
    let mut world = World::new(Some(1), &[quota(6, 60)], 0);
    let lane = world.lanes[0];
    world.enter(lane, 10);
    world.end(0, End::Answered { tokens: 10 });
    // A burst of both is used up; ten seconds on it is there again.
    world.now += Duration::from_secs(10);
    world.enter(lane, 10);
    world.enter(lane, 10);
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    world.now += Duration::from_secs(10);
    world.end(0, End::Answered { tokens: 10 });
    let granted = world.due()[0];
    assert_eq!(world.state.granted, 1);
    world.leave(granted);
    world.enter(lane, 10);
    assert_eq!(world.passes.len(), 1, "it passes on what the other one paid");
}

#[test]
fn a_time_that_nobody_waits_for_turns_all_of_the_lane_away_and_no_other() {
    let mut world = World::new(Some(2), &[Quota::default(), Quota::default()], 0);
    let (shut, open) = (world.lanes[0], world.lanes[1]);
    (0..5).for_each(|_| world.enter(shut, 0));
    world.enter(open, 0);
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    // Of two that passed one ends and gives its turn on, which is not taken yet.
    world.end(0, End::Answered { tokens: 0 });
    world.end(0, End::Refused { retry_after: Some(Duration::MAX) });
    let until = world.now + FARTHEST;
    assert_eq!(world.state.enter(shut, 0, world.now), Entered::Shut(until));
    world.due().into_iter().for_each(|ticket| world.look(ticket));
    assert_eq!(world.waiting.len(), 0);
    assert_eq!(world.passes.iter().map(|pass| pass.lane).collect::<Vec<_>>(), [open]);
    world.now = until;
    world.end(0, End::Answered { tokens: 0 });
    world.enter(shut, 0);
    assert_eq!(world.passes.len(), 1);
}
