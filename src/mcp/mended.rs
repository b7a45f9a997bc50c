//! Lenient JSON parsing: lone surrogates, control characters within strings, `NaN`, a byte order
//! mark, log text before the message.

use serde_json::Value;

/// Maximum JSON values of one text; a server normally writes one a line.
const VALUES_CAP: usize = 1_000;

/// Parses the JSON objects and arrays of a text; returns none if it is not JSON.
///
/// The text is repaired only if it is not valid JSON, and a prefix is skipped only if a JSON-RPC
/// message follows.
pub(super) fn parse_values(text: &str) -> Vec<Value> {
    let text = text.trim_start_matches(['\u{feff}', '\0']).trim();
    if let Some(values) = parse_all(text) {
        return values;
    }
    let mended = mend(text);
    if let Some(values) = parse_all(&mended) {
        return values;
    }
    // A log line without a line break precedes the message.
    let starts = ["{\"jsonrpc\"", "{\"id\"", "{\"result\"", "{ \"jsonrpc\"", "[{\"jsonrpc\""];
    let start = starts.iter().filter_map(|start| mended.find(start)).min();
    start.and_then(|start| parse_all(&mended[start..])).unwrap_or_default()
}

/// Parses a text that consists of JSON objects and arrays only.
fn parse_all(text: &str) -> Option<Vec<Value>> {
    let is_start = text.starts_with(['{', '[']);
    let values = serde_json::Deserializer::from_str(text).into_iter().take(VALUES_CAP);
    values.collect::<Result<Vec<Value>, _>>().ok().filter(|values| is_start && !values.is_empty())
}

/// Finds the id in a malformed message: the value of its own key `id`. An id within its result
/// is the name of something else, and one that the text ends with may be cut off.
pub(super) fn find_id(text: &str) -> Option<Value> {
    let mut rest = text;
    let mut depth = 0_usize;
    loop {
        let at = rest.find(['{', '[', '}', ']', '"'])?;
        let (mark, after) = (rest.as_bytes()[at], &rest[at + 1..]);
        rest = after;
        match mark {
            b'{' => depth += 1,
            // A batch, or text before the message.
            b'[' if depth == 0 => {}
            b'[' => depth += 1,
            b'"' => {
                let end = find_closing_quote(after)?;
                rest = &after[end + 1..];
                if depth == 1
                    && &after[..end] == "id"
                    && let Some(value) = rest.trim_start().strip_prefix(':')
                {
                    return parse_first(value);
                }
            }
            _ => depth = depth.saturating_sub(1),
        }
    }
}

fn find_closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

/// Parses the value that a text begins with if another field or the end of the object follows.
fn parse_first(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    let value = values.next()?.ok()?;
    text[values.byte_offset()..].trim_start().starts_with([',', '}']).then_some(value)
}

/// Replaces what JSON does not allow.
fn mend(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(quote) = rest.find('"') {
        mend_outside_strings(&rest[..quote], &mut mended);
        mended.push('"');
        rest = mend_string(&rest[quote + 1..], &mut mended);
    }
    mend_outside_strings(rest, &mut mended);
    mended
}

/// Appends text from outside of strings, with JSON's literals for those of other languages.
fn mend_outside_strings(text: &str, mended: &mut String) {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len());
        let written = match &word[..end] {
            "NaN" | "Infinity" | "undefined" | "None" | "nan" | "inf" => "null",
            "True" => "true",
            "False" => "false",
            word => word,
        };
        // `-Infinity`, but not `1e-7`.
        let before = if written == "null" { before.trim_end_matches('-') } else { before };
        mended.push_str(before);
        mended.push_str(written);
        rest = &word[end..];
    }
    mended.push_str(rest);
}

/// Appends a string up to its closing quote, and returns the text that follows.
fn mend_string<'a>(text: &'a str, mended: &mut String) -> &'a str {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => {
                mended.push('"');
                return &rest[1..];
            }
            '\\' => mend_escape(rest, mended),
            c if c < ' ' => {
                mended.push_str(&format!("\\u{:04x}", u32::from(c)));
                1
            }
            c => {
                mended.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    rest
}

/// Appends an escape sequence, and returns its length.
fn mend_escape(text: &str, mended: &mut String) -> usize {
    let unit = |at: usize| u32::from_str_radix(text.get(at..at + 4)?, 16).ok();
    match text.as_bytes().get(1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
            mended.push_str(&text[..2]);
            2
        }
        Some(b'u') => match unit(2) {
            Some(0xd800..0xdc00) => {
                let is_pair = text.get(6..8) == Some("\\u")
                    && unit(8).is_some_and(|low| (0xdc00..0xe000).contains(&low));
                match is_pair {
                    true => mended.push_str(&text[..12]),
                    false => mended.push('\u{fffd}'),
                }
                if is_pair { 12 } else { 6 }
            }
            Some(0xdc00..0xe000) => {
                mended.push('\u{fffd}');
                6
            }
            Some(_) => {
                mended.push_str(&text[..6]);
                6
            }
            None => {
                mended.push('\u{fffd}');
                2
            }
        },
        // A backslash that escapes nothing, as in a Windows path.
        Some(_) | None => {
            mended.push_str("\\\\");
            1
        }
    }
}
