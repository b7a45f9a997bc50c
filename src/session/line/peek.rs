//! What a line says without its body: enough to know whether the body matters.
//!
//! A long log is mostly bodies that nobody needs any more. Here they are found
//! to be JSON and are not decoded.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{parse, unit};
use crate::branch::TokenSet;
use crate::event::{Invocation, Seq, UnitId};

/// A line, less its body.
#[derive(Debug)]
pub(in crate::session) struct Peek<'a> {
    pub(in crate::session) seq: Seq,
    pub(in crate::session) invocation: Invocation,
    pub(in crate::session) unit: UnitId,
    pub(in crate::session) tokens: TokenSet,
    pub(in crate::session) kind: Cow<'a, str>,
    body: &'a RawValue,
}

/// Reads what stands before a line's body; the error says why the line is bad.
pub(in crate::session) fn peek(text: &[u8]) -> Result<Peek<'_>, String> {
    let line: Line<'_> = parse(text)?;
    Ok(Peek {
        seq: Seq(line.seq),
        invocation: Invocation(line.inv),
        unit: unit(&line.unit)?,
        tokens: line.branch.parse().map_err(|error| format!("branch: {error}"))?,
        kind: line.kind,
        body: line.body,
    })
}

impl Peek<'_> {
    /// Returns what matters of the end of a call; `None` if the body is of
    /// another kind.
    pub(in crate::session) fn finished(&self) -> Option<Finished<'_>> {
        serde_json::from_str(self.body.get()).ok()
    }
}

/// The end of a call, less what became of it.
#[derive(Debug, Deserialize)]
pub(in crate::session) struct Finished<'a> {
    #[serde(borrow)]
    pub(in crate::session) call: Cow<'a, str>,
    #[serde(borrow)]
    text: &'a RawValue,
}

impl Finished<'_> {
    /// Tells whether the output is `text`, which must hold nothing that JSON
    /// writes in another way.
    pub(in crate::session) fn has_text(&self, text: &str) -> bool {
        self.text.get().strip_prefix('"').and_then(|own| own.strip_suffix('"')) == Some(text)
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    inv: u32,
    #[serde(borrow)]
    unit: Cow<'a, str>,
    #[serde(borrow)]
    branch: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    body: &'a RawValue,
}
