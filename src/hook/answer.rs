//! Reads one JSON object that a hook answers.
//!
//! A denial counts in any wording and at any place of the object: older and newer
//! forms, other harnesses' names, other cases. Permission counts only in its
//! documented words. An answer that cannot be understood is reported as `trouble`;
//! the caller decides what follows.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{HookDecision, HookEvent};

/// Maximum nesting below an answer that is searched for a denial.
const DEPTH_CAP: u32 = 4;

/// Keys whose value is a decision.
const DECISIONS: [&str; 4] = ["permissionDecision", "decision", "behavior", "permission"];

/// Keys that deny if they are true, and keys that deny if they are false.
const DENY_IF_TRUE: [&str; 6] = ["block", "blocked", "deny", "denied", "reject", "rejected"];
const DENY_IF_FALSE: [&str; 4] = ["allow", "allowed", "approve", "approved"];

/// Keys of a hook's input, which it may print again. The model wrote their values.
const ECHOED: [&str; 5] =
    ["toolInput", "toolResponse", "updatedInput", "updatedToolOutput", "updatedMCPToolOutput"];

/// Keys of a decision's object whose value is free text.
const TEXTS: [&str; 8] = [
    "reason",
    "permissionDecisionReason",
    "message",
    "systemMessage",
    "userMessage",
    "agentMessage",
    "stopReason",
    "additionalContext",
];

/// One answer of a hook.
#[derive(Debug, Default, PartialEq)]
pub(super) struct HookAnswer {
    pub(super) decision: Option<HookDecision>,
    /// The reason to end the agent, if the hook ends it.
    pub(super) stop: Option<Arc<str>>,
    pub(super) reason: Arc<str>,
    /// The call's new arguments.
    pub(super) input: Option<Value>,
    /// The call's new output.
    pub(super) output: Option<Value>,
    pub(super) context: Arc<str>,
    pub(super) message: Arc<str>,
    /// The part of the answer that decides and cannot be understood.
    pub(super) trouble: Option<String>,
}

/// A decision in words.
enum DecisionWord {
    Says(HookDecision),
    /// No decision.
    Nothing,
    Unknown(String),
}

impl HookAnswer {
    /// Reads the answer of a hook that was asked at this moment.
    pub(super) fn read(event: HookEvent, top: &Map<String, Value>) -> Self {
        let mut trouble = None;
        let specific = read_specific(top).unwrap_or_else(|why| {
            trouble = Some(why);
            Map::new()
        });
        if let Some(name) = get(&specific, "hookEventName").map(to_text)
            && normalize(&name) != normalize(event.as_str())
        {
            trouble = Some(format!("answered for `{name}`, but the event is {}", event.as_str()));
        }
        let nested = |fields: &Map<String, Value>| {
            get(fields, "decision").and_then(Value::as_object).cloned().unwrap_or_default()
        };
        // The newer form first; of a permission, what it holds.
        let places = [nested(&specific), nested(top), specific, top.clone()];
        let find = |names: &[&str]| {
            let mut of_place =
                names.iter().flat_map(|name| places.iter().map(move |it| (it, name)));
            of_place.find_map(|(fields, name)| get(fields, name)).cloned()
        };
        let find_text = |names: &[&str]| -> Arc<str> {
            find(names).map(|value| to_text(&value)).unwrap_or_default().trim().into()
        };
        let below = objects_below(top, 0).into_iter().chain(objects_below(&places[2], 0));
        let (decision, unknown) = harshest_decision(places.iter().chain(below));
        let reason = find_text(&["permissionDecisionReason", "message", "reason"]);
        let stop = match read_continue(find(&["continue"]).as_ref()) {
            Ok(true) => is_true(find(&["interrupt"]).as_ref()).then(|| Arc::clone(&reason)),
            Ok(false) => Some(find_text(&["stopReason", "reason"])),
            Err(why) => {
                trouble = trouble.or(Some(why));
                None
            }
        };
        let input = find(&["updatedInput"]);
        if input.as_ref().is_some_and(|input| !input.is_object()) {
            trouble = trouble
                .or(Some("answered with an `updatedInput` that is not an object".to_owned()));
        }
        let is_after = event == HookEvent::PostToolUse;
        let allowed = || grants(event, top).then_some(HookDecision::Allow);
        Self {
            decision: decision.or_else(allowed),
            stop,
            reason,
            input: input.filter(Value::is_object),
            output: find(&["updatedToolOutput", "updatedMCPToolOutput"]).filter(|_| is_after),
            context: find_text(&["additionalContext"]),
            message: find_text(&["systemMessage"]),
            trouble: trouble.or(unknown),
        }
    }

