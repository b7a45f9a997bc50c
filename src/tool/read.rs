//! The Read tool: a page of a file, with line numbers, or an image.
//!
//! The file is streamed and no more of it is read than the page needs, so its
//! size costs nothing. What a unit has read to the end, in one page or in
//! several, is noted in [`Seen`]: that is what allows it to write the file.
//! Having been shown an image does not: Write would put text in its place.

mod image;
mod lines;
mod shape;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::look_alike::all_named;
use crate::message::{Output, ToolSchema};
use crate::path_text;

use super::arguments;
use super::blocking::{StoppableFile, stoppable};
use super::bound::first_characters;
use super::encoding::TextEncoding;
use super::files::{Known, Seen, Start};
use super::regular::Opened;
use super::{Effect, Granted, OUTPUT_CAP, Tool, ToolContext, ToolError, Workspace, regular};

use image::{Found, image};
use lines::{Keep, Line, Lines};

pub use image::{SIDE_CAP, Unfit, fits};
pub use lines::LINE_CAP;
pub use shape::Size;

/// What is left of [`OUTPUT_CAP`] for the notes below a page.
const NOTES_ROOM: usize = 1_200;

/// Maximum kinds of characters that are noted below a page; each takes some 60
/// characters.
const MISREAD_CAP: usize = 8;

/// Maximum lines that are named for each.
const MISREAD_LINES_CAP: usize = 5;

/// Maximum characters of a path that a note names.
const PATH_CAP: usize = 120;

/// Shows a page of a file.
#[derive(Debug, Clone, Copy)]
pub struct Read;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "file_path":{"type":"string","description":"The file, absolute or relative to the working directory."},
    "offset":{"type":"integer","minimum":1,"description":"The first line to show, from 1."},
    "limit":{"type":"integer","minimum":1,"description":"How many lines to show; as many as fit if left out."}
    },"required":["file_path"]}"#;

impl Tool for Read {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Read", include_str!("../../prompts/tools/read.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
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
            let wanted = Wanted::parse(&context.workspace.root, arguments)?;
            let reader = Reader {
                workspace: Arc::clone(&context.workspace),
                seen: context.seen.clone(),
                takes_images: context.takes_images,
                places: call.places.clone(),
            };
            stoppable(&context.cancel, move |token| reader.read(&wanted, token)).await
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    file_path: Value,
    #[serde(default)]
    offset: Value,
    #[serde(default)]
    limit: Value,
}

/// The page a call asks for.
struct Wanted {
    path: PathBuf,
    /// From 1.
    first: u64,
    lines: u64,
}

impl Wanted {
    fn parse(root: &Path, arguments: Value) -> Result<Self, ToolError> {
        let raw: Raw = arguments::parse(arguments)?;
        let path = arguments::text("file_path", raw.file_path)?;
        let first = arguments::optional_number("offset", &raw.offset)?.unwrap_or(1).max(1);
        let lines = arguments::optional_number("limit", &raw.limit)?.unwrap_or(u64::MAX);
        if lines == 0 {
            return Err(arguments::wrong("limit", "a whole number of 1 or more"));
        }
        Ok(Self { path: arguments::path(root, &path)?, first, lines })
    }
}

/// Who reads, on a thread that may block.
struct Reader {
    workspace: Arc<Workspace>,
    seen: Seen,
    takes_images: bool,
    places: Vec<PathBuf>,
}

impl Reader {
    fn read(&self, wanted: &Wanted, token: &CancellationToken) -> Result<Output, ToolError> {
        let Self { workspace, seen, takes_images, places } = self;
        let shown = path_text::shown(&workspace.root, &wanted.path);
        let failed = |error: io::Error| regular::failed(workspace, &wanted.path, "read", &error);
        let Opened { file, metadata, target } = regular::open(workspace, &wanted.path)?;
        regular::refuse_elsewhere(workspace, &wanted.path, &target, places)?;
        let mut lines = Lines::new(StoppableFile { file, token });
        lines.decode().map_err(failed)?;
        // In this order: a text may begin as an image does.
        if lines.look_binary().map_err(failed)? {
            let bytes = metadata.len();
            return match lines.look_image().map_err(failed)? {
                Some(kind) => image(&Found { shown: &shown, kind, bytes }, *takes_images, lines)
                    .map_err(failed)?,
                None => {
                    let hint = lines.look_conversion(&shown).map_err(failed)?;
                    Err(ToolError::tell(format!(
                        "{shown} is a binary file of {bytes} bytes.{hint}"
                    )))
                }
            };
        }
        let mut page = page(&mut lines, wanted, seen.of(&target)).map_err(failed)?;
        page.source = source_notes(&wanted.path, &target, lines.encoding);
        if let Some(hash) = page.whole {
            seen.note_whole(&target, hash);
        } else if let Some(start) = page.start {
            seen.note_start(&target, start);
        }
        if page.count > 0 {
            return Ok(Output::ok(page.text()));
        }
        match page.skipped {
            0 => Ok(Output::ok(format!("{shown} is empty."))),
            total => Err(ToolError::tell(format!(
                "{shown} has {total} lines; \"offset\" {} is past its end.",
                wanted.first
            ))),
        }
    }
}

