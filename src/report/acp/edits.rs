//! Changes of files as an editor shows them: the text before and after.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{Diff, ToolCallContent, ToolCallLocation};
use serde_json::Value;

use crate::event::FileChange;
use crate::report::difference::BothSides;
use crate::report::ink::ReadSides;
use crate::tool_name::canonical;

/// Most bytes of either side of a change. What is longer is named, and not
/// shown: an editor has the file itself.
const SIDE_CAP: usize = 1 << 20;

/// A change that was made.
pub(super) struct Edit {
    pub(super) diff: Diff,
    /// Where it begins.
    pub(super) location: ToolCallLocation,
}

/// Returns what a call is about to change, as far as its arguments tell.
pub(super) fn announced(tool: &str, arguments: &Value, root: &Path) -> Vec<ToolCallContent> {
    let text = |name: &str| {
        let text = arguments.get(name).and_then(Value::as_str);
        text.filter(|text| text.len() <= SIDE_CAP).map(str::to_owned)
    };
    let Some(path) = text("file_path").map(|path| root.join(path)) else { return Vec::new() };
    let diff = match canonical(tool) {
        "Write" => text("content").map(|content| Diff::new(path, content)),
        "Edit" => text("old_string")
            .zip(text("new_string"))
            .map(|(before, after)| Diff::new(path, after).old_text(before)),
        _ => None,
    };
    diff.map(ToolCallContent::Diff).into_iter().collect()
}

/// Returns what was changed, of each file as a whole.
pub(super) fn made(changes: &[Arc<FileChange>], sides: &mut ReadSides) -> Vec<Edit> {
    changes.iter().filter_map(|change| edit(change, sides(change)?)).collect()
}

fn edit(change: &FileChange, BothSides { before, after }: BothSides) -> Option<Edit> {
    if before.len().max(after.len()) > SIDE_CAP {
        return None;
    }
    let (before, after) = (String::from_utf8(before).ok()?, String::from_utf8(after).ok()?);
    let path = PathBuf::from(&*change.path);
    let same = before.split('\n').zip(after.split('\n')).take_while(|(one, other)| one == other);
    let line = u32::try_from(same.count() + 1).ok();
    let location = ToolCallLocation::new(path.clone()).line(line);
    let before = change.before.is_some().then_some(before);
    Some(Edit { diff: Diff::new(path, after).old_text(before), location })
}
