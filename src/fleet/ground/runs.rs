//! What runs leave on a worker beside their copies: texts that were too long for a
//! context, and patches, each run's in a directory of its own.
//!
//! Those that come later may read them: an agent that is continued, or one that is
//! told of them. None can rely on it, since another worker has not got them.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::lane::locked;
use super::store::make_private;
use super::{GroundError, io_error};
use crate::event::SessionId;
use crate::git::worktree::remove_directory;

/// What the directory of all of them is called in a worker's.
pub const RUNS: &str = "runs";

/// How long a run's files are kept that has no slot here, where there is room: as long
/// as its user may need to think of what to ask next.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(60 * 60);

/// How the names of directories begin that are removed just now. No session's does.
const PASSING: &str = "old-";

/// The directories of runs.
#[derive(Debug)]
pub(super) struct Runs {
    directory: PathBuf,
    /// Those that there may be.
    // A mutex, because slots begin and end on tasks of their own.
    known: Mutex<HashMap<SessionId, Known>>,
}

#[derive(Debug)]
struct Known {
    /// How many slots have it.
    slots: usize,
    /// When the last of them came or went.
    at: Instant,
}

/// Keeps the directory of a run where it is.
#[derive(Debug)]
#[must_use = "the directory of a run goes when nobody holds it"]
pub struct RunHold {
    runs: Arc<Runs>,
    session: SessionId,
}

impl Runs {
    /// Removes what an earlier worker left there, whose slots others have by now.
    pub(super) fn new(directory: PathBuf) -> Result<Self, GroundError> {
        remove_directory(&directory).map_err(io_error(&directory))?;
        make_private(&directory)?;
        Ok(Self { directory, known: Mutex::default() })
    }

    pub(super) fn hold(self: &Arc<Self>, session: &SessionId) -> RunHold {
        let mut known = locked(&self.known);
        let new = Known { slots: 0, at: Instant::now() };
        known.entry(session.clone()).or_insert(new).slots += 1;
        RunHold { runs: Arc::clone(self), session: session.clone() }
    }

    /// Puts aside the directories of runs that have had no slot here for so long, and
    /// returns where they are to be removed.
    pub(super) fn put_aside(&self, idle: Duration) -> Vec<PathBuf> {
        let mut aside = Vec::new();
        // Under the lock: a slot of such a run may begin at once.
        locked(&self.known).retain(|session, run| {
            if run.slots > 0 || run.at.elapsed() < idle {
                return true;
            }
            let to = self.directory.join(format!("{PASSING}{}", Uuid::now_v7()));
            match fs::rename(self.directory.join(&*session.0), &to) {
                Ok(()) => aside.push(to),
                // Its slots have left nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // It is tried again.
                Err(_) => return true,
            }
            false
        });
        aside
    }
}

impl Drop for RunHold {
    fn drop(&mut self) {
        let mut known = locked(&self.runs.known);
        if let Some(run) = known.get_mut(&self.session) {
            run.slots -= 1;
            run.at = Instant::now();
        }
    }
}
