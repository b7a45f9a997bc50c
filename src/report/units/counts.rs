//! Units by their states.

use super::{Doing, Unit};
use crate::event::Outcome;

/// How many units are in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Wait for a permit.
    pub queued: u64,
    /// Work.
    pub running: u64,
    /// Work, but their request has to wait.
    pub throttled: u64,
    /// Wait for the units they started, which run in their place.
    pub waiting: u64,
    /// Ended well.
    pub completed: u64,
    /// Ended in an error.
    pub failed: u64,
    /// Cancelled while they ran.
    pub cancelled: u64,
    /// Cancelled before they started.
    pub skipped: u64,
    /// Ended with the process.
    pub interrupted: u64,
}

impl Counts {
    /// Returns a unit that has not ended, counted.
    pub(in crate::report) fn of(unit: &Unit) -> Self {
        let mut counts = Self::default();
        match unit.started {
            Some(_) => *counts.at_work(unit.doing()) += 1,
            None => counts.queued += 1,
        }
        counts
    }

    /// Returns how many are left without these.
    pub(in crate::report) fn without(self, these: Self) -> Self {
        Self {
            queued: self.queued.saturating_sub(these.queued),
            running: self.running.saturating_sub(these.running),
            throttled: self.throttled.saturating_sub(these.throttled),
            waiting: self.waiting.saturating_sub(these.waiting),
            completed: self.completed.saturating_sub(these.completed),
            failed: self.failed.saturating_sub(these.failed),
            cancelled: self.cancelled.saturating_sub(these.cancelled),
            skipped: self.skipped.saturating_sub(these.skipped),
            interrupted: self.interrupted.saturating_sub(these.interrupted),
        }
    }

    pub(in crate::report) fn ended(&mut self, outcome: &Outcome) -> &mut u64 {
        match outcome {
            Outcome::Done { text: _ } => &mut self.completed,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Cancelled { ran: true } => &mut self.cancelled,
            Outcome::Cancelled { ran: false } => &mut self.skipped,
            Outcome::Interrupted => &mut self.interrupted,
        }
    }

    pub(super) fn at_work(&mut self, doing: Doing) -> &mut u64 {
        match doing {
            Doing::Work => &mut self.running,
            Doing::Hold(_) => &mut self.throttled,
            Doing::Wait => &mut self.waiting,
        }
    }
}
