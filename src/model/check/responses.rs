//! What must hold for every Responses request, checked on its bytes.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Named, Open, Violation, check_answered, check_order};

/// Checks one request by itself. Violations number the items of the input.
///
/// # Errors
///
/// The first thing that is wrong with it.
pub fn check(body: &[u8]) -> Result<(), Violation> {
    let body: Body = serde_json::from_slice(body)
        .map_err(|error| Violation::Unreadable { reason: error.to_string() })?;
    check_order(body.tools.iter().map(|tool| tool.name.as_str()))?;
    check_input(&body.input)
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    tools: Vec<Named>,
    input: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message { role: Role },
    Reasoning,
    FunctionCall { call_id: String, name: String },
    FunctionCallOutput { call_id: String, output: Value },
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

/// Where in a conversation an item stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// In an answer, whose last item is reasoning or not.
    Answer { is_reasoning: bool },
    /// Behind one.
    Outputs,
}

fn check_input(input: &[Item]) -> Result<(), Violation> {
    let mut open: HashMap<&str, Open> = HashMap::new();
    let mut at = At::Outputs;
    for (index, item) in input.iter().enumerate() {
        let is_answers =
            !matches!(item, Item::Message { role: Role::User } | Item::FunctionCallOutput { .. });
        match at {
            At::Answer { is_reasoning: true } if !is_answers => {
                return Err(lone(index - 1));
            }
            // An answer begins.
            At::Outputs if is_answers => check_answered(&open)?,
            At::Answer { is_reasoning: _ } | At::Outputs => {}
        }
        at = match item {
            Item::Message { role: Role::User } => {
                check_answered(&open)?;
                At::Outputs
            }
            Item::Message { role: Role::Assistant } => At::Answer { is_reasoning: false },
            Item::Reasoning => At::Answer { is_reasoning: true },
            Item::FunctionCall { call_id, name } => {
                if open.insert(call_id, Open::by(index, name)).is_some() {
                    return Err(Violation::SameId { message: index, call: call_id.clone() });
                }
                At::Answer { is_reasoning: false }
            }
            Item::FunctionCallOutput { call_id, output } => {
                let Some(Open { message: _, output_limit: limit }) = open.remove(&**call_id) else {
                    return Err(Violation::StrayOutput { message: index, call: call_id.clone() });
                };
                let characters = characters(output);
                if characters > limit {
                    return Err(Violation::LongOutput { message: index, characters, limit });
                }
                At::Outputs
            }
        };
    }
    if at == (At::Answer { is_reasoning: true }) {
        return Err(lone(input.len() - 1));
    }
    check_answered(&open)
}

/// OpenAI refuses reasoning with nothing of its answer behind it.
fn lone(message: usize) -> Violation {
    Violation::Refused { message, reason: "no item of its answer follows the reasoning" }
}

/// Returns the length of an output's text, be it in parts.
fn characters(output: &Value) -> usize {
    let parts = output.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    output.as_str().into_iter().chain(parts).map(|text| text.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::check::OUTPUT_LIMIT;
    use crate::tool_name::KNOWN;

    fn message(role: &str) -> Value {
        json!({ "type": "message", "role": role, "content": "go" })
    }

    fn reasoning() -> Value {
        json!({ "type": "reasoning", "summary": [] })
    }

    fn call(id: &str) -> Value {
        json!({ "type": "function_call", "call_id": id, "name": "Read", "arguments": "{}" })
    }

    fn output(id: &str, output: Value) -> Value {
        json!({ "type": "function_call_output", "call_id": id, "output": output })
    }

    fn ok(id: &str) -> Value {
        output(id, json!("ok"))
    }

    #[track_caller]
    fn check_conversation(input: &[Value], expected: Result<(), Violation>) {
        let body = json!({ "input": input }).to_string();
        assert_eq!(super::check(body.as_bytes()), expected);
    }

    #[test]
    fn every_call_with_one_output_passes_in_any_order() {
        let (user, said) = (message("user"), message("assistant"));
        let first = [user.clone(), reasoning(), said.clone(), call("a"), reasoning(), call("b")];
        let second = [ok("b"), ok("a"), said.clone(), said, user];
        check_conversation(&[&first[..], &second[..]].concat(), Ok(()));
    }

    #[test]
    fn a_call_without_an_output_is_named() {
        let missing = || Err(Violation::NoOutput { message: 1, call: "b".into() });
        check_conversation(&[call("a"), call("b"), ok("a")], missing());
        check_conversation(&[call("a"), call("b"), ok("a"), message("user"), ok("b")], missing());
        check_conversation(
            &[call("a"), call("b"), ok("a"), message("assistant"), ok("b")],
            missing(),
        );
        check_conversation(
            &[call("a"), call("b"), ok("a"), call("c"), ok("b"), ok("c")],
            missing(),
        );
    }

    #[test]
    fn an_output_without_a_call_and_a_call_with_a_taken_id_are_named() {
        let stray = |message| Err(Violation::StrayOutput { message, call: "a".into() });
        check_conversation(&[message("user"), ok("a")], stray(1));
        check_conversation(&[call("a"), ok("a"), ok("a")], stray(2));
        let same = Violation::SameId { message: 1, call: "a".into() };
        check_conversation(&[call("a"), call("a"), ok("a")], Err(same));
    }

    #[test]
    fn reasoning_without_an_item_of_its_answer_behind_it_is_refused() {
        let lone = |message| Err(lone(message));
        check_conversation(&[message("user"), reasoning()], lone(1));
        check_conversation(&[message("user"), reasoning(), message("user")], lone(1));
        check_conversation(&[call("a"), reasoning(), ok("a")], lone(1));
    }

    #[test]
    fn an_output_may_be_as_long_as_the_limit_and_no_longer() {
        let long = |characters| json!("ä".repeat(characters));
        let violation =
            Violation::LongOutput { message: 1, characters: OUTPUT_LIMIT + 1, limit: OUTPUT_LIMIT };
        check_conversation(&[call("a"), output("a", long(OUTPUT_LIMIT))], Ok(()));
        check_conversation(
            &[call("a"), output("a", long(OUTPUT_LIMIT + 1))],
            Err(violation.clone()),
        );
        let text = |text: Value| json!({ "type": "input_text", "text": text });
        let image = json!({ "type": "input_image", "image_url": "data:" });
        let parts = json!([text(long(OUTPUT_LIMIT)), image, text(json!("ö"))]);
        check_conversation(&[call("a"), output("a", parts)], Err(violation));
    }

    #[test]
    fn tools_stand_in_the_order_of_the_registry() {
        let tools: Vec<_> = KNOWN.iter().rev().map(|name| json!({ "name": name })).collect();
        let body = json!({ "tools": tools, "input": [] }).to_string();
        let violation = super::check(body.as_bytes()).unwrap_err();
        assert!(matches!(violation, Violation::ToolOrder { .. }), "{violation}");
    }

    #[test]
    fn what_is_no_body_is_refused() {
        for body in [&b"{}"[..], br#"{"messages":[]}"#, br#"{"input":[{"type":"other"}]}"#] {
            assert!(matches!(super::check(body), Err(Violation::Unreadable { reason: _ })));
        }
    }
}
