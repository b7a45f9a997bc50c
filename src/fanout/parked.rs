//! Conversations of background units that have ended, so that a message can
//! continue them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::agent::Unit;
use crate::event::UnitId;
use crate::message::Prefix;
use crate::model::Model;
use crate::tool::files::Seen;
use crate::tool::{FORK, Registry};

/// Most conversations that are held. Each may be a whole context window; whoever
/// has ended long ago is seldom asked again.
const PARKED_CAP: usize = 32;

/// What is left of a unit that has ended.
#[derive(Clone)]
pub(crate) struct Parked {
    pub(super) description: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) model: Arc<dyn Model>,
    pub(super) tools: Registry,
    pub(super) seen: Seen,
    pub(super) conversation: Prefix,
}

impl Parked {
    /// Returns what is left of `unit`; `None` if it was stopped in the middle
    /// of its calls, where no message can follow.
    pub(super) fn of(unit: &Unit) -> Option<Self> {
        unit.history.is_settled().then(|| Self {
            description: Arc::clone(&unit.description),
            agent: Arc::clone(&unit.agent),
            model: Arc::clone(&unit.model),
            tools: unit.tools.clone(),
            seen: unit.context.seen.for_fork(),
            conversation: unit.history.prefix().clone(),
        })
    }

    pub(super) fn is_fork(&self) -> bool {
        &*self.agent == FORK
    }
}

/// The conversations that are held.
#[derive(Default)]
pub struct Parking {
    // A mutex, because units end on tasks of their own and nobody waits here.
    held: Mutex<BTreeMap<UnitId, Parked>>,
}

impl Parking {
    pub(super) fn keep(&self, unit: UnitId, parked: Parked) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(unit, parked);
        while held.len() > PARKED_CAP {
            held.pop_first();
        }
    }

    pub(super) fn get(&self, unit: UnitId) -> Option<Parked> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&unit).cloned()
    }
}
