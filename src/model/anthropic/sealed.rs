//! Reasoning that goes back to its model, word for word and in its places.
//!
//! The provider signs each thinking block together with all that stood before
//! it, and refuses a request in which any of that has changed: a summary in
//! place of the conversation, other tools, a system prompt of another day. So a
//! sealed answer holds a fingerprint of the request it answered. It is opened
//! only where the same bytes stand before it; elsewhere the answer goes without
//! its reasoning, which the provider takes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::blocks::{call_block, input, rendered, rendered_system, rendered_tools, text_block};
use crate::message::{Prefix, Reply, Sealed};
use crate::model::api::Options;

/// The order of an answer's blocks, with those in full that go back unread.
#[derive(Serialize, Deserialize)]
struct Layout {
    /// The fingerprint of the request.
    before: String,
    pieces: Vec<Piece>,
}

/// One block of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Piece {
    /// Reasoning, as it is sent back.
    Thinking(Box<RawValue>),
    /// So many bytes of the answer's text.
    Text(usize),
    /// The next call, whose arguments were sent back in so many bytes.
    Call(usize),
    /// A block that is not kept.
    Left,
}

/// Seals an answer to a request.
pub(super) fn seal(options: &Options, prefix: &Prefix, pieces: Vec<Piece>) -> Sealed {
    let before = Trail::new(prefix).at(&rendered(options, prefix));
    let json = serde_json::to_string(&Layout { before, pieces })
        .expect("strings, numbers and raw JSON always serialise to memory");
    Sealed { by: Arc::clone(&options.sealed_by), json: json.into() }
}

/// Returns the blocks of an answer with its reasoning in its places; `None` if
/// none of it can be sent. `before` is the fingerprint of what stands before
/// the answer now.
pub(super) fn opened(
    tag: &str,
    reply: &Reply,
    before: impl FnOnce() -> String,
) -> Option<Vec<Box<RawValue>>> {
    let sealed = reply.sealed.as_ref().filter(|sealed| *sealed.by == *tag)?;
    let layout: Layout = serde_json::from_str(&sealed.json).ok()?;
    if layout.before != before() {
        return None;
    }
    let mut text = reply.text.as_str();
    let mut calls = reply.calls.iter();
    // Whether all before is as the model said it. A fork's calls have lost
    // their arguments, and what was thought behind them goes with those.
    let mut is_intact = true;
    let mut blocks = Vec::with_capacity(layout.pieces.len());
    // The API takes no answer that ends in reasoning.
    let mut end = 0;
    for piece in layout.pieces {
        let block = match piece {
            Piece::Thinking(block) => {
                blocks.extend(Some(block).filter(|_| is_intact));
                continue;
            }
            Piece::Text(bytes) => {
                let (said, rest) = text.split_at_checked(bytes)?;
                text = rest;
                text_block(said)
            }
            Piece::Call(bytes) => {
                let call = calls.next()?;
                is_intact &= input(&call.arguments).get().len() == bytes;
                Some(call_block(call))
            }
            Piece::Left => None,
        };
        let Some(block) = block else {
            is_intact = false;
            continue;
        };
        blocks.push(block);
        end = blocks.len();
    }
    blocks.truncate(end);
    (text.is_empty() && calls.next().is_none()).then_some(blocks)
}

/// The fingerprints of a conversation, oldest first.
pub(super) struct Trail<'a> {
    prefix: &'a Prefix,
    /// Of the head and the first `entries` entries; nothing is hashed before
    /// somebody asks.
    hasher: Option<blake3::Hasher>,
    entries: usize,
}

impl<'a> Trail<'a> {
    pub(super) fn new(prefix: &'a Prefix) -> Self {
        Self { prefix, hasher: None, entries: 0 }
    }

    /// Returns the fingerprint of the head and these entries, which begin with
    /// those of the call before.
    pub(super) fn at(&mut self, entries: &[&[Box<RawValue>]]) -> String {
        let hasher = self.hasher.get_or_insert_with(|| {
            let mut hasher = blake3::Hasher::new();
            let head = &self.prefix.head;
            let tools = (!head.tools.is_empty()).then(|| rendered_tools(self.prefix));
            for part in [tools, rendered_system(self.prefix)] {
                hasher.update(part.map_or("", RawValue::get).as_bytes());
                hasher.update(b"\n");
            }
            hasher
        });
        for block in entries[self.entries..].iter().flat_map(|blocks| blocks.iter()) {
            hasher.update(block.get().as_bytes());
            hasher.update(b"\n");
        }
        self.entries = entries.len();
        hasher.finalize().to_hex()[..32].to_owned()
    }
}
