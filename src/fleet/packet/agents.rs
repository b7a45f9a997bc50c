//! Definitions of agents, as JSON has them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::NoPacket;
use crate::definition::{AgentDefinition, Color, Isolation};
use crate::front_matter::Source;
use crate::guard::{Mode, WrittenRule};
use crate::path_text;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAgent {
    name: String,
    description: String,
    prompt: String,
    tools: Option<Vec<String>>,
    disallowed_tools: Vec<String>,
    denied: Vec<WrittenRule>,
    permission_mode: Option<String>,
    model: Option<String>,
    max_turns: Option<u32>,
    isolation: Option<WrittenIsolation>,
    skills: Vec<String>,
    is_background: bool,
    color: Option<String>,
    source: WrittenSource,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenIsolation {
    Worktree,
}

/// Where something comes from, there.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenSource {
    BuiltIn,
    Given,
    File(String),
}

impl WrittenAgent {
    pub(super) fn of(definition: &AgentDefinition) -> Self {
        let AgentDefinition { name, description, prompt, tools, disallowed_tools, .. } = definition;
        let AgentDefinition { denied, permission_mode, model, max_turns, .. } = definition;
        let AgentDefinition { isolation, skills, is_background, color, source, .. } = definition;
        Self {
            name: name.clone(),
            description: description.clone(),
            prompt: prompt.clone(),
            tools: tools.clone(),
            disallowed_tools: disallowed_tools.clone(),
            denied: WrittenRule::all(denied),
            permission_mode: permission_mode.map(|mode| mode.as_str().to_owned()),
            model: model.clone(),
            max_turns: *max_turns,
            isolation: isolation.map(|Isolation::Worktree| WrittenIsolation::Worktree),
            skills: skills.clone(),
            is_background: *is_background,
            color: color.map(|color| color.as_str().to_owned()),
            source: WrittenSource::of(source),
        }
    }

    pub(super) fn read(self) -> Result<AgentDefinition, NoPacket> {
        let unknown =
            |what: String| NoPacket::because(format!("the agent `{}`: {what}", self.name));
        let mode = |mode: String| {
            Mode::from_name(&mode).ok_or_else(|| unknown(format!("there is no mode `{mode}`")))
        };
        let color = |color: String| {
            Color::from_name(&color).ok_or_else(|| unknown(format!("there is no colour `{color}`")))
        };
        Ok(AgentDefinition {
            permission_mode: self.permission_mode.map(mode).transpose()?,
            color: self.color.map(color).transpose()?,
            denied: WrittenRule::read(self.denied).map_err(|error| unknown(error.to_string()))?,
            isolation: self.isolation.map(|WrittenIsolation::Worktree| Isolation::Worktree),
            source: self.source.read(),
            name: self.name,
            description: self.description,
            prompt: self.prompt,
            tools: self.tools,
            disallowed_tools: self.disallowed_tools,
            model: self.model,
            max_turns: self.max_turns,
            skills: self.skills,
            is_background: self.is_background,
        })
    }
}

impl WrittenSource {
    pub(super) fn of(source: &Source) -> Self {
        match source {
            Source::BuiltIn => Self::BuiltIn,
            Source::Given => Self::Given,
            Source::File(path) => Self::File(path_text::to_text(path)),
        }
    }

    pub(super) fn read(self) -> Source {
        let path = |text: &str| -> PathBuf { path_text::from_text(text) };
        match self {
            Self::BuiltIn => Source::BuiltIn,
            Self::Given => Source::Given,
            Self::File(text) => Source::File(path(&text)),
        }
    }
}
