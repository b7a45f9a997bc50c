//! Where a session stands when a dispatcher takes it up: a view of its past,
//! and nothing that the past does not hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::branch::{RootJoins, Token};
use crate::event::{Chosen, Invocation, QuestionId, Seq, UnitId};
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
            granted: past.granted().clone(),
            chosen: past.chosen(),
        }
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
            granted: BTreeMap::new(),
            chosen: None,
        }
    }
}