    /// Returns whether the answer denies or ends anything.
    pub(super) fn restricts(&self) -> bool {
        self.stop.is_some() || self.decision == Some(HookDecision::Deny)
    }
}

/// Returns the `hookSpecificOutput` of an answer.
fn read_specific(top: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    match get(top, "hookSpecificOutput") {
        None => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields.clone()),
        // Some programs encode twice.
        Some(Value::String(json)) if serde_json::from_str::<Map<_, _>>(json).is_ok() => {
            Ok(serde_json::from_str(json).expect("it was read just now"))
        }
        Some(Value::Array(items)) => match &items[..] {
            [Value::Object(fields)] => Ok(fields.clone()),
            _ => Err("answered with a `hookSpecificOutput` that is not an object".to_owned()),
        },
        Some(_) => Err("answered with a `hookSpecificOutput` that is not an object".to_owned()),
    }
}

/// Returns whether an answer grants permission in a documented form.
fn grants(event: HookEvent, top: &Map<String, Value>) -> bool {
    let specific = top.get("hookSpecificOutput");
    let in_specific = |name: &str| specific.and_then(|fields| fields.get(name));
    let permitted = in_specific("decision").and_then(|decision| decision.get("behavior"));
    let permitted = permitted.filter(|_| event == HookEvent::PermissionRequest);
    let words = [permitted, in_specific("permissionDecision"), top.get("decision")];
    let is_grant = |value: &Value| matches!(value.as_str(), Some("allow" | "approve"));
    words.into_iter().flatten().any(is_grant)
}

/// Returns the harshest decision but permission, and the last word that cannot be
/// understood.
fn harshest_decision<'a>(
    places: impl Iterator<Item = &'a Map<String, Value>>,
) -> (Option<HookDecision>, Option<String>) {
    let (mut decision, mut unknown) = (None, None);
    let harshness = |decision: HookDecision| match decision {
        HookDecision::Allow | HookDecision::Ask => 1,
        HookDecision::Deny | HookDecision::Stop => 2,
    };
    for fields in places {
        let flag = |name: &&str, denies: bool| get(fields, name) == Some(&Value::Bool(denies));
        if DENY_IF_TRUE.iter().any(|name| flag(name, true))
            || DENY_IF_FALSE.iter().any(|name| flag(name, false))
        {
            decision = Some(HookDecision::Deny);
        }
        for key in DECISIONS {
            match get(fields, key).map(read_word) {
                Some(DecisionWord::Says(says))
                    if decision.is_none_or(|before| harshness(before) < harshness(says)) =>
                {
                    decision = Some(says);
                }
                Some(DecisionWord::Says(_) | DecisionWord::Nothing) | None => {}
                // Other programs use this key for something else.
                Some(DecisionWord::Unknown(_)) if key == "permission" => {}
                Some(DecisionWord::Unknown(word)) => {
                    unknown = Some(format!(
                        "answered with the unknown `{key}` {word} (expected `allow`, `deny` or `ask`)"
                    ));
                }
            }
        }
    }
    (decision, unknown)
}

/// Reads a decision.
fn read_word(value: &Value) -> DecisionWord {
    let written = match value {
        Value::String(written) => written,
        Value::Bool(false) => return DecisionWord::Says(HookDecision::Deny),
        Value::Object(fields) => return read_object(fields, 0),
        Value::Null | Value::Bool(true) | Value::Number(_) | Value::Array(_) => {
            return DecisionWord::Unknown(format!("`{value}`"));
        }
    };
    match &*normalize(written) {
        "ask" | "defer" | "confirm" => DecisionWord::Says(HookDecision::Ask),
        // Permission is read to the letter, elsewhere.
        "allow" | "approve" => DecisionWord::Nothing,
        "" | "none" | "null" | "undefined" | "passthrough" => DecisionWord::Nothing,
        word if denies(word) => DecisionWord::Says(HookDecision::Deny),
        _ => DecisionWord::Unknown(format!("`{}`", written.chars().take(40).collect::<String>())),
    }
}

fn denies(word: &str) -> bool {
    matches!(
        word,
        "deny"
            | "denied"
            | "block"
            | "blocked"
            | "reject"
            | "rejected"
            | "refuse"
            | "refused"
            | "forbid"
            | "forbidden"
            | "disallow"
            | "no"
            | "stop"
            | "abort"
            | "cancel"
            | "false"
    )
}

