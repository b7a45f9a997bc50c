//! Anthropic's Messages API, which other servers speak too.
//!
//! Three things make it differ from the others: all outputs of one answer are
//! one message, reasoning goes back sealed, and what shall be cached is marked.

mod assemble;
mod blocks;
mod decode;
mod encode;
mod sealed;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;

use super::api::{self, Options, SettingsError};
use super::http;
use crate::message::Prefix;

pub use assemble::Assembly;
pub use encode::unmarked;

/// The version of the API that this is written for; there is no later one.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Keys of a request that are not for the user to set.
const RESERVED_KEYS: [&str; 5] = ["messages", "model", "stream", "system", "tools"];

/// The Messages API with one model.
#[derive(Debug)]
pub struct Anthropic {
    options: Arc<Options>,
}

impl Anthropic {
    /// Requests with these options.
    ///
    /// # Errors
    ///
    /// The extra body holds a key that is ours.
    pub fn new(options: Options) -> Result<Self, SettingsError> {
        api::reserve(&RESERVED_KEYS, &options.extra)?;
        Ok(Self { options: Arc::new(options) })
    }

    pub(super) fn path(&self) -> &'static str {
        "/messages"
    }

    pub(super) fn headers(&self, key: Option<&SecretString>) -> Result<HeaderMap, SettingsError> {
        let key = http::secret(HeaderName::from_static("x-api-key"), "", key)?;
        let version = (HeaderName::from_static("anthropic-version"), VERSION);
        Ok(key.into_iter().chain([version]).collect())
    }

    /// Returns the bytes of a request without its cache marks.
    ///
    /// They are what a later request starts with, less the closing `]}`.
    #[must_use]
    pub fn body(&self, prefix: &Prefix) -> Vec<u8> {
        encode::body(&self.options, prefix)
    }

    /// Returns the bytes of a request as they are sent.
    pub(super) fn sent(&self, prefix: &Prefix) -> Vec<u8> {
        encode::marked(&self.options, prefix)
    }

    pub(super) fn assembly(&self) -> Assembly {
        Assembly::new(Arc::clone(&self.options))
    }
}
