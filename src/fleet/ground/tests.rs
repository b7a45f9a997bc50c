//! States of real repositories on their way to a worker, and changes on their way back.

mod kept;

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::git::bundle::Part;
use crate::git::tests::{Repo, files, named, program};

/// A coordinator's scratch and a worker's directory.
struct Fleet {
    grounds: Grounds,
    place: tempfile::TempDir,
    /// How many files were fetched.
    fetched: AtomicUsize,
}

impl Fleet {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let grounds = Grounds::new(&program(), &place.path().join("worker")).unwrap();
        Self { grounds, place, fetched: AtomicUsize::new(0) }
    }

    /// Another worker in the same place, after the first one's end.
    fn again(self) -> Self {
        let Self { grounds, place, fetched: _ } = self;
        drop(grounds);
        let grounds = Grounds::new(&program(), &place.path().join("worker")).unwrap();
        Self { grounds, place, fetched: AtomicUsize::new(0) }
    }

    fn worker(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("worker").join(name)
    }

    async fn pack(&self, root: &Path) -> Packed {
        self.pack_beside(root, &Stored::default()).await
    }

    async fn pack_beside(&self, root: &Path, stored: &Stored) -> Packed {
        pack(&program(), root, &self.scratch(), stored).await.unwrap()
    }

    fn scratch(&self) -> PathBuf {
        self.place.path().join("scratch")
    }

    async fn open(&self, packed: &Packed) -> Result<Arc<Ground>, GroundError> {
        let fetch = |hash| {
            self.fetched.fetch_add(1, Ordering::Relaxed);
            let Packed::State(state) = packed else { panic!("there is nothing to fetch") };
            let file = state.files.iter().find(|file| file.hash == hash).unwrap().path.clone();
            async move { Ok::<_, Infallible>(file) }
        };
        self.grounds.open(&packed.names(), fetch).await
    }

    async fn lane(&self, root: &Path) -> Lane {
        let packed = self.pack(root).await;
        self.open(&packed).await.unwrap().lane().await.unwrap()
    }

    fn fetched(&self) -> usize {
        self.fetched.swap(0, Ordering::Relaxed)
    }
}

