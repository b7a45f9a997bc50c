//! JSON as servers really send it.
//!
//! A field may be missing, null or of a neighbouring type. What is borrowed
//! stays borrowed: reading a text allocates nothing that the caller does not
//! keep.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use memchr::memchr;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Where a text is expected; not read yet.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(in crate::model) struct Text<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl<'a> From<&'a RawValue> for Text<'a> {
    fn from(json: &'a RawValue) -> Self {
        Self(Some(json))
    }
}

impl<'a> Text<'a> {
    /// Returns the text; `None` stands for absent, null, empty and whatever
    /// has no text in it. A list of parts counts as the text of all parts.
    pub(in crate::model) fn get(self) -> Option<Cow<'a, str>> {
        let json = self.0?.get();
        let text = match inside_quotes(json) {
            Some(inner) if memchr(b'\\', inner.as_bytes()).is_none() => Cow::Borrowed(inner),
            Some(inner) => {
                let mut text = String::with_capacity(inner.len());
                unescape(inner, &mut text);
                Cow::Owned(text)
            }
            None => Cow::Owned(text_in(&serde_json::from_str(json).ok()?)),
        };
        (!text.is_empty()).then_some(text)
    }

    /// As [`Text::get`], with `buffer` for what has to be rewritten: for texts
    /// that come by the thousand.
    pub(in crate::model) fn get_in<'b>(self, buffer: &'b mut String) -> Option<&'b str>
    where
        'a: 'b,
    {
        match inside_quotes(self.0?.get()) {
            Some(inner) if memchr(b'\\', inner.as_bytes()).is_some() => {
                buffer.clear();
                unescape(inner, buffer);
            }
            Some(inner) => return (!inner.is_empty()).then_some(inner),
            None => *buffer = self.get()?.into_owned(),
        }
        (!buffer.is_empty()).then_some(buffer)
    }

    /// Appends the text where it belongs.
    pub(in crate::model) fn append(self, text: &mut String) {
        match self.0.and_then(|json| inside_quotes(json.get())) {
            Some(inner) => unescape(inner, text),
            None => text.push_str(&self.get().unwrap_or_default()),
        }
    }

    /// Returns a name of the protocol; empty for whatever looks like none.
    pub(in crate::model) fn word(self) -> &'a str {
        let inner = self.0.and_then(|json| inside_quotes(json.get()));
        inner.filter(|word| memchr(b'\\', word.as_bytes()).is_none()).unwrap_or_default()
    }

    /// Tells whether there is a text.
    pub(in crate::model) fn is_some(self) -> bool {
        let inner = self.0.and_then(|json| inside_quotes(json.get()));
        inner.map_or_else(|| self.get().is_some(), |inner| !inner.is_empty())
    }
}

/// Appends what a JSON string says; `false` if this is no string.
pub(in crate::model) fn push_string(json: &RawValue, text: &mut String) -> bool {
    let inner = inside_quotes(json.get());
    inner.map(|inner| unescape(inner, text)).is_some()
}

fn inside_quotes(json: &str) -> Option<&str> {
    json.strip_prefix('"')?.strip_suffix('"')
}

/// Appends what stands between the quotes of a valid JSON string.
///
/// Half a surrogate pair, which some servers send where a token ends within a
/// character, becomes a replacement character.
fn unescape(mut inner: &str, text: &mut String) {
    while let Some(at) = memchr(b'\\', inner.as_bytes()) {
        text.push_str(&inner[..at]);
        let (character, length) = escaped(&inner[at..]);
        text.push(character);
        inner = &inner[at + length..];
    }
    text.push_str(inner);
}

/// Returns the character of the escape sequence that a text begins with, and
/// how long that is.
fn escaped(text: &str) -> (char, usize) {
    let character = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return escaped_unit(text),
        Some(&other @ (b'"' | b'\\' | b'/')) => other.into(),
        // Not in valid JSON. The backslash alone is passed over.
        Some(_) | None => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

fn escaped_unit(text: &str) -> (char, usize) {
    const LENGTH: usize = 6;
    let unit = |at: usize| {
        let digits = text.get(at..at + LENGTH)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 1) };
    let units = [first, unit(LENGTH).unwrap_or_default()];
    match char::decode_utf16(units).next() {
        Some(Ok(character)) => (character, LENGTH * character.len_utf16()),
        Some(Err(_)) | None => (char::REPLACEMENT_CHARACTER, LENGTH),
    }
}

