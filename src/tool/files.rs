//! Locks and hashes of the files that units work on.
//!
//! [`Files`] is one value for the process: a lock for each file, and who last
//! changed it. [`Seen`] belongs to one unit: which bytes it has read or
//! written. Together they let a refusal name the sibling that got in between.
//! Neither reads or writes a file's contents.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use blake3::Hash;
use tokio::sync::OwnedMutexGuard;

use crate::event::UnitId;
use crate::real_path::locate;

/// One lock and the last change for each file; one value for the process. A
/// clone shares everything.
///
/// A mutex, because every unit of the process works on the same files; it is
/// held for a look-up, never while a file is read or written.
#[derive(Debug, Default, Clone)]
pub struct Files(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    /// Only files that somebody holds or waits for.
    locks: HashMap<FileKey, Arc<tokio::sync::Mutex<()>>>,
    /// One entry for each file a unit changed: as many as there were edits.
    changes: HashMap<PathBuf, Change>,
}

/// What a file is locked by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FileKey {
    /// A file that exists: all its names share a lock.
    Node { device: u64, inode: u64 },
    /// A file that is still to be made, by its canonical directory and name.
    Name(PathBuf),
}

#[derive(Debug, Clone, Copy)]
struct Change {
    unit: UnitId,
    left: Hash,
}

/// The right to change one file; other units wait until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    /// The file itself, with every link followed.
    pub target: PathBuf,
    files: Files,
    key: FileKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Files {
    /// Waits for the lock of a file, which need not exist.
    ///
    /// # Errors
    ///
    /// The path could not be followed.
    pub async fn lock(&self, path: &Path) -> io::Result<FileLock> {
        loop {
            let target = locate(path)?;
            let key = key(&target)?;
            let lock = Arc::clone(self.registered().locks.entry(key.clone()).or_default());
            let guard = Some(lock.lock_owned().await);
            let held = FileLock { target, files: self.clone(), key, guard };
            // Whoever held the lock may have put another file in its place,
            // which has a lock of its own.
            let still = locate(path)?;
            if still == held.target && self::key(&still)? == held.key {
                return Ok(held);
            }
        }
    }

    /// Notes that `unit` left a file with these bytes.
    pub fn note_change(&self, target: &Path, unit: UnitId, left: Hash) {
        self.registered().changes.insert(target.to_owned(), Change { unit, left });
    }

    /// Returns the unit that left a file with these bytes; `None` if they came
    /// from outside.
    #[must_use]
    pub fn changed_by(&self, target: &Path, found: Hash) -> Option<UnitId> {
        let registered = self.registered();
        registered
            .changes
            .get(target)
            .filter(|change| change.left == found)
            .map(|change| change.unit)
    }

    fn registered(&self) -> MutexGuard<'_, Registered> {
        self.0.lock().expect("nothing panics while it holds the register of files")
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let mut registered = self.files.registered();
        self.guard = None;
        // A count of 1 is the register's own: nobody waits, and nobody can
        // come while the register is held.
        if registered.locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            registered.locks.remove(&self.key);
        }
    }
}

/// What one unit has seen of files. A clone shares it: it is the same unit.
///
/// A mutex, because the read-only calls of one turn run side by side.
#[derive(Debug, Default, Clone)]
pub struct Seen(Arc<Mutex<HashMap<PathBuf, Known>>>);

/// What a unit knows of one file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The bytes it last read to the end or wrote.
    pub whole: Option<Hash>,
    /// The first bytes, if it is reading them page by page.
    pub start: Option<Start>,
}

/// The first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// How many.
    pub bytes: u64,
    /// The hash of those.
    pub hash: Hash,
}

impl Seen {
    /// Notes that the unit has seen all of a file.
    pub fn note_whole(&self, target: &Path, whole: Hash) {
        let known = Known { whole: Some(whole), start: None };
        self.known().insert(target.to_owned(), known);
    }

    /// Notes that the unit has seen the first bytes of a file.
    pub fn note_start(&self, target: &Path, start: Start) {
        self.known().entry(target.to_owned()).or_default().start = Some(start);
    }

