//! The part of a request that later requests and forks share, byte for byte.
//!
//! A prefix is append-only: a later turn's prefix holds the same `Arc`s as the
//! earlier one, and each entry keeps the bytes it was first rendered to. So a
//! turn costs the rendering of what is new, and equal prefixes are equal on
//! the wire because they are the same bytes in memory.

use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

use super::Message;

/// What a model is told of one tool.
#[derive(Debug, Clone)]
pub struct ToolSchema {
    /// The name the model calls it by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments. Raw, because a map of another crate's
    /// choosing could reorder its keys.
    pub parameters: Box<RawValue>,
}

/// Bytes a model client rendered once and sends ever after.
///
/// They may depend on what stands before and beside: reasoning is sealed to its
/// place. So an entry is sent from one place only.
#[derive(Debug, Default)]
pub struct Rendered(OnceLock<Box<[Box<RawValue>]>>);

impl Rendered {
    /// Returns the bytes, rendering them on the first call only.
    pub fn get_or_render(&self, render: impl FnOnce() -> Box<RawValue>) -> &RawValue {
        &self.parts_or_render(|| vec![render()])[0]
    }

    /// Returns the bytes of what is sent in several parts, rendering them on
    /// the first call only.
    pub fn parts_or_render(&self, render: impl FnOnce() -> Vec<Box<RawValue>>) -> &[Box<RawValue>] {
        self.0.get_or_init(|| render().into_boxed_slice())
    }
}

/// What stands before the first message of every request of a unit.
#[derive(Debug)]
pub struct Head {
    /// The system prompt.
    pub system: String,
    /// The tools, in the registry's order.
    pub tools: Vec<ToolSchema>,
    /// The tools as the model client sends them.
    pub rendered_tools: Rendered,
    /// The system prompt as the model client sends it.
    pub rendered_system: Rendered,
}

impl Head {
    /// A head that has not been sent yet.
    #[must_use]
    pub fn new(system: String, tools: Vec<ToolSchema>) -> Self {
        Self {
            system,
            tools,
            rendered_tools: Rendered::default(),
            rendered_system: Rendered::default(),
        }
    }
}

/// One message and the bytes it is sent as.
#[derive(Debug)]
pub struct Entry {
    /// The message.
    pub message: Message,
    /// The message as the model client sends it.
    pub rendered: Rendered,
}

impl From<Message> for Entry {
    fn from(message: Message) -> Self {
        Self { message, rendered: Rendered::default() }
    }
}

/// System prompt, tools and messages of a request. A clone shares everything.
#[derive(Debug, Clone)]
pub struct Prefix {
    /// What stands before the first message.
    pub head: Arc<Head>,
    /// The messages so far, oldest first.
    pub entries: Vec<Arc<Entry>>,
}

impl Prefix {
    /// A prefix without messages.
    #[must_use]
    pub fn new(head: Arc<Head>) -> Self {
        Self { head, entries: Vec::new() }
    }

    /// Returns the same conversation as bytes that were never rendered: for
    /// another client, whose bytes are others.
    #[must_use]
    pub fn unrendered(&self) -> Self {
        let Head { system, tools, rendered_tools: _, rendered_system: _ } = &*self.head;
        let head = Arc::new(Head::new(system.clone(), tools.clone()));
        let entry = |message: &Message| Arc::new(Entry::from(message.clone()));
        Self { head, entries: self.messages().map(entry).collect() }
    }

    /// Puts other messages in the place of some. All from the first of them on
    /// is rendered anew.
    pub fn replace(&mut self, others: Vec<(usize, Message)>) {
        let Some(first) = others.iter().map(|(place, _)| *place).min() else { return };
        for (place, message) in others {
            self.entries[place] = Arc::new(Entry::from(message));
        }
        for entry in &mut self.entries[first..] {
            *entry = Arc::new(Entry::from(entry.message.clone()));
        }
    }

    /// Appends a message.
    pub fn push(&mut self, message: Message) {
        self.entries.push(Arc::new(Entry::from(message)));
    }

    /// Returns the messages, oldest first.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.entries.iter().map(|entry| &entry.message)
    }
}
