//! Finds the adaptations that a server's error message suggests.
//!
//! Servers word refusals in no common form, so each family of refusals is a row of
//! search terms. A row only proposes adaptations, and one that changes nothing in
//! the request is skipped, so a wrong guess costs one request at most.

use serde_json::{Map, Value};

use super::words::{
    IMAGES, KEY_REFUSED, NO_TOOLS, PATTERNS, REASONING, REASONING_REFUSED, RefusalPattern,
    TEMPLATE_ERRORS,
};
use super::{Adaptation, Adaptations, ContentId, RefusedRequest};
use crate::message::{Message, Prefix, ToolSchema};
use crate::model::blame::blamed_tools;

/// Optional keys within messages and tools.
pub(super) const INNER_KEYS: [&str; 6] =
    ["reasoning_content", "strict", "cache_control", "is_error", "detail", "phase"];

/// Keys of a request that every server needs.
pub(super) const NEEDED_KEYS: [&str; 8] =
    ["model", "messages", "input", "stream", "tools", "system", "instructions", "contents"];

/// Keys of the output limit in Chat Completions.
const LIMIT_KEYS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// Maximum characters of a server's answer that are searched.
const SAID_CAP: usize = 16_000;

/// The parts of a refused request that a pattern needs.
pub(in crate::model) struct SentRequest<'a> {
    /// Its keys.
    pub(in crate::model) keys: &'a [String],
    /// Keys that the user has configured. They are never left out.
    pub(in crate::model) extra: &'a Map<String, Value>,
    /// The conversation before any adaptation.
    pub(in crate::model) prefix: &'a Prefix,
}

/// Returns the keys of a request.
pub(in crate::model) fn keys_of(body: &[u8]) -> Vec<String> {
    let body: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    body.map(|body| body.into_iter().map(|(key, _)| key).collect()).unwrap_or_default()
}

/// Tells the user what was found out about a model.
pub(in crate::model) fn sentence(model: &str, found: &[Adaptation]) -> String {
    let done = found.first().map(Adaptation::describe).unwrap_or_default();
    let setting = found.first().filter(|adaptation| adaptation.is_a_setting());
    let setting = setting.map(|setting| {
        format!(" (`adaptations = [\"{setting}\"]` in `[models.NAME]` does so from the start)")
    });
    let setting = setting.unwrap_or_default();
    format!("`{model}` refused a request; for this model tine {done} from now on{setting}")
}

/// Returns what may help, the smallest change first. All of one change are made
/// together.
pub(in crate::model) fn candidates(
    refused: &RefusedRequest,
    sent: &SentRequest<'_>,
) -> Vec<Vec<Adaptation>> {
    let RefusedRequest { said, adaptations: known } = refused;
    let said = said.to_ascii_lowercase();
    let mut found: Vec<_> = keys(&said, known, sent).into_iter().map(|key| vec![key]).collect();
    for RefusalPattern { words, adaptations } in &PATTERNS {
        if words.iter().all(|any| any.iter().any(|word| said.contains(word))) {
            found.extend(adaptations.iter().map(|adaptation| vec![adaptation.clone()]));
        }
    }
    if is_of(&said, &REASONING, &REASONING_REFUSED) {
        found.push(sealed(sent.prefix));
        let has = |key: &str| sent.keys.iter().any(|sent| sent == key);
        found.extend(has("thinking").then(|| vec![Adaptation::Without("thinking".into())]));
    }
    found.push(blamed(refused, sent.prefix));
    if IMAGES.iter().any(|word| said.contains(word)) {
        found.push(new_images(sent.prefix));
    }
    found.retain(|all| all.iter().any(|adaptation| !known.has(adaptation)));
    found
}

/// Returns what the user can do about a refusal that no adaptation mends.
pub(in crate::model) fn advice(said: &str, sent: &SentRequest<'_>) -> Option<String> {
    let said = said.to_ascii_lowercase();
    if NO_TOOLS.iter().any(|words| said.contains(words)) && !sent.prefix.head.tools.is_empty() {
        return Some(
            "the server supports no tools for this model: use another model, or set \
             `adaptations = [\"no_tools\"]` to use this one without tools"
                .to_owned(),
        );
    }
    let is_refused = KEY_REFUSED.iter().any(|words| said.contains(words));
    let configured = sent.extra.keys().find(|key| is_refused && place_of(&said, key).is_some());
    configured.map(|key| format!("`{key}` is in `extra_body` of this model: remove it there"))
}

/// Returns whether a server's words are those of a chat template.
pub(in crate::model) fn is_template_error(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    TEMPLATE_ERRORS.iter().any(|words| said.contains(words))
}

/// Returns all texts of a server's answer, but for what it quotes of the
/// request.
pub(super) fn spoken(answer: &Value) -> String {
    let mut said = String::new();
    speak(answer, &mut said, 0);
    if let Some((end, _)) = said.char_indices().nth(SAID_CAP) {
        said.truncate(end);
    }
    said
}

