//! Tool calls, as far as every API has the same trouble with them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::message::{Call, CallId, Message, Prefix};
use crate::model::Asker;

/// A call whose arguments are still coming in.
#[derive(Debug, Default)]
pub(in crate::model) struct OpenCall {
    pub(in crate::model) id: Option<Arc<str>>,
    pub(in crate::model) name: Option<Arc<str>>,
    pub(in crate::model) arguments: String,
}

impl OpenCall {
    /// Returns how many bytes its texts have.
    pub(in crate::model) fn size(&self) -> usize {
        let Self { id, name, arguments } = self;
        let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        length(id) + length(name) + arguments.len()
    }
}

/// Returns whole calls, each with an id that the conversation does not know
/// yet.
pub(in crate::model) fn named(calls: Vec<OpenCall>, asker: &Asker, prefix: &Prefix) -> Vec<Call> {
    if calls.is_empty() {
        return Vec::new();
    }
    let mut taken: HashSet<Arc<str>> = prefix
        .messages()
        .filter_map(|message| match message {
            Message::Model(reply) => Some(reply),
            Message::User(_) | Message::Output { call: _, output: _ } => None,
        })
        .flat_map(|reply| reply.calls.iter().map(|call| Arc::clone(&call.id.0)))
        .collect();
    let mut named = Vec::with_capacity(calls.len());
    for (position, call) in calls.into_iter().enumerate() {
        // Some servers count their ids from 0 in every answer; an output must
        // never be taken for that of an earlier call.
        let id = call
            .id
            .filter(|id| !taken.contains(id))
            .unwrap_or_else(|| fresh_id(&taken, asker, position));
        taken.insert(Arc::clone(&id));
        named.push(Call {
            id: CallId(id),
            // A call without a name stays a call, so that the model is told.
            tool: call.name.as_deref().unwrap_or_default().to_owned(),
            arguments: call.arguments,
        });
    }
    named
}

fn fresh_id(taken: &HashSet<Arc<str>>, asker: &Asker, position: usize) -> Arc<str> {
    (position..)
        .map(|number| format!("call_{}_{}_{number}", asker.unit.0, asker.turn).into())
        .find(|id| !taken.contains(id))
        .expect("there are more numbers than calls")
}

/// Returns arguments as they may be sent back.
///
/// Some servers parse them in their chat template and answer 500 to every later
/// turn when they are not an object, others want the object itself.
pub(in crate::model) fn sendable_arguments(call: &Call) -> &str {
    if object(&call.arguments).is_some() { &call.arguments } else { "{}" }
}

/// Returns arguments without the space around them; `None` if they are not an
/// object.
pub(in crate::model) fn object(arguments: &str) -> Option<&RawValue> {
    let value: &RawValue = serde_json::from_str(arguments).ok()?;
    value.get().starts_with('{').then_some(value)
}

/// Maximum characters of a tool's name at OpenAI.
const NAME_CAP: usize = 64;

/// A name a model made up may hold anything, also nothing; servers refuse a
/// whole conversation over one character outside this set.
pub(in crate::model) fn sendable_name(call: &Call) -> String {
    sendable_name_of(call, NAME_CAP)
}

/// Returns the name of a call in at most `cap` characters that servers take.
pub(in crate::model) fn sendable_name_of(call: &Call, cap: usize) -> String {
    if call.tool.is_empty() {
        return "_".to_owned();
    }
    let sent = |character: char| if is_sendable(character) { character } else { '_' };
    call.tool.chars().take(cap).map(sent).collect()
}

/// Maximum characters of a call's id at OpenAI.
const ID_CAP: usize = 40;

/// Digits of the hash in an id that is sent in place of another one.
const ID_HASH_DIGITS: usize = 12;

/// Returns a call's id as it may be sent back.
///
/// Proxies put signatures of hundreds of characters there, which all others
/// refuse in a whole conversation. A call and its output have the same id, so
/// both are sent with the same one.
pub(in crate::model) fn sendable_id(id: &CallId) -> Cow<'_, str> {
    if is_numbered(&id.0) { Cow::Borrowed(&id.0) } else { short_id(&id.0) }
}

