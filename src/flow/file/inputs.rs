//! The inputs that a flow file declares.

use serde_json::Value;
use toml::de::DeValue;

use super::fields::{Field, Fields};
use super::{Page, shown};
use crate::flow::names::is_name;
use crate::flow::{Input, NAME_CAP};
use crate::front_matter::one_line;

/// What may be said of an input.
const KEYS: [&str; 4] = ["default", "required", "json", "description"];

impl Page<'_, '_> {
    /// Reads `[inputs]`: under each name a default, or a table that says more.
    pub(super) fn inputs(&mut self, field: &Field<'_>) -> Vec<Input> {
        let Some(fields) = self.table(field) else { return Vec::new() };
        let mut inputs = Vec::new();
        for field in fields.left() {
            if !is_name(field.key) {
                let message = format!(
                    "`{}` is no name for an input: it takes letters, digits and `_`, no digit in \
                     front, and at most {NAME_CAP} of them",
                    shown(field.key)
                );
                self.error(field.at, message);
            }
            let input = match field.value.get_ref() {
                DeValue::Table(table) => self.declared(&field, Fields::new(table, field.at)),
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => self.with_default(&field),
            };
            self.lacks |= input.is_none();
            inputs.extend(input);
        }
        inputs
    }

    fn with_default(&mut self, field: &Field<'_>) -> Option<Input> {
        let default = self.json(field)?;
        // Words could not say what such a default does.
        let is_json = !default.is_string();
        let name = field.key.into();
        Some(Input { name, default: Some(default), is_json, description: "".into() })
    }

    fn declared(&mut self, field: &Field<'_>, mut fields: Fields<'_>) -> Option<Input> {
        let written = fields.take("default");
        let default: Option<Value> = written.as_ref().and_then(|field| self.json(field));
        let required = fields.take("required").and_then(|field| self.truth(&field));
        let json = fields.take("json").and_then(|field| self.truth(&field));
        let description = fields.take("description").and_then(|field| self.text(&field));
        self.rest(fields, &KEYS);
        let (name, at) = (field.key, field.at);
        match (&written, required.unwrap_or(false)) {
            (Some(_), true) => {
                self.error(at, format!("`{name}` is required, so its default is never used"));
            }
            (None, false) => {
                let message = format!("`{name}` needs a `default`, or `required = true`");
                self.error(at, message);
            }
            (Some(_), false) | (None, true) => {}
        }
        let is_other = default.as_ref().is_some_and(|default| !default.is_string());
        if is_other && json == Some(false) {
            let message = format!("the default of `{name}` is no string, so `json` must be `true`");
            self.error(at, message);
        }
        let description = one_line(&description.unwrap_or_default()).into();
        Some(Input { name: name.into(), default, is_json: json.unwrap_or(is_other), description })
    }
}
