//! Hooks that ran: commands and callbacks that the user has asked at certain
//! moments, and what each of them wanted.

use std::sync::Arc;

use crate::message::CallId;

/// The moments at which hooks are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// A call is about to be decided about.
    PreToolUse,
    /// A call has run.
    PostToolUse,
    /// The user has asked for something.
    UserPromptSubmit,
    /// A session begins, goes on, or goes on after a summary.
    SessionStart,
    /// The process leaves a session.
    SessionEnd,
    /// The main conversation has nothing more to do.
    Stop,
    /// A unit other than main begins.
    SubagentStart,
    /// A unit other than main has nothing more to do.
    SubagentStop,
    /// A conversation is about to be replaced by a summary.
    PreCompact,
    /// A person is to be told something.
    Notification,
    /// A person is about to be asked about a call.
    PermissionRequest,
}

impl HookEvent {
    /// Every moment.
    pub const ALL: [Self; 11] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::UserPromptSubmit,
        Self::SessionStart,
        Self::SessionEnd,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::PreCompact,
        Self::Notification,
        Self::PermissionRequest,
    ];

    /// Returns the name used in settings, records and the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
            Self::PermissionRequest => "PermissionRequest",
        }
    }

    /// Tells whether hooks of this moment stand between an agent and what it is
    /// about to do, so that one that cannot be trusted to speak must not be
    /// passed by. Where people are asked, they are still there.
    #[must_use]
    pub fn is_gate(self) -> bool {
        self == Self::PreToolUse
    }

    /// Finds a moment by its name, in any case and with or without `_` and `-`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.trim().replace(['_', '-'], "");
        Self::ALL.into_iter().find(|event| event.as_str().eq_ignore_ascii_case(&name))
    }

    /// Returns whether matchers of this moment are about tools.
    #[must_use]
    pub fn is_about_tools(self) -> bool {
        match self {
            Self::PreToolUse | Self::PostToolUse | Self::PermissionRequest => true,
            Self::UserPromptSubmit
            | Self::SessionStart
            | Self::SessionEnd
            | Self::Stop
            | Self::SubagentStart
            | Self::SubagentStop
            | Self::PreCompact
            | Self::Notification => false,
        }
    }
}

/// How one hook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOutcome {
    /// It has said what it wants, if it wants anything.
    Done,
    /// It has ended with the status that blocks.
    Blocked,
    /// It went wrong: what it wanted is not known, and nothing hangs on it.
    Failed,
    /// It was ended because its unit was.
    Cancelled,
    /// It goes on by itself: nobody waits for it.
    Started,
}

impl HookOutcome {
    /// Every outcome.
    pub const ALL: [Self; 5] =
        [Self::Done, Self::Blocked, Self::Failed, Self::Cancelled, Self::Started];

    /// Returns the name used in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Started => "started",
        }
    }
}

/// What a hook decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookDecision {
    /// A person need not be asked.
    Allow,
    /// A person has to be asked.
    Ask,
    /// What was about to happen does not.
    Deny,
    /// The unit ends.
    Stop,
}

impl HookDecision {
    /// Every decision, mildest first.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Ask, Self::Deny, Self::Stop];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
            Self::Stop => "stop",
        }
    }
}

/// One hook that was asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRan {
    /// The moment.
    pub event: HookEvent,
    /// The hook: its command, or the name of its callback.
    pub hook: Arc<str>,
    /// The call that it was asked about.
    pub call: Option<CallId>,
    /// How it ended.
    pub outcome: HookOutcome,
    /// The status it ended with; `None` if it was ended, or is no command.
    pub exit_code: Option<i32>,
    /// What it decides.
    pub decision: Option<HookDecision>,
    /// Why it decides so, or what went wrong.
    pub reason: Arc<str>,
    /// What it adds to what the model reads.
    pub context: Arc<str>,
    /// What it says to people.
    pub message: Arc<str>,
    /// Whether it has changed the arguments of the call.
    pub changes_input: bool,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}
