//! A conversation with a server as texts, and what the protocol's library makes
//! of it.
//!
//! Whatever carries the texts (a process, a client's control channel, a test)
//! is a [`Channel`]. A server may send anything: text that is not a message is
//! ignored with one warning, and a server that sends nothing else, or sends requests without
//! end, is disconnected.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::json;
use thiserror::Error;
use tokio::sync::mpsc;

use super::reply::{self, OpenRequests, ServerMessage};

/// Most messages that wait on each way. Few: one may be as long as
/// [`MESSAGE_CAP`].
pub const CHANNEL_CAP: usize = 4;

/// Longest message, in bytes. A few images fit, and a server that never ends a
/// line does not fill the memory.
pub const MESSAGE_CAP: usize = 16 * 1024 * 1024;

/// Most bytes in a row that are no message. Servers print what should have gone
/// to standard error, but not that much.
pub(super) const NOISE_CAP: usize = 1024 * 1024;

/// Maximum characters of an ignored line in the warning.
const NOISE_SHOWN: usize = 200;

/// JSON-RPC's code for a malformed request.
const INVALID_REQUEST: i32 = -32_600;

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

/// The first line on a server's standard output that is not a message.
#[derive(Debug, Default)]
pub(super) struct Noise(Mutex<FirstLine>);

#[derive(Debug, Default)]
enum FirstLine {
    #[default]
    None,
    Untold(String),
    Told,
}

impl Noise {
    fn record(&self, line: &str) {
        let mut first = self.0.lock().expect("nothing panics while it holds this");
        if let FirstLine::None = &*first {
            *first = FirstLine::Untold(line.chars().take(NOISE_SHOWN).collect());
        }
    }

    /// Returns the warning for the user, once.
    pub(super) fn take_warning(&self) -> Option<String> {
        let mut first = self.0.lock().expect("nothing panics while it holds this");
        if let FirstLine::Untold(line) = &*first {
            let told = format!(
                "it writes lines to standard output that are not messages; they are ignored (logs \
                 belong on standard error): `{}`",
                line.escape_debug()
            );
            *first = FirstLine::Told;
            return Some(told);
        }
        None
    }
}

/// The library's side of a channel.
pub(super) struct Link {
    channel: Channel,
    /// How many requests of the server have no answer yet.
    asked: Arc<AtomicUsize>,
    noise_bytes: usize,
    noise: Arc<Noise>,
    /// The requests that wait for an answer; shared with the futures of [`Transport::send`].
    open: Arc<Mutex<OpenRequests>>,
    /// Parsed messages that `rmcp` has not received yet.
    read: VecDeque<ServerJsonRpcMessage>,
    /// The lines so far of a message that spans several lines, and how many of their brackets are
    /// open.
    partial: String,
    depth: i64,
}

/// The text that a line completes together with the lines before it.
enum JoinedLines<'a> {
    /// It belongs to a message that is not complete.
    Pending,
    Whole(Cow<'a, str>),
}

/// The conversation is over.
#[derive(Debug, Error)]
#[error("the server hears nothing any more")]
pub(super) struct Gone;

impl Link {
    pub(super) fn new(channel: Channel, noise: Arc<Noise>) -> Self {
        Self {
            channel,
            asked: Arc::default(),
            noise_bytes: 0,
            noise,
            open: Arc::default(),
            read: VecDeque::new(),
            partial: String::new(),
            depth: 0,
        }
    }

    /// Parses a text and queues its messages.
    ///
    /// # Errors
    ///
    /// The server has exceeded the limit for text that is not a message, or for open requests.
    fn take(&mut self, text: &str) -> Result<(), Gone> {
        let open = Arc::clone(&self.open);
        let mut open = lock(&open);
        let text = match self.join_lines(text) {
            JoinedLines::Pending => return Ok(()),
            JoinedLines::Whole(text) => text,
        };
        for incoming in reply::parse_messages(&text, &open) {
            match incoming {
                ServerMessage::Message(message) => {
                    match &*message {
                        JsonRpcMessage::Request(_) => self.count_request()?,
                        JsonRpcMessage::Response(response) => open.remove(&response.id),
                        JsonRpcMessage::Error(error) => {
                            error.id.iter().for_each(|id| open.remove(id));
                        }
                        JsonRpcMessage::Notification(_) => {}
                    }
                    self.read.push_back(*message);
                }
                ServerMessage::Stray(why) => open.add_stray(why),
                ServerMessage::BadRequest { id, why } => {
                    let error = json!({ "code": INVALID_REQUEST, "message": why });
                    let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                    // If the channel is full, the server does not read its answers.
                    let _ = self.channel.outgoing.try_send(answer.to_string());
                }
                ServerMessage::Ignored => {}
                ServerMessage::NotJsonRpc => {
                    self.pass_over(&text)?;
                    continue;
                }
            }
            self.noise_bytes = 0;
        }
        self.read.extend(open.resolve_strays());
        Ok(())
    }

