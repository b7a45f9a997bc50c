//! Whether there is the place that a finding names.
//!
//! Reviewers are models: they name files that are nowhere, and lines behind the end
//! of one. What the change has its diff says; all else is looked up in the working
//! tree and, for a commit, in that. What cannot be told counts as there, so that no
//! finding goes for want of knowledge.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::Plan;
use super::shown::plain;
use crate::git::{Git, Held, Program};
use crate::path_text;

/// Most bytes of a file that are looked at to tell how many lines it has. Of a
/// longer one nobody is told that a line is behind its end.
const READ_CAP: usize = 2 * 1024 * 1024;

/// The files that a review is about, as they are after its change.
#[derive(Debug)]
pub struct Ground<'a> {
    plan: &'a Plan,
    /// Where those of a commit are looked up.
    git: Option<Git>,
    /// What has been looked up, so that many findings of one file read it once.
    known: HashMap<(Side, String), Lines>,
}

/// Where a file is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    Tree,
    Commit,
}

/// How many lines there are of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// There is no such file.
    None,
    /// As many. The one behind the last that has an end is one: what is missing
    /// there is found there.
    Many(usize),
    /// Nobody can tell.
    Unknown,
}

impl<'a> Ground<'a> {
    /// The files that a plan is about.
    #[must_use]
    pub fn of(plan: &'a Plan, program: &Program) -> Self {
        // Where git does not answer, nothing can be told.
        let git = plan.commit.as_ref().and_then(|_| Git::at(program, &plan.root).ok());
        Self { plan, git, known: HashMap::new() }
    }

    /// Returns the path in the repository of the file that a reviewer's path means, if
    /// it has such a line.
    ///
    /// This waits for the disk and for git.
    pub fn find(&mut self, path: &str, line: u32) -> Option<String> {
        let plan = self.plan;
        if let Some(known) = plan.known(path) {
            let is_there = self.is_shown(known, line) || self.is_there(known, line, true);
            return is_there.then(|| known.to_owned());
        }
        readings(plan, path).into_iter().find(|name| self.is_there(name, line, false))
    }

    /// Tells whether the diff itself has a line, before or after the change.
    fn is_shown(&self, path: &str, line: u32) -> bool {
        let mut ends = self.plan.hunks_of(path).map(|hunk| {
            let changed = hunk.changed.iter().map(|line| line.number).max().unwrap_or_default();
            changed.max(hunk.lines.1)
        });
        ends.any(|end| line <= end)
    }

    /// Tells whether a file has a line, in the working tree or in the commit. One of
    /// the change that is in neither is gone.
    fn is_there(&mut self, name: &str, line: u32, is_in_change: bool) -> bool {
        let mut is_file = false;
        for side in [Side::Tree, Side::Commit] {
            match self.lines(side, name) {
                Lines::None => {}
                Lines::Many(lines) if usize::try_from(line).is_ok_and(|line| line > lines) => {
                    is_file = true;
                }
                Lines::Many(_) | Lines::Unknown => return true,
            }
        }
        // Of one without a hunk nobody knows how long it was.
        let has_hunks = || self.plan.hunks_of(name).next().is_some();
        is_in_change && !is_file && (line == 1 || !has_hunks())
    }

    fn lines(&mut self, side: Side, name: &str) -> Lines {
        let key = (side, name.to_owned());
        if let Some(lines) = self.known.get(&key) {
            return *lines;
        }
        let lines = match (side, &self.plan.commit, &self.git) {
            (Side::Tree, _, _) => in_tree(&self.plan.root, name),
            (Side::Commit, None, _) => Lines::None,
            (Side::Commit, Some(_), None) => Lines::Unknown,
            (Side::Commit, Some(commit), Some(git)) => in_commit(git, commit, name),
        };
        self.known.insert(key, lines);
        lines
    }
}

/// Returns every path in the repository that a reviewer may mean: below its top or
/// the working directory, or absolute, with the sign of a side or without.
fn readings(plan: &Plan, path: &str) -> Vec<String> {
    let mut readings = Vec::new();
    for path in path_text::readings(path) {
        let side = path.strip_prefix("a").or_else(|_| path.strip_prefix("b"));
        let meant = match path.is_absolute() {
            true => [path.strip_prefix(&plan.root).ok().map(Path::to_owned), None, None],
            false => {
                [Some(path.clone()), Some(plan.below.join(&path)), side.ok().map(Path::to_owned)]
            }
        };
        let names = meant.into_iter().flatten().filter_map(|path: PathBuf| plain(&path));
        let names = names.filter_map(|path| path.to_str().map(str::to_owned));
        readings.extend(names.filter(|name| !name.is_empty()));
    }
    readings
}

/// Looks a file of the working tree up.
fn in_tree(root: &Path, name: &str) -> Lines {
    let path = root.join(name);
    let (Some(directory), Some(last)) = (path.parent(), path.file_name()) else {
        return Lines::None;
    };
    // What stands behind a link that leads out is no file of the repository.
    let path = match directory.canonicalize() {
        Ok(real) if real.starts_with(root) => real.join(last),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Lines::Unknown,
        Ok(_) | Err(_) => return Lines::None,
    };
    let is_link = path.is_symlink();
    match path.canonicalize() {
        Ok(real) if real.starts_with(root) => count(&real),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Lines::Unknown,
        // It leads out or nowhere: its own text is one line.
        Ok(_) | Err(_) if is_link => Lines::Many(1),
        Ok(_) | Err(_) => Lines::None,
    }
}

