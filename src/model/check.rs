//! What must hold for every request, checked on its bytes: here for Chat
//! Completions, in [`responses`] and [`anthropic`] for those.
//!
//! The scripted model and the scripted server of the tests put each request
//! through these checks, so a conversation that a real provider would refuse,
//! or that would miss its cache, fails where it is made.

pub mod anthropic;
pub mod responses;

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use super::anthropic::unmarked;
use crate::tool_name::KNOWN;

/// Most characters of one tool output in a request: `tool::OUTPUT_CAP` and
/// [`OUTPUT_SLACK`]. Stated as a number because models stand below tools; a
/// test compares the two.
pub const OUTPUT_LIMIT: usize = 16_000 + OUTPUT_SLACK;

/// The same for outputs that stand for the work of many turns: those of the
/// tools in [`LONG_OUTPUTS`], capped by `tool::AGENT_OUTPUT_CAP`.
pub const LONG_OUTPUT_LIMIT: usize = 64_000 + OUTPUT_SLACK;

/// The tools whose outputs may be that long.
pub const LONG_OUTPUTS: [&str; 2] = ["Agent", "Skill"];

/// What may stand around a text that was cut to the cap: where it was cut, how
/// much is missing and which file has it.
pub const OUTPUT_SLACK: usize = 2_000;

/// Bytes shown on each side of the place where two bodies part.
const CONTEXT: usize = 60;

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// It is no body of its API.
    #[error("the body cannot be read: {reason}")]
    Unreadable {
        /// The parser's words.
        reason: String,
    },
    /// A call has no output before the next message that is not one.
    #[error("message {message}: call `{call}` has no output")]
    NoOutput {
        /// The message that made the call, from 0.
        message: usize,
        /// The call's id.
        call: String,
    },
    /// A call has two outputs, or an output has no call.
    #[error("message {message}: the output for `{call}` answers no open call")]
    StrayOutput {
        /// The output's message, from 0.
        message: usize,
        /// The id it names.
        call: String,
    },
    /// Two calls of one message have the same id.
    #[error("message {message}: two calls have the id `{call}`")]
    SameId {
        /// The message that made the calls, from 0.
        message: usize,
        /// The id.
        call: String,
    },
    /// An output is too long.
    #[error("message {message}: the output has {characters} characters, over {limit}")]
    LongOutput {
        /// The output's message, from 0.
        message: usize,
        /// How long it is.
        characters: usize,
        /// How long it may be.
        limit: usize,
    },
    /// Two tools stand the wrong way round.
    #[error("tool `{tool}` stands after `{before}`; the order is {}", KNOWN.join(", "))]
    ToolOrder {
        /// The tool that comes too late.
        tool: String,
        /// The one it should precede.
        before: String,
    },
    /// A tool's name holds what no name can.
    #[error("`{name}` is no name for a tool")]
    Name {
        /// The name.
        name: String,
    },
    /// A message is not as its API takes it.
    #[error("message {message}: {reason}")]
    Refused {
        /// The message, from 0.
        message: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There are more cache marks than the API takes.
    #[error("{count} cache marks are too many")]
    Marks {
        /// How many there are.
        count: usize,
    },
    /// A fork's first body does not start with one of its parent's.
    #[error("the fork does not go on from any request of `{parent}`")]
    Forked {
        /// The unit it was forked from.
        parent: String,
    },
    /// A body does not start with the one before.
    #[error("byte {at} differs from the request before: `{earlier}` became `{later}`")]
    Parted {
        /// The first differing byte, from 0.
        at: usize,
        /// What stood around there.
        earlier: String,
        /// What stands there now.
        later: String,
    },
}

/// Checks one request by itself.
///
/// # Errors
///
/// The first thing that is wrong with it.
pub fn check(body: &[u8]) -> Result<(), Violation> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| Violation::Unreadable { reason: error.to_string() })?;
    check_order(body.tools.iter().map(|tool| tool.function.name.as_str()))?;
    check_messages(&body.messages)
}

