//! What becomes of a worktree when its unit ends, and what is said of it.
//!
//! A unit's change is one thing: half of it in the workspace could be worse
//! than none, and nobody could tell which half. So if one file does not fit,
//! nothing is put there, and the parent gets both sides and the patch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::claim::Claim;
use super::plan::{Conflict, LandingPlan, NotPut, Target, plan, refused};
use super::put::Hold;
use super::remarks::EndRemarks;
use super::{OwnTree, Worktrees, beside};
use crate::config::WorktreeEnd;
use crate::event::{NoticeLevel, Outcome, Worktree};
use crate::git::omission::{OmittedPath, is_copy};
use crate::git::worktree::{Change, TreeChanges};
use crate::line::{Line, Told};
use crate::message::counted;
use crate::path_text::to_text;
use crate::prompt::fill;
use crate::tool::ToolContext;

/// Most characters of all conflicts that a parent reads of one unit.
const CONFLICTS_CAP: usize = 4_000;

/// How often a worktree is removed before it is left over, and listed as such.
const REMOVALS: u32 = 5;

/// How long to wait for somebody else's git between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// Most files with conflicts that are named.
const NAMED_CAP: usize = 50;

/// A worktree in which something was changed.
struct Work {
    own: OwnTree,
    /// What the unit is called.
    name: String,
    changes: Vec<Change>,
    /// Files of the worktree that are in no patch.
    left_out: Vec<OmittedPath>,
    patch: PathBuf,
    /// The ignored files that the workspace does not get.
    left_behind: Vec<Conflict>,
}

impl Worktrees {
    /// Ends a unit's worktree, tells of it, and returns the note for whoever
    /// reads of the unit's end.
    pub(in crate::fanout) async fn end(
        &self,
        own: OwnTree,
        context: &ToolContext,
        outcome: &Outcome,
    ) -> String {
        let line = &context.line;
        let unit = line.unit();
        let reading = beside(move || {
            let directory = &own.from.spill.directory;
            let patch = directory.join(format!("{unit}.patch"));
            // Without it, writing the patch says what is wrong.
            let _ = std::fs::create_dir_all(directory);
            match own.linked.changes(&patch) {
                Ok(changes) => Ok(Work::new(own, unit.to_string(), changes, patch)),
                Err(error) => Err(Box::new((own, error.to_string()))),
            }
        });
        let work = match reading.await {
            Ok(work) => work,
            Err(unread) => {
                let (own, error) = *unread;
                return self.unread(own, line, &error).await;
            }
        };
        if work.changes.is_empty() {
            return self.unchanged(work, line).await;
        }
        match (outcome, self.at_end) {
            (Outcome::Done { text: _ }, WorktreeEnd::Apply) => self.apply(work, context).await,
            (Outcome::Done { text: _ }, WorktreeEnd::Keep) => self.kept(work, line, "").await,
            (Outcome::Failed(_) | Outcome::Cancelled { .. } | Outcome::Interrupted, _) => {
                self.kept(work, line, ", because it did not come to its end").await
            }
        }
    }

    /// Ends a worktree that has no change for the workspace. If it contains work
    /// that is in no patch, it is kept.
    async fn unchanged(&self, work: Work, line: &Line) -> String {
        let original = work.own.place.workspace.original.as_ref();
        let has_changed =
            work.has_more_work() || original.is_some_and(|it| it.describe_strays().is_some());
        let note = match has_changed {
            true => include_str!("../../../prompts/worktree_ended.md"),
            false => include_str!("../../../prompts/worktree_dropped.md"),
        };
        let note = note.trim_end().to_owned();
        if !work.has_more_work() {
            let remarks = work.remarks(None);
            line.tell(Told::Worktree(Worktree::Dropped)).await;
            self.remove(work.own, line).await;
            return remarks.below(note);
        }
        // A change of nothing.
        let patch = work.patch.clone();
        beside(move || drop(std::fs::write(patch, ""))).await;
        self.keep_work(&work, line, Vec::new()).await;
        let remarks = work.remarks(Some(&work.own.linked.tree));
        self.keep(work.own.claim);
        remarks.below(note)
    }

