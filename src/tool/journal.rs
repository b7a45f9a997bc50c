//! What must be known of changes before they are made: what each file held,
//! kept, and what it shall hold, on disk in the log.
//!
//! So a crash never hides a change. Whether one was made that stands in the
//! log, the file itself says. What is done with it is the business of
//! [`crate::session::undo`].

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::oneshot;

use crate::event::{ChangedBy, FileChange, FileState, NoticeLevel};
use crate::line::{Told, UnitEvent};
use crate::message::CallId;
use crate::path_text;
use crate::session::{Blobs, NotKept};

use super::blocking::{cancelled, to_the_end};
use super::change::{Before, Change, Planned, Relink};
use super::{ToolContext, ToolError};

/// Keeps what the files hold, and returns the changes once the log has them on
/// disk. What cannot be kept is changed all the same, and people are told once.
///
/// # Errors
///
/// The run is over: nothing may be changed any more.
pub(super) async fn record(
    context: &ToolContext,
    call: &CallId,
    changes: Vec<Planned>,
    links: Vec<Relink>,
) -> Result<(Vec<Planned>, Vec<Relink>), ToolError> {
    let (blobs, by) = (context.workspace.before.clone(), ChangedBy::Call(call.clone()));
    let (tell, is_told) = oneshot::channel();
    // They move along, so that they stay locked whoever stops waiting.
    let keeping = to_the_end(move || {
        // Hashing takes its time, too.
        let relinked = links.iter().filter_map(|link| told_of_link(link, &by));
        let told = changes.iter().filter_map(|planned| told(planned, &by)).chain(relinked);
        let told: Vec<FileChange> = told.collect();
        // Who listens has stopped waiting for the call.
        let _ = tell.send(told);
        let lost = keep(&blobs, &changes, &links).err();
        (changes, links, lost)
    });
    let line = &context.line;
    let asking = async {
        let asked = is_told.await.unwrap_or_default().into_iter().map(|change| {
            line.ask(|synced| UnitEvent::FileChanged { change: Arc::new(change), synced })
        });
        join_all(asked).await
    };
    // Side by side, since each waits for the disk. Both are there before a file
    // changes, and until then neither is worth anything.
    let ((changes, links, lost), answers) = tokio::join!(keeping, asking);
    if let Some(error) = lost
        && context.workspace.before.is_first_warning()
    {
        let text = format!("some changes of files cannot be undone: {error}").into();
        line.tell(Told::Notice { level: NoticeLevel::Warning, text }).await;
    }
    match answers.iter().all(Option::is_some) {
        true => Ok((changes, links)),
        false => Err(cancelled(Duration::ZERO)),
    }
}

/// Keeps what the files hold and where the links lead.
fn keep(blobs: &Blobs, changes: &[Planned], links: &[Relink]) -> Result<(), NotKept> {
    let held = changes.iter().filter_map(|planned| planned.before.as_ref());
    let held = held.map(|before| (before.bytes.digest(), &*before.bytes));
    let links =
        links.iter().map(|link| (link.was.state().digest, link.was.to.as_os_str().as_bytes()));
    blobs.keep_all(held.chain(links))
}

/// Returns what is told of a change; `None` if it changes nothing.
fn told(planned: &Planned, by: &ChangedBy) -> Option<FileChange> {
    let Planned { held, before, change } = planned;
    let target = &held.lock.target;
    let before = before.as_ref().map(Before::state);
    let after = state_after(change, before.map(|before| before.mode));
    (before != after).then(|| FileChange {
        by: by.clone(),
        path: path_text::to_text(target).into(),
        before,
        after,
        directories: if held.lock.spot.is_some() { 0 } else { missing_directories(target) },
    })
}

/// Returns the record of a change of a link; `None` if it changes nothing.
fn told_of_link(link: &Relink, by: &ChangedBy) -> Option<FileChange> {
    let Relink { path, was, change } = link;
    let (before, after) = (Some(was.state()), state_after(change, None));
    (before != after).then(|| FileChange {
        by: by.clone(),
        path: path_text::to_text(path).into(),
        before,
        after,
        directories: 0,
    })
}

