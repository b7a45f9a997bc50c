//! What of an answer goes back to its provider word for word, and where.
//!
//! A reply keeps its text and its calls apart; the API gave them as items in
//! an order, with reasoning between them, and wants that back. So the sealed
//! part of a reply says what stands where. Only reasoning is in it in full.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::Reply;
use crate::model::api::raw;

/// One item of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place<'a> {
    /// Reasoning, as it is sent.
    Reasoning(Cow<'a, RawValue>),
    /// A part of the reply's text, in bytes.
    Message {
        start: usize,
        end: usize,
        /// Whether it is said on the way or at the end: models that tell want
        /// to be told again.
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        phase: Option<Cow<'a, str>>,
    },
    /// A call of the reply, by its place.
    Call(usize),
}

/// Returns the items as a reply keeps them; `None` if a reply says the same
/// without them.
pub(super) fn sealed(mut places: Vec<Place<'_>>) -> Option<Arc<str>> {
    // The API refuses reasoning with nothing of the same answer behind it:
    // that of an answer that was cut off.
    while places.pop_if(|place| matches!(place, Place::Reasoning(_))).is_some() {}
    let says_more = places.iter().any(|place| match place {
        Place::Reasoning(_) => true,
        Place::Message { start: _, end: _, phase } => phase.is_some(),
        Place::Call(_) => false,
    });
    says_more.then(|| raw(&places).get().into())
}

/// Reads what [`sealed`] wrote; `None` if it does not fit the reply, whatever
/// happened to it.
pub(super) fn opened<'a>(json: &'a str, reply: &Reply) -> Option<Vec<Place<'a>>> {
    let places: Vec<Place<'_>> = serde_json::from_str(json).ok()?;
    let mut calls = 0;
    for place in &places {
        match place {
            Place::Reasoning(_) => {}
            Place::Message { start, end, phase: _ } => {
                reply.text.get(*start..*end)?;
            }
            // Each call once and in order, or one would be left without its
            // output, or an output without its call.
            Place::Call(index) if *index == calls => calls += 1,
            Place::Call(_) => return None,
        }
    }
    (calls == reply.calls.len()).then_some(places)
}

/// Returns a reasoning item as it is sent back; `None` if it holds nothing a
/// server could go on from.
///
/// What only answers may hold is left out, `status` above all: OpenAI refuses
/// a request for it.
pub(super) fn returned(item: &RawValue) -> Option<Box<RawValue>> {
    let Reasoning { id, summary, content, encrypted_content, format, signature } =
        serde_json::from_str(item.get()).ok()?;
    let not_empty = |raw: &&RawValue| !matches!(raw.get(), "null" | "\"\"" | "[]");
    let encrypted_content = encrypted_content.filter(not_empty);
    // Without the encrypted form OpenAI looks for the item in a store that
    // it is not in; servers that encrypt nothing read the plain one.
    encrypted_content.or(content.filter(not_empty))?;
    let empty = serde_json::from_str("[]").expect("an empty list is JSON");
    let sent = Sent {
        kind: "reasoning",
        id: id.filter(not_empty),
        summary: summary.filter(not_empty).unwrap_or(empty),
        content,
        encrypted_content,
        format,
        signature,
    };
    Some(raw(&sent))
}

#[derive(Deserialize)]
struct Reasoning<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    encrypted_content: Option<&'a RawValue>,
    /// OpenRouter's: whose reasoning it is.
    #[serde(borrow)]
    format: Option<&'a RawValue>,
    /// OpenRouter's: what proves it.
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Sent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    summary: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encrypted_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<&'a RawValue>,
}
