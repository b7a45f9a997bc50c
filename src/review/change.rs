//! The files and hunks of a change, as a review counts them.
//!
//! What nobody can or need read as text is set aside here, with the reason: a
//! report names it. A hunk that is too large for any reviewer is cut between its
//! lines, and each part of it is a hunk of its own from then on.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::generated;
use crate::code;
use crate::diff::{self, ChangeKind, Line, LineKind, Piece};
use crate::git::{Apart, ApartKind};

/// Longest line, in bytes, that a reviewer is given. People write none of a
/// tenth of that; programs write whole files on one.
pub const LINE_CAP: usize = 20_000;

/// Names a changed place: its path and the lines it has after the change. Behind
/// a minus stand those before it, where nothing is left.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HunkId(pub Arc<str>);

impl fmt::Display for HunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A file with something to review.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Its path after the change; before it, if it is gone.
    pub path: Arc<str>,
    /// What it was called before, if it was called otherwise.
    pub from: Option<String>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// The lines of the diff before its first hunk.
    pub head: String,
    /// Whether it holds code that is still there.
    pub is_code: bool,
    /// How many of its hunks are in no territory.
    pub left_out: usize,
    hunks: Range<usize>,
}

impl File {
    /// Returns the places of its hunks among those of the plan.
    #[must_use]
    pub fn hunks(&self) -> Range<usize> {
        self.hunks.clone()
    }
}

/// A changed place.
#[derive(Debug, Clone, PartialEq)]
pub struct Hunk {
    /// Names it, within a plan and beyond.
    pub id: HunkId,
    /// Its file.
    pub path: Arc<str>,
    /// Its lines after the change, from 1; before it, where nothing is left.
    pub lines: (u32, u32),
    /// Whether none of its lines is left after the change.
    pub is_gone: bool,
    /// The text, with its header.
    pub text: String,
    /// The lines that are new or gone.
    pub changed: Vec<Changed>,
}

/// A line that is new or gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Whether it is new.
    pub is_new: bool,
    /// Its number on its side.
    pub number: u32,
    /// Its text, without what its end may have.
    pub text: String,
}

/// A file that no reviewer is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Its path.
    pub path: Arc<str>,
    /// Why.
    pub why: Why,
}

impl From<&Apart> for Aside {
    fn from(apart: &Apart) -> Self {
        let why = match apart.kind {
            ApartKind::Ours => Why::Ours,
            ApartKind::Repository => Why::Repository,
        };
        Self { path: apart.path.as_str().into(), why }
    }
}

/// Why a file is set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It begins as what this program writes, and is nothing that runs.
    Ours,
    /// It is no text.
    Binary,
    /// It is no text, and code by its name: a compiler may read it all the same.
    BinaryCode,
    /// It is another repository, of which a commit is named.
    Submodule,
    /// It is another repository, which this one does not track.
    Repository,
    /// By its name it says which versions were taken of what others wrote.
    LockFile,
    /// By its name or its first lines nobody has written it by hand.
    Generated,
    /// It has a line over [`LINE_CAP`].
    LongLine,
    /// Its diff has several old sides, as that of a merge.
    Combined,
    /// It may be text, and is too large to be shown.
    TooLarge,
    /// The whole change is too large: not all of it is in a territory.
    TooMuch,
}

impl Why {
    /// Tells whether git names the file in the change.
    #[must_use]
    pub fn is_of_change(self) -> bool {
        match self {
            Self::Ours | Self::Repository => false,
            Self::Binary
            | Self::BinaryCode
            | Self::Submodule
            | Self::LockFile
            | Self::Generated
            | Self::LongLine
            | Self::Combined
            | Self::TooLarge
            | Self::TooMuch => true,
        }
    }

    /// Tells whether a review has a gap where a file is set aside so: whether
    /// somebody could have put there what a reader would have found.
    #[must_use]
    pub fn is_gap(self) -> bool {
        match self {
            Self::Ours | Self::Binary | Self::LockFile => false,
            Self::BinaryCode
            | Self::Submodule
            | Self::Repository
            | Self::Generated
            | Self::LongLine
            | Self::Combined
            | Self::TooLarge
            | Self::TooMuch => true,
        }
    }
}

