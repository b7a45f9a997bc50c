//! What is asked and told at once and stored nowhere: claims, heartbeats, permits,
//! words to a worker.

use std::time::Duration;

use async_nats::{RequestErrorKind, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{ClaimError, Engine, EngineError};

/// Requests as they come.
#[derive(Debug)]
pub struct Asked(Subscriber);

/// One request, to be answered with [`Engine::answer`].
#[derive(Debug)]
pub struct Request {
    /// What is asked.
    pub payload: Bytes,
    reply: Option<Subject>,
}

/// Messages as they come. Some may be lost.
#[derive(Debug)]
pub struct Told(Subscriber);

impl Asked {
    /// Waits for the next request. `None` is the end of the engine.
    pub async fn next(&mut self) -> Option<Request> {
        let message = self.0.next().await?;
        Some(Request { payload: message.payload, reply: message.reply })
    }
}

impl Told {
    /// Waits for the next message. `None` is the end of the engine.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.next().await.map(|message| message.payload)
    }
}

impl Engine {
    /// Takes the claims for a run, as its coordinator.
    ///
    /// # Errors
    ///
    /// The connection is closed for good.
    pub async fn claims(&self, run: &str) -> Result<Asked, EngineError> {
        self.subscribe(self.names.claim(run)).await.map(Asked)
    }

    /// Takes the heartbeats for a run, as its coordinator.
    ///
    /// # Errors
    ///
    /// The connection is closed for good.
    pub async fn beats(&self, run: &str) -> Result<Asked, EngineError> {
        self.subscribe(self.names.beat(run)).await.map(Asked)
    }

    /// Takes the requests for permits of a run's providers, as its coordinator.
    ///
    /// # Errors
    ///
    /// The connection is closed for good.
    pub async fn permits(&self, run: &str) -> Result<Asked, EngineError> {
        self.subscribe(self.names.rate(run)).await.map(Asked)
    }

    /// Takes what is told to a worker.
    ///
    /// # Errors
    ///
    /// The connection is closed for good.
    pub async fn inbox(&self, worker: &str) -> Result<Told, EngineError> {
        self.subscribe(self.names.inbox(worker)).await.map(Told)
    }

    /// Answers a request. Whoever asked may be gone.
    ///
    /// # Errors
    ///
    /// An answer that is too large.
    pub async fn answer(&self, request: &Request, payload: Bytes) -> Result<(), EngineError> {
        match &request.reply {
            Some(reply) => self.tell_subject(reply.clone(), payload).await,
            None => Ok(()),
        }
    }

    /// Asks a coordinator for a ticket's slot, and waits for one lease at most.
    ///
    /// # Errors
    ///
    /// No coordinator, or none that answers.
    pub async fn claim(&self, run: &str, payload: Bytes) -> Result<Bytes, ClaimError> {
        self.ask(self.names.claim(run), payload, self.lease).await
    }

    /// Tells a coordinator that this worker lives, and waits for one lease at most.
    ///
    /// # Errors
    ///
    /// No coordinator, or none that answers.
    pub async fn beat(&self, run: &str, payload: Bytes) -> Result<Bytes, ClaimError> {
        self.ask(self.names.beat(run), payload, self.lease).await
    }

    /// Asks a run's coordinator for a permit, or tells it of some. Which provider that
    /// is about is in the payload: a coordinator need not know all that workers have.
    ///
    /// # Errors
    ///
    /// Nobody who gives permits, or no answer within `limit`.
    pub async fn permit(
        &self,
        run: &str,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Bytes, ClaimError> {
        self.ask(self.names.rate(run), payload, limit).await
    }

    /// Tells a worker something. It may be lost.
    ///
    /// # Errors
    ///
    /// A message that is too large.
    pub async fn tell(&self, worker: &str, payload: Bytes) -> Result<(), EngineError> {
        self.tell_subject(self.names.inbox(worker).into(), payload).await
    }

    async fn subscribe(&self, subject: String) -> Result<Subscriber, EngineError> {
        let failed = |cause: String| EngineError::Failed { doing: "subscribing", cause };
        let refused = self.signs.refused(&subject);
        let subscriber = self.client.subscribe(subject).await;
        let subscriber = subscriber.map_err(|error| failed(error.to_string()))?;
        // So that whoever is told of it from here on is heard.
        tokio::select! {
            cause = refused => Err(EngineError::NotPermitted { cause }),
            flushed = self.client.flush() => match flushed {
                Ok(()) => Ok(subscriber),
                Err(error) => Err(failed(error.to_string())),
            },
        }
    }

    async fn tell_subject(&self, subject: Subject, payload: Bytes) -> Result<(), EngineError> {
        let cap = self.client.max_payload();
        if payload.len() > cap {
            let cause = format!("{} bytes", payload.len());
            return Err(EngineError::TooLarge { cause, cap });
        }
        let told = self.client.publish(subject, payload).await;
        told.map_err(|error| EngineError::Failed {
            doing: "sending a message",
            cause: error.to_string(),
        })
    }

    async fn ask(
        &self,
        subject: String,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Bytes, ClaimError> {
        let refused = self.signs.refused(&subject);
        let request = async_nats::Request::new().payload(payload).timeout(Some(limit));
        let answer = tokio::select! {
            answer = self.client.send_request(subject, request) => answer,
            cause = refused => {
                return Err(ClaimError::Other(EngineError::NotPermitted { cause }));
            }
        };
        answer.map(|message| message.payload).map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => ClaimError::NoCoordinator,
            RequestErrorKind::TimedOut => ClaimError::TimedOut,
            RequestErrorKind::MaxPayloadExceeded => {
                let (cause, cap) = (error.to_string(), self.client.max_payload());
                ClaimError::Other(EngineError::TooLarge { cause, cap })
            }
            RequestErrorKind::InvalidSubject | RequestErrorKind::Other => {
                let (doing, cause) = ("asking a coordinator", error.to_string());
                ClaimError::Other(EngineError::Failed { doing, cause })
            }
        })
    }
}
