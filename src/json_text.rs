//! Parses JSON that people and other programs write: skips a byte order mark, and names
//! the syntax of other notations in errors.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;

/// Byte order mark, with which some editors and shells begin a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Parse error of JSON that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonTextError {
    /// The cause.
    pub why: String,
    /// Line number, from 1.
    pub line: usize,
    /// Byte in that line, from 1.
    pub column: usize,
}

impl fmt::Display for JsonTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.why, self.line, self.column)
    }
}

impl std::error::Error for JsonTextError {}

/// Removes a leading byte order mark.
#[must_use]
pub fn strip_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Parses JSON that was written by a person or with an editor.
///
/// # Errors
///
/// If the text is not JSON of the expected shape. The error names comments, trailing
/// commas and single quotes.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, JsonTextError> {
    let text = strip_mark(text);
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let said = message.rsplit_once(" at line ").map_or(&*message, |(why, _)| why);
        let known = if error.is_data() { None } else { name_foreign_syntax(text, line, column) };
        JsonTextError { why: known.map_or_else(|| said.to_owned(), str::to_owned), line, column }
    })
}

/// Returns a message if the syntax at this position belongs to another notation.
fn name_foreign_syntax(text: &str, line: usize, column: usize) -> Option<&'static str> {
    let line = text.lines().nth(line.checked_sub(1)?)?.as_bytes();
    // The parser reports the position of a consumed or of a peeked character.
    let near = [column.checked_sub(1), Some(column)].into_iter().flatten();
    near.filter_map(|at| line.get(at..)).find_map(|rest| match rest {
        [b'/', b'/' | b'*', ..] | [b'#', ..] => Some("JSON does not allow comments"),
        [b'}' | b']', ..] => Some("JSON does not allow a comma before `}` or `]`").filter(|_| {
            let before = &text[..text.len().min(offset_of(text, line))];
            let at = line.len() - rest.len();
            let before = [before.as_bytes(), &line[..at]].concat();
            before.trim_ascii_end().ends_with(b",")
        }),
        [b'\'', ..] => Some("JSON requires double quotes"),
        _ => None,
    })
}

/// Returns the offset of a line in its text.
fn offset_of(text: &str, line: &[u8]) -> usize {
    line.as_ptr() as usize - text.as_ptr() as usize
}

/// Parses JSON of another program that waits for the answer: invalid UTF-8 and lone
/// surrogates become replacement characters.
///
/// # Errors
///
/// If the text is not JSON of the expected shape.
pub fn parse_leniently<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let text = String::from_utf8_lossy(bytes);
    let text = strip_mark(text.trim_start());
    serde_json::from_str(text).or_else(|error| match mend_surrogates(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(mended) => serde_json::from_str(&mended),
    })
}

/// Replaces lone surrogates.
fn mend_surrogates(text: &str) -> Cow<'_, str> {
    let unit = |at: usize| {
        let digits = text.get(at..).and_then(|rest| rest.strip_prefix("\\u"))?.get(..4)?;
        u32::from_str_radix(digits, 16).ok()
    };
    let (mut mended, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(escape) = text[at..].find('\\').map(|offset| at + offset) {
        let is_low = |unit: u32| (0xdc00..0xe000).contains(&unit);
        at = match unit(escape) {
            Some(0xd800..0xdc00) if unit(escape + 6).is_some_and(is_low) => escape + 12,
            Some(0xd800..0xe000) => {
                mended.push_str(&text[kept..escape]);
                mended.push_str("\\ufffd");
                kept = escape + 6;
                kept
            }
            // Skips the escaped character, which may be a backslash.
            Some(_) | None => {
                escape + 1 + text[escape + 1..].chars().next().map_or(0, char::len_utf8)
            }
        };
    }
    match kept {
        0 => Cow::Borrowed(text),
        _ => {
            mended.push_str(&text[kept..]);
            Cow::Owned(mended)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(parse::<Value>("\u{feff}{\"a\": 1}\r\n"), Ok(json!({"a": 1})));
        assert_eq!(parse_leniently::<Value>(b"\xef\xbb\xbf{}").unwrap(), json!({}));
    }

    #[test]
    fn an_error_names_the_syntax_that_json_does_not_allow() {
        for (text, expected) in [
            ("// x\n{}", "JSON does not allow comments at line 1 column 1"),
            ("\u{feff}/* x */ {}", "JSON does not allow comments at line 1 column 1"),
            ("{\n  // x\n  \"a\": 1}", "JSON does not allow comments at line 2 column 3"),
            ("{\"a\": 1, // x\n\"b\": 2}", "JSON does not allow comments at line 1 column 10"),
            ("{\"a\": 1 /* x */}", "JSON does not allow comments at line 1 column 9"),
            ("{\"a\": # x\n 1}", "JSON does not allow comments at line 1 column 7"),
            (
                "{\"a\": [1, 2,]}",
                "JSON does not allow a comma before `}` or `]` at line 1 column 13",
            ),
            ("{\"a\": 1,\n}", "JSON does not allow a comma before `}` or `]` at line 2 column 1"),
            ("{'a': 1}", "JSON requires double quotes at line 1 column 2"),
            ("{\"a\": 'b'}", "JSON requires double quotes at line 1 column 7"),
            ("{", "EOF while parsing an object at line 1 column 1"),
            ("{\"a\" 1}", "expected `:` at line 1 column 6"),
            ("nonsense", "expected ident at line 1 column 2"),
        ] {
            assert_eq!(parse::<Value>(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn lone_surrogates_and_invalid_utf_8_are_replaced() {
        for (bytes, expected) in [
            (&br#""a\ud83db""#[..], "a\u{fffd}b"),
            (br#""\udc00\ud83d\ude00\uD83D""#, "\u{fffd}\u{1f600}\u{fffd}"),
            (br#""\\ud83d""#, "\\ud83d"),
            (br#""\"\ud83d\"""#, "\"\u{fffd}\""),
            (b"\"caf\xe9\"", "caf\u{fffd}"),
        ] {
            assert_eq!(parse_leniently::<Value>(bytes).unwrap(), json!(expected));
        }
        assert!(parse_leniently::<Value>(br#"{"a": \ud83d}"#).is_err());
        assert!(parse_leniently::<Value>(br#""\"#).is_err());
    }
}
