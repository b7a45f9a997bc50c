//! What servers want to know from people while they are called.
//!
//! A server asks its client and names no call. So whoever waits for a call of
//! that server puts it to a person: the unit that has waited longest and is free
//! to. A server that nobody calls has nobody who could be asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc, oneshot};

/// Most questions of a server that wait. It is one call's business; more is a
/// server that asks without end.
const WAITING_CAP: usize = 4;

/// What a person says to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elicited {
    /// This, by the names of the schema's properties.
    Given(Map<String, Value>),
    /// No.
    Declined,
    /// Nothing: nobody was asked, or the question was taken back.
    Cancelled,
}

/// Whoever can put a server's question to a person.
pub trait People: Send + Sync {
    /// Asks, and waits for as long as that takes. `schema` is JSON Schema of
    /// what the server wants.
    fn ask<'a>(&'a self, message: &'a str, schema: &'a Value) -> BoxFuture<'a, Elicited>;
}

/// A question of a server.
struct Question {
    message: String,
    schema: Value,
    reply: oneshot::Sender<Elicited>,
}

/// The questions of a server, on their way to whoever calls it.
pub(super) struct Elicitations {
    sender: mpsc::Sender<Question>,
    // The calls of a server take turns to wait for its next question; nothing
    // else could pass the receiver among futures that end at any moment.
    waiting: Mutex<mpsc::Receiver<Question>>,
    calls: AtomicUsize,
    open: AtomicUsize,
}

impl Default for Elicitations {
    fn default() -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_CAP);
        let waiting = Mutex::new(waiting);
        Self { sender, waiting, calls: AtomicUsize::new(0), open: AtomicUsize::new(0) }
    }
}

/// Counts for as long as it is there.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Elicitations {
    /// Asks on behalf of the server.
    pub(super) async fn ask(&self, message: String, schema: Value) -> Elicited {
        if self.calls.load(Ordering::Relaxed) == 0 {
            return Elicited::Cancelled;
        }
        let (reply, answer) = oneshot::channel();
        if self.sender.try_send(Question { message, schema, reply }).is_err() {
            return Elicited::Cancelled;
        }
        answer.await.unwrap_or(Elicited::Cancelled)
    }

    /// Puts questions to people until it is dropped, with the call that they
    /// are asked for.
    pub(super) async fn tend(&self, people: &dyn People) -> std::convert::Infallible {
        let _called = Counted::new(&self.calls);
        loop {
            let question = self.waiting.lock().await.recv().await;
            let Some(Question { message, schema, reply }) = question else {
                return std::future::pending().await;
            };
            let _open = Counted::new(&self.open);
            // A server that has gone hears nothing.
            let _ = reply.send(people.ask(&message, &schema).await);
        }
    }

    /// Tells whether a person is being asked.
    pub(super) fn is_asking(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Ann;

    impl People for Ann {
        fn ask<'a>(&'a self, message: &'a str, _: &'a Value) -> BoxFuture<'a, Elicited> {
            let said = Map::from_iter([("name".to_owned(), json!(format!("Ann, to {message}")))]);
            Box::pin(async move { Elicited::Given(said) })
        }
    }

    #[tokio::test]
    async fn whoever_calls_is_asked_and_without_a_call_nobody_is() {
        let elicitations = Elicitations::default();
        let schema = json!({});
        let ask = || elicitations.ask("Who?".to_owned(), schema.clone());
        assert_eq!(ask().await, Elicited::Cancelled);
        tokio::select! {
            never = elicitations.tend(&Ann) => match never {},
            asked = async {
                tokio::task::yield_now().await;
                ask().await
            } => {
                let said = Map::from_iter([("name".to_owned(), json!("Ann, to Who?"))]);
                assert_eq!(asked, Elicited::Given(said));
            }
        }
        assert_eq!(ask().await, Elicited::Cancelled);
    }
}
