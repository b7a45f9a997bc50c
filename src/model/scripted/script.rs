//! The file a scripted model plays, read into types that cannot be wrong.

use std::collections::HashMap;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use thiserror::Error;

use crate::json_text;
use crate::message::{StopReason, Usd};

/// Why a script cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read script `{file}`: {reason}")]
    Read {
        /// The file.
        file: String,
        /// The system's words.
        reason: String,
    },
    /// Something in the file is not allowed.
    #[error("script `{file}`: {reason}")]
    Refused {
        /// The file.
        file: String,
        /// What, where, and what is allowed.
        reason: String,
    },
}

/// A whole script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Script {
    /// The replies of each unit, by what stands for the unit.
    #[serde(deserialize_with = "units")]
    pub(super) units: HashMap<String, Vec<ScriptReply>>,
    /// For every request that no list has a reply for.
    pub(super) then: Option<ScriptReply>,
    /// Of every unit; no limit if left out.
    pub(super) context_window: Option<NonZeroU64>,
    /// Whether every unit is shown images.
    #[serde(default)]
    pub(super) takes_images: bool,
}

/// One reply, and when and how it comes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptReply {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<ScriptCall>,
    pub(super) usage: ScriptUsage,
    #[serde(rename = "delay_ms", deserialize_with = "milliseconds")]
    pub(super) delay: Option<Duration>,
    chunk: Option<NonZeroUsize>,
    #[serde(rename = "piece_delay_ms", deserialize_with = "milliseconds")]
    pub(super) piece_delay: Option<Duration>,
    #[serde(deserialize_with = "stop")]
    pub(super) stop: Option<StopReason>,
    pub(super) fault: Option<Fault>,
    /// What goes wrong before, one for each attempt.
    pub(super) faults: Vec<Fault>,
    pub(super) expect: Expect,
    pub(super) repeat: bool,
}

/// One call of a reply.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptCall {
    pub(super) name: String,
    /// As the model writes them; not always valid JSON.
    #[serde(deserialize_with = "arguments")]
    pub(super) arguments: String,
    pub(super) id: Option<String>,
}

/// What a reply says it cost.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    #[serde(rename = "cost_usd", deserialize_with = "dollars")]
    pub(super) cost: Usd,
}

/// How a reply goes wrong, after its text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum Fault {
    /// The provider answers with an error.
    Error {
        /// The HTTP status.
        status: u16,
        /// The provider's words.
        message: String,
        /// When the provider wants to hear of it again.
        #[serde(default, rename = "retry_after_ms", deserialize_with = "milliseconds")]
        retry_after: Option<Duration>,
    },
    /// The request is longer than the model's context window.
    TooLong,
    /// The answer breaks off.
    Cut,
    /// Nothing more ever comes.
    Hang,
    /// The model's code panics.
    Panic,
}

/// What must hold for the request that a reply answers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Expect {
    pub(super) contains: Vec<String>,
    pub(super) lacks: Vec<String>,
}

impl Expect {
    pub(super) fn is_empty(&self) -> bool {
        self.contains.is_empty() && self.lacks.is_empty()
    }
}

impl Script {
    /// Reads a script; `file` is what errors call it.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, ScriptError> {
        let refuse = |reason| ScriptError::Refused { file: file.to_owned(), reason };
        let script: Self = json_text::parse(text).map_err(|error| refuse(error.to_string()))?;
        for (key, replies) in &script.units {
            let inner = replies.split_last().map_or(&[][..], |(_, inner)| inner);
            if inner.iter().any(|reply| reply.repeat) {
                let reason = format!("`{key}`: only the last reply may have `repeat`");
                return Err(refuse(reason));
            }
        }
        Ok(script)
    }
}

