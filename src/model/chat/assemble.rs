//! From pieces to the whole answer.
//!
//! An [`Assembly`] takes the pieces of one answer in order, passes text on as
//! it comes and puts the calls together. It knows no sockets and no clocks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::decode::{WireCall, WireChoice, WireChunk, WireFunction, WireMessage};
use crate::message::{Prefix, Reply, StopReason, Usage};
use crate::model::api::calls::{OpenCall, named};
use crate::model::api::lenient::{Count, Text, push_string};
use crate::model::api::{PART_COST, PARTS_CAP, finish, too_long, too_many};
use crate::model::http::ANSWER_CAP;
use crate::model::http::fault;
use crate::model::http::secrets::Secrets;
use crate::model::http::sse::Event;
use crate::model::{Answer, Asker, Chunk, ModelError};

/// An answer that is being put together.
#[derive(Debug, Default)]
pub struct Assembly {
    secrets: Secrets,
    text: String,
    thinking: String,
    calls: Vec<OpenCall>,
    /// The last call of each number and of each id: an answer may hold
    /// hundreds of thousands of pieces.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<Arc<str>, usize>,
    usage: Option<Usage>,
    /// The word for the end.
    finish: Option<Arc<str>>,
    /// Set once more of the answer follows that word, which then proves nothing.
    went_on: bool,
    refused: bool,
    /// Whether the end mark came.
    is_marked: bool,
    bytes: usize,
    /// Whether the last piece added something to the answer.
    grew: bool,
    /// For texts that have to be rewritten before they are read.
    buffer: String,
}

