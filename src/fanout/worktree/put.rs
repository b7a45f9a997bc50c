//! The one way through which a worktree's changes get into the workspace: all
//! of them, or none.
//!
//! Files go through the door of the file tools, so they are locked and noted
//! like any edit. Links, which no tool makes, are made here.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::plan::{Regular, Step, Thing};
use crate::event::Confinement;
use crate::tool::change::{self, Before, Change, Held, Planned};
use crate::tool::replace::Rights;
use crate::tool::{Granted, ToolContext, ToolError};

/// What the changes of a worktree are called where each belongs to a call.
const CALL: &str = "worktree";

/// Files of a working tree that no unit changes meanwhile.
pub(super) struct Hold {
    call: Granted,
    held: Vec<Held>,
}

impl Hold {
    /// Waits for all files among the paths. A link is not held.
    pub(super) async fn wait(context: &ToolContext, paths: &[PathBuf]) -> Result<Self, ToolError> {
        let is_link = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|at| at.is_symlink());
        let files: Vec<PathBuf> = paths.iter().filter(|path| !is_link(path)).cloned().collect();
        let call = Granted {
            id: CALL.into(),
            confinement: Confinement::NONE,
            script: None,
            places: files.clone(),
        };
        let held = Held::wait_all(context, &call, files).await?;
        Ok(Self { call, held })
    }

    /// Makes every step or none. `top` is where it ends which directories are
    /// removed that are left empty.
    pub(super) async fn put(
        self,
        context: &ToolContext,
        top: &Path,
        steps: Vec<Step>,
    ) -> Result<(), ToolError> {
        let Self { call, mut held } = self;
        let (links, files): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(Step::has_link);
        let mut planned = Vec::new();
        for step in &files {
            let Some(at) = held.iter().position(|held| held.path == step.path) else {
                return Err(ToolError::tell(format!("{} was a link", step.path.display())));
            };
            planned.push(plan(held.swap_remove(at), step)?);
        }
        for (done, step) in links.iter().enumerate() {
            if let Err(error) = link(&step.path, &step.to) {
                undo(&links[..=done]);
                return Err(ToolError::tell(format!("{}: {error}", step.path.display())));
            }
        }
        if let Err(error) = change::make(context, &call, planned).await {
            undo(&links);
            return Err(error);
        }
        for step in links.iter().chain(&files) {
            finish(top, step);
        }
        Ok(())
    }
}

impl Step {
    fn has_link(&self) -> bool {
        [&self.from, &self.to].into_iter().any(|thing| matches!(thing, Thing::Link(_)))
    }
}

/// Works out the change of a file. Nobody but another program can have changed
/// it since it was looked at.
fn plan(held: Held, step: &Step) -> Result<Planned, ToolError> {
    let before = held.before()?;
    let was = before.as_ref().map(|before| &*before.bytes);
    let looked_at = match &step.from {
        Thing::File(Regular { bytes, .. }) => Some(bytes.as_slice()),
        Thing::Nothing | Thing::Link(_) | Thing::Other(_) => None,
    };
    if was != looked_at {
        return Err(ToolError::tell(format!("{} changed meanwhile", held.shown())));
    }
    let change = match &step.to {
        Thing::File(Regular { bytes, is_executable }) => {
            let rights = before.as_ref().and_then(|before| rights(before, *is_executable));
            Change::Write { bytes: bytes.clone().into(), rights }
        }
        Thing::Nothing | Thing::Link(_) | Thing::Other(_) => Change::Delete,
    };
    Ok(Planned { held, before, change })
}

/// Returns the rights that a file gets, if they are other ones.
fn rights(before: &Before, is_executable: bool) -> Option<Rights> {
    let mode = with_bit(before.rights.mode, is_executable);
    (mode != before.rights.mode).then_some(Rights { mode, ..before.rights })
}

/// For whom it can be read, it can be run.
fn with_bit(mode: u32, is_executable: bool) -> u32 {
    match (mode & 0o100 != 0, is_executable) {
        (false, true) => mode | ((mode & 0o444) >> 2),
        (true, false) => mode & !0o111,
        (true, true) | (false, false) => mode,
    }
}

/// Puts a thing in the place of a link, or a link in the place of a thing.
fn link(path: &Path, to: &Thing) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".tine-");
    match to {
        Thing::Nothing => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        },
        Thing::Link(target) => {
            fs::create_dir_all(directory)?;
            let made = temporary.make_in(directory, |at| symlink(target, at))?;
            made.into_temp_path().persist(path).map_err(|error| error.error)
        }
        Thing::File(Regular { bytes, is_executable }) => {
            // With what the process's own mask allows.
            temporary.permissions(Permissions::from_mode(with_bit(0o666, *is_executable)));
            let mut file = temporary.tempfile_in(directory)?;
            io::Write::write_all(&mut file, bytes)?;
            file.as_file().sync_all()?;
            file.persist(path).map(drop).map_err(|error| error.error)
        }
        Thing::Other(_) => Err(io::Error::other("it is no file")),
    }
}

fn undo(links: &[Step]) {
    for step in links.iter().rev() {
        // What it was stands in the patch, and the error is told.
        let _ = link(&step.path, &step.from);
    }
}

/// Makes a new file one that can be run, and removes the directories that a
/// deleted one leaves empty: git has none.
fn finish(top: &Path, step: &Step) {
    match &step.to {
        Thing::File(Regular { is_executable: true, .. }) => {
            if let Ok(found) = step.path.metadata() {
                let mode = with_bit(found.mode(), true);
                // The file is there; that it cannot be run is seen soon enough.
                let _ = fs::set_permissions(&step.path, Permissions::from_mode(mode));
            }
        }
        Thing::Nothing => {
            let above = step.path.ancestors().skip(1).take_while(|above| *above != top);
            for directory in above {
                // It is not empty, which is no harm.
                if fs::remove_dir(directory).is_err() {
                    break;
                }
            }
        }
        Thing::File(_) | Thing::Link(_) | Thing::Other(_) => {}
    }
}
