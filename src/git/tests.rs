//! Changes of real repositories, some of them hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::diff::ChangeKind;

/// The git of whoever runs the tests.
pub(crate) fn program() -> Program {
    let variables: Vec<_> = std::env::vars_os().collect();
    Program::find(variables.iter().map(|(name, value)| (&**name, &**value)), &[])
}

/// A repository of its own, made without anybody's configuration.
pub(crate) struct Repo(tempfile::TempDir);

impl Repo {
    pub(crate) fn new() -> Self {
        let repo = Self(tempfile::tempdir().unwrap());
        fs::create_dir(repo.root()).unwrap();
        // Without the examples of hooks, which are a dozen files of each repository.
        repo.git(&["init", "--quiet", "--template=", "--initial-branch=main"]);
        repo
    }

    /// With one commit of `a.txt` that says `one`.
    pub(crate) fn with_commit() -> Self {
        let repo = Self::new();
        repo.write("a.txt", "one\n");
        repo.commit("Add a");
        repo
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.path().join("work")
    }

    /// A file beside the repository that no program may create.
    pub(super) fn canary(&self) -> PathBuf {
        self.0.path().join("canary")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--no-verify", "-m", message]);
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command
            .current_dir(self.root())
            .env("HOME", self.0.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=A", "-c", "user.email=a@example.com"])
            .args(["-c", "commit.gpgSign=false"])
            .args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn change(&self, what: What) -> Result<Change, GitError> {
        change(&program(), &self.root(), &what)
    }
}

/// What stands in a directory, git's own part left out.
pub(crate) fn files(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            let found = path.symlink_metadata().unwrap();
            if name == ".git" {
                continue;
            }
            if found.is_dir() {
                directories.push(path);
            } else if found.is_symlink() {
                files.insert(name, format!("-> {}", path.read_link().unwrap().display()));
            } else {
                let run = if found.permissions().mode() & 0o111 == 0 { "" } else { "x " };
                files.insert(name, format!("{run}{}", fs::read(&path).unwrap().escape_ascii()));
            }
        }
    }
    files
}

/// What [`files`] gives where these are.
pub(crate) fn named(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
}

fn kinds(change: &Change) -> Vec<(&str, ChangeKind)> {
    change.files.iter().map(|file| (file.path(), file.kind)).collect()
}

fn added(change: &Change, path: &str) -> Vec<String> {
    let file = change.files.iter().find(|file| file.path() == path).unwrap();
    file.added().map(|line| line.text.clone()).collect()
}

#[test]
fn an_uncommitted_change_is_all_that_is_staged_unstaged_and_untracked() {
    let repo = Repo::with_commit();
    repo.write(".gitignore", "ignored\n");
    repo.write("staged.txt", "s\n");
    repo.git(&["add", "staged.txt", ".gitignore"]);
    repo.write("a.txt", "one\ntwo\n");
    repo.write("new dir/new file.txt", "n\nm");
    repo.write("ignored", "x");
    let index = fs::read(repo.root().join(".git/index")).unwrap();
    let change = repo.change(What::Auto).unwrap();
    assert_eq!(change.title, "uncommitted change of work");
    assert_eq!(
        kinds(&change),
        [
            (".gitignore", ChangeKind::Added),
            ("a.txt", ChangeKind::Modified),
            ("staged.txt", ChangeKind::Added),
            ("new dir/new file.txt", ChangeKind::Added),
        ]
    );
    assert_eq!(added(&change, "a.txt"), ["two"]);
    assert_eq!(added(&change, "new dir/new file.txt"), ["n", "m"]);
    assert_eq!(fs::read(repo.root().join(".git/index")).unwrap(), index);
    assert_eq!(repo.git(&["ls-files", "--others", "--exclude-standard"]), "new dir/new file.txt");
}

#[test]
fn an_untracked_file_reads_as_git_itself_would_write_it() {
    let repo = Repo::with_commit();
    for (name, text) in [
        ("plain.txt", "a\nb\n"),
        ("no newline", "a\r\nb"),
        ("q\"uote\\\n.txt", "x\n"),
        ("é.txt", "é\n"),
        ("empty", ""),
        ("binary", "a\0b"),
    ] {
        repo.write(name, text);
    }
    repo.write("run.sh", "x\n");
    let run = repo.root().join("run.sh");
    fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", repo.root().join("link")).unwrap();
    let ours = repo.change(What::Uncommitted).unwrap();
    repo.git(&["add", "--all"]);
    let gits = repo.change(What::Uncommitted).unwrap();
    let sorted = |change: &Change| {
        let mut files = change.files.clone();
        files.sort_by(|one, other| one.path().cmp(other.path()));
        files
    };
    assert_eq!(sorted(&ours), sorted(&gits));
    assert_eq!(added(&ours, "link"), ["/etc/passwd"]);
}

