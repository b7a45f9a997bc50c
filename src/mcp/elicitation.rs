//! What servers want to know from people while they are called.
//!
//! A server asks its client and names no call. So whoever waits for a call of
//! that server puts it to a person: the unit that has waited longest and is free
//! to. A server that nobody calls has nobody who could be asked, and a question
//! whose calls have ended is asked under no later one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use rmcp::model::RequestId;
use serde_json::{Map, Value};
use tokio::sync::{Notify, oneshot, watch};

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
    /// what the server wants. Dropping the future takes the question back.
    fn ask<'a>(&'a self, message: &'a str, schema: &'a Value) -> BoxFuture<'a, Elicited>;
}

/// A question of a server.
struct Question {
    message: String,
    schema: Value,
    reply: oneshot::Sender<Elicited>,
}

/// The questions of one connection, on their way to whoever calls its server.
#[derive(Default)]
pub(super) struct Elicitations {
    // What comes over the wire, what answers it and every call that ends look at
    // the same few things, the last of them while it is dropped: no task could
    // own them, for a call that ends cannot wait for one.
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    /// How many calls there are.
    calls: usize,
    /// What nobody has been asked yet, in the order in which it came.
    questions: VecDeque<Question>,
    /// Where the answers come, for whoever sends them.
    answers: Vec<(RequestId, oneshot::Receiver<Elicited>)>,
}

impl Elicitations {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nothing panics while it holds this")
    }

    /// Takes a question as it comes. Questions are taken in their order, which
    /// the library's tasks would lose.
    pub(super) fn arrive(&self, id: RequestId, message: &str, schema: Value) {
        let mut waiting = self.waiting();
        waiting.questions.retain(|question| !question.reply.is_closed());
        let is_full = waiting.questions.len() >= WAITING_CAP;
        if waiting.calls == 0 || is_full || waiting.answers.len() >= WAITING_CAP {
            return;
        }
        let (reply, answer) = oneshot::channel();
        waiting.questions.push_back(Question { message: message.to_owned(), schema, reply });
        waiting.answers.push((id, answer));
        drop(waiting);
        self.more.notify_one();
    }

    /// Waits for what is said to a question that has come.
    pub(super) async fn answer(&self, id: &RequestId) -> Elicited {
        let answer = {
            let mut waiting = self.waiting();
            let place = waiting.answers.iter().position(|(asked, _)| asked == id);
            place.map(|place| waiting.answers.remove(place).1)
        };
        match answer {
            Some(answer) => answer.await.unwrap_or(Elicited::Cancelled),
            None => Elicited::Cancelled,
        }
    }

    /// Says that a call begins; it ends with what this returns.
    pub(super) fn called(&self) -> Called<'_> {
        self.waiting().calls += 1;
        Called(self)
    }

    async fn next(&self) -> Question {
        loop {
            let next = self.waiting().questions.pop_front();
            match next {
                Some(question) if question.reply.is_closed() => {}
                Some(question) => return question,
                None => self.more.notified().await,
            }
        }
    }
}

/// A call under which a server may ask.
pub(super) struct Called<'a>(&'a Elicitations);

impl Called<'_> {
    /// Puts questions to people until it is dropped, and says meanwhile whether
    /// one is being asked.
    pub(super) async fn tend(&self, people: &dyn People, asks: &watch::Sender<bool>) -> Infallible {
        loop {
            let Question { message, schema, mut reply } = self.0.next().await;
            asks.send_replace(true);
            let said = tokio::select! {
                biased;
                // The server has taken it back, or has gone.
                () = reply.closed() => None,
                said = people.ask(&message, &schema) => Some(said),
            };
            asks.send_replace(false);
            if let Some(said) = said {
                // It may have gone just now.
                let _ = reply.send(said);
            }
        }
    }
}

