//! Finds the place of a text that a model did not copy exactly: whole lines that differ
//! in the white space at their ends, or any text in which characters look like others.
//!
//! What the model does not change stays as the file has it; see `rewrite`.

use std::borrow::Cow;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::find;
use super::indent::{IndentStyle, LinePair, indentation, is_blank};
use super::rewrite::{LineOp, ResultLine, UnknownIndent, rewrite};
use crate::look_alike::{PlainText, merged, named_differences};

/// Places of a text, apart from differences that are forgiven.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nowhere.
    Nowhere,
    /// In one place.
    Once(Fitted),
    /// In one place, but the indentation of a new line there is unknown.
    UnknownIndent(Range<usize>, UnknownIndent),
    /// At these places.
    Several(Vec<usize>, Leniency),
}

/// Differences that a match forgives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tool) enum Leniency {
    /// White space at the start or end of lines.
    Space,
    /// Characters that look alike; perhaps white space as well.
    Characters,
}

/// One place, and what goes there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fitted {
    /// The bytes that are replaced.
    pub(super) place: Range<usize>,
    /// The bytes that replace them.
    pub(super) new: Vec<u8>,
    /// Whether the new lines were indented as those in the file are.
    pub(super) moved: bool,
    pub(super) forgiven: Leniency,
    /// Names of the characters in the file that look like others in the text.
    pub(super) characters: Vec<String>,
}

/// A text as lines, without carriage returns at their ends.
struct Text<'a> {
    lines: Vec<&'a [u8]>,
    /// Whether the last line is ended. What is behind its end is white space.
    ended: bool,
}

impl<'a> Text<'a> {
    fn of(text: &'a [u8]) -> Self {
        let mut lines: Vec<&[u8]> = text
            .split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .collect();
        let ended = lines.len() > 1 && lines.last().is_some_and(|line| is_blank(line));
        // The white space in front of a line that is not part of the text.
        lines.truncate(lines.len() - usize::from(ended || text.is_empty()));
        Self { lines, ended }
    }
}

/// Looks for `old` by whatever is forgiven, the strictest first, and fits `new` to the
/// only place. Both have the line ends of the file.
pub(super) fn find(bytes: &[u8], old: &str, new: &str) -> Found {
    let or_else = |found: Found, next: &dyn Fn() -> Found| match found {
        Found::Nowhere => next(),
        Found::Once(_) | Found::UnknownIndent(..) | Found::Several(..) => found,
    };
    let found = find_lines(bytes, old, new, Leniency::Space);
    let found = or_else(found, &|| find_text(bytes, old, new));
    or_else(found, &|| find_lines(bytes, old, new, Leniency::Characters))
}

/// Returns the plain text of a line, without white space at its ends.
pub(in crate::tool) fn plain_line(line: &[u8]) -> Cow<'_, [u8]> {
    if line.is_ascii() {
        return Cow::Borrowed(line.trim_ascii());
    }
    Cow::Owned(PlainText::of(line).bytes.trim_ascii().to_vec())
}

/// Looks for a text in which characters may look like others.
fn find_text(bytes: &[u8], old: &str, new: &str) -> Found {
    if bytes.is_ascii() && old.is_ascii() {
        return Found::Nowhere;
    }
    let (plain, wanted) = (PlainText::of(bytes), PlainText::of(old.as_bytes()).bytes);
    if is_blank(&wanted) {
        return Found::Nowhere;
    }
    let place = |at: usize| plain.original(at..at + wanted.len());
    let places: Vec<Range<usize>> = match find::all(&plain.bytes, &wanted)[..] {
        [only] => {
            let second = find::second(&plain.bytes, &wanted, only);
            [Some(only), second].into_iter().flatten().filter_map(place).collect()
        }
        ref all => all.iter().filter_map(|at| place(*at)).collect(),
    };
    match &places[..] {
        [] => Found::Nowhere,
        [only] => {
            let real = &bytes[only.clone()];
            Found::Once(Fitted {
                place: only.clone(),
                new: merged(old, new, real),
                moved: false,
                forgiven: Leniency::Characters,
                characters: named_differences(old, real),
            })
        }
        places => {
            let starts = places.iter().map(|place| place.start).collect();
            Found::Several(starts, Leniency::Characters)
        }
    }
}

