//! A decision together with what it went by, for whoever wants to know.

use super::{Allowed, Ask, Decision, Policy, Sourced};

/// A decision, and why it is so.
#[derive(Debug, Clone)]
pub struct Explained {
    /// What is to be done.
    pub decision: Decision,
    /// The rule that it went by, if it was one.
    pub rule: Option<Sourced>,
    /// Why, in words.
    pub reason: String,
}

impl Explained {
    pub(super) fn allow(
        allowed: Allowed,
        rule: Option<&Sourced>,
        reason: impl Into<String>,
    ) -> Self {
        Self { decision: Decision::Allow(allowed), rule: rule.cloned(), reason: reason.into() }
    }

    pub(super) fn deny(rule: Option<&Sourced>, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let decision = Decision::Deny { reason: reason.clone() };
        Self { decision, rule: rule.cloned(), reason }
    }

    pub(super) fn ask(ask: Ask, rule: Option<&Sourced>) -> Self {
        let reason = ask.reason.clone();
        Self { decision: Decision::Ask(ask), rule: rule.cloned(), reason }
    }

    /// What a model asks a person.
    pub(super) fn question(may_ask: bool) -> Self {
        if may_ask {
            let reason = "a question of the model needs no leave";
            return Self::allow(Allowed::default(), None, reason);
        }
        Self::deny(None, "`dontAsk` asks nobody; go on with your best judgement")
    }
}

impl Policy {
    /// Tells whether a person may be asked about anything at all.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        self.mode.reach().may_ask
    }
}
