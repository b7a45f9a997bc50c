//! What a terminal shows, as a terminal reads it: a grid of cells with colours,
//! rows that scroll away at the top, and rows that are broken anew when it gets
//! narrower.
//!
//! It knows the sequences that the one who writes is allowed and panics at any
//! other, so nothing is overlooked, and nothing is ever asked of a terminal.

use unicode_width::UnicodeWidthChar as _;
use vte::{Params, Parser, Perform};

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
}

/// Who writes, and so which sequences are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A chat: frames, with a title and a bell.
    Chat,
    /// The live region of a single run, and lines.
    Progress,
}

/// What becomes of rows when the terminal gets narrower or wider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reflow {
    /// They are broken anew, as in tmux, and much like that in VTE and kitty.
    Yes,
    /// They are cut off, as in xterm.
    No,
}

/// A colour, as it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// How a character looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Look {
    pub(crate) ink: Option<Colour>,
    pub(crate) ground: Option<Colour>,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) italic: bool,
    pub(crate) underlined: bool,
    pub(crate) reversed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Cell {
    /// A character and what is put over it; empty for a blank, and for the
    /// right half of a wide one.
    text: String,
    is_right_half: bool,
    look: Look,
}

impl Cell {
    fn is_blank(&self) -> bool {
        matches!(&*self.text, "" | " ") && !self.is_right_half
    }
}

#[derive(Debug, Clone, Default)]
struct Row {
    cells: Vec<Cell>,
    /// Whether its text goes on in the next row, with no line break between.
    goes_on: bool,
}

impl Row {
    /// Its text without the blanks at its end.
    fn text(&self) -> String {
        let mut text = self.whole();
        text.truncate(text.trim_end().len());
        text
    }

    fn whole(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| !cell.is_right_half) {
            text.push_str(if cell.text.is_empty() { " " } else { &cell.text });
        }
        text
    }

    /// Returns the cell at a column, with blanks before it.
    fn cell(&mut self, column: usize) -> &mut Cell {
        if self.cells.len() <= column {
            self.cells.resize(column + 1, Cell::default());
        }
        &mut self.cells[column]
    }

    /// Cuts off what is beyond so many columns, with both halves of a wide
    /// character.
    fn cut_off(&mut self, columns: usize) {
        if self.cells.get(columns).is_some_and(|cell| cell.is_right_half) {
            self.cells.truncate(columns - 1);
        }
        self.cells.truncate(columns);
    }
}

/// What a terminal shows.
pub(crate) struct Screen {
    parser: Parser,
    /// The bytes of a character that is not whole.
    begun: Vec<u8>,
    grid: Grid,
}

/// Everything but the parser.
struct Grid {
    size: Size,
    writer: Writer,
    /// All rows, those that have scrolled away first.
    rows: Vec<Row>,
    /// How many have scrolled away.
    top: usize,
    /// Where the cursor is, counted from the first of all rows.
    row: usize,
    column: usize,
    /// Whether the last column was just written to: the next character breaks
    /// the row.
    is_at_margin: bool,
    look: Look,
    wraps: bool,
    is_in_frame: bool,
    frames: usize,
    /// What became blank in this frame.
    blanked: Vec<(usize, usize)>,
    flickers: usize,
    cursor_is_shown: bool,
    pastes_are_marked: bool,
    title: String,
    notices: Vec<String>,
    bells: usize,
}

impl Screen {
    pub(crate) fn new(size: Size, writer: Writer) -> Self {
        let grid = Grid {
            size,
            writer,
            rows: Vec::new(),
            top: 0,
            row: 0,
            column: 0,
            is_at_margin: false,
            look: Look::default(),
            wraps: true,
            is_in_frame: false,
            frames: 0,
            blanked: Vec::new(),
            flickers: 0,
            cursor_is_shown: true,
            pastes_are_marked: false,
            title: String::new(),
            notices: Vec::new(),
            bells: 0,
        };
        Self { parser: Parser::new(), begun: Vec::new(), grid }
    }