    async fn apply(&self, work: Work, context: &ToolContext) -> String {
        let line = &context.line;
        let turn = tokio::select! {
            biased;
            () = context.cancel.cancelled() => None,
            turn = self.applying.lock() => Some(turn),
        };
        if turn.is_none() {
            return self.kept(work, line, ", because it was cancelled").await;
        }
        context.workspace.files.note_merge();
        let (work, put) = work.put(context).await;
        context.workspace.files.note_merge();
        match put {
            Ok(()) => {
                let (patch, files) = (to_text(&work.patch), work.count_put());
                let applied = Worktree::Applied { patch: patch.as_str().into(), files };
                line.tell(Told::Worktree(applied)).await;
                let files = counted(files, "changed file");
                let note = include_str!("../../../prompts/worktree_applied.md").trim_end();
                let note = fill(note, &[("files", &files), ("patch", &patch)]);
                self.applied(work, line, note).await
            }
            Err(NotPut::Refused(refused)) => {
                let why = format!("{} may not be changed there like this", files(&refused));
                self.conflicts(work, line, &refused, &why).await
            }
            Err(NotPut::Conflicts(conflicts)) => {
                let why = "the workspace has other changes at the same places of";
                let why = format!("{why} {}", files(&conflicts));
                self.conflicts(work, line, &conflicts, &why).await
            }
            Err(NotPut::Failed(error)) => self.kept(work, line, &format!(": {error}")).await,
        }
    }

    /// Removes a worktree whose changes are in the workspace, unless there is more
    /// in it.
    async fn applied(&self, work: Work, line: &Line, note: String) -> String {
        if !work.has_more_work() {
            let remarks = work.remarks(None);
            self.remove(work.own, line).await;
            return remarks.below(note);
        }
        let remarks = work.remarks(Some(&work.own.linked.tree));
        let path = to_text(&work.own.linked.tree);
        let text = format!("its worktree {path} is kept: it has files that no patch contains");
        let level = NoticeLevel::Warning;
        line.tell(Told::Notice { level, text: text.into() }).await;
        self.keep(work.own.claim);
        remarks.below(note)
    }

    async fn kept(&self, work: Work, line: &Line, why: &str) -> String {
        let (path, patch) = self.keep_work(&work, line, Vec::new()).await;
        let files = counted(work.count(), "changed file");
        let remarks = work.remarks(Some(&work.own.linked.tree));
        self.keep(work.own.claim);
        let values = [("path", &*path), ("files", &files), ("why", why), ("patch", &patch)];
        remarks.below(fill(include_str!("../../../prompts/worktree_kept.md").trim_end(), &values))
    }

    async fn conflicts(
        &self,
        work: Work,
        line: &Line,
        conflicts: &[Conflict],
        why: &str,
    ) -> String {
        let named: Vec<String> = conflicts.iter().map(|conflict| to_text(&conflict.path)).collect();
        let paths = named.iter().take(NAMED_CAP).map(|path| path.as_str().into()).collect();
        let (path, patch) = self.keep_work(&work, line, paths).await;
        let files = counted(work.count(), "changed file");
        let remarks = work.remarks(Some(&work.own.linked.tree));
        self.keep(work.own.claim);
        let sections: Vec<String> = named
            .iter()
            .zip(conflicts)
            .take(NAMED_CAP)
            .map(|(path, conflict)| format!("{path}: {}", conflict.text))
            .collect();
        let sides = crate::prompt::cut(&sections.join("\n\n"), CONFLICTS_CAP, None);
        let note = include_str!("../../../prompts/worktree_conflicts.md").trim_end();
        let values = [
            ("path", &*path),
            ("files", &files),
            ("why", why),
            ("patch", &patch),
            ("sides", &sides),
        ];
        remarks.below(fill(note, &values))
    }

    /// Tells that a worktree stays, and returns where it and its patch are.
    async fn keep_work(
        &self,
        work: &Work,
        line: &Line,
        conflicts: Vec<Arc<str>>,
    ) -> (String, String) {
        let (path, patch) = (to_text(&work.own.linked.tree), to_text(&work.patch));
        let (told_path, told_patch) = (path.as_str().into(), patch.as_str().into());
        let kept = Worktree::Kept { path: told_path, patch: told_patch, conflicts };
        line.tell(Told::Worktree(kept)).await;
        (path, patch)
    }

    /// Keeps a worktree of which nobody knows what was changed there.
    async fn unread(&self, own: OwnTree, line: &Line, error: &str) -> String {
        let path = to_text(&own.linked.tree);
        self.keep(own.claim);
        let text = format!("its worktree {path} is kept, because it cannot be read: {error}");
        let level = NoticeLevel::Warning;
        line.tell(Told::Notice { level, text: text.as_str().into() }).await;
        format!("[{text}]")
    }

