//! Who was shown what of a change: a fold over the events of a session.
//!
//! A reviewer has read what its model was sent before it answered: its prompt,
//! and the outputs of its calls. What came after its last answer nobody has read,
//! nor what it had not answered when its conversation was summed up.
//! One that failed, or that has not looked where its angle needs a look, has read
//! nothing: its answer is missing, so no hunk counts as reviewed by it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::shown::{self, Places, Shown};
use super::{Angle, Plan, Role, finding, role};
use crate::event::{Event, EventKind, Failure, Invocation, Outcome, UnitHead, UnitId};
use crate::message::CallId;
use crate::tool_name;

/// What there is to say of a unit of a review.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) role: Role,
    invocation: Invocation,
    goes_on: Option<UnitId>,
    pub(super) outcome: Option<Outcome>,
    /// The last words of a unit that ended badly.
    pub(super) partial: String,
    /// Its first prompt.
    pub(super) prompt: String,
    shown: Shown,
    looks: u32,
    /// What its model will read with its next request.
    unread: Shown,
    unread_looks: u32,
    /// The arguments of calls without an output.
    calls: HashMap<CallId, String>,
}

/// A reviewer of a plan, and what it was shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Reviewer {
    /// From what side it looks.
    pub angle: Angle,
    /// Which of the territories of its look it has, from 0.
    pub index: u32,
    /// The unit; `None` if none was declared.
    pub unit: Option<UnitId>,
    /// Why it does not count.
    pub missing: Option<Missing>,
    /// How many of its calls gave something that its model has read.
    pub looks: u32,
    shown: Shown,
}

/// Why a reviewer does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It never ran.
    NotStarted,
    /// It went wrong like this.
    Failed(Failure),
    /// It was cancelled.
    Cancelled,
    /// The process ended while it ran.
    Interrupted,
    /// It has looked at nothing but its prompt, though its angle needs a look.
    NoLook,
    /// Its answer has no form that could be read.
    Unreadable,
}

/// Which hunks were read by whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// The reviewers: those that were planned by angle and territory, then those
    /// of the second look.
    pub reviewers: Vec<Reviewer>,
    /// How many changed lines each hunk has.
    lines: Vec<usize>,
    /// How many of those of each hunk were shown to anybody.
    read: Vec<usize>,
    /// How many were shown to the reviewers of each angle that there is.
    read_by: BTreeMap<Angle, Vec<usize>>,
    /// The hunks of which a changed line was shown to nobody.
    unread: BTreeSet<usize>,
}

impl Coverage {
    /// Folds the events of a session.
    #[must_use]
    pub fn of(plan: &Plan, events: impl IntoIterator<Item: Borrow<Event>>) -> Self {
        Self::from_seats(plan, &Seats::of(plan, events))
    }

    pub(super) fn from_seats(plan: &Plan, seats: &Seats) -> Self {
        let territories = u32::try_from(plan.territories.len()).unwrap_or(u32::MAX);
        let planned = plan.effort.angles().iter();
        let planned = planned.flat_map(|angle| (0..territories).map(|index| (*angle, index)));
        let again = seats.again().map(|index| (Angle::Again, index));
        let reviewers: Vec<Reviewer> = planned
            .chain(again)
            .map(|(angle, index)| {
                let first = (angle != Angle::Again).then(|| plan.territories.get(index as usize));
                let is_code = first.flatten().map(|territory| territory.is_code);
                reviewer(plan, seats, (angle, index), is_code)
            })
            .collect();
        let lines: Vec<usize> = plan.hunks.iter().map(|hunk| hunk.changed.len()).collect();
        let read = lines_read(&reviewers, lines.len());
        let angles: BTreeSet<Angle> = reviewers.iter().map(|reviewer| reviewer.angle).collect();
        let by = |angle: Angle| {
            let of_angle = reviewers.iter().filter(|reviewer| reviewer.angle == angle);
            (angle, lines_read(of_angle, lines.len()))
        };
        let read_by = angles.into_iter().map(by).collect();
        let unread = (0..lines.len()).filter(|hunk| read[*hunk] < lines[*hunk]).collect();
        Self { reviewers, lines, read, read_by, unread }
    }

    /// Returns how many changed lines of a hunk were shown to reviewers of an
    /// angle, and how many there are.
    #[must_use]
    pub fn read_by(&self, angle: Angle, hunk: usize) -> (usize, usize) {
        let read = self.read_by.get(&angle).and_then(|read| read.get(hunk));
        (read.copied().unwrap_or_default(), self.lines_of(hunk))
    }

    /// Returns how many changed lines of a hunk were shown to anybody, and how
    /// many there are.
    #[must_use]
    pub fn read(&self, hunk: usize) -> (usize, usize) {
        (self.read.get(hunk).copied().unwrap_or_default(), self.lines_of(hunk))
    }

    fn lines_of(&self, hunk: usize) -> usize {
        self.lines.get(hunk).copied().unwrap_or_default()
    }

