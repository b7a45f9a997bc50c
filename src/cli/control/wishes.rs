//! What a client says it wants when it introduces itself.
//!
//! All of it has a flag of the same meaning, so a wish becomes one: what a run
//! is made of is read in one place.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::cli::args::{GivenJson, RunFlags};
use crate::config::Effort;
use crate::json_text;
use crate::mcp::file::SERVERS_CAP;
use crate::session::SessionName;
use crate::tool::Aliases;

/// Stands between what is the same for all conversations and what is not, in the
/// system prompt of some clients.
const BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

/// What a client wants of the run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wishes {
    system_prompt: Option<String>,
    append_system_prompt: Option<String>,
    /// As JSON.
    agents: Option<String>,
    disallowed_tools: Vec<String>,
    name: Option<String>,
    effort: Option<Effort>,
    forwards_text: bool,
    /// Settings: those of the flags, but for what it says itself.
    settings: Option<Value>,
    /// Servers of tools as JSON.
    servers: Option<String>,
    /// The servers of tools that the client carries, each once, and no more than
    /// a file may name.
    pub(super) carried: Vec<String>,
    /// Its hooks.
    pub(super) hooks: Option<Value>,
    /// Which tools run in place of others.
    pub(super) aliases: Aliases,
    /// What of it nothing is done about, by name.
    pub(super) left_out: Vec<&'static str>,
}

/// Most tools that others stand in for: each call of a model is compared with
/// all of them, and there are not many more tools.
const ALIASES_CAP: usize = 100;

/// What a client may want and there is not.
const ABSENT: [&str; 4] =
    ["planModeInstructions", "plugins", "managedSettings", "promptSuggestions"];

impl Wishes {
    /// Reads an `initialize` request.
    pub(super) fn read(request: &Map<String, Value>) -> Self {
        let text = |name: &str| request.get(name).and_then(Value::as_str).map(str::to_owned);
        let agents = request.get("agents").filter(|agents| !is_nothing(agents));
        let denied = request.get("disallowedTools").and_then(Value::as_array);
        let denied = denied.into_iter().flatten().filter_map(Value::as_str);
        let given = |name: &str| request.get(name).filter(|wish| !is_nothing(wish));
        let servers = given("mcpServers").map(|servers| json!({ "mcpServers": servers }));
        let mut carried = given("sdkMcpServers").map(names).unwrap_or_default();
        let mut left_out = Vec::new();
        if carried.len() > SERVERS_CAP {
            carried.truncate(SERVERS_CAP);
            left_out.push("sdkMcpServers");
        }
        let aliases: Aliases = given("toolAliases").map(pairs).unwrap_or_default();
        if aliases.len() > ALIASES_CAP {
            left_out.push("toolAliases");
        }
        let aliases = if aliases.len() > ALIASES_CAP { Aliases::new() } else { aliases };
        let wants = |name: &&str| request.get(*name).is_some_and(|wish| !is_nothing(wish));
        left_out.extend(ABSENT.into_iter().filter(wants));
        Self {
            system_prompt: request.get("systemPrompt").and_then(prompt),
            append_system_prompt: text("appendSystemPrompt"),
            agents: agents.map(Value::to_string),
            disallowed_tools: denied.map(str::to_owned).collect(),
            name: text("title").filter(|title| SessionName::parse(title).is_ok()),
            effort: text("effort").and_then(|level| Effort::new(&level)),
            forwards_text: request.get("forwardSubagentText").and_then(Value::as_bool)
                == Some(true),
            settings: given("settings").cloned(),
            servers: servers.as_ref().map(Value::to_string),
            carried,
            hooks: given("hooks").cloned(),
            aliases,
            left_out,
        }
    }

    /// Tells whether it says itself what settings say of permissions.
    pub(super) fn names_permissions(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.get("permissions").is_some())
    }

    /// Tells whether the run is to be as the flags say.
    pub(super) fn is_empty(&self) -> bool {
        Self { left_out: Vec::new(), ..self.clone() } == Self::default()
    }

    /// Returns the flags that say all of it, too.
    pub(super) fn apply(&self, flags: &RunFlags) -> RunFlags {
        let mut flags = flags.clone();
        if let Some(prompt) = &self.system_prompt {
            (flags.system_prompt, flags.system_prompt_file) = (Some(prompt.clone()), None);
        }
        if let Some(text) = &self.append_system_prompt {
            (flags.append_system_prompt, flags.append_system_prompt_file) =
                (Some(text.clone()), None);
        }
        flags.agents = self.agents.clone().map(GivenJson::from).or(flags.agents);
        flags.disallowed_tools.extend(self.disallowed_tools.iter().cloned());
        flags.name = flags.name.or_else(|| self.name.clone());
        flags.effort = flags.effort.or_else(|| self.effort.clone());
        flags.forward_subagent_text |= self.forwards_text;
        if let Some(settings) = &self.settings {
            flags.borrowed.settings = Some(merged(settings, flags.borrowed.settings.as_ref()));
        }
        flags.servers.mcp_config.extend(self.servers.clone().map(GivenJson::from));
        flags
    }
}

