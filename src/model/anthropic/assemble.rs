//! From events to the whole answer.
//!
//! An [`Assembly`] takes the events of one answer in order, passes text on as
//! it comes and puts the blocks together. It knows no sockets and no clocks.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::blocks::input;
use super::decode::{self, Field, WireBlock, WireDelta, WireEvent, WireMessage};
use super::sealed::{self, Piece};
use crate::message::{Prefix, Reply, Usage};
use crate::model::api::calls::{OpenCall, named};
use crate::model::api::lenient::Text;
use crate::model::api::{Options, PART_COST, PARTS_CAP, finish, raw, too_long, too_many};
use crate::model::http::sse::Event;
use crate::model::http::{ANSWER_CAP, fault};
use crate::model::{Answer, Asker, Chunk, ModelError};

/// Most signs of life that count while a model thinks in secret. Nothing else
/// comes then, for minutes; at one in ten seconds this is an hour.
const PINGS: u32 = 360;

/// An answer that is being put together.
#[derive(Debug)]
pub struct Assembly {
    options: Arc<Options>,
    /// The text of all blocks. Only the last block is added to.
    text: String,
    /// The reasoning of all blocks, in the same way.
    thinking: String,
    blocks: Vec<Block>,
    calls: Vec<Begun>,
    /// The open block of each number.
    open: HashMap<u64, usize>,
    usage: Usage,
    /// The word for the end.
    stop: Option<Box<str>>,
    /// Set once more of the answer follows that word, which then proves nothing.
    went_on: bool,
    is_over: bool,
    bytes: usize,
    pings: u32,
    /// Whether the last event added something to the answer.
    grew: bool,
}

/// One block of the answer.
#[derive(Debug)]
enum Block {
    /// So many bytes of the text.
    Text(usize),
    /// So many bytes of the reasoning, and what its provider knows it by.
    Thinking { bytes: usize, signature: String },
    /// Reasoning that only its provider can read.
    Redacted(Box<RawValue>),
    /// The call at this place.
    Call(usize),
    /// Something that nobody here asked for.
    Foreign,
}

/// A call that has begun.
#[derive(Debug, Default)]
struct Begun {
    call: OpenCall,
    /// What its block began with: all of the arguments, or an empty object.
    input: String,
}

