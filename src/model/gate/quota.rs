//! What a configured quota lets through in a minute.
//!
//! governor counts; it can neither take back nor owe. What a request was
//! thought to cost and what the provider counted differ, so the difference is
//! kept here, as debt or credit, and settled with what is taken next.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use tokio::time::Instant;

use super::{Quota, Throttle};

/// The part of a minute's quota that may go at once: ten seconds' worth.
///
/// Providers count in buckets, in windows, and in pieces of a minute. With more,
/// a full bucket and a minute's refill come to twice the quota, which a window
/// refuses; with less, the turns of a single unit would wait for nothing.
const BURST_SHARE: u32 = 6;

/// Counts the requests and tokens of a lane.
#[derive(Debug)]
pub(super) struct Meters {
    requests: Option<Meter>,
    tokens: Option<Meter>,
}

/// What has been charged for one request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Paid {
    request: bool,
    tokens: Option<u64>,
}

impl Paid {
    pub(super) fn tokens(self) -> u64 {
        self.tokens.unwrap_or_default()
    }
}

impl Meters {
    pub(super) fn new(quota: Quota, now: Instant) -> Self {
        let meter = |per_minute| Meter::new(per_minute, now);
        Self {
            requests: quota.requests_per_minute.map(meter),
            tokens: quota.tokens_per_minute.map(meter),
        }
    }

    /// Charges what has not been charged yet.
    ///
    /// # Errors
    ///
    /// The error is the first quota that is used up. What was charged stays so.
    pub(super) fn pay(
        &mut self,
        paid: &mut Paid,
        estimate: u64,
        now: Instant,
    ) -> Result<(), Throttle> {
        if let Some(requests) = self.requests.as_mut().filter(|_| !paid.request) {
            requests.take(1, now).map_err(|until| Throttle::Requests { until })?;
            paid.request = true;
        }
        if let Some(tokens) = self.tokens.as_mut().filter(|_| paid.tokens.is_none()) {
            let taken = tokens.take(estimate, now).map_err(|until| Throttle::Tokens { until })?;
            paid.tokens = Some(taken);
        }
        Ok(())
    }

    /// Gives back what was charged for a request that was never sent.
    pub(super) fn pay_back(&mut self, paid: Paid) {
        if let Some(requests) = self.requests.as_mut().filter(|_| paid.request) {
            requests.correct(1, 0);
        }
        self.correct(paid.tokens(), 0);
    }

    /// Settles the tokens that were charged against those that were used.
    pub(super) fn correct(&mut self, charged: u64, used: u64) {
        if let Some(tokens) = &mut self.tokens {
            tokens.correct(charged, used);
        }
    }
}

/// Counts one thing, requests or tokens, against its quota.
#[derive(Debug)]
struct Meter {
    limiter: RateLimiter<NotKeyed, InMemoryState, Hand, NoOpMiddleware<Nanos>>,
    start: Instant,
    burst: NonZeroU32,
    /// Was used without having been taken. At most a minute's quota: what was
    /// longer ago no provider remembers, and a wrong number from one would
    /// otherwise shut the lane for good.
    debt: u64,
    most_debt: u64,
    /// Was taken without having been used. At most a burst, as is what lies in
    /// the bucket itself.
    credit: u64,
}

impl Meter {
    fn new(per_minute: NonZeroU32, now: Instant) -> Self {
        let burst = NonZeroU32::new(per_minute.get() / BURST_SHARE).unwrap_or(NonZeroU32::MIN);
        let quota = governor::Quota::per_minute(per_minute).allow_burst(burst);
        let limiter = RateLimiter::direct_with_clock(quota, Hand(Cell::new(0)));
        let most_debt = u64::from(per_minute.get());
        Self { limiter, start: now, burst, debt: 0, most_debt, credit: 0 }
    }

    /// Takes what is asked for, or nothing, and returns how much that was.
    ///
    /// More than a burst is never there at once, so no more is taken; what was
    /// used above it is debt once it is known.
    ///
    /// # Errors
    ///
    /// The error is the moment before which asking again is of no use.
    fn take(&mut self, asked: u64, now: Instant) -> Result<u64, Instant> {
        while self.debt > 0 {
            let part = self.within_burst(self.debt);
            self.draw(part, now)?;
            self.debt -= u64::from(part);
        }
        let taken = u64::from(self.within_burst(asked));
        let from_credit = taken.min(self.credit);
        self.draw(self.within_burst(taken - from_credit), now)?;
        self.credit -= from_credit;
        Ok(taken)
    }

