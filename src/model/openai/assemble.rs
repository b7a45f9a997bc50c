//! From pieces to the whole answer.
//!
//! An [`Assembly`] takes the pieces of one answer in order, passes text on as
//! it comes and puts the calls together. It knows no sockets and no clocks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::ANSWER_CAP;
use super::decode::{Count, Text, WireCall, WireChunk, WireFunction, WireMessage};
use super::fault;
use crate::message::{Call, CallId, Message, Prefix, Reply, StopReason, Usage};
use crate::model::{Answer, Asker, Chunk, ModelError, ModelErrorKind};

/// An answer that is being put together.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    text: String,
    thinking: String,
    calls: Vec<OpenCall>,
    /// The last call of each number and of each id: an answer may hold
    /// hundreds of thousands of pieces.
    by_index: HashMap<u64, usize>,
    by_id: HashMap<Arc<str>, usize>,
    usage: Option<Usage>,
    finish: Option<Arc<str>>,
    refused: bool,
    /// Whether a piece came that only counts tokens: servers send it last.
    counted: bool,
    bytes: usize,
    /// Whether the last piece added something to the answer.
    grew: bool,
}

/// A call whose arguments are still coming in.
#[derive(Debug, Default)]
struct OpenCall {
    id: Option<Arc<str>>,
    name: Option<Arc<str>>,
    arguments: String,
}

impl Assembly {
    /// Takes one piece and says its text.
    ///
    /// # Errors
    ///
    /// The piece is an error of the provider, or one piece too many.
    pub(super) fn take(
        &mut self,
        chunk: WireChunk,
        mut say: impl FnMut(Chunk),
    ) -> Result<(), ModelError> {
        if let Some(error) = fault::in_answer(&chunk) {
            return Err(error);
        }
        let counts = chunk.usage.is_some();
        if let Some(usage) = &chunk.usage {
            self.usage = Some(usage.usage());
        }
        let before = self.bytes;
        self.grew = false;
        for choice in chunk.choices.into_iter().flatten() {
            // Other choices are other answers; nobody asked for them.
            if choice.index.0.unwrap_or(0) != 0 {
                continue;
            }
            if choice.finish_reason.0.is_some() {
                self.grew |= self.finish.is_none();
                self.finish = choice.finish_reason.0;
            }
            if let Some(message) = choice.delta.or(choice.message) {
                self.take_message(message, &mut say);
            }
        }
        self.counted |= counts && self.bytes == before;
        if self.bytes > ANSWER_CAP {
            let message = format!("the answer is longer than {} MiB", ANSWER_CAP >> 20);
            return Err(ModelError::new(ModelErrorKind::Request, message));
        }
        Ok(())
    }

    /// Tells whether the last piece added something: text, a part of a call,
    /// or the answer's end.
    pub(super) fn grew(&self) -> bool {
        self.grew
    }

    /// Tells whether the provider has said why the answer ended.
    pub(super) fn has_ended(&self) -> bool {
        self.finish.is_some()
    }

    /// Tells whether the answer reached its end, as far as anyone can see: not
    /// every server gives a reason, but one that counts tokens does so last.
    pub(super) fn is_complete(&self) -> bool {
        self.finish.is_some() || self.counted
    }

