//! Configuration: what the user set, over what we think best.
//!
//! Layers, the later over the earlier: the defaults here, the user's
//! `config.toml`, the project's own `.tine/config.toml`, what `--settings` gives,
//! and `--config KEY=VALUE` pairs. Rules are added up. The project's is handed in, by whoever
//! knows that it is trusted: before that, nothing from a repository redirects a
//! request or loosens a rule.
//! Only this module and the command line read the process environment.

mod chat;
pub mod dirs;
mod entry;
mod environment;
mod error;
mod executor;
mod foreign;
mod instructions;
mod known;
mod layer;
mod listed;
mod model;
mod nearest;
mod preset;
mod server;
pub mod settings;
mod share;
mod sources;
mod telemetry;
mod timeouts;
pub mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::event::NetworkAccess;
use crate::guard::sandbox::Insistence;
use crate::guard::{Mode, Source};
use crate::hook::Hook;
use crate::mcp;
use crate::web::Host;

pub use chat::{Bell, Chat, Editing, Theme};
pub use entry::{Api, Effort, Headers, ModelEntry};
pub use environment::{Environment, StatesFor};
pub use error::{ConfigError, Place, Problem};
pub use executor::{Executor, ExecutorKind, Meeting, MeetingError, Nats, NatsServer};
pub use foreign::{ForeignSettings, ForeignSettingsError};
pub use instructions::{ALL_INSTRUCTIONS_CAP, INSTRUCTIONS_CAP, MayRead, instructions};
pub use listed::{Found, ListedKind, ListedModel, list_models};
pub use model::{ModelChoice, ModelChoiceError, note_of_preset, resolve_model};
pub use preset::{
    EffortKey, Mover, OutputLimitKey, PRESETS, Preset, Quirks, ReasoningBack, UsageInStream,
};
pub(crate) use server::is_loopback;
pub use server::{KeySource, ServerModel};
pub use share::WindowShare;
pub use sources::Sources;
pub use telemetry::{Encoding, OTLP_HEADERS, Sampler, Telemetry, TelemetryError, TraceParent};
pub use timeouts::AnswerTimeouts;

/// Most bytes of a configuration file. One that people write is a few hundred
/// lines; a larger one is some other file.
const FILE_CAP: u64 = 1024 * 1024;

/// A day, in which the age of sessions is counted.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Most units at work at once that can be asked for. Each holds a connection,
/// and a process may open a few thousand at best.
pub const CONCURRENT_CAP: usize = 10_000;

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The model to use where none is asked for.
    pub model: Option<String>,
    /// Models by the name people give them.
    pub models: BTreeMap<String, ModelEntry>,
    /// How units run.
    pub agents: Agents,
    /// Where they run.
    pub executor: Executor,
    /// Units that run beside their parents.
    pub background: Background,
    /// What may be done without asking.
    pub permissions: Permissions,
    /// What commands are kept in.
    pub sandbox: Sandbox,
    /// What is kept of a session.
    pub session: Session,
    /// What is done about requests that fail.
    pub retry: Retry,
    /// How a chat looks and behaves.
    pub chat: Chat,
    /// What of the web is fetched.
    pub web: Web,
    /// What is asked at certain moments, in the order of the layers.
    pub hooks: Vec<Hook>,
    /// Servers of tools.
    pub mcp: Mcp,
}

/// How units run, `[agents]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents {
    /// Most units at work at once.
    pub max_concurrent: NonZeroUsize,
    /// How deep units may nest; a child of the main conversation is at 1.
    pub max_depth: u32,
    /// Most turns of a unit other than the main conversation.
    pub max_turns: u32,
    /// Most time of a unit from its start; `None` for as long as it takes.
    pub timeout: Option<Duration>,
    /// How long forks wait for the first of them to have the shared bytes
    /// read; 0 means that none waits.
    pub prime: Duration,
    /// A batch of more slots than these needs leave; `None` means that none
    /// does.
    pub confirm_above: Option<NonZeroUsize>,
    /// What becomes of a unit's own worktree that has changes.
    pub worktree: WorktreeEnd,
}

/// What becomes of a worktree with changes whose unit has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorktreeEnd {
    /// They are merged into the workspace; then the worktree goes.
    #[default]
    Apply,
    /// It stays, and so does the workspace.
    Keep,
}

impl WorktreeEnd {
    /// Returns the name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Keep => "keep",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Apply, Self::Keep].into_iter().find(|end| end.as_str() == name)
    }
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            max_concurrent: NonZeroUsize::new(8).expect("8 is not 0"),
            max_depth: 3,
            max_turns: 100,
            timeout: None,
            // Longer than most providers take to read a long conversation,
            // short beside what a fork does afterwards.
            prime: Duration::from_secs(3),
            // More than anyone asks for without noticing, and few enough that
            // what they cost is still a surprise one gets over.
            confirm_above: NonZeroUsize::new(32),
            worktree: WorktreeEnd::Apply,
        }
    }
}

/// Units that run beside their parents, `[background]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// How long a run that has nothing else to do waits for them.
    pub wait: Duration,
}

impl Default for Background {
    fn default() -> Self {
        Self { wait: Duration::from_secs(600) }
    }
}

