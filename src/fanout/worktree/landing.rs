//! How the change of a unit that worked on another machine gets into the workspace.
//!
//! It came as a patch against the state that the unit began with. A worktree of that
//! state is made for it here, the patch is applied to it, and from then on it is as if
//! the unit had worked there: one way to merge, to refuse, to keep and to tell.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;
use tokio_util::sync::CancellationToken;

use super::{NotMade, OwnTree, Wanted, Worktrees, beside};
use crate::event::{Outcome, Worktree};
use crate::git::GitError;
use crate::git::worktree::Snapshot;
use crate::line::Told;
use crate::path_text::to_text;
use crate::tool::ToolContext;

/// What a unit on another machine has left.
pub struct Landing<'a> {
    /// Whose change it is, and where it goes. Making room for it is not cut short:
    /// what a cancelled unit did is kept like that of any other.
    pub wanted: Wanted<'a>,
    /// The state that it began with.
    pub snapshot: Arc<Snapshot>,
    /// What it changed, as git writes it; `None` if nothing.
    pub patch: Option<Vec<u8>>,
    /// Whether it was asked to work in a worktree of its own.
    pub is_isolated: bool,
    /// In the parent's workspace, with the unit's line.
    pub context: &'a ToolContext,
    /// How it ended.
    pub outcome: &'a Outcome,
}

/// Why a unit's change is not where it belongs.
#[derive(Debug, Error)]
#[error("{why}; none of its changes is in the workspace, {kept}")]
pub struct NotLanded {
    why: String,
    /// Where they are instead.
    kept: String,
}

impl Worktrees {
    /// Lands what a unit left, tells of it, and returns the note for whoever reads of
    /// the unit's end. There is none for one that changed nothing and was not asked to
    /// work apart.
    ///
    /// Not to be dropped half-way, as for a local worktree.
    ///
    /// # Errors
    ///
    /// There can be no worktree, or the patch does not fit the state it is said to be
    /// of. The patch is in a file then, which the error names.
    pub async fn land(&self, landing: Landing<'_>) -> Result<Option<String>, NotLanded> {
        let Landing { wanted, snapshot, patch, is_isolated, context, outcome } = landing;
        let Some(patch) = patch else {
            if !is_isolated {
                return Ok(None);
            }
            wanted.line.tell(Told::Worktree(Worktree::Dropped)).await;
            let note = include_str!("../../../prompts/worktree_dropped.md").trim_end();
            return Ok(Some(note.to_owned()));
        };
        let file =
            wanted.place.workspace.spill.directory.join(format!("{}.patch", context.line.unit()));
        let never = CancellationToken::new();
        let wanted = Wanted { cancel: &never, ..wanted };
        let own = match self.make_at(&wanted, Some(snapshot)).await {
            Ok(own) => own,
            Err(NotMade::Cancelled) => unreachable!("nobody else has the token"),
            Err(NotMade::Failed(why)) => {
                return Err(beside(move || not_landed(why, &patch, &file)).await);
            }
        };
        let (own, patch, applied) = applied(own, patch).await;
        if let Err(error) = applied {
            self.remove(own, wanted.line).await;
            let why = format!("its patch cannot be applied to what it began with: {error}");
            return Err(beside(move || not_landed(why, &patch, &file)).await);
        }
        own.tell_made(wanted.line).await;
        Ok(Some(self.end(own, context, outcome).await))
    }
}

async fn applied(own: OwnTree, patch: Vec<u8>) -> (OwnTree, Vec<u8>, Result<(), GitError>) {
    beside(move || {
        let applied = own.linked.apply(&patch);
        (own, patch, applied)
    })
    .await
}

/// Keeps a patch in a file, for the user alone.
fn not_landed(why: String, patch: &[u8], file: &Path) -> NotLanded {
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(file.parent().unwrap_or(file))?;
        let mut private = OpenOptions::new();
        private.write(true).create(true).truncate(true).mode(0o600);
        private.open(file)?.write_all(patch)
    };
    let kept = match write() {
        Ok(()) => format!("they are kept in the patch {}", to_text(file)),
        Err(error) => format!("and they are lost: cannot write {}: {error}", to_text(file)),
    };
    NotLanded { why, kept }
}

#[cfg(test)]
mod tests;
