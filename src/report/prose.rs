//! Markdown as it arrives: what is final goes out as rows, the rest is a tail.
//!
//! What is pushed is read line by line, and long lines a few hundred letters at
//! a time. So what goes out depends on the text alone and never on the pieces
//! in which it came. What is still open stays as its raw text, up to a bound; it
//! is drawn anew whenever the tail is asked for.

mod blocks;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the events are not ours, and what is not drawn needs no name"
)]
mod inline;
mod table;
mod wrap;

use std::sync::Arc;

use self::blocks::{Block, Kind, balanced_end, blocks, unindented};
use self::table::Layout;
use self::wrap::Flow;
use super::ink::Ink;
use super::row::{CodeBlock, Row};
use super::sanitise::SafePieces;

/// Most bytes of text that are kept for what a block will be. A list's item or
/// a quote that is longer goes out as plain text.
pub const TAIL_CAP: usize = 16_384;

/// Letters of a line that has not ended after which it is looked at again.
const STRIDE: usize = 256;

/// Bytes of a paragraph from which on its beginning goes out: about six rows.
const LONG_PARAGRAPH: usize = 480;

/// Bytes of a long paragraph that stay: about two rows.
const KEPT: usize = 160;

/// Rows of a table from which on its widths are fixed and rows go out singly.
const LONG_TABLE: usize = 60;

/// One text in Markdown that is being written.
#[derive(Debug, Clone)]
pub struct Prose {
    pieces: SafePieces,
    /// What came and was not read.
    incoming: String,
    /// What was read and did not go out.
    tail: String,
    open: Open,
    /// Whether anything went out that the next block stands below.
    has_begun: bool,
    /// The letters of the line that has not ended.
    letters: usize,
    /// The bytes of the tail from which on it is looked at again: each look
    /// costs as much as the tail is long.
    patience: usize,
    /// The number of the next block of code.
    blocks: u64,
}

/// What the tail goes on with.
#[derive(Debug, Clone)]
enum Open {
    Nothing,
    /// A paragraph, and the last row of what went out of it.
    Paragraph(Flow),
    Fence(Fence),
    /// Indented code, and how many of its empty lines did not go out.
    Indented(usize),
    List(List),
    Table {
        layout: Layout,
        /// The two lines that make a line below them a row of a table.
        head: String,
    },
}

#[derive(Debug, Clone)]
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    block: Arc<CodeBlock>,
}

#[derive(Debug, Clone)]
struct List {
    mark: char,
    /// The number of its next item; `None` if they have none.
    next: Option<u64>,
}

impl Prose {
    /// An empty text. `stream` tells its blocks of code from those of others.
    #[must_use]
    pub fn new(stream: u32) -> Self {
        Self {
            incoming: String::new(),
            tail: String::new(),
            open: Open::Nothing,
            has_begun: false,
            letters: 0,
            patience: 0,
            blocks: u64::from(stream) << 32,
            pieces: SafePieces::default(),
        }
    }

    /// Appends a piece of the text.
    pub fn push(&mut self, piece: &str) {
        self.pieces.push(piece, &mut self.incoming);
    }

