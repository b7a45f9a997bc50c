//! Requests as canonical bytes.
//!
//! Keys have one fixed order and the input comes last, so a later turn's body
//! starts with the earlier turn's bytes less the closing `]}`. A reply is as
//! many items as its provider sent: its text, its calls and, word for word,
//! the reasoning that the same provider wants back.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::value::RawValue;

use super::sealed::{Place, opened};
use crate::message::{
    Call, Entry, Head, Image, Message, Output, Piece, Prefix, Prompt, Reply, ToolSchema,
};
use crate::model::api::calls::{sendable_arguments, sendable_id, sendable_name};
use crate::model::api::{Options, TEXT_SCHEMA_NAME, raw};
use crate::prompt;

/// Models that do not reason, by how their names begin: OpenAI answers 400 if
/// one of them is asked for encrypted reasoning.
const PLAIN_MODELS: [&str; 4] = ["gpt-4", "gpt-3.5", "chatgpt-", "gpt-5-chat"];

/// How many bytes of the hash make the name of a conversation's cache.
const CACHE_KEY_BYTES: usize = 16;

/// Returns the bytes of a request.
pub(super) fn body(options: &Options, prefix: &Prefix) -> Vec<u8> {
    serde_json::to_vec(&Body { options, prefix })
        .expect("strings and raw JSON always serialise to memory")
}

struct Body<'a> {
    options: &'a Options,
    prefix: &'a Prefix,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { options, prefix } = self;
        let extra = &options.extra;
        let is_ours = |key: &str| !extra.contains_key(key) && !options.leaves_out(key);
        let rendered = RenderedHead::of(&prefix.head, options);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &options.model)?;
        map.serialize_entry("stream", &true)?;
        if is_ours("store") {
            map.serialize_entry("store", &false)?;
        }
        if is_ours("include") && reasons(&options.model) {
            map.serialize_entry("include", &["reasoning.encrypted_content"])?;
        }
        if let Some(limit) = options.max_output_tokens.filter(|_| is_ours("max_output_tokens")) {
            map.serialize_entry("max_output_tokens", &limit)?;
        }
        // No `summary`: OpenAI refuses it to organisations that have not
        // proved who they are. Whoever may have it sets `reasoning` whole.
        if let Some(effort) = options.effort.as_deref().filter(|_| is_ours("reasoning")) {
            map.serialize_entry("reasoning", &WireReasoning { effort })?;
        }
        if let Some(schema) = &options.text_schema {
            if is_ours("tool_choice") && rendered.tools.is_some() {
                map.serialize_entry("tool_choice", "none")?;
            }
            if is_ours("text") {
                map.serialize_entry("text", &WireText { format: WireFormat::new(schema) })?;
            }
        }
        if is_ours("prompt_cache_key") {
            map.serialize_entry("prompt_cache_key", &self.cache_key(&rendered))?;
        }
        for (key, value) in extra {
            map.serialize_entry(key, value)?;
        }
        if !prefix.head.system.is_empty() {
            map.serialize_entry("instructions", rendered.instructions)?;
        }
        if let Some(tools) = rendered.tools {
            map.serialize_entry("tools", tools)?;
        }
        map.serialize_entry("input", &Input(self))?;
        map.end()
    }
}

impl Body<'_> {
    /// Names the cache of a conversation and its forks.
    ///
    /// OpenAI sends requests with one key and one beginning to one machine, as
    /// long as there are not more than about 15 a minute. So the key is that of
    /// a conversation: what stands before its first message, and that message.
    /// Forks share both with their parents; agents of a batch only the former.
    fn cache_key(&self, head: &RenderedHead<'_>) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(head.hash.get().as_bytes());
        let first = self.prefix.entries.first();
        for part in first.into_iter().flat_map(|entry| self.items(entry)) {
            hasher.update(part.get().as_bytes());
        }
        hex(&hasher.finalize())
    }

    fn items<'b>(&self, entry: &'b Entry) -> &'b [Box<RawValue>] {
        entry.rendered.parts_or_render(|| items(&entry.message, self.options))
    }
}

struct Input<'a>(&'a Body<'a>);

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut input = serializer.serialize_seq(None)?;
        for item in self.0.prefix.entries.iter().flat_map(|entry| self.0.items(entry)) {
            input.serialize_element(item)?;
        }
        input.end()
    }
}

/// What stands before the input, as it is sent.
struct RenderedHead<'a> {
    instructions: &'a RawValue,
    tools: Option<&'a RawValue>,
    /// A hash of both.
    hash: &'a RawValue,
}

impl<'a> RenderedHead<'a> {
    fn of(head: &'a Head, options: &Options) -> Self {
        let tools = (!head.tools.is_empty())
            .then(|| head.rendered_tools.get_or_render(|| tools(&head.tools, options)));
        let system = head.rendered_system.parts_or_render(|| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(head.system.as_bytes());
            hasher.update(tools.map(RawValue::get).unwrap_or_default().as_bytes());
            vec![raw(&head.system), raw(&hex(&hasher.finalize()))]
        });
        let [instructions, hash] = system else { unreachable!("both were rendered above") };
        Self { instructions, tools, hash }
    }
}

fn hex(hash: &blake3::Hash) -> String {
    hash.to_hex()[..2 * CACHE_KEY_BYTES].to_owned()
}

