//! One model as it is configured, `[models.NAME]`.
//!
//! Plain values: what a key may hold is decided where it is read, what it means
//! together with a preset and the environment where a model is chosen.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};

use serde_json::{Map, Value};

use super::preset::Preset;
use crate::message::Price;
use crate::model::adaptation::Adaptation;

/// One model, `[models.NAME]`. What is `None` is as the preset says or, without
/// one, as the server thinks best.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelEntry {
    /// The provider whose address, key variable and API it has.
    pub preset: Option<&'static Preset>,
    /// How its server is spoken to.
    pub api: Option<Api>,
    /// Where its server is. Only a preset makes it optional.
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    pub key_env: Option<String>,
    /// What the server calls it; `None` if that is its name here.
    pub model: Option<String>,
    /// Most tokens of a request and its answer together.
    pub context_window: Option<u32>,
    /// Most tokens of one answer.
    pub max_output_tokens: Option<u32>,
    /// What its tokens cost; `None` if nobody said.
    pub price: Option<Price>,
    /// Most requests in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Most tokens in a minute.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// Most requests at once.
    pub max_in_flight: Option<NonZeroUsize>,
    /// Maximum seconds to the headers of a response.
    pub headers_s: Option<NonZeroU32>,
    /// Maximum seconds from the headers to the first piece of an answer.
    pub first_piece_s: Option<NonZeroU32>,
    /// Maximum seconds between two pieces of an answer.
    pub idle_s: Option<NonZeroU32>,
    /// How hard it thinks.
    pub effort: Option<Effort>,
    /// Whether it sees images.
    pub images: Option<bool>,
    /// Sent with every request.
    pub headers: Headers,
    /// Added to every request's body.
    pub extra_body: Map<String, Value>,
    /// Changes to its requests that its server is known to need.
    pub adaptations: Vec<Adaptation>,
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's Chat Completions, which nearly every server speaks.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Anthropic];

    /// Returns its name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
        }
    }

    /// Finds an API by its name in a configuration.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.as_str() == name)
    }
}

/// How hard a model thinks, in the words of its provider, such as `low`. Which
/// words there are differs from model to model, so they are passed on as
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effort(String);

impl Effort {
    /// Most characters of a level. A longer text is something else.
    pub const CAP: usize = 32;

    /// What is wrong with a text that [`Effort::new`] refuses.
    pub const RULE: &'static str = "it must be one word such as low, medium or high";

    /// Takes a level; `None` for what is none in any provider's words: nothing,
    /// several words, a whole text.
    #[must_use]
    pub fn new(level: &str) -> Option<Self> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = !level.is_empty() && level.len() <= Self::CAP && level.chars().all(is_word);
        fits.then(|| Self(level.to_owned()))
    }

    /// Returns the level as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Headers of requests, by name. Their values may be keys, so `Debug` shows
/// the names alone.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Headers(pub BTreeMap<String, String>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_is_found_by_its_name() {
        assert_eq!(Api::ALL.map(|api| Api::from_name(api.as_str())), Api::ALL.map(Some));
        assert_eq!(Api::from_name("Chat"), None);
    }

    #[test]
    fn a_level_is_one_word_and_kept_as_written() {
        for level in ["low", "xhigh", "Max", "2", "think-hard_1.5"] {
            assert_eq!(Effort::new(level).unwrap().as_str(), level);
        }
        for wrong in ["", " ", "very high", "high\n", "h\u{f6}her", &"x".repeat(33)] {
            assert_eq!(Effort::new(wrong), None, "{wrong:?}");
        }
    }
}
