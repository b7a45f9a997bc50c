//! Requests to JetStream itself.

use async_nats::jetstream::consumer;
use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{Denied, EngineError, has_no_server, is_passing};
use super::{Engine, layout};

impl Engine {
    /// Asks JetStream until it answers something else than that it cannot answer now, `subject`
    /// being what comes after `$JS.API.`.
    pub(super) async fn answered<T: DeserializeOwned>(
        &self,
        subject: &str,
        body: &Value,
    ) -> Result<T, Denied> {
        loop {
            match self.call(subject.to_owned(), body).await {
                Err(Denied::Passing(cause)) => layout::pause(&cause).await,
                answer => return answer,
            }
        }
    }

    /// The same, also for as long as nobody listens: a server that has just started has no
    /// JetStream yet.
    pub(super) async fn awaited<T: DeserializeOwned>(
        &self,
        subject: &str,
        body: &Value,
    ) -> Result<T, Denied> {
        loop {
            match self.answered(subject, body).await {
                Err(Denied::Nobody) => layout::pause("nobody listens").await,
                answer => return answer,
            }
        }
    }

    /// Asks once for a consumer, `path` being its stream and, if it has one, its name and what
    /// it filters. That there is no server for it passes.
    pub(super) async fn make_consumer(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<consumer::Info, Denied> {
        match self.call(format!("CONSUMER.CREATE.{path}"), body).await {
            Err(Denied::Said(error)) if has_no_server(&error) => {
                Err(Denied::Passing(error.to_string()))
            }
            answer => answer,
        }
    }

    /// Asks JetStream once, `subject` being what comes after `$JS.API.`.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        subject: String,
        body: &Value,
    ) -> Result<T, Denied> {
        let refused = self.signs.refused(&format!("$JS.API.{subject}"));
        let mut reconnected = self.signs.reconnected();
        let answer = tokio::select! {
            answer = self.jetstream.request::<_, _, Response<T>>(subject, body) => answer,
            // Whom it was asked is gone, and the answer with it.
            () = reconnected.next() => return Err(Denied::Passing("connected anew".to_owned())),
            cause = refused => return Err(Denied::Final(EngineError::NotPermitted { cause })),
        };
        match answer {
            Ok(Response::Ok(answer)) => Ok(answer),
            Ok(Response::Err { error }) if is_passing(&error) => {
                Err(Denied::Passing(error.to_string()))
            }
            Ok(Response::Err { error }) => Err(Denied::Said(error)),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::NoResponders => Denied::Nobody,
                RequestErrorKind::TimedOut => Denied::Passing("no answer in time".to_owned()),
                RequestErrorKind::InvalidSubject | RequestErrorKind::Other => {
                    Denied::Passing(error.to_string())
                }
            }),
        }
    }
}
