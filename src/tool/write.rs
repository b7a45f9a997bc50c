//! The Write tool: a whole file at once.
//!
//! What a unit has not seen it must not overwrite: an existing file is
//! replaced only if this unit has read it to its end, or written it, and its
//! bytes are still those.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::event::UnitId;
use crate::message::{Output, ToolSchema};
use crate::path_text;

use super::arguments;
use super::blocking::{StoppableFile, cancelled, to_the_end};
use super::files::{FileLock, Seen};
use super::replace::{Replaced, replace};
use super::{Effect, Granted, Tool, ToolContext, ToolError, Workspace, regular};

/// Writes whole files.
#[derive(Debug, Clone, Copy)]
pub struct Write;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "file_path":{"type":"string","description":"The file, absolute or relative to the working directory."},
    "content":{"type":"string","description":"Everything the file shall hold."}
    },"required":["file_path","content"]}"#;

impl Tool for Write {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Write", include_str!("../../prompts/tools/write.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Edits
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "file_path")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let raw: Raw = arguments::parse(arguments)?;
            let path = arguments::text("file_path", raw.file_path)?;
            let content = arguments::any_text("content", raw.content)?;
            let path = path_text::resolve(&context.workspace.root, &path);
            let held = Held::wait(context, path).await?;
            to_the_end(move || write(&held, content.as_bytes())).await
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    file_path: Value,
    #[serde(default)]
    content: Value,
}

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

impl Held {
    /// Waits until no other unit holds the file.
    ///
    /// # Errors
    ///
    /// The path cannot be followed, or the unit must stop.
    pub async fn wait(context: &ToolContext, path: PathBuf) -> Result<Self, ToolError> {
        let started = tokio::time::Instant::now();
        let workspace = &context.workspace;
        let lock = tokio::select! {
            biased;
            () = context.cancel.cancelled() => return Err(cancelled(started.elapsed())),
            lock = workspace.files.lock(&path) => lock,
        };
        let lock = lock.map_err(|error| regular::failed(workspace, &path, "write", &error))?;
        Ok(Self {
            path,
            unit: context.line.unit(),
            seen: context.seen.clone(),
            workspace: Arc::clone(workspace),
            cancel: context.cancel.clone(),
            lock,
        })
    }

    /// Returns the path as it is shown to people and models.
    #[must_use]
    pub fn shown(&self) -> String {
        path_text::shown(&self.workspace.root, &self.path)
    }

    /// Puts the bytes into the file and notes who did it.
    ///
    /// # Errors
    ///
    /// A sentence for the model.
    pub fn put(&self, bytes: &[u8]) -> Result<Replaced, ToolError> {
        let replaced = replace(&self.lock.target, bytes).map_err(|error| self.failed(&error))?;
        self.workspace.files.note_change(&self.lock.target, self.unit, blake3::hash(bytes));
        Ok(replaced)
    }

    /// Returns the other unit that left the file as it was found.
    #[must_use]
    pub fn sibling(&self, found: blake3::Hash) -> Option<UnitId> {
        let unit = self.workspace.files.changed_by(&self.lock.target, found);
        unit.filter(|&unit| unit != self.unit)
    }

    fn failed(&self, error: &io::Error) -> ToolError {
        regular::failed(&self.workspace, &self.path, "write", error)
    }
}

/// Returns the words for a write that was not an ordinary one; may be empty.
#[must_use]
pub fn in_place_note(replaced: Replaced) -> &'static str {
    match replaced {
        Replaced::Created | Replaced::Renamed => "",
        Replaced::InPlaceForLinks => {
            " The file has other hard links: it was written in place, and they changed too."
        }
        Replaced::InPlaceForOwner => " The file was written in place to keep its owner.",
    }
}

