//! Worktrees of units: a private copy of the workspace from a unit's start to
//! its end.
//!
//! [`Worktrees`] is one value for the run: where they are put, and the two
//! queues that all units share, one to make them and one to put what was done
//! there into the workspace. How git does it is `git::worktree`'s business;
//! what a unit may do there is its policy's.

pub mod claim;
mod ending;
mod landing;
mod plan;
mod put;
mod remarks;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::WorktreeEnd;
use crate::event::Worktree;
use crate::git::GitError;
use crate::git::worktree::{self, Linked, Snapshot};
use crate::guard::Policy;
use crate::line::{Line, Told};
use crate::model::retry::Jitter;
use crate::path_text;
use crate::prompt;
use crate::tool::Workspace;
use crate::tool::original::OriginalWorkspace;
use crate::tool::roots::Roots;
use claim::{About, Claim};

pub use landing::{Landing, NotLanded};

/// How often a worktree is linked anew while another process holds a lock of
/// git's. Together with [`WAIT`] about ten seconds: such a lock is held for
/// milliseconds, or was left behind by a crash.
const ATTEMPTS: u32 = 40;

/// Most time between two attempts.
const WAIT: Duration = Duration::from_millis(500);

/// Where a unit works.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where its tools work.
    pub workspace: Arc<Workspace>,
    /// The facts of the moment, as it reads them.
    pub environment: Arc<str>,
}

/// What all units of a run share to have worktrees.
#[derive(Debug, Default)]
pub struct Worktrees {
    at: Option<Whereabouts>,
    at_end: WorktreeEnd,
    /// Git would have those who link one at the same time wait for each other
    /// without an order, or fail.
    linking: tokio::sync::Mutex<()>,
    /// In the order in which units end, one after the other, so that each is
    /// merged with all that came before.
    applying: tokio::sync::Mutex<()>,
    /// Of those that are kept, so that nobody takes them for left over while
    /// this process may still speak of them. A mutex, because units end on
    /// tasks of their own.
    kept: Mutex<Vec<Claim>>,
}

/// Where worktrees are put.
#[derive(Debug)]
struct Whereabouts {
    /// For all of a project.
    directory: PathBuf,
    session: Arc<str>,
}

/// The worktree of one unit, while that works there.
#[derive(Debug)]
pub(super) struct OwnTree {
    pub(super) place: Place,
    pub(super) policy: Arc<Policy>,
    /// What the unit must know, for one that goes on from a conversation.
    pub(super) notice: Arc<str>,
    /// Where it was made from.
    from: Arc<Workspace>,
    from_policy: Arc<Policy>,
    snapshot: Arc<Snapshot>,
    linked: Linked,
    claim: Claim,
}

/// Whose worktree is to be made, and from what.
pub struct Wanted<'a> {
    /// The unit's own.
    pub line: &'a Line,
    /// Where its parent works.
    pub place: &'a Place,
    /// What it may do there.
    pub policy: &'a Arc<Policy>,
    /// Directories of the worktrees that its conversation was in before.
    pub former: &'a [PathBuf],
    /// Ends the wait for other units and processes.
    pub cancel: &'a CancellationToken,
    /// Spreads attempts over time.
    pub jitter: Jitter,
}

/// Why a unit has no worktree.
pub(super) enum NotMade {
    /// It was cancelled.
    Cancelled,
    /// A sentence for whoever asked for it.
    Failed(String),
}

impl Worktrees {
    /// Puts worktrees below `root`; without one there can be none.
    #[must_use]
    pub fn new(root: Option<&Path>, project: &Path, session: &str, at_end: WorktreeEnd) -> Self {
        let project = crate::session::dirs::project_name(project);
        let at =
            root.map(|root| Whereabouts { directory: root.join(project), session: session.into() });
        Self { at, at_end, ..Self::default() }
    }

    /// Makes one at the current state of where its unit's parent works.
    ///
    /// Not to be dropped half-way: what was made by then would be left over.
    pub(super) async fn make(&self, wanted: Wanted<'_>) -> Result<OwnTree, NotMade> {
        let own = self.make_at(&wanted, None).await?;
        own.tell_made(wanted.line).await;
        Ok(own)
    }

