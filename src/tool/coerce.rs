//! Brings the arguments of a call into the types that the tool's schema names.
//!
//! Many models write a long array as a string that holds the JSON of the array, quote
//! numbers and booleans, and fill optional parameters with empty values. A value that
//! its schema accepts is never changed, and neither is one that does not say what is
//! meant: the tool refuses that one in its own words.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

/// Maximum depth of nested schemas that are followed. A schema may refer to itself.
const DEPTH_CAP: usize = 32;

/// Maximum number of strings in strings: a model that quotes its arguments twice is
/// common, more is not.
const QUOTES_CAP: usize = 3;

/// Maximum characters of a malformed argument text that are told back.
const EXCERPT_CAP: usize = 200;

/// Reads the arguments of a call from the text that a model wrote; no text at all and
/// `null` mean no arguments. An object may be quoted once more, as a JSON string.
///
/// # Errors
///
/// The text is not a JSON object. The error is the text that the model gets.
pub fn read_arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let excerpt: String = text.chars().take(EXCERPT_CAP).collect();
    let inner =
        |value: Value| if value.is_string() { unquoted(&value).into_owned() } else { value };
    match serde_json::from_str(text).map(inner) {
        Ok(arguments @ Value::Object(_)) => Ok(arguments),
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(Value::String(text)) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Ok(_) => Err(format!("The arguments must be a JSON object, but were: {excerpt}")),
        Err(error) => Err(format!(
            "The arguments are not valid JSON ({error}). Call again with valid JSON. They began: \
             {excerpt}"
        )),
    }
}

/// Brings arguments into the types that `schema`, a JSON Schema, names, and returns
/// whether that changed anything.
///
/// A string becomes the array, object, number or boolean that it holds if the schema
/// wants one of those and no string. An optional property that is empty, and that the
/// schema does not accept empty, is removed.
pub fn coerce(arguments: &mut Value, schema: &str) -> bool {
    let Ok(root) = serde_json::from_str::<Value>(schema) else { return false };
    let mut coercion = Coercion { root: &root, changed: false };
    coercion.apply(arguments, &root, DEPTH_CAP);
    coercion.changed
}

/// Returns the array or object that a string holds; any other value as it is.
#[must_use]
pub fn unquoted(value: &Value) -> Cow<'_, Value> {
    let read = value.as_str().and_then(|text| read(text, &["array", "object"], QUOTES_CAP));
    read.map_or(Cow::Borrowed(value), Cow::Owned)
}

struct Coercion<'a> {
    root: &'a Value,
    changed: bool,
}

impl<'a> Coercion<'a> {
    fn apply(&mut self, value: &mut Value, schema: &'a Value, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let alternatives = self.alternatives(schema);
        let types = types(&alternatives);
        if let Value::String(text) = value
            && !types.is_empty()
            && !types.contains(&"string")
            && let Some(read) = read(text, &types, QUOTES_CAP)
        {
            *value = read;
            self.changed = true;
        }
        let fits = |schema: &&Value| accepts(&type_names(schema), value);
        let Some(schema) = alternatives.iter().copied().find(fits) else { return };
        match value {
            Value::Array(items) => {
                let Some(of_items) = schema.get("items") else { return };
                items.iter_mut().for_each(|item| self.apply(item, of_items, depth));
            }
            Value::Object(fields) => self.apply_to_fields(fields, schema, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn apply_to_fields(
        &mut self,
        fields: &mut Map<String, Value>,
        schema: &'a Value,
        depth: usize,
    ) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        let required = schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|it| it == name));
        fields.retain(|name, value| {
            let Some(schema) = properties.get(name) else { return true };
            self.apply(value, schema, depth);
            let is_kept = is_required(name) || !self.is_left_out(value, schema);
            self.changed |= !is_kept;
            is_kept
        });
    }

