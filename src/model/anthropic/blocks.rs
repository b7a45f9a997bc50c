//! The blocks of messages, each rendered once.
//!
//! What the API would refuse is not in them: blank texts, arguments that are no
//! object, ids and names with other characters than it takes.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::sealed::{self, Trail};
use crate::message::{
    Call, CallId, Image, Message, Output, Piece, Prefix, Prompt, Reply, ToolSchema,
};
use crate::model::api::calls::{object, sendable_name_of, short_id};
use crate::model::api::{Options, raw};
use crate::prompt;

/// Most characters of a tool's name that the API takes.
const NAME_CAP: usize = 128;

/// Returns the blocks that each entry is sent as.
pub(super) fn rendered<'a>(options: &Options, prefix: &'a Prefix) -> Vec<&'a [Box<RawValue>]> {
    let mut trail = Trail::new(prefix);
    let mut entries = Vec::with_capacity(prefix.entries.len());
    for entry in &prefix.entries {
        let render = || of(options, &entry.message, || trail.at(&entries));
        let parts = entry.rendered.parts_or_render(render);
        entries.push(parts);
    }
    entries
}

/// Returns the tools as they are sent.
pub(super) fn rendered_tools(prefix: &Prefix) -> &RawValue {
    prefix.head.rendered_tools.get_or_render(|| tools(&prefix.head.tools))
}

/// Returns the system prompt as it is sent; `None` if there is none.
pub(super) fn rendered_system(prefix: &Prefix) -> Option<&RawValue> {
    let head = &prefix.head;
    let system = || raw(&Block::Text { text: &head.system });
    (!head.system.trim().is_empty()).then(|| head.rendered_system.get_or_render(system))
}

fn tools(schemas: &[ToolSchema]) -> Box<RawValue> {
    let tools: Vec<_> = schemas
        .iter()
        .map(|schema| WireTool {
            name: &schema.name,
            description: &schema.description,
            input_schema: &schema.parameters,
        })
        .collect();
    raw(&tools)
}

/// Returns the blocks of a message; none if there is nothing in it that the
/// API would take.
fn of(options: &Options, message: &Message, before: impl FnOnce() -> String) -> Vec<Box<RawValue>> {
    match message {
        Message::User(prompt) => user_blocks(options, prompt),
        Message::Model(reply) => {
            sealed::opened(&options.sealed_by, reply, before).unwrap_or_else(|| spoken(reply))
        }
        Message::Output { call, output } => vec![output_block(options, call, output)],
    }
}

fn user_blocks(options: &Options, prompt: &Prompt) -> Vec<Box<RawValue>> {
    let block = |piece| match piece {
        Piece::Text(text) => raw(&Part::Text { text }),
        Piece::Image(image) => raw(&Part::seen(image, options)),
    };
    prompt.pieces().map(block).collect()
}

/// Returns the blocks of an answer without what is sealed of it.
fn spoken(reply: &Reply) -> Vec<Box<RawValue>> {
    text_block(&reply.text).into_iter().chain(reply.calls.iter().map(call_block)).collect()
}

/// Returns a block with this text; `None` if it is blank, which the API
/// refuses.
pub(super) fn text_block(text: &str) -> Option<Box<RawValue>> {
    (!text.trim().is_empty()).then(|| raw(&Block::Text { text }))
}

/// Returns the block that makes this call.
pub(super) fn call_block(call: &Call) -> Box<RawValue> {
    let (id, input) = (short_id(&call.id.0), input(&call.arguments));
    let name = sendable_name_of(call, NAME_CAP);
    raw(&Block::ToolUse { id, name, input })
}

/// Returns the arguments of a call as they are sent. The API takes nothing but
/// an object.
pub(super) fn input(arguments: &str) -> &RawValue {
    object(arguments).or_else(|| object("{}")).expect("two braces are an object")
}

fn output_block(options: &Options, call: &CallId, output: &Output) -> Box<RawValue> {
    let Output { text, is_error, images } = output;
    let text = Some(text.as_str()).filter(|text| !text.trim().is_empty());
    let content = if images.is_empty() {
        // The text alone is the one form that every imitator reads.
        text.map(Content::Text)
    } else {
        let text = text.map(|text| Part::Text { text });
        let images = images.iter().map(|image| Part::seen(image, options));
        Some(Content::Parts(text.into_iter().chain(images).collect()))
    };
    let is_error = is_error.then_some(true).filter(|_| !options.leaves_out("is_error"));
    raw(&Block::ToolResult { tool_use_id: short_id(&call.0), is_error, content })
}

// The key order of what is sent is the order of these fields.

#[derive(Serialize)]
struct WireTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: String,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Content<'a>>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    Image { source: Source<'a> },
}

impl<'a> Part<'a> {
    /// What stands in place of an image that is not sent.
    const UNSEEN: Self = Part::Text { text: prompt::unseen_image() };

    fn seen(image: &'a Image, options: &Options) -> Self {
        if !options.takes_images {
            return Self::UNSEEN;
        }
        let Image { kind, base64: data } = image;
        Self::Image { source: Source { kind: "base64", media_type: kind.media_type(), data } }
    }
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'static str,
    data: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_sent_as_an_empty_one() {
        for arguments in ["", "{\"path\": ", "[]", "3", "null", "{} {}"] {
            assert_eq!(input(arguments).get(), "{}", "{arguments}");
        }
        assert_eq!(input(" {\n\"a\": 1} ").get(), "{\n\"a\": 1}");
    }

    #[test]
    fn names_are_sent_as_the_api_takes_them() {
        let call = Call { id: "a".into(), tool: "x.".repeat(100), arguments: String::new() };
        let block = call_block(&call);
        assert!(block.get().contains(&format!(r#""name":"{}","input":{{}}"#, "x_".repeat(64))));
    }
}
