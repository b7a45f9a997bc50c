//! Requests as canonical bytes, and the marks that the wire adds to them.
//!
//! Keys have one fixed order and the messages come last. Each entry of a prefix
//! is rendered once, to the blocks it is sent as, and sent unchanged ever after;
//! the messages around the blocks are written anew each time. So a later turn's
//! body starts with the earlier turn's bytes less the closing `]}`. What moves
//! from request to request are only the cache marks: they are inserted while a
//! body is written, and no rendering holds them.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::blocks::{rendered, rendered_system, rendered_tools};
use crate::message::{Entry, Message, Prefix};
use crate::model::api::Options;

/// What is inserted at the end of a block up to which the provider is to put
/// the request into its cache, for the five minutes that cost nothing extra.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// Most tokens of an answer where nobody has said: the API wants to be told.
/// Every model of Anthropic that is still served takes as many, and reasoning
/// is counted among them.
const MAX_TOKENS: u32 = 32_000;

/// Returns the bytes of a request without its cache marks.
///
/// They are what a later request starts with, less the closing `]}`.
#[must_use]
pub(super) fn body(options: &Options, prefix: &Prefix) -> Vec<u8> {
    write(options, prefix, false)
}

/// Returns the bytes of a request as they are sent: [`body`] with a mark
///
/// - at the end of the system prompt, or of the tools if there is none: all
///   units of one kind share so much;
/// - at the end of what the request before held, which is where that one had
///   its last mark; in a fork, the parent's last one. The provider looks for a
///   known prefix at each mark and only 20 blocks before it, and one answer may
///   make more calls than that;
/// - at its own end, for the request that follows.
#[must_use]
pub(super) fn marked(options: &Options, prefix: &Prefix) -> Vec<u8> {
    write(options, prefix, !options.leaves_out("cache_control"))
}

/// Returns a request without its cache marks.
///
/// A quotation mark inside of a JSON string is escaped, so no text that is
/// quoted in a request is taken for a mark.
#[must_use]
pub fn unmarked(body: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(body) {
        Ok(text) if text.contains(MARK) => Cow::Owned(text.replace(MARK, "").into_bytes()),
        Ok(_) | Err(_) => Cow::Borrowed(body),
    }
}

fn write(options: &Options, prefix: &Prefix, with_marks: bool) -> Vec<u8> {
    let entries = rendered(options, prefix);
    let length: usize =
        entries.iter().flat_map(|blocks| blocks.iter()).map(|b| b.get().len()).sum();
    let mut body = Writer { bytes: Vec::with_capacity(length + length / 8 + 1024), with_marks };
    body.bytes.push(b'{');
    write_settings(&mut body, options, !prefix.head.tools.is_empty());
    write_head(&mut body, prefix);
    body.key("messages");
    write_messages(&mut body, prefix, &entries);
    body.bytes.push(b'}');
    body.bytes
}

struct Writer {
    bytes: Vec<u8>,
    with_marks: bool,
}

impl Writer {
    fn key(&mut self, key: &str) {
        if !self.bytes.ends_with(b"{") {
            self.bytes.push(b',');
        }
        self.json(key);
        self.bytes.push(b':');
    }

    fn json(&mut self, value: &(impl Serialize + ?Sized)) {
        serde_json::to_writer(&mut self.bytes, value)
            .expect("strings and JSON values always serialise to memory");
    }

    fn raw(&mut self, json: &RawValue) {
        self.bytes.extend_from_slice(json.get().as_bytes());
    }

    /// Marks the block that was just written; `behind` is what was written
    /// behind its closing brace.
    fn mark(&mut self, behind: &str) {
        if self.with_marks {
            let at = self.bytes.len() - behind.len() - 1;
            self.bytes.splice(at..at, MARK.bytes());
        }
    }
}

