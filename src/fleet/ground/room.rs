//! How much room there is where a worker keeps its copies.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

use super::GroundError;

/// A disk with fewer bytes free than this is full: programs that fill one up leave
/// less than a piece of what they write.
const FULL: u64 = 1024 * 1024;

/// What programs say where the system lets nobody write more.
const SIGNS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// What git says that could not write, and does not say why.
const UNEXPLAINED: [&str; 2] = ["unable to write file", "couldn't write"];

/// How long a disk that was full is why git could not write: as long as what has filled
/// it may take to be removed.
const LATELY: Duration = Duration::from_secs(30);

/// The disk that a worker's directory is on.
#[derive(Debug)]
pub(super) struct Disk {
    directory: PathBuf,
    // A mutex, because lanes are made on threads of their own.
    was_full: Mutex<Option<Instant>>,
}

impl Disk {
    pub(super) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), was_full: Mutex::default() }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns how many bytes are free there; `None` if nobody can tell.
    pub(super) fn free(&self) -> Option<u64> {
        let found = statvfs(&self.directory).ok()?;
        #[expect(clippy::useless_conversion, reason = "other systems count in other numbers")]
        let blocks = u64::from(found.blocks_available());
        Some(blocks.saturating_mul(found.fragment_size()))
    }

    /// Says of an error that it is that of a full disk, if it is. Before what was
    /// written in vain is removed.
    pub(super) fn explained(&self, error: GroundError) -> GroundError {
        let said = crate::fleet::spelt(&error);
        let mut was_full = self.was_full.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.free().is_some_and(|free| free < FULL)
            || SIGNS.iter().any(|sign| said.contains(sign));
        if is_full {
            *was_full = Some(Instant::now());
        }
        // What another slot has written in vain may be gone by now.
        let was_full = UNEXPLAINED.iter().any(|sign| said.contains(sign))
            && was_full.is_some_and(|then| then.elapsed() < LATELY);
        match is_full || was_full {
            true => {
                GroundError::NoRoom { directory: self.directory.clone(), source: Box::new(error) }
            }
            false => error,
        }
    }
}
