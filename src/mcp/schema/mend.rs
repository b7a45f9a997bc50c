//! Repair of keywords whose values draft 2020-12 does not allow: those of older drafts, types of
//! other languages, and `null`. A keyword with a valid value is never changed.

use grep_regex::RegexMatcher;
use serde_json::{Map, Number, Value, json};

/// Keywords that hold one schema.
const SINGLE: [&str; 11] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords that hold a list of schemas.
const LISTS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords that hold schemas by name.
const MAPS: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Keywords that hold a text.
const TEXTS: [&str; 9] = [
    "$anchor",
    "$comment",
    "$id",
    "$ref",
    "contentEncoding",
    "description",
    "format",
    "pattern",
    "title",
];

/// Keywords that hold a number of things.
const COUNTS: [&str; 8] = [
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
];

/// Keywords that hold any number.
const LIMITS: [&str; 5] =
    ["exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"];

/// Keywords that hold `true` or `false`.
const FLAGS: [&str; 4] = ["deprecated", "readOnly", "uniqueItems", "writeOnly"];

/// Patterns that every name matches.
const ANY_NAME: [&str; 7] = ["", ".*", "^.*$", "^(.*)$", ".+", "^.+$", "^"];

/// Mends a schema that is an object, and all within it.
pub(super) fn mend_object(map: &mut Map<String, Value>) {
    // Some providers refuse older drafts.
    map.remove("$schema");
    mend_type(map);
    mend_texts(map);
    mend_numbers(map);
    mend_values(map);
    mend_tuple(map);
    mend_properties(map);
    lift_required(map);
    for key in SINGLE {
        mend_single(map, key);
    }
    for key in LISTS {
        mend_list(map, key);
    }
    for key in MAPS {
        mend_map(map, key);
    }
    mend_required(map);
    mend_patterns(map);
    let is_array = match map.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        Some(_) | None => false,
    };
    // OpenAI: "array schema missing items".
    if is_array && !map.contains_key("items") {
        map.insert("items".to_owned(), json!({}));
    }
}

/// Adds a sentence to the description of a schema.
pub(super) fn describe(map: &mut Map<String, Value>, sentence: &str) {
    let described = match map.get("description") {
        Some(Value::String(text)) if !text.is_empty() => format!("{text} {sentence}"),
        Some(_) | None => sentence.to_owned(),
    };
    map.insert("description".to_owned(), described.into());
}

/// Mends a subschema.
fn mend_schema(value: &mut Value) {
    match value {
        Value::Object(map) => mend_object(map),
        Value::Bool(_) => {}
        Value::String(text) => {
            *value = match type_name(text) {
                Some(kind) => json!({ "type": kind }),
                None if text.trim().is_empty() => json!({}),
                None => json!({ "description": text }),
            };
        }
        Value::Null | Value::Number(_) | Value::Array(_) => *value = json!({}),
    }
}

fn mend_single(map: &mut Map<String, Value>, key: &str) {
    match map.get_mut(key) {
        Some(Value::Null) => drop(map.remove(key)),
        Some(Value::String(text)) if matches!(text.as_str(), "true" | "false") => {
            let flag = text == "true";
            map.insert(key.to_owned(), flag.into());
        }
        Some(value) => mend_schema(value),
        None => {}
    }
}

fn mend_list(map: &mut Map<String, Value>, key: &str) {
    match map.get_mut(key) {
        Some(Value::Array(branches)) if !branches.is_empty() => {
            branches.iter_mut().for_each(mend_schema);
        }
        Some(Value::Object(_)) => {
            let mut branch = map.remove(key).unwrap_or_default();
            mend_schema(&mut branch);
            map.insert(key.to_owned(), json!([branch]));
        }
        Some(_) => drop(map.remove(key)),
        None => {}
    }
}

fn mend_map(map: &mut Map<String, Value>, key: &str) {
    match map.get_mut(key) {
        Some(Value::Object(schemas)) => schemas.values_mut().for_each(mend_schema),
        Some(_) => drop(map.remove(key)),
        None => {}
    }
}

