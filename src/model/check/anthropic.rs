//! What must hold for every request of Anthropic's API, checked on its bytes.
//!
//! These are the rules whose breach the API answers with 400, and our own: the
//! order of the tools and the caps of outputs.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Open, Violation, check_answered, check_order};

/// Most cache marks in one request.
const MARKS: usize = 4;

/// Checks one request by itself.
///
/// # Errors
///
/// The first thing that is wrong with it.
pub fn check(body: &[u8]) -> Result<(), Violation> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| Violation::Unreadable { reason: error.to_string() })?;
    if body.max_tokens == 0 || !body.stream {
        return Err(Violation::Unreadable { reason: "no room, or no stream".to_owned() });
    }
    check_order(body.tools.iter().map(|tool| tool.name.as_str()))?;
    body.tools.iter().try_for_each(|tool| check_name(&tool.name))?;
    body.system.iter().try_for_each(|block| check_block(0, block))?;
    check_messages(&body.messages)?;
    let blocks = body.messages.iter().flat_map(|message| &message.content).chain(&body.system);
    let of_tools = body.tools.iter().filter(|tool| tool.cache_control.is_some()).count();
    let marks = of_tools + blocks.filter(|block| block.cache_control.is_some()).count();
    if marks > MARKS { Err(Violation::Marks { count: marks }) } else { Ok(()) }
}

#[derive(Deserialize)]
struct Body {
    max_tokens: u32,
    stream: bool,
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    system: Vec<Block>,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    cache_control: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    role: Role,
    content: Vec<Block>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Deserialize)]
struct Block {
    #[serde(flatten)]
    said: Said,
    cache_control: Option<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said {
    Text {
        text: String,
    },
    Image,
    ToolUse {
        id: String,
        name: String,
        // Only that it is there.
        #[serde(rename = "input")]
        _input: Map<String, Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: Option<Content>,
    },
    Thinking {
        #[serde(rename = "signature")]
        _signature: String,
    },
    RedactedThinking {
        #[serde(rename = "data")]
        _data: String,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Block>),
}

impl Content {
    fn characters(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::Parts(parts) => parts.iter().map(Block::characters).sum(),
        }
    }
}

impl Block {
    fn characters(&self) -> usize {
        match &self.said {
            Said::Text { text } => text.chars().count(),
            Said::Image
            | Said::ToolUse { .. }
            | Said::ToolResult { .. }
            | Said::Thinking { .. }
            | Said::RedactedThinking { .. } => 0,
        }
    }

    fn is_thinking(&self) -> bool {
        matches!(self.said, Said::Thinking { .. } | Said::RedactedThinking { .. })
    }
}

fn check_messages(messages: &[Message]) -> Result<(), Violation> {
    let mut open: HashMap<&str, Open> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        let refuse = |reason| Err(Violation::Refused { message: index, reason });
        let Some(last) = message.content.last() else { return refuse("it has no content") };
        match message.role {
            Role::Assistant if last.is_thinking() => return refuse("it ends in reasoning"),
            Role::Assistant => check_answered(&open)?,
            Role::User => {}
        }
        let mut has_spoken = false;
        for block in &message.content {
            check_block(index, block)?;
            match (&block.said, message.role) {
                (Said::ToolResult { tool_use_id: call, content }, Role::User) if !has_spoken => {
                    let Some(Open { message: _, output_limit: limit }) = open.remove(&**call)
                    else {
                        return Err(Violation::StrayOutput { message: index, call: call.clone() });
                    };
                    let characters = content.as_ref().map_or(0, Content::characters);
                    if characters > limit {
                        return Err(Violation::LongOutput { message: index, characters, limit });
                    }
                }
                (Said::ToolUse { id, name, _input: _ }, Role::Assistant) => {
                    if open.insert(id, Open::by(index, name)).is_some() {
                        return Err(Violation::SameId { message: index, call: id.clone() });
                    }
                }
                (Said::Thinking { .. } | Said::RedactedThinking { .. }, Role::Assistant)
                | (Said::Text { .. } | Said::Image, _) => has_spoken = true,
                (Said::ToolResult { .. }, Role::User) => {
                    return refuse("an output stands behind something else");
                }
                (_, Role::User) => return refuse("a user says what only the model can"),
                (Said::ToolResult { .. }, Role::Assistant) => {
                    return refuse("the model says what only a user can");
                }
            }
        }
        if message.role == Role::User {
            check_answered(&open)?;
        }
    }
    match messages.last() {
        Some(Message { role: Role::User, content: _ }) => Ok(()),
        last => {
            let (message, reason) = (messages.len(), "no user has the last word");
            Err(Violation::Refused { message: message - last.iter().len(), reason })
        }
    }
}

