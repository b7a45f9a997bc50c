//! The bodies of changes: of files, and of the worktrees that units work in.

use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Text;
use super::body::text;
use crate::event::{ChangedBy, Digest, EventKind, FileChange, FileState, Seq, Worktree};
use crate::message::CallId;

#[derive(Serialize, Deserialize)]
pub(super) struct FileChangedBody<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<Text<'a>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undoes: Option<u64>,
    path: Text<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<StateBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<StateBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directories: Option<NonZeroU32>,
}

impl<'a> FileChangedBody<'a> {
    pub(super) fn of(change: &'a FileChange) -> Self {
        let FileChange { by, path, before, after, directories } = change;
        let (call, undoes) = match by {
            ChangedBy::Call(call) => (Some(text(&call.0)), None),
            ChangedBy::Undo { from } => (None, Some(from.0)),
        };
        Self {
            call,
            undoes,
            path: text(path),
            before: before.map(StateBody::of),
            after: after.map(StateBody::of),
            directories: NonZeroU32::new(*directories),
        }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        let by = match (self.call, self.undoes) {
            (Some(call), None) => ChangedBy::Call(CallId(call.into())),
            (None, Some(from)) => ChangedBy::Undo { from: Seq(from) },
            (Some(_), Some(_)) | (None, None) => {
                return Err("it needs either `call` or `undoes`".to_owned());
            }
        };
        Ok(EventKind::FileChanged(Arc::new(FileChange {
            by,
            path: self.path.into(),
            before: self.before.map(StateBody::into_state).transpose()?,
            after: self.after.map(StateBody::into_state).transpose()?,
            directories: self.directories.map_or(0, NonZeroU32::get),
        })))
    }
}

#[derive(Serialize, Deserialize)]
struct StateBody {
    blake3: String,
    mode: u32,
}

impl StateBody {
    fn of(state: FileState) -> Self {
        Self { blake3: state.digest.to_string(), mode: state.mode }
    }

    fn into_state(self) -> Result<FileState, String> {
        let digest = Digest::from_hex(&self.blake3).ok_or("`blake3` is no hash")?;
        Ok(FileState { digest, mode: self.mode })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorktreeBody<'a> {
    Made { path: Text<'a>, base: Text<'a> },
    Dropped {},
    Applied { patch: Text<'a>, files: u32 },
    Kept { path: Text<'a>, patch: Text<'a>, conflicts: Vec<Text<'a>> },
}

impl<'a> WorktreeBody<'a> {
    pub(super) fn of(worktree: &'a Worktree) -> Self {
        match worktree {
            Worktree::Made { path, base } => Self::Made { path: text(path), base: text(base) },
            Worktree::Dropped => Self::Dropped {},
            Worktree::Applied { patch, files } => {
                Self::Applied { patch: text(patch), files: *files }
            }
            Worktree::Kept { path, patch, conflicts } => Self::Kept {
                path: text(path),
                patch: text(patch),
                conflicts: conflicts.iter().map(text).collect(),
            },
        }
    }

    pub(super) fn into_worktree(self) -> Worktree {
        match self {
            Self::Made { path, base } => Worktree::Made { path: path.into(), base: base.into() },
            Self::Dropped {} => Worktree::Dropped,
            Self::Applied { patch, files } => Worktree::Applied { patch: patch.into(), files },
            Self::Kept { path, patch, conflicts } => Worktree::Kept {
                path: path.into(),
                patch: patch.into(),
                conflicts: conflicts.into_iter().map(Into::into).collect(),
            },
        }
    }
}
