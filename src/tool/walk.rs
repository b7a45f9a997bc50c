//! The walk through a directory that Glob and Grep share.
//!
//! It gives files in the order of their paths. Files that git ignores and hidden files
//! are left out and counted, `.git` is never entered, links are not followed. What a
//! user's own git settings say does not count: a search finds the same on every machine.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::types::Types;
use ignore::{DirEntry, Match, Walk, WalkBuilder};

use crate::message::counted;
use crate::path_text;

use super::bound::first_characters;
use super::patterns::{may_be_name, plain_directories};
use super::{ToolError, Workspace, regular};

/// Maximum number of entries that are counted as left out. A directory of dependencies
/// has a hundred thousand, and to look at them takes longer than the search.
const LEFT_OUT_CAP: u64 = 5_000;

/// Maximum characters of a file's name in a note.
const NAME_CAP: usize = 100;

/// Maximum characters of all notes below a result.
pub const NOTES_CAP: usize = 1_500;

/// The place where a search begins, and the files that it includes.
#[derive(Debug, Clone)]
pub struct SearchScope {
    start: PathBuf,
    hidden: bool,
    ignored: bool,
}

impl SearchScope {
    /// Returns the scope of a search below `base`, in the working directory `root`, for a
    /// pattern of paths.
    ///
    /// The scope includes what the call spells out: `base`, the directories that the pattern
    /// begins with, and a file that has it as its name. `everything` includes all that is
    /// ignored or hidden.
    #[must_use]
    pub fn new(root: &Path, base: &Path, pattern: Option<&str>, everything: bool) -> Self {
        let pattern = pattern.unwrap_or_default();
        let start = begin(base, pattern);
        let ignored = everything || is_in_ignored(root, &start);
        Self { start, hidden: everything || names_hidden(pattern), ignored }
    }

    /// Returns the scope with hidden files in it if `is_wanted`.
    #[must_use]
    pub fn with_hidden(self, is_wanted: bool) -> Self {
        Self { hidden: self.hidden || is_wanted, ..self }
    }

    /// Starts the walk.
    #[must_use]
    pub fn walk(&self, types: Option<&Types>) -> CountedWalk {
        let walk = |hidden: bool, ignored: bool| {
            let mut builder = WalkBuilder::new(&self.start);
            builder
                .standard_filters(!ignored)
                .hidden(!hidden)
                .git_global(false)
                .require_git(false)
                .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
                .sort_by_file_path(Path::cmp);
            if let Some(types) = types {
                builder.types(types.clone());
            }
            builder.build()
        };
        let is_all = self.hidden && self.ignored;
        CountedWalk {
            kept: walk(self.hidden, self.ignored).peekable(),
            all: (!is_all).then(|| walk(true, true).peekable()),
            start: self.start.clone(),
            hidden: self.hidden,
            left_out: 0,
        }
    }
}

/// Returns the file that has the pattern as its name, or the deepest directory that the
/// pattern begins with. No link is followed.
fn begin(base: &Path, pattern: &str) -> PathBuf {
    let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    if may_be_name(pattern) {
        let file = base.join(pattern);
        let mut above = file.ancestors().skip(1).take_while(|path| *path != base);
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
        if is_file && above.all(is_directory) {
            return file;
        }
    }
    let mut start = base.to_owned();
    for name in plain_directories(pattern) {
        let next = start.join(name);
        if !is_directory(&next) {
            break;
        }
        start = next;
    }
    start
}

/// Returns whether a directory below `root`, or one above it, is ignored. Rules within it
/// may still name all of its files one by one.
fn is_in_ignored(root: &Path, directory: &Path) -> bool {
    let is_repository = |path: &Path| path.join(".git").exists();
    let mut within = directory;
    while within != root && within.starts_with(root) && !is_repository(within) {
        let Some(above) = within.parent() else { break };
        let mut rules = GitignoreBuilder::new(above);
        let files = [".git/info/exclude", ".gitignore", ".ignore"].map(|name| above.join(name));
        for file in files.iter().filter(|file| file.is_file()) {
            // A malformed line ignores nothing.
            let _ = rules.add(file);
        }
        let rules = rules.build().unwrap_or_else(|_| Gitignore::empty());
        match rules.matched_path_or_any_parents(directory, true) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
            Match::None => within = above,
        }
    }
    false
}

/// An entry that a walk has reached.
pub enum WalkItem {
    /// It is part of the search.
    Entry(DirEntry),
    /// It is left out, because git ignores it or because it is hidden.
    LeftOut(DirEntry, OmissionCause),
    /// The maximum of counted entries is reached; more are left out.
    MoreLeftOut,
    /// It could not be read.
    Unread(PathBuf),
}

