//! A row of text on its way to a terminal.
//!
//! Whatever is in a [`Row`] is safe for a terminal: its only ways in are [`Row::text`]
//! and [`Row::push_part`], which go through [`super::sanitise`]. Rows know how wide
//! they are and what their parts mean; which colours that gives is decided where
//! they are painted.

use std::sync::Arc;

use unicode_width::UnicodeWidthChar as _;

use super::ink::Ink;
use super::sanitise;

/// Columns from one tab stop to the next. A raw tab leaves what stood below it,
/// so none is ever written.
const TAB: usize = 4;

/// The mark at the end of a row that was cut.
const CUT: &str = "…";

/// One row, which may be longer than a terminal is wide.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Row {
    spans: Vec<(Ink, String)>,
    columns: usize,
    code: Option<Arc<CodeBlock>>,
}

/// Where a row of code stands that could have colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeBlock {
    /// Tells the blocks of a session apart.
    pub number: u64,
    /// The word that its writer gave for the language; may be anything.
    pub language: Box<str>,
}

impl Row {
    /// An empty row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `text` as one safe line. Tabs become spaces up to the next tab
    /// stop, other breaks and controls are written as escapes.
    #[must_use]
    pub fn text(mut self, ink: Ink, text: &str) -> Self {
        self.push(ink, text);
        self
    }

    /// Does what [`Row::text`] does.
    pub fn push(&mut self, ink: Ink, text: &str) {
        for (number, piece) in text.split('\t').enumerate() {
            if number > 0 {
                let spaces = TAB - self.columns % TAB;
                self.append(ink, &" ".repeat(spaces));
            }
            self.append(ink, &sanitise::line(piece));
        }
    }

    /// Does what [`Row::text`] does with a part of a text that is safe as a whole.
    pub fn push_part(&mut self, ink: Ink, part: &str) {
        self.append(ink, &sanitise::line_part(part));
    }

    fn append(&mut self, ink: Ink, safe: &str) {
        if safe.is_empty() {
            return;
        }
        self.columns += columns_of(safe);
        match self.spans.last_mut() {
            Some((last, text)) if *last == ink => text.push_str(safe),
            _ => self.spans.push((ink, safe.to_owned())),
        }
    }

    /// Appends the parts of another row.
    #[must_use]
    pub fn row(mut self, other: &Self) -> Self {
        for (ink, text) in &other.spans {
            self.append(*ink, text);
        }
        self
    }

    /// Appends spaces up to this column.
    #[must_use]
    pub fn padded(mut self, columns: usize) -> Self {
        let missing = columns.saturating_sub(self.columns);
        self.append(Ink::Plain, &" ".repeat(missing));
        self
    }

    /// Cuts the row to this many columns, with a mark where something is gone.
    #[must_use]
    pub fn cut(self, columns: usize) -> Self {
        if self.columns <= columns {
            return self;
        }
        let room = columns.saturating_sub(columns_of(CUT));
        let mut kept = Self { code: self.code, ..Self::new() };
        let mut last = Ink::Plain;
        'spans: for (ink, text) in &self.spans {
            last = *ink;
            let mut end = 0;
            for (at, character) in text.char_indices() {
                let next = at + character.len_utf8();
                if kept.columns + columns_of(&text[..next]) > room {
                    kept.append(*ink, &text[..end]);
                    break 'spans;
                }
                end = next;
            }
            kept.append(*ink, text);
        }
        if columns > 0 {
            kept.append(last, CUT);
        }
        kept
    }

    /// Returns the row with all its parts in one ink.
    #[must_use]
    pub fn all(self, ink: Ink) -> Self {
        let mut row = Self { code: self.code, ..Self::new() };
        for (_, text) in &self.spans {
            row.append(ink, text);
        }
        row
    }

    /// Marks the row as a line of a block of code.
    #[must_use]
    pub fn in_code(self, block: &Arc<CodeBlock>) -> Self {
        Self { code: Some(Arc::clone(block)), ..self }
    }

    /// Returns the block of code that the row is a line of.
    #[must_use]
    pub fn code(&self) -> Option<&Arc<CodeBlock>> {
        self.code.as_ref()
    }

    /// Returns its parts, left to right.
    #[must_use]
    pub fn spans(&self) -> &[(Ink, String)] {
        &self.spans
    }

    /// Returns how many columns it takes, at most.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns its text without inks.
    #[must_use]
    pub fn plain(&self) -> String {
        self.spans.iter().map(|(_, text)| &**text).collect()
    }

    /// Returns how many rows of a terminal it takes that breaks long ones, and
    /// the column behind its end, which is `width` if it ends at the margin.
    #[must_use]
    pub fn place(&self, width: usize) -> (usize, usize) {
        let (mut rows, mut column) = (1, 0);
        for character in self.spans.iter().flat_map(|(_, text)| text.chars()) {
            let columns = character.width().unwrap_or(0);
            if column + columns > width {
                rows += 1;
                column = 0;
            }
            column += columns;
        }
        (rows, column)
    }

    /// Returns how many rows of such a terminal are above the one that has this
    /// column of the whole row, or its end if it is shorter.
    #[must_use]
    pub fn rows_above(&self, column: usize, width: usize) -> usize {
        let (mut rows, mut at, mut before) = (0, 0, 0);
        for character in self.spans.iter().flat_map(|(_, text)| text.chars()) {
            let columns = character.width().unwrap_or(0);
            if at + columns > width {
                rows += 1;
                at = 0;
            }
            at += columns;
            before += columns;
            if before > column {
                break;
            }
        }
        rows
    }
}

