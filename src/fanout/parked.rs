//! Conversations of background units that have ended, so that a message can
//! continue them.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::executor::Begins;
use super::job::Job;
use crate::agent::{TurnLimit, Unit};
use crate::event::UnitId;
use crate::guard::Policy;
use crate::message::Prefix;
use crate::model::Model;
use crate::tool::files::Seen;
use crate::tool::{AnswerSchema, Isolation, Registry};
#[cfg(feature = "nats")]
use crate::tool::{FORK, Task, TaskKind, Typed};

/// Most conversations that are held. Each may be a whole context window; whoever
/// has ended long ago is seldom asked again.
const PARKED_CAP: usize = 32;

/// What is left of a unit that has ended.
#[derive(Clone)]
pub(crate) struct Parked {
    pub(super) description: Arc<str>,
    pub(super) agent: Arc<str>,
    pub(super) policy: Arc<Policy>,
    /// Whether it was a fork or was started by one.
    pub(super) is_fork: bool,
    /// Most tokens it and all it started were given.
    pub(super) max_tokens: Option<NonZeroU64>,
    /// Most time it was given.
    pub(super) timeout: Option<Duration>,
    /// What it worked in; whoever goes on gets a new one.
    pub(super) isolation: Option<Isolation>,
    /// Directories of the worktrees that it was in, if those were its own: the
    /// conversation names files in them.
    pub(super) former: Arc<[PathBuf]>,
    pub(super) left: Left,
}

/// What was said in a unit that has ended, and with what.
#[derive(Clone)]
pub(crate) enum Left {
    /// This process holds it.
    Here(Here),
    /// Others do, where it ended.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "all ends here"))]
    Elsewhere(Arc<Elsewhere>),
}

/// A conversation that this process holds.
#[derive(Clone)]
pub(crate) struct Here {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Registry,
    pub(crate) seen: Seen,
    pub(crate) conversation: Prefix,
    pub(crate) max_turns: Option<TurnLimit>,
}

/// A conversation that ended elsewhere: what whoever runs units there needs to go on
/// from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Elsewhere {
    /// The conversation.
    pub from: Shipped,
    /// Its model, as the configuration names it.
    pub model: Arc<str>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// What its answer must fit: one of its tools gives it.
    pub schema: Option<Arc<AnswerSchema>>,
    /// The most turns that its unit had.
    pub max_turns: Option<TurnLimit>,
}

/// A conversation on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipped {
    /// The name of the bytes that hold it.
    pub blob: Arc<str>,
    /// The BLAKE3 hash of the bytes that its model is sent it as.
    pub body: Arc<str>,
}

impl Parked {
    /// Returns what is left of `unit`, which was started for `job`; `None` if it was
    /// stopped in the middle of its calls, where no message can follow.
    pub(super) fn of(
        unit: &Unit,
        is_fork: bool,
        job: &Job,
        isolation: Option<Isolation>,
    ) -> Option<Self> {
        let own = unit.context.workspace.original.as_ref().filter(|_| isolation.is_some());
        let own = own.map(|original| original.copy().to_owned());
        unit.history.is_settled().then(|| Self {
            description: Arc::clone(&unit.description),
            agent: Arc::clone(&unit.agent),
            policy: Arc::clone(&unit.policy),
            is_fork,
            max_tokens: job.max_tokens(),
            timeout: job.timeout(),
            isolation,
            former: job.former().iter().cloned().chain(own).collect(),
            left: Left::Here(Here {
                model: Arc::clone(&unit.model),
                tools: unit.tools.clone(),
                seen: unit.context.seen.for_fork(),
                conversation: unit.history.prefix().clone(),
                max_turns: unit.bounds.max_turns,
            }),
        })
    }

    /// Returns what a conversation begins with that goes on from it.
    pub(super) fn begins(&self) -> Begins {
        match &self.left {
            Left::Here(_) => Begins::Ended,
            Left::Elsewhere(left) => Begins::EndedElsewhere(Arc::clone(left)),
        }
    }
}

