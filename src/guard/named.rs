//! The files that git's configuration names in a workspace, listed once.
//!
//! Hooks, included configuration and the scripts that git runs are as good as
//! `.git/hooks`: see [`crate::git::named_files`]. The listing takes git some
//! milliseconds, so it is made for the first edit or command that needs it. A setting
//! that an approved command changes afterwards counts from the next session on.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::shell::Machine;

/// The files that git's configuration names in one workspace.
#[derive(Debug, Default)]
pub(super) struct GitConfigFiles {
    /// `None` where no git is known; then nothing is named.
    machine: Option<Arc<Machine>>,
    listed: OnceLock<Vec<PathBuf>>,
}

impl GitConfigFiles {
    /// Prepares to ask the git of this machine.
    pub(super) fn asking(machine: &Arc<Machine>) -> Self {
        Self { machine: Some(Arc::clone(machine)), listed: OnceLock::new() }
    }

    /// Returns the files and directories that are named in the repositories of these
    /// directories. No link is in them, and not each of them exists.
    pub(super) fn files(&self, roots: &[PathBuf]) -> &[PathBuf] {
        let Some(machine) = &self.machine else { return &[] };
        self.listed.get_or_init(|| {
            let mut files: Vec<PathBuf> =
                roots.iter().flat_map(|root| machine.files_named_by_git(root)).collect();
            files.sort();
            files.dedup();
            files
        })
    }
}
