//! Our own git calls, and the change that is to be reviewed.
//!
//! A repository can name programs for git to run (fsmonitor, filters, external
//! diffs, text converters, hooks, transports). Every call made here goes
//! through [`Git`], which turns all of them off and bounds what comes back; only
//! `worktree` and `bundle` write to a repository. What the agents' shell may run is
//! none of this file's business.

pub mod bundle;
mod call;
mod complaint;
mod error;
mod hardened;
mod held;
pub mod marks;
mod merge;
mod named;
pub mod omission;
mod program;
mod snapshot;
mod text;
mod untracked;
mod versions;
pub mod worktree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::diff::{self, ChangeKind, FileChange};
use crate::message::counted;

pub(crate) use call::filter_drivers;
pub use call::{Git, OUTPUT_CAP, git};
pub use error::{Elsewhere, GitError};
pub(crate) use hardened::PROGRAMS;
pub use held::Held;
pub(crate) use named::{NamedFiles, files_of_blame, named_files};
pub use program::Program;
pub use versions::KnownVersions;

/// Most characters of a title: a commit's subject can be of any length.
pub const TITLE_CAP: usize = 200;

/// Most bytes of a commit that are looked at for its parents, which stand behind the
/// name of its tree.
const COMMIT_CAP: usize = 4_096;

/// How many characters of a commit's name people are told.
const SHORT: usize = 10;

/// Which change is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum What {
    /// What is not committed yet or, if there is nothing, the last commit.
    #[default]
    Auto,
    /// What is not committed yet: staged, unstaged and untracked.
    Uncommitted,
    /// All that was done since the working tree left this branch, committed or
    /// not.
    Base(String),
    /// One commit against its first parent.
    Commit(String),
}

/// A change, as text and as values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it is, in one line without control characters.
    pub title: String,
    /// The repository's top directory; names in the diff are relative to it.
    pub root: PathBuf,
    /// The commit that holds the files as they are after the change; `None` where
    /// the working tree does.
    pub commit: Option<String>,
    /// The unified diff. Bytes that are not UTF-8 are replaced.
    pub diff: String,
    /// The parsed diff; never empty.
    pub files: Vec<FileChange>,
    /// The files that may be text, and of which the diff says only that they
    /// differ: they are too large.
    pub too_large: BTreeSet<String>,
    /// What the diff leaves out of the files that git was never told of.
    pub apart: Vec<Apart>,
}

/// Something git was never told of that is no part of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// Its name as those of the diff are. Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// What it is.
    pub kind: ApartKind,
}

/// What can be left out of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApartKind {
    /// A file that begins as those that this program writes.
    Ours,
    /// A directory that is a repository of its own.
    Repository,
}

/// Tells whether a name is that of a commit by its hash, or of one before another.
fn is_older(name: &str) -> bool {
    let is_hash = name.len() >= SHORT && name.chars().all(|c| c.is_ascii_hexdigit());
    is_hash || name.contains(['~', '^'])
}

/// Returns the change that is asked for, from the repository around `root`.
///
/// The index is only read; untracked files count as added unless they are
/// ignored.
///
/// # Errors
///
/// A change without a file is [`GitError::EmptyChange`].
pub fn change(program: &Program, root: &Path, what: &What) -> Result<Change, GitError> {
    let repository = Repository::open(program, root)?;
    match what {
        What::Uncommitted => repository.uncommitted(),
        What::Base(name) => repository.since(name),
        What::Commit(name) => repository.commit(name),
        What::Auto => {
            let uncommitted = repository.uncommitted();
            match &uncommitted {
                Err(GitError::EmptyChange { .. }) => repository.commit("HEAD"),
                // Where somebody's shell puts the report, say.
                Ok(change) if repository.has_only_empty_files(change) => {
                    match repository.commit("HEAD") {
                        // There is a last commit, and only its change is not here.
                        Err(error @ GitError::NoParent { .. }) => Err(error),
                        Err(_) => uncommitted,
                        last => last,
                    }
                }
                Ok(_) | Err(_) => uncommitted,
            }
        }
    }
}

struct Repository<'a> {
    program: &'a Program,
    top: PathBuf,
}

/// Tells whether a name is that of a commit of the repository around `root`.
pub fn is_commit(program: &Program, root: &Path, name: &str) -> bool {
    Repository { program, top: root.to_owned() }.commit_id(name).is_ok()
}

struct Diff {
    text: Vec<u8>,
    /// Whether large files are shown too.
    is_whole: bool,
    /// The files that may be text and are not shown.
    too_large: BTreeSet<String>,
    /// What is left out of it.
    apart: Vec<Apart>,
}

impl<'a> Repository<'a> {
    fn open(program: &'a Program, root: &Path) -> Result<Self, GitError> {
        let top = git(program, root, &["rev-parse", "--show-toplevel"])
            .map_err(|error| complaint::no_tree(root, error))?;
        Ok(Self { program, top: call::path(top.strip_suffix(b"\n").unwrap_or(&top)) })
    }

