//! Linked worktrees at the state that a working tree is in.
//!
//! One has a place of its own: the tree, the index it began with, and nothing
//! of the user's. Its repository knows it by an administrative directory and
//! keeps what it holds alive. Who works in one, and what becomes of the work,
//! is decided above.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::call::{self, Git};
use super::complaint::no_tree;
use super::omission::{self, OmissionKind, OmittedPath};
use super::snapshot::{StageExtent, copy_index, skip, stage};
use super::{GitError, Program, text_line};

pub(crate) use super::merge::FILE_CAP;
pub use super::merge::{Merged, Side, contents, link_target, merge};

/// The index that a worktree began with, within its place.
const INDEX: &str = "index";

/// An index that is being worked with, within a worktree's place.
const SCRATCH_INDEX: &str = "index.now";

/// Maximum time for the question which filters there are.
const FILTER_LIMIT: Duration = Duration::from_secs(10);

/// Maximum bytes of the names of files with a filter that are counted.
const FILTER_LIST_CAP: usize = 256 * 1024;

/// What commits say that hold a state.
pub(super) const STATE_MESSAGE: &str = "State of the workspace, for a worktree of tine";

/// The state of a working tree, kept in its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The working tree's top directory, without links in its path.
    pub top: PathBuf,
    /// Where the one who works there stands, below the top.
    pub below: PathBuf,
    /// What all worktrees of the repository share.
    pub repository: PathBuf,
    /// The commit that holds the state.
    pub base: String,
    /// What reads and writes it.
    pub program: Program,
    /// Parts of the working tree that the commit or a worktree of it lacks.
    pub gaps: SnapshotGaps,
}

/// Differences between a working tree and the commit that holds its state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotGaps {
    /// The tracked files that a sparse checkout leaves out. They are in the commit,
    /// and in no worktree.
    pub sparse: Vec<PathBuf>,
    /// The directories without a file, which a worktree gets all the same.
    pub empty: Vec<PathBuf>,
    /// Files that a worktree does not get.
    pub left_out: Vec<OmittedPath>,
}

/// Everything that was changed in a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeChanges {
    /// The files that are not as they were.
    pub files: Vec<Change>,
    /// Files of the worktree that are in no patch.
    pub left_out: Vec<OmittedPath>,
}

/// A linked worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// Its top directory.
    pub tree: PathBuf,
    /// Where its repository keeps what it knows of it.
    pub git_directory: PathBuf,
    /// What all worktrees of the repository share.
    pub repository: PathBuf,
    /// The commit that holds the state it began with.
    pub base: String,
    /// The directory that it and its index are in.
    pub place: PathBuf,
    /// What reads and writes it.
    pub program: Program,
}

/// A file that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its name below the top.
    pub path: PathBuf,
    /// What it was; `None` if it was not there.
    pub before: Option<Node>,
    /// What it is; `None` if it is gone.
    pub after: Option<Node>,
    /// Whether git ignores it. Such a file is new.
    pub is_ignored: bool,
}

/// What a name in a tree stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What kind of thing it is.
    pub kind: NodeKind,
    /// The name of the object that has its bytes.
    pub object: String,
}

/// The kinds of things in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A file.
    File {
        /// Whether it can be run.
        is_executable: bool,
    },
    /// A symbolic link; its bytes are where it leads.
    Link,
    /// Another repository.
    Submodule,
}

