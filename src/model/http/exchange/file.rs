//! One exchange as a file: what was asked, and what came back piece by piece.
//!
//! Written by hand so that people can read it and compare two of them line by
//! line. Unknown fields are skipped, so that a later tine may add some.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::canonical::{compact, pretty};

/// The version of the form of all files of a recording.
pub(super) const VERSION: u32 = 1;

/// An exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The name people gave the model.
    pub(super) model: String,
    /// How the server was spoken to.
    pub(super) api: String,
    /// What stood behind the base URL.
    pub(super) path: String,
    /// The canonical bytes of the request.
    pub(super) request: Vec<u8>,
    /// `None` if no answer began.
    pub(super) status: Option<u16>,
    /// Those that matter, by their names in lower case.
    pub(super) headers: BTreeMap<String, String>,
    /// The answer.
    pub(super) pieces: Vec<Piece>,
    /// How it ended.
    pub(super) end: End,
    /// When it ended, from when it was asked for.
    pub(super) ended_ms: u64,
    /// Its place among the others; `None` if that is not known.
    pub(super) order: Option<Order>,
}

/// Where an exchange stands among the others of its recording: each beginning
/// and each end has a number of its own, the later the higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Order {
    /// When it was asked for.
    pub(super) asked: u64,
    /// When its last piece came.
    pub(super) answered: u64,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// When it came, from when the answer was asked for.
    pub(super) after_ms: u64,
    pub(super) bytes: Vec<u8>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It was read to its end.
    Whole,
    /// Whoever read it wanted no more, or waited no longer.
    Left,
    /// It broke off, for this reason.
    Broken(String),
    /// It never began, for this reason.
    NoAnswer(String),
}

impl End {
    fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Whole => ("whole", None),
            Self::Left => ("left", None),
            Self::Broken(why) => ("broken", Some(why)),
            Self::NoAnswer(why) => ("no_answer", Some(why)),
        }
    }

    fn from_parts(how: &str, why: String) -> Option<Self> {
        Some(match how {
            "whole" => Self::Whole,
            "left" => Self::Left,
            "broken" => Self::Broken(why),
            "no_answer" => Self::NoAnswer(why),
            _ => return None,
        })
    }
}

impl Exchange {
    /// Writes it down.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!("{{\n  \"version\": {VERSION},\n");
        for (key, value) in [("model", &self.model), ("api", &self.api), ("path", &self.path)] {
            let _ = writeln!(text, "  \"{key}\": {},", quoted(value));
        }
        if let Some(Order { asked, answered }) = self.order {
            let _ =
                writeln!(text, "  \"order\": {{\"asked\": {asked}, \"answered\": {answered}}},");
        }
        let request = pretty(&self.request, 1);
        let _ = writeln!(text, "  \"request\": {},", String::from_utf8_lossy(&request));
        if let Some(status) = self.status {
            let _ = writeln!(text, "  \"status\": {status},");
        }
        let header =
            |(name, value): (&String, &String)| format!("{}: {}", quoted(name), quoted(value));
        list(&mut text, "headers", ['{', '}'], self.headers.iter().map(header));
        list(&mut text, "pieces", ['[', ']'], written(&self.pieces).iter().map(piece));
        let (how, why) = self.end.parts();
        let why = why.map(|why| format!(", \"why\": {}", quoted(why))).unwrap_or_default();
        let after = self.ended_ms;
        let _ = writeln!(text, "  \"end\": {{\"after_ms\": {after}, \"how\": \"{how}\"{why}}}\n}}");
        text
    }

    /// Reads it back.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, in a sentence without a subject.
    pub(super) fn from_text(text: &str) -> Result<Self, String> {
        let read: Read<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_version(read.version)?;
        let Read { version: _, model, api, path, order, request, status, headers, pieces, end } =
            read;
        let end_of = End::from_parts(&end.how, end.why.unwrap_or_default());
        let pieces = pieces.into_iter().map(ReadPiece::into_piece).collect::<Result<_, _>>()?;
        let exchange = Self {
            model,
            api,
            path,
            request: compact(request.get().as_bytes()),
            status,
            headers,
            pieces,
            end: end_of.ok_or_else(|| format!("its end is `{}`, which is none", end.how))?,
            ended_ms: end.after_ms,
            order,
        };
        match (&exchange.status, &exchange.end) {
            (None, End::Whole | End::Broken(_)) => Err("it has an end but no `status`".to_owned()),
            (Some(_), End::NoAnswer(_)) => Err("it has a `status` but no answer".to_owned()),
            (_, End::Left) | (Some(_), _) | (None, End::NoAnswer(_)) => Ok(exchange),
        }
    }
}

/// # Errors
///
/// The file is a later tine's.
pub(super) fn check_version(version: u32) -> Result<(), String> {
    match version {
        ..=VERSION => Ok(()),
        _ => Err(format!("its version is {version}, and this tine reads up to {VERSION}")),
    }
}

#[derive(Deserialize)]
struct Read<'a> {
    version: u32,
    model: String,
    api: String,
    path: String,
    order: Option<Order>,
    #[serde(borrow)]
    request: &'a RawValue,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    pieces: Vec<ReadPiece>,
    end: ReadEnd,
}

