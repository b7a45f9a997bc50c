//! Where a path really leads, even where nothing exists yet.
//!
//! The guard decides about the file that this finds, and the file tools open
//! that file: one walk, so that they never speak of two different files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::look_alike::composed;

/// Most links that are followed to a file that does not exist yet; the kernel
/// follows as many.
const LINK_CAP: usize = 40;

/// Maximum entries of a directory that are compared with a name that is missing.
const ENTRIES_CAP: usize = 10_000;

/// Returns the file a path leads to, every link followed. Neither the file nor
/// its directories need exist.
///
/// If a name is missing and exactly one entry of its directory is the same name in
/// another Unicode normal form, that entry is meant: macOS writes `é` as two
/// characters, and a reader cannot see which form a name has.
///
/// # Errors
///
/// A link cannot be followed, or the path has no name at its end.
pub fn locate(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINK_CAP {
        match path.canonicalize() {
            Ok(target) => return Ok(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let entry = locate_entry(&path)?;
        match entry.read_link() {
            // A link whose target is still to be made.
            Ok(target) => path = entry.with_file_name(target),
            Err(_) => return Ok(entry),
        }
    }
    Err(io::Error::other("too many links"))
}

/// Returns the directory entry that a path names: the links of its directory are
/// followed, and the entry may be a link itself. It need not exist.
///
/// # Errors
///
/// As for [`locate`].
pub fn locate_entry(path: &Path) -> io::Result<PathBuf> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no such file or directory"));
    };
    let directory = locate(directory)?;
    let entry = directory.join(name);
    if entry.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        && let Some(other) = same_name(&directory, name)
    {
        return Ok(directory.join(other));
    }
    Ok(entry)
}

/// Returns the only entry of a directory whose name differs from `name` in nothing but
/// its normal form.
fn same_name(directory: &Path, name: &OsStr) -> Option<OsString> {
    let name = name.to_str().filter(|name| !name.is_ascii())?;
    let wanted = composed(name);
    let entries = directory.read_dir().ok()?.take(ENTRIES_CAP).filter_map(Result::ok);
    let mut same = entries
        .map(|entry| entry.file_name())
        .filter(|found| found.to_str().is_some_and(|found| composed(found) == wanted));
    let first = same.next()?;
    same.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_followed_even_where_nothing_is_there_yet() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("missing/file", root.join("soft")).unwrap();
        assert_eq!(locate(&root.join("soft")).unwrap(), root.join("missing/file"));
        assert_eq!(locate(&root.join("x/y/z")).unwrap(), root.join("x/y/z"));
        assert!(locate(&root.join("loop")).is_err());
    }

    #[test]
    fn an_entry_may_be_a_link_and_only_those_above_it_are_followed() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        symlink("../file", root.join("d/link")).unwrap();
        symlink("d", root.join("to")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        for (path, expected) in
            [("to/link", "d/link"), ("to", "to"), ("loop", "loop"), ("to/new", "d/new")]
        {
            assert_eq!(locate_entry(&root.join(path)).unwrap(), root.join(expected));
        }
        assert!(locate_entry(Path::new("/")).is_err());
    }

    #[test]
    fn a_name_in_another_normal_form_is_found_if_it_is_the_only_one() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let (one, two) = ("caf\u{e9}", "cafe\u{301}");
        std::fs::create_dir(root.join(two)).unwrap();
        std::fs::write(root.join(two).join("\u{212b}.txt"), "").unwrap();
        symlink("nowhere", root.join("li\u{301}nk")).unwrap();
        let found = locate(&root.join(one).join("A\u{30a}.txt")).unwrap();
        assert_eq!(found, root.join(two).join("\u{212b}.txt"));
        assert_eq!(locate(&root.join(one).join("new")).unwrap(), root.join(two).join("new"));
        assert_eq!(locate(&root.join("l\u{ed}nk")).unwrap(), root.join("nowhere"));
        // An existing name means itself; two candidates are ambiguous.
        std::fs::create_dir(root.join(one)).unwrap();
        assert_eq!(locate(&root.join(one)).unwrap(), root.join(one));
        for name in ["e\u{323}\u{302}", "\u{1eb9}\u{302}"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        assert_eq!(locate(&root.join("\u{1ec7}")).unwrap(), root.join("\u{1ec7}"));
    }
}
