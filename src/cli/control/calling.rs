//! What a client is asked besides questions of the guard: callbacks of its
//! hooks, and messages to the servers of tools that it carries.
//!
//! Whoever asks waits in a unit or in a server's task; here its request gets a
//! number, and the client's answer finds back by that. One that nobody waits for
//! any more is taken back.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::hook;
use crate::message::CallId;
use crate::report::control;

/// Most requests that were made and not sent. Whoever makes one more waits.
const MADE_CAP: usize = 64;

/// Most requests that have no answer. Far more than hooks run and servers are
/// called at once; a client that answers nothing is asked no more then.
const OPEN_CAP: usize = 4_096;

/// A client that can be asked. A clone asks the same one.
#[derive(Clone)]
pub(super) struct Client(mpsc::Sender<Made>);

/// A request that somebody makes.
pub(super) struct Made {
    asked: Asked,
    reply: oneshot::Sender<Result<Value, String>>,
    /// Closed once nobody waits for the reply.
    waits: oneshot::Receiver<Infallible>,
}

/// What a client is asked.
enum Asked {
    /// What a callback of its hooks says.
    Callback { callback: Arc<str>, input: Value, call: Option<CallId> },
    /// To give a message to a server.
    Message { server: Arc<str>, message: Value },
}

/// A request that was made. Dropping it takes it back.
pub(super) struct Waiting {
    answer: oneshot::Receiver<Result<Value, String>>,
    _waits: oneshot::Sender<Infallible>,
}

impl Waiting {
    /// Waits for the answer; the error says in words why there is none.
    pub(super) async fn answer(self) -> Result<Value, String> {
        self.answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Client {
    async fn ask(&self, asked: Asked) -> Result<Waiting, String> {
        let (reply, answer) = oneshot::channel();
        let (keep, waits) = oneshot::channel();
        self.0.send(Made { asked, reply, waits }).await.map_err(|_| gone())?;
        Ok(Waiting { answer, _waits: keep })
    }

    /// Gives a message to a server that the client carries. When this returns,
    /// the next message comes behind it.
    pub(super) async fn give(&self, server: &Arc<str>, message: Value) -> Result<Waiting, String> {
        self.ask(Asked::Message { server: Arc::clone(server), message }).await
    }
}

impl hook::Client for Client {
    fn ask<'a>(
        &'a self,
        callback: &'a str,
        input: &'a Value,
        call: Option<&'a CallId>,
    ) -> BoxFuture<'a, Result<Value, String>> {
        let (callback, input, call) = (callback.into(), input.clone(), call.cloned());
        Box::pin(async move {
            self.ask(Asked::Callback { callback, input, call }).await?.answer().await
        })
    }
}

fn gone() -> String {
    "the client answers no more".to_owned()
}

/// The requests to a client.
pub(super) struct Calls {
    client: Client,
    made: mpsc::Receiver<Made>,
    open: BTreeMap<u64, oneshot::Sender<Result<Value, String>>>,
    /// Each ends once nobody waits for the answer to a request.
    waits: FuturesUnordered<BoxFuture<'static, u64>>,
    last: u64,
}

/// Something that is to be done about requests.
pub(super) enum Due {
    /// One was made.
    Send(Made),
    /// Nobody waits for this one any more.
    TakeBack(u64),
}

impl Default for Calls {
    fn default() -> Self {
        let (sender, made) = mpsc::channel(MADE_CAP);
        let client = Client(sender);
        Self { client, made, open: BTreeMap::new(), waits: FuturesUnordered::new(), last: 0 }
    }
}

impl Calls {
    /// Returns the client.
    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Waits until something is to be done; forever once the client answers
    /// nothing. Dropping the future loses nothing.
    pub(super) async fn due(&mut self) -> Due {
        tokio::select! {
            biased;
            Some(id) = self.waits.next() => Due::TakeBack(id),
            Some(made) = self.made.recv() => Due::Send(made),
            else => std::future::pending().await,
        }
    }

