//! How many requests may be in flight: found out by being refused.
//!
//! A refusal halves the limit, a window of successes adds one. What was left in
//! flight when something was refused is remembered: up to that mark the limit
//! comes back with each success. Above it a probe that is refused takes the limit
//! back to the mark at once and makes the next probe twice as rare, and none is made
//! before twice the time that the provider named. So a provider with a fixed limit is
//! kept full, and asked for more seldom.

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::time::Instant;

/// Shortest time between two halvings. What was sent together is refused
/// together, and says one thing.
const HALVING_PAUSE: Duration = Duration::from_secs(1);

/// How often a window doubles while probes are refused. A provider that takes
/// more again is found within 16 windows.
const MOST_DOUBLINGS: u32 = 4;

/// The limit and what it was learnt from.
#[derive(Debug)]
pub(super) struct Limit {
    most: usize,
    now: usize,
    /// How many the provider is known to take; `None` until it refuses.
    mark: Option<usize>,
    /// How many probes just above the mark were refused in a row.
    refused_probes: u32,
    /// Since the limit last changed, with all places taken.
    successes: usize,
    halved_at: Option<Instant>,
    /// When the provider may be asked for more than the mark again.
    no_probe_before: Option<Instant>,
}

impl Limit {
    /// A limit that starts at the most that is configured, or open.
    pub(super) fn new(most: Option<NonZeroUsize>) -> Self {
        let most = most.map_or(usize::MAX, NonZeroUsize::get);
        Self {
            most,
            now: most,
            mark: None,
            refused_probes: 0,
            successes: 0,
            halved_at: None,
            no_probe_before: None,
        }
    }

    pub(super) fn allow_at_most(&mut self, most: NonZeroUsize) {
        self.most = self.most.min(most.get());
        self.now = self.now.min(self.most);
    }

    pub(super) fn get(&self) -> usize {
        self.now
    }

    /// One of so many in flight, itself counted, was answered.
    pub(super) fn succeeded(&mut self, in_flight: usize, now: Instant) {
        // An answer with places free says nothing about one more.
        if self.now == self.most || in_flight < self.now {
            return;
        }
        self.successes += 1;
        let would_probe = self.mark.is_some_and(|mark| self.now >= mark);
        let is_too_early = would_probe && self.no_probe_before.is_some_and(|time| now < time);
        if self.successes >= self.window() && !is_too_early {
            self.successes = 0;
            if self.mark.is_some_and(|mark| self.now > mark) {
                self.mark = Some(self.now);
                self.refused_probes = 0;
            }
            self.now += 1;
        }
    }

    /// One of so many in flight, itself counted, was refused, with so long a wait.
    pub(super) fn refused(
        &mut self,
        in_flight: usize,
        passed_at: Instant,
        wait: Duration,
        now: Instant,
    ) {
        let left = (in_flight - 1).max(1);
        self.successes = 0;
        let is_old = self
            .halved_at
            .is_some_and(|halved| passed_at <= halved || now < halved + HALVING_PAUSE);
        if is_old {
            // Still the same surge. It shows how few the provider takes.
            self.mark = self.mark.map(|mark| mark.min(left));
            self.now = self.now.min(left);
        } else {
            self.halved_at = Some(now);
            self.now = self.lowered(in_flight, left);
        }
        // A refused probe costs its unit the named time.
        let wait = wait.saturating_mul(2 << self.refused_probes);
        self.no_probe_before = self.no_probe_before.max(Some(now + wait));
    }

    /// Returns the limit after a refusal that tells something new, and notes what it tells.
    fn lowered(&mut self, in_flight: usize, left: usize) -> usize {
        match self.mark {
            // The provider takes what it took before.
            Some(mark) if left >= mark => {
                self.refused_probes = (self.refused_probes + 1).min(MOST_DOUBLINGS);
                self.now.min(mark)
            }
            Some(_) | None => {
                self.mark = Some(left);
                self.refused_probes = 0;
                (self.now.min(in_flight) / 2).max(1)
            }
        }
    }

    /// No more than are in flight now until they succeed.
    ///
    /// For a provider that fails and says when it is back: all that waited
    /// would otherwise reach it in that moment.
    pub(super) fn close(&mut self, in_flight: usize) {
        self.successes = 0;
        self.now = self.now.min(in_flight.max(1));
    }