/// Why an entry is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmissionCause {
    /// A rule for git names it.
    Ignored,
    /// Its name, or that of a directory above it, begins with a dot.
    Hidden,
}

/// Two walks in the same order: one of the search, and one that leaves nothing out, to
/// count the difference.
pub struct CountedWalk {
    kept: Peekable<Walk>,
    /// `None` if nothing is left out, or no longer counted.
    all: Option<Peekable<Walk>>,
    start: PathBuf,
    hidden: bool,
    left_out: u64,
}

impl Iterator for CountedWalk {
    type Item = WalkItem;

    fn next(&mut self) -> Option<WalkItem> {
        loop {
            let Some(all) = &mut self.all else { return self.next_kept() };
            let order = match (self.kept.peek(), all.peek()) {
                (Some(Err(_)), _) => return self.next_kept(),
                // It is an error of the other walk, too, or in what is left out.
                (_, Some(Err(_))) => {
                    all.next();
                    continue;
                }
                (_, None) => return self.next_kept(),
                (None, Some(Ok(_))) => Ordering::Greater,
                (Some(Ok(kept)), Some(Ok(other))) => kept.path().cmp(other.path()),
            };
            match order {
                // Made after the other walk was there.
                Ordering::Less => return self.next_kept(),
                Ordering::Equal => {
                    all.next();
                    return self.next_kept();
                }
                Ordering::Greater => {
                    let Some(Ok(entry)) = all.next() else { continue };
                    self.left_out += 1;
                    if self.left_out > LEFT_OUT_CAP {
                        self.all = None;
                        return Some(WalkItem::MoreLeftOut);
                    }
                    let cause = self.cause(entry.path());
                    return Some(WalkItem::LeftOut(entry, cause));
                }
            }
        }
    }
}

impl CountedWalk {
    fn next_kept(&mut self) -> Option<WalkItem> {
        self.kept.next().map(|kept| {
            kept.map_or_else(|error| WalkItem::Unread(self.path_of(&error)), WalkItem::Entry)
        })
    }

    fn path_of(&self, error: &ignore::Error) -> PathBuf {
        let mut error = error;
        while let ignore::Error::WithDepth { depth: _, err } = error {
            error = err;
        }
        match error {
            ignore::Error::WithPath { path, err: _ } => path.clone(),
            ignore::Error::Loop { ancestor: _, child } => child.clone(),
            ignore::Error::Partial(_)
            | ignore::Error::WithLineNumber { .. }
            | ignore::Error::WithDepth { .. }
            | ignore::Error::Io(_)
            | ignore::Error::Glob { .. }
            | ignore::Error::UnrecognizedFileType(_)
            | ignore::Error::InvalidDefinition => self.start.clone(),
        }
    }

    fn cause(&self, path: &Path) -> OmissionCause {
        let below = path.strip_prefix(&self.start).unwrap_or(path);
        let is_hidden = below.iter().any(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden && !self.hidden { OmissionCause::Hidden } else { OmissionCause::Ignored }
    }
}

/// Returns whether an entry of a walk is a regular file. The file a walk starts at may
/// be a link.
#[must_use]
pub fn is_file(entry: &DirEntry) -> bool {
    match entry.depth() {
        0 => entry.path().is_file(),
        _ => entry.file_type().is_some_and(|kind| kind.is_file()),
    }
}

/// Returns where a link leads that a walk does not follow, and whether that is a
/// directory; `None` for anything else, and for a link to a place that the walk reaches
/// anyway.
#[must_use]
pub fn leads_out(entry: &DirEntry, real_base: &Path) -> Option<(PathBuf, bool)> {
    if entry.depth() == 0 || !entry.path_is_symlink() {
        return None;
    }
    let target = entry.path().canonicalize().ok()?;
    let is_directory = target.is_dir();
    (!target.starts_with(real_base)).then_some((target, is_directory))
}

/// Returns whether a pattern names a hidden file or directory.
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
        if let Some(gone) = workspace.missing_root() {
            return ToolError::tell(gone);
        }
        let shown = path_text::shown(&workspace.root, base);
        ToolError::tell(format!("There is no file or directory {shown}."))
    })
}

/// Counts of the files that are missing from the result of a search.
#[derive(Debug, Clone, Default)]
pub struct Missing {
    /// Entries that could not be read.
    pub unread: FileCount,
    /// Number of files that a rule denies.
    pub denied: u64,
    /// Links that lead elsewhere.
    pub links: FileCount,
    /// Files that are not text.
    pub binary: FileCount,
    /// Files that do not fit into memory.
    pub too_large: FileCount,
    /// Files that are text only up to some byte.
    pub cut: Vec<String>,
    ignored: u64,
    hidden: u64,
    more_left_out: bool,
}

