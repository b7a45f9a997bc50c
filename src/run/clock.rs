//! The time of day that events carry.
//!
//! Durations are differences of these times, so within an invocation they run with the
//! time since the machine started, which cannot be set. The offset to the time of day is
//! measured anew at each prompt.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

use crate::event::UnixMillis;

/// The clock of the process, for what belongs to no run. It follows the run whose prompt has
/// begun last.
static CLOCK: Clock = Clock { offset: AtomicI64::new(UNSET) };

/// Says that the offset was not measured yet.
const UNSET: i64 = i64::MIN;

/// Returns the time of day, as events have it.
#[must_use]
pub fn now() -> UnixMillis {
    CLOCK.read(since_start(), of_day)
}

/// The clock of a run. Other runs in the process, whose prompts begin meanwhile, do not set it.
#[derive(Debug)]
pub(super) struct RunClock(Clock);

impl RunClock {
    /// Begins with the time that the process has.
    pub(super) fn new() -> Self {
        let clock = Clock { offset: AtomicI64::new(UNSET) };
        let since_start = since_start();
        clock.set(since_start, millis_of(CLOCK.read(since_start, of_day)));
        Self(clock)
    }

    /// Returns the time of day, as the events of the run have it.
    pub(super) fn now(&self) -> UnixMillis {
        self.0.read(since_start(), of_day)
    }

    /// Takes the time of day for right from now on.
    pub(super) fn set(&self) {
        let (since_start, of_day) = (since_start(), of_day());
        self.0.set(since_start, of_day);
        CLOCK.set(since_start, of_day);
    }
}

/// The difference, in milliseconds, between the time of day and the time since the
/// machine started.
#[derive(Debug)]
struct Clock {
    offset: AtomicI64,
}

impl Clock {
    fn read(&self, since_start: i64, of_day: impl FnOnce() -> i64) -> UnixMillis {
        let offset = match self.offset.load(Ordering::Relaxed) {
            UNSET => self.set(since_start, of_day()),
            offset => offset,
        };
        UnixMillis(u64::try_from(since_start.saturating_add(offset)).unwrap_or(0))
    }

    fn set(&self, since_start: i64, of_day: i64) -> i64 {
        let offset = of_day.saturating_sub(since_start);
        self.offset.store(offset, Ordering::Relaxed);
        offset
    }
}

/// Returns the time since the machine started. It goes on while the machine sleeps.
fn since_start() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    millis(time.unwrap_or_default())
}

fn of_day() -> i64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn millis_of(time: UnixMillis) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_right_whatever_the_time_of_day_is_set_to() {
        const DAY: i64 = 86_400_000;
        for set_to in [DAY, -DAY, 3_650 * DAY, -10_950 * DAY, 1, 0] {
            let clock = Clock { offset: AtomicI64::new(UNSET) };
            let began = clock.read(5_000, || 40 * 365 * DAY);
            let ended = clock.read(8_000, || 40 * 365 * DAY + set_to);
            assert_eq!(ended.0 - began.0, 3_000, "{set_to}");
            // The next prompt has the time of day again.
            clock.set(9_000, 40 * 365 * DAY + set_to);
            let next = clock.read(9_500, || panic!("the offset is known"));
            assert_eq!(i64::try_from(next.0), Ok(40 * 365 * DAY + set_to + 500));
        }
    }

    #[test]
    fn a_prompt_of_one_run_does_not_set_the_clock_of_another() {
        const HOUR: i64 = 3_600_000;
        let (one, other) = (RunClock::new(), RunClock::new());
        // The system's clock was wrong when the first prompt began.
        one.0.set(since_start(), of_day() - HOUR);
        let began = one.now();
        other.set();
        let took = one.now().0 - began.0;
        assert!(took < 60_000, "{took} ms");
        assert!(other.now().0 - began.0 > 3_000_000);
        one.set();
        assert!(one.now().0.abs_diff(other.now().0) < 60_000);
    }

    #[test]
    fn it_is_the_time_of_day() {
        let far = i64::try_from(now().0).unwrap().abs_diff(of_day());
        assert!(far < 60_000, "{far} ms");
        assert!(now() <= now());
    }
}
