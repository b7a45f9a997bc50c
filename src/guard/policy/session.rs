//! The rules that a program gives for the session while it goes on.

use super::Policy;
use crate::guard::{Rules, Source, Sourced};

impl Policy {
    /// Returns the same policy with these rules for the session, in place of
    /// those that it had.
    #[must_use]
    pub fn for_session(self, more: Rules) -> Self {
        let with = |own: &[Sourced], more: Vec<Sourced>| -> Vec<Sourced> {
            let kept = own.iter().filter(|rule| rule.source != Source::Session);
            kept.cloned().chain(more).collect()
        };
        let Rules { deny, ask, allow } = &*self.rules;
        let (deny, ask) = (with(deny, more.deny), with(ask, more.ask));
        let rules = Rules { deny, ask, allow: with(allow, more.allow) };
        self.with_rules(rules)
    }
}