    /// Returns whether a value is empty and its schema accepts no empty one.
    fn is_left_out(&self, value: &Value, schema: &'a Value) -> bool {
        let alternatives = self.alternatives(schema);
        let types = types(&alternatives);
        match value {
            Value::Null => !types.is_empty() && !types.contains(&"null"),
            Value::String(text) if text.trim().is_empty() => {
                let is_choice = alternatives.iter().any(|schema| {
                    let choices = schema.get("enum").and_then(Value::as_array);
                    choices.is_some_and(|choices| !choices.contains(value))
                });
                is_choice || !types.is_empty() && !types.contains(&"string")
            }
            Value::Array(items) if items.is_empty() => {
                let least = |schema: &&Value| schema.get("minItems").and_then(Value::as_u64);
                alternatives.iter().filter_map(least).any(|least| least > 0)
            }
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => false,
        }
    }

    /// Returns the schemas of which a value has to fit one, references followed.
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.resolve(schema);
        let several = ["anyOf", "oneOf"].iter().find_map(|name| schema.get(name)?.as_array());
        match several {
            Some(several) => several.iter().map(|schema| self.resolve(schema)).collect(),
            None => vec![schema],
        }
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..DEPTH_CAP {
            let place = schema.get("$ref").and_then(Value::as_str);
            let place = place.and_then(|place| place.strip_prefix('#'));
            match place.and_then(|place| self.root.pointer(place)) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

/// Returns the types that any of the schemas accepts; none if one accepts every type.
fn types<'a>(alternatives: &[&'a Value]) -> Vec<&'a str> {
    let names: Vec<Vec<&str>> = alternatives.iter().map(|schema| type_names(schema)).collect();
    if names.iter().any(Vec::is_empty) { Vec::new() } else { names.concat() }
}

fn type_names(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    }
}

fn accepts(types: &[&str], value: &Value) -> bool {
    let is_whole = |number: &Number| number.as_f64().is_some_and(|number| number.fract() == 0.0);
    types.is_empty()
        || match value {
            Value::Null => types.contains(&"null"),
            Value::Bool(_) => types.contains(&"boolean"),
            Value::Number(number) => {
                types.contains(&"number") || types.contains(&"integer") && is_whole(number)
            }
            Value::String(_) => types.contains(&"string"),
            Value::Array(_) => types.contains(&"array"),
            Value::Object(_) => types.contains(&"object"),
        }
}

/// Returns the value of one of these types that a string holds.
fn read(text: &str, types: &[&str], quotes: usize) -> Option<Value> {
    let text = without_fence(text.trim());
    let flag = ["true", "false"].into_iter().find(|flag| text.eq_ignore_ascii_case(flag));
    if let Some(flag) = flag.filter(|_| types.contains(&"boolean")) {
        return Some(Value::Bool(flag == "true"));
    }
    // A model that quotes JSON once too little leaves line breaks within its strings.
    let parsed: Value = serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&with_escaped_breaks(text)))
        .ok()?;
    match parsed.as_str() {
        Some(inner) => read(inner, types, quotes.checked_sub(1)?),
        None => accepts(types, &parsed).then_some(parsed),
    }
}

/// Returns a text without the Markdown fence around it.
fn without_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    let inner = inner.and_then(|inner| inner.split_once('\n'));
    inner.map_or(text, |(_, inner)| inner.trim())
}

