//! Server-sent events out of bytes that come in pieces.
//!
//! A [`Decoder`] is fed pieces of a body and lends out the events in them, as
//! text, without copying what lies within one piece. It reads what servers
//! really send: a byte order mark, every line end, bytes that are no text, a
//! last event without its blank line. What it holds is bounded, and each byte
//! is looked at once.

use std::ops::Range;

use bytes::Bytes;
use memchr::memchr2;

/// Most bytes of one event. A call that writes a large file may come in one;
/// the whole of it is held until it ends.
pub const EVENT_CAP: usize = 4 * 1024 * 1024;

/// What some servers send as the last event.
const END_MARK: &str = "[DONE]";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event, in the decoder's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// What sort of event it says it is; mostly empty.
    pub name: &'a str,
    /// What it says.
    pub data: &'a str,
}

impl Event<'_> {
    /// Tells whether this is the mark behind which nothing follows.
    #[must_use]
    pub fn is_end_mark(&self) -> bool {
        is_end_mark(self.data)
    }

    /// Tells whether it says nothing: some servers send such events to keep a
    /// connection open.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.data.trim_ascii().is_empty()
    }
}

/// An event of more than [`EVENT_CAP`] bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// Returns whether a body that begins with these bytes is a stream of events.
/// Unknown fields may come first; JSON and a web page are not a stream.
#[must_use]
pub fn begins_so(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_start();
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    let is_other = matches!(bytes.first(), Some(b'{' | b'[' | b'<'));
    let mut lines = bytes.split(|byte| matches!(byte, b'\r' | b'\n'));
    fields.iter().any(|field| bytes.starts_with(field))
        || !is_other && lines.any(|line| fields[..2].iter().any(|field| line.starts_with(field)))
}

/// Finds the events in the pieces of a body.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The piece at hand, read up to `position`.
    piece: Bytes,
    position: usize,
    /// The start of a line that goes on in the next piece.
    line: Vec<u8>,
    name: String,
    data: Data,
    /// The data where it does not lie in one piece, or is no text.
    copied: Vec<u8>,
    mended: String,
    /// Whether a line came before. Only the first can have a byte order mark.
    has_begun: bool,
    /// Whether the last line ended with a carriage return, to which a line
    /// feed may belong.
    after_return: bool,
    /// Whether the event at hand has been lent out and is to be forgotten.
    is_lent: bool,
    /// Whether an end mark stands behind the event at hand.
    is_marked: bool,
}

/// Where the data of the event at hand is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Data {
    /// The event has none so far.
    #[default]
    Nowhere,
    /// Within the piece at hand.
    InPiece(Range<usize>),
    Copied,
}

/// A line without its end.
enum Line {
    /// Within the piece at hand.
    InPiece(Range<usize>),
    /// In the decoder's `line`.
    Joined,
}

impl Decoder {
    /// Takes the next piece. Every event of the piece before must have been
    /// taken.
    pub fn feed(&mut self, piece: Bytes) {
        self.forget_lent();
        debug_assert_eq!(self.position, self.piece.len(), "the last piece was not read to its end");
        if let Data::InPiece(range) = &self.data {
            self.copied.clear();
            self.copied.extend_from_slice(&self.piece[range.clone()]);
            self.data = Data::Copied;
        }
        (self.piece, self.position) = (piece, 0);
    }

    /// Ends the body: whatever has begun is whole now.
    pub fn end(&mut self) {
        self.feed(Bytes::from_static(b"\n\n"));
    }

