//! Files of a working tree that a snapshot omits, and the reason.
//!
//! A workspace has repositories within it that no worktree gets. A worktree has
//! ignored files that would be deleted with it: files that are work are taken
//! along, within bounds, and the rest is named. Links are not followed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::GitError;
use super::call::{Git, path};

/// Maximum number of ignored files that are taken along as work. A larger number
/// was downloaded or built by a tool.
const TAKEN_CAP: u64 = 1_000;

/// Maximum bytes of all ignored files that are taken along. They become objects
/// of the repository, and are in memory while they are put into the workspace.
const TAKEN_BYTES_CAP: u64 = 32 * 1024 * 1024;

/// Maximum number of entries that are counted in what is left out.
const COUNTED_CAP: u64 = 50_000;

/// Maximum number of empty directories that a worktree gets.
const EMPTY_CAP: usize = 1_000;

/// Directories that tools make again, whatever is in them.
const CACHES: [&str; 33] = [
    ".angular",
    ".bundle",
    ".cache",
    ".dart_tool",
    ".direnv",
    ".eggs",
    ".gradle",
    ".hypothesis",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".nyc_output",
    ".parcel-cache",
    ".pnpm-store",
    ".pytest_cache",
    ".ruff_cache",
    ".stack-work",
    ".svelte-kit",
    ".terraform",
    ".tox",
    ".turbo",
    ".venv",
    ".yarn",
    "DerivedData",
    "Pods",
    "__pycache__",
    "bower_components",
    "dist-newstyle",
    "elm-stuff",
    "node_modules",
    "venv",
    "zig-cache",
];

/// Directories that are caches if their parent has this file.
const CACHES_BESIDE: [(&str, &str); 8] = [
    ("target", "Cargo.toml"),
    ("target", "pom.xml"),
    ("target", "build.sbt"),
    ("build", "build.gradle"),
    ("build", "build.gradle.kts"),
    ("build", "CMakeLists.txt"),
    ("_build", "mix.exs"),
    ("deps", "mix.exs"),
];

/// Endings of files that tools make again.
const CACHE_FILES: [&str; 8] =
    [".pyc", ".pyo", ".o", ".obj", ".class", ".DS_Store", ".swp", ".tsbuildinfo"];

/// The file by which a directory says that it is a cache
/// (<https://bford.info/cachedir/>).
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// A file or directory that a snapshot omits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OmittedPath {
    /// Its name below the top.
    pub path: PathBuf,
    /// Why it is left out.
    pub kind: OmissionKind,
    /// Number of its files; at most 50,000 are counted.
    pub files: u64,
    /// Total size of these files in bytes.
    pub bytes: u64,
}

/// The reason for an omission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OmissionKind {
    /// It is ignored, and a tool makes it again.
    Cache,
    /// It is ignored, and too large to be taken along.
    Large,
    /// It is a repository of its own.
    Repository,
    /// It is the working tree of a submodule.
    Submodule,
    /// A filter such as Git LFS keeps these files elsewhere.
    Filtered,
}

impl OmissionKind {
    /// Returns whether work may be lost with it.
    #[must_use]
    pub fn may_be_work(self) -> bool {
        match self {
            Self::Cache | Self::Filtered => false,
            Self::Large | Self::Repository | Self::Submodule => true,
        }
    }
}

/// The ignored files of a working tree.
#[derive(Debug, Default)]
pub(super) struct IgnoredFiles {
    /// Those that are work.
    pub(super) taken: BTreeSet<PathBuf>,
    pub(super) left_out: Vec<OmittedPath>,
}

/// Returns those of the named directories that hold anything.
pub(super) fn repositories(top: &Path, names: &[&[u8]], kind: OmissionKind) -> Vec<OmittedPath> {
    let held = names.iter().filter_map(|name| {
        let below = path(name.strip_suffix(b"/").unwrap_or(name));
        let is_empty = fs::read_dir(top.join(&below)).map_or(true, |mut it| it.next().is_none());
        (!is_empty).then(|| measured(top, below, kind))
    });
    held.collect()
}

/// Looks at the ignored files of a working tree.
pub(super) fn ignored(git: &Git, top: &Path) -> Result<IgnoredFiles, GitError> {
    let arguments =
        ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let listed = git.run(&arguments)?;
    let mut looking = IgnoredScan { top, ignored: IgnoredFiles::default(), files: 0, bytes: 0 };
    let mut names: Vec<PathBuf> = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| path(name.strip_suffix(b"/").unwrap_or(name)))
        .collect();
    names.sort();
    // Git lists some files in addition to the directory that they are in.
    let mut last: Option<PathBuf> = None;
    for name in names {
        if last.as_ref().is_some_and(|above| name.starts_with(above)) {
            continue;
        }
        looking.look(&name);
        last = Some(name);
    }
    Ok(looking.ignored)
}

struct IgnoredScan<'a> {
    top: &'a Path,
    ignored: IgnoredFiles,
    files: u64,
    bytes: u64,
}