fn text_in(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if !number.is_f64() => number.to_string(),
        Value::Array(parts) => parts.iter().map(text_in).collect(),
        Value::Object(part) => part.get("text").map(text_in).unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// A number of things; `None` stands for absent, null and whatever is no such
/// number.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::model) struct Count(pub(in crate::model) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
        Ok(Count(Some(number)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(number).ok()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Count, E> {
        Ok(Count(floored(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.parse().ok().or_else(|| floored(text.parse().ok()?))))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Count, A::Error> {
        while parts.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<Count, A::Error> {
        while parts.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
}

fn floored(number: f64) -> Option<u64> {
    // A cast from a float saturates.
    (number >= 0.0).then_some(number as u64)
}

/// A list that mostly has one element, which then needs no memory of its own.
#[derive(Debug)]
pub(in crate::model) struct List<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> List<T> {
    /// Tells whether there is nothing in it.
    pub(in crate::model) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::iter::Chain<std::option::IntoIter<T>, std::vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<List<T>, A::Error> {
        let first = elements.next_element()?;
        let mut rest = Vec::new();
        while let Some(element) = elements.next_element()? {
            rest.push(element);
        }
        Ok(List { first, rest })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_text(json: &str, expected: &str) {
        let text: Text<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(text.get().as_deref().unwrap_or_default(), expected, "{json}");
        let mut buffer = "left over".to_owned();
        assert_eq!(text.get_in(&mut buffer).unwrap_or_default(), expected, "{json}");
        let mut before = "before ".to_owned();
        text.append(&mut before);
        assert_eq!(before, format!("before {expected}"), "{json}");
    }

    #[test]
    fn whatever_stands_for_a_text_is_read_as_one() {
        check_text(r#""a\nb""#, "a\nb");
        check_text(r#""""#, "");
        check_text("null", "");
        check_text("true", "");
        check_text("1.5", "");
        check_text("7", "7");
        check_text("-7", "-7");
        check_text(r#"[{"type":"text","text":"a"},"b",{"type":"image"},null]"#, "ab");
        check_text(r#"{"type":"text","text":["a",{"text":"b"}],"x":{}}"#, "ab");
    }

    #[test]
    fn a_name_is_read_only_where_there_is_one() {
        let word_of =
            |json: &str| serde_json::from_str::<Text<'_>>(json).unwrap().word().to_owned();
        assert_eq!(["\"ping\"", "null", "3", r#""a\n""#].map(word_of), ["ping", "", "", ""]);
    }

    #[test]
    fn every_escape_is_read_and_half_a_character_replaced() {
        check_text(r#""\"\\\/\b\f\n\r\t\u00fc""#, "\"\\/\u{8}\u{c}\n\r\tü");
        check_text(r#""a\ud83e\udd80b""#, "a🦀b");
        check_text(r#""\ud83e""#, "\u{fffd}");
        check_text(r#""\ud83ex""#, "\u{fffd}x");
        check_text(r#""\ud83e\u0041""#, "\u{fffd}A");
        check_text(r#""\udd80\n""#, "\u{fffd}\n");
    }

    #[test]
    fn only_a_text_that_must_be_rewritten_is_copied() {
        let text: Text<'_> = serde_json::from_str(r#""plain""#).unwrap();
        assert!(matches!(text.get(), Some(Cow::Borrowed("plain"))));
    }

    #[test]
    fn whatever_stands_for_a_number_is_read_as_one() {
        let count = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
        assert_eq!(count("3"), Some(3));
        assert_eq!(count("3.0"), Some(3));
        assert_eq!(count("3.5"), Some(3));
        assert_eq!(count(r#""3""#), Some(3));
        assert_eq!(count(r#""3.5""#), Some(3));
        for json in ["-1", "-1.0", "null", "false", r#""x""#, r#""nan""#, "[1]", r#"{"a":1}"#] {
            assert_eq!(count(json), None, "{json}");
        }
    }

    #[test]
    fn a_list_keeps_its_order() {
        let list = |json: &str| {
            serde_json::from_str::<List<u8>>(json).unwrap().into_iter().collect::<Vec<_>>()
        };
        assert_eq!(list("[]"), [0; 0]);
        assert_eq!(list("[1,2,3]"), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn a_text_is_what_it_was_before_it_was_written(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let read: Text<'_> = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read.get().unwrap_or_default(), text);
        }
    }
}
