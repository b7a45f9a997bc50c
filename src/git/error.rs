//! Why git did not do what it was asked, and the way out.

use std::path::PathBuf;

use thiserror::Error;

use super::complaint;

/// Why there is no change to look at.
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
    /// There is something that looks like a repository, and git passes over it.
    #[error("git does not take {} for a repository", .path.display())]
    Damaged {
        /// Its own directory.
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
    /// A commit says that it has a parent, and that one is not here.
    #[error("the parent of commit `{commit}` is not here{}", because(*.is_shallow))]
    NoParent {
        /// The commit, as short as people name it.
        commit: String,
        /// Whether the clone was made without it.
        is_shallow: bool,
    },
    /// Two lines of commits never meet.
    #[error("`{}` and HEAD have no commit in common{}", .name.escape_debug(), because(*.is_shallow))]
    NothingInCommon {
        /// What was to be compared with.
        name: String,
        /// Whether they may meet in what the clone was made without.
        is_shallow: bool,
    },
    /// Nothing differs.
    #[error("there is nothing to review: {title} is empty")]
    EmptyChange {
        /// What was looked at.
        title: String,
    },
    /// There is no git.
    #[error("git was not found; install it or put it on the PATH")]
    GitMissing,
    /// The only git is one that the workspace holds.
    #[error("{} is not run, because it is in the workspace; put another git on the PATH", .path.display())]
    GitOfWorkspace {
        /// The program.
        path: PathBuf,
    },
    /// Git did not do what it was asked.
    #[error("git failed: {message}")]
    Failed {
        /// In git's words where it said something.
        message: String,
    },
}

impl GitError {
    /// Returns what a person can do about it where git's own words tell; `None`
    /// for what the error itself says.
    #[must_use]
    pub fn way_out(&self) -> Option<String> {
        match self {
            Self::Failed { message } => complaint::way_out(message),
            Self::Damaged { path } => Some(format!(
                "if its `HEAD` is damaged, `GIT_DIR={} git symbolic-ref HEAD refs/heads/main` \
                 mends it",
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

/// Where a branch may be that is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// The remote `origin` had it when it was last asked.
    Tracked,
    /// The remote `origin` may have it: nobody has asked.
    Remote,
    /// The clone ends before it, as it is shallow.
    Older,
    /// There is no more to be said.
    Unknown,
}

/// Says why commits are missing.
fn because(is_shallow: bool) -> &'static str {
    if is_shallow { ": the clone is shallow" } else { "" }
}
