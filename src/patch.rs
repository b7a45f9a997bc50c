//! Patches as many models write them: `*** Begin Patch` … `*** End Patch`.
//!
//! A [`Patch`] says what shall become of which files; whether its hunks fit is
//! found out where the files are. The guard reads the paths out of the same
//! value as the tool, so neither can mean another file than the other.

use serde_json::Value;
use thiserror::Error;

/// Most files of one patch. All of them are held and kept in memory together.
pub const FILES_CAP: usize = 100;

/// Most hunks of one patch. Each is looked for in its file.
pub const HUNKS_CAP: usize = 500;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// What shall become of files; of at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch(Vec<FilePatch>);

/// What shall become of one file. Its paths are text of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePatch {
    /// It holds these bytes.
    Add {
        /// The file.
        path: String,
        /// All that it shall hold.
        content: String,
    },
    /// It is gone.
    Delete {
        /// The file.
        path: String,
    },
    /// Parts of it are other ones, or it is somewhere else, or both.
    Update {
        /// The file.
        path: String,
        /// Where it is afterwards, if not where it was.
        to: Option<String>,
        /// The parts, in the order in which they stand; none only if it moves.
        hunks: Vec<Hunk>,
    },
}

/// One part of a file. It adds or removes something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines that stand somewhere before it, the outermost first.
    pub anchors: Vec<String>,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Whether it is the end of the file.
    pub at_end: bool,
}

/// One line of a hunk, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Is there and stays.
    Kept(String),
    /// Is there and goes.
    Removed(String),
    /// Comes.
    Added(String),
}

/// Why a text is no patch.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// It begins with something else.
    #[error("a patch begins with the line `{BEGIN}`")]
    Begin,
    /// It may have been cut off.
    #[error("the patch does not end with the line `{END}`")]
    End,
    /// It names no file.
    #[error("the patch changes nothing")]
    Empty,
    /// A line is none of those that may stand there.
    #[error("line {line} of the patch is {found}; there must be {expected}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The line, cut.
        found: String,
        /// What may stand there.
        expected: &'static str,
    },
    /// A file has no hunks, or one that leaves everything as it is.
    #[error(
        "{0} of the patch changes nothing; lines that come begin with `+`, lines that go with `-`"
    )]
    Nothing(String),
    /// There is too much of something.
    #[error("a patch has at most {most} {what}; make several")]
    TooMany {
        /// How many there may be.
        most: usize,
        /// Of what.
        what: &'static str,
    },
}

/// Returns the text of a call that is to be a patch. Some models know its
/// parameter as `input`.
#[must_use]
pub fn text(arguments: &Value) -> Option<&str> {
    ["patch", "input"].into_iter().find_map(|name| arguments.get(name)?.as_str())
}

/// Most characters of a line that are quoted in an error.
const QUOTE_CAP: usize = 80;

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    ///
    /// The text is none, or only a part of one.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        let text = text.trim_matches(|c: char| c == '\n' || c == '\r');
        let mut lines: Vec<&str> = text.split('\n').collect();
        // Line ends of the way here, not of what is in the patch.
        if lines[..lines.len() - 1].iter().all(|line| line.ends_with('\r')) {
            lines.iter_mut().for_each(|line| *line = line.strip_suffix('\r').unwrap_or(line));
        }
        if lines.first().is_none_or(|first| first.trim() != BEGIN) {
            return Err(PatchError::Begin);
        }
        if lines.last().is_none_or(|last| last.trim() != END) || lines.len() < 2 {
            return Err(PatchError::End);
        }
        let mut reader = Reader { lines: &lines[..lines.len() - 1], at: 1, hunks: 0 };
        let mut files = Vec::new();
        while let Some(file) = reader.file()? {
            files.push(file);
            if files.len() > FILES_CAP {
                return Err(PatchError::TooMany { most: FILES_CAP, what: "files" });
            }
        }
        if files.is_empty() { Err(PatchError::Empty) } else { Ok(Self(files)) }
    }

    /// Returns what shall become of which file, in the order of the patch.
    #[must_use]
    pub fn files(&self) -> &[FilePatch] {
        &self.0
    }

    /// Returns every path that the patch names.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(FilePatch::paths)
    }

    /// Returns the paths that are deleted: the entries themselves, also if they are links.
    pub fn deleted(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|file| match file {
            FilePatch::Delete { path } => Some(path.as_str()),
            FilePatch::Add { .. } | FilePatch::Update { .. } => None,
        })
    }
}

impl FilePatch {
    /// Returns the paths that it names: the file's, and the destination of a move.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let (path, to) = match self {
            Self::Add { path, content: _ } | Self::Delete { path } => (path, None),
            Self::Update { path, to, hunks: _ } => (path, to.as_ref()),
        };
        [Some(path), to].into_iter().flatten().map(String::as_str)
    }
}