impl Assembly {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    pub(in crate::model) fn take(
        &mut self,
        event: Event<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        self.grew = false;
        if event.is_end_mark() {
            self.is_marked = true;
            return Ok(());
        }
        let chunk: WireChunk<'_> = match serde_json::from_str(event.data) {
            Ok(chunk) => chunk,
            Err(error) => {
                let said = fault::in_event(event, None, &self.secrets);
                let unreadable = || fault::unreadable(&error, event.data, &self.secrets);
                return Err(said.unwrap_or_else(unreadable));
            }
        };
        if (chunk.may_be_error() || event.name.eq_ignore_ascii_case("error"))
            && let Some(error) = fault::in_event(event, chunk.error, &self.secrets)
        {
            return Err(error);
        }
        self.take_chunk(chunk, say)
    }

    pub(in crate::model) fn take_whole(
        &mut self,
        bytes: &[u8],
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(error) = fault::in_body(&text, &self.secrets) {
            return Err(error);
        }
        let chunk = serde_json::from_str(&text)
            .map_err(|_| fault::no_message("the answer cannot be read", &text, &self.secrets))?;
        self.take_chunk(chunk, say)?;
        if self.is_empty() && !self.is_complete() {
            return Err(fault::no_message("the answer holds no message", &text, &self.secrets));
        }
        Ok(())
    }

    fn take_chunk(
        &mut self,
        chunk: WireChunk<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        if let Some(usage) = &chunk.usage {
            self.usage = Some(usage.usage());
        }
        for choice in chunk.choices.into_iter().flatten() {
            // Other choices are other answers; nobody asked for them.
            if choice.index.0.unwrap_or(0) == 0 {
                self.take_choice(choice, say)?;
            }
        }
        if self.bytes > ANSWER_CAP { Err(too_long()) } else { Ok(()) }
    }

    fn take_choice(
        &mut self,
        choice: WireChoice<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        let error = choice.error.and_then(|error| serde_json::from_str(error.get()).ok());
        if let Some(error) = error.filter(|error| !fault::is_blank(error)) {
            return Err(fault::in_answer(&error, &self.secrets));
        }
        let had_grown = mem::take(&mut self.grew);
        if let Some(message) = choice.delta.or(choice.message) {
            self.take_message(message, say)?;
        }
        self.went_on |= self.grew && self.finish.is_some();
        self.grew |= had_grown;
        if let Some(word) = choice.finish_reason.get().filter(|word| !finish::is_absent(word)) {
            let native = choice.native_finish_reason.get().unwrap_or_default();
            self.grew |= self.finish.is_none();
            self.finish = Some(finish::telling(&word, &native).into());
            self.went_on = false;
        }
        Ok(())
    }

    pub(in crate::model) fn grew(&self) -> bool {
        self.grew
    }

    pub(in crate::model) fn has_ended(&self) -> bool {
        self.finish.is_some() && !self.went_on
    }

    pub(in crate::model) fn is_over(&self) -> bool {
        self.is_marked
    }

    /// A finish reason proves the end. So does the end mark after some content, if
    /// no call is cut off: not every server sends a reason. Token counts prove
    /// nothing, since some servers send them with every piece.
    pub(in crate::model) fn is_complete(&self) -> bool {
        let is_whole = |call: &OpenCall| call.arguments.is_empty() || is_whole(&call.arguments);
        self.has_ended() || self.is_marked && !self.is_empty() && self.calls.iter().all(is_whole)
    }

    pub(in crate::model) fn usage(&self) -> Usage {
        self.usage.unwrap_or_default()
    }

    /// Tells whether nothing at all was said.
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.calls.is_empty()
    }

    pub(in crate::model) fn finish(
        self,
        asker: &Asker,
        prefix: &Prefix,
    ) -> Result<Answer, ModelError> {
        let has_calls = !self.calls.is_empty();
        let mut stop = finish::stop_reason(self.finish.as_deref(), has_calls, &self.secrets)?;
        if self.refused && stop == StopReason::EndTurn {
            stop = StopReason::Refusal;
        }
        let calls = named(self.calls, asker, prefix);
        let reply = Reply { text: self.text, thinking: self.thinking, calls, sealed: None };
        Ok(Answer { reply, usage: self.usage.unwrap_or_default(), stop })
    }

    fn take_message(
        &mut self,
        message: WireMessage<'_>,
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        // Some servers send the reasoning under both names at once.
        let reasoning = [message.reasoning_content, message.reasoning];
        if let Some(thinking) = reasoning
            .into_iter()
            .find(|text| text.is_some())
            .and_then(|text| text.get_in(&mut self.buffer))
        {
            self.bytes += thinking.len();
            self.thinking.push_str(thinking);
            self.grew = true;
            say(Chunk::Thinking(thinking.into()));
        }
        self.refused |= message.refusal.is_some();
        for text in [message.content, message.refusal] {
            let Some(text) = text.get_in(&mut self.buffer) else { continue };
            self.bytes += text.len();
            self.text.push_str(text);
            self.grew = true;
            say(Chunk::Text(text.into()));
        }
        let has_calls = message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        for call in message.tool_calls.into_iter().flatten() {
            self.take_call(call)?;
        }
        // Some servers send the one call under both names, or none as an empty
        // one.
        let is_call =
            |function: &WireFunction<'_>| function.name.is_some() || !self.calls.is_empty();
        if let Some(function) = message.function_call.filter(is_call).filter(|_| !has_calls) {
            let (index, id) = (Count(Some(0)), Text::default());
            self.take_call(WireCall { index, id, function: Some(function) })?;
        }
        Ok(())
    }

    fn take_call(&mut self, piece: WireCall<'_>) -> Result<(), ModelError> {
        let function = piece.function.unwrap_or_default();
        let (index, id, name) = (piece.index.0, piece.id.get(), function.name.get());
        let calls = self.calls.len();
        let position = self.open_call(index, id.as_deref(), name.as_deref())?;
        let call = &mut self.calls[position];
        let before = call.size();
        if let (None, Some(id)) = (&call.id, id) {
            let id: Arc<str> = id.into();
            let last = self.by_id.entry(Arc::clone(&id)).or_default();
            *last = position.max(*last);
            call.id = Some(id);
        }
        // Some servers repeat the name in every piece.
        if call.name.is_none() {
            call.name = name.map(Cow::into_owned).map(Arc::from);
        }
        if let Some(arguments) = function.arguments {
            append(&mut call.arguments, arguments);
        }
        let size = call.size();
        self.grew |= size != before || position == calls;
        // One more, so that a flood of empty pieces reaches the cap too.
        self.bytes += size.saturating_sub(before) + 1;
        Ok(())
    }

    /// Returns the position of the call a piece belongs to, opening a new one
    /// where it belongs to none.
    fn open_call(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Result<usize, ModelError> {
        let last = self.calls.len().checked_sub(1);
        let found = match (index, id) {
            (Some(index), _) => {
                self.by_index.get(&index).copied().filter(|&position| {
                    // Some servers number every call 0; a new id beside a name
                    // is then the only sign that another call begins.
                    let known = self.calls[position].id.as_deref();
                    !(name.is_some() && known.is_some() && id.is_some() && known != id)
                })
            }
            (None, Some(id)) => self.by_id.get(id).copied(),
            (None, None) => last.filter(|&position| {
                let call = &self.calls[position];
                name.is_none() || call.name.as_deref() == name && !is_whole(&call.arguments)
            }),
        };
        if let Some(position) = found {
            return Ok(position);
        }
        let position = self.calls.len();
        if position == PARTS_CAP {
            return Err(too_many());
        }
        self.bytes += PART_COST;
        self.calls.push(OpenCall::default());
        self.by_index.extend(index.map(|index| (index, position)));
        Ok(position)
    }
}

/// Tells whether arguments are an object to its end.
fn is_whole(arguments: &str) -> bool {
    // Reading all of them for every piece takes ever longer, and few pieces end
    // in what an object ends in.
    arguments.trim_end().ends_with('}') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

fn append(arguments: &mut String, piece: &RawValue) {
    if !push_string(piece, arguments) {
        // The arguments themselves instead of a string that holds them: then
        // they are whole.
        piece.get().clone_into(arguments);
    }
}
