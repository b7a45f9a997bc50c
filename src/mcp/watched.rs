//! What is looked at in a conversation with a server, however it is carried:
//! its end, what the server wants to know from people, and how much it tells
//! unasked.
//!
//! Notifications cost it nothing and us a look each: one that tells of more
//! than anybody could read has its conversation ended.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ElicitRequestParams, JsonRpcMessage, JsonRpcRequest,
    ServerJsonRpcMessage, ServerRequest,
};
use rmcp::transport::Transport;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::elicitation::Elicitations;

/// Over how long notifications are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Most notifications within that time. A server that logs a line for each row
/// of a table gets there in a moment; one that tells of progress never does.
const NOTIFICATIONS_CAP: u32 = 5_000;

/// Most bytes of them within that time: as many as one message may have.
const NOTIFIED_CAP: usize = super::MESSAGE_CAP;

/// A transport of which somebody wants to know when it is over: the library
/// tells nobody who still holds its other side.
pub(super) struct Watched<T> {
    inner: T,
    /// Take what the server wants to know from people as it comes.
    elicitations: Arc<Elicitations>,
    over: Over,
    _dropped: DropGuard,
    told: Told,
}

/// Fires once a transport is over.
#[derive(Clone, Default)]
pub(super) struct Over {
    token: CancellationToken,
    floods: Arc<AtomicBool>,
}

impl Over {
    /// Waits for it.
    pub(super) async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Returns why it is over, if that was not the server's own wish.
    pub(super) fn why(&self) -> Option<String> {
        let seconds = WINDOW.as_secs();
        self.floods.load(Ordering::Relaxed).then(|| {
            format!(
                "it floods: more than {NOTIFICATIONS_CAP} notifications or {NOTIFIED_CAP} bytes of \
                 them within {seconds} s"
            )
        })
    }
}

/// How much a server has told unasked of late.
struct Told {
    since: Instant,
    notifications: u32,
    bytes: usize,
}

impl Told {
    /// Takes note of one notification, and tells whether that is too much.
    fn is_too_much(&mut self, notification: &ServerJsonRpcMessage) -> bool {
        if self.since.elapsed() >= WINDOW {
            *self = Self { since: Instant::now(), notifications: 0, bytes: 0 };
        }
        self.notifications += 1;
        self.bytes += serde_json::to_vec(notification).map_or(0, |text| text.len());
        self.notifications > NOTIFICATIONS_CAP || self.bytes > NOTIFIED_CAP
    }
}

impl<T> Watched<T> {
    /// Returns the transport, and what fires once it is over.
    pub(super) fn new(inner: T, elicitations: Arc<Elicitations>) -> (Self, Over) {
        let over = Over::default();
        let dropped = over.token.clone().drop_guard();
        let told = Told { since: Instant::now(), notifications: 0, bytes: 0 };
        (Self { inner, elicitations, over: over.clone(), _dropped: dropped, told }, over)
    }

    /// Takes a question for people.
    fn take(&self, request: &JsonRpcRequest<ServerRequest>) {
        if let ServerRequest::ElicitRequest(asked) = &request.request
            && let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } =
                &asked.params
        {
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            self.elicitations.arrive(request.id.clone(), message, schema);
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await;
        match &message {
            None => self.over.token.cancel(),
            Some(JsonRpcMessage::Request(request)) => self.take(request),
            Some(told @ JsonRpcMessage::Notification(_)) => {
                if self.told.is_too_much(told) {
                    self.over.floods.store(true, Ordering::Relaxed);
                    self.over.token.cancel();
                    return None;
                }
            }
            Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) => {}
        }
        message
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::{Link, channel};
    use super::*;

    /// Counts what is heard of a server that tells so much at a time, this often,
    /// and then asks; and returns why it is not heard any more.
    async fn told(length: usize, pause: Duration, most: u32) -> (u32, Option<String>) {
        let (near, far) = channel();
        let (mut watched, over) = Watched::new(Link::new(near, Arc::default()), Arc::default());
        tokio::spawn(async move {
            let data = "x".repeat(length);
            for _ in 0..most {
                let message = serde_json::json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": { "level": "info", "data": data },
                });
                if far.said.send(message.to_string()).await.is_err() {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
        });
        let mut heard = 0;
        while watched.receive().await.is_some() {
            heard += 1;
        }
        over.wait().await;
        (heard, over.why())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_tells_too_much_is_not_heard_any_more() {
        let (heard, why) = told(10, Duration::ZERO, u32::MAX).await;
        assert_eq!(heard, NOTIFICATIONS_CAP);
        assert!(why.unwrap().starts_with("it floods: "));
        let (heard, why) = told(NOTIFIED_CAP / 4, Duration::ZERO, u32::MAX).await;
        assert_eq!((heard, why.is_some()), (3, true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_tells_much_for_long_is_heard() {
        let most = 2 * NOTIFICATIONS_CAP;
        let (heard, why) = told(10, Duration::from_millis(4), most).await;
        assert_eq!((heard, why), (most, None));
    }
}