fn check_block(message: usize, block: &Block) -> Result<(), Violation> {
    let refuse = |reason| Err(Violation::Refused { message, reason });
    if block.is_thinking() && block.cache_control.is_some() {
        return refuse("reasoning has a cache mark");
    }
    match &block.said {
        Said::Text { text } if text.trim().is_empty() => refuse("a text is blank"),
        Said::ToolUse { id, name, _input: _ } => check_id(message, id).and(check_name(name)),
        Said::ToolResult { tool_use_id, content } => {
            check_id(message, tool_use_id)?;
            match content {
                Some(Content::Parts(parts)) => {
                    parts.iter().try_for_each(|part| check_block(message, part))
                }
                Some(Content::Text(text)) if text.trim().is_empty() => refuse("a text is blank"),
                Some(Content::Text(_)) | None => Ok(()),
            }
        }
        Said::Text { .. } | Said::Image | Said::Thinking { .. } | Said::RedactedThinking { .. } => {
            Ok(())
        }
    }
}

fn check_id(message: usize, id: &str) -> Result<(), Violation> {
    let reason = "an id holds a forbidden character";
    if is_plain(id) { Ok(()) } else { Err(Violation::Refused { message, reason }) }
}

fn check_name(name: &str) -> Result<(), Violation> {
    let fits = is_plain(name) && name.len() <= 128;
    if fits { Ok(()) } else { Err(Violation::Name { name: name.to_owned() }) }
}

fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    !text.is_empty() && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::OUTPUT_LIMIT;
    use super::*;

    fn calls(ids: &[&str]) -> Value {
        let call = |id: &&str| json!({ "type": "tool_use", "id": id, "name": "Read", "input": {} });
        let calls: Vec<_> = ids.iter().map(call).collect();
        json!({ "role": "assistant", "content": calls })
    }

    fn output(id: &str) -> Value {
        json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" })
    }

    fn text(text: &str) -> Value {
        json!({ "type": "text", "text": text })
    }

    fn user(blocks: &[Value]) -> Value {
        json!({ "role": "user", "content": blocks })
    }

    fn body(messages: &[Value]) -> Value {
        json!({ "max_tokens": 1, "stream": true, "messages": messages })
    }

    #[track_caller]
    fn check_messages(messages: &[Value], expected: Result<(), Violation>) {
        assert_eq!(check(body(messages).to_string().as_bytes()), expected);
    }

    #[track_caller]
    fn check_refused(messages: &[Value], message: usize, reason: &'static str) {
        check_messages(messages, Err(Violation::Refused { message, reason }));
    }

    #[test]
    fn every_call_with_one_output_right_behind_it_passes() {
        let both = user(&[output("b"), output("a"), text("and?")]);
        let again = [calls(&["a"]), user(&[output("a")]), user(&[text("so?")])];
        check_messages(
            &[&[user(&[text("go")]), calls(&["a", "b"]), both][..], &again].concat(),
            Ok(()),
        );
    }

    #[test]
    fn outputs_that_miss_their_calls_are_named() {
        let missing = || Err(Violation::NoOutput { message: 0, call: "b".into() });
        let one = user(&[output("a")]);
        check_messages(&[calls(&["a", "b"]), one.clone()], missing());
        check_messages(&[calls(&["a", "b"]), one.clone(), user(&[output("b")])], missing());
        let stray = |message| Err(Violation::StrayOutput { message, call: "a".into() });
        check_messages(std::slice::from_ref(&one), stray(0));
        check_messages(&[calls(&["a"]), one.clone(), one], stray(2));
        let same = Violation::SameId { message: 0, call: "a".into() };
        check_messages(&[calls(&["a", "a"])], Err(same));
        let late = user(&[text("first"), output("a")]);
        check_refused(&[calls(&["a"]), late], 1, "an output stands behind something else");
    }

    #[test]
    fn what_the_api_refuses_is_named() {
        let go = || user(&[text("go")]);
        check_refused(&[user(&[])], 0, "it has no content");
        check_refused(&[user(&[text(" \n")])], 0, "a text is blank");
        let blank = json!({ "type": "tool_result", "tool_use_id": "a", "content": [text("")] });
        check_refused(&[go(), calls(&["a"]), user(&[blank])], 2, "a text is blank");
        check_refused(&[go(), calls(&["a:1"])], 1, "an id holds a forbidden character");
        let answer = |block: Value| json!({ "role": "assistant", "content": [block] });
        check_refused(&[go(), answer(text("hi"))], 1, "no user has the last word");
        check_refused(&[], 0, "no user has the last word");
        let thinking = json!({ "type": "thinking", "thinking": "", "signature": "" });
        check_refused(&[go(), answer(thinking.clone())], 1, "it ends in reasoning");
        check_refused(&[user(&[thinking])], 0, "a user says what only the model can");
        check_refused(&[go(), answer(output("a"))], 1, "the model says what only a user can");
        let named = json!({ "type": "tool_use", "id": "a", "name": "a b", "input": {} });
        check_messages(&[answer(named)], Err(Violation::Name { name: "a b".into() }));
    }

    #[test]
    fn an_output_may_be_as_long_as_the_limit_and_no_longer() {
        let long = |characters| {
            let (text, id) = ("ä".repeat(characters), "a");
            user(&[json!({ "type": "tool_result", "tool_use_id": id, "content": text })])
        };
        check_messages(&[calls(&["a"]), long(OUTPUT_LIMIT)], Ok(()));
        let (characters, limit) = (OUTPUT_LIMIT + 1, OUTPUT_LIMIT);
        let violation = Violation::LongOutput { message: 1, characters, limit };
        check_messages(&[calls(&["a"]), long(OUTPUT_LIMIT + 1)], Err(violation));
    }

    #[test]
    fn tools_stand_in_the_order_of_the_registry() {
        let mut body = body(&[user(&[text("go")])]);
        body["tools"] = json!([{ "name": "Agent" }, { "name": "Read" }]);
        let order = Violation::ToolOrder { tool: "Read".into(), before: "Agent".into() };
        assert_eq!(check(body.to_string().as_bytes()), Err(order));
    }

    #[test]
    fn more_than_four_marks_are_too_many_and_reasoning_has_none() {
        let mark = json!({ "type": "ephemeral" });
        let marked = |mut block: Value| {
            block["cache_control"] = mark.clone();
            block
        };
        let texts = vec![marked(text("a")); 3];
        let mut body = body(&[user(&texts)]);
        body["system"] = json!([marked(text("s"))]);
        assert_eq!(check(body.to_string().as_bytes()), Ok(()));
        body["tools"] = json!([marked(json!({ "name": "Read" }))]);
        assert_eq!(check(body.to_string().as_bytes()), Err(Violation::Marks { count: 5 }));
        let thinking = marked(json!({ "type": "redacted_thinking", "data": "" }));
        let answer = json!({ "role": "assistant", "content": [thinking, text("a")] });
        check_refused(&[answer], 0, "reasoning has a cache mark");
    }

    #[test]
    fn what_is_no_body_is_refused() {
        for body in [r#"{"messages":[]}"#, r#"{"max_tokens":0,"stream":true,"messages":[]}"#] {
            let checked = check(body.as_bytes());
            assert!(matches!(checked, Err(Violation::Unreadable { reason: _ })), "{body}");
        }
    }
}
