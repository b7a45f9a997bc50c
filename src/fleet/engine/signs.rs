//! What the connection says about itself: that it was made anew, and what the
//! server does not permit.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ClientError, Event, ServerError};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Why there is no connection, before anybody has tried to make another.
const CLOSED: &str = "it was closed";

/// The reading end: how often there was a connection, and the latest refusal.
#[derive(Clone, Debug)]
pub(super) struct Signs {
    connections: watch::Receiver<u64>,
    /// Since when there is one; `None` while there is none.
    since: watch::Receiver<Option<Instant>>,
    refusal: watch::Receiver<Arc<str>>,
    /// Why the last attempt to connect came to nothing.
    trouble: watch::Receiver<Arc<str>>,
}

/// The writing end, which is the connection's.
#[derive(Debug)]
pub(super) struct Signals {
    connections: watch::Sender<u64>,
    since: watch::Sender<Option<Instant>>,
    refusal: watch::Sender<Arc<str>>,
    trouble: watch::Sender<Arc<str>>,
}

/// Tells of connections that were made after it.
#[derive(Clone, Debug)]
pub struct Reconnected(watch::Receiver<u64>);

pub(super) fn signs() -> (Signals, Signs) {
    let (connections, seen) = watch::channel(0);
    let (since, stands) = watch::channel(None);
    let (refusal, refused) = watch::channel("".into());
    let (trouble, troubled) = watch::channel(CLOSED.into());
    let signs = Signs { connections: seen, since: stands, refusal: refused, trouble: troubled };
    (Signals { connections, since, refusal, trouble }, signs)
}

impl Signals {
    /// Takes down what the connection says of itself.
    pub(super) fn note(&self, event: &Event) {
        match event {
            Event::Connected => {
                tracing::info!("connected to NATS");
                self.since.send_replace(Some(Instant::now()));
                self.connections.send_modify(|count| *count += 1);
            }
            Event::Disconnected => {
                tracing::warn!("the connection to NATS is lost");
                self.trouble.send_replace(CLOSED.into());
                self.since.send_replace(None);
            }
            Event::ServerError(ServerError::Other(text)) => {
                tracing::warn!("NATS: {text}");
                self.refusal.send_replace(text.to_lowercase().into());
            }
            Event::ServerError(error) => tracing::warn!("NATS: {error}"),
            Event::SlowConsumer(_) => tracing::warn!("NATS: messages come faster than read"),
            Event::ClientError(error) => {
                tracing::debug!("NATS: {error}");
                if let ClientError::Other(why) = error {
                    self.trouble.send_replace(why.as_str().into());
                }
            }
            Event::LameDuckMode | Event::Draining | Event::Closed => {
                tracing::debug!("NATS: {event}");
            }
        }
    }
}

impl Signs {
    /// Waits for a connection after so many to be noted.
    pub(super) async fn connected_after(&self, number: u64) {
        let mut connections = self.connections.clone();
        // The connection lives for as long as what waits for it.
        let _ = connections.wait_for(|count| *count > number).await;
    }

    /// Returns since when there is a connection; `None` while there is none.
    pub(super) fn connected_since(&self) -> Option<Instant> {
        *self.since.borrow()
    }

    /// Waits until there has been no connection for so long, and returns how many there
    /// were, and why there is no other.
    pub(super) async fn lost(&self, longest: Duration) -> (u64, Arc<str>) {
        let mut since = self.since.clone();
        loop {
            // It is closed, and nobody is left to hear of it.
            if since.wait_for(Option::is_none).await.is_err() {
                std::future::pending::<()>().await;
            }
            // If there is one again by now it stands.
            let number = *self.connections.borrow();
            if timeout(longest, self.standing()).await.is_err() {
                return (number, self.trouble.borrow().clone());
            }
        }
    }

    /// Waits until there is a connection, and returns since when.
    pub(super) async fn standing(&self) -> Instant {
        let mut since = self.since.clone();
        loop {
            if let Some(since) = *since.borrow_and_update() {
                return since;
            }
            if since.changed().await.is_err() {
                // It is closed, and there is never another.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn reconnected(&self) -> Reconnected {
        let mut connections = self.connections.clone();
        connections.mark_unchanged();
        Reconnected(connections)
    }

    /// Waits for the server to say, from now on, that a subject is not permitted.
    pub(super) fn refused(&self, subject: &str) -> impl Future<Output = String> + Send + use<> {
        let mut refusal = self.refusal.clone();
        refusal.mark_unchanged();
        let quoted = format!("\"{}\"", subject.to_lowercase());
        async move {
            loop {
                if refusal.changed().await.is_err() {
                    // Nobody is left to say it.
                    std::future::pending::<()>().await;
                }
                let text = refusal.borrow_and_update().clone();
                if text.contains("permissions violation") && text.contains(&quoted) {
                    return text.to_string();
                }
            }
        }
    }
}

impl Reconnected {
    /// Waits for the next connection; each is told of once.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Forgets connections up to now.
    pub(super) fn forget(&mut self) {
        self.0.mark_unchanged();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_lost_once_there_was_none_for_so_long() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        let mut lost = Box::pin(signs.lost(LONGEST));
        assert_eq!((&mut lost).now_or_never(), None);
        signals.note(&Event::Disconnected);
        assert_eq!((&mut lost).now_or_never(), None);
        advance(LONGEST / 2).await;
        signals.note(&Event::Connected);
        assert_eq!((&mut lost).now_or_never(), None);
        signals.note(&Event::Disconnected);
        assert_eq!((&mut lost).now_or_never(), None);
        advance(LONGEST / 2).await;
        let refused = ClientError::Other("authorization violation".to_owned());
        signals.note(&Event::ClientError(refused));
        assert_eq!((&mut lost).now_or_never(), None);
        advance(LONGEST).await;
        assert_eq!((&mut lost).now_or_never(), Some((2, "authorization violation".into())));
        let mut later = Box::pin(signs.lost(LONGEST));
        signals.note(&Event::Connected);
        signals.note(&Event::Disconnected);
        assert_eq!((&mut later).now_or_never(), None);
        advance(LONGEST).await;
        assert_eq!((&mut later).now_or_never(), Some((3, CLOSED.into())));
    }
}