fn speak(value: &Value, said: &mut String, depth: usize) {
    /// A gateway quotes the JSON of a server, and that of its own server.
    const DEPTH_CAP: usize = 12;
    if depth > DEPTH_CAP || said.len() > 4 * SAID_CAP {
        return;
    }
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => speak(&inner, said, depth + 1),
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | Err(_) => {
                said.push_str(text);
                said.push(' ');
            }
        },
        Value::Number(number) => {
            said.push_str(&number.to_string());
            said.push(' ');
        }
        Value::Array(values) => values.iter().for_each(|value| speak(value, said, depth + 1)),
        Value::Object(fields) => {
            for (name, value) in fields {
                // Pydantic repeats there what it was sent.
                if !(name == "input" && fields.contains_key("loc")) {
                    speak(value, said, depth + 1);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn is_of(said: &str, subjects: &[&str], complaints: &[&str]) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    has(subjects) && has(complaints)
}

/// Returns the keys that are refused, the one first that is named first.
fn keys(said: &str, known: &Adaptations, sent: &SentRequest<'_>) -> Vec<Adaptation> {
    if !KEY_REFUSED.iter().any(|words| said.contains(words)) {
        return Vec::new();
    }
    let of_request = sent
        .keys
        .iter()
        .map(String::as_str)
        .filter(|key| !NEEDED_KEYS.contains(key) && !sent.extra.contains_key(*key));
    let mut named: Vec<(usize, &str)> =
        of_request.chain(INNER_KEYS).filter_map(|key| Some((place_of(said, key)?, key))).collect();
    named.sort_unstable();
    let adaptation = |(_, key): (usize, &str)| {
        let is_first = LIMIT_KEYS.contains(&key) && !known.has(&Adaptation::OtherLimitKey);
        match is_first {
            true => Adaptation::OtherLimitKey,
            false => Adaptation::Without(key.into()),
        }
    };
    named.into_iter().map(adaptation).collect()
}

/// Returns where a key is named; `None` if it is not. A key that is a plain word
/// counts only where it is quoted or part of a path.
fn place_of(said: &str, key: &str) -> Option<usize> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_mark = |c: char| "'\"`[].:".contains(c);
    let is_plain = !key.contains('_');
    said.match_indices(key).map(|(at, _)| at).find(|&at| {
        let (before, behind) = (&said[..at], &said[at + key.len()..]);
        let (last, next) = (before.chars().next_back(), behind.chars().next());
        let is_whole = !last.is_some_and(is_word) && !next.is_some_and(is_word);
        let is_marked = last.is_some_and(is_mark) || next.is_some_and(is_mark);
        let leads = [
            "parameter: ",
            "parameter ",
            "supplied: ",
            "field ",
            "body ",
            "key ",
            "key: ",
            "argument ",
        ];
        is_whole && (!is_plain || is_marked || leads.iter().any(|lead| before.ends_with(lead)))
    })
}

/// Returns what leaves out all sealed reasoning of the conversation.
fn sealed(prefix: &Prefix) -> Vec<Adaptation> {
    let sealed = prefix.messages().filter_map(|message| match message {
        Message::Model(reply) => reply.sealed.as_ref(),
        Message::User(_) | Message::Output { .. } => None,
    });
    sealed.map(|sealed| Adaptation::WithoutContent(ContentId::new(&sealed.json))).collect()
}

/// Returns what leaves out the images that no answer has followed yet; all of
/// them if each was answered.
fn new_images(prefix: &Prefix) -> Vec<Adaptation> {
    let messages: Vec<&Message> = prefix.messages().collect();
    let answered = messages.iter().rposition(|it| matches!(it, Message::Model(_)));
    let (old, new) = messages.split_at(answered.unwrap_or(0));
    let images = |messages: &[&Message]| -> Vec<Adaptation> {
        messages.iter().flat_map(|message| images_of(message)).collect()
    };
    match images(new) {
        none if none.is_empty() => images(old),
        new => new,
    }
}

fn images_of(message: &Message) -> Vec<Adaptation> {
    let without = |base64: &str| Adaptation::WithoutContent(ContentId::new(base64));
    match message {
        Message::User(prompt) => {
            prompt.images.iter().map(|placed| without(&placed.image.base64)).collect()
        }
        Message::Output { call: _, output } => {
            output.images.iter().map(|image| without(&image.base64)).collect()
        }
        Message::Model(_) => Vec::new(),
    }
}

/// Returns what leaves out the tools that a refusal names.
fn blamed(refused: &RefusedRequest, prefix: &Prefix) -> Vec<Adaptation> {
    // An index counts the tools that were sent.
    let is_sent = |tool: &&ToolSchema| !refused.adaptations.is_without_tool(&tool.name);
    let sent: Vec<ToolSchema> = prefix.head.tools.iter().filter(is_sent).cloned().collect();
    let places = blamed_tools(&refused.said, &sent).into_iter();
    places.map(|place| Adaptation::WithoutTool(sent[place].name.as_str().into())).collect()
}