#[test]
fn without_an_uncommitted_change_it_is_the_last_commit() {
    let repo = Repo::with_commit();
    let first = repo.change(What::Auto).unwrap();
    assert_eq!(kinds(&first), [("a.txt", ChangeKind::Added)]);
    repo.write("a.txt", "two\n");
    repo.commit("Say two\n\nAnd a body.");
    let id = repo.git(&["rev-parse", "--short", "HEAD"]);
    let second = repo.change(What::Auto).unwrap();
    assert_eq!(second.title, format!("commit {id}: Say two"));
    assert_eq!(kinds(&second), [("a.txt", ChangeKind::Modified)]);
    assert_eq!(repo.change(What::Commit("HEAD~1".to_owned())), Ok(first));
}

#[test]
fn a_merge_is_what_it_brought_to_its_first_parent() {
    let repo = Repo::with_commit();
    repo.git(&["switch", "--quiet", "-c", "side"]);
    repo.write("side.txt", "s\n");
    repo.commit("Side");
    repo.git(&["switch", "--quiet", "main"]);
    repo.write("main.txt", "m\n");
    repo.commit("Main");
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "Merge", "side"]);
    let change = repo.change(What::Auto).unwrap();
    assert_eq!(kinds(&change), [("side.txt", ChangeKind::Added)]);
}

#[test]
fn a_base_counts_from_where_the_branch_was_left() {
    let repo = Repo::with_commit();
    repo.git(&["switch", "--quiet", "-c", "work"]);
    repo.write("b.txt", "b\n");
    repo.commit("Add b");
    repo.git(&["switch", "--quiet", "main"]);
    repo.write("later.txt", "l\n");
    repo.commit("Go on");
    repo.git(&["switch", "--quiet", "work"]);
    repo.write("c.txt", "c\n");
    let change = repo.change(What::Base("main".to_owned())).unwrap();
    assert_eq!(change.title, "work against main, with what is not committed yet");
    assert_eq!(kinds(&change), [("b.txt", ChangeKind::Added), ("c.txt", ChangeKind::Added)]);
}

#[test]
fn renames_deletions_and_modes_are_told_apart() {
    let repo = Repo::new();
    repo.write("old name", "1\n2\n3\n4\n5\n");
    repo.write("gone", "x\n");
    repo.write("mode", "x\n");
    repo.commit("Start");
    repo.git(&["mv", "old name", "new name"]);
    fs::remove_file(repo.root().join("gone")).unwrap();
    let mode = repo.root().join("mode");
    fs::set_permissions(mode, fs::Permissions::from_mode(0o755)).unwrap();
    let change = repo.change(What::Uncommitted).unwrap();
    assert_eq!(
        kinds(&change),
        [
            ("gone", ChangeKind::Deleted),
            ("mode", ChangeKind::Modified),
            ("new name", ChangeKind::Renamed),
        ]
    );
}

#[test]
fn names_that_are_not_utf_8_do_no_harm() {
    let repo = Repo::with_commit();
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(repo.root().join(name), "x\n").unwrap();
    let change = repo.change(What::Uncommitted).unwrap();
    assert_eq!(kinds(&change), [("caf\u{fffd}.txt", ChangeKind::Added)]);
}

#[test]
fn a_change_below_the_top_is_the_whole_repositorys() {
    let repo = Repo::with_commit();
    repo.write("sub/b.txt", "b\n");
    let from_below = change(&program(), &repo.root().join("sub"), &What::Uncommitted);
    assert_eq!(from_below, repo.change(What::Uncommitted));
    assert_eq!(from_below.unwrap().root, repo.root().canonicalize().unwrap());
}

#[test]
fn every_reason_for_no_change_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    assert_eq!(change(&program(), &path, &What::Auto), Err(GitError::NotARepository { path }));
    let empty = Repo::new();
    assert_eq!(empty.change(What::Auto), Err(GitError::NoCommits));
    assert_eq!(empty.change(What::Commit("HEAD".to_owned())), Err(GitError::NoCommits));
    let repo = Repo::with_commit();
    let title = "uncommitted change of work".to_owned();
    assert_eq!(repo.change(What::Uncommitted), Err(GitError::EmptyChange { title }));
    for name in ["--output=x", "-", "none", "", "main..main", "a\0b"] {
        let (name, elsewhere) = (name.to_owned(), Elsewhere::Unknown);
        let unknown = Err(GitError::UnknownRevision { name: name.clone(), elsewhere });
        assert_eq!(repo.change(What::Commit(name.clone())), unknown, "{name:?}");
        assert_eq!(repo.change(What::Base(name.clone())), unknown, "{name:?}");
    }
    let gone = change(&program(), Path::new("/nowhere/at/all"), &What::Auto);
    assert!(matches!(gone, Err(GitError::Failed { .. })), "{gone:?}");
}

