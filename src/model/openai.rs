//! Chat Completions: the protocol of OpenAI and of nearly every local server.
//!
//! The library speaks HTTP and finds the events in the stream; the request's
//! bytes, the reading of each piece and all decisions about errors are ours,
//! because servers differ in all three. Retries and rates are left to others.

mod assemble;
mod decode;
mod encode;
mod events;
mod fault;
mod probe;
mod transport;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_openai::error::OpenAIError;
use async_openai::types::stream::StreamResponse;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use secrecy::SecretString;
use serde_json::{Map, Value};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use self::assemble::Assembly;
use self::decode::WireChunk;
use self::encode::Body;
use self::events::{EVENT_CAP, Ended, Ending};
use self::transport::{Address, NotAStream};
use super::{Answer, Chunk, Facts, Model, ModelError, ModelErrorKind, Request};
use crate::config::ServerModel;
use crate::message::Prefix;

pub use encode::{Options, body};
pub use fault::ERROR_TEXT_CAP;
pub use probe::served_at;

/// Longest wait for the first piece of an answer. A local server may read a
/// long prompt for minutes before it writes.
pub const FIRST_BYTE: Duration = Duration::from_secs(180);

/// Longest wait between two pieces. Comments that keep a connection open do
/// not count as pieces: a proxy sends them for a dead server too.
pub const IDLE: Duration = Duration::from_secs(60);

/// Most bytes of one answer. Far above any output limit: this stops a server
/// that never ends.
pub const ANSWER_CAP: usize = 16 * 1024 * 1024;

/// Longest wait for the token counts once the answer itself has ended. Some
/// servers never send them and never close the stream.
const COUNTS_LIMIT: Duration = Duration::from_secs(3);

/// The context window of a model whose own is not configured. Nearly every
/// model that can call tools has at least this much, and a guess that is too
/// small costs a summary where one that is too large costs the conversation.
pub const CONTEXT_WINDOW: u64 = 128_000;

/// Keys of a request that are not for the user to set.
const RESERVED_KEYS: [&str; 4] = ["messages", "model", "stream", "tools"];

/// What there is to know about one model of one server.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// What people call it.
    pub name: Arc<str>,
    /// What the server calls it.
    pub model: String,
    /// The URL that `/chat/completions` is put behind.
    pub base_url: String,
    /// Sent as a bearer token; `None` for servers that ask for none.
    pub key: Option<SecretString>,
    /// Most tokens of one answer; `None` leaves it to the server.
    pub max_output_tokens: Option<u32>,
    /// Most tokens of a request and its answer together; see [`CONTEXT_WINDOW`].
    pub context_window: u64,
    /// Sent with each request.
    pub headers: Vec<(String, String)>,
    /// Put into each request. A key here replaces one of ours.
    pub extra_body: Map<String, Value>,
    /// Longest wait for the first piece; see [`FIRST_BYTE`].
    pub first_byte: Duration,
    /// Longest wait between pieces; see [`IDLE`].
    pub idle: Duration,
}

impl OpenAiSettings {
    /// Settings with the default limits and nothing optional.
    pub fn new(
        name: impl Into<Arc<str>>,
        model: impl Into<String>,
        base_url: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            model: model.into(),
            base_url: base_url.into(),
            key: None,
            max_output_tokens: None,
            context_window: CONTEXT_WINDOW,
            headers: Vec::new(),
            extra_body: Map::new(),
            first_byte: FIRST_BYTE,
            idle: IDLE,
        }
    }
}

impl From<&ServerModel> for OpenAiSettings {
    fn from(server: &ServerModel) -> Self {
        let headers = &server.headers.0;
        Self {
            key: server.key.clone(),
            max_output_tokens: server.max_output_tokens,
            context_window: server.context_window.map_or(CONTEXT_WINDOW, u64::from),
            headers: headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            extra_body: server.extra_body.clone(),
            ..Self::new(server.name.as_str(), server.model.as_str(), server.base_url.as_str())
        }
    }
}

/// Shows no key, and of headers and URL only what cannot be one.
impl fmt::Debug for OpenAiSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("OpenAiSettings")
            .field("name", &self.name)
            .field("model", &self.model)
            .field("base_url", &transport::shown(&self.base_url))
            .field("max_output_tokens", &self.max_output_tokens)
            .field("headers", &headers)
            .finish_non_exhaustive()
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

/// A model behind the Chat Completions protocol.
pub struct OpenAi {
    name: Arc<str>,
    facts: Facts,
    endpoint: Arc<Endpoint>,
}

