//! Skills, as JSON has them.
//!
//! One that comes with the program goes by its name: the worker has it. Of any
//! other the text goes along and what its head says; the files beside it do not.
//! Rules in which its directory was put in mean the coordinator's directory.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::agents::WrittenSource;
use super::{NoPacket, bundled};
use crate::front_matter::Source;
use crate::guard::WrittenRule;
use crate::skill::{Context, Followed, Skill};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WrittenSkill {
    Bundled(String),
    Own(Box<WrittenOwn>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenOwn {
    name: String,
    description: String,
    argument_hint: String,
    arguments: Vec<String>,
    disable_model_invocation: bool,
    user_invocable: bool,
    allowed_tools: Vec<String>,
    leave: Vec<WrittenRule>,
    model: Option<String>,
    agent: Option<WrittenAgentOf>,
    body: String,
    source: WrittenSource,
    change: bool,
}

/// The agent that follows a skill.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAgentOf {
    name: String,
    is_background: bool,
}

impl WrittenSkill {
    pub(super) fn of(skill: &Skill) -> Self {
        let Skill { name, description, argument_hint, arguments, source, .. } = skill;
        let Skill { disable_model_invocation, user_invocable, allowed_tools, .. } = skill;
        // What hides what is for people who list them.
        let Skill { followed, context, body, change, files: _, hides: _, .. } = skill;
        if *source == Source::BuiltIn {
            return Self::Bundled(name.clone());
        }
        let Followed { skill: _, leave, model } = &**followed;
        let agent = match context {
            Context::Inline => None,
            Context::Fork { agent, is_background } => {
                Some(WrittenAgentOf { name: agent.clone(), is_background: *is_background })
            }
        };
        Self::Own(Box::new(WrittenOwn {
            name: name.clone(),
            description: description.clone(),
            argument_hint: argument_hint.clone(),
            arguments: arguments.clone(),
            disable_model_invocation: *disable_model_invocation,
            user_invocable: *user_invocable,
            allowed_tools: allowed_tools.clone(),
            leave: WrittenRule::all(leave),
            model: model.as_deref().map(str::to_owned),
            agent,
            body: body.clone(),
            source: WrittenSource::of(source),
            change: *change,
        }))
    }

    pub(super) fn read(self) -> Result<Skill, NoPacket> {
        let own = match self {
            Self::Bundled(name) => {
                let missing = || NoPacket::because(format!("no skill `{name}` comes with tine"));
                return bundled(&name).ok_or_else(missing);
            }
            Self::Own(own) => *own,
        };
        let leave = WrittenRule::read(own.leave)
            .map_err(|error| NoPacket::because(format!("the skill `{}`: {error}", own.name)))?;
        let followed = Followed {
            skill: own.name.clone(),
            leave: leave.into(),
            model: own.model.map(Into::into),
        };
        Ok(Skill {
            name: own.name,
            description: own.description,
            argument_hint: own.argument_hint,
            arguments: own.arguments,
            disable_model_invocation: own.disable_model_invocation,
            user_invocable: own.user_invocable,
            allowed_tools: own.allowed_tools,
            followed: Arc::new(followed),
            context: match own.agent {
                None => Context::Inline,
                Some(WrittenAgentOf { name, is_background }) => {
                    Context::Fork { agent: name, is_background }
                }
            },
            body: own.body,
            source: own.source.read(),
            files: &[],
            change: own.change,
            hides: Vec::new(),
        })
    }
}

/// Returns a skill as it is in a copy of the workspace.
pub(super) fn moved(skill: &Skill, there: &Path, here: &Path) -> Skill {
    let source = match &skill.source {
        Source::File(path) => match path.strip_prefix(there) {
            Ok(below) => Source::File(here.join(below)),
            Err(_) => Source::Given,
        },
        Source::BuiltIn => Source::BuiltIn,
        Source::Given => Source::Given,
    };
    Skill { source, ..skill.clone() }
}
