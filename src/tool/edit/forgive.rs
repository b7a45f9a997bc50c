//! Finds whole lines that differ from a text only in the white space at their
//! ends, and fits the new text to them.

use std::ops::Range;

use super::find;
use super::indent::{Shift, is_blank};

/// Where a text stands, but for white space at the ends of lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nowhere.
    Nowhere,
    /// In one place.
    Once(Fitted),
    /// At these places.
    Several(Vec<usize>),
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
}

/// A text as lines.
struct Text<'a> {
    lines: Vec<&'a [u8]>,
    /// Whether the last line is ended. What is behind its end is white space.
    ended: bool,
}

impl<'a> Text<'a> {
    fn of(text: &'a [u8]) -> Self {
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        let ended = lines.len() > 1 && lines.last().is_some_and(|line| is_blank(line));
        // The white space in front of a line that is not part of the text.
        lines.truncate(lines.len() - usize::from(ended || text.is_empty()));
        Self { lines, ended }
    }
}

/// Looks for the lines of `old`, and fits `new` to the only place.
pub(super) fn find(bytes: &[u8], old: &[u8], new: &[u8]) -> Found {
    let (old, new) = (Text::of(old), Text::of(new));
    if old.lines.iter().all(|line| is_blank(line)) {
        return Found::Nowhere;
    }
    let mark =
        if bytes.starts_with(find::BYTE_ORDER_MARK) { find::BYTE_ORDER_MARK.len() } else { 0 };
    let lines: Vec<&[u8]> = bytes[mark..].split_inclusive(|&byte| byte == b'\n').collect();
    let wanted: Vec<&[u8]> = old.lines.iter().map(|line| line.trim_ascii()).collect();
    let start_of = |line: usize| mark + lines[..line].iter().map(|line| line.len()).sum::<usize>();
    match find::overlapping(lines.iter().map(|line| line.trim_ascii()), &wanted)[..] {
        [] => Found::Nowhere,
        [first] => {
            let found = &lines[first..first + wanted.len()];
            Found::Once(fitted(bytes, start_of(first), found, &old, &new))
        }
        ref places => Found::Several(places.iter().map(|&line| start_of(line)).collect()),
    }
}

fn fitted(bytes: &[u8], start: usize, found: &[&[u8]], old: &Text<'_>, new: &Text<'_>) -> Fitted {
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
    let own = new.lines.iter().any(|line| line.contains(&b'\r'));
    let end: &[u8] = if is_crlf && !own { b"\r\n" } else { b"\n" };
    let shift = Shift::between(old.lines.iter().copied().zip(found.iter().copied()));
    let moved = shift.as_ref().and_then(|shift| shift.moved(&new.lines));
    let lines =
        moved.clone().unwrap_or_else(|| new.lines.iter().map(|line| line.to_vec()).collect());
    let mut text = lines.join(end);
    // A file whose last line has no end keeps it that way.
    if new.ended && !(old.ended && last_end.is_empty()) {
        text.extend_from_slice(end);
    }
    let is_moved = moved.is_some() && shift.is_some_and(|shift| shift != Shift::Nothing);
    Fitted { place, new: text, moved: is_moved }
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
        match find(bytes.as_bytes(), old.as_bytes(), new.as_bytes()) {
            Found::Once(Fitted { place, new, moved: _ }) => {
                let (before, rest) = (&bytes[..place.start], &bytes[place.end..]);
                assert_eq!(format!("{before}{}{rest}", String::from_utf8(new).unwrap()), after);
            }
            found @ (Found::Nowhere | Found::Several(_)) => panic!("{found:?}"),
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
    }

    #[test]
    fn different_white_space_leaves_the_new_text_as_it_is() {
        check("\ta\n\t\tb\n", "  a\n    b", "  x\n    y", "  x\n    y\n");
    }

    #[test]
    fn what_fits_nowhere_or_in_several_places_is_not_fitted() {
        assert_eq!(find(b"a  b\n", b"a b", b"x"), Found::Nowhere);
        assert_eq!(find(b"a\n\n", b" \n ", b"x"), Found::Nowhere);
        assert_eq!(find(b" a\nb\n\ta\n", b"a ", b"x"), Found::Several(vec![0, 5]));
        // Places that overlap are two places.
        assert_eq!(find(b" a\n a\n a\n", b"a\na\n", b"x"), Found::Several(vec![0, 3]));
    }
}
