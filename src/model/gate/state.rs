//! The gate's state: who waits, who passed, and why nobody else may.
//!
//! Each input is handled at once and leaves the state settled: whoever may pass
//! has been granted it, and the first of each lane that waits for a moment has
//! a timer for it or has been woken to set one. So nothing is lost when a
//! waiter goes away, and only one of a lane's waiters is woken by a timer.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::limit::Limit;
use super::pause::{NamedTime, Pause};
use super::quota::{Meters, Paid};
use super::{End, Quota, Throttle};
use crate::model::retry::LONGEST_FLOOR;
use crate::model::retry::floor::FARTHEST;

/// How long the gate waits by itself when a provider refuses everything and does
/// not say for how long. It doubles up to 4 s: a window of ten seconds is still
/// used, and an outage of a minute costs each of eight units two retries.
const FIRST_OWN_PAUSE: Duration = Duration::from_millis(500);
const OWN_PAUSE_DOUBLINGS: u32 = 3;

/// A place in the order of arrival, over all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Names a lane of this gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LaneIndex(usize);

/// What one pass has taken, to be given back at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge {
    lane: LaneIndex,
    tokens: u64,
    passed_at: Instant,
}

/// What came of looking whether it is one's turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    Passed(Charge),
    /// Shut until then.
    Shut(Instant),
    /// Wait to be woken, and look again at this moment if there is one.
    Wait(Option<Instant>),
}

/// What came of asking to enter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    Passed(Charge),
    Held(Ticket),
    Shut(Instant),
}

#[derive(Debug)]
pub(super) struct State {
    limit: Limit,
    /// Passes that are out.
    passed: usize,
    /// Passes that wait to be taken by those whose turn it is.
    granted: usize,
    /// Waiters whose turn it is not.
    waiting: usize,
    pause: Pause,
    /// How many were refused with no other in flight since something was
    /// answered.
    refused_alone: u32,
    lanes: Vec<Lane>,
    next_ticket: u64,
    /// To be woken once the lock is released: waking may run foreign code.
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct Lane {
    meters: Meters,
    /// Nobody waits for this moment: whoever would is turned away.
    shut: Option<Instant>,
    /// What its first waiter waits for.
    throttle: Throttle,
    waiting: BTreeMap<Ticket, Waiter>,
    /// Before all that wait: turns are given in order, and taken back from the
    /// last.
    granted: BTreeMap<Ticket, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    estimate: u64,
    /// What its lane's quotas have been charged for it already.
    paid: Paid,
    /// `None` before it first looks, and from when it is woken until it looks.
    waker: Option<Waker>,
    /// When it looks by itself.
    timer: Option<Instant>,
}

impl State {
    pub(super) fn new(most_in_flight: Option<NonZeroUsize>) -> Self {
        Self {
            limit: Limit::new(most_in_flight),
            passed: 0,
            granted: 0,
            waiting: 0,
            pause: Pause::default(),
            refused_alone: 0,
            lanes: Vec::new(),
            next_ticket: 0,
            wakers: Vec::new(),
        }
    }

    pub(super) fn allow_at_most(&mut self, most: NonZeroUsize) {
        self.limit.allow_at_most(most);
    }

    pub(super) fn add_lane(&mut self, quota: Quota, now: Instant) -> LaneIndex {
        self.lanes.push(Lane {
            meters: Meters::new(quota, now),
            shut: None,
            throttle: Throttle::InFlight,
            waiting: BTreeMap::new(),
            granted: BTreeMap::new(),
        });
        LaneIndex(self.lanes.len() - 1)
    }

    pub(super) fn enter(&mut self, lane: LaneIndex, estimate: u64, now: Instant) -> Entered {
        if let Some(until) = self.lanes[lane.0].shut_until(now) {
            return Entered::Shut(until);
        }
        let mut paid = Paid::default();
        // With nobody before it there is no need for a place in the queue.
        let is_clear = self.waiting == 0 && self.barrier(now).is_none();
        if is_clear && self.lanes[lane.0].meters.pay(&mut paid, estimate, now).is_ok() {
            self.passed += 1;
            return Entered::Passed(Charge { lane, tokens: paid.tokens(), passed_at: now });
        }
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let waiter = Waiter { estimate, paid, waker: None, timer: None };
        self.lanes[lane.0].waiting.insert(ticket, waiter);
        self.waiting += 1;
        self.settle(now);
        match self.claim(lane, ticket, now) {
            Some(charge) => Entered::Passed(charge),
            None => Entered::Held(ticket),
        }
    }

