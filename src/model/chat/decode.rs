//! The pieces of an answer, as servers really send them.
//!
//! Every field may be missing, null or of a neighbouring type; unknown fields
//! are passed over. What the pieces add up to is `assemble`'s business.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Usage;
use crate::model::api::lenient::{Count, List, Text};

/// One event of a stream, or a whole answer of a server that does not stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WireChunk<'a> {
    #[serde(borrow)]
    pub(super) choices: Option<List<WireChoice<'a>>>,
    pub(super) usage: Option<WireUsage>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

impl WireChunk<'_> {
    /// Returns whether it may be an error instead of a piece. Errors have no
    /// choices, whatever else they hold.
    pub(super) fn may_be_error(&self) -> bool {
        self.error.is_some() || self.choices.is_none()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct WireChoice<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Option<WireMessage<'a>>,
    /// In place of `delta` where the server does not stream.
    #[serde(borrow)]
    pub(super) message: Option<WireMessage<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Text<'a>,
    /// The word of the provider behind OpenRouter.
    #[serde(borrow, default)]
    pub(super) native_finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(borrow, default)]
    pub(super) content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<List<WireCall<'a>>>,
    /// The one call of servers from before there were several.
    #[serde(borrow)]
    pub(super) function_call: Option<WireFunction<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireCall<'a> {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Option<WireFunction<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WireFunction<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    /// A string with JSON in it, or the JSON itself.
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    prompt_tokens_details: Option<WirePromptDetails>,
    /// DeepSeek's name for the cached tokens.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
}

#[derive(Debug, Deserialize)]
struct WirePromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl WireUsage {
    pub(super) fn usage(&self) -> Usage {
        let prompt = self.prompt_tokens.0.unwrap_or(0);
        let cached = self
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| details.cached_tokens.0)
            .or(self.prompt_cache_hit_tokens.0)
            .unwrap_or(0);
        Usage {
            input: prompt.saturating_sub(cached),
            output: self.completion_tokens.0.unwrap_or(0),
            cache_read: cached,
            ..Usage::default()
        }
    }
}