/// Takes the state of the working tree around `workspace` into its repository.
/// `place` takes what is needed meanwhile.
///
/// # Errors
///
/// [`GitError::NotARepository`] or [`GitError::NoWorkingTree`] where there is
/// none.
pub fn snapshot(program: &Program, workspace: &Path, place: &Path) -> Result<Snapshot, GitError> {
    let workspace = &workspace.canonicalize().map_err(|error| failed(workspace, &error))?;
    let git = Git::at(program, workspace).map_err(|error| no_tree(workspace, error))?;
    let arguments = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"];
    let found = git.run(&[&arguments[..], &["--git-path", "index"]].concat());
    let found = found.map_err(|error| no_tree(workspace, error))?;
    let lines: Vec<&[u8]> = found.strip_suffix(b"\n").unwrap_or(&found).split(newline).collect();
    let [top, repository, index] = lines[..] else {
        return Err(GitError::Failed { message: "a path holds a line break".to_owned() });
    };
    let top = call::path(top);
    let top = top.canonicalize().map_err(|error| failed(&top, &error))?;
    // `core.worktree` can name any directory.
    let Ok(below) = workspace.strip_prefix(&top) else {
        return Err(GitError::NoWorkingTree { path: workspace.clone() });
    };
    if place.starts_with(&top) {
        let message = format!("{} is inside the working tree", place.display());
        return Err(GitError::Failed { message });
    }
    let git = Git::at(program, &top)?.patient();
    let scratch = place.join(SCRATCH_INDEX);
    copy_index(&call::path(index), &scratch).map_err(|error| failed(&scratch, &error))?;
    let staged = stage(&git.clone().index(&scratch), &top, StageExtent::Workspace)?;
    remove(&scratch)?;
    let gaps = SnapshotGaps {
        sparse: staged.sparse,
        empty: omission::empty(&git, &top)?,
        left_out: staged.left_out.into_iter().chain(filtered(&git, program, &top)).collect(),
    };
    let tree = staged.tree;
    let head = git.run(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
    let head = head.ok().map(|id| text_line(&id));
    let parent = head.iter().flat_map(|head| ["-p", head]);
    let commit = ["commit-tree", &tree, "-m", STATE_MESSAGE];
    let commit: Vec<&str> = commit.into_iter().chain(parent).collect();
    let base = text_line(&git.run(&commit)?);
    let (below, repository) = (below.to_owned(), call::path(repository));
    Ok(Snapshot { below, repository, base, top, program: program.clone(), gaps })
}

/// Returns the files that a filter keeps elsewhere: no filter is run here, so a
/// worktree has what git has of them.
fn filtered(git: &Git, program: &Program, top: &Path) -> Vec<OmittedPath> {
    let drivers = call::filter_drivers(program, top, FILTER_LIMIT).unwrap_or_default();
    let found = drivers.into_iter().filter_map(|driver| {
        let attribute = format!(":(top,attr:filter={driver})");
        let (listed, _) = git.head(&["ls-files", "-z", "--", &attribute], FILTER_LIST_CAP).ok()?;
        let names: Vec<&[u8]> =
            listed.split(|byte| *byte == 0).filter(|it| !it.is_empty()).collect();
        let path = call::path(names.first()?);
        let files = names.len() as u64;
        Some(OmittedPath { path, kind: OmissionKind::Filtered, files, bytes: 0 })
    });
    found.collect()
}

/// Links a worktree of that state at `place`, which nobody else may use. It
/// has no files yet.
///
/// # Errors
///
/// [`is_contended`] tells of an error whether another process was in the way.
pub fn link(snapshot: &Snapshot, place: &Path, reason: &str) -> Result<Linked, GitError> {
    let git = Git::at(&snapshot.program, &snapshot.top)?;
    link_by(&git, snapshot, place, reason)
}

/// The same where the repository has no working tree of its own: of the
/// snapshot's top only the name counts.
///
/// # Errors
///
/// As for [`link`].
pub fn link_bare(snapshot: &Snapshot, place: &Path, reason: &str) -> Result<Linked, GitError> {
    let git = Git::of_repository(&snapshot.program, &snapshot.repository)?;
    link_by(&git, snapshot, place, reason)
}

fn link_by(git: &Git, snapshot: &Snapshot, place: &Path, reason: &str) -> Result<Linked, GitError> {
    let tree = place.join(tree_name(&snapshot.top));
    let add = ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock", "--reason"];
    let add = add.into_iter().chain([reason]).map(OsStr::new);
    let add: Vec<&OsStr> = add.chain([tree.as_os_str(), OsStr::new(&snapshot.base)]).collect();
    git.run(&add)?;
    let found = Git::at(&snapshot.program, &tree)?.run(&[
        "rev-parse",
        "--path-format=absolute",
        "--git-dir",
    ])?;
    Ok(Linked {
        git_directory: call::path(found.strip_suffix(b"\n").unwrap_or(&found)),
        tree,
        repository: snapshot.repository.clone(),
        base: snapshot.base.clone(),
        place: place.to_owned(),
        program: snapshot.program.clone(),
    })
}

/// Returns what a worktree of the tree at `top` is called within its place: as
/// the original, because some tools take that for the project's name.
#[must_use]
pub fn tree_name(top: &Path) -> &OsStr {
    let ours = [INDEX, SCRATCH_INDEX, "lock", "about.json"];
    let name = top.file_name().unwrap_or(OsStr::new("tree"));
    if ours.iter().any(|ours| name == *ours) { OsStr::new("tree") } else { name }
}

/// Tells whether a call failed because another process holds a lock of git's.
#[must_use]
pub fn is_contended(error: &GitError) -> bool {
    let GitError::Failed { message } = error else { return false };
    [".lock'", "File exists", "Another git process"].iter().any(|words| message.contains(words))
}

impl Linked {
    /// Writes the files of the state that it is of, and makes sure that the
    /// directory `below` the top is there.
    ///
    /// # Errors
    ///
    /// A file could not be written, or its content is not there.
    pub fn fill(&self, snapshot: &Snapshot) -> Result<(), GitError> {
        let Snapshot { below, gaps, .. } = snapshot;
        let git = self.git()?;
        if gaps.sparse.is_empty() {
            git.run(&["read-tree", "--reset", "-u", &self.base])?;
        } else {
            git.run(&["read-tree", "--reset", &self.base])?;
            skip(&git, &gaps.sparse)?;
            git.run(&["checkout-index", "--all", "--index", "--quiet"])?;
        }
        for empty in &gaps.empty {
            let empty = self.tree.join(empty);
            fs::create_dir_all(&empty).map_err(|error| failed(&empty, &error))?;
        }
        let index = self.git_directory.join(INDEX);
        let copy = self.place.join(INDEX);
        copy_index(&index, &copy).map_err(|error| failed(&copy, &error))?;
        let below = self.tree.join(below);
        fs::create_dir_all(&below).map_err(|error| failed(&below, &error))
    }

    /// Returns what is not as it was, and puts all of it into a new file as a
    /// patch; no file is made if nothing changed.
    ///
    /// What was staged, committed or checked out there makes no difference:
    /// only the files count. Ignored ones do as far as they are work.
    ///
    /// # Errors
    ///
    /// The state cannot be read, or the patch not be written.
    pub fn changes(&self, patch: &Path) -> Result<TreeChanges, GitError> {
        let began_with = self.place.join(INDEX);
        if !began_with.try_exists().map_err(|error| failed(&began_with, &error))? {
            // It was never filled, so nobody worked in it.
            return Ok(TreeChanges::default());
        }
        let git = self.git()?;
        let scratch = self.place.join(SCRATCH_INDEX);
        copy_index(&began_with, &scratch).map_err(|error| failed(&scratch, &error))?;
        let staged = stage(&git.clone().index(&scratch), &self.tree, StageExtent::Worktree)?;
        remove(&scratch)?;
        let raw = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"];
        let mut files = parse(&git.run(&[&raw[..], &[&self.base, &staged.tree]].concat())?)?;
        for change in &mut files {
            change.is_ignored = staged.ignored.contains(&change.path);
        }
        if !files.is_empty() {
            self.write_patch(&git, &staged.tree, patch)?;
        }
        Ok(TreeChanges { files, left_out: staged.left_out })
    }

    /// Makes the change of a patch against the state that it began with, in an
    /// index and a tree that nobody has worked in yet.
    ///
    /// # Errors
    ///
    /// The patch is damaged, or of another state.
    pub fn apply(&self, patch: &[u8]) -> Result<(), GitError> {
        let git = self.git()?;
        // To the index alone: there are the bytes that it was made of, whatever line
        // ends files have here.
        let apply = ["apply", "--cached", "--binary", "--whitespace=nowarn"];
        git.feed(&[&apply[..], &["--no-ignore-whitespace", "-p1", "-"]].concat(), patch)?;
        let tree = text_line(&git.run(&["write-tree"])?);
        git.run(&["read-tree", "--reset", "-u", &tree]).map(drop)
    }

    fn write_patch(&self, git: &Git, tree: &str, patch: &Path) -> Result<(), GitError> {
        // Made by us: git would make it for everybody to read.
        let mut private = OpenOptions::new();
        private.write(true).create(true).truncate(true).mode(0o600);
        private.open(patch).map_err(|error| failed(patch, &error))?;
        let flags = ["diff-tree", "-r", "-p", "--binary", "--full-index", "--find-renames"];
        let plain = ["--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/"];
        let mut output = OsStr::new("--output=").to_owned();
        output.push(patch);
        let arguments = flags.into_iter().chain(plain).chain(["--dst-prefix=b/"]).map(OsStr::new);
        let ends = [output.as_os_str(), OsStr::new(&self.base), OsStr::new(tree)];
        git.run(&arguments.chain(ends).collect::<Vec<_>>()).map(drop)
    }

    /// Removes it with all its files, and what its repository knows of it.
    ///
    /// # Errors
    ///
    /// Some of it is still there.
    pub fn remove(&self) -> Result<(), GitError> {
        remove_directory(&self.tree).map_err(|error| failed(&self.tree, &error))?;
        // Twice, because it is locked. Other worktrees that are missing may be
        // on a disk that is not there now, so nothing is pruned.
        let tree = self.tree.as_os_str();
        let arguments = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
        let known = self.git_directory.exists();
        if known {
            let git = Git::of_repository(&self.program, &self.repository)?;
            git.run(&[&arguments[..], &[tree]].concat())?;
        }
        remove_directory(&self.place).map_err(|error| failed(&self.place, &error))
    }

    /// Returns git in it, with its repository as it was known when it was made.
    ///
    /// # Errors
    ///
    /// As for [`Git::at`].
    pub fn git(&self) -> Result<Git, GitError> {
        Ok(Git::of_tree(&self.program, &self.tree, &self.git_directory)?.patient())
    }
}

/// Makes a new directory for the user alone, and what is missing above it.
///
/// # Errors
///
/// It is there already, or cannot be made.
pub fn make_place(place: &Path) -> io::Result<()> {
    let mut private = DirBuilder::new();
    private.mode(0o700);
    if let Some(above) = place.parent() {
        private.recursive(true).create(above)?;
    }
    private.recursive(false).create(place)
}

/// Reads what `diff-tree --raw -z` printed.
fn parse(raw: &[u8]) -> Result<Vec<Change>, GitError> {
    let odd = || GitError::Failed { message: "its list of changes cannot be read".to_owned() };
    let mut parts = raw.split(|&byte| byte == 0).filter(|part| !part.is_empty());
    let mut changes = Vec::new();
    while let Some(head) = parts.next() {
        let head = std::str::from_utf8(head).map_err(|_| odd())?;
        let fields: Vec<&str> = head.trim_start_matches(':').split(' ').collect();
        let [old_mode, new_mode, old, new, _status] = fields[..] else { return Err(odd()) };
        let path = call::path(parts.next().ok_or_else(odd)?);
        let (before, after) = (node(old_mode, old), node(new_mode, new));
        changes.push(Change { path, before, after, is_ignored: false });
    }
    Ok(changes)
}

fn node(mode: &str, object: &str) -> Option<Node> {
    let kind = match mode {
        "000000" => return None,
        "120000" => NodeKind::Link,
        "160000" => NodeKind::Submodule,
        mode => NodeKind::File { is_executable: mode == "100755" },
    };
    Some(Node { kind, object: object.to_owned() })
}

fn newline(byte: &u8) -> bool {
    *byte == b'\n'
}

fn remove(file: &Path) -> Result<(), GitError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(file, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a directory, if it is there, with all in it. What cannot be written
/// is made so: some tools protect what they download.
///
/// # Errors
///
/// Some of it is still there.
pub fn remove_directory(directory: &Path) -> io::Result<()> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unprotect(directory)?;
            fs::remove_dir_all(directory)
        }
        Err(error) if is_gone(&error) => Ok(()),
        removed => removed,
    }
}

fn unprotect(directory: &Path) -> io::Result<()> {
    let mut permissions = fs::symlink_metadata(directory)?.permissions();
    permissions.set_mode(permissions.mode() | 0o700);
    fs::set_permissions(directory, permissions)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unprotect(&entry.path())?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> GitError {
    GitError::Failed { message: format!("{}: {error}", path.display()) }
}

#[cfg(test)]
mod tests;
