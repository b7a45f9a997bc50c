//! The pool: how many units run at once, and who is next.
//!
//! First come, first served, by ticket: a unit draws its ticket when it is
//! declared and keeps it. A unit that gave its permit back to wait for its
//! children came before all that were declared since, so it goes on before
//! they start. Nothing here knows of cancels: a waiter that is dropped is gone.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// A place in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A ticket's place among those that wait.
type Place = (Ticket, u64);

/// Hands out permits. A clone is the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Fires when somebody begins to wait.
    wanted: Notify,
    // A mutex, because a permit is released where it is dropped, which is not
    // always a place that can wait for an owner's answer.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    next_ticket: u64,
    /// By ticket, and by when the wait began: a ticket may wait twice.
    waiting: BTreeMap<Place, oneshot::Sender<Permit>>,
    next_wait: u64,
}

impl Pool {
    /// A pool in which `cap` units run at once.
    #[must_use]
    pub fn new(cap: NonZeroUsize) -> Self {
        let (free, waiting) = (cap.get(), BTreeMap::new());
        let state = State { free, next_ticket: 0, waiting, next_wait: 0 };
        Self { shared: Arc::new(Shared { wanted: Notify::new(), state: Mutex::new(state) }) }
    }

    /// Waits until somebody waits for a permit: who has one that it does not need yet
    /// gives it back then.
    pub async fn is_wanted(&self) {
        loop {
            let mut begins = pin!(self.shared.wanted.notified());
            begins.as_mut().enable();
            if !self.shared.lock().waiting.is_empty() {
                return;
            }
            begins.await;
        }
    }

    /// Draws the next place in the order of arrival.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        let mut state = self.shared.lock();
        state.next_ticket += 1;
        Ticket(state.next_ticket)
    }

    /// Waits until it is this ticket's turn. Dropping the future gives the
    /// place up; a permit that was already on its way goes to the next.
    pub async fn acquire(&self, ticket: Ticket) -> Permit {
        let (receiver, place) = {
            let mut state = self.shared.lock();
            if state.free > 0 {
                // While something waits nothing is free: see `release`.
                state.free -= 1;
                return Permit { shared: Some(Arc::clone(&self.shared)) };
            }
            let (sender, receiver) = oneshot::channel();
            state.next_wait += 1;
            let place = (ticket, state.next_wait);
            state.waiting.insert(place, sender);
            (receiver, place)
        };
        self.shared.wanted.notify_waiters();
        let waiting = Waiting { pool: self, place };
        let permit = receiver.await.expect("a waiter's sender is kept until it is served");
        drop(waiting);
        permit
    }
}

/// Takes a waiter out of the line if it is dropped before its turn.
struct Waiting<'a> {
    pool: &'a Pool,
    place: Place,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // The sender is dropped outside the lock: if it had been served, the
        // permit inside would come back through `release`, which locks.
        let sender = self.pool.shared.lock().waiting.remove(&self.place);
        drop(sender);
    }
}

/// The right to run. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Permit {
    /// `None` once the permit has been handed on.
    shared: Option<Arc<Shared>>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.release();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement, so a panic elsewhere while
        // the lock was held left nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                match state.waiting.pop_first() {
                    Some((_, sender)) => sender,
                    None => {
                        state.free += 1;
                        return;
                    }
                }
            };
            match next.send(Permit { shared: Some(Arc::clone(&self)) }) {
                Ok(()) => return,
                // The waiter went away in this moment; ask the one behind it.
                Err(mut refused) => refused.shared = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::task::yield_now;

    use super::*;

    fn pool(cap: usize) -> Pool {
        Pool::new(NonZeroUsize::new(cap).unwrap())
    }

    #[tokio::test]
    async fn permits_go_by_ticket_and_not_by_when_the_wait_began() {
        let pool = pool(1);
        let (early, late) = (pool.ticket(), pool.ticket());
        let held = pool.acquire(pool.ticket()).await;
        let mut waits_late = Box::pin(pool.acquire(late));
        assert!(waits_late.as_mut().now_or_never().is_none());
        let mut waits_early = Box::pin(pool.acquire(early));
        assert!(waits_early.as_mut().now_or_never().is_none());
        drop(held);
        assert!(waits_late.as_mut().now_or_never().is_none());
        let first = waits_early.await;
        drop(first);
        drop(waits_late.await);
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_its_place_to_the_next() {
        let pool = pool(1);
        let held = pool.acquire(pool.ticket()).await;
        let mut first = Box::pin(pool.acquire(pool.ticket()));
        let mut second = Box::pin(pool.acquire(pool.ticket()));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        // Served, and dropped before it could look: the permit moves on.
        drop(held);
        drop(first);
        drop(second.await);
        assert_eq!(pool.shared.lock().free, 1);
        assert!(pool.shared.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn a_ticket_that_waits_twice_is_served_twice() {
        let pool = pool(1);
        let ticket = pool.ticket();
        let held = pool.acquire(pool.ticket()).await;
        let mut first = Box::pin(pool.acquire(ticket));
        let mut second = Box::pin(pool.acquire(ticket));
        assert!(first.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        drop(held);
        drop(first.await);
        drop(second.await);
    }

    #[tokio::test]
    async fn ten_thousand_waiters_never_exceed_the_cap_and_all_are_served() {
        let pool = pool(8);
        let running = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let tasks: Vec<_> = (0..10_000)
            .map(|_| {
                let (pool, running) = (pool.clone(), Arc::clone(&running));
                let ticket = pool.ticket();
                tokio::spawn(async move {
                    let permit = pool.acquire(ticket).await;
                    let now = running.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                    assert!(now <= 8, "{now} ran under a cap of 8");
                    yield_now().await;
                    running.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(permit);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(pool.shared.lock().free, 8);
    }
}
