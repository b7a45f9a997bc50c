//! The command line, as it is typed.
//!
//! Flags that other harnesses have go by the same names here, so that a script
//! written for them runs; aliases are listed beside each.

mod borrowed;
mod fleet;
mod flows;
mod foreign;
mod given;
mod guarding;
mod inert;
mod listed;
mod map;
mod output;
mod reviewing;
mod servers;
mod sessions;
mod trace;
mod values;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::Effort;
use crate::event::{Access, Backend, NetworkAccess};
use crate::message::Usd;
use output::OUTPUT;
use values::{
    parse_access, parse_backend, parse_effort, parse_mode, parse_most, parse_most_or_none,
    parse_network, parse_usd,
};

pub use borrowed::{Asks, BorrowedFlags};
pub use fleet::{ExecutorFlags, WorkerFlags, WorkersFlags};
pub use flows::{FlowCommand, FlowRunFlags};
pub use foreign::{Sifted, sift};
pub use given::{GIVEN_CAP, GivenJson, Unread};
pub use guarding::{PermissionsCommand, TrustFlags};
pub use inert::InertFlags;
pub use listed::{CheckCommand, ListedFlags};
pub use map::MapFlags;
pub use output::{Format, InputFormat, Output};
pub use reviewing::ReviewFlags;
pub use servers::ServerFlags;
pub use sessions::{
    ListFlags, SessionCommand, SessionsCommand, ShowFormat, UndoFlags, WorktreeCommand,
};
pub use trace::{TraceFlags, TraceFormat};

/// A coding agent that runs many agents at once.
#[derive(Debug, Parser)]
#[command(name = "tine", version, disable_version_flag = true)]
pub struct Arguments {
    /// Run one prompt and print the answer; `-` reads it from standard input
    #[arg(short, long, alias = "prompt", value_name = "PROMPT", num_args = 0..=1)]
    pub print: Option<Option<String>>,

    /// Begin a chat with this prompt
    #[arg(short = 'i', long, value_name = "PROMPT", conflicts_with = "print")]
    pub prompt_interactive: Option<String>,

    /// The prompt, if it does not follow `--print`; without one a chat starts, in a
    /// terminal
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,

    /// What to use and how to show it
    #[command(flatten)]
    pub run: RunFlags,

    /// What to do instead of running a prompt
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Print the version
    #[arg(short = 'v', long, visible_short_alias = 'V', action = clap::ArgAction::Version)]
    version: Option<bool>,
}