/// Checks that `later` goes on where `earlier` ended: it starts with the same
/// bytes, less the `]}` that closes them. Cache marks, which move from request
/// to request, are not counted among those bytes.
///
/// # Errors
///
/// The place where the two part.
pub fn check_continues(earlier: &[u8], later: &[u8]) -> Result<(), Violation> {
    // Most bodies have no marks, and looking for them takes time.
    continues(earlier, later).or_else(|_| continues(&unmarked(earlier), &unmarked(later)))
}

fn continues(earlier: &[u8], later: &[u8]) -> Result<(), Violation> {
    let stem = stem(earlier);
    let same = stem.iter().zip(later).take_while(|(earlier, later)| earlier == later).count();
    // After the stem a further message begins, or the body ends as it did.
    let goes_on = matches!(later.get(stem.len()), Some(b',' | b']'))
        || stem.last() == Some(&b'[') && later.get(stem.len()) == Some(&b'{');
    if same == stem.len() && goes_on {
        return Ok(());
    }
    Err(Violation::Parted { at: same, earlier: around(earlier, same), later: around(later, same) })
}

/// Returns a body without its closing `]}`: what a later body starts with.
#[must_use]
pub fn stem(body: &[u8]) -> &[u8] {
    body.strip_suffix(b"]}").unwrap_or(body)
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    tools: Vec<Tool>,
    messages: Vec<Message>,
}

#[derive(Deserialize)]
struct Tool {
    function: Named,
}

#[derive(Default, Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Vec<Call>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    #[serde(default)]
    function: Named,
}

/// A call without its output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    message: usize,
    output_limit: usize,
}

impl Open {
    /// A call of this tool, made by this message.
    fn by(message: usize, tool: &str) -> Self {
        let is_long = LONG_OUTPUTS.contains(&tool);
        Self { message, output_limit: if is_long { LONG_OUTPUT_LIMIT } else { OUTPUT_LIMIT } }
    }
}

fn check_order<'a>(tools: impl Iterator<Item = &'a str>) -> Result<(), Violation> {
    let rank = |tool| KNOWN.iter().position(|name| *name == tool);
    let known: Vec<_> = tools.filter_map(|tool| Some((rank(tool)?, tool))).collect();
    for pair in known.windows(2) {
        let [(before, first), (after, second)] = pair else { continue };
        if before >= after {
            let (tool, before) = ((*second).to_owned(), (*first).to_owned());
            return Err(Violation::ToolOrder { tool, before });
        }
    }
    Ok(())
}

fn check_messages(messages: &[Message]) -> Result<(), Violation> {
    let mut open: HashMap<&str, Open> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        if message.role == "tool" {
            let call = message.tool_call_id.as_deref().unwrap_or_default();
            let Some(Open { message: _, output_limit: limit }) = open.remove(call) else {
                return Err(Violation::StrayOutput { message: index, call: call.to_owned() });
            };
            let characters = message.content.as_str().unwrap_or_default().chars().count();
            if characters > limit {
                return Err(Violation::LongOutput { message: index, characters, limit });
            }
            continue;
        }
        check_answered(&open)?;
        for call in &message.tool_calls {
            let new = Open::by(index, &call.function.name);
            if open.insert(&call.id, new).is_some() {
                return Err(Violation::SameId { message: index, call: call.id.clone() });
            }
        }
    }
    check_answered(&open)
}

fn check_answered(open: &HashMap<&str, Open>) -> Result<(), Violation> {
    // The smallest id, so that the same body always gives the same words.
    match open.iter().min() {
        Some((call, &Open { message, .. })) => {
            Err(Violation::NoOutput { message, call: (*call).to_owned() })
        }
        None => Ok(()),
    }
}