/// Looks for the lines of a text.
fn find_lines(bytes: &[u8], old: &str, new: &str, forgiven: Leniency) -> Found {
    let (old, new) = (Text::of(old.as_bytes()), Text::of(new.as_bytes()));
    if old.lines.iter().all(|line| is_blank(line)) {
        return Found::Nowhere;
    }
    let mark =
        if bytes.starts_with(find::BYTE_ORDER_MARK) { find::BYTE_ORDER_MARK.len() } else { 0 };
    let lines: Vec<&[u8]> = bytes[mark..].split_inclusive(|&byte| byte == b'\n').collect();
    let view = |line| match forgiven {
        Leniency::Space => Cow::Borrowed(<[u8]>::trim_ascii(line)),
        Leniency::Characters => plain_line(line),
    };
    let wanted: Vec<Cow<'_, [u8]>> = old.lines.iter().map(|line| view(line)).collect();
    let start_of = |line: usize| mark + lines[..line].iter().map(|line| line.len()).sum::<usize>();
    match find::overlapping(lines.iter().map(|line| view(line)), &wanted)[..] {
        [] => Found::Nowhere,
        [first] => {
            let found = &lines[first..first + wanted.len()];
            match fitted(bytes, start_of(first), found, &old, &new) {
                Ok(fitted) => Found::Once(Fitted { forgiven, ..fitted }),
                Err(unfit) => {
                    let start = start_of(first);
                    let length = found.iter().map(|line| line.len()).sum::<usize>();
                    Found::UnknownIndent(start..start + length, unfit)
                }
            }
        }
        ref places => Found::Several(places.iter().map(|&line| start_of(line)).collect(), forgiven),
    }
}

fn fitted(
    bytes: &[u8],
    start: usize,
    found: &[&[u8]],
    old: &Text<'_>,
    new: &Text<'_>,
) -> Result<Fitted, UnknownIndent> {
    let length: usize = found.iter().map(|line| line.len()).sum();
    let last_end = found.last().map_or(&b""[..], |line| line_end(line));
    // The end of the last line is replaced only if it was given.
    let place = start..start + length - if old.ended { 0 } else { last_end.len() };
    let ends: Vec<&[u8]> =
        found.iter().map(|line| line_end(line)).filter(|end| !end.is_empty()).collect();
    let is_crlf = match ends[..] {
        [] => find::only_crlf(bytes),
        ref ends => ends.iter().all(|end| *end == b"\r\n"),
    };
    let usual: &[u8] = if is_crlf { b"\r\n" } else { b"\n" };
    let pairs: Vec<LinePair<'_>> = old
        .lines
        .iter()
        .zip(found)
        .map(|(written, real)| LinePair {
            written,
            real: &real[..real.len() - line_end(real).len()],
        })
        .collect();
    let style = IndentStyle::of(bytes.split(|&byte| byte == b'\n'));
    let rows = rewrite(&pairs, &ops(&old.lines, &new.lines), style)?;
    let mut text = Vec::new();
    let count = rows.len();
    let mut before = usual;
    for (at, row) in rows.iter().enumerate() {
        let (line, own): (&[u8], Option<usize>) = match row {
            ResultLine::Real(index) => (pairs[*index].real, Some(*index)),
            ResultLine::New { line, replaced } => (line, *replaced),
        };
        let end = own.map_or(before, |index| line_end(found[index]));
        before = if end.is_empty() { usual } else { end };
        text.extend_from_slice(line);
        // A file whose last line has no end keeps it that way.
        let is_last = at + 1 == count;
        if !is_last || (new.ended && !(old.ended && last_end.is_empty())) {
            text.extend_from_slice(before);
        }
    }
    let moved = pairs.iter().any(|pair| indentation(pair.written) != indentation(pair.real));
    let has_new =
        rows.iter().any(|row| matches!(row, ResultLine::New { line, .. } if !is_blank(line)));
    let names = pairs
        .iter()
        .flat_map(|pair| named_differences(&String::from_utf8_lossy(pair.written), pair.real));
    let mut characters: Vec<String> = Vec::new();
    for name in names {
        if !characters.contains(&name) {
            characters.push(name);
        }
    }
    let forgiven = Leniency::Space;
    Ok(Fitted { place, new: text, moved: moved && has_new, forgiven, characters })
}

/// Returns what makes the lines `new` of the lines `old`.
fn ops<'a>(old: &[&'a [u8]], new: &[&'a [u8]]) -> Vec<LineOp<'a>> {
    let mut ops = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, old, new) {
        let one: fn(&'a [u8]) -> LineOp<'a> = LineOp::Add;
        match op {
            DiffOp::Equal { len, .. } => ops.extend(std::iter::repeat_n(LineOp::Keep, len)),
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                ops.extend(std::iter::repeat_n(LineOp::Remove, op.old_range().len()));
                ops.extend(new[op.new_range()].iter().copied().map(one));
            }
        }
    }
    ops
}