fn state(packed: &Packed) -> &PackedState {
    let Packed::State(state) = packed else { panic!("{packed:?}") };
    state
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=A", "-c", "user.email=a"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Staged, unstaged, untracked, ignored and deleted, all at once.
fn busy() -> Repo {
    let repo = Repo::new();
    for name in ["kept", "staged", "gone", "mode", "sub/deep"] {
        repo.write(name, &format!("{name}\n"));
    }
    repo.write(".gitignore", "*.log\n");
    repo.commit("Begin");
    repo.write("staged", "staged 2\n");
    repo.git(&["add", "staged"]);
    repo.write("un/tracked é", "u\0\n");
    repo.write("a.log", "ignored\n");
    fs::remove_file(repo.root().join("gone")).unwrap();
    symlink("kept", repo.root().join("link")).unwrap();
    repo
}

#[tokio::test]
async fn a_worker_has_all_that_is_not_committed_the_history_and_nothing_that_is_ignored() {
    let (fleet, repo) = (Fleet::new(), busy());
    let before = (repo.git(&["for-each-ref"]), fs::read(repo.root().join(".git/index")).unwrap());
    let lane = fleet.lane(&repo.root()).await;
    assert_eq!(
        files(lane.root()),
        named(&[
            (".gitignore", "*.log\\n"),
            ("kept", "kept\\n"),
            ("link", "-> kept"),
            ("mode", "mode\\n"),
            ("staged", "staged 2\\n"),
            ("sub/deep", "sub/deep\\n"),
            ("un/tracked é", "u\\x00\\n"),
        ])
    );
    assert_eq!(lane.root(), fleet.worker("lanes/1/work"));
    assert_eq!(git(lane.root(), &["log", "-1", "--format=%s", "HEAD^"]), "Begin");
    assert_eq!(git(lane.root(), &["status", "--porcelain"]), "");
    let after = (repo.git(&["for-each-ref"]), fs::read(repo.root().join(".git/index")).unwrap());
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_change_of_every_kind_goes_back_as_a_patch() {
    let (fleet, repo) = (Fleet::new(), busy());
    let packed = fleet.pack(&repo.root()).await;
    let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
    let tree = lane.root().to_owned();
    fs::write(tree.join("kept"), "kept\r\nand more").unwrap();
    fs::write(tree.join("un/tracked é"), [0, 159, 146, 150]).unwrap();
    fs::rename(tree.join("sub/deep"), tree.join("moved")).unwrap();
    fs::set_permissions(tree.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(tree.join("staged")).unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    symlink("moved", tree.join("link")).unwrap();
    fs::create_dir_all(tree.join("new/below")).unwrap();
    fs::write(tree.join("new/below/file"), "new\n").unwrap();
    git(&tree, &["add", "kept"]);
    git(&tree, &["commit", "--quiet", "-m", "Work"]);
    // Work that git ignores goes back, too.
    fs::write(tree.join("x.log"), "ignored").unwrap();
    let expected = files(&tree);
    let patch = lane.finish(true).await.unwrap().patch().unwrap();
    assert!(!tree.exists());
    let other = fleet.place.path().join("other");
    let base = &state(&packed).names.base;
    repo.git(&["worktree", "add", "--quiet", "--detach", &other.to_string_lossy(), base]);
    fs::write(other.with_extension("patch"), patch).unwrap();
    git(&other, &["apply", "--binary", "--index", "../other.patch"]);
    assert_eq!(files(&other), expected);
}

#[tokio::test]
async fn the_same_state_has_the_same_names_and_a_history_is_sent_once() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let head = repo.git(&["rev-parse", "HEAD"]);
    let clean = fleet.pack(&repo.root()).await;
    let StateNames { commit, base, bundles, .. } = &state(&clean).names;
    assert_eq!((commit, base, bundles.len()), (&head, &head, 1));
    repo.write("a.txt", "two\n");
    let changed = fleet.pack(&repo.root()).await;
    let elsewhere = fleet.place.path().join("elsewhere");
    let again = pack(&program(), &repo.root(), &elsewhere, &Stored::default()).await.unwrap();
    assert_eq!(again.names(), changed.names());
    let names = &state(&changed).names;
    assert_eq!((&names.commit, names.bundles.len()), (&head, 2));
    assert_eq!(names.bundles[0], bundles[0]);
    fleet.open(&clean).await.unwrap();
    assert_eq!(fleet.fetched(), 1);
    let ground = fleet.open(&changed).await.unwrap();
    assert_eq!(fleet.fetched(), 1);
    let lane = ground.lane().await.unwrap();
    assert_eq!(files(lane.root()), named(&[("a.txt", "two\\n")]));
    drop((ground, lane));
    let fleet = fleet.again();
    let lane = fleet.open(&changed).await.unwrap().lane().await.unwrap();
    assert_eq!(files(lane.root()), named(&[("a.txt", "two\\n")]));
    assert_eq!(fleet.fetched(), 0);
}

fn parts(packed: &Packed) -> Vec<Part> {
    packed.files().iter().map(|file| file.content.part).collect()
}

#[tokio::test(start_paused = true)]
async fn of_what_is_stored_no_file_is_made_and_none_stays_that_was() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let mut stored = Stored::default();
    let mut states = Vec::new();
    for text in ["one\n", "two\n", "three\n", "two\n"] {
        repo.write("a.txt", text);
        let packed = fleet.pack_beside(&repo.root(), &stored).await;
        for PackedFile { content, hash, path } in packed.files() {
            assert!(path.is_file());
            stored.note(content.clone(), *hash);
        }
        assert_eq!(packed.names(), fleet.pack(&repo.root()).await.names());
        states.push(parts(&packed));
    }
    assert_eq!(states, [vec![Part::History], vec![Part::Change], vec![Part::Change], vec![]]);
    assert_eq!(fs::read_dir(fleet.scratch()).unwrap().count(), 0);
    let day = std::time::Duration::from_secs(24 * 60 * 60);
    tokio::time::advance(day).await;
    stored.forget(day);
    let packed = fleet.pack_beside(&repo.root(), &stored).await;
    assert_eq!(parts(&packed), [Part::Change, Part::History]);
}

#[tokio::test]
async fn a_history_is_known_however_many_states_are_upon_it() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let mut stored = Stored::default();
    let hash = Hash::from_bytes([0; 32]);
    let packed = fleet.pack(&repo.root()).await;
    stored.note(packed.files()[0].content.clone(), hash);
    for number in 0..100 {
        stored.note(Content { part: Part::Change, tip: number.to_string() }, hash);
    }
    assert_eq!(parts(&fleet.pack_beside(&repo.root(), &stored).await), []);
}

