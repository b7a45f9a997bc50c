//! Puts new bytes into a file so that a crash leaves the old or the new ones.
//!
//! The way is a temporary file in the same directory, then a rename. Where a
//! rename would lose something (other names of the file, its owner), the file
//! is written in place. Locks and hashes are the business of `files`.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

/// The mode of a new file; the process's own mask takes bits away.
const NEW_FILE_MODE: u32 = 0o666;

/// How the bytes got into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// There was no file.
    Created,
    /// A new file took the old one's place.
    Renamed,
    /// The file was written in place, because it has other names too.
    InPlaceForLinks,
    /// The file was written in place, because a new one could not be given to
    /// the same owner.
    InPlaceForOwner,
}

/// Makes `bytes` the contents of `target`, on disk before this returns.
///
/// `target` is the file itself: a link there would be replaced.
///
/// # Errors
///
/// The file system refused. Unless it was written in place, the file still has
/// its old bytes.
pub fn replace(target: &Path, bytes: &[u8]) -> io::Result<Replaced> {
    let directory = target.parent().unwrap_or(Path::new("/"));
    let old = match OpenOptions::new().write(true).open(target) {
        // Opened for writing: a rename would get past a file's own protection.
        Ok(file) => Some(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some(old) = old else {
        let new = written(directory, bytes, NEW_FILE_MODE)?;
        new.persist_noclobber(target).map_err(|error| error.error)?;
        sync(directory)?;
        return Ok(Replaced::Created);
    };
    let metadata = old.metadata()?;
    if metadata.nlink() > 1 {
        write_in_place(old, bytes)?;
        return Ok(Replaced::InPlaceForLinks);
    }
    let new = written(directory, bytes, metadata.mode())?;
    if !same_owner(&new, &metadata)? {
        write_in_place(old, bytes)?;
        return Ok(Replaced::InPlaceForOwner);
    }
    // Last, because a change of owner clears some bits.
    new.as_file().set_permissions(Permissions::from_mode(metadata.mode()))?;
    new.persist(target).map_err(|error| error.error)?;
    sync(directory)?;
    Ok(Replaced::Renamed)
}

/// Returns a temporary file with the bytes on disk; dropped, it is deleted.
fn written(directory: &Path, bytes: &[u8], mode: u32) -> io::Result<NamedTempFile> {
    let permissions = Permissions::from_mode(mode & 0o777);
    let mut new =
        Builder::new().prefix(".tine-").permissions(permissions).tempfile_in(directory)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    Ok(new)
}

fn same_owner(new: &NamedTempFile, old: &Metadata) -> io::Result<bool> {
    let own = new.as_file().metadata()?;
    let same = (own.uid(), own.gid()) == (old.uid(), old.gid());
    Ok(same || fchown(new.as_file(), Some(old.uid()), Some(old.gid())).is_ok())
}

fn write_in_place(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    // After the write: cutting first would leave nothing if the disk is full.
    file.set_len(u64::try_from(bytes.len()).expect("a length fits 64 bits"))?;
    file.sync_all()
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn names(directory: &Path) -> Vec<String> {
        let entries = directory.read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_owner_and_leaves_nothing_behind() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run.sh");
        std::fs::write(&path, "old and longer").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        if nix::unistd::Uid::effective().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), Some(54321)).unwrap();
        }
        let before = path.metadata().unwrap();
        assert_eq!(replace(&path, b"new").unwrap(), Replaced::Renamed);
        let after = path.metadata().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(
            (after.mode(), after.uid(), after.gid()),
            (before.mode(), before.uid(), before.gid())
        );
        assert_ne!(after.ino(), before.ino());
        assert_eq!(names(place.path()), ["run.sh"]);
    }

    #[test]
    fn a_new_file_has_the_mode_the_mask_allows() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(replace(&place.path().join("a"), b"new").unwrap(), Replaced::Created);
        std::fs::write(place.path().join("b"), "").unwrap();
        let mode = |name: &str| place.path().join(name).metadata().unwrap().mode();
        assert_eq!(mode("a"), mode("b"));
    }

    #[test]
    fn a_hard_linked_file_is_written_in_place() {
        let place = tempfile::tempdir().unwrap();
        let (path, other) = (place.path().join("a"), place.path().join("b"));
        std::fs::write(&path, "old and longer").unwrap();
        std::fs::hard_link(&path, &other).unwrap();
        assert_eq!(replace(&path, b"new").unwrap(), Replaced::InPlaceForLinks);
        assert_eq!(std::fs::read(&other).unwrap(), b"new");
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        assert!(replace(&place.path().join("none/a"), b"new").is_err());
        assert_eq!(names(place.path()), [""; 0]);
    }
}
