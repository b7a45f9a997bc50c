//! The moments at which hooks are asked, and what they are told then: the
//! fields that hooks of other harnesses know.

use std::path::Path;

use serde_json::{Map, Value};

use super::Setting;
use super::matcher::names_of;
use crate::event::{CompactionTrigger, HookEvent, UnitId};
use crate::message::{CallId, Output};

/// Whom a hook is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The unit.
    pub unit: UnitId,
    /// The type of agent that it is.
    pub agent: &'a str,
    /// The mode that it is in.
    pub mode: &'a str,
    /// Where it works.
    pub cwd: &'a Path,
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// Its id.
    pub id: &'a CallId,
    /// The tool's own name.
    pub tool: &'a str,
    /// The arguments it would run with.
    pub arguments: &'a Value,
}

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It is new.
    Startup,
    /// It goes on.
    Resume,
    /// It is new, and the one before it was left for it.
    Clear,
    /// A summary has taken the place of what was said.
    Compact,
}

impl Source {
    /// Returns the name that hooks know.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Resume => "resume",
            Self::Clear => "clear",
            Self::Compact => "compact",
        }
    }
}

/// A moment, and what it is about.
#[derive(Debug, Clone, Copy)]
pub enum Occasion<'a> {
    /// A call is about to be decided about.
    PreToolUse(CallFacts<'a>),
    /// A call has run, and this is what it gave.
    PostToolUse(CallFacts<'a>, &'a Output),
    /// The user has typed this.
    UserPromptSubmit {
        /// What was typed.
        prompt: &'a str,
    },
    /// A session begins.
    SessionStart {
        /// How.
        source: Source,
        /// The main conversation's model.
        model: &'a str,
    },
    /// The process leaves the session.
    SessionEnd {
        /// Why.
        reason: &'a str,
    },
    /// The main conversation has nothing more to do.
    Stop {
        /// Whether a hook has kept it going already.
        is_held: bool,
        /// What it has answered.
        answer: &'a str,
    },
    /// Another unit begins.
    SubagentStart {
        /// What it is to do.
        prompt: &'a str,
    },
    /// Another unit has nothing more to do.
    SubagentStop {
        /// Whether a hook has kept it going already.
        is_held: bool,
        /// What it has answered.
        answer: &'a str,
    },
    /// A summary is about to take the place of a conversation.
    PreCompact {
        /// Who wants it.
        trigger: CompactionTrigger,
        /// What the user wants it to heed.
        hint: Option<&'a str>,
    },
    /// A person is to be told something.
    Notification {
        /// What.
        message: &'a str,
        /// Of which kind it is.
        kind: &'a str,
    },
    /// A person is about to be asked about a call.
    PermissionRequest {
        /// The call.
        call: CallFacts<'a>,
        /// Why it is asked.
        reason: &'a str,
    },
}

