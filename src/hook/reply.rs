//! What one hook says, read from how it ended and what it printed.
//!
//! Exit status 0: what it printed counts, as JSON or, at some moments, as text
//! for the model. 2: it blocks, and its complaint is why. Any other end is its
//! own failure. JSON that is not as it should be is a failure, too: half of
//! what a hook wants must not be taken for the whole.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::callback::Answered;
use super::effect::{CONTEXT_CAP, REASON_CAP, clipped};
use super::process::{Ended, OUTPUT_CAP};
use super::unawaited::UNAWAITED_CAP;
use crate::event::{HookDecision, HookEvent, HookOutcome};
use crate::message::Output;
use crate::path_text;

/// The exit status by which a hook blocks.
const BLOCKS: i32 = 2;

/// What is said of output that was perhaps meant as an answer.
const HALF_JSON: &str = "a line that begins with `{`, but as a whole it is no JSON";

/// Most places at which an answer is looked for in a text: each may take a look
/// at all that follows.
const LOOKS_CAP: usize = 16;

/// What one hook says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) outcome: HookOutcome,
    /// What it decides about what it was asked.
    pub(super) wish: Option<HookDecision>,
    /// Why, or what went wrong.
    pub(super) reason: Arc<str>,
    /// Why all is to end, if it is.
    pub(super) stop: Option<Arc<str>>,
    /// The arguments that a call is to have instead.
    pub(super) input: Option<Value>,
    /// What the model is to read in place of what the call gave.
    pub(super) output: Option<Output>,
    /// What the model is to read.
    pub(super) context: Arc<str>,
    /// What people are to read.
    pub(super) message: Arc<str>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            outcome: HookOutcome::Done,
            wish: None,
            reason: Arc::default(),
            stop: None,
            input: None,
            output: None,
            context: Arc::default(),
            message: Arc::default(),
        }
    }
}

/// What a hook may answer. What is not here is not looked at.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Said {
    #[serde(rename = "continue")]
    goes_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<Decision>,
    reason: Option<String>,
    additional_context: Option<String>,
    hook_specific_output: Option<Specific>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Specific {
    hook_event_name: Option<String>,
    permission_decision: Option<Decision>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Value>,
    #[serde(alias = "updatedMCPToolOutput")]
    updated_tool_output: Option<Value>,
    additional_context: Option<String>,
    decision: Option<Permission>,
}

/// The answer to a question about a call.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Permission {
    behavior: Decision,
    message: Option<String>,
    updated_input: Option<Value>,
    #[serde(default)]
    interrupt: bool,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Decision {
    #[serde(alias = "approve")]
    Allow,
    #[serde(alias = "block")]
    Deny,
    Ask,
}

impl From<Decision> for HookDecision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allow,
            Decision::Deny => Self::Deny,
            Decision::Ask => Self::Ask,
        }
    }
}

impl Reply {
    /// What a command says that has ended.
    pub(super) fn of_command(event: HookEvent, ended: Ended, limit: Duration) -> Self {
        match ended {
            Ended::Exited { status, stdout, stderr } => {
                Self::of_exit(event, status, &stdout, &stderr)
            }
            Ended::TimedOut => Self::failed(timed_out(limit)),
            Ended::Cancelled => Self { outcome: HookOutcome::Cancelled, ..Self::default() },
            Ended::NotStarted(error) => Self::failed(format!("could not be run: {error}")),
        }
    }

    /// What a callback says.
    pub(super) fn of_callback(event: HookEvent, answered: Answered, must_answer: bool) -> Self {
        let reply = match answered {
            Answered::Json(json) => Self::of_json(event, json).unwrap_or_else(Self::failed),
            Answered::Failed(why) => Self::failed(format!("failed: {why}")),
            Answered::TimedOut(limit) => Self::failed(timed_out(limit)),
            Answered::Cancelled => Self { outcome: HookOutcome::Cancelled, ..Self::default() },
        };
        if must_answer && reply.outcome == HookOutcome::Failed && blocks(event) {
            let (outcome, wish) = (HookOutcome::Blocked, Some(HookDecision::Deny));
            return Self { outcome, wish, ..reply };
        }
        reply
    }

    /// What is made of a command that does not run because of this file.
    pub(super) fn changed(file: &Path) -> Self {
        let file = path_text::to_text(file);
        Self::failed(format!("was not run: `{file}` is not what it was when the run began"))
    }

    /// The same of a hook that did not run, where it was a gate: a no. Whom it
    /// watches could else have it watch no more, by changing its file or by
    /// asking for so much that it has no place.
    pub(super) fn at(self, is_gate: bool) -> Self {
        if !is_gate {
            return self;
        }
        let reason = format!("a hook {}", self.reason).into();
        let (outcome, wish) = (HookOutcome::Blocked, Some(HookDecision::Deny));
        Self { outcome, wish, reason, ..self }
    }

