//! What a unit is started for: a task, a fork, or a message to one that has
//! ended.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::executor::Begins;
use super::parked::Parked;
use crate::agent::Forked;
use crate::event::{Origin, SlotPosition, UnitId};
use crate::line::{Budget, Child, Strand};
use crate::tool::{FORK, Isolation, Task, TaskKind, ToolContext, Typed};

/// What a unit is started for. One that waits holds this and nothing else.
pub(crate) enum Job {
    /// A task for an agent with a conversation of its own.
    Typed {
        task: Task,
        typed: Arc<Typed>,
        /// Whether its words are sent as they are: no file stands for its name.
        is_verbatim: bool,
    },
    /// A task that continues the caller's conversation.
    Fork { task: Task, from: Forked },
    /// A message to a unit that has ended.
    Continue { ended: UnitId, parked: Box<Parked>, message: Arc<str> },
}

impl Job {
    /// Returns the jobs of a call.
    pub(super) fn all(tasks: Vec<Task>, context: &ToolContext) -> Vec<Self> {
        let (parent, point) = (context.line.unit(), &context.fork_point);
        let job = |task: Task| match &task.kind {
            TaskKind::Typed(typed) => {
                Self::Typed { typed: Arc::clone(typed), task, is_verbatim: false }
            }
            TaskKind::Fork => {
                let from = Forked { parent, point: Arc::clone(point) };
                Self::Fork { task, from }
            }
        };
        tasks.into_iter().map(job).collect()
    }

    /// Returns what the dispatcher is told of it.
    pub(super) fn child(&self, slot: Option<SlotPosition>) -> Child {
        let origin = match self {
            Self::Typed { .. } => Origin::Prompt,
            Self::Fork { .. } => Origin::Fork,
            Self::Continue { ended, .. } => Origin::Continued(*ended),
        };
        Child {
            description: Arc::clone(self.description()),
            agent: self.agent(),
            slot,
            origin,
            is_background: self.is_background(),
            strand: Strand::Fresh,
            budget: self.budget(),
            again: None,
            step: None,
        }
    }

    /// Returns what its conversation begins with.
    pub(super) fn begins(&self) -> Begins {
        match self {
            Self::Typed { .. } => Begins::Anew,
            Self::Fork { from, .. } => Begins::Forked(Arc::clone(&from.point)),
            Self::Continue { parked, .. } => parked.begins(),
        }
    }

    pub(super) fn description(&self) -> &Arc<str> {
        match self {
            Self::Typed { task, .. } | Self::Fork { task, .. } => &task.description,
            Self::Continue { parked, .. } => &parked.description,
        }
    }

    pub(super) fn agent(&self) -> Arc<str> {
        match self {
            Self::Typed { typed, .. } => Arc::clone(&typed.agent),
            Self::Fork { .. } => FORK.into(),
            Self::Continue { parked, .. } => Arc::clone(&parked.agent),
        }
    }

    pub(super) fn is_background(&self) -> bool {
        match self {
            Self::Typed { task, .. } | Self::Fork { task, .. } => task.is_background,
            Self::Continue { .. } => true,
        }
    }

    fn budget(&self) -> Budget {
        Budget { tokens: self.max_tokens(), ..Budget::default() }
    }

    /// Returns what the task itself asks for.
    pub(super) fn isolation(&self) -> Option<Isolation> {
        match self {
            Self::Typed { task, .. } | Self::Fork { task, .. } => task.isolation,
            Self::Continue { parked, .. } => parked.isolation,
        }
    }

    /// Returns the directories of the worktrees that its conversation was in before.
    pub(super) fn former(&self) -> &[PathBuf] {
        match self {
            Self::Typed { .. } | Self::Fork { .. } => &[],
            Self::Continue { parked, .. } => &parked.former,
        }
    }

    pub(super) fn max_tokens(&self) -> Option<NonZeroU64> {
        match self {
            Self::Typed { task, .. } | Self::Fork { task, .. } => task.max_tokens,
            Self::Continue { parked, .. } => parked.max_tokens,
        }
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Typed { task, .. } | Self::Fork { task, .. } => task.timeout,
            Self::Continue { parked, .. } => parked.timeout,
        }
    }

    /// Tells whether the unit is a fork, which starts no units.
    pub(super) fn is_fork(&self) -> bool {
        match self {
            Self::Typed { .. } => false,
            Self::Fork { .. } => true,
            Self::Continue { parked, .. } => parked.is_fork,
        }
    }
}
