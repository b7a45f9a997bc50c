//! One item of an answer while it is being put together.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::decode::{ItemKind, Reach, Spoken};
use super::sealed::Place;
use crate::model::api::calls::OpenCall;
use crate::model::api::lenient::{Text, push_string};

/// An item whose parts are still coming in.
#[derive(Debug)]
pub(super) struct Item {
    /// Its own id, not that of its call.
    pub(super) id: Option<Box<str>>,
    /// Its number within the answer.
    pub(super) index: Option<u64>,
    /// Whether its server has said that it is whole.
    pub(super) is_done: bool,
    /// What is in it.
    pub(super) content: Content,
}

/// What an item holds.
#[derive(Debug)]
pub(super) enum Content {
    /// Text for the reader.
    Message(Message),
    /// What the model thought.
    Reasoning(Reasoning),
    /// A call.
    Call(Calling),
}

/// Text for the reader. The text itself is in the reply.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Whether it is said on the way or at the end, where the model tells.
    pub(super) phase: Option<Box<str>>,
    /// Where in the reply's text it stands.
    range: Option<Range<usize>>,
    /// The last part that anything was heard of.
    heard: Option<u64>,
}

/// What the model thought. The text itself is in the reply.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// The item as it goes back.
    pub(super) item: Option<Box<RawValue>>,
    /// The last part that anything was heard of, and whether that was of the
    /// summary or of the whole: some servers send both.
    heard: Option<(Spoken, u64)>,
}

/// A call.
#[derive(Debug, Default)]
pub(super) struct Calling {
    pub(super) id: Option<Arc<str>>,
    pub(super) name: Option<Arc<str>>,
    /// Arguments that came with the beginning: all of them if nothing follows.
    pub(super) first: Option<Box<RawValue>>,
    arguments: String,
}

/// What is known of a text that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) spoken: Spoken,
    pub(super) reach: Reach,
    /// The part of the item.
    pub(super) part: Option<u64>,
}

impl Content {
    pub(super) fn kind(&self) -> ItemKind {
        match self {
            Self::Message(_) => ItemKind::Message,
            Self::Reasoning(_) => ItemKind::Reasoning,
            Self::Call(_) => ItemKind::Call,
        }
    }
}

impl Item {
    pub(super) fn new(kind: ItemKind, id: Option<&str>, index: Option<u64>) -> Self {
        let content = match kind {
            ItemKind::Message => Content::Message(Message::default()),
            ItemKind::Reasoning => Content::Reasoning(Reasoning::default()),
            ItemKind::Call => Content::Call(Calling::default()),
        };
        Self { id: id.map(Into::into), index, is_done: false, content }
    }

    /// Returns a message that goes on with this one elsewhere in the reply.
    pub(super) fn again(&self) -> Self {
        let message = match &self.content {
            Content::Message(Message { phase, range: _, heard }) => {
                Message { phase: phase.clone(), range: None, heard: *heard }
            }
            Content::Reasoning(_) | Content::Call(_) => Message::default(),
        };
        let (id, content) = (self.id.clone(), Content::Message(message));
        Self { id, index: self.index, is_done: self.is_done, content }
    }

    /// Tells whether this is its id, or that of its call: some servers have
    /// only the latter.
    pub(super) fn is_named(&self, id: Option<&str>) -> bool {
        let call = match &self.content {
            Content::Call(call) => call.id.as_deref(),
            Content::Message(_) | Content::Reasoning(_) => None,
        };
        id.is_some() && (self.id.as_deref() == id || call == id)
    }

    /// Tells whether these are ids of another item.
    pub(super) fn is_other(&self, id: Option<&str>, call_id: Option<&str>) -> bool {
        let differs = |known: Option<&str>, id: Option<&str>| matches!((known, id), (Some(known), Some(id)) if known != id);
        match &self.content {
            Content::Call(call) if call.id.is_some() && call_id.is_some() => {
                differs(call.id.as_deref(), call_id)
            }
            Content::Call(_) | Content::Message(_) | Content::Reasoning(_) => {
                differs(self.id.as_deref(), id)
            }
        }
    }