    /// Returns the hunks of which a changed line was shown to nobody.
    #[must_use]
    pub fn unread(&self) -> &BTreeSet<usize> {
        &self.unread
    }

    /// Returns the reviewers that do not count.
    pub fn missing(&self) -> impl Iterator<Item = (&Reviewer, &Missing)> {
        self.reviewers.iter().filter_map(|it| Some((it, it.missing.as_ref()?)))
    }

    /// Returns the reviewer that says for all of them why none counts: the first
    /// that went wrong, or the first. `None` if one counts, or there are none.
    #[must_use]
    pub fn failed(&self) -> Option<(&Reviewer, &Missing)> {
        if self.missing().count() < self.reviewers.len() {
            return None;
        }
        let went_wrong = |(_, why): &(&Reviewer, &Missing)| matches!(why, Missing::Failed(_));
        self.missing().find(went_wrong).or_else(|| self.missing().next())
    }

    /// Returns the angles that anybody looked from or should have.
    pub fn angles(&self) -> impl Iterator<Item = Angle> {
        // They are ordered as in reports.
        self.read_by.keys().copied()
    }
}

/// How many changed lines of each of so many hunks these reviewers were shown.
///
/// It goes through what was shown alone: most reviewers have seen nothing of most
/// hunks.
fn lines_read<'a>(reviewers: impl IntoIterator<Item = &'a Reviewer>, hunks: usize) -> Vec<usize> {
    let mut all = Shown::new();
    for (hunk, lines) in reviewers.into_iter().flat_map(|reviewer| &reviewer.shown) {
        shown::add(&mut all, *hunk, lines);
    }
    let mut read = vec![0; hunks];
    for (hunk, lines) in all {
        read[hunk] = lines.into_iter().filter(|line| *line).count();
    }
    read
}

/// Judges one reviewer. `is_code` says whether its territory has code to look
/// around in; if that is not known its prompt does.
fn reviewer(
    plan: &Plan,
    seats: &Seats,
    (angle, index): (Angle, u32),
    is_code: Option<bool>,
) -> Reviewer {
    let Some((unit, seat)) = seats.best(Role::Reviewer { angle, index }) else {
        let (unit, missing, shown) = (None, Some(Missing::NotStarted), Shown::new());
        return Reviewer { angle, index, unit, missing, looks: 0, shown };
    };
    let (mut shown, mut looks) = (Shown::new(), 0);
    for seat in seats.conversation(unit) {
        looks += seat.looks;
        for (hunk, lines) in &seat.shown {
            shown::add(&mut shown, *hunk, lines);
        }
    }
    let is_code_shown = || {
        let mut paths = shown.keys().map(|hunk| &plan.hunks[*hunk].path);
        paths.any(|path| plan.files_of(path).iter().any(|file| file.is_code))
    };
    let needs_a_look = angle.needs_a_look() && is_code.unwrap_or_else(is_code_shown);
    let missing = match &seat.outcome {
        None | Some(Outcome::Cancelled { ran: false }) => Some(Missing::NotStarted),
        Some(Outcome::Failed(failure)) => Some(Missing::Failed(failure.clone())),
        Some(Outcome::Cancelled { ran: true }) => Some(Missing::Cancelled),
        Some(Outcome::Interrupted) => Some(Missing::Interrupted),
        Some(Outcome::Done { text: _ }) if needs_a_look && looks == 0 => Some(Missing::NoLook),
        Some(Outcome::Done { text }) => {
            finding::claims(text).is_none().then_some(Missing::Unreadable)
        }
    };
    if missing.is_some() {
        shown.clear();
    }
    Reviewer { angle, index, unit: Some(unit), missing, looks, shown }
}

/// The units of a review, as a log tells of them.
#[derive(Debug, Default)]
pub(super) struct Seats {
    seats: HashMap<UnitId, Seat>,
    /// In the order they were declared.
    order: Vec<UnitId>,
    /// The invocation that counts: the last one that reviewed something.
    last: Option<Invocation>,
    /// Whether that one walks a flow. Then its units are those of steps, and none
    /// that a reviewer has started, whatever that was called.
    is_walk: bool,
}

impl Seats {
    pub(super) fn of(plan: &Plan, events: impl IntoIterator<Item: Borrow<Event>>) -> Self {
        let mut seats = Self::default();
        let mut places = Places::of(plan, "");
        for event in events {
            let event = event.borrow();
            if let EventKind::SessionOpened(head) = &event.kind {
                places = Places::of(plan, &head.cwd);
            } else if let EventKind::Walked(_) = &event.kind {
                // It may find nothing to review: then that is what it came to, and
                // not what an earlier one did.
                (seats.last, seats.is_walk) = (Some(event.invocation), true);
            } else if let EventKind::UnitQueued(head) = &event.kind {
                let Some(role) = Role::of(head).filter(|_| seats.counts(head)) else { continue };
                seats.order.push(event.unit);
                if !seats.is_walk {
                    seats.last = Some(event.invocation);
                }
                let seat = Seat::new(role, event.invocation, role::goes_on(head.origin));
                seats.seats.insert(event.unit, seat);
            } else if let Some(seat) = seats.seats.get_mut(&event.unit) {
                seat.take(&event.kind, &places);
            }
        }
        seats
    }