/// Returns JSON in which control characters within strings are escaped.
fn with_escaped_breaks(text: &str) -> String {
    let (mut within, mut escaped) = (false, false);
    let mut json = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        let is_quote = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        within ^= is_quote;
        match character {
            '\u{0}'..='\u{1f}' if within => {
                json.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => json.push(character),
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, mut arguments: Value, expected: Value) {
        let is_changed = arguments != expected;
        assert_eq!(coerce(&mut arguments, &schema.to_string()), is_changed);
        assert_eq!(arguments, expected);
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "list": { "type": "array", "items": { "$ref": "#/$defs/item" } },
                "names": { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                "object": { "type": "object", "properties": { "n": { "type": "integer" } } },
                "flag": { "type": "boolean" },
                "count": { "type": "integer" },
                "size": { "type": "number" },
                "text": { "type": "string" },
                "choice": { "type": "string", "enum": ["a", "b"] },
                "maybe": { "anyOf": [{ "type": "array" }, { "type": "null" }] },
                "either": { "type": ["string", "array"] },
                "any": {},
                "must": { "type": "array", "minItems": 1 },
            },
            "required": ["must"],
            "$defs": { "item": { "type": "object", "properties": {
                "flag": { "type": "boolean" },
                "list": { "type": "array", "items": { "type": "integer" } },
            } } },
        })
    }

    #[test]
    fn a_string_is_read_as_the_type_that_the_schema_names() {
        for (name, text, expected) in [
            ("list", "[]", json!([])),
            ("list", " [{\"flag\": true}]\n", json!([{ "flag": true }])),
            ("list", "```json\n[{}]\n```", json!([{}])),
            ("list", "\"[{}]\"", json!([{}])),
            ("list", "[{\"x\": \"one\ntwo\"}]", json!([{ "x": "one\ntwo" }])),
            ("list", "[{\"x\": \"say \\\"a\tb\\\"\"}]", json!([{ "x": "say \"a\tb\"" }])),
            (
                "list",
                r#"[{"flag": "False", "list": "[\"1\", 2]"}]"#,
                json!([{ "flag": false, "list": [1, 2] }]),
            ),
            ("object", r#"{"n": "3"}"#, json!({ "n": 3 })),
            ("flag", "TRUE", json!(true)),
            ("count", " 10 ", json!(10)),
            ("size", "1.5", json!(1.5)),
            ("maybe", "[1]", json!([1])),
            ("maybe", "null", json!(null)),
        ] {
            check(&schema(), json!({ name: text }), json!({ name: expected }));
        }
    }

    #[test]
    fn what_a_schema_accepts_or_nothing_can_read_is_left_as_it_is() {
        for (name, value) in [
            ("list", json!("oops")),
            ("list", json!("{}")),
            ("list", json!("[1")),
            ("list", json!(7)),
            ("flag", json!("yes")),
            ("count", json!("1.5")),
            ("count", json!("ten")),
            ("text", json!("[1]")),
            ("text", json!("true")),
            ("text", json!("")),
            ("either", json!("[1]")),
            ("any", json!("[1]")),
            ("maybe", json!(null)),
            ("unknown", json!("")),
            ("must", json!([])),
            ("list", json!([])),
        ] {
            check(&schema(), json!({ name: value }), json!({ name: value }));
        }
        check(&schema(), json!("oops"), json!("oops"));
        assert!(!coerce(&mut json!({ "a": "[]" }), "no schema"));
    }

    #[test]
    fn an_optional_property_that_is_empty_is_removed() {
        for (name, value) in [
            ("list", json!("")),
            ("list", json!(null)),
            ("names", json!([])),
            ("names", json!("[]")),
            ("object", json!(null)),
            ("flag", json!(" ")),
            ("count", json!("")),
            ("choice", json!("")),
            ("text", json!(null)),
        ] {
            check(&schema(), json!({ name: value }), json!({}));
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({ "$ref": "#", "type": "array" });
        check(&schema, json!("[]"), json!([]));
        let nested = json!({ "type": "array", "items": { "$ref": "#" } });
        check(&nested, json!("[\"[[]]\"]"), json!([[[]]]));
    }

    #[test]
    fn arguments_that_are_no_object_are_told_back() {
        for none in [" ", "null", "\"\"", "{}", r#""{}""#] {
            assert_eq!(read_arguments(none), Ok(json!({})), "{none}");
        }
        let quoted = r#""{\"file_path\": \"a\"}""#;
        assert_eq!(read_arguments(quoted), Ok(json!({ "file_path": "a" })));
        assert!(read_arguments(r#""[1]""#).unwrap_err().contains("must be a JSON object"));
        assert!(read_arguments("[1]").unwrap_err().contains("must be a JSON object"));
        let broken = read_arguments("{\"file_path\": \"a").unwrap_err();
        assert!(broken.contains("not valid JSON"));
        assert!(broken.ends_with("{\"file_path\": \"a"));
    }
}
