//! A session as its host knows it: the ways to speak to it, and since when it
//! rests.
//!
//! What an editor wants goes through a queue that has an end. To leave the
//! session and to cancel its turn needs no place in it: whoever asks too much can
//! still stop.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::SessionId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::session::Order;

/// Most that an editor wants of a session before it has taken it.
const ORDERS_CAP: usize = 64;

/// A session that goes on.
pub(super) struct Live {
    orders: mpsc::Sender<Order>,
    cancels: Arc<Notify>,
    left: CancellationToken,
    rests: watch::Receiver<Option<Instant>>,
    /// Is cancelled once it has ended.
    ended: CancellationToken,
}

/// The other end: what a session hears of its host, and tells it.
pub(super) struct Ways {
    pub(super) orders: mpsc::Receiver<Order>,
    /// Cancels for which there was no room among the orders.
    pub(super) cancels: Arc<Notify>,
    /// Is cancelled once the session is to be left.
    pub(super) left: CancellationToken,
    /// Since when nothing is at work in it; `None` while something is.
    pub(super) rests: watch::Sender<Option<Instant>>,
}

impl Live {
    /// A session that has ended once `ended` is cancelled.
    pub(super) fn new(ended: CancellationToken) -> (Self, Ways) {
        let (orders, wanted) = mpsc::channel(ORDERS_CAP);
        let (resting, rests) = watch::channel(None);
        let (cancels, left) = (Arc::<Notify>::default(), CancellationToken::new());
        let ways = Ways {
            orders: wanted,
            cancels: Arc::clone(&cancels),
            left: left.clone(),
            rests: resting,
        };
        (Self { orders, cancels, left, rests, ended }, ways)
    }

    /// Has the session do something; one that has ended is missed.
    pub(super) fn order(&self, order: Order, session: &SessionId) {
        match self.orders.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(order)) => {
                let full = "too many requests of this session wait";
                order.refuse(Error::internal_error().data(full));
            }
            Err(TrySendError::Closed(order)) => order.miss(session),
        }
    }

    /// Has the session end its turn.
    pub(super) fn cancel(&self) {
        // It keeps its place behind the prompt that it is about where there is one.
        if let Err(TrySendError::Full(_)) = self.orders.try_send(Order::Cancel) {
            self.cancels.notify_one();
        }
    }

    /// Has the session come to its end. What is returned is cancelled then.
    pub(super) fn leave(&self) -> CancellationToken {
        self.left.cancel();
        self.ended.clone()
    }

    /// Tells whether it is about to end.
    pub(super) fn is_left(&self) -> bool {
        self.left.is_cancelled()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns since when nothing is at work in it; `None` while something is.
    pub(super) fn rests_since(&self) -> Option<Instant> {
        *self.rests.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_queue_keeps_nobody_from_cancelling_or_leaving() {
        let (live, mut ways) = Live::new(CancellationToken::new());
        (0..=ORDERS_CAP).for_each(|_| live.cancel());
        ways.cancels.notified().await;
        let mut waiting = 0;
        while ways.orders.try_recv().is_ok() {
            waiting += 1;
        }
        assert_eq!(waiting, ORDERS_CAP);
        let ended = live.leave();
        assert!(ways.left.is_cancelled() && live.is_left() && !ended.is_cancelled());
    }
}
