//! A place in the queue of a lane.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

use super::state::{LaneIndex, Look, State, Ticket};
use super::{Pass, Shared, Shut, Throttle};

/// What came of entering a lane.
pub(super) enum Stand {
    Passed(Pass),
    Waits(Place),
    Shut(Shut),
}

/// A place in a lane's queue. Dropping it gives the place up.
#[derive(Debug)]
#[must_use = "a place that is dropped is given up"]
pub(super) struct Place {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: LaneIndex,
    pub(super) ticket: Ticket,
}

impl Place {
    /// Returns what the first of its lane waits for now.
    pub(super) fn cause(&self) -> Throttle {
        self.shared.with(|state, _| state.throttle(self.lane))
    }

    /// Waits for its turn.
    pub(super) async fn turn(self) -> Result<Pass, Shut> {
        let mut timer = pin!(sleep_until(Instant::now()));
        poll_fn(|context| self.poll(timer.as_mut(), context)).await
    }

    fn poll(
        &self,
        mut timer: Pin<&mut Sleep>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Pass, Shut>> {
        loop {
            let look =
                |state: &mut State, now| state.look(self.lane, self.ticket, context.waker(), now);
            match self.shared.with(look) {
                Look::Passed(charge) => {
                    let shared = Arc::clone(&self.shared);
                    return Poll::Ready(Ok(Pass { shared, charge: Some(charge), also: None }));
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

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.leave(self.lane, self.ticket, now));
    }
}