    /// Notes that text came; `None` if it is known already, else whether it
    /// begins a part.
    pub(super) fn hears(&mut self, said: Said) -> Option<bool> {
        match &mut self.content {
            Content::Message(message) => {
                let part = said.part.or(message.heard).unwrap_or(0);
                let is_new = message.heard.is_none_or(|heard| heard < part);
                if said.reach == Reach::Whole && !is_new {
                    return None;
                }
                message.heard = message.heard.max(Some(part));
                Some(is_new)
            }
            Content::Reasoning(reasoning) => {
                let last = reasoning.heard.map(|(_, part)| part);
                if reasoning.heard.is_some_and(|(spoken, _)| spoken != said.spoken) {
                    return None;
                }
                let part = said.part.or(last).unwrap_or(0);
                let is_new = last.is_none_or(|last| last < part);
                if said.reach == Reach::Whole && !is_new {
                    return None;
                }
                reasoning.heard = Some((said.spoken, last.unwrap_or(0).max(part)));
                Some(is_new)
            }
            Content::Call(_) => None,
        }
    }

    /// Tells whether any of its text came.
    pub(super) fn has_spoken(&self) -> bool {
        match &self.content {
            Content::Message(message) => message.heard.is_some(),
            Content::Reasoning(reasoning) => reasoning.heard.is_some(),
            Content::Call(_) => false,
        }
    }

    /// Returns where in the reply's text a message stands.
    pub(super) fn range(&self) -> Option<Range<usize>> {
        match &self.content {
            Content::Message(message) => message.range.clone(),
            Content::Reasoning(_) | Content::Call(_) => None,
        }
    }

    /// Adds a stretch of the reply's text, right behind what it has.
    pub(super) fn extend(&mut self, more: Range<usize>) {
        if let Content::Message(message) = &mut self.content {
            let start = message.range.as_ref().map_or(more.start, |range| range.start);
            message.range = Some(start..more.end);
        }
    }

    /// Returns how many bytes it holds itself.
    pub(super) fn size(&self) -> usize {
        let content = match &self.content {
            Content::Message(message) => message.phase.as_ref().map_or(0, |phase| phase.len()),
            Content::Reasoning(reasoning) => {
                reasoning.item.as_ref().map_or(0, |item| item.get().len())
            }
            Content::Call(call) => call.size(),
        };
        self.id.as_ref().map_or(0, |id| id.len()) + content
    }

    /// Returns what goes back of it. A call's place is the number of calls
    /// before it.
    pub(super) fn place(&self, calls: usize) -> Option<Place<'static>> {
        match &self.content {
            Content::Message(message) => {
                let Range { start, end } = message.range.clone()?;
                let phase = message.phase.as_ref().map(|phase| String::from(&**phase).into());
                Some(Place::Message { start, end, phase })
            }
            Content::Reasoning(reasoning) => {
                let item = reasoning.item.clone()?;
                Some(Place::Reasoning(Cow::Owned(item)))
            }
            Content::Call(_) => Some(Place::Call(calls)),
        }
    }
}

impl Calling {
    /// Takes more of the arguments.
    pub(super) fn push(&mut self, more: Text<'_>, buffer: &mut String) {
        self.arguments.push_str(more.get_in(buffer).unwrap_or_default());
    }

    /// Takes all of the arguments: a string that holds them, or themselves.
    /// Empty ones are those of a server that did not know them.
    pub(super) fn set(&mut self, arguments: Option<&RawValue>) {
        let Some(whole) = arguments.filter(|whole| whole.get() != "\"\"") else { return };
        self.arguments.clear();
        if !push_string(whole, &mut self.arguments) {
            whole.get().clone_into(&mut self.arguments);
        }
    }

    /// Returns how many bytes its texts have.
    pub(super) fn size(&self) -> usize {
        let Self { id, name, first, arguments } = self;
        let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let first = first.as_ref().map_or(0, |first| first.get().len());
        length(id) + length(name) + first + arguments.len()
    }
}

impl TryFrom<Item> for OpenCall {
    type Error = ();

    fn try_from(item: Item) -> Result<Self, ()> {
        let Content::Call(mut call) = item.content else { return Err(()) };
        if call.arguments.is_empty() {
            let first = call.first.take();
            call.set(first.as_deref());
        }
        // An item's own id names its call where there is no other.
        let id = call.id.or_else(|| item.id.as_deref().map(Into::into));
        Ok(Self { id, name: call.name, arguments: call.arguments })
    }
}
