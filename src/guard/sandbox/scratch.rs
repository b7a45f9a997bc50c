//! The temporary directory of a command that does not have a file system of its own.
//!
//! Landlock fails without it, and `TMPDIR` may name a directory that does not exist, or
//! one on a disk that is full or read-only. So several places are tried.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

use super::Settings;

/// Makes the directory. It is removed when it is dropped.
///
/// # Errors
///
/// No place can be written. The error names all of them.
pub(super) fn make(settings: &Settings) -> io::Result<TempDir> {
    let own = settings.stubs.with_file_name("scratch");
    let mut refused = Vec::new();
    for place in &settings.scratch {
        match make_in(place) {
            Ok(directory) => return Ok(directory),
            Err(error) => refused.push(format!("{}: {error}", place.display())),
        }
    }
    if own.is_absolute() {
        match DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&own)
            .and_then(|()| make_in(&own))
        {
            Ok(directory) => return Ok(directory),
            Err(error) => refused.push(format!("{}: {error}", own.display())),
        }
    }
    let message = format!("no place for a temporary directory ({})", refused.join("; "));
    Err(io::Error::other(message))
}

fn make_in(place: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    let directory = builder
        .prefix("tine-command-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(place)?;
    // On a full disk a directory may still be made, but no file be written.
    let probe = directory.path().join("probe");
    fs::write(&probe, b".").and_then(|()| fs::remove_file(&probe))?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[track_caller]
    fn check(scratch: &[&Path], stubs: &Path, expected: Result<&Path, &str>) {
        let scratch = scratch.iter().map(PathBuf::from).collect();
        let settings = Settings { scratch, stubs: stubs.to_owned(), ..Settings::default() };
        match (make(&settings), expected) {
            (Ok(made), Ok(expected)) => assert_eq!(made.path().parent(), Some(expected)),
            (Err(error), Err(expected)) => {
                let error = error.to_string();
                assert!(error.starts_with("no place for a temporary directory ("), "{error}");
                assert!(error.contains(expected), "{error}");
            }
            (made, expected) => panic!("{made:?} is not {expected:?}"),
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let (good, gone) = (root.path().join("good"), root.path().join("gone"));
        let (file, own) = (root.path().join("file"), root.path().join("state/sandbox"));
        fs::create_dir(&good).unwrap();
        fs::write(&file, "").unwrap();
        let read_only = Path::new("/proc");
        let relative = Path::new("sandbox");
        check(&[&good, &gone], &own, Ok(&good));
        check(&[&gone, &good], &own, Ok(&good));
        check(&[&file, &good], &own, Ok(&good));
        check(&[read_only, &gone, &file, &good], &own, Ok(&good));
        check(&[&gone], &own, Ok(&root.path().join("state/scratch")));
        check(&[], &own, Ok(&root.path().join("state/scratch")));
        // No place is made but our own.
        assert!(!gone.exists());
        check(&[&gone], relative, Err("gone: "));
        check(&[&gone, read_only], &file.join("sandbox"), Err("/proc: "));
        check(&[&gone], &file.join("sandbox"), Err("scratch: "));
        assert_eq!(fs::read_dir(&good).unwrap().count(), 0);
    }
}
