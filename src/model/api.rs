//! The APIs that servers speak, behind one seam.
//!
//! An [`Api`] turns a conversation into the bytes of a request, an [`Assembly`]
//! turns the events of one answer into the answer. Neither knows sockets or
//! clocks: those are [`served`](super::served)'s business.

pub(super) mod calls;
pub(super) mod finish;
pub(super) mod lenient;

use std::collections::BTreeSet;
use std::sync::Arc;

use reqwest::header::HeaderMap;
use secrecy::SecretString;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use thiserror::Error;

use super::anthropic::{self, Anthropic};
use super::chat::{self, Chat};
use super::http::ANSWER_CAP;
use super::http::secrets::Secrets;
use super::http::sse::Event;
use super::responses::{self, Responses};
use super::{Answer, Asker, Chunk, ModelError, ModelErrorKind};
use crate::config::Quirks;
use crate::message::{Prefix, Usage};

pub use crate::config::Api as Kind;

/// What every request of one model says beside tools and messages.
#[derive(Debug, Clone)]
pub struct Options {
    /// The model's name as the server knows it.
    pub model: String,
    /// Most tokens of one answer; `None` leaves it to the server.
    pub max_output_tokens: Option<u32>,
    /// Most tokens that an answer can be asked for, for APIs that insist on a
    /// limit; `None` if that is not known.
    pub longest_answer: Option<u32>,
    /// How hard it thinks, in the provider's words; `None` leaves it to the
    /// server.
    pub effort: Option<String>,
    /// Whether it takes images.
    pub takes_images: bool,
    /// Further keys, as configured. A key that is also one of ours replaces it.
    pub extra: Map<String, Value>,
    /// Who can open what is sealed in its answers: API, address and model.
    pub sealed_by: Arc<str>,
    /// Where a server of Chat Completions departs from the documents.
    pub quirks: Quirks,
    /// Optional keys of a request, its messages or its tools that are not sent.
    pub without: BTreeSet<Arc<str>>,
    /// Set if a message of calls alone has `null` for its content.
    pub sends_null_content: bool,
    /// What its errors must not quote.
    pub secrets: Secrets,
    /// JSON schema that the text of the answer must fit; then the model may call no tool.
    pub text_schema: Option<Arc<RawValue>>,
}

impl Options {
    /// Only the model's name.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            max_output_tokens: None,
            longest_answer: None,
            effort: None,
            takes_images: false,
            extra: Map::new(),
            sealed_by: "".into(),
            quirks: Quirks::NONE,
            without: BTreeSet::new(),
            sends_null_content: true,
            secrets: Secrets::default(),
            text_schema: None,
        }
    }

    /// Returns whether an optional key is not sent.
    pub(in crate::model) fn leaves_out(&self, key: &str) -> bool {
        self.without.contains(key)
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// The base URL is no HTTP URL.
    #[error("base URL `{url}` cannot be used: {reason}")]
    Url {
        /// The URL, without what may be secret in it.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key holds characters that no header can.
    #[error("the key holds characters that cannot be sent; is there a line break in it?")]
    Key,
    /// A header cannot be sent.
    #[error("header `{name}` cannot be sent: its name or its value holds a forbidden character")]
    Header {
        /// Its name.
        name: String,
    },
    /// A key of the extra body is ours.
    #[error("`{key}` cannot be set in the extra body")]
    ReservedKey {
        /// The key.
        key: &'static str,
    },
}

/// How a model is asked.
#[derive(Debug)]
pub enum Api {
    /// Chat Completions.
    Chat(Chat),
    /// OpenAI's Responses.
    Responses(Responses),
    /// Anthropic's Messages.
    Anthropic(Anthropic),
}

impl Api {
    /// The API of this kind for one model.
    ///
    /// # Errors
    ///
    /// Something in the options cannot be sent.
    pub fn new(kind: Kind, options: Options) -> Result<Self, SettingsError> {
        match kind {
            Kind::Chat => Chat::new(options).map(Self::Chat),
            Kind::Responses => Responses::new(options).map(Self::Responses),
            Kind::Anthropic => Anthropic::new(options).map(Self::Anthropic),
        }
    }

    /// Returns what is put behind the base URL.
    #[must_use]
    pub fn path(&self) -> &'static str {
        match self {
            Self::Chat(api) => api.path(),
            Self::Responses(api) => api.path(),
            Self::Anthropic(api) => api.path(),
        }
    }

    /// Returns what goes with each request.
    ///
    /// # Errors
    ///
    /// The key cannot be sent.
    pub fn headers(&self, key: Option<&SecretString>) -> Result<HeaderMap, SettingsError> {
        match self {
            Self::Chat(api) => api.headers(key),
            Self::Responses(api) => api.headers(key),
            Self::Anthropic(api) => api.headers(key),
        }
    }

    /// Returns the bytes of a request that later ones start with.
    #[must_use]
    pub fn body(&self, prefix: &Prefix) -> Vec<u8> {
        match self {
            Self::Chat(api) => api.body(prefix),
            Self::Responses(api) => api.body(prefix),
            Self::Anthropic(api) => api.body(prefix),
        }
    }

    /// Returns the bytes of a request as they are sent: those, and what moves
    /// from request to request.
    #[must_use]
    pub fn sent(&self, prefix: &Prefix) -> Vec<u8> {
        match self {
            Self::Chat(api) => api.body(prefix),
            Self::Responses(api) => api.body(prefix),
            Self::Anthropic(api) => api.sent(prefix),
        }
    }

    /// Returns what puts one answer together.
    #[must_use]
    pub fn assembly(&self) -> Assembly {
        match self {
            Self::Chat(api) => Assembly::Chat(api.assembly()),
            Self::Responses(api) => Assembly::Responses(api.assembly()),
            Self::Anthropic(api) => Assembly::Anthropic(api.assembly()),
        }
    }
}

