//! What decides whether a tool call may run.
//!
//! A policy is a mode and rules; it allows a call, denies it, or has a person
//! asked, and every answer carries its reason. A decision runs nothing and
//! writes nothing; it only follows the links of the paths a call names.

mod bounds;
mod copies;
mod decided;
mod explained;
mod hard_links;
mod hidden;
mod launch;
mod mode;
mod named;
mod path_pattern;
mod paths;
mod pattern;
mod policy;
mod rules;
mod run_later;
pub mod sandbox;
mod search_path;
mod searches;
mod sensitive;
pub mod shell;
mod sourced;
mod subjects;
mod suggest;
pub mod trust;
mod unasked;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use crate::event::Access;
use shell::Machine;

pub use bounds::CommandBounds;
pub use decided::{About, Decided, Place};
pub use explained::Explained;
pub use mode::Mode;
pub use policy::{HostDecision, PathMeaning, PathUse, Policy, PolicyParts};
pub use rules::{Rule, RuleError};
pub use search_path::SearchPath;
pub use searches::{LeftOut, Searches};
pub use sensitive::Secrets;
pub use sourced::{Rules, Source, Sourced};
pub use unasked::{Gate, SandboxIsThere};
pub use wire::Malformed;
#[cfg(feature = "nats")]
pub(crate) use wire::WrittenRule;

/// What a tool does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: calls of one turn run side by side, and one that was cut off
    /// could be repeated.
    Reads,
    /// Nothing, but asks a person something; as for `Reads`.
    Asks,
    /// Sends a request to somebody else's server and reads the answer; as for
    /// `Reads`.
    Fetches,
    /// Starts units, which are guarded themselves. Runs beside other calls.
    Delegates,
    /// Changes files of the workspace.
    Edits,
    /// Runs a command; it may do anything.
    Executes,
}

impl Effect {
    /// Tells whether calls of one turn may run side by side.
    #[must_use]
    pub fn is_parallel_safe(self) -> bool {
        match self {
            Self::Reads | Self::Asks | Self::Fetches | Self::Delegates => true,
            Self::Edits | Self::Executes => false,
        }
    }

    /// Tells whether a call is about a command.
    fn runs_commands(self) -> bool {
        match self {
            Self::Executes => true,
            Self::Reads | Self::Asks | Self::Fetches | Self::Delegates | Self::Edits => false,
        }
    }
}

/// What the guard says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run.
    Allow(Allowed),
    /// The call may run if a person says so.
    Ask(Ask),
    /// The call does not run.
    Deny {
        /// Why, and what would allow it, in words for the model and for people.
        reason: String,
    },
}

/// How a call that may run, runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    /// What a command may write; `None` for what runs no command.
    pub access: Option<Access>,
    /// What runs instead of the command as it was written.
    pub script: Option<Script>,
    /// The files that the paths of the call led to when it was judged, every
    /// link followed. It touches no others.
    pub places: Vec<PathBuf>,
    /// Files that a sandboxed command must not see or change. `None` if they were not looked
    /// for, because no sandbox was expected to hold the call: see [`Policy::command_bounds`].
    pub bounds: Option<CommandBounds>,
}

/// A command that only reads: as it was parsed, written out again, so that no
/// second reader can take it for something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// What a shell is to run.
    pub text: Arc<str>,
    /// Knows the environment in which it does what it was taken for.
    pub machine: Arc<Machine>,
}

/// What a person has to know to decide about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Why it is asked.
    pub reason: String,
    /// The narrowest rules that would allow the call and others like it; empty
    /// if none is sensible.
    pub rules: Vec<Arc<str>>,
    /// How it runs after a yes.
    pub allowed: Allowed,
    /// What would have let it run unasked, in words; `None` if nothing would.
    pub remedy: Option<String>,
    /// What rules that are granted while it waits, or were before, are compared
    /// with. Where `rules` is empty none of them answers it.
    pub decided: Decided,
    /// Whether a rule that allows all calls of the tool would have spared it:
    /// what may be answered without a look at this very call.
    pub is_sparable: bool,
}

impl Ask {
    /// Returns why the call does not run where nobody can be asked, in words
    /// for the model and for people.
    #[must_use]
    pub fn refusal(&self) -> String {
        let Self { reason, rules: _, allowed: _, remedy, decided: _, is_sparable: _ } = self;
        let remedy = remedy.as_deref().map(|remedy| format!("; {remedy}"));
        format!("{reason}; nobody can be asked{}", remedy.unwrap_or_default())
    }
}

impl Decision {
    /// A call that runs no command may run.
    pub const ALLOW: Self =
        Self::Allow(Allowed { access: None, script: None, places: Vec::new(), bounds: None });
}
