//! Owns the adaptations that a model's server was found to need.
//!
//! All units of a process that ask the model share it. An adaptation is kept for
//! later processes once a request was answered with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::store::StoredAdaptations;
use super::{Adaptation, Adaptations, RefusedRequest, is_template_error};

/// The known adaptations of one model of one server.
#[derive(Debug)]
pub struct LearnedAdaptations {
    // A mutex, because units ask and learn side by side; nothing waits in it.
    state: Mutex<LearnedState>,
    /// What is configured or known by name: not stored, so that it ends with its reason.
    given: Adaptations,
    /// The stored part; `None` if nothing is stored.
    entry: Option<StoredAdaptations>,
}

#[derive(Debug, Default)]
struct LearnedState {
    known: Arc<Adaptations>,
    /// Those among them with which a request was answered.
    proven: Adaptations,
    /// What was tried against the last refusal.
    trial: Trial,
    /// What units are about to try.
    claims: Vec<Weak<Adaptations>>,
}

/// Adaptations that a unit is about to try. No refusal of another unit's request takes them back
/// before this is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "another unit may take the adaptations back before they are tried"]
pub struct AdaptationClaim(Arc<Adaptations>);

/// Guesses that were tried against one refusal, in order.
#[derive(Debug, Default)]
struct Trial {
    said: Arc<str>,
    tried: Vec<Vec<Adaptation>>,
}

/// Known adaptations and failed guesses at the time of a refusal.
#[derive(Debug)]
pub struct Untried {
    /// Known adaptations, without the last guess if the server repeated the same refusal.
    pub kept: Adaptations,
    /// Guesses that did not help on their own.
    pub tried: Vec<Vec<Adaptation>>,
}

impl LearnedAdaptations {
    /// Begins with what is configured or known by name, and with what earlier
    /// processes have kept.
    #[must_use]
    pub fn new(given: Adaptations, entry: Option<StoredAdaptations>) -> Self {
        let mut proven = given.clone();
        proven.extend(entry.iter().flat_map(StoredAdaptations::read));
        let known = Arc::new(proven.clone());
        let state = LearnedState { known, proven, trial: Trial::default(), claims: Vec::new() };
        Self { state: Mutex::new(state), given, entry }
    }

    /// Returns what requests are sent with now.
    #[must_use]
    pub fn known(&self) -> Arc<Adaptations> {
        Arc::clone(&self.state().known)
    }

    /// Returns what is left to try. A guess does not help if the server refuses the
    /// request with it in the same words.
    #[must_use]
    pub fn untried(&self, refused: &RefusedRequest) -> Untried {
        let state = self.state();
        let mut kept = (*state.known).clone();
        let Trial { said, tried } = &state.trial;
        // Chat templates have one sentence for several rules.
        if *said != refused.said || is_template_error(said) {
            return Untried { kept, tried: Vec::new() };
        }
        let last = tried.last().into_iter().flatten();
        let last: Vec<&Adaptation> = last.filter(|it| !state.proven.has(it)).collect();
        if last.iter().all(|it| refused.adaptations.has(it)) {
            kept.remove(&last);
        }
        Untried { kept, tried: tried.clone() }
    }

    /// Adds adaptations that a refusal asks for to what is kept of the known ones.
    pub fn learn(&self, refused: &RefusedRequest, kept: Adaptations, found: &[Adaptation]) {
        let mut state = self.state();
        let mut known = kept;
        known.extend(found.iter().cloned());
        state.known = Arc::new(known);
        if state.trial.said != refused.said {
            state.trial = Trial { said: Arc::clone(&refused.said), tried: Vec::new() };
        }
        state.trial.tried.push(found.to_vec());
    }

    /// Keeps adaptations that are tried next until the claim is dropped.
    pub fn claim(&self, tried: &Adaptations) -> AdaptationClaim {
        let claim = AdaptationClaim(Arc::new(tried.clone()));
        let mut state = self.state();
        state.claims.retain(|claim| claim.strong_count() > 0);
        state.claims.push(Arc::downgrade(&claim.0));
        claim
    }

    /// Records that a request was answered with these adaptations. Returns whether
    /// [`LearnedAdaptations::save`] has something to write.
    #[must_use = "later processes learn it anew if it is not saved"]
    pub fn answered(&self, sent_with: &Adaptations) -> bool {
        let mut state = self.state();
        let is_new = sent_with.iter().any(|adaptation| !state.proven.has(adaptation));
        if is_new {
            state.proven.extend(sent_with.iter().cloned());
            let mut known = (*state.known).clone();
            known.extend(sent_with.iter().cloned());
            state.known = Arc::new(known);
            state.trial = Trial::default();
        }
        is_new && self.entry.is_some()
    }

    /// Writes what requests were answered with for later processes. It blocks.
    pub fn save(&self) {
        let Some(entry) = &self.entry else { return };
        let mut learned = self.state().proven.clone();
        learned.remove(&self.given.iter().collect::<Vec<_>>());
        entry.write(&learned);
    }

    /// Forgets the adaptations that a request was sent with and is refused all the same.
    /// Those that another unit is about to try stay.
    pub fn withdraw(&self, refused: &RefusedRequest) {
        let mut state = self.state();
        let claims: Vec<Arc<Adaptations>> = state.claims.iter().filter_map(Weak::upgrade).collect();
        let is_claimed = |it: &Adaptation| claims.iter().any(|claim| claim.has(it));
        let sent_with = refused.adaptations.iter();
        let sent_with = sent_with.filter(|it| !state.proven.has(it) && !is_claimed(it));
        let sent_with: Vec<&Adaptation> = sent_with.collect();
        let mut known = (*state.known).clone();
        known.remove(&sent_with);
        let last = state.trial.tried.last();
        let is_of_trial = state.trial.said == refused.said
            || last.is_some_and(|last| last.iter().any(|it| sent_with.contains(&it)));
        state.known = Arc::new(known);
        if is_of_trial {
            state.trial = Trial::default();
        }
    }

    fn state(&self) -> MutexGuard<'_, LearnedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
