//! The Skill tool: opens a skill's instructions when they are needed, or has an
//! agent of its own follow them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;

use super::bound::short_name;
use super::{
    AgentCall, Delegate, Effect, Granted, Task, TaskKind, Tool, ToolContext, ToolError, Typed,
    arguments,
};
use crate::message::{Output, ToolSchema};
use crate::skill::{Context, Skills};
use crate::tool_name::SKILL;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "skill":{"type":"string","description":"The skill's name"},
    "args":{"type":"string","description":"What a user would type after the name"}
    },"required":["skill"]}"#;

/// The tool itself.
pub struct Skill;

/// Returns the name of the skill that a call is about.
#[must_use]
pub fn name_in(arguments: &Value) -> &str {
    arguments["skill"].as_str().unwrap_or_default().trim_start_matches('/')
}

/// Tells whether an agent of its own follows a skill. A unit that may start none
/// follows it itself.
#[must_use]
pub fn is_delegated(skill: &crate::skill::Skill, delegate: &dyn Delegate) -> bool {
    skill.is_forked() && delegate.may_delegate().is_ok()
}

impl Task {
    /// What a skill says, for an agent of its own.
    #[must_use]
    pub fn of_skill(skill: &crate::skill::Skill, agent: &str, prompt: &str) -> Self {
        let followed = Some(Arc::clone(&skill.followed));
        let typed =
            Typed { agent: agent.into(), is_built_in: false, model: None, tools: None, followed };
        Self {
            description: skill.name.as_str().into(),
            prompt: prompt.into(),
            kind: TaskKind::Typed(Arc::new(typed)),
            max_turns: None,
            max_tokens: None,
            timeout: None,
            schema: None,
            isolation: None,
            is_background: match skill.context {
                Context::Inline => false,
                Context::Fork { agent: _, is_background } => is_background,
            },
        }
    }
}

impl Tool for Skill {
    fn schema(&self) -> ToolSchema {
        arguments::schema(SKILL, include_str!("../../prompts/tools/skill.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        // Some skills are done by an agent of their own.
        Effect::Delegates
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "skill")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let name = name_in(&arguments);
            let wanted = arguments["args"].as_str().unwrap_or_default();
            let skill = context
                .skills
                .find(name)
                .filter(|skill| !skill.disable_model_invocation)
                .ok_or_else(|| not_found(name, &context.skills))?;
            let text = expanded(context, skill, wanted).await?;
            let agent = match &skill.context {
                Context::Fork { agent, is_background: _ }
                    if is_delegated(skill, &*context.delegate) =>
                {
                    agent
                }
                Context::Fork { .. } | Context::Inline => return Ok(Output::ok(text)),
            };
            let known = context.delegate.known();
            let agent = known.agent(agent).ok_or_else(|| {
                let available = known.agents.join(", ");
                ToolError::tell(format!(
                    "Skill \"{}\" names the agent \"{}\", and there is none. Available agents: \
                     {available}",
                    short_name(name),
                    short_name(agent)
                ))
            })?;
            let task = Task::of_skill(skill, agent, &text);
            context.delegate.delegate(context, Some(&call.id), AgentCall::One(task)).await
        })
    }
}

/// Puts the skill's text together. A skill that is given a change runs git.
async fn expanded(
    context: &ToolContext,
    skill: &crate::skill::Skill,
    arguments: &str,
) -> Result<String, ToolError> {
    let started = Instant::now();
    let workspace = Arc::clone(&context.workspace);
    let (skill, arguments) = (skill.clone(), arguments.to_owned());
    let expanding = tokio::task::spawn_blocking(move || {
        let repository = (&workspace.git, &*workspace.root);
        skill.expand(&arguments, &workspace.spill.directory, repository)
    });
    let expanded = tokio::select! {
        biased;
        () = context.cancel.cancelled() => {
            return Err(ToolError::Cancelled { after: started.elapsed() });
        }
        expanded = expanding => expanded,
    };
    match expanded {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(ToolError::tell(error.to_string())),
        Err(error) => Err(ToolError::tell(format!("the skill could not be opened: {error}"))),
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
