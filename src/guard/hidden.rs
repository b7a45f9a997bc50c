//! The files that rules deny to read, found on the disk for a sandbox to hide.
//!
//! A rule is a pattern; a mount hides one path. So this module looks for each pattern
//! where it may match, and no further. It reports rules whose files it cannot find or a
//! sandbox cannot hide, so that the policy asks instead.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::copies::Copies;
use super::path_pattern::{PathDenial, PathPattern, PatternExtent};
use super::{Sourced, paths};

/// Maximum number of directory entries that are looked at for one command: more than most
/// projects have with their dependencies. That takes about a second.
const ENTRIES_CAP: usize = 300_000;

/// Maximum number of paths that are hidden from one command. A mount takes some tens of
/// microseconds, and each looks through those before it.
const HIDDEN_CAP: usize = 500;

/// Maximum number of links on the path to a file, for a pattern with more than one `**`.
/// A longer chain reaches only files that a shorter one also reaches, unless the pattern
/// names that many directories.
const LINKS_CAP: usize = 8;

/// Existing files that rules deny to read, as far as a sandbox can hide them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HiddenFiles {
    /// Existing paths without links, none inside another one.
    pub(super) paths: Vec<PathBuf>,
    /// The paths that a rule names together with a directory. If a command moved the
    /// directory, the rule would no longer match them.
    pub(super) by_directory: Vec<PathBuf>,
    /// The reason why these are not all of them.
    pub(super) why_not_all: Option<String>,
}

/// A search for the files of one rule.
struct DenialSearch<'a> {
    denial: PathDenial<'a>,
    pattern: &'a PathPattern,
    copies: &'a Copies,
    is_of_contents: bool,
    tail: Option<usize>,
}

/// A path of a search.
struct NamedPath {
    /// The path through links, as a command can write it.
    name: PathBuf,
    /// The path without links.
    real: PathBuf,
    /// Number of links between them.
    links: usize,
}

impl NamedPath {
    fn join(&self, name: &OsStr) -> Self {
        Self { name: self.name.join(name), real: self.real.join(name), links: self.links }
    }
}

/// The state of all searches for one command.
struct Walk<'a> {
    found: &'a mut Vec<PathBuf>,
    left: &'a mut usize,
    /// The directories of one search that were looked through, without links, and as much
    /// of their names as decides about what is in them.
    seen: HashSet<(PathBuf, PathBuf)>,
}

impl HiddenFiles {
    /// Looks for all that rules deny to read in and around these directories, the first
    /// of which is the working directory.
    pub(super) fn find<'a>(
        rules: impl Iterator<Item = &'a Sourced>,
        roots: &[PathBuf],
        copies: &Copies,
    ) -> Self {
        let root = &roots[0];
        let here = paths::resolved(root, Path::new("."));
        let (mut found, mut left, mut why_not_all) = (Vec::new(), ENTRIES_CAP, None);
        let mut by_directory = Vec::new();
        for sourced in rules {
            let Some(pattern) = sourced.rule.reading_pattern() else { continue };
            let extent = pattern.extent(root, roots);
            let PatternExtent { mut starts, depth, is_of_contents, tail, is_by_name } = extent;
            let known = found.len();
            let in_copies: Vec<PathBuf> =
                starts.iter().filter_map(|start| Some(copies.counterpart(start)?.0)).collect();
            starts.extend(in_copies);
            let denial = pattern.denial(root);
            let search = DenialSearch { denial, pattern, copies, is_of_contents, tail };
            let mut walk = Walk { found: &mut found, left: &mut left, seen: HashSet::new() };
            for real in starts.iter().filter_map(|start| start.canonicalize().ok()) {
                let start = NamedPath { name: real.clone(), real, links: 0 };
                if search.look(&start, depth, &mut walk).is_none() {
                    why_not_all.get_or_insert_with(|| {
                        format!(
                            "the rule `{sourced}` may match too many files for a sandbox to hide"
                        )
                    });
                }
            }
            if !is_by_name {
                by_directory.extend_from_slice(&found[known..]);
            }
            let is_here = |path: &PathBuf| here.starts_with(path);
            if found.iter().any(is_here) {
                found.retain(|path| !is_here(path));
                why_not_all.get_or_insert_with(|| {
                    format!("the rule `{sourced}` denies reading the working directory")
                });
            }
        }
        found.sort();
        // What is inside a directory comes behind it.
        found.dedup_by(|inner, outer| inner.starts_with(&*outer));
        if found.len() > HIDDEN_CAP {
            found.truncate(HIDDEN_CAP);
            let why = "rules deny reading more files than a sandbox can hide";
            why_not_all.get_or_insert_with(|| why.to_owned());
        }
        by_directory.retain(|path| found.contains(path));
        Self { paths: found, by_directory, why_not_all }
    }
}

