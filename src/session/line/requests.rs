//! The bodies of what happens to a request: it waits, it fails, it is answered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::{named, text};
use crate::event::{AfterFailure, EventKind, Replied, RequestFailed, ThrottleCause, Throttled};
use crate::message::{Call, CallId, Cost, Reply, Sealed, StopReason, Usage, Usd};

#[derive(Serialize, Deserialize)]
pub(super) struct ThrottledBody<'a> {
    model: Text<'a>,
    cause: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
}

impl<'a> ThrottledBody<'a> {
    pub(super) fn of(throttled: &'a Throttled) -> Self {
        let Throttled { model, cause, wait_ms } = throttled;
        Self { model: text(model), cause: cause.as_str().into(), wait_ms: *wait_ms }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        Ok(EventKind::Throttled(Throttled {
            model: self.model.into(),
            cause: named(&ThrottleCause::ALL, ThrottleCause::as_str, &self.cause)?,
            wait_ms: self.wait_ms,
        }))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct Admitted {
    waited_ms: u64,
}

impl Admitted {
    pub(super) fn of(waited_ms: u64) -> Self {
        Self { waited_ms }
    }

    pub(super) fn into_kind(self) -> EventKind {
        EventKind::Admitted { waited_ms: self.waited_ms }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct FailedBody<'a> {
    model: Text<'a>,
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    message: Text<'a>,
    usage: UsageBody,
    took_ms: u64,
    next: NextBody<'a>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum NextBody<'a> {
    Retry { delay_ms: u64, most: u32 },
    Fallback { model: Text<'a> },
    Compact,
    LeaveOut,
    TooLong,
    Nothing,
}

impl<'a> FailedBody<'a> {
    pub(super) fn of(failed: &'a RequestFailed) -> Self {
        let RequestFailed { model, attempt, status, message, usage, took_ms, next } = failed;
        Self {
            model: text(model),
            attempt: *attempt,
            status: *status,
            message: text(message),
            usage: UsageBody::of(*usage),
            took_ms: *took_ms,
            next: match next {
                AfterFailure::Retry { delay_ms, most } => {
                    NextBody::Retry { delay_ms: *delay_ms, most: *most }
                }
                AfterFailure::Fallback { model } => NextBody::Fallback { model: text(model) },
                AfterFailure::Compact => NextBody::Compact,
                AfterFailure::LeaveOut => NextBody::LeaveOut,
                AfterFailure::TooLong => NextBody::TooLong,
                AfterFailure::Nothing => NextBody::Nothing,
            },
        }
    }

    pub(super) fn into_kind(self) -> EventKind {
        let Self { model, attempt, status, message, usage, took_ms, next } = self;
        EventKind::RequestFailed(Arc::new(RequestFailed {
            model: model.into(),
            attempt,
            status,
            message: message.into(),
            usage: usage.into_usage(),
            took_ms,
            next: match next {
                NextBody::Retry { delay_ms, most } => AfterFailure::Retry { delay_ms, most },
                NextBody::Fallback { model } => AfterFailure::Fallback { model: model.into() },
                NextBody::Compact => AfterFailure::Compact,
                NextBody::LeaveOut => AfterFailure::LeaveOut,
                NextBody::TooLong => AfterFailure::TooLong,
                NextBody::Nothing => AfterFailure::Nothing,
            },
        }))
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct RepliedBody<'a> {
    text: Text<'a>,
    thinking: Text<'a>,
    calls: Vec<CallBody<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<SealedBody<'a>>,
    model: Text<'a>,
    usage: UsageBody,
    stop: Text<'a>,
    took_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct CallBody<'a> {
    id: Text<'a>,
    tool: Text<'a>,
    arguments: Text<'a>,
}

#[derive(Serialize, Deserialize)]
struct SealedBody<'a> {
    by: Text<'a>,
    json: Text<'a>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct UsageBody {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_creation: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    nano_usd: u64,
    /// Whether the price of some of it is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unpriced: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl<'a> RepliedBody<'a> {
    pub(super) fn of(replied: &'a Replied) -> Self {
        let calls = replied.reply.calls.iter().map(|call| CallBody {
            id: text(&call.id.0),
            tool: (&*call.tool).into(),
            arguments: (&*call.arguments).into(),
        });
        Self {
            text: (&*replied.reply.text).into(),
            thinking: (&*replied.reply.thinking).into(),
            calls: calls.collect(),
            sealed: replied
                .reply
                .sealed
                .as_ref()
                .map(|sealed| SealedBody { by: text(&sealed.by), json: text(&sealed.json) }),
            model: text(&replied.model),
            usage: UsageBody::of(replied.usage),
            stop: replied.stop.as_str().into(),
            took_ms: replied.took_ms,
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let stop = StopReason::from_name(&self.stop)
            .ok_or_else(|| format!("`{}` is not a stop reason", self.stop))?;
        let calls = self.calls.into_iter().map(|call| Call {
            id: CallId(call.id.into()),
            tool: call.tool.into_owned(),
            arguments: call.arguments.into_owned(),
        });
        let reply = Reply {
            text: self.text.into_owned(),
            thinking: self.thinking.into_owned(),
            calls: calls.collect(),
            sealed: self
                .sealed
                .map(|sealed| Sealed { by: sealed.by.into(), json: sealed.json.into() }),
        };
        Ok(EventKind::Replied(Replied {
            reply: Arc::new(reply),
            model: self.model.into(),
            usage: self.usage.into_usage(),
            stop,
            took_ms: self.took_ms,
        }))
    }
}

impl UsageBody {
    pub(super) fn of(usage: Usage) -> Self {
        let Usage { input, output, cache_read, cache_creation, cost } = usage;
        let Cost { usd: Usd(nano_usd), is_partial: unpriced } = cost;
        Self { input, output, cache_read, cache_creation, nano_usd, unpriced }
    }

    pub(super) fn into_usage(self) -> Usage {
        let Self { input, output, cache_read, cache_creation, nano_usd, unpriced } = self;
        let cost = Cost { usd: Usd(nano_usd), is_partial: unpriced };
        Usage { input, output, cache_read, cache_creation, cost }
    }
}
