//! Servers of tools that a client carries: what is said to them goes through its
//! control channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::broadcast;

use super::calling::{Client, Waiting};
use crate::cli::servers::Carried;
use crate::mcp::{Channel, FarEnds, Open, channel};

/// Most of what a server says by itself that waits to be heard. Nearly all of it
/// says that something has changed or got on; the oldest is lost beyond this. A
/// request of its own among that gets no answer: its server has sent more than
/// so many messages while none was taken, and has to bear it.
const SAID_CAP: usize = 64;

/// The servers that a client carries.
#[derive(Default)]
pub(super) struct CarriedServers(BTreeMap<Arc<str>, broadcast::Sender<String>>);

/// One of them.
struct Server {
    name: Arc<str>,
    client: Client,
    /// What it says by itself.
    says: broadcast::Sender<String>,
}

impl CarriedServers {
    /// Takes the servers of these names, and returns how they are reached.
    pub(super) fn take(&mut self, names: &[String], client: &Client) -> Vec<Carried> {
        let server = |name: &String| {
            let name: Arc<str> = name.as_str().into();
            let says = self.0.entry(Arc::clone(&name));
            let says = says.or_insert_with(|| broadcast::channel(SAID_CAP).0).clone();
            let open = Server { name: Arc::clone(&name), client: client.clone(), says };
            Carried { name: name.to_string(), open: Arc::new(open) }
        };
        names.iter().map(server).collect()
    }

    /// Hears what a server says by itself; `false` if it is none of these.
    pub(super) fn hear(&self, server: &str, message: &Value) -> bool {
        let Some(says) = self.0.get(server) else { return false };
        // One that nobody is connected to is not heard.
        let _ = says.send(message.to_string());
        true
    }
}

impl Open for Server {
    fn open(&self) -> Result<Channel, String> {
        let (channel, far) = channel();
        let (name, client) = (Arc::clone(&self.name), self.client.clone());
        tokio::spawn(carry(name, client, self.says.subscribe(), far));
        Ok(channel)
    }
}

/// Carries messages until either side has gone. The server hears them in their
/// order, and answers in whichever it likes.
async fn carry(
    name: Arc<str>,
    client: Client,
    mut says: broadcast::Receiver<String>,
    FarEnds { mut received, said }: FarEnds,
) {
    let mut answering = FuturesUnordered::new();
    loop {
        let heard = tokio::select! {
            biased;
            answered = answering.next(), if !answering.is_empty() => match answered {
                Some(Ok(Some(answer))) => answer,
                Some(Ok(None)) | None => continue,
                // It is gone, or as good as that: what it was asked stays open.
                Some(Err(Lost)) => return,
            },
            message = received.recv() => {
                let Some(message) = message else { return };
                let message: Value = serde_json::from_str(&message).expect("a message is JSON");
                let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
                let Ok(waiting) = client.give(&name, message).await else { return };
                answering.push(answer(waiting, id));
                continue;
            }
            heard = says.recv() => match heard {
                Ok(heard) => heard,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return,
            },
        };
        if said.send(heard).await.is_err() {
            return;
        }
    }
}

/// The client cannot be asked.
struct Lost;

/// Waits for what a server says to a message; `None` if that is nothing. What
/// goes wrong at the client is an answer, too, for whoever waits for one.
async fn answer(waiting: Waiting, id: Option<Value>) -> Result<Option<String>, Lost> {
    let answered = waiting.answer().await;
    let Some(id) = id else { return Ok(None) };
    match answered {
        Ok(answer) => match answer.get("mcp_response") {
            Some(answer) => Ok(Some(answer.to_string())),
            None => Err(Lost),
        },
        Err(why) => {
            let error = serde_json::json!({ "code": -32_603, "message": why });
            let answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": error });
            Ok(Some(answer.to_string()))
        }
    }
}
