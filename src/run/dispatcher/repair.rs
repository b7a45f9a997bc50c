//! What a process that died left open, brought to its end.
//!
//! These are the events that its dispatcher would have recorded, had it been
//! able to: an output for each open call, an end for each unit, the end of the
//! invocation. Nothing is started. If the process dies over it, what is missing
//! then is what the next repair makes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::branch::{Branch, RootJoins, TokenSet};
use crate::event::{
    Event, EventKind, Invocation, InvocationEnd, Outcome, Seq, UnitEnd, UnitHead, UnitId,
    UnitState, UnixMillis,
};
use crate::fanout::cut_off::Started;
use crate::message::Output;
use crate::session::{CUT_OFF, NOT_RUN, OpenCall, Past, PastUnit, Told};

/// The tool whose calls do nothing but start units.
const AGENT: &str = "Agent";

/// Writes the output of a call that started units, given in declared order.
pub type Tell<'a> = dyn Fn(&OpenCall, &[Started<'_>]) -> Output + 'a;

/// Returns the events that end what is open, deepest units first, to be
/// appended to the log in this order; none if nothing is.
///
/// They carry the numbers of the invocations and the branches of the units that
/// they are about. A `past` that has taken them is left with nothing open.
#[must_use]
pub fn repair(past: &Past, tell: &Tell<'_>, now: UnixMillis) -> Vec<Event> {
    let joins = past.joins().clone();
    let (steps, ended) = (steps(past), BTreeMap::new());
    let mut repair = Repair { past, tell, now, joins, steps, ended, events: Vec::new() };
    repair.join_told();
    let open = past.units().iter().filter(|(_, unit)| unit.end.is_none());
    let mut open: Vec<(UnitId, &PastUnit)> = open.map(|(&id, unit)| (id, unit)).collect();
    open.sort_by_key(|&(id, unit)| (Reverse(unit.head.depth), id));
    for (id, unit) in open {
        repair.end_unit(id, unit);
    }
    repair.take_back();
    repair.end_main();
    repair.events
}

struct Repair<'a> {
    past: &'a Past,
    tell: &'a Tell<'a>,
    now: UnixMillis,
    /// What the root branch has joined, these events included.
    joins: RootJoins,
    /// The units that no call has asked for and that have not come home.
    steps: Steps,
    /// The units that were ended here, with their last branches.
    ended: BTreeMap<UnitId, (Branch, Arc<UnitEnd>)>,
    events: Vec<Event>,
}

/// Units by who waits for them, and in which invocation.
type Steps = BTreeMap<(UnitId, Invocation), Vec<UnitId>>;

fn steps(past: &Past) -> Steps {
    let mut steps = Steps::new();
    for (&id, unit) in past.units() {
        let UnitHead { call, parent, is_background, .. } = &unit.head;
        if call.is_none() && !is_background && !unit.is_joined {
            steps.entry((*parent, unit.invocation)).or_default().push(id);
        }
    }
    steps
}

/// Whose calls are closed: where the events go.
struct Place {
    unit: UnitId,
    invocation: Invocation,
    branch: Branch,
}

