//! Worktrees of real repositories, some of them hostile.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;
use crate::git::tests::{Repo, files, named, program};

/// A repository with a worktree at its state.
struct Worked {
    linked: Linked,
    snapshot: Snapshot,
    // Where its place is.
    state: tempfile::TempDir,
}

impl Worked {
    fn of(workspace: &Path) -> Result<Self, GitError> {
        let state = tempfile::tempdir().unwrap();
        let place = state.path().canonicalize().unwrap().join("p/one");
        make_place(&place).unwrap();
        let snapshot = snapshot(&program(), workspace, &place)?;
        let linked = link(&snapshot, &place, "a test")?;
        linked.fill(&snapshot)?;
        Ok(Self { linked, snapshot, state })
    }

    fn patch(&self) -> PathBuf {
        self.state.path().join("patch")
    }

    fn changes(&self) -> Vec<Change> {
        self.linked.changes(&self.patch()).unwrap().files
    }

    fn tree(&self) -> &Path {
        &self.linked.tree
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything of a repository that is the user's.
fn users(repo: &Repo) -> (Vec<u8>, Vec<String>) {
    let index = fs::read(repo.root().join(".git/index")).unwrap_or_default();
    let asked = [
        &["symbolic-ref", "HEAD"][..],
        &["for-each-ref"],
        &["stash", "list"],
        &["--no-optional-locks", "status", "--porcelain=v2", "--ignored", "--untracked-files=all"],
    ];
    (index, asked.map(|arguments| repo.git(arguments)).into())
}

/// Staged, unstaged, untracked, ignored, deleted and stashed, all at once.
fn busy() -> Repo {
    let repo = Repo::new();
    for name in ["kept", "staged", "both", "gone", "removed", "mode", "sub/deep"] {
        repo.write(name, &format!("{name}\n"));
    }
    repo.write(".gitignore", "*.log\nbuild/\n");
    repo.commit("Begin");
    repo.write("kept", "stashed\n");
    repo.git(&["stash", "--quiet"]);
    repo.write("staged", "staged 2\n");
    repo.write("both", "both 2\n");
    repo.write("new staged", "n\r\n");
    repo.git(&["add", "staged", "both", "new staged"]);
    repo.git(&["rm", "--quiet", "removed"]);
    repo.write("both", "both 3\n");
    repo.write("un/tracked é", "u\0\n");
    repo.write("a.log", "ignored\n");
    repo.write("build/out", "ignored\n");
    fs::remove_file(repo.root().join("gone")).unwrap();
    set_mode(&repo.root().join("mode"), 0o755);
    symlink("kept", repo.root().join("link")).unwrap();
    repo
}

#[test]
fn a_worktree_begins_with_all_that_is_not_committed_and_nothing_that_is_ignored() {
    let repo = busy();
    let before = users(&repo);
    let worked = Worked::of(&repo.root()).unwrap();
    assert_eq!(
        files(worked.tree()),
        named(&[
            (".gitignore", "*.log\\nbuild/\\n"),
            ("both", "both 3\\n"),
            ("kept", "kept\\n"),
            ("link", "-> kept"),
            ("mode", "x mode\\n"),
            ("new staged", "n\\r\\n"),
            ("staged", "staged 2\\n"),
            ("sub/deep", "sub/deep\\n"),
            ("un/tracked é", "u\\x00\\n"),
        ])
    );
    assert_eq!(worked.changes(), []);
    assert!(!worked.patch().exists());
    assert_eq!(users(&repo), before);
    worked.linked.remove().unwrap();
    assert_eq!(users(&repo), before);
    assert_eq!(repo.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    assert!(!repo.root().join(".git/worktrees").exists());
    assert!(!worked.linked.place.exists());
}

#[test]
fn a_patch_holds_every_kind_of_change_and_puts_it_where_it_is_applied() {
    let repo = busy();
    let worked = Worked::of(&repo.root()).unwrap();
    let tree = worked.tree().to_owned();
    fs::write(tree.join("kept"), "kept\r\nand more").unwrap();
    fs::write(tree.join("un/tracked é"), [0, 159, 146, 150]).unwrap();
    fs::rename(tree.join("sub/deep"), tree.join("moved")).unwrap();
    set_mode(&tree.join("mode"), 0o644);
    set_mode(&tree.join("staged"), 0o755);
    fs::remove_file(tree.join("both")).unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    symlink("moved", tree.join("link")).unwrap();
    fs::write(tree.join("x.log"), "ignored").unwrap();
    // What the one who worked there did with git makes no difference.
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(&tree).args(["-c", "user.name=A", "-c", "user.email=a"]);
        assert!(command.args(arguments).status().unwrap().success());
    };
    git(&["add", "kept", "moved"]);
    git(&["commit", "--quiet", "--no-verify", "-m", "Work"]);
    let paths: Vec<_> = worked.changes().iter().map(|at| at.path.display().to_string()).collect();
    let expected = [
        "both",
        "kept",
        "link",
        "mode",
        "moved",
        "staged",
        "sub/deep",
        "un/tracked é",
        // Git ignores it; it would go with the worktree.
        "x.log",
    ];
    assert_eq!(paths, expected);
    assert_eq!(worked.patch().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    repo.git(&["apply", "--binary", &worked.patch().to_string_lossy()]);
    let expected = files(&tree).into_iter();
    let applied = files(&repo.root()).into_iter();
    let applied = applied.filter(|(name, _)| name != "a.log" && name != "build/out");
    assert_eq!(applied.collect::<BTreeMap<_, _>>(), expected.collect());
}

#[test]
fn a_repository_without_a_commit_or_without_a_branch_is_as_good_as_another() {
    let repo = Repo::new();
    repo.write("a", "a\n");
    let worked = Worked::of(&repo.root()).unwrap();
    assert_eq!(files(worked.tree()), named(&[("a", "a\\n")]));
    let repo = Repo::with_commit();
    repo.git(&["checkout", "--quiet", "--detach"]);
    repo.write("a.txt", "two\n");
    let worked = Worked::of(&repo.root()).unwrap();
    assert_eq!(files(worked.tree()), named(&[("a.txt", "two\\n")]));
}

#[test]
fn files_with_conflicts_are_taken_as_they_stand() {
    let repo = Repo::with_commit();
    repo.git(&["switch", "--quiet", "-c", "side"]);
    repo.write("a.txt", "side\n");
    repo.commit("Side");
    repo.git(&["switch", "--quiet", "main"]);
    repo.write("a.txt", "main\n");
    repo.commit("Main");
    let merge = Command::new("git").current_dir(repo.root()).args(["merge", "side"]).output();
    assert!(!merge.unwrap().status.success());
    let worked = Worked::of(&repo.root()).unwrap();
    assert_eq!(files(worked.tree()), files(&repo.root()));
}

#[test]
fn where_there_is_no_working_tree_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let refused = |path: &Path| Worked::of(path).err();
    assert_eq!(refused(&path), Some(GitError::NotARepository { path: path.clone() }));
    let bare = path.join("bare");
    let made = Command::new("git").args(["init", "--quiet", "--bare"]).arg(&bare).status();
    assert!(made.unwrap().success());
    assert_eq!(refused(&bare), Some(GitError::NoWorkingTree { path: bare.clone() }));
    let repo = Repo::with_commit();
    let git = repo.root().join(".git");
    assert_eq!(refused(&git), Some(GitError::NoWorkingTree { path: git.canonicalize().unwrap() }));
    repo.git(&["config", "core.worktree", "/etc"]);
    let path = repo.root().canonicalize().unwrap();
    assert_eq!(refused(&path), Some(GitError::NoWorkingTree { path: path.clone() }));
}

#[test]
fn a_subdirectory_and_a_link_to_it_are_the_same_place_in_the_worktree() {
    let repo = Repo::with_commit();
    repo.write("sub/dir/b", "b\n");
    let link = repo.root().parent().unwrap().join("link");
    symlink(repo.root().join("sub"), &link).unwrap();
    for workspace in [repo.root().join("sub/dir"), link.join("dir")] {
        let worked = Worked::of(&workspace).unwrap();
        assert_eq!(worked.snapshot.below, Path::new("sub/dir"));
        assert_eq!(fs::read(worked.tree().join("sub/dir/b")).unwrap(), b"b\n");
        assert_eq!(worked.tree().file_name(), Some(OsStr::new("work")));
    }
    // One that holds only what is ignored is there all the same.
    repo.write(".gitignore", "/build\n");
    repo.write("build/x", "x\n");
    let worked = Worked::of(&repo.root().join("build")).unwrap();
    assert!(worked.tree().join("build").is_dir());
    assert_eq!(worked.changes(), []);
}

#[test]
fn repositories_within_the_tree_are_left_alone() {
    let inner = Repo::with_commit();
    let repo = Repo::with_commit();
    let url = inner.root().display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "module"]);
    repo.commit("Add a module");
    repo.git(&["-c", "protocol.file.allow=always", "clone", "--quiet", &url, "nested"]);
    repo.write("module/a.txt", "changed\n");
    let canary = repo.canary();
    let script = format!("touch '{}' #", canary.display());
    let module = repo.root().join("module");
    let git = |arguments: &[&str]| {
        let command = Command::new("git").current_dir(&module).args(arguments).output();
        assert!(command.unwrap().status.success());
    };
    git(&["config", "core.fsmonitor", &script]);
    let worked = Worked::of(&repo.root()).unwrap();
    let found: Vec<_> = files(worked.tree()).into_keys().collect();
    assert_eq!(found, [".gitmodules", "a.txt"]);
    let left_out = &worked.snapshot.gaps.left_out;
    let named: Vec<_> = left_out.iter().map(|it| (it.path.to_str().unwrap(), it.kind)).collect();
    let expected = [("nested", OmissionKind::Repository), ("module", OmissionKind::Submodule)];
    assert_eq!(named, expected);
    assert_eq!(worked.changes(), []);
    assert!(!canary.exists());
    repo.git(&["status", "--short"]);
    assert!(canary.exists(), "the attack does nothing, so the test shows nothing");
}

