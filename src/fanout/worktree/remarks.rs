//! Sentences about a worktree that has ended, apart from its changes: files that
//! it lacked, files that are gone with it, and files that changed elsewhere.

use std::path::Path;

use super::plan::Conflict;
use crate::git::omission::{OmissionKind, OmittedPath};
use crate::message::counted;
use crate::path_text::to_text;

/// Maximum number of names in one sentence.
const NAMED_CAP: usize = 10;

/// Names the parts of the workspace that a worktree lacks; `None` if it lacks nothing.
pub(super) fn without(left_out: &[OmittedPath]) -> Option<String> {
    let names = listed(left_out.iter().map(|it| {
        let path = to_text(&it.path);
        match it.kind {
            OmissionKind::Repository => format!("{path}/ (a repository of its own)"),
            OmissionKind::Submodule => format!("{path}/ (a submodule)"),
            OmissionKind::Filtered => {
                let files = counted(it.files, "file");
                format!("the content of {files} stored by a filter such as Git LFS, e.g. {path}")
            }
            OmissionKind::Cache | OmissionKind::Large => path,
        }
    }))?;
    Some(format!(
        "The copy lacks these parts of the workspace: {names}. A command can copy what you need \
         from there."
    ))
}

/// Names the work that is in no patch; `None` if all of it is.
pub(super) fn work_in(left_out: &[OmittedPath]) -> Option<String> {
    listed(left_out.iter().filter(|it| it.kind.may_be_work()).map(sized))
}

/// Sentences below the note about the end of a worktree.
#[derive(Debug, Default)]
pub(super) struct EndRemarks(Vec<String>);

impl EndRemarks {
    /// Says what was not there while the unit worked.
    pub(super) fn add_missing(&mut self, left_out: &[OmittedPath]) {
        let names = left_out.iter().filter(|it| it.kind != OmissionKind::Filtered);
        if let Some(names) = listed(names.map(|it| to_text(&it.path))) {
            self.0.push(format!("it worked without {names}, which worktrees do not include"));
        }
    }

    /// Says which ignored files are among those that were changed.
    pub(super) fn add_ignored(&mut self, paths: &[&Path]) {
        if let Some(names) = listed(paths.iter().map(|path| to_text(path))) {
            self.0.push(format!("git ignores some of these files: {names}"));
        }
    }

    /// Says which ignored files are not in the workspace, and why.
    pub(super) fn add_left_behind(&mut self, left: &[Conflict]) {
        let names = left.iter().map(|it| {
            let why = it.text.lines().next().unwrap_or_default();
            format!("{} ({why})", to_text(&it.path))
        });
        if let Some(names) = listed(names) {
            self.0.push(format!(
                "these ignored files are in the patch but not in the workspace: {names}"
            ));
        }
    }

    /// Says what is in no patch: caches are gone, the rest is where the worktree is.
    pub(super) fn add_left_out(&mut self, left_out: &[OmittedPath], kept: Option<&Path>) {
        let (caches, work): (Vec<&OmittedPath>, Vec<&OmittedPath>) =
            left_out.iter().partition(|it| !it.kind.may_be_work());
        if let Some(names) = listed(caches.iter().map(|it| sized(it))) {
            let what = match kept {
                Some(_) => "not copied, since tools can rebuild them",
                None => "deleted with it, since tools can rebuild them",
            };
            self.0.push(format!("{what}: {names}"));
        }
        if let (Some(names), Some(kept)) = (listed(work.iter().map(|it| sized(it))), kept) {
            self.0.push(format!(
                "these files are only in the kept worktree {}: {names}",
                to_text(kept)
            ));
        }
    }

    /// Adds a sentence.
    pub(super) fn add(&mut self, sentence: Option<String>) {
        self.0.extend(sentence);
    }

    /// Returns `note` with all sentences below it.
    pub(super) fn below(self, note: String) -> String {
        let lines = self.0.into_iter().map(|sentence| {
            let mut characters = sentence.chars();
            let first = characters.next().map(|c| c.to_ascii_uppercase());
            format!("\n[{}{}.]", first.into_iter().collect::<String>(), characters.as_str())
        });
        note + &lines.collect::<String>()
    }
}

/// Returns the path with its kind, number of files and size.
fn sized(left_out: &OmittedPath) -> String {
    let OmittedPath { path, kind, files, bytes } = left_out;
    let what = match kind {
        OmissionKind::Repository => "a repository of its own, ",
        OmissionKind::Submodule => "a submodule, ",
        OmissionKind::Cache | OmissionKind::Large | OmissionKind::Filtered => "",
    };
    let size = match bytes {
        0..1_024 => counted(*bytes, "byte"),
        1_024..1_048_576 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", bytes / 1_048_576),
    };
    format!("{} ({what}{}, {size})", to_text(path), counted(*files, "file"))
}

/// Returns names in one line; `None` if there are none.
fn listed(names: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = names.collect();
    if let Some(more) = names.len().checked_sub(NAMED_CAP).filter(|more| *more > 0) {
        names.truncate(NAMED_CAP);
        names.push(format!("and {more} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(path: &str, kind: OmissionKind, files: u64, bytes: u64) -> OmittedPath {
        OmittedPath { path: path.into(), kind, files, bytes }
    }

    #[test]
    fn remarks_name_deleted_and_kept_files_with_their_sizes() {
        let left = [
            left_out("node_modules", OmissionKind::Cache, 12, 3_000_000),
            left_out("data.bin", OmissionKind::Large, 1, 90_000_000),
            left_out("clone", OmissionKind::Repository, 2, 2_048),
        ];
        let mut remarks = EndRemarks::default();
        remarks.add_left_out(&left, Some(Path::new("/t")));
        remarks.add_missing(&[left_out("lib", OmissionKind::Submodule, 1, 1)]);
        assert_eq!(
            remarks.below("[Note.]".to_owned()),
            "[Note.]\n[Not copied, since tools can rebuild them: node_modules (12 files, 2 \
             MiB).]\n[These files are only in the kept worktree /t: data.bin (1 file, 85 MiB), clone \
             (a repository of its own, 2 files, 2 KiB).]\n[It worked without lib, which worktrees \
             do not include.]"
        );
        assert_eq!(EndRemarks::default().below("[Note.]".to_owned()), "[Note.]");
        let many: Vec<OmittedPath> =
            (0..12).map(|at| left_out(&format!("d{at}"), OmissionKind::Repository, 1, 1)).collect();
        assert!(without(&many).unwrap().contains("d9/ (a repository of its own), and 2 more."));
        assert_eq!(without(&[]), None);
    }
}