#[tokio::test]
async fn a_root_below_the_top_is_where_the_slot_stands() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    repo.write("sub/dir/b", "b\n");
    repo.write(".gitignore", "/build\n");
    repo.write("build/x", "x\n");
    let lane = fleet.lane(&repo.root().join("sub/dir")).await;
    assert_eq!(lane.root(), fleet.worker("lanes/1/work/sub/dir"));
    assert_eq!(files(lane.root()), named(&[("b", "b\\n")]));
    assert_eq!(lane.finish(false).await.unwrap(), Finished::Unchanged);
    let lane = fleet.lane(&repo.root().join("build")).await;
    assert_eq!(lane.root(), fleet.worker("lanes/2/work/build"));
    assert!(lane.root().is_dir());
    fs::write(lane.root().join("../top"), "top\n").unwrap();
    let patch = lane.finish(true).await.unwrap().patch().unwrap();
    assert!(String::from_utf8(patch).unwrap().contains("+++ b/top\n"));
}

#[tokio::test]
async fn a_lane_that_nobody_touched_is_lent_again_without_git() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let packed = fleet.pack(&repo.root()).await;
    let ground = fleet.open(&packed).await.unwrap();
    let lane = ground.lane().await.unwrap();
    let first = lane.root().to_owned();
    assert_eq!(lane.finish(false).await.unwrap(), Finished::Unchanged);
    // With no repository, no call of git could do anything.
    let repositories = fleet.worker("repositories");
    fs::rename(&repositories, fleet.worker("away")).unwrap();
    for _ in 0..100 {
        let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
        assert_eq!(lane.root(), first);
        assert_eq!(files(lane.root()), named(&[("a.txt", "one\\n")]));
        assert_eq!(lane.finish(false).await.unwrap(), Finished::Unchanged);
    }
    fs::rename(fleet.worker("away"), &repositories).unwrap();
    let (one, two) = (ground.lane().await.unwrap(), ground.lane().await.unwrap());
    assert_eq!((one.root(), two.root() == first), (&*first, false));
}