#[test]
fn a_filtered_file_that_was_not_touched_keeps_its_blob() {
    let repo = Repo::new();
    repo.write(".gitattributes", "*.big filter=big\n");
    repo.git(&["config", "filter.big.clean", "echo pointer"]);
    repo.git(&["config", "filter.big.smudge", "echo large content"]);
    repo.write("one.big", "large content\n");
    // Git trusts what is older than its index only.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    let file = fs::File::options().write(true).open(repo.root().join("one.big")).unwrap();
    file.set_modified(old).unwrap();
    repo.commit("Begin");
    let worked = Worked::of(&repo.root()).unwrap();
    assert_eq!(files(worked.tree())["one.big"], "pointer\\n");
    let base = ["diff", "--name-only", "HEAD", &worked.linked.base];
    assert_eq!(repo.git(&base), "");
    assert_eq!(worked.changes(), []);
}

#[test]
fn changes_that_git_is_told_not_to_see_are_in_the_worktree_and_come_back() {
    let repo = Repo::new();
    for name in ["skipped", "assumed", "gone", "both", "absent", "plain"] {
        repo.write(name, "committed\n");
    }
    repo.commit("Begin");
    repo.git(&["update-index", "--skip-worktree", "skipped", "both", "absent"]);
    repo.git(&["update-index", "--assume-unchanged", "assumed", "gone", "both"]);
    for name in ["skipped", "assumed", "both"] {
        repo.write(name, "local\n");
    }
    for name in ["gone", "absent"] {
        fs::remove_file(repo.root().join(name)).unwrap();
    }
    repo.write("intended", "new\n");
    repo.git(&["add", "--intent-to-add", "intended"]);
    set_mode(&repo.root().join("plain"), 0o755);
    let before = users(&repo);
    let worked = Worked::of(&repo.root()).unwrap();
    assert_eq!(files(worked.tree()), files(&repo.root()));
    assert_eq!(worked.changes(), []);
    fs::write(worked.tree().join("skipped"), "changed\n").unwrap();
    fs::write(worked.tree().join("absent"), "made\n").unwrap();
    let paths: Vec<_> = worked.changes().into_iter().map(|change| change.path).collect();
    assert_eq!(paths, ["absent", "skipped"].map(PathBuf::from));
    assert_eq!(users(&repo), before);
}