/// A number of files, and the name of the first.
#[derive(Debug, Clone, Default)]
pub struct FileCount {
    count: u64,
    first: String,
}

impl FileCount {
    /// Adds a file.
    pub fn push(&mut self, name: &str) {
        if self.count == 0 {
            self.first = match first_characters(name, NAME_CAP) {
                (whole, 0) => whole.to_owned(),
                (start, _) => format!("{start}…"),
            };
        }
        self.count += 1;
    }
}

impl Missing {
    /// Counts a file that is left out.
    pub fn push_left_out(&mut self, cause: OmissionCause) {
        match cause {
            OmissionCause::Ignored => self.ignored += 1,
            OmissionCause::Hidden => self.hidden += 1,
        }
    }

    /// Notes that there are more of them.
    pub fn push_more(&mut self) {
        self.more_left_out = true;
    }

    /// Returns whether nothing is missing.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.note().is_empty()
    }

    /// Returns a sentence for each kind that there is, in at most [`NOTES_CAP`]
    /// characters.
    #[must_use]
    pub fn note(&self) -> String {
        let unread = match &self.unread {
            FileCount { count: 0, first: _ } => String::new(),
            FileCount { count: 1, first } => format!("[{first} could not be read.]\n"),
            FileCount { count, first } => {
                format!("[{count} files or directories could not be read; the first is {first}.]\n")
            }
        };
        let denied = match self.denied {
            0 => String::new(),
            1 => "[1 file is left out, because a permission rule denies it.]\n".to_owned(),
            number => {
                format!("[{number} files are left out, because permission rules deny them.]\n")
            }
        };
        [unread, denied, self.left_out(), self.note_of_links(), self.note_of_contents()].concat()
    }

    fn left_out(&self) -> String {
        let ignored =
            (self.ignored > 0).then(|| counted(self.ignored, "file") + " that git ignores");
        let hidden = (self.hidden > 0).then(|| counted(self.hidden, "hidden file"));
        let more = self.more_left_out.then(|| "more that are not counted".to_owned());
        let parts: Vec<String> = ignored.into_iter().chain(hidden).chain(more).collect();
        if parts.is_empty() {
            return String::new();
        }
        let parts = parts.join(", ");
        format!("[Left out: {parts}. Set \"include_ignored\": true to include them.]\n")
    }

    fn note_of_links(&self) -> String {
        match &self.links {
            FileCount { count: 0, first: _ } => String::new(),
            FileCount { count: 1, first } => {
                format!("[The link {first} is not followed. Set \"path\" to where it leads.]\n")
            }
            FileCount { count, first } => format!(
                "[{count} links are not followed; the first is {first}. Set \"path\" to where one \
                 leads.]\n"
            ),
        }
    }

    fn note_of_contents(&self) -> String {
        let binary = match &self.binary {
            FileCount { count: 0, first: _ } => String::new(),
            FileCount { count: 1, first } => {
                format!("[{first} is a binary file and was not searched; `grep -a` would.]\n")
            }
            FileCount { count, first } => format!(
                "[{count} binary files were not searched; the first is {first}. `grep -a` would.]\n"
            ),
        };
        let too_large = match &self.too_large {
            FileCount { count: 0, first: _ } => String::new(),
            FileCount { count: 1, first } => {
                format!("[{first} is too large to be searched this way; use `grep`.]\n")
            }
            FileCount { count, first } => format!(
                "[{count} files are too large to be searched this way; the first is {first}. Use \
                 `grep`.]\n"
            ),
        };
        let mut cut: String = self.cut.iter().take(CUT_CAP).cloned().collect();
        if let more @ 1.. = self.cut.len().saturating_sub(CUT_CAP) {
            cut.push_str(&format!("[So are {}.]\n", counted(more as u64, "more file")));
        }
        binary + &too_large + &cut
    }

    /// Adds a file that is text up to the byte `at`.
    pub fn push_cut(&mut self, name: &str, at: u64, has_matches: bool) {
        let (name, dropped) = first_characters(name, NAME_CAP);
        let dots = if dropped > 0 { "…" } else { "" };
        let what = match has_matches {
            true => "the matches before it are shown",
            false => "nothing before it matches",
        };
        self.cut.push(format!("[{name}{dots} is binary from byte {at} on; {what}.]\n"));
    }
}

