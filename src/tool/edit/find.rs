//! Finds text in bytes. Every search here is linear in the file, whatever the
//! file and the text are.

use memchr::memmem;

/// What a text may begin with that is no part of its first line.
pub(in crate::tool) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns where `needle` stands in `bytes`, without overlaps. `needle` is not
/// empty.
pub(super) fn all(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    memmem::find_iter(bytes, needle).collect()
}

/// Returns where `needle` begins in `lines`; places may overlap. `needle` is
/// not empty. Knuth, Morris and Pratt's search.
pub(in crate::tool) fn overlapping<T: PartialEq>(
    lines: impl Iterator<Item = T>,
    needle: &[T],
) -> Vec<usize> {
    // For each length of a match so far: how much of it is also a beginning.
    let mut shorter = vec![0; needle.len()];
    let mut matched = 0;
    for at in 1..needle.len() {
        while matched > 0 && needle[at] != needle[matched] {
            matched = shorter[matched - 1];
        }
        matched += usize::from(needle[at] == needle[matched]);
        shorter[at] = matched;
    }
    let mut places = Vec::new();
    matched = 0;
    for (at, line) in lines.enumerate() {
        while matched > 0 && line != needle[matched] {
            matched = shorter[matched - 1];
        }
        matched += usize::from(line == needle[matched]);
        if matched == needle.len() {
            places.push(at + 1 - matched);
            matched = shorter[matched - 1];
        }
    }
    places
}

/// Returns the second place where `needle` stands, if the first is `first`. It
/// may overlap the first.
pub(super) fn second(bytes: &[u8], needle: &[u8], first: usize) -> Option<usize> {
    memmem::find(&bytes[first + 1..], needle).map(|place| first + 1 + place)
}

/// Tells whether there are line ends and all of them are CRLF.
pub(in crate::tool) fn only_crlf(bytes: &[u8]) -> bool {
    let mut feeds = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').peekable();
    feeds.peek().is_some() && feeds.all(|(at, _)| at > 0 && bytes[at - 1] == b'\r')
}

/// Returns the number of the line, from 1, that holds the byte at `place`.
pub(super) fn line_number(bytes: &[u8], place: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &bytes[..place]).count()
}

/// Returns the lines' numbers of places in rising order.
pub(super) fn line_numbers(bytes: &[u8], places: &[usize]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    let numbers = places.iter().map(|&place| {
        line += line_number(&bytes[from..], place - from) - 1;
        from = place;
        line
    });
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_place_of_lines_is_found(text in "[ab]{0,40}", needle in "[ab]{1,4}") {
            let lines = |text: &'static str| text.as_bytes().chunks(1).collect::<Vec<_>>();
            let (text, needle): (&str, &str) = (text.leak(), needle.leak());
            let expected: Vec<usize> =
                (0..text.len()).filter(|&at| text[at..].starts_with(needle)).collect();
            prop_assert_eq!(&overlapping(lines(text).into_iter(), &lines(needle)), &expected);
            let found = all(text.as_bytes(), needle.as_bytes());
            let second = found.first().and_then(|&at| super::second(text.as_bytes(), needle.as_bytes(), at));
            prop_assert_eq!((found.first(), second), (expected.first(), expected.get(1).copied()));
        }
    }

    #[test]
    fn line_ends_are_crlf_only_if_all_are() {
        assert!(only_crlf(b"a\r\nb\r\nc"));
        assert!(!only_crlf(b"a\r\nb\n"));
        assert!(!only_crlf(b"\n"));
        assert!(!only_crlf(b"a\r"));
    }

    #[test]
    fn lines_are_numbered_from_one() {
        assert_eq!(line_numbers(b"a\nb\n\nc", &[0, 2, 2, 5]), [1, 2, 2, 4]);
    }
}