#[tokio::test]
async fn a_lane_that_was_touched_or_dropped_is_thrown_away_with_all_in_it() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    repo.write(".gitignore", "node_modules\n");
    let packed = fleet.pack(&repo.root()).await;
    let ground = fleet.open(&packed).await.unwrap();
    let lane = ground.lane().await.unwrap();
    let first = lane.root().to_owned();
    fs::create_dir(first.join("node_modules")).unwrap();
    fs::write(first.join("node_modules/ignored"), "x").unwrap();
    fs::write(first.join(".git"), "gitdir: /elsewhere\n").unwrap();
    assert_eq!(lane.finish(true).await.unwrap(), Finished::Unchanged);
    assert!(!first.parent().unwrap().exists());
    let lane = ground.lane().await.unwrap();
    let second = lane.root().to_owned();
    assert_ne!(second, first);
    assert_eq!(files(&second), named(&[(".gitignore", "node_modules\\n"), ("a.txt", "one\\n")]));
    drop(lane);
    let lane = ground.lane().await.unwrap();
    assert_ne!(lane.root(), second);
    assert!(!second.exists());
    let repository = fleet.worker("repositories").join(&state(&packed).names.base);
    assert_eq!(fs::read_dir(repository.join("worktrees")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_change_that_cannot_be_read_is_kept() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let lane = fleet.lane(&repo.root()).await;
    fs::write(lane.root().join("a.txt"), "work\n").unwrap();
    fs::remove_dir_all(fleet.worker("repositories")).unwrap();
    let error = lane.finish(true).await.unwrap_err();
    let GroundError::Unread { kept, source: _ } = error else { panic!("{error:?}") };
    assert!(kept.starts_with(fleet.worker("kept")));
    assert_eq!(fs::read_to_string(kept.join("a.txt")).unwrap(), "work\n");
}

#[tokio::test]
async fn a_repository_without_a_commit_and_no_repository_at_all_are_grounds_too() {
    let (fleet, repo) = (Fleet::new(), Repo::new());
    repo.write("a", "a\n");
    let packed = fleet.pack(&repo.root()).await;
    let names = &state(&packed).names;
    assert_eq!((&names.commit, names.bundles.len()), (&names.base, 1));
    assert_eq!(fleet.pack(&repo.root()).await.names(), packed.names());
    let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
    assert_eq!(files(lane.root()), named(&[("a", "a\\n")]));

    let nothing = tempfile::tempdir().unwrap();
    fs::write(nothing.path().join("file"), "x").unwrap();
    let packed = fleet.pack(nothing.path()).await;
    assert_eq!(packed.names(), PackedNames::Nothing);
    let ground = fleet.open(&packed).await.unwrap();
    let lane = ground.lane().await.unwrap();
    let root = lane.root().to_owned();
    assert_eq!(lane.finish(false).await.unwrap(), Finished::Unchanged);
    let lane = ground.lane().await.unwrap();
    assert_eq!((lane.root(), files(&root).len()), (&*root, 0));
    assert_eq!(lane.finish(true).await.unwrap(), Finished::Unchanged);
    let lane = ground.lane().await.unwrap();
    fs::write(lane.root().join("left"), "x").unwrap();
    assert_eq!(lane.finish(true).await.unwrap(), Finished::Dropped);
    assert_eq!(files(ground.lane().await.unwrap().root()).len(), 0);
}

#[tokio::test]
async fn a_shallow_clone_and_what_is_in_no_bundle_arrive_as_they_are() {
    let (fleet, inner) = (Fleet::new(), Repo::with_commit());
    inner.write("a.txt", "two\n");
    inner.commit("Second");
    inner.write("a.txt", "three\n");
    inner.commit("Third");
    let repo = Repo::new();
    let url = format!("file://{}", inner.root().display());
    repo.git(&["fetch", "--quiet", "--depth", "2", &url, "main"]);
    repo.git(&["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    let allowed = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url];
    repo.git(&[&allowed[..], &["module"]].concat());
    let lane = fleet.lane(&repo.root()).await;
    let found: Vec<_> = files(lane.root()).into_keys().collect();
    assert_eq!(found, [".gitmodules", "a.txt"]);
    assert_eq!(git(lane.root(), &["log", "--format=%s", "HEAD^"]), "Third\nSecond");
    fs::write(lane.root().join("a.txt"), "work\n").unwrap();
    let patch = lane.finish(true).await.unwrap().patch().unwrap();
    assert!(String::from_utf8(patch).unwrap().starts_with("diff --git a/a.txt b/a.txt\n"));
}

#[tokio::test]
async fn a_worker_believes_no_names_and_no_files_and_shares_its_place_with_none() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let packed = fleet.pack(&repo.root()).await;
    let Packed::State(state) = packed else { panic!("{packed:?}") };
    let check = async |names: StateNames, file: &Path, expected: &str| {
        let fetch = |_| async { Ok::<_, Infallible>(file.to_owned()) };
        let opened = fleet.grounds.open(&PackedNames::State(names), fetch).await;
        let error = opened.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let names = || state.names.clone();
    let bundle = &*state.files[0].path;
    check(StateNames { base: "../../x".into(), ..names() }, bundle, "`../../x` is no commit").await;
    check(StateNames { name: "..".into(), ..names() }, bundle, "no name of a directory").await;
    check(StateNames { below: "/etc".into(), ..names() }, bundle, "not below the top").await;
    check(StateNames { bundles: vec![], ..names() }, bundle, "there are 0 files, not 1").await;
    check(names(), &repo.root().join("a.txt"), "is damaged").await;
    let other = "0".repeat(40);
    let wrong = StateNames { commit: other.clone(), base: other.clone(), ..names() };
    check(wrong, bundle, &format!("the bundle does not hold {other}")).await;
    let error = Grounds::new(&program(), &fleet.worker("")).unwrap_err().to_string();
    assert!(error.starts_with("another worker works in "), "{error}");
    let left = fs::read_dir(fleet.worker("repositories")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn a_directory_with_somebody_elses_files_is_left_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("runs/mine")).unwrap();
    let error = Grounds::new(&program(), place.path()).unwrap_err().to_string();
    assert!(error.contains(" has other things in it; give the worker an empty"), "{error}");
    assert!(place.path().join("runs/mine").is_dir());
    fs::remove_dir_all(place.path().join("runs")).unwrap();
    fs::create_dir(place.path().join("lost+found")).unwrap();
    drop(Grounds::new(&program(), place.path()).unwrap());
    fs::create_dir(place.path().join("runs/old")).unwrap();
    drop(Grounds::new(&program(), place.path()).unwrap());
    assert!(!place.path().join("runs/old").exists());
}
