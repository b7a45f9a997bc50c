//! The hits in one file, as rows of text.

use std::io;

use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use crate::tool::blocking::StoppableFile;
use crate::tool::bound::first_characters;

use super::{Listing, Mode, Style, Wanted};

/// Most characters of a matching line that are shown.
const LINE_CAP: usize = 500;

/// Most memory for one file. A search across lines holds the whole file; what
/// is larger is reported as not read.
const HEAP_CAP: usize = 16 * 1024 * 1024;

/// Returns the rows of one file, at least as many as `listing` still takes;
/// none if the file is binary.
///
/// # Errors
///
/// The file could not be read, or its lines are too long to hold.
pub(super) fn of_file(
    file: StoppableFile<'_>,
    shown: &str,
    wanted: &Wanted,
    listing: &Listing,
) -> io::Result<Vec<String>> {
    let mut hits = Hits {
        shown,
        style: wanted.style,
        most_rows: listing.rows.unwrap_or(u64::MAX),
        most_characters: listing.left,
        characters: 0,
        matches: 0,
        rows: Vec::new(),
        binary: false,
    };
    searcher(wanted.style).search_reader(&wanted.matcher, file, &mut hits)?;
    Ok(hits.into_rows())
}

fn searcher(style: Style) -> Searcher {
    let context = if style.mode == Mode::Content { (style.before, style.after) } else { (0, 0) };
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP_CAP))
        .multi_line(style.multiline)
        .before_context(context.0)
        .after_context(context.1)
        .build()
}

struct Hits<'a> {
    shown: &'a str,
    style: Style,
    most_rows: u64,
    most_characters: usize,
    characters: usize,
    matches: u64,
    rows: Vec<String>,
    binary: bool,
}

impl Hits<'_> {
    fn into_rows(self) -> Vec<String> {
        if self.binary || self.matches == 0 {
            return Vec::new();
        }
        match self.style.mode {
            Mode::Files => vec![self.shown.to_owned()],
            Mode::Count => vec![format!("{}:{}", self.shown, self.matches)],
            Mode::Content => self.rows,
        }
    }

    /// Adds a row; `false` once there are more than can be listed.
    fn push(&mut self, row: String) -> bool {
        self.characters += row.chars().count();
        self.rows.push(row);
        self.characters <= self.most_characters && self.rows.len() as u64 <= self.most_rows
    }

    /// Writes a line the way grep does: `mark` is `:` for a match, `-` for
    /// context.
    fn line(&self, mark: char, number: Option<u64>, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let (text, dropped) = first_characters(text.trim_end_matches(['\n', '\r']), LINE_CAP);
        let mut row = format!("{}{mark}", self.shown);
        if let Some(number) = number.filter(|_| self.style.numbers) {
            row.push_str(&format!("{number}{mark}"));
        }
        row.push_str(text);
        if dropped > 0 {
            row.push_str(&format!(" [... {dropped} more characters]"));
        }
        row
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.style.mode {
            Mode::Files => {
                self.matches = 1;
                Ok(false)
            }
            Mode::Count => {
                self.matches += found.lines().count() as u64;
                Ok(true)
            }
            Mode::Content => {
                self.matches += 1;
                for (number, line) in (found.line_number().unwrap_or(1)..).zip(found.lines()) {
                    if !self.push(self.line(':', Some(number), line)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.push(self.line('-', context.line_number(), context.bytes())))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        Ok(self.push("--".to_owned()))
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}
