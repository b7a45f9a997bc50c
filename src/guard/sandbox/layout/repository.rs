//! The repository around a workspace, for commands to read.
//!
//! A sandbox has a `/tmp` and a `/run` of its own. If a repository is below one
//! of them, git needs parts of it that are outside of the workspace: the top of
//! the working tree, the directory that worktrees share, borrowed objects. All
//! of these become read-only views; this file makes nothing writable.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::bubblewrap::MOUNTED;
use super::{Layout, View, is_too_wide, linked};

/// Maximum number of repositories that borrow from each other in a row; git
/// itself follows as many.
const BORROWING_CAP: usize = 5;

impl Layout {
    /// Shows what git needs of the repository that `root` is in.
    pub(super) fn show_repository(&mut self, root: &Path, home: Option<&Path>) {
        let has_git = |directory: &&Path| directory.join(".git").symlink_metadata().is_ok();
        let Some(top) = root.ancestors().find(has_git) else { return };
        let git = top.join(".git");
        // Git refuses a repository of another user, so it is not shown.
        if top != root && is_of_same_owner(&git, root) && !is_too_wide(top, home) {
            self.show(top);
        }
        let directory = match linked(top, &git) {
            Some((_, common)) => {
                // Writes to a directory that exists only in the sandbox would be lost.
                // With the read-only original in its place, they fail.
                if common.ends_with(".git")
                    && let Some(original) = common.parent()
                    && !is_too_wide(original, home)
                {
                    self.show(original);
                }
                Some(common)
            }
            None => separate(top, &git).filter(|directory| is_of_same_owner(directory, &git)),
        };
        if let Some(directory) = directory {
            self.show(&directory);
            self.show_borrowed(&directory.join("objects"));
        }
    }

    /// Shows the objects that others are borrowed from.
    fn show_borrowed(&mut self, objects: &Path) {
        let mut borrowing = vec![objects.to_owned()];
        for _ in 0..BORROWING_CAP {
            let lenders = borrowing.iter().flat_map(|objects| lenders(objects));
            let lenders: Vec<PathBuf> =
                lenders.filter(|at| is_of_same_owner(at, objects)).collect();
            lenders.iter().for_each(|lender| self.show(lender));
            borrowing = lenders;
        }
    }

    /// Makes a path readable, unless it is already visible or hidden, or contains a
    /// directory that the sandbox replaces.
    fn show(&mut self, path: &Path) {
        let Ok(path) = path.canonicalize() else { return };
        let is_known = path.ancestors().any(|above| self.views.contains_key(above));
        let is_wide = MOUNTED.iter().any(|mounted| Path::new(mounted).starts_with(&path));
        if !is_known && !is_wide {
            self.views.insert(path, View::ReadOnly);
        }
    }
}

/// Returns the directory of a repository that no worktree is linked to: `.git`
/// itself, or where it leads, as for submodules.
fn separate(top: &Path, git: &Path) -> Option<PathBuf> {
    let found = git.symlink_metadata().ok()?;
    let directory = if found.is_file() {
        let text = fs::read_to_string(git).ok()?;
        top.join(text.trim_end().strip_prefix("gitdir: ")?)
    } else {
        git.to_owned()
    };
    let directory = directory.canonicalize().ok()?;
    let is_repository = directory.join("HEAD").is_file()
        && ["objects", "refs"].iter().all(|name| directory.join(name).is_dir());
    is_repository.then_some(directory)
}

/// Returns the directories of objects that one borrows from. A command may have
/// written the list, so what is no such directory is left out.
fn lenders(objects: &Path) -> Vec<PathBuf> {
    let listed = fs::read_to_string(objects.join("info/alternates")).unwrap_or_default();
    let lines = listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lenders = lines.filter_map(|line| objects.join(line).canonicalize().ok());
    let is_of_objects = |path: &PathBuf| {
        path.ends_with("objects") && ["info", "pack"].iter().all(|name| path.join(name).is_dir())
    };
    lenders.filter(is_of_objects).take(BORROWING_CAP).collect()
}

fn is_of_same_owner(one: &Path, other: &Path) -> bool {
    let owner = |path: &Path| path.symlink_metadata().map(|found| found.uid()).ok();
    owner(one).is_some_and(|uid| owner(other) == Some(uid))
}
