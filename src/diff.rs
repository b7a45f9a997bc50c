//! Unified diffs as git writes them, parsed into values.
//!
//! A hunk is read by the counts of its header, so a removed line that looks
//! like a file header is still a removed line. Text that is no diff is skipped;
//! nothing here fails or panics.

use std::iter::Peekable;
use std::str::Split;

/// What a diff says about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path before the change; `None` if the file was added.
    pub old_path: Option<String>,
    /// The path after the change; `None` if the file was deleted.
    pub new_path: Option<String>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Whether the diff holds no lines because the content is not text.
    pub binary: bool,
    /// The changed places, in order. None if only the name or mode changed.
    pub hunks: Vec<Hunk>,
}

/// What can happen to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content or mode changed.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path, and maybe other content.
    Renamed,
    /// It was made from another file that is still there.
    Copied,
}

/// One changed place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The first line before the change, from 1; 0 if there was none.
    pub old_start: u32,
    /// The first line after the change, from 1; 0 if there is none.
    pub new_start: u32,
    /// The text after the second `@@`: the line git takes for the head of the
    /// function the hunk is in. May be empty.
    pub section: String,
    /// The lines, in order.
    pub lines: Vec<Line>,
}

/// A line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Whether it was there before, is there now, or both.
    pub kind: LineKind,
    /// Its number in the file after the change; before it, if it is removed.
    pub number: u32,
    /// The text without the sign and without the newline.
    pub text: String,
}

/// The sides a line is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// On both.
    Context,
    /// Only after the change.
    Added,
    /// Only before the change.
    Removed,
}

impl FileChange {
    /// Returns the path people know the file by: the new one where there is
    /// one.
    #[must_use]
    pub fn path(&self) -> &str {
        self.new_path.as_deref().or(self.old_path.as_deref()).unwrap_or_default()
    }

    /// Returns the lines that are new.
    pub fn added(&self) -> impl Iterator<Item = &Line> {
        self.lines_of(LineKind::Added)
    }

    /// Returns the lines that are gone.
    pub fn removed(&self) -> impl Iterator<Item = &Line> {
        self.lines_of(LineKind::Removed)
    }

    fn lines_of(&self, kind: LineKind) -> impl Iterator<Item = &Line> {
        self.hunks.iter().flat_map(|hunk| &hunk.lines).filter(move |line| line.kind == kind)
    }
}

/// A file of a diff with the text that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<'a> {
    /// What the text says.
    pub file: FileChange,
    /// The lines before the first hunk.
    pub head: &'a str,
    /// The text of each hunk of the file, with its header and with the mark
    /// that stands behind a last line without an end.
    pub hunks: Vec<&'a str>,
    /// Whether the diff has several old sides, as that of a merge has. Then no
    /// hunk is read: all of it is in `head`.
    pub is_combined: bool,
}

/// Parses every file of a git diff. What stands before, between and after the
/// files is skipped; a hunk that is cut off keeps the lines it has.
#[must_use]
pub fn parse(text: &str) -> Vec<FileChange> {
    let pieces = pieces(text).into_iter();
    pieces.filter(|piece| !piece.is_combined).map(|piece| piece.file).collect()
}

/// Parses the same, and keeps the text of each file and hunk.
#[must_use]
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut lines = text.split('\n').peekable();
    let mut pieces = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let (file, hunks) = parse_file(names, &mut lines);
            pieces.push(piece(text, line, (file, &hunks), lines.peek()));
        } else if let Some(name) = combined(line) {
            let path = Some(unquote(name));
            let (old_path, new_path) = (path.clone(), path);
            let (kind, hunks) = (ChangeKind::Modified, Vec::new());
            let file = FileChange { old_path, new_path, kind, binary: false, hunks };
            while lines.next_if(|line| !begins_file(line)).is_some() {}
            let piece = piece(text, line, (file, &[]), lines.peek());
            pieces.push(Piece { is_combined: true, ..piece });
        }
    }
    pieces
}

type Lines<'a> = Peekable<Split<'a, char>>;

