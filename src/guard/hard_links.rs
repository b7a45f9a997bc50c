//! Other names of a file in the workspace: hard links.
//!
//! A rule about `.env` is about what the file holds, whatever name a call uses. Only a
//! file with several names costs a look: the names are found by the number of the file,
//! in the directories of the workspace. Names elsewhere are not looked for.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::{Secrets, paths};

/// Maximum directory entries that are looked at, the nearest to the root first. Some 20 ms;
/// package managers share the files of large directories with a store of theirs.
const ENTRIES_CAP: usize = 20_000;

/// Directories in which files have other names as a matter of course.
const PASSED_OVER: [&str; 3] = [".git", "node_modules", "target"];

/// Returns the other names below `root` of the file at a path without links.
pub(super) fn other_names(root: &Path, file: &Path) -> Vec<PathBuf> {
    let Ok(found) = file.symlink_metadata() else { return Vec::new() };
    let root = paths::resolved(root, Path::new("."));
    let is_here = root.symlink_metadata().is_ok_and(|root| root.dev() == found.dev());
    if !found.is_file() || found.nlink() < 2 || !is_here {
        return Vec::new();
    }
    let is_other_name = |path: &Path| path != file && is_same(path, &found);
    let mut names = Vec::new();
    let mut directories = VecDeque::from([root]);
    let mut left = ENTRIES_CAP;
    while let Some(directory) = directories.pop_front() {
        let Ok(entries) = directory.read_dir() else { continue };
        for entry in entries.flatten() {
            left = left.saturating_sub(1);
            if left == 0 || names.len() as u64 + 1 == found.nlink() {
                return names;
            }
            if entry.ino() == found.ino() && is_other_name(&entry.path()) {
                names.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && !PASSED_OVER.iter().any(|name| entry.file_name() == *name)
            {
                directories.push_back(entry.path());
            }
        }
    }
    names
}

fn is_same(path: &Path, file: &Metadata) -> bool {
    let same = |it: Metadata| (it.dev(), it.ino()) == (file.dev(), file.ino());
    path.symlink_metadata().is_ok_and(same)
}

/// Returns what a file holds that is better asked about, by any of its names.
pub(super) fn secret_in(secrets: &Secrets, root: &Path, file: &Path) -> Option<&'static str> {
    let by_other_name = || other_names(root, file).iter().find_map(|name| secrets.within(name));
    secrets.within(file).or_else(by_other_name)
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, hard_link, write};

    use super::*;

    #[test]
    fn a_file_is_found_by_its_other_names_in_the_workspace() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for directory in ["config/deep", "node_modules/x", "src"] {
            create_dir_all(root.join(directory)).unwrap();
        }
        for (file, other) in [
            (".env", "notes.txt"),
            (".env", "src/a.rs"),
            ("config/deep/prod", "b"),
            ("node_modules/x/index.js", "c"),
        ] {
            if !root.join(file).exists() {
                write(root.join(file), file).unwrap();
            }
            hard_link(root.join(file), root.join(other)).unwrap();
        }
        write(root.join("alone"), "x").unwrap();
        std::os::unix::fs::symlink(".env", root.join("link")).unwrap();
        let names = |file: &str| {
            let mut names: Vec<_> = other_names(&root, &root.join(file))
                .iter()
                .map(|name| name.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("notes.txt"), [".env", "src/a.rs"]);
        assert_eq!(names("src/a.rs"), [".env", "notes.txt"]);
        assert_eq!(names("b"), ["config/deep/prod"]);
        for without in ["c", "alone", "link", "src", "missing"] {
            assert_eq!(names(without), [""; 0], "{without}");
        }
        let secret = |file: &str| secret_in(&Secrets::default(), &root, &root.join(file)).is_some();
        assert!(secret("notes.txt") && secret("src/a.rs") && secret(".env"));
        assert!(!secret("b") && !secret("alone"));
    }
}
