//! All that speaks NATS: streams and their settings, tickets, frames of slots,
//! results, requests and blobs.
//!
//! What is in a message is nothing to it: payloads are bytes. It owns the names of
//! subjects, streams and consumers, and the promise that what a server has
//! acknowledged is neither lost nor read twice, over restarts of that server.
//! When to offer, to claim or to give up is decided elsewhere.

mod blobs;
mod call;
mod connect;
mod error;
mod follow;
mod layout;
mod lost;
mod names;
mod offers;
mod pieces;
mod publish;
mod settings;
mod signs;
mod state;
mod talk;
mod tickets;
mod tries;

use std::sync::Arc;
use std::time::Duration;

pub use blobs::{BLOB_CAP, Hash};
pub use error::{ClaimError, EngineError};
pub use follow::{Frame, Heard, Stop, Stops};
pub(super) use layout::JOBS_AGE;
pub use lost::Lost;
pub use offers::{OFFERS_UNACKED, Offers, Refused};
pub use publish::{Said, Won};
pub use settings::{Settings, Tls};
pub use signs::Reconnected;
pub use talk::{Asked, Request, Told};
pub use tickets::{Ticket, Tickets};

use async_nats::Client;
use async_nats::jetstream::Context;
use names::Names;
use signs::Signs;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// A connection to the servers, with everything in place that the pool needs there.
///
/// Clones share the connection. It is made anew for as long as any of them lives.
#[derive(Clone, Debug)]
pub struct Engine {
    client: Client,
    jetstream: Context,
    names: Arc<Names>,
    signs: Signs,
    /// Where the servers are, without users and passwords.
    servers: Arc<str>,
    lease: Duration,
    /// What goes on when nobody waits for it.
    tasks: TaskTracker,
}

/// One slot that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The coordinator's session.
    pub run: Arc<str>,
    /// The slot in it.
    pub unit: u32,
    /// What a worker must be called to take it; `None` is any.
    pub label: Option<Arc<str>>,
}

impl Engine {
    /// Returns how long a ticket's holder may be silent before it goes to another.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns since when the connection stands; `None` while there is none.
    #[must_use]
    pub fn connected_since(&self) -> Option<Instant> {
        self.signs.connected_since()
    }

    /// Returns what tells of connections that are made anew.
    #[must_use]
    pub fn reconnections(&self) -> Reconnected {
        self.signs.reconnected()
    }

    /// Returns the size of the largest message that the server takes, in bytes.
    #[must_use]
    pub fn message_cap(&self) -> usize {
        self.client.max_payload()
    }
}

#[cfg(test)]
impl Engine {
    /// One whose server never answers: nothing that is sent goes out.
    pub(in crate::fleet) async fn unanswered(address: &str, lease: Duration) -> Self {
        let options = async_nats::ConnectOptions::new().retry_on_initial_connect();
        let client = options.connect(address).await.expect("it is connected later");
        let jetstream = async_nats::jetstream::new(client.clone());
        let names = Arc::new(Names::new("tine").expect("it is a prefix"));
        let ((_, signs), servers) = (signs::signs(), address.into());
        Self { client, jetstream, names, signs, servers, lease, tasks: TaskTracker::new() }
    }
}
