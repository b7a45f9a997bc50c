//! JSON Schema: what a value must be, and in which places one is not.
//!
//! Schemas come from outside: from whoever calls the program, and from models.
//! So none has a file or an address read, none takes the stack away, and
//! whatever one asks for ends after a bounded number of steps: what was found
//! out about a part of a value is never found out again, and a pattern that goes
//! back pays for what it may read.
//!
//! Drafts 7 to 2020-12 are known. A `$ref` leads to a place in the schema itself;
//! `format` and the keywords about contents say nothing that is checked.

mod check;
mod compile;
mod explain;
mod node;
mod pattern;
mod reference;
mod seen;

use std::fmt;

use serde_json::{Number, Value};
use thiserror::Error;

use check::Run;
use node::{Node, NodeId};

/// Most subschemas of one schema. What people write by hand has tens, what
/// programs make of their types has hundreds.
pub const SUBSCHEMAS_CAP: usize = 10_000;

/// Most bytes of the names that lead to one subschema. Each is held with all of
/// them while a schema is read.
pub const PLACE_LENGTH_CAP: usize = 1_000;

/// Most patterns of one schema: each takes memory of its own, up to
/// [`PATTERN_MEMORY_CAP`].
pub const PATTERNS_CAP: usize = 100;

/// Most bytes of one pattern. The longest ones that libraries make, for mail
/// addresses and dates, have a few hundred.
pub const PATTERN_LENGTH_CAP: usize = 2_000;

/// Most bytes that one pattern takes when it is compiled; twice that if it goes
/// back often.
pub const PATTERN_MEMORY_CAP: usize = 1 << 18;

/// How often a pattern may go back: at first, and once that was not enough. Each
/// time it may read the whole text again, so the second costs what it may take.
const PATTERN_BACK_CAPS: [usize; 2] = [100, 10_000];

/// How often groups of a pattern that goes back may be repeated, all that are in
/// each other together: they need not read anything while they are.
const PATTERN_REPEATS_CAP: usize = 10_000;

/// How many bytes a pattern reads again for one step.
const BYTES_PER_STEP: usize = 64;

/// Most steps of one check, some tenths of a second: a rule is one, and so is
/// each time that a part of a value is held against a subschema. A pattern takes
/// one for each byte, and more if it looks around or goes back. A schema of a
/// hundred parts on a value of a thousand takes a third of them at worst.
pub const STEPS_CAP: usize = 1_000_000;

/// Most pairs of a subschema and a part of a value of which is kept whether they
/// fit: some megabytes.
const KNOWN_CAP: usize = 200_000;

/// After how many steps a check looks whether it is to stop.
const STOP_EVERY: usize = 1_000;

/// How deep subschemas may be in each other while a value is checked. Deeper
/// than values nest that anybody can read, and little enough for any stack.
pub const DEPTH_CAP: u32 = 200;

/// Most places that are named of a value that does not fit: with more of them a
/// model is not helped any better.
pub const PROBLEMS_CAP: usize = 10;

/// What a value must be. Checking one takes no other knowledge.
#[derive(Debug)]
pub struct Schema {
    /// The first is the whole schema.
    nodes: Vec<Node>,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("at `{place}`: {reason}")]
pub struct SchemaError {
    /// Where: a JSON Pointer behind a `#`.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

/// In which places a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// A sentence for each, with its place in front; at least one, at most
    /// [`PROBLEMS_CAP`].
    pub problems: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

/// Why nothing is known of whether a value fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unchecked {
    Stopped,
    Steps,
    Depth,
    Pattern,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    ///
    /// It is none, or one that cannot be used: the place and the reason.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        compile::compile(schema).map(|nodes| Self { nodes })
    }

    /// Says whether a value fits.
    ///
    /// # Errors
    ///
    /// It does not: the places. A value that could not be checked in
    /// [`STEPS_CAP`] steps or within [`DEPTH_CAP`] does not fit either.
    pub fn check(&self, value: &Value) -> Result<(), Mismatch> {
        self.check_until(value, &|| false)
    }

    /// Says the same, but gives up soon after `is_stopped` is true.
    ///
    /// # Errors
    ///
    /// As for [`Schema::check`]; a value whose check was given up does not fit.
    pub fn check_until(
        &self,
        value: &Value,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), Mismatch> {
        let value = normal(value);
        let mut run = Run::new(&self.nodes, is_stopped);
        let problems = match run.fits(NodeId::ROOT, &value) {
            Ok(true) => return Ok(()),
            Ok(false) => explain::explain(&mut run, &value),
            Err(unchecked) => vec![unchecked.to_string()],
        };
        Err(Mismatch { problems })
    }
}

impl fmt::Display for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "the check was stopped",
            Self::Steps => "the value is too large to be checked against the schema",
            Self::Depth => "the value is too deep to be checked against the schema",
            Self::Pattern => "a pattern of the schema takes too long on the value",
        })
    }
}

/// Writes every number in one way: 1.0 is 1, so that values are equal where
/// they mean the same.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(normal_number(number)),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), normal(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

fn normal_number(number: &Number) -> Number {
    /// Up to here every whole number is one of these numbers, too.
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= WHOLE => {
            (float as i64).into()
        }
        Some(_) | None => number.clone(),
    }
}

#[cfg(test)]
mod tests;
