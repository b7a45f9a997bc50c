//! Sizes and times of the files of a working tree that differ from the commit.
//!
//! Comparing two sets of marks shows which files have changed in between, without a
//! snapshot. Git itself detects changes in the same way.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::call::{self, Git};
use super::{GitError, Program};

/// Size, and when content and metadata were last changed.
type FileMark = (u64, (i64, i64), (i64, i64));

/// The changed, untracked and ignored files of a working tree, each with its mark.
#[derive(Debug, PartialEq, Eq)]
pub struct ChangeMarks(BTreeMap<PathBuf, Option<FileMark>>);

impl ChangeMarks {
    /// Records the marks of the working tree at `top`. For a directory in which all
    /// files are ignored, only the directory itself is recorded.
    ///
    /// # Errors
    ///
    /// As for [`Git::run`].
    pub fn of(program: &Program, top: &Path) -> Result<Self, GitError> {
        let git = Git::at(program, top)?;
        let others = ["ls-files", "-z", "--others", "--exclude-standard"];
        let listed = [
            git.run(&[
                "diff-files",
                "-z",
                "--name-only",
                "--no-ext-diff",
                "--ignore-submodules=all",
            ])?,
            git.run(&others)?,
            git.run(&[&others[..], &["--ignored", "--directory"]].concat())?,
        ];
        let names = listed.iter().flat_map(|listed| listed.split(|byte| *byte == 0));
        let names = names.filter(|name| !name.is_empty());
        let marked = names.map(|name| {
            let name = call::path(name.strip_suffix(b"/").unwrap_or(name));
            let mark = top.join(&name).symlink_metadata().ok().map(|found| {
                let (content, metadata) =
                    ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
                (found.len(), content, metadata)
            });
            (name, mark)
        });
        Ok(Self(marked.collect()))
    }

    /// Returns the files whose marks differ from those in `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<PathBuf> {
        let names = self.0.keys().chain(before.0.keys());
        let changed = names.filter(|name| self.0.get(*name) != before.0.get(*name));
        let mut changed: Vec<PathBuf> = changed.cloned().collect();
        changed.sort();
        changed.dedup();
        changed
    }
}
