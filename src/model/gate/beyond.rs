//! The gate beyond: that of another process, which many others ask.
//!
//! All that one key may do counts together, wherever it is used. A request that has
//! passed the gate of its own process asks there, too. While nobody answers, each
//! process goes by its share of what is configured, so that together they do not
//! send more than all of it.

use std::fmt;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::place::Stand;
use super::{Also, End, Entry, Gate, Held, Lane, LaneId, Pass, Quota, Shut, Throttle, Waits};

/// The gate of another process.
pub trait Beyond: Send + Sync {
    /// Asks for leave to send a request, and returns what is said to that soon.
    ///
    /// Dropping the future, or what comes of it, takes the question back.
    fn ask(&self, wanted: Wanted) -> BoxFuture<'static, Said>;
}

/// What leave is asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Whose.
    pub lane: Arc<LaneId>,
    /// What is configured for it where it is asked for.
    pub bounds: Bounds,
    /// How many tokens the request and its answer may come to.
    pub estimate: u64,
}

/// What is configured for a model and the gate of its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bounds {
    /// For the model.
    pub quota: Quota,
    /// Most requests at once; `None` leaves it to what the provider refuses.
    pub most_in_flight: Option<NonZeroUsize>,
}

/// What is said at once.
pub enum Said {
    /// It needs no wait.
    Now(Turn),
    /// It has to wait.
    Held {
        /// What for.
        cause: Throttle,
        /// Comes when it is over.
        turn: BoxFuture<'static, Turn>,
    },
}

/// What comes of asking.
#[derive(Debug)]
pub enum Turn {
    /// The request may be sent now.
    Passed(Permit),
    /// The provider takes none for long.
    Shut(Shut),
    /// Nobody answers, and so many processes may be without one.
    Silent {
        /// This one counts.
        sharers: NonZeroUsize,
    },
}

/// The right that the gate beyond gave, until it is told how that ended. Dropping it
/// gives it back.
#[derive(Debug)]
#[must_use = "a permit that is dropped is given back"]
pub struct Permit(oneshot::Sender<End>);

impl Permit {
    /// A permit, and where it is told how it ended. An error there is
    /// [`End::Dropped`].
    pub fn new() -> (Self, oneshot::Receiver<End>) {
        let (sender, ended) = oneshot::channel();
        (Self(sender), ended)
    }

    pub(super) fn end(self, end: End) {
        // Whoever gave it may be gone.
        let _ = self.0.send(end);
    }
}

impl Bounds {
    /// Returns what one of so many may do; never nothing.
    fn shared_by(self, sharers: NonZeroUsize) -> Self {
        let count = u32::try_from(sharers.get()).unwrap_or(u32::MAX);
        let part = |all: NonZeroU32| NonZeroU32::new(all.get() / count).unwrap_or(NonZeroU32::MIN);
        let Quota { requests_per_minute, tokens_per_minute } = self.quota;
        Self {
            quota: Quota {
                requests_per_minute: requests_per_minute.map(part),
                tokens_per_minute: tokens_per_minute.map(part),
            },
            most_in_flight: self.most_in_flight.map(|all| {
                NonZeroUsize::new(all.get() / sharers.get()).unwrap_or(NonZeroUsize::MIN)
            }),
        }
    }
}

/// How a lane leads on.
pub(super) struct Way {
    pub(super) beyond: Arc<dyn Beyond>,
    pub(super) id: Arc<LaneId>,
    pub(super) bounds: Bounds,
    pub(super) share: Arc<Share>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Way {
    /// Asks beyond for a request that has passed its own gate.
    pub(super) async fn ask(way: &Arc<Self>, own: Pass, estimate: u64) -> Entry {
        let wanted = Wanted { lane: Arc::clone(&way.id), bounds: way.bounds, estimate };
        match way.beyond.ask(wanted).await {
            Said::Now(turn) => way.turned(own, turn, estimate),
            Said::Held { cause, turn } => {
                let way = Arc::clone(way);
                Entry::Held(Held { waits: Waits::There { own, cause, turn, way, estimate } })
            }
        }
    }

    /// Returns what the answer means for the request.
    pub(super) fn turned(&self, own: Pass, turn: Turn, estimate: u64) -> Entry {
        match turn {
            Turn::Passed(permit) => Entry::Passed(own.and(Also::Beyond(permit))),
            Turn::Shut(shut) => Entry::Shut(shut),
            Turn::Silent { sharers } => {
                match self.share.lane(self.bounds, sharers).stand(estimate) {
                    Stand::Passed(share) => Entry::Passed(own.and(Also::Share(Box::new(share)))),
                    Stand::Waits(place) => Entry::Held(Held { waits: Waits::Share { own, place } }),
                    Stand::Shut(shut) => Entry::Shut(shut),
                }
            }
        }
    }
}

/// What a lane goes by while the gate beyond is silent: a gate of its own, made when
/// it is first needed.
#[derive(Debug, Default)]
pub(super) struct Share(Mutex<Option<(NonZeroUsize, Lane)>>);

impl Share {
    fn lane(&self, bounds: Bounds, sharers: NonZeroUsize) -> Lane {
        let mut share = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*share {
            Some((count, lane)) if *count == sharers => lane.clone(),
            Some(_) | None => {
                let part = bounds.shared_by(sharers);
                let lane = Gate::new(part.most_in_flight).lane(part.quota);
                *share = Some((sharers, lane.clone()));
                lane
            }
        }
    }
}
