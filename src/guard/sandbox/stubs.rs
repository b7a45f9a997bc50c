//! Stands in for what is not there and must not be made.
//!
//! A mount needs something to be mounted on, so where a protected path is
//! absent an empty directory or file takes its place while commands run. Which
//! ones were made is written down first, in a file that everybody who needs
//! them holds a lock of: the last to let go removes them, and if that one was
//! killed, whoever comes next. So no command loses what another one removed.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::path_text;

use super::layout::{Protected, Stub};

/// Most bytes that are read of such a list: far more than any has.
const LIST_CAP: u64 = 1024 * 1024;

/// The stubs that a command needs. Letting go of them by dropping this leaves
/// removing them to whoever comes next.
#[derive(Debug)]
pub(super) struct Stubs {
    list: File,
    path: PathBuf,
    /// The directories among them that were made here.
    directories: Vec<PathBuf>,
}

impl Stubs {
    /// Has nothing made yet. The list of what is to be is in `directory`.
    pub(super) fn of(directory: &Path, root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let name = blake3::hash(root.as_os_str().as_bytes()).to_hex();
        Self::open(directory.join(name.as_str()))
    }

    /// Makes the stubs that are missing.
    pub(super) fn complete(&mut self, protected: &[Protected]) -> io::Result<()> {
        let is_absent = |Protected { root: _, path, stub }: &&Protected| {
            *stub != Stub::None && path.symlink_metadata().is_err_and(is_not_found)
        };
        let absent: Vec<&Protected> = protected.iter().filter(is_absent).collect();
        let lines: String =
            absent.iter().map(|absent| path_text::to_text(&absent.path) + "\n").collect();
        if !absent.is_empty() {
            self.list.write_all(lines.as_bytes())?;
        }
        for Protected { root: _, path, stub } in absent {
            self.make(path, *stub)?;
        }
        let is_empty =
            |path: &PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        self.directories.retain(is_empty);
        Ok(())
    }

    /// Returns the directories that were made here and that nobody has put
    /// anything into.
    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Removes the stubs, if nobody else needs them.
    pub(super) fn release(mut self) -> io::Result<()> {
        self.list.unlock()?;
        match self.list.try_lock() {
            // Somebody let go in between, and was the last.
            Ok(()) if self.list.metadata()?.nlink() == 0 => Ok(()),
            Ok(()) => self.remove_all(),
            // The other one will.
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(path: PathBuf) -> io::Result<Self> {
        loop {
            let mut options = OpenOptions::new();
            let list = options.read(true).append(true).create(true).mode(0o600).open(&path)?;
            list.lock_shared()?;
            // Whoever let go last has removed the file that was opened.
            if list.metadata()?.nlink() > 0 {
                return Ok(Self { list, path, directories: Vec::new() });
            }
        }
    }

    fn make(&mut self, path: &Path, stub: Stub) -> io::Result<()> {
        let made = match stub {
            Stub::Directory => DirBuilder::new().mode(0o755).create(path),
            Stub::File => {
                OpenOptions::new().write(true).create_new(true).mode(0o644).open(path).map(drop)
            }
            Stub::None => Ok(()),
        };
        match made {
            Ok(()) if stub == Stub::Directory => {
                self.directories.push(path.to_owned());
                Ok(())
            }
            // Somebody else was faster; or nobody can make anything there, the
            // command included.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists
                        | io::ErrorKind::PermissionDenied
                        | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Ok(())
            }
            made => made,
        }
    }

    /// Removes what is still empty. The lock must be exclusive.
    fn remove_all(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.list.rewind()?;
        (&self.list).take(LIST_CAP).read_to_string(&mut text)?;
        // In reverse: what was made last may be inside what was made first.
        for line in text.lines().rev() {
            let path = path_text::from_text(line);
            match path.symlink_metadata() {
                // Fails for one that somebody has put something into.
                Ok(found) if found.is_dir() => drop(fs::remove_dir(&path)),
                Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(&path)?,
                Ok(_) | Err(_) => {}
            }
        }
        fs::remove_file(&self.path)
    }
}

/// Removes all stubs of processes that were killed.
pub(super) fn clean_up(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        Stubs::open(entry?.path())?.release()?;
    }
    Ok(())
}

