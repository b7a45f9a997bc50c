//! Signals: what a second one means, and how long whatever was told to stop
//! may take. Also the runtime's only clock.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Signal;
use super::dispatcher::{Input, Reach};
use crate::event::CancelReason;

/// How long units have to end by themselves after a cancel. Commands get
/// 200 ms before they are killed; this leaves room for the rest of the way.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Signals, and the time that runs out after the first of them.
pub(super) struct Signals {
    arriving: mpsc::Receiver<Signal>,
    /// Arrived while the run could not look.
    kept: Option<Signal>,
    pub(super) last: Option<Signal>,
    interrupted: bool,
    overdue: Option<Instant>,
}

impl Signals {
    pub(super) fn new(arriving: mpsc::Receiver<Signal>) -> Self {
        Self { arriving, kept: None, last: None, interrupted: false, overdue: None }
    }

    /// Waits for a signal without handling it.
    pub(super) async fn arrived(&mut self) {
        match self.arriving.recv().await {
            Some(signal) => (self.kept, self.last) = (Some(signal), Some(signal)),
            None => std::future::pending().await,
        }
    }

    /// Tells whether anybody has asked the run to end.
    pub(super) fn is_told(&self) -> bool {
        self.last.is_some()
    }

    /// From now on units have a limited time to end by themselves.
    pub(super) fn start_deadline(&mut self) {
        self.overdue = self.overdue.or(Some(Instant::now() + CANCEL_GRACE));
    }

    /// What was told to stop has: a signal means again what the first one does.
    pub(super) fn calm(&mut self) {
        (self.interrupted, self.overdue) = (false, None);
        // The others end the process, whenever it gets to that.
        self.last = self.last.filter(|signal| *signal != Signal::Interrupt);
    }

    /// Units were told to stop only now: they have the whole time.
    pub(super) fn restart_deadline(&mut self) {
        self.overdue = Some(Instant::now() + CANCEL_GRACE);
    }

    pub(super) async fn next(&mut self) -> Input {
        let overdue = self.overdue;
        let timer = async {
            match overdue {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        if self.kept.is_none() {
            tokio::select! {
                biased;
                () = timer => {
                    self.overdue = None;
                    return Input::Overdue;
                }
                () = self.arrived() => {}
            }
        }
        let signal = self.kept.take().expect("a signal has just arrived");
        match signal {
            Signal::Interrupt if !self.interrupted => {
                self.interrupted = true;
                Input::Cancel(Reach::Turn, CancelReason::Interrupt)
            }
            Signal::Interrupt => Input::Cancel(Reach::All, CancelReason::Interrupt),
            Signal::Hangup => Input::Cancel(Reach::All, CancelReason::Hangup),
            Signal::Terminate => Input::Cancel(Reach::All, CancelReason::Terminate),
            Signal::OutputGone => Input::Cancel(Reach::All, CancelReason::OutputGone),
        }
    }
}
