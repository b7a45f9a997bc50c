//! Characters that are easily taken for others: spaces of all kinds, characters of no
//! width, typographic quotes, letters written as several characters.
//!
//! A model reads and writes plain characters in their place. This file says which
//! plain text some bytes look like, and where in them each part of that text is. The
//! tools decide what to do with a match.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use crate::invisible::is_invisible;
use icu_normalizer::ComposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Maximum characters of one cluster. No letter of any script is longer.
const CLUSTER_CAP: usize = 32;

/// Returns text in Unicode's normal form C.
#[must_use]
pub fn composed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

/// The plain text that some bytes look like.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlainText {
    /// The text. Bytes that are not UTF-8 stand for themselves.
    pub bytes: Vec<u8>,
    /// The parts that are written differently in the original, in order.
    parts: Vec<FoldedPart>,
}

/// A part of a plain text, and the bytes that it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoldedPart {
    /// Empty for a character that is not shown.
    plain: Range<usize>,
    original: Range<usize>,
}

impl PlainText {
    /// Returns the plain text of `original`.
    #[must_use]
    pub fn of(original: &[u8]) -> Self {
        let mut plain = Self { bytes: Vec::with_capacity(original.len()), parts: Vec::new() };
        let mut at = 0;
        for chunk in original.utf8_chunks() {
            plain.push_text(chunk.valid(), at);
            at += chunk.valid().len() + chunk.invalid().len();
            plain.bytes.extend_from_slice(chunk.invalid());
        }
        plain
    }

    fn push_text(&mut self, text: &str, offset: usize) {
        for (at, cluster) in clusters(text) {
            let start = self.bytes.len();
            push_plain(&mut self.bytes, cluster);
            if self.bytes[start..] != *cluster.as_bytes() {
                let original = offset + at..offset + at + cluster.len();
                self.parts.push(FoldedPart { plain: start..self.bytes.len(), original });
            }
        }
    }

    /// Returns the original bytes of a part of the plain text; `None` if an edge of it
    /// is inside a character of the original. Characters that are not shown are left out
    /// at both edges.
    #[must_use]
    pub fn original(&self, plain: Range<usize>) -> Option<Range<usize>> {
        let offset = |part: Option<&FoldedPart>, at: usize| match part {
            Some(part) if part.plain.end > at => None,
            Some(part) => Some(part.original.end + (at - part.plain.end)),
            None => Some(at),
        };
        let before = self.parts.partition_point(|part| part.plain.end <= plain.start);
        if self.parts.get(before).is_some_and(|part| part.plain.start < plain.start) {
            return None;
        }
        let start = offset(self.parts[..before].last(), plain.start)?;
        let within = self.parts.partition_point(|part| part.plain.start < plain.end);
        let end = offset(self.parts[..within].last(), plain.end)?;
        (start <= end).then_some(start..end)
    }
}

/// Returns `new` with the bytes of `real` wherever `old` and `new` agree. `old` and
/// `real` look alike.
#[must_use]
pub fn merged(old: &str, new: &str, real: &[u8]) -> Vec<u8> {
    if old.as_bytes() == real {
        return new.as_bytes().to_vec();
    }
    let (old_words, new_words) = (words(old), words(new));
    let (old_plain, real_plain) = (starts(&old_words), PlainText::of(real));
    let mut merged = Vec::with_capacity(new.len());
    for op in capture_diff_slices(Algorithm::Myers, &old_words, &new_words) {
        let written = op.new_range();
        let written = || new_words[written.clone()].concat();
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                let plain = old_plain[old_index]..old_plain[old_index + len];
                match real_plain.original(plain) {
                    Some(original) => merged.extend_from_slice(&real[original]),
                    None => merged.extend_from_slice(written().as_bytes()),
                }
            }
            DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                merged.extend_from_slice(written().as_bytes());
            }
            DiffOp::Delete { .. } => {}
        }
    }
    merged
}

/// Returns where each word begins in the plain text, and where the last one ends.
fn starts(words: &[&str]) -> Vec<usize> {
    let mut starts = vec![0];
    for word in words {
        let last = starts.last().copied().unwrap_or_default();
        starts.push(last + PlainText::of(word.as_bytes()).bytes.len());
    }
    starts
}

