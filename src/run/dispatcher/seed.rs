//! Where a session stands when a dispatcher takes it up: a view of its past,
//! and nothing that the past does not hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::ledger::Ledger;
use crate::branch::{RootJoins, Token};
use crate::event::{Chosen, Invocation, Origin, QuestionId, Seq, UnitId};
use crate::session::{Past, PastUnit};

/// Where a session stands when a run takes it up.
#[derive(Debug, Clone)]
pub struct Seed {
    /// The number of its last event.
    pub last: Seq,
    /// The invocation that begins now.
    pub invocation: Invocation,
    /// The name of the next unit.
    pub next_unit: UnitId,
    /// The largest token of each invocation that has any.
    pub largest: BTreeMap<Invocation, Token>,
    /// What the root branch has joined in each invocation.
    pub joins: RootJoins,
    /// Units that main started in the background, with ends that it has not
    /// heard.
    pub untold: Vec<(UnitId, PastUnit)>,
    /// Background units of main whose ends it has received.
    pub heard: Vec<(UnitId, PastUnit)>,
    /// The rules that people have allowed for the whole session, each with the
    /// question whose answer did.
    pub granted: BTreeMap<Arc<str>, QuestionId>,
    /// What main was to answer with, if that is known.
    pub chosen: Option<Chosen>,
}

impl Seed {
    /// Where a session stands in which nothing is open.
    #[must_use]
    pub fn of(past: &Past) -> Self {
        let invocations = past.invocations();
        let last = invocations.last_key_value().map_or(0, |(invocation, _)| invocation.0);
        let largest = invocations.iter().filter_map(|(&number, invocation)| {
            invocation.largest.map(|largest| (number, largest))
        });
        // A session that was opened may have been left before anything was
        // asked in it.
        let has_begun = past.main().started.is_some();
        Self {
            last: past.last(),
            invocation: Invocation(if has_begun { last + 1 } else { last.max(1) }),
            next_unit: past.next_unit(),
            largest: largest.collect(),
            joins: past.joins().clone(),
            untold: past.untold().map(|(id, unit)| (id, unit.clone())).collect(),
            heard: past.received_units().map(|(id, unit)| (id, unit.clone())).collect(),
            granted: past.granted().clone(),
            chosen: past.chosen(),
        }
    }

    /// Takes the background units of earlier processes, and adds them to main's ledger.
    pub(super) fn take_ended(&mut self, main: &mut Ledger) -> BTreeMap<UnitId, Ledger> {
        let aside = |is_heard| move |(id, unit)| (id, unit, is_heard);
        let untold = std::mem::take(&mut self.untold).into_iter().map(aside(false));
        let heard = std::mem::take(&mut self.heard).into_iter().map(aside(true));
        let mut past: Vec<(UnitId, PastUnit, bool)> = untold.chain(heard).collect();
        // The unit that continues a conversation has the larger id.
        past.sort_by_key(|(id, ..)| *id);
        let mut units: BTreeMap<UnitId, Ledger> = BTreeMap::new();
        for (id, unit, is_heard) in past {
            match is_heard {
                true => main.aside().remember(id),
                false => main.aside().heard_of(id),
            }
            if let Origin::Continued(ended) = unit.head.origin {
                units.entry(ended).and_modify(|ended| ended.continued_by = Some(id));
            }
            units.insert(id, Ledger::gone(unit));
        }
        units
    }
}

impl Default for Seed {
    /// A session in which nothing has happened.
    fn default() -> Self {
        Self {
            last: Seq(0),
            invocation: Invocation(1),
            next_unit: UnitId(1),
            largest: BTreeMap::new(),
            joins: RootJoins::default(),
            untold: Vec::new(),
            heard: Vec::new(),
            granted: BTreeMap::new(),
            chosen: None,
        }
    }
}
