//! Requests as canonical bytes.
//!
//! Keys have one fixed order and the messages come last, so a later turn's
//! body starts with the earlier turn's bytes less the closing `]}`. Whatever
//! was rendered once is sent unchanged ever after; that is what lets an engine
//! find the prefix in its cache.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::config::{EffortKey, ReasoningBack, UsageInStream};
use crate::message::{
    Call, CallId, Entry, Image, Message, Output, Piece, Prefix, Prompt, Reply, ToolSchema,
};
use crate::model::api::calls::{sendable_arguments, sendable_id, sendable_name};
use crate::model::api::{Options, TEXT_SCHEMA_NAME, raw};
use crate::prompt;

/// Returns the bytes of a request.
pub(super) fn body(options: &Options, prefix: &Prefix) -> Vec<u8> {
    serde_json::to_vec(&Body { options, prefix })
        .expect("strings and raw JSON always serialise to memory")
}

/// A request, ready to be written.
struct Body<'a> {
    options: &'a Options,
    prefix: &'a Prefix,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { options, prefix } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", &options.model)?;
        map.serialize_entry("stream", &true)?;
        let has_tools = !prefix.head.tools.is_empty();
        for (key, value) in settings(options).chain(answer_form(options, has_tools)) {
            if !options.extra.contains_key(key) && !options.leaves_out(key) {
                map.serialize_entry(key, &value)?;
            }
        }
        for (key, value) in &options.extra {
            map.serialize_entry(key, value)?;
        }
        if has_tools {
            let tools = prefix.head.rendered_tools.get_or_render(|| tools(&prefix.head.tools));
            map.serialize_entry("tools", tools)?;
        }
        map.serialize_entry("messages", &Messages { options, prefix })?;
        map.end()
    }
}

/// What the options say, in the server's own words.
fn settings(options: &Options) -> impl Iterator<Item = (&'static str, Value)> {
    let quirks = &options.quirks;
    let counts = match quirks.usage {
        UsageInStream::OnRequest => Some(("stream_options", json!({ "include_usage": true }))),
        UsageInStream::Always => None,
    };
    let limit = options.max_output_tokens.map(|limit| (quirks.output_limit.as_str(), json!(limit)));
    let effort = options.effort.as_ref().map(|effort| match quirks.effort {
        EffortKey::ReasoningEffort => ("reasoning_effort", json!(effort)),
        EffortKey::Reasoning => ("reasoning", json!({ "effort": effort })),
    });
    [counts, limit, effort].into_iter().flatten()
}

/// What makes a server hold the answer to a schema from its first token. The tools stay:
/// without them the cached prefix would be another one.
fn answer_form(options: &Options, has_tools: bool) -> impl Iterator<Item = (&'static str, Value)> {
    let schema = options.text_schema.as_ref();
    // A server refuses the choice where it is offered no tool.
    let choice = schema.filter(|_| has_tools).map(|_| ("tool_choice", json!("none")));
    let format = schema.map(|schema| {
        let format = json!({ "name": TEXT_SCHEMA_NAME, "schema": schema });
        ("response_format", json!({ "type": "json_schema", "json_schema": format }))
    });
    choice.into_iter().chain(format)
}

struct Messages<'a> {
    options: &'a Options,
    prefix: &'a Prefix,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Prefix { head, entries } = self.prefix;
        let system = (!head.system.is_empty()).then(|| {
            head.rendered_system.get_or_render(|| raw(&Spoken::new("system", &head.system)))
        });
        let entries = (0..entries.len()).flat_map(|index| {
            entries[index]
                .rendered
                .parts_or_render(|| self.messages(index))
                .iter()
                .map(|part| &**part)
        });
        serializer.collect_seq(system.into_iter().chain(entries))
    }
}

impl Messages<'_> {
    /// Renders one entry. Behind the last of several outputs stand the images
    /// of all of them: no message of an output can hold one, and between two
    /// outputs nothing may stand.
    fn messages(&self, index: usize) -> Vec<Box<RawValue>> {
        let entries = &self.prefix.entries;
        let mut messages = vec![match &entries[index].message {
            Message::User(prompt) => user_message(prompt, self.options.takes_images),
            Message::Model(reply) => model_message(reply, self.options),
            Message::Output { call, output } => output_message(call, output, self.options),
        }];
        let is_output = |entry: &&Arc<Entry>| matches!(entry.message, Message::Output { .. });
        let is_last = entries.get(index + 1).as_ref().is_none_or(|next| !is_output(next));
        if self.options.takes_images && is_last {
            let run = entries[..=index].iter().rev().take_while(is_output).count();
            messages.extend(images(&entries[index + 1 - run..=index]));
        }
        messages
    }
}