    fn uncommitted(&self) -> Result<Change, GitError> {
        let title = format!("uncommitted change of {}", self.name());
        match self.commit_id("HEAD") {
            Ok(head) => self.working_tree(title, &head),
            Err(GitError::UnknownRevision { .. }) => {
                let nothing = self.empty_tree()?;
                self.working_tree(title, &nothing).map_err(|error| {
                    let empty = matches!(error, GitError::EmptyChange { .. });
                    if empty { GitError::NoCommits } else { error }
                })
            }
            Err(error) => Err(error),
        }
    }

    fn since(&self, name: &str) -> Result<Change, GitError> {
        let base = self.commit_id(name).map_err(|error| self.sought(error))?;
        let Ok(head) = self.commit_id("HEAD") else { return Err(GitError::NoCommits) };
        let fork = match self.git(&["merge-base", &base, &head]) {
            Err(GitError::Failed { .. }) => {
                let (name, is_shallow) = (name.to_owned(), self.is_shallow());
                return Err(GitError::NothingInCommon { name, is_shallow });
            }
            fork => fork?,
        };
        let title = format!("{} against {name}, with what is not committed yet", self.name());
        self.working_tree(title, &text_line(&fork))
    }

    fn commit(&self, name: &str) -> Result<Change, GitError> {
        let commit = self.commit_id(name).map_err(|error| {
            let unborn = name == "HEAD" && matches!(error, GitError::UnknownRevision { .. });
            if unborn { GitError::NoCommits } else { self.cut_off(error) }
        })?;
        let parent = match self.parent(&commit)? {
            Some(parent) => parent,
            None => self.empty_tree()?,
        };
        let head = ["log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%h: %s"];
        let title = self.git(&[&head[..], &[&commit, "--"]].concat())?;
        let diff = self.diff(&[&parent, &commit])?;
        let change = self.finish(format!("commit {}", text_line(&title)), &diff)?;
        Ok(Change { commit: Some(commit), ..change })
    }

    /// The first parent of a commit; `None` of one that has none, in which everything
    /// is new.
    fn parent(&self, commit: &str) -> Result<Option<String>, GitError> {
        match self.commit_id(&format!("{commit}^1")) {
            Err(GitError::UnknownRevision { .. }) => {}
            parent => return parent.map(Some),
        }
        // Where a shallow clone ends git shows a commit as one without parents. The
        // commit itself still says which it has, before all that somebody wrote.
        let git = Git::at(self.program, &self.top)?;
        let (head, _) = git.head(&["cat-file", "commit", commit], COMMIT_CAP)?;
        let head = String::from_utf8_lossy(&head);
        let mut lines = head.lines().take_while(|line| !line.is_empty());
        let Some(parent) = lines.find_map(|line| line.strip_prefix("parent ")) else {
            return Ok(None);
        };
        // It may have come along with another branch.
        match self.commit_id(parent) {
            Err(GitError::UnknownRevision { .. }) => {
                let commit = commit.chars().take(SHORT).collect();
                Err(GitError::NoParent { commit, is_shallow: self.is_shallow() })
            }
            parent => parent.map(Some),
        }
    }

    /// Tells whether the clone was made without the older commits.
    fn is_shallow(&self) -> bool {
        let told = self.git(&["rev-parse", "--is-shallow-repository"]);
        told.is_ok_and(|told| text_line(&told) == "true")
    }

    /// Says of a commit that is not here whether a shallow clone ends before it.
    fn cut_off(&self, error: GitError) -> GitError {
        let GitError::UnknownRevision { name, elsewhere } = error else { return error };
        let is_cut_off = is_older(&name) && self.is_shallow();
        let elsewhere = if is_cut_off { Elsewhere::Older } else { elsewhere };
        GitError::UnknownRevision { name, elsewhere }
    }

    /// Says of a branch that is not here where else it may be.
    fn sought(&self, error: GitError) -> GitError {
        let GitError::UnknownRevision { name, elsewhere: _ } = error else { return error };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
        let is_branch = name.chars().all(is_word) && !name.starts_with('-') && !name.contains("..");
        let has_remote = || self.git(&["config", "--get", "remote.origin.url"]).is_ok();
        let elsewhere = if self.commit_id(&format!("origin/{name}")).is_ok() {
            Elsewhere::Tracked
        } else if is_older(&name) && self.is_shallow() {
            Elsewhere::Older
        } else if is_branch && !name.is_empty() && has_remote() {
            Elsewhere::Remote
        } else {
            Elsewhere::Unknown
        };
        GitError::UnknownRevision { name, elsewhere }
    }

    /// What differs between a commit and the files as they are now.
    fn working_tree(&self, title: String, from: &str) -> Result<Change, GitError> {
        let mut diff = self.diff(&[from])?;
        let arguments = ["ls-files", "--others", "--exclude-standard", "-z"];
        let names = self.git(&arguments).map_err(call::too_many_untracked)?;
        untracked::append(&self.top, &names, &mut diff)?;
        self.finish(title, &diff)
    }

