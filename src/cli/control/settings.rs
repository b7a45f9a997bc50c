//! Settings that a client changes while a run goes on.

use serde_json::{Map, Value};

use super::Conversation;
use crate::cli::exit::Refusal;
use crate::cli::{rules, say};
use crate::config::{Effort, ForeignSettings};
use crate::guard::Mode;
use crate::report::control::Reply;

/// Settings that hold from the next message on; what is not named stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Settings {
    model: Option<String>,
    effort: Option<Effort>,
    mode: Option<Mode>,
    /// The rules that allow, ask and deny, in place of those that the last
    /// settings with rules have named.
    rules: Option<[Vec<String>; 3]>,
    /// What of them nothing is done about, by key.
    left_out: Vec<String>,
}

impl Settings {
    /// Reads the settings of a request. The error says what is wrong with them.
    pub(super) fn read(settings: Option<&Value>) -> Result<Self, String> {
        let Some(fields) = settings.and_then(Value::as_object) else {
            return Err("there are no `settings`".to_owned());
        };
        // One that is taken back is one that is not named.
        let named = fields.iter().filter(|(_, value)| !value.is_null());
        let mut fields: Map<String, Value> =
            named.map(|(key, value)| (key.clone(), value.clone())).collect();
        let effort = match fields.remove("effortLevel") {
            None => None,
            Some(level) => {
                let level = level.as_str().and_then(Effort::new);
                Some(level.ok_or_else(|| format!("`effortLevel`: {}", Effort::RULE))?)
            }
        };
        let names_rules = fields.contains_key("permissions");
        let begun_with = ["env", "hooks", "disableAllHooks"].into_iter();
        let mut left_out: Vec<String> =
            begun_with.filter(|key| fields.contains_key(*key)).map(str::to_owned).collect();
        let read = ForeignSettings::read(None, &Value::Object(fields).to_string());
        let read = read.map_err(|error| error.to_string())?;
        if !read.directories.is_empty() {
            left_out.push("permissions.additionalDirectories".to_owned());
        }
        left_out.extend(read.passed_over);
        let rules = names_rules.then_some([read.allow, read.ask, read.deny]);
        Ok(Self { model: read.model, effort, mode: read.mode, rules, left_out })
    }
}

impl Conversation {
    /// Has settings hold from the next message on, all of them or none; a mode
    /// holds from the next call on.
    pub(super) fn apply(&mut self, settings: Settings) -> Result<Reply, Refusal> {
        let Settings { model, effort, mode, rules, left_out } = settings;
        let kit = self.change(|kit| {
            let rules =
                rules.map(|rules| rules::of_session(&kit.environment, &rules)).transpose()?;
            if let Some(model) = &model {
                kit.set_model(Some(model))?;
            }
            if let Some(effort) = effort {
                kit.set_effort(effort)?;
            }
            if let Some(rules) = rules {
                kit.policy = kit.policy.clone().for_session(rules);
            }
            Ok(())
        })?;
        if model.is_some() {
            kit.price_warning().iter().for_each(say);
        }
        left_out.iter().for_each(|key| say(&format!("note: `{key}` cannot be changed any more")));
        if let Some(mode) = mode {
            self.set_mode(mode);
        }
        Ok(Reply::Done)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_whole_or_not_at_all() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let read = |settings: Value| Settings::read(Some(&settings));
        let permissions = json!({"allow": ["Bash(ls *)"], "deny": ["Read"], "defaultMode": "plan",
            "additionalDirectories": ["/x"]});
        let settings = json!({"model": "m", "permissions": permissions, "effortLevel": "low",
            "hooks": null, "theme": "dark"});
        let expected = Settings {
            model: Some("m".to_owned()),
            effort: Effort::new("low"),
            mode: Some(Mode::Plan),
            rules: Some([texts(&["Bash(ls *)"]), texts(&[]), texts(&["Read"])]),
            left_out: texts(&["permissions.additionalDirectories", "theme"]),
        };
        assert_eq!(read(settings), Ok(expected));
        assert_eq!(read(json!({"model": null})), Ok(Settings::default()));
        for wrong in [
            json!({"permissions": {"defaultMode": "x"}}),
            json!({"permissions": {"allow": "Bash"}}),
            json!({"model": 7}),
            json!({"effortLevel": ""}),
            json!(null),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
