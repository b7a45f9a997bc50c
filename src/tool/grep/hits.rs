//! The hits in one file, as rows of text.
//!
//! A file is text up to its first NUL. What is binary from its beginning is not searched,
//! and of a file that becomes binary the part before is; both are told.

use std::io::{self, Cursor, Read};

use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use memchr::memchr;
use memchr::memmem;

use crate::tool::blocking::StoppableFile;
use crate::tool::bound::first_characters;

use super::{Listing, Mode, Style, Wanted};

/// Most characters of a matching line that are shown.
const LINE_CAP: usize = 500;

/// Maximum memory for one file. A search across lines holds the whole file, any other one
/// its longest line; what is larger is reported as not searched.
const HEAP_CAP: usize = 16 * 1024 * 1024;

/// A file with a NUL within this many bytes is binary; git and Read look as far.
const BINARY_LOOK: u64 = 8_000;

/// The result for one file.
pub(super) struct FileHits {
    /// At least as many rows as the listing still takes.
    pub(super) rows: Vec<String>,
    /// The part of the file that was not searched.
    pub(super) gap: Option<UnsearchedPart>,
}

/// A part of a file that was not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsearchedPart {
    /// The whole file, because it is binary.
    Binary,
    /// All from this byte on, because there is a NUL.
    From(u64),
    /// The whole file, because it or a line of it does not fit into memory.
    TooLarge,
}

/// Searches one file after the other, with the same memory.
pub(super) struct FileSearcher<'a> {
    wanted: &'a Wanted,
    searcher: Searcher,
}

impl<'a> FileSearcher<'a> {
    pub(super) fn new(wanted: &'a Wanted) -> Self {
        Self { wanted, searcher: searcher(wanted) }
    }

    /// Searches a file for at least as many rows as the listing still takes.
    ///
    /// # Errors
    ///
    /// The file could not be read.
    pub(super) fn search(
        &mut self,
        file: StoppableFile<'_>,
        shown: &str,
        listing: &Listing,
    ) -> io::Result<FileHits> {
        let mut text = TextPart::open(file)?;
        if text.is_binary() {
            return Ok(FileHits { rows: Vec::new(), gap: Some(UnsearchedPart::Binary) });
        }
        let mut hits = Hits {
            shown,
            style: self.wanted.style,
            most_rows: listing.rows.unwrap_or(u64::MAX),
            most_characters: listing.left,
            characters: 0,
            matches: 0,
            rows: Vec::new(),
        };
        let is_whole = match self.wanted.style.multiline {
            true => self.search_whole(&mut text, &mut hits)?,
            false => self.search_lines(&mut text, &mut hits)?,
        };
        let gap = match (is_whole, text.end) {
            (false, _) => Some(UnsearchedPart::TooLarge),
            (true, Some(end)) => Some(UnsearchedPart::From(end)),
            (true, None) => None,
        };
        Ok(FileHits { rows: hits.into_rows(), gap })
    }

    /// Searches line by line; `false` if a line does not fit into memory.
    fn search_lines(&mut self, text: &mut TextPart<'_>, hits: &mut Hits<'_>) -> io::Result<bool> {
        let result = self.searcher.search_reader(&self.wanted.matcher, &mut *text, &mut *hits);
        match result {
            Ok(()) => Ok(true),
            // Its own reading fails with an error of the system or of the caller; this one is
            // the searcher's.
            Err(error) if error.to_string().contains("allocation limit") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Searches the text as one; `false` if it does not fit into memory.
    fn search_whole(&mut self, text: &mut TextPart<'_>, hits: &mut Hits<'_>) -> io::Result<bool> {
        let mut bytes = Vec::new();
        text.take(HEAP_CAP as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > HEAP_CAP {
            return Ok(false);
        }
        // Read hides a carriage return before a line feed, so the model cannot write it.
        if !self.wanted.names_returns && memmem::find(&bytes, b"\r\n").is_some() {
            bytes = without_returns(&bytes);
        }
        self.searcher.search_slice(&self.wanted.matcher, &bytes, &mut *hits)?;
        Ok(true)
    }
}

/// Returns a text whose lines end with a line feed alone.
fn without_returns(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, b"\r\n") {
        text.extend_from_slice(&rest[..at]);
        text.push(b'\n');
        rest = &rest[at + 2..];
    }
    text.extend_from_slice(rest);
    text
}

fn searcher(wanted: &Wanted) -> Searcher {
    let Style { mode, before, after, multiline, .. } = wanted.style;
    let context = if mode == Mode::Content { (before, after) } else { (0, 0) };
    let mut builder = SearcherBuilder::new();
    builder
        .binary_detection(BinaryDetection::none())
        .heap_limit(Some(HEAP_CAP))
        .multi_line(multiline)
        .before_context(context.0)
        .after_context(context.1);
    if !multiline && !wanted.names_returns {
        builder.line_terminator(LineTerminator::crlf());
    }
    builder.build()
}

/// A file up to its first NUL.
struct TextPart<'a> {
    /// The bytes that were looked at before the search.
    head: Cursor<Vec<u8>>,
    file: StoppableFile<'a>,
    /// UTF-16 has NULs in ordinary text; the searcher decodes it by its mark.
    is_utf16: bool,
    position: u64,
    /// Position of the first NUL, once it was read.
    end: Option<u64>,
}

impl<'a> TextPart<'a> {
    fn open(mut file: StoppableFile<'a>) -> io::Result<Self> {
        let mut head = Vec::new();
        (&mut file).take(BINARY_LOOK).read_to_end(&mut head)?;
        let is_utf16 = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
        Ok(Self { head: Cursor::new(head), file, is_utf16, position: 0, end: None })
    }

    fn is_binary(&self) -> bool {
        !self.is_utf16 && memchr(0, self.head.get_ref()).is_some()
    }
}

impl Read for TextPart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.end.is_some() {
            return Ok(0);
        }
        let mut length = self.head.read(buffer)?;
        if length == 0 {
            length = self.file.read(buffer)?;
        }
        if !self.is_utf16
            && let Some(at) = memchr(0, &buffer[..length])
        {
            self.end = Some(self.position + at as u64);
            length = at;
        }
        self.position += length as u64;
        Ok(length)
    }
}

struct Hits<'a> {
    shown: &'a str,
    style: Style,
    most_rows: u64,
    most_characters: usize,
    characters: usize,
    matches: u64,
    rows: Vec<String>,
}

impl Hits<'_> {
    fn into_rows(self) -> Vec<String> {
        if self.matches == 0 {
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
}