/// Reads a diff: its files by path with something to review, their hunks, none
/// longer than `most` bytes unless it is one line, and what is set aside.
/// `too_large` names the files that may be text and are not shown.
pub(super) fn read(
    (text, too_large): (&str, &BTreeSet<String>),
    most: usize,
) -> (Vec<File>, Vec<Hunk>, Vec<Aside>) {
    let (mut kept, mut aside) = (Vec::new(), Vec::new());
    for piece in diff::pieces(text) {
        let is_too_large = too_large.contains(piece.file.path());
        match set_aside(&piece, is_too_large) {
            Some(why) => aside.push(Aside { path: piece.file.path().into(), why }),
            None => kept.push(piece),
        }
    }
    // Neighbours stand together, whatever order the diff has.
    kept.sort_by(|one, other| one.file.path().cmp(other.file.path()));
    let (mut files, mut hunks, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    for piece in &kept {
        let path: Arc<str> = piece.file.path().into();
        let first = hunks.len();
        for (hunk, text) in piece.file.hunks.iter().zip(&piece.hunks) {
            for part in cut(hunk, text, most) {
                let id = id(&path, &part, &mut known);
                hunks.push(Hunk { id, path: Arc::clone(&path), ..part });
            }
        }
        let file = &piece.file;
        files.push(File {
            from: file.old_path.clone().filter(|from| **from != *path),
            kind: file.kind,
            head: ended(piece.head),
            is_code: is_code(file) && hunks.len() > first,
            left_out: 0,
            hunks: first..hunks.len(),
            path,
        });
    }
    (files, hunks, aside)
}

/// Tells whether a file is code by its name, and still there.
fn is_code(file: &diff::FileChange) -> bool {
    file.new_path.as_deref().and_then(code::language).is_some_and(code::is_code)
}

fn set_aside(piece: &Piece<'_>, is_too_large: bool) -> Option<Why> {
    let modes = ["index ", "old mode ", "new mode ", "new file mode ", "deleted file mode "];
    let is_submodule = piece
        .head
        .lines()
        .any(|line| line.ends_with(" 160000") && modes.iter().any(|mode| line.starts_with(mode)));
    if piece.is_combined {
        Some(Why::Combined)
    } else if is_submodule {
        Some(Why::Submodule)
    } else if is_too_large {
        Some(Why::TooLarge)
    } else if piece.file.binary {
        Some(if is_code(&piece.file) { Why::BinaryCode } else { Why::Binary })
    } else if let Some(why) = generated::why(&piece.file) {
        Some(why)
    } else {
        let mut lines = piece.file.hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.any(|line| line.text.len() > LINE_CAP).then_some(Why::LongLine)
    }
}

/// Names a hunk. Two of one name can only be in a text that no git has written.
fn id(path: &str, hunk: &Hunk, known: &mut HashSet<HunkId>) -> HunkId {
    let (first, last) = hunk.lines;
    let sign = if hunk.is_gone { "-" } else { "" };
    let name = format!("{path}:{sign}{first}-{last}");
    let names = (2..).map(|number| format!("{name}#{number}"));
    let mut names = [name.clone()].into_iter().chain(names).map(|name| HunkId(name.into()));
    names.find(|name| known.insert(name.clone())).expect("the numbers do not end")
}

/// Cuts a hunk into parts of at most so many bytes, between its lines.
fn cut(hunk: &diff::Hunk, text: &str, most: usize) -> Vec<Hunk> {
    let (header, body) = text.split_once('\n').unwrap_or((text, ""));
    let mut parts = Vec::new();
    let mut part = Part::at(hunk);
    for (line, text) in hunk.lines.iter().zip(with_marks(body)) {
        if !part.lines.is_empty() && part.text.len() + text.len() > most {
            parts.push(part.next());
        }
        part.push(line, text);
    }
    if parts.is_empty() {
        return vec![part.finish(&format!("{header}\n"))];
    }
    parts.push(part);
    let section = if hunk.section.is_empty() { "" } else { " " };
    let parts = parts.into_iter().map(|part| {
        let header = format!("{}{section}{}\n", part.header(), hunk.section);
        part.finish(&header)
    });
    parts.collect()
}

/// Splits the body of a hunk into its lines. The mark that a line has no end
/// stays with that line.
fn with_marks(body: &str) -> impl Iterator<Item = &str> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = |text: &str| text.find('\n').map_or(text.len(), |at| at + 1);
        let mut length = end(rest);
        while rest[length..].starts_with('\\') {
            length += end(&rest[length..]);
        }
        let (line, behind) = rest.split_at(length);
        rest = behind;
        Some(line)
    })
}

/// Some lines of a hunk that stand together.
struct Part<'a> {
    /// The next line of each side when it began.
    old: u32,
    new: u32,
    lines: Vec<&'a Line>,
    text: String,
}

impl<'a> Part<'a> {
    /// The one that a hunk begins with.
    fn at(hunk: &diff::Hunk) -> Self {
        // A side without lines has the number of the line before it.
        let has_only = |kind: LineKind| hunk.lines.iter().all(|line| line.kind == kind);
        let old = hunk.old_start.saturating_add(u32::from(has_only(LineKind::Added)));
        let new = hunk.new_start.saturating_add(u32::from(has_only(LineKind::Removed)));
        Self { old, new, lines: Vec::new(), text: String::new() }
    }

    /// Takes the part out, and begins the one behind it.
    fn next(&mut self) -> Self {
        let [old, new] = self.counts();
        let (old, new) = (self.old.saturating_add(old), self.new.saturating_add(new));
        std::mem::replace(self, Self { old, new, lines: Vec::new(), text: String::new() })
    }

    fn push(&mut self, line: &'a Line, text: &str) {
        self.lines.push(line);
        self.text.push_str(text);
    }

    /// How many lines it has before and after the change.
    fn counts(&self) -> [u32; 2] {
        [LineKind::Added, LineKind::Removed].map(|other| {
            let count = self.lines.iter().filter(|line| line.kind != other).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        })
    }

    fn header(&self) -> String {
        let [old, new] = self.counts();
        let start = |start: u32, count: u32| start.saturating_sub(u32::from(count == 0));
        format!("@@ -{},{old} +{},{new} @@", start(self.old, old), start(self.new, new))
    }

    fn finish(self, header: &str) -> Hunk {
        let numbers = |is_left: bool| {
            let lines =
                self.lines.iter().filter(|line| (line.kind != LineKind::Removed) == is_left);
            let numbers = lines.map(|line| line.number);
            numbers.clone().min().zip(numbers.max())
        };
        let (left, gone) = (numbers(true), numbers(false));
        let is_gone = left.is_none() && gone.is_some();
        let lines = left.or(gone).unwrap_or_default();
        let changed = self.lines.iter().filter(|line| line.kind != LineKind::Context);
        let changed = changed.map(|line| Changed {
            is_new: line.kind == LineKind::Added,
            number: line.number,
            text: line.text.trim_end_matches('\r').to_owned(),
        });
        let changed = changed.collect();
        let text = ended(&format!("{header}{}", self.text));
        Hunk { id: HunkId("".into()), path: "".into(), lines, is_gone, text, changed }
    }
}

/// Returns a text with an end of its last line.
fn ended(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

#[cfg(test)]
mod tests;