#[test]
fn a_sparse_checkout_is_as_sparse_in_its_worktree() {
    let repo = Repo::new();
    for name in ["top", "in/a", "out/b"] {
        repo.write(name, "x\n");
    }
    repo.commit("Begin");
    for is_index_sparse in ["false", "true"] {
        repo.git(&["config", "index.sparse", is_index_sparse]);
        repo.git(&["sparse-checkout", "set", "--cone", "in"]);
        let worked = Worked::of(&repo.root()).unwrap();
        assert_eq!(files(worked.tree()), named(&[("in/a", "x\\n"), ("top", "x\\n")]));
        assert_eq!(worked.changes(), []);
        fs::write(worked.tree().join("in/a"), "y\n").unwrap();
        let paths: Vec<_> = worked.changes().into_iter().map(|change| change.path).collect();
        assert_eq!(paths, [PathBuf::from("in/a")]);
    }
}

#[test]
fn directories_without_files_are_there_unless_git_ignores_them() {
    let repo = Repo::with_commit();
    repo.write(".gitignore", "out/\n");
    repo.write("with/a", "a\n");
    for name in ["empty", "with/empty/er", "deep/down", "out/x"] {
        fs::create_dir_all(repo.root().join(name)).unwrap();
    }
    let worked = Worked::of(&repo.root()).unwrap();
    for name in ["empty", "with/empty/er", "deep/down"] {
        assert!(worked.tree().join(name).is_dir(), "{name}");
    }
    assert!(!worked.tree().join("out").exists());
    assert_eq!(worked.changes(), []);
}

