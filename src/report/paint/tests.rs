//! The painter against a small terminal, which has a scrollback and forgets
//! nothing.

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar as _;
use vte::{Params, Parser, Perform};

use super::*;
use crate::report::ink::{Ink, Level, Theme};
use crate::report::payloads;

/// Stands in the second half of a wide letter.
const WIDE: char = '\0';

/// A terminal: its scrollback and its screen as one list of rows.
struct Terminal {
    size: Size,
    rows: Vec<Line>,
    /// Which of `rows` is the first on the screen.
    top: usize,
    row: usize,
    column: usize,
    wraps: bool,
    shows_cursor: bool,
    reflow: Reflow,
    /// What became blank in this frame.
    blanked: Vec<(usize, usize)>,
}

#[derive(Clone, Default)]
struct Line {
    cells: Vec<char>,
    /// Whether the next row goes on with it.
    goes_on: bool,
}

impl Line {
    fn text(&self) -> String {
        self.cells.iter().filter(|cell| **cell != WIDE).collect::<String>().trim_end().to_owned()
    }
}

impl Terminal {
    fn new(size: Size, reflow: Reflow) -> Self {
        let (rows, blanked) = (vec![Line::default()], Vec::new());
        let (top, row, column, wraps, shows_cursor) = (0, 0, 0, true, true);
        Self { size, rows, top, row, column, wraps, shows_cursor, reflow, blanked }
    }

    /// Takes the bytes of a frame; nothing in it may be blank in between.
    fn take(&mut self, bytes: &[u8]) {
        self.blanked.clear();
        Parser::new().advance(self, bytes);
        for (row, column) in std::mem::take(&mut self.blanked) {
            let cell = self.rows.get(row).and_then(|line| line.cells.get(column));
            assert!(cell.is_none_or(|cell| *cell == ' '), "row {row} was blank in between");
        }
        assert!(self.wraps && self.shows_cursor);
    }

    fn width(&self) -> usize {
        usize::from(self.size.columns)
    }

    fn put(&mut self, column: usize, character: char) {
        let line = &mut self.rows[self.row];
        if line.cells.len() <= column {
            line.cells.resize(column + 1, ' ');
        }
        let before = std::mem::replace(&mut line.cells[column], character);
        if before != ' ' && character == ' ' {
            self.blanked.push((self.row, column));
        }
    }

    fn line_feed(&mut self) {
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(Line::default());
        }
        self.top = self.top.max((self.row + 1).saturating_sub(usize::from(self.size.rows)));
    }

    fn erase(&mut self, row: usize, from: usize) {
        let Some(line) = self.rows.get_mut(row) else { return };
        line.goes_on = false;
        let blanked = from..line.cells.len();
        let cells = blanked.filter(|column| line.cells[*column] != ' ').map(|column| (row, column));
        self.blanked.extend(cells);
        line.cells.truncate(from);
    }

    fn resize(&mut self, size: Size) {
        self.size = size;
        if self.reflow == Reflow::Yes {
            self.rewrap();
        } else {
            self.rows.iter_mut().for_each(|line| line.cells.truncate(usize::from(size.columns)));
        }
        self.column = self.column.min(self.width() - 1);
        self.top = self.top.min(self.row);
        self.top = self.top.max((self.row + 1).saturating_sub(usize::from(size.rows)));
    }

    fn rewrap(&mut self) {
        let (width, cursor) = (self.width(), (self.row, self.column));
        let mut rows: Vec<Line> = Vec::new();
        let mut whole: Vec<char> = Vec::new();
        let mut cursor_at = None;
        for (number, line) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            if number == cursor.0 {
                cursor_at = Some(whole.len() + cursor.1);
            }
            whole.extend(&line.cells);
            if line.goes_on {
                continue;
            }
            let kept = whole.iter().rposition(|cell| *cell != ' ').map_or(0, |last| last + 1);
            whole.truncate(kept);
            let first = rows.len();
            let pieces = whole.len().div_ceil(width).max(1);
            for (piece, cells) in (0..pieces).map(|piece| {
                (piece, whole.iter().skip(piece * width).take(width).copied().collect())
            }) {
                rows.push(Line { cells, goes_on: piece + 1 < pieces });
            }
            if let Some(at) = cursor_at.take() {
                self.row = first + (at / width).min(pieces - 1);
                self.column = at % width;
            }
            whole.clear();
        }
        self.rows = rows;
    }

    /// Returns all rows up to the last that is not empty.
    fn text(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.rows.iter().map(Line::text).collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }
}

