//! The one writer to the terminal of a chat.
//!
//! A [`Frame`] is what should be there: rows that stay, which go into the
//! scrollback, and below them the region, which is drawn anew. A frame goes out
//! in one write. Nothing is blanked before it is written over, and the terminal
//! is never asked anything, so there is nothing to wait for.

use std::io::{self, Write};

use super::ink::Palette;
use super::row::Row;
use super::sanitise;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Most columns of prose and of the region's rows: longer lines are hard to
/// read.
const WIDEST: u16 = 88;

impl Size {
    /// Returns how wide a row of the region may be, and prose. The last column
    /// stays free, so that nothing that a terminal draws wider than expected
    /// moves a row.
    #[must_use]
    pub fn text_columns(self) -> u16 {
        self.columns.saturating_sub(1).clamp(1, WIDEST)
    }
}

/// What a terminal should show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// What comes to stay, above the region. Rows may be longer than the
    /// terminal is wide: it breaks them, and they are copied whole.
    pub commits: Vec<Row>,
    /// The region, top to bottom, no row wider than [`Size::text_columns`] and
    /// no more rows than the terminal has.
    pub region: Vec<Row>,
    /// Where the cursor stands: row and column within the region.
    pub cursor: (u16, u16),
}

/// What a terminal does with its rows when it gets another width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflow {
    /// Breaks them anew.
    Yes,
    /// Cuts them, or nobody knows. Then a row that was left behind may stay in
    /// the scrollback, and nothing that should stay is written over.
    No,
}

/// A terminal and what was drawn on it.
pub struct Screen<W> {
    out: W,
    size: Size,
    palette: Palette,
    reflow: Reflow,
    drawn: Vec<Row>,
    /// Where the cursor is: row and column within what was drawn.
    at: (u16, u16),
    /// Whether the terminal has another size than when that was drawn.
    was_resized: bool,
}

impl<W: Write> Screen<W> {
    /// A terminal whose cursor stands at the beginning of a row.
    pub fn new(out: W, size: Size, palette: Palette, reflow: Reflow) -> Self {
        let (drawn, at, was_resized) = (Vec::new(), (0, 0), false);
        Self { out, size, palette, reflow, drawn, at, was_resized }
    }

    /// Takes other colours from the next frame on, in which the whole region is
    /// drawn.
    pub fn set_palette(&mut self, palette: Palette) {
        self.palette = palette;
        self.was_resized = true;
    }

    /// Takes note of another size. The next frame is drawn for it.
    pub fn resized(&mut self, size: Size) {
        self.was_resized = self.was_resized || size != self.size;
        self.size = size;
    }

    /// Shows a frame. One that changes nothing writes nothing.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be written to.
    pub fn paint(&mut self, frame: &Frame) -> io::Result<()> {
        let Frame { commits, region, cursor } = frame;
        let is_same = *region == self.drawn && (*cursor == self.at || region.is_empty());
        if commits.is_empty() && is_same && !self.was_resized {
            return Ok(());
        }
        let mut bytes = Vec::new();
        bytes.extend_from_slice(b"\x1b[?2026h\x1b[?25l");
        let up = self.rows_above_cursor();
        go_up(&mut bytes, up);
        bytes.push(b'\r');
        if self.was_resized {
            bytes.extend_from_slice(b"\x1b[J");
            self.drawn.clear();
        }
        for row in commits {
            self.commit(row, &mut bytes);
        }
        let (at, wanted) = (self.draw(region, commits.len(), &mut bytes), usize::from(cursor.0));
        go_up(&mut bytes, at.saturating_sub(wanted));
        (at..wanted).for_each(|_| bytes.extend_from_slice(b"\r\n"));
        bytes.push(b'\r');
        if cursor.1 > 0 && !region.is_empty() {
            bytes.extend_from_slice(format!("\x1b[{}C", cursor.1).as_bytes());
        }
        bytes.extend_from_slice(b"\x1b[?25h\x1b[?2026l");
        self.drawn.clone_from(region);
        self.at = if region.is_empty() { (0, 0) } else { *cursor };
        self.was_resized = false;
        self.write(&bytes)
    }

    /// Takes the region away. The cursor stands where it began.
    ///
    /// # Errors
    ///
    /// As for [`Screen::paint`].
    pub fn erase(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        go_up(&mut bytes, self.rows_above_cursor());
        bytes.extend_from_slice(b"\r\x1b[J\x1b[?25h");
        self.forget();
        self.write(&bytes)
    }

