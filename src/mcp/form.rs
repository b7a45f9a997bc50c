//! What a server wants to know, as a form; and what is said to that, as the
//! server wants it.
//!
//! The schema is a server's: flat by the protocol, but it may be anything. A
//! property that is no field leaves no form.

use std::sync::Arc;

use serde_json::{Map, Number, Value};

use crate::event::{Choice, Entry, Field, Form, Takes};
use crate::message::CallId;

/// Most fields of a form. Each is asked for after the other.
pub const FIELDS_CAP: usize = 20;

/// Most bytes of a schema, as for that of a tool: people answer a few questions,
/// and the form keeps the schema in the log and on the wire.
const SCHEMA_CAP: usize = 32_000;

/// Longest name of a field, in bytes. Cut, it would name no property.
const NAME_CAP: usize = 200;

/// Most options of a field.
const OPTIONS_CAP: usize = 50;

/// Most characters of a text that a person reads.
const TEXT_CAP: usize = 1_000;

/// What stands for truth.
const YES: &str = "yes";
const NO: &str = "no";

/// Whose form it is.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// The call that the server works on.
    pub call: &'a CallId,
    /// The tool's whole name.
    pub tool: &'a Arc<str>,
    /// The server.
    pub server: &'a Arc<str>,
}

/// Returns what a person is asked to fill in; `None` if that cannot be known
/// from the schema. A server that wants nothing but an agreement has one field.
#[must_use]
pub fn form(asker: Asker<'_>, message: &str, schema: &Value) -> Option<Form> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let none = Map::new();
    let properties = properties.unwrap_or(&none);
    if properties.len() > FIELDS_CAP || properties.keys().any(|name| name.len() > NAME_CAP) {
        return None;
    }
    let arguments = schema.to_string();
    if arguments.len() > SCHEMA_CAP {
        return None;
    }
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.into_iter().flatten().any(|it| it == name);
    let fields = properties.iter().map(|(name, about)| field(name, about, !is_required(name)));
    let mut fields = fields.collect::<Option<Vec<Field>>>()?;
    if fields.is_empty() {
        let text = if message.is_empty() { "Go on?" } else { message };
        let takes = options([(YES, ""), (NO, "")].into_iter());
        let (name, header, text) = ("".into(), "".into(), shown(text));
        fields.push(Field { name, header, text, takes, may_be_empty: false });
    }
    Some(Form {
        call: asker.call.clone(),
        tool: Arc::clone(asker.tool),
        server: Some(Arc::clone(asker.server)),
        arguments: arguments.into(),
        message: shown(message),
        fields,
    })
}

/// Returns what is said, as the schema wants it; `None` if that is a no, or
/// lacks what the server cannot do without.
#[must_use]
pub fn content(form: &Form, schema: &Value, given: &[Entry]) -> Option<Map<String, Value>> {
    let mut content = Map::new();
    for (field, given) in form.fields.iter().zip(given) {
        let value =
            value(field, schema.get("properties").and_then(|it| it.get(&*field.name)), given);
        match value {
            Some(value) if field.name.is_empty() => {
                return (value == YES).then_some(content);
            }
            Some(value) => drop(content.insert(field.name.to_string(), value)),
            None if field.may_be_empty => {}
            None => return None,
        }
    }
    Some(content)
}

fn shown(text: &str) -> Arc<str> {
    text.chars().take(TEXT_CAP).collect::<String>().into()
}

fn field(name: &str, about: &Value, may_be_empty: bool) -> Option<Field> {
    let text = |key: &str| about.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let takes = match text("type")? {
        "string" if choices(about).is_empty() => Takes::Words,
        "string" => options(choices(about).iter().map(|(label, _)| (label.as_str(), ""))),
        "boolean" => options([(YES, ""), (NO, "")].into_iter()),
        "number" => Takes::Number { is_whole: false },
        "integer" => Takes::Number { is_whole: true },
        "array" => {
            let choices = choices(about.get("items")?);
            let Takes::Options { options, .. } =
                options(choices.iter().map(|(label, _)| (label.as_str(), "")))
            else {
                return None;
            };
            Takes::Options { options, several: true, own_words: false }
        }
        _ => return None,
    };
    if let Takes::Options { options, .. } = &takes
        && (options.is_empty() || options.len() > OPTIONS_CAP)
    {
        return None;
    }
    Some(Field {
        name: name.into(),
        header: shown(text("title").unwrap_or(name)),
        text: shown(text("description").or(text("title")).unwrap_or(name)),
        takes,
        may_be_empty,
    })
}

fn options<'a>(choices: impl Iterator<Item = (&'a str, &'a str)>) -> Takes {
    let choice = |(label, description): (&str, &str)| Choice {
        label: shown(label),
        description: shown(description),
    };
    Takes::Options { options: choices.map(choice).collect(), several: false, own_words: false }
}