/// Renders a prompt. As one text for a model that takes no images: its server
/// may read no other form.
fn user_message(prompt: &Prompt, takes_images: bool) -> Box<RawValue> {
    if prompt.images.is_empty() {
        return raw(&Spoken::new("user", &prompt.text));
    }
    if !takes_images {
        let text = prompt.text_with(|_| prompt::unseen_image().to_owned());
        return raw(&Spoken::new("user", &text));
    }
    let part = |piece| match piece {
        Piece::Text(text) => Part::Text { text: text.into() },
        Piece::Image(image) => Part::image(image),
    };
    raw(&Shown { role: "user", content: prompt.pieces().map(part).collect() })
}

/// Renders the images of several outputs, each behind the name of its call;
/// nothing if there are none.
fn images(outputs: &[Arc<Entry>]) -> Option<Box<RawValue>> {
    let mut parts = Vec::new();
    for entry in outputs {
        if let Message::Output { call, output } = &entry.message
            && !output.images.is_empty()
        {
            parts.push(Part::Text { text: prompt::shown_images(&sendable_id(call)).into() });
            parts.extend(output.images.iter().map(Part::image));
        }
    }
    (!parts.is_empty()).then(|| raw(&Shown { role: "user", content: parts }))
}

fn output_message(call: &CallId, output: &Output, options: &Options) -> Box<RawValue> {
    let mut content = Cow::Borrowed(output.text.as_str());
    if !options.takes_images {
        for _ in &output.images {
            let text = content.to_mut();
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(prompt::unseen_image());
        }
    }
    raw(&WireOutput { role: "tool", tool_call_id: sendable_id(call), content: &content })
}

fn tools(schemas: &[ToolSchema]) -> Box<RawValue> {
    let tools: Vec<_> = schemas
        .iter()
        .map(|schema| WireTool {
            kind: "function",
            function: WireToolFunction {
                name: &schema.name,
                description: &schema.description,
                parameters: &schema.parameters,
            },
        })
        .collect();
    raw(&tools)
}

fn model_message(reply: &Reply, options: &Options) -> Box<RawValue> {
    if reply.calls.is_empty() {
        // Many servers refuse a whole conversation over one message without
        // content: an answer that was all reasoning, or was cut off before it.
        let is_empty = reply.text.is_empty();
        let text = if is_empty { prompt::empty_message() } else { &reply.text };
        return raw(&Spoken::new("assistant", text));
    }
    // `null` is the form OpenAI documents. Some servers insist that the key is
    // there, some refuse an empty text; a null passes both.
    let is_null = reply.text.is_empty() && options.sends_null_content;
    let content = (!is_null).then_some(&*reply.text);
    let reasoning_content = match options.quirks.reasoning {
        ReasoningBack::None => None,
        ReasoningBack::WithCalls => Some(&*reply.thinking),
    };
    let tool_calls = reply.calls.iter().map(wire_call).collect();
    raw(&WireReply { role: "assistant", content, reasoning_content, tool_calls })
}

fn wire_call(call: &Call) -> WireCall<'_> {
    WireCall {
        id: sendable_id(&call.id),
        kind: "function",
        function: WireFunction { name: sendable_name(call), arguments: sendable_arguments(call) },
    }
}

// The key order of a message is the order of these fields.

#[derive(serde::Serialize)]
struct Spoken<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> Spoken<'a> {
    fn new(role: &'static str, content: &'a str) -> Self {
        Self { role, content }
    }
}

#[derive(serde::Serialize)]
struct WireReply<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(serde::Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(serde::Serialize)]
struct WireFunction<'a> {
    name: String,
    arguments: &'a str,
}

#[derive(serde::Serialize)]
struct WireOutput<'a> {
    role: &'static str,
    tool_call_id: Cow<'a, str>,
    content: &'a str,
}

#[derive(serde::Serialize)]
struct Shown<'a> {
    role: &'static str,
    content: Vec<Part<'a>>,
}

#[derive(serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
}

