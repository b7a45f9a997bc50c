//! The agents on the screen: a row each while there is room, then sums.
//!
//! A unit gets a number when it appears, which stays its own. One that has ended
//! keeps its row until its caller has its answer; then it is handed out, for a
//! line that stays.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::result::Tally;
use super::units::{Counts, LastCall, Unit, Units};
use crate::event::{
    Delta, Event, EventKind, Outcome, Piece, Question, UnitEnd, UnitHead, UnitId, UnixMillis,
};

pub use rows::View;
pub(super) use rows::ink_of;

/// Most slots of a batch whose ends are told one by one. Of more, only those
/// that went wrong are.
const ONE_BY_ONE: u32 = 8;

/// Most units that went wrong of which more than a count is kept.
const FAILURES_CAP: usize = 50;

/// Most units in a state that are looked at for a row.
const CANDIDATES: usize = 32;

/// The digits that keys pick units by.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=9;

/// The units of a session, as people see them.
#[derive(Default)]
pub struct Board {
    units: Units,
    tally: Tally,
    numbers: BTreeMap<UnitId, u8>,
    /// What main and the units that run do.
    doing: BTreeMap<UnitId, Activity>,
    /// Units that ended and whose callers have no answer yet.
    ended: BTreeMap<UnitId, Ended>,
    /// Units that are run again, and the first whose place each of them has.
    places: BTreeMap<UnitId, UnitId>,
    /// Units that have not ended and whose place another has.
    replaced: BTreeSet<UnitId>,
    /// How those ended whose place another has: nobody counts them.
    uncounted: Counts,
    /// When main began to work; `None` while it rests.
    started: Option<UnixMillis>,
}

/// What a unit does right now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Activity {
    /// It waits for its model.
    #[default]
    Waits,
    Thinks,
    Writes,
    Calls(LastCall),
}

/// A unit that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Which one.
    pub unit: UnitId,
    /// Who it was.
    pub head: UnitHead,
    /// How it ended.
    pub end: Arc<UnitEnd>,
    /// Whether it is told by itself, and not only counted.
    pub is_told: bool,
}