impl IgnoredScan<'_> {
    /// Adds a file, or the files of a directory, if they are work.
    fn look(&mut self, name: &Path) {
        let mut found = Vec::new();
        let (mut files, mut bytes) = (self.files, self.bytes);
        let mut is_large = false;
        let mut left = vec![name.to_owned()];
        while let Some(name) = left.pop() {
            let Ok(metadata) = self.top.join(&name).symlink_metadata() else { continue };
            let kind = self.kind_of(&name, metadata.is_dir());
            if let Some(kind) = kind.or_else(|| self.kind_of_cache_around(&name)) {
                self.ignored.left_out.push(measured(self.top, name, kind));
            } else if metadata.is_dir() {
                left.extend(below(self.top, &name));
            } else if metadata.is_file() || metadata.is_symlink() {
                (files, bytes) = (files + 1, bytes + metadata.len());
                is_large = files > TAKEN_CAP || bytes > TAKEN_BYTES_CAP;
                found.push(name);
            }
            if is_large {
                break;
            }
        }
        if is_large {
            let before = &mut self.ignored.left_out;
            // It is counted as a whole.
            before.retain(|other| !other.path.starts_with(name));
            before.push(measured(self.top, name.to_owned(), OmissionKind::Large));
        } else {
            (self.files, self.bytes) = (files, bytes);
            self.ignored.taken.extend(found);
        }
    }

    /// Returns `Cache` if a directory above a file is a cache, of which git may list only a part.
    fn kind_of_cache_around(&self, name: &Path) -> Option<OmissionKind> {
        let above = name.ancestors().skip(1).take_while(|it| !it.as_os_str().is_empty());
        above.filter_map(|it| self.kind_of(it, true)).find(|kind| *kind == OmissionKind::Cache)
    }

    /// Returns why something is not taken along.
    fn kind_of(&self, name: &Path, is_directory: bool) -> Option<OmissionKind> {
        let path = self.top.join(name);
        let own = name.file_name().unwrap_or_default().to_string_lossy();
        if !is_directory {
            let is_cache = CACHE_FILES.iter().any(|ending| own.ends_with(ending));
            return is_cache.then_some(OmissionKind::Cache);
        }
        let is_beside = |file: &str| path.with_file_name(file).is_file();
        let is_cache = CACHES.contains(&&*own)
            || path.join(CACHE_TAG).is_file()
            || CACHES_BESIDE.iter().any(|(cache, file)| own == *cache && is_beside(file));
        if is_cache {
            return Some(OmissionKind::Cache);
        }
        path.join(".git").symlink_metadata().is_ok().then_some(OmissionKind::Repository)
    }
}

/// Returns the directories of a working tree without any file in them, which git
/// does not know. Those that are ignored are left out.
pub(super) fn empty(git: &Git, top: &Path) -> Result<Vec<PathBuf>, GitError> {
    let listed = git.run(&["ls-files", "-z", "--others", "--exclude-standard", "--directory"])?;
    let names = listed.split(|byte| *byte == 0).filter_map(|name| name.strip_suffix(b"/"));
    let mut left: Vec<PathBuf> = names.map(path).collect();
    let (mut empty, mut looked) = (Vec::new(), 0);
    while let Some(name) = left.pop() {
        looked += 1;
        if looked > COUNTED_CAP || empty.len() == EMPTY_CAP {
            break;
        }
        if top.join(&name).join(".git").symlink_metadata().is_ok() {
            continue;
        }
        let entries = below(top, &name);
        if entries.is_empty() {
            empty.push(name);
            continue;
        }
        let is_directory =
            |name: &PathBuf| top.join(name).symlink_metadata().is_ok_and(|it| it.is_dir());
        left.extend(entries.into_iter().filter(is_directory));
    }
    empty.sort();
    Ok(empty)
}

/// Returns whether another directory has all files of this one with the same bytes:
/// then this one is a copy and not work. Git's own records of file times are
/// ignored.
#[must_use]
pub fn is_copy(directory: &Path, of: &Path) -> bool {
    let mut left = vec![PathBuf::new()];
    let (mut files, mut bytes) = (0, 0);
    while let Some(name) = left.pop() {
        let (here, there) = (directory.join(&name), of.join(&name));
        let (Ok(own), Ok(other)) = (here.symlink_metadata(), there.symlink_metadata()) else {
            return false;
        };
        if own.is_dir() && other.is_dir() {
            left.extend(below(directory, &name));
            continue;
        }
        (files, bytes) = (files + 1, bytes + own.len());
        if files > TAKEN_CAP * 10 || bytes > TAKEN_BYTES_CAP * 4 {
            return false;
        }
        let is_same = name.ends_with(".git/index")
            || if own.is_symlink() && other.is_symlink() {
                here.read_link().ok() == there.read_link().ok()
            } else {
                own.is_file()
                    && other.is_file()
                    && own.len() == other.len()
                    && fs::read(here).ok() == fs::read(there).ok()
            };
        if !is_same {
            return false;
        }
    }
    true
}

/// Returns what is in a directory, by names below the top.
fn below(top: &Path, name: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(top.join(name)).into_iter().flatten().flatten();
    entries.map(|entry| name.join(entry.file_name())).collect()
}

fn measured(top: &Path, name: PathBuf, kind: OmissionKind) -> OmittedPath {
    let (mut files, mut bytes, mut looked) = (0, 0, 0);
    let mut left = vec![name.clone()];
    while let Some(name) = left.pop() {
        looked += 1;
        if looked > COUNTED_CAP {
            break;
        }
        let Ok(metadata) = top.join(&name).symlink_metadata() else { continue };
        if metadata.is_dir() {
            left.extend(below(top, &name));
        } else {
            (files, bytes) = (files + 1, bytes + metadata.len());
        }
    }
    OmittedPath { path: name, kind, files, bytes }
}
