//! Flags of `tine review`.

use std::path::PathBuf;

use clap::Args;

/// Which change to review.
#[derive(Debug, Clone, Default, Args)]
pub struct ReviewFlags {
    /// What is not committed yet
    #[arg(long, conflicts_with_all = ["base", "commit"])]
    pub uncommitted: bool,

    /// What has come since this branch, uncommitted changes included
    #[arg(long, value_name = "BRANCH", conflicts_with = "commit")]
    pub base: Option<String>,

    /// What one commit changed
    #[arg(long, value_name = "SHA")]
    pub commit: Option<String>,

    /// Write what stands to a file as SARIF 2.1.0, too
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,

    /// Print what stands as annotations of GitHub, behind the report
    #[arg(long)]
    pub annotations: bool,

    /// End with status 1 if a finding stands that is at least this bad
    #[arg(long, value_name = "SEVERITY", value_parser = ["high", "medium", "low"])]
    pub fail_on: Option<String>,

    /// What to look for besides, in your own words
    #[arg(value_name = "WORDS")]
    pub words: Vec<String>,
}
