//! The gate: the one valve in front of a provider's endpoint and key.
//!
//! Every request of every unit passes it, so what one of them is told by the
//! provider holds for all. It decides only when a request may be sent: what
//! becomes of one that was refused is for whoever sent it. It sends nothing
//! itself, and knows no time but tokio's.

mod limit;
mod quota;
mod state;

use std::future::poll_fn;
use std::num::{NonZeroU32, NonZeroUsize};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use self::state::{Charge, End, Entered, LaneIndex, Look, State, Ticket};

/// A gate. A clone is the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // A mutex, because a place is given back where a pass is dropped, which is
    // not always a place that can wait for an owner's answer.
    state: Mutex<State>,
}

impl Gate {
    /// A gate with room for so many in flight; `None` leaves it to what the
    /// provider refuses.
    #[must_use]
    pub fn new(most_in_flight: Option<NonZeroUsize>) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::new(State::new(most_in_flight)) }) }
    }

    /// Lets at most so many be in flight from now on, or as few as before if
    /// those are fewer.
    pub fn allow_at_most(&self, most: NonZeroUsize) {
        self.shared.with(|state, _| state.allow_at_most(most));
    }

    /// Adds a lane for a configured model.
    ///
    /// Lanes are never taken away: one for each model, not for each unit.
    #[must_use]
    pub fn lane(&self, quota: Quota) -> Lane {
        let index = self.shared.with(|state, now| state.add_lane(quota, now));
        Lane { shared: Arc::clone(&self.shared), index }
    }
}

/// What is configured for a model; `None` where nothing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Requests in a minute.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Tokens in a minute, of prompts and answers alike.
    pub tokens_per_minute: Option<NonZeroU32>,
}

/// The way through the gate for the requests of one configured model. They pass
/// in the order in which they came. A clone is the same lane.
#[derive(Debug, Clone)]
pub struct Lane {
    shared: Arc<Shared>,
    index: LaneIndex,
}

impl Lane {
    /// Takes a place in the queue, and passes at once if nothing stands before.
    ///
    /// `estimate` is how many tokens the request and its answer may come to.
    pub fn enter(&self, estimate: u64) -> Entry {
        let entered = self.shared.with(|state, now| state.enter(self.index, estimate, now));
        let shared = || Arc::clone(&self.shared);
        match entered {
            Entered::Passed(charge) => {
                Entry::Passed(Pass { shared: shared(), charge: Some(charge) })
            }
            Entered::Held(ticket) => {
                Entry::Held(Held { shared: shared(), lane: self.index, ticket })
            }
            Entered::Shut(until) => Entry::Shut(Shut { until }),
        }
    }
}

/// What came of asking to pass.
#[derive(Debug)]
#[must_use = "a place that is dropped is given up"]
pub enum Entry {
    /// The request may be sent now.
    Passed(Pass),
    /// It has to wait.
    Held(Held),
    /// It would have to wait for too long.
    Shut(Shut),
}

/// The provider takes nothing for this model before a moment that was too far
/// off to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shut {
    /// When it does.
    pub until: Instant,
}

/// Why a request waits. The moments are the earliest; there may be others
/// before it in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throttle {
    /// As many are in flight as the provider takes.
    InFlight,
    /// The provider said when it may be asked again.
    Provider {
        /// Then.
        until: Instant,
    },
    /// The configured requests per minute are used up.
    Requests {
        /// When there is another one.
        until: Instant,
    },
    /// The configured tokens per minute are used up.
    Tokens {
        /// When there are more.
        until: Instant,
    },
}

impl Throttle {
    /// Returns the moment before which nothing passes; `None` if it depends on
    /// the requests in flight.
    #[must_use]
    pub fn until(self) -> Option<Instant> {
        match self {
            Self::InFlight => None,
            Self::Provider { until } | Self::Requests { until } | Self::Tokens { until } => {
                Some(until)
            }
        }
    }
}

/// A place in a lane's queue. Dropping it gives the place up.
///
/// It must be waited on: the first of a lane is who keeps its time.
#[derive(Debug)]
#[must_use = "a place that is dropped is given up"]
pub struct Held {
    shared: Arc<Shared>,
    lane: LaneIndex,
    ticket: Ticket,
}

impl Held {
    /// Returns what the first of its lane waits for now.
    #[must_use]
    pub fn cause(&self) -> Throttle {
        self.shared.with(|state, _| state.throttle(self.lane))
    }

    /// Waits for its turn. Dropping the future gives the place up; a turn that
    /// was already given goes to the next.
    ///
    /// # Errors
    ///
    /// The provider has said since that it is away for too long.
    pub async fn wait(self) -> Result<Pass, Shut> {
        let mut timer = pin!(sleep_until(Instant::now()));
        poll_fn(|context| self.poll(timer.as_mut(), context)).await
    }

    fn poll(
        &self,
        mut timer: std::pin::Pin<&mut Sleep>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Pass, Shut>> {
        loop {
            let look =
                |state: &mut State, now| state.look(self.lane, self.ticket, context.waker(), now);
            match self.shared.with(look) {
                Look::Passed(charge) => {
                    let shared = Arc::clone(&self.shared);
                    return Poll::Ready(Ok(Pass { shared, charge: Some(charge) }));
                }
                Look::Shut(until) => return Poll::Ready(Err(Shut { until })),
                Look::Wait(None) => return Poll::Pending,
                Look::Wait(Some(until)) => {
                    if timer.deadline() != until {
                        timer.as_mut().reset(until);
                    }
                    std::task::ready!(timer.as_mut().poll(context));
                }
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.leave(self.lane, self.ticket, now));
    }
}

/// The right to have one request in flight, until it is told how that ended.
///
/// Dropping it only gives the place back: for a request that was cancelled, or
/// whose failure says nothing about the provider.
#[derive(Debug)]
#[must_use = "a pass that is dropped lets the next one in"]
pub struct Pass {
    shared: Arc<Shared>,
    /// `None` once the place has been given back.
    charge: Option<Charge>,
}

impl Pass {
    /// The answer came, and the provider counted so many tokens.
    pub fn answered(self, tokens: u64) {
        self.end(End::Answered { tokens });
    }

    /// The provider has too many requests (429, 529). The limit sinks, and
    /// nothing passes before the time it gave, if it gave one.
    pub fn refused(self, retry_after: Option<Duration>) {
        self.end(End::Refused { retry_after });
    }

    /// It went wrong in another way, after so many tokens. Nothing passes before
    /// the time the provider gave, if it gave one.
    pub fn failed(self, tokens: u64, retry_after: Option<Duration>) {
        self.end(End::Failed { tokens, retry_after });
    }

    fn end(mut self, end: End) {
        self.give_back(end);
    }

    fn give_back(&mut self, end: End) {
        if let Some(charge) = self.charge.take() {
            self.shared.with(|state, now| state.end(charge, end, now));
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.give_back(End::Dropped);
    }
}

impl Shared {
    /// Handles one input. Those who are to look again are woken after it.
    fn with<T>(&self, handle: impl FnOnce(&mut State, Instant) -> T) -> T {
        // The state is whole after every statement that can panic, so a panic
        // elsewhere while the lock was held left nothing half done.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that the state never sees time go back.
        let result = handle(&mut state, Instant::now());
        let woken = state.woken();
        drop(state);
        woken.into_iter().for_each(std::task::Waker::wake);
        result
    }
}

#[cfg(test)]
mod storm_tests;
#[cfg(test)]
mod tests;
