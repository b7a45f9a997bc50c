//! Changes of files as an editor shows them: the text before and after.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{Diff, ToolCallContent, ToolCallLocation};
use serde_json::Value;

use crate::event::FileChange;
use crate::patch::{self, FilePatch, Hunk, Line, Patch};
use crate::report::difference::BothSides;
use crate::report::ink::ReadSides;
use crate::tool::patch::patched;
use crate::tool_name::canonical;

/// Most bytes of either side of a change. What is longer is named, and not
/// shown: an editor has the file itself.
const SIDE_CAP: usize = 1 << 20;

/// Most bytes of all diffs of a call. They go out in one line, which an editor
/// reads as a whole; files beyond that are named.
const DIFFS_CAP: usize = 4 << 20;

/// Most files of one call that are shown. A patch may change many, and each is
/// shown whole.
pub(super) const CHANGES_CAP: usize = 50;

/// What reads files: as they were, and as they are.
pub struct Reads {
    /// What a file held before a change and holds after it.
    pub sides: Box<ReadSides>,
    /// What a file holds now.
    pub now: Box<ReadNow>,
}

/// Returns what a file holds now.
pub type ReadNow = dyn Fn(&Path) -> Now + Send;

/// What a file holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Now {
    /// There is no file.
    Missing,
    /// A text.
    Text(String),
    /// Something that is not shown: no text, no file, or very long.
    Unshown,
}

/// The files that a call changes, as an editor is shown them.
#[derive(Debug, Default)]
pub(super) struct Edits {
    pub(super) content: Vec<ToolCallContent>,
    pub(super) locations: Vec<ToolCallLocation>,
    /// How many bytes the diffs have.
    bytes: usize,
}

/// What is about to be changed, and where.
struct Coming<'a> {
    root: &'a Path,
    /// What reads files as they are; `None` where they may have changed already.
    now: Option<&'a ReadNow>,
    edits: Edits,
}

/// Returns what a call is about to change, as far as its arguments tell, and
/// what the files hold that it is about.
pub(super) fn announced(
    tool: &str,
    arguments: &Value,
    root: &Path,
    now: Option<&ReadNow>,
) -> Edits {
    let mut coming = Coming { root, now, edits: Edits::default() };
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    match (canonical(tool), text("file_path")) {
        ("Write", Some(path)) => {
            if let Some(content) = text("content") {
                coming.put(path, content);
            }
        }
        ("Edit", Some(path)) => {
            if let (Some(before), Some(after)) = (text("old_string"), text("new_string")) {
                coming.edits.diff(&root.join(path), Some(before), after);
            }
        }
        ("ApplyPatch", _) => {
            if let Some(Ok(patch)) = patch::text(arguments).map(Patch::parse) {
                patch.files().iter().take(CHANGES_CAP).for_each(|file| coming.patch(file));
            }
        }
        _ => {}
    }
    coming.edits
}

impl Coming<'_> {
    /// A file gets this content, whatever it holds.
    fn put(&mut self, path: &str, content: &str) {
        let place = self.root.join(path);
        match self.now.map(|now| now(&place)) {
            None | Some(Now::Missing) => self.edits.diff(&place, None, content),
            Some(Now::Text(before)) => self.edits.diff(&place, Some(&before), content),
            // A diff without what was there would pass for a new file.
            Some(Now::Unshown) => {
                self.edits.say(format!("`{path}` is replaced; what it holds is not shown"));
            }
        }
    }

    fn patch(&mut self, file: &FilePatch) {
        let (FilePatch::Add { path, .. }
        | FilePatch::Delete { path }
        | FilePatch::Update { path, .. }) = file;
        let place = self.root.join(path);
        self.edits.locations.push(ToolCallLocation::new(place.clone()));
        match file {
            FilePatch::Add { path, content } => self.put(path, content),
            FilePatch::Delete { path } => match self.now.map(|now| now(&place)) {
                Some(Now::Text(before)) => self.edits.diff(&place, Some(&before), ""),
                Some(Now::Missing | Now::Unshown) | None => {
                    self.edits.say(format!("`{path}` is deleted"));
                }
            },
            FilePatch::Update { path, to, hunks } => {
                let mut target = place.clone();
                if let Some(to) = to {
                    target = self.root.join(to);
                    self.edits.locations.push(ToolCallLocation::new(target.clone()));
                    self.edits.say(format!("`{path}` is moved to `{to}`"));
                }
                let before = match self.now.map(|now| now(&place)) {
                    Some(Now::Text(before)) => Some(before),
                    Some(Now::Missing | Now::Unshown) | None => None,
                };
                let after = before.as_ref().and_then(|text| patched(text.as_bytes(), hunks));
                let after = after.and_then(|bytes| String::from_utf8(bytes).ok());
                let (before, after) = before.zip(after).unwrap_or_else(|| parts(hunks));
                self.edits.diff(&target, Some(&before), &after);
            }
        }
    }
}

impl Edits {
    /// Shows a change, if there is room for it.
    fn diff(&mut self, path: &Path, before: Option<&str>, after: &str) {
        let before_length = before.map_or(0, str::len);
        let bytes = self.bytes + before_length + after.len();
        if before_length.max(after.len()) <= SIDE_CAP && bytes <= DIFFS_CAP {
            self.bytes = bytes;
            let diff = Diff::new(path.to_owned(), after).old_text(before.map(str::to_owned));
            self.content.push(ToolCallContent::Diff(diff));
        }
    }

    fn say(&mut self, text: String) {
        self.content.push(ToolCallContent::from(text));
    }
}

/// Returns what hunks say of a file: the lines that must be there, and those
/// that shall be.
fn parts(hunks: &[Hunk]) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        let (is_old, is_new, text) = match line {
            Line::Kept(text) => (true, true, text),
            Line::Removed(text) => (true, false, text),
            Line::Added(text) => (false, true, text),
        };
        for (_, side) in [(is_old, &mut before), (is_new, &mut after)].into_iter().filter(|it| it.0)
        {
            side.push_str(text);
            side.push('\n');
        }
    }
    (before, after)
}

/// Returns what was changed, of each file as a whole.
pub(super) fn made(changes: &[Arc<FileChange>], sides: &mut ReadSides) -> Edits {
    let mut edits = Edits::default();
    for change in changes {
        let path = PathBuf::from(&*change.path);
        // What does not fit need not be read.
        let sides = if edits.bytes < DIFFS_CAP { sides(change) } else { None };
        let line = sides.and_then(|sides| edit(&mut edits, change, sides));
        edits.locations.push(ToolCallLocation::new(path).line(line));
    }
    edits
}

/// Shows a change that was made, and returns where it begins.
fn edit(edits: &mut Edits, change: &FileChange, sides: BothSides) -> Option<u32> {
    let BothSides { before, after } = sides;
    let (before, after) = (String::from_utf8(before).ok()?, String::from_utf8(after).ok()?);
    let old = change.before.is_some().then_some(&*before);
    edits.diff(Path::new(&*change.path), old, &after);
    let same = before.split('\n').zip(after.split('\n')).take_while(|(one, other)| one == other);
    u32::try_from(same.count() + 1).ok()
}
