//! Messages that are stored: sent until the server says that it has them.

use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::{HeaderMap, jetstream};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::error::{Denied, EngineError, is_passing, said};
use super::names::shard_of;
use super::{Engine, layout};

/// How long a server that is connected may have no stream for a message, before it is
/// asked whether there is one: after a start it takes a moment until its streams are
/// there, and in a cluster one that nobody leads takes nothing.
const NO_STREAM_LIMIT: Duration = Duration::from_secs(10);

/// Which frame of which attempt at a slot is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// The coordinator's session.
    pub run: &'a str,
    /// The slot in it.
    pub unit: u32,
    /// From 1: how often the slot was granted.
    pub attempt: u32,
    /// The frame's number in the attempt. A number that was stored before is not
    /// stored again, whatever is in it.
    pub seq: u64,
}

impl Said<'_> {
    fn id(&self) -> String {
        let Self { run, unit, attempt, seq } = self;
        format!("{run}/{unit}/{attempt}/{seq}")
    }
}

/// Returns the attempt of a frame, from its id; that of a result has none.
pub(super) fn attempt(headers: &HeaderMap) -> Option<u32> {
    headers.get(NATS_MESSAGE_ID)?.as_str().split('/').nth(2)?.parse().ok()
}

/// Whether a result is the slot's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Won {
    /// It is.
    First,
    /// Another one was stored before.
    Late,
}

/// Why a message is not stored, if it is not only late.
#[derive(Debug)]
pub(super) enum Unpublished {
    /// It may be in a moment.
    Passing(String),
    /// There is no stream for it, or none yet.
    NoStream,
    /// The subject has a message, and this one was to be the first.
    NotFirst,
    /// The subject has as many messages as it may have.
    Crowded,
    /// It never will be.
    Final(EngineError),
}

impl Engine {
    /// Stores one frame of a slot. Returns once it is stored.
    ///
    /// It is sent again over losses of the connection and restarts of the server,
    /// without an end: dropping the future gives up. Frames of one slot are in
    /// order if each waits for the one before.
    ///
    /// # Errors
    ///
    /// What will not pass: too large, not permitted, no room, no stream.
    pub async fn say(&self, said: Said<'_>, payload: Bytes) -> Result<(), EngineError> {
        let subject = self.names.event(said.run, said.unit);
        let message = PublishMessage::build().message_id(said.id()).payload(payload);
        self.publish(subject, message).await.map(drop).map_err(Unpublished::into_error)
    }

    /// Stores the result of a slot, if it has none.
    ///
    /// # Errors
    ///
    /// As for [`say`](Self::say).
    pub async fn result(&self, run: &str, unit: u32, payload: Bytes) -> Result<Won, EngineError> {
        let subject = self.names.result(run, unit);
        let message = PublishMessage::build()
            .expected_last_subject_sequence(0)
            // So that a server that had it, and did not get to say so, knows it again.
            .message_id(format!("{run}/{unit}/{}", uuid::Uuid::new_v4()))
            .payload(payload.clone());
        match self.publish(subject.clone(), message).await {
            Ok(_) => Ok(Won::First),
            Err(Unpublished::NotFirst) => {
                let stored = self.last_message(unit, &subject).await?;
                // Past the window of ids: what is there may be this very result.
                Ok(if stored == Some(payload) { Won::First } else { Won::Late })
            }
            Err(other) => Err(other.into_error()),
        }
    }

    /// Stores a message under a subject of a bucket.
    pub(super) async fn put(&self, subject: String, payload: Bytes) -> Result<(), EngineError> {
        let message = PublishMessage::build().payload(payload);
        self.publish(subject, message).await.map(drop).map_err(Unpublished::into_error)
    }

