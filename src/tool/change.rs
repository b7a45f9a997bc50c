//! Changes of files: worked out first, then made, all of them or none.
//!
//! A tool holds the files it will change ([`Held`]), reads them, works out
//! what they shall be ([`Planned`]) and hands that to [`make`]: the one door
//! through which file tools change anything. What goes wrong half-way is put
//! back. What a tool may change is the guard's business; how bytes get to disk
//! that of `replace`.

pub mod commit;

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use tokio_util::sync::CancellationToken;

use crate::event::{FileState, UnitId};

use crate::path_text;

use super::blocking::{StoppableFile, cancelled, to_the_end};
use super::contents::Contents;
use super::files::{FileLock, Known, LockError, Seen};
use super::replace::{Access, Made, Rights, Stamp};
use super::{Granted, ToolContext, ToolError, Workspace, journal, regular};

use commit::{Link, Piece, Undone, Was};

/// Largest file that is changed. It is held in memory twice; what is larger is
/// not source text.
pub const FILE_CAP: u64 = 32 * 1024 * 1024;

/// A file that one unit holds to change it. Moves into the thread that writes,
/// so that the lock lasts as long as the write, whoever stops waiting for it.
#[derive(Debug)]
pub struct Held {
    /// The path as the call named it.
    pub path: PathBuf,
    /// The unit that made the call.
    pub unit: UnitId,
    /// What that unit has seen.
    pub seen: Seen,
    /// Where files are.
    pub workspace: Arc<Workspace>,
    /// Fires when the unit must stop.
    pub cancel: CancellationToken,
    /// The lock and the file itself.
    pub lock: FileLock,
}

/// What a file held when a change was worked out.
#[derive(Debug)]
pub struct Before {
    /// Its bytes.
    pub bytes: Contents,
    /// Whose it was, and who might do what with it.
    pub rights: Rights,
    /// True if it has other hard links.
    pub has_other_names: bool,
    stamp: Stamp,
}

/// What shall become of a file.
#[derive(Debug)]
pub enum Change {
    /// It holds these bytes, whether or not it exists.
    Write {
        /// All of them.
        bytes: Contents,
        /// Who may do what with it.
        access: Access,
    },
    /// It is gone. Of a file with other names this name is gone.
    Delete,
    /// It is a link that leads there.
    Link(PathBuf),
}

/// A change that is worked out and not yet made.
#[derive(Debug)]
pub struct Planned {
    /// The file.
    pub held: Held,
    /// What it holds; `None` if there is no file.
    pub before: Option<Before>,
    /// What shall become of it.
    pub change: Change,
}

/// A planned change of a link itself. The link is not locked: all other changes follow
/// links. If the link has changed since the plan was made, it stays as it is.
#[derive(Debug)]
pub struct Relink {
    /// Its name, with every link above it followed.
    pub path: PathBuf,
    /// What it was when the change was worked out.
    pub was: Link,
    /// What shall become of it.
    pub change: Change,
}

/// A change that was made.
#[derive(Debug)]
pub struct Done {
    /// What was planned.
    pub planned: Planned,
    /// How it was made.
    pub made: Made,
}

/// Makes every change of a call, in order, or none: if one fails, those before
/// it are put back, and the error says so.
///
/// Nothing in here may be skipped by a tool that changes files: what must be
/// known of a change is told here, before it is made.
///
/// # Errors
///
/// A sentence for the model, or the unit must stop.
pub async fn make(
    context: &ToolContext,
    call: &Granted,
    changes: Vec<Planned>,
) -> Result<Vec<Done>, ToolError> {
    make_with_links(context, call, changes, Vec::new()).await
}

/// Makes changes as [`make`] does, and before them those of links.
///
/// # Errors
///
/// As for [`make`].
pub async fn make_with_links(
    context: &ToolContext,
    call: &Granted,
    changes: Vec<Planned>,
    links: Vec<Relink>,
) -> Result<Vec<Done>, ToolError> {
    if context.cancel.is_cancelled() {
        return Err(cancelled(Duration::ZERO));
    }
    let (changes, links) = journal::record(context, &call.id, changes, links).await?;
    let workspace = Arc::clone(&context.workspace);
    to_the_end(move || {
        let done = commit(&workspace, changes, &links);
        // Also if it failed: some may have been made and not be taken back.
        workspace.files.note_touch();
        if let (Some(original), Ok(done)) = (&workspace.original, &done) {
            done.iter().for_each(|done| original.note(&done.planned.held.lock.target));
        }
        done
    })
    .await
}