/// Flags of every command that runs a model.
#[derive(Debug, Args, Clone, Default)]
pub struct RunFlags {
    /// How to print: text, one JSON object, or one JSON record a line
    #[arg(id = OUTPUT, short = 'o', long = "output-format", global = true, value_name = "FORMAT",
        default_value = "text", value_parser = Output::formats())]
    pub output: Output,

    /// The model: a name from the configuration, `PRESET:MODEL`, `offline`,
    /// `scripted:FILE`, or a model of the server that the environment names
    #[arg(short, long, global = true, value_name = "MODEL")]
    pub model: Option<String>,

    /// Most turns of the main conversation; with `map`, of each row
    #[arg(long, visible_alias = "max-session-turns", global = true, value_name = "N",
        value_parser = parse_most, allow_negative_numbers = true)]
    pub max_turns: Option<Most<NonZeroU32>>,

    /// Models to go on with, in order, once the one before is overloaded
    #[arg(long, global = true, value_name = "MODELS", value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new())]
    pub fallback_model: Vec<String>,

    /// How hard models think, in their provider's words, such as `low` (agents too,
    /// but a fork thinks as its parent does); with `review`, how much is read and
    /// verified: `low`, `medium` or `high`
    #[arg(long, global = true, value_name = "LEVEL", value_parser = parse_effort)]
    pub effort: Option<Effort>,

    /// Most that the run may cost, with all its agents, in US dollars
    #[arg(long, global = true, value_name = "USD", value_parser = parse_usd)]
    pub max_budget_usd: Option<Usd>,

    /// Most tool calls of the run, with all its agents; with 0 it may only answer
    #[arg(long, global = true, value_name = "N", value_parser = parse_most_or_none,
        allow_negative_numbers = true)]
    pub max_tool_calls: Option<Most<u32>>,

    /// Start batches of any size without asking
    #[arg(long, global = true)]
    pub allow_large_batches: bool,

    /// How deep agents may start agents
    #[arg(long, global = true, value_name = "N")]
    pub max_subagent_depth: Option<u32>,

    /// How much runs without a rule
    #[arg(long, visible_alias = "approval-mode", global = true, value_name = "MODE",
        value_parser = parse_mode)]
    pub permission_mode: Option<crate::guard::Mode>,

    /// Allow everything that no rule denies
    #[arg(
        short_alias = 'y',
        long,
        visible_alias = "yolo",
        global = true,
        overrides_with = "dangerously_skip_permissions"
    )]
    pub dangerously_skip_permissions: bool,

    /// Run no command without a sandbox, whatever is approved
    #[arg(short_alias = 's', long, global = true)]
    pub sandbox: bool,

    /// Rules that allow calls, such as `Bash(git *)` or `Edit(src/**)`
    #[arg(long, visible_alias = "allowedTools", global = true, value_name = "RULES", num_args = 1..)]
    pub allowed_tools: Vec<String>,

    /// Rules that deny calls; they win over all else
    #[arg(long, visible_aliases = ["disallowedTools", "exclude-tools"], global = true,
        value_name = "RULES", num_args = 1..)]
    pub disallowed_tools: Vec<String>,

    /// Use the repository's own settings in this run, whatever they are
    #[arg(long, global = true)]
    pub trust: bool,

    /// The only tools there are, by name
    #[arg(long, visible_alias = "core-tools", global = true, value_name = "NAMES", num_args = 1..)]
    pub tools: Vec<String>,

    /// Who runs agents.
    #[command(flatten)]
    pub fleet: ExecutorFlags,

    /// Which servers of tools are used.
    #[command(flatten)]
    pub servers: ServerFlags,

    /// More directories in which files may be edited
    #[arg(long, visible_alias = "include-directories", global = true, value_name = "DIR",
        num_args = 1..)]
    pub add_dir: Vec<PathBuf>,

    /// Replace the system prompt
    #[arg(long, global = true, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub system_prompt: Option<String>,

    /// Replace the system prompt by a file
    #[arg(long, global = true, value_name = "FILE")]
    pub system_prompt_file: Option<PathBuf>,

    /// Add to the system prompt
    #[arg(long, global = true, value_name = "TEXT", conflicts_with = "append_system_prompt_file")]
    pub append_system_prompt: Option<String>,

    /// Add a file to the system prompt
    #[arg(long, global = true, value_name = "FILE")]
    pub append_system_prompt_file: Option<PathBuf>,

    /// The JSON Schema that the answer must fit, or a file that holds it
    #[arg(long, global = true, value_name = "JSON|FILE")]
    pub json_schema: Option<GivenJson>,

    /// What standard input holds: a prompt, or one record a line
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        hide_default_value = true
    )]
    pub input_format: InputFormat,

    /// With stream-json: pieces of answers as they are written
    #[arg(long, global = true)]
    pub include_partial_messages: bool,

    /// With stream-json: what agents say, besides what they call
    #[arg(long, global = true)]
    pub forward_subagent_text: bool,

    /// Write the stream-json records to a file as well
    #[arg(long, global = true, value_name = "FILE")]
    pub json_file: Option<PathBuf>,

    /// Write the last message to a file as well
    #[arg(long, global = true, value_name = "FILE")]
    pub output_last_message: Option<PathBuf>,

    /// Go on with the latest session of this directory
    #[arg(short, long = "continue", global = true)]
    pub continue_latest: bool,

    /// Go on with this session: its id, or the beginning of it
    #[arg(short, long, global = true, value_name = "SESSION", num_args = 0..=1,
        default_missing_value = "")]
    pub resume: Option<String>,

    /// With `--continue` or `--resume`: go on in a copy, under a new id
    #[arg(long, global = true)]
    pub fork_session: bool,

    /// The new session's id
    #[arg(long, global = true, value_name = "UUID")]
    pub session_id: Option<uuid::Uuid>,

    /// The new session's name, by which it is found again
    #[arg(short, long, global = true, value_name = "NAME")]
    pub name: Option<String>,

    /// Keep nothing of the session on disk
    #[arg(long, global = true)]
    pub no_session_persistence: bool,

    /// Write every request and its answer to a directory, without keys
    #[arg(long, global = true, value_name = "DIR")]
    pub record: Option<PathBuf>,

    /// Answer requests from such a directory instead of asking a server
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "record")]
    pub replay: Option<PathBuf>,

    /// With `--replay`: at the pace that was recorded, or without waiting, as
    /// without the flag
    #[arg(long, global = true, value_name = "PACE", requires = "replay")]
    pub replay_timing: Option<ReplayTiming>,

    /// Agents for this run: a JSON object of them by name, or a file that holds one
    #[arg(long, global = true, value_name = "JSON|FILE")]
    pub agents: Option<GivenJson>,

    /// The agent that the main conversation is: its system prompt and its tools;
    /// with `map`, the agent that each row is given to
    #[arg(long, global = true, value_name = "NAME")]
    pub agent: Option<String>,

    /// With stream-json: repeat each message as it is taken up
    #[arg(long, global = true)]
    pub replay_user_messages: bool,

    /// Set a key of the configuration for this run, such as
    /// `agents.max_concurrent=4`
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub config: Vec<String>,

    /// Work in this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub cd: Option<PathBuf>,

    /// Plain lines only, none of which changes again, for a reader that speaks
    /// them
    #[arg(long, alias = "screen-reader", global = true)]
    pub ax_screen_reader: bool,

    /// Write what happens inside to standard error
    #[arg(short_alias = 'd', long, global = true, value_name = "FILTER", num_args = 0..=1, require_equals = true,
        default_missing_value = "")]
    pub debug: Option<String>,

    /// What scripts of other harnesses pass
    #[command(flatten)]
    pub borrowed: BorrowedFlags,

    /// What other harnesses have
    #[command(flatten)]
    pub inert: InertFlags,
}