    /// Returns the next event; `None` if it takes another piece.
    ///
    /// # Errors
    ///
    /// The event is too long. There is nothing after it.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, TooLong> {
        self.forget_lent();
        if self.is_marked {
            return Ok(Some(self.lend_end_mark()));
        }
        while let Some(line) = self.next_line()? {
            let is_event = self.take_line(&line);
            if let Line::Joined = line {
                self.line.clear();
            }
            if is_event && self.data != Data::Nowhere {
                return Ok(Some(self.lend()));
            }
            if is_event && self.is_marked {
                return Ok(Some(self.lend_end_mark()));
            }
            if is_event {
                self.name.clear();
            }
        }
        Ok(None)
    }

    fn forget_lent(&mut self) {
        if self.is_lent {
            self.is_lent = false;
            self.name.clear();
            self.data = Data::Nowhere;
        }
    }

    fn lend_end_mark(&mut self) -> Event<'_> {
        self.is_marked = false;
        self.name.clear();
        Event { name: "", data: END_MARK }
    }

    fn lend(&mut self) -> Event<'_> {
        self.is_lent = true;
        let bytes = match &self.data {
            Data::InPiece(range) => &self.piece[range.clone()],
            Data::Nowhere | Data::Copied => &self.copied,
        };
        let name = &self.name;
        match str::from_utf8(bytes) {
            Ok(data) => Event { name, data },
            Err(_) => {
                self.mended = String::from_utf8_lossy(bytes).into_owned();
                Event { name, data: &self.mended }
            }
        }
    }

    /// Finds the end of the line that has begun.
    fn next_line(&mut self) -> Result<Option<Line>, TooLong> {
        if self.after_return && self.position < self.piece.len() {
            self.after_return = false;
            self.position += usize::from(self.piece[self.position] == b'\n');
        }
        let start = self.position;
        let rest = &self.piece[start..];
        let length = memchr2(b'\n', b'\r', rest);
        let part = &rest[..length.unwrap_or(rest.len())];
        if self.data_length() + self.line.len() + part.len() > EVENT_CAP {
            return Err(TooLong);
        }
        let is_joined = length.is_none() || !self.line.is_empty();
        if is_joined {
            self.line.extend_from_slice(part);
        }
        self.position += part.len();
        let Some(length) = length else { return Ok(None) };
        self.after_return = rest[length] == b'\r';
        self.position += 1;
        Ok(Some(if is_joined { Line::Joined } else { Line::InPiece(start..start + length) }))
    }

    fn data_length(&self) -> usize {
        match &self.data {
            Data::Nowhere => 0,
            Data::InPiece(range) => range.len(),
            Data::Copied => self.copied.len(),
        }
    }

    /// Takes a line; tells whether an event ends with it.
    fn take_line(&mut self, line: &Line) -> bool {
        let mut bytes = match line {
            Line::InPiece(range) => &self.piece[range.clone()],
            Line::Joined => &self.line,
        };
        let whole = bytes.len();
        if !self.has_begun {
            self.has_begun = true;
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        if bytes.is_empty() {
            return true;
        }
        if let Some(data) = field(bytes, b"data") {
            if str::from_utf8(data).is_ok_and(is_end_mark) {
                // An event before it may lack its blank line.
                self.is_marked = true;
                return true;
            }
            let place = match line {
                Line::InPiece(range) => Some(range.start + (whole - data.len())),
                Line::Joined => None,
            };
            match (&self.data, place) {
                (Data::Nowhere, Some(start)) => {
                    self.data = Data::InPiece(start..start + data.len());
                    return false;
                }
                (Data::Nowhere, None) => self.copied.clear(),
                (Data::InPiece(range), _) => {
                    self.copied.clear();
                    self.copied.extend_from_slice(&self.piece[range.clone()]);
                    self.copied.push(b'\n');
                }
                (Data::Copied, _) => self.copied.push(b'\n'),
            }
            self.copied.extend_from_slice(data);
            self.data = Data::Copied;
        } else if let Some(name) = field(bytes, b"event") {
            self.name.clear();
            self.name.push_str(&String::from_utf8_lossy(name));
        }
        false
    }
}

/// Returns what a line says, if it is of this field.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [..] => None,
    }
}

