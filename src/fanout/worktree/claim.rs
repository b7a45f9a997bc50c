//! The place of one worktree on disk: who works there, and what is known of it.
//!
//! A place is `ROOT/PROJECT/SESSION-UNIT/`, for the user alone: the worktree,
//! its first index, a lock that its process holds, and a record that is enough
//! to take it up again once that process is dead. This file alone knows the
//! record's form.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};
use serde_json::{Value, json};
use thiserror::Error;

use super::remarks;
use crate::git::worktree::{Linked, TreeChanges, make_place};
use crate::git::{GitError, Program};
use crate::path_text::{from_text, to_text};

const LOCK: &str = "lock";
const RECORD: &str = "about.json";

/// How often a place is made anew that somebody has taken for left over before
/// it was locked. Each time a person must have pruned at that very moment.
const ATTEMPTS: u32 = 16;

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
    /// What the tree is called, within the place.
    pub tree: PathBuf,
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
    program: Program,
}

/// What became of a place whose process is dead.
#[derive(Debug, PartialEq, Eq)]
pub enum Pruned {
    /// It held no changes, and it is gone.
    Removed,
    /// Its changes are in this patch, and it is gone.
    Saved(PathBuf),
}

/// Why a place is left as it is. Nothing in it was changed then.
#[derive(Debug, Error)]
pub enum NotPruned {
    /// Another process has it.
    #[error("another process works there")]
    InUse,
    /// There are files, and nobody knows of what.
    #[error("its record `{record}` cannot be read")]
    NoRecord {
        /// The file.
        record: String,
    },
    /// There are files, and the repository does not know them as a worktree.
    #[error("`{repository}` knows of no worktree `{tree}`")]
    Unknown {
        /// What all worktrees of the repository share.
        repository: String,
        /// The tree.
        tree: String,
    },
    /// There is work in it that no patch can hold.
    #[error("it has files that no patch contains: {names}")]
    HasMore {
        /// These files, with their sizes.
        names: String,
    },
    /// Git stood in the way.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Something else did.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl NotPruned {
    /// Returns what a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoRecord { .. } => Some("save what you need of it, and remove it yourself"),
            Self::HasMore { .. } => Some(
                "move what you need of it elsewhere, remove the rest of these files, and prune \
                 again",
            ),
            Self::Unknown { .. } => Some(
                "if either was moved, or is on a disk that is not there now, put it back and \
                 prune again; or save what you need of it, and remove it yourself",
            ),
            Self::InUse | Self::Git(_) | Self::Io(_) => None,
        }
    }
}

