//! The rules of a run, each with where it comes from.

use std::fmt;

use super::rules::Rule;

/// Where a rule comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The user's configuration.
    User,
    /// The project's configuration, which is trusted.
    Project,
    /// Settings of the command line, or of the program that drives the run.
    Settings,
    /// The definition of an agent. It only takes away.
    Agent,
    /// A skill that is trusted, while it is used.
    Skill,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 6] =
        [Self::Flag, Self::User, Self::Project, Self::Settings, Self::Agent, Self::Skill];

    /// Returns the name for people and in lists.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::User => "user",
            Self::Project => "project",
            Self::Settings => "settings",
            Self::Agent => "agent",
            Self::Skill => "skill",
        }
    }

    /// Reads a name that [`Source::as_str`] gave.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.as_str() == name)
    }
}

/// A rule and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced {
    /// The rule.
    pub rule: Rule,
    /// Where it comes from.
    pub source: Source,
}

impl AsRef<Rule> for Sourced {
    fn as_ref(&self) -> &Rule {
        &self.rule
    }
}

impl fmt::Display for Sourced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

/// The rules of a run: what denies goes before what asks, and that before what
/// allows.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Calls that never run.
    pub deny: Vec<Sourced>,
    /// Calls that run only if a person says so, in every mode.
    pub ask: Vec<Sourced>,
    /// Calls that run unasked.
    pub allow: Vec<Sourced>,
}
