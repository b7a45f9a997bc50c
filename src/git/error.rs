//! Errors of git, and what the user can do about them.

use std::path::PathBuf;

use thiserror::Error;

use super::complaint;

/// An error of git, or the reason why there is no change to review.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GitError {
    /// The directory is in no repository.
    #[error("{} is not in a git repository", .path.display())]
    NotARepository {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is in no working tree of its repository.
    #[error("{} is in no working tree of its git repository", .path.display())]
    NoWorkingTree {
        /// The directory.
        path: PathBuf,
    },
    /// A directory looks like a repository, but git does not accept it.
    #[error("git does not recognize {} as a repository", .path.display())]
    Damaged {
        /// The `.git` directory.
        path: PathBuf,
    },
    /// The repository is empty.
    #[error("the repository has no commits and no files yet")]
    NoCommits,
    /// No commit has this name.
    #[error("no branch or commit is named `{}`", .name.escape_debug())]
    UnknownRevision {
        /// The name.
        name: String,
        /// Where it may be instead.
        elsewhere: Elsewhere,
    },
    /// The clone lacks the parent of a commit.
    #[error("the parent of commit `{commit}` is not here{}", because(*.is_shallow))]
    NoParent {
        /// The abbreviated name of the commit.
        commit: String,
        /// Whether the clone is shallow, which explains why the parent is missing.
        is_shallow: bool,
    },
    /// Two revisions have no common ancestor.
    #[error("`{}` and HEAD have no commit in common{}", .name.escape_debug(), because(*.is_shallow))]
    NothingInCommon {
        /// The revision that `HEAD` was to be compared with.
        name: String,
        /// Whether the clone is shallow, so that it may lack the common ancestor.
        is_shallow: bool,
    },
    /// Nothing differs.
    #[error("there is nothing to review: {title} is empty")]
    EmptyChange {
        /// What was looked at.
        title: String,
    },
    /// No git is installed.
    #[error("git was not found; install it or put it on the PATH")]
    GitMissing,
    /// The only git on the `PATH` is in the workspace.
    #[error("`{}` is not run, because its directory, an entry of PATH, is in the workspace; \
             put a git that is elsewhere on the PATH", .path.display())]
    GitOfWorkspace {
        /// The program.
        path: PathBuf,
    },
    /// A git command failed.
    #[error("git failed: {message}")]
    Failed {
        /// Git's own message, if it printed one.
        message: String,
    },
}

impl GitError {
    /// Returns what the user can do about it; `None` if the error itself says it or
    /// no remedy is known.
    #[must_use]
    pub fn way_out(&self) -> Option<String> {
        match self {
            Self::Failed { message } => complaint::way_out(message),
            Self::Damaged { path } => Some(format!(
                "if its `HEAD` is damaged, `GIT_DIR={} git symbolic-ref HEAD refs/heads/main` \
                 repairs it",
                path.display()
            )),
            Self::NoWorkingTree { path: _ } => {
                Some("run it in a checkout: `git worktree add ../DIR` makes one".to_owned())
            }
            Self::NotARepository { path: _ }
            | Self::NoCommits
            | Self::UnknownRevision { name: _, elsewhere: _ }
            | Self::NoParent { commit: _, is_shallow: _ }
            | Self::NothingInCommon { name: _, is_shallow: _ }
            | Self::EmptyChange { title: _ }
            | Self::GitMissing
            | Self::GitOfWorkspace { path: _ } => None,
        }
    }
}

/// Where a branch may be that this clone lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// The remote `origin` had it when it was last asked.
    Tracked,
    /// The remote `origin` may have it: it has not been fetched from.
    Remote,
    /// The clone ends before it, as it is shallow.
    Older,
    /// Nothing is known about it.
    Unknown,
}

/// Returns the reason why commits are missing, for the end of a message.
fn because(is_shallow: bool) -> &'static str {
    if is_shallow { ": the clone is shallow" } else { "" }
}