    /// Forgets what the unit knew of a file.
    pub fn forget(&self, target: &Path) {
        self.known().remove(target);
    }

    /// Returns what the unit knows of a file.
    #[must_use]
    pub fn of(&self, target: &Path) -> Known {
        self.known().get(target).copied().unwrap_or_default()
    }

    /// Returns a copy for another unit: a fork goes on from its parent's
    /// conversation, so it has seen what its parent had seen.
    #[must_use]
    pub fn for_fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.known().clone())))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.0.lock().expect("nothing panics while it holds what a unit has seen")
    }
}

fn key(target: &Path) -> io::Result<FileKey> {
    match target.metadata() {
        Ok(metadata) => Ok(FileKey::Node { device: metadata.dev(), inode: metadata.ino() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(FileKey::Name(target.to_owned()))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use futures_util::FutureExt;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        (place, root)
    }

    #[tokio::test]
    async fn all_names_of_one_file_share_one_lock() {
        let (_place, root) = place();
        std::fs::write(root.join("a"), "").unwrap();
        std::fs::hard_link(root.join("a"), root.join("hard")).unwrap();
        symlink("a", root.join("soft")).unwrap();
        let files = Files::default();
        let held = files.lock(&root.join("a")).await.unwrap();
        std::fs::create_dir(root.join("x")).unwrap();
        for name in ["a", "hard", "soft", "x/../a"] {
            assert!(files.lock(&root.join(name)).now_or_never().is_none(), "{name} was free");
        }
        drop(held);
        assert!(files.lock(&root.join("hard")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_file_that_is_still_to_be_made_is_locked_by_its_name() {
        let (_place, root) = place();
        symlink("new", root.join("soft")).unwrap();
        let files = Files::default();
        let held = files.lock(&root.join("new")).await.unwrap();
        assert_eq!(held.target, root.join("new"));
        assert!(files.lock(&root.join("soft")).now_or_never().is_none());
        assert!(files.lock(&root.join("other")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waited_while_the_file_was_replaced_gets_the_lock_of_the_new_file() {
        let (_place, root) = place();
        let path = root.join("a");
        std::fs::write(&path, "old").unwrap();
        std::fs::write(root.join("b"), "new").unwrap();
        let files = Files::default();
        let held = files.lock(&path).await.unwrap();
        let mut waiting = Box::pin(files.lock(&path));
        assert!(waiting.as_mut().now_or_never().is_none());
        std::fs::rename(root.join("b"), &path).unwrap();
        let newcomer = files.lock(&path).now_or_never().unwrap().unwrap();
        drop(held);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(newcomer);
        let second = waiting.await.unwrap();
        assert!(files.lock(&path).now_or_never().is_none());
        drop(second);
    }

    #[tokio::test]
    async fn locks_nobody_holds_take_no_memory() {
        let (_place, root) = place();
        let files = Files::default();
        for number in 0..100 {
            drop(files.lock(&root.join(number.to_string())).await.unwrap());
        }
        assert_eq!(files.registered().locks.len(), 0);
    }

    #[test]
    fn a_change_is_put_down_to_a_unit_only_while_its_bytes_are_there() {
        let files = Files::default();
        let (path, left) = (Path::new("/a"), blake3::hash(b"left"));
        files.note_change(path, UnitId(3), left);
        assert_eq!(files.changed_by(path, left), Some(UnitId(3)));
        assert_eq!(files.changed_by(path, blake3::hash(b"other")), None);
        assert_eq!(files.changed_by(Path::new("/b"), left), None);
    }

    #[test]
    fn a_fork_has_seen_what_its_parent_had_seen_and_then_goes_its_own_way() {
        let parent = Seen::default();
        let (path, whole) = (Path::new("/a"), blake3::hash(b"a"));
        parent.note_whole(path, whole);
        let (same, fork) = (parent.clone(), parent.for_fork());
        parent.forget(path);
        assert_eq!((same.of(path).whole, fork.of(path).whole), (None, Some(whole)));
    }
}