/// What was read for a call.
#[derive(Default)]
struct Page {
    numbered: String,
    characters: usize,
    first: u64,
    count: u64,
    /// Lines before the page; the whole file's if the page is empty.
    skipped: u64,
    more: bool,
    cut_lines: u64,
    lossy: bool,
    carriage_returns: bool,
    byte_order_mark: bool,
    no_last_newline: bool,
    /// Characters that are taken for others, by name, and the first lines that hold
    /// them.
    misread: BTreeMap<String, Vec<u64>>,
    /// Notes about the file itself.
    source: String,
    /// Set if the unit has now seen all of the file.
    whole: Option<blake3::Hash>,
    /// Set if the unit has now seen all up to the end of this page.
    start: Option<Start>,
}

/// Reads a page; `known` is what the unit knew of the file before.
fn page(lines: &mut Lines<'_>, wanted: &Wanted, known: Known) -> io::Result<Page> {
    let mut page = Page { first: wanted.first, ..Page::default() };
    // Pages that join up count as one: does this one begin within what was
    // seen before, and is that still there?
    let mut seen_so_far = wanted.first == 1;
    let mut is_seen = |lines: &Lines<'_>| {
        let start = known.start.filter(|start| start.bytes == lines.position);
        seen_so_far |= start.is_some_and(|start| start.hash == lines.hash());
        seen_so_far
    };
    while page.skipped + 1 < wanted.first {
        if lines.next(Keep::Nothing)?.is_none() {
            return Ok(page);
        }
        page.skipped += 1;
    }
    is_seen(lines);
    while page.count < wanted.lines {
        let Some(line) = lines.next(Keep::Start)? else { break };
        if !page.push(&line) {
            // Read, but not shown: the next page begins with it.
            page.more = true;
            return Ok(page);
        }
        let seen_to_here = is_seen(lines) && page.cut_lines == 0;
        page.start = seen_to_here.then(|| lines.start());
    }
    page.more = !lines.at_end()?;
    page.whole = match page.start {
        Some(start) if !page.more => Some(start.hash),
        // An empty file has no line.
        None if page.skipped == 0 && page.count == 0 && !page.more => Some(lines.hash()),
        _ => None,
    };
    Ok(page)
}

/// Returns the notes about the file that was found under a path.
fn source_notes(path: &Path, target: &Path, encoding: TextEncoding) -> String {
    let mut notes = String::new();
    let shown = |path: &Path| first_characters(&path_text::to_text(path), PATH_CAP).0.to_owned();
    if let Ok(to) = path.read_link() {
        notes.push_str(&format!("[This is a symbolic link to {}.]\n", shown(&to)));
    } else if path.file_name() != target.file_name() && path.symlink_metadata().is_err() {
        let name = Path::new(target.file_name().unwrap_or_default());
        notes.push_str(&format!(
            "[The file was found under the same name in another Unicode normal form, {}.]\n",
            as_bytes(name)
        ));
    }
    if let Some(name) = encoding.name() {
        notes.push_str(&format!("[The file is {name}; Edit, Write and ApplyPatch keep that.]\n"));
    }
    notes
}

/// Returns a name with the escapes that tools read, so that its bytes can be told.
fn as_bytes(name: &Path) -> String {
    let escape = |&byte: &u8| match byte.is_ascii_graphic() {
        true => char::from(byte).to_string(),
        false => format!("\\x{byte:02x}"),
    };
    let bytes: String = name.as_os_str().as_bytes().iter().map(escape).collect();
    first_characters(&bytes, PATH_CAP).0.to_owned()
}