    /// Tells whether nothing at all was said.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.thinking.is_empty() && self.calls.is_empty()
    }

    /// Returns the whole answer. A call without an id gets one that the
    /// conversation does not know yet.
    ///
    /// # Errors
    ///
    /// The provider gave an error as the reason for the end.
    pub(super) fn finish(self, asker: &Asker, prefix: &Prefix) -> Result<Answer, ModelError> {
        if self.finish.as_deref() == Some("error") {
            let message = "the provider ended the answer with an error";
            return Err(ModelError::new(ModelErrorKind::Cut, message));
        }
        let stop = self.stop();
        let calls = named(self.calls, asker, prefix);
        let reply = Reply { text: self.text, thinking: self.thinking, calls, sealed: None };
        Ok(Answer { reply, usage: self.usage.unwrap_or_default(), stop })
    }

    fn stop(&self) -> StopReason {
        match self.finish.as_deref() {
            Some("length" | "max_tokens" | "model_length") => StopReason::MaxTokens,
            Some("content_filter" | "refusal" | "safety") => StopReason::Refusal,
            // Many servers say `stop` beside calls, or make up reasons: only
            // the calls themselves tell.
            Some(_) | None if !self.calls.is_empty() => StopReason::ToolUse,
            Some(_) | None if self.refused => StopReason::Refusal,
            Some(_) | None => StopReason::EndTurn,
        }
    }

    fn take_message(&mut self, message: WireMessage, say: &mut impl FnMut(Chunk)) {
        // Some servers send the reasoning under both names at once.
        if let Some(thinking) = message.reasoning_content.0.or(message.reasoning.0) {
            self.bytes += thinking.len();
            self.thinking.push_str(&thinking);
            self.grew = true;
            say(Chunk::Thinking(thinking));
        }
        self.refused |= message.refusal.0.is_some();
        for text in [message.content.0, message.refusal.0].into_iter().flatten() {
            self.bytes += text.len();
            self.text.push_str(&text);
            self.grew = true;
            say(Chunk::Text(text));
        }
        let has_calls = message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        for call in message.tool_calls.into_iter().flatten() {
            self.take_call(call);
        }
        // Some servers send the one call under both names, or none as an empty
        // one.
        let is_call = |function: &WireFunction| function.name.0.is_some() || !self.calls.is_empty();
        if let Some(function) = message.function_call.filter(is_call).filter(|_| !has_calls) {
            let (index, id) = (Count(Some(0)), Text(None));
            self.take_call(WireCall { index, id, function: Some(function) });
        }
    }

    fn take_call(&mut self, piece: WireCall) {
        let function = piece.function.unwrap_or_default();
        let (index, id, name) = (piece.index.0, piece.id.0, function.name.0);
        let calls = self.calls.len();
        let position = self.open_call(index, id.as_deref(), name.as_deref());
        let call = &mut self.calls[position];
        let before = call.arguments.len();
        if let (None, Some(id)) = (&call.id, id) {
            let last = self.by_id.entry(Arc::clone(&id)).or_default();
            *last = position.max(*last);
            call.id = Some(id);
        }
        // Some servers repeat the name in every piece.
        call.name = call.name.take().or(name);
        if let Some(arguments) = function.arguments {
            append(&mut call.arguments, &arguments);
        }
        self.grew |= call.arguments.len() != before || position == calls;
        // One more, so that a flood of empty pieces reaches the cap too.
        self.bytes += call.arguments.len().saturating_sub(before) + 1;
    }

    /// Returns the position of the call a piece belongs to, opening a new one
    /// where it belongs to none.
    fn open_call(&mut self, index: Option<u64>, id: Option<&str>, name: Option<&str>) -> usize {
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
        found.unwrap_or_else(|| {
            let position = self.calls.len();
            self.calls.push(OpenCall::default());
            self.by_index.extend(index.map(|index| (index, position)));
            position
        })
    }
}

fn is_whole(arguments: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

fn append(arguments: &mut String, piece: &RawValue) {
    match serde_json::from_str::<String>(piece.get()) {
        Ok(text) => arguments.push_str(&text),
        // The arguments themselves instead of a string that holds them: then
        // they are whole.
        Err(_) => piece.get().clone_into(arguments),
    }
}

fn named(calls: Vec<OpenCall>, asker: &Asker, prefix: &Prefix) -> Vec<Call> {
    if calls.is_empty() {
        return Vec::new();
    }
    let mut taken: HashSet<Arc<str>> = prefix
        .messages()
        .filter_map(|message| match message {
            Message::Model(reply) => Some(reply),
            Message::User { text: _ } | Message::Output { call: _, output: _ } => None,
        })
        .flat_map(|reply| reply.calls.iter().map(|call| Arc::clone(&call.id.0)))
        .collect();
    let mut named = Vec::with_capacity(calls.len());
    for (position, call) in calls.into_iter().enumerate() {
        // Some servers count their ids from 0 in every answer; an output must
        // never be taken for that of an earlier call.
        let id = call
            .id
            .filter(|id| !taken.contains(id))
            .unwrap_or_else(|| fresh_id(&taken, asker, position));
        taken.insert(Arc::clone(&id));
        named.push(Call {
            id: CallId(id),
            // A call without a name stays a call, so that the model is told.
            tool: call.name.as_deref().unwrap_or_default().to_owned(),
            arguments: call.arguments,
        });
    }
    named
}

fn fresh_id(taken: &HashSet<Arc<str>>, asker: &Asker, position: usize) -> Arc<str> {
    (position..)
        .map(|number| format!("call_{}_{}_{number}", asker.unit.0, asker.turn).into())
        .find(|id| !taken.contains(id))
        .expect("there are more numbers than calls")
}
