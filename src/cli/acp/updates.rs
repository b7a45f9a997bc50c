//! How many updates are on their way to an editor. Whoever shows a run waits
//! for a place among them; the few that nobody waits for go without one.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Most updates on their way to an editor that are not written. The crate's own
/// queues have no bound; whoever shows a run waits for one of these first.
const UPDATES_CAP: usize = 256;

/// The places of updates on their way.
pub(super) struct Updates {
    places: Semaphore,
    /// How many are on their way without a place. Lines are all alike once they
    /// are written, so the first of them pay for these.
    without: AtomicUsize,
}

impl Updates {
    pub(super) fn new() -> Self {
        Self { places: Semaphore::new(UPDATES_CAP), without: AtomicUsize::new(0) }
    }

    /// Waits until there is a place, or nobody reads any more.
    pub(super) async fn room(&self) {
        drop(self.places.acquire().await);
    }

    /// Takes a place if there is one.
    pub(super) fn try_take(&self) -> bool {
        self.places.try_acquire().map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Takes a place, or notes that an update goes without one.
    pub(super) fn take_or_go_without(&self) {
        if !self.try_take() {
            self.without.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// One has been written.
    pub(super) fn written(&self) {
        let one_less = |without: usize| without.checked_sub(1);
        if self.without.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_err() {
            self.places.add_permits(1);
        }
    }

    /// Nothing is written any more: whoever waits waits for nobody.
    pub(super) fn close(&self) {
        self.places.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.places.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_that_go_without_a_place_leave_as_many_places_as_there_were() {
        let updates = Updates::new();
        for _ in 0..3 {
            while updates.try_take() {}
            (0..10).for_each(|_| updates.take_or_go_without());
            (0..UPDATES_CAP + 10).for_each(|_| updates.written());
            assert_eq!(updates.places.available_permits(), UPDATES_CAP);
        }
    }
}
