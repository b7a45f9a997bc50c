//! What spans hold of what was said: nothing, unless the user wants it.

use opentelemetry::KeyValue;
use serde_json::json;

use crate::branch::BranchPath;
use crate::event::{FailureKind, Outcome};
use crate::message::{Output, Reply};
use crate::telemetry::Failed;

/// Most characters of a name, an id or an error in a span.
const WORDS_CAP: usize = 256;

/// Most characters of one text in a span. Thousands of spans wait for a
/// collector at worst, and the session's log has the whole.
const TEXT_CAP: usize = 4_096;

/// Whether spans hold what was said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shows(pub(super) bool);

impl Shows {
    /// What the user asked for.
    pub(super) fn input(self, prompt: &str) -> Option<KeyValue> {
        let said = || json!([{ "role": "user", "parts": [text(prompt)] }]).to_string();
        self.0.then(|| KeyValue::new("gen_ai.input.messages", said()))
    }

    /// What a model answered.
    pub(super) fn reply(self, reply: &Reply, finish: &str) -> Option<KeyValue> {
        if !self.0 {
            return None;
        }
        let texts = (!reply.text.is_empty()).then(|| text(&reply.text));
        let calls = reply.calls.iter().map(|call| {
            let (id, name) = (cut(&call.id.0), cut(&call.tool));
            json!({ "type": "tool_call", "id": id, "name": name, "arguments": long(&call.arguments) })
        });
        let parts: Vec<_> = texts.into_iter().chain(calls).collect();
        let said = json!([{ "role": "assistant", "parts": parts, "finish_reason": finish }]);
        Some(KeyValue::new("gen_ai.output.messages", said.to_string()))
    }

    /// What a tool was given, what that is about, and what it gave.
    pub(super) fn call(
        self,
        arguments: Option<String>,
        subject: &str,
        output: &Output,
    ) -> Vec<KeyValue> {
        if !self.0 {
            return Vec::new();
        }
        let arguments = arguments.map(|text| KeyValue::new("gen_ai.tool.call.arguments", text));
        let subject = (!subject.is_empty()).then(|| KeyValue::new("tine.subject", cut(subject)));
        let result = KeyValue::new("gen_ai.tool.call.result", long(&output.text));
        arguments.into_iter().chain(subject).chain([result]).collect()
    }

    /// What a unit was for, which also names its branch, and its answer with why
    /// that ended.
    pub(super) fn ending(
        self,
        unit: Option<(&str, &BranchPath)>,
        (answer, finish): (&str, &str),
    ) -> Vec<KeyValue> {
        if !self.0 {
            return Vec::new();
        }
        let mut said = Vec::new();
        if let Some((description, path)) = unit {
            said.push(KeyValue::new("gen_ai.agent.description", cut(description)));
            said.push(KeyValue::new("tine.branch.path", cut(&path.to_string())));
        }
        if !answer.is_empty() {
            let parts = [text(answer)];
            let messages =
                json!([{ "role": "assistant", "parts": parts, "finish_reason": finish }]);
            said.push(KeyValue::new("gen_ai.output.messages", messages.to_string()));
        }
        said
    }

    /// What went wrong, if anything did. Its kind is always told.
    pub(super) fn failure(self, outcome: &Outcome) -> Option<Failed> {
        let failure = match outcome {
            Outcome::Done { text: _ } => return None,
            Outcome::Cancelled { ran: _ } | Outcome::Interrupted => {
                let kind = outcome.state().as_str().into();
                return Some(Failed { kind, message: String::new() });
            }
            Outcome::Failed(failure) => failure,
        };
        let is_told = self.0 || is_free_of_content(failure.kind);
        let message = if is_told { cut(&failure.message) } else { String::new() };
        Some(Failed { kind: failure.kind.as_str().into(), message })
    }
}

/// Tells whether the words of a failure are a provider's, which stand in the
/// span of the request too, or ours with nothing but numbers in them.
fn is_free_of_content(kind: FailureKind) -> bool {
    match kind {
        FailureKind::Authentication
        | FailureKind::Request
        | FailureKind::Provider
        | FailureKind::MaxTurns
        | FailureKind::Budget
        | FailureKind::MaxTokens
        | FailureKind::MaxToolCalls
        | FailureKind::Timeout
        | FailureKind::OutputLimit
        | FailureKind::Refusal
        | FailureKind::EmptyAnswer
        | FailureKind::Unfinished => true,
        // These may quote an answer, a hook, a path, or a name that a model made up.
        FailureKind::Overflow
        | FailureKind::Loop
        | FailureKind::Setup
        | FailureKind::Panic
        | FailureKind::Hook
        | FailureKind::StructuredOutput
        | FailureKind::Unmet => false,
    }
}

fn text(text: &str) -> serde_json::Value {
    json!({ "type": "text", "content": long(text) })
}

/// Returns the beginning of a text.
pub(super) fn long(text: &str) -> String {
    text.chars().take(TEXT_CAP).collect()
}

/// Returns the beginning of a few words.
pub(super) fn cut(words: &str) -> String {
    words.chars().take(WORDS_CAP).collect()
}

/// Returns a count as spans hold them.
pub(super) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
