//! The time that a unit has worked.
//!
//! A unit's clock goes while it has a permit, or anything that it started has
//! one: inner work counts. While all of it waits in the pool the clock stands
//! still, so that a unit's time limit does not depend on what else there is to
//! do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The clock of one unit.
#[derive(Debug)]
pub(super) struct Clock {
    /// How many permits the unit and all that it started hold.
    permits: watch::Sender<usize>,
    /// The clock of the unit that started it; `None` if that needs no permit.
    parent: Option<Arc<Clock>>,
}

impl Clock {
    /// A clock that stands still. While it goes, so does `parent`.
    pub(super) fn new(parent: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { permits: watch::channel(0).0, parent })
    }

    /// Goes as long as the returned value lives.
    pub(super) fn go(self: &Arc<Self>) -> Going {
        self.and_above().for_each(|clock| clock.permits.send_modify(|permits| *permits += 1));
        Going { clock: Arc::clone(self) }
    }

    /// Waits until it has gone for this long, from now on.
    pub(super) async fn has_gone(&self, limit: Duration) {
        let mut permits = self.permits.subscribe();
        let mut left = limit;
        loop {
            // The sender is this clock's own, so neither wait can fail.
            let _ = permits.wait_for(|permits| *permits > 0).await;
            let since = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                _ = permits.wait_for(|permits| *permits == 0) => {}
            }
            left = left.saturating_sub(since.elapsed());
        }
    }

    fn and_above(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |clock| clock.parent.as_deref())
    }
}

/// Keeps a clock going.
#[derive(Debug)]
pub(super) struct Going {
    clock: Arc<Clock>,
}

impl Drop for Going {
    fn drop(&mut self) {
        self.clock.and_above().for_each(|clock| clock.permits.send_modify(|permits| *permits -= 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_clock_goes_while_it_or_one_below_it_is_kept_going() {
        let outer = Clock::new(None);
        let inner = Clock::new(Some(Arc::clone(&outer)));
        let started = Instant::now();
        let waiting = tokio::spawn({
            let outer = Arc::clone(&outer);
            async move { outer.has_gone(3 * SECOND).await }
        });
        let own = outer.go();
        tokio::time::sleep(SECOND).await;
        drop(own);
        tokio::time::sleep(10 * SECOND).await;
        let below = inner.go();
        let both = outer.go();
        tokio::time::sleep(SECOND).await;
        drop(both);
        tokio::time::sleep(SECOND / 2).await;
        drop(below);
        tokio::time::sleep(10 * SECOND).await;
        assert!(!waiting.is_finished());
        let _own = outer.go();
        waiting.await.unwrap();
        assert_eq!(started.elapsed(), 23 * SECOND);
    }
}
