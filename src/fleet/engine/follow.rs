//! Streams that are read in order, without a gap and without a double, over losses
//! of the connection and restarts of the server.
//!
//! The place is kept here, not on the server: a reader's consumer lives in the
//! server's memory and is made anew at the place whenever something is odd.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::consumer::pull::Stream;
use async_nats::jetstream::consumer::{self, AckPolicy, DeliverPolicy, PullConsumer, pull};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::{self, BoxStream, SelectAll, select_all};
use serde_json::json;

use super::error::{Denied, EngineError};
use super::names::SHARDS;
use super::signs::Reconnected;
use super::{Engine, layout, publish};

/// Most messages that the server sends ahead of the reader.
const AHEAD: usize = 256;

/// Most bytes of them, unless two messages are more. All streams of a run together stay
/// far below the 64 MiB at which a server drops a client that is slow: it would drop it
/// again as soon as it has connected anew.
const AHEAD_BYTES: usize = 2 * 1024 * 1024;

/// How long the server keeps a consumer that nobody reads.
const CONSUMER_AGE: Duration = Duration::from_secs(60);

/// How long one request for messages stands.
const PULL_AGE: Duration = Duration::from_secs(30);

/// Messages as they are stored. What is begun for the next one is kept while nobody
/// waits for it.
type Messages = BoxStream<'static, Result<async_nats::Message, EngineError>>;

/// The frames and results of a run, as they are stored.
pub struct Heard {
    engine: Engine,
    /// Those of all shards. Each has its turn, however much there is of another one.
    messages: SelectAll<Messages>,
}

/// One frame of a slot, or its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The slot.
    pub unit: u32,
    /// Whether this is its result.
    pub is_result: bool,
    /// The attempt that said this, as far as the message tells: a result's does not.
    pub attempt: Option<u32>,
    /// What was said.
    pub payload: Bytes,
}

/// What is to be stopped: first all that is known to be, then as it is told.
pub struct Stops {
    engine: Engine,
    messages: Messages,
}

/// Something that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The run.
    pub run: String,
    /// The slot of it; `None` is all.
    pub unit: Option<u32>,
}

impl Engine {
    /// Listens to the slots of a run from now on.
    ///
    /// # Errors
    ///
    /// A server that does not let the stream be read.
    pub async fn listen(&self, run: &str) -> Result<Heard, EngineError> {
        let shard = async |shard| {
            let stream = self.names.events_stream(shard);
            let info = self.stream_info(&stream).await?;
            let next = info.map_or(1, |info| info.state.last_sequence + 1);
            let subjects = self.names.events_of(run, shard);
            Follow::new(self, stream, subjects, next).await.map(Follow::messages)
        };
        let shards = try_join_all((0..SHARDS).map(shard)).await?;
        Ok(Heard { engine: self.clone(), messages: select_all(shards) })
    }

    /// Watches what is to be stopped.
    ///
    /// # Errors
    ///
    /// A server that does not let the bucket be read.
    pub async fn stops(&self) -> Result<Stops, EngineError> {
        let subjects = vec![self.names.all_control()];
        let follow = Follow::new(self, self.names.control_stream(), subjects, 1).await?;
        Ok(Stops { engine: self.clone(), messages: follow.messages() })
    }
}

impl Heard {
    /// Waits for the next frame. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// What will not pass; a server that is away is waited for.
    pub async fn next(&mut self) -> Result<Frame, EngineError> {
        loop {
            let message = self.messages.next().await.expect("no shard ever ends")?;
            if let Some((unit, is_result)) = self.engine.names.parse_event(&message.subject) {
                let attempt = message.headers.as_ref().and_then(publish::attempt);
                return Ok(Frame { unit, is_result, attempt, payload: message.payload });
            }
        }
    }
}

impl Stops {
    /// Waits for the next thing to be stopped. Dropping the future loses none.
    ///
    /// # Errors
    ///
    /// What will not pass; a server that is away is waited for.
    pub async fn next(&mut self) -> Result<Stop, EngineError> {
        loop {
            let message = self.messages.next().await.expect("it never ends")?;
            // Somebody tidied up by hand: a key that is deleted stops nothing.
            let is_deletion = message.headers.is_some_and(|headers| {
                headers.get("KV-Operation").is_some_and(|value| value.as_str() != "PUT")
            });
            if let (false, Some((run, unit))) =
                (is_deletion, self.engine.names.parse_control(&message.subject))
            {
                return Ok(Stop { run, unit });
            }
        }
    }
}

