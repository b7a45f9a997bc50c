//! What keeps units from starting that wait in the queue, once one that they wait
//! with has ended badly enough.

use tokio_util::sync::CancellationToken;

use crate::event::{Outcome, UnitEnd};

/// What units have in common of which one may end the start of all.
#[derive(Clone)]
pub(crate) struct Closing {
    closed: CancellationToken,
    closes: fn(&Outcome) -> bool,
}

impl Closing {
    /// Nobody starts any more once `closed` fires, and it fires with the first end
    /// that `closes`.
    pub(crate) fn new(closed: CancellationToken, closes: fn(&Outcome) -> bool) -> Self {
        Self { closed, closes }
    }

    /// Nobody's end keeps another one from starting.
    pub(super) fn never() -> Self {
        Self::new(CancellationToken::new(), |_| false)
    }

    /// Takes note of an end. It has to hear of it while the unit holds its permit:
    /// whoever waits for that asks next.
    pub(super) fn hears(&self, end: Option<&UnitEnd>) {
        if end.is_some_and(|end| (self.closes)(&end.outcome)) {
            self.closed.cancel();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until nobody starts any more.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }
}
