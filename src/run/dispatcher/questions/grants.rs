//! What people have allowed beyond the call that they were asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{CallQuestion, QuestionId, UnitId};

/// Most rules that are held for a session, and for each of its batches. A
/// person gives a few; past this an answer holds for its own call only.
const RULES_CAP: usize = 1_000;

/// Rules, each with the question whose answer allowed it.
pub(in crate::run) type Granted = BTreeMap<Arc<str>, QuestionId>;

/// What holds for a session and for the batches in it.
#[derive(Debug, Default)]
pub(in crate::run::dispatcher) struct Grants {
    session: Granted,
    /// By the first slot of the batch.
    batches: BTreeMap<UnitId, Granted>,
}

impl Grants {
    /// What an earlier process of the session was allowed.
    pub(in crate::run::dispatcher) fn of(session: Granted) -> Self {
        Self { session, batches: BTreeMap::new() }
    }

    pub(super) fn hold_for_session(&mut self, rules: &[Arc<str>], by: QuestionId) {
        hold(&mut self.session, rules, by);
    }

    pub(super) fn hold_for_batch(&mut self, batch: UnitId, rules: &[Arc<str>], by: QuestionId) {
        hold(self.batches.entry(batch).or_default(), rules, by);
    }

    /// Returns the latest of the questions whose answers together allow this
    /// call of a unit in `batches`; `None` if they do not.
    pub(super) fn covering(
        &self,
        asked: &CallQuestion,
        batches: impl Iterator<Item = UnitId> + Clone,
    ) -> Option<QuestionId> {
        let of_batches = batches.filter_map(|batch| self.batches.get(&batch));
        let held = std::iter::once(&self.session).chain(of_batches);
        let by = |rule: &Arc<str>| held.clone().find_map(|rules| rules.get(rule).copied());
        let by: Option<Vec<QuestionId>> = asked.rules.iter().map(by).collect();
        by?.into_iter().max()
    }
}

fn hold(held: &mut Granted, rules: &[Arc<str>], by: QuestionId) {
    for rule in rules {
        if held.len() < RULES_CAP {
            held.entry(Arc::clone(rule)).or_insert(by);
        }
    }
}
