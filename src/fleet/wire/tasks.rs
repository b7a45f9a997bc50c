//! The JSON of tasks and of what they are granted with.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use super::Grant;
use super::json::{BranchBody, Raw, Text, name, text, unit};
use super::works::WorkBody;
use crate::guard::WrittenRule;
use crate::session::kinds;
use crate::skill::Followed;
use crate::tool::{AnswerSchema, Isolation, Task, TaskKind, Typed};

#[derive(Serialize, Deserialize)]
pub(super) struct GrantBody<'a> {
    unit: Text<'a>,
    attempt: u32,
    branch: BranchBody<'a>,
    origin: Raw,
    is_unlimited: bool,
    depth: u32,
    work: WorkBody<'a>,
    tools: Vec<Text<'a>>,
    model: Text<'a>,
    packet: Text<'a>,
    /// In Base64: what it is in is known to others.
    policy: String,
}

impl<'a> GrantBody<'a> {
    pub(super) fn of(grant: &'a Grant) -> Self {
        let Grant { unit, attempt, branch, origin, is_unlimited, depth, .. } = grant;
        let Grant { work, tools, model, packet, policy, .. } = grant;
        Self {
            unit: name(*unit),
            attempt: *attempt,
            branch: BranchBody::of(branch),
            origin: kinds::of_origin(*origin),
            is_unlimited: *is_unlimited,
            depth: *depth,
            work: WorkBody::of(work),
            tools: tools.iter().map(|tool| text(tool)).collect(),
            model: text(model),
            packet: text(packet),
            policy: BASE64_STANDARD.encode(policy),
        }
    }

    pub(super) fn into_grant(self) -> Result<Grant, String> {
        let policy = BASE64_STANDARD.decode(&self.policy);
        Ok(Grant {
            unit: unit(&self.unit)?,
            attempt: self.attempt,
            branch: self.branch.into_branch()?,
            origin: kinds::origin(&self.origin)?,
            is_unlimited: self.is_unlimited,
            depth: self.depth,
            work: self.work.into_work()?,
            tools: self.tools.into_iter().map(Into::into).collect(),
            model: self.model.into(),
            packet: self.packet.into(),
            policy: policy.map_err(|error| format!("policy: {error}"))?,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct TaskBody<'a> {
    description: Text<'a>,
    prompt: Text<'a>,
    kind: KindBody<'a>,
    max_turns: Option<u32>,
    max_tokens: Option<NonZeroU64>,
    timeout: Option<TimeBody>,
    isolation: Option<IsolationBody>,
    is_background: bool,
    /// As text: so deep a schema as could be read once can be read again,
    /// however deep in a message it stands.
    schema: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindBody<'a> {
    Fork,
    Typed(TypedBody<'a>),
}

#[derive(Serialize, Deserialize)]
struct TypedBody<'a> {
    agent: Text<'a>,
    is_built_in: bool,
    model: Option<Text<'a>>,
    tools: Option<Vec<Text<'a>>>,
    followed: Option<FollowedBody<'a>>,
}

#[derive(Serialize, Deserialize)]
struct TimeBody {
    secs: u64,
    nanos: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IsolationBody {
    Worktree,
}

impl<'a> TaskBody<'a> {
    pub(super) fn of(task: &'a Task) -> Self {
        let Task { description, prompt, kind, max_turns, max_tokens, .. } = task;
        let Task { timeout, isolation, is_background, schema, .. } = task;
        let (secs, nanos) = (Duration::as_secs, Duration::subsec_nanos);
        Self {
            description: text(description),
            prompt: text(prompt),
            kind: match kind {
                TaskKind::Fork => KindBody::Fork,
                TaskKind::Typed(typed) => KindBody::Typed(TypedBody::of(typed)),
            },
            max_turns: *max_turns,
            max_tokens: *max_tokens,
            timeout: timeout.map(|time| TimeBody { secs: secs(&time), nanos: nanos(&time) }),
            isolation: isolation.map(IsolationBody::of),
            is_background: *is_background,
            schema: schema.as_ref().map(|schema| schema.source().to_string()),
        }
    }

    pub(super) fn into_task(self) -> Result<Task, String> {
        let schema = |text: String| AnswerSchema::parse(&text).map(Arc::new);
        Ok(Task {
            description: self.description.into(),
            prompt: self.prompt.into(),
            kind: match self.kind {
                KindBody::Fork => TaskKind::Fork,
                KindBody::Typed(typed) => TaskKind::Typed(Arc::new(typed.into_typed()?)),
            },
            max_turns: self.max_turns,
            max_tokens: self.max_tokens,
            timeout: self.timeout.map(TimeBody::into_time).transpose()?,
            isolation: self.isolation.map(Into::into),
            is_background: self.is_background,
            schema: self.schema.map(schema).transpose()?,
        })
    }
}

impl<'a> TypedBody<'a> {
    fn of(typed: &'a Typed) -> Self {
        let Typed { agent, is_built_in, model, tools, followed } = typed;
        let names = |tools: &'a Vec<String>| tools.iter().map(|tool| text(tool)).collect();
        Self {
            agent: text(agent),
            is_built_in: *is_built_in,
            model: model.as_deref().map(text),
            tools: tools.as_ref().map(names),
            followed: followed.as_deref().map(FollowedBody::of),
        }
    }

    fn into_typed(self) -> Result<Typed, String> {
        let followed = self.followed.map(FollowedBody::into_followed).transpose()?;
        Ok(Typed {
            agent: self.agent.into(),
            is_built_in: self.is_built_in,
            model: self.model.map(Into::into),
            tools: self.tools.map(|tools| tools.into_iter().map(Into::into).collect()),
            followed: followed.map(Arc::new),
        })
    }
}

impl TimeBody {
    fn into_time(self) -> Result<Duration, String> {
        match self {
            Self { secs, nanos: nanos @ 0..1_000_000_000 } => Ok(Duration::new(secs, nanos)),
            Self { secs: _, nanos } => Err(format!("{nanos} nanoseconds are over a second")),
        }
    }
}

impl IsolationBody {
    fn of(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Worktree => Self::Worktree,
        }
    }
}

impl From<IsolationBody> for Isolation {
    fn from(body: IsolationBody) -> Self {
        match body {
            IsolationBody::Worktree => Self::Worktree,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct FollowedBody<'a> {
    skill: Text<'a>,
    leave: Vec<WrittenRule>,
    model: Option<Text<'a>>,
}

impl<'a> FollowedBody<'a> {
    fn of(followed: &'a Followed) -> Self {
        let Followed { skill, leave, model } = followed;
        Self {
            skill: text(skill),
            leave: WrittenRule::all(leave),
            model: model.as_deref().map(text),
        }
    }

    fn into_followed(self) -> Result<Followed, String> {
        let Self { skill, leave, model } = self;
        let leave = WrittenRule::read(leave).map_err(|error| error.to_string())?;
        Ok(Followed { skill: skill.into(), leave: leave.into(), model: model.map(Into::into) })
    }
}