impl Claim {
    /// Makes a new place.
    pub(super) fn new(place: &Path) -> io::Result<Self> {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        for attempt in 1.. {
            let made = match make_place(place) {
                // It was there a moment ago, and is ours.
                Err(error) if attempt > 1 && error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            };
            match made.and_then(|()| Self::take_new(place)) {
                Err(error) if attempt < ATTEMPTS && gone(&error) => {}
                taken => return taken,
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Takes a place that nobody else makes. Somebody may look at it meanwhile,
    /// and may have removed it by then.
    fn take_new(place: &Path) -> io::Result<Self> {
        let lock = Flock::lock(Self::open(place, true)?, FlockArg::LockExclusive);
        let lock = lock.map_err(|(_, error)| error)?;
        if fs::metadata(place.join(LOCK))?.ino() != lock.metadata()?.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { place: place.to_owned(), _lock: lock })
    }

    /// Returns where it is.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Takes a place unless another process has it.
    fn take(place: &Path) -> io::Result<Option<Self>> {
        let file = Self::open(place, false)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok();
        Ok(lock.map(|lock| Self { place: place.to_owned(), _lock: lock }))
    }

    fn open(place: &Path, is_new: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(is_new).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        options.truncate(false).open(place.join(LOCK))
    }

    pub(super) fn write(&self, about: &About) -> io::Result<()> {
        let About { session, unit, patches, repository, base, tree } = about;
        let record = json!({
            "session": session,
            "unit": unit,
            "patches": to_text(patches),
            "repository": to_text(repository),
            "base": base,
            "tree": to_text(tree),
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
    pub fn prune(self) -> Result<Pruned, NotPruned> {
        let claim = self.claim.as_ref().ok_or(NotPruned::InUse)?;
        let Some((about, linked)) = self.linked()? else {
            claim.remove()?;
            return Ok(Pruned::Removed);
        };
        let patch = self.patch(about)?;
        let found = match linked.tree.try_exists()? {
            true => linked.changes(&patch)?,
            false => TreeChanges::default(),
        };
        let has_changes = !found.files.is_empty();
        if let Some(names) = remarks::work_in(&found.left_out) {
            if has_changes {
                std::fs::remove_file(&patch)?;
            }
            return Err(NotPruned::HasMore { names });
        }
        if has_changes {
            File::open(&patch)?.sync_all()?;
        }
        linked.remove()?;
        // Nothing is in it any more.
        let _ = self.place.parent().map(fs::remove_dir);
        Ok(if has_changes { Pruned::Saved(patch) } else { Pruned::Removed })
    }

    /// Tells how many files were changed there.
    ///
    /// # Errors
    ///
    /// It cannot be told, as for [`Found::prune`].
    pub fn changed(&self) -> Result<usize, NotPruned> {
        match self.linked()? {
            Some((_, linked)) if linked.tree.try_exists()? => {
                let scratch = tempfile::NamedTempFile::new_in(&self.place)?;
                Ok(linked.changes(scratch.path())?.files.len())
            }
            Some(_) | None => Ok(0),
        }
    }

    /// Returns a name for the patch that nothing has yet: beside the session's
    /// files, or beside the places if the session is gone.
    fn patch(&self, about: &About) -> io::Result<PathBuf> {
        let (directory, name) = if about.patches.is_dir() {
            (about.patches.clone(), about.unit.clone())
        } else {
            let root = self.place.parent().and_then(Path::parent).unwrap_or(&self.place);
            let saved = root.with_file_name("patches");
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&saved)?;
            let place = self.place.file_name().unwrap_or_default();
            (saved, place.to_string_lossy().into_owned())
        };
        let mut paths = (1..).map(|number: u32| match number {
            1 => directory.join(format!("{name}.patch")),
            number => directory.join(format!("{name}-{number}.patch")),
        });
        Ok(paths.find(|path| path.symlink_metadata().is_err()).expect("numbers do not end"))
    }

    /// The worktree itself; `None` if there never was one, or no more is left of
    /// it than can be removed.
    ///
    /// Files that belong to no worktree which its repository knows are an error:
    /// they may be somebody's work.
    fn linked(&self) -> Result<Option<(&About, Linked)>, NotPruned> {
        let Some(about) = &self.about else {
            let record = to_text(&self.place.join(RECORD));
            return if self.has_files()? { Err(NotPruned::NoRecord { record }) } else { Ok(None) };
        };
        let About { repository, base, tree, .. } = about.clone();
        let tree = self.place.join(tree);
        match known(&repository, &tree) {
            Some(git_directory) if !tree.is_symlink() => {
                let (place, program) = (self.place.clone(), self.program.clone());
                Ok(Some((about, Linked { tree, git_directory, repository, base, place, program })))
            }
            Some(_) | None if self.has_files()? => {
                let (repository, tree) = (to_text(&repository), to_text(&tree));
                Err(NotPruned::Unknown { repository, tree })
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Tells whether there is anything in a directory of the place.
    fn has_files(&self) -> io::Result<bool> {
        for entry in fs::read_dir(&self.place)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() && fs::read_dir(entry.path())?.next().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns where a repository keeps what it knows of a tree. What stands in the
/// tree itself is not asked: who worked there could have changed it.
fn known(repository: &Path, tree: &Path) -> Option<PathBuf> {
    // The tree may be gone; what it was in is there.
    let real = |tree: &Path| Some(tree.parent()?.canonicalize().ok()?.join(tree.file_name()?));
    let tree = real(tree)?;
    let known = fs::read_dir(repository.join("worktrees")).into_iter().flatten().flatten();
    known.map(|entry| entry.path()).find(|known| {
        let names = fs::read(known.join("gitdir")).unwrap_or_default();
        let name = names.strip_suffix(b"\n").unwrap_or(&names);
        // Git can be told to write it as seen from there.
        let git_file = known.join(Path::new(OsStr::from_bytes(name)));
        git_file.parent().and_then(real).as_ref() == Some(&tree)
    })
}

/// Returns every place below `root`, those of other processes too. `program`
/// is what will look into them.
#[must_use]
pub fn all(root: &Path, program: &Program) -> Vec<Found> {
    places(root).into_iter().filter_map(|place| found(place, program)).collect()
}

/// Removes what is empty below `root`: places whose processes died before they
/// locked them.
pub fn tidy(root: &Path) {
    for place in places(root) {
        // What is not empty stays, and who has just made it makes it anew.
        let _ = fs::remove_dir(&place);
        let _ = place.parent().map(fs::remove_dir);
    }
}

fn places(root: &Path) -> Vec<PathBuf> {
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    entries(root).into_iter().flat_map(|project| entries(&project)).collect()
}

fn found(place: PathBuf, program: &Program) -> Option<Found> {
    let claim = match Claim::take(&place) {
        Ok(claim) => claim,
        // Somebody is about to make it, or died at that: then it is empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => None,
    };
    let about = fs::read(place.join(RECORD)).ok().and_then(|record| read(&record));
    Some(Found { place, claim, about, program: program.clone() })
}

fn read(record: &[u8]) -> Option<About> {
    let record: Value = serde_json::from_slice(record).ok()?;
    let text = |name: &str| record[name].as_str();
    let tree = from_text(text("tree")?);
    // It would be another place's otherwise.
    let is_name = tree.file_name() == Some(tree.as_os_str());
    is_name.then_some(About {
        session: text("session")?.to_owned(),
        unit: text("unit")?.to_owned(),
        patches: from_text(text("patches")?),
        repository: from_text(text("repository")?),
        base: text("base")?.to_owned(),
        tree,
    })
}
