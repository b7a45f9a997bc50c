//! Responses: OpenAI's protocol for models that reason between their calls.
//!
//! A request holds the whole conversation, since nothing is stored at the
//! provider; reasoning goes back in the sealed form in which it came. Other
//! servers imitate the protocol with gaps, so everything is read leniently.

mod assemble;
mod decode;
mod encode;
mod item;
mod sealed;

use reqwest::header::HeaderMap;
use secrecy::SecretString;

use super::api::{self, Options, SettingsError};
use super::http;
use crate::message::Prefix;

pub use assemble::Assembly;

/// Keys of a request that are not for the user to set.
const RESERVED_KEYS: [&str; 5] = ["input", "instructions", "model", "stream", "tools"];

/// Responses of one model.
#[derive(Debug)]
pub struct Responses {
    options: Options,
}

impl Responses {
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
        "/responses"
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
        Assembly::new(&self.options)
    }
}

#[cfg(test)]
mod tests;
