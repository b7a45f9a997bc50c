//! Symbolic links that a patch names where it deletes or moves.
//!
//! All other parts of a patch are about what a link leads to. One that is deleted goes
//! itself, and what it leads to stays; one is not moved, and nothing is moved over one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::patch::{FilePatch, Patch};
use crate::path_text;
use crate::real_path::locate_entry;
use crate::tool::change::commit::Link;
use crate::tool::change::{Change, Relink};
use crate::tool::{ToolError, Workspace, arguments, regular};

/// A link that is deleted.
#[derive(Debug)]
pub(super) struct LinkDeletion {
    pub(super) relink: Relink,
    /// The sentence for the output.
    pub(super) text: String,
}

/// Finds the links that a patch deletes, by the index of the file in the patch.
/// `places` are what the call was allowed to change.
///
/// # Errors
///
/// A sentence for the model: a link would be moved or moved over, another part names
/// it as well, or it is not where it was when the call was allowed.
pub(super) fn find(
    workspace: &Workspace,
    places: &[PathBuf],
    patch: &Patch,
) -> Result<BTreeMap<usize, LinkDeletion>, ToolError> {
    let entry = |path: &str| -> Result<(PathBuf, PathBuf), ToolError> {
        let path = arguments::path(&workspace.root, path)?;
        let failed = |error| regular::failed(workspace, &path, "follow", &error);
        let entry = locate_entry(&path).map_err(failed)?;
        Ok((path, entry))
    };
    let mut links = BTreeMap::new();
    for (index, file) in patch.files().iter().enumerate() {
        match file {
            FilePatch::Add { .. } | FilePatch::Update { to: None, .. } => {}
            FilePatch::Update { path, to: Some(to), hunks: _ } => {
                for (path, is_source) in [(path, true), (to, false)] {
                    let (path, entry) = entry(path)?;
                    refuse_moved(workspace, &path, &entry, is_source)?;
                }
            }
            FilePatch::Delete { path } => {
                let (path, entry) = entry(path)?;
                if let Some(unlinked) = unlinked(workspace, places, (&path, entry))? {
                    links.insert(index, unlinked);
                }
            }
        }
    }
    // What the others lead to is locked; that one of them is a deleted link is not.
    let others = patch.files().iter().enumerate().filter(|_| !links.is_empty());
    for (index, file) in others {
        for path in file.paths() {
            let (path, entry) = entry(path)?;
            let is_other =
                |(at, link): (&usize, &LinkDeletion)| *at != index && link.relink.path == entry;
            if links.iter().any(is_other) {
                let shown = path_text::shown(&workspace.root, &path);
                return Err(ToolError::tell(format!(
                    "{shown} is named twice; say once what shall become of it."
                )));
            }
        }
    }
    Ok(links)
}

/// Returns the note about a deleted link; `None` if the entry is not a link.
fn unlinked(
    workspace: &Workspace,
    places: &[PathBuf],
    (path, entry): (&Path, PathBuf),
) -> Result<Option<LinkDeletion>, ToolError> {
    if !is_link(&entry) {
        return Ok(None);
    }
    regular::refuse_elsewhere(workspace, path, &entry, places)?;
    let failed = |error| regular::failed(workspace, path, "delete", &error);
    let found = workspace.roots.spot(&entry).and_then(|spot| Link::at(&spot)).map_err(failed)?;
    let Some(was) = found else { return Ok(None) };
    let (shown, to) = (path_text::shown(&workspace.root, path), path_text::to_text(&was.to));
    let end = match path.exists() {
        true => format!("its target {to} stays"),
        false => format!("it was dangling: {to} does not exist"),
    };
    let text = format!("Deleted the symbolic link {shown}; {end}.\n");
    let relink = Relink { path: entry, was, change: Change::Delete };
    Ok(Some(LinkDeletion { relink, text }))
}

fn refuse_moved(
    workspace: &Workspace,
    path: &Path,
    entry: &Path,
    is_source: bool,
) -> Result<(), ToolError> {
    let Some(to) = entry.read_link().ok() else { return Ok(()) };
    let (shown, to) = (path_text::shown(&workspace.root, path), path_text::to_text(&to));
    let way = match is_source {
        true => "To move its target, name the target; to move the link itself, use `mv` in Bash",
        false => {
            "To replace its target, name the target; to replace the link itself, delete it first"
        }
    };
    Err(ToolError::tell(format!(
        "{shown} is a symbolic link to {to}, and a patch moves files, not links. {way}. Nothing was \
         changed in any file of the patch."
    )))
}

fn is_link(entry: &Path) -> bool {
    entry.symlink_metadata().is_ok_and(|found| found.is_symlink())
}
