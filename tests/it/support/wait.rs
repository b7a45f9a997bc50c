//! Waiting for what another process does and nothing tells of: one looks again and
//! again.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::tine::HANG_LIMIT;

/// How long nobody looks: whoever does all the time takes a core from the processes
/// that are waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until this is so; panics with what it is if it does not come.
#[cfg(feature = "nats")]
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    found(what, || is_so().then_some(()));
}

/// Looks until there is something, and returns it; panics with what it is if it does
/// not come.
#[track_caller]
pub(crate) fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < HANG_LIMIT, "waited in vain: {what}");
        sleep(PAUSE);
    }
}
