//! What coordinators say who have no slots for this worker: told once for each of them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Most runs of which it is known that they refused. One that is forgotten is told of
/// again.
const RUNS_CAP: usize = 256;

/// The runs that have refused this worker.
pub(super) struct Refusals {
    say: fn(&str),
    // A mutex, because tickets are drawn on tasks of their own.
    told: Mutex<HashSet<(Arc<str>, String)>>,
}

impl Refusals {
    pub(super) fn new(say: fn(&str)) -> Self {
        Self { say, told: Mutex::default() }
    }

    /// Tells why a run gives this worker nothing, unless that was told.
    pub(super) fn tell(&self, run: &Arc<str>, why: String) {
        let text = format!("a slot of {run} is not for this worker: {why}");
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= RUNS_CAP {
            told.clear();
        }
        let is_new = told.insert((Arc::clone(run), why));
        drop(told);
        if is_new {
            (self.say)(&text);
        }
    }
}
