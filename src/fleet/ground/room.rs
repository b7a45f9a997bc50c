//! How much room there is where a worker keeps its copies.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
    past: Mutex<Past>,
}

/// What is known of what was written there.
#[derive(Debug, Default)]
struct Past {
    was_full: Option<Instant>,
    /// How many copies are being written.
    writing: usize,
    /// How many were begun.
    begun: u64,
}

/// A copy that is being written, as long as this is kept.
#[derive(Debug)]
#[must_use = "it is written only as long as this"]
pub(super) struct Writing<'a> {
    disk: &'a Disk,
    /// How many were begun with it.
    begun: u64,
    /// Whether another was being written then.
    had_company: bool,
}

impl Writing<'_> {
    /// As [`Disk::explained`], for an error of this copy. One that others were written
    /// beside may have failed because of them: git that fails to write a file removes what
    /// it has written and tries once more, so a disk that was full may not be at that moment.
    pub(super) fn explained(&self, error: GroundError) -> GroundError {
        let had_company = self.had_company || self.disk.past().begun != self.begun;
        self.disk.judged(error, had_company)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.disk.past().writing -= 1;
    }
}

impl Disk {
    pub(super) fn of(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), past: Mutex::default() }
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

    /// Takes note of a copy that is being written from now on.
    pub(super) fn writing(&self) -> Writing<'_> {
        let mut past = self.past();
        past.writing += 1;
        past.begun += 1;
        Writing { disk: self, begun: past.begun, had_company: past.writing > 1 }
    }

    /// Says of an error that it is that of a full disk, if it is. Before what was
    /// written in vain is removed.
    pub(super) fn explained(&self, error: GroundError) -> GroundError {
        self.judged(error, false)
    }

    fn judged(&self, error: GroundError, had_company: bool) -> GroundError {
        let said = crate::fleet::spelt(&error);
        let mut past = self.past();
        let is_full = self.free().is_some_and(|free| free < FULL)
            || SIGNS.iter().any(|sign| said.contains(sign));
        if is_full {
            past.was_full = Some(Instant::now());
        }
        // What another slot has written in vain may be gone by now.
        let may_have_been = UNEXPLAINED.iter().any(|sign| said.contains(sign))
            && (had_company || past.was_full.is_some_and(|then| then.elapsed() < LATELY));
        match is_full || may_have_been {
            true => {
                GroundError::NoRoom { directory: self.directory.clone(), source: Box::new(error) }
            }
            false => error,
        }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::GitError;

    fn unexplained() -> GroundError {
        GitError::Failed { message: "unable to write file large.txt".to_owned() }.into()
    }

    fn is_no_room(error: &GroundError) -> bool {
        matches!(error, GroundError::NoRoom { directory: _, source: _ })
    }

    #[test]
    fn what_git_does_not_explain_is_no_room_where_others_were_written_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let disk = Disk::of(place.path());
        assert!(disk.free() > Some(FULL), "there is room, as far as can be seen");
        let first = disk.writing();
        assert!(!is_no_room(&first.explained(unexplained())), "it is alone");
        let second = disk.writing();
        assert!(is_no_room(&first.explained(unexplained())));
        assert!(is_no_room(&second.explained(unexplained())));
        let other = GroundError::Damaged { hash: blake3::hash(b"x") };
        assert!(!is_no_room(&second.explained(other)), "that is explained");
        drop(first);
        assert!(is_no_room(&second.explained(unexplained())), "it was there");
        drop(second);
        assert!(!is_no_room(&disk.writing().explained(unexplained())), "it is alone again");
    }
}
