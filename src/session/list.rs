//! The sessions on disk: which there are, and which one is meant.
//!
//! A listing reads the first lines and the last line of each log, so it costs
//! the same for a long session as for a short one.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::signal::kill;
use nix::unistd::Pid;
use thiserror::Error;

use super::dirs;
use super::line::{self, Decoded};
use super::log::{LogError, holder};
use super::read::{Entry, line_at, line_start, read};
use crate::event::{Event, EventKind, UnixMillis};

/// Most lines read from the start of a log. The session's head is the first
/// and its first prompt the second; some damage may stand before them.
const HEAD_LINES: usize = 8;

/// Most lines read from the end of a log in search of one that is an event.
const TAIL_LINES: usize = 8;

/// Most characters of a first prompt in a listing: one line of a terminal.
const PROMPT_CAP: usize = 120;

/// Most candidates that an ambiguous prefix names; more would not fit on a
/// screen.
const CANDIDATES_CAP: usize = 10;

/// What a listing says about one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The session's id.
    pub id: String,
    /// The session's directory.
    pub directory: PathBuf,
    /// The working directory; empty if the log's first line is damaged.
    pub cwd: String,
    /// The model of the main conversation; empty if the first line is damaged.
    pub model: String,
    /// The first line of the first prompt, cut to a fixed length; empty if
    /// there was none. It is what a user typed: strip control characters
    /// before showing it.
    pub first_prompt: String,
    /// When the session began.
    pub started: UnixMillis,
    /// When its last event happened.
    pub last_activity: UnixMillis,
    /// The length of the log in bytes.
    pub size: u64,
    /// Whether its last invocation ended.
    pub state: SessionState,
}

/// What a session is doing, as far as its log tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// A living process writes it.
    Running,
    /// Its last invocation came to its end.
    Ended,
    /// The process ended in the middle of an invocation.
    Interrupted,
}

/// Why no session is meant.
#[derive(Debug, Error)]
pub enum FindError {
    /// No id begins like that.
    #[error("no session `{wanted}`\nhint: `tine sessions` lists all of them")]
    None {
        /// What was asked for.
        wanted: String,
    },
    /// Several ids do.
    #[error("`{wanted}` could be any of {} sessions{}", .candidates.len(), candidate_lines(.candidates))]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The ids that begin like that, in order.
        candidates: Vec<String>,
    },
    /// The sessions could not be read.
    #[error(transparent)]
    Unreadable(#[from] LogError),
}

/// Lists the sessions below the root of all sessions, the latest first.
///
/// A root that does not exist holds no sessions. A directory without a log is
/// none, one whose log cannot be read is listed as far as it goes.
///
/// # Errors
///
/// If the root cannot be read.
pub fn list(root: &Path) -> Result<Vec<SessionSummary>, LogError> {
    let mut summaries: Vec<_> = sessions(root)?.iter().filter_map(summary).collect();
    summaries.sort_by(|a, b| {
        Reverse(a.last_activity).cmp(&Reverse(b.last_activity)).then_with(|| a.id.cmp(&b.id))
    });
    Ok(summaries)
}

/// Finds the directory of the session whose id is `wanted` or alone begins
/// with it, in any project.
///
/// # Errors
///
/// If no id or more than one fits.
pub fn find(root: &Path, wanted: &str) -> Result<PathBuf, FindError> {
    let prefix = wanted.to_ascii_lowercase();
    let mut fitting: Vec<Session> = sessions(root)?
        .into_iter()
        .filter(|session| {
            !prefix.is_empty() && session.id.to_ascii_lowercase().starts_with(&prefix)
        })
        .collect();
    if let Some(exact) = fitting.iter().find(|session| session.id.eq_ignore_ascii_case(wanted)) {
        return Ok(exact.directory.clone());
    }
    let wanted = wanted.to_owned();
    match fitting.len() {
        0 => Err(FindError::None { wanted }),
        1 => Ok(fitting.remove(0).directory),
        _ => {
            let mut candidates: Vec<_> = fitting.into_iter().map(|session| session.id).collect();
            candidates.sort_unstable();
            Err(FindError::Ambiguous { wanted, candidates })
        }
    }
}

