//! Putting files back: each is looked at once more, and what fails half-way is
//! made what it had been.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{UnlinkatFlags, getegid, geteuid, unlinkat};

use super::UndoError;
use crate::event::{Digest, FileState};
use crate::session::undo::{Now, PlannedFile};
use crate::session::{BLOB_CAP, Blobs, NotKept};
use crate::tool::replace::{Rights, remove, write};
use crate::tool::roots::{Roots, Spot};

/// Returns what a file holds.
pub(super) fn look(roots: &Roots, target: &Path) -> Now {
    match found(roots, target) {
        Ok(None) => Now::Missing,
        Ok(Some(found)) => Now::Holds(Digest::of(&found.bytes)),
        Err(error) => Now::Unknown(error.to_string()),
    }
}

/// A file that is about to be put back.
#[derive(Debug)]
pub(super) struct Step {
    target: PathBuf,
    found: Option<Found>,
    /// What it shall hold; `None` if it shall be gone.
    to: Option<(Vec<u8>, u32)>,
    /// How many of the directories above it go with it.
    directories: u32,
}

/// What a file holds.
#[derive(Debug)]
struct Found {
    bytes: Vec<u8>,
    rights: Rights,
}

impl Step {
    /// Looks at a file once more.
    ///
    /// # Errors
    ///
    /// It is not what it was `before`, or cannot be read.
    pub(super) fn prepare(roots: &Roots, target: PathBuf, before: &Now) -> io::Result<Self> {
        let found = found(roots, &target)?;
        let step = Self { target, found, to: None, directories: 0 };
        if step.now() == *before { Ok(step) } else { Err(changed_just_now()) }
    }

    fn now(&self) -> Now {
        let found = self.found.as_ref();
        found.map_or(Now::Missing, |found| Now::Holds(Digest::of(&found.bytes)))
    }

    /// Keeps what it holds, so that this can be undone.
    pub(super) fn keep(&self, blobs: &Blobs) -> Result<(), NotKept> {
        let found = self.found.as_ref();
        found.map_or(Ok(()), |found| blobs.keep(Digest::of(&found.bytes), &found.bytes))
    }

    /// The file is to hold `bytes`; `None` if it is to be gone.
    pub(super) fn to(self, bytes: Option<Vec<u8>>, file: &PlannedFile) -> Self {
        let mode = file.to.map_or(0, |to| to.mode);
        let to = bytes.map(|bytes| (bytes, mode));
        Self { to, directories: file.directories, ..self }
    }

    pub(super) fn before(&self) -> Option<FileState> {
        let state =
            |found: &Found| FileState { digest: Digest::of(&found.bytes), mode: found.rights.mode };
        self.found.as_ref().map(state)
    }

    pub(super) fn missing_directories(&self) -> u32 {
        match self.found {
            Some(_) => 0,
            None => crate::tool::missing_directories(&self.target),
        }
    }

    fn make(&self, roots: &Roots) -> io::Result<()> {
        // The log was put on disk since, which takes its time.
        if look(roots, &self.target) != self.now() {
            return Err(changed_just_now());
        }
        match &self.to {
            Some((bytes, mode)) => self.put(roots, bytes, *mode),
            None => remove(&roots.spot(&self.target)?),
        }
    }

    fn put_back(&self, roots: &Roots) -> io::Result<()> {
        match &self.found {
            Some(Found { bytes, rights }) => self.put(roots, bytes, rights.mode),
            None => remove(&roots.spot(&self.target)?),
        }
    }

    /// Writes the file; one that has to be made gets this mode.
    fn put(&self, roots: &Roots, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (spot, _) = roots.make_spot(&self.target)?;
        let rights = match spot.metadata()? {
            Some(_) => None,
            None => Some(Rights { mode, owner: geteuid().as_raw(), group: getegid().as_raw() }),
        };
        write(&spot, bytes, rights).map(drop).map_err(|failed| failed.error)
    }
}

/// Puts every file back; if one cannot be, those before it are made what they
/// had been.
pub(super) fn all_or_none(
    roots: &Roots,
    steps: &mut [(&PlannedFile, Step)],
) -> Result<(), UndoError> {
    for at in 0..steps.len() {
        if let Err(source) = steps[at].1.make(roots) {
            let done = steps[..at].iter().rev();
            let lost = done.filter(|(_, step)| step.put_back(roots).is_err());
            let lost = lost.map(|(file, _)| file.path.to_string()).collect();
            return Err(UndoError::File { path: steps[at].0.path.to_string(), lost, source });
        }
    }
    remove_directories(roots, steps);
    Ok(())
}

/// Removes the directories that were made for files that are gone now. One
/// that holds something stays.
fn remove_directories(roots: &Roots, steps: &[(&PlannedFile, Step)]) {
    let gone = steps.iter().filter(|(_, step)| step.to.is_none());
    let mut directories: Vec<&Path> = gone
        .flat_map(|(_, step)| step.target.ancestors().skip(1).take(step.directories as usize))
        .collect();
    directories.sort_unstable_by_key(|directory| std::cmp::Reverse(directory.components().count()));
    directories.dedup();
    for directory in directories {
        // What is in it is somebody's; an empty directory does no harm.
        let _ = roots.spot(directory).map(|above| remove_directory(&above));
    }
}

fn remove_directory(spot: &Spot) -> nix::Result<()> {
    unlinkat(spot.directory(), spot.name(), UnlinkatFlags::RemoveDir)
}

/// Reads a file; `None` if there is none.
fn found(roots: &Roots, target: &Path) -> io::Result<Option<Found>> {
    let spot = match roots.spot(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        spot => spot?,
    };
    let Some(metadata) = spot.metadata()? else { return Ok(None) };
    refuse(&metadata)?;
    let file = spot.open(OFlag::O_RDONLY | OFlag::O_NONBLOCK)?;
    let metadata = file.metadata()?;
    refuse(&metadata)?;
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(BLOB_CAP + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > BLOB_CAP {
        true => Err(too_large()),
        false => Ok(Some(Found { bytes, rights: Rights::of(&metadata) })),
    }
}

/// Refuses what no tool ever wrote.
fn refuse(metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file any more"));
    }
    if metadata.len() > BLOB_CAP {
        return Err(too_large());
    }
    Ok(())
}

fn changed_just_now() -> io::Error {
    io::Error::other("it was changed just now")
}

fn too_large() -> io::Error {
    io::Error::other(format!("it is larger than {} MiB now", BLOB_CAP / 1024 / 1024))
}
