//! Walks through a file line by line, in little memory however long they are.

use std::io::{self, BufRead, BufReader, Cursor, Read as _};

use crate::message::ImageKind;
use crate::tool::blocking::StoppableFile;
use crate::tool::bound::is_continuation;
use crate::tool::change::FILE_CAP;
use crate::tool::encoding::{TextEncoding, conversion_hint};
use crate::tool::files::Start;

/// Most characters of a line that are shown: a minified file is one line.
pub const LINE_CAP: usize = 2_000;

/// A file with a NUL within this many bytes is binary; git looks as far.
const BINARY_LOOK: usize = 8_000;

/// How much is read at a time.
const BUFFER: usize = 64 * 1024;

/// One line of a file.
pub(super) struct Line {
    /// Its first bytes, without the line feed.
    pub(super) kept: Vec<u8>,
    /// How many characters follow those.
    pub(super) dropped: u64,
    /// Whether a line feed ends it.
    pub(super) ended: bool,
}

/// Which part of a line is wanted.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Keep {
    Nothing,
    /// Up to [`LINE_CAP`] characters.
    Start,
}

/// Walks through a file line by line and hashes what it passes.
pub(super) struct Lines<'a> {
    reader: Box<dyn BufRead + 'a>,
    /// Encoding of the file; the reader gives UTF-8.
    pub(super) encoding: TextEncoding,
    hasher: blake3::Hasher,
    /// Number of the file's bytes that were passed.
    pub(super) position: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: StoppableFile<'a>) -> Self {
        let reader = Box::new(BufReader::with_capacity(BUFFER, file));
        Self { reader, encoding: TextEncoding::Bytes, hasher: blake3::Hasher::new(), position: 0 }
    }

    /// Goes over to another encoding if the file begins with its mark. Nothing has
    /// been read yet.
    pub(super) fn decode(&mut self) -> io::Result<()> {
        if TextEncoding::named_by(self.reader.fill_buf()?) == TextEncoding::Bytes {
            return Ok(());
        }
        // Its end may show that it is something else, so all of it is looked at.
        let mut bytes = Vec::new();
        self.reader.by_ref().take(FILE_CAP + 1).read_to_end(&mut bytes)?;
        let (encoding, text) = match bytes.len() as u64 > FILE_CAP {
            true => (TextEncoding::Bytes, bytes.as_slice().into()),
            false => TextEncoding::decode(&bytes),
        };
        self.encoding = encoding;
        self.pass(encoding.mark());
        let text = Cursor::new(text.into_owned());
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = Box::new(text.chain(rest));
        Ok(())
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.position += u64::try_from(bytes.len()).expect("a length fits 64 bits");
    }

    pub(super) fn look_binary(&mut self) -> io::Result<bool> {
        let buffer = self.reader.fill_buf()?;
        Ok(buffer[..buffer.len().min(BINARY_LOOK)].contains(&0))
    }

    /// Says how to convert a binary file that may be a text; may be empty.
    pub(super) fn look_conversion(&mut self, shown: &str) -> io::Result<String> {
        let buffer = self.reader.fill_buf()?;
        Ok(conversion_hint(&buffer[..buffer.len().min(BINARY_LOOK)], shown))
    }

    pub(super) fn look_image(&mut self) -> io::Result<Option<ImageKind>> {
        Ok(ImageKind::of(self.reader.fill_buf()?))
    }

    /// Reads what no line was read of; one byte more than `most` if there is
    /// more.
    pub(super) fn all(self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader.take((most as u64).saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    pub(super) fn hash(&self) -> blake3::Hash {
        self.hasher.finalize()
    }

    pub(super) fn start(&self) -> Start {
        Start { bytes: self.position, hash: self.hash() }
    }

    pub(super) fn next(&mut self, keep: Keep) -> io::Result<Option<Line>> {
        let mut line = Line { kept: Vec::new(), dropped: 0, ended: false };
        let mut characters = 0;
        let mut any = false;
        while !line.ended {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(any.then_some(line));
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let length = end.map_or(buffer.len(), |at| at + 1);
            if keep == Keep::Start {
                line.push(&buffer[..end.unwrap_or(length)], &mut characters);
            }
            let passed = self.encoding.encode_part(&buffer[..length]);
            self.hasher.update(&passed);
            self.position += u64::try_from(passed.len()).expect("a length fits 64 bits");
            self.reader.consume(length);
            line.ended = end.is_some();
            any = true;
        }
        Ok(Some(line))
    }
}

impl Line {
    fn push(&mut self, bytes: &[u8], characters: &mut usize) {
        for &byte in bytes {
            let begins = !is_continuation(byte);
            *characters += usize::from(begins);
            // The second bound is for bytes that begin no character at all.
            if *characters <= LINE_CAP && self.kept.len() < LINE_CAP * 4 {
                self.kept.push(byte);
            } else {
                self.dropped += u64::from(begins);
            }
        }
    }
}