impl Drop for Called<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.calls -= 1;
        if waiting.calls == 0 {
            waiting.questions.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use serde_json::json;

    use super::*;

    /// Keeps what it is asked, and answers what does not say `wait`.
    #[derive(Default)]
    struct Ann {
        asked: Mutex<Vec<String>>,
        was_left: AtomicBool,
    }

    struct Left<'a>(&'a AtomicBool);

    impl Drop for Left<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    impl People for Ann {
        fn ask<'a>(&'a self, message: &'a str, _: &'a Value) -> BoxFuture<'a, Elicited> {
            self.asked.lock().unwrap().push(message.to_owned());
            Box::pin(async move {
                if message == "wait" {
                    let _left = Left(&self.was_left);
                    return std::future::pending().await;
                }
                Elicited::Given(said(message))
            })
        }
    }

    impl Ann {
        fn asked(&self) -> Vec<String> {
            self.asked.lock().unwrap().clone()
        }
    }

    fn said(message: &str) -> Map<String, Value> {
        Map::from_iter([("name".to_owned(), json!(format!("Ann, to {message}")))])
    }

    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    async fn tended(elicitations: &Elicitations, ann: &Ann, until: impl Future<Output = ()>) {
        let (called, asks) = (elicitations.called(), watch::Sender::new(false));
        tokio::select! {
            biased;
            never = called.tend(ann, &asks) => match never {},
            () = until => {}
        }
    }

    #[tokio::test]
    async fn whoever_calls_is_asked_in_the_order_of_the_questions_and_without_a_call_nobody_is() {
        let (elicitations, ann) = (Elicitations::default(), Ann::default());
        elicitations.arrive(id(1), "early", json!({}));
        assert_eq!(elicitations.answer(&id(1)).await, Elicited::Cancelled);
        tended(&elicitations, &ann, async {
            for (number, message) in [(2, "first"), (3, "second")] {
                elicitations.arrive(id(number), message, json!({}));
            }
            // The library may come for the answers in any order.
            assert_eq!(elicitations.answer(&id(3)).await, Elicited::Given(said("second")));
            assert_eq!(elicitations.answer(&id(2)).await, Elicited::Given(said("first")));
        })
        .await;
        assert_eq!(ann.asked(), ["first", "second"]);
        elicitations.arrive(id(4), "late", json!({}));
        assert_eq!(elicitations.answer(&id(4)).await, Elicited::Cancelled);
    }

    #[tokio::test]
    async fn questions_that_waited_end_with_the_last_call_and_are_asked_under_no_later_one() {
        let (elicitations, ann) = (Elicitations::default(), Ann::default());
        let called = elicitations.called();
        elicitations.arrive(id(1), "old", json!({}));
        drop(called);
        tended(&elicitations, &ann, async {
            assert_eq!(elicitations.answer(&id(1)).await, Elicited::Cancelled);
            tokio::task::yield_now().await;
        })
        .await;
        assert_eq!(ann.asked(), [""; 0]);
    }

    #[tokio::test]
    async fn a_question_that_the_server_takes_back_is_no_longer_asked() {
        let (elicitations, ann) = (Elicitations::default(), Ann::default());
        tended(&elicitations, &ann, async {
            elicitations.arrive(id(1), "wait", json!({}));
            elicitations.arrive(id(2), "skipped", json!({}));
            elicitations.arrive(id(3), "next", json!({}));
            {
                let (one, two) = (id(1), id(2));
                let both = futures_util::future::join(
                    elicitations.answer(&one),
                    elicitations.answer(&two),
                );
                let mut both = std::pin::pin!(both);
                assert!(futures_util::poll!(&mut both).is_pending());
                tokio::task::yield_now().await;
            }
            assert_eq!(elicitations.answer(&id(3)).await, Elicited::Given(said("next")));
        })
        .await;
        assert_eq!(ann.asked(), ["wait", "next"]);
        assert!(ann.was_left.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn more_questions_than_may_wait_are_answered_with_nothing() {
        let elicitations = Elicitations::default();
        let _called = elicitations.called();
        for number in 0..100 {
            elicitations.arrive(id(number), "?", json!({}));
        }
        let waiting = elicitations.waiting();
        assert_eq!((waiting.questions.len(), waiting.answers.len()), (WAITING_CAP, WAITING_CAP));
    }
}