impl Repair<'_> {
    /// Main heard of these units, so its branch holds theirs, whatever became of
    /// the line that said so.
    fn join_told(&mut self) {
        let mut children: BTreeMap<Invocation, Vec<UnitId>> = BTreeMap::new();
        for (&id, unit) in self.past.units() {
            if unit.told == Told::Yes && !unit.is_joined {
                children.entry(unit.invocation).or_default().push(id);
            }
        }
        for (invocation, children) in children {
            let mut place = self.main(invocation);
            self.join(&mut place, &children);
        }
    }

    /// What the user wrote and main has not read is not told later, when it may
    /// be meant no more.
    fn take_back(&mut self) {
        let last = self.past.invocations().last_key_value();
        if let Some((&last, _)) = last.filter(|_| self.past.waiting() > 0) {
            let main = self.main(last);
            self.record(&main, EventKind::UserTookBack);
        }
    }

    fn end_unit(&mut self, id: UnitId, unit: &PastUnit) {
        let (invocation, branch) = (unit.invocation, unit.branch.clone());
        let mut place = Place { unit: id, invocation, branch };
        for call in &unit.work.open {
            self.close(&mut place, call);
        }
        self.join_steps(&mut place);
        let outcome = match unit.work.has_run() {
            true => Outcome::Interrupted,
            false => Outcome::Cancelled { ran: false },
        };
        let end = Arc::new(unit.work.ended(outcome));
        self.record(&place, EventKind::UnitEnded(Arc::clone(&end)));
        self.ended.insert(id, (place.branch, end));
    }

    fn end_main(&mut self) {
        let open = self.past.invocations().iter().filter(|(_, invocation)| invocation.is_open);
        let open: Vec<Invocation> = open.map(|(&number, _)| number).collect();
        let Some(&last) = open.last() else { return };
        let mut place = self.main(last);
        for call in &self.past.main().open {
            self.close(&mut place, call);
        }
        self.join_steps(&mut place);
        for invocation in open {
            let is_last = invocation == last;
            let end = InvocationEnd {
                outcome: Outcome::Interrupted,
                text: if is_last { Arc::clone(&self.past.main().text) } else { Arc::default() },
                cancel: None,
                unfinished: if is_last { self.unfinished() } else { Vec::new() },
            };
            let place = self.main(invocation);
            self.record(&place, EventKind::InvocationEnded(Arc::new(end)));
        }
    }

    /// Joins the units that no call has asked for: whoever walked the steps of
    /// a flow would have.
    fn join_steps(&mut self, place: &mut Place) {
        let steps = self.steps.remove(&(place.unit, place.invocation)).unwrap_or_default();
        self.join(place, &steps);
    }

    /// Gives a call its one output.
    fn close(&mut self, place: &mut Place, call: &OpenCall) {
        let past = self.past;
        let units = past.units();
        let children: Vec<(UnitId, &PastUnit)> =
            call.children.iter().filter_map(|&id| Some((id, units.get(&id)?))).collect();
        let is_awaited = |child: &PastUnit| !child.is_joined && !child.head.is_background;
        let awaited = children.iter().filter(|(_, child)| is_awaited(child));
        let awaited: Vec<UnitId> = awaited.map(|&(id, _)| id).collect();
        self.join(place, &awaited);
        // A call that only starts units has done nothing else.
        let output = match (call.has_started(), &*call.tool == AGENT) {
            (true, true) if !children.is_empty() => {
                let started = children.iter().filter_map(|&(unit, child)| {
                    Some(Started { unit, head: &child.head, end: self.end(unit)? })
                });
                (self.tell)(call, &started.collect::<Vec<_>>())
            }
            (true, false) => Output::error(CUT_OFF),
            (true, true) | (false, _) => Output::error(NOT_RUN),
        };
        let (id, tool) = (call.id.clone(), Arc::clone(&call.tool));
        let output = Arc::new(output);
        self.record(place, EventKind::ToolFinished { call: id, tool, output, took_ms: 0 });
    }

    fn join(&mut self, place: &mut Place, children: &[UnitId]) {
        if children.is_empty() {
            return;
        }
        let tokens: Vec<TokenSet> =
            children.iter().filter_map(|&child| Some(self.branch(child)?.tokens.clone())).collect();
        place.branch = place.branch.join(&tokens);
        self.record(place, EventKind::Joined { children: children.to_vec() });
    }

    fn end(&self, unit: UnitId) -> Option<Arc<UnitEnd>> {
        let before = || self.past.units().get(&unit)?.end.clone();
        self.ended.get(&unit).map(|(_, end)| Arc::clone(end)).or_else(before)
    }

    fn branch(&self, unit: UnitId) -> Option<&Branch> {
        let before = || self.past.units().get(&unit).map(|unit| &unit.branch);
        self.ended.get(&unit).map(|(branch, _)| branch).or_else(before)
    }

    fn main(&self, invocation: Invocation) -> Place {
        let tokens = self.joins.joined_in(invocation);
        Place { unit: UnitId::MAIN, invocation, branch: Branch { tokens, ..Branch::root() } }
    }

    /// Returns the agents that did not end by themselves, also those that an
    /// earlier repair has ended.
    fn unfinished(&self) -> Vec<UnitId> {
        let account = self.past.account().units.iter();
        let ended_before = account
            .filter(|(_, (_, state))| matches!(state, UnitState::Interrupted | UnitState::Skipped));
        let is_agent =
            |id: &UnitId| self.past.units().get(id).is_none_or(|unit| unit.head.is_agent());
        let ended = self.ended.keys().copied().filter(is_agent);
        let units: BTreeSet<UnitId> = ended_before.map(|(&id, _)| id).chain(ended).collect();
        units.into_iter().collect()
    }

    fn record(&mut self, place: &Place, kind: EventKind) {
        let seq = Seq(self.past.last().0 + 1 + self.events.len() as u64);
        let Place { unit, invocation, branch } = place;
        let (unit, invocation, branch) = (*unit, *invocation, branch.clone());
        let event = Event { seq, at: self.now, invocation, unit, branch, kind };
        self.joins.take(&event);
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests;