impl Page {
    /// Adds a line, unless the page is full.
    fn push(&mut self, line: &Line) -> bool {
        let mut bytes = line.kept.as_slice();
        let number = self.first + self.count;
        let mark = number == 1 && bytes.starts_with(b"\xEF\xBB\xBF");
        if mark {
            bytes = &bytes[3..];
        }
        let carriage_return = line.ended && line.dropped == 0 && bytes.ends_with(b"\r");
        if carriage_return {
            bytes = &bytes[..bytes.len() - 1];
        }
        let mut row = format!("{number:>6}\t{}", String::from_utf8_lossy(bytes));
        if line.dropped > 0 {
            write!(row, " [... {} more characters]", line.dropped)
                .expect("writing to a string cannot fail");
        }
        row.push('\n');
        let characters = row.chars().count();
        if self.characters + characters > OUTPUT_CAP - NOTES_ROOM {
            return false;
        }
        self.numbered.push_str(&row);
        self.characters += characters;
        self.count += 1;
        self.cut_lines += u64::from(line.dropped > 0);
        self.lossy |= std::str::from_utf8(bytes).is_err();
        self.carriage_returns |= carriage_return;
        self.byte_order_mark |= mark;
        self.no_last_newline |= !line.ended;
        if !bytes.is_ascii() {
            for name in all_named(&String::from_utf8_lossy(bytes)) {
                if self.misread.len() < MISREAD_CAP || self.misread.contains_key(&name) {
                    let lines = self.misread.entry(name).or_default();
                    if lines.last() != Some(&number) && lines.len() <= MISREAD_LINES_CAP {
                        lines.push(number);
                    }
                }
            }
        }
        true
    }