/// Returns what there is to pick from: what people read, and what the server
/// gets for it. The protocol has three ways to say it.
fn choices(about: &Value) -> Vec<(String, String)> {
    let texts = |list: &Value| -> Vec<String> {
        let texts = list.as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if let Some(values) = about.get("enum") {
        let values = texts(values);
        let names = about.get("enumNames").map(texts).filter(|names| names.len() == values.len());
        return names.unwrap_or_else(|| values.clone()).into_iter().zip(values).collect();
    }
    let titled = about.get("oneOf").or_else(|| about.get("anyOf")).and_then(Value::as_array);
    let titled = titled.into_iter().flatten().filter_map(|choice| {
        let value = choice.get("const")?.as_str()?;
        let title = choice.get("title").and_then(Value::as_str).unwrap_or(value);
        Some((title.to_owned(), value.to_owned()))
    });
    titled.collect()
}

fn value(field: &Field, about: Option<&Value>, given: &Entry) -> Option<Value> {
    let is = |kind: &str| about.and_then(|it| it.get("type")).and_then(Value::as_str) == Some(kind);
    match given {
        Entry::Nothing => None,
        Entry::Words(words) => match field.takes {
            Takes::Number { is_whole: true } => words.parse::<i64>().ok().map(Value::from),
            Takes::Number { is_whole: false } => {
                words.parse().ok().and_then(Number::from_f64).map(Value::Number)
            }
            Takes::Words | Takes::Options { .. } => Some(Value::String(words.to_string())),
        },
        Entry::Picked(picked) => {
            let list = about.map(|about| about.get("items").unwrap_or(about)).map(choices);
            let list = list.unwrap_or_default();
            let picked = picked.iter().filter_map(|number| usize::try_from(*number).ok());
            let values: Vec<Value> = picked
                .filter_map(|at| match list.get(at) {
                    Some((_, value)) => Some(Value::String(value.clone())),
                    None => Some(Value::String(field.options().get(at)?.label.to_string())),
                })
                .collect();
            match values.into_iter() {
                values if is("array") => Some(Value::Array(values.collect())),
                mut values if is("boolean") => Some(Value::Bool(values.next()? == YES)),
                mut values => values.next(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(message: &str, schema: &Value) -> Option<Form> {
        let (call, tool, server) = (CallId("c".into()), "mcp__a__b".into(), "a".into());
        form(Asker { call: &call, tool: &tool, server: &server }, message, schema)
    }

    fn everything() -> Value {
        json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "title": "Name", "description": "Your name" },
                "age": { "type": "integer" },
                "ratio": { "type": "number" },
                "sure": { "type": "boolean" },
                "colour": { "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] },
                "size": { "type": "string", "oneOf": [{ "const": "s", "title": "Small" }] },
                "parts": { "type": "array", "items": { "type": "string", "enum": ["x", "y"] } },
            },
            "required": ["name"],
        })
    }

    #[test]
    fn each_kind_of_property_is_a_field_and_comes_back_as_its_kind() {
        let schema = everything();
        let form = made("Who?", &schema).unwrap();
        let answers = json!({ "answers": {
            "name": "Ann", "age": "7", "ratio": "0.5", "sure": "yes", "colour": "Green",
            "size": "Small", "parts": ["x", "y"],
        } });
        let given = form.read(Some(&answers.to_string()));
        let expected = json!({
            "name": "Ann", "age": 7, "ratio": 0.5, "sure": true, "colour": "g", "size": "s",
            "parts": ["x", "y"],
        });
        assert_eq!(content(&form, &schema, &given).map(Value::Object), Some(expected));
        let name = form.fields.iter().find(|field| &*field.name == "name").unwrap();
        assert_eq!((&*name.header, &*name.text), ("Name", "Your name"));
    }

    #[test]
    fn what_is_required_must_be_said_and_the_rest_may_be_left_out() {
        let schema = everything();
        let form = made("Who?", &schema).unwrap();
        let said = |answers: &str| content(&form, &schema, &form.read(Some(answers)));
        assert_eq!(said(r#"{"answers":{"age":"7"}}"#), None);
        let only = Map::from_iter([("name".to_owned(), json!("Ann"))]);
        assert_eq!(said(r#"{"answers":{"name":"Ann","age":"seven"}}"#), Some(only));
    }

    #[test]
    fn a_server_that_wants_an_agreement_gets_a_yes_or_none() {
        let schema = json!({ "type": "object", "properties": {} });
        let form = made("Delete it?", &schema).unwrap();
        assert_eq!(&*form.fields[0].text, "Delete it?");
        let said = |number| content(&form, &schema, &[Entry::Picked(vec![number])]);
        assert_eq!((said(0), said(1)), (Some(Map::new()), None));
    }

    #[test]
    fn what_is_no_flat_schema_is_no_form() {
        for about in [json!({}), json!({ "type": "object" }), json!({ "type": "array" }), json!(7)]
        {
            let schema = json!({ "properties": { "x": about } });
            assert_eq!(made("Who?", &schema), None, "{schema}");
        }
        let many = (0..=FIELDS_CAP).map(|n| (n.to_string(), json!({ "type": "string" })));
        assert_eq!(made("Who?", &json!({ "properties": Map::from_iter(many) })), None);
    }

    #[test]
    fn what_is_longer_than_people_read_is_no_form() {
        let about = |text: &str| json!({ "type": "string", "description": text });
        let of = |name: &str, text: &str| json!({ "properties": { name: about(text) } });
        assert!(made("Who?", &of(&"n".repeat(NAME_CAP), "short")).is_some());
        assert_eq!(made("Who?", &of(&"n".repeat(NAME_CAP + 1), "short")), None);
        assert_eq!(made("Who?", &of("name", &"x".repeat(SCHEMA_CAP))), None);
    }
}
