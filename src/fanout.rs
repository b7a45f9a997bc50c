//! Fan-out: runs the units that calls ask for, a capped number at a time.
//!
//! [`Fanout`] holds what all units of a run share. Each unit gets a
//! [`Caller`] of its own, which starts children on its behalf. How many run is
//! the [`Pool`]'s business, whether one may start is the dispatcher's, and what
//! becomes of one is a value: nothing here ends a batch early.

mod batch;
mod caller;
mod clock;
mod closing;
mod confirm;
pub mod cut_off;
mod executor;
mod job;
mod letters;
mod local;
pub mod news;
mod parked;
mod pool;
mod recalled;
mod slot;
mod text;
mod waiting;
pub mod worktree;

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::agent::{Compacting, Persistence};
use crate::config::WindowShare;
use crate::definition::{AgentDefinition, Definitions};
use crate::event::UnitId;
use crate::hook::Hooks;
use crate::mcp::Servers;
use crate::message::Head;
use crate::model::Model;
use crate::model::retry::{self, Jitter};
use crate::skill::Skills;
use crate::tool::{Registry, Typed, Workspace};

pub(crate) use batch::{ends, told};
pub use caller::{Caller, Hold};
pub(crate) use closing::Closing;
pub use executor::{Begins, SlotExecutor, Submitted, Turn};
pub(crate) use job::Job;
pub use local::Local;
pub use parked::{Elsewhere, Parking, Shipped};
#[cfg(feature = "nats")]
pub(crate) use parked::{Here, Parked};
pub use pool::{Permit, Pool, Ticket};
pub(crate) use slot::never_ran;
#[cfg(feature = "nats")]
pub(crate) use slot::{Changes, Far, lived, over};
pub(crate) use text::Ended;
pub use worktree::{Place, Worktrees};

/// Finds a model by the name a task or a definition gives.
///
/// The error is a sentence for whoever wrote the name.
pub type FindModel = dyn Fn(&str) -> Result<Arc<dyn Model>, String> + Send + Sync;

/// What all units of a run share.
pub struct Fanout {
    /// The types of agent a call can name.
    pub definitions: Definitions,
    /// The skills that can be used.
    pub skills: Arc<Skills>,
    /// Where tools work.
    pub workspace: Arc<Workspace>,
    /// Caps how many units run on this machine.
    pub pool: Pool,
    /// Runs them, here or elsewhere.
    pub executor: Arc<dyn SlotExecutor>,
    /// The bounds of a unit that names none itself.
    pub limits: Limits,
    /// Finds models by name.
    pub find_model: Box<FindModel>,
    /// What stands around every prompt.
    pub surroundings: Surroundings,
    /// The conversations of background units that have ended.
    pub parking: Parking,
    /// The models to ask where a unit's own is overloaded, in this order.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// Spreads retries over time.
    pub jitter: Jitter,
    /// Where units work that want a worktree of their own.
    pub worktrees: Worktrees,
    /// What is asked at certain moments.
    pub hooks: Arc<Hooks>,
    /// The servers of tools that main may use, and who works for it.
    pub servers: Arc<Servers>,
}

/// The bounds of a unit that names none itself.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most turns.
    pub max_turns: u32,
    /// Most time from its start; `None` means no limit.
    pub timeout: Option<std::time::Duration>,
    /// How deep units may nest; children of the main conversation are at 1.
    pub max_depth: u32,
    /// A batch of more slots than these needs the user's leave; `None` means
    /// that none does.
    pub confirm_above: Option<NonZeroUsize>,
    /// How long a unit that has nothing else to do waits for units in the
    /// background.
    pub background_wait: std::time::Duration,
    /// How long a fork waits for another one to have the shared bytes read; 0
    /// means that none waits.
    pub prime: std::time::Duration,
    /// Whether only models with a price may be used, because the run's money is
    /// limited.
    pub needs_price: bool,
    /// At how much of its model's context window a conversation is compacted;
    /// `None` for never.
    pub compact_at: Option<WindowShare>,
    /// How often and how soon a request is made again.
    pub retries: retry::Policy,
}

/// Texts that stand around every unit's prompt.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The user's and the project's instructions, for every system prompt.
    pub instructions: String,
    /// Facts of the moment, for the first user message.
    pub environment: String,
}

impl Fanout {
    /// Returns the definition that an agent follows.
    fn definition(&self, typed: &Typed) -> Option<&Arc<AgentDefinition>> {
        match typed.is_built_in {
            true => Definitions::built_in(&typed.agent),
            false => self.definitions.find(&typed.agent),
        }
    }

    /// Returns what stands before the first message of a unit.
    #[must_use]
    pub fn head(&self, prompt: &str, tools: &Registry) -> Arc<Head> {
        let skills = tools.find("Skill").is_some().then_some(&*self.skills);
        let system = crate::prompt::system(prompt, &self.surroundings.instructions, skills);
        Arc::new(Head::new(system, tools.schemas()))
    }

    /// Returns where a unit works that has no worktree of its own, and is in
    /// none of others.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            workspace: Arc::clone(&self.workspace),
            environment: self.surroundings.environment.as_str().into(),
        }
    }

    /// Returns what a unit does about requests that fail. One whose model is a
    /// fallback itself has those behind it.
    #[must_use]
    pub fn persistence(&self, unit: UnitId, model: &dyn Model) -> Persistence {
        let own = self.fallbacks.iter().position(|fallback| fallback.name() == model.name());
        let fallbacks = &self.fallbacks[own.map_or(0, |own| own + 1)..];
        Persistence {
            retries: self.limits.retries,
            fallbacks: fallbacks.iter().cloned().collect(),
            jitter: self.jitter.of(unit.0.into()),
        }
    }

    /// Returns when the conversation of a new unit that works there is
    /// compacted.
    #[must_use]
    pub fn compacting(&self, place: &Place) -> Compacting {
        Compacting::new(self.limits.compact_at, Arc::clone(&place.environment))
    }
}
