//! What there is to know about one model of one server, and the limits that
//! hold unless something else is said.

use secrecy::SecretString;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

use crate::config::{AnswerTimeouts, Quirks, ServerModel};
use crate::message::Price;
use crate::model::adaptation::{Adaptations, LearnedAdaptations};
use crate::model::api::Kind;
use crate::model::gate::Lane;
use crate::model::http;
use crate::model::http::exchange::Exchanges;

/// The context window of a model whose own is not configured. Nearly every
/// model that can call tools has at least this much, and a guess that is too
/// small costs a summary where one that is too large costs the conversation.
pub const CONTEXT_WINDOW: u64 = 128_000;

/// What there is to know about one model of one server.
#[derive(Clone)]
pub struct ServedSettings {
    /// What people call it.
    pub name: Arc<str>,
    /// What the server calls it.
    pub model: String,
    /// How the server is spoken to.
    pub api: Kind,
    /// The URL that the API's path, such as `/chat/completions`, is put behind.
    pub base_url: String,
    /// `None` for servers that ask for none.
    pub key: Option<SecretString>,
    /// Most tokens of one answer; `None` leaves it to the server.
    pub max_output_tokens: Option<u32>,
    /// Most tokens that an answer can be asked for, for APIs that insist on a
    /// limit; `None` if that is not known.
    pub longest_answer: Option<u32>,
    /// Most tokens of a request and its answer together; see [`CONTEXT_WINDOW`].
    pub context_window: u64,
    /// What its tokens cost; `None` if nobody has said.
    pub price: Option<Price>,
    /// How hard it thinks, in the provider's words; `None` leaves it to the
    /// server.
    pub effort: Option<String>,
    /// Whether it takes images.
    pub takes_images: bool,
    /// Where a server of Chat Completions departs from the documents.
    pub quirks: Quirks,
    /// The known adaptations of the model.
    pub learned: Arc<LearnedAdaptations>,
    /// Sent with each request.
    pub headers: Vec<(String, String)>,
    /// Put into each request. A key here replaces one of ours.
    pub extra_body: Map<String, Value>,
    /// Its way through the gate of its provider; `None` for none.
    pub lane: Option<Lane>,
    /// Timeouts of its requests.
    pub timeouts: AnswerTimeouts,
    /// Where requests go and answers come from.
    pub exchanges: Exchanges,
}

impl ServedSettings {
    /// Chat Completions with the default limits and nothing optional.
    pub fn new(
        name: impl Into<Arc<str>>,
        model: impl Into<String>,
        base_url: impl Into<String>,
    ) -> Self {
        let model = model.into();
        let given = Adaptations::from_model_name(&model);
        Self {
            name: name.into(),
            model,
            api: Kind::Chat,
            base_url: base_url.into(),
            key: None,
            max_output_tokens: None,
            longest_answer: None,
            context_window: CONTEXT_WINDOW,
            price: None,
            effort: None,
            takes_images: false,
            quirks: Quirks::NONE,
            learned: Arc::new(LearnedAdaptations::new(given, None)),
            headers: Vec::new(),
            extra_body: Map::new(),
            lane: None,
            timeouts: AnswerTimeouts::HOSTED,
            exchanges: Exchanges::Live,
        }
    }
}

impl From<&ServerModel> for ServedSettings {
    fn from(server: &ServerModel) -> Self {
        let headers = &server.headers.0;
        Self {
            api: server.api,
            key: server.key.clone(),
            max_output_tokens: server.max_output_tokens,
            longest_answer: server.longest_answer,
            context_window: server.context_window.map_or(CONTEXT_WINDOW, u64::from),
            price: server.price,
            effort: server.effort.as_ref().map(ToString::to_string),
            takes_images: server.images,
            quirks: server.quirks,
            timeouts: server.timeouts,
            headers: headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            extra_body: server.extra_body.clone(),
            ..Self::new(server.name.as_str(), server.model.as_str(), server.base_url.as_str())
        }
    }
}

/// Shows no key, and of headers and URL only what cannot be one.
impl fmt::Debug for ServedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("ServedSettings")
            .field("name", &self.name)
            .field("model", &self.model)
            .field("api", &self.api)
            .field("base_url", &http::shown(&self.base_url))
            .field("max_output_tokens", &self.max_output_tokens)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}
