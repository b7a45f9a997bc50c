//! The state of a working tree as a tree object, uncommitted changes and all.
//!
//! All of it is done on an index of our own: the user's index, HEAD, refs and
//! stash stay as they are. Ignored files, submodules and repositories within
//! the tree are left alone; looking into those would run their configuration.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io;
use std::path::Path;

use super::call::{Git, path};
use super::{GitError, text_line};

/// Most untracked files that are taken into a snapshot. More is a build
/// directory somebody forgot to ignore.
const UNTRACKED_CAP: usize = 20_000;

/// Most bytes of all untracked files of a snapshot. They are written into the
/// repository, and out of it again for every slot.
const UNTRACKED_BYTES_CAP: u64 = 1024 * 1024 * 1024;

/// Copies an index, if there is one. The copy is as old as the original: by
/// its age git knows which files it has to look into.
pub(super) fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let mut original = match File::open(from) {
        Ok(original) => original,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // Of the file that was opened: another one may have its name by now.
    let modified = original.metadata()?.modified()?;
    let mut copy = File::create(to)?;
    io::copy(&mut original, &mut copy)?;
    copy.set_times(FileTimes::new().set_modified(modified))
}

/// Brings the index that `git` is set to up to the files of the working tree
/// at `top`, and returns the name of the tree that it then is.
pub(super) fn stage(git: &Git, top: &Path) -> Result<String, GitError> {
    let changed = git.run(&[
        "diff-files",
        "-z",
        "--name-only",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=all",
    ])?;
    let untracked = git.run(&["ls-files", "-z", "--others", "--exclude-standard"])?;
    // What ends with a slash is a repository of its own.
    let untracked: Vec<&[u8]> = names(&untracked).filter(|name| !name.ends_with(b"/")).collect();
    check_untracked(top, &untracked)?;
    // A file with conflicts comes several times.
    let paths: BTreeSet<&[u8]> = names(&changed).chain(untracked).collect();
    if !paths.is_empty() {
        let mut input = paths.into_iter().collect::<Vec<_>>().join(&0);
        input.push(0);
        let update = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
        git.feed(&update, &input)?;
    }
    git.run(&["write-tree"]).map(|tree| text_line(&tree))
}

fn check_untracked(top: &Path, untracked: &[&[u8]]) -> Result<(), GitError> {
    let advice = "add what is generated or large to .gitignore";
    let refused = |what: String| Err(GitError::Failed { message: format!("{what}; {advice}") });
    if untracked.len() > UNTRACKED_CAP {
        return refused(format!("there are {} untracked files", untracked.len()));
    }
    // One that has just gone counts nothing.
    let size = |name: &[u8]| fs::symlink_metadata(top.join(path(name))).map_or(0, |at| at.len());
    let bytes: u64 = untracked.iter().map(|name| size(name)).sum();
    if bytes > UNTRACKED_BYTES_CAP {
        return refused(format!("the untracked files have {} MiB", bytes / 1024 / 1024));
    }
    Ok(())
}

fn names(listed: &[u8]) -> impl Iterator<Item = &[u8]> {
    listed.split(|&byte| byte == 0).filter(|name| !name.is_empty())
}
