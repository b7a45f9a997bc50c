//! `--continue` and `--resume`: which session is meant, and going on with it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::args::{Format, RunFlags};
use super::exit::{Exit, Refusal};
use super::place::{Place, name_session};
use super::project::{self, Manner};
use super::sessions::parse_name;
use super::{input, runner, sandbox, session, start};
use crate::branch::Branch;
use crate::config::Environment;
use crate::event::{Event, EventKind, Invocation, Seq, SessionHead, SessionId, UnitId, UnixMillis};
use crate::message::counted;
use crate::report::{self, sanitise};
use crate::run;
use crate::session::{
    FindError, LogError, Past, Repair, SessionLog, SessionState, SessionSummary, Spill, find,
    list_project, read_name,
};

/// Most sessions that are listed where one has to be named.
const LISTED: usize = 10;

/// A session to go on with, and how what follows is kept.
pub(super) struct Resume {
    /// What it has come to.
    pub(super) past: Past,
    /// Its directory.
    pub(super) from: PathBuf,
    /// How what follows is kept.
    pub(super) keep: Keep,
}

/// How what follows in a session is kept.
pub(super) enum Keep {
    /// In its own log.
    Own(SessionLog),
    /// In the log of a new session, which begins as a copy.
    Copy,
    /// Not at all.
    Nowhere,
}

/// Checks the flags that say which session is meant, against each other.
pub(super) fn check(flags: &RunFlags) -> Result<(), Refusal> {
    let wrong = |message: &str, hint: &str| Err(Refusal::new(Exit::Usage, message).hint(hint));
    match (flags.continue_latest, &flags.resume) {
        (true, Some(_)) => {
            wrong("`--continue` and `--resume` each choose a session", "give one of them")
        }
        (false, None) if flags.fork_session => wrong(
            "`--fork-session` needs a session to copy",
            "add `--continue`, or `--resume SESSION`",
        ),
        (true, None) | (false, Some(_)) if flags.session_id.is_some() && !flags.fork_session => {
            wrong(
                "`--session-id` names a new session, but this goes on with an old one",
                "leave it out, or add `--fork-session` to go on in a copy with that id",
            )
        }
        (true | false, None) | (false, Some(_)) => Ok(()),
    }
}

/// Tells whether a session is to be gone on with.
pub(super) fn is_wanted(flags: &RunFlags) -> bool {
    flags.continue_latest || flags.resume.is_some()
}

/// Returns the directory of the session that the flags mean.
pub(super) fn wanted(sessions: &Path, flags: &RunFlags, cwd: &Path) -> Result<PathBuf, Refusal> {
    match flags.resume.as_deref() {
        None => latest(sessions, cwd),
        Some("") => Err(which(sessions, cwd)),
        Some(wanted) => find(sessions, wanted).map_err(|error| not_found(wanted, &error)),
    }
}

impl Resume {
    /// Finds the session that the flags mean and reads it. If what follows goes
    /// into its own log, the session is this process's from here on.
    pub(super) fn find(
        sessions: &Path,
        flags: &RunFlags,
        cwd: &Path,
        is_kept: bool,
    ) -> Result<Self, Refusal> {
        let from = wanted(sessions, flags, cwd)?;
        let keep = match (is_kept, flags.fork_session) {
            (false, _) => Keep::Nowhere,
            (true, true) => Keep::Copy,
            (true, false) => {
                Keep::Own(SessionLog::open_for_append(&from).map_err(|error| cannot_open(&error))?)
            }
        };
        let past = Past::read(&from).map_err(|error| cannot_open(&error))?;
        let resume = Self { past, from, keep };
        if resume.past.is_empty() && matches!(resume.keep, Keep::Copy) {
            let message = format!("there is nothing in session `{}` to copy", resume.id());
            return Err(Refusal::new(Exit::BadInput, message).hint("leave `--fork-session` out"));
        }
        resume.say_what_is_odd(cwd);
        Ok(resume)
    }

    /// Has what follows be logged behind a copy, wherever that is, if it was to be
    /// kept nowhere. Of nothing there is no copy.
    pub(super) fn logged(mut self) -> Self {
        if matches!(self.keep, Keep::Nowhere) && !self.past.is_empty() {
            self.keep = Keep::Copy;
        }
        self
    }

    /// Returns the id of the session.
    pub(super) fn id(&self) -> SessionId {
        SessionId(self.from.file_name().unwrap_or_default().to_string_lossy().into())
    }

    /// Brings to its end what is open in the session, and returns what it has
    /// come to then, and its log. A copy goes to `directory` and has this head.
    pub(super) fn begin(
        self,
        head: &SessionHead,
        directory: &Path,
    ) -> Result<(Past, Option<SessionLog>), Refusal> {
        let Self { mut past, from, keep } = self;
        let mut log = match keep {
            Keep::Own(log) => Some(log),
            Keep::Nowhere => None,
            Keep::Copy => {
                let opened = opened(head, run::now());
                let copied = SessionLog::copy(directory, &from, &opened, past.last());
                Some(copied.map_err(|error| cannot_write(&error))?)
            }
        };
        let spill = Spill { directory: directory.to_owned() };
        run::mend(&mut past, log.as_mut(), &spill).map_err(|error| cannot_write(&error))?;
        Ok((past, log))
    }