/// Returns the text of a patch with replaced paths; `None` if no path changes. `other`
/// gets each path, and whether the name itself is meant instead of a link's target.
#[must_use]
pub fn with_other_paths(
    text: &str,
    mut other: impl FnMut(&str, bool) -> Option<String>,
) -> Option<String> {
    let mut is_changed = false;
    let lines: Vec<&str> = text.split('\n').collect();
    let mut changed = |(index, line): (usize, &&str)| {
        // An added file is written to the target of a link. For a moved file the name itself
        // counts, since the tool refuses to move a link.
        let is_moved = lines.get(index + 1).is_some_and(|next| next.starts_with(MOVE));
        // Lines of files never begin like this: each has a sign in front.
        let header = [(ADD, false), (DELETE, true), (MOVE, true), (UPDATE, is_moved)]
            .into_iter()
            .find_map(|(kind, is_name)| Some((kind, is_name, line.strip_prefix(kind)?)));
        let named = header.and_then(|(kind, is_name, path)| {
            Some(format!("{kind} {}", other(path.trim(), is_name)?))
        });
        is_changed |= named.is_some();
        let end = if line.ends_with('\r') { "\r" } else { "" };
        named.map_or_else(|| (*line).to_owned(), |named| named + end)
    };
    let text = lines.iter().enumerate().map(&mut changed).collect::<Vec<_>>().join("\n");
    is_changed.then_some(text)
}

impl Hunk {
    /// Returns the lines that must be there.
    #[must_use]
    pub fn old(&self) -> Vec<&str> {
        let old = self.lines.iter().filter_map(|line| match line {
            Line::Kept(text) | Line::Removed(text) => Some(text.as_str()),
            Line::Added(_) => None,
        });
        old.collect()
    }

    fn changes(&self) -> bool {
        self.lines.iter().any(|line| match line {
            Line::Kept(_) => false,
            Line::Removed(_) | Line::Added(_) => true,
        })
    }
}

impl Line {
    /// Returns the text of the line.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Kept(text) | Self::Removed(text) | Self::Added(text) => text,
        }
    }
}

/// Goes through the lines of a patch.
struct Reader<'a> {
    /// Without the last one.
    lines: &'a [&'a str],
    /// The index of the next one.
    at: usize,
    /// How many hunks there were.
    hunks: usize,
}

impl<'a> Reader<'a> {
    fn file(&mut self) -> Result<Option<FilePatch>, PatchError> {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        let Some(line) = self.peek() else { return Ok(None) };
        let expected = "`*** Add File: PATH`, `*** Delete File: PATH` or `*** Update File: PATH`";
        let header = [ADD, DELETE, UPDATE].into_iter().find_map(|kind| {
            let path = line.strip_prefix(kind)?.trim();
            (!path.is_empty()).then(|| (kind, path.to_owned()))
        });
        let Some((kind, path)) = header else { return Err(self.wrong(expected)) };
        self.at += 1;
        Ok(Some(match kind {
            ADD => FilePatch::Add { content: self.content()?, path },
            DELETE => FilePatch::Delete { path },
            _ => self.update(path)?,
        }))
    }

    fn content(&mut self) -> Result<String, PatchError> {
        let mut content = String::new();
        // Empty lines at the end are more likely space between two files.
        let mut bare = 0;
        while let Some(line) = self.peek().filter(|line| !is_marker(line)) {
            match line.strip_prefix('+') {
                Some(text) => {
                    content.extend(std::iter::repeat_n('\n', std::mem::take(&mut bare)));
                    content.push_str(text);
                    content.push('\n');
                }
                None if line.trim().is_empty() => bare += 1,
                None => return Err(self.wrong("`+` and a line of the new file")),
            }
            self.at += 1;
        }
        Ok(content)
    }

    fn update(&mut self, path: String) -> Result<FilePatch, PatchError> {
        let to = self.peek().and_then(|line| line.strip_prefix(MOVE)).map(str::trim);
        let to = match to {
            Some("") => return Err(self.wrong("`*** Move to: PATH`")),
            Some(to) => {
                self.at += 1;
                Some(to.to_owned())
            }
            None => None,
        };
        let mut hunks = Vec::new();
        while let Some(hunk) = self.hunk()? {
            self.hunks += 1;
            if !hunk.changes() {
                return Err(PatchError::Nothing(format!("hunk {} of {path}", hunks.len() + 1)));
            }
            if self.hunks > HUNKS_CAP {
                return Err(PatchError::TooMany { most: HUNKS_CAP, what: "hunks" });
            }
            hunks.push(hunk);
        }
        if hunks.is_empty() && to.is_none() {
            return Err(PatchError::Nothing(path));
        }
        Ok(FilePatch::Update { path, to, hunks })
    }

