//! The writer of a session's log: one event, one line, one `write`.
//!
//! A [`SessionLog`] holds the session's lock for as long as it lives. It never
//! puts a line behind a torn one: what a failed write left is cut off before
//! anything else is written, and what a killed writer left is cut off when the
//! log is opened again.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use thiserror::Error;

use super::dirs::{self, create_private};
use super::line::{self, LINE_CAP};
use super::read::{line_at, line_start};
use crate::event::Event;

/// Why a log could not be made, opened or written.
#[derive(Debug, Error)]
pub enum LogError {
    /// Another process writes this session, or this one does already.
    #[error(
        "session {directory} is in use{}\nhint: end it there, or start a new session",
        .holder.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    )]
    Locked {
        /// The session's directory.
        directory: String,
        /// The process id of the writer, if it had written it down.
        holder: Option<u32>,
    },
    /// The log was written by a later tine.
    #[error(
        "session log {path} has format version {found}\nhint: it was written by a later tine; \
         use that one"
    )]
    Version {
        /// The log.
        path: String,
        /// Its version.
        found: u32,
    },
    /// An event is too long for any reader.
    #[error("an event of {bytes} bytes is too long for session log {path}")]
    TooLong {
        /// The log.
        path: String,
        /// The length of its line.
        bytes: usize,
    },
    /// The operating system refused.
    #[error("failed to {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl LogError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.display().to_string(), source }
    }

    /// Tells whether nothing more can be written after it.
    #[must_use]
    pub fn ends_the_log(&self) -> bool {
        match self {
            // Nothing was written, so the log goes on without this event.
            Self::TooLong { .. } => false,
            Self::Locked { .. } | Self::Version { .. } | Self::Io { .. } => true,
        }
    }
}

/// What was done to a log's end when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: it ended with a whole line.
    Nothing,
    /// Its last event was whole and got its line feed.
    Completed,
    /// Its last line was torn: it now lies in `log.torn`.
    Cut {
        /// How long it was.
        bytes: u64,
    },
}

/// A log that is open for writing, with the session's lock.
#[derive(Debug)]
pub struct SessionLog {
    directory: PathBuf,
    file: File,
    /// The end of the last whole line.
    end: u64,
    /// Whether there may be something behind `end`.
    torn: bool,
    repair: Repair,
    /// The line being written; kept to save the allocation.
    line: Vec<u8>,
    _lock: Lock,
}

impl SessionLog {
    /// Starts the log of a new session in `directory`, which is made if it is
    /// not there.
    ///
    /// # Errors
    ///
    /// Also if the directory holds a log already.
    pub fn create(directory: &Path) -> Result<Self, LogError> {
        create_private(directory).map_err(|error| LogError::io("create", directory, error))?;
        let lock = Lock::take(directory)?;
        let path = directory.join(dirs::LOG);
        let file = options()
            .create_new(true)
            .open(&path)
            .map_err(|error| LogError::io("create session log", &path, error))?;
        // A session that was started is found again, even if its name is all
        // that reached the disk.
        File::open(directory)
            .and_then(|opened| opened.sync_all())
            .map_err(|error| LogError::io("sync", directory, error))?;
        Ok(Self::open(directory, file, 0, Repair::Nothing, lock))
    }

    /// Opens the log in `directory` to go on with it, after repairing its end.
    ///
    /// # Errors
    ///
    /// Also if another process writes it or a later tine wrote it; then
    /// nothing is changed.
    pub fn open_for_append(directory: &Path) -> Result<Self, LogError> {
        let path = directory.join(dirs::LOG);
        let failed = |error| LogError::io("open session log", &path, error);
        let mut file = options().read(true).open(&path).map_err(failed)?;
        let lock = Lock::take(directory)?;
        if let Some(found) = later_version(&file).map_err(failed)? {
            return Err(LogError::Version { path: path.display().to_string(), found });
        }
        let repair = repair(&mut file, directory)
            .map_err(|error| LogError::io("repair session log", &path, error))?;
        let end = file.metadata().map_err(failed)?.len();
        Ok(Self::open(directory, file, end, repair, lock))
    }

    pub(super) fn open(directory: &Path, file: File, end: u64, repair: Repair, lock: Lock) -> Self {
        let directory = directory.to_owned();
        Self { directory, file, end, torn: false, repair, line: Vec::new(), _lock: lock }
    }

    /// Returns what was done to the log when it was opened.
    #[must_use]
    pub fn repair(&self) -> Repair {
        self.repair
    }

    /// Returns the session's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Appends one event. It is on disk only after a sync that began later.
    ///
    /// # Errors
    ///
    /// The event is then not in the log, and what was written of it is cut off
    /// at once or, if that fails too, before the next event.
    pub fn append(&mut self, event: &Event) -> Result<(), LogError> {
        self.line.clear();
        line::encode(event, &mut self.line);
        if self.line.len() > LINE_CAP {
            let path = self.directory.join(dirs::LOG).display().to_string();
            return Err(LogError::TooLong { path, bytes: self.line.len() });
        }
        self.write_line().map_err(|error| self.failed("write session log", error))
    }