    /// Forgets what was drawn: something else wrote to the terminal, whose
    /// cursor stands at the beginning of a row now.
    pub fn forget(&mut self) {
        self.drawn.clear();
        self.at = (0, 0);
        self.was_resized = false;
    }

    /// Moves all that is to be seen into the scrollback.
    ///
    /// # Errors
    ///
    /// As for [`Screen::paint`].
    pub fn scroll_away(&mut self) -> io::Result<()> {
        self.erase()?;
        let rows = usize::from(self.size.rows.saturating_sub(1));
        let mut bytes = vec![b'\n'; rows];
        go_up(&mut bytes, rows);
        bytes.push(b'\r');
        self.write(&bytes)
    }

    /// Names the window.
    ///
    /// # Errors
    ///
    /// As for [`Screen::paint`].
    pub fn title(&mut self, title: &str) -> io::Result<()> {
        let title = sanitise::line(title);
        self.write(format!("\x1b]2;{title}\x07").as_bytes())
    }

    /// Rings the bell.
    ///
    /// # Errors
    ///
    /// As for [`Screen::paint`].
    pub fn ring(&mut self) -> io::Result<()> {
        self.write(b"\x07")
    }

    /// Has the desktop show a message, if the terminal can.
    ///
    /// # Errors
    ///
    /// As for [`Screen::paint`].
    pub fn notify(&mut self, text: &str) -> io::Result<()> {
        let text = sanitise::line(text);
        self.write(format!("\x1b]9;{text}\x07").as_bytes())
    }

    /// Returns how many rows of the terminal the region has above the cursor, at
    /// least: going up too far would write over what should stay.
    fn rows_above_cursor(&self) -> usize {
        let row = usize::from(self.at.0);
        let above = self.drawn.iter().take(row);
        let width = usize::from(self.size.columns.max(1));
        match (self.was_resized, self.reflow) {
            (false, _) | (true, Reflow::No) => above.count(),
            (true, Reflow::Yes) => {
                let rows: usize = above.map(|row| row.place(width).0).sum();
                let column = usize::from(self.at.1);
                rows + self.drawn.get(row).map_or(0, |row| row.rows_above(column, width))
            }
        }
    }

    /// Writes a row that stays, and goes to the next.
    fn commit(&self, row: &Row, bytes: &mut Vec<u8>) {
        self.inked(row, bytes);
        let width = usize::from(self.size.columns.max(1));
        // Behind a row that ends at the margin the cursor still stands on its
        // last letter, which would be erased.
        if row.place(width).1 < width {
            bytes.extend_from_slice(b"\x1b[K");
        }
        bytes.extend_from_slice(b"\r\n");
    }

    /// Writes the region below so many rows that came to stay; returns how many
    /// rows the cursor stands below its first.
    fn draw(&self, region: &[Row], commits: usize, bytes: &mut Vec<u8>) -> usize {
        bytes.extend_from_slice(b"\x1b[?7l");
        // A row that stays takes one row of the terminal at least.
        let shrinks = commits + region.len() < self.drawn.len();
        let mut at = 0;
        for (number, row) in region.iter().enumerate() {
            let erases = shrinks && number + 1 == region.len();
            if commits == 0 && !erases && self.drawn.get(number) == Some(row) {
                continue;
            }
            (at..number).for_each(|_| bytes.extend_from_slice(b"\r\n"));
            at = number;
            self.inked(row, bytes);
            bytes.extend_from_slice(if erases { b"\x1b[J" } else { b"\x1b[K" });
        }
        if shrinks && region.is_empty() {
            bytes.extend_from_slice(b"\x1b[J");
        }
        bytes.extend_from_slice(b"\x1b[?7h");
        at
    }

    fn inked(&self, row: &Row, bytes: &mut Vec<u8>) {
        for (ink, text) in row.spans() {
            match self.palette.numbers(*ink) {
                Some(numbers) => {
                    bytes.extend_from_slice(format!("\x1b[{numbers}m{text}\x1b[m").as_bytes());
                }
                None => bytes.extend_from_slice(text.as_bytes()),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }
}

fn go_up(bytes: &mut Vec<u8>, rows: usize) {
    if rows > 0 {
        bytes.extend_from_slice(format!("\x1b[{rows}A").as_bytes());
    }
}

#[cfg(test)]
mod tests;
