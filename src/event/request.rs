//! What happens to a request on its way to an answer: it waits, it fails, it
//! is made again.

use std::sync::Arc;

use crate::message::Usage;

/// A request that waits in the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttled {
    /// The model it is for.
    pub model: Arc<str>,
    /// What it waits for.
    pub cause: ThrottleCause,
    /// How long that takes, in milliseconds, where it is known.
    pub wait_ms: Option<u64>,
}

/// What a request waits for in the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThrottleCause {
    /// As many requests are under way as the provider takes.
    InFlight,
    /// The provider has said when it wants to be asked again.
    Provider,
    /// The configured requests per minute are used up.
    Requests,
    /// The configured tokens per minute are used up.
    Tokens,
}

impl ThrottleCause {
    /// Every cause.
    pub const ALL: [Self; 4] = [Self::InFlight, Self::Provider, Self::Requests, Self::Tokens];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Provider => "provider",
            Self::Requests => "requests_per_minute",
            Self::Tokens => "tokens_per_minute",
        }
    }
}

/// A request without an answer, or with one that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFailed {
    /// The model that was asked.
    pub model: Arc<str>,
    /// Which attempt of the turn it was, from 1.
    pub attempt: u32,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// What went wrong, in words.
    pub message: Arc<str>,
    /// The tokens that were counted all the same.
    pub usage: Usage,
    /// From sending it to the failure, in milliseconds.
    pub took_ms: u64,
    /// What comes of it.
    pub next: AfterFailure,
}

/// What a unit does after a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterFailure {
    /// It waits and makes the same request again. What was streamed of the
    /// answer is void.
    Retry {
        /// How long it waits at least, in milliseconds.
        delay_ms: u64,
        /// How many attempts a turn has beside the first.
        most: u32,
    },
    /// It asks another model from now on.
    Fallback {
        /// The model.
        model: Arc<str>,
    },
    /// It compacts its conversation and asks again.
    Compact,
    /// It compacts its conversation without the prompts before the last one, one of which
    /// the server may have refused, and asks again. A prompt that was joined with the one
    /// before it becomes a message of its own.
    LeaveOut,
    /// It gives up, because the request is too long and cannot be made shorter. The next
    /// prompt stays a message of its own, so that this one can be left out.
    TooLong,
    /// It gives up.
    Nothing,
}
