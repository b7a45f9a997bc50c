//! What one hook says, read from how it ended and what it printed.
//!
//! Exit status 0: what it printed counts, as JSON or, at some moments, as text
//! for the model. 2: it blocks, and its complaint is why. Any other end is a
//! failure, and so is an answer that cannot be interpreted. A denial counts in any
//! case; what grants something counts only where nothing else was printed. What a
//! failure means is decided last: a gate that fails stays shut.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::OnFailure;
use super::answer::HookAnswer;
use super::callback::Answered;
use super::effect::{CONTEXT_CAP, NAME_CAP, REASON_CAP, clipped};
use super::found::{PrintedObjects, first_lines};
use super::process::{Ended, OUTPUT_CAP};
use super::unawaited::UNAWAITED_CAP;
use crate::event::{HookDecision, HookEvent, HookOutcome};
use crate::message::Output;
use crate::path_text;

/// The exit status by which a hook blocks.
const BLOCKS: i32 = 2;

/// Message about text for the model that may have been meant as an answer.
const HALF_JSON: &str = "it printed JSON among other lines, so all of it is text for the model";

/// Message about permission that does not count.
const NOT_ALONE: &str =
    "its permission does not count: the output must be one JSON object and nothing else";

/// Message about a text for the model that does not count.
const CONTEXT_NOT_ALONE: &str =
    "its `additionalContext` does not count: it printed more than one JSON object and nothing else";

/// Reason why an answer fails that changes something.
const CHANGE_NOT_ALONE: &str =
    "`updatedInput` and `updatedToolOutput` count only if one JSON object is all that is printed";

/// Reason why a change fails, and message about permission that does not count, if the hook
/// has only repeated what it was told.
const REPEATED: &str =
    "its answer does not count: it is part of the hook's input, where a model may have written it";

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

impl Reply {
    /// What a command says that has ended.
    pub(super) fn of_command(event: HookEvent, ended: Ended, limit: Duration) -> Self {
        match ended {
            Ended::Exited { status, stdout, stderr } => {
                Self::of_exit(event, status, &stdout, &stderr)
            }
            // A denial counts, however late the hook ends.
            Ended::TimedOut { stdout } => {
                Self::find_restriction(event, &String::from_utf8_lossy(&stdout))
                    .unwrap_or_else(|| Self::failed(timed_out(limit)))
            }
            Ended::Cancelled => Self { outcome: HookOutcome::Cancelled, ..Self::default() },
            Ended::NotStarted(error) => Self::failed(format!("could not be run: {error}")),
        }
    }

    /// What a callback says.
    pub(super) fn of_callback(event: HookEvent, answered: Answered) -> Self {
        match answered {
            // It has returned nothing, so it has nothing to say.
            Answered::Json(Value::Null) => Self::default(),
            Answered::Json(Value::Object(fields)) => {
                let answer = HookAnswer::read(event, &fields);
                Self::combine(event, vec![answer], true).unwrap_or_else(Self::failed)
            }
            Answered::Json(other) => Self::failed(format!(
                "answered with something that is not an object: {}",
                first_lines(&other.to_string())
            )),
            Answered::Failed(why) => Self::failed(format!("failed: {why}")),
            Answered::TimedOut(limit) => Self::failed(timed_out(limit)),
            Answered::Cancelled => Self { outcome: HookOutcome::Cancelled, ..Self::default() },
        }
    }

    /// What is made of a command that does not run because of this file.
    pub(super) fn changed(file: &Path) -> Self {
        let file = path_text::to_text(file);
        Self::failed(format!("was not run: `{file}` is not what it was when the run began"))
    }