fn is_end_mark(data: &str) -> bool {
    data.trim_ascii() == END_MARK
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes bytes that come in these pieces.
    fn decode(pieces: &[&[u8]]) -> Result<Vec<(String, String)>, TooLong> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces.iter().map(Some).chain([None]) {
            match piece {
                Some(piece) => decoder.feed(Bytes::copy_from_slice(piece)),
                None => decoder.end(),
            }
            while let Some(Event { name, data }) = decoder.next_event()? {
                events.push((name.to_owned(), data.to_owned()));
            }
        }
        Ok(events)
    }

    #[track_caller]
    fn check(bytes: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
        let bytes = bytes.as_ref();
        let owned = |&(name, data): &(&str, &str)| (name.to_owned(), data.to_owned());
        let expected: Vec<_> = expected.iter().map(owned).collect();
        assert_eq!(decode(&[bytes]).unwrap(), expected);
        let letters: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(decode(&letters).unwrap(), expected, "byte by byte");
    }

    #[test]
    fn an_event_ends_with_a_blank_line_whatever_ends_its_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let text = "data: a\n\nevent: b\ndata: c\n\ndata:d\ndata:  e\ndata\n\n";
            let expected = [("", "a"), ("b", "c"), ("", "d\n e\n")];
            check(text.replace('\n', end), &expected);
        }
    }

    #[test]
    fn what_is_no_data_makes_no_event() {
        check(": hi\n\nid: 1\nretry: 2\n\nevent: a\n\ndatax: 1\n\ndata: b\n\n", &[("", "b")]);
        check("", &[]);
        check("\n\r\n\r", &[]);
        check("data:\n\ndata\n\n", &[("", ""), ("", "")]);
    }

    #[test]
    fn the_end_of_the_body_ends_the_last_event() {
        check("event: a\ndata: b", &[("a", "b")]);
        check("data: b\n", &[("", "b")]);
        check("data: b\r", &[("", "b")]);
        check("event: a\n", &[]);
    }

    #[test]
    fn an_end_mark_is_an_event_without_blank_lines_around_it() {
        check("event: a\ndata: b\ndata: [DONE]", &[("a", "b"), ("", "[DONE]")]);
        check("event: a\ndata:[DONE] \n", &[("", "[DONE]")]);
        let mut decoder = Decoder::default();
        decoder.feed(Bytes::from_static(b"data: [DONE]\ndata: x"));
        assert!(decoder.next_event().unwrap().unwrap().is_end_mark());
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        check(b"event: \xff\ndata: a\xf0\x9f\n\n", &[("\u{fffd}", "a\u{fffd}")]);
        check(b"data: \xc3\ndata: \xbc\n\n", &[("", "\u{fffd}\n\u{fffd}")]);
    }

    #[test]
    fn an_event_may_be_as_long_as_the_cap_and_no_longer() {
        let line = |length: usize| [b"data:", &*vec![b'x'; length - 5], b"\n\n"].concat();
        assert_eq!(decode(&[&line(EVENT_CAP)]).unwrap().len(), 1);
        assert_eq!(decode(&[&line(EVENT_CAP + 1)]), Err(TooLong));
        let lines = b"data: 0123456789\n".repeat(EVENT_CAP / 10);
        assert_eq!(decode(&[&lines]), Err(TooLong));
        let comments = b": 0123456789\n".repeat(EVENT_CAP / 10);
        assert_eq!(decode(&[&comments]), Ok(Vec::new()));
    }

    #[test]
    fn a_line_without_an_end_is_given_up_on_at_the_cap() {
        // 100 MB: a decoder that looked at its bytes twice would not end.
        let piece = Bytes::from(vec![b'x'; 1000]);
        let mut decoder = Decoder::default();
        let taken = (0..100_000).find(|_| {
            decoder.feed(piece.clone());
            decoder.next_event() == Err(TooLong)
        });
        assert_eq!(taken, Some(EVENT_CAP / 1000));
        assert!(decoder.line.capacity() <= 2 * EVENT_CAP);
    }

    fn some_stream() -> impl Strategy<Value = Vec<u8>> {
        let parts: [&[u8]; 16] = [
            b"data: ",
            b"data:",
            b"data",
            b"event: ",
            b":",
            b"\n",
            b"\n",
            b"\n\n",
            b"\r",
            b"\r\n",
            b"[DONE]",
            b"x",
            "ü🦀".as_bytes(),
            b"\xff",
            b"\xf0\x9f",
            BYTE_ORDER_MARK,
        ];
        prop::collection::vec(prop::sample::select(parts.to_vec()), 0..40)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn events_are_the_same_wherever_the_bytes_are_split(
            bytes in some_stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces: Vec<_> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let letters: Vec<_> = bytes.chunks(1).collect();
            prop_assert_eq!(decode(&pieces), decode(&[&bytes]));
            prop_assert_eq!(decode(&letters), decode(&[&bytes]));
        }
    }
}