/// Counts the lines of a file, which is where its path says.
fn count(path: &Path) -> Lines {
    if !path.is_file() {
        return Lines::None;
    }
    // One that was swapped for a link or a pipe since must neither lead out of the
    // repository nor make us wait.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let mut head = Vec::new();
    match file.and_then(|file| file.take(READ_CAP as u64).read_to_end(&mut head)) {
        Ok(read) => many(&head, read == READ_CAP),
        Err(_) => Lines::Unknown,
    }
}

fn in_commit(git: &Git, commit: &str, name: &str) -> Lines {
    match git.held(commit, name, READ_CAP) {
        Ok(Held::Nothing) => Lines::None,
        Ok(Held::Repository) => Lines::Many(1),
        Ok(Held::File { head, is_cut }) => many(&head, is_cut),
        Err(_) => Lines::Unknown,
    }
}

fn many(head: &[u8], is_cut: bool) -> Lines {
    let ends = head.iter().filter(|byte| **byte == b'\n').count();
    if is_cut { Lines::Unknown } else { Lines::Many(ends + 1) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::git::tests::{Repo, program};
    use crate::git::{What, change};
    use crate::review::Effort;

    fn plan(repo: &Repo, what: &What) -> Plan {
        let change = change(&program(), &repo.root(), what).unwrap();
        Plan::of(&change, &change.root.join("sub"), Effort::Low)
    }

    #[track_caller]
    fn check(plan: &Plan, place: (&str, u32), expected: Option<&str>) {
        let found = Ground::of(plan, &program()).find(place.0, place.1);
        assert_eq!(found.as_deref(), expected, "{place:?}");
    }

    /// A repository with a file of three lines below and one of two at the top.
    fn repo() -> Repo {
        let repo = Repo::with_commit();
        repo.write("sub/b.rs", "1\n2\n3\n");
        repo.write("gone.rs", "1\n2\n");
        repo.write("old.rs", "1\n2\n3\n4\n5\n");
        repo.write("Cargo.lock", "1\n2\n");
        repo.commit("More");
        repo
    }

    #[test]
    fn a_place_is_a_line_of_a_file_of_the_repository_by_any_of_its_names() {
        let repo = repo();
        repo.write("a.txt", "one\ntwo\nthree\n");
        let plan = plan(&repo, &What::Uncommitted);
        let absolute = plan.root.join("sub/b.rs").display().to_string();
        for name in ["sub/b.rs", "b.rs", "./b.rs", "../sub/b.rs", "a/sub/b.rs", &absolute] {
            check(&plan, (name, 3), Some("sub/b.rs"));
            check(&plan, (name, 999), None);
        }
        // What is missing at the end is found behind it.
        check(&plan, ("sub/b.rs", 4), Some("sub/b.rs"));
        check(&plan, ("sub/b.rs", 5), None);
        check(&plan, ("../a.txt", 3), Some("a.txt"));
        check(&plan, ("a.txt", 999_999), None);
        for name in
            ["nosuch.rs", "../../etc/passwd", "/etc/passwd", "sub", "", "..", "a\0b", "a.txt/x"]
        {
            check(&plan, (name, 1), None);
        }
    }

    #[test]
    fn what_the_change_takes_away_was_there() {
        let repo = repo();
        repo.git(&["rm", "--quiet", "gone.rs", "Cargo.lock"]);
        repo.git(&["mv", "old.rs", "new.rs"]);
        let plan = plan(&repo, &What::Uncommitted);
        check(&plan, ("gone.rs", 2), Some("gone.rs"));
        check(&plan, ("gone.rs", 9), None);
        check(&plan, ("Cargo.lock", 2), Some("Cargo.lock"));
        check(&plan, ("old.rs", 5), Some("new.rs"));
        check(&plan, ("old.rs", 99), None);
        check(&plan, ("new.rs", 5), Some("new.rs"));
        check(&plan, ("new.rs", 99), None);
    }

    #[test]
    fn of_a_commit_its_own_files_count_and_those_of_the_working_tree() {
        let repo = repo();
        let commit = repo.git(&["rev-parse", "HEAD"]);
        repo.git(&["rm", "-r", "--quiet", "."]);
        repo.write("sub/later.rs", "1\n");
        repo.commit("Later");
        let plan = plan(&repo, &What::Commit(commit));
        check(&plan, ("a.txt", 1), Some("a.txt"));
        check(&plan, ("a.txt", 9), None);
        check(&plan, ("later.rs", 1), Some("sub/later.rs"));
        for name in ["sub", "nosuch.rs", ":/", "*.txt"] {
            check(&plan, (name, 1), None);
        }
    }

    #[test]
    fn no_link_leads_out_of_the_repository_and_no_pipe_makes_anybody_wait() {
        let repo = repo();
        repo.write("a.txt", "two\n");
        let plan = plan(&repo, &What::Uncommitted);
        let root = &plan.root;
        let outside = root.parent().unwrap().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("x"), "1\n2\n3\n").unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(outside.join("x"), root.join("link")).unwrap();
        symlink("sub/b.rs", root.join("inside")).unwrap();
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        check(&plan, ("out/x", 1), None);
        check(&plan, ("link", 1), Some("link"));
        check(&plan, ("link", 3), None);
        check(&plan, ("inside", 3), Some("inside"));
        check(&plan, ("pipe", 1), None);
    }
}
