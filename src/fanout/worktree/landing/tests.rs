//! Changes of other machines that land in real repositories.

use std::path::PathBuf;
use std::process::Command;

use super::*;
use crate::config::WorktreeEnd;
use crate::event::FailureKind;
use crate::fanout::Place;
use crate::git::worktree::snapshot;
use crate::guard::{Mode, Policy};
use crate::model::retry::Jitter;
use crate::tool::testing;

/// A repository with a unit that worked on its state elsewhere.
struct Landed {
    mode: Mode,
    place: testing::Place,
    snapshot: Arc<Snapshot>,
    worktrees: Worktrees,
}

impl Landed {
    fn new() -> Self {
        let place = testing::Place::new();
        place.put("a.txt", "one\n");
        place.put("b.txt", "b\n");
        let landed = |arguments: &[&str]| git(&place, arguments);
        landed(&["init", "--quiet", "--template="]);
        landed(&["add", "--all"]);
        landed(&["commit", "--quiet", "-m", "Begin"]);
        place.put("a.txt", "one, uncommitted\n");
        let beside = place.root().with_file_name("state");
        std::fs::create_dir(&beside).unwrap();
        let state = snapshot(&place.workspace.git, place.root(), &beside).unwrap();
        let worktrees = Worktrees::new(Some(&beside), place.root(), "s", WorktreeEnd::Apply);
        Self { mode: Mode::BypassPermissions, snapshot: Arc::new(state), worktrees, place }
    }

    async fn land(
        &self,
        patch: Option<&str>,
        is_isolated: bool,
        outcome: Outcome,
    ) -> Result<Option<String>, String> {
        let context = self.place.unit(7);
        let cancel = CancellationToken::new();
        // As that of a unit that was stopped.
        cancel.cancel();
        let place = Place { workspace: Arc::clone(&self.place.workspace), environment: "".into() };
        let root = self.place.root().to_owned();
        let landing = Landing {
            wanted: Wanted {
                line: &context.line,
                place: &place,
                policy: &Arc::new(Policy::new(self.mode, [root])),
                former: &[],
                cancel: &cancel,
                jitter: Jitter::new(1),
            },
            snapshot: Arc::clone(&self.snapshot),
            patch: patch.map(Into::into),
            is_isolated,
            context: &context,
            outcome: &outcome,
        };
        self.worktrees.land(landing).await.map_err(|error| error.to_string())
    }

    fn patch(&self) -> PathBuf {
        self.place.workspace.spill.directory.join("agent-7.patch")
    }

    fn worktrees(&self) -> usize {
        git(&self.place, &["worktree", "list", "--porcelain"]).matches("worktree ").count() - 1
    }
}

fn git(place: &testing::Place, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(place.root()).args(["-c", "user.name=A", "-c", "user.email=a"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn done() -> Outcome {
    Outcome::Done { text: "done".into() }
}

const DROPPED: &str = "[It worked in a worktree of its own and changed no file there.]";

const PATCH: &str = "diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one, uncommitted
+two
diff --git a/new/run b/new/run
new file mode 100755
--- /dev/null
+++ b/new/run
@@ -0,0 +1 @@
+run
";

#[tokio::test]
async fn a_patch_lands_in_the_workspace_beside_what_was_changed_there_since() {
    let landed = Landed::new();
    landed.place.put("b.txt", "changed since\n");
    let note = landed.land(Some(PATCH), false, done()).await.unwrap().unwrap();
    let patch = to_text(&landed.patch());
    assert_eq!(
        note,
        format!(
            "[It worked in a worktree of its own; 2 changed files of it put into the workspace. \
             Patch: {patch}]"
        )
    );
    assert_eq!(landed.place.bytes("a.txt"), b"two\n");
    assert_eq!(landed.place.bytes("b.txt"), b"changed since\n");
    assert_eq!(landed.place.bytes("new/run"), b"run\n");
    assert_eq!((landed.worktrees(), landed.patch().is_file()), (0, true));
    let told: Vec<_> = landed.place.changes().iter().map(|at| at.path.to_string()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
}

#[tokio::test]
async fn what_the_workspace_has_changed_at_the_same_place_is_a_conflict_and_kept() {
    let landed = Landed::new();
    landed.place.put("a.txt", "three\n");
    let note = landed.land(Some(PATCH), true, done()).await.unwrap().unwrap();
    assert!(note.contains("a.txt: both changed it\n\n<<<<<<< workspace\nthree\n"), "{note}");
    assert_eq!(landed.place.bytes("a.txt"), b"three\n");
    assert!(!landed.place.path("new").exists());
    assert_eq!((landed.worktrees(), landed.patch().is_file()), (1, true));
}

#[tokio::test]
async fn where_nothing_may_be_changed_a_patch_changes_nothing_and_is_kept() {
    let landed = Landed { mode: Mode::Plan, ..Landed::new() };
    let note = landed.land(Some(PATCH), false, done()).await.unwrap().unwrap();
    assert!(note.contains("a.txt"), "{note}");
    assert_eq!(landed.place.bytes("a.txt"), b"one, uncommitted\n");
    assert!(!landed.place.path("new").exists());
    assert_eq!(landed.worktrees(), 1);
}

#[tokio::test]
async fn the_change_of_a_unit_without_an_end_is_kept_in_a_worktree() {
    for outcome in [
        Outcome::Cancelled { ran: true },
        Outcome::failed(FailureKind::Timeout, "ran past its time limit"),
    ] {
        let landed = Landed::new();
        let note = landed.land(Some(PATCH), true, outcome).await.unwrap().unwrap();
        assert!(note.contains("because it did not come to its end"), "{note}");
        assert_eq!(landed.place.bytes("a.txt"), b"one, uncommitted\n");
        assert_eq!(landed.worktrees(), 1);
    }
}

#[tokio::test]
async fn nothing_is_made_where_nothing_was_changed() {
    let landed = Landed::new();
    assert_eq!(landed.land(None, true, done()).await, Ok(Some(DROPPED.to_owned())));
    assert_eq!(landed.land(None, false, done()).await, Ok(None));
    assert_eq!((landed.worktrees(), landed.patch().exists()), (0, false));
}

#[tokio::test]
async fn a_patch_that_does_not_fit_what_it_is_of_is_kept_as_a_file() {
    let landed = Landed::new();
    for patch in [&PATCH.replace("uncommitted", "other"), "no patch", &PATCH[..60]] {
        let error = landed.land(Some(patch), true, done()).await.unwrap_err();
        let begins = "its patch cannot be applied to what it began with: git failed: ";
        assert!(error.starts_with(begins), "{error}");
        let kept = to_text(&landed.patch());
        let ends =
            format!("none of its changes is in the workspace, they are kept in the patch {kept}");
        assert!(error.ends_with(&ends), "{error}");
        assert_eq!(std::fs::read_to_string(landed.patch()).unwrap(), *patch);
        assert_eq!(landed.place.bytes("a.txt"), b"one, uncommitted\n");
        assert_eq!(landed.worktrees(), 0);
    }
}

#[tokio::test]
async fn without_a_place_for_worktrees_a_patch_is_kept_as_a_file() {
    let mut landed = Landed::new();
    landed.worktrees = Worktrees::default();
    let error = landed.land(Some(PATCH), false, done()).await.unwrap_err();
    assert!(error.starts_with("there is no place for worktrees: HOME is not set; "), "{error}");
    assert_eq!(std::fs::read_to_string(landed.patch()).unwrap(), PATCH);
}
