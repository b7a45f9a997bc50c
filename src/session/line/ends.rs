//! The bodies of ends: what became of units and invocations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::{named, text, unit_names, units};
use super::requests::UsageBody;
use crate::event::{
    CancelReason, EventKind, Failure, FailureKind, ForkShare, InvocationEnd, Outcome, PrefixShare,
    UnitEnd,
};

#[derive(Serialize, Deserialize)]
pub(super) struct LostBody<'a> {
    worker: Text<'a>,
    attempt: u32,
}

impl<'a> LostBody<'a> {
    pub(super) fn of(worker: &'a Arc<str>, attempt: u32) -> Self {
        Self { worker: text(worker), attempt }
    }

    pub(super) fn into_kind(self) -> EventKind {
        EventKind::Lost { worker: self.worker.into(), attempt: self.attempt }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct UnitEnded<'a> {
    outcome: OutcomeBody<'a>,
    /// Left out where it is the outcome's own.
    text: Option<Text<'a>>,
    usage: UsageBody,
    turns: u32,
    tool_uses: u32,
    duration_ms: u64,
    output_file: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<ForkShareBody>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ShareBody {
    shared_bytes: u64,
    total_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct ForkShareBody {
    #[serde(flatten)]
    prefix: ShareBody,
    cached_tokens: u64,
}

impl ShareBody {
    pub(super) fn of(share: &PrefixShare) -> Self {
        let PrefixShare { shared_bytes, total_bytes } = *share;
        Self { shared_bytes, total_bytes }
    }

    pub(super) fn into_share(self) -> PrefixShare {
        let Self { shared_bytes, total_bytes } = self;
        PrefixShare { shared_bytes, total_bytes }
    }
}

impl ForkShareBody {
    fn of(share: &ForkShare) -> Self {
        let ForkShare { prefix, cached_tokens } = share;
        Self { prefix: ShareBody::of(prefix), cached_tokens: *cached_tokens }
    }

    fn into_share(self) -> ForkShare {
        let Self { prefix, cached_tokens } = self;
        ForkShare { prefix: prefix.into_share(), cached_tokens }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum OutcomeBody<'a> {
    Done { text: Text<'a> },
    Failed { kind: Text<'a>, message: Text<'a> },
    Cancelled { ran: bool },
    Interrupted,
}

impl<'a> OutcomeBody<'a> {
    pub(super) fn of(outcome: &'a Outcome) -> Self {
        match outcome {
            Outcome::Done { text: answer } => Self::Done { text: text(answer) },
            Outcome::Failed(Failure { kind, message }) => {
                Self::Failed { kind: kind.as_str().into(), message: text(message) }
            }
            Outcome::Cancelled { ran } => Self::Cancelled { ran: *ran },
            Outcome::Interrupted => Self::Interrupted,
        }
    }

    pub(super) fn into_outcome(self) -> Result<Outcome, String> {
        Ok(match self {
            Self::Done { text } => Outcome::Done { text: text.into() },
            Self::Failed { kind, message } => {
                Outcome::failed(named(&FailureKind::ALL, FailureKind::as_str, &kind)?, message)
            }
            Self::Cancelled { ran } => Outcome::Cancelled { ran },
            Self::Interrupted => Outcome::Interrupted,
        })
    }
}

impl<'a> UnitEnded<'a> {
    pub(super) fn of(end: &'a UnitEnd) -> Self {
        Self {
            outcome: OutcomeBody::of(&end.outcome),
            text: apart(&end.outcome, &end.text),
            usage: UsageBody::of(end.usage),
            turns: end.turns,
            tool_uses: end.tool_uses,
            duration_ms: end.duration_ms,
            output_file: end.output_file.as_ref().map(text),
            share: end.share.as_ref().map(ForkShareBody::of),
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let outcome = self.outcome.into_outcome()?;
        Ok(EventKind::UnitEnded(Arc::new(UnitEnd {
            text: together(&outcome, self.text),
            outcome,
            usage: self.usage.into_usage(),
            turns: self.turns,
            tool_uses: self.tool_uses,
            duration_ms: self.duration_ms,
            output_file: self.output_file.map(Into::into),
            share: self.share.map(ForkShareBody::into_share),
        })))
    }
}

/// Returns a text that stands beside an outcome, unless the outcome has it.
fn apart<'a>(outcome: &Outcome, beside: &'a Arc<str>) -> Option<Text<'a>> {
    match outcome {
        Outcome::Done { text: answer } if answer == beside => None,
        Outcome::Done { text: _ }
        | Outcome::Failed(_)
        | Outcome::Cancelled { ran: _ }
        | Outcome::Interrupted => Some(text(beside)),
    }
}

fn together(outcome: &Outcome, beside: Option<Text<'_>>) -> Arc<str> {
    match (beside, outcome) {
        (Some(beside), _) => beside.into(),
        (None, Outcome::Done { text }) => Arc::clone(text),
        (None, Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted) => {
            Arc::default()
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct InvocationEnded<'a> {
    outcome: OutcomeBody<'a>,
    /// Left out where it is the outcome's own.
    text: Option<Text<'a>>,
    cancel: Option<Text<'a>>,
    unfinished: Vec<Text<'a>>,
}

impl<'a> InvocationEnded<'a> {
    pub(super) fn of(end: &'a InvocationEnd) -> Self {
        Self {
            outcome: OutcomeBody::of(&end.outcome),
            text: apart(&end.outcome, &end.text),
            cancel: end.cancel.map(|reason| reason.as_str().into()),
            unfinished: unit_names(&end.unfinished),
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let cancel = match &self.cancel {
            Some(name) => Some(named(&CancelReason::ALL, CancelReason::as_str, name)?),
            None => None,
        };
        let outcome = self.outcome.into_outcome()?;
        Ok(EventKind::InvocationEnded(Arc::new(InvocationEnd {
            text: together(&outcome, self.text),
            outcome,
            cancel,
            unfinished: units(&self.unfinished)?,
        })))
    }
}
