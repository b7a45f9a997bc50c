//! The body of a hook that ran.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::{named, text};
use crate::event::{EventKind, HookDecision, HookEvent, HookOutcome, HookRan};
use crate::message::CallId;

#[derive(Serialize, Deserialize)]
pub(super) struct HookRanBody<'a> {
    event: Text<'a>,
    hook: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<Text<'a>>,
    outcome: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decision: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    reason: Text<'a>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    context: Text<'a>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    message: Text<'a>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    changes_input: bool,
    took_ms: u64,
}

impl<'a> HookRanBody<'a> {
    pub(super) fn of(ran: &'a HookRan) -> Self {
        let HookRan { event, hook, call, outcome, exit_code, decision, .. } = ran;
        let HookRan { reason, context, message, changes_input, took_ms, .. } = ran;
        Self {
            event: event.as_str().into(),
            hook: text(hook),
            call: call.as_ref().map(|call| text(&call.0)),
            outcome: outcome.as_str().into(),
            exit_code: *exit_code,
            decision: decision.map(|decision| decision.as_str().into()),
            reason: text(reason),
            context: text(context),
            message: text(message),
            changes_input: *changes_input,
            took_ms: *took_ms,
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let decision = |name: Text<'_>| named(&HookDecision::ALL, HookDecision::as_str, &name);
        Ok(EventKind::HookRan(Arc::new(HookRan {
            event: named(&HookEvent::ALL, HookEvent::as_str, &self.event)?,
            hook: self.hook.into(),
            call: self.call.map(|call| CallId(call.into())),
            outcome: named(&HookOutcome::ALL, HookOutcome::as_str, &self.outcome)?,
            exit_code: self.exit_code,
            decision: self.decision.map(decision).transpose()?,
            reason: self.reason.into(),
            context: self.context.into(),
            message: self.message.into(),
            changes_input: self.changes_input,
            took_ms: self.took_ms,
        })))
    }
}