fn write(held: &Held, bytes: &[u8]) -> Result<Output, ToolError> {
    let target = &held.lock.target;
    match target.metadata() {
        Ok(metadata) => {
            regular::refuse_special(&held.workspace, &held.path, metadata.file_type())?;
            refuse_unseen(held)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make_directories(held)?,
        Err(error) => return Err(held.failed(&error)),
    }
    if held.cancel.is_cancelled() {
        return Err(cancelled(Duration::ZERO));
    }
    let replaced = held.put(bytes)?;
    held.seen.note_whole(target, blake3::hash(bytes));
    let verb = match replaced {
        Replaced::Created => "Created",
        Replaced::Renamed | Replaced::InPlaceForLinks | Replaced::InPlaceForOwner => "Replaced",
    };
    let (lines, length) = (String::from_utf8_lossy(bytes).lines().count(), bytes.len());
    let (shown, note) = (held.shown(), in_place_note(replaced));
    Ok(Output::ok(format!("{verb} {shown}: {lines} lines, {length} bytes.{note}")))
}

fn make_directories(held: &Held) -> Result<(), ToolError> {
    let directory = held.lock.target.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(directory).map_err(|error| held.failed(&error))
}

fn refuse_unseen(held: &Held) -> Result<(), ToolError> {
    let found = hash(held)?;
    let whole = held.seen.of(&held.lock.target).whole;
    if whole == Some(found) {
        return Ok(());
    }
    let shown = held.shown();
    Err(ToolError::tell(match (whole, held.sibling(found)) {
        (Some(_), Some(sibling)) => {
            format!("{sibling} changed {shown} since you read it; read it again.")
        }
        (Some(_), None) => format!("{shown} has changed since you read it; read it again."),
        (None, Some(sibling)) => format!(
            "{shown} exists: {sibling} wrote it, and you have not read it to its end. Read it first, or use Edit."
        ),
        (None, None) => format!(
            "{shown} exists and you have not read it to its end. Read it first, or use Edit."
        ),
    }))
}

/// Streams the file: it may be of any size.
fn hash(held: &Held) -> Result<blake3::Hash, ToolError> {
    let (file, _) = regular::open(&held.workspace, &held.lock.target)?;
    let mut hasher = blake3::Hasher::new();
    hasher
        .update_reader(StoppableFile { file, token: &held.cancel })
        .map_err(|error| regular::failed(&held.workspace, &held.path, "read", &error))?;
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::tool::read::Read;
    use crate::tool::testing::{Place, call};

    fn arguments(path: &str, content: &str) -> Value {
        json!({"file_path": path, "content": content})
    }

    #[tokio::test]
    async fn a_new_file_is_created_with_its_directories() {
        let place = Place::new();
        let text = place.call(&Write, arguments("a/b/c.txt", "one\r\ntwo")).await;
        assert_eq!(text.as_deref(), Ok("Created a/b/c.txt: 2 lines, 8 bytes."));
        assert_eq!(place.bytes("a/b/c.txt"), b"one\r\ntwo");
    }

    #[tokio::test]
    async fn a_file_that_was_not_read_to_its_end_is_not_overwritten() {
        let place = Place::new();
        place.put("a", "one\ntwo\n");
        let expected = "a exists and you have not read it to its end. Read it first, or use Edit.";
        let refused = place.call(&Write, arguments("a", "new")).await.unwrap_err();
        assert_eq!(refused, expected);
        place.call(&Read, json!({"file_path": "a", "limit": 1})).await.unwrap();
        let refused = place.call(&Write, arguments("a", "new")).await.unwrap_err();
        assert_eq!(refused, expected);
        assert_eq!(place.bytes("a"), b"one\ntwo\n");
    }

    #[tokio::test]
    async fn a_file_that_was_read_is_replaced_and_then_may_be_replaced_again() {
        let place = Place::new();
        place.put("a", "old\n");
        place.call(&Read, json!({"file_path": "a"})).await.unwrap();
        for content in ["new", ""] {
            let text = place.call(&Write, arguments("a", content)).await.unwrap();
            assert!(text.starts_with("Replaced a: "));
            assert_eq!(place.bytes("a"), content.as_bytes());
        }
    }

    #[tokio::test]
    async fn a_file_that_changed_since_is_not_overwritten() {
        let place = Place::new();
        place.put("a", "old");
        place.call(&Read, json!({"file_path": "a"})).await.unwrap();
        place.put("a", "from outside");
        let refused = place.call(&Write, arguments("a", "new")).await.unwrap_err();
        assert_eq!(refused, "a has changed since you read it; read it again.");
    }

    #[tokio::test]
    async fn a_refusal_names_the_sibling_that_changed_the_file() {
        let place = Place::new();
        let sibling = place.unit(3);
        place.put("a", "old");
        place.call(&Read, json!({"file_path": "a"})).await.unwrap();
        call(&Read, &sibling, json!({"file_path": "a"})).await.unwrap();
        call(&Write, &sibling, arguments("a", "theirs")).await.unwrap();
        let refused = place.call(&Write, arguments("a", "mine")).await.unwrap_err();
        assert_eq!(refused, "agent-3 changed a since you read it; read it again.");

        call(&Write, &sibling, arguments("b", "theirs")).await.unwrap();
        let refused = place.call(&Write, arguments("b", "mine")).await.unwrap_err();
        assert_eq!(
            refused,
            "b exists: agent-3 wrote it, and you have not read it to its end. Read it first, or use Edit."
        );
        assert_eq!(place.bytes("a"), b"theirs");
    }

    #[tokio::test]
    async fn what_a_link_points_to_is_written_and_the_link_stays() {
        let place = Place::new();
        std::os::unix::fs::symlink("target", place.path("link")).unwrap();
        place.call(&Write, arguments("link", "one")).await.unwrap();
        place.call(&Write, arguments("link", "two")).await.unwrap();
        assert_eq!(place.path("link").read_link().unwrap(), Path::new("target"));
        assert_eq!(place.bytes("target"), b"two");
    }

    #[tokio::test]
    async fn a_hard_linked_file_is_written_in_place_and_the_output_says_so() {
        let place = Place::new();
        place.put("a", "old");
        std::fs::hard_link(place.path("a"), place.path("b")).unwrap();
        place.call(&Read, json!({"file_path": "a"})).await.unwrap();
        let text = place.call(&Write, arguments("a", "new")).await.unwrap();
        let expected = "Replaced a: 1 lines, 3 bytes. The file has other hard links: \
             it was written in place, and they changed too.";
        assert_eq!((text.as_str(), place.bytes("b")), (expected, b"new".to_vec()));
    }

    #[tokio::test]
    async fn what_is_no_regular_file_is_refused() {
        let place = Place::new();
        nix::unistd::mkfifo(&place.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = place.call(&Write, arguments("pipe", "x")).await.unwrap_err();
        assert_eq!(refused, "pipe is a named pipe, not a regular file.");
        place.put("file", "x");
        let refused = place.call(&Write, arguments("file/x", "x")).await.unwrap_err();
        assert!(refused.starts_with("Cannot write file/x: "), "{refused}");
    }

    #[tokio::test]
    async fn two_units_that_write_at_once_do_not_both_win() {
        let place = Place::new();
        place.put("a", "old");
        let units: Vec<_> = (1..=8).map(|number| place.unit(number)).collect();
        for unit in &units {
            call(&Read, unit, json!({"file_path": "a"})).await.unwrap();
        }
        let contents: Vec<String> = (1..=8).map(|number| format!("of {number}")).collect();
        let calls = units
            .iter()
            .zip(&contents)
            .map(|(unit, content)| call(&Write, unit, arguments("a", content)));
        let results = futures_util::future::join_all(calls).await;
        let winners: Vec<_> = (0..8).filter(|&at| results[at].is_ok()).collect();
        let [winner] = winners[..] else { panic!("{results:?}") };
        assert_eq!(place.bytes("a"), contents[winner].as_bytes());
        let name = units[winner].line.unit();
        let expected = format!("{name} changed a since you read it; read it again.");
        assert!(results.iter().filter_map(|result| result.as_ref().err()).all(|e| *e == expected));
    }

    #[tokio::test]
    async fn a_call_that_waits_for_a_file_can_be_cancelled() {
        let place = Place::new();
        let held = place.workspace.files.lock(&place.path("a")).await.unwrap();
        let mut waiting = Box::pin(place.call(&Write, arguments("a", "x")));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        place.context.cancel.cancel();
        let refused = waiting.await.unwrap_err();
        assert!(refused.starts_with("cancelled after "), "{refused}");
        drop(held);
        assert!(!place.path("a").exists());
    }

    #[tokio::test]
    async fn wrong_arguments_are_named() {
        let place = Place::new();
        let refused = place.call(&Write, json!({"file_path": "a"})).await.unwrap_err();
        assert_eq!(refused, "Parameter \"content\" must be a string.");
    }
}
