//! The gate: the one valve in front of a provider's endpoint and key.
//!
//! Every request of every unit passes it, so what one of them is told by the
//! provider holds for all. It decides only when a request may be sent: what
//! becomes of one that was refused is for whoever sent it. It sends nothing
//! itself, and knows no time but tokio's. A lane may lead on to the gate of another
//! process ([`Beyond`]).

mod beyond;
mod limit;
mod name;
mod pause;
mod place;
mod quota;
mod state;

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use self::beyond::{Share, Way};
use self::place::{Place, Stand};
use self::state::{Charge, Entered, LaneIndex, State};

pub use self::beyond::{Beyond, Bounds, Permit, Said, Turn, Wanted};
pub use self::name::{Endpoint, LaneId, LaneName};

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
        Lane { shared: Arc::clone(&self.shared), index, share: Arc::default(), way: None }
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
    share: Arc<Share>,
    /// Where it leads on to; `None` if a request that has passed is sent.
    way: Option<Arc<Way>>,
}

impl Lane {
    /// The same lane, whose requests pass `beyond`, too, before they are sent.
    ///
    /// `bounds` are what is configured for them here.
    #[must_use]
    pub fn leading_to(&self, beyond: Arc<dyn Beyond>, id: Arc<LaneId>, bounds: Bounds) -> Self {
        let way = Way { beyond, id, bounds, share: Arc::clone(&self.share) };
        Self { way: Some(Arc::new(way)), ..self.clone() }
    }

    /// Takes a place in the queue, and passes at once if nothing stands before,
    /// here or beyond. Only to ask there takes time; dropping the future then
    /// takes the question back.
    ///
    /// `estimate` is how many tokens the request and its answer may come to.
    pub async fn ask(&self, estimate: u64) -> Entry {
        match (self.stand(estimate), &self.way) {
            (Stand::Passed(pass), None) => Entry::Passed(pass),
            (Stand::Passed(pass), Some(way)) => Way::ask(way, pass, estimate).await,
            (Stand::Waits(place), way) => {
                let way = way.clone();
                Entry::Held(Held { waits: Waits::Here { place, way, estimate } })
            }
            (Stand::Shut(shut), _) => Entry::Shut(shut),
        }
    }

    /// Passes a second request for one that is in flight without an answer. A pause of the
    /// provider and the quotas delay it. The limit of requests in flight does not: the first
    /// request has a place there already.
    ///
    /// # Errors
    ///
    /// The error is the moment before which asking again is of no use.
    pub fn pass_beside(&self) -> Result<Pass, Instant> {
        let charge = self.shared.with(|state, now| state.enter_beside(self.index, now))?;
        Ok(Pass { shared: Arc::clone(&self.shared), charge: Some(charge), also: None })
    }

    /// Returns how many requests have passed the gate, on all its lanes, and not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.with(|state, _| state.in_flight())
    }

    /// Takes a place in the queue of this gate.
    fn stand(&self, estimate: u64) -> Stand {
        let shared = Arc::clone(&self.shared);
        match self.shared.with(|state, now| state.enter(self.index, estimate, now)) {
            Entered::Passed(charge) => {
                Stand::Passed(Pass { shared, charge: Some(charge), also: None })
            }
            Entered::Held(ticket) => Stand::Waits(Place { shared, lane: self.index, ticket }),
            Entered::Shut(until) => Stand::Shut(Shut { until }),
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
#[must_use = "a place that is dropped is given up"]
pub struct Held {
    waits: Waits,
}

/// Where a request waits.
enum Waits {
    /// In this gate.
    Here { place: Place, way: Option<Arc<Way>>, estimate: u64 },
    /// In the one beyond, for which it passed this one.
    There {
        own: Pass,
        cause: Throttle,
        turn: BoxFuture<'static, Turn>,
        way: Arc<Way>,
        estimate: u64,
    },
    /// For its share of what the silent one beyond would let through.
    Share { own: Pass, place: Place },
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("cause", &self.cause()).finish_non_exhaustive()
    }
}

impl Held {
    /// Returns what the first of its lane waits for now; beyond, what it was told
    /// when it came there.
    #[must_use]
    pub fn cause(&self) -> Throttle {
        match &self.waits {
            Waits::Here { place, .. } | Waits::Share { place, .. } => place.cause(),
            Waits::There { cause, .. } => *cause,
        }
    }

    /// Waits for its turn. Dropping the future gives the place up; a turn that
    /// was already given goes to the next.
    ///
    /// # Errors
    ///
    /// The provider has said since that it is away for too long.
    pub async fn wait(self) -> Result<Pass, Shut> {
        let mut held = self;
        loop {
            match held.waits.over().await {
                Entry::Passed(pass) => return Ok(pass),
                Entry::Shut(shut) => return Err(shut),
                Entry::Held(next) => held = next,
            }
        }
    }
}

impl Waits {
    /// Waits until this is over, and returns what comes of it.
    async fn over(self) -> Entry {
        match self {
            Self::Here { place, way, estimate } => match (place.turn().await, way) {
                (Ok(pass), None) => Entry::Passed(pass),
                (Ok(pass), Some(way)) => Way::ask(&way, pass, estimate).await,
                (Err(shut), _) => Entry::Shut(shut),
            },
            Self::There { own, cause: _, turn, way, estimate } => {
                way.turned(own, turn.await, estimate)
            }
            Self::Share { own, place } => match place.turn().await {
                Ok(share) => Entry::Passed(own.and(Also::Share(Box::new(share)))),
                Err(shut) => Entry::Shut(shut),
            },
        }
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
    /// What else it has passed.
    also: Option<Also>,
}

/// How a request ended that had passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As [`Pass::answered`] has it.
    Answered {
        /// What the provider counted.
        tokens: u64,
    },
    /// As [`Pass::refused`] has it.
    Refused {
        /// How long the provider wants nothing; `None` if it did not say.
        retry_after: Option<Duration>,
    },
    /// As [`Pass::failed`] has it.
    Failed {
        /// What the provider counted.
        tokens: u64,
        /// How long the provider wants nothing; `None` if it did not say.
        retry_after: Option<Duration>,
    },
    /// Its pass was dropped.
    Dropped,
}

/// What a request has passed besides the gate itself.
#[derive(Debug)]
enum Also {
    /// The one beyond.
    Beyond(Permit),
    /// What it goes by while that one is silent.
    Share(Box<Pass>),
}

impl Pass {
    /// The answer came, and the provider counted so many tokens.
    pub fn answered(self, tokens: u64) {
        self.end(End::Answered { tokens });
    }

    /// The provider has too many requests (429, 503, 529). The limit sinks. If the provider
    /// gave a time, nothing passes before it, except what takes the place of requests
    /// that the provider answers meanwhile.
    pub fn refused(self, retry_after: Option<Duration>) {
        self.end(End::Refused { retry_after });
    }

    /// It went wrong in another way, after so many tokens. Nothing passes before
    /// the time the provider gave, if it gave one.
    pub fn failed(self, tokens: u64, retry_after: Option<Duration>) {
        self.end(End::Failed { tokens, retry_after });
    }

    /// It ended so.
    pub fn end(mut self, end: End) {
        self.give_back(end);
    }

    fn and(mut self, also: Also) -> Self {
        self.also = Some(also);
        self
    }

    fn give_back(&mut self, end: End) {
        if let Some(charge) = self.charge.take() {
            self.shared.with(|state, now| state.end(charge, end, now));
        }
        match self.also.take() {
            Some(Also::Beyond(permit)) => permit.end(end),
            Some(Also::Share(share)) => share.end(end),
            None => {}
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