    /// Removes a worktree, one at a time: git looks at all that it knows of to
    /// remove one, and trips over another that goes meanwhile.
    pub(super) async fn remove(&self, own: OwnTree, line: &Line) {
        let OwnTree { linked, claim, .. } = own;
        let linked = Arc::new(linked);
        let turn = self.linking.lock().await;
        let mut removed = Ok(());
        for attempt in 1..=REMOVALS {
            let taken = Arc::clone(&linked);
            removed = beside(move || taken.remove()).await;
            if removed.is_ok() || attempt == REMOVALS {
                break;
            }
            // Somebody else's git may have been in the way.
            tokio::time::sleep(PAUSE).await;
        }
        drop(turn);
        // The project's own directory goes with its last one.
        let ending = beside(move || {
            let _ = linked.place.parent().map(std::fs::remove_dir);
            drop::<Claim>(claim);
        });
        ending.await;
        if let Err(error) = removed {
            let text = format!("its worktree cannot be removed: {error}");
            let level = NoticeLevel::Warning;
            line.tell(Told::Notice { level, text: text.into() }).await;
        }
    }
}

fn files(conflicts: &[Conflict]) -> String {
    counted(u64::try_from(conflicts.len()).unwrap_or(u64::MAX), "file")
}

impl Work {
    fn new(own: OwnTree, name: String, found: TreeChanges, patch: PathBuf) -> Self {
        let TreeChanges { files: changes, mut left_out } = found;
        // Files that were copied from the workspace still exist there.
        left_out.retain(|it| {
            let (here, there) = (own.linked.tree.join(&it.path), own.snapshot.top.join(&it.path));
            !it.kind.may_be_work() || !is_copy(&here, &there)
        });
        Self { own, name, changes, left_out, patch, left_behind: Vec::new() }
    }

    /// Returns whether there is work that no patch holds.
    fn has_more_work(&self) -> bool {
        self.left_out.iter().any(|it| it.kind.may_be_work())
    }

    /// Returns the remarks; `kept` is the directory of a worktree that is kept.
    fn remarks(&self, kept: Option<&Path>) -> EndRemarks {
        let mut remarks = EndRemarks::default();
        let is_put = |change: &&Change| {
            change.is_ignored && !self.left_behind.iter().any(|it| it.path == change.path)
        };
        let ignored: Vec<&Path> =
            self.changes.iter().filter(is_put).map(|change| &*change.path).collect();
        remarks.add_ignored(&ignored);
        remarks.add_left_behind(&self.left_behind);
        remarks.add_left_out(&self.left_out, kept);
        remarks.add(self.own.place.workspace.original.as_ref().and_then(|it| it.describe_strays()));
        remarks.add_missing(&self.own.snapshot.gaps.left_out);
        remarks
    }

    fn top(&self) -> &Path {
        &self.own.snapshot.top
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.changes.iter().map(|change| self.top().join(&change.path)).collect()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.changes.len()).unwrap_or(u32::MAX)
    }

    /// Returns how many files the workspace has got.
    fn count_put(&self) -> u32 {
        self.count().saturating_sub(u32::try_from(self.left_behind.len()).unwrap_or(u32::MAX))
    }

    /// Returns the changes that are to be put into the workspace.
    fn changes_to_put(&self) -> Vec<Change> {
        let is_wanted =
            |change: &&Change| !self.left_behind.iter().any(|it| it.path == change.path);
        self.changes.iter().filter(is_wanted).cloned().collect()
    }

    /// Puts everything into the workspace that `context` works in, or nothing.
    /// Ignored files that may not be put there stay out alone.
    async fn put(mut self, context: &ToolContext) -> (Self, Result<(), NotPut>) {
        let refused = refused(&self.target(), &self.changes);
        let is_ignored = |it: &Conflict| {
            self.changes.iter().any(|change| change.is_ignored && change.path == it.path)
        };
        let (ignored, refused): (Vec<Conflict>, Vec<Conflict>) =
            refused.into_iter().partition(is_ignored);
        if !refused.is_empty() {
            return (self, Err(NotPut::Refused(refused)));
        }
        self.left_behind = ignored;
        let hold = match Hold::wait(context, &self.paths()).await {
            Ok(hold) => hold,
            Err(error) => return (self, Err(NotPut::Failed(error.to_string()))),
        };
        let (mut work, planned) = beside(move || {
            let git = self.own.linked.git();
            let git = git.map_err(|error| NotPut::Failed(error.to_string()));
            let planned = git.and_then(|git| plan(&git, &self.target(), &self.changes_to_put()));
            (self, planned)
        })
        .await;
        let LandingPlan { steps, left_behind } = match planned {
            Ok(plan) => plan,
            Err(error) => return (work, Err(error)),
        };
        work.left_behind.extend(left_behind);
        let put = hold.put(context, work.top(), steps).await;
        let put = put.map_err(|error| NotPut::Failed(error.to_string()));
        (work, put)
    }

    fn target(&self) -> Target<'_> {
        Target {
            top: self.top(),
            policy: &self.own.from_policy,
            unit: &self.name,
            scratch: self.own.claim.place(),
        }
    }
}