    /// Takes what was written, up to the end of a frame or of the bytes;
    /// returns how many bytes that were.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> usize {
        let before = self.grid.frames;
        for (index, byte) in bytes.iter().enumerate() {
            self.check_text(*byte);
            self.parser.advance(&mut self.grid, std::slice::from_ref(byte));
            if self.grid.frames > before {
                return index + 1;
            }
        }
        bytes.len()
    }

    /// Panics at a byte that is of no character. The parser would show U+FFFD in
    /// its place, which may as well be the text of somebody else.
    fn check_text(&mut self, byte: u8) {
        self.begun.push(byte);
        match std::str::from_utf8(&self.begun) {
            Ok(_) => self.begun.clear(),
            Err(error) => assert!(error.error_len().is_none(), "it is no text: {:x?}", self.begun),
        }
    }

    /// Returns its size.
    pub(crate) fn size(&self) -> Size {
        self.grid.size
    }

    /// Returns how many characters were blank within a frame that stood there
    /// before it and after it: some terminals show that.
    pub(crate) fn flickers(&self) -> usize {
        self.grid.flickers
    }

    /// Tells whether a frame is being drawn, so that nobody sees the screen as
    /// it is now.
    pub(crate) fn is_in_frame(&self) -> bool {
        self.grid.is_in_frame
    }

    /// Returns all rows, also those that have scrolled away, without the blanks
    /// at their ends.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<String> = self.grid.rows.iter().map(Row::text).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Returns all lines: what the terminal broke at its margin is one.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = String::new();
        for row in &self.grid.rows {
            line += &row.whole();
            if !row.goes_on {
                lines.push(line.trim_end().to_owned());
                line.clear();
            }
        }
        lines
    }

    /// Returns the first of all rows that starts with this word.
    pub(crate) fn row(&self, word: &str) -> Option<String> {
        self.text().lines().find(|row| row.starts_with(word)).map(str::to_owned)
    }

    /// Returns the rows that are on the screen, each of them.
    pub(crate) fn shown(&self) -> Vec<String> {
        let last = self.grid.top + usize::from(self.grid.size.rows);
        let row = |index| self.grid.rows.get(index).map(Row::text).unwrap_or_default();
        (self.grid.top..last).map(row).collect()
    }

    /// Returns the rows that are on the screen, each in parts that look the
    /// same.
    pub(crate) fn parts(&self) -> Vec<Vec<(String, Look)>> {
        let shown = self.grid.rows.iter().skip(self.grid.top);
        let parts = |row: &Row| {
            let mut parts: Vec<(String, Look)> = Vec::new();
            for Cell { text, look, .. } in row.cells.iter().filter(|cell| !cell.is_right_half) {
                let text = if text.is_empty() { " " } else { text };
                match parts.last_mut().filter(|(_, last)| last == look) {
                    Some((part, _)) => part.push_str(text),
                    None => parts.push((text.to_owned(), *look)),
                }
            }
            parts
        };
        shown.take(usize::from(self.grid.size.rows)).map(parts).collect()
    }

    /// Returns the rows that have scrolled away.
    pub(crate) fn scrolled(&self) -> Vec<String> {
        self.grid.rows[..self.grid.top.min(self.grid.rows.len())].iter().map(Row::text).collect()
    }

    /// Returns where the cursor is, row and column of the screen; `None` if it
    /// is not shown.
    pub(crate) fn cursor(&self) -> Option<(usize, usize)> {
        let Grid { row, top, column, cursor_is_shown, .. } = &self.grid;
        cursor_is_shown.then_some((row - top, *column))
    }

    /// Returns how the first character of a word looks.
    pub(crate) fn look(&self, word: &str) -> Option<Look> {
        self.grid.rows.iter().find_map(|row| {
            let at = row.text().find(word)?;
            let mut length = 0;
            let cell = row.cells.iter().filter(|cell| !cell.is_right_half).find(|cell| {
                let is_it = length == at;
                length += cell.text.len().max(1);
                is_it
            });
            Some(cell?.look)
        })
    }

    /// Returns the window's title, what was notified, and how often the bell
    /// rang.
    pub(crate) fn calls(&self) -> (&str, &[String], usize) {
        (&self.grid.title, &self.grid.notices, self.grid.bells)
    }

    /// Tells whether a paste comes with marks around it.
    pub(crate) fn marks_pastes(&self) -> bool {
        self.grid.pastes_are_marked
    }

    /// Gives the terminal another size: rows below the cursor go first when it
    /// gets lower, and those that have scrolled away come back when it gets
    /// higher.
    pub(crate) fn resize(&mut self, size: Size, reflow: Reflow) {
        let grid = &mut self.grid;
        match reflow {
            Reflow::Yes => {
                grid.stretch(size.rows);
                if size.columns != grid.size.columns {
                    grid.break_anew(size.columns);
                }
            }
            Reflow::No => {
                let visible = grid.rows.iter_mut().skip(grid.top);
                visible.for_each(|row| row.cut_off(usize::from(size.columns)));
                grid.stretch(size.rows);
            }
        }
        grid.size = size;
        grid.column = grid.column.min(usize::from(size.columns) - 1);
        grid.is_at_margin = false;
    }
}