    /// What is made of a hook that others have kept from running.
    pub(super) fn had_no_place(limit: Duration) -> Self {
        let limit = limit.as_secs_f64();
        Self::failed(format!("was not run: others took all places for its limit of {limit} s"))
    }

    /// What is made of a command that nobody waits for and that there is no
    /// place for.
    pub(super) fn one_too_many() -> Self {
        Self::failed(format!("was not run: {UNAWAITED_CAP} that nobody waits for run already"))
    }

    /// What is told of a command that nobody waited for and that was ended.
    pub(super) fn outlived() -> Self {
        Self::failed("still ran when the run had ended, and was ended")
    }

    fn failed(why: impl Into<Arc<str>>) -> Self {
        Self { outcome: HookOutcome::Failed, reason: why.into(), ..Self::default() }
    }

    fn of_exit(event: HookEvent, status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Self {
        let complaint = String::from_utf8_lossy(stderr);
        let complaint = complaint.trim();
        match (status.code(), status.signal()) {
            (Some(0), _) if stdout.len() > OUTPUT_CAP => {
                Self::failed(format!("printed more than {OUTPUT_CAP} bytes"))
            }
            (Some(0), _) => {
                let printed = String::from_utf8_lossy(stdout);
                // Some programs begin what they write with a mark of its encoding.
                let printed = printed.strip_prefix('\u{feff}').unwrap_or(&printed);
                Self::of_text(event, printed.trim()).unwrap_or_else(Self::failed)
            }
            (Some(BLOCKS), _) if blocks(event) => {
                let reason = if complaint.is_empty() { "it gave no reason" } else { complaint };
                Self {
                    outcome: HookOutcome::Blocked,
                    wish: Some(HookDecision::Deny),
                    reason: reason.into(),
                    ..Self::default()
                }
            }
            (Some(code), _) => Self::failed(ended(&format!("exit status {code}"), complaint)),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                Self::failed(ended(&format!("signal {signal}"), complaint))
            }
        }
    }

    /// What was printed with exit status 0. The error says what is wrong.
    fn of_text(event: HookEvent, printed: &str) -> Result<Self, String> {
        if printed.starts_with('{') {
            let json = serde_json::from_str(printed)
                .map_err(|error| format!("printed JSON that cannot be read: {error}"))?;
            return Self::of_json(event, json);
        }
        let looks_like_json = printed.lines().any(|line| line.starts_with('{'));
        if !takes_text(event) {
            return match looks_like_json {
                true => Err(format!("printed {HALF_JSON}, so nothing of it counts")),
                false => Ok(Self::default()),
            };
        }
        // Code may stand in a text for a model; an answer should not.
        let message = match looks_like_json && holds_answer(printed) {
            true => format!("it printed {HALF_JSON}, so all of it is text for the model").into(),
            false => Arc::default(),
        };
        Ok(Self { context: printed.into(), message, ..Self::default() })
    }

    fn of_json(event: HookEvent, json: Value) -> Result<Self, String> {
        let said: Said = serde_json::from_value(json)
            .map_err(|error| format!("answered JSON that cannot be read: {error}"))?;
        let specific = said.hook_specific_output.unwrap_or_default();
        if let Some(name) = specific.hook_event_name
            && name != event.as_str()
        {
            return Err(format!("answered for `{name}`, but was asked at {}", event.as_str()));
        }
        let text = |text: Option<String>| text.unwrap_or_default().trim().into();
        let stopped = || text(said.stop_reason.clone().or(said.reason.clone()));
        let output = specific.updated_tool_output.filter(|_| event == HookEvent::PostToolUse);
        let mut reply = Self {
            output: output.as_ref().and_then(output_of),
            stop: (said.goes_on == Some(false)).then(stopped),
            message: text(said.system_message),
            context: text(specific.additional_context.or(said.additional_context)),
            ..Self::default()
        };
        match (event, specific.decision) {
            (HookEvent::PermissionRequest, Some(permission)) => reply.permit(permission),
            (_, Some(_)) | (_, None) => {
                let decision = specific.permission_decision.or(said.decision);
                reply.wish = decision.map(HookDecision::from).filter(|_| blocks(event));
                reply.reason = text(specific.permission_decision_reason.or(said.reason));
                reply.input = specific.updated_input;
            }
        }
        if reply.input.as_ref().is_some_and(|input| !input.is_object()) {
            return Err("answered an `updatedInput` that is no object".to_owned());
        }
        Ok(reply)
    }

