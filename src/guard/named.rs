//! The files that git's configuration names in a workspace.
//!
//! Hooks, included configuration and the scripts that git runs are as good as
//! `.git/hooks`: see [`crate::git::named_files`]. The listing takes git some
//! milliseconds, so it is made for the first edit or command that needs it. A setting
//! that an approved command changes afterwards counts from the next session on. An
//! incomplete listing counts for one decision only: the next one asks git again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::run_later;
use super::shell::Machine;
use crate::git::{KnownVersions, NamedFiles};

/// The files that git's configuration names in one workspace.
#[derive(Debug, Default)]
pub(super) struct GitConfigFiles {
    /// `None` where no git is known; then nothing is named.
    machine: Option<Arc<Machine>>,
    complete: OnceLock<Vec<PathBuf>>,
    /// The last listing, if it was incomplete.
    incomplete: Mutex<Option<IncompleteListing>>,
    /// Shared with the policies of copies: there, other commands run at the same time.
    versions: Arc<OnceLock<KnownVersions>>,
}

/// A listing that may lack files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IncompleteListing {
    /// The files that are known.
    pub(super) files: Vec<PathBuf>,
    /// The reason why there may be more.
    pub(super) why: String,
}

impl GitConfigFiles {
    /// Prepares to ask the git of this machine.
    pub(super) fn asking(machine: &Arc<Machine>) -> Self {
        Self { machine: Some(Arc::clone(machine)), ..Self::default() }
    }

    /// Returns the same, with the committed versions of the workspace that `other` is for.
    pub(super) fn with_versions_of(self, other: &Self) -> Self {
        Self { versions: Arc::clone(&other.versions), ..self }
    }

    /// Returns the committed versions of files that other programs run later, as they were
    /// before the first command.
    pub(super) fn versions(&self, root: &Path) -> Option<KnownVersions> {
        let machine = self.machine.as_ref()?;
        let list = || machine.versions_in_git(root, &run_later::kept_names());
        Some(self.versions.get_or_init(list).clone())
    }

    /// Returns the files and directories that are named in the repositories of these
    /// directories. No link is in them, and not each of them exists.
    ///
    /// # Errors
    ///
    /// Git cannot list all of them.
    pub(super) fn files(&self, roots: &[PathBuf]) -> Result<&[PathBuf], IncompleteListing> {
        let Some(machine) = &self.machine else { return Ok(&[]) };
        if let Some(files) = self.complete.get() {
            return Ok(files);
        }
        // Held while git runs: decisions at the same time wait for one listing.
        let mut incomplete = self.incomplete();
        if let Some(known) = &*incomplete {
            return Err(known.clone());
        }
        let (mut files, mut why) = (Vec::new(), None);
        for root in roots {
            let NamedFiles { files: named, why_not_all } = machine.files_named_by_git(root);
            files.extend(named);
            why = why.or(why_not_all);
        }
        files.sort();
        files.dedup();
        match why {
            None => Ok(self.complete.get_or_init(|| files)),
            Some(why) => {
                let listing = IncompleteListing { files, why };
                *incomplete = Some(listing.clone());
                Err(listing)
            }
        }
    }

    /// Forgets an incomplete listing, so that git is asked again when it is needed.
    pub(super) fn retry(&self) {
        if self.complete.get().is_none() {
            *self.incomplete() = None;
        }
    }

    fn incomplete(&self) -> MutexGuard<'_, Option<IncompleteListing>> {
        // A listing is put in whole.
        self.incomplete.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IncompleteListing {
    /// Returns the reason to ask about what may change a file that git runs.
    pub(super) fn reason(&self) -> String {
        let Self { files: _, why } = self;
        format!("git cannot list all files that its configuration runs or obeys here ({why})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::program;

    #[test]
    fn an_incomplete_listing_is_made_again_and_a_complete_one_is_not() {
        let place = tempfile::tempdir().unwrap();
        let roots = [place.path().canonicalize().unwrap()];
        let git = roots[0].join(".git");
        for directory in ["objects", "refs"] {
            std::fs::create_dir_all(git.join(directory)).unwrap();
        }
        let set = |text: &str| std::fs::write(git.join("config"), text).unwrap();
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let machine = Arc::new(Machine::new("".as_ref(), None, &roots, program()));
        let named = GitConfigFiles::asking(&machine);
        set("[core]\nhooksPath = hooks\n[broken");
        assert!(named.files(&roots).is_err());
        set("[core]\nhooksPath = hooks\n");
        assert!(named.files(&roots).is_err(), "one decision asks git once");
        named.retry();
        assert!(named.files(&roots).unwrap().contains(&roots[0].join("hooks")));
        set("[broken");
        named.retry();
        assert!(named.files(&roots).is_ok());
    }
}
