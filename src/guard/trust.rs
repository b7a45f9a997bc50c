//! What a repository brings along that could decide over a run, and whether the
//! user trusts it.
//!
//! Everything is read once: what is shown, remembered and used is what was read
//! here. No link is followed on the way but to programs below the root, and only
//! regular files are read, up to a bound. Trust is of contents: each file by its hash, so that one that is
//! changed, or comes in addition, has to be looked at again. What a trusted
//! program runs in turn is not looked at, nor what a command does not name.

mod read;
mod store;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use blake3::Hash;

use crate::mcp;

pub use store::{Store, StoreError, Word};

/// Most bytes of one file whose text counts. Settings that people write are far
/// smaller.
const FILE_CAP: u64 = 1024 * 1024;

/// Most bytes of all programs together. Their texts are read by nobody here, and
/// pictures and models lie among them; more than this would hold up each start.
const PROGRAMS_CAP: u64 = 128 * 1024 * 1024;

/// Most files of a repository that are looked at, and most directories deep.
/// More is nothing that anybody reads before saying yes.
const FILES_CAP: usize = 1_000;
const DEPTH_CAP: usize = 8;

/// Where the settings of a repository are, below its root.
pub const SETTINGS: &str = ".tine/config.toml";

/// Where hooks are written down, below the root, in the order in which they
/// count.
const HOOKS: [&str; 3] =
    [".claude/settings.json", ".claude/settings.local.json", ".tine/hooks.json"];

/// Where else something is that may come to run, below the root.
const SERVERS: &str = ".mcp.json";
const PROGRAMS: [&str; 2] = [".tine/hooks", ".claude/hooks"];

/// The file of a skill that is text for a model, and no more.
const SKILL: &str = "SKILL.md";

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The repository's settings.
    Settings,
    /// Hooks.
    Hooks,
    /// A definition of an agent that says more than what the agent is told.
    Agent,
    /// A skill or a command that says what may run unasked.
    Skill,
    /// Servers that are started.
    Servers,
    /// A program that something could run.
    Program,
}

/// One file.
#[derive(Debug, Clone)]
pub struct Found {
    /// Below the root.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// What it holds; empty where nobody reads it.
    pub text: String,
    hash: Hash,
}

impl Found {
    /// Returns the servers of tools that the file configures and that can be read.
    #[must_use]
    pub fn servers(&self) -> Vec<mcp::Entry> {
        let entries = match self.kind {
            Kind::Servers => mcp::file::read(&self.text).unwrap_or_default(),
            Kind::Settings => {
                let table = self.text.parse::<toml::Table>().unwrap_or_default();
                let servers = table.get("mcp").and_then(|mcp| mcp.get("servers"));
                // What was TOML is JSON, too.
                let servers = servers.and_then(|servers| serde_json::to_value(servers).ok());
                let servers = servers.as_ref().and_then(serde_json::Value::as_object);
                servers.map(mcp::file::entries).unwrap_or_default()
            }
            Kind::Hooks | Kind::Agent | Kind::Skill | Kind::Program => return Vec::new(),
        };
        entries.into_values().filter_map(Result::ok).collect()
    }
}

/// Where to look, all of it inside the repository.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The directories of agent definitions.
    pub agents: Vec<PathBuf>,
    /// The directories of skills.
    pub skills: Vec<PathBuf>,
    /// The directories of commands.
    pub commands: Vec<PathBuf>,
}

/// Tells of a file that is read as text whether it says more than what a model
/// is told.
#[derive(Clone, Copy)]
pub struct SaysMore {
    /// Of a definition of an agent.
    pub agent: fn(&Path, &str) -> bool,
    /// Of a skill or a command.
    pub skill: fn(&Path, &str) -> bool,
}

/// A repository, or a directory that is in none, as it was when it was read.
#[derive(Debug, Clone)]
pub struct Project {
    /// Its root, links followed.
    pub root: PathBuf,
    /// What it brings along, in order.
    pub found: Vec<Found>,
    /// What cannot be read, and why: such a project cannot be trusted.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Definitions of agents and skills whose every word counts, by their hashes.
#[derive(Debug, Clone, Default)]
pub struct Vouched(BTreeSet<[u8; 32]>);

impl Vouched {
    /// Tells whether a file's text is one that was looked at.
    #[must_use]
    pub fn covers(&self, text: &str) -> bool {
        self.0.contains(blake3::hash(text.as_bytes()).as_bytes())
    }
}

impl Project {
    /// Reads what there is.
    #[must_use]
    pub fn look(root: &Path, places: &Places, says_more: SaysMore) -> Self {
        let mut looking = read::Looking::at(root);
        looking.file(Path::new(SETTINGS), Kind::Settings);
        HOOKS.iter().for_each(|file| looking.hooks(Path::new(file)));
        looking.file(Path::new(SERVERS), Kind::Servers);
        for directory in &places.agents {
            looking.texts(directory, Kind::Agent, says_more.agent);
        }
        for directory in &places.skills {
            looking.skills(directory, says_more.skill);
        }
        for directory in &places.commands {
            looking.texts(directory, Kind::Skill, says_more.skill);
        }
        // Most repositories ask for nothing; then nobody need look further.
        if looking.project.wants_trust() {
            PROGRAMS.iter().for_each(|directory| looking.programs(Path::new(directory), |_| true));
            looking.what_hooks_run();
            looking.what_servers_run();
            for directory in &places.skills {
                let is_text = |path: &Path| path.file_name().is_some_and(|name| name == SKILL);
                looking.programs(directory, |path| !is_text(path));
            }
        }
        looking.project
    }

    /// Tells whether there is anything that trust would let take effect.
    #[must_use]
    pub fn wants_trust(&self) -> bool {
        let has_power = |found: &Found| match found.kind {
            Kind::Settings | Kind::Hooks | Kind::Agent | Kind::Skill | Kind::Servers => true,
            Kind::Program => false,
        };
        self.found.iter().any(has_power) || !self.unreadable.is_empty()
    }

    /// Returns the settings.
    #[must_use]
    pub fn settings(&self) -> Option<&Found> {
        self.found.iter().find(|found| found.kind == Kind::Settings)
    }

    /// Returns the servers of tools.
    #[must_use]
    pub fn servers(&self) -> Option<&Found> {
        self.found.iter().find(|found| found.kind == Kind::Servers)
    }

    /// Returns the definitions and skills whose every word counts from now on:
    /// once the project is trusted, and not before.
    #[must_use]
    pub fn vouched(&self) -> Vouched {
        let texts = self.found.iter().filter(|it| matches!(it.kind, Kind::Agent | Kind::Skill));
        Vouched(texts.map(|found| *found.hash.as_bytes()).collect())
    }

    /// Returns the files of hooks, in the order in which they count.
    pub fn hooks(&self) -> impl Iterator<Item = &Found> {
        self.found.iter().filter(|found| found.kind == Kind::Hooks)
    }

    /// Leaves a file out that is the user's own.
    pub fn without(&mut self, path: &str) {
        self.found.retain(|found| found.path != Path::new(path));
        self.unreadable.retain(|(other, _)| other != Path::new(path));
    }
}
