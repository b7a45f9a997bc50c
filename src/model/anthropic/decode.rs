//! The events of a stream, as servers really send them.
//!
//! Every field may be missing, null or of a neighbouring type. Nearly all are
//! borrowed as the JSON they came as and read only where they are needed: so
//! reading a piece of text allocates nothing. What the events add up to is
//! `assemble`'s business.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Usage;
use crate::model::api::lenient::{Count, Text};

/// A field; `None` stands for absent and null.
pub(super) type Field<'a> = Option<&'a RawValue>;

/// One event of a stream.
#[derive(Deserialize)]
pub(super) struct WireEvent<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Option<WireDelta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Field<'a>,
    #[serde(borrow)]
    pub(super) message: Field<'a>,
    #[serde(borrow)]
    pub(super) usage: Field<'a>,
    #[serde(borrow)]
    pub(super) error: Field<'a>,
}

/// What an event adds to a block or to the message.
#[derive(Deserialize)]
pub(super) struct WireDelta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Field<'a>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

/// The start of a block, or the whole of it where the server does not stream.
#[derive(Default, Deserialize)]
pub(super) struct WireBlock<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Field<'a>,
}

/// The message that begins, or the whole of it.
#[derive(Default, Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(borrow)]
    pub(super) content: Field<'a>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) usage: Field<'a>,
}

#[derive(Default, Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
}

/// Takes what a `usage` counts into what was counted before.
///
/// Counts are cumulative. Some servers count the prompt only at the end, and
/// send zeros before; some the other way round.
pub(super) fn count(usage: &mut Usage, field: Field<'_>) {
    let wire: WireUsage = parsed(field);
    for (counted, Count(count)) in [
        (&mut usage.input, wire.input_tokens),
        (&mut usage.output, wire.output_tokens),
        (&mut usage.cache_read, wire.cache_read_input_tokens),
        (&mut usage.cache_creation, wire.cache_creation_input_tokens),
    ] {
        *counted = count.unwrap_or(0).max(*counted);
    }
}

/// Returns what a field holds; the default if it is something else.
pub(super) fn parsed<'a, T: Deserialize<'a> + Default>(field: Field<'a>) -> T {
    field.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn counts_only_ever_grow() {
        let mut usage = Usage::default();
        let start = r#"{"input_tokens":9,"cache_read_input_tokens":80,"output_tokens":1}"#;
        count(&mut usage, Some(&field(start)));
        count(&mut usage, Some(&field(r#"{"input_tokens":0,"output_tokens":"7"}"#)));
        count(&mut usage, Some(&field("null")));
        count(&mut usage, None);
        assert_eq!(usage, Usage { input: 9, output: 7, cache_read: 80, ..Usage::default() });
    }
}