/// Most of something; `None` means that there is no limit, which others write
/// as `-1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most<T>(pub Option<T>);

impl RunFlags {
    /// Returns the most turns of the main conversation for one prompt.
    #[must_use]
    pub fn turn_limit(&self) -> Option<u32> {
        self.max_turns.and_then(|most| most.0).map(NonZeroU32::get)
    }

    /// Returns the most tool calls of a run.
    #[must_use]
    pub fn call_limit(&self) -> Option<u32> {
        self.max_tool_calls.and_then(|most| most.0)
    }

    /// Reads the files that flags name in the place of JSON. Later they are not
    /// looked at again; what cannot be read is an error where it is needed.
    pub fn read_given(&self) {
        let one = [&self.json_schema, &self.agents, &self.borrowed.settings];
        for given in one.into_iter().flatten().chain(&self.servers.mcp_config) {
            let _ = given.text();
        }
    }

    /// Returns where the records go besides.
    #[must_use]
    pub fn records_file(&self) -> Option<PathBuf> {
        let open = self.borrowed.json_fd.map(|fd| PathBuf::from(format!("/dev/fd/{fd}")));
        self.json_file.clone().or(open)
    }

    /// Returns how to print.
    #[must_use]
    pub fn output_format(&self) -> Format {
        match self.output {
            Output::Format(format) => format,
            Output::File(_) => Format::Text,
        }
    }
}

/// How fast recorded answers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReplayTiming {
    /// As they came when they were recorded.
    Recorded,
    /// At once.
    None,
}

/// What to do instead of running a prompt.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Review a change, part by part, with several agents at once
    Review(ReviewFlags),
    /// Check, show or run a flow: agents that run in a declared order, whatever a
    /// model wants
    Flow {
        /// What to do with it
        #[command(subcommand)]
        command: FlowCommand,
    },
    /// Ask an agent for each row of a table, and write down what it says
    Map(MapFlags),
    /// Show a review of a small change made for the purpose
    Demo,
    /// Write a first AGENTS.md from the repository
    Init {
        /// What it should say besides, in your own words
        #[arg(value_name = "WORDS")]
        words: Vec<String>,
    },
    /// Serve an editor that speaks the Agent Client Protocol
    Acp,
    /// Choose a model, try it, and write it to the configuration
    Setup,
    /// Check what tine needs, and say what to do about what is missing
    Doctor,
    /// Run a command in what the commands of agents run in
    Sandbox(SandboxFlags),
    /// List the models and presets that can be chosen, and which keys are set
    Models {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// List the skills and commands and where they come from, or check them
    Skills(ListedFlags),
    /// List the types of agents and where they come from, or check them
    Agents(ListedFlags),
    /// List the rules in force, or say what would become of a call
    Permissions {
        /// What to do instead of listing them
        #[command(subcommand)]
        command: Option<PermissionsCommand>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Look at what the repository brings along, and say whether to trust it
    Trust(TrustFlags),
    /// List the sessions, newest first, or look after them
    Sessions {
        /// What to do instead of listing them
        #[command(subcommand)]
        command: Option<SessionsCommand>,
        /// Which to list
        #[command(flatten)]
        list: ListFlags,
    },
    /// Look at one session
    Session {
        /// What to do with it
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Write a session as a page: who did what when, and what the time and the money
    /// went to
    Trace(TraceFlags),
    /// Look at servers of tools, or be one
    Mcp {
        /// What to do with them
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Look after the worktrees that agents worked in
    Worktree {
        /// What to do with them
        #[command(subcommand)]
        command: WorktreeCommand,
    },
    /// Run agents for others, who tell of them over NATS
    Worker(WorkerFlags),
    /// List the workers that there are
    Workers(WorkersFlags),
    /// Print what completes the command line in a shell
    Completions {
        /// Which shell
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

/// What to do with servers of tools.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Connect to all that are configured, and say how each stands
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Offer tine's own batch of agents as a tool (`run_batch`), on standard input
    /// and output
    Serve,
}

/// What to run, and what it may do.
#[derive(Debug, Args)]
pub struct SandboxFlags {
    /// What it may write: nothing, the workspace, or anything
    #[arg(long, value_name = "POLICY", default_value = "workspace-write",
        value_parser = parse_access)]
    pub policy: Access,

    /// Network access: `none`, the `hosts` that rules allow, the `public` internet, or the network
    /// of this machine (`shared`); without a value, `public`
    #[arg(long, value_name = "NETWORK", default_value = "none", default_missing_value = "public",
        num_args = 0..=1, require_equals = true, value_parser = parse_network)]
    pub network: NetworkAccess,

    /// What to keep it in, instead of the best there is
    #[arg(long, value_name = "BACKEND", value_parser = parse_backend)]
    pub backend: Option<Backend>,

    /// The command
    #[arg(value_name = "CMD", last = true, required = true)]
    pub command: Vec<OsString>,
}
