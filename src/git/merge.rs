//! Contents of files as they stand in a working tree, and three of them merged.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::GitError;
use super::call::{self, Git};

/// Largest file that is put from one working tree into another. It is held in
/// memory a few times; what is larger is not source text.
pub(crate) const FILE_CAP: usize = 32 * 1024 * 1024;

/// The code from which on `merge-file` counts no conflicts any more.
const MERGE_FAILED: i32 = 128;

/// One of the three texts of a merge.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// What it is called between conflicts.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What became of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// Both changes are in it.
    Clean(Vec<u8>),
    /// Both changed the same places, which stand in it between marks, each
    /// side under its name.
    Conflicts(Vec<u8>),
    /// One of them is not a text.
    Binary,
}

/// Returns the bytes that a file with the object's content has in a working
/// tree of the repository: with the line ends that are asked for there.
///
/// # Errors
///
/// It is not there, or larger than `FILE_CAP` bytes.
pub fn contents(git: &Git, object: &str, path: &Path) -> Result<Vec<u8>, GitError> {
    let mut at = OsStr::new("--path=").to_owned();
    at.push(path);
    let arguments = [OsStr::new("cat-file"), OsStr::new("--filters"), &at, OsStr::new(object)];
    let ran = git.start(&arguments, &[], FILE_CAP)?;
    if ran.code == Some(0) { Ok(ran.printed) } else { ran.failed() }
}

/// Returns where a symbolic link with the object's content leads.
///
/// # Errors
///
/// It is not there.
pub fn link_target(git: &Git, object: &str) -> Result<PathBuf, GitError> {
    git.run(&["cat-file", "blob", object]).map(|target| call::path(&target))
}

/// Merges what `ours` and `theirs` have made of `base`. `scratch` is a
/// directory of the caller's own.
///
/// # Errors
///
/// The files could not be written, or git failed.
pub fn merge(
    git: &Git,
    scratch: &Path,
    [ours, base, theirs]: [Side<'_>; 3],
) -> Result<Merged, GitError> {
    let directory = tempfile::tempdir_in(scratch)
        .map_err(|error| GitError::Failed { message: format!("{}: {error}", scratch.display()) })?;
    let mut arguments = vec!["merge-file".into(), "--stdout".into(), "--quiet".into()];
    for side in [ours, base, theirs] {
        arguments.extend(["-L".into(), OsStr::new(side.name).to_owned()]);
    }
    for (file, side) in ["ours", "base", "theirs"].into_iter().zip([ours, base, theirs]) {
        let path = directory.path().join(file);
        fs::write(&path, side.bytes).map_err(|error| GitError::Failed {
            message: format!("{}: {error}", path.display()),
        })?;
        arguments.push(path.into_os_string());
    }
    // Both sides of every conflict, at the most.
    let ran = git.start(&arguments, &[], 4 * FILE_CAP)?;
    match ran.code {
        Some(0) => Ok(Merged::Clean(ran.printed)),
        Some(code) if code < MERGE_FAILED => Ok(Merged::Conflicts(ran.printed)),
        Some(_) if [ours, base, theirs].iter().any(|side| is_binary(side.bytes)) => {
            Ok(Merged::Binary)
        }
        Some(_) | None => ran.failed(),
    }
}

/// As git tells.
fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(8_000)].contains(&0)
}