/// Returns how many columns a safe text takes on any terminal, at most.
///
/// Terminals do not agree on letters that are put together of several; this is
/// what the one takes that puts nothing together.
#[must_use]
pub fn columns_of(text: &str) -> usize {
    let mut before = 0;
    let columns = |character: char| {
        let own = character.width().unwrap_or(0);
        // This selector asks for the wide form of what is before it.
        let more = usize::from(character == '\u{fe0f}' && before == 1);
        before = own;
        own + more
    };
    text.chars().map(columns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_one_line_of_safe_text_whatever_is_put_in() {
        let row = Row::new().text(Ink::Plain, "a\tb\u{1b}[2J\r\n").text(Ink::Dim, "\u{202e}x");
        assert_eq!(row.plain(), "a   b\\u{1b}[2J\\r\\n\\u{202e}x");
        assert_eq!(row.columns(), row.plain().len());
    }

    #[test]
    fn a_row_is_cut_where_its_columns_end_and_says_so() {
        let row = |text| Row::new().text(Ink::Plain, text);
        assert_eq!(row("abcdef").cut(6), row("abcdef"));
        assert_eq!(row("abcdefg").cut(6), row("abcde…"));
        assert_eq!(row("日本語").cut(5), row("日本…"));
        assert_eq!(row("abc").cut(0), row(""));
        let two = row("abc").text(Ink::Dim, "def");
        assert_eq!(two.cut(5), row("abc").text(Ink::Dim, "d…"));
    }

    #[test]
    fn rows_of_a_terminal_are_counted_with_wide_letters_that_do_not_fit() {
        let place = |text: &str, width| Row::new().text(Ink::Plain, text).place(width);
        assert_eq!(place("", 10), (1, 0));
        assert_eq!(place("0123456789", 10), (1, 10));
        assert_eq!(place("0123456789a", 10), (2, 1));
        assert_eq!(place("012345678日", 10), (2, 2));
    }

    #[test]
    fn a_column_is_found_in_the_rows_of_a_terminal() {
        let above = |text: &str, columns: &[usize]| {
            let row = Row::new().text(Ink::Plain, text);
            columns.iter().map(|&column| row.rows_above(column, 3)).collect::<Vec<_>>()
        };
        assert_eq!(above("", &[0, 9]), [0, 0]);
        assert_eq!(above("abcd", &[0, 2, 3, 9]), [0, 0, 1, 1]);
        assert_eq!(above("abc", &[2, 3, 9]), [0, 0, 0]);
        assert_eq!(above("ab日", &[1, 2, 3, 4]), [0, 1, 1, 1]);
    }

    #[test]
    fn letters_in_their_wide_form_count_as_wide() {
        assert_eq!(columns_of("⚠\u{fe0f} a"), 4);
        assert_eq!(columns_of("e\u{301}"), 1);
    }
}
