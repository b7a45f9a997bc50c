//! From events to the whole answer.
//!
//! An [`Assembly`] takes the events of one answer in order, passes text on as
//! it comes and keeps the items. Servers leave out what they like: beginnings,
//! ends, numbers, ids, and all but the last event. Whatever text came as a
//! piece is not taken again from a whole.

use std::mem;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::decode::{
    Ending, ItemKind, Kind, Reach, Spoken, WireEvent, WireItem, WirePart, WireResponse, parts,
};
use super::item::{Content, Item, Said};
use super::sealed::{returned, sealed};
use crate::message::{Prefix, Reply, Sealed, StopReason, Usage};
use crate::model::api::calls::{OpenCall, named};
use crate::model::api::{Options, PART_COST, PARTS_CAP, finish, too_long, too_many};
use crate::model::http::ANSWER_CAP;
use crate::model::http::fault;
use crate::model::http::secrets::Secrets;
use crate::model::http::sse::Event;
use crate::model::{Answer, Asker, Chunk, ModelError, ModelErrorKind};

/// What stands between two messages, or two parts of the reasoning.
const BREAK: &str = "\n\n";

/// An answer that is being put together.
#[derive(Debug, Default)]
pub struct Assembly {
    /// Who can open what is sealed.
    sealed_by: Arc<str>,
    secrets: Secrets,
    items: Vec<Item>,
    text: String,
    thinking: String,
    usage: Usage,
    stop: Option<StopReason>,
    refused: bool,
    /// Whether the mark came that some servers end every stream with.
    is_marked: bool,
    bytes: usize,
    /// Whether the last event added something to the answer.
    grew: bool,
    /// For texts that have to be rewritten before they are read.
    buffer: String,
}

type Say<'a> = &'a mut dyn FnMut(Chunk);

impl Assembly {
    /// An answer of which nothing has come.
    pub(super) fn new(options: &Options) -> Self {
        let (sealed_by, secrets) = (Arc::clone(&options.sealed_by), options.secrets.clone());
        Self { sealed_by, secrets, ..Self::default() }
    }

