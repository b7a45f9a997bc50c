//! Settings as they are written for Claude Code: JSON.
//!
//! What tine has goes by its own names there: rules, a mode, directories, a
//! model, variables. The rest is passed over, since a file that was written for
//! another program says much that means nothing here; but what is understood
//! must be right, or a rule would be dropped without a word.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{Config, WrittenRule};
use crate::guard::sandbox::Variables;
use crate::guard::{Mode, Rule, Source};
use crate::hook::{self, Brought, Parsed};
use crate::json_text::{self, JsonTextError};

/// Settings that were given on the command line.
#[derive(Debug, Clone, Default)]
pub struct ForeignSettings {
    /// The model that answers.
    pub model: Option<String>,
    /// How much runs without a rule.
    pub mode: Option<Mode>,
    /// The rules that allow.
    pub allow: Vec<String>,
    /// Those that have it asked.
    pub ask: Vec<String>,
    /// Those that deny.
    pub deny: Vec<String>,
    /// More directories in which files may be edited.
    pub directories: Vec<PathBuf>,
    /// What commands get besides, and where a provider is.
    pub variables: Variables,
    /// What is asked at certain moments.
    pub hooks: Parsed,
    /// Whether nothing is, whoever says so.
    pub are_hooks_off: bool,
    /// What means nothing here, by key.
    pub passed_over: Vec<String>,
}

/// Why settings cannot be used.
#[derive(Debug, Error)]
#[error("`--settings`: {place}: {why}")]
pub struct ForeignSettingsError {
    place: String,
    why: String,
}

impl ForeignSettings {
    /// Reads settings from JSON, which may be what a file holds.
    ///
    /// # Errors
    ///
    /// With the place of what is wrong: the file, a line, or a key.
    pub fn read(file: Option<&str>, text: &str) -> Result<Self, ForeignSettingsError> {
        Self::parse(text).map_err(|error| match file {
            None => error,
            Some(file) => {
                ForeignSettingsError { place: format!("`{file}`: {}", error.place), ..error }
            }
        })
    }

    fn parse(text: &str) -> Result<Self, ForeignSettingsError> {
        let value: Value = json_text::parse(text).map_err(|error| {
            let JsonTextError { why, line, column } = error;
            ForeignSettingsError { place: format!("line {line}, column {column}"), why }
        })?;
        let mut settings = Self::default();
        for (key, value) in object("the settings", &value)? {
            match &**key {
                "model" => settings.model = Some(text_of("model", value)?.to_owned()),
                "env" => settings.variables = variables(object("env", value)?)?,
                "permissions" => settings.permissions(object("permissions", value)?)?,
                "hooks" => {
                    let parsed = hook::parse(value, Brought::Along);
                    settings.hooks = parsed.map_err(|why| wrong("hooks", &why))?;
                }
                "disableAllHooks" => settings.are_hooks_off = *value == Value::Bool(true),
                _ => settings.passed_over.push(key.clone()),
            }
        }
        Ok(settings)
    }

    fn permissions(&mut self, fields: &Map<String, Value>) -> Result<(), ForeignSettingsError> {
        for (key, value) in fields {
            let place = format!("permissions.{key}");
            match &**key {
                "allow" => self.allow = rules(&place, value)?,
                "ask" => self.ask = rules(&place, value)?,
                "deny" => self.deny = rules(&place, value)?,
                "additionalDirectories" => {
                    let paths = texts(&place, value)?;
                    self.directories = paths.into_iter().map(PathBuf::from).collect();
                }
                "defaultMode" => {
                    let name = text_of(&place, value)?;
                    let mode = Mode::from_name(name);
                    let unknown = || wrong(&place, &format!("there is no mode `{name}`"));
                    self.mode = Some(mode.ok_or_else(unknown)?);
                }
                _ => self.passed_over.push(place),
            }
        }
        Ok(())
    }

    /// Puts them over a configuration, all but the mode: whoever takes that back
    /// wants the one that is configured.
    pub(super) fn over(&self, config: &mut Config) {
        let written = |texts: &[String]| -> Vec<WrittenRule> {
            let rule = |text: &String| WrittenRule { text: text.clone(), source: Source::Settings };
            texts.iter().map(rule).collect()
        };
        config.model = self.model.clone().or(config.model.take());
        let permissions = &mut config.permissions;
        permissions.allow.extend(written(&self.allow));
        permissions.ask.extend(written(&self.ask));
        permissions.deny.extend(written(&self.deny));
    }
}

