//! How much room there is where a worker keeps its copies.

use std::path::Path;

use nix::sys::statvfs::statvfs;

use super::GroundError;

/// A disk with fewer bytes free than this is full: programs that fill one up leave
/// less than a piece of what they write.
const FULL: u64 = 1024 * 1024;

/// What programs say where the system lets nobody write more; git does not always.
const SIGNS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Returns how many bytes are free there; `None` if nobody can tell.
pub(super) fn free(directory: &Path) -> Option<u64> {
    let found = statvfs(directory).ok()?;
    Some(u64::from(found.blocks_available()).saturating_mul(found.fragment_size()))
}

/// Says of an error that it is that of a full disk, if it is. Before what was written
/// in vain is removed.
pub(super) fn explained(directory: &Path, error: GroundError) -> GroundError {
    let said = crate::fleet::load::spelt(&error);
    let is_full = free(directory).is_some_and(|free| free < FULL);
    match is_full || SIGNS.iter().any(|sign| said.contains(sign)) {
        true => GroundError::NoRoom { directory: directory.to_owned(), source: Box::new(error) },
        false => error,
    }
}
