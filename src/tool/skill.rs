//! The Skill tool: opens a skill's instructions when they are needed.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::bound::short_name;
use super::{Effect, Granted, Tool, ToolContext, ToolError, arguments};
use crate::message::{Output, ToolSchema};
use crate::skill::Skills;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "skill":{"type":"string","description":"The skill's name"},
    "args":{"type":"string","description":"What a user would type after the name"}
    },"required":["skill"]}"#;

/// The tool itself.
pub struct Skill;

impl Tool for Skill {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Skill", include_str!("../../prompts/tools/skill.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "skill")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        _call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let name = arguments["skill"].as_str().unwrap_or_default().trim_start_matches('/');
            let wanted = arguments["args"].as_str().unwrap_or_default().to_owned();
            let skill = context
                .skills
                .find(name)
                .filter(|skill| !skill.disable_model_invocation)
                .cloned()
                .ok_or_else(|| not_found(name, &context.skills))?;
            let workspace = Arc::clone(&context.workspace);
            // A skill that is given a change runs git.
            let expanded = tokio::task::spawn_blocking(move || {
                let repository = (&workspace.git, &*workspace.root);
                skill.expand(&wanted, &workspace.spill.directory, repository)
            });
            match expanded.await {
                Ok(Ok(text)) => Ok(Output::ok(text)),
                Ok(Err(error)) => Err(ToolError::tell(error.to_string())),
                Err(error) => {
                    Err(ToolError::tell(format!("the skill could not be opened: {error}")))
                }
            }
        })
    }
}

fn not_found(name: &str, skills: &Skills) -> ToolError {
    let available: Vec<&str> = skills.for_models().map(|skill| &*skill.name).collect();
    ToolError::tell(format!(
        "Skill \"{}\" not found. Available skills: {}",
        short_name(name),
        available.join(", ")
    ))
}