/// What may be done without asking, `[permissions]`. Rules are kept as they are
/// written: how `~` reads is only known where home is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// How much runs without a rule.
    pub mode: Mode,
    /// Rules for what is allowed.
    pub allow: Vec<WrittenRule>,
    /// Rules for what is asked about in any mode; they come before `allow`.
    pub ask: Vec<WrittenRule>,
    /// Rules for what is denied; they come before all else.
    pub deny: Vec<WrittenRule>,
}

/// A rule as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRule {
    /// The rule; it can be parsed.
    pub text: String,
    /// Which layer it is of.
    pub source: Source,
}

/// What commands are kept in, `[sandbox]`. Directories are kept as they are
/// written: where `~` is, is only known where home is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sandbox {
    /// How much one is insisted on.
    pub mode: Insistence,
    /// Network access of commands that may write, apart from `hosts`; `None` if it is not set.
    pub network: Option<NetworkAccess>,
    /// `true` if hosts are listed; they are allow rules.
    pub lists_hosts: bool,
    /// More directories that commands may write where the workspace may be
    /// written.
    pub write: Vec<String>,
}

impl Sandbox {
    /// Returns the network access of commands that may write.
    #[must_use]
    pub fn network_access(&self) -> NetworkAccess {
        self.network.unwrap_or(match self.lists_hosts {
            true => NetworkAccess::Hosts,
            false => NetworkAccess::None,
        })
    }
}

/// What is kept of a session and of its conversations, `[session]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Whether sessions are written to disk.
    pub persist: bool,
    /// How long after its last event a session without a name is kept; `None`
    /// for ever.
    pub max_age: Option<Duration>,
    /// At how much of its model's context window a conversation is compacted;
    /// `None` for never.
    pub compact_at: Option<WindowShare>,
}

impl Default for Session {
    fn default() -> Self {
        Self { persist: true, max_age: None, compact_at: Some(WindowShare::default()) }
    }
}

/// What is done about requests that fail, `[retry]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Most times that a request is made again.
    pub most: u32,
    /// The longest first wait; each further one may be twice as long.
    pub base: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        // Without times that a provider gives, ten come to 80 seconds of
        // waiting on average: longer than most overloads, and short enough to
        // tell people of an outage.
        Self { most: 10, base: Duration::from_millis(500) }
    }
}

/// What of the web is fetched, `[web]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Web {
    /// Hosts that may be fetched from though they are not on the public web.
    pub allow_hosts: Vec<Host>,
}

/// Servers of tools, `[mcp]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mcp {
    /// How long a conversation waits for their tools when it begins.
    pub startup: Duration,
    /// How long is waited for the answer to a call.
    pub call: Duration,
    /// Servers by the name people give them.
    pub servers: BTreeMap<String, mcp::Entry>,
    /// Those of them that a project's settings name. What such an entry says is
    /// the project's word, whatever a flag sets in it.
    pub of_project: BTreeSet<String>,
}

impl Default for Mcp {
    fn default() -> Self {
        Self {
            // Longer than servers take that are there, and short enough to
            // wait for one that hangs. One that is fetched first may be late.
            startup: Duration::from_secs(5),
            // What others give a call: a build or a long query fits.
            call: Duration::from_secs(600),
            servers: BTreeMap::new(),
            of_project: BTreeSet::new(),
        }
    }
}

/// The settings of a project that the user trusts, as they were read when they
/// were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSettings {
    /// Their file.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// A configuration, and what about it is not as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// All layers together.
    pub config: Config,
    /// One sentence for each value that was changed to a possible one.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads the user's file, if there is one, then what a trusted project
    /// sets, then `given` settings, and then `overrides`, each of the form
    /// `KEY=VALUE`.
    ///
    /// # Errors
    ///
    /// With every problem there is: a key that is not known, a value of a
    /// wrong type, a file that cannot be read.
    pub fn load(
        environment: &Environment,
        project: Option<&ProjectSettings>,
        given: Option<&ForeignSettings>,
        overrides: &[String],
    ) -> Result<Loaded, ConfigError> {
        let mut layers = layer::Layers::default();
        if let Some(path) = dirs::config_file(environment) {
            match read_file(&path) {
                Ok(Some(text)) => layers.file(&path, &text, Source::User),
                Ok(None) => {}
                Err(cause) => layers.unreadable(path, cause),
            }
        }
        if let Some(ProjectSettings { path, text }) = project {
            layers.file(path, text, Source::Project);
        }
        if let Some(given) = given {
            layers.foreign(given);
        }
        for pair in overrides {
            layers.flag(pair);
        }
        layers.finish()
    }

    /// Returns the environment variables that hold keys, in order: those of the
    /// presets, used or not, and those that are configured. A command that a
    /// model runs must not get them.
    #[must_use]
    pub fn secret_variables(&self) -> Vec<String> {
        let named = self.models.values().filter_map(|entry| entry.key_env.clone());
        let presets = PRESETS.iter().filter_map(|preset| preset.key_env.map(str::to_owned));
        let headers = OTLP_HEADERS.map(str::to_owned);
        let variables: BTreeSet<_> = presets.chain(named).chain(headers).collect();
        variables.into_iter().collect()
    }
}

/// Reads settings; `None` if there is no such file.
///
/// # Errors
///
/// It cannot be read, or is too long to be settings.
pub fn read_file(path: &Path) -> io::Result<Option<String>> {
    // A pipe must not keep us waiting for somebody who writes to it.
    let open = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = match open {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(FILE_CAP + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_CAP {
        return Err(io::Error::other(format!("it is longer than {FILE_CAP} bytes")));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
