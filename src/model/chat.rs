//! Chat Completions: the protocol of OpenAI and of nearly every other server.
//!
//! Servers differ in what they send and in what they understand. The first is
//! met by reading leniently, the second by [`Quirks`].

mod assemble;
mod decode;
mod encode;

use reqwest::header::HeaderMap;
use secrecy::SecretString;

use super::api::{self, Options, SettingsError};
use super::http;
use crate::message::Prefix;

pub use assemble::Assembly;

/// Keys of a request that are not for the user to set.
const RESERVED_KEYS: [&str; 4] = ["messages", "model", "stream", "tools"];

/// Where a server departs from what the documents say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// The key that carries the output limit.
    pub output_limit: OutputLimitKey,
}

impl Default for Quirks {
    /// What most servers understand.
    fn default() -> Self {
        Self { output_limit: OutputLimitKey::MaxTokens }
    }
}

/// The key that carries the output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLimitKey {
    /// `max_tokens`, the older one. OpenAI's newer models refuse it.
    MaxTokens,
    /// `max_completion_tokens`. Many servers do not know it.
    MaxCompletionTokens,
}

impl OutputLimitKey {
    /// Returns the key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Chat Completions with one model.
#[derive(Debug)]
pub struct Chat {
    options: Options,
}

impl Chat {
    /// Requests with these options.
    ///
    /// # Errors
    ///
    /// The extra body holds a key that is ours.
    pub fn new(options: Options) -> Result<Self, SettingsError> {
        api::reserve(&RESERVED_KEYS, &options.extra)?;
        Ok(Self { options })
    }

    pub(super) fn path(&self) -> &'static str {
        "/chat/completions"
    }

    pub(super) fn headers(&self, key: Option<&SecretString>) -> Result<HeaderMap, SettingsError> {
        http::bearer(key)
    }

    /// Returns the bytes of a request.
    #[must_use]
    pub fn body(&self, prefix: &Prefix) -> Vec<u8> {
        encode::body(&self.options, prefix)
    }

    pub(super) fn assembly(&self) -> Assembly {
        Assembly::default()
    }
}
