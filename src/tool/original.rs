//! The workspace that a unit's own copy was made from.
//!
//! The file tools of such a unit work in the copy. A command that runs without
//! a sandbox can still reach the original. This module detects files that change
//! there while it runs, and files that tools change in other directories, so that
//! the result does not claim that no file was changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::event::Backend;
use crate::git::Program;
use crate::git::marks::ChangeMarks;
use crate::message::counted;
use crate::path_text;

use super::blocking::to_the_end;
use super::files::Files;
use super::{Granted, Workspace};

/// Maximum number of files that are named.
const NAMED_CAP: usize = 10;

/// Maximum number of files outside of a copy that are remembered.
const STRAYS_CAP: usize = 1_000;

/// The original of a copy that a unit works in.
#[derive(Debug)]
pub struct OriginalWorkspace {
    /// The top directory of the working tree.
    top: PathBuf,
    /// The same, as the user calls it: a link may lead there.
    called: PathBuf,
    /// The top directory of the copy.
    copy: PathBuf,
    is_told: AtomicBool,
    /// What was changed outside of the copy. A mutex, since tools run on threads of
    /// their own.
    strays: Mutex<BTreeSet<PathBuf>>,
}

/// A command that may change the original, while it runs.
pub(super) struct OriginalWatch {
    original: Arc<OriginalWorkspace>,
    git: Program,
    before: ChangeMarks,
    files: Files,
    /// Merges of other agents' work that had begun or ended before.
    merges: u64,
}

impl OriginalWorkspace {
    /// Creates the original at `top`, which the user knows as `called`.
    #[must_use]
    pub fn new(top: PathBuf, called: PathBuf, copy: PathBuf) -> Self {
        let (is_told, strays) = (AtomicBool::new(false), Mutex::default());
        Self { top, called, copy, is_told, strays }
    }

    /// Returns the top directory of the copy.
    #[must_use]
    pub fn copy(&self) -> &Path {
        &self.copy
    }

    /// Returns whether it has not been said yet that paths into the original mean
    /// the copy. The next call returns `false`.
    #[must_use]
    pub fn begin_to_tell(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Remembers a file that was changed, if it is outside of the copy.
    pub fn note(&self, path: &Path) {
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.starts_with(&self.copy) && strays.len() < STRAYS_CAP {
            strays.insert(path.to_owned());
        }
    }

    /// Returns a sentence about what was changed outside of the copy; `None` if
    /// nothing was.
    #[must_use]
    pub fn describe_strays(&self) -> Option<String> {
        let strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        (!strays.is_empty()).then(|| {
            let count = counted(strays.len() as u64, "file");
            format!("it changed {count} outside of its worktree: {}", listed(&strays))
        })
    }

    fn is_named_in(&self, command: &str) -> bool {
        let names = [&self.top, &self.called].map(|path| path.to_string_lossy().into_owned());
        names.iter().any(|name| command.contains(&**name))
    }
}

impl OriginalWatch {
    /// Starts to watch the original if a command names it and no sandbox prevents the
    /// command from changing it.
    pub(super) async fn begin(
        workspace: &Workspace,
        call: &Granted,
        command: &str,
    ) -> Option<Self> {
        let original = workspace.original.as_ref()?;
        if call.confinement.backend != Backend::None || !original.is_named_in(command) {
            return None;
        }
        let (original, git) = (Arc::clone(original), workspace.git.clone());
        let files = workspace.files.clone();
        let merges = files.merges();
        to_the_end(move || {
            let before = ChangeMarks::of(&git, &original.top).ok()?;
            Some(Self { original, git, before, files, merges })
        })
        .await
    }

    /// Looks again, and returns the note for the model.
    pub(super) async fn finish(self, root: &Path) -> String {
        let Self { original, git, before, files, merges } = self;
        let top = original.top.clone();
        let after =
            to_the_end(move || ChangeMarks::of(&git, &top).ok().map(|it| it.since(&before))).await;
        // If the work of another agent was merged meanwhile, that may be all that changed.
        if merges % 2 == 1 || files.merges() != merges {
            return String::new();
        }
        let changed: BTreeSet<PathBuf> =
            after.into_iter().flatten().map(|name| original.top.join(name)).collect();
        if changed.is_empty() {
            return String::new();
        }
        changed.iter().for_each(|path| original.note(path));
        format!(
            "\n\n[While this command ran, {} changed in the workspace itself, and not in your copy: \
             {}. Your copy is {}: use paths relative to it.]",
            counted(changed.len() as u64, "file"),
            listed(&changed),
            path_text::to_text(root)
        )
    }
}

fn listed(paths: &BTreeSet<PathBuf>) -> String {
    let mut names: Vec<String> =
        paths.iter().take(NAMED_CAP).map(|path| path_text::to_text(path)).collect();
    if let Some(more) = paths.len().checked_sub(NAMED_CAP).filter(|more| *more > 0) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
