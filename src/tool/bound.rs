//! Cuts what is too long for a context: head and tail stay, a file keeps all.
//!
//! Any output may go through [`bounded`]. The Bash tool, whose output may be
//! too large for memory, brings its own head and tail and uses [`cut`].

use std::io;
use std::path::PathBuf;

use crate::session::Spill;

use super::OUTPUT_CAP;

/// The head's share of what is kept, in hundredths. The tail gets more: errors
/// and totals stand at the end.
const HEAD_SHARE: usize = 40;

/// Returns `text` as it is if it fits [`OUTPUT_CAP`]; else its head and tail,
/// the number of bytes left out, and the spill file that holds all of it.
#[must_use]
pub fn bounded(text: String, spill: &Spill, name: &str) -> String {
    bounded_by(OUTPUT_CAP, text, spill, name)
}

/// Does the same as [`bounded`] for an output that may be longer or shorter.
#[must_use]
pub fn bounded_by(cap: usize, text: String, spill: &Spill, name: &str) -> String {
    if fits(&text, cap) {
        return text;
    }
    let kept = spill.keep(name, &text);
    let bytes = text.as_bytes();
    let total = u64::try_from(bytes.len()).expect("a length fits 64 bits");
    cut(&TooLong { head: bytes, tail: bytes, total }, &kept, cap)
}

/// Tells whether a text has at most `cap` characters.
#[must_use]
pub fn fits(text: &str, cap: usize) -> bool {
    text.len() <= cap || text.chars().nth(cap).is_none()
}

/// Returns the first `cap` characters of a line, and how many were dropped.
#[must_use]
pub fn first_characters(line: &str, cap: usize) -> (&str, usize) {
    match line.char_indices().nth(cap) {
        Some((at, _)) => (&line[..at], line[at..].chars().count()),
        None => (line, 0),
    }
}

/// Most characters of a name in a sentence that says it is not known: what is
/// longer was never meant as a name.
const NAME_CAP: usize = 80;

/// Returns a name as a sentence may hold it: cut if it is too long for one.
#[must_use]
pub fn short_name(name: &str) -> String {
    match first_characters(name, NAME_CAP) {
        (whole, 0) => whole.to_owned(),
        (start, _) => format!("{start}…"),
    }
}

/// Something that is cut: as much of both ends as is at hand.
#[derive(Debug, Clone, Copy)]
pub struct TooLong<'a> {
    /// Its first bytes.
    pub head: &'a [u8],
    /// Its last bytes.
    pub tail: &'a [u8],
    /// How many bytes it has; more than `room` of [`cut`].
    pub total: u64,
}

/// Returns head, notice and tail in at most `room` characters.
///
/// `kept` is the file that holds all of it, or why there is none.
#[must_use]
pub fn cut(long: &TooLong<'_>, kept: &io::Result<PathBuf>, room: usize) -> String {
    // The notice with the largest number it can have says how much room is left.
    let left = room.saturating_sub(notice(long.total, kept).len());
    let head = whole_characters_before(long.head, left * HEAD_SHARE / 100);
    let tail = whole_characters_after(long.tail, left - left * HEAD_SHARE / 100);
    let shown = u64::try_from(head.len() + tail.len()).expect("a length fits 64 bits");
    format!(
        "{}{}{}",
        String::from_utf8_lossy(head),
        notice(long.total.saturating_sub(shown), kept),
        String::from_utf8_lossy(tail)
    )
}

fn notice(left_out: u64, kept: &io::Result<PathBuf>) -> String {
    match kept {
        Ok(path) => {
            let path = crate::path_text::to_text(path);
            format!("\n[... {left_out} bytes left out; the whole text is in {path} ...]\n")
        }
        Err(error) => format!("\n[... {left_out} bytes left out and not kept: {error} ...]\n"),
    }
}

fn whole_characters_before(bytes: &[u8], most: usize) -> &[u8] {
    let mut end = most.min(bytes.len());
    while end > 0 && end < bytes.len() && is_continuation(bytes[end]) {
        end -= 1;
    }
    &bytes[..end]
}

fn whole_characters_after(bytes: &[u8], most: usize) -> &[u8] {
    let mut start = bytes.len().saturating_sub(most);
    while start > 0 && start < bytes.len() && is_continuation(bytes[start]) {
        start += 1;
    }
    &bytes[start..]
}

/// Tells whether a byte goes on with a UTF-8 character that began before it.
#[must_use]
pub fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spill() -> (tempfile::TempDir, Spill) {
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().join("spill") };
        (place, spill)
    }

    #[test]
    fn what_fits_is_left_alone_and_no_file_is_made() {
        let (_place, spill) = spill();
        for text in ["x".repeat(OUTPUT_CAP), "ß".repeat(OUTPUT_CAP)] {
            assert_eq!(bounded(text.clone(), &spill, "x"), text);
        }
        assert!(!spill.directory.exists());
    }

    #[test]
    fn what_is_too_long_keeps_head_and_tail_and_the_rest_is_in_the_named_file() {
        let (_place, spill) = spill();
        let text: String = (0..5_000).map(|number| format!("{number}\n")).collect();
        let short = bounded(text.clone(), &spill, "numbers");
        let path = spill.directory.join("numbers.txt");
        assert!(short.starts_with("0\n1\n2\n"));
        assert!(short.ends_with("4998\n4999\n"));
        assert!(fits(&short, OUTPUT_CAP));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);

        let (head, rest) = short.split_once("\n[... ").unwrap();
        let (number, rest) = rest.split_once(" bytes left out; the whole text is in ").unwrap();
        let (named, tail) = rest.split_once(" ...]\n").unwrap();
        assert_eq!(named, path.to_str().unwrap());
        assert_eq!(number.parse::<usize>().unwrap() + head.len() + tail.len(), text.len());
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let (_place, spill) = spill();
        for odd in ["", "x", "xx", "xxx"] {
            let short = bounded(format!("{odd}{}", "😀".repeat(OUTPUT_CAP)), &spill, "x");
            assert!(!short.contains('\u{FFFD}'));
            assert!(fits(&short, OUTPUT_CAP));
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_is_said_and_the_text_is_still_bounded() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        let spill = Spill { directory: place.path().join("file") };
        let short = bounded("x".repeat(OUTPUT_CAP + 1), &spill, "x");
        assert!(short.contains(" bytes left out and not kept: "));
        assert!(fits(&short, OUTPUT_CAP));
    }

    #[test]
    fn a_name_is_cut_where_it_is_no_name_any_more() {
        assert_eq!(short_name("Read"), "Read");
        assert_eq!(short_name(&"x".repeat(200_000)), format!("{}…", "x".repeat(80)));
    }

    #[test]
    fn a_line_gives_its_first_characters_and_the_number_of_the_others() {
        assert_eq!(first_characters("größe", 3), ("grö", 2));
        assert_eq!(first_characters("größe", 5), ("größe", 0));
    }
}