fn around(body: &[u8], at: usize) -> String {
    let start = at.saturating_sub(CONTEXT).min(body.len());
    let end = (at + CONTEXT).min(body.len());
    String::from_utf8_lossy(&body[start..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calls(ids: &[&str]) -> Value {
        let calls: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
        json!({ "role": "assistant", "content": null, "tool_calls": calls })
    }

    fn output(id: &str) -> Value {
        json!({ "role": "tool", "tool_call_id": id, "content": "ok" })
    }

    fn user() -> Value {
        json!({ "role": "user", "content": "go" })
    }

    #[track_caller]
    fn check_conversation(messages: &[Value], expected: Result<(), Violation>) {
        let body = json!({ "messages": messages }).to_string();
        assert_eq!(check(body.as_bytes()), expected);
    }

    #[track_caller]
    fn check_order(names: &[&str], expected: Result<(), Violation>) {
        let tools: Vec<_> =
            names.iter().map(|name| json!({ "function": { "name": name } })).collect();
        let body = json!({ "tools": tools, "messages": [] }).to_string();
        assert_eq!(check(body.as_bytes()), expected);
    }

    #[test]
    fn every_call_with_one_output_passes_in_any_order() {
        check_conversation(
            &[user(), calls(&["a", "b"]), output("b"), output("a"), calls(&["a"]), output("a")],
            Ok(()),
        );
    }

    #[test]
    fn a_call_without_an_output_is_named() {
        let missing = Violation::NoOutput { message: 0, call: "b".into() };
        check_conversation(&[calls(&["a", "b"]), output("a")], Err(missing.clone()));
        check_conversation(&[calls(&["a", "b"]), output("a"), user(), output("b")], Err(missing));
    }

    #[test]
    fn an_output_without_a_call_is_named() {
        let stray = |message| Err(Violation::StrayOutput { message, call: "a".into() });
        check_conversation(&[user(), output("a")], stray(1));
        check_conversation(&[calls(&["a"]), output("a"), output("a")], stray(2));
    }

    #[test]
    fn two_calls_with_one_id_are_refused() {
        let same = Violation::SameId { message: 0, call: "a".into() };
        check_conversation(&[calls(&["a", "a"]), output("a")], Err(same));
    }

    #[test]
    fn an_output_may_be_as_long_as_the_limit_and_no_longer() {
        let long = |characters| json!({ "role": "tool", "tool_call_id": "a", "content": "ä".repeat(characters) });
        check_conversation(&[calls(&["a"]), long(OUTPUT_LIMIT)], Ok(()));
        let violation =
            Violation::LongOutput { message: 1, characters: OUTPUT_LIMIT + 1, limit: OUTPUT_LIMIT };
        check_conversation(&[calls(&["a"]), long(OUTPUT_LIMIT + 1)], Err(violation));
    }

    #[test]
    fn tools_stand_in_the_order_of_the_registry() {
        check_order(&KNOWN, Ok(()));
        check_order(&["Read", "mcp__x__Agent", "Grep"], Ok(()));
        let order = |tool: &str, before: &str| {
            Err(Violation::ToolOrder { tool: tool.into(), before: before.into() })
        };
        check_order(&["Read", "Agent", "Bash"], order("Bash", "Agent"));
        check_order(&["Read", "Read"], order("Read", "Read"));
    }

    #[test]
    fn what_is_no_body_is_refused() {
        assert!(matches!(check(b"{}"), Err(Violation::Unreadable { reason: _ })));
    }

    #[test]
    fn a_body_goes_on_where_the_one_before_ended() {
        let goes_on =
            |earlier: &str, later: &str| check_continues(earlier.as_bytes(), later.as_bytes());
        assert_eq!(goes_on(r#"{"m":[1]}"#, r#"{"m":[1,2]}"#), Ok(()));
        assert_eq!(goes_on(r#"{"m":[1]}"#, r#"{"m":[1]}"#), Ok(()));
        assert_eq!(goes_on(r#"{"m":[]}"#, r#"{"m":[{}]}"#), Ok(()));
        let parted = |at, earlier: &str, later: &str| {
            Err(Violation::Parted { at, earlier: earlier.into(), later: later.into() })
        };
        let (one, other) = (r#"{"m":[1]}"#, r#"{"m":[3,2]}"#);
        assert_eq!(goes_on(one, other), parted(6, one, other));
        assert_eq!(goes_on(one, r#"{"m":["#), parted(6, one, r#"{"m":["#));
        let marked = r#"{"m":[{"a":1,"cache_control":{"type":"ephemeral"}}]}"#;
        assert_eq!(goes_on(marked, r#"{"m":[{"a":1},2]}"#), Ok(()));
        assert_eq!(goes_on(one, r#"{"m":[12]}"#), parted(7, one, r#"{"m":[12]}"#));
    }
}
