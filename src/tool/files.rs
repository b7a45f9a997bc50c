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

use super::contents::Contents;
use super::roots::{Roots, Spot, is_swapped};

/// Most looks at where a path leads. One that leads elsewhere each time is
/// changed by somebody who does nothing else.
const LOOKS_CAP: usize = 1_000;

/// Most characters of what a unit is called.
const NAME_CAP: usize = 40;

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
    /// What the units that work here are called by those who started them.
    names: HashMap<UnitId, String>,
    /// How often anything may have been changed.
    touches: u64,
    /// Number of times that a merge into a workspace has begun or ended.
    merges: u64,
    /// Held by the one that gathers several locks.
    gathering: Arc<tokio::sync::Mutex<()>>,
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
    /// Its directory, held, and its name; `None` if the directory is missing.
    pub spot: Option<Spot>,
    files: Files,
    key: FileKey,
    guard: Option<OwnedMutexGuard<()>>,
}

/// Why files are not locked.
#[derive(Debug)]
pub enum LockError {
    /// The path at this index could not be followed.
    Path(usize, io::Error),
    /// The paths at these indices lead to the same file.
    Same(usize, usize),
}

/// Where a path leads just now.
struct Found {
    target: PathBuf,
    spot: Option<Spot>,
    key: FileKey,
}

impl Files {
    /// Waits for the lock of a file, which need not exist.
    ///
    /// # Errors
    ///
    /// The path could not be followed, or leads elsewhere at every look.
    pub async fn lock(&self, roots: &Roots, path: &Path) -> io::Result<FileLock> {
        let lock = self.lock_beside(roots, path, &[]).await?;
        Ok(lock.expect("no other lock is held"))
    }

    /// Waits for the locks of several files, in the order of their paths.
    ///
    /// # Errors
    ///
    /// As for [`Files::lock`], or two paths lead to one file.
    pub async fn lock_all(
        &self,
        roots: &Roots,
        paths: &[PathBuf],
    ) -> Result<Vec<FileLock>, LockError> {
        // Whoever has one lock and waits for another could wait for somebody
        // who waits for it. So one call at a time does that: all others that
        // hold locks hold all that they need, and will give them back.
        let gathering = Arc::clone(&self.registered().gathering);
        let _one_at_a_time = match paths {
            [] | [_] => None,
            [_, _, ..] => Some(gathering.lock().await),
        };
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.sort_by_key(|&index| &paths[index]);
        let mut locks: Vec<FileLock> = Vec::with_capacity(paths.len());
        for (at, &index) in order.iter().enumerate() {
            let lock = self.lock_beside(roots, &paths[index], &locks).await;
            match lock.map_err(|error| LockError::Path(index, error))? {
                Ok(lock) => locks.push(lock),
                Err(held) => {
                    let (other, own) = (order[held], order[at]);
                    return Err(LockError::Same(other.min(own), other.max(own)));
                }
            }
        }
        let mut placed: Vec<(usize, FileLock)> = order.into_iter().zip(locks).collect();
        placed.sort_by_key(|(index, _)| *index);
        Ok(placed.into_iter().map(|(_, lock)| lock).collect())
    }

    /// Waits for a lock; the inner error is the index of the held one that is
    /// the same.
    async fn lock_beside(
        &self,
        roots: &Roots,
        path: &Path,
        held: &[FileLock],
    ) -> io::Result<Result<FileLock, usize>> {
        for _ in 0..LOOKS_CAP {
            let Some(Found { target, spot: _, key }) = look(roots, path)? else { continue };
            if let Some(same) = held.iter().position(|lock| lock.key == key) {
                return Ok(Err(same));
            }
            let lock = Arc::clone(self.registered().locks.entry(key.clone()).or_default());
            let guard = Some(lock.lock_owned().await);
            let mut lock = FileLock { target, spot: None, files: self.clone(), key, guard };
            // Whoever held the lock may have put another file in its place,
            // which has a lock of its own.
            let Some(still) = look(roots, path)? else { continue };
            if still.target == lock.target && still.key == lock.key {
                lock.spot = still.spot;
                return Ok(Ok(lock));
            }
        }
        Err(io::Error::other("its path leads elsewhere at every look"))
    }

    /// Notes that files may have been changed, by whatever a unit did.
    pub fn note_touch(&self) {
        self.registered().touches += 1;
    }