impl Perform for Terminal {
    fn print(&mut self, character: char) {
        let columns = character.width().unwrap_or(0);
        if self.column + columns > self.width() {
            if self.wraps {
                self.rows[self.row].goes_on = true;
                self.line_feed();
                self.column = 0;
            } else {
                self.column = self.width() - columns;
            }
        }
        if columns == 0 {
            return;
        }
        self.put(self.column, character);
        (1..columns).for_each(|more| self.put(self.column + more, WIDE));
        self.column += columns;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.column = 0,
            b'\n' => self.line_feed(),
            _ => panic!("control {byte:x}"),
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _: bool) {
        panic!("an operating system command: {params:?}");
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, byte: u8) {
        // What ends a string that was never begun.
        panic!("ESC {byte:x}");
    }

    fn hook(&mut self, _: &Params, _: &[u8], _: bool, action: char) {
        panic!("a device string: {action}");
    }

    fn csi_dispatch(&mut self, params: &Params, marks: &[u8], _: bool, action: char) {
        let first = usize::from(params.iter().next().map_or(0, |param| param[0]));
        match (marks, action) {
            (b"", 'A') => self.row = self.row.saturating_sub(first.max(1)).max(self.top),
            (b"", 'C') => self.column = (self.column + first.max(1)).min(self.width() - 1),
            (b"", 'K') => {
                assert!(self.column < self.width(), "a letter at the margin is erased");
                self.erase(self.row, self.column);
            }
            (b"", 'J') => {
                self.erase(self.row, self.column);
                (self.row + 1..self.rows.len()).for_each(|row| self.erase(row, 0));
            }
            (b"", 'm') => {}
            (b"?", 'h' | 'l') => match first {
                7 => self.wraps = action == 'h',
                25 => self.shows_cursor = action == 'h',
                2026 => {}
                _ => panic!("mode {first}"),
            },
            _ => panic!("sequence {marks:?} {params:?} {action}"),
        }
    }
}

/// Lets what is written be looked at.
fn painted(screen: &mut Screen<Vec<u8>>, frame: &Frame) -> Vec<u8> {
    screen.paint(frame).unwrap();
    std::mem::take(&mut screen.out)
}

fn row(text: &str) -> Row {
    Row::new().text(Ink::Plain, text)
}

fn rows(texts: &[&str]) -> Vec<Row> {
    texts.iter().map(|text| row(text)).collect()
}

const SIZE: Size = Size { columns: 20, rows: 6 };

fn screen() -> Screen<Vec<u8>> {
    Screen::new(Vec::new(), SIZE, Palette::NONE, Reflow::No)
}

#[test]
fn a_frame_that_changes_nothing_writes_nothing() {
    let mut screen = screen();
    let frame = Frame { region: rows(&["a", "> "]), cursor: (1, 2), ..Frame::default() };
    assert!(!painted(&mut screen, &frame).is_empty());
    assert_eq!(painted(&mut screen, &frame), b"");
}

#[test]
fn only_rows_that_changed_are_drawn() {
    let mut screen = screen();
    let region = |doing| rows(&["title", doing, "> "]);
    painted(&mut screen, &Frame { region: region("one"), cursor: (2, 2), ..Frame::default() });
    let frame = Frame { region: region("two"), cursor: (2, 2), ..Frame::default() };
    assert_eq!(
        String::from_utf8(painted(&mut screen, &frame)).unwrap(),
        "\x1b[?2026h\x1b[?25l\x1b[2A\r\x1b[?7l\r\ntwo\x1b[K\x1b[?7h\r\n\r\x1b[2C\x1b[?25h\x1b[?2026l"
    );
}