fn line_end(line: &[u8]) -> &[u8] {
    let length = match line {
        [.., b'\r', b'\n'] => 2,
        [.., b'\n'] => 1,
        _ => 0,
    };
    &line[line.len() - length..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, old: &str, new: &str, after: &str) {
        match find(bytes.as_bytes(), old, new) {
            Found::Once(Fitted { place, new, .. }) => {
                let (before, rest) = (&bytes[..place.start], &bytes[place.end..]);
                assert_eq!(format!("{before}{}{rest}", String::from_utf8(new).unwrap()), after);
            }
            found @ (Found::Nowhere | Found::UnknownIndent(..) | Found::Several(..)) => {
                panic!("{found:?}")
            }
        }
    }

    #[test]
    fn lines_are_found_whatever_white_space_is_at_their_ends() {
        check("x\n\tfn a() {  \n\t}\ny\n", "fn a() {\n}", "fn b() {\n}", "x\n\tfn b() {\n\t}\ny\n");
        check("    a\n    b\nc\n", "  a\n  b\n", "  x\n\n    y\n", "    x\n\n      y\nc\n");
        check("a\n b\nc", "a\nb\n  ", "d\n  ", "d\nc");
    }

    #[test]
    fn line_ends_a_mark_and_a_missing_last_end_survive() {
        check("a\r\n  b\r\nc\n", "b\n", "x\ny\n", "a\r\n  x\r\n  y\r\nc\n");
        check("\u{feff}  a\n  b", " a\n b\n", " x\n y\n", "\u{feff}  x\n  y");
        check("a\n  b\n", "a\r\nb\r\n", "a\r\nc\r\n", "a\n  c\n");
        check("a\r\n  b\nc\r\n", "a\nb\nc\n", "a\nb\nd\n", "a\r\n  b\nd\r\n");
    }

    #[test]
    fn the_files_own_indentation_is_written_for_the_models() {
        // Each level that was matched, and one more.
        check("\ta\n\t\tb\n", "  a\n    b", "  x\n    y", "\tx\n\t\ty\n");
        check(
            "\ta\n\t\tb\n",
            "    a\n        b\n",
            "    a\n        b\n            c\n",
            "\ta\n\t\tb\n\t\t\tc\n",
        );
        // Spaces for tabs, and tabs for spaces.
        check(
            "a:\n    b\n        c\n",
            "\tb\n\t\tc\n",
            "\tb\n\t\t\td\n",
            "a:\n    b\n            d\n",
        );
        // A Makefile, whose lines of variables have no tabs.
        check(
            "A = 1\nall:\n\tcc a\n\tcc b\n",
            "all:\n    cc a\n    cc b",
            "all:\n    cc a\n    cc c\n    ld",
            "A = 1\nall:\n\tcc a\n\tcc c\n\tld\n",
        );
        // Lines that stay keep what is at their ends.
        check(
            "\ta  \n\tb\t\n\tc\n",
            "    a\n    b\n    c\n",
            "    a\n    x\n    b\n    c\n",
            "\ta  \n\tx\n\tb\t\n\tc\n",
        );
        // A mixture is kept where it stays and where it is replaced.
        check(
            "\tif a:\n        b\n",
            "    if a:\n        b\n",
            "    if a:\n        c\n",
            "\tif a:\n        c\n",
        );
    }

    #[test]
    fn what_cannot_be_told_is_not_written() {
        let unfit = |bytes: &str, old: &str, new: &str| {
            matches!(find(bytes.as_bytes(), old, new), Found::UnknownIndent(..))
        };
        assert!(unfit("\ta\n\t\tb\n", "    a\n        b\n", "    a\n       c\n        b\n"));
        assert!(unfit("a\n  b\n", "a\nb \n", "a\nb\nc\n"));
        assert!(unfit("\t a\n", "    a\n", "    a\n        b\n"));
    }

    #[test]
    fn characters_that_look_alike_are_found_and_stay_where_nothing_is_changed() {
        check(
            "x \u{201c}a\u{a0}b\u{201d} y\n",
            "\"a b\"",
            "\"a c\"",
            "x \u{201c}a\u{a0}c\u{201d} y\n",
        );
        check("cafe\u{301} one\n", "caf\u{e9} one", "caf\u{e9} two", "cafe\u{301} two\n");
        check("a\u{200b}b\r\nc\u{ad}d\r\n", "ab\r\ncd", "ab\r\nxy", "a\u{200b}b\r\nxy\r\n");
        check("ｆ（a）\n", "f(a)", "f(b)", "ｆ（b）\n");
        // With other white space as well.
        check(
            "\tsay(\u{201c}a\u{201d})\n\tb\u{a0}c\n",
            "    say(\"a\")\n    b c\n",
            "    say(\"x\")\n    b c\n    d\n",
            "\tsay(\u{201c}x\u{201d})\n\tb\u{a0}c\n\td\n",
        );
        // The model's own no-break space, where the file has none.
        check("a b\n", "a\u{a0}b", "a\u{a0}c", "a c\n");
    }

    #[test]
    fn what_fits_nowhere_or_in_several_places_is_not_fitted() {
        let several = |places: &[usize], forgiven| Found::Several(places.to_vec(), forgiven);
        assert_eq!(find(b"a  b\n", "a b", "x"), Found::Nowhere);
        assert_eq!(find(b"a\n\n", " \n ", "x"), Found::Nowhere);
        assert_eq!(find(b" a\nb\n\ta\n", "a ", "x"), several(&[0, 5], Leniency::Space));
        // Places that overlap are two places.
        assert_eq!(find(b" a\n a\n a\n", "a\na\n", "x"), several(&[0, 3], Leniency::Space));
        let twice = "a\u{a0}b a\u{2009}b\n";
        assert_eq!(find(twice.as_bytes(), "a b", "x"), several(&[0, 5], Leniency::Characters));
        assert_eq!(find("\u{a0}\u{a0}x".as_bytes(), "  ", "x"), Found::Nowhere);
    }
}
