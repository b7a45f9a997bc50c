//! Rules on their way to another machine.
//!
//! A rule goes as it is written and, where it says `~/`, as that reads here: over
//! there is another home.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Rule, Source, Sourced};

/// Why what a unit may do cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("what a unit may do cannot be read: {why}")]
pub struct Malformed {
    why: String,
}

impl Malformed {
    pub(super) fn because(why: impl Display) -> Self {
        Self { why: why.to_string() }
    }
}

/// A rule, as JSON has it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenRule {
    /// As somebody wrote it.
    rule: String,
    /// As it reads there.
    means: String,
    source: String,
}

impl WrittenRule {
    pub(crate) fn all(rules: &[Sourced]) -> Vec<Self> {
        let written = rules.iter().map(|Sourced { rule, source }| Self {
            rule: rule.to_string(),
            means: rule.spelt_out(),
            source: source.as_str().to_owned(),
        });
        written.collect()
    }

    /// Reads what [`WrittenRule::all`] gave. One that cannot be obeyed is an
    /// error, whatever it would have done.
    pub(crate) fn read(rules: Vec<Self>) -> Result<Vec<Sourced>, Malformed> {
        let sourced = |Self { rule, means, source }: Self| {
            let known = Source::from_name(&source)
                .ok_or_else(|| Malformed::because(format!("`{rule}` comes from `{source}`")))?;
            let rule = Rule::read_again(&rule, &means).map_err(Malformed::because)?;
            Ok(Sourced { rule, source: known })
        };
        rules.into_iter().map(sourced).collect()
    }
}