#[test]
fn ignored_files_that_are_work_are_changes_and_the_rest_is_named() {
    let repo = Repo::with_commit();
    repo.write(".gitignore", "out/\n*.log\nnode_modules/\n__pycache__/\ntarget/\nbig\nclone/\n");
    repo.write("Cargo.toml", "");
    repo.write("sub/kept", "x\n");
    let worked = Worked::of(&repo.root()).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = worked.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let names = "odd/.tox/a.log odd/.tox/b out/report.md out/deep/er/data.csv sub/a.log logs/b.log \
                 out/node_modules/x/index.js \
                 node_modules/x/index.js sub/__pycache__/x.pyc target/debug/x nested/target/x \
                 clone/a untracked";
    names.split_whitespace().for_each(|name| put(name, b"x\n"));
    put("cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n");
    put(".gitignore", b"out/\n*.log\nnode_modules/\n__pycache__/\ntarget/\nbig\nclone/\ncache/\n");
    fs::create_dir(worked.tree().join("clone/.git")).unwrap();
    let big = fs::File::create(worked.tree().join("big")).unwrap();
    big.set_len(33 * 1024 * 1024).unwrap();
    symlink("report.md", worked.tree().join("out/latest")).unwrap();
    let TreeChanges { files, left_out } = worked.linked.changes(&worked.patch()).unwrap();
    let changed: Vec<_> =
        files.iter().map(|it| (it.path.to_str().unwrap(), it.is_ignored)).collect();
    assert_eq!(
        changed,
        [
            (".gitignore", false),
            ("logs/b.log", true),
            ("nested/target/x", true),
            ("odd/.tox/b", false),
            ("out/deep/er/data.csv", true),
            ("out/latest", true),
            ("out/report.md", true),
            ("sub/a.log", true),
            ("untracked", false),
        ]
    );
    let mut left: Vec<_> = left_out.iter().map(|it| (it.path.to_str().unwrap(), it.kind)).collect();
    left.sort_unstable();
    let mut expected = [
        ("big", OmissionKind::Large),
        ("cache", OmissionKind::Cache),
        ("clone", OmissionKind::Repository),
        ("node_modules", OmissionKind::Cache),
        ("odd/.tox/a.log", OmissionKind::Cache),
        ("out/node_modules", OmissionKind::Cache),
        ("sub/__pycache__", OmissionKind::Cache),
        ("target", OmissionKind::Cache),
    ];
    expected.sort_unstable();
    assert_eq!(left, expected);
    let patch = fs::read_to_string(worked.patch()).unwrap();
    assert!(patch.contains("out/report.md") && !patch.contains("node_modules"), "{patch}");
}

