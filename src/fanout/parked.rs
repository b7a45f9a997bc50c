//! Conversations of background units that have ended, so that a message can
//! continue them.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::job::Job;
use crate::agent::{TurnLimit, Unit};
use crate::event::UnitId;
use crate::guard::Policy;
use crate::message::Prefix;
use crate::model::Model;
use crate::tool::files::Seen;
use crate::tool::{Isolation, Registry};

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
    pub(super) policy: Arc<Policy>,
    pub(super) seen: Seen,
    pub(super) conversation: Prefix,
    /// Whether it was a fork or was started by one.
    pub(super) is_fork: bool,
    pub(super) max_turns: Option<TurnLimit>,
    /// Most tokens it and all it started were given.
    pub(super) max_tokens: Option<NonZeroU64>,
    /// Most time it was given.
    pub(super) timeout: Option<Duration>,
    /// What it worked in; whoever goes on gets a new one.
    pub(super) isolation: Option<Isolation>,
}

impl Parked {
    /// Returns what is left of `unit`, which was started for `job`; `None` if it was stopped in the middle
    /// of its calls, where no message can follow.
    pub(super) fn of(
        unit: &Unit,
        is_fork: bool,
        job: &Job,
        isolation: Option<Isolation>,
    ) -> Option<Self> {
        unit.history.is_settled().then(|| Self {
            description: Arc::clone(&unit.description),
            agent: Arc::clone(&unit.agent),
            model: Arc::clone(&unit.model),
            tools: unit.tools.clone(),
            policy: Arc::clone(&unit.policy),
            seen: unit.context.seen.for_fork(),
            conversation: unit.history.prefix().clone(),
            is_fork,
            max_turns: unit.bounds.max_turns,
            max_tokens: job.max_tokens(),
            timeout: job.timeout(),
            isolation,
        })
    }
}

/// The conversations that are held.
#[derive(Default)]
pub struct Parking {
    // A mutex, because units end on tasks of their own and nobody waits here.
    // In the order in which they ended.
    held: Mutex<VecDeque<(UnitId, Parked)>>,
}

impl Parking {
    pub(super) fn keep(&self, unit: UnitId, parked: Parked) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push_back((unit, parked));
        if held.len() > PARKED_CAP {
            held.pop_front();
        }
    }

    pub(super) fn get(&self, unit: UnitId) -> Option<Parked> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().find(|(of, _)| *of == unit).map(|(_, parked)| parked.clone())
    }
}