#[cfg(feature = "nats")]
impl Parked {
    /// What a message continues that was sent here as a task: see [`Parked::asked`].
    pub(crate) fn sent(task: &Task, policy: Arc<Policy>, here: Here) -> Self {
        let agent = match &task.kind {
            TaskKind::Fork => FORK.into(),
            TaskKind::Typed(typed) => Arc::clone(&typed.agent),
        };
        Self {
            description: Arc::clone(&task.description),
            agent,
            policy,
            is_fork: matches!(task.kind, TaskKind::Fork),
            max_tokens: task.max_tokens,
            timeout: task.timeout,
            isolation: task.isolation,
            former: Arc::from([]),
            left: Left::Here(here),
        }
    }

    /// Returns a message as a task with the bounds that the unit had.
    pub(crate) fn asked(&self, message: &Arc<str>) -> Task {
        let typed = || Typed {
            agent: Arc::clone(&self.agent),
            is_built_in: false,
            model: None,
            tools: None,
            followed: None,
        };
        Task {
            description: Arc::clone(&self.description),
            prompt: Arc::clone(message),
            kind: match self.is_fork {
                true => TaskKind::Fork,
                false => TaskKind::Typed(Arc::new(typed())),
            },
            max_turns: None,
            max_tokens: self.max_tokens,
            timeout: self.timeout,
            isolation: self.isolation,
            is_background: true,
            schema: self.elsewhere().and_then(|left| left.schema.clone()),
        }
    }

    /// Returns what is elsewhere of it.
    pub(crate) fn elsewhere(&self) -> Option<&Elsewhere> {
        match &self.left {
            Left::Here(_) => None,
            Left::Elsewhere(left) => Some(left),
        }
    }

    /// Returns what is here of it.
    pub(crate) fn here(self) -> Option<Here> {
        match self.left {
            Left::Here(here) => Some(here),
            Left::Elsewhere(_) => None,
        }
    }
}

/// The conversations that are held, and where the others can be read.
#[derive(Default)]
pub struct Parking {
    /// The directory of the session whose log has all of them, if one is kept.
    pub(super) log: Option<PathBuf>,
    /// One lock for each conversation that messages are being sent to, by its last unit.
    /// A mutex, because it is held for a lookup only.
    sending: Mutex<HashMap<UnitId, Weak<tokio::sync::Mutex<()>>>>,
    // A mutex, because units end on tasks of their own and nobody waits here.
    // In the order in which they ended.
    held: Mutex<VecDeque<(UnitId, Parked)>>,
}

impl Parking {
    /// Holds nothing yet; the log of the session in this directory has what was said.
    #[must_use]
    pub fn with_log(directory: PathBuf) -> Self {
        Self { log: Some(directory), ..Self::default() }
    }

    /// Waits for the turn to send a message to a conversation whose last unit is `last`:
    /// two messages at once would start two units that continue it. Other conversations
    /// do not wait, since starting such a unit may read the whole session log.
    pub(super) async fn lock_conversation(&self, last: UnitId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            sending.retain(|_, lock| lock.strong_count() > 0);
            let lock = sending.get(&last).and_then(Weak::upgrade).unwrap_or_default();
            sending.insert(last, Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }

    pub(super) fn keep(&self, unit: UnitId, parked: Parked) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push_back((unit, parked));
        if held.len() > PARKED_CAP {
            held.pop_front();
        }
    }

    /// Lets go of all of them: nobody is left who could continue one.
    #[cfg(feature = "nats")]
    pub(crate) fn clear(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn get(&self, unit: UnitId) -> Option<Parked> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().find(|(of, _)| *of == unit).map(|(_, parked)| parked.clone())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_message_waits_for_those_to_its_own_conversation_alone() {
        let parking = Parking::default();
        let lock = |unit| parking.lock_conversation(UnitId(unit)).now_or_never();
        let first = lock(1);
        assert!(first.is_some() && lock(1).is_none() && lock(2).is_some());
        drop(first);
        assert!(lock(1).is_some());
        drop(lock(3));
        assert_eq!(parking.sending.lock().unwrap().len(), 1, "ended ones are let go of");
    }
}