    /// Tells whether all that came has gone out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let has_carry = matches!(&self.open, Open::Paragraph(carry) if !carry.is_empty());
        self.incoming.is_empty() && self.tail.is_empty() && !has_carry && self.pieces.is_empty()
    }

    /// Returns the rows that have become final since the last call.
    pub fn settled(&mut self, columns: u16) -> Vec<Row> {
        let mut rows = Vec::new();
        let columns = usize::from(columns);
        for character in std::mem::take(&mut self.incoming).chars() {
            self.tail.push(character);
            self.letters += 1;
            let is_line = character == '\n';
            if is_line || self.letters.is_multiple_of(STRIDE) {
                if self.tail.len() >= self.patience || self.is_line_by_line() {
                    self.read(columns, false, &mut rows);
                    self.patience = self.tail.len() + self.tail.len() / 16;
                }
                if is_line {
                    self.letters = 0;
                }
            }
        }
        rows
    }

    /// Returns the last rows of what is not final, as they would be if nothing
    /// followed.
    #[must_use]
    pub fn tail(&self, columns: u16, rows: u16) -> Vec<Row> {
        let mut all = self.clone().finish(columns);
        all.split_off(all.len().saturating_sub(usize::from(rows)))
    }

    /// Returns the rows of all that is left. What is pushed then is another
    /// text.
    pub fn finish(&mut self, columns: u16) -> Vec<Row> {
        self.pieces.finish(&mut self.incoming);
        let mut rows = self.settled(columns);
        if !self.tail.is_empty() && !self.tail.ends_with('\n') {
            self.tail.push('\n');
        }
        let columns = usize::from(columns);
        self.read(columns, true, &mut rows);
        if let Open::Paragraph(carry) = std::mem::replace(&mut self.open, Open::Nothing)
            && !carry.is_empty()
        {
            rows.extend(carry.wrapped(columns));
        }
        *self = Self { blocks: self.blocks, ..Self::new(0) };
        rows
    }

    fn is_line_by_line(&self) -> bool {
        match self.open {
            Open::Fence(_) | Open::Indented(_) | Open::Table { .. } => true,
            Open::Nothing | Open::Paragraph(_) | Open::List(_) => false,
        }
    }

    /// Lets go out what is final; everything if nothing follows.
    fn read(&mut self, columns: usize, is_all: bool, rows: &mut Vec<Row>) {
        // Each look takes something off the tail, or finds out what is open.
        let mut idle = 0;
        while idle < 2 {
            let before = self.tail.len();
            match &self.open {
                Open::Nothing => self.next_block(columns, is_all, rows),
                Open::Paragraph(_) => self.paragraph(columns, is_all, rows),
                Open::Fence(_) => self.fence(rows),
                Open::Indented(_) => self.indented(rows),
                Open::List(_) => self.item(columns, is_all, rows),
                Open::Table { .. } => self.table_row(rows),
            }
            idle = if self.tail.len() == before { idle + 1 } else { 0 };
        }
        if self.tail.len() > TAIL_CAP {
            self.flush(columns, rows);
        }
    }

    /// Looks at the first block of the tail, where none is open.
    fn next_block(&mut self, columns: usize, is_all: bool, rows: &mut Vec<Row>) {
        while let Some(end) = self.whole().find('\n')
            && self.tail[..end].trim().is_empty()
        {
            self.tail.drain(..=end);
        }
        let found = blocks(self.whole());
        let is_last = found.len() == 1 && !is_all;
        let Some(block) = found.into_iter().next() else {
            return self.cut_paragraph(columns, rows);
        };
        let text = self.tail[block.range.clone()].to_owned();
        match block.kind {
            Kind::Line => self.put(block.range.end, inline::rows(&text, columns), rows),
            Kind::Fence(language) => {
                let end = self.whole().find('\n').map_or(self.tail.len(), |end| end + 1);
                self.open_fence(end, &language, rows);
            }
            Kind::Indented => {
                self.put(0, Vec::new(), rows);
                self.open = Open::Indented(0);
            }
            Kind::List(next) => {
                let first = text.trim_start();
                let mark = first.trim_start_matches(|c: char| c.is_ascii_digit()).chars().next();
                self.put(0, Vec::new(), rows);
                self.open = Open::List(List { mark: mark.unwrap_or('-'), next });
            }
            Kind::Hidden if !is_last => {
                self.put(
                    block.range.end,
                    Flow::new(Ink::Plain, text.trim()).wrapped(columns),
                    rows,
                );
            }
            Kind::Paragraph | Kind::Table | Kind::Other if !is_last => {
                self.put(block.range.end, inline::rows(&text, columns), rows);
            }
            Kind::Paragraph => self.cut_paragraph(columns, rows),
            Kind::Table => self.open_table(block.range.end, columns, rows),
            Kind::Other | Kind::Hidden => {}
        }
    }

    /// Returns the lines of the tail that have ended.
    fn whole(&self) -> &str {
        &self.tail[..self.tail.rfind('\n').map_or(0, |end| end + 1)]
    }

    /// Lets a block go out that ends there, below a blank row if anything is
    /// above it.
    fn put(&mut self, end: usize, block: Vec<Row>, rows: &mut Vec<Row>) {
        if std::mem::replace(&mut self.has_begun, true) {
            rows.push(Row::new());
        }
        rows.extend(block);
        self.tail.drain(..end);
    }

    fn open_fence(&mut self, end: usize, language: &str, rows: &mut Vec<Row>) {
        let line = &self.tail[..end];
        let marks = line.trim_start_matches(' ');
        let mark = marks.chars().next().unwrap_or('`');
        let indent = line.len() - marks.len();
        let length = marks.len() - marks.trim_start_matches(mark).len();
        self.blocks += 1;
        let language = language.trim();
        let frame = Row::new().text(Ink::Dim, language);
        let block = Arc::new(CodeBlock { number: self.blocks, language: language.into() });
        let frame = if language.is_empty() { Vec::new() } else { vec![frame] };
        self.put(end, frame, rows);
        self.open = Open::Fence(Fence { mark, length, indent, block });
    }

    fn fence(&mut self, rows: &mut Vec<Row>) {
        let Open::Fence(fence) = &self.open else { return };
        let mut at = 0;
        let mut is_closed = false;
        for line in self.tail.split_inclusive('\n') {
            let Some(text) = line.strip_suffix('\n') else { break };
            at += line.len();
            if fence.is_closed_by(text) {
                is_closed = true;
                break;
            }
            let spaces = text.len() - text.trim_start_matches(' ').len();
            let text = &text[spaces.min(fence.indent)..];
            let row = Row::new().text(Ink::Plain, text);
            rows.push(if fence.block.language.is_empty() {
                row
            } else {
                row.in_code(&fence.block)
            });
        }
        if is_closed {
            self.open = Open::Nothing;
        }
        self.tail.drain(..at);
    }

    fn indented(&mut self, rows: &mut Vec<Row>) {
        let Open::Indented(blanks) = &mut self.open else { return };
        let mut at = 0;
        let mut is_over = false;
        for line in self.tail.split_inclusive('\n') {
            let Some(text) = line.strip_suffix('\n') else { break };
            let code = unindented(text);
            if text.trim().is_empty() {
                *blanks += 1;
            } else if let Some(code) = code {
                rows.extend((0..std::mem::take(blanks)).map(|_| Row::new()));
                rows.push(Row::new().text(Ink::Plain, code));
            } else {
                is_over = true;
                break;
            }
            at += line.len();
        }
        if is_over {
            self.open = Open::Nothing;
        }
        self.tail.drain(..at);
    }

    /// Looks at the item that the tail begins with.
    fn item(&mut self, columns: usize, is_all: bool, rows: &mut Vec<Row>) {
        let Open::List(list) = &mut self.open else { return };
        let end = self.tail.rfind('\n').map_or(0, |end| end + 1);
        let found = blocks(&self.tail[..end]);
        let Some(first) = found.first() else { return };
        let text = &self.tail[first.range.clone()];
        let mark = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        if !matches!(first.kind, Kind::List(_)) || !mark.starts_with(list.mark) {
            self.open = Open::Nothing;
            return;
        }
        let end = match first.items.get(1) {
            Some(next) => *next,
            None if found.len() > 1 || is_all => first.range.end,
            None => return,
        };
        rows.extend(inline::item(&self.tail[..end], columns, list.next));
        list.next = list.next.map(|number| number.saturating_add(1));
        self.tail.drain(..end);
    }

    /// Looks at the rest of a paragraph whose beginning has gone out.
    fn paragraph(&mut self, columns: usize, is_all: bool, rows: &mut Vec<Row>) {
        const GUARD: &str = "x ";
        let found = blocks(&format!("{GUARD}{}", self.whole()));
        if found.len() < 2 && !is_all && !self.whole().starts_with('\n') {
            return self.cut_paragraph(columns, rows);
        }
        let end = found.first().map_or(0, |block| block.range.end.saturating_sub(GUARD.len()));
        let end = end.min(self.tail.len());
        let Open::Paragraph(carry) = std::mem::replace(&mut self.open, Open::Nothing) else {
            return;
        };
        let rest: String = self.tail.drain(..end).collect();
        rows.extend(joined(carry, &rest).wrapped(columns));
    }

    /// Lets the beginning of a paragraph go out that has become long.
    fn cut_paragraph(&mut self, columns: usize, rows: &mut Vec<Row>) {
        if self.tail.len() < LONG_PARAGRAPH {
            return;
        }
        let is_paragraph = match &self.open {
            Open::Paragraph(_) => blocks(&format!("x {}", self.tail)).len() == 1,
            Open::Nothing => matches!(
                &*blocks(&self.tail),
                [Block { kind: Kind::Paragraph, .. }] if !self.tail.trim_start().starts_with('|')
            ),
            Open::Fence(_) | Open::Indented(_) | Open::List(_) | Open::Table { .. } => false,
        };
        let Some(end) = balanced_end(&self.tail, self.tail.len() - KEPT).filter(|_| is_paragraph)
        else {
            return;
        };
        let carry = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Paragraph(carry) => carry,
            Open::Nothing
            | Open::Fence(_)
            | Open::Indented(_)
            | Open::List(_)
            | Open::Table { .. } => {
                self.put(0, Vec::new(), rows);
                Flow::default()
            }
        };
        let piece: String = self.tail.drain(..=end).collect();
        let mut wrapped = joined(carry, &piece).wrapped(columns);
        let carry = wrapped.pop().map(|row| Flow::from(&row)).unwrap_or_default();
        rows.extend(wrapped);
        self.open = Open::Paragraph(carry);
    }

    /// Fixes the widths of a table that has become long.
    fn open_table(&mut self, end: usize, columns: usize, rows: &mut Vec<Row>) {
        let text = &self.tail[..end];
        let lines = text.trim_start().split_inclusive('\n');
        if lines.clone().count() < LONG_TABLE && text.len() < TAIL_CAP / 2 {
            return;
        }
        let head: String = lines.take(2).collect();
        let Some((alignments, cells)) = inline::table(text) else { return };
        let Some((header, body)) = cells.split_first() else { return };
        let layout = Layout::new(&alignments, header, body, columns);
        let body = body.iter().flat_map(|cells| layout.row(cells));
        self.put(end, layout.head().into_iter().chain(body).collect(), rows);
        self.open = Open::Table { layout, head };
    }

    fn table_row(&mut self, rows: &mut Vec<Row>) {
        let Open::Table { layout, head } = &self.open else { return };
        let Some(end) = self.tail.find('\n').map(|end| end + 1) else { return };
        let whole = format!("{head}{}", &self.tail[..end]);
        let cells = match &*blocks(&whole) {
            [Block { kind: Kind::Table, .. }] => inline::table(&whole),
            _ => None,
        };
        // The header and the row; without a row the line was empty.
        match cells.map(|(_, cells)| cells) {
            Some(cells) if cells.len() == 2 => {
                rows.extend(layout.row(&cells[1]));
                self.tail.drain(..end);
            }
            Some(_) | None => self.open = Open::Nothing,
        }
    }

    /// Lets the tail go out as plain text up to its last space.
    fn flush(&mut self, columns: usize, rows: &mut Vec<Row>) {
        let end = self.tail.rfind([' ', '\n']).map_or(self.tail.len(), |end| end + 1);
        let text: String = self.tail.drain(..end).collect();
        if let Open::Fence(_) | Open::Indented(_) = self.open {
            rows.push(Row::new().text(Ink::Plain, &text));
            return;
        }
        if let Open::Paragraph(carry) = std::mem::replace(&mut self.open, Open::Nothing) {
            rows.extend(carry.wrapped(columns));
        }
        self.put(0, Vec::new(), rows);
        let lines = text.trim_end().split('\n');
        rows.extend(lines.flat_map(|line| Flow::new(Ink::Plain, line).wrapped(columns)));
    }
}

