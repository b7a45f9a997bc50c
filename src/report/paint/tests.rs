//! The painter against a terminal that breaks its rows as real ones do and
//! forgets nothing.

use proptest::prelude::*;
use unicode_width::UnicodeWidthChar as _;

use super::*;
use crate::config::Theme;
use crate::report::ink::{Ink, Level};
use crate::report::payloads;
use crate::report::screen::{self, Screen as Terminal, Writer};

/// A terminal of the tests, on which nothing was written.
fn terminal(size: Size) -> Terminal {
    Terminal::new(outside(size), Writer::Chat)
}

fn outside(Size { columns, rows }: Size) -> screen::Size {
    screen::Size { columns, rows }
}

/// Has a terminal take all that was written.
fn takes(terminal: &mut Terminal, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = &rest[terminal.take(rest)..];
    }
}

/// Returns where the cursor is: row, counted from the first of all, and column.
fn place(terminal: &Terminal) -> (usize, usize) {
    let (row, column) = terminal.cursor().expect("a frame ends with the cursor shown");
    (terminal.scrolled().len() + row, column)
}

/// Joins rows, up to the last that is not empty.
fn joined(rows: &[String]) -> String {
    rows.join("\n").trim_end().to_owned()
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
    let mut terminal = terminal(SIZE);
    let commits = rows(&["one", "two"]);
    let frame = Frame { commits, region: rows(&["> "]), cursor: (0, 2) };
    takes(&mut terminal, &painted(&mut screen, &frame));
    screen.scroll_away().unwrap();
    let frame = Frame { commits: Vec::new(), ..frame };
    screen.paint(&frame).unwrap();
    takes(&mut terminal, &screen.out);
    assert_eq!(terminal.text(), "one\ntwo\n>");
    assert_eq!((terminal.scrolled().len(), terminal.cursor()), (2, Some((0, 2))));
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
            takes(&mut terminal(size), &bytes);
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

/// Tells whether these are in there in this order. A part of a region that was
/// left behind may stand before one, since the terminal broke it off there.
fn holds_in_order(all: &[String], wanted: &[String]) -> bool {
    let mut all = all.iter();
    wanted.iter().all(|row| all.any(|other| other.ends_with(row)))
}

/// Has one thing after the other happen to a screen and to its terminal, with
/// regions as wide as the terminal is then. What came to stay is there to the
/// end, and the region is below it.
fn check_steps(reflow: Reflow, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut screen = Screen::new(Vec::new(), SIZE, Palette::NONE, reflow);
    let mut terminal = terminal(SIZE);
    let mut expected: Vec<String> = Vec::new();
    for step in steps {
        let frame = match step {
            Step::Resize(size) => {
                let reflows = match reflow {
                    Reflow::Yes => screen::Reflow::Yes,
                    Reflow::No => screen::Reflow::No,
                };
                terminal.resize(outside(*size), reflows);
                screen.resized(*size);
                continue;
            }
            Step::Paint(frame) => frame,
        };
        let widest = screen.size.text_columns();
        let region = frame.region.iter().map(|row| row.clone().cut(usize::from(widest))).collect();
        let cursor = (frame.cursor.0, frame.cursor.1.min(widest - 1));
        let numbered = |(at, row): (usize, &Row)| {
            let number = format!("{}.", expected.len() + at);
            Row::new().text(Ink::Plain, &number).row(row)
        };
        let commits: Vec<Row> = frame.commits.iter().enumerate().map(numbered).collect();
        let frame = Frame { commits, region, cursor };
        let before = terminal.flickers();
        let flickers = screen.was_resized;
        takes(&mut terminal, &painted(&mut screen, &frame));
        prop_assert!(flickers || terminal.flickers() == before, "it flickers");
        expected.extend(frame.commits.iter().map(|row| row.plain()));
        prop_assert!(
            holds_in_order(&terminal.lines(), &expected),
            "{:#?} lacks some of {expected:#?}",
            terminal.lines()
        );
        let (row, column) = place(&terminal);
        let first = row - usize::from(frame.cursor.0);
        let shown: Vec<String> = terminal.text().lines().skip(first).map(str::to_owned).collect();
        let region: Vec<String> = frame.region.iter().map(Row::plain).collect();
        prop_assert_eq!(joined(&shown), joined(&region));
        prop_assert_eq!(column, usize::from(frame.cursor.1));
    }
    Ok(())
}

fn any_steps(
    frames: impl Strategy<Value = Frame> + 'static,
    columns: std::ops::Range<u16>,
) -> impl Strategy<Value = Vec<Step>> {
    let size = (columns, 5_u16..9).prop_map(|(columns, rows)| Step::Resize(Size { columns, rows }));
    prop::collection::vec(prop_oneof![frames.prop_map(Step::Paint), size], 1..16)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_scrollback_is_what_came_to_stay_and_the_region_is_below(
        frames in prop::collection::vec(any_frame(19, 50), 1..12)
    ) {
        let mut screen = screen();
        let mut terminal = terminal(SIZE);
        let mut expected: Vec<String> = Vec::new();
        for frame in &frames {
            takes(&mut terminal, &painted(&mut screen, frame));
            expected.extend(frame.commits.iter().flat_map(|row| broken(row, 20)));
            let mut all = expected.clone();
            all.extend(frame.region.iter().map(Row::plain));
            let at = (expected.len() + usize::from(frame.cursor.0), usize::from(frame.cursor.1));
            prop_assert_eq!(place(&terminal), at);
            prop_assert_eq!(terminal.text(), joined(&all));
            let mut region = frame.region.clone();
            if let Some(last) = region.last_mut() {
                *last = row("another");
            }
            let changed = Frame { region, ..Frame::default() };
            takes(&mut terminal, &painted(&mut screen, &changed));
            prop_assert_eq!(place(&terminal), (expected.len(), 0));
            let is_there = terminal.text().lines().last().is_some_and(|row| row == "another");
            prop_assert_eq!(is_there, !changed.region.is_empty());
            takes(&mut terminal, &painted(&mut screen, &Frame { commits: Vec::new(), ..frame.clone() }));
            prop_assert_eq!(place(&terminal), at);
            prop_assert_eq!(terminal.flickers(), 0);
        }
    }

    #[test]
    fn a_terminal_that_breaks_rows_anew_loses_nothing_that_should_stay(
        steps in any_steps(any_frame(40, 50), 3..40)
    ) {
        check_steps(Reflow::Yes, &steps)?;
    }

    // What came to stay is short enough here that the terminal itself cuts none.
    #[test]
    fn a_terminal_that_cuts_rows_loses_no_row_that_should_stay(
        steps in any_steps(any_frame(40, 9), 12..40)
    ) {
        check_steps(Reflow::No, &steps)?;
    }
}
