//! What is writable, read-only and hidden, for workspaces of every shape.

use std::os::unix::fs::symlink;

use super::*;
use crate::guard::CommandBounds;

/// A home with a workspace in it.
struct Home {
    _directory: tempfile::TempDir,
    root: PathBuf,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("work")).unwrap();
        Self { _directory: directory, root }
    }

    fn with_directories(self, directories: &[&str]) -> Self {
        for directory in directories {
            fs::create_dir_all(self.root.join(directory)).unwrap();
        }
        self
    }

    fn with_files(self, files: &[(&str, &str)]) -> Self {
        for (file, text) in files {
            fs::write(self.root.join(file), text).unwrap();
        }
        self
    }

    fn layout(&self, access: Access, roots: &[&str], write: &[&str]) -> Layout {
        self.bounded(access, (roots, write), &CommandBounds::NONE)
    }

    fn bounded(
        &self,
        access: Access,
        (roots, write): (&[&str], &[&str]),
        bounds: &CommandBounds,
    ) -> Layout {
        let below = |names: &[&str]| names.iter().map(|name| self.root.join(name)).collect();
        let roots: Vec<PathBuf> = below(roots);
        let settings = Settings {
            home: Some(self.root.clone()),
            write: below(write),
            own_files: vec![self.root.join("own.toml")],
            ..Settings::default()
        };
        Layout::new(access, &Place { directory: &self.root, roots: &roots, bounds }, &settings)
    }

    /// Compares the views, each with the path below home.
    #[track_caller]
    fn check(&self, layout: &Layout, expected: &[(&str, View)]) {
        let below = |(path, view): (&PathBuf, &View)| {
            (path.strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned(), *view)
        };
        let views: Vec<_> = layout.views.iter().map(below).collect();
        let expected: Vec<_> =
            expected.iter().map(|(path, view)| ((*path).to_owned(), *view)).collect();
        assert_eq!(views, expected);
    }
}

use View::{HiddenDirectory, HiddenFile, ReadOnly, Writable};

#[test]
fn read_only_makes_nothing_writable_and_protects_nothing() {
    let home = Home::new().with_directories(&["work/.git/hooks", "cache"]);
    let layout = home.layout(Access::ReadOnly, &["work"], &["cache"]);
    home.check(&layout, &[("work", ReadOnly)]);
    assert_eq!(layout.protected, []);
}

#[test]
fn a_repository_is_writable_but_for_what_others_obey() {
    let home = Home::new().with_directories(&["work/.git/hooks", "work/.claude", "cache"]);
    let home = home.with_files(&[("work/.git/config", ""), ("work/.mcp.json", "")]);
    let layout = home.layout(Access::WorkspaceWrite, &["work"], &["cache", "gone"]);
    let expected = [
        ("cache", Writable),
        ("work", Writable),
        ("work/.claude", ReadOnly),
        ("work/.git", Writable),
        ("work/.git/config", ReadOnly),
        ("work/.git/hooks", ReadOnly),
        ("work/.mcp.json", ReadOnly),
    ];
    home.check(&layout, &expected);
    let stub = |name: &str| {
        let path = home.root.join("work").join(name);
        layout.protected.iter().find(|protected| protected.path == path).map(|found| found.stub)
    };
    assert_eq!(stub(".tine"), Some(Stub::Directory));
    assert_eq!(stub(".git/config.worktree"), Some(Stub::Directory));
    assert_eq!(stub(".git/commondir"), Some(Stub::None));
}

#[test]
fn more_configuration_is_kept_out_by_a_file_where_git_would_read_it() {
    let home = Home::new().with_directories(&["work/.git"]);
    let on = "[extensions]\n\tworktreeconfig = true\n";
    let home = home.with_files(&[("work/.git/config", on)]);
    let layout = home.layout(Access::WorkspaceWrite, &["work"], &[]);
    let path = home.root.join("work/.git/config.worktree");
    let found = layout.protected.iter().find(|protected| protected.path == path);
    assert_eq!(found.map(|found| found.stub), Some(Stub::File));
}

#[test]
fn secrets_and_our_own_configuration_are_hidden_where_they_are() {
    let home = Home::new().with_directories(&[".ssh", "keys"]);
    let home = home.with_files(&[(".netrc", ""), ("own.toml", "")]);
    symlink("keys", home.root.join(".aws")).unwrap();
    for access in [Access::ReadOnly, Access::WorkspaceWrite] {
        let layout = home.layout(access, &[], &[]);
        let expected = [
            (".netrc", HiddenFile),
            (".ssh", HiddenDirectory),
            ("keys", HiddenDirectory),
            ("own.toml", HiddenFile),
        ];
        home.check(&layout, &expected);
    }
}