/// Cuts the text of a file out of a diff: from its first line to the next
/// file's, if there is one.
fn piece<'a>(
    text: &'a str,
    first: &str,
    (file, hunks): (FileChange, &[&str]),
    next: Option<&&str>,
) -> Piece<'a> {
    // Every line is a part of the text.
    let place = |line: &str| line.as_ptr().addr() - text.as_ptr().addr();
    let end = next.map_or(text.len(), |next| place(next));
    let mut starts = hunks.iter().map(|hunk| place(hunk)).chain([end]).peekable();
    let head = &text[place(first)..starts.peek().copied().unwrap_or(end)];
    let mut pieces = Vec::with_capacity(hunks.len());
    while let (Some(start), Some(&behind)) = (starts.next(), starts.peek()) {
        pieces.push(&text[start..behind]);
    }
    Piece { file, head, hunks: pieces, is_combined: false }
}

/// The name in the first line of a file's diff that has several old sides.
fn combined(line: &str) -> Option<&str> {
    line.strip_prefix("diff --cc ").or_else(|| line.strip_prefix("diff --combined "))
}

fn begins_file(line: &str) -> bool {
    line.starts_with("diff --git ") || combined(line).is_some()
}

/// Parses a file and returns it with the header of each of its hunks.
fn parse_file<'a>(names: &str, lines: &mut Lines<'a>) -> (FileChange, Vec<&'a str>) {
    let (old, new) = names_of_both(names);
    let mut headers = Vec::new();
    let mut file = FileChange {
        old_path: old,
        new_path: new,
        kind: ChangeKind::Modified,
        binary: false,
        hunks: Vec::new(),
    };
    while let Some(&line) = lines.peek() {
        if begins_file(line) {
            break;
        }
        lines.next();
        if let Some(hunk) = line.strip_prefix("@@ ").and_then(parse_hunk_header) {
            headers.push(line);
            file.hunks.push(parse_hunk(hunk, lines));
        } else if file.hunks.is_empty() {
            read_header_line(&mut file, line);
        }
    }
    match file.kind {
        ChangeKind::Added => file.old_path = None,
        ChangeKind::Deleted => file.new_path = None,
        ChangeKind::Modified | ChangeKind::Renamed | ChangeKind::Copied => {}
    }
    (file, headers)
}

/// Takes in one line between `diff --git` and the first hunk.
fn read_header_line(file: &mut FileChange, line: &str) {
    if line.starts_with("new file mode ") {
        file.kind = ChangeKind::Added;
    } else if line.starts_with("deleted file mode ") {
        file.kind = ChangeKind::Deleted;
    } else if let Some(path) = line.strip_prefix("rename from ") {
        file.kind = ChangeKind::Renamed;
        file.old_path = Some(unquote(path));
    } else if let Some(path) = line.strip_prefix("copy from ") {
        file.kind = ChangeKind::Copied;
        file.old_path = Some(unquote(path));
    } else if let Some(path) =
        line.strip_prefix("rename to ").or_else(|| line.strip_prefix("copy to "))
    {
        file.new_path = Some(unquote(path));
    } else if let Some(path) = line.strip_prefix("--- ") {
        file.old_path = side(path, "a/").or(file.old_path.take());
    } else if let Some(path) = line.strip_prefix("+++ ") {
        file.new_path = side(path, "b/").or(file.new_path.take());
    } else if line.starts_with("Binary files ") || line == "GIT binary patch" {
        file.binary = true;
    }
}

/// The path of a `---` or `+++` line; `None` for `/dev/null`.
fn side(path: &str, prefix: &str) -> Option<String> {
    // Git ends a name that holds a space with a tab.
    let path = unquote(path.strip_suffix('\t').unwrap_or(path));
    if path == "/dev/null" {
        return None;
    }
    Some(path.strip_prefix(prefix).unwrap_or(&path).to_owned())
}

/// The paths of a `diff --git` line. Without quotes it is ambiguous where a
/// name holds a space, but then both names are the same, or the lines below
/// say what they are.
fn names_of_both(names: &str) -> (Option<String>, Option<String>) {
    let (old, new) = if names.starts_with('"') {
        let end = end_of_quoted(names);
        (&names[..end], names[end..].trim_start())
    } else if let Some(at) = names.find(" \"") {
        (&names[..at], &names[at + 1..])
    } else if names.len() % 2 == 1 && names.as_bytes()[names.len() / 2] == b' ' {
        (&names[..names.len() / 2], &names[names.len() / 2 + 1..])
    } else {
        names.split_once(' ').unwrap_or((names, names))
    };
    (side(old, "a/"), side(new, "b/"))
}