    /// Sends a message until it is acknowledged, or something is final about it.
    pub(super) async fn publish(
        &self,
        subject: String,
        message: PublishMessage,
    ) -> Result<PublishAck, Unpublished> {
        let mut missing_since = None;
        loop {
            let mut reconnected = self.signs.reconnected();
            let outcome = tokio::select! {
                outcome = self.publish_once(&subject, &message) => outcome,
                // What was on its way may be lost: it is sent again at once.
                () = reconnected.next() => {
                    missing_since = None;
                    continue;
                }
            };
            match outcome {
                Err(Unpublished::Passing(cause)) => {
                    missing_since = None;
                    layout::pause(&cause).await;
                }
                Err(Unpublished::NoStream) => {
                    let since = *missing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > NO_STREAM_LIMIT {
                        if self.has_none_for(&subject).await {
                            return Err(Unpublished::Final(EngineError::NoStream { subject }));
                        }
                        missing_since = None;
                    }
                    layout::pause("no stream").await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Tells whether there is no stream for messages under a subject. As long as
    /// whoever knows cannot tell there may be one. Where nobody listens there is none: a
    /// server that has just started has had its time by now.
    async fn has_none_for(&self, subject: &str) -> bool {
        let filter = json!({ "subject": subject });
        match self.call::<Value>("STREAM.NAMES".into(), &filter).await {
            Ok(found) => found["streams"].as_array().is_none_or(Vec::is_empty),
            Err(Denied::Passing(_)) => false,
            Err(Denied::Nobody | Denied::Said(_) | Denied::Final(_)) => true,
        }
    }

    /// Sends a message once, and waits for the server's word.
    pub(super) async fn publish_once(
        &self,
        subject: &str,
        message: &PublishMessage,
    ) -> Result<PublishAck, Unpublished> {
        let refused = self.signs.refused(subject);
        let sent = async {
            let acknowledged = self.send(subject, message).await?;
            acknowledged.await.map_err(|error| self.unpublished(&error))
        };
        tokio::select! {
            outcome = sent => outcome,
            cause = refused => Err(Unpublished::Final(EngineError::NotPermitted { cause })),
        }
    }

    /// Sends a message once; what comes back waits for the server's word.
    pub(super) async fn send(
        &self,
        subject: &str,
        message: &PublishMessage,
    ) -> Result<PublishAckFuture, Unpublished> {
        let sent = self.jetstream.send_publish(subject.to_owned(), message.clone()).await;
        sent.map_err(|error| self.unpublished(&error))
    }

    /// Says what an error of the client comes to.
    pub(super) fn unpublished(&self, error: &PublishError) -> Unpublished {
        let source = std::error::Error::source(error);
        let refused = source.and_then(|source| source.downcast_ref::<jetstream::Error>());
        match error.kind() {
            PublishErrorKind::WrongLastSequence => Unpublished::NotFirst,
            PublishErrorKind::StreamNotFound => Unpublished::NoStream,
            PublishErrorKind::MaxPayloadExceeded => {
                let cap = self.client.max_payload();
                let cause = source.map(ToString::to_string).unwrap_or_default();
                Unpublished::Final(EngineError::TooLarge { cause, cap })
            }
            PublishErrorKind::TimedOut
            | PublishErrorKind::BrokenPipe
            | PublishErrorKind::MaxAckPending => Unpublished::Passing(error.to_string()),
            PublishErrorKind::WrongLastMessageId | PublishErrorKind::Other => match refused {
                Some(error) if error.to_string().starts_with(CROWDED) => Unpublished::Crowded,
                Some(error) if is_passing(error) => Unpublished::Passing(error.to_string()),
                Some(error) => Unpublished::Final(said(error, "storing a message")),
                None => Unpublished::Final(EngineError::Failed {
                    doing: "sending a message",
                    cause: error.to_string(),
                }),
            },
        }
    }

    /// Returns what was last stored under a subject of results.
    async fn last_message(&self, unit: u32, subject: &str) -> Result<Option<Bytes>, EngineError> {
        let stream = self.names.events_stream(shard_of(unit));
        let stream = self.jetstream.get_stream_no_info(stream).await;
        let failed =
            |error: String| EngineError::Failed { doing: "reading a result", cause: error };
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        loop {
            use jetstream::stream::LastRawMessageErrorKind as Why;
            let mut reconnected = self.signs.reconnected();
            let last = tokio::select! {
                last = stream.get_last_raw_message_by_subject(subject) => last,
                () = reconnected.next() => continue,
            };
            let error = match last {
                Ok(message) => return Ok(Some(message.payload)),
                Err(error) => error,
            };
            match error.kind() {
                Why::NoMessageFound => return Ok(None),
                Why::JetStream(error) if !is_passing(&error) => {
                    return Err(said(&error, "reading a result"));
                }
                Why::InvalidSubject => return Err(failed(error.to_string())),
                Why::JetStream(_) | Why::Other => layout::pause(&error.to_string()).await,
            }
        }
    }
}

/// What NATS says of a subject that is full; its code says only that nothing was
/// stored.
const CROWDED: &str = "maximum messages per subject exceeded";

impl Unpublished {
    pub(super) fn into_error(self) -> EngineError {
        let failed = |cause: &str| EngineError::Failed {
            doing: "storing a message",
            cause: cause.to_owned(),
        };
        match self {
            Self::Final(error) => error,
            Self::Passing(cause) => failed(&cause),
            Self::NoStream => failed("there is no stream for it"),
            Self::NotFirst => failed("it was not the first"),
            Self::Crowded => failed(CROWDED),
        }
    }
}
