//! The records of requests that have no answer yet: made again, or waiting.

use serde::Serialize;

use super::Strand;

/// A request failed and is made again.
#[derive(Serialize)]
pub(in crate::report) struct ApiRetry<'a> {
    pub(in crate::report) attempt: u32,
    pub(in crate::report) max_retries: u32,
    pub(in crate::report) retry_delay_ms: u64,
    /// Null where there was no answer.
    pub(in crate::report) error_status: Option<u16>,
    /// One of a few words that clients know.
    pub(in crate::report) error: &'static str,
    /// Ours: what went wrong, in words.
    pub(in crate::report) message: &'a str,
    /// Ours: the model that was asked.
    pub(in crate::report) model: &'a str,
    #[serde(flatten)]
    pub(in crate::report) strand: Strand,
}

/// What main does, where it is not to be seen from its messages.
#[derive(Serialize)]
pub(in crate::report) struct Status {
    /// One of the few words that clients know; null for anything else, which
    /// `reason` says.
    pub(in crate::report) status: Option<&'static str>,
    #[serde(flatten)]
    pub(in crate::report) wait: Wait,
}

/// Ours: why a request or a unit has to wait and how long, or how long it did.
#[derive(Serialize, Default)]
pub(in crate::report) struct Wait {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

impl Wait {
    /// A request that waits in the gate.
    pub(in crate::report) fn throttled(cause: &'static str, wait_ms: Option<u64>) -> Self {
        Self { reason: Some("throttled"), cause: Some(cause), wait_ms, ..Self::default() }
    }

    /// A unit that waits for a person's answer.
    pub(in crate::report) fn for_approval() -> Self {
        Self { reason: Some("awaiting_approval"), ..Self::default() }
    }

    /// A unit that waits again, since it was lost with its worker in an attempt.
    pub(in crate::report) fn lost(worker: &str, attempt: u32) -> Self {
        let (worker, attempt) = (Some(worker.to_owned()), Some(attempt));
        Self { reason: Some("lost"), worker, attempt, ..Self::default() }
    }

    /// A request that goes out after a wait.
    pub(in crate::report) fn over(waited_ms: u64) -> Self {
        Self { waited_ms: Some(waited_ms), ..Self::default() }
    }
}
