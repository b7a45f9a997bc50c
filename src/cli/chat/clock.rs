//! The time of day by which keys count and frames are due.

use nix::time::{ClockId, clock_gettime};

use crate::event::UnixMillis;
use crate::run;

/// The time of day as it was when this began, and what has passed since: it goes
/// on while a machine sleeps, and whatever the system's clock is set to.
pub(super) struct Clock {
    began: UnixMillis,
    since: u64,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { began: run::now(), since: running() }
    }

    pub(super) fn now(&self) -> UnixMillis {
        let passed = running().saturating_sub(self.since);
        UnixMillis(self.began.0.saturating_add(passed))
    }
}

/// Returns how long the machine has run, in milliseconds.
fn running() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("every Linux has this clock");
    let [seconds, nanos] =
        [time.tv_sec(), time.tv_nsec()].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000 + nanos / 1_000_000
}