fn is_not_found(error: impl std::borrow::Borrow<io::Error>) -> bool {
    error.borrow().kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    struct Made {
        place: tempfile::TempDir,
        protected: Vec<Protected>,
    }

    impl Made {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            fs::create_dir(place.path().join("root")).unwrap();
            fs::create_dir(place.path().join("root/there")).unwrap();
            let stubs = [
                ("there", Stub::Directory),
                ("directory", Stub::Directory),
                ("file", Stub::File),
                ("none", Stub::None),
            ];
            let root = place.path().join("root");
            let protected = stubs.map(|(name, stub)| {
                let (root, path) = (root.clone(), root.join(name));
                Protected { root, path, stub }
            });
            Self { protected: protected.into(), place }
        }

        fn hold(&self) -> Stubs {
            let lists = self.place.path().join("lists");
            let mut stubs = Stubs::of(&lists, &self.place.path().join("root")).unwrap();
            stubs.complete(&self.protected).unwrap();
            stubs
        }

        #[track_caller]
        fn check(&self, lists: usize, expected: &[&str]) {
            let names = |directory: &str| {
                let entries = fs::read_dir(self.place.path().join(directory)).unwrap();
                let mut names: Vec<_> = entries
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect();
                names.sort();
                names
            };
            assert_eq!(names("root"), expected);
            assert_eq!(names("lists").len(), lists);
        }
    }

    impl Made {
        /// Cleans up until it is clean: a command that another test starts has
        /// what is held here, too, for as long as it takes to begin.
        fn clean(&self, clean: impl Fn()) {
            let until = Instant::now() + Duration::from_secs(30);
            let left = || fs::read_dir(self.place.path().join("root")).unwrap().count();
            clean();
            while left() > 1 && Instant::now() < until {
                std::thread::yield_now();
                clean();
            }
            self.check(0, &["there"]);
        }
    }

    #[test]
    fn the_last_to_let_go_removes_what_was_made_and_nothing_else() {
        let made = Made::new();
        let (first, second) = (made.hold(), made.hold());
        made.check(1, &["directory", "file", "there"]);
        first.release().unwrap();
        made.check(1, &["directory", "file", "there"]);
        second.release().unwrap();
        made.check(0, &["there"]);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next_command_or_start() {
        let made = Made::new();
        drop(made.hold());
        made.check(1, &["directory", "file", "there"]);
        made.clean(|| made.hold().release().unwrap());
        drop(made.hold());
        made.clean(|| clean_up(&made.place.path().join("lists")).unwrap());
        clean_up(&made.place.path().join("nowhere")).unwrap();
    }

    #[test]
    fn what_somebody_has_filled_meanwhile_stays_and_is_no_longer_taken_for_empty() {
        let made = Made::new();
        let mut stubs = made.hold();
        assert_eq!(stubs.directories(), [made.place.path().join("root/directory")]);
        fs::write(made.place.path().join("root/directory/x"), "").unwrap();
        stubs.complete(&made.protected).unwrap();
        assert_eq!(stubs.directories(), [] as [PathBuf; 0]);
        fs::write(made.place.path().join("root/file"), "x").unwrap();
        stubs.release().unwrap();
        made.check(0, &["directory", "file", "there"]);
    }

    #[test]
    fn one_that_comes_while_the_last_one_goes_finds_its_stubs() {
        let made = std::sync::Arc::new(Made::new());
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let made = std::sync::Arc::clone(&made);
                std::thread::spawn(move || {
                    for _ in 0..50 {
                        let stubs = made.hold();
                        let is_there = |name| made.place.path().join("root").join(name).exists();
                        assert!(is_there("directory") && is_there("file"));
                        stubs.release().unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        made.check(0, &["there"]);
    }
}
