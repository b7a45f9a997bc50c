//! The commands about flows, as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to do with a flow.
#[derive(Debug, Subcommand)]
pub enum FlowCommand {
    /// Say what is wrong with flow files; ends with 1 if one cannot be run
    Check {
        /// Flow files, or directories with a `flow.toml`
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,

        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show the steps of a flow, and the branch that each would be on
    Show {
        /// The flow file, or a directory with a `flow.toml`
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run a flow; with `--resume`, only what has not finished
    Run(FlowRunFlags),
}

/// Which flow to run, and what it is given.
#[derive(Debug, Args)]
pub struct FlowRunFlags {
    /// The flow file, or a directory with a `flow.toml`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// An input of the flow; may be given several times
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub inputs: Vec<String>,
}
