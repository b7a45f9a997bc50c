//! The place of one worktree on disk: who works there, and what is known of it.
//!
//! A place is `ROOT/PROJECT/SESSION-UNIT/`, for the user alone: the worktree,
//! its first index, a lock that its process holds, and a record that is enough
//! to take it up again once that process is dead. This file alone knows the
//! record's form.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};
use serde_json::{Value, json};

use crate::git::GitError;
use crate::git::worktree::{Linked, make_place};
use crate::path_text::{from_text, to_text};

const LOCK: &str = "lock";
const RECORD: &str = "about.json";

/// The place of one worktree, in this process's hands.
#[derive(Debug)]
pub struct Claim {
    place: PathBuf,
    // The kernel gives it back when the process ends, however it ends.
    _lock: Flock<File>,
}

/// What is known of a worktree's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The session's id.
    pub session: String,
    /// The unit.
    pub unit: String,
    /// Where the session keeps its files.
    pub patches: PathBuf,
    /// What all worktrees of the repository share.
    pub repository: PathBuf,
    /// The commit that holds the state it began with.
    pub base: String,
}

/// A place of a worktree, as it is found.
#[derive(Debug)]
pub struct Found {
    /// The place itself.
    pub place: PathBuf,
    /// `None` while another process has it.
    pub claim: Option<Claim>,
    /// `None` if it came to nothing.
    pub about: Option<About>,
}

/// What became of a place whose process is dead.
#[derive(Debug, PartialEq, Eq)]
pub enum Pruned {
    /// It held no changes, and it is gone.
    Removed,
    /// Its changes are in this patch, and it is gone.
    Saved(PathBuf),
}

impl Claim {
    /// Makes a new place.
    pub(super) fn new(place: &Path) -> io::Result<Self> {
        make_place(place)?;
        Self::take(place, true)?.ok_or_else(|| io::Error::other("another process has it"))
    }

    /// Returns where it is.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Takes a place unless another process has it.
    fn take(place: &Path, is_new: bool) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.write(true).create(is_new).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let file = options.truncate(false).open(place.join(LOCK))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok();
        Ok(lock.map(|lock| Self { place: place.to_owned(), _lock: lock }))
    }

    pub(super) fn write(&self, about: &About) -> io::Result<()> {
        let About { session, unit, patches, repository, base } = about;
        let record = json!({
            "session": session,
            "unit": unit,
            "patches": to_text(patches),
            "repository": to_text(repository),
            "base": base,
        });
        let mut file = tempfile::NamedTempFile::new_in(&self.place)?;
        file.write_all(record.to_string().as_bytes())?;
        file.persist(self.place.join(RECORD)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes the place, in which there is no worktree.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.place)?;
        // The project's own goes with its last one.
        let _ = self.place.parent().map(fs::remove_dir);
        Ok(())
    }
}

impl Found {
    /// Saves what was changed there, if anything was, and removes it all.
    ///
    /// # Errors
    ///
    /// Something stands in the way; then nothing is lost.
    pub fn prune(self) -> Result<Pruned, GitError> {
        let io = |error: io::Error| GitError::Failed { message: error.to_string() };
        let Some(claim) = &self.claim else {
            return Err(GitError::Failed { message: "another process works there".to_owned() });
        };
        let (Some(about), Some(linked)) = (&self.about, self.linked()) else {
            claim.remove().map_err(io)?;
            return Ok(Pruned::Removed);
        };
        let patch = self.patch(about).map_err(io)?;
        let changes = linked.changes(&patch)?;
        linked.remove()?;
        // Nothing is in it any more.
        let _ = self.place.parent().map(fs::remove_dir);
        Ok(if changes.is_empty() { Pruned::Removed } else { Pruned::Saved(patch) })
    }

    /// Tells how many files were changed there; `None` if that cannot be told.
    #[must_use]
    pub fn changed(&self) -> Option<usize> {
        let Some(linked) = self.linked() else { return Some(0) };
        let scratch = tempfile::NamedTempFile::new_in(&self.place).ok()?;
        linked.changes(scratch.path()).ok().map(|changes| changes.len())
    }

    /// Returns a name for the patch that nothing has yet: beside the session's
    /// files, or beside the place if the session is gone.
    fn patch(&self, about: &About) -> io::Result<PathBuf> {
        let name = |number: u32| match number {
            1 => format!("{}.patch", about.unit),
            number => format!("{}-{number}.patch", about.unit),
        };
        if about.patches.is_dir() {
            let mut paths = (1..).map(|number| about.patches.join(name(number)));
            return Ok(paths.find(|path| !path.exists()).expect("numbers do not end"));
        }
        let saved = self.place.parent().and_then(Path::parent).unwrap_or(&self.place);
        let saved = saved.with_file_name("patches");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&saved)?;
        let place = self.place.file_name().unwrap_or_default().to_string_lossy();
        Ok(saved.join(format!("{place}.patch")))
    }

    /// The worktree itself; `None` if there never was one.
    fn linked(&self) -> Option<Linked> {
        let About { repository, base, .. } = self.about.clone()?;
        let entries = fs::read_dir(&self.place).ok()?.flatten();
        let mut trees = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let tree = trees.next()?;
        // What the repository says, not the worktree: who worked there could
        // change what stands in it.
        let known = fs::read_dir(repository.join("worktrees")).into_iter().flatten().flatten();
        let mut known = known.map(|entry| entry.path());
        let git_directory = known.find(|known| {
            let names = fs::read_to_string(known.join("gitdir"));
            names.is_ok_and(|name| Path::new(name.trim_end_matches('\n')) == tree.join(".git"))
        })?;
        Some(Linked { tree, git_directory, repository, base, place: self.place.clone() })
    }
}

/// Returns every place below `root`, those of other processes too.
#[must_use]
pub fn all(root: &Path) -> Vec<Found> {
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let places = entries(root).into_iter().flat_map(|project| entries(&project));
    places.filter_map(found).collect()
}

fn found(place: PathBuf) -> Option<Found> {
    let claim = match Claim::take(&place, false) {
        Ok(claim) => claim,
        // Somebody is about to make it, or died at that: then it is empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let _ = fs::remove_dir(&place);
            return None;
        }
        Err(_) => None,
    };
    let about = fs::read(place.join(RECORD)).ok().and_then(|record| read(&record));
    Some(Found { place, claim, about })
}

fn read(record: &[u8]) -> Option<About> {
    let record: Value = serde_json::from_slice(record).ok()?;
    let text = |name: &str| record[name].as_str();
    Some(About {
        session: text("session")?.to_owned(),
        unit: text("unit")?.to_owned(),
        patches: from_text(text("patches")?),
        repository: from_text(text("repository")?),
        base: text("base")?.to_owned(),
    })
}
