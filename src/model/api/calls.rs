//! Tool calls, as far as every API has the same trouble with them.

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

/// A name a model made up may hold anything, also nothing; servers refuse a
/// whole conversation over one character outside this set.
pub(in crate::model) fn sendable_name(call: &Call) -> String {
    if call.tool.is_empty() {
        return "_".to_owned();
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    call.tool.chars().map(|character| if allowed(character) { character } else { '_' }).collect()
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
    }
}
