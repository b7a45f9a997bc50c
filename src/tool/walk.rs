//! The walk through a directory that Glob and Grep share.
//!
//! It gives regular files in the order of their paths. Files that git ignores
//! and hidden files are left out, `.git` is never entered, links are not
//! followed. What a user's own git settings say does not count: a search finds
//! the same on every machine.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use ignore::types::Types;
use ignore::{DirEntry, Walk, WalkBuilder};

use crate::path_text;

use super::{ToolError, Workspace, regular};

/// Starts a walk at a directory or a single file.
#[must_use]
pub fn walk(base: &Path, hidden: bool, types: Option<Types>) -> Walk {
    let mut builder = WalkBuilder::new(base);
    builder
        .hidden(!hidden)
        .git_global(false)
        .require_git(false)
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp);
    if let Some(types) = types {
        builder.types(types);
    }
    builder.build()
}

/// Tells whether an entry of a walk is a regular file. The file a walk starts
/// at may be a link.
#[must_use]
pub fn is_file(entry: &DirEntry) -> bool {
    match entry.depth() {
        0 => entry.path().is_file(),
        _ => entry.file_type().is_some_and(|kind| kind.is_file()),
    }
}

/// Tells whether a pattern names a hidden file or directory.
#[must_use]
pub fn names_hidden(pattern: &str) -> bool {
    let mut before = '/';
    let mut characters = pattern.chars().peekable();
    while let Some(c) = characters.next() {
        let begins = matches!(before, '/' | '{' | ',' | '!');
        let hidden = characters.peek().is_some_and(|next| !matches!(next, '/' | '.'));
        if c == '.' && begins && hidden {
            return true;
        }
        before = c;
    }
    false
}

/// Compiles a pattern in which `*` stays within one directory.
///
/// # Errors
///
/// A sentence for the model that says what is wrong.
pub fn glob(name: &str, pattern: &str) -> Result<GlobMatcher, ToolError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| ToolError::tell(format!("Parameter \"{name}\" is no pattern: {error}.")))
}

/// Refuses a place to search that is not there.
///
/// # Errors
///
/// A sentence for the model.
pub fn refuse_missing(workspace: &Workspace, base: &Path) -> Result<std::fs::Metadata, ToolError> {
    base.metadata().map_err(|error| {
        if error.kind() != std::io::ErrorKind::NotFound {
            return regular::failed(workspace, base, "search", &error);
        }
        let shown = path_text::shown(&workspace.root, base);
        ToolError::tell(format!("There is no file or directory {shown}."))
    })
}

/// How many entries of a walk are missing from its result.
#[derive(Debug, Clone, Copy, Default)]
pub struct Missing {
    /// Those that could not be read.
    pub unread: u64,
    /// Files that a rule denies.
    pub denied: u64,
}

impl Missing {
    /// Returns a sentence for each kind that there is.
    #[must_use]
    pub fn note(self) -> String {
        let unread = match self.unread {
            0 => String::new(),
            1 => "[1 file or directory could not be read.]\n".to_owned(),
            number => format!("[{number} files or directories could not be read.]\n"),
        };
        match self.denied {
            0 => unread,
            1 => unread + "[1 file is left out, because a permission rule denies it.]\n",
            number => {
                unread
                    + &format!(
                        "[{number} files are left out, because permission rules deny them.]\n"
                    )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_hidden_files_by_a_segment_that_starts_with_a_dot() {
        for pattern in [".github/**", "**/.env", "{.a,b}/x", "{a,.b}/x", "!.cache/**", ".*"] {
            assert!(names_hidden(pattern), "{pattern}");
        }
        for pattern in ["*.rs", "src/a.b", "./src/*", "../x", "**/*", ""] {
            assert!(!names_hidden(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_walk_goes_in_the_order_of_paths() {
        let place = tempfile::tempdir().unwrap();
        for name in ["b/x", "a.b", "a/z", "a/b/c", "c"] {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let entries = walk(place.path(), false, None).map(Result::unwrap);
        let paths: Vec<_> = entries.filter(is_file).map(DirEntry::into_path).collect();
        let expected = ["a/b/c", "a/z", "a.b", "b/x", "c"].map(|name| place.path().join(name));
        assert_eq!(paths, expected);
    }
}