    /// How many successes the next step up takes.
    fn window(&self) -> usize {
        match self.mark {
            Some(mark) if self.now < mark => 1,
            Some(mark) if self.now == mark => self.now << self.refused_probes,
            Some(_) | None => self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens to a provider's limit, in a tenth of a second each.
    #[derive(Clone, Copy)]
    enum Step {
        /// So many answers in a row, with as many in flight as may be.
        Answers(usize),
        /// One is refused with so many in flight.
        Refused(usize),
        /// The same, with so many seconds to wait.
        Told(usize, u64),
        /// One that was sent before all of this.
        OldRefused(usize),
        Closed(usize),
        Seconds(u64),
    }
    use Step::{Answers, Closed, OldRefused, Refused, Seconds, Told};

    /// Checks the limit after each step.
    #[track_caller]
    fn check(most: Option<usize>, steps: &[(Step, usize)]) {
        let mut limit = Limit::new(most.and_then(NonZeroUsize::new));
        let start = Instant::now();
        let mut now = start + Duration::from_secs(10);
        for (index, (step, expected)) in steps.iter().enumerate() {
            now += Duration::from_millis(100);
            match *step {
                Answers(count) => (0..count).for_each(|_| limit.succeeded(limit.get(), now)),
                Refused(in_flight) => limit.refused(in_flight, now, Duration::ZERO, now),
                Told(in_flight, seconds) => {
                    limit.refused(in_flight, now, Duration::from_secs(seconds), now);
                }
                OldRefused(in_flight) => limit.refused(in_flight, start, Duration::ZERO, now),
                Closed(in_flight) => limit.close(in_flight),
                Seconds(seconds) => now += Duration::from_secs(seconds),
            }
            assert_eq!(limit.get(), *expected, "after step {index}");
        }
    }

    #[test]
    fn a_limit_is_open_until_something_is_refused() {
        check(None, &[(Answers(100), usize::MAX), (Refused(8), 4)]);
        check(Some(6), &[(Answers(100), 6), (Refused(6), 3)]);
    }

    #[test]
    fn what_is_refused_together_halves_once_and_shows_what_is_taken() {
        // Eight are sent, two of them taken.
        check(None, &[(Refused(8), 4), (Refused(7), 4), (Refused(6), 4), (Refused(5), 4)]);
        check(None, &[(Refused(8), 4), (Refused(4), 3), (Refused(3), 2), (Seconds(1), 2)]);
    }

    #[test]
    fn halvings_are_a_second_apart() {
        check(None, &[(Refused(64), 32), (Refused(40), 32), (Seconds(1), 32), (Refused(32), 16)]);
    }

    #[test]
    fn a_late_refusal_of_what_was_sent_before_a_halving_does_not_halve_again() {
        check(None, &[(Refused(64), 32), (Seconds(5), 32), (OldRefused(60), 32)]);
    }

    #[test]
    fn the_limit_is_never_below_one_nor_above_the_most() {
        check(Some(2), &[(Refused(2), 1), (Seconds(2), 1), (Refused(1), 1)]);
        check(Some(2), &[(Refused(2), 1), (Answers(50), 2)]);
    }

    #[test]
    fn it_comes_back_to_what_was_taken_with_each_answer_and_then_a_window_at_a_time() {
        // Five were too many, so four are taken.
        let start = [(Refused(5), 2), (Answers(1), 3), (Answers(1), 4), (Answers(3), 4)];
        check(None, &[&start[..], &[(Answers(1), 5), (Answers(4), 5), (Answers(1), 6)]].concat());
    }

    #[test]
    fn each_refused_probe_makes_the_next_one_twice_as_rare_up_to_a_bound() {
        let mut steps = vec![(Refused(3), 1), (Answers(1), 2)];
        for window in [2, 4, 8, 16, 32, 32, 32] {
            steps.extend([(Seconds(1), 2), (Answers(window - 1), 2)]);
            steps.extend([(Answers(1), 3), (Refused(3), 2)]);
        }
        check(None, &steps);
    }

    #[test]
    fn a_probe_waits_for_twice_the_named_time_and_twice_that_after_each_refused_one() {
        let start = [(Told(3, 5), 1), (Answers(1), 2), (Answers(99), 2), (Seconds(10), 2)];
        let probe = [(Answers(1), 3), (Told(3, 5), 2)];
        let wait = |seconds: u64| [(Answers(99), 2), (Seconds(seconds - 1), 2), (Answers(99), 2)];
        let steps = [&start[..], &probe, &wait(20), &[(Seconds(1), 2)], &probe, &wait(40)];
        check(None, &steps.concat());
    }

    #[test]
    fn the_named_time_keeps_nothing_from_the_mark() {
        check(None, &[(Told(5, 60), 2), (Answers(1), 3), (Answers(1), 4), (Answers(99), 4)]);
    }

    #[test]
    fn a_probe_that_is_taken_is_followed_by_others_at_the_usual_pace() {
        let steps = [
            (Refused(3), 1),
            (Answers(1 + 2), 3),
            (Seconds(1), 3),
            (Refused(3), 2),
            (Answers(3), 2),
            // The second probe at three comes after four, and is taken.
            (Answers(1), 3),
            (Answers(3), 4),
            (Answers(4), 5),
        ];
        check(None, &steps);
    }

    #[test]
    fn an_answer_with_places_free_says_nothing() {
        let mut limit = Limit::new(None);
        let now = Instant::now();
        limit.refused(8, now, Duration::ZERO, now);
        (0..100).for_each(|_| limit.succeeded(3, now));
        assert_eq!(limit.get(), 4);
    }

    #[test]
    fn a_provider_that_was_away_gets_back_what_it_had_in_flight() {
        check(None, &[(Closed(3), 3), (Answers(3), 4), (Answers(4), 5)]);
        check(None, &[(Closed(0), 1)]);
    }
}
