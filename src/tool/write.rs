//! The Write tool: a whole file at once.
//!
//! What a unit has not seen it must not overwrite: an existing file is
//! replaced only if this unit has read it to its end, or written it, and its
//! bytes are still those.

use std::fmt;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;

use crate::message::{Output, ToolSchema};

use super::arguments;
use super::blocking::to_the_end;
use super::change::{Before, Change, Done, Held, Planned, make, written_note};
use super::edit::find::BYTE_ORDER_MARK;
use super::encoding::TextEncoding;
use super::replace::{Access, Made};
use super::{Effect, Granted, Tool, ToolContext, ToolError};

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
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let raw: Raw = arguments::parse(arguments)?;
            let path = arguments::text("file_path", raw.file_path)?;
            let content = arguments::any_text("content", raw.content)?;
            let path = arguments::path(&context.workspace.root, &path)?;
            let held = Held::wait(context, call, path).await?;
            let (planned, written) = to_the_end(move || plan(held, &content)).await?;
            let done = make(context, call, vec![planned]).await?;
            Ok(Output::ok(done.iter().map(|done| written.note(done)).collect::<String>()))
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

/// Works the change out.
fn plan(held: Held, content: &str) -> Result<(Planned, Written), ToolError> {
    let before = held.before()?;
    if let Some(before) = &before {
        refuse_unseen(&held, before, "Read it first, or use Edit.")?;
    }
    let NewContents { bytes, note } = replaced(before.as_ref(), content);
    let written = Written { lines: content.lines().count(), bytes: bytes.len(), note };
    let change = Change::Write { bytes: bytes.into(), access: Access::Usual };
    Ok((Planned { held, before, change }, written))
}

/// A file's new contents, written as the old ones were.
#[derive(Debug)]
pub struct NewContents {
    /// All of them.
    pub bytes: Vec<u8>,
    /// Sentences about line ends and marks that were kept or lost; may be empty.
    pub note: String,
}

/// Returns the bytes of a file that is to hold `content`. A model is shown neither
/// carriage returns nor marks, so those of the file that was there are kept.
#[must_use]
pub fn replaced(before: Option<&Before>, content: &str) -> NewContents {
    let Some(before) = before else {
        return NewContents { bytes: content.as_bytes().to_vec(), note: String::new() };
    };
    let (encoding, text) = TextEncoding::decode(&before.bytes);
    let has_mark = encoding == TextEncoding::Bytes && text.starts_with(BYTE_ORDER_MARK);
    let (mut note, mut content) = (String::new(), content.to_owned());
    let (had, has) = (LineEnds::of(&text), LineEnds::of(content.as_bytes()));
    if had == LineEnds::Crlf && has == LineEnds::Lf {
        content = content.replace('\n', "\r\n");
        note.push_str(" Its line endings are CRLF, as before.");
    } else if had != has && had != LineEnds::None && has != LineEnds::None {
        note.push_str(&format!(" Its line endings were {had} and are now {has}."));
    }
    if text.ends_with(b"\n") && !content.is_empty() && !content.ends_with('\n') {
        note.push_str(" Its last line no longer has a line ending.");
    }
    if has_mark && !content.as_bytes().starts_with(BYTE_ORDER_MARK) {
        content.insert(0, '\u{feff}');
        note.push_str(" It begins with a byte order mark, as before.");
    }
    if let Some(name) = encoding.name() {
        note.push_str(&format!(" It is {name}, as before."));
    }
    NewContents { bytes: encoding.encode(content.into_bytes()), note }
}

/// Line ends of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    /// There are none.
    None,
    Lf,
    Crlf,
    Mixed,
}

impl LineEnds {
    fn of(text: &[u8]) -> Self {
        let (mut feeds, mut returns) = (0_usize, 0_usize);
        for at in memchr::memchr_iter(b'\n', text) {
            feeds += 1;
            returns += usize::from(text[..at].ends_with(b"\r"));
        }
        match (feeds, returns) {
            (0, _) => Self::None,
            (_, 0) => Self::Lf,
            (feeds, returns) if feeds == returns => Self::Crlf,
            _ => Self::Mixed,
        }
    }
}

impl fmt::Display for LineEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Lf => "LF",
            Self::Crlf => "CRLF",
            Self::Mixed => "mixed",
        })
    }
}

/// What is said of a file's new contents.
struct Written {
    lines: usize,
    bytes: usize,
    note: String,
}

impl Written {
    /// Notes that the unit knows the file, and says what became of it.
    fn note(&self, done: &Done) -> String {
        let Done { planned: Planned { held, before: _, change }, made } = done;
        if let Change::Write { bytes, access: _ } = change {
            held.seen.note_whole(&held.lock.target, bytes.hash());
        }
        let verb = match made {
            Made::Created => "Created",
            Made::Renamed | Made::InPlaceForLinks | Made::InPlaceForOwner | Made::Deleted => {
                "Replaced"
            }
        };
        let Self { lines, bytes, note: kept } = self;
        let (shown, note) = (held.shown(), written_note(held, *made));
        format!("{verb} {shown}: {lines} lines, {bytes} bytes.{kept}{note}")
    }
}

/// Refuses to lose what the unit has not seen; `instead` is what it may do.
///
/// # Errors
///
/// A sentence for the model; it names the sibling that wrote the file.
pub fn refuse_unseen(held: &Held, before: &Before, instead: &str) -> Result<(), ToolError> {
    if held.seen.of(&held.lock.target).whole == Some(before.hash()) {
        return Ok(());
    }
    if let Some(changed) = held.changed_since(&before.bytes) {
        return Err(ToolError::tell(format!("{changed}; read it again.")));
    }
    let shown = held.shown();
    Err(ToolError::tell(match held.sibling(before.hash()) {
        Some(sibling) => format!(
            "{shown} exists: {sibling} wrote it, and you have not read it to its end. {instead}"
        ),
        None => format!("{shown} exists and you have not read it to its end. {instead}"),
    }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::event::UnitId;
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

        place.workspace.files.note_name(UnitId(3), "south\n wing");
        call(&Write, &sibling, arguments("b", "theirs")).await.unwrap();
        let refused = place.call(&Write, arguments("b", "mine")).await.unwrap_err();
        assert_eq!(
            refused,
            "b exists: agent-3 (south wing) wrote it, and you have not read it to its end. Read it first, or use Edit."
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
        let held =
            place.workspace.files.lock(&place.workspace.roots, &place.path("a")).await.unwrap();
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
