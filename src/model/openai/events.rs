//! The bytes of an event stream, made fit for the library to read.
//!
//! The library's reader panics at a byte order mark, refuses what is not
//! UTF-8, loses a last event without its blank line, looks through a growing
//! line from its start for each piece and holds a line of any length. So it
//! gets whole lines from here, one at a time. What they say stays as it is;
//! only `[DONE]` is noticed, because the library does not tell of it.

use std::mem;
use std::sync::{Arc, OnceLock};

use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use reqwest::{Body, Response};

/// Most bytes of one event. A call that writes a large file may come in one;
/// the whole of it is held until it ends.
pub(super) const EVENT_CAP: usize = 4 * 1024 * 1024;

/// How far into an answer is looked for its form.
const FORM_PROBE: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why reading ended before the bytes did; nothing if it did not.
pub(super) type Ended = Arc<OnceLock<Ending>>;

/// What ends a stream before its bytes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The end mark, `[DONE]`.
    Marked,
    /// An event of more than [`EVENT_CAP`] bytes.
    TooLong,
}

/// Tells whether an answer that begins with these bytes is a stream of events.
pub(super) fn is_stream(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(FORM_PROBE)];
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_start();
    let fields: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
    fields.iter().any(|field| bytes.starts_with(field))
}

/// Returns a response with the same events: first those in `start`, which was
/// read already, then the others.
pub(super) fn tidied(response: Response, start: Vec<u8>, ended: Ended) -> Response {
    let lines = Lines {
        body: response.bytes_stream().map_ok(Vec::from).boxed(),
        unread: start,
        position: 0,
        line: Vec::new(),
        event: 0,
        is_first: true,
        after_return: false,
        is_over: false,
        ended,
    };
    let lines =
        stream::unfold(lines, |mut lines| async move { Some((lines.next().await?, lines)) });
    http::Response::new(Body::wrap_stream(lines)).into()
}

/// The lines of a body.
struct Lines {
    body: BoxStream<'static, reqwest::Result<Vec<u8>>>,
    /// The piece of the body at hand, read up to `position`.
    unread: Vec<u8>,
    position: usize,
    /// The line that has begun.
    line: Vec<u8>,
    /// Bytes of the lines before it that belong to the same event.
    event: usize,
    is_first: bool,
    /// Whether the last line ended with a carriage return, to which a line
    /// feed may belong.
    after_return: bool,
    is_over: bool,
    ended: Ended,
}

impl Lines {
    async fn next(&mut self) -> Option<reqwest::Result<Vec<u8>>> {
        loop {
            if let Some(line) = self.whole_line() {
                return Some(Ok(line));
            }
            if self.is_over {
                return None;
            }
            match self.body.next().await {
                Some(Ok(piece)) => (self.unread, self.position) = (piece, 0),
                Some(Err(error)) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
                None => {
                    self.is_over = true;
                    let mut last = self.end_line();
                    last.push(b'\n');
                    return Some(Ok(last));
                }
            }
        }
    }

    /// Takes the next line of the piece at hand, if it ends there.
    fn whole_line(&mut self) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        let rest = &self.unread[self.position..];
        let second_half = self.after_return && rest.first() == Some(&b'\n');
        self.after_return &= rest.is_empty();
        let rest = &rest[usize::from(second_half)..];
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let part = &rest[..end.unwrap_or(rest.len())];
        self.line.extend_from_slice(part);
        self.position += usize::from(second_half) + part.len();
        if self.event + self.line.len() > EVENT_CAP {
            return self.give_up();
        }
        self.after_return |= rest.get(end?) == Some(&b'\r');
        self.position += 1;
        Some(self.end_line())
    }

    fn give_up(&mut self) -> Option<Vec<u8>> {
        self.is_over = true;
        self.ended.get_or_init(|| Ending::TooLong);
        None
    }

    /// Returns the line that has begun, as a line of text.
    fn end_line(&mut self) -> Vec<u8> {
        let line = mem::take(&mut self.line);
        let is_first = mem::take(&mut self.is_first);
        let mark = if is_first { BYTE_ORDER_MARK } else { &[] };
        let text = String::from_utf8_lossy(line.strip_prefix(mark).unwrap_or(&line));
        let content = text.strip_prefix("data:");
        if content.is_some_and(|content| content.trim() == "[DONE]") {
            self.is_over = true;
            self.ended.get_or_init(|| Ending::Marked);
            // An event before it may lack its blank line.
            return b"\ndata: [DONE]\n\n".to_vec();
        }
        // Only data piles up in an event: other fields replace each other.
        if text.is_empty() {
            self.event = 0;
        } else if content.is_some() {
            self.event += text.len();
        }
        let mut line = text.into_owned().into_bytes();
        line.push(b'\n');
        line
    }
}
