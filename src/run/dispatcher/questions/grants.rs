//! What people have allowed beyond the call that they were asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{CallQuestion, QuestionId, UnitId};
use crate::guard::{Policy, Rule};

/// Most rules that are held for a session, and for each of its batches. A
/// person gives a few; past this an answer holds for its own call only.
const RULES_CAP: usize = 1_000;

/// What holds for a session and for the batches in it.
#[derive(Debug, Default)]
pub(in crate::run::dispatcher) struct Grants {
    session: Held,
    /// By the first slot of the batch.
    batches: BTreeMap<UnitId, Held>,
    /// How rules are read; without it they allow what offers the very same.
    policy: Option<Arc<Policy>>,
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

    /// From now on reads rules as `policy` does.
    pub(in crate::run::dispatcher) fn read_by(&mut self, policy: Arc<Policy>) {
        self.policy = Some(policy);
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
        asked: &CallQuestion,
        batches: impl Iterator<Item = UnitId> + Clone,
    ) -> Option<QuestionId> {
        let of_batches = batches.filter_map(|batch| self.batches.get(&batch));
        let held = std::iter::once(&self.session).chain(of_batches);
        let by = |rule: &Arc<str>| held.clone().find_map(|held| held.get(rule)).map(|it| it.by);
        let by: Option<Vec<QuestionId>> = asked.rules.iter().map(by).collect();
        let same = by.and_then(|by| by.into_iter().max());
        same.or_else(|| self.matching(asked, held.flat_map(BTreeMap::values)))
    }

    /// As [`Grants::covering`], by what the rules mean.
    fn matching<'a>(
        &self,
        asked: &CallQuestion,
        held: impl Iterator<Item = &'a Grant>,
    ) -> Option<QuestionId> {
        let policy = self.policy.as_ref()?;
        let grants: Vec<(QuestionId, Rule)> =
            held.filter_map(|grant| Some((grant.by, grant.rule.clone()?))).collect();
        let allows = |grants: &[(QuestionId, Rule)]| {
            let rules: Vec<Rule> = grants.iter().map(|(_, rule)| rule.clone()).collect();
            policy.covers(&rules, asked)
        };
        if grants.is_empty() || !allows(&grants) {
            return None;
        }
        let alone = grants.iter().find(|grant| allows(std::slice::from_ref(grant)));
        alone.map(|(by, _)| *by).or_else(|| grants.iter().map(|(by, _)| *by).max())
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