    /// Passes a second request for one that is in flight without an answer, however many are
    /// in flight. A pause and the quotas of the lane delay it.
    ///
    /// # Errors
    ///
    /// The error is the moment before which asking again is of no use.
    pub(super) fn enter_beside(
        &mut self,
        lane: LaneIndex,
        now: Instant,
    ) -> Result<Charge, Instant> {
        let own = &mut self.lanes[lane.0];
        if let Some(until) = own.shut_until(now).max(self.pause.until(now)) {
            return Err(until);
        }
        let mut paid = Paid::default();
        if let Err(throttle) = own.meters.pay(&mut paid, 0, now) {
            own.meters.pay_back(paid);
            return Err(throttle.until().expect("a quota names the moment when there is more"));
        }
        self.passed += 1;
        self.take_back(now);
        self.settle(now);
        Ok(Charge { lane, tokens: paid.tokens(), passed_at: now })
    }

    /// Looks whether it is this waiter's turn; if not, `waker` is called when
    /// it may be.
    pub(super) fn look(
        &mut self,
        lane: LaneIndex,
        ticket: Ticket,
        waker: &Waker,
        now: Instant,
    ) -> Look {
        self.settle(now);
        if let Some(charge) = self.claim(lane, ticket, now) {
            return Look::Passed(charge);
        }
        let own = &mut self.lanes[lane.0];
        if let Some(until) = own.shut_until(now) {
            return Look::Shut(until);
        }
        let until = own.throttle.until();
        let is_first = own.waiting.first_key_value().is_some_and(|(first, _)| *first == ticket);
        let waiter = own.waiting.get_mut(&ticket).expect("a waiter looks until it has left");
        waiter.waker = Some(waker.clone());
        waiter.timer = until.filter(|_| is_first);
        Look::Wait(waiter.timer)
    }

    /// Takes a waiter out of its queue, if it is still there.
    pub(super) fn leave(&mut self, lane: LaneIndex, ticket: Ticket, now: Instant) {
        let own = &mut self.lanes[lane.0];
        let left = if let Some(waiter) = own.waiting.remove(&ticket) {
            self.waiting -= 1;
            waiter
        } else if let Some(waiter) = own.granted.remove(&ticket) {
            self.granted -= 1;
            waiter
        } else {
            return;
        };
        own.meters.pay_back(left.paid);
        self.settle(now);
    }

    pub(super) fn end(&mut self, charge: Charge, end: End, now: Instant) {
        let in_flight = self.passed;
        self.passed -= 1;
        match end {
            End::Answered { tokens } => {
                self.limit.succeeded(in_flight, now);
                self.pause.answered(now);
                self.refused_alone = 0;
                self.lanes[charge.lane.0].meters.correct(charge.tokens, tokens);
            }
            End::Refused { retry_after } => {
                self.lanes[charge.lane.0].meters.correct(charge.tokens, 0);
                let is_alone = in_flight == 1;
                let said = retry_after.or_else(|| is_alone.then(|| self.next_own_pause()));
                let passed_at = charge.passed_at;
                let is_about_limit = match said {
                    Some(said) if said > LONGEST_FLOOR => {
                        self.shut(charge.lane, said, now);
                        false
                    }
                    Some(said) => {
                        tracing::debug!(wait_ms = said.as_millis() as u64, is_alone, "refused");
                        let until = now + said;
                        self.pause.refused(NamedTime { until, passed_at, is_alone }, now)
                    }
                    None => false,
                };
                let wait = retry_after.filter(|_| is_about_limit).unwrap_or_default();
                self.limit.refused(in_flight, passed_at, wait, now);
            }
            End::Failed { tokens, retry_after } => {
                self.lanes[charge.lane.0].meters.correct(charge.tokens, tokens);
                // Those that fail with the first one were in flight with it.
                if retry_after.is_some() && self.pause.until(now).is_none() {
                    self.limit.close(in_flight);
                }
                match retry_after {
                    Some(said) if said > LONGEST_FLOOR => self.shut(charge.lane, said, now),
                    Some(said) => self.pause.hold(now + said),
                    None => {}
                }
            }
            End::Dropped => {}
        }
        self.take_back(now);
        self.settle(now);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.passed
    }

    /// What the first of a lane waits for.
    pub(super) fn throttle(&self, lane: LaneIndex) -> Throttle {
        self.lanes[lane.0].throttle
    }