/// The hidden files of the last command, for the further commands of the same answer.
///
/// The list stays valid between two sandboxed commands: the first cannot create a file with
/// denied contents that it could not read, and cannot copy or link a hidden file. It can move
/// a hidden file with its directory, so the list is reused only if each file is still there.
#[derive(Debug, Default)]
pub(super) struct LastHidden(Mutex<Option<(HiddenFiles, Vec<FileId>)>>);

/// The device and number of a file; `None` if there is none.
type FileId = Option<(u64, u64)>;

impl LastHidden {
    /// Returns the files of the last command, or those that `find` finds.
    pub(super) fn get_or_find(&self, find: impl FnOnce() -> HiddenFiles) -> HiddenFiles {
        let mut last = self.lock();
        if let Some((files, ids)) = &*last
            && file_ids(&files.paths) == *ids
        {
            return files.clone();
        }
        let files = find();
        *last = Some((files.clone(), file_ids(&files.paths)));
        files
    }

    /// Forgets them, because anything may change now.
    pub(super) fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(HiddenFiles, Vec<FileId>)>> {
        // It is put in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another policy may have other rules.
impl Clone for LastHidden {
    fn clone(&self) -> Self {
        Self::default()
    }
}

fn file_ids(paths: &[PathBuf]) -> Vec<FileId> {
    let id = |path: &PathBuf| path.symlink_metadata().ok().map(|it| (it.dev(), it.ino()));
    paths.iter().map(id).collect()
}

impl DenialSearch<'_> {
    /// Collects what is denied at a path and below it; `None` if there is too much to
    /// look at.
    fn look(&self, at: &NamedPath, depth: Option<usize>, walk: &mut Walk<'_>) -> Option<()> {
        let is_directory = at.real.is_dir();
        if self.denies(at, is_directory) {
            // What the links in it lead to stays in sight by its own path: a rule for
            // `node_modules/**` must not hide the packages of the workspace.
            walk.found.push(at.real.clone());
            return Some(());
        }
        if !is_directory || depth == Some(0) || !walk.seen.insert(self.state(at, depth)) {
            return Some(());
        }
        let depth = depth.map(|depth| depth - 1);
        for entry in at.real.read_dir().into_iter().flatten().flatten() {
            *walk.left = walk.left.checked_sub(1)?;
            let below = at.join(&entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.look(&below, depth, walk)?,
                Ok(kind) if kind.is_symlink() => self.follow(below, depth, walk)?,
                Ok(_) | Err(_) => {
                    walk.found.extend(self.denies(&below, false).then_some(below.real));
                }
            }
        }
        Some(())
    }

    /// Collects the same through a link: what it leads to is hidden by its own path if a
    /// rule denies it by the link's.
    fn follow(&self, link: NamedPath, depth: Option<usize>, walk: &mut Walk<'_>) -> Option<()> {
        let Ok(real) = link.real.canonicalize() else { return Some(()) };
        // A directory is looked through once for each end of its path, and no deeper than
        // the pattern reaches. If all of its path matters, links can lead round for ever.
        if self.tail.is_none() && depth.is_none() && link.links >= LINKS_CAP {
            return Some(());
        }
        self.look(&NamedPath { real, links: link.links + 1, ..link }, depth, walk)
    }

    /// Returns what decides which files are found below a directory, so that it is looked
    /// through once for each of them.
    fn state(&self, at: &NamedPath, depth: Option<usize>) -> (PathBuf, PathBuf) {
        let name = match (self.tail, depth) {
            (Some(count), None) => {
                let names: Vec<_> = at.name.components().rev().take(count).collect();
                names.into_iter().rev().collect()
            }
            (None, _) | (_, Some(_)) => at.name.clone(),
        };
        (at.real.clone(), name)
    }

    fn denies(&self, at: &NamedPath, is_directory: bool) -> bool {
        self.denies_path(&at.name, is_directory)
            || at.links > 0 && self.denies_path(&at.real, is_directory)
    }

    fn denies_path(&self, path: &Path, is_directory: bool) -> bool {
        let is_denied = |path: &Path| {
            let elsewhere = self.copies.elsewhere(path);
            self.denial.covers(path)
                || self.copies.originals(path).iter().any(|path| self.denial.covers(path))
                || elsewhere.iter().any(|path| self.pattern.denies_elsewhere(path))
        };
        // Of a directory whose whole contents are denied nothing need be seen.
        is_denied(path) || self.is_of_contents && is_directory && is_denied(&path.join("x"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::guard::{Rule, Source};

    /// Returns what a rule hides in a workspace with some files, below its parent.
    fn hidden(rule: &str, make: impl Fn(&Path)) -> (Vec<String>, Option<String>) {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for directory in ["work/keys/deep", "work/src", "home/Desktop", "vault"] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
        }
        for file in [
            "work/.env",
            "work/.env.local",
            "work/keys/a.pem",
            "work/keys/deep/b.pem",
            "work/src/c.rs",
            "home/Desktop/k",
            "vault/v",
        ] {
            std::fs::write(place.join(file), "").unwrap();
        }
        make(&place);
        let rule = Rule::parse(rule, Some(&place.join("home"))).unwrap();
        let rules = [Sourced { rule, source: Source::User }];
        let roots = [place.join("work")];
        let HiddenFiles { paths, by_directory: _, why_not_all } =
            HiddenFiles::find(rules.iter(), &roots, &Copies::default());
        let below =
            |path: &PathBuf| path.strip_prefix(&place).unwrap().to_str().unwrap().to_owned();
        (paths.iter().map(below).collect(), why_not_all)
    }

    #[test]
    fn what_a_rule_denies_is_found_wherever_it_is() {
        for (rule, expected) in [
            ("Read(.env)", &["work/.env"][..]),
            ("Read(.env*)", &["work/.env", "work/.env.local"]),
            ("Read(.ENV)", &["work/.env"]),
            ("Read(keys)", &["work/keys"]),
            ("Read(keys/**)", &["work/keys"]),
            ("Read(keys/*)", &["work/keys/a.pem", "work/keys/deep"]),
            ("Read(**/*.pem)", &["work/keys/a.pem", "work/keys/deep/b.pem"]),
            ("Read(//**/*.pem)", &["work/keys/a.pem", "work/keys/deep/b.pem"]),
            ("Read(keys/**/b.pem)", &["work/keys/deep/b.pem"]),
            ("Read(~/Desktop/**)", &["home/Desktop"]),
            ("Read($HOME/Desktop/k)", &["home/Desktop/k"]),
            ("Read(../vault/v)", &["vault/v"]),
            ("Read({src,keys}/?.*)", &["work/keys/a.pem", "work/src/c.rs"]),
            ("Read(absent)", &[]),
            ("Edit(keys/**)", &[]),
        ] {
            let (found, why_not) = hidden(rule, |_| {});
            assert_eq!(
                (found, why_not),
                (expected.iter().map(|it| (*it).to_owned()).collect(), None),
                "{rule}"
            );
        }
    }

    #[test]
    fn what_a_denied_link_leads_to_is_hidden() {
        for (rule, target, link) in [
            ("Read(link)", "../vault", "work/link"),
            ("Read(link/**)", "../vault", "work/link"),
            ("Read(*ink)", "../vault", "work/link"),
        ] {
            let (found, _) = hidden(rule, |place| symlink(target, place.join(link)).unwrap());
            assert_eq!(found, ["vault"], "{rule}");
        }
    }

    #[test]
    fn what_is_denied_by_a_path_through_a_link_to_a_directory_is_hidden() {
        for (rule, links, expected) in [
            ("Read(**/link/**)", &[("../../vault", "work/src/link")][..], &["vault"][..]),
            ("Read(**/v)", &[("../vault", "work/link")], &["vault/v"]),
            ("Read(src/*/v)", &[("../../vault", "work/src/link")], &["vault/v"]),
            ("Read(src/**/v)", &[("../../vault", "work/src/link")], &["vault/v"]),
            (
                "Read(src/*/link/v)",
                &[("..", "work/src/up"), ("../vault", "work/link")],
                &["vault/v"],
            ),
            ("Read(**/link/v)", &[("../vault", "work/link")], &["vault/v"]),
            ("Read(link/*/v)", &[("..", "work/link")], &["vault/v"]),
            ("Read(**/a/b/v)", &[("..", "work/a"), ("vault", "b")], &["vault/v"]),
            // Round in a circle, and to nothing.
            ("Read(**/v)", &[(".", "work/link"), ("../../vault", "work/src/out")], &["vault/v"]),
            ("Read(**/x/c.rs)", &[(".", "work/src/x"), ("nowhere", "work/x")], &["work/src/c.rs"]),
            ("Read(**/v)", &[("../src", "work/src/one"), ("one", "work/src/two")], &[]),
        ] {
            let (found, why_not) = hidden(rule, |place| {
                links.iter().for_each(|(target, link)| symlink(target, place.join(link)).unwrap());
            });
            assert_eq!(
                (&*found, why_not),
                (&*expected.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>(), None),
                "{rule}, {links:?}"
            );
        }
    }

    #[test]
    fn many_links_between_directories_are_looked_through_once() {
        // As a package manager links packages to each other.
        let (found, why_not) = hidden("Read(**/.env)", |place| {
            for one in 0..40 {
                let directory = place.join(format!("work/packages/{one}"));
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(directory.join(".env"), "").unwrap();
                for other in 0..40 {
                    let target = format!("../{other}");
                    symlink(target, directory.join(format!("to-{other}"))).unwrap();
                }
            }
        });
        assert_eq!((found.len(), why_not), (41, None));
    }

    #[test]
    fn what_no_sandbox_can_hide_is_said() {
        for rule in ["Read(**)", "Read(//**)", "Read(.)", "Read(../**)"] {
            let (found, why_not) = hidden(rule, |_| {});
            assert_eq!(found, [""; 0], "{rule}");
            let expected = format!("the rule `{rule}` denies reading the working directory");
            assert_eq!(why_not, Some(expected), "{rule}");
        }
    }

    #[test]
    fn a_copy_of_what_is_denied_is_hidden_as_well() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for directory in ["main", "copy"] {
            std::fs::create_dir(place.join(directory)).unwrap();
        }
        std::fs::write(place.join("copy/key"), "").unwrap();
        let rule = Rule::parse(&format!("Read(/{}/main/key)", place.display()), None).unwrap();
        let rules = [Sourced { rule, source: Source::User }];
        let copies = Copies::default().and(&place.join("main"), &place.join("copy"));
        let found = HiddenFiles::find(rules.iter(), &[place.join("copy")], &copies);
        assert_eq!(found.paths, [place.join("copy/key")]);
    }
}
