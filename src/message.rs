//! What is said between a unit and its model, in no provider's format.
//!
//! These are values: the model clients turn them into bytes, the log keeps
//! them, the history is a list of them.

mod cost;
mod fork;
mod image;
mod prefix;
mod prompt;

use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;

pub use cost::{Cost, Price, Usd};
pub use fork::{fork_base, last_sent};
pub use image::{IMAGE_CAP, Image, ImageKind};
pub use prefix::{Entry, Head, Prefix, Rendered, ToolSchema};
pub use prompt::{Piece, Placed, Prompt};

/// Names one tool call within a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallId(pub Arc<str>);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for CallId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Names the call; its output carries the same id.
    pub id: CallId,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them. Not always valid JSON.
    pub arguments: String,
}

/// The one output that every call gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// Whether the call did not do what was asked.
    pub is_error: bool,
    /// What the model sees beside the text.
    pub images: Vec<Image>,
}

impl Output {
    /// An output of a call that did what was asked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// An output that tells the model what went wrong and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, images: Vec::new() }
    }
}

/// What a model answered in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reply {
    /// The text for the user or the caller; may be empty beside calls.
    pub text: String,
    /// Reasoning text, where the model shows it.
    pub thinking: String,
    /// The calls it asks for, in its order.
    pub calls: Vec<Call>,
    /// What its provider wants back with it.
    pub sealed: Option<Sealed>,
}

/// Reasoning in the form in which its provider wants it back, so that the model
/// can go on from it. Nobody else can read it, and nobody may change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Who can open it: the API, the address and the model. Any other leaves
    /// it out.
    pub by: Arc<str>,
    /// JSON, in a form of that API's client.
    pub json: Arc<str>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A prompt: the user's, or the task a unit was given.
    User(Prompt),
    /// The model's own words.
    Model(Arc<Reply>),
    /// The output of one call of the message before.
    Output {
        /// The call it answers.
        call: CallId,
        /// What the model reads.
        output: Arc<Output>,
    },
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StopReason {
    /// It said all it had to say.
    #[default]
    EndTurn,
    /// It waits for the outputs of its calls.
    ToolUse,
    /// It reached its output limit.
    MaxTokens,
    /// The provider withheld the rest.
    Refusal,
}

impl StopReason {
    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
        }
    }

    /// Reads a name written by [`StopReason::as_str`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::EndTurn, Self::ToolUse, Self::MaxTokens, Self::Refusal]
            .into_iter()
            .find(|reason| reason.as_str() == name)
    }
}

/// Tokens of one or more requests, as the provider counted them.
///
/// Sums saturate: a server may send any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens that were not read from a cache.
    pub input: u64,
    /// Tokens the model wrote, reasoning included.
    pub output: u64,
    /// Prompt tokens the provider read from its cache.
    pub cache_read: u64,
    /// Prompt tokens the provider put into its cache.
    pub cache_creation: u64,
    /// What they cost.
    pub cost: Cost,
}

impl Usage {
    /// Returns the same tokens with what they cost at a price. A cost that the
    /// provider has told itself stays, and so does that something is missing in it.
    #[must_use]
    pub fn priced(self, price: Option<&Price>) -> Self {
        let is_told = self.cost.usd != Usd::default();
        let mut cost = if is_told { self.cost } else { Cost::of(self, price) };
        cost.is_partial |= self.cost.is_partial;
        Self { cost, ..self }
    }

    /// Returns all tokens, however they were billed.
    #[must_use]
    pub fn total(self) -> u64 {
        [self.output, self.cache_read, self.cache_creation]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

/// Returns a number of things: `1 turn`, `3 turns`, `2 retries`.
#[must_use]
pub fn counted(count: impl Into<u64>, thing: &str) -> String {
    match (count.into(), thing.strip_suffix("ry")) {
        (1, _) => format!("1 {thing}"),
        (count, Some(stem)) => format!("{count} {stem}ries"),
        (count, None) => format!("{count} {thing}s"),
    }
}

/// Returns a number in at most five characters; digits are cut off, not
/// rounded.
#[must_use]
pub fn short_number(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..100_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        100_000..1_000_000 => format!("{}k", count / 1_000),
        1_000_000.. => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// Returns a length in bytes: `812 bytes`, `1.2 kB`, `120 kB`, `3.7 MB`; digits
/// are cut off, not rounded.
#[must_use]
pub fn byte_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => counted(bytes, "byte"),
        1_000..10_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        10_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000.. => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_creation = self.cache_creation.saturating_add(other.cache_creation);
        self.cost += other.cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_said_in_their_largest_unit() {
        let said = [0, 1, 999, 1_000, 9_999, 10_000, 120_345, 3_750_000, 12_345_678].map(byte_size);
        let expected = [
            "0 bytes",
            "1 byte",
            "999 bytes",
            "1.0 kB",
            "9.9 kB",
            "10 kB",
            "120 kB",
            "3.7 MB",
            "12.3 MB",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn counts_that_are_too_large_stay_at_the_largest_number() {
        let most = u64::MAX;
        let mut usage = Usage {
            input: most,
            output: most,
            cache_read: 1,
            cache_creation: most,
            ..Usage::default()
        };
        usage += usage;
        assert_eq!((usage.input, usage.cache_read, usage.total()), (most, 2, most));
    }
}
