//! Settings that a client changes while a run goes on.

use serde_json::{Map, Value};

use super::Conversation;
use crate::cli::args::RunFlags;
use crate::cli::exit::Refusal;
use crate::cli::{project, rules, say};
use crate::config::{Effort, ForeignSettings};
use crate::guard::{Mode, Policy, Rules};
use crate::report::control::Reply;

/// Settings that hold from the next message on; what is not named stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Settings {
    /// The model; `Some(None)` is the one of the start.
    model: Option<Option<String>>,
    /// How hard it thinks; `Some(None)` is as it does by itself.
    effort: Option<Option<Effort>>,
    permissions: Option<Permissions>,
    /// What of them nothing is done about, by key.
    left_out: Vec<String>,
}

/// What settings say of permissions, in place of all that settings said before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Permissions {
    mode: Option<Mode>,
    /// The rules that allow, ask and deny.
    rules: [Vec<String>; 3],
}

/// What of permissions is in force because settings said so.
#[derive(Default)]
pub(super) struct InForce {
    /// The rules of the last settings that a request applied; `None` if those of
    /// the start hold.
    rules: Option<Rules>,
    /// Whether the mode is theirs.
    has_mode: bool,
}

/// Keys whose values are read once, when a run is made.
const BEGUN_WITH: [&str; 3] = ["env", "hooks", "disableAllHooks"];

impl Settings {
    /// Reads the settings of a request. The error says what is wrong with them.
    pub(super) fn read(settings: Option<&Value>) -> Result<Self, String> {
        let Some(fields) = settings.and_then(Value::as_object) else {
            return Err("there are no `settings`".to_owned());
        };
        let is_cleared = |key: &str| fields.get(key).is_some_and(Value::is_null);
        let mut named = without_nulls(fields);
        let effort = match named.remove("effortLevel") {
            None => is_cleared("effortLevel").then_some(None),
            Some(level) => {
                let level = level.as_str().and_then(Effort::new);
                Some(Some(level.ok_or_else(|| format!("`effortLevel`: {}", Effort::RULE))?))
            }
        };
        if let Some(Value::Object(permissions)) = named.get_mut("permissions") {
            *permissions = without_nulls(permissions);
        }
        let begun_with = BEGUN_WITH.into_iter().filter(|key| fields.contains_key(*key));
        let mut left_out: Vec<String> = begun_with.map(str::to_owned).collect();
        let read = ForeignSettings::read(None, &Value::Object(named).to_string());
        let read = read.map_err(|error| error.to_string())?;
        if !read.directories.is_empty() {
            left_out.push("permissions.additionalDirectories".to_owned());
        }
        left_out.extend(read.passed_over);
        let permissions =
            || Permissions { mode: read.mode, rules: [read.allow, read.ask, read.deny] };
        Ok(Self {
            model: read.model.map(Some).or(is_cleared("model").then_some(None)),
            effort,
            permissions: fields.contains_key("permissions").then(permissions),
            left_out,
        })
    }
}

/// A value that is `null` stands for what is not there.
fn without_nulls(fields: &Map<String, Value>) -> Map<String, Value> {
    let named = fields.iter().filter(|(_, value)| !value.is_null());
    named.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl InForce {
    /// What holds because of the settings that flags name.
    pub(super) fn of(flags: &RunFlags) -> Self {
        // Settings that cannot be read have refused the run.
        let given = project::given(flags).ok().flatten();
        let names_mode = given.is_some_and(|given| given.mode.is_some());
        Self { rules: None, has_mode: names_mode && rules::mode_of_flags(flags).is_none() }
    }

    /// From now on the mode is not that of settings.
    pub(super) fn forget_mode(&mut self) {
        self.has_mode = false;
    }

    /// Returns a policy that was made anew, as it is by now.
    pub(super) fn over(&self, policy: &Policy) -> Policy {
        match &self.rules {
            Some(rules) => policy.clone().with_settings(rules.clone()),
            None => policy.clone(),
        }
    }
}

impl Conversation {
    /// Has settings hold from the next message on, all of them or none; a mode
    /// holds from the next call on.
    pub(super) fn apply(&mut self, settings: Settings) -> Result<Reply, Refusal> {
        let Settings { model, effort, permissions, left_out } = settings;
        let model = model.map(|name| name.or_else(|| self.first_model.clone()));
        let mut read = None;
        let kit = self.change(|kit| {
            // Whatever can be wrong comes first.
            read = match &permissions {
                Some(said) => Some(rules::of_settings(&kit.environment, &said.rules)?),
                None => None,
            };
            match (&model, effort) {
                (Some(name), effort) => {
                    let effort = effort.unwrap_or_else(|| kit.flags.effort.clone());
                    kit.set_model_and_effort(name.as_deref(), effort)?;
                }
                (None, Some(effort)) => kit.set_effort(effort)?,
                (None, None) => {}
            }
            if let Some(rules) = &read {
                kit.policy = kit.policy.clone().with_settings(rules.clone());
            }
            Ok(())
        })?;
        let configured = kit.config.permissions.mode;
        if model.is_some() {
            kit.price_warning().iter().for_each(say);
        }
        left_out.iter().for_each(|key| say(&format!("note: `{key}` cannot be changed any more")));
        if let Some(Permissions { mode, rules: _ }) = permissions {
            self.settings.rules = read;
            let before = self.first_mode.unwrap_or(configured);
            let mode = mode.map(|mode| (mode, true));
            // What settings alone have set goes with them.
            if let Some((mode, is_theirs)) =
                mode.or(self.settings.has_mode.then_some((before, false)))
            {
                self.set_mode(mode);
                self.settings.has_mode = is_theirs;
            }
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
            model: Some(Some("m".to_owned())),
            effort: Some(Effort::new("low")),
            permissions: Some(Permissions {
                mode: Some(Mode::Plan),
                rules: [texts(&["Bash(ls *)"]), texts(&[]), texts(&["Read"])],
            }),
            left_out: texts(&["hooks", "permissions.additionalDirectories", "theme"]),
        };
        assert_eq!(read(settings), Ok(expected));
        let cleared = Settings {
            model: Some(None),
            effort: Some(None),
            permissions: Some(Permissions::default()),
            left_out: Vec::new(),
        };
        let nothing = json!({"allow": null, "deny": []});
        for permissions in [json!(null), json!({}), nothing] {
            let settings = json!({"model": null, "effortLevel": null, "permissions": permissions});
            assert_eq!(read(settings), Ok(cleared.clone()), "{permissions}");
        }
        assert_eq!(read(json!({"theme": null})), Ok(Settings::default()));
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