impl ScriptReply {
    /// Returns a text in the pieces it is streamed in.
    pub(super) fn pieces<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let size = self.chunk.map_or(usize::MAX, NonZeroUsize::get);
        let mut rest = text;
        std::iter::from_fn(move || {
            let end = rest.char_indices().nth(size).map_or(rest.len(), |(end, _)| end);
            let (piece, after) = rest.split_at(end);
            rest = after;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Some(Duration::from_millis(u64::deserialize(deserializer)?)))
}

fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
    let dollars = f64::deserialize(deserializer)?;
    Usd::from_dollars(dollars).ok_or_else(|| de::Error::custom("`cost_usd` is no amount of money"))
}

fn stop<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StopReason>, D::Error> {
    let name = String::deserialize(deserializer)?;
    StopReason::from_name(&name).map(Some).ok_or_else(|| {
        let allowed = "`end_turn`, `tool_use`, `max_tokens` or `refusal`";
        de::Error::custom(format!("unknown stop reason `{name}`, expected {allowed}"))
    })
}

fn arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(raw) => Ok(raw),
        object @ Value::Object(_) => Ok(object.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(
            de::Error::custom("`arguments` must be an object, or a string that is sent as it is"),
        ),
    }
}

fn units<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<HashMap<String, Vec<ScriptReply>>, D::Error> {
    deserializer.deserialize_map(UnitsVisitor)
}

/// Reads the units, refusing a key that stands there twice: a map would keep
/// the second list without a word.
struct UnitsVisitor;

impl<'de> Visitor<'de> for UnitsVisitor {
    type Value = HashMap<String, Vec<ScriptReply>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list of replies for each unit")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut units = HashMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if units.contains_key(&key) {
                return Err(de::Error::custom(format!("`{key}` stands there twice")));
            }
            let replies = map.next_value()?;
            units.insert(key, replies);
        }
        Ok(units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let error = Script::parse("s.json", text).unwrap_err();
        assert_eq!(error.to_string(), format!("script `s.json`: {expected}"));
    }

    #[test]
    fn a_refused_script_says_where_and_what_is_allowed() {
        check_refused(
            "{\"units\": {\n\"main\": [{\"text\": \"a\", \"cals\": []}]}}",
            "unknown field `cals`, expected one of `text`, `thinking`, `calls`, `usage`, \
             `delay_ms`, `chunk`, `piece_delay_ms`, `stop`, `fault`, `faults`, `expect`, \
             `repeat` at line 2 column 29",
        );
        check_refused(
            r#"{"units": {"main": [{"stop": "end"}]}}"#,
            "unknown stop reason `end`, expected `end_turn`, `tool_use`, `max_tokens` or \
             `refusal` at line 1 column 35",
        );
        check_refused(
            r#"{"units": {"main": [{"calls": [{"name": "Read", "arguments": 3}]}]}}"#,
            "`arguments` must be an object, or a string that is sent as it is \
             at line 1 column 63",
        );
        check_refused(
            r#"{"units": {"main": [{"fault": "boom"}]}}"#,
            "unknown variant `boom`, expected one of `error`, `too_long`, `cut`, `hang`, `panic` \
             at line 1 column 36",
        );
        check_refused(
            r#"{"units": {"main": [{"chunk": 0}]}}"#,
            "invalid value: integer `0`, expected a nonzero usize at line 1 column 31",
        );
        check_refused(
            r#"{"units": {"main": [], "main": []}}"#,
            "`main` stands there twice at line 1 column 29",
        );
        check_refused(
            r#"{"units": {"main": [{"repeat": true}, {}]}}"#,
            "`main`: only the last reply may have `repeat`",
        );
        check_refused("{}", "missing field `units` at line 1 column 2");
    }

    #[test]
    fn pieces_are_cut_between_characters_and_lose_nothing() {
        let pieces = |chunk, text| {
            let reply = ScriptReply { chunk: NonZeroUsize::new(chunk), ..ScriptReply::default() };
            reply.pieces(text).collect::<Vec<_>>()
        };
        assert_eq!(pieces(2, "äöü€x"), ["äö", "ü€", "x"]);
        assert_eq!(pieces(0, "äöü€x"), ["äöü€x"]);
        assert_eq!(pieces(2, ""), [""; 0]);
    }
}