impl Assembly {
    pub(super) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            text: String::new(),
            thinking: String::new(),
            blocks: Vec::new(),
            calls: Vec::new(),
            open: HashMap::new(),
            usage: Usage::default(),
            stop: None,
            went_on: false,
            is_over: false,
            bytes: 0,
            pings: 0,
            grew: false,
        }
    }

    /// Takes one event and says its text.
    ///
    /// # Errors
    ///
    /// The event is an error of the provider, no event at all, or one too many.
    pub(in crate::model) fn take(
        &mut self,
        event: Event<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        self.grew = false;
        if event.is_end_mark() {
            self.is_over = true;
            return Ok(());
        }
        let wire: WireEvent = serde_json::from_str(event.data).map_err(|error| {
            let said = fault::in_event(event, None, &self.options.secrets);
            said.unwrap_or_else(|| fault::unreadable(&error, event.data, &self.options.secrets))
        })?;
        let index = wire.index.0;
        match Some(wire.kind.word()).filter(|kind| !kind.is_empty()).unwrap_or(event.name) {
            "content_block_delta" => {
                if let Some(delta) = &wire.delta {
                    self.take_delta(index, delta, say);
                }
            }
            "content_block_start" => self.begin(index, wire.content_block, say)?,
            "content_block_stop" => drop(index.and_then(|index| self.open.remove(&index))),
            // A stop reason here proves nothing: the content is still to come.
            "message_start" => self.take_content(&decode::parsed(wire.message), say)?,
            "message_delta" => {
                decode::count(&mut self.usage, wire.usage);
                self.take_stop(wire.delta.map(|delta| delta.stop_reason).unwrap_or_default());
            }
            "message_stop" => {
                self.grew = !self.has_ended();
                self.is_over = true;
            }
            "ping" => self.take_ping(),
            // An error, or whatever else there may be some day.
            kind => {
                let is_error = kind == "error" || wire.error.is_some();
                let event = Event { name: if is_error { "error" } else { event.name }, ..event };
                if let Some(error) = fault::in_event(event, wire.error, &self.options.secrets) {
                    return Err(error);
                }
            }
        }
        self.within_cap()
    }

    /// Takes the answer of a server that does not stream.
    ///
    /// # Errors
    ///
    /// As for an event.
    pub(in crate::model) fn take_whole(
        &mut self,
        bytes: &[u8],
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(error) = fault::in_body(&text, &self.options.secrets) {
            return Err(error);
        }
        let message: WireMessage = serde_json::from_str(&text).map_err(|_| {
            fault::no_message("the answer cannot be read", &text, &self.options.secrets)
        })?;
        self.take_content(&message, say)?;
        self.take_stop(message.stop_reason);
        if self.is_empty() && !self.is_complete() {
            return Err(fault::no_message(
                "the answer holds no message",
                &text,
                &self.options.secrets,
            ));
        }
        self.within_cap()
    }

    /// Tells whether the last event added something: text, a part of a call,
    /// or the answer's end.
    pub(in crate::model) fn grew(&self) -> bool {
        self.grew
    }

    /// Tells whether the provider has said why the answer ended.
    pub(in crate::model) fn has_ended(&self) -> bool {
        self.stop.is_some() && !self.went_on || self.is_over
    }

    /// Tells whether nothing can follow.
    pub(in crate::model) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Tells whether the answer reached its end, as far as anyone can see: not
    /// every server gives a reason.
    pub(in crate::model) fn is_complete(&self) -> bool {
        self.stop.is_some() && !self.went_on || self.is_over && !self.is_empty()
    }

    /// Tells whether nothing at all was said.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.calls.is_empty()
    }

    /// Returns what was counted so far: the prompt from the first event on.
    pub(in crate::model) fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the whole answer. A call without an id gets one that the
    /// conversation does not know yet.
    ///
    /// # Errors
    ///
    /// The answer is not whole.
    pub(in crate::model) fn finish(
        self,
        asker: &Asker,
        prefix: &Prefix,
    ) -> Result<Answer, ModelError> {
        let has_calls = !self.calls.is_empty();
        let stop = finish::stop_reason(self.stop.as_deref(), has_calls, &self.options.secrets)?;
        let Self { options, text, thinking, blocks, calls, usage, .. } = self;
        let calls: Vec<_> = calls.into_iter().map(Begun::whole).collect();
        let pieces = pieces(&blocks, &thinking, &calls);
        let has_thinking = pieces.iter().any(|piece| matches!(piece, Piece::Thinking(_)));
        let sealed = has_thinking.then(|| sealed::seal(&options, prefix, pieces));
        let calls = named(calls, asker, prefix);
        Ok(Answer { reply: Reply { text, thinking, calls, sealed }, usage, stop })
    }

    fn within_cap(&self) -> Result<(), ModelError> {
        if self.bytes <= ANSWER_CAP { Ok(()) } else { Err(too_long()) }
    }

    fn take_content(
        &mut self,
        message: &WireMessage<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        decode::count(&mut self.usage, message.usage);
        match message.content {
            Some(text) if text.get().starts_with('"') => self.add_text(text.into(), say),
            blocks => {
                for block in decode::parsed::<Vec<&RawValue>>(blocks) {
                    self.begin(None, Some(block), say)?;
                }
            }
        }
        Ok(())
    }

    fn take_stop(&mut self, reason: Text<'_>) {
        let reason = reason.get().filter(|reason| !finish::is_absent(reason));
        if let Some(reason) = reason {
            self.grew |= self.stop.is_none();
            self.stop = Some(reason.into());
            self.went_on = false;
        }
    }

    /// Takes the start of a block. Some servers start a block anew with each
    /// piece of it.
    fn begin(
        &mut self,
        index: Option<u64>,
        field: Field<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        let block: WireBlock = decode::parsed(field);
        let kind = block.kind.word();
        let open = index.and_then(|index| self.open.get(&index)).map(|&place| &self.blocks[place]);
        let goes_on = match (kind, open) {
            ("text", Some(Block::Text(_))) | ("thinking", Some(Block::Thinking { .. })) => true,
            ("tool_use", Some(Block::Call(place))) => {
                self.calls[*place].call.id.as_deref() == block.id.get().as_deref()
            }
            _ => false,
        };
        if !goes_on {
            if kind == "tool_use" && self.calls.len() == PARTS_CAP {
                return Err(too_many());
            }
            self.push(kind, field);
            self.open.extend(index.map(|index| (index, self.blocks.len() - 1)));
        }
        match kind {
            "text" => self.add_text(block.text, say),
            "thinking" => {
                self.add_thinking(block.thinking, say);
                self.add_signature(index, block.signature);
            }
            "tool_use" => self.describe_call(index, &block),
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, kind: &str, field: Field<'_>) {
        self.bytes += PART_COST;
        self.blocks.push(match (kind, field) {
            ("text", _) => Block::Text(0),
            ("thinking", _) => Block::Thinking { bytes: 0, signature: String::new() },
            ("redacted_thinking", Some(block)) => {
                self.bytes += block.get().len();
                self.grew = true;
                Block::Redacted(block.to_owned())
            }
            ("tool_use", _) => {
                self.grew = true;
                self.calls.push(Begun::default());
                Block::Call(self.calls.len() - 1)
            }
            _ => Block::Foreign,
        });
    }

    fn take_delta(
        &mut self,
        index: Option<u64>,
        delta: &WireDelta<'_>,
        say: &mut dyn FnMut(Chunk),
    ) {
        // What is there tells more than the type that is named: some servers
        // name the wrong one.
        self.add_text(delta.text, say);
        self.add_thinking(delta.thinking, say);
        self.add_signature(index, delta.signature);
        if let Some(place) = self.call_at(index) {
            let call = &mut self.calls[place].call;
            let before = call.arguments.len();
            add_arguments(&mut call.arguments, delta.partial_json);
            let added = call.arguments.len().saturating_sub(before);
            self.note(added);
        }
    }

    fn add_text(&mut self, more: Text<'_>, say: &mut dyn FnMut(Chunk)) {
        let start = self.text.len();
        more.append(&mut self.text);
        let added = self.text.len() - start;
        if added == 0 {
            return;
        }
        match self.blocks.last_mut() {
            Some(Block::Text(bytes)) => *bytes += added,
            Some(_) | None => {
                self.bytes += PART_COST;
                self.blocks.push(Block::Text(added));
            }
        }
        self.note(added);
        say(Chunk::Text(self.text[start..].into()));
    }

    fn add_thinking(&mut self, more: Text<'_>, say: &mut dyn FnMut(Chunk)) {
        let start = self.thinking.len();
        more.append(&mut self.thinking);
        let added = self.thinking.len() - start;
        if added == 0 {
            return;
        }
        match self.blocks.last_mut() {
            Some(Block::Thinking { bytes, signature }) if signature.is_empty() => *bytes += added,
            Some(_) | None => {
                let signature = String::new();
                self.bytes += PART_COST;
                self.blocks.push(Block::Thinking { bytes: added, signature });
            }
        }
        self.note(added);
        say(Chunk::Thinking(self.thinking[start..].into()));
    }

    fn add_signature(&mut self, index: Option<u64>, more: Text<'_>) {
        let place = index.and_then(|index| self.open.get(&index).copied());
        let place = place.or(self.blocks.len().checked_sub(1));
        if let Some(Block::Thinking { signature, .. }) = place.map(|place| &mut self.blocks[place])
        {
            let before = signature.len();
            more.append(signature);
            let added = signature.len() - before;
            self.note(added);
        }
    }

    fn describe_call(&mut self, index: Option<u64>, block: &WireBlock<'_>) {
        let Some(place) = self.call_at(index) else { return };
        let Begun { call, input } = &mut self.calls[place];
        let before = call.size() + input.len();
        call.id = call.id.take().or_else(|| block.id.get().map(Arc::from));
        call.name = call.name.take().or_else(|| block.name.get().map(Arc::from));
        add_arguments(input, block.input);
        self.bytes += (call.size() + input.len()).saturating_sub(before);
    }

    /// Returns the call that an event belongs to.
    fn call_at(&self, index: Option<u64>) -> Option<usize> {
        let open = index.and_then(|index| self.open.get(&index));
        let block = open.map(|&place| &self.blocks[place]).filter(|block| block.is_call());
        match block.or(self.blocks.last())? {
            Block::Call(place) => Some(*place),
            Block::Text(_) | Block::Thinking { .. } | Block::Redacted(_) | Block::Foreign => None,
        }
    }

    fn take_ping(&mut self) {
        let silent = |block: &Block| match block {
            Block::Thinking { bytes, signature } => *bytes == 0 && signature.is_empty(),
            Block::Text(_) | Block::Redacted(_) | Block::Call(_) | Block::Foreign => false,
        };
        if self.blocks.last().is_some_and(silent) && self.pings < PINGS {
            self.pings += 1;
            self.grew = true;
        }
    }

    fn note(&mut self, added: usize) {
        self.bytes += added;
        self.grew |= added > 0;
        self.went_on |= added > 0 && self.stop.is_some();
    }
}

