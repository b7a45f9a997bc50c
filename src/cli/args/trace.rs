//! `tine trace`, as it is typed.

use clap::{Args, ValueEnum};

use super::{OUTPUT, Output};

/// Of which session a trace is made, and how.
#[derive(Debug, Args)]
pub struct TraceFlags {
    /// The session's id, the beginning of it, or its name; without one the latest
    /// of this directory
    #[arg(value_name = "ID")]
    pub id: Option<String>,

    /// Where to, `-` for standard output; a page is written to `trace.html`
    /// without it, the other formats to standard output
    #[arg(id = OUTPUT, short = 'o', long = "output", value_name = "FILE",
        value_parser = Output::files())]
    pub output: Option<Output>,

    /// What to write: a page that needs nothing else, a file for Perfetto, or JSON
    #[arg(long, value_name = "FORMAT", default_value = "html")]
    pub format: TraceFormat,

    /// While it runs: serve the page to a browser on this machine, with what comes
    /// as it comes
    #[arg(long)]
    pub follow: bool,
}

/// What a trace is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// A page of HTML.
    Html,
    /// Chrome's trace format.
    Perfetto,
    /// One JSON object.
    Json,
}
