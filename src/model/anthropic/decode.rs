//! The events of a stream, as servers really send them.
//!
//! Every field is kept as the JSON it came as, borrowed from the event, and
//! read only where it is needed: it may be missing, null or of a neighbouring
//! type. So reading a piece of text allocates nothing, and a field that nobody
//! asks for can be anything. What the events add up to is `assemble`'s business.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Usage;
use crate::model::api::lenient::push_string;

/// A field; `None` stands for absent and null.
pub(super) type Field<'a> = Option<&'a RawValue>;

/// One event of a stream.
#[derive(Deserialize)]
pub(super) struct WireEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) index: Field<'a>,
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
    #[serde(borrow)]
    pub(super) text: Field<'a>,
    #[serde(borrow)]
    pub(super) thinking: Field<'a>,
    #[serde(borrow)]
    pub(super) signature: Field<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Field<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Field<'a>,
}

/// The start of a block, or the whole of it where the server does not stream.
#[derive(Default, Deserialize)]
pub(super) struct WireBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) text: Field<'a>,
    #[serde(borrow)]
    pub(super) thinking: Field<'a>,
    #[serde(borrow)]
    pub(super) signature: Field<'a>,
    #[serde(borrow)]
    pub(super) id: Field<'a>,
    #[serde(borrow)]
    pub(super) name: Field<'a>,
    #[serde(borrow)]
    pub(super) input: Field<'a>,
}

/// The message that begins, or the whole of it.
#[derive(Default, Deserialize)]
pub(super) struct WireMessage<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Field<'a>,
    #[serde(borrow)]
    pub(super) error: Field<'a>,
    #[serde(borrow)]
    pub(super) content: Field<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Field<'a>,
    #[serde(borrow)]
    pub(super) usage: Field<'a>,
}

#[derive(Default, Deserialize)]
struct WireUsage<'a> {
    #[serde(borrow)]
    input_tokens: Field<'a>,
    #[serde(borrow)]
    output_tokens: Field<'a>,
    #[serde(borrow)]
    cache_read_input_tokens: Field<'a>,
    #[serde(borrow)]
    cache_creation_input_tokens: Field<'a>,
}

/// Takes what a `usage` counts into what was counted before.
///
/// Counts are cumulative. Some servers count the prompt only at the end, and
/// send zeros before; some the other way round.
pub(super) fn count(usage: &mut Usage, field: Field<'_>) {
    let wire: WireUsage = parsed(field);
    for (counted, field) in [
        (&mut usage.input, wire.input_tokens),
        (&mut usage.output, wire.output_tokens),
        (&mut usage.cache_read, wire.cache_read_input_tokens),
        (&mut usage.cache_creation, wire.cache_creation_input_tokens),
    ] {
        *counted = number(field).unwrap_or(0).max(*counted);
    }
}

/// Returns what a field holds; the default if it is something else.
pub(super) fn parsed<'a, T: Deserialize<'a> + Default>(field: Field<'a>) -> T {
    field.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
}

/// Returns a name; empty for absent, null, and what no name of the protocol
/// looks like.
pub(super) fn word(field: Field<'_>) -> &str {
    let quoted = field.map_or("", RawValue::get);
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.filter(|word| !word.contains('\\')).unwrap_or_default()
}

/// Returns a number of things; `None` for absent, null, and whatever is no such
/// number.
pub(super) fn number(field: Field<'_>) -> Option<u64> {
    let digits = field?.get().trim_matches('"');
    // A cast from a float saturates.
    let float = || digits.parse::<f64>().ok().filter(|float| *float >= 0.0).map(|it| it as u64);
    digits.parse().ok().or_else(float)
}

/// Returns a text by itself; `None` for absent, null, empty, and what is no
/// text.
pub(super) fn text(field: Field<'_>) -> Option<String> {
    let mut text = String::new();
    append(field, &mut text);
    (!text.is_empty()).then_some(text)
}

/// Appends a text where it belongs, and nothing if the field holds none.
pub(super) fn append(field: Field<'_>, text: &mut String) {
    // Whatever else is there is no text.
    let _ = field.is_some_and(|json| push_string(json, text));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn names_and_numbers_may_be_anything() {
        let word_of = |json: &str| word(Some(&field(json))).to_owned();
        assert_eq!(["\"ping\"", "null", "3", r#""a\n""#].map(word_of), ["ping", "", "", ""]);
        let number_of = |json: &str| number(Some(&field(json)));
        assert_eq!(
            ["3", "3.0", "\"3\"", "-1", "null", "\"x\"", "[1]"].map(number_of),
            [Some(3), Some(3), Some(3), None, None, None, None]
        );
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
