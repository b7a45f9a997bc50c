//! Removing sessions: one that is named, or those that are too old.
//!
//! Whoever removes a session holds its lock, so nothing that a run still writes
//! goes. The log goes last: what was interrupted is still listed and can be
//! removed again. Links are removed, never followed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::dirs;
use super::list::{Session, is_running, last_event, sessions};
use super::log::{Lock, LogError};
use crate::event::UnixMillis;

/// Which sessions are too old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The time of day.
    pub now: UnixMillis,
    /// How long after its last event a session is kept.
    pub max_age: Duration,
}

/// Removes the session in `directory` with all that belongs to it, and the
/// project's directory if it was the last one there.
///
/// # Errors
///
/// [`LogError::Locked`] if a process writes the session; then nothing is
/// changed. Otherwise some of it may be gone, but not the log.
pub fn remove(directory: &Path) -> Result<(), LogError> {
    let lock = Lock::take(directory)?;
    remove_locked(directory, lock)
}

/// Returns the directories of the sessions that are too old, in no order:
/// neither those that run nor those that have a name.
///
/// A session is as old as its last event, but no older than its log's file, as
/// either clock may have been wrong; a log without a readable event is as old
/// as its file.
///
/// # Errors
///
/// If the root of all sessions cannot be read.
pub fn expired(root: &Path, expiry: Expiry) -> Result<Vec<PathBuf>, LogError> {
    let is_expired =
        |session: &Session| expiry.covers(&session.directory) && !is_running(&session.directory);
    let expired = sessions(root)?.into_iter().filter(is_expired);
    Ok(expired.map(|session| session.directory).collect())
}

/// Removes a session that [`expired`] returned; `false` if it has been written
/// or named since.
///
/// # Errors
///
/// As for [`remove`].
pub fn remove_expired(directory: &Path, expiry: Expiry) -> Result<bool, LogError> {
    let lock = Lock::take(directory)?;
    // A run may have come and gone before the lock was ours.
    if !expiry.covers(directory) {
        return Ok(false);
    }
    remove_locked(directory, lock).map(|()| true)
}

impl Expiry {
    fn covers(self, directory: &Path) -> bool {
        // Most sessions are not old, and asking the file is cheapest.
        let Some(written) = written(&directory.join(dirs::LOG)) else { return false };
        // A name that cannot be read is somebody's, too.
        if !self.is_past(written) || directory.join(dirs::NAME).symlink_metadata().is_ok() {
            return false;
        }
        let last = File::open(directory.join(dirs::LOG)).ok().and_then(|file| {
            let size = file.metadata().ok()?.len();
            last_event(&file, size)
        });
        last.is_none_or(|event| self.is_past(event.at))
    }

    /// What is in the future is not past, however far.
    fn is_past(self, at: UnixMillis) -> bool {
        u128::from(self.now.since(at)) > self.max_age.as_millis()
    }
}

/// When a file was last written; `None` if that cannot be told.
fn written(path: &Path) -> Option<UnixMillis> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).ok().map(UnixMillis)
}

fn remove_locked(directory: &Path, lock: Lock) -> Result<(), LogError> {
    empty(directory).map_err(|error| LogError::io("remove", directory, error))?;
    // Until here nobody could begin a session of that id. Whoever does so now
    // keeps the directory.
    let removed = gone(fs::remove_file(directory.join(dirs::LOCK)))
        .and_then(|()| gone(fs::remove_dir(directory)));
    drop(lock);
    match removed {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
            return Err(LogError::io("remove", directory, error));
        }
        Ok(()) | Err(_) => {}
    }
    if let Some(project) = directory.parent() {
        // Other sessions keep it; who may not remove it, need not.
        let _ = fs::remove_dir(project);
    }
    Ok(())
}

/// Removes what is in a session's directory but for its lock.
fn empty(directory: &Path) -> io::Result<()> {
    clear(directory)?;
    gone(fs::remove_file(directory.join(dirs::LOG)))?;
    // The session may have been named meanwhile.
    clear(directory)
}

/// Removes what is in a session's directory but for the log and its lock.
fn clear(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == dirs::LOG || entry.file_name() == dirs::LOCK {
            continue;
        }
        // The type is the entry's own, not that of what a link leads to.
        if entry.file_type()?.is_dir() {
            gone(fs::remove_dir_all(entry.path()))?;
        } else {
            gone(fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}

/// What somebody else has removed is removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;