    fn text(&self) -> String {
        let mut text = self.numbered.clone();
        if self.more {
            let next = self.first + self.count;
            let last = next - 1;
            let first = self.first;
            text.push_str(&format!(
                "[Lines {first} to {last} are shown; more follow. Go on with \"offset\": {next}.]\n"
            ));
        }
        let notes = [
            (self.cut_lines > 0, "Long lines are cut."),
            (self.lossy, "Bytes that are not UTF-8 are shown as \u{FFFD}."),
            (self.carriage_returns, "Lines end with CRLF."),
            (self.byte_order_mark, "The file starts with a byte order mark."),
            (self.no_last_newline, "The last line has no line end."),
        ];
        for (_, note) in notes.into_iter().filter(|(applies, _)| *applies) {
            text.push_str(&format!("[{note}]\n"));
        }
        if !self.misread.is_empty() {
            let named = |(name, lines): (&String, &Vec<u64>)| {
                let first = lines.iter().take(MISREAD_LINES_CAP).map(u64::to_string);
                let first = first.collect::<Vec<_>>().join(", ");
                let more = if lines.len() > MISREAD_LINES_CAP { ", …" } else { "" };
                format!("{name} at line {first}{more}")
            };
            let named: Vec<String> = self.misread.iter().map(named).collect();
            text.push_str(&format!("[Characters that look like others: {}.]\n", named.join("; ")));
        }
        text + &self.source
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use serde_json::json;

    use super::*;
    use crate::tool::testing::Place;

    async fn check(bytes: &[u8], expected: &str) {
        let place = Place::new();
        place.put("a", bytes);
        let text = place.call(&Read, json!({"file_path": "a"})).await;
        assert_eq!(text.as_deref(), Ok(expected));
    }

    fn numbers(range: std::ops::RangeInclusive<u32>) -> String {
        range.map(|number| format!("line {number}\n")).collect()
    }

    #[tokio::test]
    async fn lines_are_numbered_as_by_cat() {
        check(b"one\n\n\tthree\n", "     1\tone\n     2\t\n     3\t\tthree\n").await;
    }

    #[tokio::test]
    async fn what_the_numbered_lines_cannot_show_is_noted() {
        check(b"a\r\nb\r\n", "     1\ta\n     2\tb\n[Lines end with CRLF.]\n").await;
        check(b"a", "     1\ta\n[The last line has no line end.]\n").await;
        let mark = "     1\ta\n[The file starts with a byte order mark.]\n";
        check(b"\xEF\xBB\xBFa\n", mark).await;
        let lossy = "     1\tcaf\u{FFFD}\n[Bytes that are not UTF-8 are shown as \u{FFFD}.]\n";
        check(b"caf\xE9\n", lossy).await;
    }

    #[tokio::test]
    async fn an_empty_file_is_said_to_be_empty() {
        check(b"", "a is empty.").await;
    }

    #[tokio::test]
    async fn offset_and_limit_pick_lines_and_the_text_says_how_to_go_on() {
        let place = Place::new();
        place.put("a", numbers(1..=5));
        let text = place.call(&Read, json!({"file_path": "a", "offset": "2", "limit": 2})).await;
        let expected = "     2\tline 2\n     3\tline 3\n\
             [Lines 2 to 3 are shown; more follow. Go on with \"offset\": 4.]\n";
        assert_eq!(text.as_deref(), Ok(expected));
        let text = place.call(&Read, json!({"file_path": "a", "offset": 4})).await;
        assert_eq!(text.as_deref(), Ok("     4\tline 4\n     5\tline 5\n"));
        let text = place.call(&Read, json!({"file_path": "a", "offset": 6})).await;
        assert_eq!(text.unwrap_err(), "a has 5 lines; \"offset\" 6 is past its end.");
    }

    #[tokio::test]
    async fn a_page_never_exceeds_the_cap_and_the_next_one_goes_on_where_it_ended() {
        let place = Place::new();
        place.put("a", "wide line of some sixty characters, as in prose or in a log\n".repeat(900));
        let (mut offset, mut count) = (1, 0);
        while offset <= 900 {
            let text =
                place.call(&Read, json!({"file_path": "a", "offset": offset})).await.unwrap();
            assert!(text.chars().count() <= OUTPUT_CAP);
            let lines = text.lines().filter(|line| !line.starts_with('[')).count();
            count += lines;
            offset += lines;
        }
        assert_eq!(count, 900);
    }

    #[tokio::test]
    async fn a_long_line_is_cut_and_says_how_much_was_dropped() {
        let long = format!("{}\nnext\n", "ß".repeat(LINE_CAP + 7));
        let expected = format!(
            "     1\t{} [... 7 more characters]\n     2\tnext\n[Long lines are cut.]\n",
            "ß".repeat(LINE_CAP)
        );
        check(long.as_bytes(), &expected).await;
    }

    #[tokio::test]
    async fn a_huge_file_is_not_read_beyond_the_page() {
        let place = Place::new();
        let path = place.put("a", numbers(1..=9_000));
        let file = File::options().write(true).open(&path).unwrap();
        // A hole: it would be one line of a terabyte.
        file.set_len(1 << 40).unwrap();
        let text = place.call(&Read, json!({"file_path": "a", "limit": 1})).await.unwrap();
        assert!(text.starts_with("     1\tline 1\n[Lines 1 to 1 "));
    }

    #[tokio::test]
    async fn a_binary_file_is_reported_with_its_size() {
        let place = Place::new();
        place.put("a", b"\x7fELF\0\0");
        let refused = place.call(&Read, json!({"file_path": "a"})).await.unwrap_err();
        assert_eq!(refused, "a is a binary file of 6 bytes.");
    }

    #[tokio::test]
    async fn a_name_that_is_not_utf8_can_be_read_by_its_text() {
        let place = Place::new();
        let name = std::ffi::OsStr::from_bytes(b"caf\xE9");
        std::fs::write(place.root().join(name), "x\n").unwrap();
        let text = place.call(&Read, json!({"file_path": r"caf\xe9"})).await;
        assert_eq!(text.as_deref(), Ok("     1\tx\n"));
    }

    #[tokio::test]
    async fn wrong_arguments_are_named() {
        let place = Place::new();
        for (arguments, expected) in [
            (json!({}), "Parameter \"file_path\" must be a non-empty string."),
            (
                json!({"file_path": "a", "limit": 0}),
                "Parameter \"limit\" must be a whole number of 1 or more.",
            ),
        ] {
            assert_eq!(place.call(&Read, arguments).await.unwrap_err(), expected);
        }
    }

    async fn known(place: &Place, calls: &[Value]) -> Known {
        for arguments in calls {
            place.call(&Read, arguments.clone()).await.unwrap();
        }
        place.context.seen.of(&place.path("a"))
    }

    #[tokio::test]
    async fn pages_that_join_up_count_as_the_whole_file() {
        let whole = Known { whole: Some(blake3::hash(numbers(1..=6).as_bytes())), start: None };
        let page =
            |offset: u32, limit: u32| json!({"file_path": "a", "offset": offset, "limit": limit});
        for calls in [
            vec![page(1, 6)],
            vec![page(1, 2), page(3, 2), page(5, 9)],
            vec![page(1, 4), page(3, 9)],
        ] {
            let place = Place::new();
            place.put("a", numbers(1..=6));
            assert_eq!(known(&place, &calls).await, whole);
        }
        for calls in [vec![page(1, 5)], vec![page(2, 9)], vec![page(1, 2), page(4, 9)]] {
            let place = Place::new();
            place.put("a", numbers(1..=6));
            assert_eq!(known(&place, &calls).await.whole, None);
        }
    }

    #[tokio::test]
    async fn a_change_between_two_pages_and_a_cut_line_leave_the_file_partly_seen() {
        let place = Place::new();
        place.put("a", numbers(1..=6));
        known(&place, &[json!({"file_path": "a", "limit": 3})]).await;
        place.put("a", numbers(1..=6).replace("line 1", "LINE 1"));
        assert_eq!(known(&place, &[json!({"file_path": "a", "offset": 4})]).await.whole, None);

        place.put("a", "x".repeat(LINE_CAP + 1));
        assert_eq!(known(&place, &[json!({"file_path": "a"})]).await.whole, None);
    }

    #[tokio::test]
    async fn a_cancelled_read_says_so() {
        let place = Place::new();
        place.put("a", "x");
        place.context.cancel.cancel();
        let refused = place.call(&Read, json!({"file_path": "a"})).await.unwrap_err();
        assert_eq!(refused, "cancelled after 0.0 s");
    }
}