/// Returns an id in at most 40 characters of `[A-Za-z0-9_-]`.
pub(in crate::model) fn short_id(id: &str) -> Cow<'_, str> {
    if is_short(id) {
        return Cow::Borrowed(id);
    }
    let kept = id.chars().filter(|&character| is_sendable(character));
    let kept: String = kept.take(ID_CAP - ID_HASH_DIGITS - 1).collect();
    let hash = blake3::hash(id.as_bytes()).to_hex();
    Cow::Owned(format!("{kept}_{}", &hash[..ID_HASH_DIGITS]))
}

/// Returns an id in nine letters and digits.
pub(in crate::model) fn nine_characters(id: &str) -> Cow<'_, str> {
    const LENGTH: usize = 9;
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if id.len() == LENGTH && id.chars().all(|character| character.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    let hash = blake3::hash(id.as_bytes());
    let letter = |byte: &u8| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]);
    hash.as_bytes()[..LENGTH].iter().map(letter).collect()
}

fn is_sendable(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

fn is_short(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_CAP && id.chars().all(is_sendable)
}

/// Returns whether an id has the form `functions.NAME:NUMBER`. Kimi's models are
/// trained on it and call worse where they see another one.
fn is_numbered(id: &str) -> bool {
    let parts = id.strip_prefix("functions.").and_then(|rest| rest.rsplit_once(':'));
    parts.is_some_and(|(name, number)| {
        is_short(name) && number.len() <= 4 && number.parse::<u16>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tool: &str, arguments: &str) -> Call {
        Call { id: "c1".into(), tool: tool.into(), arguments: arguments.into() }
    }

    #[test]
    fn arguments_that_are_no_object_are_sent_as_an_empty_one() {
        for arguments in ["", "{\"path\": ", "[]", "3", "null", "{} {}"] {
            assert_eq!(sendable_arguments(&call("Read", arguments)), "{}", "{arguments}");
        }
        assert_eq!(sendable_arguments(&call("Read", r#" {"a": 1}"#)), r#" {"a": 1}"#);
    }

    #[test]
    fn made_up_names_are_sent_as_names_servers_accept() {
        for (name, sent) in
            [("", "_"), ("functions.Read file", "functions_Read_file"), ("TodoWrite", "TodoWrite")]
        {
            assert_eq!(sendable_name(&call(name, "{}")), sent);
        }
        assert_eq!(sendable_name(&call(&"x.".repeat(100), "{}")), "x_".repeat(32));
    }

    #[test]
    fn call_ids_are_sent_as_every_server_takes_them() {
        let id = |id: &str| sendable_id(&id.into()).into_owned();
        for fine in ["call_1", "toolu_01-A", &"x".repeat(40), "functions.Read:0", "a"] {
            assert_eq!(id(fine), fine);
        }
        let long = "x".repeat(505);
        let odd = ["", " ", "call:1", "call.1", "call 1", "Ruf\u{fc}", "functions.Read:x", &long];
        for odd in odd {
            let sent = id(odd);
            assert!(is_short(&sent), "{odd}: {sent}");
            assert_eq!(sent, id(odd));
            assert_ne!(sent, id(&format!("{odd}!")));
        }
        assert_eq!(id("call:1"), "call1_9474a1af6e29");
        assert!(is_short(&short_id("functions.Read:0")));
    }

    #[test]
    fn mistral_gets_ids_of_nine_letters_and_digits() {
        assert_eq!(&*nine_characters("aB3dE6gH9"), "aB3dE6gH9");
        for id in ["", "call_1_1_0", "a-3dE6gH9", "functions.Read:0", &"x".repeat(505)] {
            let sent = nine_characters(id);
            assert!(sent.len() == 9 && sent.chars().all(|c| c.is_ascii_alphanumeric()), "{sent}");
            assert_ne!(sent, nine_characters(&format!("{id}!")));
        }
    }
}