    /// Settles what was taken against what turned out to be used.
    fn correct(&mut self, taken: u64, used: u64) {
        let owed = used.saturating_sub(taken);
        let from_credit = owed.min(self.credit);
        self.credit -= from_credit;
        self.debt = self.debt.saturating_add(owed - from_credit).min(self.most_debt);

        let back = taken.saturating_sub(used);
        let into_debt = back.min(self.debt);
        self.debt -= into_debt;
        self.credit = (self.credit + (back - into_debt)).min(u64::from(self.burst.get()));
    }

    fn within_burst(&self, amount: u64) -> u32 {
        u32::try_from(amount).unwrap_or(u32::MAX).min(self.burst.get())
    }

    fn draw(&self, amount: u32, now: Instant) -> Result<(), Instant> {
        let Some(amount) = NonZeroU32::new(amount) else { return Ok(()) };
        self.limiter.clock().set(now.saturating_duration_since(self.start));
        let drawn = self.limiter.check_n(amount).expect("no more than a burst is drawn");
        drawn.map_err(|not_until| self.start + Duration::from(not_until.earliest_possible()))
    }
}

/// The clock of a limiter: it shows what its meter was last told, which is
/// tokio's time, so that tests can pause it.
#[derive(Debug)]
struct Hand(Cell<u64>);

impl Hand {
    fn set(&self, since_start: Duration) {
        // 584 years.
        self.0.set(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Clock for Hand {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the amounts one after the other, each as soon as it is let
    /// through, and returns how many milliseconds after the start that was.
    fn times(per_minute: u32, amounts: &[u64]) -> Vec<u128> {
        let start = Instant::now();
        let mut meter = Meter::new(NonZeroU32::new(per_minute).unwrap(), start);
        let mut now = start;
        let take = |amount: &u64| {
            while let Err(until) = meter.take(*amount, now) {
                assert!(until > now, "asking again at once is of no use");
                now = until;
            }
            (now - start).as_millis()
        };
        amounts.iter().map(take).collect()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        assert_eq!(times(12, &[1, 1, 1, 1]), [0, 0, 5_000, 10_000]);
        assert_eq!(times(3, &[1, 1, 1]), [0, 20_000, 40_000]);
        assert_eq!(times(60_000, &[4_000, 6_000, 1_000]), [0, 0, 1_000]);
    }

    #[test]
    fn what_is_above_a_burst_passes_when_the_bucket_is_full() {
        assert_eq!(times(600, &[1, 5_000, 1]), [0, 100, 200]);
    }

    /// Takes, corrects and takes again; returns when the second was let through.
    fn after(taken: u64, used: u64, next: u64) -> u128 {
        let start = Instant::now();
        let mut meter = Meter::new(NonZeroU32::new(600).unwrap(), start);
        let charged = meter.take(taken, start).unwrap();
        meter.correct(charged, used);
        let mut now = start;
        while let Err(until) = meter.take(next, now) {
            now = until;
        }
        (now - start).as_millis()
    }

    #[test]
    fn what_was_used_beyond_the_estimate_is_owed() {
        assert_eq!(after(50, 50, 60), 1_000);
        assert_eq!(after(50, 90, 60), 5_000);
        // Ten tokens a second: 100 are in the bucket, 350 are used.
        assert_eq!(after(100, 350, 1), 25_100);
    }

    #[test]
    fn what_was_not_used_is_there_for_the_next_at_most_a_burst_of_it() {
        assert_eq!(after(100, 0, 100), 0);
        assert_eq!(after(100, 40, 100), 4_000);
        let start = Instant::now();
        let mut meter = Meter::new(NonZeroU32::new(600).unwrap(), start);
        meter.correct(100_000, 0);
        assert_eq!(meter.take(100, start), Ok(100), "the credit");
        assert_eq!(meter.take(100, start), Ok(100), "the bucket");
        assert_eq!(meter.take(1, start), Err(start + Duration::from_millis(100)));
    }

    #[test]
    fn a_senseless_count_shuts_a_lane_for_a_minute_and_not_for_good() {
        assert_eq!(after(0, u64::MAX, 0), 50_000);
        assert_eq!(after(0, u64::MAX, u64::MAX), 60_000);
    }
}
