//! A text that comes in pieces, made safe for a terminal.

use super::text_between;
use crate::invisible::{Neighbour, is_undecided};

/// Makes pieces of a text safe as if it came whole.
#[derive(Debug, Clone)]
pub struct SafePieces {
    /// The last character, if what follows decides what it is: the first half of a line
    /// break, or a joiner.
    held: Option<char>,
    /// The character before the next piece.
    before: Neighbour,
}

impl Default for SafePieces {
    fn default() -> Self {
        Self { held: None, before: Neighbour::Nothing }
    }
}

impl SafePieces {
    /// Takes the next piece, and appends the part that can no longer change to `safe`.
    pub fn push(&mut self, piece: &str, safe: &mut String) {
        let whole = self.held.take().map(|held| format!("{held}{piece}"));
        let mut piece = whole.as_deref().unwrap_or(piece);
        let last = piece.chars().next_back();
        if let Some(last) = last.filter(|last| *last == '\r' || is_undecided(*last)) {
            self.held = Some(last);
            piece = &piece[..piece.len() - last.len_utf8()];
        }
        self.append(piece, safe);
    }

    /// Appends what is left at the end of the text.
    pub fn finish(&mut self, safe: &mut String) {
        if let Some(held) = self.held.take() {
            self.append(held.encode_utf8(&mut [0; 4]), safe);
        }
    }

    /// Returns whether all that came was appended.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    fn append(&mut self, text: &str, safe: &mut String) {
        let after = self.held.map_or(Neighbour::Unknown, Neighbour::Is);
        safe.push_str(&text_between(text, [self.before, after]));
        if let Some(last) = text.chars().next_back() {
            self.before = Neighbour::Is(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_as_safe_as_the_whole_wherever_it_is_cut() {
        for text in [
            "می\u{200c}خواهم क्\u{200d}ष",
            "👨\u{200d}👩\u{200d}👧 abc\u{200f}אבג",
            "one\r\ntwo\rthree",
            "pass\u{200d}word a\u{200f}\u{202e}b م\u{200d}\u{200d}م",
        ] {
            let expected = super::super::text(text);
            for (at, _) in text.char_indices() {
                let (mut pieces, mut safe) = (SafePieces::default(), String::new());
                pieces.push(&text[..at], &mut safe);
                pieces.push(&text[at..], &mut safe);
                pieces.finish(&mut safe);
                assert_eq!(safe, expected);
                assert!(pieces.is_empty());
            }
        }
    }
}
