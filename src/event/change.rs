//! What a unit does to files, and to the worktree it works in.

use std::fmt;
use std::sync::Arc;

use super::Seq;
use crate::message::CallId;

/// A change of one file that is about to be made. It is on disk in the log
/// before the file changes, so a crash never hides one; whether it was made
/// after all, the file itself says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Who makes it.
    pub by: ChangedBy,
    /// The file itself, absolute, every link followed, as text of `path_text`. If
    /// it is a symbolic link that changes, the links of its directory alone.
    pub path: Arc<str>,
    /// What it holds before; `None` if there is no file.
    pub before: Option<FileState>,
    /// What it holds afterwards; `None` if there is none any more.
    pub after: Option<FileState>,
    /// How many of the directories above it are made for it.
    pub directories: u32,
}

/// Who changes a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedBy {
    /// A call of the unit.
    Call(CallId),
    /// The user, who takes back what became of the file from this event on.
    Undo {
        /// The first change that is taken back.
        from: Seq,
    },
}

/// Mode of a symbolic link, as git records it.
pub const LINK_MODE: u32 = 0o120_000;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Names its bytes; for a symbolic link, those of the path it leads to.
    pub digest: Digest,
    /// Its permission bits, or [`LINK_MODE`]. Of a file that is still to be made
    /// they are what is asked for; the process's mask may take some away.
    pub mode: u32,
}

impl FileState {
    /// Returns the state of a symbolic link that leads to the path `to`.
    #[must_use]
    pub fn of_link(to: &[u8]) -> Self {
        Self { digest: Digest::of(to), mode: LINK_MODE }
    }

    /// Returns whether it is a symbolic link.
    #[must_use]
    pub fn is_link(self) -> bool {
        self.mode == LINK_MODE
    }
}

/// The BLAKE3 hash of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// Reads what `Display` writes.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(hash.into()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

/// What becomes of a unit's own worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worktree {
    /// It was made, and the unit works in it.
    Made {
        /// Its directory.
        path: Arc<str>,
        /// The commit that holds the state it began with.
        base: Arc<str>,
    },
    /// Nothing was changed in it, so it is gone.
    Dropped,
    /// What was changed in it is in the workspace now, and it is gone.
    Applied {
        /// The file that holds the patch.
        patch: Arc<str>,
        /// How many files were changed.
        files: u32,
    },
    /// It is still there.
    Kept {
        /// Its directory.
        path: Arc<str>,
        /// The file that holds what was changed in it, as a patch.
        patch: Arc<str>,
        /// The files in which the workspace has other changes at the same
        /// places, so that nothing was put there; empty if that was never
        /// tried.
        conflicts: Vec<Arc<str>>,
    },
}