    /// Makes one at a state, or at the current one, and tells nobody of it.
    async fn make_at(
        &self,
        wanted: &Wanted<'_>,
        state: Option<Arc<Snapshot>>,
    ) -> Result<OwnTree, NotMade> {
        let unit = wanted.line.unit();
        let at = self.at.as_ref().ok_or_else(|| {
            NotMade::Failed("there is no place for worktrees: HOME is not set".to_owned())
        })?;
        let name = format!("{}-{unit}", at.session);
        let (directory, from) = (at.directory.join(name), Arc::clone(&wanted.place.workspace));
        let begun = beside(move || {
            let claim = Claim::new(&directory).map_err(|error| {
                NotMade::Failed(format!("cannot make {}: {error}", directory.display()))
            })?;
            let now = || worktree::snapshot(&from.git, &from.root, claim.place()).map(Arc::new);
            match state.map_or_else(now, Ok) {
                Ok(snapshot) => Ok((claim, snapshot)),
                Err(error) => Err(given_up(claim, None, &error)),
            }
        });
        let (claim, snapshot) = begun.await?;
        let about = About {
            session: at.session.to_string(),
            unit: unit.to_string(),
            patches: wanted.place.workspace.spill.directory.clone(),
            repository: snapshot.repository.clone(),
            base: snapshot.base.clone(),
            tree: worktree::tree_name(&snapshot.top).into(),
        };
        let (claim, linked) = self.link(claim, &snapshot, about, wanted).await?;
        let state = Arc::clone(&snapshot);
        let filling = beside(move || match linked.fill(&state) {
            Ok(()) => Ok((claim, linked)),
            Err(error) => Err(given_up(claim, Some(&linked), &error)),
        });
        let (claim, linked) = filling.await?;
        let spare = linked.clone();
        match OwnTree::new(wanted, self.at_end, (snapshot, linked, claim)) {
            Ok(own) => Ok(own),
            Err(error) => {
                // What cannot be removed is left over, and listed as such.
                beside(move || drop(spare.remove())).await;
                Err(NotMade::Failed(format!("cannot work in its worktree: {error}")))
            }
        }
    }

    /// Links it, one unit at a time, and once more where another process was
    /// in the way.
    async fn link(
        &self,
        claim: Claim,
        snapshot: &Arc<Snapshot>,
        about: About,
        wanted: &Wanted<'_>,
    ) -> Result<(Claim, Linked), NotMade> {
        let (mut claim, mut jitter) = (claim, wanted.jitter.clone());
        let reason = format!("{} of tine session {} works here", about.unit, about.session);
        let turn = tokio::select! {
            biased;
            () = wanted.cancel.cancelled() => None,
            turn = self.linking.lock() => Some(turn),
        };
        if turn.is_none() {
            beside(move || drop(claim.remove())).await;
            return Err(NotMade::Cancelled);
        }
        let about = Arc::new(about);
        for attempt in 1.. {
            let (taken, known, reason) = (Arc::clone(snapshot), Arc::clone(&about), reason.clone());
            let linking = beside(move || {
                let written = claim.write(&known).map_err(|error| GitError::Failed {
                    message: format!("{}: {error}", claim.place().display()),
                });
                let linked = written.and_then(|()| worktree::link(&taken, claim.place(), &reason));
                (claim, linked)
            });
            let (held, linked) = linking.await;
            claim = held;
            let error = match linked {
                Ok(linked) => return Ok((claim, linked)),
                Err(error) => error,
            };
            if attempt == ATTEMPTS || !worktree::is_contended(&error) {
                return Err(beside(move || given_up(claim, None, &error)).await);
            }
            tokio::select! {
                biased;
                () = wanted.cancel.cancelled() => {
                    beside(move || drop(claim.remove())).await;
                    return Err(NotMade::Cancelled);
                }
                () = tokio::time::sleep(WAIT.mul_f64(jitter.draw())) => {}
            }
        }
        unreachable!("the last attempt returns")
    }

    fn keep(&self, claim: Claim) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
    }
}

impl OwnTree {
    /// Returns where it was made from, and where its changes go.
    pub(super) fn origin(&self) -> &Arc<Workspace> {
        &self.from
    }

    async fn tell_made(&self, line: &Line) {
        let path = path_text::to_text(&self.linked.tree).into();
        let base = self.linked.base.as_str().into();
        line.tell(Told::Worktree(Worktree::Made { path, base })).await;
    }