/// Maximum number of files that are named because they are cut.
const CUT_CAP: usize = 2;

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

    fn place(names: &[&str]) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        for name in names {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        place
    }

    /// Returns the files of a walk; a mark precedes those that are left out.
    fn files(scope: &SearchScope, base: &Path) -> Vec<String> {
        let shown = |mark: &str, entry: &DirEntry| {
            format!("{mark}{}", entry.path().strip_prefix(base).unwrap().display())
        };
        let found = scope.walk(None).filter_map(|found| match found {
            WalkItem::Entry(entry) => is_file(&entry).then(|| shown("", &entry)),
            WalkItem::LeftOut(entry, OmissionCause::Ignored) => {
                is_file(&entry).then(|| shown("-", &entry))
            }
            WalkItem::LeftOut(entry, OmissionCause::Hidden) => {
                is_file(&entry).then(|| shown(".", &entry))
            }
            WalkItem::MoreLeftOut | WalkItem::Unread(_) => Some("?".to_owned()),
        });
        found.collect()
    }

    #[test]
    fn a_walk_goes_in_the_order_of_paths() {
        let place = place(&["b/x", "a.b", "a/z", "a/b/c", "c"]);
        let expected = ["a/b/c", "a/z", "a.b", "b/x", "c"];
        assert_eq!(
            files(&SearchScope::new(place.path(), place.path(), None, false), place.path()),
            expected
        );
    }

    #[test]
    fn what_is_left_out_is_told_with_its_cause_unless_the_pattern_spells_it_out() {
        let place = place(&["a/x.js", "dist/b/x.js", "d.gen", ".h/x.js", "z.js", ".git/config"]);
        std::fs::write(place.path().join(".gitignore"), "dist/\n*.gen\n/a/*\n").unwrap();
        let files = |pattern, everything| {
            files(&SearchScope::new(place.path(), place.path(), pattern, everything), place.path())
        };
        let expected = ["..gitignore", "..h/x.js", "-a/x.js", "-d.gen", "-dist/b/x.js", "z.js"];
        assert_eq!(files(None, false), expected);
        let all = [".gitignore", ".h/x.js", "a/x.js", "d.gen", "dist/b/x.js", "z.js"];
        assert_eq!(files(None, true), all);
        assert_eq!(files(Some("dist/**"), false), ["dist/b/x.js"]);
        assert_eq!(files(Some("dist/b/x.js"), false), ["dist/b/x.js"]);
        assert_eq!(files(Some("d.gen"), false), ["d.gen"]);
        assert_eq!(files(Some("a/x.js"), false), ["a/x.js"]);
        assert_eq!(files(Some("a/*.js"), false), ["-a/x.js"]);
        assert_eq!(files(Some(".h/*"), false), [".h/x.js"]);
        let is_in_ignored = |root: &str, name: &str| {
            super::is_in_ignored(&place.path().join(root), &place.path().join(name))
        };
        assert!(is_in_ignored("", "dist/b") && is_in_ignored("", "dist"));
        assert!(!is_in_ignored("", "a") && !is_in_ignored("", ""));
        // A search that starts in an ignored directory uses that directory's own rules.
        assert!(!is_in_ignored("dist", "dist/b"));
    }

    #[test]
    fn a_directory_with_more_than_can_be_counted_ends_the_count() {
        let place = place(&["a.rs", "z.rs"]);
        std::fs::write(place.path().join(".gitignore"), "many\n").unwrap();
        std::fs::create_dir(place.path().join("many")).unwrap();
        for number in 0..=LEFT_OUT_CAP {
            std::fs::write(place.path().join(format!("many/{number}")), "").unwrap();
        }
        let scope = SearchScope::new(place.path(), place.path(), None, false);
        let mut missing = Missing::default();
        let mut kept = 0;
        for found in scope.walk(None) {
            match found {
                WalkItem::Entry(entry) => kept += usize::from(is_file(&entry)),
                WalkItem::LeftOut(entry, cause) if is_file(&entry) => missing.push_left_out(cause),
                WalkItem::LeftOut(..) => {}
                WalkItem::MoreLeftOut => missing.push_more(),
                WalkItem::Unread(path) => panic!("{path:?}"),
            }
        }
        assert_eq!(kept, 2);
        let expected = "[Left out: 4998 files that git ignores, 1 hidden file, more that are not \
                        counted. Set \"include_ignored\": true to include them.]\n";
        assert_eq!(missing.note(), expected);
    }

    #[test]
    fn notes_are_bounded() {
        let long = "x".repeat(5_000);
        let mut missing = Missing {
            denied: u64::MAX,
            ignored: u64::MAX,
            hidden: u64::MAX,
            more_left_out: true,
            ..Missing::default()
        };
        for _ in 0..9 {
            for named in [
                &mut missing.unread,
                &mut missing.links,
                &mut missing.binary,
                &mut missing.too_large,
            ] {
                named.push(&long);
            }
            missing.push_cut(&long, u64::MAX, false);
        }
        let length = missing.note().chars().count();
        assert!(length <= NOTES_CAP, "{length}");
    }
}
