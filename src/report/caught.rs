//! Panics that are caught and put right where they happen.
//!
//! A panic hook runs before whoever catches a panic knows of it. One that says
//! something or restores a terminal asks here whether there is reason to.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Whether a panic on this thread is caught here.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something that may panic; `None` if it did.
///
/// What it had begun to change is as the panic left it: the caller does not use
/// that any more.
pub fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    let was_guarded = IS_GUARDED.replace(true);
    let ran = catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(was_guarded);
    ran.ok()
}

/// Tells whether a panic on this thread is caught and put right: a hook then has
/// nothing to say and nothing to restore.
#[must_use]
pub fn catches_panics() -> bool {
    IS_GUARDED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_holds_until_the_outermost_one_is_over() {
        assert!(!catches_panics());
        let inner = caught(|| {
            let inner = caught(|| -> bool { panic!("caught, so this is no failure") });
            (inner, catches_panics())
        });
        assert_eq!(inner, Some((None, true)));
        assert!(!catches_panics());
        assert!(caught(|| std::thread::spawn(catches_panics).join().unwrap()) == Some(false));
    }
}