    fn permit(&mut self, permission: Permission) {
        let Permission { behavior, message, updated_input, interrupt } = permission;
        self.wish = Some(behavior.into());
        self.reason = message.unwrap_or_default().trim().into();
        self.input = updated_input;
        if interrupt {
            self.stop = Some(Arc::clone(&self.reason));
        }
    }

    /// Cuts what is too long for whoever reads it.
    pub(super) fn bound(&mut self) {
        self.reason = clipped(&self.reason, REASON_CAP);
        self.stop = self.stop.as_ref().map(|stop| clipped(stop, REASON_CAP));
        self.context = clipped(&self.context, CONTEXT_CAP);
        self.message = clipped(&self.message, REASON_CAP);
    }

    /// Returns what it decides, the harshest if it is several things.
    pub(super) fn decision(&self) -> Option<HookDecision> {
        self.stop.as_ref().map(|_| HookDecision::Stop).or(self.wish)
    }

    /// Returns why it decides so.
    pub(super) fn why(&self) -> Arc<str> {
        match &self.stop {
            Some(stop) if !stop.is_empty() => Arc::clone(stop),
            Some(_) | None => Arc::clone(&self.reason),
        }
    }
}

/// Returns the output that a hook gives: a text, those of a list of blocks, what
/// hooks are told of an output themselves, or JSON as it is written; `None` of
/// none at all.
fn output_of(output: &Value) -> Option<Output> {
    let Value::Object(fields) = output else {
        return match output {
            Value::Null => None,
            Value::String(text) => Some(Output::ok(text.clone())),
            Value::Array(blocks) => {
                Some(Output::ok(blocks_text(blocks).unwrap_or_else(|| output.to_string())))
            }
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                Some(Output::ok(output.to_string()))
            }
        };
    };
    let content = match fields.get("content") {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(blocks)) => blocks_text(blocks),
        Some(_) | None => None,
    };
    let is_error = |name: &str| fields.get(name).and_then(Value::as_bool).unwrap_or(false);
    let is_error = content.is_some() && (is_error("is_error") || is_error("isError"));
    let text = content.unwrap_or_else(|| output.to_string());
    Some(if is_error { Output::error(text) } else { Output::ok(text) })
}

/// Returns the texts of blocks; `None` if they are none that a model reads.
fn blocks_text(blocks: &[Value]) -> Option<String> {
    let text = |block: &Value| match block.get("type").and_then(Value::as_str) {
        // Its base64 is nothing to read.
        Some(kind @ ("image" | "audio")) => Some(format!("[{kind} of a hook, left out]")),
        Some(_) | None => block.get("text").and_then(Value::as_str).map(str::to_owned),
    };
    Some(blocks.iter().map(text).collect::<Option<Vec<_>>>()?.join("\n\n"))
}

/// Tells whether an object of JSON stands at the end of a text, or in a line of
/// its own. An empty one says nothing, and may well be code.
fn holds_answer(printed: &str) -> bool {
    let is_answer = |text: &str| {
        let value = serde_json::from_str::<Value>(text);
        value.is_ok_and(|value| value.as_object().is_some_and(|fields| !fields.is_empty()))
    };
    let begins = printed.match_indices("\n{").map(|(index, _)| &printed[index + 1..]);
    begins.take(LOOKS_CAP).any(|text| is_answer(text) || text.lines().next().is_some_and(is_answer))
}

/// Tells whether anything can be blocked at a moment. Elsewhere the status that
/// blocks is a failure like any other.
pub(super) fn blocks(event: HookEvent) -> bool {
    match event {
        HookEvent::PreToolUse
        | HookEvent::PostToolUse
        | HookEvent::UserPromptSubmit
        | HookEvent::Stop
        | HookEvent::SubagentStop
        | HookEvent::PreCompact
        | HookEvent::PermissionRequest => true,
        HookEvent::SessionStart
        | HookEvent::SessionEnd
        | HookEvent::SubagentStart
        | HookEvent::Notification => false,
    }
}

/// Tells whether the model reads plain text that is printed at a moment.
fn takes_text(event: HookEvent) -> bool {
    match event {
        HookEvent::UserPromptSubmit | HookEvent::SessionStart | HookEvent::PreCompact => true,
        HookEvent::PreToolUse
        | HookEvent::PostToolUse
        | HookEvent::SessionEnd
        | HookEvent::Stop
        | HookEvent::SubagentStart
        | HookEvent::SubagentStop
        | HookEvent::Notification
        | HookEvent::PermissionRequest => false,
    }
}

fn timed_out(limit: Duration) -> String {
    format!("ran past its limit of {} s", limit.as_secs_f64())
}

fn ended(how: &str, complaint: &str) -> String {
    match complaint {
        "" => format!("ended with {how}"),
        complaint => format!("ended with {how}: {complaint}"),
    }
}

#[cfg(test)]
mod tests;
