//! The sessions on disk: which there are, and which one is meant.
//!
//! A listing reads the first lines and the last line of each log and the name
//! beside it, so it costs the same for a long session as for a short one.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::dirs;
use super::line::{self, Decoded};
use super::log::{LogError, holder, is_alive, is_locked};
use super::name::{SessionName, read_name};
use super::read::{Entry, line_at, line_start, read};
use crate::event::{Event, EventKind, Outcome, UnixMillis};

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
    /// What people call it; `None` if it has no name.
    pub name: Option<SessionName>,
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

impl SessionState {
    /// Returns the name used in listings and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why no session is meant.
#[derive(Debug, Error)]
pub enum FindError {
    /// No id begins like that, and no session has that name.
    #[error("no session `{wanted}`\nhint: `tine sessions` lists all of them")]
    None {
        /// What was asked for.
        wanted: String,
    },
    /// Several ids do.
    #[error(
        "`{wanted}` could be any of {} sessions{}\nhint: give more of the id",
        .candidates.len(), candidate_lines(.candidates)
    )]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// The ids that begin like that, in order.
        candidates: Vec<String>,
    },
    /// Several sessions have that name.
    #[error(
        "`{wanted}` is the name of {} sessions{}\nhint: give the id, or the beginning of it",
        .candidates.len(), candidate_lines(.candidates)
    )]
    SameName {
        /// What was asked for.
        wanted: String,
        /// The ids of the sessions that have the name, in order.
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
    Ok(summaries(sessions(root)?))
}

/// Lists the sessions of one working directory, as [`list`] does.
///
/// # Errors
///
/// If the project's directory cannot be read.
pub fn list_project(root: &Path, cwd: &Path) -> Result<Vec<SessionSummary>, LogError> {
    let project = root.join(dirs::project_name(cwd));
    let sessions = sessions_of(&project).map_err(|error| LogError::io("read", &project, error))?;
    Ok(summaries(sessions))
}

/// Finds the directory of the session that is meant, in any project: the one
/// whose id is `wanted` or alone begins with it, or if no id does, the one that
/// has it as its name. Neither goes by the case of letters.
///
/// # Errors
///
/// If no session or more than one fits.
pub fn find(root: &Path, wanted: &str) -> Result<PathBuf, FindError> {
    let sessions = sessions(root)?;
    let prefix = wanted.to_ascii_lowercase();
    let begins = |session: &&Session| {
        !prefix.is_empty() && session.id.to_ascii_lowercase().starts_with(&prefix)
    };
    let fitting: Vec<&Session> = sessions.iter().filter(begins).collect();
    if let Some(exact) = fitting.iter().find(|session| session.id.eq_ignore_ascii_case(wanted)) {
        return Ok(exact.directory.clone());
    }
    let wanted = wanted.to_owned();
    match &fitting[..] {
        [] => named(&sessions, wanted),
        [only] => Ok(only.directory.clone()),
        several => Err(FindError::Ambiguous { wanted, candidates: ids(several) }),
    }
}

fn named(sessions: &[Session], wanted: String) -> Result<PathBuf, FindError> {
    let has_name =
        |session: &&Session| read_name(&session.directory).is_some_and(|name| name.is(&wanted));
    let fitting: Vec<&Session> = sessions.iter().filter(has_name).collect();
    match &fitting[..] {
        [] => Err(FindError::None { wanted }),
        [only] => Ok(only.directory.clone()),
        several => Err(FindError::SameName { wanted, candidates: ids(several) }),
    }
}

fn ids(sessions: &[&Session]) -> Vec<String> {
    let mut ids: Vec<_> = sessions.iter().map(|session| session.id.clone()).collect();
    ids.sort_unstable();
    ids
}

fn candidate_lines(candidates: &[String]) -> String {
    let mut lines = String::new();
    for candidate in candidates.iter().take(CANDIDATES_CAP) {
        write!(lines, "\n  {candidate}").expect("a string takes every write");
    }
    if candidates.len() > CANDIDATES_CAP {
        lines.push_str("\n  …");
    }
    lines
}

/// A session's directory, in which nothing was read yet.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) directory: PathBuf,
}

/// Returns the sessions below the root of all sessions, in no order.
pub(super) fn sessions(root: &Path) -> Result<Vec<Session>, LogError> {
    let projects = directories(root).map_err(|error| LogError::io("read", root, error))?;
    // A project that went away or is closed to us takes nothing from the
    // others.
    Ok(projects.iter().flat_map(|project| sessions_of(project).unwrap_or_default()).collect())
}

fn sessions_of(project: &Path) -> io::Result<Vec<Session>> {
    let directories = directories(project)?.into_iter();
    let session = |directory: PathBuf| {
        let id = directory.file_name()?.to_str()?.to_owned();
        directory.join(dirs::LOG).is_file().then_some(Session { id, directory })
    };
    Ok(directories.filter_map(session).collect())
}

fn summaries(sessions: Vec<Session>) -> Vec<SessionSummary> {
    let mut summaries: Vec<_> = sessions.iter().filter_map(summary).collect();
    summaries.sort_by(|a, b| {
        Reverse(a.last_activity).cmp(&Reverse(b.last_activity)).then_with(|| a.id.cmp(&b.id))
    });
    summaries
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
        name: read_name(directory),
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
    if is_running(directory) {
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
            EventKind::InvocationStarted { prompt, .. } => {
                let first = prompt.trim_start().lines().next().unwrap_or_default();
                summary.first_prompt = first.chars().take(PROMPT_CAP).collect();
                return;
            }
            EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::Prompted(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => {}
        }
    }
}

/// Reads backwards to the last line that is an event.
pub(super) fn last_event(file: &File, size: u64) -> Option<Event> {
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
        EventKind::SessionOpened(_)
        | EventKind::Rewound { .. }
        | EventKind::Walked(_)
        | EventKind::Chosen(_)
        | EventKind::Offered(_)
        | EventKind::Left => true,
        // Written later, by whoever went on with the session.
        EventKind::InvocationEnded(end) => end.outcome != Outcome::Interrupted,
        EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::PrefixShared(_)
        | EventKind::Throttled(_)
        | EventKind::Admitted { waited_ms: _ }
        | EventKind::RequestFailed(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::Lost { .. }
        | EventKind::TurnStarted { .. }
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::HookRan(_)
        | EventKind::Denied { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        | EventKind::SetAside { .. }
        | EventKind::Joined { .. }
        | EventKind::Notice { .. } => false,
    }
}

/// Tells whether a living process writes the session in `directory`.
#[must_use]
pub fn is_running(directory: &Path) -> bool {
    // After a crash the id may have gone to another process, so the kernel has
    // the last word. It is asked only then: the question holds the lock for a
    // moment, and a run that opens the session just then would be refused.
    holder(directory).is_some_and(is_alive) && is_locked(directory)
}

#[cfg(test)]
mod tests;
