//! The one seam between a unit and whatever answers it.
//!
//! A [`Model`] takes a [`Request`] and streams pieces, the last of which is the
//! whole answer. Clients for providers, the `offline` rules and the `scripted`
//! player all stand behind it, so nothing above this file knows which it is.

pub mod adaptation;
pub mod anthropic;
pub mod api;
pub mod blame;
pub mod chat;
pub mod check;
pub mod gate;
pub mod http;
pub mod offline;
mod opened;
pub mod responses;
pub mod retry;
pub mod scripted;
pub mod served;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use serde_json::value::RawValue;
use thiserror::Error;

use self::adaptation::{AdaptationClaim, RefusedRequest};
use self::gate::Lane;
use crate::event::{FailureKind, UnitId};
use crate::message::{Prefix, Price, Reply, StopReason, Usage, Usd};

pub use opened::Models;

/// Something that answers requests.
pub trait Model: Send + Sync {
    /// Returns the name people gave it; it goes into records and the log.
    fn name(&self) -> &Arc<str>;

    /// Returns the bytes that a request with this prefix sends, less what moves
    /// from request to request; none if nothing is sent.
    fn body(&self, _prefix: &Prefix) -> Vec<u8> {
        Vec::new()
    }

    /// Returns its way through the gate of its provider; `None` if there is no
    /// provider.
    fn lane(&self) -> Option<&Lane> {
        None
    }

    /// Returns what is known of it.
    fn facts(&self) -> &Facts {
        &Facts::UNBOUNDED
    }

    /// Takes `tokens` as the context window from now on, because the server named it when
    /// it refused a request. Returns whether that is less than what was known.
    fn learn_window(&self, _tokens: NonZeroU64) -> bool {
        false
    }

    /// Learns from a refused request an adaptation for all later requests; `None`
    /// if no known adaptation helps.
    fn adapt(&self, _request: &Request, _refused: &RefusedRequest) -> Option<AdaptationOutcome> {
        None
    }

    /// Returns advice to the user about a request that no adaptation helps.
    fn advise(&self, _request: &Request, _refused: &RefusedRequest) -> Option<String> {
        None
    }

    /// Answers a request piece by piece.
    ///
    /// The last item is either [`Chunk::Finished`] or an error. Dropping the
    /// stream ends the request.
    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>>;
}

/// What is known of a model beside how to ask it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Most tokens that a request and its answer have together; `u64::MAX`
    /// where nothing bounds them.
    pub context_window: u64,
    /// Most tokens of one answer; `None` leaves it to the provider.
    pub max_output_tokens: Option<u32>,
    /// What its tokens cost; `None` if nobody has said.
    pub price: Option<Price>,
    /// Whether it takes images.
    pub takes_images: bool,
}

impl Facts {
    /// A model without bounds that costs nothing and sees nothing.
    pub const UNBOUNDED: Self = Self {
        context_window: u64::MAX,
        max_output_tokens: None,
        price: Some(Price {
            input: Usd(0),
            output: Usd(0),
            cache_read: Usd(0),
            cache_write: Usd(0),
        }),
        takes_images: false,
    };
}

/// An adaptation that a refused request asks for. The request is to be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdaptationOutcome {
    /// It is new.
    Now {
        /// A sentence for the user.
        notice: String,
        /// To be kept until the request was repeated.
        claim: AdaptationClaim,
    },
    /// Another unit has learned it, and reported it.
    Before {
        /// To be kept until the request was repeated.
        claim: AdaptationClaim,
    },
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Everything that is sent.
    pub prefix: Prefix,
    /// Who asks. Not sent: for scripts, rules and traces.
    pub asker: Asker,
    /// JSON schema that the text of the answer must fit; then the model may call no tool.
    /// `None` asks for any answer. Models without a server ignore it.
    pub text_schema: Option<Arc<RawValue>>,
}

/// Who makes a request, for models that play a part for each unit.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The unit.
    pub unit: UnitId,
    /// The agent definition it follows; `main` for the main conversation.
    pub agent: Arc<str>,
    /// What the unit is for; empty for the main conversation.
    pub description: Arc<str>,
    /// What for.
    pub purpose: Purpose,
    /// The turn's number within the unit, from 1; of a summary, the summary's.
    pub turn: u32,
    /// Which attempt of this turn or summary it is, from 1; with each model
    /// anew.
    pub attempt: u32,
    /// Whether the unit has sent nothing that this request begins with: it is
    /// the first one, or the first after a compaction.
    pub is_afresh: bool,
    /// In a fork's first turn the parent whose requests this one goes on from;
    /// `None` if that had sent none.
    pub forked_from: Option<UnitId>,
}