impl Occasion<'_> {
    /// Returns which moment it is.
    #[must_use]
    pub fn event(&self) -> HookEvent {
        match self {
            Self::PreToolUse(_) => HookEvent::PreToolUse,
            Self::PostToolUse(..) => HookEvent::PostToolUse,
            Self::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            Self::SessionStart { .. } => HookEvent::SessionStart,
            Self::SessionEnd { .. } => HookEvent::SessionEnd,
            Self::Stop { .. } => HookEvent::Stop,
            Self::SubagentStart { .. } => HookEvent::SubagentStart,
            Self::SubagentStop { .. } => HookEvent::SubagentStop,
            Self::PreCompact { .. } => HookEvent::PreCompact,
            Self::Notification { .. } => HookEvent::Notification,
            Self::PermissionRequest { .. } => HookEvent::PermissionRequest,
        }
    }

    /// Returns the call that it is about.
    pub(super) fn call(&self) -> Option<&CallId> {
        self.call_facts().map(|call| call.id)
    }

    pub(super) fn call_facts(&self) -> Option<&CallFacts<'_>> {
        match self {
            Self::PreToolUse(call)
            | Self::PostToolUse(call, _)
            | Self::PermissionRequest { call, .. } => Some(call),
            Self::UserPromptSubmit { .. }
            | Self::SessionStart { .. }
            | Self::SessionEnd { .. }
            | Self::Stop { .. }
            | Self::SubagentStart { .. }
            | Self::SubagentStop { .. }
            | Self::PreCompact { .. }
            | Self::Notification { .. } => None,
        }
    }

    /// Returns the names that matchers are compared with. Of a unit it is the
    /// type of agent, which only [`Who`] knows.
    pub(super) fn names<'a>(&'a self, who: &'a Who<'_>) -> Vec<&'a str> {
        match self {
            Self::PreToolUse(call)
            | Self::PostToolUse(call, _)
            | Self::PermissionRequest { call, .. } => names_of(call.tool),
            Self::SessionStart { source, .. } => vec![source.as_str()],
            Self::SessionEnd { reason } => vec![reason],
            Self::SubagentStart { .. } | Self::SubagentStop { .. } => vec![who.agent],
            Self::PreCompact { trigger, .. } => vec![trigger.as_str()],
            Self::Notification { kind, .. } => vec![kind],
            Self::UserPromptSubmit { .. } | Self::Stop { .. } => Vec::new(),
        }
    }

    /// Returns what a hook is told.
    pub(super) fn input(&self, setting: &Setting, who: &Who<'_>) -> Value {
        let mut input = Map::new();
        let mut put = |name: &str, value: Value| drop(input.insert(name.to_owned(), value));
        let transcript = setting.transcript.as_ref().map(|path| path.to_string_lossy());
        put("session_id", Value::from(&*setting.session.0));
        put("transcript_path", Value::from(transcript.as_deref().unwrap_or_default()));
        put("cwd", Value::from(who.cwd.to_string_lossy()));
        put("permission_mode", Value::from(who.mode));
        put("hook_event_name", Value::from(self.event().as_str()));
        if who.unit != UnitId::MAIN {
            put("agent_id", Value::from(who.unit.to_string()));
            put("agent_type", Value::from(who.agent));
        }
        if let Some(CallFacts { id, tool, arguments }) = self.call_facts() {
            put("tool_name", Value::from(*tool));
            put("tool_input", (*arguments).clone());
            put("tool_use_id", Value::from(&*id.0));
        }
        match self {
            Self::PreToolUse(_) => {}
            Self::PostToolUse(_, Output { text, is_error, images: _ }) => {
                let response =
                    [("content", Value::from(&**text)), ("is_error", (*is_error).into())];
                let response = response.map(|(name, value)| (name.to_owned(), value));
                put("tool_response", response.into_iter().collect::<Map<_, _>>().into());
            }
            Self::UserPromptSubmit { prompt } => put("prompt", Value::from(*prompt)),
            Self::SessionStart { source, model } => {
                put("source", Value::from(source.as_str()));
                put("model", Value::from(*model));
            }
            Self::SessionEnd { reason } => put("reason", Value::from(*reason)),
            Self::Stop { is_held, answer } | Self::SubagentStop { is_held, answer } => {
                put("stop_hook_active", Value::from(*is_held));
                put("last_assistant_message", Value::from(*answer));
                if self.event() == HookEvent::SubagentStop {
                    // All that happens in a session is in one log.
                    put("agent_transcript_path", transcript.as_deref().unwrap_or_default().into());
                }
            }
            Self::SubagentStart { prompt } => put("prompt", Value::from(*prompt)),
            Self::PreCompact { trigger, hint } => {
                put("trigger", Value::from(trigger.as_str()));
                put("custom_instructions", Value::from(hint.unwrap_or_default()));
            }
            Self::Notification { message, kind } => {
                put("message", Value::from(*message));
                put("notification_type", Value::from(*kind));
            }
            Self::PermissionRequest { call: _, reason } => {
                put("permission_reason", Value::from(*reason));
            }
        }
        Value::Object(input)
    }
}
