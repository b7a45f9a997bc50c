//! Requests as canonical bytes.
//!
//! Keys have one fixed order and the messages come last, so a later turn's
//! body starts with the earlier turn's bytes less the closing `]}`. Whatever
//! was rendered once is sent unchanged ever after; that is what lets an engine
//! find the prefix in its cache.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::message::{Call, Message, Prefix, Reply, ToolSchema};
use crate::model::api::calls::{sendable_arguments, sendable_name};
use crate::model::api::{Options, raw};

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
        if !options.extra.contains_key("stream_options") {
            map.serialize_entry("stream_options", &json!({ "include_usage": true }))?;
        }
        let limit_key = options.quirks.output_limit.as_str();
        if let Some(limit) = &options.max_output_tokens
            && !options.extra.contains_key(limit_key)
        {
            map.serialize_entry(limit_key, limit)?;
        }
        for (key, value) in &options.extra {
            map.serialize_entry(key, value)?;
        }
        if !prefix.head.tools.is_empty() {
            let tools = prefix.head.rendered_tools.get_or_render(|| tools(&prefix.head.tools));
            map.serialize_entry("tools", tools)?;
        }
        map.serialize_entry("messages", &Messages(prefix))?;
        map.end()
    }
}

struct Messages<'a>(&'a Prefix);

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let head = &self.0.head;
        let system = (!head.system.is_empty()).then(|| {
            head.rendered_system.get_or_render(|| raw(&Spoken::new("system", &head.system)))
        });
        let entries = self
            .0
            .entries
            .iter()
            .map(|entry| entry.rendered.get_or_render(|| message(&entry.message)));
        serializer.collect_seq(system.into_iter().chain(entries))
    }
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

fn message(message: &Message) -> Box<RawValue> {
    match message {
        Message::User { text } => raw(&Spoken::new("user", text)),
        Message::Model(reply) => model_message(reply),
        Message::Output { call, output } => {
            raw(&WireOutput { role: "tool", tool_call_id: &call.0, content: &output.text })
        }
    }
}

fn model_message(reply: &Reply) -> Box<RawValue> {
    if reply.calls.is_empty() {
        return raw(&Spoken::new("assistant", &reply.text));
    }
    // `null` is the form OpenAI documents. Some servers insist that the key is
    // there, some refuse an empty text; a null passes both.
    let content = (!reply.text.is_empty()).then_some(&*reply.text);
    let tool_calls = reply.calls.iter().map(wire_call).collect();
    raw(&WireReply { role: "assistant", content, tool_calls })
}

fn wire_call(call: &Call) -> WireCall<'_> {
    WireCall {
        id: &call.id.0,
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
    tool_calls: Vec<WireCall<'a>>,
}

#[derive(serde::Serialize)]
struct WireCall<'a> {
    id: &'a str,
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
    tool_call_id: &'a str,
    content: &'a str,
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
    use std::sync::Arc;

    use serde_json::Map;

    use super::*;
    use crate::message::{Head, Output};

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
        let body = text(&Options::new("m"), &prefix([message]));
        let (_, messages) = body.split_once(r#""Be brief."},"#).unwrap();
        assert_eq!(messages.strip_suffix("]}").unwrap(), expected);
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
    fn an_empty_reply_has_an_empty_text() {
        check_message(Message::Model(Arc::default()), r#"{"role":"assistant","content":""}"#);
    }
}
