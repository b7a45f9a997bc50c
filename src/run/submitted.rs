//! What hooks hear of the user: that a session begins and ends, and what is
//! asked for in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::agent::{Hooked, Opening};
use crate::event::{Outcome, UnitId};
use crate::guard::Mode;
use crate::hook::{Hooks, Source, UNAWAITED_GRACE, Who};
use crate::line::Line;

/// What of a session's beginning and end hooks hear in a run: a session may
/// have more runs than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Boundaries {
    /// How it begins with the first prompt of the run; `None` if it began
    /// before.
    pub begins: Option<Source>,
    /// Whether it ends with the run.
    pub ends: bool,
}

/// Speaks to hooks for main.
pub(super) struct Voice {
    pub(super) hooks: Arc<Hooks>,
    pub(super) line: Line,
    pub(super) mode: Mode,
    pub(super) directory: PathBuf,
}

impl Voice {
    /// Says that the session ends. Once it `is_cancelled` nobody waits for what
    /// nobody has waited for before.
    pub(super) async fn said(&self, reason: &str, is_cancelled: bool) {
        let grace = if is_cancelled { Duration::ZERO } else { UNAWAITED_GRACE };
        // The end is told also after a cancel; it has a limit of its own.
        self.hooked(&CancellationToken::new()).session_ends(reason, grace).await;
    }

    fn hooked<'a>(&'a self, cancel: &'a CancellationToken) -> Hooked<'a> {
        let (mode, cwd) = (self.mode.as_str(), self.directory.as_path());
        let who = Who { unit: UnitId::MAIN, agent: "main", mode, cwd };
        Hooked { hooks: &self.hooks, line: &self.line, cancel, who }
    }
}

/// Something that the user asks for.
pub(super) struct Submitted {
    pub(super) voice: Voice,
    pub(super) cancel: CancellationToken,
    /// What was typed.
    pub(super) typed: Arc<str>,
    /// How the session begins with it, if it does.
    pub(super) begins: Option<Source>,
    /// Who is to answer.
    pub(super) model: Arc<str>,
}

impl Submitted {
    /// Has hooks hear of what an opening asks for, and returns it with what they
    /// add.
    ///
    /// # Errors
    ///
    /// The outcome of main: they do not let it begin, or it was cancelled.
    pub(super) async fn heard(
        submitted: Option<Self>,
        mut opening: Opening,
    ) -> Result<Opening, Outcome> {
        if let (Some(submitted), Some(request)) = (submitted, opening.request_mut()) {
            *request = submitted.to(request).await?;
        }
        Ok(opening)
    }

    /// Has hooks hear of it, and returns the message with what they add.
    ///
    /// # Errors
    ///
    /// As for [`Submitted::heard`].
    pub(super) async fn to(&self, message: &str) -> Result<Arc<str>, Outcome> {
        let begins = self.begins.map(|source| (source, &*self.model));
        self.voice.hooked(&self.cancel).submitted(begins, &self.typed, message).await
    }
}
