//! All that passes a NATS server of a test while somebody listens: what it stores, and
//! what is only asked, told and answered.

use std::sync::{Arc, Mutex};

use async_nats::{Client, Message};
use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::nats::NatsServer;
use super::wait::until;

/// Somebody who hears everything that anybody says there.
pub(crate) struct Wire {
    runtime: Runtime,
    client: Client,
    // A mutex, because it is heard on a task of its own.
    heard: Arc<Mutex<Vec<Message>>>,
}

impl Wire {
    /// Listens from now on.
    pub(crate) fn of(server: &NatsServer) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let heard = Arc::<Mutex<Vec<_>>>::default();
        let client = runtime.block_on(async_nats::connect(server.url()));
        let client = client.expect("the server is there");
        let mut all = runtime.block_on(client.subscribe(">")).expect("all may be heard");
        let listening = Arc::clone(&heard);
        runtime.spawn(async move {
            while let Some(message) = all.next().await {
                listening.lock().expect("nobody panics with it").push(message);
            }
        });
        let wire = Self { runtime, client, heard };
        wire.catch_up();
        wire
    }

    /// Waits until all is heard that was said before.
    fn catch_up(&self) {
        let mark = self.client.new_inbox();
        until("the server passes everything on", || {
            let said = self.client.publish(mark.clone(), "".into());
            self.runtime.block_on(said).expect("it is connected");
            !self.of_subject(&mark).is_empty()
        });
    }

    /// Returns all that was said so far.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.catch_up();
        self.heard.lock().expect("as above").clone()
    }

    /// Returns what was heard so far on the subjects that begin so.
    pub(crate) fn of_subject(&self, start: &str) -> Vec<Message> {
        let heard = self.heard.lock().expect("as above");
        heard.iter().filter(|message| message.subject.starts_with(start)).cloned().collect()
    }
}

/// Returns what a message says; null if that is not valid JSON.
pub(crate) fn said(message: &Message) -> Value {
    serde_json::from_slice(&message.payload).unwrap_or_default()
}
