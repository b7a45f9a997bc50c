//! The JSON of a conversation that a slot goes on from.
//!
//! Its messages have the form in which the log keeps them. The bytes that they are
//! sent to a model as are not in it: whoever reads it renders them anew.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Malformed;
use super::facts::Fact;
use super::json::{Text, each, text};
use super::messages::{read, written};
use crate::event::{EventKind, Replied};
use crate::message::{Head, Message, Prefix, StopReason, ToolSchema, Usage};

/// What was said in a unit, and what stands before it.
#[derive(Debug, Clone)]
pub struct Conversation(pub Prefix);

impl Conversation {
    /// Writes it as JSON: the same bytes for the same conversation.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        written(&ConversationBody::of(&self.0))
    }

    /// Reads what [`Conversation::encode`] writes. Nothing of it is rendered.
    ///
    /// # Errors
    ///
    /// It is something else: why.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        read(bytes, |body: ConversationBody<'_>| body.into_prefix().map(Self))
    }
}

#[derive(Serialize, Deserialize)]
struct ConversationBody<'a> {
    system: Text<'a>,
    tools: Vec<ToolBody<'a>>,
    messages: Vec<Fact<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ToolBody<'a> {
    name: Text<'a>,
    description: Text<'a>,
    /// As text, to the byte: it is sent as it stands.
    parameters: Text<'a>,
}

impl<'a> ConversationBody<'a> {
    fn of(prefix: &'a Prefix) -> Self {
        let Head { system, tools, rendered_tools: _, rendered_system: _ } = &*prefix.head;
        Self {
            system: text(system),
            tools: tools.iter().map(ToolBody::of).collect(),
            messages: prefix.messages().map(fact).collect(),
        }
    }

    fn into_prefix(self) -> Result<Prefix, String> {
        let Self { system, tools, messages } = self;
        let head = Head::new(system.into(), each(tools, ToolBody::into_schema)?);
        let mut prefix = Prefix::new(Arc::new(head));
        for said in messages {
            prefix.push(message(said)?);
        }
        Ok(prefix)
    }
}

impl<'a> ToolBody<'a> {
    fn of(schema: &'a ToolSchema) -> Self {
        let ToolSchema { name, description, parameters } = schema;
        let (name, description) = (text(name), text(description));
        Self { name, description, parameters: text(parameters.get()) }
    }

    fn into_schema(self) -> Result<ToolSchema, String> {
        let Self { name, description, parameters } = self;
        let parameters = RawValue::from_string(parameters.into())
            .map_err(|error| format!("the arguments of `{name}`: {error}"))?;
        Ok(ToolSchema { name: name.into(), description: description.into(), parameters })
    }
}

/// Returns a message as the event that the log has of it. What that says beside the
/// message is left blank.
fn fact(message: &Message) -> Fact<'static> {
    Fact::of(&match message {
        Message::User(prompt) => EventKind::Prompted(prompt.clone()),
        Message::Model(reply) => EventKind::Replied(Replied {
            reply: Arc::clone(reply),
            model: "".into(),
            usage: Usage::default(),
            stop: StopReason::default(),
            took_ms: 0,
        }),
        Message::Output { call, output } => EventKind::ToolFinished {
            call: call.clone(),
            tool: "".into(),
            output: Arc::clone(output),
            took_ms: 0,
        },
    })
}

fn message(fact: Fact<'_>) -> Result<Message, String> {
    let kind = fact.into_kind()?;
    if let EventKind::Prompted(prompt) = kind {
        Ok(Message::User(prompt))
    } else if let EventKind::Replied(replied) = kind {
        Ok(Message::Model(replied.reply))
    } else if let EventKind::ToolFinished { call, tool: _, output, took_ms: _ } = kind {
        Ok(Message::Output { call, output })
    } else {
        Err(Fact::is_wrong(&kind))
    }
}
