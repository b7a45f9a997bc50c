//! Reading a log that grows: what is there, and later what has come since.
//!
//! A line that has no end yet is left for later: its writer may be in the middle
//! of it.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::dirs;
use super::line::LINE_CAP;
use super::log::LogError;
use super::read::{Entry, Taken, entry, next_line};

/// The lines of a log, in order, as they come.
#[derive(Debug)]
pub struct Tail {
    /// `None` once it cannot be read any more.
    file: Option<BufReader<File>>,
    /// The number of the line last read.
    line: u64,
    buffer: Vec<u8>,
}

impl Tail {
    /// Opens the log of a session directory.
    ///
    /// # Errors
    ///
    /// Only if the log cannot be opened. Later trouble is an [`Entry::Bad`].
    pub fn open(directory: &Path) -> Result<Self, LogError> {
        let path = directory.join(dirs::LOG);
        let file = File::open(&path).map_err(|source| LogError::io("open", &path, source))?;
        Ok(Self { file: Some(BufReader::new(file)), line: 0, buffer: Vec::new() })
    }

    /// Returns the next line; `None` if there is none yet.
    pub fn read_on(&mut self) -> Option<Entry> {
        let file = self.file.as_mut()?;
        let line = self.line + 1;
        let taken = next_line(file, &mut self.buffer, LINE_CAP);
        let bad = |why| Some(Entry::Bad { line, why });
        match taken {
            Ok(Taken::Line) => {
                self.line = line;
                Some(entry(line, &self.buffer))
            }
            Ok(Taken::TooLong) => {
                self.line = line;
                bad(format!("longer than {LINE_CAP} bytes"))
            }
            Ok(Taken::Nothing) => None,
            Ok(Taken::Unterminated) => {
                let length = i64::try_from(self.buffer.len()).expect("a line is at most LINE_CAP");
                if let Err(error) = file.seek_relative(-length) {
                    self.file = None;
                    return bad(format!("cannot be read: {error}"));
                }
                None
            }
            Err(error) => {
                self.file = None;
                bad(format!("cannot be read: {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(tail: &mut Tail) -> Vec<Entry> {
        std::iter::from_fn(|| tail.read_on()).collect()
    }

    #[test]
    fn a_line_is_read_once_it_has_an_end() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = File::create(directory.path().join(dirs::LOG)).unwrap();
        let mut tail = Tail::open(directory.path()).unwrap();
        assert_eq!(read(&mut tail), []);
        let line = |number, kind: &str| {
            format!(
                "{{\"seq\":{number},\"at\":1,\"inv\":1,\"unit\":\"main\",\"branch\":\"\",\
                 \"path\":\"main\",\"kind\":\"{kind}\",\"body\":{{}}}}\n"
            )
        };
        let unknown = |line, kind: &str| Entry::Unknown { line, kind: kind.to_owned() };
        let whole = line(1, "one") + &line(2, "two");
        let (first, second) = whole.split_at(whole.len() - 20);
        log.write_all(first.as_bytes()).unwrap();
        assert_eq!(read(&mut tail), [unknown(1, "one")]);
        assert_eq!(read(&mut tail), []);
        log.write_all(second.as_bytes()).unwrap();
        assert_eq!(read(&mut tail), [unknown(2, "two")]);
        log.write_all(b"?\n").unwrap();
        assert!(matches!(read(&mut tail)[..], [Entry::Bad { line: 3, why: _ }]));
    }
}