    /// Joins the lines of a message that spans several, as indented JSON does.
    fn join_lines<'a>(&mut self, text: &'a str) -> JoinedLines<'a> {
        let is_start = self.partial.is_empty() && matches!(text, "{" | "[");
        // A compact message follows lines that were not the start of one.
        let is_compact =
            text.starts_with('{') && (text.starts_with("{\"") || text.contains("\"jsonrpc\""));
        let is_other = is_compact || self.partial.len() + text.len() > MESSAGE_CAP;
        if !is_start && (self.partial.is_empty() || is_other) {
            self.partial.clear();
            self.depth = 0;
            return JoinedLines::Whole(text.into());
        }
        self.partial.push_str(text);
        self.partial.push('\n');
        self.depth += nesting(text);
        match self.depth > 0 {
            true => JoinedLines::Pending,
            false => {
                self.depth = 0;
                JoinedLines::Whole(std::mem::take(&mut self.partial).into())
            }
        }
    }

    fn count_request(&self) -> Result<(), Gone> {
        match self.asked.fetch_add(1, Ordering::Relaxed) >= REQUESTS_CAP {
            true => Err(Gone),
            false => Ok(()),
        }
    }

    /// Ignores text that is not a message.
    fn pass_over(&mut self, text: &str) -> Result<(), Gone> {
        let start: String = text.chars().take(NOISE_SHOWN).collect();
        tracing::debug!(target: "tine::mcp", %start, "text that is not a message is ignored");
        self.noise.record(text);
        self.noise_bytes += text.len() + 1;
        if self.noise_bytes > NOISE_CAP { Err(Gone) } else { Ok(()) }
    }
}

/// Returns how many more brackets a line of JSON opens than it closes.
fn nesting(line: &str) -> i64 {
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    for byte in line.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => depth -= 1,
            _ => {}
        }
    }
    depth
}

fn lock(open: &Mutex<OpenRequests>) -> MutexGuard<'_, OpenRequests> {
    open.lock().expect("nothing panics while it holds this")
}

impl Transport<RoleClient> for Link {
    type Error = Gone;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Gone>> + Send + 'static {
        let outgoing = self.channel.outgoing.clone();
        let asked = Arc::clone(&self.asked);
        match &message {
            JsonRpcMessage::Request(request) => lock(&self.open).add(request),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.open).remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
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
            if let Some(message) = self.read.pop_front() {
                return Some(message);
            }
            let text = self.channel.incoming.recv().await?;
            if let Err(Gone) = self.take(text.trim()) {
                return None;
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
    use rmcp::model::{ClientRequest, CustomRequest, RequestId};

    use super::*;

    fn link() -> (Link, FarEnds) {
        let (channel, far) = channel();
        (Link::new(channel, Arc::default()), far)
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

    /// Sends a request over the link, as the protocol's library does.
    async fn ask(link: &mut Link, far: &mut FarEnds, number: i64) {
        let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", None));
        let request = ClientJsonRpcMessage::request(request, RequestId::Number(number));
        link.send(request).await.unwrap();
        far.received.recv().await.unwrap();
    }

    async fn say(far: &FarEnds, texts: &[&str]) {
        for text in texts {
            far.said.send((*text).to_owned()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_log_on_standard_output_is_passed_over_and_told_of_once() {
        let noise = Arc::new(Noise::default());
        let (channel, mut far) = channel();
        let mut link = Link::new(channel, Arc::clone(&noise));
        assert_eq!(noise.take_warning(), None);
        ask(&mut link, &mut far, 1).await;
        say(&far, &["got\u{1b}[0m a call", "{\"level\":\"info\"}", r#"{"id":1,"result":{}}"#])
            .await;
        assert!(matches!(link.receive().await, Some(JsonRpcMessage::Response(_))));
        let told = noise.take_warning().unwrap();
        assert!(told.ends_with("belong on standard error): `got\\u{1b}[0m a call`"), "{told}");
        say(&far, &["more", r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#]).await;
        assert!(matches!(link.receive().await, Some(JsonRpcMessage::Request(_))));
        assert_eq!(noise.take_warning(), None);
    }

    #[tokio::test]
    async fn a_message_may_be_written_over_several_lines() {
        let (mut link, mut far) = link();
        ask(&mut link, &mut far, 1).await;
        tokio::spawn(async move {
            let content = ["\"content\": [", "{", "\"text\": \"}] \\\"\"", "}", "]"];
            say(&far, &["{", "\"id\": 1,", "\"result\": {"]).await;
            say(&far, &content).await;
            say(&far, &["}", "}", "{", r#"{ "jsonrpc": "2.0", "id": 2, "method": "ping" }"#]).await;
        });
        assert!(matches!(link.receive().await, Some(JsonRpcMessage::Response(_))));
        assert!(matches!(link.receive().await, Some(JsonRpcMessage::Request(_))));
        assert!(link.receive().await.is_none());
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_read_is_answered_and_a_batch_is_taken_apart() {
        let (mut link, mut far) = link();
        for number in 1..=3 {
            ask(&mut link, &mut far, number).await;
        }
        say(&far, &[r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#]).await;
        say(&far, &[r#"[{"id":2,"result":{}},{"id":1,"error":"no"}]"#]).await;
        say(&far, &[r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"bad"}}"#])
            .await;
        let first = link.receive().await.unwrap().into_response().unwrap().1;
        let second = link.receive().await.unwrap().into_error().unwrap();
        let third = link.receive().await.unwrap().into_error().unwrap();
        assert_eq!(first, RequestId::Number(2));
        assert_eq!((&*second.0.message, second.1), ("no", Some(RequestId::Number(1))));
        assert_eq!((&*third.0.message, third.1), ("bad", Some(RequestId::Number(3))));
        let answer: serde_json::Value =
            serde_json::from_str(&far.received.recv().await.unwrap()).unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!({}), &json!(INVALID_REQUEST))
        );
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
