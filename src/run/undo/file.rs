//! Putting files back: each is looked at once more, and all of them go through
//! the door of the file tools or none.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{UnlinkatFlags, getegid, geteuid, unlinkat};

use super::UndoError;
use crate::event::FileState;
use crate::session::undo::{Now, PlannedFile};
use crate::session::{Blobs, NotKept};
use crate::tool::change::commit::{self, FoundEntry, Piece, Undone};
use crate::tool::change::{Before, Change};
use crate::tool::replace::{Access, Rights};
use crate::tool::roots::{Roots, Spot};

/// The reason why a file with hard links stays. Any command can have made the links since the
/// change, and no rule was asked about the other names.
pub(super) const OTHER_NAMES: &str = "it has other hard links, which would change, too";

/// Returns whether a file has other hard links.
pub(super) fn has_other_names(roots: &Roots, target: &Path) -> bool {
    match found(roots, target) {
        Ok(FoundEntry::File(before)) => before.has_other_names,
        Ok(FoundEntry::Nothing | FoundEntry::Link(_)) | Err(_) => false,
    }
}

/// Returns what a file holds.
pub(super) fn look(roots: &Roots, target: &Path) -> Now {
    match found(roots, target) {
        Ok(found) => now(&found),
        Err(error) => Now::Unknown(error.to_string()),
    }
}

/// A file that is about to be put back.
#[derive(Debug)]
pub(super) struct Step {
    target: PathBuf,
    found: FoundEntry,
    change: Change,
    /// How many of the directories above it go with it.
    directories: u32,
}

impl Step {
    /// Looks at a file once more. It is to hold `bytes`; `None` if it is to be
    /// gone.
    ///
    /// # Errors
    ///
    /// It is not what it was `before`, or cannot be read, or has other hard links that
    /// would be written, too.
    pub(super) fn prepare(
        roots: &Roots,
        target: PathBuf,
        before: &Now,
        (file, bytes): (&PlannedFile, Option<Vec<u8>>),
    ) -> io::Result<Self> {
        let found = found(roots, &target)?;
        if now(&found) != *before {
            return Err(io::Error::other("it was changed just now"));
        }
        let change = match (bytes, file.to) {
            (Some(bytes), Some(to)) if to.is_link() => {
                Change::Link(OsString::from_vec(bytes).into())
            }
            (Some(bytes), to) => {
                // A file that is there keeps its rights.
                let access = match found {
                    FoundEntry::File(_) => Access::Usual,
                    FoundEntry::Nothing | FoundEntry::Link(_) => {
                        Access::Exactly(own(to.map_or(0, |to| to.mode)))
                    }
                };
                Change::Write { bytes: bytes.into(), access }
            }
            (None, _) => Change::Delete,
        };
        if let (FoundEntry::File(Before { has_other_names: true, .. }), Change::Write { .. }) =
            (&found, &change)
        {
            return Err(io::Error::other(OTHER_NAMES));
        }
        Ok(Self { target, found, change, directories: file.directories })
    }

    /// Keeps what it holds, so that this can be undone.
    pub(super) fn keep(&self, blobs: &Blobs) -> Result<(), NotKept> {
        let found = self.found.state();
        found.map_or(Ok(()), |(state, bytes)| blobs.keep(state.digest, bytes))
    }

    pub(super) fn before(&self) -> Option<FileState> {
        self.found.state().map(|(state, _)| state)
    }

    pub(super) fn missing_directories(&self) -> u32 {
        match self.found {
            FoundEntry::File(_) | FoundEntry::Link(_) => 0,
            FoundEntry::Nothing => crate::tool::missing_directories(&self.target),
        }
    }

    fn piece<'a>(&'a self, roots: &'a Roots) -> Piece<'a> {
        let Self { target, found, change, directories: _ } = self;
        // No directory is held: there may be more files than a process may
        // have open.
        Piece { roots, target, spot: None, was: found.was(), change }
    }
}

/// Puts every file back; if one cannot be, those before it are made what they
/// had been.
pub(super) fn all_or_none(roots: &Roots, steps: &[(&PlannedFile, Step)]) -> Result<(), UndoError> {
    let pieces: Vec<Piece<'_>> = steps.iter().map(|(_, step)| step.piece(roots)).collect();
    commit::all_or_none(&pieces).map_err(|Undone { at, error: source, lost }| {
        let path = |at: usize| steps[at].0.path.to_string();
        let lost = lost.into_iter().map(|(at, error)| format!("{} ({error})", path(at)));
        UndoError::File { path: path(at), lost: lost.collect(), source }
    })?;
    remove_directories(roots, steps);
    Ok(())
}

/// Removes the directories that were made for files that are gone now. One
/// that holds something stays.
fn remove_directories(roots: &Roots, steps: &[(&PlannedFile, Step)]) {
    let gone = steps.iter().filter(|(_, step)| matches!(step.change, Change::Delete));
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

/// Those of a file that is made anew.
fn own(mode: u32) -> Rights {
    Rights { mode, owner: geteuid().as_raw(), group: getegid().as_raw() }
}

/// Reads a file or a link.
fn found(roots: &Roots, target: &Path) -> io::Result<FoundEntry> {
    match roots.spot(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FoundEntry::Nothing),
        spot => commit::look(&spot?),
    }
}

fn now(found: &FoundEntry) -> Now {
    Now::of(found.state().map(|(state, _)| state))
}