/// Returns settings put over others, key by key: what is `null` is taken away.
fn merged(settings: &Value, under: Option<&GivenJson>) -> GivenJson {
    // What is none is refused where it is read.
    let Value::Object(settings) = settings else { return settings.to_string().into() };
    // What cannot be read has refused the run already.
    let under = under.and_then(|under| json_text::parse(under.text().ok()?).ok());
    let mut merged: Map<String, Value> = under.unwrap_or_default();
    merged.extend(settings.clone());
    merged.retain(|_, value| !value.is_null());
    Value::Object(merged).to_string().into()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns the texts of a map, by name.
fn pairs(value: &Value) -> Aliases {
    let fields = value.as_object().into_iter().flatten();
    fields.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned()))).collect()
}

/// Returns the names in a list, or those that a map has.
fn names(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    let map = value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    // A name that comes twice is one server.
    let mut seen = BTreeSet::new();
    list.chain(map).filter(|name| seen.insert(*name)).map(str::to_owned).collect()
}

/// Returns a system prompt, which may come in parts; `None` if it is blank.
fn prompt(value: &Value) -> Option<String> {
    let parts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    let parts = parts.into_iter().filter(|part| *part != BOUNDARY && !part.trim().is_empty());
    let prompt = parts.collect::<Vec<_>>().join("\n\n");
    (!prompt.is_empty()).then_some(prompt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(request: Value) -> Wishes {
        let Value::Object(request) = request else { panic!("{request}") };
        Wishes::read(&request)
    }

    #[test]
    fn what_is_blank_is_no_wish() {
        for request in [
            json!({}),
            json!({"hooks": null, "systemPrompt": [""], "agents": {}, "title": null}),
            json!({"systemPrompt": ["__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"], "agents": []}),
        ] {
            assert!(wishes(request.clone()).is_empty(), "{request}");
        }
        let absent = wishes(json!({"plugins": [{"path": "x"}], "promptSuggestions": false}));
        assert!(absent.is_empty());
        assert_eq!(absent.left_out, ["plugins"]);
    }

    #[test]
    fn servers_that_a_client_carries_come_as_a_list_or_a_map() {
        for servers in [json!(["a", "b"]), json!({"a": {"type": "sdk"}, "b": {"type": "sdk"}})] {
            let wishes = wishes(json!({"sdkMcpServers": servers, "hooks": {"Stop": []}}));
            assert_eq!(wishes.carried, ["a", "b"]);
            assert_eq!(wishes.hooks, Some(json!({"Stop": []})));
        }
        let named =
            wishes(json!({"mcpServers": {"a": {"command": "x"}}, "settings": {"model": "m"}}));
        let flags = named.apply(&RunFlags::default());
        let given = |json: &str| GivenJson::from(json.to_owned());
        assert_eq!(flags.servers.mcp_config, [given(r#"{"mcpServers":{"a":{"command":"x"}}}"#)]);
        assert_eq!(flags.borrowed.settings, Some(given(r#"{"model":"m"}"#)));
        assert!(!named.names_permissions());
        let over = wishes(json!({"settings": {"permissions": {"deny": ["Read"]}, "env": null}}));
        let mut flags = RunFlags::default();
        let under = r#"{"model":"m","env":{"A":"b"},"permissions":{"allow":["Bash"]}}"#;
        flags.borrowed.settings = Some(given(under));
        let settings = over.apply(&flags).borrowed.settings;
        assert_eq!(settings, Some(given(r#"{"model":"m","permissions":{"deny":["Read"]}}"#)));
        assert!(over.names_permissions());
    }

    #[test]
    fn a_client_carries_each_server_once_and_no_more_than_a_file_names() {
        let twice = wishes(json!({"sdkMcpServers": ["b", "a", "b"]}));
        assert_eq!((twice.carried, twice.left_out), (vec!["b".to_owned(), "a".to_owned()], vec![]));
        let many: Vec<String> = (0..=SERVERS_CAP).map(|number| format!("s{number}")).collect();
        let many = wishes(json!({"sdkMcpServers": many, "plugins": ["p"]}));
        assert_eq!(many.carried.len(), SERVERS_CAP);
        assert_eq!(many.left_out, ["sdkMcpServers", "plugins"]);
    }

    #[test]
    fn a_wish_is_a_flag() {
        let wishes = wishes(json!({
            "systemPrompt": ["You", BOUNDARY, "help."], "appendSystemPrompt": "Be brief.",
            "agents": {"a": {"description": "d"}}, "title": "here",
            "forwardSubagentText": true, "disallowedTools": ["Bash"], "effort": "low",
        }));
        let given = RunFlags {
            disallowed_tools: vec!["Edit".to_owned()],
            system_prompt_file: Some("f".into()),
            ..RunFlags::default()
        };
        let flags = wishes.apply(&given);
        assert_eq!(flags.system_prompt.as_deref(), Some("You\n\nhelp."));
        assert_eq!(flags.system_prompt_file, None);
        assert_eq!(flags.append_system_prompt.as_deref(), Some("Be brief."));
        let agents = flags.agents.as_ref().map(GivenJson::text);
        assert_eq!(agents, Some(Ok(r#"{"a":{"description":"d"}}"#)));
        assert_eq!((flags.name.as_deref(), flags.forward_subagent_text), (Some("here"), true));
        assert_eq!(flags.disallowed_tools, ["Edit", "Bash"]);
        assert_eq!(flags.effort, Effort::new("low"));
    }
}
