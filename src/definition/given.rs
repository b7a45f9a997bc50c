//! Definitions that come with a run, as JSON: a flag's, or a program's.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::{AgentDefinition, Head, define};
use crate::front_matter::{FrontMatterError, Source};

/// What is said of a definition besides its front matter.
#[derive(Debug, Default, Deserialize)]
struct Body {
    #[serde(alias = "systemPrompt")]
    prompt: Option<String>,
    #[serde(rename = "runConfig")]
    run: Option<RunConfig>,
}

#[derive(Debug, Default, Deserialize)]
struct RunConfig {
    max_turns: Option<NonZeroU32>,
}

/// Reads definitions: an object of them by name, or a list of those with a name.
///
/// # Errors
///
/// What is wrong with one of them, in words for people.
pub fn given(json: &Value) -> Result<Vec<AgentDefinition>, String> {
    let named: BTreeMap<String, &Value> = match json {
        Value::Object(agents) => agents.iter().map(|(name, it)| (name.clone(), it)).collect(),
        Value::Array(agents) => {
            let named = |it: &'_ Value| it.get("name")?.as_str().map(str::to_owned);
            let all: Option<_> = agents.iter().map(|it| Some((named(it)?, it))).collect();
            all.ok_or("each agent of a list needs a `name`")?
        }
        Value::Null => BTreeMap::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("agents are an object, each under its name".to_owned());
        }
    };
    named.into_iter().map(|(name, agent)| one(&name, agent)).collect()
}

fn one(name: &str, agent: &Value) -> Result<AgentDefinition, String> {
    let wrong = |error: serde_json::Error| format!("the agent `{name}`: {error}");
    let mut head = Head::deserialize(agent).map_err(wrong)?;
    let body = Body::deserialize(agent).map_err(wrong)?;
    head.name = Some(name.to_owned());
    head.max_turns = head.max_turns.or(body.run.and_then(|run| run.max_turns));
    let prompt = body.prompt.unwrap_or_default();
    // Whoever gives it speaks for the user.
    let definition = define(head, &prompt, Path::new(""), true).map_err(|error| match error {
        FrontMatterError::Malformed { message, .. } => message,
        other => other.to_string(),
    })?;
    Ok(AgentDefinition { source: Source::Given, ..definition })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_by_name_and_a_list_with_names_say_the_same() {
        let claude = json!({"scout": {"description": "looks", "prompt": "Look.", "maxTurns": 3,
            "tools": ["Read", "run_shell_command"], "model": "inherit", "mcpServers": []}});
        let qwen = json!([{"name": "scout", "description": "looks", "systemPrompt": "Look.",
            "tools": ["Read", "Bash"], "level": "session", "runConfig": {"max_turns": 3}}]);
        let agents = given(&claude).unwrap();
        assert_eq!(agents, given(&qwen).unwrap());
        let scout = &agents[0];
        assert_eq!((&*scout.name, &*scout.prompt, scout.max_turns), ("scout", "Look.", Some(3)));
        assert_eq!(scout.tools.as_deref(), Some(&["Read".to_owned(), "Bash".to_owned()][..]));
        assert_eq!((&scout.model, &scout.source), (&None, &Source::Given));
    }

    #[test]
    fn what_is_no_agent_says_why() {
        for (agents, why) in [
            (json!("x"), "agents are an object, each under its name"),
            (json!([{}]), "each agent of a list needs a `name`"),
            (json!({"a": {}}), "the agent `a` needs a `description:`"),
            (json!({"a/b": {"description": "d"}}), "`a/b` is not a name"),
            (json!({"a": {"description": 1}}), "the agent `a`: invalid type"),
        ] {
            let error = given(&agents).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(given(&Value::Null), Ok(Vec::new()));
    }
}
