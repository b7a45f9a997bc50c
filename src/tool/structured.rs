//! The StructuredOutput tool: an answer that fits a schema.
//!
//! It works with every model that calls tools. The schema is what the tool
//! takes; whoever runs the loop ends the unit with what a call was given, and
//! whatever does not fit goes back to the model with the places.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::blocking::stoppable;
use super::{Effect, Granted, Tool, ToolContext, ToolError, arguments};
use crate::json_schema::{Mismatch, Schema};
use crate::json_text;
use crate::message::{Output, ToolSchema};
use crate::prompt;
use crate::tool_name::STRUCTURED_OUTPUT;

/// Most characters of a schema. It is sent with every request of the unit:
/// about 16,000 tokens, more than any form that a model fills in well.
pub const SCHEMA_CAP: usize = 64_000;

/// What holds the answer where the schema is not one of objects.
const VALUE: &str = "value";

/// Keywords beside which providers refuse what a tool takes, if they stand at
/// its top.
const NOT_AT_THE_TOP: [&str; 8] =
    ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "enum", "const"];

/// What a unit's answer must fit.
#[derive(Debug)]
pub struct AnswerSchema {
    schema: Schema,
    /// The schema itself, to compare it with another.
    source: Value,
    /// What the tool takes.
    parameters: Arc<RawValue>,
    /// Whether that is an object which holds the answer as [`VALUE`].
    is_held: bool,
}

impl PartialEq for AnswerSchema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl AnswerSchema {
    /// Reads a schema that was written by a person or a program. The model is
    /// shown it in the same order.
    ///
    /// # Errors
    ///
    /// It cannot be used: what is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = json_text::strip_mark(text).trim_start();
        check_length(text)?;
        let source =
            json_text::parse(text).map_err(|error| format!("it is not valid JSON: {error}"))?;
        // In JSON a line break stands only between tokens.
        Self::new(source, text.lines().map(str::trim).collect())
    }

    /// Takes a schema that a model has written.
    ///
    /// # Errors
    ///
    /// As for [`AnswerSchema::parse`].
    pub fn of(source: &Value) -> Result<Self, String> {
        let text = source.to_string();
        check_length(&text)?;
        Self::new(source.clone(), text)
    }

    fn new(source: Value, text: String) -> Result<Self, String> {
        let schema = Schema::compile(&source).map_err(|error| error.to_string())?;
        let is_held = !is_of_objects(&source);
        let parameters = if is_held { holding(&source, &text) } else { text };
        let parameters = RawValue::from_string(parameters).expect("it is made of valid JSON");
        Ok(Self { schema, source, parameters: parameters.into(), is_held })
    }

    /// Tells whether it was made of this schema.
    #[must_use]
    pub fn is_of(&self, source: &Value) -> bool {
        self.source == *source
    }

    /// Returns the schema itself.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// Returns the schema of the arguments of a call that gives the answer.
    #[must_use]
    pub fn parameters(&self) -> &Arc<RawValue> {
        &self.parameters
    }

    /// Says whether the answer fits that a call's arguments hold.
    ///
    /// # Errors
    ///
    /// It does not: the places.
    pub fn check(&self, arguments: Value) -> Result<(), Mismatch> {
        self.check_until(arguments, &|| false)
    }

    fn check_until(&self, arguments: Value, is_stopped: &dyn Fn() -> bool) -> Result<(), Mismatch> {
        match self.answer(arguments) {
            Some(answer) => self.schema.check_until(&answer, is_stopped),
            None => {
                let problem = format!("the answer is to be the only parameter, `{VALUE}`");
                Err(Mismatch { problems: vec![problem] })
            }
        }
    }

    /// Returns the answer that a call's arguments hold, whether it fits or not;
    /// `None` if they hold none, or something else beside it.
    #[must_use]
    pub fn answer(&self, arguments: Value) -> Option<Value> {
        if !self.is_held {
            return Some(arguments);
        }
        let Value::Object(mut fields) = arguments else { return None };
        fields.remove(VALUE).filter(|_| fields.is_empty())
    }
}

fn check_length(text: &str) -> Result<(), String> {
    match text.chars().count() {
        length if length > SCHEMA_CAP => {
            Err(format!("it has {length} characters; at most {SCHEMA_CAP} are sent to a model"))
        }
        _ => Ok(()),
    }
}

/// Tells whether a tool can take what fits a schema: an object, which is all
/// that the arguments of a call can be.
fn is_of_objects(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return false };
    let is_plain = !NOT_AT_THE_TOP.iter().any(|keyword| fields.contains_key(*keyword));
    fields.get("type").and_then(Value::as_str) == Some("object") && is_plain
}