/// What a request is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The unit's next turn.
    Turn,
    /// A summary that is to take the conversation's place.
    Summary,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Chunk {
    /// More of the text.
    Text(Arc<str>),
    /// More of the reasoning.
    Thinking(Arc<str>),
    /// The request was sent a second time beside the first; the sentence is for the user. The
    /// cost of the dropped request is unknown.
    SentTwice(Arc<str>),
    /// The whole answer. Nothing follows.
    Finished(Box<Answer>),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What the model said.
    pub reply: Reply,
    /// What the provider counted; zeros if it did not say.
    pub usage: Usage,
    /// Why it stopped.
    pub stop: StopReason,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ModelError {
    /// What sort of error it is.
    pub kind: ModelErrorKind,
    /// What happened, with the provider's own words where it gave any.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The earliest time at which the provider wants to hear of it again.
    pub retry_after: Option<Duration>,
    /// What the provider itself says about trying again.
    pub should_retry: Option<bool>,
    /// The tokens that were counted before it went wrong. They are paid for.
    pub spent: Usage,
    /// The model's context window in tokens, if an error of the kind
    /// [`Overflow`](ModelErrorKind::Overflow) names it.
    pub window: Option<NonZeroU64>,
    /// The server's words, if it refused the request.
    pub refused: Option<Arc<RefusedRequest>>,
}

impl ModelError {
    /// An error of the given kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            should_retry: None,
            spent: Usage::default(),
            window: None,
            refused: None,
        }
    }

    /// Returns whether the provider refuses the request because it has too many, ours or
    /// others'. Several providers and servers use the status 503 for that.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let is_busy = self.kind == ModelErrorKind::Overloaded && self.status == Some(503);
        is_busy || self.kind == ModelErrorKind::RateLimited
    }

    /// Returns whether the model had begun to work on an answer when it went wrong.
    #[must_use]
    pub fn broke_off(&self) -> bool {
        match self.kind {
            ModelErrorKind::Cut
            | ModelErrorKind::Silent
            | ModelErrorKind::Unusable
            | ModelErrorKind::Empty => true,
            ModelErrorKind::Authentication
            | ModelErrorKind::Request
            | ModelErrorKind::Overflow
            | ModelErrorKind::RateLimited
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Connection
            | ModelErrorKind::Unreachable
            | ModelErrorKind::NotRunning => false,
        }
    }
}

/// The sorts of model error that lead to different decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// 401 or 403: the key is missing, wrong or not allowed.
    Authentication,
    /// 400, 404, 422: this request will never work.
    Request,
    /// 413, or an error that says so: the request is longer than the model's
    /// context window, or than its server takes.
    Overflow,
    /// 429, 529: the provider has too many requests, ours or others'.
    RateLimited,
    /// 408, 409, 425, other 5xx: the same request may work later.
    Overloaded,
    /// The connection broke before the answer began.
    Connection,
    /// No connection could be made.
    Unreachable,
    /// Nothing listens at the address, which is on this machine.
    NotRunning,
    /// The answer broke off before its end, or its provider failed.
    Cut,
    /// The answer came to its end, but is malformed, or nothing proves that it is
    /// whole. The same request mostly gets the same again.
    Unusable,
    /// The answer came to its end and is empty.
    Empty,
    /// The server was silent for too long.
    Silent,
}

impl ModelErrorKind {
    /// Returns the sort of error an HTTP status stands for.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Authentication,
            413 => Self::Overflow,
            429 | 529 => Self::RateLimited,
            408 | 409 | 425 | 500.. => Self::Overloaded,
            _ => Self::Request,
        }
    }

    /// Returns the sort of failure a unit has that gives up on this error.
    #[must_use]
    pub fn failure(self) -> FailureKind {
        match self {
            Self::Authentication => FailureKind::Authentication,
            Self::Request => FailureKind::Request,
            Self::Overflow => FailureKind::Overflow,
            Self::RateLimited
            | Self::Overloaded
            | Self::Connection
            | Self::Unreachable
            | Self::NotRunning
            | Self::Cut
            | Self::Unusable
            | Self::Silent => FailureKind::Provider,
            Self::Empty => FailureKind::EmptyAnswer,
        }
    }
}
