//! Tools: what a model can do besides talk.
//!
//! A tool takes parsed arguments and a [`ToolContext`] and gives one
//! [`Output`]. It knows nothing of turns, batches or permissions: the agent
//! loop asks the guard first and pairs every call with its output.

pub mod agent;
pub mod arguments;
pub mod ask_user;
pub mod background;
pub mod bash;
pub mod blocking;
pub mod bound;
pub mod change;
pub mod coerce;
pub mod contents;
pub mod edit;
pub mod encoding;
pub mod files;
pub mod fork_point;
pub mod glob;
pub mod grep;
mod journal;
pub mod mcp;
pub mod original;
pub mod patch;
pub mod patterns;
pub mod person;
pub mod read;
pub mod registry;
pub mod regular;
pub mod replace;
pub mod roots;
pub mod skill;
pub mod structured;
#[cfg(test)]
pub(crate) mod testing;
pub mod todo;
pub mod walk;
pub mod web_fetch;
pub mod write;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::event::{Access, Confinement, UnitId, UnitState};
use crate::git;
use crate::guard::sandbox::Sandbox;
use crate::guard::{CommandBounds, Policy, Script, Searches};
use crate::line::Line;
use crate::message::{CallId, Output, ToolSchema};
use crate::model::Model;
use crate::session::{Blobs, Spill};
use crate::skill::Skills;
use crate::web::Web;

pub use agent::{AgentCall, BATCH_CAP, FORK, Isolation, Known, Task, TaskKind, Typed};
pub use background::MESSAGE_CAP;
pub use fork_point::{ForkPoint, Lead};
pub(crate) use journal::missing_directories;
pub use registry::{Aliases, OfServers, Registry};
pub use structured::AnswerSchema;

pub use crate::guard::Effect;

/// Most characters of a tool's output that reach the model. About 4,000
/// tokens: enough for a failing test run, too little to crowd out the
/// conversation.
pub const OUTPUT_CAP: usize = 16_000;

/// Most characters of an Agent call's or a skill's output. More than any other
/// tool's: it stands for the work of many turns, and nobody can call it again
/// for the rest.
pub const AGENT_OUTPUT_CAP: usize = 64_000;

/// Something a model can call.
pub trait Tool: Send + Sync {
    /// Returns the name, the description and the arguments' schema.
    fn schema(&self) -> ToolSchema;

    /// Returns what the tool does to the world, for the guard, the log and the
    /// order of calls.
    fn effect(&self) -> Effect;

    /// Returns in a few words what a call is about: a path, a command. The
    /// text comes from the model, so it may be anything.
    fn subject(&self, arguments: &Value) -> String;

    /// Runs one call.
    ///
    /// # Errors
    ///
    /// An error that the model can act on becomes the call's output.
    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;
}

/// A call that the guard has let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Which one.
    pub id: CallId,
    /// How it is kept in bounds, if it runs a command.
    pub confinement: Confinement,
    /// What runs instead of the command as it was written.
    pub script: Option<Script>,
    /// The files that the paths of the call led to when it was judged.
    pub places: Vec<std::path::PathBuf>,
    /// Files that a sandboxed command must not see or change.
    pub bounds: CommandBounds,
}

/// What a call may use.
pub struct ToolContext {
    /// Speaks for the unit that made the call.
    pub line: Line,
    /// Fires when the unit must stop.
    pub cancel: CancellationToken,
    /// Where files are.
    pub workspace: Arc<Workspace>,
    /// The unit's permissions at this moment.
    pub policy: Arc<Policy>,
    /// What the unit's rules keep out of searches.
    pub searches: Searches,
    /// What this unit has seen of files.
    pub seen: files::Seen,
    /// Whether the unit's model takes images.
    pub takes_images: bool,
    /// The skills that can be used.
    pub skills: Arc<Skills>,
    /// Starts other units on this unit's behalf.
    pub delegate: Arc<dyn Delegate>,
    /// Where forks that this unit starts now begin.
    pub fork_point: Arc<ForkPoint>,
}