/// Splits a text into words, runs of one other character, and spaces.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before: Option<&str> = None;
    for (at, cluster) in clusters(text) {
        let is_word = |cluster: &str| {
            cluster.chars().next().is_some_and(|c| c.is_alphanumeric() || c == '_' || is_hidden(c))
        };
        let joins = before.is_none_or(|b| b == cluster || (is_word(b) && is_word(cluster)));
        if !joins {
            words.push(&text[start..at]);
            start = at;
        }
        before = Some(cluster);
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

/// Names the characters of `real` that look like others in `written`, each once, and
/// those of `written` that look like others in `real`.
#[must_use]
pub fn named_differences(written: &str, real: &[u8]) -> Vec<String> {
    let real = String::from_utf8_lossy(real);
    let mut names: Vec<String> = Vec::new();
    for (one, other) in [(&*real, written), (written, &*real)] {
        for (_, cluster) in clusters(one) {
            let is_known = cluster.is_ascii() || other.contains(cluster);
            if !is_known && let Some(name) = named(cluster).filter(|name| !names.contains(name)) {
                names.push(name);
            }
        }
    }
    names
}

/// Names each character of a text that a reader takes for another or does not see.
pub fn all_named(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut before = None;
    clusters(text).filter_map(move |(at, cluster)| {
        let after = text[at + cluster.len()..].chars().next();
        let first = cluster.chars().next()?;
        let is_beside_ascii = before.into_iter().chain(after).any(|c: char| c.is_ascii());
        before = cluster.chars().last();
        // Many scripts and emoji need joiners.
        let is_joiner = matches!(first, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
        if cluster.is_ascii() || (is_joiner && !is_beside_ascii) || !is_misread(cluster) {
            return None;
        }
        named(cluster)
    })
}

/// Returns whether a reader takes a cluster for another. Dashes and an ellipsis are
/// seen for what they are.
fn is_misread(cluster: &str) -> bool {
    let Some(first) = cluster.chars().next() else { return false };
    match plain_of(first) {
        Some("-") => matches!(first, '\u{2010}' | '\u{2011}' | '\u{2212}'),
        Some("...") => false,
        Some(_) => true,
        None => {
            full_width(first).is_some_and(|c| c.is_ascii_alphanumeric())
                || composed(cluster) != cluster
        }
    }
}

/// Returns a cluster as code points, with a name where it has no shape of its own.
fn named(cluster: &str) -> Option<String> {
    let first = cluster.chars().next()?;
    let mut text = String::new();
    for (at, c) in cluster.chars().enumerate() {
        let space = if at > 0 { " " } else { "" };
        write!(text, "{space}U+{:04X}", u32::from(c)).expect("writing to a string cannot fail");
    }
    let name = match first {
        _ if cluster.chars().nth(1).is_some() => "a letter in several characters",
        '\u{a0}' => "no-break space",
        '\u{ad}' => "soft hyphen",
        '\u{200b}' => "zero-width space",
        '\u{200c}' | '\u{200d}' => "zero-width joiner",
        '\u{202f}' => "narrow no-break space",
        '\u{2060}' => "word joiner",
        '\u{3000}' => "ideographic space",
        '\u{feff}' => "byte order mark",
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "direction mark",
        _ => match plain_of(first) {
            Some(" ") => "space of another width",
            Some("") => "not shown",
            Some(_) | None => return Some(format!("{text} (`{cluster}`)")),
        },
    };
    Some(format!("{text} ({name})"))
}

/// Splits a text into characters, each with the marks that combine with it.
fn clusters(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.next()?;
        let mut end = start + first.len_utf8();
        for _ in 1..CLUSTER_CAP {
            let Some((at, c)) = rest.next_if(|(_, c)| combines(*c)) else { break };
            end = at + c.len_utf8();
        }
        Some((start, &text[start..end]))
    })
}

/// Returns whether a character combines with the one before it, alone or as the middle
/// or the end of a Korean syllable.
fn combines(c: char) -> bool {
    // All below are complete in themselves.
    c >= '\u{300}'
        && (CanonicalCombiningClassMapBorrowed::new().get_u8(c) != 0
            || matches!(c, '\u{1160}'..='\u{11ff}'))
}

fn push_plain(bytes: &mut Vec<u8>, cluster: &str) {
    if cluster.is_ascii() {
        return bytes.extend_from_slice(cluster.as_bytes());
    }
    let mut buffer = [0; 4];
    for c in composed(cluster).chars() {
        let plain = match (plain_of(c), full_width(c)) {
            (Some(plain), _) => plain,
            (None, Some(narrow)) => narrow.encode_utf8(&mut buffer),
            (None, None) => c.encode_utf8(&mut buffer),
        };
        bytes.extend_from_slice(plain.as_bytes());
    }
}

fn is_hidden(c: char) -> bool {
    plain_of(c) == Some("")
}

/// Returns what a character looks like; `None` if it looks like itself only.
fn plain_of(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200a}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{3000}' => " ",
        '\u{fe0e}' | '\u{fe0f}' => "",
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{2bc}' => "'",
        '\u{201c}'..='\u{201f}' | '\u{2033}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => "-",
        '\u{2026}' => "...",
        // What a model is sent is without these.
        c if is_invisible(c) => "",
        _ => return None,
    })
}