    fn say_what_is_odd(&self, cwd: &Path) {
        let bad = self.past.bad_lines();
        if bad > 0 {
            let lines = counted(bad, "line");
            super::say(&format!("warning: {lines} of the session's log cannot be read"));
        }
        if let Keep::Own(log) = &self.keep
            && let Repair::Cut { bytes } = log.repair()
        {
            super::say(&format!(
                "warning: the log's last event was half written ({bytes} bytes); it is left out"
            ));
        }
        if let Some(head) = self.past.head()
            && *head.cwd != *cwd.to_string_lossy()
        {
            let (before, now) = (&head.cwd, cwd.display());
            super::say(&format!("note: this session was in {before}; it goes on in {now}"));
        }
    }
}

/// Returns the id of a session, and its name if it has one.
pub(super) fn called(session: &SessionId, directory: &Path) -> String {
    match read_name(directory) {
        Some(name) => format!("{session} ({})", sanitise::line(name.as_str())),
        None => session.to_string(),
    }
}

/// Goes on with a session without a prompt: brings to its end what is open, and
/// prints what became of the last run.
pub(super) fn look(environment: &Environment, flags: &RunFlags) -> Result<Exit, Refusal> {
    if flags.output_format() != Format::Text {
        return Err(input::none());
    }
    let name = flags.name.as_deref().map(parse_name).transpose()?;
    let cwd = start::working_directory(environment)?;
    let (config, _) = project::config(environment, flags, Manner::Tell)?;
    let Place { session, directory, scratch, resume } =
        Place::find(environment, &config, flags, &cwd)?;
    let Some(resume) = resume else { return Err(input::none()) };
    let before = resume.past.head();
    let head = SessionHead {
        session: session.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        cwd: cwd.to_string_lossy().into(),
        model: resume.past.model().unwrap_or_default().into(),
        mode: before.map_or_else(|| "default".into(), |head| head.mode.clone()),
        forked_from: Some(resume.id()),
        sandbox: Some(sandbox::of(environment, &config).head()),
    };
    let (past, _log) = resume.begin(&head, &directory)?;
    name_session(name.as_ref(), &directory, scratch.is_none());
    let mut out = runner::stdout(false);
    let lines = report::account_lines(&called(&session, &directory), past.account());
    let written = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    let exit = session::finish(written.and_then(|()| out.flush()))?;
    super::say(&format!(
        "hint: nothing is run again by itself; `tine -r {session} -p PROMPT` goes on"
    ));
    Ok(exit)
}

fn opened(head: &SessionHead, at: UnixMillis) -> Event {
    Event {
        seq: Seq(1),
        at,
        invocation: Invocation(1),
        unit: UnitId::MAIN,
        branch: Branch::root(),
        kind: EventKind::SessionOpened(head.clone()),
    }
}

/// Returns the session of this directory in which something happened last,
/// other than those that run.
fn latest(sessions: &Path, cwd: &Path) -> Result<PathBuf, Refusal> {
    let all = list_project(sessions, cwd).map_err(|error| session::cannot_read(&error))?;
    let count = all.len();
    let is_free = |session: &SessionSummary| session.state != SessionState::Running;
    // A copy is as young as itself, and not as what it was copied from.
    let activity = |session: &SessionSummary| session.last_activity.max(session.started);
    let latest = all.into_iter().filter(is_free).max_by_key(activity);
    latest.map(|session| session.directory).ok_or_else(|| {
        let message = match count {
            0 => format!("there is no session of {} to go on with", cwd.display()),
            1 => "the only session of this directory is running".to_owned(),
            _ => format!("all {count} sessions of this directory are running"),
        };
        Refusal::new(Exit::BadInput, message)
            .hint("`tine sessions` lists all sessions, `tine -r SESSION` goes on with one")
    })
}

/// Refuses to choose a session, and lists those there are.
fn which(sessions: &Path, cwd: &Path) -> Refusal {
    let mut message = "`--resume` needs a session".to_owned();
    let latest = list_project(sessions, cwd).unwrap_or_default();
    if !latest.is_empty() {
        message.push_str("; the latest of this directory:");
    }
    for session in latest.iter().take(LISTED) {
        let state = session.state.as_str();
        let prompt = sanitise::line(&session.first_prompt);
        message.push_str(&format!("\n  {}  {state:<11}  {prompt}", session.id));
    }
    Refusal::new(Exit::Usage, message)
        .hint("`tine -r SESSION` goes on with one, `tine -c` with the latest")
}

fn not_found(wanted: &str, error: &FindError) -> Refusal {
    match error {
        FindError::None { wanted: _ } if wanted.contains(char::is_whitespace) => {
            Refusal::new(Exit::BadInput, format!("no session `{wanted}`"))
                .hint("what follows `-r` is the session; the prompt goes behind `-p`")
        }
        FindError::None { wanted: _ }
        | FindError::Ambiguous { wanted: _, candidates: _ }
        | FindError::SameName { wanted: _, candidates: _ }
        | FindError::Unreadable(_) => session::not_found(error),
    }
}

pub(super) fn cannot_open(error: &LogError) -> Refusal {
    let exit = match error {
        LogError::Locked { .. } | LogError::Version { .. } => Exit::BadInput,
        LogError::TooLong { .. } | LogError::Io { .. } => Exit::Error,
    };
    Refusal::because(exit, error)
}

fn cannot_write(error: &LogError) -> Refusal {
    Refusal::because(Exit::Error, error)
        .hint("`--no-session-persistence` goes on without writing anything")
}