/// Converts properties in an array (`[{"name": "a", "type": "string"}]`) to a map by name.
fn mend_properties(map: &mut Map<String, Value>) {
    let Some(Value::Array(items)) = map.get("properties") else { return };
    let named: Option<Map<String, Value>> = items
        .iter()
        .map(|item| {
            let mut item = item.as_object()?.clone();
            let name = item.remove("name")?.as_str()?.to_owned();
            Some((name, Value::Object(item)))
        })
        .collect();
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        map.insert("properties".to_owned(), named.into());
    }
}

/// Returns JSON Schema's name of a type; `None` for an unknown one.
fn type_name(text: &str) -> Option<&'static str> {
    Some(match text.trim().to_ascii_lowercase().as_str() {
        "object" | "dict" | "map" | "record" | "hash" | "struct" => "object",
        "array" | "list" | "tuple" | "set" => "array",
        "string" | "str" | "text" | "char" | "date" | "datetime" | "uuid" | "uri" | "url"
        | "file" | "binary" | "password" => "string",
        "integer" | "int" | "int32" | "int64" | "long" => "integer",
        "number" | "float" | "double" | "decimal" => "number",
        "boolean" | "bool" => "boolean",
        "null" | "none" | "nil" => "null",
        _ => return None,
    })
}

fn mend_type(map: &mut Map<String, Value>) {
    let mended = match map.get("type") {
        None => return,
        Some(Value::String(text)) => type_name(text).map(Value::from),
        Some(Value::Array(kinds)) => {
            let names = kinds.iter().map(|kind| kind.as_str().and_then(type_name));
            // An unknown type may be any.
            names
                .collect::<Option<Vec<_>>>()
                .map(|mut names| {
                    let mut seen = Vec::new();
                    names.retain(|name| {
                        !seen.contains(name) && {
                            seen.push(*name);
                            true
                        }
                    });
                    names
                })
                .filter(|names| !names.is_empty())
                .map(Value::from)
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => None,
    };
    match mended {
        Some(kind) => drop(map.insert("type".to_owned(), kind)),
        None => drop(map.remove("type")),
    }
}

fn mend_texts(map: &mut Map<String, Value>) {
    for key in TEXTS {
        match map.get(key) {
            None | Some(Value::String(_)) => {}
            Some(Value::Number(number)) if matches!(key, "description" | "title") => {
                let text = number.to_string();
                map.insert(key.to_owned(), text.into());
            }
            Some(_) => drop(map.remove(key)),
        }
    }
}

fn mend_numbers(map: &mut Map<String, Value>) {
    for (exclusive, limit) in [("exclusiveMaximum", "maximum"), ("exclusiveMinimum", "minimum")] {
        // Draft 4 has a boolean here, later drafts a number.
        if let Some(Value::Bool(is_exclusive)) = map.get(exclusive) {
            let is_exclusive = *is_exclusive;
            map.remove(exclusive);
            if is_exclusive && let Some(number) = map.remove(limit) {
                map.insert(exclusive.to_owned(), number);
            }
        }
    }
    for key in LIMITS.into_iter().chain(COUNTS) {
        let number = match map.get(key) {
            None => continue,
            Some(Value::Number(number)) => Some(number.clone()),
            Some(Value::String(text)) => text.trim().parse::<Number>().ok(),
            Some(_) => None,
        };
        let is_valid = |number: &Number| match number.as_f64() {
            Some(value) if key == "multipleOf" => value > 0.0,
            Some(value) if COUNTS.contains(&key) => value >= 0.0 && value.fract() == 0.0,
            Some(_) | None => true,
        };
        match number.filter(is_valid) {
            Some(number) => drop(map.insert(key.to_owned(), number.into())),
            None => drop(map.remove(key)),
        }
    }
    for key in FLAGS {
        let flag = match map.get(key) {
            None | Some(Value::Bool(_)) => continue,
            Some(flag) => flag == "true",
        };
        match flag {
            true => drop(map.insert(key.to_owned(), true.into())),
            false => drop(map.remove(key)),
        }
    }
}

fn mend_values(map: &mut Map<String, Value>) {
    match map.get("enum") {
        None => {}
        Some(Value::Array(values)) if !values.is_empty() => {}
        Some(Value::Array(_) | Value::Null) => drop(map.remove("enum")),
        Some(value) => {
            let only = json!([value]);
            map.insert("enum".to_owned(), only);
        }
    }
    match map.get("examples") {
        None | Some(Value::Array(_)) => {}
        Some(value) => {
            let only = json!([value]);
            map.insert("examples".to_owned(), only);
        }
    }
}

/// Moves the schemas of a tuple's first items from `items`, where draft 4 has them, to `prefixItems`.
fn mend_tuple(map: &mut Map<String, Value>) {
    let Some(Value::Array(first)) = map.get("items") else { return };
    let first = first.clone();
    let rest = match map.remove("additionalItems") {
        Some(Value::Bool(true)) | None => json!({}),
        Some(rest) => rest,
    };
    map.insert("items".to_owned(), rest);
    if !first.is_empty() {
        map.insert("prefixItems".to_owned(), first.into());
    }
}

/// Moves `required: true`, which draft 3 has in the property itself, to the list of names.
fn lift_required(map: &mut Map<String, Value>) {
    let mut lifted: Vec<Value> = Vec::new();
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties {
            if let Value::Object(property) = property
                && let Some(Value::Bool(is_required)) = property.get("required")
            {
                if *is_required {
                    lifted.push(name.as_str().into());
                }
                property.remove("required");
            }
        }
    }
    if lifted.is_empty() {
        return;
    }
    match map.get_mut("required") {
        Some(Value::Array(names)) => names.extend(lifted),
        Some(_) | None => drop(map.insert("required".to_owned(), lifted.into())),
    }
}

