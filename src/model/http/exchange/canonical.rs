//! Requests without what differs from machine to machine and from day to day,
//! so that one that was recorded is known again elsewhere.
//!
//! Only the bytes of a request are looked at, and only as JSON: a value stands
//! there as strings hold it. Answers are never changed in this way.

use std::path::Path;

use memchr::memmem;
use secrecy::{ExposeSecret as _, SecretString};

use crate::model::http::secrets::REDACTED_MIN;

/// What stands in a key's place.
const KEY: &str = "[key]";

/// What stands before the name of a conversation's cache. It is made of the
/// first message, so it differs wherever that does; within a string its quotes
/// would be escaped.
const CACHE_KEY: &[u8] = b"\"prompt_cache_key\":\"";

/// What stands in that name's place.
const CACHE: &[u8] = b"{cache}";

/// Indentation of one level.
const INDENT: &str = "  ";

/// What differs from machine to machine and from day to day, and the words that
/// stand for it. Among it are keys, so it is never shown.
#[derive(Default)]
pub struct Volatile {
    /// The longest first: one may be a part of another.
    parts: Vec<Part>,
}

struct Part {
    bytes: Vec<u8>,
    word: &'static str,
    edges: Edges,
}

/// Where a value is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edges {
    /// Anywhere.
    Any,
    /// Where a path is this one or leads through it: `/root` is no part of
    /// `/root-cause`.
    OfPath,
}

impl Volatile {
    /// Has a directory stand as `word`. The root of the file system, which is a
    /// part of every path, stays.
    #[must_use]
    pub fn path(self, path: &Path, word: &'static str) -> Self {
        match path.to_str() {
            Some(path) if path.len() > 1 => self.with(path, word, Edges::OfPath),
            Some(_) | None => self,
        }
    }

    /// Has a text stand as `word`.
    #[must_use]
    pub fn text(self, text: &str, word: &'static str) -> Self {
        if text.is_empty() { self } else { self.with(text, word, Edges::Any) }
    }

    /// Has a key stand as `[key]`, in answers too.
    #[must_use]
    pub fn key(self, key: &SecretString) -> Self {
        let key = key.expose_secret();
        if key.len() < REDACTED_MIN { self } else { self.with(key, KEY, Edges::Any) }
    }

    fn with(mut self, text: &str, word: &'static str, edges: Edges) -> Self {
        // As strings hold it, and strings that hold JSON themselves.
        let once = in_string(text);
        let twice = in_string(&once);
        for text in [twice, once, text.to_owned()] {
            let bytes = text.into_bytes();
            if self.parts.iter().all(|part| part.bytes != bytes) {
                self.parts.push(Part { bytes, word, edges });
            }
        }
        self.parts.sort_by_key(|part| std::cmp::Reverse(part.bytes.len()));
        self
    }

    /// Returns a request with those words, and without spaces between its
    /// parts.
    pub(super) fn canonical(&self, request: &[u8]) -> Vec<u8> {
        let request = without_cache_key(compact(request));
        self.parts.iter().fold(request, |bytes, part| match part.hits(&bytes) {
            hits if hits.is_empty() => bytes,
            hits => part.replaced(&bytes, &hits),
        })
    }

    /// Takes keys out of an answer, also where one begins in one piece and ends
    /// in another.
    pub(super) fn without_keys(&self, pieces: &mut [Vec<u8>]) {
        for part in self.parts.iter().filter(|part| part.word == KEY) {
            let whole = pieces.concat();
            let hits = part.hits(&whole);
            if hits.is_empty() {
                continue;
            }
            let mut start = 0;
            for piece in pieces.iter_mut() {
                let end = start + piece.len();
                *piece = part.cut(&whole, start..end, &hits);
                start = end;
            }
        }
    }

