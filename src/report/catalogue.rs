//! What is found in files, as records, one object a line: what `tine skills`,
//! `tine agents` and their `check` print with `--json`.
//!
//! As for every record, names and order of the fields are a promise.

use serde::Serialize;

use super::listing::line;
use crate::definition::{AgentDefinition, Color, Isolation};
use crate::front_matter::Finding;
use crate::guard::Mode;
use crate::skill::{Context, Skill};

/// Returns the record of a skill or a command as a line with its line feed.
/// `flow` says where its flow is, if it has one.
#[must_use]
pub fn skill_record(skill: &Skill, flow: Option<&str>) -> Vec<u8> {
    let (context, agent, background) = match &skill.context {
        Context::Inline => ("inline", None, false),
        Context::Fork { agent, is_background } => ("fork", Some(&**agent), *is_background),
    };
    let by = [("people", skill.user_invocable), ("models", !skill.disable_model_invocation)];
    line(&SkillRecord {
        name: &skill.name,
        description: &skill.description,
        argument_hint: &skill.argument_hint,
        source: skill.source.to_string(),
        used_by: by.into_iter().filter_map(|(who, may)| may.then_some(who)).collect(),
        hides: skill.hides.iter().map(ToString::to_string).collect(),
        allowed_tools: &skill.allowed_tools,
        allowed: skill.followed.leave.iter().map(ToString::to_string).collect(),
        model: skill.followed.model.as_deref(),
        context,
        agent,
        background,
        flow,
    })
}

/// Returns the record of a type of agent as a line with its line feed.
#[must_use]
pub fn agent_record(definition: &AgentDefinition) -> Vec<u8> {
    line(&AgentRecord {
        name: &definition.name,
        description: &definition.description,
        source: definition.source.to_string(),
        tools: definition.tools.as_deref(),
        disallowed_tools: &definition.disallowed_tools,
        denied: definition.denied.iter().map(ToString::to_string).collect(),
        model: definition.model.as_deref(),
        permission_mode: definition.permission_mode.map(Mode::as_str),
        max_turns: definition.max_turns,
        skills: &definition.skills,
        background: definition.is_background,
        isolation: definition.isolation.map(|isolation| match isolation {
            Isolation::Worktree => "worktree",
        }),
        color: definition.color.map(Color::as_str),
    })
}

/// Returns the record of what was found in a file as a line with its line feed.
#[must_use]
pub fn finding_record(finding: &Finding) -> Vec<u8> {
    let Finding { path, line: number, severity, message } = finding;
    line(&FindingRecord {
        path: path.to_string_lossy().into_owned(),
        line: *number,
        severity: severity.as_str(),
        message,
    })
}

#[derive(Serialize)]
struct SkillRecord<'a> {
    name: &'a str,
    description: &'a str,
    argument_hint: &'a str,
    source: String,
    used_by: Vec<&'static str>,
    hides: Vec<String>,
    /// What it asks for, as it is written.
    allowed_tools: &'a [String],
    /// What of that counts.
    allowed: Vec<String>,
    model: Option<&'a str>,
    context: &'static str,
    agent: Option<&'a str>,
    background: bool,
    /// The file of its flow.
    flow: Option<&'a str>,
}

#[derive(Serialize)]
struct AgentRecord<'a> {
    name: &'a str,
    description: &'a str,
    source: String,
    tools: Option<&'a [String]>,
    disallowed_tools: &'a [String],
    denied: Vec<String>,
    model: Option<&'a str>,
    permission_mode: Option<&'static str>,
    max_turns: Option<u32>,
    skills: &'a [String],
    background: bool,
    isolation: Option<&'static str>,
    color: Option<&'static str>,
}

#[derive(Serialize)]
struct FindingRecord<'a> {
    path: String,
    line: usize,
    severity: &'static str,
    message: &'a str,
}
