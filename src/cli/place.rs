//! Where a run's session is kept: a new one, one that is gone on with, or
//! nowhere.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uuid::Uuid;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::resume::{self, Keep, Resume};
use super::start::no_home;
use crate::config::{Config, Environment, dirs};
use crate::event::SessionId;
use crate::session::dirs::{LOG, session_directory};
use crate::session::{SessionLog, SessionName, write_name};

/// A session and where it is kept.
pub(super) struct Place {
    /// Its id.
    pub(super) session: SessionId,
    /// Where its log and its files go.
    pub(super) directory: PathBuf,
    /// That directory, if the session is not to be kept; removed with this
    /// value.
    pub(super) scratch: Option<TempDir>,
    /// What is gone on with, if it began before.
    pub(super) resume: Option<Resume>,
}

impl Place {
    /// Finds the session that the flags mean, or a place for a new one.
    pub(super) fn find(
        environment: &Environment,
        config: &Config,
        flags: &RunFlags,
        cwd: &Path,
    ) -> Result<Self, Refusal> {
        resume::check(flags)?;
        let is_kept = config.session.persist && !flags.no_session_persistence;
        let sessions = || dirs::sessions_root(environment).map_err(|_| no_home());
        let resume = match resume::is_wanted(flags) {
            true => Some(Resume::find(&sessions()?, flags, cwd, is_kept)?),
            false => None,
        };
        let session = match &resume {
            Some(resume) if !flags.fork_session => resume.id(),
            Some(_) | None => new_id(flags),
        };
        if !is_kept {
            let scratch = tempfile::tempdir().map_err(|error| {
                Refusal::new(Exit::Error, format!("cannot make a temporary directory: {error}"))
            })?;
            let directory = scratch.path().to_owned();
            return Ok(Self { session, directory, scratch: Some(scratch), resume });
        }
        let directory = match &resume {
            Some(Resume { from, keep: Keep::Own(_), .. }) => from.clone(),
            Some(_) | None => session_directory(&sessions()?, cwd, &session),
        };
        let is_new = !matches!(&resume, Some(Resume { keep: Keep::Own(_), .. }));
        if is_new && directory.join(LOG).exists() {
            let message = format!("there is a session `{session}` already");
            return Err(Refusal::new(Exit::BadInput, message).hint("choose another `--session-id`"));
        }
        Ok(Self { session, directory, scratch: None, resume })
    }
}

/// Starts the log of a new session.
pub(super) fn create_log(directory: &Path) -> Result<SessionLog, Refusal> {
    SessionLog::create(directory).map_err(|error| {
        Refusal::because(Exit::Error, &error).hint("`--no-session-persistence` runs without a log")
    })
}

/// Gives a session the name that was asked for, if any.
pub(super) fn name_session(name: Option<&SessionName>, directory: &Path, is_kept: bool) {
    let Some(name) = name else { return };
    if !is_kept {
        super::say(&"note: the session is not kept, and neither is its name");
    } else if let Err(error) = write_name(directory, name) {
        let error = Refusal::because(Exit::Error, &error).message;
        super::say(&format!("warning: the session has no name: {error}"));
    }
}

fn new_id(flags: &RunFlags) -> SessionId {
    let id = flags.session_id.unwrap_or_else(Uuid::new_v4);
    SessionId(id.hyphenated().to_string().into())
}