impl Board {
    /// Takes note of an event. Returns the units that leave with it, in the
    /// order they were declared: their caller has their answers.
    pub fn take(&mut self, event: &Event) -> Vec<Ended> {
        let known = self.units.take(event);
        // Its sums are asked for at any time; nothing waits for the last ones.
        let _ = self.tally.take(event);
        let id = event.unit;
        match &event.kind {
            EventKind::InvocationStarted { .. } => {
                self.uncounted = Counts::default();
                self.started = Some(event.at);
                self.doing.insert(id, Activity::Waits);
            }
            EventKind::UnitQueued(head) if head.is_agent() => self.queue(id, head.again),
            EventKind::UnitStarted if !self.holds_steps(id) => {
                self.number(id);
                self.doing.insert(id, Activity::Waits);
            }
            EventKind::UnitQueued(_) | EventKind::UnitStarted => {}
            EventKind::Lost { .. } => drop(self.doing.remove(&id)),
            EventKind::TurnStarted { .. } | EventKind::ToolFinished { .. } => {
                self.doing.insert(id, Activity::Waits);
            }
            EventKind::ToolStarted { tool, subject, .. } => self.calls(id, tool, subject),
            // What it asks about is what it would do.
            EventKind::Asked { id: _, question } => {
                if let Question::Call(call) = question {
                    self.calls(event.unit, &call.tool, &call.subject);
                }
            }
            EventKind::UnitEnded(end) => {
                self.doing.remove(&id);
                if self.replaced.remove(&id) {
                    self.uncount(&end.outcome);
                } else if let Some(known) = known.filter(|known| known.tells(end)) {
                    self.end(id, known.head, end);
                }
            }
            EventKind::Joined { children } => return self.leave(children),
            EventKind::InvocationEnded(_) => return self.invocation_ended(id),
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Answered { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Notice { .. } => {}
        }
        Vec::new()
    }

    /// Tells whether a unit is no agent, but only holds the branch of steps.
    fn holds_steps(&self, unit: UnitId) -> bool {
        self.units.get(unit).is_some_and(|known| !known.head.is_agent())
    }

    fn invocation_ended(&mut self, id: UnitId) -> Vec<Ended> {
        self.started = None;
        self.doing.remove(&id);
        let all: Vec<UnitId> = self.ended.keys().copied().collect();
        self.leave(&all)
    }

    fn calls(&mut self, unit: UnitId, tool: &Arc<str>, subject: &Arc<str>) {
        let call = LastCall { tool: Arc::clone(tool), subject: Arc::clone(subject) };
        self.doing.insert(unit, Activity::Calls(call));
    }

    /// Takes note of a piece of an answer.
    pub fn delta(&mut self, delta: &Delta) {
        if let Some(doing) = self.doing.get_mut(&delta.unit) {
            *doing = match delta.piece {
                Piece::Text(_) => Activity::Writes,
                Piece::Thinking(_) => Activity::Thinks,
            };
        }
    }

    /// Returns what is known of the units.
    #[must_use]
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// Returns the unit with a number.
    #[must_use]
    pub fn numbered(&self, number: u8) -> Option<UnitId> {
        self.numbers.iter().find(|(_, known)| **known == number).map(|(unit, _)| *unit)
    }

    /// Returns the number of a unit.
    #[must_use]
    pub fn number_of(&self, unit: UnitId) -> Option<u8> {
        self.numbers.get(&unit).copied()
    }

    /// Returns the units that can be picked, top to bottom: those that have a
    /// row where there is room for it.
    #[must_use]
    pub fn pickable(&self) -> Vec<UnitId> {
        let open = self.at_work(None).into_iter().map(|(unit, _)| unit);
        let queued = self.queued().map(|(unit, _)| unit);
        let ended = self.told().filter(|ended| ended.head.is_agent()).map(|ended| ended.unit);
        let mut units: Vec<UnitId> = open.chain(queued).chain(ended).collect();
        units.sort_by_key(|unit| self.place(*unit));
        units
    }

    /// Returns who a unit is that has a row.
    #[must_use]
    pub fn head(&self, unit: UnitId) -> Option<&UnitHead> {
        let open = self.units.get(unit).map(|known| &known.head);
        open.or_else(|| self.ended.get(&unit).map(|ended| &ended.head))
    }

    /// Returns how a unit ended whose caller has no answer yet.
    #[must_use]
    pub fn ended(&self, unit: UnitId) -> Option<&Ended> {
        self.ended.get(&unit)
    }

    /// Returns the units that have started, as far as they are looked at, and
    /// the one that keys point at among them.
    fn at_work(&self, picked: Option<UnitId>) -> Vec<(UnitId, &Unit)> {
        let units = &self.units;
        let known = |unit: UnitId| Some((unit, units.get(unit)?));
        let running = units.running().filter(|(unit, _)| !self.replaced.contains(unit));
        let asking = units.asking().filter_map(known).take(CANDIDATES);
        let mut open: Vec<(UnitId, &Unit)> = running
            .take(CANDIDATES)
            .chain(asking)
            .chain(picked.and_then(known))
            .filter(|(unit, known)| known.started.is_some() && !self.replaced.contains(unit))
            .collect();
        open.sort_by_key(|(unit, _)| *unit);
        open.dedup_by_key(|(unit, _)| *unit);
        open
    }

    /// Returns the units that wait for a permit, as far as they are looked at.
    fn queued(&self) -> impl Iterator<Item = (UnitId, &Unit)> {
        let queued = self.units.queued().filter(|(unit, _)| !self.replaced.contains(unit));
        queued.take(CANDIDATES)
    }

    /// Returns the units that have ended and are told by themselves, as far as
    /// they are looked at.
    fn told(&self) -> impl Iterator<Item = &Ended> {
        self.ended.values().filter(|ended| ended.is_told).take(CANDIDATES)
    }

    /// Returns what a unit's row is sorted by.
    fn place(&self, unit: UnitId) -> UnitId {
        self.places.get(&unit).copied().unwrap_or(unit)
    }

    fn queue(&mut self, unit: UnitId, again: Option<UnitId>) {
        match again {
            Some(old) => self.replace(old, unit),
            None => self.number(unit),
        }
    }

    /// Gives a unit's number and place to the one that runs in its stead.
    fn replace(&mut self, old: UnitId, new: UnitId) {
        self.places.insert(new, self.place(old));
        self.places.remove(&old);
        match self.numbers.remove(&old) {
            Some(number) => drop(self.numbers.insert(new, number)),
            None => self.number(new),
        }
        match self.ended.remove(&old) {
            Some(ended) => self.uncount(&ended.end.outcome),
            None if self.units.get(old).is_some() => drop(self.replaced.insert(old)),
            None => {}
        }
    }

    fn uncount(&mut self, outcome: &Outcome) {
        *self.uncounted.ended(outcome) += 1;
    }

    fn number(&mut self, unit: UnitId) {
        if self.numbers.contains_key(&unit) {
            return;
        }
        let is_free = |number: &u8| !self.numbers.values().any(|taken| taken == number);
        if let Some(number) = NUMBERS.into_iter().find(is_free) {
            self.numbers.insert(unit, number);
        }
    }

    fn end(&mut self, unit: UnitId, head: UnitHead, end: &Arc<UnitEnd>) {
        let is_small = head.slot.is_none_or(|slot| slot.total <= ONE_BY_ONE);
        let went_wrong = matches!(end.outcome, Outcome::Failed(_) | Outcome::Interrupted);
        let kept = self.ended.values().filter(|ended| ended.is_told).count();
        let is_told = is_small || (went_wrong && kept < FAILURES_CAP);
        if !is_told {
            self.free_number(unit);
        }
        self.ended.insert(unit, Ended { unit, head, end: Arc::clone(end), is_told });
    }

    fn leave(&mut self, units: &[UnitId]) -> Vec<Ended> {
        let mut left: Vec<Ended> =
            units.iter().filter_map(|unit| self.ended.remove(unit)).collect();
        left.sort_by_key(|ended| self.place(ended.unit));
        for Ended { unit, .. } in &left {
            self.places.remove(unit);
            self.free_number(*unit);
        }
        left
    }

    /// Takes a unit's number back, for the next that has none.
    fn free_number(&mut self, unit: UnitId) {
        self.numbers.remove(&unit);
        let has_none = |(unit, _): &(UnitId, &Unit)| {
            !self.numbers.contains_key(unit) && !self.replaced.contains(unit)
        };
        let next = self.units.running().chain(self.units.queued()).find(has_none);
        if let Some(next) = next.map(|(unit, _)| unit) {
            self.number(next);
        }
    }

    /// Returns how many units are in each state, without those whose place
    /// another has.
    fn counts(&self) -> Counts {
        let mut counts = self.units.counts().without(self.uncounted);
        for old in self.replaced.iter().filter_map(|unit| self.units.get(*unit)) {
            counts = counts.without(Counts::of(old));
        }
        counts
    }
}

#[cfg(test)]
mod tests;