    /// Waits until everything appended so far is on disk.
    ///
    /// # Errors
    ///
    /// What was appended since the last sync may then be lost.
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.file.sync_data().map_err(|error| self.failed("sync session log", error))
    }

    /// Returns what syncs this log from another thread.
    ///
    /// # Errors
    ///
    /// The system has no room for one more file handle.
    pub fn sync_handle(&self) -> Result<LogSync, LogError> {
        let path = self.directory.join(dirs::LOG);
        match self.file.try_clone() {
            Ok(file) => Ok(LogSync { file, path }),
            Err(error) => Err(LogError::io("open session log", &path, error)),
        }
    }

    fn write_line(&mut self) -> io::Result<()> {
        self.cut_torn()?;
        self.torn = true;
        if let Err(error) = self.file.write_all(&self.line) {
            // If this fails as well, the next event tries it again.
            let _ = self.cut_torn();
            return Err(error);
        }
        self.torn = false;
        self.end += self.line.len() as u64;
        Ok(())
    }

    fn cut_torn(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.end)?;
            self.torn = false;
        }
        Ok(())
    }

    fn failed(&self, action: &'static str, error: io::Error) -> LogError {
        LogError::io(action, &self.directory.join(dirs::LOG), error)
    }
}

/// Syncs a log that is written elsewhere.
#[derive(Debug)]
pub struct LogSync {
    file: File,
    path: PathBuf,
}

impl LogSync {
    /// Waits until everything is on disk that was appended before this call.
    ///
    /// # Errors
    ///
    /// As for [`SessionLog::sync`].
    pub fn sync(&self) -> Result<(), LogError> {
        let synced = self.file.sync_data();
        synced.map_err(|error| LogError::io("sync session log", &self.path, error))
    }
}

pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600);
    options
}

/// Returns the version in the first line if it is not the one written here. A
/// first line that says nothing about it is for the readers to report.
fn later_version(file: &File) -> io::Result<Option<u32>> {
    /// Most bytes looked at; a session's first line is a few hundred.
    const FIRST_LINE_CAP: u64 = 64 * 1024;
    let length = file.metadata()?.len().min(FIRST_LINE_CAP);
    let head = line_at(file, 0, length)?.unwrap_or_default();
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(line::version(first).filter(|&found| found != line::VERSION))
}

/// Completes or cuts a last line that has no line feed.
fn repair(file: &mut File, directory: &Path) -> io::Result<Repair> {
    let length = file.metadata()?.len();
    let start = line_start(file, length)?;
    if start == length {
        return Ok(Repair::Nothing);
    }
    let last = line_at(file, start, length)?;
    if last.is_some_and(|text| line::decode(&text).is_ok()) {
        file.write_all(b"\n")?;
        file.sync_data()?;
        return Ok(Repair::Completed);
    }
    // The torn bytes are safe in their own file before they are cut here.
    let mut torn = options().create(true).open(directory.join(dirs::TORN))?;
    file.seek(SeekFrom::Start(start))?;
    io::copy(file, &mut torn)?;
    torn.write_all(b"\n")?;
    torn.sync_all()?;
    file.set_len(start)?;
    file.sync_data()?;
    Ok(Repair::Cut { bytes: length - start })
}

/// How often a lock is asked for whose holder is gone.
const TRIES: u32 = 100;

/// The pause between two of these. All of them are a second: a command that is started
/// runs within milliseconds, but on a machine with much to do.
const PAUSE: Duration = Duration::from_millis(10);

/// The session's lock. The kernel gives it back when the process ends, however
/// it ends; the process id in the file is only for messages and listings.
#[derive(Debug)]
pub(super) struct Lock {
    file: Flock<File>,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(directory: &Path) -> Result<Self, LogError> {
        Self::take_pausing(directory, || std::thread::sleep(PAUSE))
    }

    fn take_pausing(directory: &Path, mut pause: impl FnMut()) -> Result<Self, LogError> {
        for _ in 1..TRIES {
            match Self::try_take(directory) {
                // A process that was killed while it started a command: until that runs,
                // it has what the process had open.
                Err(LogError::Locked { holder: Some(holder), .. }) if !is_alive(holder) => pause(),
                taken => return taken,
            }
        }
        Self::try_take(directory)
    }

    fn try_take(directory: &Path) -> Result<Self, LogError> {
        let path = directory.join(dirs::LOCK);
        let failed = |error| LogError::io("lock", &path, error);
        let mut options = OpenOptions::new();
        // Not truncated here: until the lock is ours, the file is its holder's.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // Commands of a run can write here, and where a link leads is not ours.
        options.custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.open(&path).map_err(failed)?;
        let refused = |error: Errno| {
            if error != Errno::EWOULDBLOCK {
                return failed(error.into());
            }
            let holder = holder(directory);
            LogError::Locked { directory: directory.display().to_string(), holder }
        };
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_file, error)| refused(error))?;
        // Its last holder removed the session between the two calls.
        if file.metadata().map_err(failed)?.nlink() == 0 {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        file.set_len(0).map_err(failed)?;
        file.write_all(std::process::id().to_string().as_bytes()).map_err(failed)?;
        Ok(Self { file })
    }
}

/// Tells whether somebody holds the lock of the session in `directory`.
pub(super) fn is_locked(directory: &Path) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let Ok(file) = options.open(directory.join(dirs::LOCK)) else { return false };
    let asked = Flock::lock(file, FlockArg::LockSharedNonblock);
    matches!(asked, Err((_, Errno::EWOULDBLOCK)))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The name only: if it stays, a listing calls the session running
        // until the process is gone, and the lock itself is free either way.
        let _ = self.file.set_len(0);
    }
}

/// Returns the process id in a session's lock file, `None` if nobody holds it.
pub(super) fn holder(directory: &Path) -> Option<u32> {
    std::fs::read_to_string(directory.join(dirs::LOCK)).ok()?.trim().parse().ok()
}

pub(super) fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    pid > 0 && !matches!(kill(Pid::from_raw(pid), None), Err(Errno::ESRCH))
}

#[cfg(test)]
mod tests;
