//! What a policy is made of, part by part.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Gate, Policy};
use crate::guard::named::GitConfigFiles;
use crate::guard::{Rules, Secrets};
use crate::tool_name::OtherNames;

impl Policy {
    /// Returns the same policy with these rules.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules: Arc::new(rules), ..self }
    }

    /// Returns the same policy, whose rules mean tools by these names, too.
    #[must_use]
    pub fn naming(self, others: OtherNames) -> Self {
        Self { others, ..self }
    }

    /// Returns the same policy, where edits of these need a rule of their own.
    #[must_use]
    pub fn guarding(self, guarded: impl Into<Arc<[PathBuf]>>) -> Self {
        Self { guarded: guarded.into(), ..self }
    }

    /// Returns the same policy, where reading these is asked about.
    #[must_use]
    pub fn keeping(self, secrets: Secrets) -> Self {
        Self { secrets: Arc::new(secrets), ..self }
    }

    /// Returns the same policy with what tells commands that only read.
    #[must_use]
    pub fn with_gate(self, gate: Gate) -> Self {
        self.gated(Some(gate))
    }

    /// The same, where there may be none.
    pub(super) fn gated(self, gate: Option<Gate>) -> Self {
        let named = gate.as_ref().map(|gate| GitConfigFiles::asking(&gate.machine));
        let named = named.unwrap_or_default().with_versions_of(&self.named);
        Self { gate, named: Arc::new(named), ..self }
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the directories that are the workspace, the working directory
    /// first.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns what more needs a rule to be edited, wherever it is.
    #[must_use]
    pub fn guarded(&self) -> &[PathBuf] {
        &self.guarded
    }
}
