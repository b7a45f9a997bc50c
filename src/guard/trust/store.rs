//! What the user said of repositories, kept from one run to the next.
//!
//! One file of the user's own. It is believed only if nobody else can have
//! written it, and never about a repository that it lies in.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::unistd::geteuid;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::Project;
use crate::{path_text, real_path};

/// Most bytes of the file: some thousand repositories.
const FILE_CAP: u64 = 4 * 1024 * 1024;

/// How long another process may hold the file. One that changes it takes some
/// milliseconds.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// How often it is looked whether it is free by now.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The version of what is written.
const VERSION: u64 = 1;

/// What the user said of a project as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It is trusted.
    Trusted,
    /// It is not.
    Refused,
    /// Nothing, or something was changed since.
    Nothing,
}

/// Why a word cannot be kept or believed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file lies in the project.
    #[error("{} lies in the repository that it would be about", .path.display())]
    Inside {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else may have written it, or it is damaged.
    #[error("{} is not believed: {why}", .path.display())]
    Doubtful {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// Another process does not let go of it.
    #[error("{} is held by another process; end that one, and try again", .path.display())]
    Held {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("cannot use {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The file.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

/// What is kept of one project: what was said, and of which contents.
#[derive(Debug, Default)]
struct Entry {
    is_trusted: bool,
    files: BTreeMap<String, String>,
}

impl Store {
    /// The store in this file, which need not be there.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns what was said of a project as it is now.
    ///
    /// # Errors
    ///
    /// The file cannot be believed.
    pub fn word(&self, project: &Project) -> Result<Word, StoreError> {
        self.outside(&project.root)?;
        let entries = self.read()?;
        let Some(entry) = entries.get(&key(&project.root)) else { return Ok(Word::Nothing) };
        let is_same =
            current(project).iter().all(|(path, hash)| entry.files.get(path) == Some(hash));
        Ok(match (is_same && project.unreadable.is_empty(), entry.is_trusted) {
            (true, true) => Word::Trusted,
            (true, false) => Word::Refused,
            (false, _) => Word::Nothing,
        })
    }

    /// Returns the files of a project that was trusted which have changed or come since.
    ///
    /// # Errors
    ///
    /// As for [`Store::word`].
    pub fn changed(&self, project: &Project) -> Result<Vec<String>, StoreError> {
        self.outside(&project.root)?;
        let entries = self.read()?;
        let trusted = entries.get(&key(&project.root)).filter(|entry| entry.is_trusted);
        let Some(entry) = trusted else { return Ok(Vec::new()) };
        let is_same = |path: &String, hash: &String| entry.files.get(path) == Some(hash);
        let changed = current(project).into_iter().filter(|(path, hash)| !is_same(path, hash));
        Ok(changed.map(|(path, _)| path).collect())
    }

    /// Keeps what the user says of a project as it was read.
    ///
    /// # Errors
    ///
    /// The file cannot be believed or written.
    pub fn keep(&self, project: &Project, is_trusted: bool) -> Result<(), StoreError> {
        self.outside(&project.root)?;
        self.change(|entries| {
            let entry = entries.entry(key(&project.root)).or_default();
            if entry.is_trusted != is_trusted {
                // A no is no word about files that were not there to be seen.
                entry.files.clear();
            }
            entry.is_trusted = is_trusted;
            // Of files in other directories what was said stays.
            entry.files.extend(current(project));
        })
    }

    /// Forgets what was said of a project.
    ///
    /// # Errors
    ///
    /// The file cannot be believed or written.
    pub fn forget(&self, root: &Path) -> Result<(), StoreError> {
        self.change(|entries| drop(entries.remove(&key(root))))
    }

    fn outside(&self, root: &Path) -> Result<(), StoreError> {
        let is_inside = real_path::locate(&self.path).is_ok_and(|path| path.starts_with(root));
        if is_inside { Err(StoreError::Inside { path: self.path.clone() }) } else { Ok(()) }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>)) -> Result<(), StoreError> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| self.io(error))?;
        let _lock = self.lock(directory, LOCK_LIMIT)?;
        let mut entries = self.read()?;
        change(&mut entries);
        self.write(directory, &entries).map_err(|error| self.io(error))
    }

    fn lock(&self, directory: &Path, limit: Duration) -> Result<Flock<File>, StoreError> {
        let mut held = File::open(directory).map_err(|error| self.io(error))?;
        let started = Instant::now();
        loop {
            held = match Flock::lock(held, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((held, Errno::EWOULDBLOCK | Errno::EINTR)) if started.elapsed() < limit => held,
                Err((_, Errno::EWOULDBLOCK | Errno::EINTR)) => {
                    return Err(StoreError::Held { path: self.path.clone() });
                }
                Err((_, error)) => return Err(self.io(error.into())),
            };
            thread::sleep(LOCK_PAUSE);
        }
    }

    fn read(&self) -> Result<BTreeMap<String, Entry>, StoreError> {
        let doubt = |why| StoreError::Doubtful { path: self.path.clone(), why };
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(_) if self.path.is_symlink() => return Err(doubt("it is a link")),
            Err(error) => return Err(self.io(error)),
        };
        let metadata = file.metadata().map_err(|error| self.io(error))?;
        if !metadata.is_file() {
            return Err(doubt("it is not a regular file"));
        }
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(doubt("others may have written it"));
        }
        let mut text = String::new();
        file.take(FILE_CAP).read_to_string(&mut text).map_err(|error| self.io(error))?;
        let document: Value = serde_json::from_str(&text).map_err(|_| doubt("it is damaged"))?;
        if document["version"] != VERSION {
            return Err(doubt("it is of another version"));
        }
        document["projects"].as_object().and_then(entries).ok_or_else(|| doubt("it is damaged"))
    }

    fn write(&self, directory: &Path, entries: &BTreeMap<String, Entry>) -> io::Result<()> {
        let projects: Map<String, Value> = entries
            .iter()
            .map(|(root, Entry { is_trusted, files })| {
                (root.clone(), json!({ "trusted": is_trusted, "files": files }))
            })
            .collect();
        let document = json!({ "version": VERSION, "projects": projects });
        // Made for the user alone.
        let mut new = tempfile::Builder::new().prefix(".trust-").tempfile_in(directory)?;
        new.write_all(format!("{document:#}\n").as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(&self.path).map_err(|error| error.error)?;
        File::open(directory)?.sync_all()
    }

    fn io(&self, source: io::Error) -> StoreError {
        StoreError::Io { path: self.path.clone(), source }
    }
}

fn entries(projects: &Map<String, Value>) -> Option<BTreeMap<String, Entry>> {
    let entry = |entry: &Value| {
        let files = entry["files"].as_object()?.iter();
        let files = files.map(|(path, hash)| Some((path.clone(), hash.as_str()?.to_owned())));
        Some(Entry {
            is_trusted: entry["trusted"].as_bool()?,
            files: files.collect::<Option<_>>()?,
        })
    };
    projects.iter().map(|(root, value)| Some((root.clone(), entry(value)?))).collect()
}

fn current(project: &Project) -> BTreeMap<String, String> {
    let found = project.found.iter();
    found.map(|found| (key(&found.path), found.hash.to_hex().to_string())).collect()
}

fn key(path: &Path) -> String {
    path_text::to_text(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_somebody_holds_is_not_waited_for_without_end() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(place.path().join("trust.json"));
        let lock = || store.lock(place.path(), Duration::from_millis(30));
        let held = lock().unwrap();
        let refused = lock().unwrap_err().to_string();
        assert!(
            refused.ends_with("trust.json is held by another process; end that one, and try again")
        );
        drop(held);
        assert!(lock().is_ok());
    }
}
