//! Reads one JSON object that a hook answers.
//!
//! A denial counts in any wording and at any place of the object: older and newer
//! forms, other harnesses' names, other cases. Permission counts only in its
//! documented words. An answer that cannot be understood is reported as `trouble`;
//! the caller decides what follows.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::repeated::KeptValue;
use crate::event::{HookDecision, HookEvent};
use crate::slips;

/// Maximum nesting below an answer that is searched for a denial.
const DEPTH_CAP: u32 = 4;

/// Keys whose value is a decision.
const DECISIONS: [&str; 4] = ["permissionDecision", "decision", "behavior", "permission"];

/// Keys that deny if they are true, and keys that deny if they are false.
const DENY_IF_TRUE: [&str; 12] = [
    "block",
    "blocked",
    "deny",
    "denied",
    "reject",
    "rejected",
    "cancel",
    "cancelled",
    "refuse",
    "refused",
    "forbid",
    "forbidden",
];
const DENY_IF_FALSE: [&str; 8] =
    ["allow", "allowed", "approve", "approved", "permit", "permitted", "accept", "accepted"];

/// Keys that only deny. Other programs use them for much else, so other words say nothing.
const VERDICTS: [&str; 5] = ["action", "verdict", "outcome", "result", "status"];

/// Minimum length of a word that another one may be a misspelling of.
const MISSPELT_MIN: usize = 4;

/// Maximum characters of a word that is compared with others.
const WORD_CAP: usize = 20;

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