impl Part<'_> {
    fn image(image: &Image) -> Self {
        Self::ImageUrl { image_url: ImageUrl { url: image.data_url() } }
    }
}

#[derive(serde::Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(serde::Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireToolFunction<'a>,
}

#[derive(serde::Serialize)]
struct WireToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::config::{OutputLimitKey, Quirks};
    use crate::message::{Head, ImageKind};

    fn text(options: &Options, prefix: &Prefix) -> String {
        String::from_utf8(body(options, prefix)).unwrap()
    }

    fn prefix(messages: impl IntoIterator<Item = Message>) -> Prefix {
        let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
        for message in messages {
            prefix.push(message);
        }
        prefix
    }

    fn call(tool: &str, arguments: &str) -> Call {
        Call { id: "c1".into(), tool: tool.into(), arguments: arguments.into() }
    }

    #[track_caller]
    fn check_message(message: Message, expected: &str) {
        check_messages(&Options::new("m"), &prefix([message]), &[expected]);
    }

    #[track_caller]
    fn check_messages(options: &Options, prefix: &Prefix, expected: &[&str]) {
        let body = text(options, prefix);
        let (_, messages) = body.split_once(r#""Be brief."},"#).unwrap();
        assert_eq!(messages.strip_suffix("]}").unwrap(), expected.join(","));
    }

    fn output(call: &str, text: &str, images: &[ImageKind]) -> Message {
        let images = images.iter().map(|&kind| Image { kind, base64: "aGk=".into() }).collect();
        let output = Arc::new(Output { images, ..Output::ok(text) });
        Message::Output { call: call.into(), output }
    }

    #[test]
    fn keys_have_one_order_and_the_messages_come_last() {
        let schema = ToolSchema {
            name: "Read".into(),
            description: "Reads.".into(),
            parameters: RawValue::from_string(r#"{"z":1,"a":2}"#.into()).unwrap(),
        };
        let prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), vec![schema])));
        let extra = Map::from_iter([("temperature".to_owned(), json!(0))]);
        let options = Options { max_output_tokens: Some(9), extra, ..Options::new("m") };
        assert_eq!(
            text(&options, &prefix),
            concat!(
                r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"#,
                r#""max_tokens":9,"temperature":0,"#,
                r#""tools":[{"type":"function","function":{"name":"Read","#,
                r#""description":"Reads.","parameters":{"z":1,"a":2}}}],"#,
                r#""messages":[{"role":"system","content":"Be brief."}]}"#,
            )
        );
    }

    #[test]
    fn configured_keys_replace_our_own() {
        let extra = Map::from_iter([
            ("max_tokens".to_owned(), json!(5)),
            ("stream_options".to_owned(), json!({})),
        ]);
        let options = Options { max_output_tokens: Some(9), extra, ..Options::new("m") };
        assert_eq!(
            text(&options, &Prefix::new(Arc::new(Head::new(String::new(), Vec::new())))),
            r#"{"model":"m","stream":true,"max_tokens":5,"stream_options":{},"messages":[]}"#
        );
    }

    #[test]
    fn outputs_carry_the_id_of_their_call() {
        let output = Arc::new(Output::error("no such file"));
        check_message(
            Message::Output { call: "c1".into(), output },
            r#"{"role":"tool","tool_call_id":"c1","content":"no such file"}"#,
        );
    }

    #[test]
    fn a_reply_of_calls_alone_has_null_for_content() {
        let reply = Reply { calls: vec![call("Read", r#"{"path": "a"}"#)], ..Reply::default() };
        check_message(
            Message::Model(Arc::new(reply)),
            concat!(
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","#,
                r#""type":"function","function":{"name":"Read","arguments":"{\"path\": \"a\"}"}}]}"#,
            ),
        );
    }

    #[test]
    fn an_empty_reply_says_that_it_is_empty() {
        check_message(
            Message::Model(Arc::default()),
            r#"{"role":"assistant","content":"[This message is empty.]"}"#,
        );
    }

    #[test]
    fn a_server_is_spoken_to_in_its_own_words() {
        let quirks = Quirks {
            output_limit: OutputLimitKey::MaxCompletionTokens,
            effort: EffortKey::Reasoning,
            usage: UsageInStream::Always,
            ..Quirks::NONE
        };
        let (max_output_tokens, effort) = (Some(9), Some("low".to_owned()));
        let usual = Options { max_output_tokens, effort, ..Options::new("m") };
        let empty = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
        assert_eq!(
            text(&usual, &empty),
            concat!(
                r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"#,
                r#""max_tokens":9,"reasoning_effort":"low","messages":[]}"#,
            )
        );
        assert_eq!(
            text(&Options { quirks, ..usual }, &empty),
            concat!(
                r#"{"model":"m","stream":true,"max_completion_tokens":9,"#,
                r#""reasoning":{"effort":"low"},"messages":[]}"#,
            )
        );
    }

    #[test]
    fn reasoning_goes_back_with_calls_where_the_server_wants_it() {
        let options = Options {
            quirks: Quirks { reasoning: ReasoningBack::WithCalls, ..Quirks::NONE },
            ..Options::new("m")
        };
        let reply = |thinking: &str, calls| {
            let (text, thinking) = ("Hi".to_owned(), thinking.to_owned());
            Message::Model(Arc::new(Reply { text, thinking, calls, sealed: None }))
        };
        let calls = || vec![call("Read", "{}")];
        let calling = |thinking: &str| {
            format!(
                r#"{{"role":"assistant","content":"Hi","reasoning_content":"{thinking}","tool_calls":[{{"id":"c1","type":"function","function":{{"name":"Read","arguments":"{{}}"}}}}]}}"#
            )
        };
        check_messages(&options, &prefix([reply("Hm", calls())]), &[&calling("Hm")]);
        check_messages(&options, &prefix([reply("", calls())]), &[&calling("")]);
        let plain = r#"{"role":"assistant","content":"Hi"}"#;
        check_messages(&options, &prefix([reply("Hm", Vec::new())]), &[plain]);
    }

    #[test]
    fn images_of_a_prompt_stand_where_the_user_has_put_them() {
        let image = Image::new(ImageKind::Png, b"hi");
        let prompt = Prompt::joined(["see".into(), image.into(), "well".into()]);
        let prefix = || prefix([Message::User(prompt.clone())]);
        let options = Options { takes_images: true, ..Options::new("m") };
        let seen = concat!(
            r#"{"role":"user","content":[{"type":"text","text":"see"},"#,
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},"#,
            r#"{"type":"text","text":"well"}]}"#,
        );
        check_messages(&options, &prefix(), &[seen]);
        let unseen = r#"{"role":"user","content":"see\n\n[There is an image here. You cannot see it.]\n\nwell"}"#;
        check_messages(&Options::new("m"), &prefix(), &[unseen]);
    }

    #[test]
    fn images_stand_behind_the_last_output_under_the_names_of_their_calls() {
        let options = Options { takes_images: true, ..Options::new("m") };
        let prefix = prefix([
            output("c1", "a", &[ImageKind::Png, ImageKind::Gif]),
            output("c2", "b", &[]),
            output("c3", "", &[ImageKind::Webp]),
            Message::User("go".into()),
            output("c4", "d", &[]),
        ]);
        let tool = |call: &str, text: &str| {
            format!(r#"{{"role":"tool","tool_call_id":"{call}","content":"{text}"}}"#)
        };
        let image = |kind: &str| {
            format!(
                r#"{{"type":"image_url","image_url":{{"url":"data:image/{kind};base64,aGk="}}}}"#
            )
        };
        let shown = format!(
            r#"{{"role":"user","content":[{},{},{},{},{}]}}"#,
            r#"{"type":"text","text":"[What the output of call `c1` shows:]"}"#,
            image("png"),
            image("gif"),
            r#"{"type":"text","text":"[What the output of call `c3` shows:]"}"#,
            image("webp"),
        );
        let user = r#"{"role":"user","content":"go"}"#;
        let (c1, c2, c3, c4) = (tool("c1", "a"), tool("c2", "b"), tool("c3", ""), tool("c4", "d"));
        check_messages(&options, &prefix, &[&c1, &c2, &c3, &shown, user, &c4]);
    }

    #[test]
    fn a_model_that_sees_no_images_is_told_of_them() {
        let unseen = "[There is an image here. You cannot see it.]";
        let message =
            |text: &str| format!(r#"{{"role":"tool","tool_call_id":"c1","content":"{text}"}}"#);
        let two = [ImageKind::Png, ImageKind::Png];
        check_message(output("c1", "a", &two), &message(&format!("a\\n{unseen}\\n{unseen}")));
        check_message(output("c1", "", &two[..1]), &message(unseen));
    }
}