/// Reads a decision that is written as an object, such as `{"action": "block"}`.
fn read_object(fields: &Map<String, Value>, depth: u32) -> DecisionWord {
    let (mut found, mut unknown) = (None, None);
    for (key, value) in fields {
        let is = |names: &[&str]| names.iter().any(|name| normalize(name) == normalize(key));
        let flag = |denies: bool| {
            if denies { DecisionWord::Says(HookDecision::Deny) } else { DecisionWord::Nothing }
        };
        let word = match value {
            Value::Bool(value) if is(&DENY_IF_TRUE) => flag(*value),
            Value::Bool(value) if is(&DENY_IF_FALSE) => flag(!*value),
            Value::String(_) if !is(&TEXTS) => read_word(value),
            Value::Object(fields) if depth < DEPTH_CAP && !is(&ECHOED) => {
                read_object(fields, depth + 1)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => continue,
        };
        match word {
            DecisionWord::Says(HookDecision::Deny) => return word,
            DecisionWord::Says(_) => found = Some(word),
            DecisionWord::Nothing => found = found.or(Some(word)),
            DecisionWord::Unknown(_) if is(&DECISIONS) => unknown = Some(word),
            DecisionWord::Unknown(_) => {}
        }
    }
    let unread = || {
        let text = Value::Object(fields.clone()).to_string();
        DecisionWord::Unknown(format!("`{}`", text.chars().take(40).collect::<String>()))
    };
    unknown.or(found).unwrap_or_else(unread)
}

/// Returns the objects that are nested in an answer, but none that repeats the hook's
/// input.
fn objects_below(fields: &Map<String, Value>, depth: u32) -> Vec<&Map<String, Value>> {
    let is_echoed = |key: &str| ECHOED.iter().any(|echoed| normalize(echoed) == normalize(key));
    let mut found = Vec::new();
    for (_, value) in fields.iter().filter(|(key, _)| depth < DEPTH_CAP && !is_echoed(key)) {
        let nested = match value {
            Value::Object(fields) => vec![fields],
            Value::Array(items) => items.iter().filter_map(Value::as_object).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        for fields in nested {
            found.push(fields);
            found.extend(objects_below(fields, depth + 1));
        }
    }
    found
}

fn read_continue(value: Option<&Value>) -> Result<bool, String> {
    let unknown = |value: &Value| format!("answered with the unknown `continue` `{value}`");
    match value {
        None => Ok(true),
        Some(Value::Bool(goes_on)) => Ok(*goes_on),
        Some(Value::Number(number)) if number.as_i64() == Some(0) => Ok(false),
        Some(Value::Number(number)) if number.as_i64() == Some(1) => Ok(true),
        Some(value @ Value::String(word)) => match &*normalize(word) {
            "false" | "no" | "0" => Ok(false),
            "" | "true" | "yes" | "1" => Ok(true),
            _ => Err(unknown(value)),
        },
        Some(value) => Err(unknown(value)),
    }
}

fn is_true(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Bool(truth)) => *truth,
        Some(Value::String(word)) => normalize(word) == "true",
        Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => false,
    }
}

/// Returns a field by its name in any case, with or without `_`; `None` if it is null.
fn get<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let is_it = |key: &&String| normalize(key) == normalize(name);
    let exact = fields.get(name);
    let other = || fields.keys().find(is_it).and_then(|key| fields.get(key));
    exact.or_else(other).filter(|value| !value.is_null())
}

