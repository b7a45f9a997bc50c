//! The line as it is shown: broken at the margin, and only the part around the
//! cursor where there is no room for all of it.

use std::borrow::Cow;
use std::ops::Range;

use crate::report::row::columns_of;
use crate::report::sanitise::{self, Neighbour};

/// Columns that a tab is shown as. It need not line up with anything.
const TAB: &str = "    ";

/// How large it may be.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Columns of each row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// Rows of the line, safe for a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// At least one, and no more than were asked for.
    pub rows: Vec<String>,
    /// Which bytes of each of them are selected.
    pub selected: Vec<Range<usize>>,
    /// Row and column of the cursor among them.
    pub cursor: (usize, usize),
    /// Whether there is more of the line above.
    pub goes_on_above: bool,
    /// Whether there is more of it below.
    pub goes_on_below: bool,
}

/// Returns a text as rows for the room there is, the cursor's among them.
///
/// Only the lines around the cursor are looked at: a pasted text may have a
/// million.
#[must_use]
pub fn view(text: &str, cursor: usize, selected: Range<usize>, room: Room) -> View {
    let (columns, most) = (room.columns.max(2), room.rows.max(1));
    let first = start_of_line_before(text, cursor, most);
    let mut broken = Broken { columns, selected, rows: vec![Broad::default()], cursor: (0, 0) };
    let mut at = first;
    for line in text[first..].split_inclusive('\n') {
        // No row of a line that begins below what is shown can be.
        if at > cursor && broken.rows.len() > broken.cursor.0 + most {
            break;
        }
        broken.take(line, at, cursor);
        at += line.len();
    }
    if cursor == text.len() {
        broken.mark();
    }
    let Broken { rows, cursor: (row, column), .. } = broken;
    // The cursor stands as low as it may, so that what leads to it is seen.
    let top = (row + 1).saturating_sub(most);
    let end = rows.len().min(top + most);
    View {
        goes_on_above: first > 0 || top > 0,
        goes_on_below: at < text.len() || end < rows.len(),
        rows: rows[top..end].iter().map(|row| row.text.clone()).collect(),
        selected: rows[top..end].iter().map(|row| row.selected.clone()).collect(),
        cursor: (row - top, column),
    }
}

/// Returns where the line begins that is so many before the cursor's.
fn start_of_line_before(text: &str, cursor: usize, lines: usize) -> usize {
    let before = text[..cursor].rmatch_indices('\n');
    before.map(|(at, _)| at + 1).nth(lines).unwrap_or(0)
}

impl Broad {
    /// Returns how many more columns it takes with this behind it.
    fn more_columns(&self, piece: &str) -> usize {
        // A selector asks for the wide form of what is before it.
        let before = self.text.char_indices().next_back().map_or("", |(at, _)| &self.text[at..]);
        columns_of(&format!("{before}{piece}")) - columns_of(before)
    }
}

struct Broken {
    columns: usize,
    selected: Range<usize>,
    rows: Vec<Broad>,
    cursor: (usize, usize),
}

#[derive(Default)]
struct Broad {
    text: String,
    selected: Range<usize>,
    columns: usize,
}

impl Broken {
    /// Takes a line with its line break. It begins at `start`.
    fn take(&mut self, line: &str, start: usize, cursor: usize) {
        let mut before = Neighbour::Nothing;
        let mut characters = line.char_indices().map(|(at, c)| (start + at, c)).peekable();
        while let Some((at, c)) = characters.next() {
            let after = characters.peek().map_or(Neighbour::Nothing, |(_, c)| Neighbour::Is(*c));
            let mut bytes = [0; 4];
            let written = c.encode_utf8(&mut bytes);
            let piece = match c {
                '\n' => Cow::Borrowed(""),
                '\t' => Cow::Borrowed(TAB),
                _ => sanitise::text_between(written, [before, after]),
            };
            before = Neighbour::Is(c);
            let last = self.last();
            let columns = last.more_columns(&piece);
            if last.columns + columns > self.columns && last.columns > 0 {
                self.rows.push(Broad::default());
            }
            if cursor == at {
                self.mark();
            }
            let last = self.rows.last_mut().expect("there is a first row");
            let before = last.text.len();
            last.text.push_str(&piece);
            if self.selected.contains(&at) {
                let first = if last.selected.is_empty() { before } else { last.selected.start };
                last.selected = first..last.text.len();
            }
            last.columns += columns;
            if c == '\n' {
                self.rows.push(Broad::default());
            }
        }
    }

