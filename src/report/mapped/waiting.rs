//! Lines that wait until it is their turn.
//!
//! One slow row holds up all behind it, and they may be a hundred thousand: so
//! what is more than some of them waits in a file that has no name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Most bytes of lines that wait in memory: those of some thousand rows.
const HELD_CAP: usize = 8 * 1024 * 1024;

/// Lines that wait, by the place that they have among all.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: BTreeMap<usize, Line>,
    /// How many bytes are in memory.
    held: usize,
    file: Option<File>,
    /// How many bytes the file has.
    written: u64,
}

#[derive(Debug)]
enum Line {
    Held(Vec<u8>),
    Written { at: u64, length: usize },
}

impl Waiting {
    /// Keeps a line.
    ///
    /// # Errors
    ///
    /// There is no room for it, neither in memory nor in a file.
    pub(super) fn put(&mut self, index: usize, line: Vec<u8>) -> io::Result<()> {
        let line = match self.held + line.len() <= HELD_CAP {
            true => {
                self.held += line.len();
                Line::Held(line)
            }
            false => self.write(&line)?,
        };
        self.lines.insert(index, line);
        Ok(())
    }

    /// Returns a line, if it is there.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(super) fn take(&mut self, index: usize) -> io::Result<Option<Vec<u8>>> {
        match self.lines.remove(&index) {
            None => Ok(None),
            Some(Line::Held(line)) => {
                self.held -= line.len();
                Ok(Some(line))
            }
            Some(Line::Written { at, length }) => {
                let mut line = vec![0; length];
                let file = self.file.as_ref().expect("a line that was written is in the file");
                file.read_exact_at(&mut line, at)?;
                Ok(Some(line))
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<Line> {
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile()?,
        };
        let at = self.written;
        self.file.insert(file).write_all_at(line, at)?;
        self.written += line.len() as u64;
        Ok(Line::Written { at, length: line.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_there_when_it_is_their_turn_wherever_they_waited() {
        let mut waiting = Waiting::default();
        let line = |index: usize| vec![u8::try_from(index).unwrap(); HELD_CAP / 4];
        for index in (1..10).rev() {
            waiting.put(index, line(index)).unwrap();
        }
        assert_eq!(waiting.held, HELD_CAP);
        assert_eq!(waiting.written, line(1).len() as u64 * 5);
        assert_eq!(waiting.take(0).unwrap(), None);
        for index in 1..10 {
            assert!(waiting.take(index).unwrap() == Some(line(index)), "{index}");
        }
        assert_eq!((waiting.held, waiting.take(1).unwrap()), (0, None));
    }
}