/// Returns the ordinary form of a character of full width.
fn full_width(c: char) -> Option<char> {
    matches!(c, '\u{ff01}'..='\u{ff5e}').then(|| char::from_u32(u32::from(c) - 0xfee0)).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_looks_alike_has_one_plain_text() {
        for (original, plain) in [
            ("a\u{a0}b\u{2009}c\u{3000}d", "a b c d"),
            ("\u{201c}it\u{2019}s\u{201d}", "\"it's\""),
            ("zero\u{200b}width\u{ad}\u{feff}", "zerowidth"),
            ("cafe\u{301} \u{e9}", "caf\u{e9} \u{e9}"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("ｆｎ（ａ）", "fn(a)"),
            ("1\u{2013}2 \u{2014} a\u{2212}b\u{2026}", "1-2 - a-b..."),
            ("tag\u{e0041}ged\u{17b4}\u{e0100}\u{fff0}", "tagged"),
            ("q\u{323}\u{307}", "q\u{323}\u{307}"),
            ("q\u{307}\u{323}", "q\u{323}\u{307}"),
        ] {
            let found = String::from_utf8(PlainText::of(original.as_bytes()).bytes).unwrap();
            assert_eq!(found, plain);
            assert_eq!(PlainText::of(plain.as_bytes()).bytes, plain.as_bytes());
        }
        assert_eq!(PlainText::of(b"caf\xE9\xA0").bytes, b"caf\xE9\xA0");
    }

    #[test]
    fn parts_of_the_plain_text_are_found_in_the_original() {
        let original = "x\u{200b}a\u{a0}b\u{2026}\u{200b}";
        let plain = PlainText::of(original.as_bytes());
        assert_eq!(plain.bytes, b"xa b...");
        let part = |range| plain.original(range).map(|range| &original[range]);
        assert_eq!(part(0..1), Some("x"));
        assert_eq!(part(1..3), Some("a\u{a0}"));
        assert_eq!(part(0..4), Some("x\u{200b}a\u{a0}b"));
        assert_eq!(part(3..7), Some("b\u{2026}"));
        assert_eq!((part(3..5), part(5..7)), (None, None));
    }

    #[test]
    fn the_originals_characters_stay_where_old_and_new_agree() {
        for (old, new, real, expected) in [
            (
                "the list in current",
                "the list in this",
                "the\u{a0}list in\u{a0}current",
                "the\u{a0}list in\u{a0}this",
            ),
            (
                "say \"hi\"...",
                "say \"hello\"...",
                "say \u{201c}hi\u{201d}\u{2026}",
                "say \u{201c}hello\u{201d}\u{2026}",
            ),
            ("caf\u{e9} a", "caf\u{e9} b", "cafe\u{301} a", "cafe\u{301} b"),
            ("ab cd", "ab xx", "a\u{200b}b cd", "a\u{200b}b xx"),
            ("a - b", "a - b - c", "a \u{2014} b", "a \u{2014} b - c"),
            ("a", "b", "a", "b"),
        ] {
            assert_eq!(String::from_utf8(merged(old, new, real.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn characters_that_are_misread_are_named() {
        let named = |text| all_named(text).collect::<Vec<_>>();
        assert_eq!(named("plain — text… größe 漢字（）\u{1f468}\u{200d}\u{1f469}"), [""; 0]);
        assert_eq!(
            named("a\u{a0}b\u{200b}"),
            ["U+00A0 (no-break space)", "U+200B (zero-width space)"]
        );
        assert_eq!(named("e\u{301}"), ["U+0065 U+0301 (a letter in several characters)"]);
        assert_eq!(named("\u{2019}"), ["U+2019 (`\u{2019}`)"]);
        let differences =
            named_differences("a b \"c\"", "a\u{a0}b\u{a0}\u{201c}c\u{201d}".as_bytes());
        assert_eq!(differences[0], "U+00A0 (no-break space)");
        assert_eq!(differences.len(), 3);
    }

    proptest! {
        #[test]
        fn whole_texts_are_found_whole(text in "[a \u{a0}\u{200b}\u{301}\u{2026}é]{0,12}") {
            let plain = PlainText::of(text.as_bytes());
            let whole = plain.original(0..plain.bytes.len());
            // Only what is not shown is left out, at the edges.
            let range = whole.unwrap_or(0..0);
            prop_assert_eq!(PlainText::of(&text.as_bytes()[range]).bytes, plain.bytes);
            prop_assert_eq!(merged(&text, &text, text.as_bytes()), text.as_bytes());
        }
    }
}
