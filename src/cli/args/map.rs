//! `tine map`, as it is typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::GivenJson;
use super::values::parse_span;

/// What stands below the flags.
const AFTER: &str = "\
Example: tine map --input items.csv --prompt look.md --schema size.json --output out.jsonl

A map that was stopped or killed goes on with the same command and `--resume SESSION`: no row
is asked again whose answer is on disk. The exit code is 1 if a row has no answer.";

/// Which rows an agent is asked for, and what. Its own flags stand first.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct MapFlags {
    /// The rows: a table as CSV, or one JSON object a line; `-` is standard input
    #[arg(long, value_name = "FILE", display_order = 0)]
    pub input: PathBuf,

    /// What is asked for each row, with its columns as `{{ column }}`
    #[arg(long, value_name = "FILE", display_order = 0)]
    pub prompt: PathBuf,

    /// The JSON Schema that each answer must fit, or a file that holds it
    #[arg(long, value_name = "JSON|FILE", display_order = 0)]
    pub schema: Option<GivenJson>,

    /// Where the lines go, one for each row; without it to standard output
    // Not `output`: that is what the format of other commands goes by.
    #[arg(id = "lines", long = "output", value_name = "FILE", display_order = 0)]
    pub output: Option<PathBuf>,

    /// Most rows that are worked on at once
    #[arg(long, value_name = "N", display_order = 0, allow_negative_numbers = true)]
    pub max_concurrent: Option<i64>,

    /// Most time for one row, such as `90s`, `10m` or `1h`
    #[arg(long, value_name = "TIME", value_parser = parse_span, display_order = 0)]
    pub timeout: Option<Duration>,

    /// With `--resume` or `--continue`: run the rows again that failed
    #[arg(long, display_order = 0)]
    pub retry_failed: bool,

    /// Ask all rows, also if the first ten all fail in the same way
    #[arg(long, display_order = 0)]
    pub keep_going: bool,
}