impl Grid {
    fn current(&mut self) -> &mut Row {
        if self.rows.len() <= self.row {
            self.rows.resize(self.row + 1, Row::default());
        }
        &mut self.rows[self.row]
    }

    /// Blanks the cells of a row from a column on.
    fn clear(&mut self, row: usize, from: usize) {
        let Some(cleared) = self.rows.get_mut(row) else { return };
        let written =
            cleared.cells.iter().enumerate().skip(from).filter(|(_, cell)| !cell.is_blank());
        self.blanked.extend(written.map(|(column, _)| (row, column)));
        cleared.cells.truncate(from);
        cleared.goes_on = false;
    }

    /// Begins or ends a frame.
    fn frame(&mut self, is_begun: bool) {
        if !is_begun && !self.is_in_frame {
            // Whoever gives a terminal back does not know whether one was begun.
            return;
        }
        assert_ne!(self.is_in_frame, is_begun, "a frame begins once");
        self.is_in_frame = is_begun;
        let blanked = std::mem::take(&mut self.blanked);
        if is_begun {
            return;
        }
        assert!(self.wraps, "nobody else wants rows that are not broken");
        self.frames += 1;
        let is_written = |&(row, column): &(usize, usize)| {
            let cell = self.rows.get(row).and_then(|row| row.cells.get(column));
            cell.is_some_and(|cell| !cell.is_blank())
        };
        self.flickers += blanked.iter().filter(|place| is_written(place)).count();
    }

    fn keep_cursor_on_screen(&mut self) {
        let rows = usize::from(self.size.rows);
        if self.row >= self.top + rows {
            self.top = self.row + 1 - rows;
        }
    }

    fn next_row(&mut self) {
        self.row += 1;
        self.keep_cursor_on_screen();
        self.current();
    }

    fn put(&mut self, c: char) {
        let width = c.width().unwrap_or(0);
        let columns = usize::from(self.size.columns);
        if width == 0 {
            // It stands over the character before it, if there is one.
            let end = self.column + usize::from(self.is_at_margin);
            let mut before = self.current().cells.iter_mut().take(end).rev();
            if let Some(over) = before.find(|cell| !cell.is_right_half) {
                over.text.push(c);
            }
            return;
        }
        if self.is_at_margin || self.column + width > columns {
            if self.wraps {
                self.current().goes_on = true;
                self.next_row();
                self.column = 0;
            } else {
                self.column = columns - width;
            }
            self.is_at_margin = false;
        }
        let (column, look) = (self.column, self.look);
        let row = self.current();
        // Half of a wide character is none.
        if row.cell(column).is_right_half {
            row.cell(column - 1).text.clear();
        }
        if row.cells.get(column + width).is_some_and(|cell| cell.is_right_half) {
            row.cells[column + width].is_right_half = false;
        }
        let is_erased = c == ' ' && !row.cell(column).is_blank();
        *row.cell(column) = Cell { text: c.to_string(), is_right_half: false, look };
        if width == 2 {
            *row.cell(column + 1) = Cell { text: String::new(), is_right_half: true, look };
        }
        if is_erased {
            self.blanked.push((self.row, column));
        }
        self.column += width;
        if self.column == columns {
            self.column = columns - 1;
            self.is_at_margin = self.wraps;
        }
    }

