//! What a unit may use, and how it asks for it.
//!
//! The dispatcher owns the sums. A unit asks before each request and, if calls
//! are limited, before it runs those of an answer; so nobody is stopped in the
//! middle, and what goes over a limit is at most the request under way.

use std::num::NonZeroU64;

use crate::event::Failure;
use crate::message::Usd;

/// Most that a unit and all it starts may use, together; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Budget {
    /// What the requests may cost.
    pub usd: Option<Usd>,
    /// Tokens of the requests and their answers, however they are billed.
    pub tokens: Option<NonZeroU64>,
    /// Calls that may run; with none an answer is all that is left.
    pub tool_calls: Option<u32>,
}

/// Leave to send a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestLeave {
    /// Whether the calls of the answer need leave, too.
    pub calls_are_limited: bool,
}

/// Leave to run calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLeave {
    /// How many of them, from the first.
    pub count: usize,
    /// Why the rest must not run, if there is a rest.
    pub refused: Option<Failure>,
}