fn variables(fields: &Map<String, Value>) -> Result<Variables, ForeignSettingsError> {
    let variable = |(name, value): (&String, &Value)| {
        let place = format!("env.{name}");
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                return Err(wrong(&place, "it must be a string"));
            }
        };
        // The system takes no such variable, and would take half of it.
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(wrong(&place, "no variable can be called so or hold this"));
        }
        Ok((OsString::from(name), OsString::from(value)))
    };
    fields.iter().map(variable).collect::<Result<Vec<_>, _>>().map(Variables::chosen)
}

fn rules(place: &str, value: &Value) -> Result<Vec<String>, ForeignSettingsError> {
    let rules = texts(place, value)?;
    for (index, rule) in rules.iter().enumerate() {
        let place = format!("{place}[{index}]");
        Rule::parse(rule, None).map_err(|error| wrong(&place, &error.to_string()))?;
    }
    Ok(rules)
}

fn texts(place: &str, value: &Value) -> Result<Vec<String>, ForeignSettingsError> {
    let items = value.as_array();
    let texts = items.and_then(|items| {
        items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    });
    texts.ok_or_else(|| wrong(place, "it must be a list of strings"))
}

fn text_of<'a>(place: &str, value: &'a Value) -> Result<&'a str, ForeignSettingsError> {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| wrong(place, "it must be a string that is not empty"))
}

fn object<'a>(
    place: &str,
    value: &'a Value,
) -> Result<&'a Map<String, Value>, ForeignSettingsError> {
    value.as_object().ok_or_else(|| wrong(place, "it must be an object"))
}

fn wrong(place: &str, why: &str) -> ForeignSettingsError {
    ForeignSettingsError { place: format!("`{place}`"), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn what_there_is_goes_over_the_configuration_and_the_rest_is_named() {
        let given = r#"{"model": "m", "permissions": {"allow": ["Bash(ls)"], "deny": ["Bash(rm *)"],
            "ask": ["Edit(a)"], "defaultMode": "acceptEdits", "additionalDirectories": ["../b"],
            "disableBypassPermissionsMode": "disable"}, "env": {"A": "1", "B": 2}, "statusLine": {}}"#;
        let settings = ForeignSettings::read(None, given).unwrap();
        let mut config = Config::default();
        config.permissions.allow.push(WrittenRule { text: "Read".into(), source: Source::User });
        settings.over(&mut config);
        assert_eq!(config.model.as_deref(), Some("m"));
        let permissions = &config.permissions;
        assert_eq!((permissions.mode, settings.mode), (Mode::Default, Some(Mode::AcceptEdits)));
        let lists = [&permissions.allow, &permissions.ask, &permissions.deny]
            .map(|rules| rules.iter().map(|rule| (&*rule.text, rule.source)).collect::<Vec<_>>());
        let of_settings = |text| (text, Source::Settings);
        let allowed = vec![("Read", Source::User), of_settings("Bash(ls)")];
        assert_eq!(lists, [allowed, vec![of_settings("Edit(a)")], vec![of_settings("Bash(rm *)")]]);
        assert_eq!(settings.directories, [PathBuf::from("../b")]);
        let variables: Vec<_> = settings.variables.all().collect();
        let expected = [("A", "1"), ("B", "2")];
        assert_eq!(variables, expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        let passed_over = ["permissions.disableBypassPermissionsMode", "statusLine"];
        assert_eq!(settings.passed_over, passed_over);
    }

    #[track_caller]
    fn check(given: &str, expected: &str) {
        let error = ForeignSettings::read(None, given).unwrap_err().to_string();
        assert_eq!(error, format!("`--settings`: {expected}"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        check("{\n\"model\": }", "line 2, column 10: expected value");
        check("{\"model\": 1}", "`model`: it must be a string that is not empty");
        check("{\"permissions\": []}", "`permissions`: it must be an object");
        check(
            "{\"permissions\": {\"deny\": \"Bash\"}}",
            "`permissions.deny`: it must be a list of strings",
        );
        check(
            "{\"permissions\": {\"defaultMode\": \"x\"}}",
            "`permissions.defaultMode`: there is no mode `x`",
        );
        check("{\"env\": {\"A\": []}}", "`env.A`: it must be a string");
        check("{\"env\": {\"A=\": \"\"}}", "`env.A=`: no variable can be called so or hold this");
        let error = ForeignSettings::read(
            Some("a.json"),
            r#"{"permissions": {"deny": ["Bash", "Bash(ls"]}}"#,
        );
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("`--settings`: `a.json`: `permissions.deny[1]`: "), "{error}");
    }
}