    fn mode(&mut self, number: u16, is_set: bool) {
        let is_chat = self.writer == Writer::Chat;
        match number {
            25 => self.cursor_is_shown = is_set,
            7 if is_chat => self.wraps = is_set,
            2004 if is_chat => self.pastes_are_marked = is_set,
            2026 if is_chat => self.frame(is_set),
            _ => panic!("an unknown mode: {number}"),
        }
    }

    fn colour(&mut self, numbers: &[u16]) {
        let colour = |numbers: &[u16]| {
            let byte = |number: u16| u8::try_from(number).expect("a colour is in bytes");
            match *numbers {
                [5, index] => Colour::Indexed(byte(index)),
                [2, red, green, blue] => Colour::Rgb(byte(red), byte(green), byte(blue)),
                _ => panic!("an unknown colour: {numbers:?}"),
            }
        };
        match *numbers {
            [38, ref rest @ ..] => self.look.ink = Some(colour(rest)),
            [48, ref rest @ ..] => self.look.ground = Some(colour(rest)),
            [number] => self.attribute(number),
            _ => panic!("an unknown attribute: {numbers:?}"),
        }
    }

    fn attribute(&mut self, number: u16) {
        let index = |from: u16| Some(Colour::Indexed((number - from) as u8));
        let look = &mut self.look;
        match number {
            0 => *look = Look::default(),
            1 => look.bold = true,
            2 => look.dim = true,
            3 => look.italic = true,
            4 => look.underlined = true,
            7 => look.reversed = true,
            22 => (look.bold, look.dim) = (false, false),
            23 => look.italic = false,
            24 => look.underlined = false,
            27 => look.reversed = false,
            30..=37 => look.ink = index(30),
            39 => look.ink = None,
            40..=47 => look.ground = index(40),
            49 => look.ground = None,
            90..=97 => look.ink = index(90 - 8),
            100..=107 => look.ground = index(100 - 8),
            _ => panic!("an unknown attribute: {number}"),
        }
    }

    /// Makes the screen lower or higher.
    fn stretch(&mut self, rows: u16) {
        let (before, now) = (usize::from(self.size.rows), usize::from(rows));
        if now < before {
            let below = before - 1 - (self.row - self.top);
            let cut = below.min(before - now);
            self.rows.truncate(self.top + before - cut);
            if let Some(last) = self.rows.last_mut() {
                last.goes_on = false;
            }
            self.top += before - now - cut;
        } else {
            self.top -= self.top.min(now - before);
        }
        self.size.rows = rows;
    }

    /// Breaks all rows where a terminal of this width would have broken them.
    fn break_anew(&mut self, columns: u16) {
        let columns = usize::from(columns);
        self.current();
        let below = self.rows.len() - self.top;
        let (row, column) = (self.row, self.column + usize::from(self.is_at_margin));
        let mut broken: Vec<Row> = Vec::new();
        let mut line: Vec<Cell> = Vec::new();
        // Where in the line the cursor is, if it is in it.
        let mut at = None;
        for (index, Row { cells, goes_on }) in
            std::mem::take(&mut self.rows).into_iter().enumerate()
        {
            if index == row {
                at = Some(line.len() + column);
            }
            line.extend(cells);
            if goes_on {
                continue;
            }
            let mut rows = cut(std::mem::take(&mut line), columns);
            if let Some(mut at) = at.take() {
                let mut index = 0;
                while index + 1 < rows.len() && at >= rows[index].cells.len() {
                    at -= rows[index].cells.len();
                    index += 1;
                }
                self.row = broken.len() + index;
                self.column = at;
            }
            broken.append(&mut rows);
        }
        // What was below the first row on the screen, counted from the end, is
        // so still.
        self.top = broken.len().saturating_sub(below).min(self.row);
        self.top = self.top.max((self.row + 1).saturating_sub(usize::from(self.size.rows)));
        self.rows = broken;
    }
}

