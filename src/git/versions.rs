//! The committed versions of files that a command may bring back.
//!
//! A file that programs run later is harmless if it is as a branch has it: the user's own
//! `git switch` would create the same file. So the versions are listed before the first
//! command runs, and kept in memory. The repository itself is no witness afterwards: a
//! command can write objects, commits and branches.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::call::path as path_of;
use super::{Git, GitError, Program};

/// Maximum number of branches and tags that are looked at, the latest first. Each takes git
/// some 2 ms.
const TIPS_CAP: &str = "--count=20";

/// Maximum number of files in a directory that is compared.
const FILES_CAP: usize = 200;

/// Maximum bytes of a file that is compared.
const BYTES_CAP: u64 = 16 * 1024 * 1024;

/// One version of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FileVersion {
    /// The path below the directory that was listed.
    path: PathBuf,
    is_executable: bool,
    /// The name of the blob.
    blob: Vec<u8>,
}

/// The versions of some files in the latest commits of a repository's branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownVersions {
    program: Program,
    files: Arc<BTreeSet<FileVersion>>,
}

impl KnownVersions {
    /// Lists the versions of what has these names in `root`. Empty where git cannot tell.
    pub(crate) fn list(program: &Program, root: &Path, names: &[&str]) -> Self {
        let files = list_files(program, root, names).unwrap_or_default();
        Self { program: program.clone(), files: Arc::new(files) }
    }

    /// Returns whether a path in `root` leads to a file that is as a branch had it, or to a
    /// directory with only such files. Links are not.
    pub(crate) fn contain(&self, root: &Path, path: &Path) -> bool {
        let mut found = Vec::new();
        if self.files.is_empty() || collect_files(path, &mut found).is_none() || found.is_empty() {
            return false;
        }
        let is_known = |git: &Git| -> Option<bool> {
            // Without filters: a repository's attributes could turn any bytes into these.
            let mut arguments = vec!["hash-object".into(), "--no-filters".into(), "--".into()];
            arguments.extend(found.iter().map(|(path, _)| path.as_os_str().to_owned()));
            let printed = git.run(&arguments).ok()?;
            let blobs: Vec<&[u8]> = printed.split(|&byte| byte == b'\n').collect();
            let blobs = blobs.strip_suffix(&[&[][..]])?;
            let versions = found.iter().zip(blobs).map(|((path, is_executable), blob)| {
                let path = path.strip_prefix(root).ok()?.to_owned();
                Some(FileVersion { path, is_executable: *is_executable, blob: blob.to_vec() })
            });
            let versions: Vec<FileVersion> = versions.collect::<Option<_>>()?;
            let is_whole = versions.len() == found.len();
            Some(is_whole && versions.iter().all(|version| self.files.contains(version)))
        };
        let git = Git::at(&self.program, root).ok();
        git.as_ref().and_then(is_known).unwrap_or(false)
    }
}

fn list_files(
    program: &Program,
    root: &Path,
    names: &[&str],
) -> Result<BTreeSet<FileVersion>, GitError> {
    let git = Git::at(program, root)?;
    let format = "--format=%(tree)%(*tree)";
    let mut trees = git.run(&["for-each-ref", "--sort=-committerdate", TIPS_CAP, format])?;
    // A detached one is on no branch; a new repository has none.
    trees.extend(git.run(&["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]).unwrap_or_default());
    let trees = String::from_utf8_lossy(&trees);
    let trees: BTreeSet<&str> = trees.lines().filter(|tree| !tree.is_empty()).collect();
    let mut files = BTreeSet::new();
    for tree in trees {
        let mut arguments = vec!["ls-tree", "-r", "-z", tree, "--"];
        arguments.extend(names);
        let listed = git.run(&arguments)?;
        files.extend(listed.split(|&byte| byte == 0).filter_map(listed_file));
    }
    Ok(files)
}

/// Reads one entry of `git ls-tree`; `None` for a link, a submodule and the empty end.
fn listed_file(entry: &[u8]) -> Option<FileVersion> {
    let tab = entry.iter().position(|&byte| byte == b'\t')?;
    let mut fields = entry[..tab].split(|&byte| byte == b' ');
    let is_executable = match fields.next()? {
        b"100644" => false,
        b"100755" => true,
        _ => return None,
    };
    let blob = fields.nth(1)?.to_vec();
    Some(FileVersion { path: path_of(&entry[tab + 1..]), is_executable, blob })
}

/// Collects the files at a path and below it, each with whether it is executable; `None` if
/// there is anything else, or too much.
fn collect_files(path: &Path, found: &mut Vec<(PathBuf, bool)>) -> Option<()> {
    let metadata = path.symlink_metadata().ok()?;
    if metadata.is_dir() {
        for entry in path.read_dir().ok()? {
            collect_files(&entry.ok()?.path(), found)?;
        }
        return Some(());
    }
    let fits = metadata.is_file() && metadata.len() <= BYTES_CAP && found.len() < FILES_CAP;
    // Git prints one name a line.
    let is_plain = !path.as_os_str().as_bytes().contains(&b'\n');
    (fits && is_plain).then(|| found.push((path.to_owned(), metadata.mode() & 0o111 != 0)))
}
