//! Whether the text of a result already contains its `structuredContent`.
//!
//! According to the specification (2025-06-18 and later) a server should send the same JSON as a
//! text, too; then the model should read it once. Other servers send a summary as the text and the
//! data only as structured content.

use serde_json::Value;

/// Maximum values of the structured content that are searched for in the text.
const VALUES_CAP: usize = 1_000;

/// Maximum bytes of text that are searched, over all values. Above it the text counts as without
/// the structured content.
const SEARCHED_CAP: usize = 64 * 1024 * 1024;

/// Returns whether the texts contain every value of the structured content.
pub(super) fn is_contained(structured: &Value, texts: &[String]) -> bool {
    let is_same = |text: &String| {
        text.trim_start().starts_with(['{', '[', '"'])
            && serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured)
    };
    if texts.iter().any(is_same) {
        return true;
    }
    let mut values = Vec::new();
    collect(structured, &mut values);
    let length: usize = texts.iter().map(String::len).sum();
    if values.len() > VALUES_CAP || values.len().saturating_mul(length) > SEARCHED_CAP {
        return false;
    }
    !texts.is_empty()
        && values.iter().all(|value| texts.iter().any(|text| contains_value(text, value)))
}

/// Collects the values that are neither arrays nor objects, up to the limit.
fn collect<'a>(value: &'a Value, values: &mut Vec<&'a Value>) {
    if values.len() > VALUES_CAP {
        return;
    }
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => values.push(value),
        Value::Array(items) => items.iter().for_each(|item| collect(item, values)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, values)),
    }
}

fn contains_value(text: &str, value: &Value) -> bool {
    let written = value.to_string();
    match value {
        // Verbatim, or escaped within JSON.
        Value::String(word) => {
            text.contains(word.as_str()) || text.contains(written.trim_matches('"'))
        }
        // `17` does not contain the number 7.
        Value::Number(_) => text.match_indices(&written).any(|(at, _)| {
            let is_digit = |c: char| c.is_ascii_digit();
            !text[..at].ends_with(is_digit) && !text[at + written.len()..].starts_with(is_digit)
        }),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            text.contains(&written)
        }
    }
}