#[test]
fn a_root_that_holds_the_whole_home_is_not_writable() {
    let home = Home::new();
    home.check(&home.layout(Access::WorkspaceWrite, &[""], &[]), &[("", ReadOnly)]);
    let layout = home.layout(Access::WorkspaceWrite, &["", "work"], &[]);
    home.check(&layout, &[("", ReadOnly), ("work", Writable)]);
    let everything = [PathBuf::from("/")];
    let bounds = &CommandBounds::NONE;
    let place = Place { directory: &home.root, roots: &everything, bounds };
    let settings = Settings { write: everything.to_vec(), ..Settings::default() };
    assert_eq!(Layout::new(Access::WorkspaceWrite, &place, &settings), Layout::default());
}

#[test]
fn a_protected_link_leads_to_something_read_only() {
    let home = Home::new().with_directories(&["work/real", "elsewhere"]);
    symlink("real", home.root.join("work/.claude")).unwrap();
    symlink("../elsewhere", home.root.join("work/.agents")).unwrap();
    symlink("..", home.root.join("work/.tine")).unwrap();
    let layout = home.layout(Access::WorkspaceWrite, &["work"], &[]);
    home.check(&layout, &[("work", Writable), ("work/real", ReadOnly)]);
}

/// A repository `main` with the linked worktree `work`.
fn linked_worktree() -> Home {
    let own = "main/.git/worktrees/work";
    let directories =
        [own, "main/.git/objects", "main/.git/refs", "main/.git/logs", "main/.git/hooks"];
    let home = Home::new().with_directories(&directories);
    let root = home.root.display().to_string();
    home.with_files(&[
        ("work/.git", &format!("gitdir: {root}/{own}\n")),
        (&format!("{own}/commondir"), "../..\n"),
        (&format!("{own}/gitdir"), &format!("{root}/work/.git\n")),
    ])
}

#[test]
fn a_linked_worktree_opens_what_a_commit_needs_of_its_repository() {
    let home = linked_worktree();
    let layout = home.layout(Access::WorkspaceWrite, &["work"], &[]);
    let expected = [
        // Below `/tmp` a sandbox would have an empty directory in its place.
        ("main", ReadOnly),
        ("main/.git/logs", Writable),
        ("main/.git/objects", Writable),
        ("main/.git/refs", Writable),
        ("main/.git/worktrees/work", Writable),
        ("main/.git/worktrees/work/commondir", ReadOnly),
        ("main/.git/worktrees/work/gitdir", ReadOnly),
        ("work", Writable),
        ("work/.git", ReadOnly),
    ];
    home.check(&layout, &expected);
}

#[test]
fn a_worktree_that_its_repository_does_not_know_opens_nothing() {
    let home = linked_worktree();
    fs::write(home.root.join("main/.git/worktrees/work/gitdir"), "/elsewhere/.git\n").unwrap();
    let layout = home.layout(Access::WorkspaceWrite, &["work"], &[]);
    home.check(&layout, &[("work", Writable), ("work/.git", ReadOnly)]);
    fs::write(home.root.join("work/.git"), format!("gitdir: {}\n", home.root.display())).unwrap();
    let layout = home.layout(Access::WorkspaceWrite, &["work"], &[]);
    home.check(&layout, &[("work", Writable), ("work/.git", ReadOnly)]);
}

#[test]
fn a_root_inside_what_another_root_protects_is_writable() {
    let home = Home::new().with_directories(&["work/.claude/worktrees/one"]);
    let layout = home.layout(Access::WorkspaceWrite, &["work", "work/.claude/worktrees/one"], &[]);
    let expected =
        [("work", Writable), ("work/.claude", ReadOnly), ("work/.claude/worktrees/one", Writable)];
    home.check(&layout, &expected);
}

#[test]
fn what_is_hidden_stays_hidden_in_a_directory_that_may_be_written() {
    let home = Home::new().with_directories(&[".cargo"]);
    let home = home.with_files(&[(".cargo/credentials.toml", "")]);
    let layout = home.layout(Access::WorkspaceWrite, &[], &[".cargo"]);
    home.check(&layout, &[(".cargo", Writable), (".cargo/credentials.toml", HiddenFile)]);
}

