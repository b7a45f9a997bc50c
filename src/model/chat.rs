//! Chat Completions: the protocol of OpenAI and of nearly every other server.
//!
//! Servers differ in what they send and in what they understand. The first is
//! met by reading leniently, the second by [`Quirks`](crate::config::Quirks).

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
        Assembly::new(self.options.secrets.clone())
    }
}
