//! Finds text in bytes. Every search here is linear in the file, whatever the
//! file and the text are.

/// Returns where `needle` stands in `bytes`, without overlaps. `needle` is not
/// empty.
pub(super) fn all(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    all_by(bytes, needle, |left, right| left == right)
}

/// Returns the number of the line, from 1, where lines begin that equal the
/// lines of `needle` but for white space at their ends.
pub(super) fn nearly(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    let wanted: Vec<&[u8]> = lines(needle).collect();
    let from = wanted.iter().position(|line| !line.is_empty())?;
    let to = wanted.iter().rposition(|line| !line.is_empty())?;
    let found: Vec<&[u8]> = lines(bytes).collect();
    let places = all_by(&found, &wanted[from..=to], |left, right| left == right);
    places.first().map(|line| line + 1)
}

/// Tells whether there are line ends and all of them are CRLF.
pub(super) fn only_crlf(bytes: &[u8]) -> bool {
    let mut feeds = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').peekable();
    feeds.peek().is_some() && feeds.all(|(at, _)| at > 0 && bytes[at - 1] == b'\r')
}

/// Returns the number of the line, from 1, that holds the byte at `place`.
pub(super) fn line_number(bytes: &[u8], place: usize) -> usize {
    1 + bytes[..place].iter().filter(|byte| **byte == b'\n').count()
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

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii)
}

/// Knuth, Morris and Pratt's search.
fn all_by<T: Copy>(items: &[T], needle: &[T], same: impl Fn(T, T) -> bool) -> Vec<usize> {
    // For each length of a match so far: how much of it is also a beginning.
    let mut shorter = vec![0; needle.len()];
    let mut matched = 0;
    for at in 1..needle.len() {
        while matched > 0 && !same(needle[at], needle[matched]) {
            matched = shorter[matched - 1];
        }
        matched += usize::from(same(needle[at], needle[matched]));
        shorter[at] = matched;
    }
    let mut places = Vec::new();
    matched = 0;
    for (at, &item) in items.iter().enumerate() {
        while matched > 0 && !same(item, needle[matched]) {
            matched = shorter[matched - 1];
        }
        matched += usize::from(same(item, needle[matched]));
        if matched == needle.len() {
            places.push(at + 1 - matched);
            matched = 0;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_the_standard_library_finds(text in "[ab]{0,40}", needle in "[ab]{1,4}") {
            let expected: Vec<usize> = text.match_indices(&needle).map(|(at, _)| at).collect();
            prop_assert_eq!(all(text.as_bytes(), needle.as_bytes()), expected);
        }
    }

    #[test]
    fn a_near_match_forgives_white_space_at_the_ends_of_lines_only() {
        assert_eq!(nearly(b"x\n  a b \r\n\tc\n", b"\na b\nc\n"), Some(2));
        assert_eq!(nearly(b"x\na  b\nc\n", b"a b\nc"), None);
        assert_eq!(nearly(b"x\n\n", b"  \n"), None);
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
