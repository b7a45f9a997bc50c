//! What a unit has done by now, and what it is in the middle of.

use std::sync::Arc;

use crate::event::{Event, EventKind, ForkShare, Outcome, Replied, UnitEnd, UnitId, UnixMillis};
use crate::message::{CallId, Usage};

/// What a unit has done by now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Work {
    /// When it started; `None` while it waits, also if it was lost with its
    /// worker and waits again.
    pub started: Option<UnixMillis>,
    was_lost: bool,
    /// Its calls that have no output, in the order in which it made them.
    pub open: Vec<OpenCall>,
    /// The text of its last answer that had one.
    pub text: Arc<str>,
    usage: Usage,
    turns: u32,
    tool_uses: u32,
    share: Option<ForkShare>,
    /// When it last did something by itself.
    last_sign: UnixMillis,
}

/// A call that has no output.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    /// The call.
    pub id: CallId,
    /// The tool: its own name once the call has started, as the model wrote
    /// it before.
    pub tool: Arc<str>,
    /// The arguments, as the model wrote them.
    pub arguments: Arc<str>,
    /// What the call is about, once it has started.
    pub subject: Option<Arc<str>>,
    /// The units that it started, in declared order.
    pub children: Vec<UnitId>,
}

impl OpenCall {
    /// Tells whether the call began to run.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.subject.is_some()
    }
}

impl Work {
    /// Returns the end of a unit that stopped here.
    #[must_use]
    pub fn ended(&self, outcome: Outcome) -> UnitEnd {
        UnitEnd {
            outcome,
            text: Arc::clone(&self.text),
            usage: self.usage,
            turns: self.turns,
            tool_uses: self.tool_uses,
            duration_ms: self.started.map_or(0, |started| self.last_sign.since(started)),
            output_file: None,
            share: self.share,
        }
    }

    /// Tells whether it ever started.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.started.is_some() || self.was_lost
    }

    /// It was lost, and is to begin anew. What it used stays used.
    pub(super) fn lost(&mut self) {
        let Self { usage, tool_uses, .. } = std::mem::take(self);
        *self = Self { was_lost: true, usage, tool_uses, ..Self::default() };
    }

    pub(super) fn begins(&mut self, at: UnixMillis) {
        self.started = Some(at);
        self.last_sign = at;
    }

    /// Takes note of an event of the unit's own doing.
    pub(super) fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnStarted { turn } => self.turns = *turn,
            EventKind::PrefixShared(prefix) => {
                self.share = Some(ForkShare { prefix: *prefix, cached_tokens: 0 });
            }
            EventKind::Compacted(compaction) => self.usage += compaction.usage,
            EventKind::RequestFailed(failed) => self.usage += failed.usage,
            EventKind::Replied(replied) => self.replies(replied),
            EventKind::ToolStarted { call, tool, subject, confinement: _ } => {
                if let Some(open) = self.open.iter_mut().find(|open| open.id == *call) {
                    open.tool = Arc::clone(tool);
                    open.subject = Some(Arc::clone(subject));
                }
            }
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::InvocationEnded(_) => return,
        }
        self.last_sign = event.at;
    }

    fn replies(&mut self, replied: &Replied) {
        if let Some(share) = self.share.as_mut().filter(|_| self.turns == 1) {
            share.cached_tokens = replied.usage.cache_read;
        }
        self.usage += replied.usage;
        if !replied.reply.text.trim().is_empty() {
            self.text = replied.reply.text.as_str().into();
        }
        let calls = &replied.reply.calls;
        let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        self.tool_uses = self.tool_uses.saturating_add(count);
        self.open.extend(calls.iter().map(|call| OpenCall {
            id: call.id.clone(),
            tool: call.tool.as_str().into(),
            arguments: call.arguments.as_str().into(),
            subject: None,
            children: Vec::new(),
        }));
    }

    /// Takes the call that has its output now.
    pub(super) fn closes(&mut self, id: &str) -> Option<OpenCall> {
        let place = self.open.iter().position(|call| &*call.id.0 == id)?;
        Some(self.open.remove(place))
    }
}