/// Returns what a change makes of a file that had the mode `before`.
fn state_after(change: &Change, before: Option<u32>) -> Option<FileState> {
    match change {
        Change::Write { bytes, access } => {
            Some(FileState { digest: bytes.digest(), mode: access.mode(before) })
        }
        Change::Link(to) => Some(FileState::of_link(to.as_os_str().as_bytes())),
        Change::Delete => None,
    }
}

/// How many of the directories above a file are not there.
pub(crate) fn missing_directories(target: &Path) -> u32 {
    let missing = target.ancestors().skip(1).take_while(|above| above.symlink_metadata().is_err());
    u32::try_from(missing.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::Digest;
    use crate::session::dirs::BLOBS;
    use crate::tool::edit::Edit;
    use crate::tool::read::Read;
    use crate::tool::replace::NEW_FILE_MODE;
    use crate::tool::testing::Place;
    use crate::tool::write::Write;

    fn state(bytes: &[u8], mode: u32) -> Option<FileState> {
        Some(FileState { digest: Digest::of(bytes), mode })
    }

    fn change(place: &Place, name: &str, states: [Option<FileState>; 2]) -> FileChange {
        let [before, after] = states;
        FileChange {
            by: ChangedBy::Call("call_1".into()),
            path: path_text::to_text(&place.path(name)).into(),
            before,
            after,
            directories: 0,
        }
    }

    #[tokio::test]
    async fn every_change_is_told_with_what_was_and_what_was_is_kept() {
        let place = Place::new();
        let write = |path: &str, content: &str| json!({ "file_path": path, "content": content });
        place.call(&Write, write("new/deep/a", "one\n")).await.unwrap();
        place.call(&Write, write("new/deep/a", "two\n")).await.unwrap();
        place.call(&Write, write("new/deep/a", "two\n")).await.unwrap();
        let edit = json!({ "file_path": "new/deep/a", "old_string": "two", "new_string": "three" });
        place.call(&Edit, edit).await.unwrap();
        let mode = FileState { digest: Digest::of(b""), mode: 0 };
        let made = place.changes()[1].before.map_or(mode, |before| before).mode;
        let first = [None, state(b"one\n", NEW_FILE_MODE)];
        let (second, third) = (state(b"two\n", made), state(b"three\n", made));
        assert_eq!(
            place.changes(),
            [
                FileChange { directories: 2, ..change(&place, "new/deep/a", first) },
                change(&place, "new/deep/a", [state(b"one\n", made), second]),
                change(&place, "new/deep/a", [second, third]),
            ]
        );
        for kept in [b"one\n", b"two\n"] {
            assert_eq!(place.workspace.before.read(Digest::of(kept)).unwrap(), kept);
        }
        assert!(place.workspace.before.read(Digest::of(b"three\n")).is_err());
    }

    #[tokio::test]
    async fn nothing_is_changed_once_nobody_hears_of_it() {
        let mut place = Place::new();
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        drop(receiver);
        place.context.line = crate::line::Line::new(crate::event::UnitId::MAIN, sender);
        let arguments = json!({ "file_path": "a", "content": "x" });
        assert!(place.call(&Write, arguments).await.unwrap_err().starts_with("cancelled"));
        assert!(!place.path("a").exists());
    }

    #[tokio::test]
    async fn a_file_is_changed_also_where_nothing_can_be_kept() {
        let place = Place::new();
        std::fs::create_dir(&place.workspace.spill.directory).unwrap();
        std::fs::write(place.workspace.spill.directory.join(BLOBS), "in the way").unwrap();
        place.put("a", "old");
        place.call(&Read, json!({ "file_path": "a" })).await.unwrap();
        place.call(&Write, json!({ "file_path": "a", "content": "new" })).await.unwrap();
        assert_eq!((place.bytes("a"), place.changes().len()), (b"new".to_vec(), 1));
        assert!(!place.workspace.before.is_first_warning());
    }
}
