//! The state of a working tree as a tree object, uncommitted changes and all.
//!
//! All of it is done on an index of our own: the user's index, HEAD, refs and
//! stash stay as they are. Submodules and repositories within the tree are left
//! alone; looking into those would run their configuration. What is left out is
//! named: see `omission`, which decides about ignored files as well.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, FileTimes};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::call::{self, Git, path};
use super::omission::{self, OmissionKind, OmittedPath};
use super::{GitError, text_line};

/// Maximum number of untracked files that are taken into a snapshot. More is a
/// build directory that is missing from `.gitignore`.
const UNTRACKED_CAP: usize = 20_000;

/// Maximum bytes of all untracked files of a snapshot. They are written into the
/// repository, and out of it again for every slot.
const UNTRACKED_BYTES_CAP: u64 = 1024 * 1024 * 1024;

/// Maximum bytes of the list of all files, of which only the flagged are kept.
const LIST_CAP: u64 = 1024 * 1024 * 1024;

/// Files that are staged in addition to tracked and untracked ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StageExtent {
    /// None: ignored files stay where they are.
    Workspace,
    /// Ignored files that are work: they would be deleted with the worktree.
    Worktree,
}

/// A state that is staged.
#[derive(Debug, Default)]
pub(super) struct StagedTree {
    /// The name of its tree.
    pub(super) tree: String,
    /// The files that are in it although they are ignored.
    pub(super) ignored: BTreeSet<PathBuf>,
    /// Files that are not in it.
    pub(super) left_out: Vec<OmittedPath>,
    /// The tracked files that a sparse checkout leaves out.
    pub(super) sparse: Vec<PathBuf>,
}

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
/// at `top`, and returns the tree that it then is.
pub(super) fn stage(git: &Git, top: &Path, extent: StageExtent) -> Result<StagedTree, GitError> {
    let IndexListing { flagged, submodules } = IndexListing::of(git)?;
    let mut staged = StagedTree::default();
    let is_there = |name: &[u8]| top.join(path(name)).symlink_metadata().is_ok();
    let (seen, sparse): (Vec<FlaggedFile>, Vec<FlaggedFile>) =
        flagged.into_iter().partition(|it| !it.is_skipped || is_there(&it.name));
    staged.sparse = sparse.iter().map(|it| path(&it.name)).collect();
    // Git does not check files with `assume-unchanged` or `skip-worktree`.
    let seen: Vec<&[u8]> = seen.iter().map(|it| &*it.name).collect();
    for flag in ["--no-skip-worktree", "--no-assume-unchanged"] {
        update(git, &[flag], &seen)?;
    }
    let changed = git.run(&[
        "diff-files",
        "-z",
        "--name-only",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=all",
    ])?;
    let listed = git.run(&["ls-files", "-z", "--others", "--exclude-standard"]);
    let listed = listed.map_err(call::too_many_untracked)?;
    // What ends with a slash is a repository of its own.
    let (nested, untracked): (Vec<&[u8]>, Vec<&[u8]>) =
        names(&listed).partition(|name| name.ends_with(b"/"));
    check_untracked(top, &untracked)?;
    staged.left_out = omission::repositories(top, &nested, OmissionKind::Repository);
    let submodules: Vec<&[u8]> = submodules.iter().map(Vec::as_slice).collect();
    staged.left_out.extend(omission::repositories(top, &submodules, OmissionKind::Submodule));
    if extent == StageExtent::Worktree {
        let ignored = omission::ignored(git, top)?;
        staged.left_out.extend(ignored.left_out);
        let known: HashSet<&[u8]> = untracked.iter().copied().collect();
        let is_new = |name: &PathBuf| !known.contains(name.as_os_str().as_encoded_bytes());
        staged.ignored = ignored.taken.into_iter().filter(is_new).collect();
    }
    let taken = staged.ignored.iter().map(|name| name.as_os_str().as_encoded_bytes());
    // A file with conflicts comes several times.
    let paths: BTreeSet<&[u8]> = names(&changed).chain(untracked).chain(taken).collect();
    let paths: Vec<&[u8]> = paths.into_iter().collect();
    update(git, &["--add", "--remove", "--replace"], &paths)?;
    staged.tree = git.run(&["write-tree"]).map(|tree| text_line(&tree))?;
    Ok(staged)
}

/// Sets `skip-worktree` for files in the index that `git` uses.
pub(super) fn skip(git: &Git, files: &[PathBuf]) -> Result<(), GitError> {
    let names: Vec<&[u8]> = files.iter().map(|file| file.as_os_str().as_encoded_bytes()).collect();
    update(git, &["--skip-worktree"], &names)
}

fn update(git: &Git, options: &[&str], names: &[&[u8]]) -> Result<(), GitError> {
    if names.is_empty() {
        return Ok(());
    }
    let mut input = names.join(&0);
    input.push(0);
    let command = [&["update-index", "-z"], options, &["--stdin"]].concat();
    git.feed(&command, &input).map(drop)
}

/// A file that git is told not to look at.
#[derive(Debug)]
struct FlaggedFile {
    name: Vec<u8>,
    /// `true` for `skip-worktree`: the file may be missing, as outside of a sparse
    /// checkout.
    is_skipped: bool,
}

/// Reads the list of all files of an index, and keeps those that matter here:
/// there may be a million of them.
#[derive(Debug, Default)]
struct IndexListing {
    flagged: Vec<FlaggedFile>,
    submodules: Vec<Vec<u8>>,
}

/// The entry of a list that is being written.
struct IndexListingWriter<'a> {
    listed: &'a mut IndexListing,
    entry: Vec<u8>,
}

impl IndexListing {
    fn of(git: &Git) -> Result<Self, GitError> {
        let mut listed = Self::default();
        let mut entries = IndexListingWriter { listed: &mut listed, entry: Vec::new() };
        let is_whole = git.pour(&["ls-files", "-z", "-v", "--stage"], &mut entries, LIST_CAP)?;
        if !is_whole {
            let message = format!("the list of its files has more than {LIST_CAP} bytes");
            return Err(GitError::Failed { message });
        }
        Ok(listed)
    }

    /// Takes `TAG MODE OBJECT STAGE<tab>NAME`.
    fn take(&mut self, entry: &[u8]) {
        let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { return };
        let (head, name) = (&entry[..tab], &entry[tab + 1..]);
        let (Some(tag), mode) = (head.first(), head.get(2..8)) else { return };
        if mode == Some(b"160000") {
            self.submodules.push(name.to_vec());
        } else if *tag == b'S' || tag.is_ascii_lowercase() {
            let is_skipped = tag.eq_ignore_ascii_case(&b'S');
            self.flagged.push(FlaggedFile { name: name.to_vec(), is_skipped });
        }
    }
}

impl Write for IndexListingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut parts = bytes.split(|byte| *byte == 0).peekable();
        while let Some(part) = parts.next() {
            self.entry.extend_from_slice(part);
            if parts.peek().is_some() {
                self.listed.take(&self.entry);
                self.entry.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