    /// Hands out those to be woken.
    pub(super) fn woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers)
    }

    /// How long nothing passes after the only request in flight was refused.
    ///
    /// No limit can be lower than one, so the provider counts something else:
    /// requests in a window, or those of others. Without this all units would
    /// run up against it one by one until each is out of retries.
    fn next_own_pause(&mut self) -> Duration {
        let doublings = self.refused_alone.min(OWN_PAUSE_DOUBLINGS);
        self.refused_alone = doublings + 1;
        FIRST_OWN_PAUSE * (1 << doublings)
    }

    /// Shuts a lane for a time that is too long to wait for.
    ///
    /// The provider names such a time for the quota of a day, which each model has for
    /// itself. Other lanes stay open for a fallback.
    fn shut(&mut self, lane: LaneIndex, said: Duration, now: Instant) {
        tracing::debug!(wait_ms = said.as_millis() as u64, "a lane of the gate is shut");
        let until = now + said.min(FARTHEST);
        let lane = &mut self.lanes[lane.0];
        lane.shut = lane.shut.max(Some(until));
        self.granted -= lane.granted.len();
        self.waiting += lane.granted.len();
        lane.waiting.append(&mut lane.granted);
        self.wakers.extend(lane.waiting.values_mut().filter_map(|waiter| waiter.waker.take()));
    }

    /// What holds all lanes, if anything does.
    fn barrier(&self, now: Instant) -> Option<Throttle> {
        if let Some(until) = self.pause.until(now) {
            Some(Throttle::Provider { until })
        } else if self.passed + self.granted >= self.limit.get() {
            Some(Throttle::InFlight)
        } else {
            None
        }
    }

    /// Takes back the latest turns that were given and not yet taken, if they
    /// would not be given now.
    fn take_back(&mut self, now: Instant) {
        let is_paused = self.pause.until(now).is_some();
        while self.granted > 0 && (is_paused || self.passed + self.granted > self.limit.get()) {
            let last = |lane: &&mut Lane| lane.granted.last_key_value().map(|(last, _)| *last);
            let lane = self.lanes.iter_mut().max_by_key(last).expect("a turn is given in a lane");
            let (ticket, waiter) = lane.granted.pop_last().expect("a turn is given in this lane");
            lane.waiting.insert(ticket, waiter);
            self.granted -= 1;
            self.waiting += 1;
        }
    }

    /// Gives turns to all who may pass, in the order of arrival, but past those
    /// whose lane's quota is used up.
    fn settle(&mut self, now: Instant) {
        while self.waiting > 0 {
            if let Some(throttle) = self.barrier(now) {
                for lane in &mut self.lanes {
                    self.wakers.extend(lane.hold(throttle));
                }
                return;
            }
            let mut next: Option<(Ticket, usize)> = None;
            for (index, lane) in self.lanes.iter_mut().enumerate() {
                match lane.pay_for_first(now) {
                    None => {}
                    Some(Ok(ticket)) if next.is_none_or(|(first, _)| ticket < first) => {
                        next = Some((ticket, index));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(throttle)) => self.wakers.extend(lane.hold(throttle)),
                }
            }
            let Some((_, index)) = next else { return };
            let lane = &mut self.lanes[index];
            let (ticket, mut waiter) = lane.waiting.pop_first().expect("it is the first one");
            self.wakers.extend(waiter.waker.take());
            lane.granted.insert(ticket, waiter);
            self.waiting -= 1;
            self.granted += 1;
        }
    }

    /// Takes the turn that was given to this waiter, if one was.
    fn claim(&mut self, lane: LaneIndex, ticket: Ticket, now: Instant) -> Option<Charge> {
        let waiter = self.lanes[lane.0].granted.remove(&ticket)?;
        self.granted -= 1;
        self.passed += 1;
        Some(Charge { lane, tokens: waiter.paid.tokens(), passed_at: now })
    }
}

impl Lane {
    fn shut_until(&self, now: Instant) -> Option<Instant> {
        self.shut.filter(|until| *until > now)
    }

    /// Says what the first waiter waits for, and returns its waker if it has to
    /// set a timer for that.
    fn hold(&mut self, throttle: Throttle) -> Option<Waker> {
        self.throttle = throttle;
        let mut first = self.waiting.first_entry()?;
        let until = throttle.until()?;
        let has_timer = first.get().timer.is_some_and(|timer| timer <= until);
        if has_timer { None } else { first.get_mut().waker.take() }
    }

    /// Charges the quotas for the first waiter, unless all are to leave.
    fn pay_for_first(&mut self, now: Instant) -> Option<Result<Ticket, Throttle>> {
        if self.shut_until(now).is_some() {
            return None;
        }
        let mut first = self.waiting.first_entry()?;
        let ticket = *first.key();
        let waiter = first.get_mut();
        Some(self.meters.pay(&mut waiter.paid, waiter.estimate, now).map(|()| ticket))
    }
}

#[cfg(test)]
mod tests;
