//! Finds an answer that repeats one short text without end.

/// Bytes at the end of an answer that have to be one text repeated. No list or table that a
/// model is asked for has so many equal parts in a row.
const WATCHED: usize = 4_096;

/// Maximum bytes of the text that is repeated.
const PERIOD_CAP: usize = 120;

/// Bytes that come before the end is looked at again.
const STEP: usize = 512;

/// The end of an answer that grows.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    tail: String,
    /// Bytes that have come since the end was looked at.
    unseen: usize,
}

impl Repetition {
    /// Adds what has come, and returns the text that is repeated if the end is nothing else.
    ///
    /// Lines and rulers are not counted: what is repeated holds a letter or a digit.
    pub(super) fn push(&mut self, text: &str) -> Option<&str> {
        // A long piece is an answer that comes at once: it has ended by itself.
        if text.len() >= WATCHED {
            return None;
        }
        self.tail.push_str(text);
        self.unseen += text.len();
        if self.unseen < STEP || self.tail.len() < WATCHED {
            return None;
        }
        self.unseen = 0;
        let start = self.tail.ceil_char_boundary(self.tail.len() - WATCHED);
        self.tail.drain(..start);
        let period = period(self.tail.as_bytes())?;
        let end = self.tail.floor_char_boundary(period);
        let repeated = &self.tail[..end];
        repeated.chars().any(char::is_alphanumeric).then_some(repeated)
    }
}

/// Returns the length of the shortest text whose repetition is all of `bytes`.
fn period(bytes: &[u8]) -> Option<usize> {
    let is_period = |period: &usize| bytes.iter().zip(&bytes[*period..]).all(|(a, b)| a == b);
    (1..=PERIOD_CAP.min(bytes.len())).find(is_period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a text piece by piece, and returns what is found to be repeated.
    fn find(text: &str, piece: usize) -> Option<String> {
        let mut repetition = Repetition::default();
        let characters: Vec<char> = text.chars().collect();
        characters.chunks(piece).find_map(|piece| {
            let piece: String = piece.iter().collect();
            repetition.push(&piece).map(str::to_owned)
        })
    }

    #[test]
    fn one_text_without_end_is_found_however_it_comes() {
        for (repeated, piece) in
            [("ember", 1), ("ember", 7), ("I will now check.\n\n", 3), ("吗", 5), ("a", 4_000)]
        {
            let text = format!("Hello, {}", repeated.repeat(5_000));
            let found = find(&text, piece).unwrap_or_else(|| panic!("{repeated}"));
            assert_eq!(found.len(), repeated.len(), "{found}");
            assert!(repeated.repeat(2).contains(&found), "{found}");
        }
    }

    #[test]
    fn long_answers_with_equal_parts_are_left_alone() {
        let numbered: String = (0..2_000).map(|line| format!("| {line} | ok | ok |\n")).collect();
        for text in [
            "ember".repeat(500),
            numbered,
            "-".repeat(20_000),
            format!("{}end", "ember".repeat(800)),
            "| | |\n".repeat(5_000),
            "x".repeat(100).chars().chain("y".repeat(100).chars()).cycle().take(20_000).collect(),
        ] {
            assert_eq!(find(&text, 40), None, "{}", &text[..20]);
        }
        assert_eq!(find(&"x".repeat(20_000), 20_000), None);
    }
}