/// Where the quoted text that `text` begins with ends.
fn end_of_quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\\' if !escaped => escaped = true,
            b'"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Decodes a name that git put in quotes: C escapes and octal bytes.
fn unquote(name: &str) -> String {
    let Some(inner) = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some(escape) = rest.next() else { break };
        bytes.push(match escape {
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            b'0'..=b'7' => {
                let mut value = escape - b'0';
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) else {
                        break;
                    };
                    value = value.wrapping_mul(8).wrapping_add(digit - b'0');
                }
                value
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A hunk that still misses lines.
struct Open {
    hunk: Hunk,
    old_left: u32,
    new_left: u32,
}

/// Parses what follows the first `@@ ` of a hunk's header.
fn parse_hunk_header(header: &str) -> Option<Open> {
    let (ranges, section) = header.split_once(" @@")?;
    let (old, new) = ranges.split_once(' ')?;
    let (old_start, old_left) = parse_range(old.strip_prefix('-')?)?;
    let (new_start, new_left) = parse_range(new.strip_prefix('+')?)?;
    let section = section.trim().to_owned();
    Some(Open {
        hunk: Hunk { old_start, new_start, section, lines: Vec::new() },
        old_left,
        new_left,
    })
}

/// Parses `START,COUNT` or `START`, which means one line.
fn parse_range(range: &str) -> Option<(u32, u32)> {
    match range.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((range.parse().ok()?, 1)),
    }
}

fn parse_hunk(open: Open, lines: &mut Lines<'_>) -> Hunk {
    let Open { mut hunk, mut old_left, mut new_left } = open;
    let (mut old_number, mut new_number) = (hunk.old_start, hunk.new_start);
    while old_left > 0 || new_left > 0 {
        let Some(line) = lines.next_if(|line| is_hunk_line(line)) else { break };
        let (kind, number) = match line.as_bytes().first() {
            Some(b'+') => (LineKind::Added, new_number),
            Some(b'-') => (LineKind::Removed, old_number),
            Some(b'\\') => continue,
            // A context line that is empty may have lost its space.
            Some(_) | None => (LineKind::Context, new_number),
        };
        if kind != LineKind::Added {
            old_left = old_left.saturating_sub(1);
            old_number = old_number.saturating_add(1);
        }
        if kind != LineKind::Removed {
            new_left = new_left.saturating_sub(1);
            new_number = new_number.saturating_add(1);
        }
        let text = line.get(1..).unwrap_or_default().to_owned();
        hunk.lines.push(Line { kind, number, text });
    }
    hunk
}

fn is_hunk_line(line: &str) -> bool {
    line.is_empty() || line.starts_with([' ', '+', '-', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(old: Option<&str>, new: Option<&str>, kind: ChangeKind) -> FileChange {
        FileChange {
            old_path: old.map(str::to_owned),
            new_path: new.map(str::to_owned),
            kind,
            binary: false,
            hunks: Vec::new(),
        }
    }

    fn line(kind: LineKind, number: u32, text: &str) -> Line {
        Line { kind, number, text: text.to_owned() }
    }

    #[test]
    fn lines_are_numbered_on_their_side() {
        let text = "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n\
                    @@ -3,3 +3,4 @@ fn main() {\n one\n-two\n+2\n+3\n\n\\ No newline at end of file\n";
        let hunk = Hunk {
            old_start: 3,
            new_start: 3,
            section: "fn main() {".to_owned(),
            lines: vec![
                line(LineKind::Context, 3, "one"),
                line(LineKind::Removed, 4, "two"),
                line(LineKind::Added, 4, "2"),
                line(LineKind::Added, 5, "3"),
                line(LineKind::Context, 6, ""),
            ],
        };
        let expected = FileChange {
            hunks: vec![hunk],
            ..file(Some("src/a.rs"), Some("src/a.rs"), ChangeKind::Modified)
        };
        assert_eq!(parse(text), [expected]);
    }

    #[test]
    fn lines_that_look_like_headers_are_counted_as_lines() {
        let text = "diff --git a/a.sql b/a.sql\n--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n\
                    --- a/old comment\n+++ b/new comment\n diff --git a/x b/x\n\
                    diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n";
        let files = parse(text);
        assert_eq!(files.iter().map(FileChange::path).collect::<Vec<_>>(), ["a.sql", "b"]);
        assert_eq!(
            files[0].hunks[0].lines,
            [
                line(LineKind::Removed, 1, "-- a/old comment"),
                line(LineKind::Added, 1, "++ b/new comment"),
                line(LineKind::Context, 2, "diff --git a/x b/x"),
            ]
        );
        assert_eq!(files[1].added().collect::<Vec<_>>(), [&line(LineKind::Added, 1, "y")]);
        assert_eq!(files[1].removed().collect::<Vec<_>>(), [&line(LineKind::Removed, 1, "x")]);
    }

    #[test]
    fn every_kind_of_change_is_told() {
        let text = "some words first\n\
            diff --git a/new file b/new file\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/new file\t\n@@ -0,0 +1 @@\n+x\n\
            diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\
            diff --git a/a b/c/d e\nsimilarity index 100%\nrename from a\nrename to c/d e\n\
            diff --git a/run b/run\nold mode 100644\nnew mode 100755\n\
            diff --git a/p.png b/p.png\nindex 1..2 100644\nBinary files a/p.png and b/p.png differ\n\
            diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n";
        let mut files = parse(text);
        for file in &mut files {
            file.hunks.clear();
        }
        assert_eq!(
            files,
            [
                file(None, Some("new file"), ChangeKind::Added),
                file(Some("gone"), None, ChangeKind::Deleted),
                file(Some("a"), Some("c/d e"), ChangeKind::Renamed),
                file(Some("run"), Some("run"), ChangeKind::Modified),
                FileChange {
                    binary: true,
                    ..file(Some("p.png"), Some("p.png"), ChangeKind::Modified)
                },
                file(None, Some("empty"), ChangeKind::Added),
            ]
        );
    }

    #[test]
    fn quoted_names_are_decoded() {
        let text = "diff --git \"a/q\\\"u\\to\\303\\251\" \"b/q\\\"u\\to\\303\\251\"\nold mode 100644\n\
                    diff --git a/plain \"b/l\\nf\"\nrename from plain\nrename to \"l\\nf\"\n";
        assert_eq!(
            parse(text),
            [
                file(Some("q\"u\toé"), Some("q\"u\toé"), ChangeKind::Modified),
                file(Some("plain"), Some("l\nf"), ChangeKind::Renamed),
            ]
        );
    }

    #[test]
    fn a_diff_that_is_cut_off_keeps_what_it_has() {
        let text = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n+x";
        assert_eq!(parse(text)[0].hunks[0].lines, [line(LineKind::Added, 1, "x")]);
    }

    #[test]
    fn each_hunk_keeps_its_text_and_nothing_is_lost_between_them() {
        let (first, second) =
            ("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "@@ -9 +9 @@\n-x\n+y\r\n");
        let head = "diff --git a/a b/a\n--- a/a\n+++ b/a\n";
        let merged = "diff --cc m\nindex 1,2..3\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n";
        let empty = "diff --git a/e b/e\nnew file mode 100644\n";
        let text = format!("{head}{first}{second}{merged}{empty}");
        let pieces = pieces(&text);
        let texts: Vec<_> = pieces.iter().map(|it| (it.head, &*it.hunks, it.is_combined)).collect();
        let hunks = [first, second];
        assert_eq!(texts, [(head, &hunks[..], false), (merged, &[], true), (empty, &[], false)]);
        assert_eq!(pieces[1].file.path(), "m");
        let parsed = parse(&text);
        assert_eq!(parsed.iter().map(FileChange::path).collect::<Vec<_>>(), ["a", "e"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("diff --git ".to_owned()),
                    Just("\ndiff --cc ".to_owned()),
                    Just("@@ -4294967295,2 +4294967295,2 @@\n".to_owned()),
                    Just("--- ".to_owned()),
                    Just("rename to \"".to_owned()),
                    "[ab/ \"\\\\\n+é0-9-]{0,12}",
                    ".{0,6}",
                ],
                0..20,
            ),
        ) {
            let text = parts.concat();
            for file in parse(&text) {
                prop_assert!(file.added().count() <= text.lines().count());
            }
            for piece in pieces(&text) {
                prop_assert_eq!(piece.hunks.len(), piece.file.hunks.len());
                let kept = piece.head.len() + piece.hunks.concat().len();
                prop_assert!(kept <= text.len());
            }
        }
    }
}