    /// Returns how often files may have been changed: for as long as it is the same,
    /// no unit of this process has.
    #[must_use]
    pub fn touches(&self) -> u64 {
        self.registered().touches
    }

    /// Notes what a unit is called. The text comes from a model.
    pub fn note_name(&self, unit: UnitId, name: &str) {
        let words: Vec<&str> = name.split_whitespace().collect();
        let name = words.join(" ").chars().take(NAME_CAP).collect();
        self.registered().names.insert(unit, name);
    }

    /// Returns a unit with what it is called, as other units read it.
    #[must_use]
    pub fn called(&self, unit: UnitId) -> String {
        match self.registered().names.get(&unit) {
            Some(name) if !name.is_empty() => format!("{unit} ({name})"),
            Some(_) | None => unit.to_string(),
        }
    }

    /// Records that the merge of a worktree into a workspace begins, or that it has ended.
    pub fn note_merge(&self) {
        self.registered().merges += 1;
    }

    /// Returns how often [`note_merge`](Self::note_merge) was called: an odd number while a
    /// merge is under way, since merges come one after the other.
    #[must_use]
    pub fn merges(&self) -> u64 {
        self.registered().merges
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

    /// Forgets who changed a file that is gone.
    pub fn note_deleted(&self, target: &Path) {
        self.registered().changes.remove(target);
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

impl Known {
    /// Tells whether it is still so.
    #[must_use]
    pub fn is_current(self, bytes: &Contents) -> bool {
        let start = self.start.is_some_and(|start| {
            let length = usize::try_from(start.bytes).unwrap_or(usize::MAX);
            bytes.get(..length).is_some_and(|first| blake3::hash(first) == start.hash)
        });
        start || self.whole.is_some_and(|whole| whole == bytes.hash())
    }
}

impl Seen {
    /// Notes that a unit changed a part of a file: it knows its own change and
    /// need not read the file again for that.
    pub fn note_part(&self, target: &Path, before: &Contents, after: &Contents) {
        let known = self.of(target);
        if known.whole.is_some_and(|whole| whole == before.hash()) {
            self.note_whole(target, after.hash());
        } else if known.is_current(before) {
            // It had read a part: the hash of that is worth nothing now.
            self.forget(target);
        }
    }

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

    /// Returns a copy for a unit that continues the conversation. `place` returns the new
    /// path of a file that was moved meanwhile; whether its bytes are the same is checked
    /// before a change, as for any other file.
    #[must_use]
    pub fn with_moved_files(&self, place: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let known = self.known();
        let moved = known.iter().map(|(path, known)| {
            let path = place(path).unwrap_or_else(|| path.clone());
            (path, *known)
        });
        Self(Arc::new(Mutex::new(moved.collect())))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<PathBuf, Known>> {
        self.0.lock().expect("nothing panics while it holds what a unit has seen")
    }
}

/// Follows a path by name and holds what it finds; `None` if something was
/// swapped for a link in between.
fn look(roots: &Roots, path: &Path) -> io::Result<Option<Found>> {
    let target = locate(path)?;
    let spot = match roots.spot(&target) {
        Ok(spot) => Some(spot),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return if is_swapped(&error) { Ok(None) } else { Err(error) },
    };
    let metadata = match spot.as_ref().map_or(Ok(None), Spot::metadata) {
        Ok(metadata) => metadata,
        Err(error) => return if is_swapped(&error) { Ok(None) } else { Err(error) },
    };
    let key = match metadata {
        Some(found) => FileKey::Node { device: found.dev(), inode: found.ino() },
        None => FileKey::Name(target.clone()),
    };
    Ok(Some(Found { target, spot, key }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use futures_util::FutureExt;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf, Roots) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let roots = Roots::open([root.as_path()]).unwrap();
        (place, root, roots)
    }

    #[tokio::test]
    async fn all_names_of_one_file_share_one_lock() {
        let (_place, root, roots) = place();
        std::fs::write(root.join("a"), "").unwrap();
        std::fs::hard_link(root.join("a"), root.join("hard")).unwrap();
        symlink("a", root.join("soft")).unwrap();
        let files = Files::default();
        let held = files.lock(&roots, &root.join("a")).await.unwrap();
        std::fs::create_dir(root.join("x")).unwrap();
        for name in ["a", "hard", "soft", "x/../a"] {
            assert!(
                files.lock(&roots, &root.join(name)).now_or_never().is_none(),
                "{name} was free"
            );
        }
        drop(held);
        assert!(files.lock(&roots, &root.join("hard")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_file_that_is_still_to_be_made_is_locked_by_its_name() {
        let (_place, root, roots) = place();
        symlink("new", root.join("soft")).unwrap();
        let files = Files::default();
        let held = files.lock(&roots, &root.join("new")).await.unwrap();
        assert_eq!(held.target, root.join("new"));
        assert!(files.lock(&roots, &root.join("soft")).now_or_never().is_none());
        assert!(files.lock(&roots, &root.join("other")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waited_while_the_file_was_replaced_gets_the_lock_of_the_new_file() {
        let (_place, root, roots) = place();
        let path = root.join("a");
        std::fs::write(&path, "old").unwrap();
        std::fs::write(root.join("b"), "new").unwrap();
        let files = Files::default();
        let held = files.lock(&roots, &path).await.unwrap();
        let mut waiting = Box::pin(files.lock(&roots, &path));
        assert!(waiting.as_mut().now_or_never().is_none());
        std::fs::rename(root.join("b"), &path).unwrap();
        let newcomer = files.lock(&roots, &path).now_or_never().unwrap().unwrap();
        drop(held);
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(newcomer);
        let second = waiting.await.unwrap();
        assert!(files.lock(&roots, &path).now_or_never().is_none());
        drop(second);
    }

    #[tokio::test]
    async fn locks_nobody_holds_take_no_memory() {
        let (_place, root, roots) = place();
        let files = Files::default();
        for number in 0..100 {
            drop(files.lock(&roots, &root.join(number.to_string())).await.unwrap());
        }
        assert_eq!(files.registered().locks.len(), 0);
    }

    #[tokio::test]
    async fn several_locks_are_given_in_the_order_asked_for_and_never_two_of_one_file() {
        let (_place, root, roots) = place();
        std::fs::write(root.join("a"), "").unwrap();
        std::fs::hard_link(root.join("a"), root.join("c")).unwrap();
        let files = Files::default();
        let paths = |names: &[&str]| names.iter().map(|name| root.join(name)).collect::<Vec<_>>();
        let locks = files.lock_all(&roots, &paths(&["b", "x/y", "a"])).await.unwrap();
        let targets: Vec<_> = locks.iter().map(|lock| lock.target.clone()).collect();
        assert_eq!(targets, paths(&["b", "x/y", "a"]));
        drop(locks);
        let twice = files.lock_all(&roots, &paths(&["c", "b", "a"])).await;
        assert!(matches!(twice, Err(LockError::Same(0, 2))), "{twice:?}");
        assert_eq!(files.registered().locks.len(), 0);
    }

    #[tokio::test]
    async fn who_gathers_locks_in_any_order_never_waits_in_a_circle() {
        let (_place, root, roots) = place();
        let files = Files::default();
        let gather = |names: [&'static str; 2]| {
            let paths = names.map(|name| root.join(name));
            let (files, roots) = (&files, &roots);
            async move {
                let locks = files.lock_all(roots, &paths).await.unwrap();
                tokio::task::yield_now().await;
                drop(locks);
            }
        };
        let calls = (0..100).map(|at| gather(if at % 2 == 0 { ["a", "b"] } else { ["b", "a"] }));
        futures_util::future::join_all(calls).await;
    }

    #[tokio::test]
    async fn who_waits_for_one_lock_holds_up_nobody_else() {
        let (_place, root, roots) = place();
        let files = Files::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| root.join(name));
        let held = files.lock(&roots, &a).await.unwrap();
        let mut waiting = Box::pin(files.lock_all(&roots, std::slice::from_ref(&a)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(files.lock_all(&roots, std::slice::from_ref(&b)).now_or_never().is_some());
        assert!(files.lock_all(&roots, &[b.clone(), c]).now_or_never().is_some());
        // Nor does who waits for several hold up who needs only one.
        let several = [a.clone(), root.join("d")];
        let mut gathering = Box::pin(files.lock_all(&roots, &several));
        assert!(gathering.as_mut().now_or_never().is_none());
        assert!(files.lock_all(&roots, &[b]).now_or_never().is_some());
        drop(held);
        drop((waiting.await.unwrap(), gathering));
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
