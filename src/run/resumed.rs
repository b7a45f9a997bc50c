//! Going on with a session: first what its last process left open is brought to
//! its end.

use std::path::PathBuf;
use std::sync::Arc;

use super::dispatcher::repair;
use super::now;
use crate::fanout::cut_off;
use crate::session::{LogError, Past, SessionLog, Spill};

/// A session that a run goes on with. Nothing in it is open any more.
pub struct Resumed {
    /// Its directory, to read more of it where more is wanted.
    pub from: PathBuf,
    /// What it has come to.
    pub past: Past,
    /// What people are told at the start, in one sentence.
    pub note: Option<Arc<str>>,
}

/// Ends what is open in a session, in its log and in `past`. `log` is `None` if
/// nothing is to be kept. Nothing is started and nothing is run again.
///
/// # Errors
///
/// The log could not be written. What is in it by then is no harm: the next
/// repair makes the rest.
pub fn mend(past: &mut Past, log: Option<&mut SessionLog>, spill: &Spill) -> Result<(), LogError> {
    let events =
        repair(past, &|call, children| cut_off::output(&call.arguments, children, spill), now());
    for event in &events {
        past.take(event);
    }
    let Some(log) = log.filter(|_| !events.is_empty()) else { return Ok(()) };
    for event in &events {
        log.append(event)?;
    }
    log.sync()
}
