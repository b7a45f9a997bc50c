//! A hook that is a callback of the program that drives us.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::message::CallId;

/// Reaches the callbacks of a program. Whoever implements it may be asked
/// several times at once.
pub trait Client: Send + Sync {
    /// Asks a callback. The error says in words why there is no answer.
    ///
    /// Dropping the future withdraws the question.
    fn ask<'a>(
        &'a self,
        callback: &'a str,
        input: &'a Value,
        call: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<Value, String>>;
}

/// A callback that a program has named.
#[derive(Clone)]
pub struct Callback {
    /// Its name.
    pub id: Arc<str>,
    /// How it is reached.
    pub client: Arc<dyn Client>,
}

impl PartialEq for Callback {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && Arc::ptr_eq(&self.client, &other.client)
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a callback answers.
#[derive(Debug)]
pub(super) enum Answered {
    Json(Value),
    /// There is no answer, for this reason.
    Failed(String),
    TimedOut(Duration),
    Cancelled,
}

impl Callback {
    pub(super) async fn ask(
        &self,
        input: &Value,
        call: Option<&CallId>,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Answered {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Answered::Cancelled,
            answer = self.client.ask(&self.id, input, call) => match answer {
                Ok(json) => Answered::Json(json),
                Err(why) => Answered::Failed(why),
            },
            () = tokio::time::sleep(limit) => Answered::TimedOut(limit),
        }
    }
}