    /// Tells whether a unit can have a part in the review.
    fn counts(&self, head: &UnitHead) -> bool {
        !self.is_walk || head.step.is_some()
    }

    /// Returns the units of the last review in declared order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (UnitId, &Seat)> {
        let seats = self.order.iter().filter_map(|unit| Some((*unit, self.seats.get(unit)?)));
        seats.filter(|(_, seat)| Some(seat.invocation) == self.last)
    }

    /// Returns the unit that has a role: the last one that has done its work, or
    /// the last one.
    pub(super) fn best(&self, role: Role) -> Option<(UnitId, &Seat)> {
        let with_role = self.iter().filter(|(_, seat)| seat.role == role);
        with_role.enumerate().max_by_key(|(at, (_, seat))| (seat.is_done(), *at)).map(|(_, it)| it)
    }

    /// Returns a unit and those whose conversation it goes on with.
    pub(super) fn conversation(&self, unit: UnitId) -> impl Iterator<Item = &Seat> {
        let first = self.seats.get(&unit);
        // A unit goes on with one that was declared before it, so this ends.
        std::iter::successors(first, |seat| self.seats.get(&seat.goes_on?)).take(self.order.len())
    }

    /// Returns how often a unit, or those whose conversation it goes on with, has
    /// looked at something that its model has read.
    pub(super) fn looks(&self, unit: UnitId) -> u32 {
        self.conversation(unit).map(|seat| seat.looks).sum()
    }

    /// Returns the places of the second look, each once.
    fn again(&self) -> impl Iterator<Item = u32> {
        let places: BTreeSet<u32> = self
            .iter()
            .filter_map(|(_, seat)| match seat.role {
                Role::Reviewer { angle: Angle::Again, index } => Some(index),
                Role::Reviewer { .. } | Role::Verifier { .. } => None,
            })
            .collect();
        places.into_iter()
    }
}

impl Seat {
    fn new(role: Role, invocation: Invocation, goes_on: Option<UnitId>) -> Self {
        Self {
            role,
            invocation,
            goes_on,
            outcome: None,
            partial: String::new(),
            prompt: String::new(),
            shown: Shown::new(),
            looks: 0,
            unread: Shown::new(),
            unread_looks: 0,
            calls: HashMap::new(),
        }
    }

    /// Tells whether the unit gave an answer.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Done { text: _ }))
    }

    fn take(&mut self, kind: &EventKind, places: &Places<'_>) {
        if let EventKind::Lost { .. } = kind {
            // Whoever runs it again has read nothing.
            *self = Self::new(self.role, self.invocation, self.goes_on);
        } else if let EventKind::Prompted(prompt) = kind {
            if self.prompt.is_empty() {
                self.prompt = prompt.text.to_string();
            }
            places.diffs(&prompt.text, &mut self.unread);
        } else if let EventKind::Notified { text, .. } = kind {
            places.diffs(text, &mut self.unread);
        } else if let EventKind::Replied(replied) = kind {
            // The model answers what it was sent.
            self.read();
            let calls = replied.reply.calls.iter();
            self.calls.extend(calls.map(|call| (call.id.clone(), call.arguments.clone())));
        } else if let EventKind::ToolFinished { call, tool, output, took_ms: _ } = kind {
            let arguments = self.calls.remove(call).unwrap_or_default();
            if !output.is_error && is_look(tool) {
                self.looked(tool, &arguments, &output.text, places);
            }
        } else if let EventKind::Compacted(_) = kind {
            // Large outputs may have been left out of what was summed up.
            (self.unread, self.unread_looks) = (Shown::new(), 0);
        } else if let EventKind::UnitEnded(end) = kind {
            self.outcome = Some(end.outcome.clone());
            self.partial = end.text.to_string();
        }
    }

    fn looked(&mut self, tool: &str, arguments: &str, output: &str, places: &Places<'_>) {
        self.unread_looks += 1;
        match tool {
            "Read" => places.page(arguments, output, &mut self.unread),
            "Grep" => places.rows(output, &mut self.unread),
            _ => places.diffs(output, &mut self.unread),
        }
    }

    fn read(&mut self) {
        self.looks += std::mem::take(&mut self.unread_looks);
        for (hunk, lines) in std::mem::take(&mut self.unread) {
            shown::add(&mut self.shown, hunk, &lines);
        }
    }
}

/// Tells whether a call looks at something: a list for oneself does not, and
/// giving an answer does not.
fn is_look(tool: &str) -> bool {
    !matches!(tool, "TodoWrite" | tool_name::STRUCTURED_OUTPUT)
}

#[cfg(test)]
mod tests;