    /// Does it, with whatever sends a line to the client and tells whether that
    /// can be.
    pub(super) fn carry_out(&mut self, due: Due, send: impl FnOnce(Vec<u8>) -> bool) {
        match due {
            Due::TakeBack(id) => {
                if self.open.remove(&id).is_some() {
                    // Whether it is read or not, nobody waits.
                    send(control::call_withdrawn(id));
                }
            }
            Due::Send(Made { asked, reply, waits }) => {
                self.last += 1;
                let id = self.last;
                let line = match &asked {
                    Asked::Callback { callback, input, call } => {
                        control::hook_callback(id, callback, input, call.as_ref())
                    }
                    Asked::Message { server, message } => {
                        control::server_message(id, server, message)
                    }
                };
                if self.open.len() >= OPEN_CAP || !send(line) {
                    // Whoever asked may have gone.
                    let _ = reply.send(Err("the client leaves too much unanswered".to_owned()));
                } else {
                    self.open.insert(id, reply);
                    self.waits.push(Box::pin(async move {
                        // It can only be closed.
                        let _ = waits.await;
                        id
                    }));
                }
            }
        }
    }

    /// Takes an answer. One to no request says nothing.
    pub(super) fn answered(&mut self, id: u64, answer: Result<Value, String>) {
        if let Some(reply) = self.open.remove(&id) {
            // Whoever asked may have gone.
            let _ = reply.send(answer);
        }
    }

    /// From now on the client answers nothing.
    pub(super) fn close(&mut self) {
        self.made.close();
        self.open.clear();
        // Those that were made and not sent: dropping them is the answer.
        while self.made.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn asks(client: &Client) -> tokio::task::JoinHandle<Result<Value, String>> {
        let client = client.clone();
        tokio::spawn(async move { hook::Client::ask(&client, "h", &json!({}), None).await })
    }

    async fn sent(calls: &mut Calls) -> Value {
        let due = calls.due().await;
        let mut line = Vec::new();
        calls.carry_out(due, |sent| {
            line = sent;
            true
        });
        serde_json::from_slice(&line).expect("a line is JSON")
    }

    #[tokio::test]
    async fn an_answer_finds_whoever_asked_and_a_second_one_nobody() {
        let mut calls = Calls::default();
        let (one, other) = (asks(&calls.client()), asks(&calls.client()));
        let ids = [sent(&mut calls).await, sent(&mut calls).await];
        assert_eq!(ids.map(|line| line["request_id"].clone()), ["call-1", "call-2"]);
        calls.answered(2, Ok(json!("second")));
        calls.answered(2, Ok(json!("again")));
        calls.answered(1, Err("no".to_owned()));
        let answers = [one.await.unwrap(), other.await.unwrap()];
        assert_eq!(answers, [Err("no".to_owned()), Ok(json!("second"))]);
    }

    #[tokio::test]
    async fn a_request_that_nobody_waits_for_is_taken_back() {
        let mut calls = Calls::default();
        let asking = asks(&calls.client());
        sent(&mut calls).await;
        asking.abort();
        let line = sent(&mut calls).await;
        assert_eq!(line, json!({"type": "control_cancel_request", "request_id": "call-1"}));
    }

    #[tokio::test]
    async fn a_client_that_has_ended_its_input_answers_nobody() {
        let mut calls = Calls::default();
        let (before, client) = (asks(&calls.client()), calls.client());
        sent(&mut calls).await;
        calls.close();
        assert_eq!(before.await.unwrap(), Err(gone()));
        let due = calls.due().await;
        calls.carry_out(due, |_| panic!("nobody is to be told"));
        assert!(calls.due().now_or_never().is_none());
        assert_eq!(asks(&client).await.unwrap(), Err(gone()));
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_an_error_for_whoever_asks() {
        let mut calls = Calls::default();
        let asking = asks(&calls.client());
        let due = calls.due().await;
        calls.carry_out(due, |_| false);
        assert_eq!(asking.await.unwrap(), Err("the client leaves too much unanswered".to_owned()));
    }
}