#[derive(Deserialize)]
struct ReadPiece {
    after_ms: u64,
    text: Option<String>,
    base64: Option<String>,
}

#[derive(Deserialize)]
struct ReadEnd {
    after_ms: u64,
    how: String,
    why: Option<String>,
}

impl ReadPiece {
    fn into_piece(self) -> Result<Piece, String> {
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(base64)) => {
                BASE64.decode(base64).map_err(|error| format!("a piece is no base64: {error}"))?
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err("a piece has not one of `text` and `base64`".to_owned());
            }
        };
        Ok(Piece { after_ms: self.after_ms, bytes })
    }
}

/// Returns the pieces so that a character stands whole in the one it ends in.
fn written(pieces: &[Piece]) -> Vec<Piece> {
    let mut result = Vec::with_capacity(pieces.len());
    let mut begun = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let mut bytes = std::mem::take(&mut begun);
        bytes.extend_from_slice(&piece.bytes);
        let is_last = at + 1 == pieces.len();
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
            && !is_last
        {
            begun = bytes.split_off(error.valid_up_to());
        }
        if !bytes.is_empty() {
            result.push(Piece { after_ms: piece.after_ms, bytes });
        }
    }
    result
}

fn piece(piece: &Piece) -> String {
    let bytes = match std::str::from_utf8(&piece.bytes) {
        Ok(text) => format!("\"text\": {}", quoted(text)),
        Err(_) => format!("\"base64\": \"{}\"", BASE64.encode(&piece.bytes)),
    };
    format!("{{\"after_ms\": {}, {bytes}}}", piece.after_ms)
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(
    text: &mut String,
    key: &str,
    [open, close]: [char; 2],
    items: impl Iterator<Item = String>,
) {
    let items: Vec<String> = items.map(|item| format!("\n    {item}")).collect();
    let gap = if items.is_empty() { "" } else { "\n  " };
    let _ = writeln!(text, "  \"{key}\": {open}{}{gap}{close},", items.join(","));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(after_ms: u64, bytes: &[u8]) -> Piece {
        Piece { after_ms, bytes: bytes.to_vec() }
    }

    fn exchange() -> Exchange {
        Exchange {
            model: "m".into(),
            api: "chat".into(),
            path: "/chat/completions".into(),
            request: br#"{"model":"m-1","messages":[{"role":"user","content":"go"}]}"#.to_vec(),
            status: Some(200),
            headers: [("content-type".to_owned(), "text/event-stream".to_owned())].into(),
            pieces: vec![piece(3, b"data: \xc3"), piece(4, b"\xa4\n\n"), piece(9, b"\xff")],
            end: End::Broken("reset".into()),
            ended_ms: 12,
            order: Some(Order { asked: 1, answered: 4 }),
        }
    }

    #[test]
    fn a_file_can_be_read_line_by_line() {
        insta::assert_snapshot!(exchange().to_text(), @r#"
        {
          "version": 1,
          "model": "m",
          "api": "chat",
          "path": "/chat/completions",
          "order": {"asked": 1, "answered": 4},
          "request": {
            "model": "m-1",
            "messages": [
              {
                "role": "user",
                "content": "go"
              }
            ]
          },
          "status": 200,
          "headers": {
            "content-type": "text/event-stream"
          },
          "pieces": [
            {"after_ms": 3, "text": "data: "},
            {"after_ms": 4, "text": "ä\n\n"},
            {"after_ms": 9, "base64": "/w=="}
          ],
          "end": {"after_ms": 12, "how": "broken", "why": "reset"}
        }
        "#);
    }

    #[test]
    fn what_was_written_is_read_back() {
        let text = exchange().to_text();
        let read = Exchange::from_text(&text).unwrap();
        assert_eq!(read.to_text(), text);
        let whole = |exchange: &Exchange| -> Vec<u8> {
            exchange.pieces.iter().flat_map(|piece| piece.bytes.clone()).collect()
        };
        assert_eq!(whole(&read), whole(&exchange()));
        assert_eq!(read.request, exchange().request);
        let nothing = Exchange {
            status: None,
            headers: BTreeMap::new(),
            pieces: Vec::new(),
            end: End::NoAnswer("nothing \"there\"".into()),
            ..exchange()
        };
        assert_eq!(Exchange::from_text(&nothing.to_text()), Ok(nothing));
    }

    #[test]
    fn what_cannot_be_one_is_refused_with_the_reason() {
        let check = |from: &str, to: &str, expected: &str| {
            let text = exchange().to_text();
            assert!(text.contains(from), "{from}");
            let error = Exchange::from_text(&text.replace(from, to)).unwrap_err();
            assert_eq!(error, expected);
        };
        check("\"version\": 1", "\"version\": 2", "its version is 2, and this tine reads up to 1");
        check("broken", "bent", "its end is `bent`, which is none");
        check("  \"status\": 200,\n", "", "it has an end but no `status`");
        check("broken", "no_answer", "it has a `status` but no answer");
        check("\"/w==\"", "\"/w\"", "a piece is no base64: Invalid padding");
        check("\"base64\": \"/w==\"", "\"x\": 1", "a piece has not one of `text` and `base64`");
        check("  \"api\": \"chat\",\n", "", "missing field `api` at line 25 column 1");
    }
}
