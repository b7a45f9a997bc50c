//! Where a path really leads, even where nothing exists yet.
//!
//! The guard decides about the file that this finds, and the file tools open
//! that file: one walk, so that they never speak of two different files.

use std::io;
use std::path::{Path, PathBuf};

/// Most links that are followed to a file that does not exist yet; the kernel
/// follows as many.
const LINK_CAP: usize = 40;

/// Returns the file a path leads to, every link followed. Neither the file nor
/// its directories need exist.
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
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such file or directory"));
        };
        let directory = locate(directory)?;
        match directory.join(name).read_link() {
            // A link whose target is still to be made.
            Ok(target) => path = directory.join(target),
            Err(_) => return Ok(directory.join(name)),
        }
    }
    Err(io::Error::other("too many links"))
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
}