/// Returns the letters and digits of a word in lower case.
fn normalize(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns a value as text.
fn to_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(to_text).collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: &Value) -> HookAnswer {
        HookAnswer::read(HookEvent::PreToolUse, json.as_object().unwrap())
    }

    #[test]
    fn a_denial_counts_in_any_words_and_any_place() {
        for json in [
            json!({"decision": "block"}),
            json!({"decision": "Deny"}),
            json!({"decision": " REJECT "}),
            json!({"decision": "blocked", "reason": 5, "systemMessage": []}),
            json!({"decision": false}),
            json!({"permissionDecision": "deny"}),
            json!({"permission_decision": "deny"}),
            json!({"PermissionDecision": "DENY"}),
            json!({"permission": "deny", "userMessage": "x"}),
            json!({"behavior": "deny"}),
            json!({"decision": {"behavior": "deny"}}),
            json!({"blocked": true}),
            json!({"approved": false}),
            json!({"hookSpecificOutput": {"permissionDecision": "deny", "extra": {"a": 1}}}),
            json!({"hook_specific_output": {"permission_decision": "deny"}}),
            json!({"hookSpecificOutput": {"decision": "deny"}}),
            json!({"hookSpecificOutput": [{"permissionDecision": "deny"}]}),
            json!({"hookSpecificOutput": "{\"permissionDecision\": \"deny\"}"}),
            json!({"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "deny"}}),
            json!({"hookSpecificOutput": {"PreToolUse": {"permissionDecision": "deny"}}}),
            json!({"result": {"decision": "block"}}),
            json!({"decision": {"action": "block"}}),
            json!({"decision": {"type": "allow", "behavior": "Denied"}}),
            json!({"permissionDecision": {"value": "deny", "reason": "ok"}}),
            json!({"permissionDecision": {"result": {"value": "reject"}}}),
            json!({"permissionDecision": {"allowed": false}}),
            json!({"permission": {"verdict": "deny"}}),
            json!({"hookSpecificOutput": {"permissionDecision": {"blocked": true}}}),
            json!({"result": {"blocked": true}}),
            json!({"result": {"approved": false}}),
            json!({"results": [{"approved": true}, {"output": {"deny": true}}]}),
            json!({"hookSpecificOutput": "{\"x\": {\"blocked\": true}}"}),
            json!({"decision": "ask", "result": {"decision": "deny"}}),
            json!({"decision": "approve", "permissionDecision": "deny"}),
            json!({"decision": "deny", "hookSpecificOutput": {"permissionDecision": "allow"}}),
            json!({"decision": "deny", "continue": "maybe"}),
        ] {
            assert_eq!(read(&json).decision, Some(HookDecision::Deny), "{json}");
        }
    }

    #[test]
    fn what_decides_and_cannot_be_understood_is_named() {
        for json in [
            json!({"decision": "perhaps"}),
            json!({"decision": "approved"}),
            json!({"decision": 1}),
            json!({"decision": true}),
            json!({"permissionDecision": ["deny"]}),
            json!({"hookSpecificOutput": 7}),
            json!({"hookSpecificOutput": {"hookEventName": "Stop"}}),
            json!({"hookSpecificOutput": {"permissionDecision": "alow"}}),
            json!({"decision": {}}),
            json!({"decision": {"action": "perhaps"}}),
            json!({"decision": {"behavior": "alow", "scope": "allow"}}),
            json!({"permissionDecision": {"value": 1, "reason": "no"}}),
            json!({"hookSpecificOutput": {"PreToolUse": {"permissionDecision": "denyy"}}}),
            json!({"result": {"decision": "perhaps"}}),
            json!({"continue": "perhaps"}),
            json!({"hookSpecificOutput": {"updatedInput": []}}),
        ] {
            let answer = read(&json);
            assert!(answer.trouble.is_some() && !answer.restricts(), "{json}: {answer:?}");
        }
    }

    #[test]
    fn permission_is_read_to_the_letter() {
        for (json, expected) in [
            (json!({"decision": "approve"}), Some(HookDecision::Allow)),
            (
                json!({"hookSpecificOutput": {"permissionDecision": "allow"}}),
                Some(HookDecision::Allow),
            ),
            (json!({"decision": "Allow"}), None),
            (json!({"permissionDecision": "allow"}), None),
            (json!({"permission": "allow"}), None),
            (json!({"behavior": "allow"}), None),
            (json!({"hookSpecificOutput": {"decision": {"behavior": "allow"}}}), None),
            (json!({"result": {"decision": "allow"}}), None),
            (json!({"decision": "approve", "permissionDecision": "ask"}), Some(HookDecision::Ask)),
        ] {
            assert_eq!(read(&json).decision, expected, "{json}");
        }
    }

    #[test]
    fn what_decides_nothing_is_passed_over() {
        for json in [
            json!({}),
            json!({"decision": null, "reason": null}),
            json!({"decision": "", "continue": true}),
            json!({"suppressOutput": true, "async": true, "level": "info", "ok": false}),
            json!({"decision": {"behavior": "allow", "message": "no"}}),
            json!({"decision": {"allow": true, "scope": "session"}}),
            json!({"permission": {"path": "a"}, "result": {"blocked": false}}),
            json!({"tool_name": "Write", "tool_input": {"decision": "deny", "behavior": "block"}}),
            json!({"hookSpecificOutput": {"hookEventName": "pretooluse"}}),
        ] {
            let answer = read(&json);
            assert_eq!(
                (answer.decision, answer.stop, answer.trouble),
                (None, None, None),
                "{json}"
            );
        }
    }

    #[test]
    fn texts_of_other_types_are_read_as_they_are_written() {
        let answer = read(&json!({"decision": "block", "reason": ["a", "b"], "systemMessage": 5}));
        assert_eq!((&*answer.reason, &*answer.message), ("a\nb", "5"));
        let stopped = read(&json!({"continue": "false", "stopReason": {"a": 1}}));
        assert_eq!(stopped.stop.as_deref(), Some("{\"a\":1}"));
    }
}
