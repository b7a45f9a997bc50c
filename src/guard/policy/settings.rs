//! The rules of settings, which a program may change while its session goes on.

use super::Policy;
use crate::guard::{Rules, Source, Sourced};

impl Policy {
    /// Returns the same policy with these rules of settings, in place of all
    /// that it had. The rules of flags and of files stay.
    #[must_use]
    pub fn with_settings(self, more: Rules) -> Self {
        let with = |own: &[Sourced], more: Vec<Sourced>| -> Vec<Sourced> {
            let kept = own.iter().filter(|rule| rule.source != Source::Settings);
            kept.cloned().chain(more).collect()
        };
        let Rules { deny, ask, allow } = &*self.rules;
        let (deny, ask) = (with(deny, more.deny), with(ask, more.ask));
        let rules = Rules { deny, ask, allow: with(allow, more.allow) };
        self.with_rules(rules)
    }
}
