//! Which tickets a worker leaves to others because its disk has no room.
//!
//! A slot that finds no room fails at once. A worker that went on would draw all that
//! waits, faster than others who have room, and fail it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fleet::ground::Grounds;

/// Least bytes that are free where a slot begins: a copy of a small project, and what
/// its commands make there.
const FLOOR: u64 = 32 * 1024 * 1024;

/// How often a disk without room is looked at.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Most runs of which it is known that their workspaces do not fit.
const RUNS_CAP: usize = 256;

/// What is known of the room on a worker's disk.
pub(super) struct Room {
    grounds: Arc<Grounds>,
    say: fn(&str),
    /// The runs whose workspaces did not fit, and how many bytes were free then.
    // A mutex, because slots begin on tasks of their own.
    narrow: Mutex<HashMap<Arc<str>, u64>>,
    /// How many slots of a run begin just now: what they take, and what they leave
    /// that fail, comes and goes.
    beginning: Mutex<HashMap<Arc<str>, usize>>,
}

/// Has a slot count as one that begins.
#[must_use = "a slot begins only as long as this"]
pub(super) struct Beginning<'a> {
    room: &'a Room,
    run: Arc<str>,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut beginning) = self.room.beginning().entry(Arc::clone(&self.run)) {
            *beginning.get_mut() -= 1;
            if *beginning.get() == 0 {
                beginning.remove();
            }
        }
    }
}

impl Room {
    pub(super) fn new(grounds: Arc<Grounds>, say: fn(&str)) -> Self {
        Self { grounds, say, narrow: Mutex::default(), beginning: Mutex::default() }
    }

    /// Waits until there is some; `shed` removes what nobody uses.
    pub(super) async fn some(&self, shed: impl AsyncFn()) {
        if !self.is_short() {
            return;
        }
        shed().await;
        if !self.is_short() {
            return;
        }
        let place = self.grounds.directory().display();
        let floor = FLOOR / 1024 / 1024;
        (self.say)(&format!(
            "less than {floor} MiB are free in {place}: taking no more agents until there is room"
        ));
        while self.is_short() {
            tokio::time::sleep(LOOK).await;
            // Slots that have ended leave theirs.
            shed().await;
        }
        (self.say)(&format!("there is room in {place} again: taking agents"));
    }

    /// Has a slot of this run begin, for as long as what comes back is kept: until it has
    /// its workspace, or it is noted that this did not fit.
    pub(super) fn begins(&self, run: &Arc<str>) -> Beginning<'_> {
        *self.beginning().entry(Arc::clone(run)).or_default() += 1;
        Beginning { room: self, run: Arc::clone(run) }
    }

    /// Tells whether a slot of this run would find too little, as far as is known: where
    /// another did, nobody can tell while others begin.
    pub(super) fn is_too_small_for(&self, run: &str) -> bool {
        let Some(then) = self.narrow().get(run).copied() else { return self.is_short() };
        let has_grown = self.grounds.free().is_none_or(|free| free >= then.saturating_add(FLOOR));
        !has_grown || self.beginning().contains_key(run) || self.is_short()
    }

    /// Takes note of a run whose workspace did not fit.
    pub(super) fn was_too_small_for(&self, run: &Arc<str>) {
        let Some(free) = self.grounds.free() else { return };
        let mut narrow = self.narrow();
        if narrow.len() >= RUNS_CAP {
            narrow.clear();
        }
        let is_new = match narrow.entry(Arc::clone(run)) {
            Entry::Vacant(unknown) => {
                unknown.insert(free);
                true
            }
            Entry::Occupied(mut known) => {
                // Other slots may have filled it up at that moment: what they leave counts.
                let then = known.get_mut();
                *then = (*then).max(free);
                false
            }
        };
        drop(narrow);
        if is_new {
            let place = self.grounds.directory().display();
            (self.say)(&format!(
                "the workspace of {run} does not fit into {place}: leaving its agents to others \
                 until there is more room"
            ));
        }
    }

    fn is_short(&self) -> bool {
        self.grounds.free().is_some_and(|free| free < FLOOR)
    }

    fn beginning(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.beginning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn narrow(&self) -> MutexGuard<'_, HashMap<Arc<str>, u64>> {
        self.narrow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::program;

    #[tokio::test]
    async fn what_those_leave_that_begin_is_no_room() {
        let place = tempfile::tempdir().unwrap();
        let grounds = Arc::new(Grounds::new(&program(), place.path()).unwrap());
        let (room, run): (_, Arc<str>) = (Room::new(grounds, |_| {}), "run".into());
        let (first, second) = (room.begins(&run), room.begins(&run));
        // Nobody has failed yet.
        assert!(!room.is_too_small_for("run"));
        // One has, at a moment when the disk was full: by now more is free than then.
        room.narrow().insert(Arc::clone(&run), 0);
        drop(first);
        assert!(room.is_too_small_for("run"));
        assert!(!room.is_too_small_for("another"));
        drop(second);
        assert!(!room.is_too_small_for("run"));
    }
}