/// Writes what the user has set.
///
/// Without an effort nothing is said of thinking, so every model answers as it
/// does by itself. With one a request holds `output_config.effort` and asks for
/// adaptive thinking with a readable summary. Every model that knows efforts
/// takes that, but for Opus 4.5, which needs a `thinking` of its own in the
/// extra body. A key there replaces ours.
fn write_settings(body: &mut Writer, options: &Options, has_tools: bool) {
    let is_ours = |key: &str| !options.extra.contains_key(key) && !options.leaves_out(key);
    body.key("model");
    body.json(&options.model);
    if is_ours("max_tokens") {
        body.key("max_tokens");
        let most = options.longest_answer.map_or(MAX_TOKENS, |longest| longest.min(MAX_TOKENS));
        body.json(&options.max_output_tokens.unwrap_or(most));
    }
    body.key("stream");
    body.json(&true);
    if options.effort.is_some() && is_ours("thinking") {
        body.key("thinking");
        // Without it, newer models think in secret.
        body.json(&Thinking { kind: "adaptive", display: "summarized" });
    }
    let (effort, schema) = (options.effort.as_deref(), options.text_schema.as_deref());
    if is_ours("output_config") && (effort.is_some() || schema.is_some()) {
        body.key("output_config");
        let format = schema.map(|schema| OutputFormat { kind: "json_schema", schema });
        body.json(&OutputConfig { effort, format });
    }
    if is_ours("tool_choice") && schema.is_some() && has_tools {
        body.key("tool_choice");
        body.json(&ToolChoice { kind: "none" });
    }
    for (key, value) in &options.extra {
        body.key(key);
        body.json(value);
    }
}

fn write_head(body: &mut Writer, prefix: &Prefix) {
    let head = &prefix.head;
    if !head.tools.is_empty() {
        body.key("tools");
        body.raw(rendered_tools(prefix));
        if head.system.trim().is_empty() {
            body.mark("]");
        }
    }
    if let Some(system) = rendered_system(prefix) {
        body.key("system");
        body.bytes.push(b'[');
        body.raw(system);
        body.mark("");
        body.bytes.push(b']');
    }
}

/// One message: who says it, and its blocks.
struct Group<'a, 'b> {
    role: &'static str,
    entries: &'b [&'a [Box<RawValue>]],
}

fn write_messages(body: &mut Writer, prefix: &Prefix, entries: &[&[Box<RawValue>]]) {
    let is_answer = |entry: &Arc<Entry>| matches!(entry.message, Message::Model(_));
    // All before the last answer is what the request before this one held.
    let sent = prefix.entries.iter().rposition(is_answer).unwrap_or(0);
    let has_block = |blocks: &&[Box<RawValue>]| !blocks.is_empty();
    let ends = [&entries[..sent], entries].map(|entries| entries.iter().rposition(has_block));
    body.bytes.push(b'[');
    let mut place = 0;
    while place < entries.len() {
        let group = group_at(prefix, entries, place);
        let end = place + group.entries.len();
        let is_marked = ends.iter().flatten().any(|last| (place..end).contains(last));
        write_message(body, &group, is_marked);
        place = end;
    }
    body.bytes.push(b']');
}

/// Returns the message that begins with this entry: the outputs of one
/// answer's calls are one message, any other entry is one by itself.
fn group_at<'a, 'b>(
    prefix: &Prefix,
    entries: &'b [&'a [Box<RawValue>]],
    place: usize,
) -> Group<'a, 'b> {
    let is_output = |entry: &&Arc<Entry>| matches!(entry.message, Message::Output { .. });
    let outputs = prefix.entries[place..].iter().take_while(is_output).count();
    let role = match prefix.entries[place].message {
        Message::Model(_) => "assistant",
        Message::User(_) | Message::Output { call: _, output: _ } => "user",
    };
    Group { role, entries: &entries[place..place + outputs.max(1)] }
}