/// Words that deny.
const DENYING: [&str; 18] = [
    "deny",
    "denied",
    "block",
    "blocked",
    "reject",
    "rejected",
    "refuse",
    "refused",
    "forbid",
    "forbidden",
    "disallow",
    "no",
    "stop",
    "abort",
    "cancel",
    "cancelled",
    "canceled",
    "false",
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
        let (specifics, mut trouble) = read_specific(top);
        for name in specifics.iter().flat_map(|it| spellings(it, "hookEventName")).map(to_text) {
            if normalize(&name) != normalize(event.as_str()) {
                trouble =
                    Some(format!("answered for `{name}`, but the event is {}", event.as_str()));
            }
        }
        let nested = |fields: &Map<String, Value>| {
            get(fields, "decision").and_then(Value::as_object).cloned().unwrap_or_default()
        };
        // The newer form first; of a permission, what it holds.
        let mut places: Vec<Map<String, Value>> = specifics.iter().map(nested).collect();
        places.push(nested(top));
        places.extend(specifics.iter().cloned());
        places.push(top.clone());
        let find = |names: &[&str]| {
            let mut of_place =
                names.iter().flat_map(|name| places.iter().map(move |it| (it, name)));
            of_place.find_map(|(fields, name)| get(fields, name)).cloned()
        };
        let find_text = |names: &[&str]| -> Arc<str> {
            find(names).map(|value| to_text(&value)).unwrap_or_default().trim().into()
        };
        let below = specifics.iter().chain([top]).flat_map(|fields| objects_below(fields, 0));
        let below = below.map(|fields| (fields, Depth::Below));
        let (decision, unknown) =
            harshest_decision(places.iter().map(|fields| (fields, Depth::Place)).chain(below));
        let reason = find_text(&["permissionDecisionReason", "message", "reason", "errorMessage"]);
        let goes_on = places.iter().flat_map(|fields| spellings(fields, "continue"));
        let stop = match read_continue(goes_on) {
            Ok(true) => is_true(find(&["interrupt"]).as_ref()).then(|| Arc::clone(&reason)),
            Ok(false) => Some(find_text(&["stopReason", "reason"])),
            Err(why) => {
                trouble = trouble.or(Some(why));
                None
            }
        };
        let input = find(&["updatedInput"]);
        let mut inputs = places.iter().flat_map(|fields| spellings(fields, "updatedInput"));
        if input.as_ref().is_some_and(|input| !input.is_object()) {
            trouble = trouble
                .or(Some("answered with an `updatedInput` that is not an object".to_owned()));
        } else if inputs.any(|other| Some(other) != input.as_ref()) {
            trouble =
                trouble.or(Some("answered with two different values of `updatedInput`".to_owned()));
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

/// Returns each `hookSpecificOutput` of an answer, and what is wrong with the last bad one.
fn read_specific(top: &Map<String, Value>) -> (Vec<Map<String, Value>>, Option<String>) {
    let (mut found, mut trouble) = (Vec::new(), None);
    for value in spellings(top, "hookSpecificOutput") {
        // Some programs encode twice.
        let decoded = value.as_str().and_then(|json| serde_json::from_str(json).ok());
        let decoded = decoded.map(|KeptValue(value)| value);
        match decoded.as_ref().unwrap_or(value) {
            Value::Object(fields) => found.push(fields.clone()),
            Value::Array(items) if items.len() == 1 && items[0].is_object() => {
                found.extend(items[0].as_object().cloned());
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => {
                trouble = Some("answered a `hookSpecificOutput` that is not an object".to_owned());
            }
        }
    }
    (found, trouble)
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

/// Where a field of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Where answers have their fields.
    Place,
    /// In an object below, which may be about something else.
    Below,
}

/// Returns the harshest decision but permission, and the last word that cannot be
/// understood.
fn harshest_decision<'a>(
    places: impl Iterator<Item = (&'a Map<String, Value>, Depth)>,
) -> (Option<HookDecision>, Option<String>) {
    let (mut decision, mut unknown) = (None, None);
    let harshness = |decision: HookDecision| match decision {
        HookDecision::Allow | HookDecision::Ask => 1,
        HookDecision::Deny | HookDecision::Stop => 2,
    };
    for (fields, depth) in places {
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match read_field(key, value, depth) {
                DecisionWord::Says(says)
                    if decision.is_none_or(|before| harshness(before) < harshness(says)) =>
                {
                    decision = Some(says);
                }
                DecisionWord::Says(_) | DecisionWord::Nothing => {}
                DecisionWord::Unknown(why) => {
                    unknown = Some(format!("answered with the unknown `{key}` {why}"));
                }
            }
        }
    }
    (decision, unknown)
}

/// Reads a field that may decide, however its key is spelled.
fn read_field(key: &str, value: &Value, depth: Depth) -> DecisionWord {
    let is = |names: &[&str]| names.iter().any(|name| normalize(name) == normalize(key));
    let is_container = value.is_object() || value.is_array();
    if is(&DENY_IF_TRUE) {
        return read_flag(value, true);
    }
    if is(&DENY_IF_FALSE) {
        // Lists of permissions are called so, too; objects are read for themselves.
        let is_list = is_container && depth == Depth::Below;
        return if is_list { DecisionWord::Nothing } else { read_flag(value, false) };
    }
    if is(&VERDICTS) {
        let word = normalize(value.as_str().unwrap_or_default());
        return match word {
            word if denies(&word) => DecisionWord::Says(HookDecision::Deny),
            word if is_misspelt(&word) => DecisionWord::Unknown(unknown_word(value)),
            _ => DecisionWord::Nothing,
        };
    }
    if !is(&DECISIONS) {
        return DecisionWord::Nothing;
    }
    let is_certain = match value {
        // Other programs use this key for something else.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => !is(&["permission"]),
        Value::String(word) if is(&["permission"]) => {
            depth == Depth::Place || is_misspelt(&normalize(word))
        }
        Value::String(_) | Value::Array(_) => depth == Depth::Place || !is(&["permission"]),
    };
    match read_word(value) {
        DecisionWord::Unknown(_) if !is_certain => DecisionWord::Nothing,
        DecisionWord::Unknown(word) => {
            DecisionWord::Unknown(format!("{word} (expected `allow`, `deny` or `ask`)"))
        }
        word @ (DecisionWord::Says(_) | DecisionWord::Nothing) => word,
    }
}

/// Reads the value of a key that denies if it is `denying`.
fn read_flag(value: &Value, denying: bool) -> DecisionWord {
    let truth = match value {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Value::String(word) => match &*normalize(word) {
            "true" | "yes" | "y" | "on" | "1" => Some(true),
            "false" | "no" | "n" | "off" | "0" => Some(false),
            // No reason to block.
            "" if denying => Some(false),
            _ => None,
        },
        Value::Array(items) if denying && items.is_empty() => Some(false),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match truth {
        Some(truth) if truth == denying => DecisionWord::Says(HookDecision::Deny),
        Some(_) => DecisionWord::Nothing,
        None => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let text: String = text.chars().take(40).collect();
            DecisionWord::Unknown(format!("`{text}` (expected `true` or `false`)"))
        }
    }
}

/// Returns the text of an unknown word, with what is expected.
fn unknown_word(value: &Value) -> String {
    let word: String = value.as_str().unwrap_or_default().chars().take(40).collect();
    format!("`{word}` (expected `allow`, `deny` or `ask`)")
}

/// Returns whether a normalized word is one letter away from one that decides.
fn is_misspelt(word: &str) -> bool {
    let letters: Vec<char> = word.chars().take(WORD_CAP + 1).collect();
    let is_near = |known: &&str| {
        let known: Vec<char> = known.chars().collect();
        known.len() >= MISSPELT_MIN
            && known.first() == letters.first()
            && slips::distance(&letters, &known) == 1
    };
    letters.len() <= WORD_CAP && DENYING.iter().any(is_near) && !denies(word)
}

/// Returns whether a text that is not JSON names a key that may deny, as in
/// `{decision: block}`.
pub(super) fn names_restriction(text: &str) -> bool {
    let text = text.replace('_', "").to_ascii_lowercase();
    let keys = DECISIONS.iter().chain(&DENY_IF_TRUE).chain(&DENY_IF_FALSE);
    keys.chain(&["continue", "hookSpecificOutput"]).any(|key| {
        let key = normalize(key);
        text.match_indices(&*key).any(|(at, _)| {
            let is_mark = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\');
            let behind = text[at + key.len()..].trim_start_matches(is_mark);
            !text[..at].ends_with(char::is_alphanumeric) && behind.starts_with([':', '='])
        })
    })
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
    DENYING.contains(&word)
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

/// Returns whether the agent goes on: if nothing says that it does not.
fn read_continue<'a>(values: impl Iterator<Item = &'a Value>) -> Result<bool, String> {
    let mut read = Ok(true);
    for value in values {
        match read_flag(value, false) {
            DecisionWord::Says(_) => return Ok(false),
            DecisionWord::Nothing => {}
            DecisionWord::Unknown(_) if value.as_str().is_some_and(|it| it.trim().is_empty()) => {}
            DecisionWord::Unknown(_) => {
                read = Err(format!("answered with the unknown `continue` `{value}`"));
            }
        }
    }
    read
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
    fields.get(name).filter(|value| !value.is_null()).or_else(|| spellings(fields, name).next())
}

/// Returns the fields that have a name in any case, with or without `_`, but null.
fn spellings<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let name = normalize(name);
    let named = fields.iter().filter(move |(key, _)| normalize(key) == name);
    named.map(|(_, value)| value).filter(|value| !value.is_null())
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
            json!({"blocked": "true"}),
            json!({"blocked": 1}),
            json!({"Block": "Yes", "reason": "x"}),
            json!({"approved": "no"}),
            json!({"allow": 0}),
            json!({"allowed": "False"}),
            json!({"result": {"is_blocked": false, "denied": "yes"}}),
            json!({"cancel": true, "errorMessage": "x"}),
            json!({"permitted": false}),
            json!({"action": "block"}),
            json!({"verdict": "DENIED"}),
            json!({"checks": [{"status": "rejected"}]}),
            json!({"permissionDecision": "allow", "permission_decision": "deny"}),
            json!({"decision": "approve", "Decision": "block"}),
            json!({"hookSpecificOutput": {"permissionDecision": "allow"},
                "hook_specific_output": {"permissionDecision": "deny"}}),
            json!({"blocked": false, "Blocked": true}),
            json!({"decision": "approve", "blocked": "yes"}),
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
            json!({"permission": "denyy"}),
            json!({"permission": ["deny"]}),
            json!({"result": {"permission": "denyy"}}),
            json!({"action": "blok"}),
            json!({"blocked": "rm is dangerous"}),
            json!({"blocked": 2}),
            json!({"deny": ["rm"]}),
            json!({"block": {"why": "x"}}),
            json!({"approved": "perhaps"}),
            json!({"approved": []}),
            json!({"allow": ""}),
            json!({"result": {"blocked": "perhaps"}}),
            json!({"decision": "approve", "approved": "perhaps"}),
            json!({"hookSpecificOutput": {"permissionDecision": "allow"}, "Decision": "perhaps"}),
            json!({"updatedInput": {"a": 1}, "hookSpecificOutput": {"updatedInput": {"a": 2}}}),
            json!({"hookSpecificOutput": {}, "hook_specific_output": 7}),
            json!({"continue": true, "Continue": []}),
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
            json!({"action": "lint", "status": "ok", "result": {"allow": ["a"], "deny": []}}),
            json!({"blocked": 0, "approved": "yes", "allowed": 1, "cancel": "", "denied": null}),
            json!({"files": [{"permission": "0644"}, {"permission": true}]}),
            json!({"updatedInput": null, "status": "passed", "outcome": {"blocked": "no"}}),
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
    fn an_end_counts_in_any_spelling_and_place() {
        for json in [
            json!({"continue": false}),
            json!({"continue": true, "Continue": false}),
            json!({"continue": false, "hookSpecificOutput": {"continue": true}}),
            json!({"continue": true, "hookSpecificOutput": {"continue": "no"}}),
            json!({"continue": true, "continue_": 0}),
            json!({"hook_specific_output": {"continue": false}, "hookSpecificOutput": {}}),
            json!({"continue": "perhaps", "CONTINUE": false}),
        ] {
            assert!(read(&json).stop.is_some(), "{json}");
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
