//! The one owner of what a model of a server was found to refuse.
//!
//! All units of a process that ask the model share it. An adaptation is kept for
//! later processes once a request was answered with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::store::StoredAdaptations;
use super::{Adaptation, Adaptations};

/// The known adaptations of one model of one server.
#[derive(Debug)]
pub struct LearnedAdaptations {
    // A mutex, because units ask and learn side by side; nothing waits in it.
    state: Mutex<LearnedState>,
    /// The stored part; `None` if nothing is stored.
    entry: Option<StoredAdaptations>,
}

#[derive(Debug, Default)]
struct LearnedState {
    known: Arc<Adaptations>,
    /// Those among them with which a request was answered.
    proven: Adaptations,
}

impl LearnedAdaptations {
    /// Begins with what is configured or known by name, and with what earlier
    /// processes have kept.
    #[must_use]
    pub fn new(mut given: Adaptations, entry: Option<StoredAdaptations>) -> Self {
        given.extend(entry.iter().flat_map(StoredAdaptations::read));
        let state = LearnedState { known: Arc::new(given.clone()), proven: given };
        Self { state: Mutex::new(state), entry }
    }

    /// Returns what requests are sent with now.
    #[must_use]
    pub fn known(&self) -> Arc<Adaptations> {
        Arc::clone(&self.state().known)
    }

    /// Adds adaptations that a refusal asks for.
    pub fn learn(&self, adaptations: &[Adaptation]) {
        let mut state = self.state();
        let mut known = (*state.known).clone();
        known.extend(adaptations.iter().cloned());
        state.known = Arc::new(known);
    }

    /// Records that a request was answered with these adaptations.
    pub fn answered(&self, sent_with: &Adaptations) {
        let mut state = self.state();
        let is_new = sent_with.iter().any(|adaptation| !state.proven.has(adaptation));
        if is_new {
            state.proven.extend(sent_with.iter().cloned());
            let mut known = (*state.known).clone();
            known.extend(sent_with.iter().cloned());
            state.known = Arc::new(known);
            if let Some(entry) = &self.entry {
                entry.write(&state.proven);
            }
        }
    }

    /// Forgets what was learned for a request that is refused all the same.
    pub fn withdraw(&self) {
        let mut state = self.state();
        state.known = Arc::new(state.proven.clone());
    }

    fn state(&self) -> MutexGuard<'_, LearnedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
