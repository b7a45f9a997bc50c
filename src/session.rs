//! A session on disk: an append-only event log and what belongs to it.
//!
//! A session is a directory that holds `log.jsonl`, the lock of its one
//! writer, and whatever files its units wrote. Everything here takes that
//! directory, never the file in it. What the events mean is not decided here.

pub mod dirs;
mod line;
mod list;
mod log;
mod read;
#[cfg(test)]
mod samples;
mod spill;

pub use list::{FindError, SessionState, SessionSummary, find, list};
pub use log::{LogError, LogSync, Repair, SessionLog};
pub use read::{Entries, Entry, read};
pub use spill::{Spill, SpillFile};
