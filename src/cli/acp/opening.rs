//! A session that an editor wants to open: what is checked before, and how it
//! is made ready.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    LoadSessionResponse, McpServer, NewSessionResponse, ResumeSessionResponse, SessionId,
};

use super::session::sent;
use super::{offer, past, refused};
use crate::cli::args::{GivenJson, RunFlags};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::session::root;
use crate::cli::start::{Kept, Start};
use crate::cli::{resume, said};
use crate::config::Environment;
use crate::report::acp::SoFar;

/// A session that is to be opened.
pub(super) struct Opening {
    pub(super) cwd: PathBuf,
    pub(super) directories: Vec<PathBuf>,
    pub(super) servers: Vec<McpServer>,
    pub(super) how: How,
}

/// How a session begins here.
pub(super) enum How {
    New(Responder<NewSessionResponse>),
    /// With its past.
    Load(SessionId, Responder<LoadSessionResponse>),
    /// Without being told of its past.
    Resume(SessionId, Responder<ResumeSessionResponse>),
}

/// A session that is ready.
pub(super) struct Started {
    pub(super) start: Box<Start>,
    pub(super) so_far: SoFar,
    pub(super) notes: Vec<String>,
}

impl How {
    /// Returns the session that is gone on with.
    pub(super) fn resumes(&self) -> Option<&SessionId> {
        match self {
            Self::New(_) => None,
            Self::Load(id, _) | Self::Resume(id, _) => Some(id),
        }
    }

    pub(super) fn refuse(self, refusal: &Refusal) {
        let error = refused(refusal);
        sent(match self {
            Self::New(responder) => responder.respond_with_error(error),
            Self::Load(_, responder) => responder.respond_with_error(error),
            Self::Resume(_, responder) => responder.respond_with_error(error),
        });
    }
}

impl Started {
    /// Makes a session ready in its own directory.
    pub(super) fn of(
        environment: Environment,
        flags: RunFlags,
        opening: &Opening,
        shared: Option<Kept>,
    ) -> Result<Self, Refusal> {
        let cwd = directory(&opening.cwd)?;
        let (mut environment, mut flags) = (environment, flags);
        environment.cwd = Some(cwd);
        flags.resume = opening.how.resumes().map(ToString::to_string);
        flags.add_dir.extend(opening.directories.iter().cloned());
        flags.servers.mcp_config.extend(offer::configured(&opening.servers).map(GivenJson::from));
        let (start, notes) =
            said::meanwhile(|| Start::beside_others(&environment, flags, shared).map(Box::new));
        let start = start?;
        let so_far = match opening.how {
            How::Resume(_, _) => past::so_far(&start.kit.directory),
            How::New(_) | How::Load(_, _) => SoFar::default(),
        };
        Ok(Self { start, so_far, notes })
    }
}

/// Finds what keeps a session from being opened, as far as that can be told
/// while it may still be at work here.
pub(super) fn can_be(
    environment: &Environment,
    flags: &RunFlags,
    opening: &Opening,
) -> Result<(), Refusal> {
    let cwd = directory(&opening.cwd)?;
    let Some(id) = opening.how.resumes() else { return Ok(()) };
    let flags = RunFlags { resume: Some(id.to_string()), ..flags.clone() };
    resume::wanted(&root(environment)?, &flags, &cwd).map(drop)
}

/// Returns a directory without links in its path.
fn directory(path: &Path) -> Result<PathBuf, Refusal> {
    let cannot = |why: &dyn std::fmt::Display| {
        Refusal::new(Exit::BadInput, format!("cannot work in `{}`: {why}", path.display()))
    };
    let real = path.canonicalize().map_err(|error| cannot(&error))?;
    if real.is_dir() { Ok(real) } else { Err(cannot(&"it is no directory")) }
}