/// Cuts a line into rows; a wide character is never cut in two.
fn cut(mut line: Vec<Cell>, columns: usize) -> Vec<Row> {
    let blank = |cell: &Cell| *cell == Cell::default();
    while line.last().is_some_and(blank) {
        line.pop();
    }
    let mut rows = Vec::new();
    while line.len() > columns {
        let at = if line[columns].is_right_half { columns - 1 } else { columns };
        let rest = line.split_off(at);
        rows.push(Row { cells: line, goes_on: true });
        line = rest;
    }
    rows.push(Row { cells: line, goes_on: false });
    rows
}

impl Perform for Grid {
    fn print(&mut self, c: char) {
        assert!(!c.is_control(), "it is no text: {c:?}");
        self.put(c);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => (self.column, self.is_at_margin) = (0, false),
            b'\n' => {
                self.is_at_margin = false;
                self.next_row();
            }
            b'\t' => {
                let last = usize::from(self.size.columns) - 1;
                self.column = ((self.column / 8 + 1) * 8).min(last);
            }
            0x07 if self.writer == Writer::Chat => self.bells += 1,
            // What is typed to end something is echoed, and shows nothing.
            0x03 | 0x04 if self.writer == Writer::Progress => {}
            _ => panic!("an unknown control character: {byte:#x}"),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        assert!(!ignore, "a sequence is too long");
        let numbers: Vec<u16> = params.iter().map(|param| param[0]).collect();
        let first = numbers.first().copied().unwrap_or(0);
        let count = usize::from(first.max(1));
        let is_progress = self.writer == Writer::Progress;
        let column = self.column;
        match (intermediates, action) {
            ([], 'A') => self.row = self.row.saturating_sub(count).max(self.top),
            ([], 'B') if is_progress => {
                self.row = (self.row + count).min(self.top + usize::from(self.size.rows) - 1);
            }
            ([], 'C') => self.column = (column + count).min(usize::from(self.size.columns) - 1),
            ([], 'D') if is_progress => self.column = column.saturating_sub(count),
            ([], 'K') if first == 0 => self.clear(self.row, column),
            ([], 'K') if first == 2 && is_progress => self.clear(self.row, 0),
            ([], 'J') if first == 0 => {
                self.clear(self.row, column);
                (self.row + 1..self.rows.len()).for_each(|row| self.clear(row, 0));
                self.rows.truncate(self.row + 1);
            }
            ([], 'm') => {
                let mut rest = &numbers[..];
                while let [number, after @ ..] = rest {
                    let length = match (number, after) {
                        (38 | 48, [5, ..]) => 3,
                        (38 | 48, [2, ..]) => 5,
                        _ => 1,
                    };
                    self.colour(&rest[..length]);
                    rest = &rest[length..];
                }
            }
            ([b'?'], 'h' | 'l') => {
                numbers.iter().for_each(|&number| self.mode(number, action == 'h'));
            }
            _ => panic!("an unknown sequence: CSI {intermediates:?} {numbers:?} {action}"),
        }
        if action != 'm' {
            self.is_at_margin = false;
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        assert_eq!(self.writer, Writer::Chat, "only a chat has a title");
        let text = |bytes: &[&[u8]]| String::from_utf8(bytes.join(&b';')).expect("it is UTF-8");
        match params {
            [b"2", title @ ..] => self.title = text(title),
            [b"9", notice @ ..] => self.notices.push(text(notice)),
            _ => panic!("an unknown command to the system: {params:?}"),
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, byte: u8) {
        // What ends a command to the system.
        assert!(
            intermediates.is_empty() && byte == b'\\',
            "an unknown escape: {intermediates:?} {:?}",
            char::from(byte)
        );
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, action: char) {
        panic!("a device string: {action}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(columns: u16, rows: u16, bytes: &str) -> Screen {
        let mut screen = Screen::new(Size { columns, rows }, Writer::Chat);
        write(&mut screen, bytes);
        screen
    }

    fn write(screen: &mut Screen, bytes: &str) {
        let mut rest = bytes.as_bytes();
        while !rest.is_empty() {
            rest = &rest[screen.take(rest)..];
        }
    }

    #[test]
    fn text_breaks_at_the_margin_with_the_character_that_no_longer_fits() {
        let mut screen = screen(4, 3, "abcd");
        assert_eq!(screen.cursor(), Some((0, 3)));
        write(&mut screen, "\u{1b}[K");
        assert_eq!(screen.text(), "abc", "erased where the cursor still is");
        write(&mut screen, "de\u{4e00}fg\u{4e00}");
        assert_eq!(screen.text(), "abcd\ne\u{4e00}f\ng\u{4e00}");
    }

    #[test]
    fn rows_scroll_away_at_the_top_and_are_out_of_reach() {
        let mut screen = screen(9, 2, "1\r\n2\r\n3\r\n\u{1b}[9Ax");
        assert_eq!(
            (screen.scrolled(), screen.shown()),
            (strings(&["1", "2"]), strings(&["x", ""]))
        );
        write(&mut screen, "\u{1b}[J");
        assert_eq!(screen.text(), "1\n2\nx");
    }

    #[test]
    fn without_breaks_the_last_column_is_written_over() {
        let screen = screen(4, 2, "\u{1b}[?7labcdef\u{1b}[?7h");
        assert_eq!((screen.text().as_str(), screen.cursor()), ("abcf", Some((0, 3))));
    }

    #[test]
    fn a_narrower_terminal_breaks_rows_anew_or_cuts_them() {
        let text = "abcdef\r\nx\r\n\u{4e00}\u{4e00}\u{4e00}";
        let mut breaks = screen(6, 4, text);
        breaks.resize(Size { columns: 3, rows: 4 }, Reflow::Yes);
        assert_eq!(breaks.text(), "abc\ndef\nx\n\u{4e00}\n\u{4e00}\n\u{4e00}");
        // tmux has one row below them still.
        assert_eq!((breaks.scrolled().len(), breaks.cursor()), (3, Some((2, 2))));
        breaks.resize(Size { columns: 6, rows: 4 }, Reflow::Yes);
        assert_eq!(breaks.text(), "abcdef\nx\n\u{4e00}\u{4e00}\u{4e00}");
        assert_eq!((breaks.scrolled().len(), breaks.cursor()), (0, Some((2, 5))));
        let mut cuts = screen(6, 4, text);
        cuts.resize(Size { columns: 3, rows: 2 }, Reflow::No);
        assert_eq!((cuts.text().as_str(), cuts.scrolled().len()), ("abc\nx\n\u{4e00}", 1));
    }

    #[test]
    fn what_is_blank_between_two_frames_flickers() {
        let mut screen = screen(9, 3, "ab\r\ncd");
        let mut frame = |bytes: &str| {
            write(&mut screen, &format!("\u{1b}[?2026h\u{1b}[1A\r{bytes}\r\n\u{1b}[?2026l"));
            screen.flickers()
        };
        assert_eq!(frame("xb\u{1b}[K"), 0);
        assert_eq!(frame("\u{1b}[Jxb"), 2);
        assert_eq!(frame(" b\rx"), 3);
        assert_eq!(frame("x\u{1b}[K"), 3);
    }

    #[test]
    fn lines_are_whole_however_they_were_broken() {
        let mut screen = screen(4, 3, "ab  cd\r\n\r\nefg\u{4e00}");
        let lines = strings(&["ab  cd", "", "efg\u{4e00}"]);
        assert_eq!(screen.lines(), lines);
        screen.resize(Size { columns: 3, rows: 3 }, Reflow::Yes);
        assert_eq!((screen.lines(), screen.size().columns), (lines, 3));
    }

    #[test]
    fn the_region_of_a_single_run_may_move_where_a_chat_may_not() {
        let mut screen = Screen::new(Size { columns: 9, rows: 3 }, Writer::Progress);
        write(&mut screen, "ab\u{1b}[1D\u{1b}[1Bc\u{1b}[1A\u{1b}[2Kd\u{3}");
        assert_eq!(screen.text(), "  d\n c");
        assert_eq!((screen.row("  "), screen.row("c")), (Some("  d".to_owned()), None));
    }

    #[test]
    fn a_lower_terminal_cuts_below_the_cursor_first_and_a_higher_one_brings_rows_back() {
        let mut screen = screen(9, 4, "1\r\n2\r\n3\r\n4\u{1b}[1A");
        screen.resize(Size { columns: 9, rows: 2 }, Reflow::Yes);
        assert_eq!((screen.text().as_str(), screen.scrolled()), ("1\n2\n3", strings(&["1"])));
        assert_eq!(screen.cursor(), Some((1, 1)));
        screen.resize(Size { columns: 9, rows: 5 }, Reflow::No);
        assert_eq!((screen.text().as_str(), screen.cursor()), ("1\n2\n3", Some((2, 1))));
    }

    #[test]
    fn a_mark_for_what_was_no_text_is_text_and_what_is_none_is_a_failure() {
        let shown = screen(9, 2, "a\u{fffd}b").text();
        assert_eq!(shown, "a\u{fffd}b");
        for bytes in [&b"a\xff"[..], b"\xc3(", b"\x9b2J", b"\xe4\xb8\x1b[m"] {
            let shows = std::panic::catch_unwind(|| {
                Screen::new(Size { columns: 9, rows: 2 }, Writer::Chat).take(bytes)
            });
            assert!(shows.is_err(), "{bytes:?} passes");
        }
    }

    #[test]
    fn a_frame_is_taken_up_to_its_end() {
        let mut screen = screen(9, 2, "");
        let frames = "\u{1b}[?2026ha\u{1b}[?2026l\u{1b}[?2026hb\u{1b}[?2026l";
        let first = screen.take(frames.as_bytes());
        assert_eq!((first, screen.text().as_str()), (frames.len() / 2, "a"));
        screen.take("\u{1b}[?2026h".as_bytes());
        assert!(screen.is_in_frame());
    }

    #[test]
    fn looks_titles_and_calls_are_kept() {
        let screen = screen(
            20,
            2,
            "ä\u{1b}[1;36mwarm\u{1b}[0;48;5;240;38;2;1;2;3mcold\u{1b}[m\u{1b}]2;tine: a;b\u{7}\u{7}\u{1b}]9;done\u{1b}\\\u{1b}[?25l\u{1b}[?2004h",
        );
        let warm = Look { ink: Some(Colour::Indexed(6)), bold: true, ..Look::default() };
        let (ink, ground) = (Some(Colour::Rgb(1, 2, 3)), Some(Colour::Indexed(240)));
        let cold = Look { ink, ground, ..Look::default() };
        let looks = ["ä", "warm", "cold", "hot"].map(|word| screen.look(word));
        assert_eq!(looks, [Some(Look::default()), Some(warm), Some(cold), None]);
        let parts = [("ä", Look::default()), ("warm", warm), ("cold", cold)];
        assert_eq!(screen.parts(), [parts.map(|(text, look)| (text.to_owned(), look))]);
        assert_eq!(screen.calls(), ("tine: a;b", &["done".to_owned()][..], 1));
        assert_eq!((screen.cursor(), screen.marks_pastes()), (None, true));
    }

    #[test]
    fn whatever_else_a_terminal_would_obey_is_a_failure() {
        for sequence in [
            "\u{1b}[6n",
            "\u{1b}[2J",
            "\u{1b}[H",
            "\u{1b}c",
            "\u{1b}]0;x\u{7}",
            "\u{1b}]11;?\u{7}",
            "\u{1b}P$q\u{1b}\\",
            "\u{1b}[?1049h",
            "\u{8}",
            "\u{9b}2J",
            "\u{1b}[8m",
            "\u{1b}[>q",
        ] {
            let obeys = std::panic::catch_unwind(|| screen(9, 2, sequence).text());
            assert!(obeys.is_err(), "{sequence:?} passes");
        }
    }

    fn strings(rows: &[&str]) -> Vec<String> {
        rows.iter().map(|&row| row.to_owned()).collect()
    }
}
