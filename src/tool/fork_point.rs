//! Where forks begin: the conversation of the unit that starts them, and which
//! of them goes first.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::files::Seen;
use crate::message::{Prefix, fork_base, last_sent};
use crate::model::Model;

/// The conversation of a unit at the moment in which it starts forks. All forks
/// of one answer share one value, and so the same bytes in memory.
pub struct ForkPoint {
    conversation: Prefix,
    /// Who has read the shared bytes.
    model: Arc<dyn Model>,
    /// What its unit had seen of files by then; what the calls of the same
    /// answer see is not in the conversation.
    seen: Seen,
    base: OnceLock<Prefix>,
    priming: watch::Sender<Priming>,
}

impl fmt::Debug for ForkPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForkPoint")
            .field("entries", &self.conversation.entries.len())
            .field("model", self.model.name())
            .finish_non_exhaustive()
    }
}

/// Whether somebody has had the shared bytes read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Priming {
    /// Nobody has sent them.
    Cold,
    /// Somebody has, and waits for the answer's first piece.
    Sent,
    /// An answer has begun: they are in the provider's cache if they ever
    /// will be.
    Warm,
}

impl ForkPoint {
    /// The point at which `conversation` stands now.
    #[must_use]
    pub fn new(conversation: Prefix, seen: &Seen, model: Arc<dyn Model>) -> Self {
        let (priming, _) = watch::channel(Priming::Cold);
        Self { conversation, model, seen: seen.for_fork(), base: OnceLock::new(), priming }
    }

    /// The point of forks that begin with `base`, and whose parent is in another
    /// process. What that had seen of files is not known here: where they work
    /// the files are others.
    #[must_use]
    pub fn with_base(base: Prefix, model: Arc<dyn Model>) -> Self {
        // Where the last answer stands, there it stood for the parent.
        let point = Self::new(base.clone(), &Seen::default(), model);
        Self { base: OnceLock::from(base), ..point }
    }

    /// Returns the model that its unit asks, and every fork with it.
    #[must_use]
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.model
    }

    /// Returns what a fork has seen of files when it begins.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen.for_fork()
    }

    /// Returns what every fork begins with.
    #[must_use]
    pub fn base(&self) -> &Prefix {
        self.base.get_or_init(|| Self::base_of(&self.conversation))
    }

    /// Returns what a fork of such a conversation begins with.
    #[must_use]
    pub fn base_of(conversation: &Prefix) -> Prefix {
        let placeholder = include_str!("../../prompts/fork_placeholder.md").trim_end();
        fork_base(conversation, placeholder)
    }

    /// Returns what the parent's last request held; `None` if it sent none.
    #[must_use]
    pub fn sent(&self) -> Option<Prefix> {
        last_sent(&self.conversation)
    }

    /// Waits until it is sensible to send the shared bytes: engines cache only
    /// what they have finished reading, so the first goes ahead and the others
    /// wait for its first piece, but no longer than `most`.
    ///
    /// The first gets a [`Lead`]. If it fails before its first piece, the next
    /// one leads.
    pub async fn prime(&self, most: Duration) -> Option<Lead<'_>> {
        if most.is_zero() {
            return None;
        }
        // A deadline passed: whoever waits has waited long enough.
        tokio::time::timeout(most, self.lead_or_follow()).await.ok().flatten()
    }

    async fn lead_or_follow(&self) -> Option<Lead<'_>> {
        let mut stage = self.priming.subscribe();
        loop {
            let leads = self.priming.send_if_modified(|stage| {
                let is_first = *stage == Priming::Cold;
                if is_first {
                    *stage = Priming::Sent;
                }
                is_first
            });
            if leads {
                return Some(Lead { point: self });
            }
            if *stage.borrow_and_update() == Priming::Warm {
                return None;
            }
            stage.changed().await.expect("the point holds the sender");
        }
    }
}

/// The one fork whose request goes ahead.
#[derive(Debug)]
#[must_use = "the others wait until it is dropped or warm"]
pub struct Lead<'a> {
    point: &'a ForkPoint,
}

impl Lead<'_> {
    /// Lets the others go: the answer has begun.
    pub fn warm(self) {
        self.point.priming.send_replace(Priming::Warm);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.point.priming.send_if_modified(|stage| {
            let is_left = *stage == Priming::Sent;
            if is_left {
                *stage = Priming::Cold;
            }
            is_left
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::Instant;

    use super::*;
    use crate::message::{Call, Head, Message, Output, Reply};
    use crate::model::offline::Offline;

    const MOST: Duration = Duration::from_secs(2);

    fn point() -> ForkPoint {
        let prefix = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
        ForkPoint::new(prefix, &Seen::default(), Arc::new(Offline::new()))
    }

    /// A conversation of these messages: `u` is a user's, `m` a model's, `c` one with
    /// a call, `o` its output.
    fn conversation(messages: &str) -> Prefix {
        let mut prefix = Prefix::new(Arc::new(Head::new(String::new(), Vec::new())));
        for letter in messages.chars() {
            let call = Call { id: "a".into(), tool: "Read".into(), arguments: "{}".into() };
            let calls = if letter == 'c' { vec![call] } else { Vec::new() };
            prefix.push(match letter {
                'u' => Message::User("go".into()),
                'o' => Message::Output { call: "a".into(), output: Arc::new(Output::ok("x")) },
                _ => Message::Model(Arc::new(Reply { calls, ..Reply::default() })),
            });
        }
        prefix
    }

    #[test]
    fn forks_elsewhere_begin_with_the_same_and_know_how_much_their_parent_has_sent() {
        for messages in ["", "u", "uu", "um", "umu", "umuu", "uc", "ucoc", "uco", "ucou"] {
            let model: Arc<dyn Model> = Arc::new(Offline::new());
            let here = ForkPoint::new(conversation(messages), &Seen::default(), Arc::clone(&model));
            let there = ForkPoint::with_base(here.base().clone(), model);
            assert!(there.base().messages().eq(here.base().messages()), "{messages}");
            let count = |point: &ForkPoint| point.sent().map(|sent| sent.entries.len());
            assert_eq!(count(&there), count(&here), "{messages}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_goes_ahead_and_the_others_wait_for_its_first_piece() {
        let point = point();
        let lead = point.prime(MOST).await.unwrap();
        let mut second = Box::pin(point.prime(MOST));
        assert!(second.as_mut().now_or_never().is_none());
        lead.warm();
        assert!(second.await.is_none());
        assert!(point.prime(MOST).now_or_never().unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_that_fails_lets_the_next_one_lead() {
        let point = point();
        let lead = point.prime(MOST).await.unwrap();
        let mut second = Box::pin(point.prime(MOST));
        assert!(second.as_mut().now_or_never().is_none());
        drop(lead);
        assert!(second.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_the_bound_and_a_bound_of_zero_is_off() {
        let point = point();
        let _lead = point.prime(MOST).await.unwrap();
        let started = Instant::now();
        assert!(point.prime(MOST).await.is_none());
        assert_eq!(started.elapsed(), MOST);
        assert!(point.prime(Duration::ZERO).now_or_never().unwrap().is_none());
    }
}
