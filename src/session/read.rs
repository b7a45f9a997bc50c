//! Reading a log: line by line from its start, or backwards from its end.
//!
//! A reader never fails over one line: it reports the line and goes on. It
//! takes no lock, so a session can be looked at while it is being written.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::dirs;
use super::line::{self, Decoded, LINE_CAP};
use super::log::LogError;
use crate::event::Event;

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An event.
    Event(Event),
    /// An event of a kind that a later tine may know. It stays in the log.
    Unknown {
        /// The line's number, from 1.
        line: u64,
        /// The kind's name.
        kind: String,
    },
    /// A line that is no event. It is skipped; the reader goes on.
    Bad {
        /// The line's number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// Opens the log of a session directory and reads its lines in order.
///
/// # Errors
///
/// Only if the log cannot be opened. Later trouble is an [`Entry::Bad`].
pub fn read(directory: &Path) -> Result<Entries, LogError> {
    let path = directory.join(dirs::LOG);
    let file = File::open(&path).map_err(|source| LogError::io("open", &path, source))?;
    Ok(Entries { file: Some(BufReader::new(file)), line: 0, buffer: Vec::new() })
}

/// The lines of a log, in order.
#[derive(Debug)]
pub struct Entries {
    /// `None` after the end.
    file: Option<BufReader<File>>,
    /// The number of the line last read.
    line: u64,
    buffer: Vec<u8>,
}

impl Entries {
    /// Returns the line last read, without its line feed; empty if it was too
    /// long to be kept.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the events alone, for whoever has nothing to say of other lines: those
    /// of a later tine, and damaged ones.
    pub fn events(self) -> impl Iterator<Item = Event> {
        self.filter_map(|entry| match entry {
            Entry::Event(event) => Some(event),
            Entry::Unknown { .. } | Entry::Bad { .. } => None,
        })
    }

    /// Reads on to the next line that may be wanted; the others are not parsed.
    pub fn next_where(&mut self, mut may_be_wanted: impl FnMut(&[u8]) -> bool) -> Option<Entry> {
        loop {
            self.line += 1;
            let line = self.line;
            let taken = next_line(self.file.as_mut()?, &mut self.buffer, LINE_CAP);
            if !matches!(taken, Ok(Taken::Line | Taken::TooLong)) {
                self.file = None;
            }
            let bad = |why| Some(Entry::Bad { line, why });
            match taken {
                Ok(Taken::Line | Taken::Unterminated) => {
                    if may_be_wanted(&self.buffer) {
                        return Some(entry(line, &self.buffer));
                    }
                }
                Ok(Taken::TooLong) => return bad(format!("longer than {LINE_CAP} bytes")),
                Ok(Taken::Nothing) => return None,
                Err(error) => return bad(format!("cannot be read: {error}")),
            }
        }
    }
}

impl Iterator for Entries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        self.next_where(|_| true)
    }
}

pub(super) fn entry(line: u64, text: &[u8]) -> Entry {
    match line::decode(text) {
        Ok(Decoded::Event(event)) => Entry::Event(event),
        Ok(Decoded::Unknown { kind }) => Entry::Unknown { line, kind },
        Err(why) => Entry::Bad { line, why },
    }
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// With its line feed.
    Line,
    /// With the file: torn, or just being written.
    Unterminated,
    /// It was skipped: it is over the cap.
    TooLong,
    /// There was none.
    Nothing,
}

/// Takes the next line, without its line feed, into `buffer`. Of a line over
/// the cap nothing is kept.
pub(super) fn next_line(
    reader: &mut impl BufRead,
    buffer: &mut Vec<u8>,
    cap: usize,
) -> Result<Taken, io::Error> {
    buffer.clear();
    let mut too_long = false;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let piece = &chunk[..end.unwrap_or(chunk.len())];
        let (at_end, taken) = (chunk.is_empty(), piece.len() + usize::from(end.is_some()));
        too_long |= buffer.len() + piece.len() > cap;
        if too_long {
            buffer.clear();
        } else {
            buffer.extend_from_slice(piece);
        }
        reader.consume(taken);
        match (end, at_end) {
            (Some(_), _) | (None, true) if too_long => return Ok(Taken::TooLong),
            (Some(_), _) => return Ok(Taken::Line),
            (None, true) if buffer.is_empty() => return Ok(Taken::Nothing),
            (None, true) => return Ok(Taken::Unterminated),
            (None, false) => {}
        }
    }
}

/// How much is read at once on the way back to the start of a line.
const STEP: u64 = 64 * 1024;

/// Returns where the line begins that ends at `end` (a line feed at `end - 1`
/// belongs to the line before).
pub(super) fn line_start(file: &File, end: u64) -> io::Result<u64> {
    let mut block = Vec::new();
    let mut before = end;
    while before > 0 {
        let from = before.saturating_sub(STEP);
        block.resize(usize::try_from(before - from).expect("a block is at most STEP bytes"), 0);
        file.read_exact_at(&mut block, from)?;
        if let Some(index) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(from + index as u64 + 1);
        }
        before = from;
    }
    Ok(0)
}

/// Reads the line at `start..end`, without its line feed; `None` if it is over
/// the cap.
pub(super) fn line_at(file: &File, start: u64, end: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(length) = usize::try_from(end - start).ok().filter(|&length| length <= LINE_CAP)
    else {
        return Ok(None);
    };
    let mut text = vec![0; length];
    file.read_exact_at(&mut text, start)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, cap: usize, expected: &[(Taken, &str)]) {
        // A buffer of three bytes splits every line somewhere.
        let mut reader = BufReader::with_capacity(3, text.as_bytes());
        let (mut buffer, mut lines) = (Vec::new(), Vec::new());
        loop {
            let taken = next_line(&mut reader, &mut buffer, cap).unwrap();
            if taken == Taken::Nothing {
                break;
            }
            lines.push((taken, String::from_utf8(buffer.clone()).unwrap()));
        }
        let expected: Vec<_> = expected.iter().map(|&(t, text)| (t, text.to_owned())).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn lines_are_taken_one_by_one_and_the_last_may_lack_its_end() {
        use Taken::{Line, Unterminated};
        check("", 10, &[]);
        check("a\nbcdef\n", 10, &[(Line, "a"), (Line, "bcdef")]);
        check("\n\nab", 10, &[(Line, ""), (Line, ""), (Unterminated, "ab")]);
    }

    #[test]
    fn a_line_over_the_cap_is_skipped_and_the_next_one_is_read() {
        use Taken::{Line, TooLong};
        check("12345\n123456\nab\n", 5, &[(Line, "12345"), (TooLong, ""), (Line, "ab")]);
        check("ab\n1234567890", 5, &[(Line, "ab"), (TooLong, "")]);
    }

    #[test]
    fn the_start_of_a_line_is_found_across_blocks() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        let long = "x".repeat(3 * usize::try_from(STEP).unwrap());
        write!(file, "ab\n{long}\ncd").unwrap();
        let length = file.metadata().unwrap().len();
        assert_eq!(line_start(&file, length).unwrap(), length - 2);
        assert_eq!(line_start(&file, length - 3).unwrap(), 3);
        assert_eq!(line_start(&file, 2).unwrap(), 0);
        assert_eq!(line_at(&file, 0, 2).unwrap().as_deref(), Some(&b"ab"[..]));
    }
}