fn candidate_lines(candidates: &[String]) -> String {
    let mut lines = String::new();
    for candidate in candidates.iter().take(CANDIDATES_CAP) {
        write!(lines, "\n  {candidate}").expect("a string takes every write");
    }
    if candidates.len() > CANDIDATES_CAP {
        lines.push_str("\n  …");
    }
    lines.push_str("\nhint: give more of the id");
    lines
}

struct Session {
    id: String,
    directory: PathBuf,
}

fn sessions(root: &Path) -> Result<Vec<Session>, LogError> {
    let mut sessions = Vec::new();
    for project in directories(root).map_err(|error| LogError::io("read", root, error))? {
        // A project that went away or is closed to us takes nothing from the
        // others.
        for directory in directories(&project).unwrap_or_default() {
            let id = directory.file_name().and_then(|name| name.to_str());
            if let Some(id) = id.filter(|_| directory.join(dirs::LOG).is_file()) {
                sessions.push(Session { id: id.to_owned(), directory });
            }
        }
    }
    Ok(sessions)
}

fn directories(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(parent) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            directories.push(entry.path());
        }
    }
    Ok(directories)
}

/// `None` if the log went away in between.
fn summary(session: &Session) -> Option<SessionSummary> {
    let Session { id, directory } = session;
    let file = File::open(directory.join(dirs::LOG)).ok()?;
    let size = file.metadata().ok()?.len();
    let mut summary = SessionSummary {
        id: id.clone(),
        directory: directory.clone(),
        cwd: String::new(),
        model: String::new(),
        first_prompt: String::new(),
        started: UnixMillis::default(),
        last_activity: UnixMillis::default(),
        size,
        state: SessionState::Interrupted,
    };
    read_head(directory, &mut summary);
    if let Some(last) = last_event(&file, size) {
        summary.last_activity = last.at;
        if ends_well(&last.kind) {
            summary.state = SessionState::Ended;
        }
    }
    if holder(directory).is_some_and(is_alive) {
        summary.state = SessionState::Running;
    }
    Some(summary)
}

fn read_head(directory: &Path, summary: &mut SessionSummary) {
    let Ok(entries) = read(directory) else { return };
    for entry in entries.take(HEAD_LINES) {
        let Entry::Event(event) = entry else { continue };
        if summary.started == UnixMillis::default() {
            summary.started = event.at;
        }
        match event.kind {
            EventKind::SessionOpened(head) => {
                summary.cwd = head.cwd.to_string();
                summary.model = head.model.to_string();
            }
            EventKind::InvocationStarted { prompt } => {
                let first = prompt.trim_start().lines().next().unwrap_or_default();
                summary.first_prompt = first.chars().take(PROMPT_CAP).collect();
                return;
            }
            EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::PrefixShared(_)
            | EventKind::Prompted { .. }
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::TurnStarted { .. }
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::Denied { .. }
            | EventKind::UnitEnded(_)
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => {}
        }
    }
}

/// Reads backwards to the last line that is an event.
fn last_event(file: &File, size: u64) -> Option<Event> {
    let mut end = size;
    for _ in 0..TAIL_LINES {
        let start = line_start(file, end).ok()?;
        let text = line_at(file, start, end).ok()?.unwrap_or_default();
        if let Ok(Decoded::Event(event)) = line::decode(&text) {
            return Some(event);
        }
        // The line feed before `start` belongs to the line before.
        end = start.checked_sub(1)?;
    }
    None
}

/// Tells whether a log that ends with this event was not interrupted.
fn ends_well(kind: &EventKind) -> bool {
    match kind {
        EventKind::SessionOpened(_) | EventKind::InvocationEnded(_) => true,
        EventKind::InvocationStarted { .. }
        | EventKind::Prompted { .. }
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::PrefixShared(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::TurnStarted { .. }
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::Denied { .. }
        | EventKind::UnitEnded(_)
        | EventKind::Joined { .. }
        | EventKind::Notice { .. } => false,
    }
}

/// Tells whether a process of this id lives. After a crash the id may have gone
/// to another process; then a listing calls the session running. Opening it
/// asks the kernel's lock and is not misled.
fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    pid > 0 && !matches!(kill(Pid::from_raw(pid), None), Err(nix::errno::Errno::ESRCH))
}

#[cfg(test)]
mod tests;