impl Fence {
    fn is_closed_by(&self, line: &str) -> bool {
        let marks = line.trim_start_matches(' ');
        let rest = marks.trim_start_matches(self.mark);
        line.len() - marks.len() < 4
            && marks.len() - rest.len() >= self.length
            && rest.trim().is_empty()
    }
}

/// Returns a text in rows no wider than `columns`, the second and further ones
/// behind so many spaces. Its line breaks are kept.
#[must_use]
pub fn wrapped(ink: Ink, text: &str, columns: u16, indent: u16) -> Vec<Row> {
    let (columns, indent) = (usize::from(columns), usize::from(indent));
    let rows = text.split('\n').flat_map(|line| {
        let narrow = columns.saturating_sub(indent).max(1);
        Flow::new(ink, line).wrapped(narrow)
    });
    let behind = |(number, row): (usize, Row)| match number {
        0 => row,
        _ => Row::new().padded(indent).row(&row),
    };
    rows.enumerate().map(behind).collect()
}

/// Returns what went out of a paragraph's last row with what follows it.
fn joined(mut carry: Flow, text: &str) -> Flow {
    if !carry.is_empty() {
        carry.push(Ink::Plain, " ");
    }
    carry.extend(&inline::words(text));
    carry
}

#[cfg(test)]
mod tests;
