//! The pieces of an answer, as servers really send them.
//!
//! Every field may be missing, null or of a neighbouring type; unknown fields
//! are passed over. What the pieces add up to is `assemble`'s business.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::message::Usage;

/// One event of a stream, or a whole answer of a server that does not stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WireChunk {
    pub(super) choices: Option<Vec<WireChoice>>,
    pub(super) usage: Option<WireUsage>,
    pub(super) error: Option<Box<RawValue>>,
    /// `error` where the error's fields stand beside it instead of inside.
    #[serde(default)]
    pub(super) object: Text,
    #[serde(default)]
    pub(super) message: Text,
    #[serde(default)]
    pub(super) code: Text,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireChoice {
    #[serde(default)]
    pub(super) index: Count,
    pub(super) delta: Option<WireMessage>,
    /// In place of `delta` where the server does not stream.
    pub(super) message: Option<WireMessage>,
    #[serde(default)]
    pub(super) finish_reason: Text,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WireMessage {
    #[serde(default)]
    pub(super) content: Text,
    #[serde(default)]
    pub(super) reasoning_content: Text,
    #[serde(default)]
    pub(super) reasoning: Text,
    #[serde(default)]
    pub(super) refusal: Text,
    pub(super) tool_calls: Option<Vec<WireCall>>,
    /// The one call of servers from before there were several.
    pub(super) function_call: Option<WireFunction>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireCall {
    #[serde(default)]
    pub(super) index: Count,
    #[serde(default)]
    pub(super) id: Text,
    pub(super) function: Option<WireFunction>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WireFunction {
    #[serde(default)]
    pub(super) name: Text,
    /// A string with JSON in it, or the JSON itself.
    pub(super) arguments: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    prompt_tokens_details: Option<WirePromptDetails>,
    /// DeepSeek's name for the cached tokens.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
}

#[derive(Debug, Deserialize)]
struct WirePromptDetails {
    #[serde(default)]
    cached_tokens: Count,
}

impl WireUsage {
    pub(super) fn usage(&self) -> Usage {
        let prompt = self.prompt_tokens.0.unwrap_or(0);
        let cached = self
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| details.cached_tokens.0)
            .or(self.prompt_cache_hit_tokens.0)
            .unwrap_or(0);
        Usage {
            input: prompt.saturating_sub(cached),
            output: self.completion_tokens.0.unwrap_or(0),
            cache_read: cached,
            ..Usage::default()
        }
    }
}

/// A text; `None` stands for absent, null, empty and whatever has no text in
/// it. A list of parts counts as the text of all parts.
#[derive(Debug, Default, Clone)]
pub(super) struct Text(pub(super) Option<Arc<str>>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text((!text.is_empty()).then(|| text.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string().into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Ok(Text(Some(number.to_string().into())))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_unit<E>(self) -> Result<Text, E> {
        Ok(Text(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Text, A::Error> {
        let mut whole = String::new();
        while let Some(Text(part)) = parts.next_element()? {
            whole.push_str(part.as_deref().unwrap_or_default());
        }
        self.visit_str(&whole)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut part: A) -> Result<Text, A::Error> {
        let mut text = Text(None);
        while let Some(key) = part.next_key::<String>()? {
            if key == "text" {
                text = part.next_value()?;
            } else {
                part.next_value::<IgnoredAny>()?;
            }
        }
        Ok(text)
    }
}

/// A number of things; `None` stands for absent, null and whatever is no such
/// number.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Count(pub(super) Option<u64>);

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
        // A cast from a float saturates, and what is no number becomes 0.
        Ok(Count((number >= 0.0).then_some(number as u64)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.parse().ok()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(json: &str, expected: &str) {
        let Text(text) = serde_json::from_str(json).unwrap();
        assert_eq!(text.as_deref().unwrap_or_default(), expected, "{json}");
    }

    #[test]
    fn whatever_stands_for_a_text_is_read_as_one() {
        check_text(r#""a\nb""#, "a\nb");
        check_text("null", "");
        check_text("true", "");
        check_text("1.5", "");
        check_text("7", "7");
        check_text("-7", "-7");
        check_text(r#"[{"type":"text","text":"a"},"b",{"type":"image"},null]"#, "ab");
        check_text(r#"{"type":"text","text":["a",{"text":"b"}],"x":{}}"#, "ab");
    }

    #[test]
    fn whatever_stands_for_a_number_is_read_as_one() {
        let count = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
        assert_eq!(count("3"), Some(3));
        assert_eq!(count("3.0"), Some(3));
        assert_eq!(count(r#""3""#), Some(3));
        for json in ["-1", "-1.0", "null", "false", r#""x""#, "[1]", r#"{"a":1}"#] {
            assert_eq!(count(json), None, "{json}");
        }
    }
}