/// Returns the schema of an object that holds what fits another. What that one
/// refers to stays where its references look for it.
fn holding(schema: &Value, text: &str) -> String {
    let mut shared = Map::new();
    for keyword in ["$schema", "$defs", "definitions"] {
        if let Some(value) = schema.get(keyword) {
            shared.insert(keyword.to_owned(), value.clone());
        }
    }
    let shared = Value::Object(shared).to_string();
    let shared = match shared.trim_start_matches('{') {
        "}" => "}".to_owned(),
        more => format!(",{more}"),
    };
    format!(
        r#"{{"type":"object","properties":{{"{VALUE}":{text}}},"required":["{VALUE}"],"additionalProperties":false{shared}"#
    )
}

/// The tool itself, for one schema.
pub struct StructuredOutput(pub Arc<AnswerSchema>);

impl Tool for StructuredOutput {
    fn schema(&self) -> ToolSchema {
        let description = include_str!("../../prompts/tools/structured_output.md");
        arguments::schema(STRUCTURED_OUTPUT, description, self.0.parameters.get())
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, _arguments: &Value) -> String {
        String::new()
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        let schema = Arc::clone(&self.0);
        Box::pin(stoppable(&context.cancel, move |token| {
            match schema.check_until(arguments, &|| token.is_cancelled()) {
                Ok(()) => Ok(Output::ok(prompt::structured_taken())),
                Err(mismatch) => {
                    Err(ToolError::tell(prompt::structured_misfit(&mismatch.to_string())))
                }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(source: &Value) -> AnswerSchema {
        AnswerSchema::of(source).unwrap()
    }

    #[test]
    fn a_schema_of_objects_is_what_the_tool_takes_and_in_its_own_order() {
        let text = "{\n  \"type\": \"object\",\n  \"properties\": {\"z\": {\"type\": \"string\"}, \"a\": true}\n}";
        let schema = AnswerSchema::parse(text).unwrap();
        let tool = StructuredOutput(Arc::new(schema));
        assert_eq!(
            tool.schema().parameters.get(),
            r#"{"type": "object","properties": {"z": {"type": "string"}, "a": true}}"#
        );
        assert_eq!(tool.0.check(json!({"z": "x"})), Ok(()));
        assert_eq!(tool.0.answer(json!({"z": "x"})), Some(json!({"z": "x"})));
    }

    #[test]
    fn any_other_schema_is_held_by_an_object_and_the_answer_is_what_that_holds() {
        let list = json!({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "number"}}});
        let schema = schema(&list);
        let parameters: Value = serde_json::from_str(schema.parameters.get()).unwrap();
        let expected = json!({
            "type": "object", "properties": {"value": list}, "required": ["value"],
            "additionalProperties": false, "$defs": {"n": {"type": "number"}},
        });
        assert_eq!(parameters, expected);
        assert_eq!(schema.check(json!({"value": [1, 2]})), Ok(()));
        assert_eq!(schema.answer(json!({"value": [1, 2]})), Some(json!([1, 2])));
        let told = |arguments: Value| schema.check(arguments).unwrap_err().to_string();
        assert_eq!(told(json!({"value": ["x"]})), "`/0`: must be number, not string \"x\"");
        let only = "the answer is to be the only parameter, `value`";
        assert_eq!(told(json!({})), only);
        assert_eq!(told(json!({"value": [], "more": 1})), only);
    }

    #[test]
    fn a_union_at_the_top_is_held_too_since_no_provider_takes_one_there() {
        for source in [
            json!(true),
            json!({}),
            json!({"type": "object", "anyOf": [true]}),
            json!({"enum": [1]}),
        ] {
            let schema = schema(&source);
            let parameters: Value = serde_json::from_str(schema.parameters.get()).unwrap();
            assert_eq!(parameters["properties"]["value"], source);
            assert!(schema.is_held);
        }
    }

    #[test]
    fn what_cannot_be_used_is_said_with_its_place() {
        let long = format!("{{\"description\":\"{}\"}}", "x".repeat(SCHEMA_CAP));
        for (text, expected) in [
            ("{", "it is not valid JSON: EOF while parsing an object at line 1 column 1"),
            ("[]", "at `#`: must be a schema: an object, true or false"),
            (
                r#"{"type":"object","properties":{"a":{"type":"text"}}}"#,
                "at `#/properties/a/type`: must be one of null, boolean, integer, number, string, array and object",
            ),
            (&long, "it has 64018 characters; at most 64000 are sent to a model"),
        ] {
            assert_eq!(AnswerSchema::parse(text).unwrap_err(), expected);
        }
    }
}
