//! Schemas of servers' tools, in a form that every provider accepts.
//!
//! Providers refuse a whole request for one schema without `type: object` at its top, with `anyOf`
//! there, or with a keyword of the wrong type. [`accept`] changes only what some provider refuses,
//! so a valid schema keeps its bytes. A sentence in the tool's description replaces a rule that has
//! to be removed. Only the server checks calls, against its own schema.

mod choices;
mod mend;

use std::cell::Cell;

use serde_json::{Map, Value};

use choices::{PARTS_CAP, Top};

/// Maximum characters of the sentences that replace parts of a schema.
const WORDS_CAP: usize = 1_500;

/// Maximum characters of JSON that a sentence quotes.
const QUOTE_CAP: usize = 300;

/// Maximum references that are followed from one place: a cycle has no end.
const REFERENCES_CAP: usize = 16;

/// A schema that providers accept, and the rules that were removed from it.
#[derive(Debug, PartialEq)]
pub(super) struct AcceptedSchema {
    pub(super) schema: Value,
    /// Sentences for the tool's description; may be empty.
    pub(super) words: String,
}

/// Returns the schema in a form that every provider accepts.
///
/// `None`, `null` and the empty array, which some libraries write for a tool without parameters,
/// count as a schema without properties.
///
/// # Errors
///
/// The schema accepts no object; the reason, in words.
pub(super) fn accept(schema: Option<&Value>) -> Result<AcceptedSchema, String> {
    let mut root = root_object(schema)?;
    let has_properties = match root.get("properties") {
        None | Some(Value::Null) => false,
        // The empty map of PHP.
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    mend::mend_object(&mut root);
    if has_properties && !root.contains_key("properties") {
        return Err("the `properties` of its schema are not an object".to_owned());
    }
    // Some servers list the keys of an object in another order each time they start.
    root.sort_keys();
    root.values_mut().for_each(Value::sort_all_objects);
    let written = Value::Object(root.clone());
    let parts_left = Cell::new(PARTS_CAP);
    let mut top = Top::new(root, &written, &parts_left);
    top.flatten();
    let Top { mut root, words, .. } = top;
    set_type(&mut root)?;
    // Some providers require them in any case.
    root.entry("properties").or_insert_with(|| Map::new().into());
    let mut schema = Value::Object(root);
    replace_dangling_references(&mut schema, &written);
    schema.sort_all_objects();
    Ok(AcceptedSchema { schema, words: cut(&words.join(" "), WORDS_CAP) })
}

fn root_object(schema: Option<&Value>) -> Result<Map<String, Value>, String> {
    match schema {
        None | Some(Value::Null | Value::Bool(true)) => Ok(Map::new()),
        Some(Value::Object(root)) => Ok(root.clone()),
        // The empty map of PHP.
        Some(Value::Array(items)) if items.is_empty() => Ok(Map::new()),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(root)) => Ok(root),
            Ok(_) | Err(_) => Err("its schema is not an object".to_owned()),
        },
        Some(Value::Bool(false) | Value::Number(_) | Value::Array(_)) => {
            Err("its schema is not an object".to_owned())
        }
    }
}

/// Sets `type` to `object`. Calls have objects as arguments, so a schema has to allow them.
fn set_type(root: &mut Map<String, Value>) -> Result<(), String> {
    let is_object = match root.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !is_object {
        let kind = cut(&root["type"].to_string(), QUOTE_CAP);
        return Err(format!("its schema has the type {kind}, not \"object\""));
    }
    root.insert("type".to_owned(), "object".into());
    Ok(())
}

/// Replaces each `$ref` without a target: by the target if [`accept`] has moved that, else by a
/// schema without rules whose description names the reference.
fn replace_dangling_references(schema: &mut Value, written: &Value) {
    let root = schema.clone();
    replace_in(schema, &root, written);
}

fn replace_in(node: &mut Value, root: &Value, written: &Value) {
    match node {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| replace_in(item, root, written));
        }
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref")
                && target(root, reference).is_none()
            {
                let reference = reference.clone();
                map.remove("$ref");
                match target(written, &reference) {
                    Some(Value::Object(moved)) if !mentions_reference(moved) => {
                        for (key, value) in moved {
                            map.entry(key.clone()).or_insert_with(|| value.clone());
                        }
                    }
                    Some(_) | None => {
                        let note = format!("(Its schema `{reference}` is missing.)");
                        mend::describe(map, &note);
                    }
                }
            }
            map.values_mut().for_each(|value| replace_in(value, root, written));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mentions_reference(map: &Map<String, Value>) -> bool {
    map.contains_key("$ref") || Value::Object(map.clone()).to_string().contains("\"$ref\"")
}

/// Returns the target of a reference within a schema.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    // The part of an address is percent-encoded.
    let pointer = pointer.replace("%24", "$").replace("%20", " ").replace("%25", "%");
    root.pointer(&pointer)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
