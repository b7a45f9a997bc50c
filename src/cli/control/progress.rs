//! How far a run is that a client feeds: a fold over its events, for whoever
//! decides what it is asked next.
//!
//! It stands behind the reporter that writes the records, so whatever it tells
//! the client has been sent.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use crate::event::{Delta, Event, EventKind, InvocationEnd, UnitId};
use crate::message::Cost;
use crate::report::meter::Meter;
use crate::report::units::Units;
use crate::run::Reporter;

/// How far a run is.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    /// How many invocations have ended.
    pub(super) ended: u64,
    /// The end of the last one.
    pub(super) last: Option<Arc<InvocationEnd>>,
    /// How many units work beside main, or wait to.
    pub(super) beside: usize,
    /// How many have ended there without main having been told.
    pub(super) untold: usize,
    /// How many units have ended at all.
    pub(super) unit_ends: u64,
    /// The name of the last one that was declared; main's if there is none.
    pub(super) declared: UnitId,
    /// What all of them have cost.
    pub(super) cost: Cost,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            ended: 0,
            last: None,
            beside: 0,
            untold: 0,
            unit_ends: 0,
            declared: UnitId::MAIN,
            cost: Cost::default(),
        }
    }
}

impl Progress {
    /// Tells whether there is anything that main is still to hear of.
    pub(super) fn owes_news(&self) -> bool {
        self.beside + self.untold > 0
    }
}

/// Tells how far a run is.
pub(super) struct Teller {
    units: Units,
    meter: Meter,
    sender: watch::Sender<Progress>,
}

impl Teller {
    pub(super) fn new() -> (Self, watch::Receiver<Progress>) {
        let (sender, receiver) = watch::channel(Progress::default());
        (Self { units: Units::default(), meter: Meter::default(), sender }, receiver)
    }
}

impl Reporter for Teller {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.units.take(event);
        self.meter.take(event);
        let cost = self.meter.cost();
        let (beside, untold) = (self.units.beside(), self.units.untold());
        self.sender.send_if_modified(|progress| {
            let before = (progress.ended, progress.beside, progress.untold, progress.unit_ends);
            if let EventKind::InvocationEnded(end) = &event.kind {
                progress.ended += 1;
                progress.last = Some(Arc::clone(end));
            }
            progress.declared = progress.declared.max(event.unit);
            progress.unit_ends += u64::from(matches!(event.kind, EventKind::UnitEnded(_)));
            (progress.beside, progress.untold, progress.cost) = (beside, untold, cost);
            before != (progress.ended, progress.beside, progress.untold, progress.unit_ends)
        });
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::{Story, done};

    #[test]
    fn what_works_beside_main_is_owed_until_main_is_told() {
        let (mut teller, progress) = Teller::new();
        let told = EventKind::Notified { children: vec![UnitId(1)], text: "x".into(), wrote: 0 };
        let mut story = Story::new();
        story.invocation("go").batch("b", &["look"]).start(1);
        story.push(0, EventKind::SetAside { units: vec![UnitId(1)] }).over(done("later"), "later");
        story.invocation("").end(1, done("found")).push(0, told).over(done("now"), "now");
        let mut stands = Vec::new();
        for event in story.events() {
            teller.event(event).unwrap();
            let progress = progress.borrow();
            stands.push((progress.ended, progress.owes_news(), progress.unit_ends));
        }
        stands.dedup();
        let expected =
            [(0, false, 0), (0, true, 0), (1, true, 0), (1, true, 1), (1, false, 1), (2, false, 1)];
        assert_eq!(stands, expected);
    }
}
