//! What a run shows, on its way from the thread of its reporters to the task of
//! its session.

use std::io;

use tokio::sync::mpsc;

use crate::event::{Delta, Event};
use crate::report::acp::{Told, View};
use crate::run::Reporter;

/// Most that waits to be sent. The run waits once this is full, as it does for a
/// pipe that nobody reads.
pub(super) const TOLD_CAP: usize = 64;

/// Shows a run to the task of its session.
pub(super) struct Shown {
    view: View,
    session: mpsc::Sender<Told>,
}

impl Shown {
    pub(super) fn new(view: View) -> (Self, mpsc::Receiver<Told>) {
        let (session, told) = mpsc::channel(TOLD_CAP);
        (Self { view, session }, told)
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let mut told = self.view.told().into_iter();
        told.try_for_each(|told| self.session.blocking_send(told))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Reporter for Shown {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.view.event(event);
        self.pass_on()
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        self.view.delta(delta);
        self.pass_on()
    }

    fn pause(&mut self) -> io::Result<()> {
        self.view.flush();
        self.pass_on()
    }
}
