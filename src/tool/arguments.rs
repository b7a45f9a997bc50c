//! Reads the arguments a model wrote.
//!
//! Each tool has a private raw struct of [`Value`]s, one for each parameter it
//! knows; what it does not know is ignored. The functions here turn a value
//! into what the tool needs or into a sentence that names the parameter.
//! Models write numbers and truths as strings now and then; that is forgiven.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::ToolSchema;
use crate::path_text;
use crate::real_path::locate;

use super::ToolError;
use super::bound::first_characters;

/// Most characters of a call's subject: it stands on one line of a display.
pub const SUBJECT_CAP: usize = 120;

/// Reads arguments into a tool's raw struct.
///
/// # Errors
///
/// The arguments are not an object.
pub fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments)
        .map_err(|_| ToolError::tell("The arguments must be one JSON object."))
}

/// Returns a text that must be there and not empty.
///
/// # Errors
///
/// It is missing, empty or no text.
pub fn text(name: &str, value: Value) -> Result<String, ToolError> {
    match optional_text(name, value) {
        Ok(Some(text)) => Ok(text),
        Ok(None) | Err(_) => Err(wrong(name, "a non-empty string")),
    }
}

/// Returns a text that must be there and may be empty.
///
/// # Errors
///
/// It is missing or no text.
pub fn any_text(name: &str, value: Value) -> Result<String, ToolError> {
    let Value::String(text) = value else { return Err(wrong(name, "a string")) };
    Ok(text)
}

/// Returns a text that may be missing; an empty one counts as missing.
///
/// # Errors
///
/// It is there and no text.
pub fn optional_text(name: &str, value: Value) -> Result<Option<String>, ToolError> {
    if value.is_null() {
        return Ok(None);
    }
    any_text(name, value).map(|text| Some(text).filter(|text| !text.is_empty()))
}

/// Returns the path that a text means; relative ones start at `root`.
///
/// # Errors
///
/// It is meant for a shell that expands it.
pub fn path(root: &Path, text: &str) -> Result<PathBuf, ToolError> {
    path_text::resolve(root, text).map_err(|error| ToolError::tell(format!("{error}.")))
}

/// Returns the path of what a search goes through. If nothing has its name, the name may
/// be there in another normal form, as for files that are opened.
///
/// # Errors
///
/// As for [`path`].
pub fn search_path(root: &Path, text: &str) -> Result<PathBuf, ToolError> {
    let path = path(root, text)?;
    if path.symlink_metadata().is_ok() {
        return Ok(path);
    }
    let located = locate(&path).ok().filter(|located| located.exists());
    Ok(located.unwrap_or(path))
}

/// Returns a whole number that may be missing.
///
/// # Errors
///
/// It is there and not a whole number of 0 or more.
pub fn optional_number(name: &str, value: &Value) -> Result<Option<u64>, ToolError> {
    let number = match value {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(wrong(name, "a whole number of 0 or more")),
    }
}