impl Block {
    fn is_call(&self) -> bool {
        matches!(self, Self::Call(_))
    }
}

impl Begun {
    fn whole(self) -> OpenCall {
        let Self { mut call, input } = self;
        if call.arguments.is_empty() {
            // A call of a tool without parameters may come without any.
            call.arguments = if input.is_empty() { "{}".to_owned() } else { input };
        }
        call
    }
}

/// Adds a piece of a call's arguments: a part of their text or, where a server
/// sends them as they are, all of them.
fn add_arguments(arguments: &mut String, field: Field<'_>) {
    match field {
        Some(whole) if whole.get().starts_with('{') => whole.get().clone_into(arguments),
        Some(piece) => Text::from(piece).append(arguments),
        None => {}
    }
}

/// Returns the blocks of an answer as they are sealed.
fn pieces(blocks: &[Block], thinking: &str, calls: &[OpenCall]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(blocks.len());
    let mut thought = 0;
    for (place, block) in blocks.iter().enumerate() {
        let piece = match block {
            Block::Text(bytes) => Piece::Text(*bytes),
            Block::Thinking { bytes, signature } => {
                let text = &thinking[thought..thought + bytes];
                thought += bytes;
                // An answer that was cut off in the middle of it.
                if signature.is_empty() && place + 1 == blocks.len() {
                    continue;
                }
                Piece::Thinking(thinking_block(text, signature))
            }
            Block::Redacted(block) => Piece::Thinking(block.clone()),
            Block::Call(place) => {
                let arguments = &calls[*place].arguments;
                let sent = input(arguments).get();
                if sent != arguments.trim() {
                    pieces.push(Piece::Left);
                }
                Piece::Call(sent.len())
            }
            Block::Foreign => Piece::Left,
        };
        pieces.push(piece);
    }
    pieces
}

fn thinking_block(thinking: &str, signature: &str) -> Box<RawValue> {
    raw(&ThinkingBlock { kind: "thinking", thinking, signature })
}

#[derive(Serialize)]
struct ThinkingBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    thinking: &'a str,
    signature: &'a str,
}
