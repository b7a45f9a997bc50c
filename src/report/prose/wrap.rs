//! Text with inks, broken into rows.

use unicode_width::UnicodeWidthChar as _;

use crate::report::ink::Ink;
use crate::report::row::{Row, columns_of};
use crate::report::sanitise;

/// Text that has no rows yet. A line feed in it is a break that its writer
/// wants; all else is safe for a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Flow {
    spans: Vec<(Ink, String)>,
}

impl Flow {
    pub(super) fn new(ink: Ink, text: &str) -> Self {
        let mut flow = Self::default();
        flow.push(ink, text);
        flow
    }

    /// Appends a part of a text; breaks in it become spaces.
    pub(super) fn push(&mut self, ink: Ink, text: &str) {
        let text = sanitise::line_part(&text.replace(['\n', '\t'], " ")).into_owned();
        self.append(ink, &text);
    }

    pub(super) fn line_break(&mut self) {
        self.append(Ink::Plain, "\n");
    }

    fn append(&mut self, ink: Ink, safe: &str) {
        match self.spans.last_mut() {
            _ if safe.is_empty() => {}
            Some((last, text)) if *last == ink => text.push_str(safe),
            _ => self.spans.push((ink, safe.to_owned())),
        }
    }

    pub(super) fn extend(&mut self, other: &Self) {
        other.spans.iter().for_each(|(ink, text)| self.append(*ink, text));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns its text without inks.
    pub(super) fn plain(&self) -> String {
        self.spans.iter().map(|(_, text)| &**text).collect()
    }

    fn ends_with(&self, character: char) -> bool {
        self.spans.last().is_some_and(|(_, text)| text.ends_with(character))
    }

    /// Returns how wide its longest line is.
    pub(super) fn columns(&self) -> usize {
        self.plain().split('\n').map(columns_of).max().unwrap_or(0)
    }

    /// Returns its rows, none wider than `columns` unless a single letter is.
    pub(super) fn wrapped(&self, columns: usize) -> Vec<Row> {
        let mut wrap = Wrap { columns: columns.max(1), ..Wrap::default() };
        for (ink, text) in &self.spans {
            text.chars().for_each(|character| wrap.take(*ink, character));
        }
        wrap.put_word();
        wrap.rows.push(wrap.row);
        wrap.rows
    }
}

impl From<&Row> for Flow {
    fn from(row: &Row) -> Self {
        let mut flow = Self::default();
        row.spans().iter().for_each(|(ink, text)| flow.append(*ink, text));
        flow
    }
}

/// A text on its way into rows.
#[derive(Default)]
struct Wrap {
    columns: usize,
    rows: Vec<Row>,
    row: Row,
    /// The spaces behind what the row has.
    gap: Flow,
    word: Flow,
    word_columns: usize,
    /// Set if the word ends with a wide letter, behind which a row may end.
    may_end: bool,
}

/// The character that joins its two neighbours into one letter.
const JOINER: char = '\u{200d}';

impl Wrap {
    fn take(&mut self, ink: Ink, character: char) {
        // The selector asks for the wide form of the letter before it.
        let selects = usize::from(character == '\u{fe0f}');
        let width = character.width().unwrap_or(0) + selects;
        match character {
            '\n' => {
                self.put_word();
                self.end_row();
            }
            ' ' => {
                self.put_word();
                if self.row.columns() > 0 {
                    self.gap.append(ink, " ");
                }
            }
            _ => {
                // A row may end on either side of a wide letter, and of any if
                // the word is longer than a row. What has no width belongs to the letter
                // before it, and a joiner to the one behind it, too.
                let is_joined = self.word.ends_with(JOINER);
                let may_end = !is_joined && (width > 1 || self.may_end);
                let begins = character.width().unwrap_or(0) > 0;
                if begins && may_end || self.word_columns + width > self.columns {
                    self.put_word();
                }
                self.word.append(ink, character.encode_utf8(&mut [0; 4]));
                self.word_columns += width;
                if begins {
                    self.may_end = width > 1;
                }
            }
        }
    }

    fn put_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        if self.row.columns() + self.gap.columns() + self.word_columns > self.columns {
            self.end_row();
        }
        let (gap, word) = (std::mem::take(&mut self.gap), std::mem::take(&mut self.word));
        for (ink, text) in gap.spans.iter().chain(&word.spans) {
            self.row.push_part(*ink, text);
        }
        self.word_columns = 0;
        self.may_end = false;
    }

    fn end_row(&mut self) {
        self.gap = Flow::default();
        self.rows.push(std::mem::take(&mut self.row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &[&str]) {
        let rows = Flow::new(Ink::Plain, text).wrapped(columns);
        assert!(rows.iter().all(|row| row.columns() <= columns), "{rows:?}");
        assert_eq!(rows.iter().map(Row::plain).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn rows_end_between_words_and_long_words_where_the_row_does() {
        check("one two three", 8, &["one two", "three"]);
        check("one two  three", 20, &["one two  three"]);
        check("abcdefghij k", 4, &["abcd", "efgh", "ij k"]);
        check("", 4, &[""]);
    }

    #[test]
    fn rows_may_end_between_wide_letters() {
        check("日本語のab", 5, &["日本", "語の", "ab"]);
    }

    #[test]
    fn what_is_joined_stays_in_one_row() {
        let family = "👨\u{200d}👩\u{200d}👧";
        check(&format!("日{family}本"), 8, &[&format!("日{family}"), "本"]);
        check(&format!("ab {family} cd"), 6, &["ab", family, "cd"]);
        check("می\u{200c}خواهم خانه\u{200c}ای", 9, &["می\u{200c}خواهم", "خانه\u{200c}ای"]);
        check("می\u{200c}خواهم", 2, &["می\u{200c}", "خو", "اه", "م"]);
        check("⚠\u{fe0f}⚠\u{fe0f}日", 4, &["⚠\u{fe0f}⚠\u{fe0f}", "日"]);
    }

    #[test]
    fn what_is_wrapped_can_be_wrapped_again_with_more_behind_it() {
        let text = "some words that are long enough for three rows or more of it";
        let whole = Flow::new(Ink::Plain, text).wrapped(14);
        for (at, _) in text.match_indices(' ') {
            let mut rows = Flow::new(Ink::Plain, &text[..at]).wrapped(14);
            let mut rest = Flow::from(&rows.pop().unwrap());
            rest.push(Ink::Plain, &text[at..]);
            rows.extend(rest.wrapped(14));
            assert_eq!(rows, whole);
        }
    }
}