/// A place in a stream.
struct Follow {
    engine: Engine,
    stream: String,
    subjects: Vec<String>,
    /// The sequence from which nothing was read.
    next: u64,
    /// How many messages the present consumer has sent.
    read: u64,
    messages: Option<Box<Stream>>,
    reconnected: Reconnected,
}

impl Follow {
    async fn new(
        engine: &Engine,
        stream: String,
        subjects: Vec<String>,
        next: u64,
    ) -> Result<Self, EngineError> {
        let reconnected = engine.signs.reconnected();
        let (engine, messages) = (engine.clone(), None);
        let mut follow = Self { engine, stream, subjects, next, read: 0, messages, reconnected };
        follow.messages = Some(follow.open().await?);
        Ok(follow)
    }

    /// Returns the messages from the place on. There is no last one.
    fn messages(self) -> Messages {
        let next = |mut follow: Self| async {
            let message = follow.next().await;
            Some((message, follow))
        };
        stream::unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Result<async_nats::Message, EngineError> {
        loop {
            let messages = match &mut self.messages {
                Some(messages) => messages,
                None => {
                    self.reconnected.forget();
                    let opened = self.open().await?;
                    self.read = 0;
                    self.messages.insert(opened)
                }
            };
            let message = tokio::select! {
                biased;
                () = self.reconnected.next() => None,
                message = messages.next() => message.and_then(|message| {
                    message.inspect_err(|error| tracing::debug!("read again: {error}")).ok()
                }),
            };
            let place = message.as_ref().and_then(place);
            match (message, place) {
                (Some(message), Some((consumer, stream))) if consumer == self.read + 1 => {
                    self.read = consumer;
                    if stream >= self.next {
                        self.next = stream + 1;
                        return Ok(message.message);
                    }
                }
                // One is missing, or the consumer is.
                _ => self.messages = None,
            }
        }
    }

    /// Makes a consumer that begins at the place.
    async fn open(&mut self) -> Result<Box<Stream>, EngineError> {
        loop {
            let Some(info) = known(self.engine.stream_info(&self.stream).await)? else {
                layout::pause("nobody listens").await;
                continue;
            };
            let last = info.map_or(0, |info| info.state.last_sequence);
            if last + 1 < self.next {
                // A server that does not sync what it acknowledges has crashed: it
                // counts from an earlier number again.
                tracing::warn!("`{}` has forgotten messages", self.stream);
                self.next = last + 1;
            }
            let config = self.config();
            let body = json!({
                "stream_name": self.stream,
                "config": consumer::IntoConsumerConfig::into_consumer_config(config.clone()),
            });
            let info = match self.engine.make_consumer(&self.stream, &body).await {
                Ok(info) => info,
                // The place is looked for again: the server may have crashed meanwhile.
                Err(Denied::Passing(cause)) => {
                    layout::pause(&cause).await;
                    continue;
                }
                Err(Denied::Nobody) => {
                    layout::pause("nobody listens").await;
                    continue;
                }
                Err(denied) => return Err(denied.into_error("reading a stream")),
            };
            let consumer = PullConsumer::new(config, info, self.engine.jetstream.clone());
            let messages = consumer
                .stream()
                .max_messages_per_batch(AHEAD)
                .max_bytes_per_batch(AHEAD_BYTES.max(2 * self.engine.message_cap()))
                .expires(PULL_AGE)
                // A missed one has the consumer made anew.
                .heartbeat((self.engine.lease / 2).min(PULL_AGE / 4))
                .messages()
                .await;
            match messages {
                Ok(messages) => return Ok(Box::new(messages)),
                Err(error) => layout::pause(&error.to_string()).await,
            }
        }
    }

    fn config(&self) -> pull::Config {
        pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: self.next },
            filter_subjects: self.subjects.clone(),
            ack_policy: AckPolicy::None,
            inactive_threshold: CONSUMER_AGE,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        }
    }
}

/// Returns a message's number for its consumer and in its stream.
fn place(message: &jetstream::Message) -> Option<(u64, u64)> {
    message.info().ok().map(|info| (info.consumer_sequence, info.stream_sequence))
}

/// Takes a server without JetStream for one that has just started.
fn known<T>(found: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(EngineError::NoJetStream { cause: _ }) => Ok(None),
        Err(error) => Err(error),
    }
}
