//! What people and programs see of a run.
//!
//! Every view is a fold over [`crate::event::Event`]s: the lines of a pipe, the
//! live region of a terminal, the JSON records, the transcript of a log. This
//! module owns the words people read while a run goes on and the form of the
//! records; what happened is decided above it, which view is used below it.

mod account;
pub mod acp;
mod answer;
mod asking;
pub mod board;
mod catalogue;
pub mod caught;
pub mod commits;
pub mod control;
pub mod difference;
pub mod filling;
mod flow;
pub mod inert;
pub mod ink;
mod json;
mod lines;
mod listing;
mod live;
mod mapped;
mod markdown;
pub mod meter;
pub mod paint;
pub mod panel;
mod plain;
pub mod prose;
pub mod questions;
mod record;
pub mod region;
mod result;
pub mod review;
pub mod row;
pub mod sanitise;
mod spans;
pub mod strands;
mod stream;
mod stream_json;
mod telemetry;
pub mod trace;
mod transcript;
mod undo;
mod unfinished;
pub mod units;
pub mod unread;
mod usage;
mod viewer;
pub mod window;
pub mod words;

#[cfg(test)]
#[path = "../tests/it/attacks/payloads.rs"]
mod payloads;
#[cfg(test)]
#[path = "../tests/it/support/screen.rs"]
mod screen;
#[cfg(test)]
pub(crate) mod story;

pub use account::{account_lines, resumed};
pub use answer::{Stderr, Stdout, StdoutKind};
pub use asking::{Asking, Choices, Prompter};
pub use catalogue::{agent_record, finding_record, skill_record};
pub use flow::flow_record;
pub use json::Json;
pub use listing::{model_record, server_record, session_record};
pub use live::{Clock, Live, LiveOptions};
pub use mapped::{MapCounts, Mapped, ROWS, begins_as_map};
pub use markdown::{Document, markdown};
pub use plain::Plain;
pub use result::{Denial, Ending, FindFacts, Subtype, Tally};
pub use spans::{DescribeModel, ModelPlace, Spans};
pub use stream_json::{Facts, FindSandbox, HostOnly, StreamJson, StreamOptions};
pub use telemetry::{Telemetry, lost_spans};
pub use transcript::transcript;
pub use undo::{UndoReport, UndoState};
pub use unfinished::{
    NamedUnit, OpenCall, Progress, Unfinished, Writer, unfinished, unfinished_lines,
};
pub use units::{Counts, Doing, Hold, HoldCause, LastCall, Unit, Units};
pub use usage::{BatchUsage, PromptUsage, SessionUsage, Spent, UnitUsage};
pub use viewer::{NoBranch, View, Viewer};
