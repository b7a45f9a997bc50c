//! What a unit may do besides while it follows a skill.

use super::Policy;
use crate::guard::Sourced;

impl Policy {
    /// Returns the policy of a unit that follows a skill: what the skill allows
    /// runs unasked, as far as nothing denies it or has it asked.
    #[must_use]
    pub fn with_leave(&self, leave: &[Sourced]) -> Self {
        let new = leave.iter().filter(|rule| !self.leave.contains(rule));
        let leave = self.leave.iter().chain(new).cloned().collect();
        Self { leave, ..self.clone() }
    }

    /// Returns the policy for units that such a unit starts: they follow no
    /// skill.
    #[must_use]
    pub fn without_leave(&self) -> Self {
        Self { leave: [].into(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::guard::{Decision, Effect, Mode, Source};

    #[test]
    fn leave_is_one_units_and_does_not_outlast_it() {
        let plain = Policy::new(Mode::Default, [PathBuf::from("/w")]);
        let rule = Sourced { rule: "Write(a)".parse().unwrap(), source: Source::Skill };
        let following = plain.with_leave(std::slice::from_ref(&rule)).with_leave(&[rule]);
        let is_allowed = |policy: &Policy| {
            let call = json!({ "file_path": "a", "content": "" });
            matches!(policy.decide("Write", Effect::Edits, &call), Decision::Allow(_))
        };
        assert!(is_allowed(&following) && !is_allowed(&plain));
        assert!(!is_allowed(&following.without_leave()));
        // One that goes on for it has what both have.
        assert!(!is_allowed(&following.within(&plain)) && !is_allowed(&plain.within(&following)));
        assert!(is_allowed(&following.within(&following)));
        assert!(!is_allowed(&following.narrowed(Some(Mode::Plan), &[])));
        assert_eq!(following.leave.len(), 1);
    }
}
