//! The commands about what is found in files, as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with skills, or with definitions of agents.
#[derive(Debug, Args)]
pub struct ListedFlags {
    /// What to do instead of listing them
    #[command(subcommand)]
    pub command: Option<CheckCommand>,

    /// One JSON object a line
    #[arg(long, global = true)]
    pub json: bool,
}

/// What to do instead of listing them.
#[derive(Debug, Subcommand)]
pub enum CheckCommand {
    /// Say what is wrong with their files; ends with 1 if something does not work
    Check {
        /// Files, or directories of them; without one, all that are found
        #[arg(value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
}