/// Where tools work; one for the whole run.
#[derive(Debug)]
pub struct Workspace {
    /// The working directory; relative paths start here.
    pub root: std::path::PathBuf,
    /// Other directories that may be edited.
    pub added: Vec<std::path::PathBuf>,
    /// All of them, held open since the start.
    pub roots: roots::Roots,
    /// Takes what is too long for an output.
    pub spill: Spill,
    /// Takes what files held before they were changed.
    pub before: Blobs,
    /// Locks and hashes of the files units work on.
    pub files: files::Files,
    /// Keeps commands in bounds.
    pub sandbox: Arc<Sandbox>,
    /// What our own calls of git run.
    pub git: git::Program,
    /// Fetches pages.
    pub web: Arc<Web>,
    /// The workspace that it is a copy of; `None` for the user's own.
    pub original: Option<Arc<original::OriginalWorkspace>>,
}

impl Workspace {
    /// Returns a sentence for the model if the working directory is gone. All that
    /// fails in it then fails for this reason.
    #[must_use]
    pub fn missing_root(&self) -> Option<String> {
        let is_gone = match self.root.metadata() {
            Ok(found) => !found.is_dir(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        is_gone.then(|| {
            let root = crate::path_text::to_text(&self.root);
            format!(
                "The working directory {root} is gone: it was removed or renamed. No command runs \
                 and no file is found there until it is back. Tell the user, who can restore it or \
                 start again in another directory."
            )
        })
    }

    /// Returns what keeps a command in its bounds.
    #[must_use]
    pub fn confinement(&self, access: Access) -> Confinement {
        self.sandbox.confinement(access)
    }
}

/// Starts units for a tool. Declared here and implemented above, because tools
/// need agents and agents need tools.
pub trait Delegate: Send + Sync {
    /// Runs what `agent` asks for and returns the one output of `call`; there
    /// is no call if the user asks.
    fn delegate<'a>(
        &'a self,
        context: &'a ToolContext,
        call: Option<&'a CallId>,
        agent: AgentCall,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;

    /// Sends a message to a unit that this one started in the background. If it has
    /// ended, the message goes to the unit that continues its conversation, or starts
    /// one that does: there is one continuation at a time.
    fn send<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a CallId,
        to: UnitId,
        message: Arc<str>,
    ) -> BoxFuture<'a, Result<MessageDelivery, ToolError>>;

    /// Waits without keeping other units out of the pool.
    fn lend<'a>(&'a self, wait: BoxFuture<'a, ()>) -> BoxFuture<'a, ()>;

    /// Returns what a call of this unit may name.
    fn known(&self) -> Known;

    /// Tells whether the unit may start others; the error is for its model.
    ///
    /// # Errors
    ///
    /// The unit is a fork, or as deep as units may be.
    fn may_delegate(&self) -> Result<(), ToolError>;

    /// Finds a model for the unit to go on with.
    ///
    /// # Errors
    ///
    /// There is none of this name, or it cannot be used in this run: a sentence
    /// for people.
    fn find_model(&self, name: &str) -> Result<Arc<dyn Model>, String>;

    /// Returns the same for a unit that has other tools from now on.
    fn with_tools(&self, tools: Registry) -> Arc<dyn Delegate>;
}

/// Result of sending a message to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageDelivery {
    /// This unit reads it at its next turn: the one it was sent to, or the one that
    /// continues that.
    Queued(UnitId),
    /// This unit has too many unread messages already.
    Full(UnitId),
    /// A unit had ended, and a new one continues its conversation.
    Continued {
        /// Last unit of the conversation so far.
        ended: UnitId,
        /// State in which it had ended.
        state: UnitState,
        /// Unit that continues it.
        by: UnitId,
    },
    /// The sender has no such unit in the background.
    Unknown,
}

/// Why a tool call produced no output.
#[derive(Debug, Error)]
pub enum ToolError {
    /// The model asked for something it can fix: the message becomes the
    /// output.
    #[error("{message}")]
    TellModel {
        /// What is wrong and what to do instead.
        message: String,
    },
    /// The call was cancelled while it ran.
    #[error("cancelled after {:.1} s", .after.as_secs_f32())]
    Cancelled {
        /// How long it had run.
        after: Duration,
    },
}

impl ToolError {
    /// An error the model can act on.
    pub fn tell(message: impl Into<String>) -> Self {
        Self::TellModel { message: message.into() }
    }
}
