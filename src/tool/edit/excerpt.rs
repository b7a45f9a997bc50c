//! The lines around a change, as an output shows them.

use super::find;
use crate::tool::bound::first_characters;

/// Unchanged lines shown on each side of a change.
const AROUND: usize = 3;

/// Most lines of an excerpt: enough to check a change, not a second copy of it.
pub(super) const EXCERPT_LINES: usize = 30;

/// Most characters of an excerpt's line.
pub(super) const EXCERPT_LINE: usize = 300;

/// Returns the numbered lines around `length` bytes at `place`, bounded.
pub(in crate::tool) fn excerpt(bytes: &[u8], place: usize, length: usize) -> String {
    let first = find::line_number(bytes, place);
    let last = find::line_number(bytes, place + length);
    numbered(bytes, first.saturating_sub(AROUND).max(1), last + AROUND)
}

/// Returns the lines from one number to another, both from 1, bounded.
pub(in crate::tool) fn numbered(bytes: &[u8], from: usize, to: usize) -> String {
    let start = match from {
        1 => Some(0),
        later => memchr::memchr_iter(b'\n', bytes).nth(later - 2).map(|feed| feed + 1),
    };
    // What follows the last line feed is a line only if it is something.
    let lines =
        start.map_or(&[][..], |start| &bytes[start..]).split_inclusive(|&byte| byte == b'\n');
    let mut text = String::new();
    for (at, line) in (from - 1..).zip(lines).take((to + 1 - from).min(EXCERPT_LINES)) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let (start, dropped) = first_characters(line.trim_end_matches('\r'), EXCERPT_LINE);
        let dots = if dropped > 0 { "…" } else { "" };
        text.push_str(&format!("{:>6}\t{start}{dots}\n", at + 1));
    }
    if to + 1 - from > EXCERPT_LINES {
        text.push_str("   ...\n");
    }
    text
}
