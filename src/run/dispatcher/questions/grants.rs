//! What people have allowed beyond the call that they were asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{CallQuestion, QuestionId, UnitId};
use crate::guard::{Decided, Rule};

/// Most rules that are held for a session, and for each of its batches. Each is
/// compared with every open question of up to a thousand slots, which must not
/// hold the others up; a person gives a few. Past this an answer holds for its
/// own call only.
pub(in crate::run::dispatcher) const RULES_CAP: usize = 100;

/// What holds for a session and for the batches in it.
#[derive(Debug, Default)]
pub(in crate::run::dispatcher) struct Grants {
    session: Held,
    /// By the first slot of the batch.
    batches: BTreeMap<UnitId, Held>,
}

/// Rules, each with the question whose answer allowed it.
type Held = BTreeMap<Arc<str>, Grant>;

#[derive(Debug, Clone)]
struct Grant {
    by: QuestionId,
    /// `None` of a text that is no rule: it allows what offers the very same.
    rule: Option<Rule>,
}

impl Grants {
    /// What an earlier process of the session was allowed.
    pub(in crate::run::dispatcher) fn of(session: BTreeMap<Arc<str>, QuestionId>) -> Self {
        let mut grants = Self::default();
        for (rule, by) in session {
            hold(&mut grants.session, &[rule], by);
        }
        grants
    }

    /// Holds rules for every unit; `false` if they were held before.
    pub(super) fn hold_for_session(&mut self, rules: &[Arc<str>], by: QuestionId) -> bool {
        hold(&mut self.session, rules, by)
    }

    /// Holds rules for a batch; `false` if they were held before.
    pub(super) fn hold_for_batch(
        &mut self,
        batch: UnitId,
        rules: &[Arc<str>],
        by: QuestionId,
    ) -> bool {
        hold(self.batches.entry(batch).or_default(), rules, by)
    }

    /// Returns the latest of the questions whose answers together allow this
    /// call of a unit in `batches`; `None` if they do not.
    pub(super) fn covering(
        &self,
        (asked, decided): (&CallQuestion, &Decided),
        batches: impl Iterator<Item = UnitId> + Clone,
    ) -> Option<QuestionId> {
        let of_batches = batches.filter_map(|batch| self.batches.get(&batch));
        let held = std::iter::once(&self.session).chain(of_batches);
        let by = |rule: &Arc<str>| held.clone().find_map(|held| held.get(rule)).map(|it| it.by);
        let by: Option<Vec<QuestionId>> = asked.rules.iter().map(by).collect();
        let same = by.and_then(|by| by.into_iter().max());
        same.or_else(|| {
            let grants = held.flat_map(BTreeMap::values);
            let rules = grants.filter_map(|grant| Some((grant.rule.as_ref()?, grant.by)));
            decided.covered_by(rules)?.into_iter().max()
        })
    }
}

/// Tells whether any of the rules is new.
fn hold(held: &mut Held, rules: &[Arc<str>], by: QuestionId) -> bool {
    let before = held.len();
    for rule in rules {
        if held.len() < RULES_CAP && !held.contains_key(rule) {
            held.insert(Arc::clone(rule), Grant { by, rule: rule.parse().ok() });
        }
    }
    held.len() > before
}