fn write_message(body: &mut Writer, group: &Group<'_, '_>, is_marked: bool) {
    let mut blocks = group.entries.iter().flat_map(|blocks| blocks.iter());
    // The API takes no message without content.
    let Some(first) = blocks.next() else { return };
    if !body.bytes.ends_with(b"[") {
        body.bytes.push(b',');
    }
    body.bytes.extend_from_slice(br#"{"role":""#);
    body.bytes.extend_from_slice(group.role.as_bytes());
    body.bytes.extend_from_slice(br#"","content":["#);
    body.raw(first);
    for block in blocks {
        body.bytes.push(b',');
        body.raw(block);
    }
    if is_marked {
        body.mark("");
    }
    body.bytes.extend_from_slice(b"]}");
}

// The key order of what is sent is the order of these fields.

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
    display: &'static str,
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct ToolChoice {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::message::{Call, Head, Image, ImageKind, Output, Prompt, Reply, ToolSchema};

    fn options() -> Options {
        Options { max_output_tokens: Some(9), takes_images: true, ..Options::new("m") }
    }

    fn schema(name: &str) -> ToolSchema {
        let parameters = RawValue::from_string(r#"{"z":1,"a":2}"#.into()).unwrap();
        ToolSchema { name: name.into(), description: "Reads.".into(), parameters }
    }

    fn prefix(system: &str, tools: &[&str], messages: &[Message]) -> Prefix {
        let tools = tools.iter().map(|name| schema(name)).collect();
        let mut prefix = Prefix::new(Arc::new(Head::new(system.into(), tools)));
        messages.iter().for_each(|message| prefix.push(message.clone()));
        prefix
    }

    fn user(text: &str) -> Message {
        Message::User(text.into())
    }

    fn call(id: &str, tool: &str, arguments: &str) -> Call {
        Call { id: id.into(), tool: tool.into(), arguments: arguments.into() }
    }

    fn model(text: &str, calls: &[Call]) -> Message {
        let calls = calls.to_vec();
        Message::Model(Arc::new(Reply { text: text.into(), calls, ..Reply::default() }))
    }

    fn output(id: &str, output: Output) -> Message {
        Message::Output { call: id.into(), output: Arc::new(output) }
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[track_caller]
    fn check_messages(messages: &[Message], expected: &str) {
        let body = text(body(&options(), &prefix("", &[], messages)));
        let (_, messages) = body.split_once(r#""messages":["#).unwrap();
        assert_eq!(messages.strip_suffix("]}").unwrap(), expected);
    }

    #[test]
    fn keys_have_one_order_and_the_messages_come_last() {
        let extra = Map::from_iter([("temperature".to_owned(), json!(0))]);
        assert_eq!(
            text(body(&Options { extra, ..options() }, &prefix("Be brief.", &["Read"], &[]))),
            concat!(
                r#"{"model":"m","max_tokens":9,"stream":true,"temperature":0,"#,
                r#""tools":[{"name":"Read","description":"Reads.","#,
                r#""input_schema":{"z":1,"a":2}}],"#,
                r#""system":[{"type":"text","text":"Be brief."}],"messages":[]}"#,
            )
        );
    }

    #[test]
    fn an_effort_asks_for_adaptive_thinking_and_configured_keys_replace_our_own() {
        let effort = Options { effort: Some("high".into()), ..options() };
        let head = prefix("", &[], &[]);
        assert_eq!(
            text(body(&effort, &head)),
            concat!(
                r#"{"model":"m","max_tokens":9,"stream":true,"#,
                r#""thinking":{"type":"adaptive","display":"summarized"},"#,
                r#""output_config":{"effort":"high"},"messages":[]}"#,
            )
        );
        let thinking = json!({ "type": "enabled", "budget_tokens": 4000 });
        let ours = [("max_tokens", json!(5)), ("thinking", thinking), ("output_config", json!({}))];
        let extra = ours.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        assert_eq!(
            text(body(&Options { extra, ..effort }, &head)),
            concat!(
                r#"{"model":"m","stream":true,"max_tokens":5,"#,
                r#""thinking":{"type":"enabled","budget_tokens":4000},"#,
                r#""output_config":{},"messages":[]}"#,
            )
        );
    }

    #[test]
    fn the_outputs_of_one_answer_are_one_message() {
        check_messages(
            &[
                user("go"),
                model("Two looks.", &[call("a", "Read", r#"{"p": 1}"#), call("b", "Grep", "")]),
                output("a", Output::ok("found")),
                output("b", Output::error("no")),
                user("and?"),
            ],
            concat!(
                r#"{"role":"user","content":[{"type":"text","text":"go"}]},"#,
                r#"{"role":"assistant","content":[{"type":"text","text":"Two looks."},"#,
                r#"{"type":"tool_use","id":"a","name":"Read","input":{"p": 1}},"#,
                r#"{"type":"tool_use","id":"b","name":"Grep","input":{}}]},"#,
                r#"{"role":"user","content":["#,
                r#"{"type":"tool_result","tool_use_id":"a","content":"found"},"#,
                r#"{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"no"}]},"#,
                r#"{"role":"user","content":[{"type":"text","text":"and?"}]}"#,
            ),
        );
    }

    #[test]
    fn what_is_blank_is_not_sent() {
        check_messages(
            &[
                user("go"),
                model(" \n", &[]),
                user("\n"),
                model("\n\n", &[call("a", "Read", "{}")]),
                output("a", Output::ok("")),
            ],
            concat!(
                r#"{"role":"user","content":[{"type":"text","text":"go"}]},"#,
                r#"{"role":"assistant","content":["#,
                r#"{"type":"tool_use","id":"a","name":"Read","input":{}}]},"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}"#,
            ),
        );
    }

    #[test]
    fn images_stand_behind_the_text_of_their_output() {
        let image = Image { kind: ImageKind::Png, base64: "AAAA".into() };
        check_messages(
            &[output("a", Output { images: vec![image], ..Output::ok("a.png") })],
            concat!(
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":["#,
                r#"{"type":"text","text":"a.png"},{"type":"image","source":{"type":"base64","#,
                r#""media_type":"image/png","data":"AAAA"}}]}]}"#,
            ),
        );
    }

    #[test]
    fn images_of_a_prompt_stand_where_the_user_has_put_them() {
        let image = Image { kind: ImageKind::Png, base64: "AAAA".into() };
        let prompt = Prompt::joined(["see".into(), image.into(), "well".into()]);
        check_messages(
            &[Message::User(prompt)],
            concat!(
                r#"{"role":"user","content":[{"type":"text","text":"see"},"#,
                r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},"#,
                r#"{"type":"text","text":"well"}]}"#,
            ),
        );
    }

    #[test]
    fn a_model_that_takes_no_images_is_told_of_them() {
        let image = Image { kind: ImageKind::Png, base64: "AAAA".into() };
        let output = output("a", Output { images: vec![image], ..Output::ok("a.png") });
        let options = Options { takes_images: false, ..options() };
        let body = text(body(&options, &prefix("", &[], &[output])));
        let parts = concat!(
            r#""content":[{"type":"text","text":"a.png"},"#,
            r#"{"type":"text","text":"[There is an image here. You cannot see it.]"}]"#,
        );
        assert!(body.contains(parts), "{body}");
    }

    /// Returns what stands before each mark.
    fn marks(prefix: &Prefix) -> Vec<String> {
        let body = text(marked(&options(), prefix));
        assert_eq!(unmarked(body.as_bytes()), super::body(&options(), prefix));
        let ends = body.match_indices(MARK).map(|(at, _)| at);
        ends.map(|at| body[..at].rsplit_once(r#"":""#).unwrap().1.to_owned()).collect()
    }

    #[test]
    fn marks_stand_behind_the_system_prompt_what_was_sent_before_and_the_end() {
        let mut talk = prefix("Be brief.", &["Read"], &[user("go")]);
        assert_eq!(marks(&talk), [r#"Be brief.""#, r#"go""#]);
        talk.push(model("", &[call("a", "Read", "{}"), call("b", "Read", "{}")]));
        talk.push(output("a", Output::ok("one")));
        talk.push(output("b", Output::ok("two")));
        assert_eq!(marks(&talk), [r#"Be brief.""#, r#"go""#, r#"two""#]);
        talk.push(model("", &[call("c", "Read", "{}")]));
        talk.push(output("c", Output::ok("three")));
        talk.push(user("and?"));
        assert_eq!(marks(&talk), [r#"Be brief.""#, r#"two""#, r#"and?""#]);
    }

    #[test]
    fn without_a_system_prompt_the_mark_stands_behind_the_tools() {
        let talk = prefix("", &["Read", "Grep"], &[user("go")]);
        let body = text(marked(&options(), &talk));
        assert!(body.contains(&format!(r#""input_schema":{{"z":1,"a":2}}{MARK}}}],"messages""#)));
        assert_eq!(body.matches(MARK).count(), 2);
    }

    #[test]
    fn a_text_that_quotes_a_mark_keeps_it() {
        let talk = prefix(MARK, &[], &[user(MARK)]);
        assert_eq!(unmarked(&body(&options(), &talk)), body(&options(), &talk));
        assert_eq!(unmarked(&marked(&options(), &talk)), body(&options(), &talk));
    }
}
