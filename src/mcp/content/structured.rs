//! Whether the text of a result already contains its `structuredContent`.
//!
//! According to the specification (2025-06-18 and later) a server should send the same JSON as a
//! text, too; then the model should read it once. Other servers send a summary as the text and the
//! data only as structured content.

use serde_json::Value;

/// Maximum places of a text at which JSON is looked for.
const PLACES_CAP: usize = 100;

/// Names of a single field that say no more than that its value is the result: that of Python's
/// libraries, and those of servers of files and notes.
const WRAPPERS: [&str; 4] = ["result", "content", "text", "output"];

/// Returns whether the texts contain the structured content as JSON. Its values alone are not
/// enough: `Done in 3 s, true` does not say what `{"errors":3,"ok":true}` says.
pub(super) fn is_contained(structured: &Value, texts: &[String]) -> bool {
    let fields = structured.as_object();
    if fields.is_some_and(serde_json::Map::is_empty) {
        return !texts.is_empty();
    }
    // Servers wrap a result that is not an object.
    let only = fields.filter(|fields| fields.len() == 1);
    let wrapped = only.and_then(|fields| WRAPPERS.iter().find_map(|name| fields.get(*name)));
    [Some(structured), wrapped].into_iter().flatten().any(|value| are_written(value, texts))
}

/// Returns whether one text has the value, or each text one of its items.
fn are_written(value: &Value, texts: &[String]) -> bool {
    let is_each = |items: &Vec<Value>| {
        items.len() == texts.len()
            && items.iter().zip(texts).all(|(item, text)| is_written(item, text))
    };
    texts.iter().any(|text| is_written(value, text))
        || value.as_array().is_some_and(|items| !items.is_empty() && is_each(items))
}

/// Returns whether a text is the value, as JSON or as a plain string, or contains the array or
/// object as JSON.
fn is_written(value: &Value, text: &str) -> bool {
    let text = text.trim();
    if value.as_str().is_some_and(|word| word.trim() == text)
        || serde_json::from_str::<Value>(text).is_ok_and(|read| read == *value)
    {
        return true;
    }
    let start = match value {
        Value::Array(_) => '[',
        Value::Object(_) => '{',
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return false,
    };
    let mut rest = text;
    for _ in 0..PLACES_CAP {
        let Some(at) = rest.find(start) else { return false };
        rest = &rest[at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let read = values.next();
        let length = match read {
            Some(Ok(read)) if read == *value => return true,
            Some(Ok(_)) => values.byte_offset(),
            Some(Err(_)) | None => 1,
        };
        rest = &rest[length..];
    }
    false
}
