//! The region: what stands below the scrollback, in the rows there are.
//!
//! From top to bottom: the tail of what is being written, a panel, the units,
//! what the user wrote and nobody read, the line, the footer. Where rows are
//! few, the tail goes first, then units go into their sums; the line and the
//! question always stay.

use std::sync::Arc;

use super::board::{Board, View};
use super::commits::Commits;
use super::ink::Ink;
use super::paint::Size;
use super::prose::wrapped;
use super::row::Row;
use crate::event::{UnitId, UnixMillis};

/// Most rows of what is being written.
const TAIL: u16 = 6;

/// Most rows of messages that wait.
const WAITING: usize = 3;

/// Most rows of the line.
const LINE: usize = 10;

/// Fewest rows of a screen with a footer.
const WITH_FOOTER: u16 = 12;

/// Fewest rows that the units keep beside a panel.
const UNITS: usize = 3;

/// What the region is made of.
pub struct Parts<'a> {
    /// What stays, for its tail and for what waits.
    pub commits: &'a Commits,
    /// The units.
    pub board: &'a Board,
    /// The unit that keys point at.
    pub picked: Option<UnitId>,
    /// Draws the panel in at most so many rows; nothing if there is none.
    pub panel: &'a mut dyn FnMut(u16, usize) -> Vec<Row>,
    /// What is being typed, all of it, the prompt in front of it.
    pub line: &'a [Row],
    /// Where the cursor stands in that: row and column.
    pub cursor: (u16, u16),
    /// What keys do now.
    pub footer: Row,
}

/// Returns how many rows of the line are shown at most.
#[must_use]
pub fn line_rows(size: Size) -> usize {
    LINE.min(usize::from(size.rows) / 3).max(1)
}

/// Returns the rows of the region and where the cursor stands in them.
#[must_use]
pub fn region(parts: Parts<'_>, size: Size, now: UnixMillis) -> (Vec<Row>, (u16, u16)) {
    let Parts { commits, board, picked, panel, line, cursor, footer } = parts;
    let columns = size.text_columns();
    let mut room = usize::from(size.rows).saturating_sub(1).max(1);
    let has_footer = size.rows >= WITH_FOOTER;
    room = room.saturating_sub(usize::from(has_footer));
    let (line, cursor) = seen(line, cursor, line_rows(size).min(room.max(1)));
    room = room.saturating_sub(line.len());
    let waiting = waiting(commits.waiting().collect::<Vec<_>>().as_slice(), columns, room);
    room = room.saturating_sub(waiting.len());
    let mut units = board.rows(View { columns, rows: usize::MAX, now, picked });
    let mut panel = panel(columns, room.saturating_sub(units.len().min(UNITS)));
    panel.truncate(room);
    room = room.saturating_sub(panel.len());
    // What was seen and only waits for its colours does not go out of sight.
    let most = TAIL.saturating_add(u16::try_from(commits.held()).unwrap_or(u16::MAX));
    let mut tail = if panel.is_empty() { commits.tail(columns, most) } else { Vec::new() };
    // One row of what is being written is worth more than the last unit.
    let rows = room.saturating_sub(usize::from(!tail.is_empty()));
    if units.len() > rows {
        units = board.rows(View { columns, rows, now, picked });
    }
    room = room.saturating_sub(units.len());
    tail.drain(..tail.len().saturating_sub(room));
    let above = tail.len() + panel.len() + units.len() + waiting.len();
    // The line does not stick to what stays above it.
    let gap = if above == 0 && room > 0 { vec![Row::new()] } else { Vec::new() };
    let above = above + gap.len();
    let footer = has_footer.then_some(footer);
    let all = [tail, panel, units, waiting, gap, line].into_iter().flatten().chain(footer);
    let all = all.map(|row| row.cut(usize::from(columns))).collect();
    let row = u16::try_from(above).unwrap_or(u16::MAX).saturating_add(cursor.0);
    (all, (row, cursor.1.min(columns)))
}

/// Returns the part of the line that is seen, and the cursor in it.
fn seen(line: &[Row], cursor: (u16, u16), most: usize) -> (Vec<Row>, (u16, u16)) {
    let at = usize::from(cursor.0);
    let first = (at + 1).saturating_sub(most).min(line.len().saturating_sub(1));
    let rows: Vec<Row> = line.iter().skip(first).take(most).cloned().collect();
    let row = u16::try_from(at.saturating_sub(first)).unwrap_or(u16::MAX);
    (rows, (row, cursor.1))
}

/// Returns the messages that wait, a row each.
fn waiting(texts: &[&Arc<str>], columns: u16, room: usize) -> Vec<Row> {
    let most = WAITING.min(room);
    let mark = "  waits: ";
    let hidden = texts.len().saturating_sub(most);
    let shown = if hidden > 0 { most.saturating_sub(1) } else { most };
    let row = |text: &&Arc<str>| {
        let text = super::words::short_line(text.trim(), usize::from(columns));
        Row::new().text(Ink::Dim, mark).text(Ink::Typed, &text).cut(usize::from(columns))
    };
    let mut rows: Vec<Row> = texts.iter().take(shown).map(row).collect();
    if hidden > 0 && most > 0 {
        let more = format!("{mark}{} more", texts.len() - shown);
        rows.extend(
            wrapped(Ink::Dim, more.trim_start(), columns, 0)
                .into_iter()
                .take(1)
                .map(|row| Row::new().text(Ink::Dim, "  ").row(&row)),
        );
    }
    rows
}

#[cfg(test)]
mod tests;
