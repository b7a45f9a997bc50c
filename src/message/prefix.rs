//! The part of a request that later requests and forks share, byte for byte.
//!
//! A prefix is append-only: a later turn's prefix holds the same `Arc`s as the
//! earlier one, and each entry keeps the bytes it was first rendered to. So a
//! turn costs the rendering of what is new, and equal prefixes are equal on
//! the wire because they are the same bytes in memory.
//!
//! All text that others wrote enters a request here, as a [`Head`] or an [`Entry`], and
//! here it loses its invisible characters. The log keeps them.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Message, Output};
use crate::invisible::{visible, without_invisible};

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

impl ToolSchema {
    /// Returns the schema without invisible characters. The description says so if there
    /// were any.
    fn into_visible(self) -> Self {
        let Self { name, description, parameters } = self;
        // JSON may also hold them as escapes, which the model does not see as such.
        let is_plain = parameters.get().is_ascii() && !parameters.get().contains("\\u");
        let value = (!is_plain).then(|| serde_json::from_str(parameters.get()).ok()).flatten();
        let Some((clean, true)) = value.map(|value: Value| cleaned(&value)) else {
            return Self { name, description: into_visible(description), parameters };
        };
        let parameters = serde_json::value::to_raw_value(&clean).unwrap_or(parameters);
        let note = "[tine removed invisible characters from the texts of the parameters.]";
        let description = format!("{}\n\n{note}", visible(&description));
        Self { name, description, parameters }
    }
}

fn into_visible(text: String) -> String {
    match visible(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(visible) => visible,
    }
}

/// Returns a JSON value without invisible characters, and whether it had any.
fn cleaned(value: &Value) -> (Value, bool) {
    let text = |text: &str| match without_invisible(text).0 {
        Cow::Borrowed(text) => (text.to_owned(), false),
        Cow::Owned(clean) => (clean, true),
    };
    match value {
        Value::String(string) => {
            let (string, is_changed) = text(string);
            (Value::String(string), is_changed)
        }
        Value::Array(items) => {
            let (items, changed): (Vec<_>, Vec<_>) = items.iter().map(cleaned).unzip();
            (Value::Array(items), changed.contains(&true))
        }
        Value::Object(fields) => {
            let mut is_changed = false;
            let mut field = |(name, value): (&String, &Value)| {
                let ((name, in_name), (value, in_value)) = (text(name), cleaned(value));
                is_changed |= in_name || in_value;
                (name, value)
            };
            let fields = fields.iter().map(&mut field).collect();
            (Value::Object(fields), is_changed)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (value.clone(), false),
    }
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
    /// A head that has not been sent yet, without invisible characters.
    #[must_use]
    pub fn new(system: String, tools: Vec<ToolSchema>) -> Self {
        Self {
            system: into_visible(system),
            tools: tools.into_iter().map(ToolSchema::into_visible).collect(),
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
    /// Takes a message without its invisible characters. The model's own words stay as
    /// they are: its provider wants the same back.
    fn from(message: Message) -> Self {
        let message = match message {
            Message::User(prompt) => Message::User(prompt.into_visible()),
            Message::Output { call, output } => match visible(&output.text) {
                Cow::Borrowed(_) => Message::Output { call, output },
                Cow::Owned(text) => {
                    let output = Output { text, ..Output::clone(&output) };
                    Message::Output { call, output: Arc::new(output) }
                }
            },
            own @ Message::Model(_) => own,
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Image, ImageKind, Prompt};

    const TAGS: &str = "\u{e0049}\u{e0067}\u{e006e}";

    fn schema(parameters: &str) -> ToolSchema {
        let parameters = RawValue::from_string(parameters.to_owned()).unwrap();
        ToolSchema { name: "t".to_owned(), description: "Looks.".to_owned(), parameters }
    }

    #[test]
    fn whatever_a_request_holds_is_without_invisible_characters() {
        let hidden = format!("do{TAGS} it");
        let described = ToolSchema { description: hidden.clone(), ..schema("{}") };
        let raw = format!("{{\"type\":\"object\",\"b\":[\"{hidden}\"],\"a{TAGS}\":1}}");
        let escaped = r#"{"description":"x\udb40\udc49","a":"\u00e9"}"#;
        let head = Head::new(hidden.clone(), vec![described, schema(&raw), schema(escaped)]);
        let mut prefix = Prefix::new(Arc::new(head));
        prefix.push(Message::User(hidden.as_str().into()));
        let output = Arc::new(Output::error(hidden.as_str()));
        prefix.push(Message::Output { call: "c".into(), output });
        let texts: Vec<String> = prefix
            .messages()
            .map(|message| match message {
                Message::User(prompt) => prompt.text.to_string(),
                Message::Output { call: _, output } => {
                    assert!(output.is_error);
                    output.text.clone()
                }
                Message::Model(reply) => reply.text.clone(),
            })
            .chain([prefix.head.system.clone(), prefix.head.tools[0].description.clone()])
            .collect();
        assert_eq!(texts.len(), 4);
        for text in texts {
            assert!(text.starts_with("do it\n\n[tine removed 3 invisible"), "{text}");
        }
        let parameters = |at: usize| prefix.head.tools[at].parameters.get();
        assert_eq!(parameters(1), r#"{"type":"object","b":["do it"],"a":1}"#);
        assert_eq!(parameters(2), "{\"description\":\"x\",\"a\":\"é\"}");
        assert!(prefix.head.tools[2].description.starts_with("Looks.\n\n[tine removed "));
    }

    #[test]
    fn what_has_none_stays_as_it_is_and_so_do_the_models_own_words() {
        let parameters = r#"{ "b": "é👨\u200d👩", "a": "\u00e9" }"#;
        let head = Head::new("é".to_owned(), vec![schema(parameters)]);
        assert_eq!((&*head.system, head.tools[0].parameters.get()), ("é", parameters));
        let output = Arc::new(Output::ok("a\u{fe0f}b"));
        let message = Message::Output { call: "c".into(), output: Arc::clone(&output) };
        let Message::Output { call: _, output: same } = Entry::from(message).message else {
            panic!("an output stays one")
        };
        assert!(Arc::ptr_eq(&output, &same));
        let reply = crate::message::Reply { text: TAGS.to_owned(), ..Default::default() };
        let own = Message::Model(Arc::new(reply));
        assert_eq!(Entry::from(own.clone()).message, own);
    }

    #[test]
    fn images_stay_between_the_words_that_they_stood_between() {
        let image = Image::new(ImageKind::Png, b"1");
        let before = format!("a{TAGS}é");
        let prompt = Prompt::joined([before.as_str().into(), image.into(), "b".into()]);
        let Message::User(prompt) = Entry::from(Message::User(prompt)).message else {
            panic!("a prompt stays one")
        };
        let text = prompt.text_with(|_| "(image)".to_owned());
        assert!(text.starts_with("aé\n\n(image)\n\nb\n\n[tine removed 3"), "{text}");
    }
}
