//! What a worker had of each slot: it runs no attempt twice, and whom it asks again is
//! told what became of the one before. Its coordinator may have heard nothing of that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::held::Name;
use crate::event::UnitId;
use crate::fleet::engine::JOBS_AGE;
use crate::fleet::wire::Had;

/// What was had of slots, by their runs. One whose end nobody tells is remembered as long as
/// its tickets are kept. It is bounded by what these have: their coordinators remember more
/// of each.
#[derive(Default)]
pub(super) struct Taken(Mutex<HashMap<Arc<str>, Of>>);

/// What was had of one run.
struct Of {
    slots: HashMap<UnitId, Had>,
    last: Instant,
}

impl Taken {
    /// Takes note of an attempt that begins; `false` if it has begun before.
    pub(super) fn begins(&self, name: &Name, attempt: u32) -> bool {
        let mut runs = self.lock();
        if !runs.contains_key(&name.run) {
            runs.retain(|_, of| of.last.elapsed() < JOBS_AGE);
        }
        let now = Instant::now();
        let new = || Of { slots: HashMap::new(), last: now };
        let of = runs.entry(Arc::clone(&name.run)).or_insert_with(new);
        of.last = now;
        let is_new = of.slots.get(&name.unit).is_none_or(|had| had.attempt < attempt);
        if is_new {
            of.slots.insert(name.unit, Had { attempt, has_ended: false });
        }
        is_new
    }

    /// Takes note that what a slot came to is stored.
    pub(super) fn note_end(&self, name: &Name) {
        let mut runs = self.lock();
        if let Some(had) = runs.get_mut(&name.run).and_then(|of| of.slots.get_mut(&name.unit)) {
            had.has_ended = true;
        }
    }

    /// Returns what was had of a slot last.
    pub(super) fn had(&self, name: &Name) -> Option<Had> {
        self.lock().get(&name.run)?.slots.get(&name.unit).copied()
    }

    /// Forgets a run that never goes on.
    pub(super) fn forget(&self, run: &str) {
        self.lock().remove(run);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Of>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(run: &str) -> Name {
        Name { run: run.into(), unit: UnitId(1) }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_begins_once_and_the_next_one_all_the_same() {
        let (taken, name) = (Taken::default(), name("run"));
        assert_eq!(taken.had(&name), None);
        assert!(taken.begins(&name, 1));
        assert!(!taken.begins(&name, 1));
        taken.note_end(&name);
        assert_eq!(taken.had(&name), Some(Had { attempt: 1, has_ended: true }));
        assert!(!taken.begins(&name, 1));
        assert!(taken.begins(&name, 2));
        assert_eq!(taken.had(&name), Some(Had { attempt: 2, has_ended: false }));
        assert!(!taken.begins(&name, 1), "that is long over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_forgotten_when_it_is_over_or_a_day_later() {
        let (taken, [one, two, three]) = (Taken::default(), ["one", "two", "three"].map(name));
        assert!(taken.begins(&one, 1) && taken.begins(&two, 1));
        taken.forget("one");
        assert_eq!(taken.had(&one), None);
        tokio::time::advance(JOBS_AGE).await;
        assert!(taken.begins(&three, 1));
        assert_eq!(taken.had(&two), None);
        assert!(taken.had(&three).is_some());
    }
}