/// Returns a truth value; a missing one is `default`.
///
/// # Errors
///
/// It is there and neither true nor false.
pub fn flag(name: &str, value: &Value, default: bool) -> Result<bool, ToolError> {
    match (value.as_bool(), value.as_str()) {
        (Some(flag), _) => Ok(flag),
        (None, Some(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        (None, Some(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        (None, Some("")) => Ok(default),
        (None, None) if value.is_null() => Ok(default),
        (None, Some(_) | None) => Err(wrong(name, "true or false")),
    }
}

/// Says what a parameter must be.
#[must_use]
pub fn wrong(name: &str, expected: &str) -> ToolError {
    ToolError::tell(format!("Parameter \"{name}\" must be {expected}."))
}

/// Returns the first line of a text parameter, cut to [`SUBJECT_CAP`]; empty
/// if there is none.
#[must_use]
pub fn subject(arguments: &Value, name: &str) -> String {
    let text = arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let line = text.trim_start().lines().next().unwrap_or_default();
    match first_characters(line, SUBJECT_CAP) {
        (whole, 0) => whole.to_owned(),
        (start, _) => format!("{start}…"),
    }
}

/// Returns what a model is told of a tool. `parameters` is a JSON Schema that
/// the crate wrote itself; line breaks and indentation are taken out.
#[must_use]
pub fn schema(name: &str, description: &str, parameters: &str) -> ToolSchema {
    let parameters: String = parameters.lines().map(str::trim).collect();
    ToolSchema {
        name: name.to_owned(),
        description: description.trim_end().to_owned(),
        parameters: RawValue::from_string(parameters).expect("a tool's schema is valid JSON"),
    }
}

/// Returns a number without a fraction; `10.0` is written for `10`.
fn whole(number: f64) -> Option<u64> {
    // `as` saturates; within 32 bits every whole number is exact.
    let fits = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    fits.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check<T: PartialEq + std::fmt::Debug>(
        read: Result<T, ToolError>,
        expected: Result<T, &str>,
    ) {
        let read = read.map_err(|error| error.to_string());
        assert_eq!(read, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_missing_or_wrong_text_names_the_parameter() {
        let expected = "Parameter \"file_path\" must be a non-empty string.";
        for value in [Value::Null, json!(""), json!(1), json!(["a"])] {
            check(text("file_path", value), Err(expected));
        }
        check(text("file_path", json!("a")), Ok("a".to_owned()));
        check(any_text("content", json!("")), Ok(String::new()));
        check(any_text("content", Value::Null), Err("Parameter \"content\" must be a string."));
        check(optional_text("path", json!("")), Ok(None));
        check(optional_text("path", json!(1)), Err("Parameter \"path\" must be a string."));
    }

    #[test]
    fn a_number_may_be_written_as_a_string_or_with_a_fraction_of_zero() {
        for value in [json!(10), json!("10"), json!(" 10 "), json!(10.0)] {
            check(optional_number("limit", &value), Ok(Some(10)));
        }
        for value in [Value::Null, json!(""), json!(" ")] {
            check(optional_number("limit", &value), Ok(None));
        }
        for value in [json!(-1), json!(1.5), json!("ten"), json!(true), json!(1e300)] {
            let expected = "Parameter \"limit\" must be a whole number of 0 or more.";
            check(optional_number("limit", &value), Err(expected));
        }
    }

    #[test]
    fn a_truth_may_be_written_as_a_string() {
        check(flag("-i", &json!(true), false), Ok(true));
        check(flag("-i", &json!("False"), true), Ok(false));
        for value in [Value::Null, json!("")] {
            check(flag("-i", &value, true), Ok(true));
        }
        check(flag("-i", &json!(1), true), Err("Parameter \"-i\" must be true or false."));
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Raw {
            #[serde(default)]
            a: Value,
        }
        let expected = "The arguments must be one JSON object.";
        check(parse::<Raw>(json!("oops")), Err(expected));
        check(parse::<Raw>(json!({"a": 1, "unknown": 2})), Ok(Raw { a: json!(1) }));
    }

    #[test]
    fn a_subject_is_one_bounded_line_whatever_the_model_wrote() {
        assert_eq!(subject(&json!({"command": "\n ls -la\nrm x"}), "command"), "ls -la");
        assert_eq!(subject(&json!({"command": 7}), "command"), "");
        assert_eq!(subject(&json!("oops"), "command"), "");
        let long = subject(&json!({"command": "x".repeat(500)}), "command");
        assert_eq!(long, format!("{}…", "x".repeat(SUBJECT_CAP)));
    }

    #[test]
    fn every_schema_declares_the_parameters_it_requires() {
        use crate::tool::{Tool, bash, edit, glob, grep, patch, read, todo, write};
        let tools: [&dyn Tool; 8] = [
            &read::Read,
            &write::Write,
            &edit::Edit,
            &patch::ApplyPatch,
            &bash::Bash,
            &glob::Glob,
            &grep::Grep,
            &todo::TodoWrite,
        ];
        let names = tools.map(|tool| {
            let schema = tool.schema();
            let parameters: Value = serde_json::from_str(schema.parameters.get()).unwrap();
            let required = parameters["required"].as_array().unwrap();
            assert!(!required.is_empty() && !schema.description.is_empty());
            for name in required {
                assert!(parameters["properties"][name.as_str().unwrap()].is_object(), "{name}");
            }
            schema.name
        });
        assert_eq!(
            names,
            ["Read", "Write", "Edit", "ApplyPatch", "Bash", "Glob", "Grep", "TodoWrite"]
        );
    }
}
