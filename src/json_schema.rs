//! JSON Schema: what a value must be, and in which places one is not.
//!
//! Schemas come from outside: from whoever calls the program, and from models.
//! So none has a file or an address read, none takes the stack away, and
//! whatever one asks for ends after a bounded number of steps: what was found
//! out about a part of a value is never found out again, and patterns give up.
//!
//! Drafts 7 to 2020-12 are known. A `$ref` leads to a place in the schema itself;
//! `format` and the keywords about contents say nothing that is checked.

mod check;
mod compile;
mod explain;
mod node;
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

/// Most bytes that one pattern takes when it is compiled.
pub const PATTERN_MEMORY_CAP: usize = 1 << 18;

/// How often a pattern may go back before it gives up. Each time it may read
/// the whole text again.
const PATTERN_STEPS_CAP: usize = 10_000;

/// Most steps of one check, some tenths of a second: a rule is one, and a
/// pattern one for each byte it looks at. A schema of a hundred parts on a value
/// of a thousand takes a tenth of them at worst.
pub const STEPS_CAP: usize = 1_000_000;

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
        let value = normal(value);
        let mut run = Run::new(&self.nodes);
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