fn mend_required(map: &mut Map<String, Value>) {
    let names = match map.get("required") {
        None => return,
        Some(Value::String(name)) => vec![Value::from(name.as_str())],
        Some(Value::Array(names)) => {
            let mut kept: Vec<Value> = Vec::new();
            for name in names.iter().filter(|name| name.is_string()) {
                if !kept.contains(name) {
                    kept.push(name.clone());
                }
            }
            if kept == *names {
                return;
            }
            kept
        }
        Some(_) => Vec::new(),
    };
    match names.is_empty() {
        true => drop(map.remove("required")),
        false => drop(map.insert("required".to_owned(), names.into())),
    }
}

/// Moves patterns that providers refuse, such as those with look-around, into the description.
fn mend_patterns(map: &mut Map<String, Value>) {
    if let Some(Value::String(pattern)) = map.get("pattern")
        && RegexMatcher::new(pattern).is_err()
    {
        let sentence = format!("(It matches the pattern `{pattern}`.)");
        map.remove("pattern");
        describe(map, &sentence);
    }
    let Some(Value::Object(patterns)) = map.get("patternProperties") else { return };
    let is_fine = |pattern: &String| {
        !ANY_NAME.contains(&pattern.as_str()) && RegexMatcher::new(pattern).is_ok()
    };
    if patterns.keys().all(is_fine) {
        return;
    }
    let patterns = patterns.clone();
    map.remove("patternProperties");
    let odd = patterns.keys().find(|pattern| !ANY_NAME.contains(&pattern.as_str()));
    if let Some(odd) = odd {
        describe(map, &format!("(Names of further properties match the pattern `{odd}`.)"));
    }
    let rest =
        match <[Value; 1]>::try_from(patterns.into_iter().map(|(_, it)| it).collect::<Vec<_>>()) {
            Ok([only]) => only,
            Err(_) => json!({}),
        };
    map.insert("additionalProperties".to_owned(), rest);
}
