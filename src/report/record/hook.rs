//! The record of a hook that was asked.

use serde::Serialize;

use super::Strand;
use crate::event::{HookOutcome, HookRan, Seq};

#[derive(Serialize)]
pub(in crate::report) struct HookResponse<'a> {
    /// Unique within the session.
    hook_id: String,
    hook_event: &'static str,
    /// The command, or the name of the callback.
    hook_name: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    additional_context: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    system_message: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    updated_input: bool,
    duration_ms: u64,
    #[serde(flatten)]
    strand: Strand,
}

impl<'a> HookResponse<'a> {
    pub(in crate::report) fn of(seq: Seq, ran: &'a HookRan, strand: Strand) -> Self {
        let HookRan { event, hook, call, outcome, exit_code, decision, .. } = ran;
        let HookRan { reason, context, message, changes_input, took_ms, .. } = ran;
        Self {
            hook_id: format!("hook-{}", seq.0),
            hook_event: event.as_str(),
            hook_name: hook,
            outcome: match outcome {
                HookOutcome::Done | HookOutcome::Blocked => "success",
                HookOutcome::Failed => "error",
                HookOutcome::Cancelled => "cancelled",
                HookOutcome::Started => "started",
            },
            exit_code: *exit_code,
            tool_use_id: call.as_ref().map(|call| &*call.0),
            decision: decision.map(|decision| decision.as_str()),
            reason,
            additional_context: context,
            system_message: message,
            updated_input: *changes_input,
            duration_ms: *took_ms,
            strand,
        }
    }
}