    fn new(
        wanted: &Wanted<'_>,
        at_end: WorktreeEnd,
        (snapshot, linked, claim): (Arc<Snapshot>, Linked, Claim),
    ) -> io::Result<Self> {
        let from = &wanted.place.workspace;
        let moved = |path: &Path| match path.strip_prefix(&snapshot.top) {
            Ok(below) => linked.tree.join(below),
            Err(_) => path.to_owned(),
        };
        let root = linked.tree.join(&snapshot.below);
        // What holds the workspace would let the unit change it; what is
        // ignored is not in the worktree.
        let is_apart = |path: &&PathBuf| **path == snapshot.top || !snapshot.top.starts_with(path);
        let added = from.added.iter().filter(is_apart).map(|path| moved(path));
        let added: Vec<PathBuf> = added.filter(|path| path.is_dir()).collect();
        let roots: Vec<PathBuf> = [root.clone()].into_iter().chain(added.iter().cloned()).collect();
        let guarded = wanted.policy.guarded().iter();
        let guarded: Vec<PathBuf> = guarded.flat_map(|path| narrowed(path, &root)).collect();
        let opened = Roots::open(roots.iter().map(PathBuf::as_path));
        let policy = wanted.policy.replacing(wanted.former, &linked.tree);
        let policy = policy.at(&roots, (&snapshot.top, &linked.tree)).guarding(guarded);
        let workspace = Workspace {
            added,
            roots: opened?,
            spill: from.spill.clone(),
            before: from.before.clone(),
            files: from.files.clone(),
            sandbox: Arc::clone(&from.sandbox),
            git: from.git.clone(),
            web: Arc::clone(&from.web),
            original: Some(original(from, &snapshot, &linked)),
            root,
        };
        let notice = notice(&workspace.root, &snapshot, at_end);
        let environment = prompt::moved(&wanted.place.environment, &from.root, &workspace.root);
        let environment = format!("{environment}\n\n{notice}").into();
        Ok(Self {
            place: Place { workspace: Arc::new(workspace), environment },
            policy: Arc::new(policy),
            notice: notice.into(),
            from: Arc::clone(from),
            from_policy: Arc::clone(wanted.policy),
            snapshot,
            linked,
            claim,
        })
    }
}

/// What of our own configuration stays guarded where the worktrees are beside
/// it: what else there is.
fn narrowed(guarded: &Path, root: &Path) -> Vec<PathBuf> {
    if !root.starts_with(guarded) {
        return vec![guarded.to_owned()];
    }
    let entries = std::fs::read_dir(guarded).into_iter().flatten().flatten();
    let known = ["config.toml", "AGENTS.md", "agents", "skills"].map(|name| guarded.join(name));
    let mut parts: Vec<PathBuf> = known.into_iter().chain(entries.map(|at| at.path())).collect();
    parts.retain(|part| !root.starts_with(part));
    parts.sort();
    parts.dedup();
    parts
}

/// Returns what a worktree is a copy of.
fn original(from: &Workspace, snapshot: &Snapshot, linked: &Linked) -> Arc<OriginalWorkspace> {
    // A link may lead to where the user works.
    let called = from.root.ancestors().nth(snapshot.below.components().count());
    let called = called.unwrap_or(&snapshot.top).to_owned();
    Arc::new(OriginalWorkspace::new(snapshot.top.clone(), called, linked.tree.clone()))
}

fn notice(root: &Path, snapshot: &Snapshot, at_end: WorktreeEnd) -> String {
    let end = match at_end {
        WorktreeEnd::Apply => "it is merged into the workspace",
        WorktreeEnd::Keep => "it is kept beside the workspace, with a patch",
    };
    let (cwd, original) = (path_text::to_text(root), path_text::to_text(&snapshot.top));
    let values = [("cwd", &*cwd), ("original", &original), ("end", end)];
    let notice = prompt::fill(include_str!("../../prompts/worktree.md").trim_end(), &values);
    match remarks::without(&snapshot.gaps.left_out) {
        Some(without) => format!("{notice} {without}"),
        None => notice,
    }
}

/// Leaves nothing of what could not be made.
fn given_up(claim: Claim, linked: Option<&Linked>, error: &GitError) -> NotMade {
    // What cannot be removed is left over, and listed as such.
    let _ = linked.map(Linked::remove);
    let _ = claim.remove();
    let way_out = error.way_out().map(|advice| format!("; {advice}")).unwrap_or_default();
    NotMade::Failed(format!("cannot make a worktree: {error}{way_out}"))
}

/// Runs what blocks on a thread that may.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("nothing panics beside the runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_configuration_stays_guarded_where_the_worktrees_are_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path();
        for name in ["worktrees/p/one", "sessions"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        let root = home.join("worktrees/p/one/work");
        let elsewhere = Path::new("/nowhere/at/all");
        assert_eq!(narrowed(elsewhere, &root), [elsewhere]);
        let parts = ["AGENTS.md", "agents", "config.toml", "sessions", "skills"];
        assert_eq!(narrowed(home, &root), parts.map(|name| home.join(name)));
    }
}