    /// Takes keys out of a text.
    pub(super) fn text_without_keys(&self, text: &str) -> String {
        let mut pieces = [text.as_bytes().to_vec()];
        self.without_keys(&mut pieces);
        let [text] = pieces;
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Part {
    /// Where it stands, from left to right.
    fn hits(&self, bytes: &[u8]) -> Vec<usize> {
        let fits = |at: &usize| match self.edges {
            Edges::Any => true,
            Edges::OfPath => is_path(bytes, *at, *at + self.bytes.len()),
        };
        memmem::find_iter(bytes, &self.bytes).filter(fits).collect()
    }

    fn replaced(&self, bytes: &[u8], hits: &[usize]) -> Vec<u8> {
        self.cut(bytes, 0..bytes.len(), hits)
    }

    /// Returns a range of `bytes` with the word where a hit begins in it, and
    /// without what belongs to any hit.
    fn cut(&self, bytes: &[u8], range: std::ops::Range<usize>, hits: &[usize]) -> Vec<u8> {
        let mut result = Vec::with_capacity(range.len());
        let mut at = range.start;
        for &hit in hits {
            let end = hit + self.bytes.len();
            if end <= range.start || hit >= range.end {
                continue;
            }
            result.extend_from_slice(&bytes[at..hit.max(at)]);
            if hit >= range.start {
                result.extend_from_slice(self.word.as_bytes());
            }
            at = end.min(range.end);
        }
        result.extend_from_slice(&bytes[at..range.end]);
        result
    }
}

/// Tells whether what stands there is a whole path or the first part of one.
fn is_path(bytes: &[u8], start: usize, end: usize) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let begins = match bytes[..start] {
        // The letter of a line break or a tab is no part of a name.
        [.., b'\\', b'n' | b't' | b'r' | b'f' | b'b'] | [] => true,
        [.., before] => !is_name(before) && before != b'/',
    };
    let ends = match bytes[end..] {
        // A sentence may end there.
        [b'.', after, ..] => !is_name(after),
        [after, ..] => !is_name(after),
        [] => true,
    };
    begins && ends
}

/// Leaves a name that a user gave as it is: only ours is a hash.
fn without_cache_key(mut request: Vec<u8>) -> Vec<u8> {
    let Some(found) = memmem::find(&request, CACHE_KEY) else { return request };
    let start = found + CACHE_KEY.len();
    let length = request[start..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if length >= 32 && request.get(start + length) == Some(&b'"') {
        request.splice(start..start + length, CACHE.iter().copied());
    }
    request
}

fn in_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Returns JSON without spaces between its parts; order, numbers and strings
/// stay as they are written.
pub(super) fn compact(json: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(json.len());
    let mut place = Place::default();
    for &byte in json {
        let was_string = place.is_string;
        place.step(byte);
        if was_string || !byte.is_ascii_whitespace() {
            result.push(byte);
        }
    }
    result
}

/// Returns compact JSON with a line for each of its parts, the lines after the
/// first `depth` levels deep. [`compact`] takes all of that off again.
pub(super) fn pretty(json: &[u8], mut depth: usize) -> Vec<u8> {
    let mut result = Vec::with_capacity(json.len() + json.len() / 4);
    let mut place = Place::default();
    for (at, &byte) in json.iter().enumerate() {
        let was_string = place.is_string;
        place.step(byte);
        if was_string {
            result.push(byte);
            continue;
        }
        let new_line = |result: &mut Vec<u8>, depth| {
            result.push(b'\n');
            (0..depth).for_each(|_| result.extend_from_slice(INDENT.as_bytes()));
        };
        let before = at.checked_sub(1).map(|before| json[before]);
        match byte {
            b'{' | b'[' => {
                result.push(byte);
                depth += 1;
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    new_line(&mut result, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(before, Some(b'{' | b'[')) {
                    new_line(&mut result, depth);
                }
                result.push(byte);
            }
            b',' => {
                result.push(byte);
                new_line(&mut result, depth);
            }
            b':' => result.extend_from_slice(b": "),
            _ => result.push(byte),
        }
    }
    result
}

/// Whether a byte of JSON stands in a string.
#[derive(Default)]
struct Place {
    is_string: bool,
    is_escaped: bool,
}

impl Place {
    fn step(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_string => self.is_escaped = true,
            b'"' => self.is_string = !self.is_string,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn volatile() -> Volatile {
        Volatile::default()
            .path(Path::new("/home/ada"), "{home}")
            .path(Path::new("/home/ada/work/api"), "{cwd}")
            .path(Path::new("/"), "{never}")
            .path(Path::new("/odd/\"q\" ä"), "{odd}")
            .text("Working directory: /home/ada/work/api\nDate: 2026-11-21", "{facts}")
            .text("", "{never}")
            .key(&"sk-secret-1".into())
            .key(&"short".into())
    }

    #[track_caller]
    fn check(request: &str, expected: &str) {
        let canonical = volatile().canonical(request.as_bytes());
        assert_eq!(String::from_utf8(canonical).unwrap(), expected);
    }

    #[test]
    fn what_differs_from_place_to_place_stands_as_words_the_longest_first() {
        check(
            r#"["Working directory: /home/ada/work/api\nDate: 2026-11-21\n","2026-11-21"]"#,
            r#"["{facts}\n","2026-11-21"]"#,
        );
        check(
            r#"["/home/ada/work/api/src/a.rs and /home/ada/.config. At /home/ada.","x\n/home/ada"]"#,
            r#"["{cwd}/src/a.rs and {home}/.config. At {home}.","x\n{home}"]"#,
        );
        check(r#"["/odd/\"q\" ä/b"]"#, r#"["{odd}/b"]"#);
        check(
            r#"{"arguments":"{\"path\":\"/home/ada/x\",\"odd\":\"/odd/\\\"q\\\" ä\"}"}"#,
            r#"{"arguments":"{\"path\":\"{home}/x\",\"odd\":\"{odd}\"}"}"#,
        );
        check(r#"["key: sk-secret-1, short"]"#, r#"["key: [key], short"]"#);
    }

    #[test]
    fn the_name_of_a_cache_is_no_part_of_what_is_asked() {
        let hash = "1cb1d0c2925326e0ca3b6e4604f6a12e";
        check(
            &format!(
                r#"{{"prompt_cache_key":"{hash}","input":"\"prompt_cache_key\":\"{hash}\""}}"#
            ),
            &format!(
                r#"{{"prompt_cache_key":"{{cache}}","input":"\"prompt_cache_key\":\"{hash}\""}}"#
            ),
        );
        check(r#"{"prompt_cache_key":"mine"}"#, r#"{"prompt_cache_key":"mine"}"#);
    }

    #[test]
    fn other_paths_that_look_alike_stay() {
        for same in [
            r#"["/home/ada-2/x","/home/adam","/mnt/home/ada","x/home/ada","//home/ada"]"#,
            r#"["/home/ada.old","/"]"#,
        ] {
            check(same, same);
        }
    }

    #[test]
    fn only_spaces_between_parts_go() {
        check(
            "{ \"a b\" : [ 1.50 , \"x \\\" \\\\\" ],\n\t\"a b\": \" { \" }\r\n",
            r#"{"a b":[1.50,"x \" \\"],"a b":" { "}"#,
        );
    }

    #[test]
    fn a_part_has_a_line_of_its_own_where_people_read() {
        let text = pretty(br#"{"a":[1,{"b":"x,{:"}],"c":{},"d":[]}"#, 1);
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r#"
        {
            "a": [
              1,
              {
                "b": "x,{:"
              }
            ],
            "c": {},
            "d": []
          }
        "#);
    }

    #[test]
    fn a_key_goes_wherever_pieces_are_cut() {
        let text = b"data: sk-secret-1 and sk-secret-1sk-secret-1.";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut pieces =
                    [&text[..first], &text[first..second], &text[second..]].map(<[u8]>::to_vec);
                volatile().without_keys(&mut pieces);
                assert_eq!(pieces.concat(), b"data: [key] and [key][key].");
            }
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::hash_map(".*", inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_for_people_is_read_back_to_the_byte(value in json(), depth in 0_usize..3) {
            let text = value.to_string();
            prop_assert_eq!(compact(&pretty(text.as_bytes(), depth)), text.as_bytes());
        }
    }
}