#[test]
fn what_comes_to_stay_is_written_over_the_region_and_never_erased_first() {
    let mut screen = screen();
    let region = rows(&["tail", "> "]);
    painted(&mut screen, &Frame { region: region.clone(), cursor: (1, 2), ..Frame::default() });
    let commits = rows(&["01234567890123456789"]);
    let bytes = painted(&mut screen, &Frame { commits, region, cursor: (1, 2) });
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "\x1b[?2026h\x1b[?25l\x1b[1A\r01234567890123456789\r\n\x1b[?7ltail\x1b[K\r\n> \x1b[K\
         \x1b[?7h\r\x1b[2C\x1b[?25h\x1b[?2026l"
    );
}

#[test]
fn a_part_with_a_colour_ends_with_it() {
    let mut screen = screen();
    screen.palette = Palette { level: Level::Basic, theme: Theme::Dark };
    let region = vec![Row::new().text(Ink::Bad, "failed").text(Ink::Plain, " x")];
    let bytes = painted(&mut screen, &Frame { region, ..Frame::default() });
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\x1b[31mfailed\x1b[m x\x1b[K"), "{text:?}");
}

#[test]
fn what_others_named_cannot_end_the_title_or_a_message() {
    let mut screen = screen();
    screen.title("a\x07\x1b]52;c;x\x07").unwrap();
    screen.notify("b\x1b\\").unwrap();
    let text = String::from_utf8(screen.out).unwrap();
    assert_eq!(text, "\x1b]2;a\\u{7}\\u{1b}]52;c;x\\u{7}\x07\x1b]9;b\\u{1b}\\\x07");
}

#[test]
fn the_whole_screen_goes_into_the_scrollback_and_nothing_is_erased() {
    let mut screen = screen();
    let mut terminal = Terminal::new(SIZE, Reflow::No);
    let commits = rows(&["one", "two"]);
    let frame = Frame { commits, region: rows(&["> "]), cursor: (0, 2) };
    terminal.take(&painted(&mut screen, &frame));
    screen.scroll_away().unwrap();
    let frame = Frame { commits: Vec::new(), ..frame };
    screen.paint(&frame).unwrap();
    Parser::new().advance(&mut terminal, &screen.out);
    assert_eq!(terminal.text(), ["one", "two", ">"]);
    assert_eq!((terminal.top, terminal.row), (2, 2));
}

#[test]
fn no_text_of_others_is_obeyed_in_whatever_ink_it_is_painted() {
    let inks = [Ink::Plain, Ink::Dim, Ink::Typed, Ink::Picked, Ink::Quoted, Ink::Added];
    for (does, text) in payloads::ATTACKS {
        for ink in inks {
            let size = Size { columns: 200, rows: 20 };
            let palette = Palette { level: Level::True, theme: Theme::Dark };
            let mut screen = Screen::new(Vec::new(), size, palette, Reflow::No);
            let row = Row::new().text(ink, "a ").text(ink, text).text(ink, " b");
            let split = text.chars().fold(Row::new(), |row, c| row.text(ink, &c.to_string()));
            assert!(!row.plain().chars().any(sanitise::is_hidden), "{does}");
            let frame =
                Frame { commits: vec![row.clone(), split], region: vec![row], cursor: (0, 0) };
            let bytes = painted(&mut screen, &frame);
            assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()), "{does}");
            Terminal::new(size, Reflow::No).take(&bytes);
        }
    }
}

/// What happens to a screen.
#[derive(Debug, Clone)]
enum Step {
    Paint(Frame),
    Resize(Size),
}

fn any_row(most: usize) -> impl Strategy<Value = Row> {
    let letters =
        prop::collection::vec(prop::sample::select(vec!['a', 'b', ' ', '日', 'é']), 0..most);
    letters.prop_map(move |letters| {
        let text: String = letters.into_iter().collect();
        // A blank at the end cannot be told from nothing.
        row(text.trim_end()).cut(most)
    })
}

fn any_frame(widest: usize, longest: usize) -> impl Strategy<Value = Frame> {
    let commits = prop::collection::vec(any_row(longest), 0..4);
    let region = prop::collection::vec(any_row(widest), 0..5);
    (commits, region, any::<prop::sample::Index>(), 0..widest).prop_map(
        |(commits, region, row, column)| {
            let row = if region.is_empty() { 0 } else { row.index(region.len()) };
            let cursor = if region.is_empty() { 0 } else { column };
            let at = |number: usize| u16::try_from(number).unwrap();
            Frame { commits, region, cursor: (at(row), at(cursor)) }
        },
    )
}

fn broken(row: &Row, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut column = 0;
    for character in row.plain().chars() {
        let columns = character.width().unwrap();
        if column + columns > width {
            lines.push(String::new());
            column = 0;
        }
        column += columns;
        lines.last_mut().unwrap().push(character);
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Tells whether these are in there in this order.
fn holds_in_order(all: &[String], wanted: &[String]) -> bool {
    let mut all = all.iter();
    wanted.iter().filter(|row| !row.is_empty()).all(|row| all.any(|other| other == row))
}

proptest! {
    #[test]
    fn the_scrollback_is_what_came_to_stay_and_the_region_is_below(
        frames in prop::collection::vec(any_frame(19, 50), 1..12)
    ) {
        let mut screen = screen();
        let mut terminal = Terminal::new(SIZE, Reflow::No);
        let mut expected: Vec<String> = Vec::new();
        for frame in &frames {
            terminal.take(&painted(&mut screen, frame));
            expected.extend(frame.commits.iter().flat_map(|row| broken(row, 20)));
            let mut all = expected.clone();
            all.extend(frame.region.iter().map(Row::plain));
            let at = (expected.len() + usize::from(frame.cursor.0), usize::from(frame.cursor.1));
            prop_assert_eq!((terminal.row, terminal.column), at);
            while all.last().is_some_and(String::is_empty) {
                all.pop();
            }
            prop_assert_eq!(terminal.text(), all);
            let mut region = frame.region.clone();
            if let Some(last) = region.last_mut() {
                *last = row("another");
            }
            let changed = Frame { region, ..Frame::default() };
            terminal.take(&painted(&mut screen, &changed));
            prop_assert_eq!((terminal.row, terminal.column), (expected.len(), 0));
            let is_there = terminal.text().last().is_some_and(|row| row == "another");
            prop_assert_eq!(is_there, !changed.region.is_empty());
            terminal.take(&painted(&mut screen, &Frame { commits: Vec::new(), ..frame.clone() }));
            prop_assert_eq!((terminal.row, terminal.column), at);
        }
    }

    #[test]
    fn through_any_change_of_size_nothing_that_should_stay_is_lost(
        steps in prop::collection::vec(
            prop_oneof![
                any_frame(11, 11).prop_map(Step::Paint),
                (12_u16..40, 5_u16..9).prop_map(|(columns, rows)| Step::Resize(Size { columns, rows })),
            ],
            1..16,
        ),
        reflows in any::<bool>(),
    ) {
        let reflow = if reflows { Reflow::Yes } else { Reflow::No };
        let mut screen = Screen::new(Vec::new(), SIZE, Palette::NONE, reflow);
        let mut terminal = Terminal::new(SIZE, reflow);
        let mut expected: Vec<String> = Vec::new();
        for step in &steps {
            match step {
                Step::Resize(size) => {
                    terminal.resize(*size);
                    screen.resized(*size);
                }
                Step::Paint(frame) => {
                    screen.paint(frame).unwrap();
                    let bytes = std::mem::take(&mut screen.out);
                    Parser::new().advance(&mut terminal, &bytes);
                    expected.extend(frame.commits.iter().map(|row| row.plain().trim_end().to_owned()));
                    let region: Vec<String> = frame.region.iter().map(Row::plain).collect();
                    let first = terminal.row - usize::from(frame.cursor.0);
                    let shown: Vec<String> = terminal.rows[first..].iter().map(Line::text).collect();
                    prop_assert_eq!(&shown[..region.len()], &region[..]);
                    prop_assert!(holds_in_order(&terminal.text(), &expected));
                }
            }
        }
    }
}