#[test]
fn more_ignored_files_than_anyone_writes_are_left_out_as_a_whole() {
    let repo = Repo::with_commit();
    repo.write(".gitignore", "many/\nfew/\n");
    let worked = Worked::of(&repo.root()).unwrap();
    for (directory, count) in [("many/a", 1_001), ("few", 2)] {
        fs::create_dir_all(worked.tree().join(directory)).unwrap();
        for number in 0..count {
            fs::write(worked.tree().join(format!("{directory}/{number}")), "").unwrap();
        }
    }
    let TreeChanges { files, left_out } = worked.linked.changes(&worked.patch()).unwrap();
    assert_eq!(files.len(), 2);
    let [many] = &left_out[..] else { panic!("{left_out:?}") };
    assert_eq!(
        (many.path.to_str(), many.kind, many.files),
        (Some("many"), OmissionKind::Large, 1_001)
    );
}

#[test]
fn what_was_copied_from_elsewhere_is_told_from_what_was_changed() {
    let place = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| place.path().join(name));
    for at in [&one, &other] {
        fs::create_dir_all(at.join("a/.git")).unwrap();
        fs::write(at.join("a/b"), "x").unwrap();
        symlink("b", at.join("a/c")).unwrap();
    }
    fs::write(one.join("a/.git/index"), "times").unwrap();
    fs::write(other.join("a/.git/index"), "other times").unwrap();
    assert!(omission::is_copy(&one, &other));
    fs::write(one.join("a/b"), "y").unwrap();
    assert!(!omission::is_copy(&one, &other));
    fs::write(one.join("a/b"), "x").unwrap();
    fs::write(one.join("a/new"), "x").unwrap();
    assert!(!omission::is_copy(&one, &other));
}

#[test]
fn a_repository_whose_git_directory_is_elsewhere_has_worktrees_too() {
    let inner = Repo::with_commit();
    let repo = Repo::with_commit();
    let url = inner.root().display().to_string();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "module"]);
    let apart = repo.root().with_file_name("apart");
    let separate = format!("--separate-git-dir={}", apart.display());
    let other = Repo::with_commit();
    other.git(&["init", "--quiet", &separate]);
    for workspace in [repo.root().join("module"), other.root()] {
        fs::write(workspace.join("new"), "new\n").unwrap();
        let worked = Worked::of(&workspace).unwrap();
        assert_eq!(files(worked.tree()), named(&[("a.txt", "one\\n"), ("new", "new\\n")]));
        fs::write(worked.tree().join("a.txt"), "two\n").unwrap();
        assert_eq!(worked.changes().len(), 1);
        worked.linked.remove().unwrap();
    }
}

/// A way for a repository to have its own programs run.
struct Attack {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    attributes: &'static str,
    hook: Option<&'static str>,
    /// What shows that it works where nothing is turned off.
    alive: &'static [&'static str],
}

const STATUS: &[&str] = &["status", "--short"];
const ADD: &[&str] = &["add", "--all"];
const CHECKOUT: &[&str] = &["checkout", "--force", "HEAD", "--", "."];
const DIFF: &[&str] = &["diff", "HEAD"];
const WORKTREE: &[&str] = &["worktree", "add", "--detach", "../other"];

const fn setting(
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    attributes: &'static str,
    alive: &'static [&'static str],
) -> Attack {
    Attack { name, settings, attributes, hook: None, alive }
}