#[test]
fn the_first_files_of_an_empty_repository_are_a_change() {
    let repo = Repo::new();
    repo.write("a.txt", "a\n");
    repo.write("b.txt", "b\n");
    repo.git(&["add", "b.txt"]);
    let change = repo.change(What::Auto).unwrap();
    assert_eq!(kinds(&change), [("b.txt", ChangeKind::Added), ("a.txt", ChangeKind::Added)]);
}

#[test]
fn nothing_a_repository_names_is_run() {
    let repo = Repo::with_commit();
    let script = format!("touch '{}' #", repo.canary().display());
    let text = "a.txt diff=evil filter=evil\nb.txt filter=e=vil.x\n";
    repo.write(".gitattributes", text);
    repo.write("b.txt", "b\n");
    repo.commit("Attributes");
    for name in [
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "filter.e=vil.x.clean",
        "gpg.program",
        "gpg.ssh.program",
        "credential.helper",
    ] {
        repo.git(&["config", name, &script]);
    }
    repo.git(&["config", "filter.evil.required", "true"]);
    repo.git(&["config", "log.showSignature", "true"]);
    let hooks = repo.root().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-index-change", "fsmonitor-watchman", "reference-transaction"] {
        fs::write(hooks.join(hook), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(hooks.join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let _ = fs::remove_file(repo.canary());
    repo.write("a.txt", "one\nchanged\n");
    repo.write("b.txt", "b\nchanged\n");
    repo.write("c.txt", "c\n");
    for what in [What::Uncommitted, What::Commit("HEAD".to_owned()), What::Base("main".to_owned())]
    {
        repo.change(what).unwrap();
        assert!(!repo.canary().exists());
    }
    assert_eq!(added(&repo.change(What::Auto).unwrap(), "b.txt"), ["changed"]);
    // The same repository does run them where nothing is turned off; else this
    // test could not fail.
    repo.git(&["status", "--short"]);
    assert!(repo.canary().exists());
}

#[test]
fn taste_in_the_configuration_changes_nothing() {
    let repo = Repo::with_commit();
    repo.write("a.txt", "one\ntwo\n");
    let plain = repo.change(What::Uncommitted).unwrap();
    for (name, value) in [
        ("color.ui", "always"),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.context", "0"),
        ("diff.relative", "true"),
        ("diff.orderFile", "/nowhere"),
        ("core.quotePath", "true"),
    ] {
        repo.git(&["config", name, value]);
    }
    assert_eq!(repo.change(What::Uncommitted), Ok(plain));
}

#[test]
fn large_files_are_only_named_where_the_diff_would_be_too_long() {
    let repo = Repo::with_commit();
    repo.write("a.txt", "two\n");
    repo.write("big.txt", &"a line of text\n".repeat(OUTPUT_CAP / 14));
    repo.git(&["add", "--all"]);
    let note = "; files over 512 KiB are named only";
    let check = |what, title: &str| {
        let change = repo.change(what).unwrap();
        assert_eq!(change.title, format!("{title}{note}"));
        let shown = change.files.iter().map(|file| (file.path(), file.binary)).collect::<Vec<_>>();
        assert_eq!(shown, [("a.txt", false), ("big.txt", true)]);
        assert_eq!(change.too_large, ["big.txt".to_owned()].into());
        assert_eq!(added(&change, "a.txt"), ["two"]);
    };
    check(What::Uncommitted, "uncommitted change of work");
    let subject = "x".repeat(300);
    repo.commit(&subject);
    let title = format!("commit {}: {subject}", repo.git(&["rev-parse", "--short", "HEAD"]));
    check(What::Commit("HEAD".to_owned()), &title[..TITLE_CAP - note.len()]);
}

#[test]
fn too_much_output_is_an_error() {
    let repo = Repo::with_commit();
    for number in 0..20 {
        repo.write(&format!("{number}.txt"), &"a line of text\n".repeat(500 * 1024 / 15));
    }
    repo.git(&["add", "--all"]);
    let error = repo.change(What::Uncommitted).unwrap_err().to_string();
    assert_eq!(error, "git failed: it printed more than 8 MiB; ask for a smaller change");
}

#[test]
fn a_list_of_untracked_files_that_is_too_long_names_the_way_out() {
    let failed = |message: &str| GitError::Failed { message: message.to_owned() };
    let most = format!("{}", call::OUTPUT_CAP / 1024 / 1024);
    let error = call::too_many_untracked(failed(&format!("it printed more than {most} MiB; x")));
    assert_eq!(
        error.to_string(),
        "git failed: the list of untracked files is larger than 8 MiB; add generated files \
         to .gitignore, or to .git/info/exclude if only you have it"
    );
    for other in ["it took more than 60 s", "fatal: not a git repository", ""] {
        let error = call::too_many_untracked(failed(other)).to_string();
        assert_eq!(error, failed(other).to_string());
    }
}

/// How the lines of a map begin.
const ROW: &str = "{\"id\":\"x\",\"row\":1,\"status\":\"completed\"}";

fn apart(change: &Change) -> Vec<(&str, ApartKind)> {
    change.apart.iter().map(|apart| (&*apart.path, apart.kind)).collect()
}

#[test]
fn what_runs_is_part_of_the_change_however_it_begins() {
    let repo = Repo::with_commit();
    for name in ["dist/b.js", "evil.py", "rows.jsonl", "run"] {
        repo.write(name, &format!("{ROW}\nimport os\n"));
    }
    let run = repo.root().join("run");
    fs::set_permissions(run, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(ROW, repo.root().join("link")).unwrap();
    let change = repo.change(What::Auto).unwrap();
    let expected = ["dist/b.js", "evil.py", "link", "run"].map(|name| (name, ChangeKind::Added));
    assert_eq!(kinds(&change), expected);
    assert_eq!(apart(&change), [("rows.jsonl", ApartKind::Ours)]);
    let title = "uncommitted change of work; without 1 file that tine wrote";
    assert_eq!(change.title, title);
}

#[test]
fn what_is_set_apart_is_named_beside_a_change_and_is_none() {
    let repo = Repo::with_commit();
    repo.git(&["init", "--quiet", "inside"]);
    repo.write("inside/own.rs", "fn own() {}\n");
    repo.write("rows.jsonl", &format!("{ROW}\n"));
    let last = repo.change(What::Auto).unwrap();
    assert!(last.title.starts_with("commit ") && last.apart.is_empty(), "{last:?}");
    repo.write("a.txt", "two\n");
    let change = repo.change(What::Auto).unwrap();
    assert_eq!(kinds(&change), [("a.txt", ChangeKind::Modified)]);
    let expected = [("inside", ApartKind::Repository), ("rows.jsonl", ApartKind::Ours)];
    assert_eq!(apart(&change), expected);
}

#[test]
fn what_nobody_writes_by_hand_comes_last() {
    let repo = Repo::with_commit();
    repo.write("Cargo.lock", "x\n");
    repo.write("src/main.rs", "diff --git a/x.lock b/x.lock\n");
    repo.commit("Start");
    repo.write("Cargo.lock", "y\n");
    repo.write("src/main.rs", "y\n");
    let change = repo.change(What::Auto).unwrap();
    let (lock, main) = ("Cargo.lock", "src/main.rs");
    assert_eq!(kinds(&change), [(main, ChangeKind::Modified), (lock, ChangeKind::Modified)]);
}

#[test]
fn what_is_binary_its_bytes_say_and_no_attribute() {
    let repo = Repo::with_commit();
    repo.write(".gitattributes", "*.txt binary\n*.rs -diff\n");
    repo.write("picture.txt", "a\0b");
    repo.write("b.rs", "one\n");
    repo.commit("Hide");
    let check = |what: What, expected: &[&str]| {
        let change = repo.change(what).unwrap();
        let binary = change.files.iter().filter(|file| file.binary);
        assert_eq!(binary.map(|file| file.path()).collect::<Vec<_>>(), expected);
        assert_eq!(change.too_large, BTreeSet::new());
        change
    };
    let commit = check(What::Commit("HEAD".to_owned()), &["picture.txt"]);
    assert_eq!(added(&commit, "b.rs"), ["one"]);
    repo.write("b.rs", "two\n");
    repo.write("picture.txt", "a\0c");
    repo.write("a.txt", "two\n");
    let now = check(What::Uncommitted, &["picture.txt"]);
    assert_eq!(
        (added(&now, "b.rs"), added(&now, "a.txt")),
        (vec!["two".to_owned()], vec!["two".to_owned()])
    );
    repo.git(&["mv", "-f", "b.rs", "c.rs"]);
    fs::remove_file(repo.root().join("a.txt")).unwrap();
    check(What::Uncommitted, &["picture.txt"]);
}

#[test]
fn a_file_that_has_become_a_link_is_told_once_whatever_an_attribute_says() {
    let repo = Repo::with_commit();
    repo.write(".gitattributes", "*.rs -diff\n");
    repo.write("x.rs", "one\n");
    repo.commit("Hide");
    fs::remove_file(repo.root().join("x.rs")).unwrap();
    std::os::unix::fs::symlink("a.txt", repo.root().join("x.rs")).unwrap();
    let change = repo.change(What::Uncommitted).unwrap();
    assert_eq!(kinds(&change), [("x.rs", ChangeKind::Deleted), ("x.rs", ChangeKind::Added)]);
    let lines: usize =
        change.files.iter().map(|file| file.added().count() + file.removed().count()).sum();
    assert_eq!((lines, change.too_large), (2, BTreeSet::new()), "{}", change.diff);
}

/// A clone of the last commit of a repository's branch, beside it.
fn shallow(repo: &Repo) -> PathBuf {
    let clone = repo.0.path().join("clone");
    let from = format!("file://{}", repo.root().display());
    repo.git(&["clone", "--quiet", "--depth", "1", &from, clone.to_str().unwrap()]);
    clone
}

/// A repository whose branch `feature` and whose branch `main` went on.
fn branched() -> Repo {
    let repo = Repo::with_commit();
    repo.git(&["branch", "feature"]);
    repo.write("main.txt", "m\n");
    repo.commit("Go on");
    repo.git(&["checkout", "--quiet", "feature"]);
    repo.write("b.txt", "b\n");
    repo.commit("Add b");
    repo
}

#[test]
fn a_commit_whose_parent_a_shallow_clone_lacks_is_not_one_of_new_files() {
    let repo = branched();
    let clone = shallow(&repo);
    let refused = |what: What| change(&program(), &clone, &what).unwrap_err();
    let commit = repo.git(&["rev-parse", "HEAD"])[..10].to_owned();
    let expected = GitError::NoParent { commit: commit.clone(), is_shallow: true };
    assert_eq!(refused(What::Auto), expected);
    assert_eq!(refused(What::Commit("HEAD".to_owned())), expected);
    // A shell has made the file for the report.
    fs::write(clone.join("report.md"), "").unwrap();
    assert_eq!(refused(What::Auto), expected);
    let said = format!("the parent of commit `{commit}` is not here: the clone is shallow");
    assert_eq!(expected.to_string(), said);
    repo.git(&["-C", clone.to_str().unwrap(), "fetch", "--quiet", "--deepen=1"]);
    let deeper = change(&program(), &clone, &What::Auto).unwrap();
    assert_eq!(kinds(&deeper), [("b.txt", ChangeKind::Added)]);
    assert_eq!(deeper.commit, Some(repo.git(&["rev-parse", "HEAD"])));
    // What is not committed needs no parent.
    fs::write(clone.join("a.txt"), "two\n").unwrap();
    assert_eq!(change(&program(), &clone, &What::Auto).unwrap().commit, None);
}

#[test]
fn of_a_branch_that_is_not_here_it_is_told_where_it_may_be() {
    let repo = branched();
    let clone = shallow(&repo);
    let fetch = |what: &[&str]| {
        let at = ["-C", clone.to_str().unwrap(), "fetch", "--quiet", "--depth", "1", "origin"];
        repo.git(&[&at[..], what].concat())
    };
    let base = |name: &str| change(&program(), &clone, &What::Base(name.to_owned())).unwrap_err();
    let unknown = |name: &str, elsewhere| {
        assert_eq!(base(name), GitError::UnknownRevision { name: name.to_owned(), elsewhere });
    };
    unknown("main", Elsewhere::Remote);
    unknown("origin/main", Elsewhere::Remote);
    unknown("main..HEAD", Elsewhere::Unknown);
    unknown("-x", Elsewhere::Unknown);
    fetch(&["main:refs/remotes/origin/main"]);
    unknown("main", Elsewhere::Tracked);
    let error = base("origin/main");
    let said = "`origin/main` and HEAD have no commit in common: the clone is shallow";
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_repository_without_a_working_tree_is_told_in_our_words() {
    let repo = Repo::with_commit();
    let bare = repo.0.path().join("bare");
    repo.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    for path in [bare, repo.root().join(".git")] {
        let refused = change(&program(), &path, &What::Auto);
        assert_eq!(refused, Err(GitError::NoWorkingTree { path }));
    }
}
