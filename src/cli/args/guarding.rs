//! The commands about what may run, as they are typed.

use clap::{Args, Subcommand};

use super::parse_mode;
use crate::guard::Mode;

/// What to say of the repository.
#[derive(Debug, Args)]
pub struct TrustFlags {
    /// Trust it without a question
    #[arg(long)]
    pub yes: bool,

    /// Trust it no more
    #[arg(long, conflicts_with = "yes")]
    pub revoke: bool,
}

/// What to do with the rules.
#[derive(Debug, Subcommand)]
pub enum PermissionsCommand {
    /// Say what would become of a call, without making it
    Check {
        /// The call, such as `Bash(git status)` or `Edit(src/lib.rs)`
        #[arg(value_name = "CALL", allow_hyphen_values = true)]
        call: String,
        /// In this mode
        #[arg(long, value_name = "MODE", value_parser = parse_mode)]
        mode: Option<Mode>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}