struct Endpoint {
    address: Address,
    options: Options,
    first_byte: Duration,
    idle: Duration,
    /// Made for the first request: certificates take milliseconds to load,
    /// and most configured models are never asked.
    connections: OnceLock<Result<reqwest::Client, ModelError>>,
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAi")
            .field("name", &self.name)
            .field("url", &self.endpoint.address.shown())
            .finish_non_exhaustive()
    }
}

impl OpenAi {
    /// A client that has not connected yet.
    ///
    /// # Errors
    ///
    /// Something in the settings cannot be sent.
    pub fn new(settings: OpenAiSettings) -> Result<Self, SettingsError> {
        let address = Address::new(&settings)?;
        if let Some(key) =
            RESERVED_KEYS.into_iter().find(|key| settings.extra_body.contains_key(*key))
        {
            return Err(SettingsError::ReservedKey { key });
        }
        // OpenAI's newer models refuse the old key, other servers do not know
        // the new one.
        let limit_key = if transport::is_openai(&settings.base_url) {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        let options = Options {
            model: settings.model,
            output_limit: settings.max_output_tokens.map(|limit| (limit_key, limit)),
            extra: settings.extra_body,
        };
        let (first_byte, idle) = (settings.first_byte, settings.idle);
        let facts = Facts {
            context_window: settings.context_window,
            max_output_tokens: settings.max_output_tokens,
            price: None,
            takes_images: false,
        };
        let connections = OnceLock::new();
        let endpoint = Endpoint { address, options, first_byte, idle, connections };
        Ok(Self { name: settings.name, facts, endpoint: Arc::new(endpoint) })
    }

    /// Returns the bytes that a request with this prefix sends.
    #[must_use]
    pub fn body(&self, prefix: &Prefix) -> Vec<u8> {
        encode::body(&self.endpoint.options, prefix)
    }
}

impl Model for OpenAi {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn body(&self, prefix: &Prefix) -> Vec<u8> {
        self.body(prefix)
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        // The library reads a response as fast as it comes, whether or not
        // anyone takes it. So a task of its own takes and counts it: what can
        // pile up here is at most `ANSWER_CAP`.
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let endpoint = Arc::clone(&self.endpoint);
        let task = AbortOnDropHandle::new(tokio::spawn(endpoint.answer(request, sender)));
        stream::poll_fn(move |context| {
            // Owned by the stream, so that dropping it ends the request.
            let _ = &task;
            receiver.poll_recv(context)
        })
        .boxed()
    }
}

type Sender = mpsc::UnboundedSender<Result<Chunk, ModelError>>;

impl Endpoint {
    async fn answer(self: Arc<Self>, request: Request, sender: Sender) {
        let say = |chunk| {
            // Whoever no longer listens has dropped the stream, and this task
            // is about to end.
            let _ = sender.send(Ok(chunk));
        };
        let last = self
            .converse(&request, say)
            .await
            .map_err(|error| ModelError { message: self.address.redact(error.message), ..error });
        // As above.
        let _ = sender.send(last.map(|answer| Chunk::Finished(Box::new(answer))));
    }

    async fn converse(
        &self,
        request: &Request,
        say: impl FnMut(Chunk),
    ) -> Result<Answer, ModelError> {
        let deadline = Instant::now() + self.first_byte;
        let connections = self
            .connections
            .get_or_init(|| self.address.connections())
            .as_ref()
            .map_err(Clone::clone)?;
        let ended = Ended::default();
        let client = self.address.client(connections, self.idle, &ended);
        let chat = client.chat();
        let body = Body { options: &self.options, prefix: &request.prefix };
        let opened = timeout_at(deadline, chat.create_stream_byot(body))
            .await
            .map_err(|_| self.no_first_byte())?;
        let assembly = match opened {
            Ok(pieces) => self.follow(pieces, deadline, &ended, say).await?,
            Err(error) => match not_a_stream(error) {
                NotAStream::Whole(bytes) => whole(&bytes, say)?,
                NotAStream::Failed(error) => return Err(error),
            },
        };
        assembly.finish(&request.asker, &request.prefix)
    }