    pub(in crate::model) fn take(
        &mut self,
        event: Event<'_>,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        self.grew = false;
        if event.is_end_mark() {
            self.is_marked = true;
            return Ok(());
        }
        let wire: WireEvent<'_> = serde_json::from_str(event.data).map_err(|error| {
            let said = fault::in_event(event, None, &self.secrets);
            said.unwrap_or_else(|| fault::unreadable(&error, event.data, &self.secrets))
        })?;
        self.take_event(&wire, event, say)?;
        // One more, so that a flood of empty events reaches the cap too.
        self.bytes += 1;
        self.within_cap()
    }

    pub(in crate::model) fn take_whole(
        &mut self,
        bytes: &[u8],
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(error) = fault::in_body(&text, &self.secrets) {
            return Err(error);
        }
        let response: WireResponse<'_> = serde_json::from_str(&text)
            .map_err(|_| fault::no_message("the answer cannot be read", &text, &self.secrets))?;
        let status = response.status();
        let ending = match (response.ending(), status.is_empty()) {
            (Some(ending), _) => ending,
            (None, true) => Ending::Completed,
            (None, false) => {
                let status = fault::short(status.into_owned(), &self.secrets);
                let message = format!("the response has the status `{status}`, not `completed`");
                return Err(ModelError::new(ModelErrorKind::Cut, message));
            }
        };
        self.end(ending, &response, say)?;
        if self.items.is_empty() && !response.has_output() {
            return Err(fault::no_message("the answer holds no message", &text, &self.secrets));
        }
        self.within_cap()
    }

    fn within_cap(&self) -> Result<(), ModelError> {
        if self.bytes > ANSWER_CAP { Err(too_long()) } else { Ok(()) }
    }

    pub(in crate::model) fn grew(&self) -> bool {
        self.grew
    }

    pub(in crate::model) fn has_ended(&self) -> bool {
        self.stop.is_some()
    }

    /// The event that tells of the end has the counts in it.
    pub(in crate::model) fn is_over(&self) -> bool {
        self.stop.is_some() || self.is_marked
    }

    /// Only the event for the end proves it: `[DONE]`, which some servers end every
    /// stream with, is not part of this API.
    pub(in crate::model) fn is_complete(&self) -> bool {
        self.stop.is_some()
    }

    pub(in crate::model) fn usage(&self) -> Usage {
        self.usage
    }

    pub(in crate::model) fn finish(
        self,
        asker: &Asker,
        prefix: &Prefix,
    ) -> Result<Answer, ModelError> {
        let mut calls = Vec::new();
        let mut places = Vec::new();
        for item in self.items {
            places.extend(item.place(calls.len()));
            calls.extend(OpenCall::try_from(item).ok());
        }
        let stop = match self.stop {
            Some(stop @ (StopReason::MaxTokens | StopReason::Refusal)) => stop,
            Some(StopReason::EndTurn | StopReason::ToolUse) | None if !calls.is_empty() => {
                StopReason::ToolUse
            }
            Some(_) | None if self.refused => StopReason::Refusal,
            Some(_) | None => StopReason::EndTurn,
        };
        let by = self.sealed_by;
        let reply = Reply {
            text: self.text,
            thinking: self.thinking,
            calls: named(calls, asker, prefix),
            sealed: sealed(places).map(|json| Sealed { by, json }),
        };
        Ok(Answer { reply, usage: self.usage, stop })
    }

    fn take_event(
        &mut self,
        wire: &WireEvent<'_>,
        event: Event<'_>,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        match wire.kind(event.name) {
            Kind::Text(spoken, reach) => {
                let mut buffer = mem::take(&mut self.buffer);
                if let Some(text) = wire.spoken(spoken, reach).get_in(&mut buffer) {
                    self.take_text(wire, (spoken, reach), text, say)?;
                }
                self.buffer = buffer;
            }
            Kind::Arguments(reach) => self.take_arguments(wire, reach)?,
            Kind::PartDone => {
                let part: Option<WirePart<'_>> =
                    wire.part.and_then(|part| serde_json::from_str(part.get()).ok());
                let spoken = part.as_ref().and_then(|part| part.spoken().zip(part.text()));
                if let Some((spoken, text)) = spoken {
                    self.take_text(wire, (spoken, Reach::Whole), &text, say)?;
                }
            }
            kind @ (Kind::ItemAdded | Kind::ItemDone) => {
                if let Some(item) = wire.item {
                    self.take_item(wire, item, kind == Kind::ItemDone, say)?;
                }
            }
            Kind::Ended(ending) => {
                // A server that leaves the response out has still said that it
                // is the end.
                let response = wire.response.map_or("{}", RawValue::get);
                let response = serde_json::from_str(response)
                    .map_err(|error| fault::unreadable(&error, event.data, &self.secrets))?;
                self.end(ending, &response, say)?;
            }
            Kind::Error => {
                let event = Event { name: "error", data: event.data };
                return fault::in_event(event, wire.error, &self.secrets).map_or(Ok(()), Err);
            }
            Kind::Other => {
                return fault::in_event(event, wire.error, &self.secrets).map_or(Ok(()), Err);
            }
        }
        Ok(())
    }

    fn take_text(
        &mut self,
        event: &WireEvent<'_>,
        (spoken, reach): (Spoken, Reach),
        text: &str,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        let kind = match spoken {
            Spoken::Output | Spoken::Refusal => ItemKind::Message,
            Spoken::Summary | Spoken::Reasoning => ItemKind::Reasoning,
        };
        let position = self.item_of(event, kind)?;
        let said = Said { spoken, reach, part: event.part_index(spoken) };
        self.say_text(position, said, text, say)
    }

    /// Adds text to an item, unless it is there already.
    fn say_text(
        &mut self,
        position: usize,
        said: Said,
        text: &str,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        let Some(is_new_part) = self.items[position].hears(said) else { return Ok(()) };
        match said.spoken {
            Spoken::Output | Spoken::Refusal => {
                self.refused |= said.spoken == Spoken::Refusal;
                let position = self.going_on(position)?;
                let start = self.text.len();
                if self.items[position].range().is_none() && start > 0 {
                    self.text.push_str(BREAK);
                    say(Chunk::Text(BREAK.into()));
                }
                let start = self.text.len();
                self.text.push_str(text);
                self.items[position].extend(start..self.text.len());
                say(Chunk::Text(text.into()));
            }
            Spoken::Summary | Spoken::Reasoning => {
                if is_new_part && !self.thinking.is_empty() {
                    self.thinking.push_str(BREAK);
                    say(Chunk::Thinking(BREAK.into()));
                }
                self.thinking.push_str(text);
                say(Chunk::Thinking(text.into()));
            }
        }
        self.bytes += text.len();
        self.grew = true;
        Ok(())
    }

    /// Returns the item that takes more of a message's text. What a message
    /// says after another one has begun is an item of its own, so that each
    /// has one stretch of the reply's text.
    fn going_on(&mut self, position: usize) -> Result<usize, ModelError> {
        let range = self.items[position].range();
        if range.is_none_or(|range| range.end == self.text.len()) {
            return Ok(position);
        }
        self.open(self.items[position].again())
    }

    fn take_arguments(&mut self, event: &WireEvent<'_>, reach: Reach) -> Result<(), ModelError> {
        let count = self.items.len();
        let position = self.item_of(event, ItemKind::Call)?;
        self.grew |= position == count;
        let Content::Call(call) = &mut self.items[position].content else { return Ok(()) };
        let before = call.size();
        if let Some(name) = event.name.get() {
            call.name = Some(name.into());
        }
        match reach {
            Reach::More => call.push(event.delta, &mut self.buffer),
            Reach::Whole => call.set(event.arguments),
        }
        let more = call.size().saturating_sub(before);
        self.bytes += more;
        self.grew |= more > 0;
        Ok(())
    }

    /// Returns the item that an event is about. One that nobody announced
    /// begins with it.
    fn item_of(&mut self, event: &WireEvent<'_>, kind: ItemKind) -> Result<usize, ModelError> {
        let id = event.item_id.get();
        let (id, index) = (id.as_deref(), event.output_index.0);
        let found = self.find(kind, id, index).or_else(|| self.find_open(kind, id, index));
        found.map_or_else(|| self.open(Item::new(kind, id, index)), Ok)
    }

    /// Finds the item that is still open, for events that do not say which they
    /// are about, or with an id that nobody announced.
    fn find_open(&self, kind: ItemKind, id: Option<&str>, index: Option<u64>) -> Option<usize> {
        let last = self.items.iter().rposition(|item| item.content.kind() == kind)?;
        let open = &self.items[last];
        let fits = (index.is_none() || open.index.is_none()) && (id.is_none() || open.id.is_none());
        (fits && !open.is_done).then_some(last)
    }

    /// Finds an item by its id, else by its number.
    fn find(&self, kind: ItemKind, id: Option<&str>, index: Option<u64>) -> Option<usize> {
        let is_kind = |item: &&Item| item.content.kind() == kind;
        // Nearly always the last one.
        let last = self.items.last().filter(is_kind);
        if id.is_some() && last.is_some_and(|item| item.is_named(id)) {
            return Some(self.items.len() - 1);
        }
        let by_id = id
            .and_then(|_| self.items.iter().rposition(|item| is_kind(&item) && item.is_named(id)));
        by_id.or_else(|| {
            index?;
            self.items.iter().rposition(|item| is_kind(&item) && item.index == index)
        })
    }

    fn open(&mut self, item: Item) -> Result<usize, ModelError> {
        if self.items.len() == PARTS_CAP {
            return Err(too_many());
        }
        self.bytes += PART_COST + item.size();
        self.items.push(item);
        Ok(self.items.len() - 1)
    }

    fn take_item(
        &mut self,
        event: &WireEvent<'_>,
        raw: &RawValue,
        is_done: bool,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        let Ok(item) = serde_json::from_str::<WireItem<'_>>(raw.get()) else { return Ok(()) };
        let Some(kind) = item.kind() else { return Ok(()) };
        let (id, call_id) = (item.id.get(), item.call_id.get());
        let (id, call_id, index) = (id.as_deref(), call_id.as_deref(), event.output_index.0);
        let found = self
            .find(kind, call_id, None)
            .or_else(|| self.find(kind, id, index))
            .or_else(|| is_done.then(|| self.find_open(kind, id, index)).flatten())
            .filter(|&found| {
                // Some servers give all items one number, others give the end
                // of an item another id.
                let found = &self.items[found];
                !found.is_other(id, call_id) || is_done && !found.is_done
            });
        self.grew |= found.is_none();
        let position = found.map_or_else(|| self.open(Item::new(kind, id, index)), Ok)?;
        self.fill(position, &item, is_done.then_some(raw), say)
    }

    /// Takes what an item has and the events before it had not. `whole` is the
    /// item once it is done.
    fn fill(
        &mut self,
        position: usize,
        item: &WireItem<'_>,
        whole: Option<&RawValue>,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        let open = &mut self.items[position];
        open.is_done |= whole.is_some();
        let before = open.size();
        match &mut open.content {
            Content::Message(message) => {
                if let Some(phase) = item.phase.get() {
                    message.phase = Some(phase.into());
                }
            }
            Content::Reasoning(reasoning) => {
                if let Some(item) = whole.and_then(returned) {
                    reasoning.item = Some(item);
                }
            }
            Content::Call(call) => {
                if let Some(id) = item.call_id.get() {
                    call.id = Some(id.into());
                }
                if let Some(name) = item.name.get() {
                    call.name = Some(name.into());
                }
                match whole {
                    Some(_) => call.set(item.arguments),
                    // The pieces may repeat them.
                    None => call.first = item.arguments.map(RawValue::to_owned),
                }
            }
        }
        let more = open.size().saturating_sub(before);
        self.bytes += more;
        self.grew |= more > 0;
        if whole.is_some() { self.say_parts(position, item, say) } else { Ok(()) }
    }

    /// Says the text of an item of which no piece came.
    fn say_parts(
        &mut self,
        position: usize,
        item: &WireItem<'_>,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        if self.items[position].has_spoken() {
            return Ok(());
        }
        let lists = match self.items[position].content.kind() {
            ItemKind::Message => [(Spoken::Output, item.content), (Spoken::Output, None)],
            // The reasoning itself where there is no summary.
            ItemKind::Reasoning => {
                [(Spoken::Summary, item.summary), (Spoken::Reasoning, item.content)]
            }
            ItemKind::Call => return Ok(()),
        };
        for (spoken, list) in lists {
            for (index, part) in (0..).zip(list.map(parts).unwrap_or_default()) {
                let Some(text) = part.text() else { continue };
                let spoken = part.spoken().filter(|_| spoken == Spoken::Output).unwrap_or(spoken);
                let said = Said { spoken, reach: Reach::Whole, part: Some(index) };
                self.say_text(position, said, &text, say)?;
            }
        }
        Ok(())
    }

    /// Takes the answer's end and what the response in it has beyond the
    /// events before.
    fn end(
        &mut self,
        ending: Ending,
        response: &WireResponse<'_>,
        say: Say<'_>,
    ) -> Result<(), ModelError> {
        let cut = |words: &str| Err(ModelError::new(ModelErrorKind::Cut, words));
        if let Some(usage) = response.usage() {
            self.usage = usage;
        }
        if let Some(error) = response.error().filter(|error| !fault::is_blank(error)) {
            return Err(fault::in_answer(&error, &self.secrets));
        }
        self.take_output(response, say)?;
        self.stop = Some(match response.ending().unwrap_or(ending) {
            Ending::Completed => StopReason::EndTurn,
            Ending::Incomplete => match response.incomplete_reason() {
                Some(word) => finish::incomplete(&word, &self.secrets)?,
                None => StopReason::MaxTokens,
            },
            Ending::Failed => return cut("the provider ended the answer with an error"),
            Ending::Cancelled => return cut("the provider cancelled the answer"),
        });
        self.grew = true;
        Ok(())
    }

    /// Takes the items of a whole response. Ids may differ from those in the
    /// events, and a call must not be made twice: so an unknown item is taken
    /// only if none of its sort came before.
    fn take_output(&mut self, response: &WireResponse<'_>, say: Say<'_>) -> Result<(), ModelError> {
        let came = |kind| self.items.iter().any(|item| item.content.kind() == kind);
        let came = [ItemKind::Message, ItemKind::Reasoning, ItemKind::Call].map(came);
        for (index, raw) in (0..).zip(response.output()) {
            let Ok(item) = serde_json::from_str::<WireItem<'_>>(raw.get()) else { continue };
            let Some(kind) = item.kind() else { continue };
            let (id, call_id) = (item.id.get(), item.call_id.get());
            let is_new = !came[kind as usize];
            let found = self
                .find(kind, call_id.as_deref(), None)
                .or_else(|| self.find(kind, id.as_deref(), None));
            let position = match found {
                Some(position) => position,
                None if is_new => self.open(Item::new(kind, id.as_deref(), Some(index)))?,
                None => continue,
            };
            self.fill(position, &item, Some(raw), say)?;
        }
        Ok(())
    }
}