    /// Applies the failure policy: a failed hook denies, has a person asked, or only
    /// warns. Otherwise an agent could disable its gate by breaking it.
    pub(super) fn settle_failure(self, event: HookEvent, name: &Arc<str>, by: OnFailure) -> Self {
        if self.outcome != HookOutcome::Failed {
            return self;
        }
        match by {
            OnFailure::Block if blocks(event) => {
                let name = clipped(&first_lines(name).into(), NAME_CAP);
                let reason = format!("the hook `{name}` {}", self.reason).into();
                let (outcome, wish) = (HookOutcome::Blocked, Some(HookDecision::Deny));
                Self { outcome, wish, reason, ..self }
            }
            OnFailure::Ask => Self { wish: Some(HookDecision::Ask), ..self },
            OnFailure::Block | OnFailure::Warn => self,
        }
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

    /// Returns the reply of a hook of a kind that only other harnesses have.
    pub(super) fn not_done(why: &str) -> Self {
        Self::failed(format!("was not run: {why}"))
    }

    /// Returns the same without what it grants or changes, for an answer that is part of the
    /// hook's input. A denial counts.
    pub(super) fn without_grants(self, event: HookEvent) -> Self {
        let restricts = self.stop.is_some() || self.wish == Some(HookDecision::Deny);
        if !restricts && (self.input.is_some() || self.output.is_some()) {
            return Self::failed(REPEATED);
        }
        let (wish, message) = match self.wish {
            Some(HookDecision::Allow) => (None, REPEATED.into()),
            wish => (wish, self.message),
        };
        let context = if takes_text(event) { self.context } else { Arc::default() };
        Self { wish, message, input: None, output: None, context, ..self }
    }

    /// Adds a remedy to a failure's reason.
    pub(super) fn with_remedy(self, remedy: Option<String>) -> Self {
        let Some(remedy) = remedy.filter(|_| self.outcome == HookOutcome::Failed) else {
            return self;
        };
        Self { reason: format!("{}; {remedy}", self.reason).into(), ..self }
    }

    fn failed(why: impl Into<Arc<str>>) -> Self {
        Self { outcome: HookOutcome::Failed, reason: why.into(), ..Self::default() }
    }

    fn of_exit(event: HookEvent, status: ExitStatus, stdout: &[u8], stderr: &[u8]) -> Self {
        let (printed, complaint) =
            (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
        let complaint = complaint.trim();
        let is_whole = stdout.len() <= OUTPUT_CAP;
        let failure = match (status.code(), status.signal()) {
            (Some(0), _) if is_whole => {
                return Self::of_text(event, printed.trim()).unwrap_or_else(Self::failed);
            }
            (Some(0), _) => format!("printed more than {OUTPUT_CAP} bytes"),
            (Some(BLOCKS), _) if blocks(event) => return Self::blocked(event, &printed, complaint),
            (Some(code), _) => ended(&format!("exit status {code}"), complaint),
            (None, signal) => ended(&format!("signal {}", signal.unwrap_or_default()), complaint),
        };
        // A denial counts, whatever the exit status.
        Self::find_restriction(event, &printed).unwrap_or_else(|| Self::failed(failure))
    }

    /// Returns the reply of a hook that exits with the blocking status. The reason is its
    /// standard error, else its JSON's reason, else its first lines.
    fn blocked(event: HookEvent, printed: &str, complaint: &str) -> Self {
        let said = || {
            let restriction = Self::find_restriction(event, printed);
            let reason = restriction.map(|reply| reply.why()).filter(|why| !why.is_empty());
            reason.unwrap_or_else(|| first_lines(printed).into())
        };
        let reason = if complaint.is_empty() { said() } else { complaint.into() };
        let reason = if reason.is_empty() { "it gave no reason".into() } else { reason };
        let (outcome, wish) = (HookOutcome::Blocked, Some(HookDecision::Deny));
        Self { outcome, wish, reason, ..Self::default() }
    }

    /// Returns the denial or the end that an output contains.
    fn find_restriction(event: HookEvent, printed: &str) -> Option<Self> {
        let PrintedObjects { objects, .. } = PrintedObjects::read(printed);
        let objects = objects.iter().filter(|object| object.is_at_an_end || !takes_text(event));
        let answers = objects.map(|object| HookAnswer::read(event, &object.fields));
        let answers: Vec<HookAnswer> = answers.filter(HookAnswer::restricts).collect();
        let reply = Self::combine(event, answers, false).ok()?;
        (reply.stop.is_some() || reply.wish == Some(HookDecision::Deny)).then_some(reply)
    }

    /// What was printed with exit status 0. The error says what is wrong.
    fn of_text(event: HookEvent, printed: &str) -> Result<Self, String> {
        let PrintedObjects { objects, is_alone, unread, unread_at_end } =
            PrintedObjects::read(printed);
        let unreadable = |why: String| {
            format!("printed JSON that cannot be read: {why}; it began: {}", first_lines(printed))
        };
        if takes_text(event) && !is_alone {
            if let Some(restriction) = Self::find_restriction(event, printed) {
                return Ok(restriction);
            }
            let at_start = unread.filter(|_| printed.starts_with(['{', '\u{feff}']));
            if let Some(why) = at_start.or(unread_at_end.filter(|_| blocks(event))) {
                return Err(unreadable(why));
            }
            // A text for a model may contain code, but should not contain an answer.
            let is_answer = objects.iter().any(|it| it.is_at_an_end && !it.fields.is_empty());
            let message = if is_answer { HALF_JSON.into() } else { Arc::default() };
            return Ok(Self { context: printed.into(), message, ..Self::default() });
        }
        let answers = objects.iter().map(|object| HookAnswer::read(event, &object.fields));
        let reply = Self::combine(event, answers.collect(), is_alone)
            .map_err(|why| if is_alone { why } else { unreadable(why) })?;
        let restricts = reply.stop.is_some() || reply.wish == Some(HookDecision::Deny);
        match unread {
            Some(why) if !restricts => Err(unreadable(why)),
            Some(_) | None => Ok(reply),
        }
    }

    /// Combines the answers of one output. One that cannot be understood fails the whole,
    /// unless another one denies. If the answer is not alone in the output, the model may
    /// have written it, so it grants nothing, and one that changes something fails.
    fn combine(event: HookEvent, answers: Vec<HookAnswer>, is_alone: bool) -> Result<Self, String> {
        let restricts = answers.iter().any(HookAnswer::restricts);
        let mut reply = Self::default();
        for answer in answers {
            let HookAnswer { decision, stop, reason, input, output, context, message, trouble } =
                answer;
            if let Some(why) = trouble.filter(|_| !restricts) {
                return Err(why);
            }
            let decision = decision.filter(|_| blocks(event));
            if reply.wish.is_none_or(|wish| wish == HookDecision::Allow)
                || decision == Some(HookDecision::Deny) && reply.wish != decision
            {
                (reply.wish, reply.reason) = (decision.or(reply.wish), reason);
            }
            if !is_alone && !restricts && (input.is_some() || output.is_some()) {
                return Err(CHANGE_NOT_ALONE.to_owned());
            }
            reply.input = input.or(reply.input);
            reply.stop = stop.or(reply.stop);
            reply.output = output.as_ref().and_then(output_of).or(reply.output);
            reply.context = if context.is_empty() { reply.context } else { context };
            reply.message = if message.is_empty() { reply.message } else { message };
        }
        if is_alone {
            return Ok(reply);
        }
        if !reply.context.is_empty() && !restricts {
            reply.message = CONTEXT_NOT_ALONE.into();
        }
        if reply.wish == Some(HookDecision::Allow) {
            (reply.wish, reply.message) = (None, NOT_ALONE.into());
        }
        Ok(Self { input: None, output: None, context: Arc::default(), ..reply })
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