const fn hook(name: &'static str, alive: &'static [&'static str]) -> Attack {
    Attack { name, settings: &[], attributes: "", hook: Some(name), alive }
}

// Not by `status` what runs for a file: git looks into one only if its size is the
// same and it is as new as the index.
// No pager: git starts one on a terminal only, and none of ours is one.
const ATTACKS: [Attack; 20] = [
    setting("fsmonitor", &[("core.fsmonitor", "SCRIPT")], "", STATUS),
    setting("hooks path", &[("core.hooksPath", "HOOKS")], "", WORKTREE),
    setting("clean", &[("filter.x.clean", "SCRIPT")], "* filter=x", ADD),
    setting("smudge", &[("filter.x.smudge", "SCRIPT")], "* filter=x", CHECKOUT),
    setting("process", &[("filter.x.process", "SCRIPT")], "* filter=x", ADD),
    setting(
        "required",
        &[("filter.x.clean", "SCRIPT"), ("filter.x.required", "true")],
        "* filter=x",
        ADD,
    ),
    setting("a driver with =", &[("filter.a=b.c.clean", "SCRIPT")], "* filter=a=b.c", ADD),
    setting("a driver in capitals", &[("FILTER.Ab.CLEAN", "SCRIPT")], "* filter=Ab", ADD),
    setting("a driver beyond ASCII", &[("filter.ü.clean", "SCRIPT")], "* filter=ü", ADD),
    setting("external diff", &[("diff.external", "SCRIPT")], "", DIFF),
    setting("a driver's diff", &[("diff.x.command", "SCRIPT")], "* diff=x", DIFF),
    setting("textconv", &[("diff.x.textconv", "SCRIPT")], "* diff=x", DIFF),
    setting("an included file", &[("include.path", "INCLUDED")], "* filter=x", ADD),
    setting("an included file if", &[("includeIf.gitdir:/.path", "INCLUDED")], "* filter=x", ADD),
    setting("alias", &[("alias.st", "!SCRIPT")], "", &["st"]),
    setting(
        "gpg",
        &[("gpg.program", "PROGRAM"), ("commit.gpgSign", "true"), ("user.signingKey", "x")],
        "",
        &["-c", "commit.gpgSign=true", "commit", "--allow-empty", "-m", "x"],
    ),
    hook("post-checkout", WORKTREE),
    hook("post-index-change", ADD),
    hook("reference-transaction", &["update-ref", "refs/heads/x", "HEAD"]),
    Attack {
        name: "a merge driver",
        settings: &[("merge.x.driver", "SCRIPT")],
        attributes: "* merge=x",
        hook: None,
        alive: &["merge", "--no-edit", "side"],
    },
];

impl Attack {
    fn repository(&self) -> Repo {
        let repo = Repo::with_commit();
        repo.git(&["switch", "--quiet", "-c", "side"]);
        repo.write("a.txt", "side\n");
        repo.commit("Side");
        repo.git(&["switch", "--quiet", "main"]);
        repo.write("a.txt", "main\n");
        repo.write(".gitattributes", &format!("{}\n", self.attributes));
        repo.commit("Main");
        let script = format!("touch '{}' #", repo.canary().display());
        let beside = |name: &str| repo.root().parent().unwrap().join(name);
        let (hooks, included) = (beside("hooks"), beside("included"));
        fs::create_dir(&hooks).unwrap();
        fs::write(&included, format!("[filter \"x\"]\nclean = \"{script}\"\n")).unwrap();
        let mut all = Vec::new();
        if let Some(hook) = self.hook {
            all.push(repo.root().join(".git/hooks").join(hook));
        }
        let program = beside("program");
        all.extend([hooks.join("post-checkout"), program.clone()]);
        for hook in all {
            fs::create_dir_all(hook.parent().unwrap()).unwrap();
            fs::write(&hook, format!("#!/bin/sh\n{script}\n")).unwrap();
            set_mode(&hook, 0o755);
        }
        for (name, value) in self.settings {
            let value = value
                .replace("SCRIPT", &script)
                .replace("PROGRAM", &program.display().to_string())
                .replace("HOOKS", &hooks.display().to_string())
                .replace("INCLUDED", &included.display().to_string());
            repo.git(&["config", name, &value]);
        }
        // Without a commit in between, a clean file is not looked into.
        if self.alive != ["merge", "--no-edit", "side"] {
            repo.write("a.txt", "changed\n");
        }
        let _ = fs::remove_file(repo.canary());
        repo
    }
}

#[test]
fn what_a_repository_has_git_run_is_alive_and_is_not_run_for_a_worktree() {
    for attack in ATTACKS {
        let repo = attack.repository();
        // Many of them fail in the end, which is no matter.
        let mut alive = Command::new("git");
        alive.current_dir(repo.root()).env("HOME", "/nowhere").env("GIT_CONFIG_NOSYSTEM", "1");
        alive.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_EDITOR", "true");
        alive.args(["-c", "user.name=A", "-c", "user.email=a"]).args(attack.alive);
        alive.output().unwrap();
        assert!(repo.canary().exists(), "{}: does nothing", attack.name);

        let repo = attack.repository();
        let worked = Worked::of(&repo.root()).unwrap();
        fs::write(worked.tree().join("a.txt"), "work\n").unwrap();
        fs::write(worked.tree().join("new"), "new\n").unwrap();
        let changes = worked.changes();
        let git = Git::at(&program(), worked.tree()).unwrap();
        let after = changes[0].after.as_ref().unwrap();
        assert_eq!(contents(&git, &after.object, &changes[0].path).unwrap(), b"work\n");
        let side = |bytes| Side { name: "x", bytes };
        let three = [side(b"1\n2\n3\n4\n"), side(b"1\n2\n3\n5\n"), side(b"0\n2\n3\n5\n")];
        let merged = merge(&git, &worked.linked.place, three).unwrap();
        assert_eq!(merged, Merged::Clean(b"0\n2\n3\n4\n".into()));
        worked.linked.remove().unwrap();
        assert!(!repo.canary().exists(), "{}: ran", attack.name);
    }
}

#[test]
fn a_tree_whose_link_to_its_repository_was_bent_is_read_by_what_was_known_before() {
    let repo = Repo::with_commit();
    let worked = Worked::of(&repo.root()).unwrap();
    let other = Attack::repository(&ATTACKS[0]);
    fs::write(worked.tree().join("a.txt"), "work\n").unwrap();
    let bent = format!("gitdir: {}\n", other.root().join(".git").display());
    fs::write(worked.tree().join(".git"), bent).unwrap();
    let paths: Vec<_> = worked.changes().into_iter().map(|change| change.path).collect();
    assert_eq!(paths, [Path::new("a.txt")]);
    worked.linked.remove().unwrap();
    assert!(!other.canary().exists());
    assert_eq!(repo.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

#[test]
fn three_texts_are_merged_or_their_conflicts_are_shown() {
    let repo = Repo::with_commit();
    let git = Git::at(&program(), &repo.root()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let merged = |ours: &[u8], base: &[u8], theirs: &[u8]| {
        let sides = [("ours", ours), ("base", base), ("theirs", theirs)];
        merge(&git, scratch.path(), sides.map(|(name, bytes)| Side { name, bytes })).unwrap()
    };
    let clean = merged(b"A\r\nb\r\nc\r\nd", b"a\r\nb\r\nc\r\nd", b"a\r\nb\r\nc\r\nD");
    assert_eq!(clean, Merged::Clean(b"A\r\nb\r\nc\r\nD".into()));
    let both = merged(b"x\n", b"a\n", b"y\n");
    let text = b"<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n";
    assert_eq!(both, Merged::Conflicts(text.into()));
    assert_eq!(merged(b"x\0", b"a\0", b"y\0"), Merged::Binary);
    let many = |text: &str| text.repeat(400).into_bytes();
    let far = merged(&many("x\n-\n"), &many("a\n-\n"), &many("y\n-\n"));
    assert!(matches!(far, Merged::Conflicts(_)), "{far:?}");
}

#[test]
fn directories_that_nobody_may_write_go_too() {
    let repo = Repo::with_commit();
    let worked = Worked::of(&repo.root()).unwrap();
    let locked = worked.tree().join("cache");
    fs::create_dir(&locked).unwrap();
    fs::write(locked.join("x"), "x").unwrap();
    set_mode(&locked, 0o555);
    worked.linked.remove().unwrap();
    assert!(!worked.linked.place.exists());
}
