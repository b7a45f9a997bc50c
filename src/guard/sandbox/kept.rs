//! The stubs of a run: made for its first command, removed a while after its
//! last one.
//!
//! Commands come in bursts, and several at a time. If each made its own and
//! removed them, a busy disk would hold it up for longer than it runs, and
//! whoever watches the workspace would see it change with every command.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::layout::Protected;
use super::stubs::Stubs;

/// How long stubs stay after the last command: longer than a model takes from
/// one quick call to the next, too short for anybody to come and wonder.
const IDLE: Duration = Duration::from_secs(2);

/// The stubs of one run.
#[derive(Debug, Default)]
pub(super) struct Kept {
    by_root: ByRoot,
}

/// The stubs of a run, for its commands and for whoever removes them.
#[derive(Debug, Default, Clone)]
struct ByRoot(Arc<Mutex<BTreeMap<PathBuf, Entry>>>);

#[derive(Debug)]
struct Entry {
    stubs: Stubs,
    /// How many commands need them.
    users: usize,
    /// Tells whether they were needed since somebody last looked.
    uses: u64,
}

/// The stubs that a command needs, until this is dropped. A command that is cut
/// off then is gone long before its stubs are.
#[derive(Debug)]
pub(super) struct Hold {
    by_root: ByRoot,
    root: PathBuf,
    /// The empty directories among them.
    directories: Vec<PathBuf>,
}

impl Kept {
    /// Makes the stubs that are missing, for each root by itself, since other
    /// processes may share some of them. Their lists are in `directory`.
    pub(super) fn hold(&self, directory: &Path, protected: &[Protected]) -> io::Result<Vec<Hold>> {
        let by_root = protected.chunk_by(|one, next| one.root == next.root);
        by_root.map(|protected| self.by_root.hold(directory, protected)).collect()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for entry in std::mem::take(&mut *self.by_root.lock()).into_values() {
            // Whoever comes next removes what could not be.
            let _ = entry.stubs.release();
        }
    }
}

impl ByRoot {
    fn hold(&self, directory: &Path, protected: &[Protected]) -> io::Result<Hold> {
        let root = &protected.first().expect("a chunk is not empty").root;
        let mut by_root = self.lock();
        if !by_root.contains_key(root) {
            let stubs = Stubs::of(directory, root)?;
            by_root.insert(root.clone(), Entry { stubs, users: 0, uses: 0 });
        }
        let entry = by_root.get_mut(root).expect("it is there by now");
        // What was made is to be removed even if something could not be.
        entry.users += 1;
        entry.uses += 1;
        let completed = entry.stubs.complete(protected);
        let directories = entry.stubs.directories().to_vec();
        drop(by_root);
        let hold = Hold { by_root: self.clone(), root: root.clone(), directories };
        completed.map(|()| hold)
    }

    /// Removes the stubs of a root some time after they were last needed.
    fn remove_later(self, root: PathBuf) {
        let look = move || {
            while let Some(uses) = self.uses(&root) {
                thread::sleep(IDLE);
                self.remove_unless_used(&root, uses);
            }
        };
        // Without a thread they stay until the run ends.
        let _ = thread::Builder::new().spawn(look);
    }

    /// Returns how often the stubs of a root were needed; `None` if they are
    /// gone or a command needs them, which will have them removed itself.
    fn uses(&self, root: &Path) -> Option<u64> {
        self.lock().get(root).filter(|entry| entry.users == 0).map(|entry| entry.uses)
    }

    fn remove_unless_used(&self, root: &Path, uses: u64) {
        let mut by_root = self.lock();
        let is_idle = |entry: &Entry| entry.users == 0 && entry.uses == uses;
        if by_root.get(root).is_some_and(is_idle)
            && let Some(entry) = by_root.remove(root)
        {
            // Whoever comes next removes what could not be.
            let _ = entry.stubs.release();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Entry>> {
        // Every change of it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// Returns the empty directories that stand in for what is not there.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(PathBuf::as_path)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let is_last = self.by_root.lock().get_mut(&self.root).is_some_and(|entry| {
            entry.users -= 1;
            entry.users == 0
        });
        if is_last {
            self.by_root.clone().remove_later(self.root.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Stub;
    use super::*;

    #[test]
    fn stubs_are_made_once_and_go_with_the_run() {
        let place = tempfile::tempdir().unwrap();
        let (root, lists) = (place.path().join("root"), place.path().join("lists"));
        std::fs::create_dir(&root).unwrap();
        let path = root.join(".claude");
        let protected =
            [Protected { root: root.clone(), path: path.clone(), stub: Stub::Directory }];
        let kept = Kept::default();
        let hold = |kept: &Kept| kept.hold(&lists, &protected).unwrap().pop().unwrap();
        let (first, second) = (hold(&kept), hold(&kept));
        assert!(second.directories().eq([path.as_path()]));
        drop(first);
        kept.by_root.remove_unless_used(&root, 2);
        assert_eq!((kept.by_root.uses(&root), path.exists()), (None, true));
        drop(second);
        assert_eq!(kept.by_root.uses(&root), Some(2));
        kept.by_root.remove_unless_used(&root, 1);
        assert!(path.exists());
        kept.by_root.remove_unless_used(&root, 2);
        assert!(!path.exists());
        // Whatever is held, the end of the run removes.
        let third = hold(&kept);
        drop(kept);
        assert!(!path.exists());
        drop(third);
    }
}