    /// The diff; if it is too long, without the content of large files.
    fn diff(&self, revisions: &[&str]) -> Result<Diff, GitError> {
        let (text, is_whole) = match self.diff_with(&[], revisions) {
            Err(error) if call::is_too_much(&error) => {
                // Git takes what is larger for binary, and names it only.
                let threshold = format!("core.bigFileThreshold={}", untracked::FILE_CAP);
                (self.diff_with(&["-c", &threshold], revisions)?, false)
            }
            text => (text?, true),
        };
        let text = String::from_utf8_lossy(&text);
        let (text, too_large) = text::shown(self, revisions, (&text, is_whole))?;
        Ok(Diff { text: text.into_bytes(), is_whole, too_large, apart: Vec::new() })
    }

    fn diff_with(&self, options: &[&str], revisions: &[&str]) -> Result<Vec<u8>, GitError> {
        self.git(&[options, &Self::DIFF, revisions, &["--"]].concat())
    }

    /// Every diff is asked for like this.
    const DIFF: [&'static str; 13] = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-relative",
        "--find-renames",
        "--unified=3",
        "--inter-hunk-context=0",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        // Asking a submodule whether it is dirty would run its config.
        "--ignore-submodules=dirty",
        "--submodule=short",
        "-O/dev/null",
    ];

    /// Tells whether all that is not committed is files without a byte that git
    /// was never told of.
    fn has_only_empty_files(&self, change: &Change) -> bool {
        let is_empty = |file: &FileChange| {
            file.kind == ChangeKind::Added && !file.binary && file.hunks.is_empty()
        };
        let is_untracked = || self.diff_with(&[], &["HEAD"]).is_ok_and(|diff| diff.is_empty());
        change.files.iter().all(is_empty) && is_untracked()
    }

    fn finish(&self, title: String, shown: &Diff) -> Result<Change, GitError> {
        let note = format!("; files over {} KiB are named only", untracked::FILE_CAP / 1024);
        let mut note = if shown.is_whole { String::new() } else { note };
        let count = |kind: ApartKind| shown.apart.iter().filter(|apart| apart.kind == kind).count();
        let (ours, nested) = (count(ApartKind::Ours), count(ApartKind::Repository));
        if ours > 0 {
            note.push_str(&format!("; without {} that tine wrote", counted(ours as u64, "file")));
        }
        match nested {
            0 => {}
            1 => note.push_str("; without 1 repository inside it"),
            many => note.push_str(&format!("; without {many} repositories inside it")),
        }
        let room = TITLE_CAP - note.len();
        let title = title.chars().filter(|c| !c.is_control()).take(room).chain(note.chars());
        let title = title.collect();
        let diff = generated_last(&String::from_utf8_lossy(&shown.text));
        let files = diff::parse(&diff);
        if files.is_empty() {
            return Err(GitError::EmptyChange { title });
        }
        let (too_large, apart) = (shown.too_large.clone(), shown.apart.clone());
        let (root, commit) = (self.top.clone(), None);
        Ok(Change { title, root, commit, diff, files, too_large, apart })
    }

    /// The full name of the commit that `name` means.
    fn commit_id(&self, name: &str) -> Result<String, GitError> {
        let elsewhere = Elsewhere::Unknown;
        let unknown = || GitError::UnknownRevision { name: name.to_owned(), elsewhere };
        // Git would take it for an option.
        if name.is_empty() || name.starts_with('-') || name.contains('\0') {
            return Err(unknown());
        }
        match self.git(&["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")]) {
            Ok(id) => Ok(text_line(&id)),
            // A damaged repository is not one without this commit.
            Err(error @ GitError::Failed { .. }) if error.way_out().is_some() => Err(error),
            Err(GitError::Failed { .. }) => Err(unknown()),
            Err(error) => Err(error),
        }
    }

    /// The tree without files. Its name depends on the repository's hash.
    fn empty_tree(&self) -> Result<String, GitError> {
        self.git(&["hash-object", "-t", "tree", "--stdin"]).map(|id| text_line(&id))
    }

    fn git(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        git(self.program, &self.top, arguments)
    }

    fn name(&self) -> String {
        let name = self.top.file_name().unwrap_or(self.top.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// Puts the files that nobody writes by hand behind the others: a reader who
/// gets only the head of a diff must not get a lock file instead of the code.
fn generated_last(diff: &str) -> String {
    // Within a hunk every line begins with a sign, so this is always a header.
    let starts = diff.match_indices("diff --git ").map(|(at, _)| at);
    let mut starts = starts.filter(|&at| at == 0 || diff.as_bytes()[at - 1] == b'\n').peekable();
    let mut ordered = diff[..starts.peek().copied().unwrap_or(diff.len())].to_owned();
    let mut last = String::new();
    while let Some(start) = starts.next() {
        let file = &diff[start..starts.peek().copied().unwrap_or(diff.len())];
        let header = file.lines().next().unwrap_or_default().trim_end_matches('"');
        let endings = [".lock", "-lock.json", "-lock.yaml", ".sum", ".min.js", ".snap", ".svg"];
        let is_generated = endings.iter().any(|ending| header.ends_with(ending));
        if is_generated { &mut last } else { &mut ordered }.push_str(file);
    }
    ordered + &last
}

fn text_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

#[cfg(test)]
pub(crate) mod tests;