    /// Takes the pieces of a stream to its end.
    async fn follow(
        &self,
        mut pieces: StreamResponse<WireChunk>,
        mut deadline: Instant,
        ended: &Ended,
        mut say: impl FnMut(Chunk),
    ) -> Result<Assembly, ModelError> {
        let mut assembly = Assembly::default();
        let mut silent = self.no_first_byte();
        loop {
            let next = match timeout_at(deadline, pieces.next()).await {
                Ok(next) => next.map(|piece| piece.map_err(|error| self.unreadable(error))),
                Err(_) => Some(Err(Unreadable::Fatal(silent.clone()))),
            };
            let ended = assembly.has_ended();
            match next {
                Some(Ok(piece)) => assembly.take(piece, &mut say)?,
                // A server that keeps sending nothing never lets the wait
                // itself reach its end.
                Some(Err(Unreadable::Blank)) if Instant::now() < deadline => continue,
                Some(Err(Unreadable::Blank)) if ended => break,
                Some(Err(Unreadable::Blank)) => return Err(silent),
                Some(Err(Unreadable::Fatal(error))) if !assembly.has_ended() => return Err(error),
                Some(Err(Unreadable::Fatal(_))) | None => break,
            }
            // Some servers name the role before they read the prompt, or send
            // empty pieces to keep the connection open. Once the answer has
            // ended, nothing gives its counts more time.
            if ended || !assembly.grew() {
                if Instant::now() < deadline {
                    continue;
                }
                if ended {
                    break;
                }
                return Err(silent);
            }
            let limit = if assembly.has_ended() { self.idle.min(COUNTS_LIMIT) } else { self.idle };
            deadline = Instant::now() + limit;
            silent = self.no_more();
        }
        let ending = ended.get();
        let is_marked = ending == Some(&Ending::Marked) && !assembly.is_empty();
        if assembly.is_complete() || is_marked { Ok(assembly) } else { Err(self.no_end(ending)) }
    }

    fn no_end(&self, ending: Option<&Ending>) -> ModelError {
        let url = self.address.shown();
        if ending == Some(&Ending::TooLong) {
            let limit = EVENT_CAP >> 20;
            let message = format!("`{url}` sent a piece of more than {limit} MiB");
            return ModelError::new(ModelErrorKind::Request, message);
        }
        let message = format!("the answer of `{url}` broke off before its end");
        ModelError::new(ModelErrorKind::Cut, message)
    }

    fn no_first_byte(&self) -> ModelError {
        let (url, seconds) = (self.address.shown(), self.first_byte.as_secs_f32());
        let message = format!("no answer from `{url}` within {seconds} s");
        ModelError::new(ModelErrorKind::Silent, message)
    }

    fn no_more(&self) -> ModelError {
        let (url, seconds) = (self.address.shown(), self.idle.as_secs_f32());
        let message = format!("the answer of `{url}` stopped: nothing came for {seconds} s");
        ModelError::new(ModelErrorKind::Silent, message)
    }

    fn unreadable(&self, error: OpenAIError) -> Unreadable {
        let url = self.address.shown();
        let message = if let OpenAIError::JSONDeserialize(cause, text) = error {
            match text.trim() {
                "" => return Unreadable::Blank,
                text => {
                    let start = fault::short(text);
                    format!("`{url}` sent a piece that cannot be read ({cause}): {start}")
                }
            }
        } else {
            format!("the answer of `{url}` broke off: {error}")
        };
        Unreadable::Fatal(ModelError::new(ModelErrorKind::Cut, message))
    }
}

/// What a piece is that the library could not read.
enum Unreadable {
    /// An empty event, which some servers send to keep the connection open.
    Blank,
    /// A defect.
    Fatal(ModelError),
}

fn not_a_stream(error: OpenAIError) -> NotAStream {
    let failed = |text: String| NotAStream::Failed(ModelError::new(ModelErrorKind::Request, text));
    let OpenAIError::Boxed(inner) = error else {
        return failed(error.to_string());
    };
    inner.downcast::<NotAStream>().map_or_else(|other| failed(other.to_string()), |inner| *inner)
}

fn whole(bytes: &[u8], say: impl FnMut(Chunk)) -> Result<Assembly, ModelError> {
    let mut assembly = Assembly::default();
    let cut = |reason: &str| {
        let text = fault::short(&String::from_utf8_lossy(bytes));
        ModelError::new(ModelErrorKind::Cut, format!("the answer {reason}: {text}"))
    };
    let chunk = serde_json::from_slice(bytes).map_err(|_| cut("cannot be read"))?;
    assembly.take(chunk, say)?;
    if assembly.is_empty() && !assembly.is_complete() {
        return Err(cut("holds no message"));
    }
    Ok(assembly)
}