    fn last(&self) -> &Broad {
        self.rows.last().expect("there is a first row")
    }

    /// Remembers that the cursor is here.
    fn mark(&mut self) {
        // Behind a full row there is no column left.
        if self.last().columns >= self.columns {
            self.rows.push(Broad::default());
        }
        let row = self.rows.len() - 1;
        self.cursor = (row, self.rows[row].columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows a text with a `|` where the cursor is.
    #[track_caller]
    fn check(text: &str, size: (usize, usize), expected: &[&str], cursor: (usize, usize)) -> View {
        let at = text.find('|').expect("the cursor is somewhere");
        let room = Room { columns: size.0, rows: size.1 };
        let view = view(&text.replacen('|', "", 1), at, 0..0, room);
        let rows: Vec<&str> = view.rows.iter().map(String::as_str).collect();
        assert_eq!((&rows[..], view.cursor), (expected, cursor), "{text:?}");
        view
    }

    #[test]
    fn a_line_is_broken_at_the_margin() {
        check("|", (10, 3), &[""], (0, 0));
        check("abcdef|g", (4, 3), &["abcd", "efg"], (1, 2));
        check("ab\n|cd", (4, 3), &["ab", "cd"], (1, 0));
        check("a\u{4e00}|\u{4e00}", (4, 3), &["a\u{4e00}", "\u{4e00}"], (1, 0));
        check("abcd|", (4, 3), &["abcd", ""], (1, 0));
        check("ab|\n", (4, 3), &["ab", ""], (0, 2));
    }

    #[test]
    fn what_is_selected_is_known_in_each_row() {
        let text = "a\tbcd\nef";
        let shown = view(text, 3, 1..7, Room { columns: 6, rows: 3 });
        assert_eq!(shown.rows, ["a    b", "cd", "ef"]);
        assert_eq!(shown.selected, [1..6, 0..2, 0..1]);
        let none = view(text, 3, 0..0, Room { columns: 6, rows: 3 });
        assert_eq!(none.selected, [0..0, 0..0, 0..0]);
    }

    #[test]
    fn where_there_is_no_room_the_part_around_the_cursor_is_shown() {
        let view = check("1\n2\n3|\n4", (9, 2), &["2", "3"], (1, 1));
        assert_eq!((view.goes_on_above, view.goes_on_below), (true, true));
        let view = check("|1\n2\n3", (9, 2), &["1", "2"], (0, 0));
        assert_eq!((view.goes_on_above, view.goes_on_below), (false, true));
        let view = check("1\n2\n3|", (9, 3), &["1", "2", "3"], (2, 1));
        assert_eq!((view.goes_on_above, view.goes_on_below), (false, false));
        let many = format!("{}here|\n{}", "row\n".repeat(100_000), "row\n".repeat(100_000));
        check(&many, (9, 3), &["row", "row", "here"], (2, 4));
    }

    #[test]
    fn what_ordinary_text_needs_is_shown_as_it_is() {
        check("می\u{200c}خ|", (9, 2), &["می\u{200c}خ"], (0, 3));
        check("👨\u{200d}👩|", (9, 2), &["👨\u{200d}👩"], (0, 4));
        check("⚠\u{fe0f}|x", (9, 2), &["⚠\u{fe0f}x"], (0, 2));
        check("abc\u{200f}אב|", (9, 2), &["abc\u{200f}אב"], (0, 5));
        check("a\u{200d}|b", (20, 2), &["a\\u{200d}b"], (0, 9));
        check("\r|", (20, 2), &["\\r"], (0, 2));
    }

    #[test]
    fn nothing_in_it_is_obeyed_by_a_terminal() {
        let view = check("\u{1b}[2J\t|\u{202e}x", (40, 2), &["\\u{1b}[2J    \\u{202e}x"], (0, 13));
        assert!(!view.rows[0].contains(sanitise::is_hidden));
    }
}