    /// Reads a hunk; `None` where the file's part ends.
    fn hunk(&mut self) -> Result<Option<Hunk>, PatchError> {
        let mut hunk = Hunk::default();
        let start = self.at;
        // Lines at the end that are empty even of the space in front of a line
        // that stays: more likely space between two files.
        let mut bare = 0;
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                self.at += 1;
                hunk.at_end = true;
                break;
            }
            if is_marker(line) || (line.starts_with("@@") && !hunk.lines.is_empty()) {
                break;
            }
            if let Some(anchor) = line.strip_prefix("@@") {
                hunk.anchors.extend(named(anchor));
            } else {
                let text = line.get(1..).unwrap_or_default().to_owned();
                bare = if line.is_empty() { bare + 1 } else { 0 };
                hunk.lines.push(match line.as_bytes().first() {
                    Some(b' ') | None => Line::Kept(text),
                    Some(b'-') => Line::Removed(text),
                    Some(b'+') => Line::Added(text),
                    Some(_) => {
                        return Err(self.wrong(
                            "a line of a hunk, which begins with a space, `-` or `+`, or `@@`, or \
                             a line that begins with `***`",
                        ));
                    }
                });
            }
            self.at += 1;
        }
        hunk.lines.truncate(hunk.lines.len() - bare);
        let is_space = hunk == Hunk::default();
        Ok((self.at > start && !is_space).then_some(hunk))
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn wrong(&self, expected: &'static str) -> PatchError {
        let line = self.peek().unwrap_or_default().trim_end();
        let start: String = line.chars().take(QUOTE_CAP).collect();
        let dots = if start.len() < line.len() { "…" } else { "" };
        let found = if line.is_empty() { "empty".to_owned() } else { format!("`{start}{dots}`") };
        PatchError::Line { line: self.at + 1, found, expected }
    }
}

fn is_marker(line: &str) -> bool {
    line.starts_with("*** ")
}