/// An answer that is being put together.
#[derive(Debug)]
pub enum Assembly {
    /// Of Chat Completions.
    Chat(chat::Assembly),
    /// Of Responses.
    Responses(responses::Assembly),
    /// Of Anthropic's Messages.
    Anthropic(anthropic::Assembly),
}

impl Assembly {
    /// Takes one event and says its text. Blank events are not for here.
    ///
    /// # Errors
    ///
    /// The event is an error of the provider or cannot be read, or the answer
    /// has become too long.
    pub fn take(&mut self, event: Event<'_>, say: &mut dyn FnMut(Chunk)) -> Result<(), ModelError> {
        match self {
            Self::Chat(answer) => answer.take(event, say),
            Self::Responses(answer) => answer.take(event, say),
            Self::Anthropic(answer) => answer.take(event, say),
        }
    }

    /// Takes the whole answer of a server that does not stream, and says its
    /// text.
    ///
    /// # Errors
    ///
    /// It is an error of the provider, or no answer.
    pub fn take_whole(
        &mut self,
        bytes: &[u8],
        say: &mut dyn FnMut(Chunk),
    ) -> Result<(), ModelError> {
        match self {
            Self::Chat(answer) => answer.take_whole(bytes, say),
            Self::Responses(answer) => answer.take_whole(bytes, say),
            Self::Anthropic(answer) => answer.take_whole(bytes, say),
        }
    }

    /// Tells whether the last event added something: text, a part of a call,
    /// or the answer's end.
    #[must_use]
    pub fn grew(&self) -> bool {
        match self {
            Self::Chat(answer) => answer.grew(),
            Self::Responses(answer) => answer.grew(),
            Self::Anthropic(answer) => answer.grew(),
        }
    }

    /// Tells whether the provider has said why the answer ended; only counts
    /// may follow.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Chat(answer) => answer.has_ended(),
            Self::Responses(answer) => answer.has_ended(),
            Self::Anthropic(answer) => answer.has_ended(),
        }
    }

    /// Tells whether nothing can follow.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self {
            Self::Chat(answer) => answer.is_over(),
            Self::Responses(answer) => answer.is_over(),
            Self::Anthropic(answer) => answer.is_over(),
        }
    }

    /// Tells whether the answer reached its end, as far as anyone can see.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Chat(answer) => answer.is_complete(),
            Self::Responses(answer) => answer.is_complete(),
            Self::Anthropic(answer) => answer.is_complete(),
        }
    }

    /// Returns the tokens that were counted so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        match self {
            Self::Chat(answer) => answer.usage(),
            Self::Responses(answer) => answer.usage(),
            Self::Anthropic(answer) => answer.usage(),
        }
    }

    /// Returns the whole answer.
    ///
    /// # Errors
    ///
    /// The provider gave an error as the reason for the end.
    pub fn finish(self, asker: &Asker, prefix: &Prefix) -> Result<Answer, ModelError> {
        match self {
            Self::Chat(answer) => answer.finish(asker, prefix),
            Self::Responses(answer) => answer.finish(asker, prefix),
            Self::Anthropic(answer) => answer.finish(asker, prefix),
        }
    }
}

/// Most calls of one answer, and most items where the API has items. Four times
/// as many calls as are run of one answer, and more than any model sends: each
/// takes memory beside its texts, and each new event is looked up among them.
pub(super) const PARTS_CAP: usize = 1_024;

/// What a part of an answer counts beside its texts: about what it takes in
/// memory, so that empty ones reach [`ANSWER_CAP`] too.
pub(super) const PART_COST: usize = 128;

/// The error of an answer that has more than [`PARTS_CAP`] parts.
pub(super) fn too_many() -> ModelError {
    let message = format!("the answer has more than {PARTS_CAP} calls or items");
    ModelError::new(ModelErrorKind::Request, message)
}

/// The error of an answer whose texts have more than [`ANSWER_CAP`] bytes.
pub(super) fn too_long() -> ModelError {
    let message = format!("the answer is longer than {} MiB", ANSWER_CAP >> 20);
    ModelError::new(ModelErrorKind::Request, message)
}

/// Name under which a request tells a server the schema of its answer.
pub(super) const TEXT_SCHEMA_NAME: &str = "answer";

/// Renders a part of a request.
pub(super) fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("strings and raw JSON always serialise to memory")
}

/// Tells of the first of these keys that is in a configured body.
pub(super) fn reserve(
    keys: &[&'static str],
    extra: &Map<String, Value>,
) -> Result<(), SettingsError> {
    match keys.iter().find(|key| extra.contains_key(**key)) {
        Some(key) => Err(SettingsError::ReservedKey { key }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
