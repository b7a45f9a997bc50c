//! A session on disk: an append-only event log and what belongs to it.
//!
//! A session is a directory that holds `log.jsonl`, the lock of its one
//! writer, its name if it has one, and whatever files its units wrote.
//! Everything here takes that directory, never the file in it. What the events
//! mean is not decided here.

mod blobs;
mod copy;
pub mod dirs;
mod line;
mod list;
mod log;
mod name;
mod pack;
mod past;
mod read;
mod remove;
#[cfg(test)]
pub(crate) mod samples;
mod search;
mod spill;
mod tail;
pub mod undo;
mod units;

pub use blobs::{BLOB_CAP, Blobs, Lost, NotKept};
#[cfg(feature = "nats")]
pub(crate) use line::kinds;
pub use list::{FindError, SessionState, SessionSummary, find, is_running, list, list_project};
pub use log::{LogError, LogSync, Repair, SessionLog};
pub use name::{NameError, SessionName, read_name, remove_name, write_name};
pub use past::{
    Account, CUT_OFF, CutOff, NOT_RUN, OpenCall, Past, PastInvocation, PastUnit, Told, Work,
};
pub use read::{Entries, Entry, read};
pub use remove::{Expiry, expired, remove, remove_expired};
pub use search::{Words, search};
pub use spill::{Spill, SpillFile};
pub use tail::Tail;
pub use units::conversation_of;
