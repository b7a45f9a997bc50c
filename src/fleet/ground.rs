//! The workspace of a slot that runs on another machine.
//!
//! The coordinator packs the state of its workspace into files ([`pack()`]). A worker
//! makes a repository of them ([`Grounds`]) and lends each slot a tree of its own
//! ([`Lane`]), which ends as a patch. What becomes of a patch at the coordinator is
//! the business of `fanout::worktree`; how files travel is not known here, only their
//! hashes.

mod lane;
mod pack;
mod room;
mod runs;
mod store;
mod stored;

use std::error::Error as StdError;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use blake3::Hash;
use tempfile::TempDir;
use thiserror::Error;

use crate::git::GitError;
use crate::git::worktree::Snapshot;

pub use lane::{Finished, Ground, Lane};
pub use pack::pack;
pub use runs::{RUNS, RunHold};
pub use store::Grounds;
pub use stored::{Content, Stored};

/// Most bytes of one file of a state: of the history, or of what is not committed.
/// Every worker fetches and keeps them; what is larger is meant for a shared disk.
pub const BUNDLE_CAP: u64 = 512 * 1024 * 1024;

/// Most bytes of a slot's patch. As many as a merge takes: it has all of it in memory.
pub const PATCH_CAP: u64 = 128 * 1024 * 1024;

/// Lengths of the names that git gives to commits.
const ID_LENGTHS: [usize; 2] = [40, 64];

/// A workspace in files, at the coordinator.
#[derive(Debug, Clone)]
pub enum Packed {
    /// It is in no repository, so nothing of it goes anywhere: slots get an empty
    /// directory, and what they leave there is dropped.
    Nothing,
    /// A state of a repository.
    State(PackedState),
}

/// The state of a repository in files.
#[derive(Debug, Clone)]
pub struct PackedState {
    /// What workers are told.
    pub names: StateNames,
    /// Those of its files that are not stored.
    pub files: Vec<PackedFile>,
    /// The state, in its repository: what patches are applied to.
    pub snapshot: Arc<Snapshot>,
    // The files go with it.
    _place: Arc<TempDir>,
}

/// A file of a state.
#[derive(Debug, Clone)]
pub struct PackedFile {
    /// What it is made of.
    pub content: Content,
    /// Its hash.
    pub hash: Hash,
    /// Where it is, as long as the state is there.
    pub path: PathBuf,
}

/// What a worker is told of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackedNames {
    /// As for [`Packed::Nothing`].
    Nothing,
    /// As for [`Packed::State`].
    State(StateNames),
}

/// What a worker is told of a repository's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateNames {
    /// The last commit of its history.
    pub commit: String,
    /// The commit that holds the state; the same one if everything is committed.
    pub base: String,
    /// What the top directory is called.
    pub name: PathBuf,
    /// Where the one who works there stands, below the top; may be empty.
    pub below: PathBuf,
    /// The hash of the file that holds the history; if the state is not that of the
    /// commit, that of a second file that builds upon it.
    pub bundles: Vec<Hash>,
}

/// Why there is no workspace for a slot, or no patch of it.
#[derive(Debug, Error)]
pub enum GroundError {
    /// The history has too many bytes.
    #[error(
        "the history of the workspace has more than {} MiB, too much for workers; work in a \
         shallow clone of it: `git clone --depth 50`", BUNDLE_CAP / 1024 / 1024
    )]
    LongHistory,
    /// What is not committed has too many bytes.
    #[error(
        "what is not committed yet in the workspace has more than {} MiB, too much for workers; \
         add what is generated or large to .gitignore, or commit it", BUNDLE_CAP / 1024 / 1024
    )]
    LargeChange,
    /// A slot changed too much.
    #[error(
        "its changes have more than {} MiB, too much to send; they are kept in {} on its worker",
        PATCH_CAP / 1024 / 1024, .kept.display()
    )]
    LargePatch {
        /// Where its files are.
        kept: PathBuf,
    },
    /// Nobody can tell what a slot changed.
    #[error("its changes cannot be read; its files are kept in {} on its worker", .kept.display())]
    Unread {
        /// Where its files are.
        kept: PathBuf,
        /// Why not.
        source: GitError,
    },
    /// What came over the network is not what a coordinator sends.
    #[error("the names of a workspace are wrong: {what}")]
    Names {
        /// Which, and how.
        what: String,
    },
    /// A file did not come.
    #[error("the file {hash} of a workspace could not be fetched")]
    Fetch {
        /// Its hash.
        hash: Hash,
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Another file came than the one that was asked for.
    #[error("the file {hash} of a workspace is damaged")]
    Damaged {
        /// The hash that it was to have.
        hash: Hash,
    },
    /// Another worker works there.
    #[error("another worker works in {}; give each its own directory", .directory.display())]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// Somebody else's files are there.
    #[error(
        "{} has other things in it; give the worker an empty directory, or one that is not there \
         yet", .directory.display()
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
    },
    /// The worker's disk is full.
    #[error(
        "there is no room in {} on its worker; make some, or start it with another `--work-dir`",
        .directory.display()
    )]
    NoRoom {
        /// The worker's directory.
        directory: PathBuf,
        /// What did not fit.
        source: Box<GroundError>,
    },
    /// Git stood in the way.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The file system did.
    #[error("{}", .path.display())]
    Io {
        /// What was read or written.
        path: PathBuf,
        /// Why it was not.
        source: io::Error,
    },
}

impl Packed {
    /// Returns what workers are told.
    #[must_use]
    pub fn names(&self) -> PackedNames {
        match self {
            Self::Nothing => PackedNames::Nothing,
            Self::State(state) => PackedNames::State(state.names.clone()),
        }
    }

    /// Returns the files that are not stored.
    #[must_use]
    pub fn files(&self) -> &[PackedFile] {
        match self {
            Self::Nothing => &[],
            Self::State(state) => &state.files,
        }
    }
}

impl StateNames {
    /// Refuses what could lead out of a worker's directory, or be taken for an option.
    fn check(&self) -> Result<(), GroundError> {
        let Self { commit, base, name, below, bundles } = self;
        let wrong = |what: String| Err(GroundError::Names { what });
        for id in [commit, base] {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if !ID_LENGTHS.contains(&id.len()) || !id.bytes().all(is_hex) {
                return wrong(format!("`{}` is no commit", id.escape_debug()));
            }
        }
        let is_plain = |path: &Path| path.components().all(|it| matches!(it, Component::Normal(_)));
        if !is_plain(name) || name.components().count() != 1 || name.as_os_str() == ".git" {
            return wrong(format!("`{}` is no name of a directory", name.display()));
        }
        if !is_plain(below) {
            return wrong(format!("`{}` is not below the top", below.display()));
        }
        let expected = if commit == base { 1 } else { 2 };
        if bundles.len() != expected {
            return wrong(format!("there are {} files, not {expected}", bundles.len()));
        }
        Ok(())
    }
}

/// The error of the file system for a path.
fn io_error(path: &Path) -> impl FnOnce(io::Error) -> GroundError {
    let path = path.to_owned();
    |source| GroundError::Io { path, source }
}

/// Runs what blocks on a thread that may.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("nothing panics beside the runtime")
}

#[cfg(test)]
mod tests;