/// Tells whether a model may be asked for encrypted reasoning. Nothing lists
/// those that may; those that may not are old, and there will be no more.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    // A fine-tuned model is called `ft:BASE:…`.
    let name = name.strip_prefix("ft:").unwrap_or(name);
    !PLAIN_MODELS.iter().any(|plain| name.starts_with(plain))
}

fn tools(schemas: &[ToolSchema], options: &Options) -> Box<RawValue> {
    let tools: Vec<_> = schemas
        .iter()
        .map(|schema| WireTool {
            kind: "function",
            name: &schema.name,
            description: &schema.description,
            parameters: &schema.parameters,
            // Strict is what a server assumes, and strict schemas may have no
            // optional keys.
            strict: (!options.leaves_out("strict")).then_some(false),
        })
        .collect();
    raw(&tools)
}

fn items(message: &Message, options: &Options) -> Vec<Box<RawValue>> {
    match message {
        Message::User(prompt) => vec![user_item(prompt, options)],
        Message::Model(reply) => reply_items(reply, options),
        Message::Output { call, output } => vec![raw(&WireOutput {
            kind: "function_call_output",
            call_id: sendable_id(call),
            output: wire_content(output, options),
        })],
    }
}

fn user_item(prompt: &Prompt, options: &Options) -> Box<RawValue> {
    if prompt.images.is_empty() {
        return raw(&Spoken::new("user", &prompt.text));
    }
    let part = |piece| match piece {
        Piece::Text(text) => WirePart::InputText { text },
        Piece::Image(image) => WirePart::seen(image, options),
    };
    let content = WireContent::Parts(prompt.pieces().map(part).collect());
    raw(&Shown { kind: "message", role: "user", content })
}

fn reply_items(reply: &Reply, options: &Options) -> Vec<Box<RawValue>> {
    let sealed = reply.sealed.as_ref().filter(|sealed| sealed.by == options.sealed_by);
    if let Some(places) = sealed.and_then(|sealed| opened(&sealed.json, reply)) {
        return places.iter().map(|place| placed(place, reply, options)).collect();
    }
    // An empty reply is no item: there is nothing a server could read in it.
    let text = (!reply.text.is_empty()).then(|| raw(&Spoken::new("assistant", &reply.text)));
    text.into_iter().chain(reply.calls.iter().map(wire_call)).collect()
}

fn placed(place: &Place<'_>, reply: &Reply, options: &Options) -> Box<RawValue> {
    match place {
        Place::Reasoning(item) => (**item).to_owned(),
        Place::Message { start, end, phase } => {
            let text = &reply.text[*start..*end];
            let phase = phase.as_deref().filter(|_| !options.leaves_out("phase"));
            raw(&Spoken { phase, ..Spoken::new("assistant", text) })
        }
        Place::Call(index) => wire_call(&reply.calls[*index]),
    }
}

fn wire_call(call: &Call) -> Box<RawValue> {
    raw(&WireCall {
        kind: "function_call",
        call_id: sendable_id(&call.id),
        name: sendable_name(call),
        arguments: sendable_arguments(call),
    })
}

fn wire_content<'a>(output: &'a Output, options: &Options) -> WireContent<'a> {
    if output.images.is_empty() {
        return WireContent::Text(&output.text);
    }
    let text = (!output.text.is_empty()).then_some(WirePart::InputText { text: &output.text });
    let images = output.images.iter().map(|image| WirePart::seen(image, options));
    WireContent::Parts(text.into_iter().chain(images).collect())
}

// The key order of an item is the order of these fields.

#[derive(serde::Serialize)]
struct WireReasoning<'a> {
    effort: &'a str,
}

#[derive(serde::Serialize)]
struct WireText<'a> {
    format: WireFormat<'a>,
}

#[derive(serde::Serialize)]
struct WireFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'static str,
    schema: &'a RawValue,
}

impl<'a> WireFormat<'a> {
    fn new(schema: &'a RawValue) -> Self {
        Self { kind: "json_schema", name: TEXT_SCHEMA_NAME, schema }
    }
}

#[derive(serde::Serialize)]
struct Spoken<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    /// A plain text, also for what the model said: parts of an output would
    /// need an id that nobody keeps.
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<&'a str>,
}

impl<'a> Spoken<'a> {
    fn new(role: &'static str, content: &'a str) -> Self {
        Self { kind: "message", role, content, phase: None }
    }
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    content: WireContent<'a>,
}

#[derive(serde::Serialize)]
struct WireCall<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: Cow<'a, str>,
    name: String,
    arguments: &'a str,
}

#[derive(serde::Serialize)]
struct WireOutput<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    call_id: Cow<'a, str>,
    output: WireContent<'a>,
}

#[derive(serde::Serialize)]
#[serde(untagged)]
enum WireContent<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    InputText {
        text: &'a str,
    },
    InputImage {
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'static str>,
        image_url: String,
    },
}

impl WirePart<'_> {
    /// An image, or what stands in its place for a model that takes none.
    fn seen(image: &Image, options: &Options) -> Self {
        let detail = (!options.leaves_out("detail")).then_some("auto");
        match options.takes_images {
            true => Self::InputImage { detail, image_url: image.data_url() },
            false => Self::InputText { text: prompt::unseen_image() },
        }
    }
}

#[derive(serde::Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}
