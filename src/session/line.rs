//! The log's line format, version 1: one event is one JSON object on one line.
//!
//! The same head stands before every event, then `kind` and `body`; the bodies
//! are in `line/body.rs`. All of it is written out by hand in private structs:
//! [`Event`] derives nothing, so that a change of the inside never changes what
//! lies on disk. Both conversions are total.

mod body;
mod calls;
mod changes;
mod ends;
mod flows;
mod forms;
mod hooks;
mod images;
#[cfg(feature = "nats")]
pub(crate) mod kinds;
mod offered;
mod peek;
mod questions;
mod requests;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::branch::{Branch, BranchPath};
use crate::event::{Event, EventKind, Invocation, Seq, UnitId, UnixMillis};

use body::Body;
pub(super) use peek::{Peek, peek};

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u32 = 1;

/// Most bytes of a line. No model's context holds a text of this size, so a
/// longer line is damage; and a reader holds one line in memory.
pub(super) const LINE_CAP: usize = 32 * 1024 * 1024;

/// Most characters of a reason why a line is bad. The JSON parser's reasons
/// quote what they found, which may be all of a line.
const REASON_CAP: usize = 200;

/// What one line says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decoded {
    /// An event.
    Event(Event),
    /// An event of a kind that a later tine may know.
    Unknown { kind: String },
}

/// Appends the line of `event` to `buffer`, with its line feed.
pub(super) fn encode(event: &Event, buffer: &mut Vec<u8>) {
    let body = Body::of(&event.kind);
    let line = Line {
        v: matches!(event.kind, EventKind::SessionOpened(_)).then_some(VERSION),
        seq: event.seq.0,
        at: event.at.0,
        inv: event.invocation.0,
        unit: event.unit.to_string().into(),
        branch: event.branch.tokens.to_string().into(),
        path: event.branch.path.as_str().into(),
        kind: body.kind().into(),
        body,
    };
    serde_json::to_writer(&mut *buffer, &line)
        .expect("text and numbers are always JSON, and a buffer takes every write");
    buffer.push(b'\n');
}

/// Reads a line without its line feed; the error says why it is bad.
pub(super) fn decode(text: &[u8]) -> Result<Decoded, String> {
    decode_line(text).map_err(bounded)
}

/// Cuts a reason down to what people are told of it.
fn bounded(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().nth(REASON_CAP) {
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

/// Returns the format version that a log's first line names, if it can be read
/// at all: a later version may have changed everything else about the line.
pub(super) fn version(first_line: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    serde_json::from_slice::<Version>(first_line).ok().map(|version| version.v)
}

fn decode_line(text: &[u8]) -> Result<Decoded, String> {
    // Only a line that does not fit is asked for its version, so that a line
    // that does is parsed once.
    let line: Line<'_, &RawValue> = parse(text).map_err(|error| match version(text) {
        Some(found) if found != VERSION => wrong_version(found),
        Some(_) | None => error,
    })?;
    if let Some(found) = line.v.filter(|&found| found != VERSION) {
        return Err(wrong_version(found));
    }
    let Some(kind) = body::read(&line.kind, line.body.get().as_bytes())? else {
        return Ok(Decoded::Unknown { kind: line.kind.into_owned() });
    };
    if matches!(kind, EventKind::SessionOpened(_)) && line.v.is_none() {
        return Err("a session opens without a format version".to_owned());
    }
    let tokens = line.branch.parse().map_err(|error| format!("branch: {error}"))?;
    Ok(Decoded::Event(Event {
        seq: Seq(line.seq),
        at: UnixMillis(line.at),
        invocation: Invocation(line.inv),
        unit: unit(&line.unit)?,
        branch: Branch { tokens, path: BranchPath::from_text(&line.path) },
        kind,
    }))
}

fn wrong_version(found: u32) -> String {
    format!("format version {found}, but this tine reads version {VERSION}")
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

fn unit(name: &str) -> Result<UnitId, String> {
    UnitId::from_name(name)
        // One unit has one name: `agent-07` is not `agent-7`.
        .filter(|unit| unit.to_string() == name)
        .ok_or_else(|| format!("`{name}` is not a unit"))
}

/// Text that is borrowed from an event when it is written and owned when it
/// was read.
type Text<'a> = Cow<'a, str>;

#[derive(Serialize, Deserialize)]
struct Line<'a, B> {
    /// Only where a session opens, which is a log's first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    v: Option<u32>,
    seq: u64,
    at: u64,
    inv: u32,
    unit: Text<'a>,
    /// The token set's canonical text.
    branch: Text<'a>,
    path: Text<'a>,
    kind: Text<'a>,
    body: B,
}

#[cfg(test)]
mod tests;
