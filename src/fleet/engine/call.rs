//! Requests to JetStream itself.

use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::response::Response;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Engine;
use super::error::{Denied, EngineError, is_passing};

impl Engine {
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
