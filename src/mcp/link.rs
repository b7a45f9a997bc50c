//! A conversation with a server as texts, and what the protocol's library makes
//! of it.
//!
//! Whatever carries the texts (a process, a client's control channel, a test)
//! is a [`Channel`]. A server may send anything: what is no message is left
//! out, and one that sends nothing else, or asks without end, has its
//! conversation ended.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use thiserror::Error;
use tokio::sync::mpsc;

/// Most messages that wait on each way. Few: one may be as long as
/// [`MESSAGE_CAP`].
pub const CHANNEL_CAP: usize = 4;

/// Longest message, in bytes. A few images fit, and a server that never ends a
/// line does not fill the memory.
pub const MESSAGE_CAP: usize = 16 * 1024 * 1024;

/// Most bytes in a row that are no message. Servers print what should have gone
/// to standard error, but not that much.
pub(super) const NOISE_CAP: usize = 1024 * 1024;

/// Most requests of a server that wait for our answer. It asks for little, and
/// whoever reads no answers gets none.
const REQUESTS_CAP: usize = 64;

/// Two ways for JSON-RPC messages, one text each.
#[derive(Debug)]
pub struct Channel {
    /// To the server.
    pub outgoing: mpsc::Sender<String>,
    /// From the server; its end is the conversation's.
    pub incoming: mpsc::Receiver<String>,
}

/// The far ends of a [`Channel`].
#[derive(Debug)]
pub struct FarEnds {
    /// What the server is sent.
    pub received: mpsc::Receiver<String>,
    /// What the server says.
    pub said: mpsc::Sender<String>,
}

/// Returns a channel and its far ends.
#[must_use]
pub fn channel() -> (Channel, FarEnds) {
    let (outgoing, received) = mpsc::channel(CHANNEL_CAP);
    let (said, incoming) = mpsc::channel(CHANNEL_CAP);
    (Channel { outgoing, incoming }, FarEnds { received, said })
}

/// The library's side of a channel.
pub(super) struct Link {
    channel: Channel,
    /// How many requests of the server have no answer yet.
    asked: Arc<AtomicUsize>,
    noise: usize,
}

/// The conversation is over.
#[derive(Debug, Error)]
#[error("the server hears nothing any more")]
pub(super) struct Gone;

impl Link {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, asked: Arc::default(), noise: 0 }
    }

    /// Takes a text; `None` if it is no message, `Err` if that is enough.
    fn take(&mut self, text: &str) -> Result<Option<ServerJsonRpcMessage>, Gone> {
        let Ok(message) = serde_json::from_str(text) else {
            let start: String = text.chars().take(200).collect();
            tracing::debug!(target: "tine::mcp", %start, "what is no message is left out");
            self.noise += text.len() + 1;
            return if self.noise > NOISE_CAP { Err(Gone) } else { Ok(None) };
        };
        self.noise = 0;
        if let JsonRpcMessage::Request(_) = &message
            && self.asked.fetch_add(1, Ordering::Relaxed) >= REQUESTS_CAP
        {
            return Err(Gone);
        }
        Ok(Some(message))
    }
}

impl Transport<RoleClient> for Link {
    type Error = Gone;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Gone>> + Send + 'static {
        let outgoing = self.channel.outgoing.clone();
        let asked = Arc::clone(&self.asked);
        async move {
            let text = serde_json::to_string(&message).expect("a message of ours can be written");
            outgoing.send(text).await.map_err(|_| Gone)?;
            match message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                    // It may answer what it was not asked.
                    let less = |asked: usize| asked.checked_sub(1);
                    let _ = asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                }
                JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let text = self.channel.incoming.recv().await?;
            match self.take(&text) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(Gone) => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Gone> {
        self.channel.incoming.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> (Link, FarEnds) {
        let (channel, far) = channel();
        (Link::new(channel), far)
    }

    #[tokio::test]
    async fn what_is_no_message_is_left_out_and_nothing_else_ends_the_conversation() {
        let (mut link, far) = link();
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let saying = tokio::spawn(async move {
            for text in ["listening on 3000", "{}", "[1]", ping] {
                far.said.send(text.to_owned()).await.unwrap();
            }
            let noise = "x".repeat(NOISE_CAP / 4);
            while far.said.send(noise.clone()).await.is_ok() {}
        });
        assert!(matches!(link.receive().await, Some(JsonRpcMessage::Request(_))));
        assert!(link.receive().await.is_none());
        drop(link);
        saying.await.unwrap();
    }

    #[tokio::test]
    async fn a_server_that_asks_without_end_is_not_heard_any_more() {
        let (mut link, far) = link();
        tokio::spawn(async move {
            for id in 0.. {
                let ping = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
                if far.said.send(ping).await.is_err() {
                    return;
                }
            }
        });
        let mut asked = 0;
        while link.receive().await.is_some() {
            asked += 1;
        }
        assert_eq!(asked, REQUESTS_CAP);
    }
}
