//! The commands that look after sessions, as they are typed.

use std::num::NonZeroU32;

use clap::{Args, Subcommand, ValueEnum};

use crate::event::UnitId;

use super::{OUTPUT, Output};

/// What to do with the sessions on disk.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List them, newest first, as `tine sessions` does
    List(ListFlags),
    /// Find those in which all the words occur: in the name, the id, what was
    /// typed, or an answer of the main conversation
    Search {
        /// What to look for, in any case; words in quotes as they stand
        #[arg(required = true, value_name = "WORDS")]
        words: Vec<String>,
        /// Which to look through
        #[command(flatten)]
        list: ListFlags,
    },
    /// Give one another name; an empty one takes its name away
    Rename {
        /// The session's id, the beginning of it, or its name
        id: String,
        /// The new name
        name: String,
    },
    /// Delete them and what belongs to them
    Delete {
        /// The sessions' ids, the beginnings of them, or names
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Delete those that are old, do not run and have no name
    Prune {
        /// Older than so many days; `session.max_age_days` without it
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
        older_than: Option<u32>,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
}

/// Which sessions to list, and how.
#[derive(Debug, Args, Clone, PartialEq, Eq, Default)]
pub struct ListFlags {
    /// Those of every directory, as without a flag
    #[arg(long, conflicts_with = "here")]
    pub all: bool,

    /// Only those of the working directory
    #[arg(long)]
    pub here: bool,

    /// Only the newest so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,

    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// What to do with worktrees.
#[derive(Debug, Subcommand)]
pub enum WorktreeCommand {
    /// List those that are still there
    List,
    /// Remove those whose run is over; what was changed there is saved as a
    /// patch
    Prune,
}

/// What to do with one session.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Print what happened in it
    Show {
        /// The session's id, the beginning of it, or its name
        id: String,
        /// Only what this strand sees: a path such as `main.review`, or tokens
        /// such as `1-3,5`
        #[arg(long, value_name = "PATH|TOKENS", allow_hyphen_values = true)]
        branch: Option<String>,
        /// How to print it
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: ShowFormat,
    },
    /// Print what it used: tokens and money, by model, prompt, batch and agent
    Usage {
        /// The session's id, the beginning of it, or its name
        id: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put files back as they were before it changed them
    Revert {
        /// The session's id, the beginning of it, or its name
        id: String,
        /// What to take back
        #[command(flatten)]
        undo: UndoFlags,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write it into a document of its own
    Export {
        /// The session's id, the beginning of it, or its name
        id: String,
        /// Where to, `-` for standard output; a file that is there is kept
        #[arg(id = OUTPUT, short = 'o', long = "output", value_name = "FILE",
            value_parser = Output::files())]
        output: Option<Output>,
        /// How to write it
        #[arg(long, value_name = "FORMAT", default_value = "md")]
        format: ShowFormat,
    },
}

/// What of a session to take back; without a flag, what came of its last prompt
/// that changed files.
#[derive(Debug, Args, Clone, PartialEq, Eq, Default)]
pub struct UndoFlags {
    /// Whatever came after this event; `tine session show` numbers changes
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["slot", "unit"])]
    pub to: Option<u64>,

    /// What this slot of the last batch did, and agents it started; from 1
    #[arg(long, value_name = "N", conflicts_with = "unit")]
    pub slot: Option<NonZeroU32>,

    /// What this agent did, and those it started, such as `agent-3`
    #[arg(long, value_name = "AGENT", value_parser = parse_unit)]
    pub unit: Option<UnitId>,

    /// Leave the files that somebody else has changed since, and put the others
    /// back
    #[arg(long)]
    pub skip_changed: bool,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

fn parse_unit(name: &str) -> Result<UnitId, &'static str> {
    UnitId::from_name(name).ok_or("expected an agent's name, such as `agent-3`")
}

/// How a session is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShowFormat {
    /// Lines for people.
    Text,
    /// The log's own lines.
    Jsonl,
    /// A Markdown document.
    Md,
}