/// Returns the line that an `@@` names, if it names one. Numbers of lines, as
/// other patches have them, are no line.
fn named(anchor: &str) -> Option<String> {
    let anchor = anchor.strip_prefix(' ').unwrap_or(anchor).trim_end();
    let is_numbers = anchor.starts_with('-') && anchor.contains(" +") && anchor.contains("@@");
    (!anchor.is_empty() && !is_numbers).then(|| anchor.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(body: &str) -> String {
        format!("*** Begin Patch\n{body}*** End Patch")
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&[FilePatch], &str>) {
        let parsed = Patch::parse(text).map_err(|error| error.to_string());
        assert_eq!(
            parsed.as_ref().map(|Patch(files)| files.as_slice()),
            expected.map_err(str::to_owned).as_ref().map(|files| *files),
        );
    }

    fn kept(text: &str) -> Line {
        Line::Kept(text.to_owned())
    }

    fn removed(text: &str) -> Line {
        Line::Removed(text.to_owned())
    }

    fn added(text: &str) -> Line {
        Line::Added(text.to_owned())
    }

    fn update(to: Option<&str>, hunks: &[Hunk]) -> FilePatch {
        let (path, to) = ("a.rs".to_owned(), to.map(str::to_owned));
        FilePatch::Update { path, to, hunks: hunks.to_vec() }
    }

    #[test]
    fn other_paths_take_the_place_of_those_in_headers_alone() {
        let text = "*** Begin Patch\r\n*** Update File: /w/a\r\n*** Move to: /w/b\r\n@@\r\n-x\r\n\
                    +*** Add File: /w/c\r\n*** Add File: c\r\n+x\r\n*** Update File: d\r\n@@\r\n\
                    +*** Move to: e\r\n*** Delete File: f\r\n*** End Patch";
        let expected = text.replace("File: /w/a", "File: a").replace("to: /w/b", "to: b");
        let mut given = Vec::new();
        let other = |path: &str, is_name: bool| {
            given.push((path.to_owned(), is_name));
            path.strip_prefix("/w/").map(str::to_owned)
        };
        assert_eq!(with_other_paths(text, other), Some(expected));
        let names = [("/w/a", true), ("/w/b", true), ("c", false), ("d", false), ("f", true)];
        assert_eq!(given, names.map(|(path, is_name)| (path.to_owned(), is_name)));
        assert_eq!(with_other_paths(text, |_, _| None), None);
    }

    #[test]
    fn all_that_can_become_of_a_file_is_read() {
        let text = wrapped(
            "*** Add File: new/b.rs\n+one\n+\n+ two\n\n*** Delete File: old.rs\n\
             *** Update File: a.rs\n*** Move to: c.rs\n@@ impl A\n@@ fn b\n x\n-y\n+z\n\n@@\n+end\n\
             *** End of File\n",
        );
        let first = Hunk {
            anchors: vec!["impl A".to_owned(), "fn b".to_owned()],
            lines: vec![kept("x"), removed("y"), added("z")],
            at_end: false,
        };
        let second = Hunk { anchors: vec![], lines: vec![added("end")], at_end: true };
        let expected = [
            FilePatch::Add { path: "new/b.rs".to_owned(), content: "one\n\n two\n".to_owned() },
            FilePatch::Delete { path: "old.rs".to_owned() },
            update(Some("c.rs"), &[first, second]),
        ];
        check(&text, Ok(&expected));
        check(&format!("\r\n{}\r\n", text.replace('\n', "\r\n")), Ok(&expected));
        let patch = Patch::parse(&text).unwrap();
        assert_eq!(patch.paths().collect::<Vec<_>>(), ["new/b.rs", "old.rs", "a.rs", "c.rs"]);
    }

    #[test]
    fn what_models_leave_out_is_put_in() {
        let hunk = Hunk { lines: vec![kept("x"), kept(""), removed("y")], ..Hunk::default() };
        check(
            &wrapped("*** Update File: a.rs\n x\n\n-y\n"),
            Ok(&[update(None, std::slice::from_ref(&hunk))]),
        );
        let numbers = "*** Update File: a.rs\n@@ -1,3 +1,2 @@ fn a() {\n x\n\n-y\n\n\n";
        check(&wrapped(numbers), Ok(&[update(None, &[hunk])]));
        check(
            &wrapped("*** Update File: a.rs\n*** Move to: b.rs\n"),
            Ok(&[update(Some("b.rs"), &[])]),
        );
    }

    #[test]
    fn empty_lines_of_a_new_file_stay_but_for_those_behind_it() {
        let add = |path: &str, content: &str| FilePatch::Add {
            path: path.to_owned(),
            content: content.to_owned(),
        };
        check(
            &wrapped("*** Add File: a\n+x\n\n \n+y\n\n\n*** Add File: b\n\n+z\n\n"),
            Ok(&[add("a", "x\n\n\ny\n"), add("b", "\nz\n")]),
        );
    }

    #[test]
    fn what_is_no_patch_is_refused_with_the_line() {
        check("", Err("a patch begins with the line `*** Begin Patch`"));
        check("--- a\n+++ b\n", Err("a patch begins with the line `*** Begin Patch`"));
        let cut = "the patch does not end with the line `*** End Patch`";
        check("*** Begin Patch", Err(cut));
        check("*** Begin Patch\n*** Add File: a\n+x", Err(cut));
        check(&wrapped(""), Err("the patch changes nothing"));
        let files = "there must be `*** Add File: PATH`, `*** Delete File: PATH` or \
                     `*** Update File: PATH`";
        check(&wrapped("x\n"), Err(&format!("line 2 of the patch is `x`; {files}")));
        let nameless = format!("line 2 of the patch is `*** Add File:`; {files}");
        check(&wrapped("*** Add File: \n+x\n"), Err(&nameless));
        check(
            &wrapped("*** Delete File: a\n*** Move to: b\n"),
            Err(&format!("line 3 of the patch is `*** Move to: b`; {files}")),
        );
        check(
            &wrapped("*** Add File: a\nx\n"),
            Err("line 3 of the patch is `x`; there must be `+` and a line of the new file"),
        );
        check(
            &wrapped("*** Update File: a\n@@\nx\n"),
            Err("line 4 of the patch is `x`; there must be a line of a hunk, which begins with a \
                 space, `-` or `+`, or `@@`, or a line that begins with `***`"),
        );
        let nothing = "changes nothing; lines that come begin with `+`, lines that go with `-`";
        check(&wrapped("*** Update File: a\n"), Err(&format!("a of the patch {nothing}")));
        check(
            &wrapped("*** Update File: a\n@@\n x\n"),
            Err(&format!("hunk 1 of a of the patch {nothing}")),
        );
    }

    #[test]
    fn a_patch_is_bounded() {
        let files = |count: usize| wrapped(&"*** Delete File: a\n".repeat(count));
        assert!(Patch::parse(&files(FILES_CAP)).is_ok());
        check(&files(FILES_CAP + 1), Err("a patch has at most 100 files; make several"));
        let hunks =
            |count: usize| wrapped(&format!("*** Update File: a\n{}", "@@\n-x\n".repeat(count)));
        assert!(Patch::parse(&hunks(HUNKS_CAP)).is_ok());
        check(&hunks(HUNKS_CAP + 1), Err("a patch has at most 500 hunks; make several"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(lines in proptest::collection::vec("[-+ @*x\r]{0,4}|\\*\\*\\* (Add File:|Update File:|Move to:|End of File|End Patch) ?é?", 0..12)) {
            let _ = Patch::parse(&wrapped(&(lines.join("\n") + "\n")));
        }
    }
}