/// A place below `/tmp`, where a sandbox has a directory of its own.
/// Such a directory is the stub of another process, which may remove it at any moment.
#[test]
fn an_empty_directory_is_no_repository() {
    let home = Home::new().with_directories(&["work/.git"]);
    let layout = home.bounded(Access::WorkspaceWrite, (&["work"], &[]), &CommandBounds::NONE);
    home.check(&layout, &[("work", Writable), ("work/.git", ReadOnly)]);
    let git = home.root.join("work/.git");
    let inside = layout.protected.iter().filter(|it| it.path.starts_with(&git));
    let inside: Vec<_> = inside.map(|it| (it.path.clone(), it.stub)).collect();
    assert_eq!(inside, [(git, Stub::Directory)]);
}

#[test]
fn what_git_needs_of_the_repository_around_is_shown_and_nothing_else() {
    let home = Home::new().with_directories(&[
        "repo/.git/objects",
        "repo/sub",
        "apart/objects/info",
        "apart/refs",
        "lender/objects/info",
        "lender/objects/pack",
        "private/objects",
        "split",
        "odd",
        "odd-target",
    ]);
    let home = home.with_files(&[
        ("repo/.git/HEAD", ""),
        ("apart/HEAD", ""),
        ("split/.git", "gitdir: ../apart\n"),
        ("odd/.git", "gitdir: ../odd-target\n"),
    ]);
    let lenders = ["lender", "private"]
        .map(|name| home.root.join(name).join("objects").display().to_string());
    fs::write(home.root.join("apart/objects/info/alternates"), lenders.join("\n")).unwrap();
    let layout = home.layout(Access::ReadOnly, &["repo/sub"], &[]);
    home.check(&layout, &[("repo", ReadOnly), ("repo/sub", ReadOnly)]);
    let layout = home.layout(Access::ReadOnly, &["split"], &[]);
    home.check(&layout, &[("apart", ReadOnly), ("lender/objects", ReadOnly), ("split", ReadOnly)]);
    let layout = home.layout(Access::ReadOnly, &["odd"], &[]);
    home.check(&layout, &[("odd", ReadOnly)]);
}

#[test]
fn what_runs_later_stays_where_it_is_with_the_directories_above_it() {
    let home = Home::new().with_directories(&["work/.git/hooks", "work/tools/deep", "work/.husky"]);
    let home = home.with_files(&[("work/tools/deep/run.sh", "")]);
    let named = ["tools/deep/run.sh", ".husky", ".husky/pre-commit", ".git/hooks/x", "absent"];
    let kept = named.iter().map(|name| home.root.join("work").join(name)).collect();
    let bounds = CommandBounds { kept, ..CommandBounds::NONE };
    let layout = home.bounded(Access::WorkspaceWrite, (&["work"], &[]), &bounds);
    let expected = [
        ("work", Writable),
        ("work/.git", Writable),
        ("work/.git/hooks", ReadOnly),
        ("work/.husky", ReadOnly),
        ("work/tools", Writable),
        ("work/tools/deep", Writable),
        ("work/tools/deep/run.sh", ReadOnly),
    ];
    home.check(&layout, &expected);
    let absent = home.root.join("work/absent");
    let found = layout.protected.iter().find(|protected| protected.path == absent);
    assert_eq!(found.map(|found| found.stub), Some(Stub::None));
}

#[test]
fn what_rules_deny_is_hidden_last_and_with_all_that_is_in_it() {
    let home = Home::new().with_directories(&["work/.git/hooks", "work/keys/deep", ".ssh/in"]);
    let home = home.with_files(&[("work/.env", ""), ("work/keys/deep/k", "")]);
    let denied = ["work/.git", "work/.env", "work/keys", "work/keys/deep/k", ".ssh/in", "absent"];
    let hidden = denied.iter().map(|name| home.root.join(name)).collect();
    let bounds = CommandBounds { hidden, ..CommandBounds::NONE };
    for access in [Access::ReadOnly, Access::WorkspaceWrite] {
        let layout = home.bounded(access, (&["work"], &[]), &bounds);
        let root = if access == Access::ReadOnly { ReadOnly } else { Writable };
        let expected = [
            (".ssh", HiddenDirectory),
            ("work", root),
            ("work/.env", HiddenFile),
            ("work/.git", HiddenDirectory),
            ("work/keys", HiddenDirectory),
        ];
        home.check(&layout, &expected);
    }
}
