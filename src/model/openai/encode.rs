//! Requests as canonical bytes.
//!
//! Keys have one fixed order and the messages come last, so a later turn's
//! body starts with the earlier turn's bytes less the closing `]}`. Whatever
//! was rendered once is sent unchanged ever after; that is what lets an engine
//! find the prefix in its cache.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::message::{Call, Message, Prefix, Reply, ToolSchema};

/// What every request of one model says beside tools and messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The model's name as the server knows it.
    pub model: String,
    /// The key that carries the output limit, and the limit.
    pub output_limit: Option<(&'static str, u32)>,
    /// Further keys, as configured. A key that is also one of ours replaces it.
    pub extra: Map<String, Value>,
}

impl Options {
    /// Only the model's name.
    pub fn new(model: impl Into<String>) -> Self {
        Self { model: model.into(), output_limit: None, extra: Map::new() }
    }
}

/// Returns the bytes of a request.
#[must_use]
pub fn body(options: &Options, prefix: &Prefix) -> Vec<u8> {
    serde_json::to_vec(&Body { options, prefix })
        .expect("strings and raw JSON always serialise to memory")
}

/// A request, ready to be written.
pub(super) struct Body<'a> {
    pub(super) options: &'a Options,
    pub(super) prefix: &'a Prefix,
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
        if let Some((key, limit)) = &options.output_limit
            && !options.extra.contains_key(*key)
        {
            map.serialize_entry(key, limit)?;
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
    // Some servers parse the arguments in their chat template and answer 500
    // to every later turn when they are not an object.
    let arguments = if is_object(&call.arguments) { &call.arguments } else { "{}" };
    WireCall {
        id: &call.id.0,
        kind: "function",
        function: WireFunction { name: sendable_name(&call.tool), arguments },
    }
}

fn is_object(arguments: &str) -> bool {
    arguments.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
}

/// A name a model made up may hold anything, also nothing; servers refuse a
/// whole conversation over one character outside this set.
fn sendable_name(name: &str) -> String {
    if name.is_empty() {
        return "_".to_owned();
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    name.chars().map(|character| if allowed(character) { character } else { '_' }).collect()
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("strings and raw JSON always serialise to memory")
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
        let options = Options { model: "m".into(), output_limit: Some(("max_tokens", 9)), extra };
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
        let options = Options { model: "m".into(), output_limit: Some(("max_tokens", 9)), extra };
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

    #[test]
    fn arguments_that_are_no_object_are_sent_as_an_empty_one() {
        for arguments in ["", "{\"path\": ", "[]", "3", "null", "{} {}"] {
            assert_eq!(wire_call(&call("Read", arguments)).function.arguments, "{}", "{arguments}");
        }
    }

    #[test]
    fn made_up_names_are_sent_as_names_servers_accept() {
        assert_eq!(sendable_name(""), "_");
        assert_eq!(sendable_name("functions.Read file"), "functions_Read_file");
        assert_eq!(sendable_name("TodoWrite"), "TodoWrite");
    }
}