impl Held {
    /// Waits until no other unit holds the file.
    ///
    /// # Errors
    ///
    /// The path cannot be followed, it leads elsewhere than when the call was
    /// judged, or the unit must stop.
    pub async fn wait(
        context: &ToolContext,
        call: &Granted,
        path: PathBuf,
    ) -> Result<Self, ToolError> {
        let mut all = Self::wait_all(context, call, vec![path]).await?;
        Ok(all.pop().expect("there is one for each path"))
    }

    /// Waits until no other unit holds any of the files.
    ///
    /// # Errors
    ///
    /// As for [`Held::wait`], or two paths lead to one file.
    pub async fn wait_all(
        context: &ToolContext,
        call: &Granted,
        paths: Vec<PathBuf>,
    ) -> Result<Vec<Self>, ToolError> {
        let started = tokio::time::Instant::now();
        let workspace = &context.workspace;
        let locks = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(cancelled(started.elapsed())),
            locks = workspace.files.lock_all(&workspace.roots, &paths) => locks,
        };
        let locks = locks.map_err(|error| match error {
            LockError::Path(at, error) => regular::failed(workspace, &paths[at], "write", &error),
            LockError::Same(one, other) => {
                let shown = |at: usize| path_text::shown(&workspace.root, &paths[at]);
                let (one, other) = (shown(one), shown(other));
                ToolError::tell(if one == other {
                    format!("{one} is named twice; say once what shall become of it.")
                } else {
                    format!("{one} and {other} are the same file; nothing was changed.")
                })
            }
        })?;
        let held = |(path, lock): (PathBuf, FileLock)| {
            regular::refuse_elsewhere(workspace, &path, &lock.target, &call.places)?;
            Ok(Self {
                path,
                unit: context.line.unit(),
                seen: context.seen.clone(),
                workspace: Arc::clone(workspace),
                cancel: context.cancel.clone(),
                lock,
            })
        };
        paths.into_iter().zip(locks).map(held).collect()
    }

    /// Returns the path as it is shown to people and models.
    #[must_use]
    pub fn shown(&self) -> String {
        path_text::shown(&self.workspace.root, &self.path)
    }

    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// A sentence for the model: it is no regular file, larger than
    /// [`FILE_CAP`], or may not be read.
    pub fn before(&self) -> Result<Option<Before>, ToolError> {
        let failed = |error| regular::failed(&self.workspace, &self.path, "read", &error);
        let Some(metadata) = self.metadata().map_err(failed)? else { return Ok(None) };
        regular::refuse_special(&self.workspace, &self.path, metadata.file_type())?;
        let spot = self.lock.spot.as_ref().expect("what exists is in a directory");
        let file = spot.open(OFlag::O_RDONLY | OFlag::O_NONBLOCK).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        regular::refuse_special(&self.workspace, &self.path, metadata.file_type())?;
        if metadata.len() > FILE_CAP {
            return Err(self.too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        let file = StoppableFile { file, token: &self.cancel };
        file.take(FILE_CAP + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > FILE_CAP {
            return Err(self.too_large());
        }
        Ok(Some(Before::of(bytes, &metadata)))
    }

    /// Returns the other unit that left the file as it was found, by name.
    #[must_use]
    pub fn sibling(&self, found: blake3::Hash) -> Option<String> {
        let files = &self.workspace.files;
        let unit = files.changed_by(&self.lock.target, found);
        unit.filter(|&unit| unit != self.unit).map(|unit| files.called(unit))
    }

    /// Says that there is no such file, and what is near.
    #[must_use]
    pub fn missing(&self) -> ToolError {
        regular::failed(&self.workspace, &self.path, "read", &io::ErrorKind::NotFound.into())
    }

    /// Says who changed the file since the unit read it; `None` if nobody did,
    /// or the unit never read it.
    #[must_use]
    pub fn changed_since(&self, bytes: &Contents) -> Option<String> {
        let known = self.seen.of(&self.lock.target);
        if known == Known::default() || known.is_current(bytes) {
            return None;
        }
        let shown = self.shown();
        Some(match self.sibling(bytes.hash()) {
            Some(sibling) => format!("{sibling} changed {shown} since you read it"),
            None => format!("{shown} has changed since you read it"),
        })
    }

    /// Says that a file would become too large.
    #[must_use]
    pub fn grown(&self) -> ToolError {
        let (shown, most) = (self.shown(), FILE_CAP / 1024 / 1024);
        ToolError::tell(format!("{shown} would be larger than {most} MiB; nothing was changed."))
    }

    /// Says that a file is too large to be changed.
    #[must_use]
    pub fn too_large(&self) -> ToolError {
        let (shown, most) = (self.shown(), FILE_CAP / 1024 / 1024);
        ToolError::tell(format!("{shown} is larger than {most} MiB; change it with Bash."))
    }

    fn metadata(&self) -> io::Result<Option<Metadata>> {
        self.lock.spot.as_ref().map_or(Ok(None), super::roots::Spot::metadata)
    }
}

impl Before {
    fn of(bytes: Vec<u8>, metadata: &Metadata) -> Self {
        Self {
            bytes: bytes.into(),
            rights: Rights::of(metadata),
            has_other_names: metadata.nlink() > 1,
            stamp: Stamp::of(metadata),
        }
    }

    /// Returns the hash of the bytes.
    #[must_use]
    pub fn hash(&self) -> blake3::Hash {
        self.bytes.hash()
    }

    /// Returns what a log calls it.
    #[must_use]
    pub fn state(&self) -> FileState {
        FileState { digest: self.bytes.digest(), mode: self.rights.mode }
    }
}

fn commit(
    workspace: &Workspace,
    changes: Vec<Planned>,
    links: &[Relink],
) -> Result<Vec<Done>, ToolError> {
    let relinked = links.iter().map(|link| link.piece(workspace));
    let pieces: Vec<Piece<'_>> = relinked.chain(changes.iter().map(Planned::piece)).collect();
    let made = match commit::all_or_none(&pieces) {
        Ok(made) => made,
        Err(undone) => {
            let paths: Vec<&Path> = links
                .iter()
                .map(|link| &*link.path)
                .chain(changes.iter().map(|planned| &*planned.held.path))
                .collect();
            return Err(told(workspace, &paths, &pieces, &undone));
        }
    };
    let done = changes.into_iter().zip(made.into_iter().skip(links.len()));
    let done = done.map(|(planned, made)| {
        planned.note();
        Done { planned, made }
    });
    Ok(done.collect())
}

/// Says which change failed, and what became of those before it.
fn told(
    workspace: &Workspace,
    paths: &[&Path],
    pieces: &[Piece<'_>],
    undone: &Undone,
) -> ToolError {
    let Undone { at, error, lost } = undone;
    let verb = match pieces[*at].change {
        Change::Write { .. } | Change::Link(_) => "write",
        Change::Delete => "delete",
    };
    let mut text = regular::failed(workspace, paths[*at], verb, error).to_string();
    if !lost.is_empty() {
        let named = |(at, error): &(usize, io::Error)| {
            let shown = path_text::shown(&workspace.root, paths[*at]);
            format!("{shown}: {error}")
        };
        let lost = lost.iter().map(named).collect::<Vec<_>>().join("; ");
        text.push_str(&format!(" What had been changed could not all be put back: {lost}."));
    } else if *at > 0 {
        text.push_str(" What had been changed was put back; nothing is changed.");
    }
    ToolError::tell(text)
}

impl Relink {
    fn piece<'a>(&'a self, workspace: &'a Workspace) -> Piece<'a> {
        let Self { path, was, change } = self;
        let was = Was::Link(was);
        Piece { roots: &workspace.roots, target: path, spot: None, was, change }
    }
}

impl Planned {
    fn piece(&self) -> Piece<'_> {
        let Self { held, before, change } = self;
        let Held { workspace, lock, .. } = held;
        Piece {
            roots: &workspace.roots,
            target: &lock.target,
            spot: lock.spot.as_ref(),
            was: Was::file(before.as_ref()),
            change,
        }
    }

    /// Notes who left the file as it now is, and that this unit knows its own
    /// change.
    fn note(&self) {
        let Self { held, before, change } = self;
        let (files, target) = (&held.workspace.files, &held.lock.target);
        match change {
            Change::Write { bytes, access: _ } => {
                files.note_change(target, held.unit, bytes.hash());
                if let Some(before) = before {
                    held.seen.note_part(target, &before.bytes, bytes);
                }
            }
            Change::Delete | Change::Link(_) => {
                files.note_deleted(target);
                held.seen.forget(target);
            }
        }
    }
}

/// Returns a note about links through which a file was written; may be empty.
#[must_use]
pub fn written_note(held: &Held, made: Made) -> String {
    let link = match held.path.read_link() {
        Ok(_) => {
            let (shown, target) = (held.shown(), &held.lock.target);
            let target = path_text::shown(&held.workspace.root, target);
            format!(" {shown} is a symbolic link and stays one: the change is in {target}.")
        }
        Err(_) => String::new(),
    };
    link + in_place_note(made)
}

fn in_place_note(made: Made) -> &'static str {
    match made {
        Made::Created | Made::Renamed | Made::Deleted => "",
        Made::InPlaceForLinks => {
            " The file has other hard links: it was written in place, and they changed too."
        }
        Made::InPlaceForOwner => " The file was written in place to keep its owner.",
    }
}

#[cfg(test)]
mod tests;
