//! What a session's files tell an editor: changes of files, and what was said
//! before.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::event::{Digest, FileChange, FileState};
use crate::report::acp::{Now, Reads, Shows, SoFar, Told, View};
use crate::report::difference::BothSides;
use crate::report::ink::ReadSides;
use crate::session::{Blobs, LogError, read, read_name};

/// Most bytes of a file that is read to be shown.
const SHOWN_CAP: u64 = 1 << 20;

/// Returns what reads files as they are and as they were.
pub(super) fn reads(directory: &Path) -> Reads {
    Reads { sides: both_sides(directory), now: Box::new(now) }
}

/// Returns what reads both sides of a change: what was kept of it, or the file
/// if it still is as the change left it.
fn both_sides(directory: &Path) -> Box<ReadSides> {
    let blobs = Blobs::of(directory);
    Box::new(move |change: &FileChange| {
        let path = PathBuf::from(&*change.path);
        let side = |state: Option<FileState>| match state {
            None => Some(Vec::new()),
            Some(state) => {
                let kept = blobs.read_short(state.digest, SHOWN_CAP).ok();
                kept.or_else(|| as_it_is(&path).filter(|bytes| Digest::of(bytes) == state.digest))
            }
        };
        Some(BothSides { before: side(change.before)?, after: side(change.after)? })
    })
}

fn now(path: &Path) -> Now {
    if let Err(error) = std::fs::symlink_metadata(path)
        && error.kind() == std::io::ErrorKind::NotFound
    {
        return Now::Missing;
    }
    let bytes = as_it_is(path).filter(|bytes| bytes.len() as u64 <= SHOWN_CAP);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or(Now::Unshown, Now::Text)
}

fn as_it_is(path: &Path) -> Option<Vec<u8>> {
    let is_file = std::fs::symlink_metadata(path).ok()?.is_file();
    let file = is_file.then(|| std::fs::File::open(path).ok())??;
    let mut bytes = Vec::new();
    file.take(SHOWN_CAP + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Tells what a session's log holds, event by event, until nobody wants to know
/// any more. Returns what it has come to.
///
/// # Errors
///
/// If the log cannot be opened.
pub(super) fn replay(
    directory: &Path,
    mut view: View,
    mut tell: impl FnMut(Told) -> bool,
) -> Result<SoFar, LogError> {
    if let Some(name) = read_name(directory) {
        view.name(name.as_str());
    }
    for event in read(directory)?.events() {
        view.event(&event);
        if !view.told().into_iter().all(&mut tell) {
            return Ok(view.so_far());
        }
    }
    view.cut_off();
    view.told().into_iter().all(&mut tell);
    Ok(view.so_far())
}

/// Returns what a session has come to, and tells nothing.
pub(super) fn so_far(directory: &Path) -> SoFar {
    let nothing = Reads { sides: Box::new(|_| None), now: Box::new(|_| Now::Unshown) };
    let view = View::new(Shows::default(), PathBuf::new(), None, nothing).past();
    // It has been opened, so it was read just now.
    replay(directory, view, |_| true).unwrap_or_default()
}
