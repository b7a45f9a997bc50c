//! A session as a trace: who did what from when to when, and what hung on what.
//!
//! A [`Trace`] is a fold over the events of a log: units with what they were
//! doing at each time, what happened in them as [`Span`]s with the texts that
//! were said, where branches split and joined. What follows from that (what a
//! prompt took, its critical path) is `course`; `record`, `perfetto` and `page`
//! write it. Nothing here reads a file or a clock.

mod course;
mod fold;
mod page;
mod perfetto;
mod record;
mod text;
mod unit;

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{
    Failure, Invocation, Seq, SessionHead, UnitHead, UnitId, UnitState, UnixMillis,
};
use crate::message::{CallId, Usage};

use super::usage::Spent;

pub use course::{Course, Leg, LegKind};
pub use page::Reach;
pub use text::{Label, Said, TEXT_CAP, TEXTS_CAP};

/// What every form of a trace has near its beginning.
pub const MARK: &str = "tine-trace";

/// Whose trace it is, beside what its log says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceFacts {
    /// The session's id, for a log that has lost its beginning.
    pub session: Arc<str>,
    /// What people call the session.
    pub name: Option<Arc<str>>,
    /// The time, if a process still writes the log; `None` if nobody does.
    pub now: Option<UnixMillis>,
    /// How many lines of the log could not be read.
    pub bad_lines: u64,
    /// How many events a later tine may know.
    pub unknown_events: u64,
}

/// What happened in a session.
#[derive(Debug, Default)]
pub struct Trace {
    head: Option<SessionHead>,
    first: Option<UnixMillis>,
    /// The time of the last event. It never goes back, whatever the clock did.
    now: UnixMillis,
    /// The last time at which the process that wrote is known to have lived.
    alive: UnixMillis,
    last: Seq,
    prompts: Vec<PromptTrace>,
    /// In the order they were declared; main first.
    units: Vec<UnitTrace>,
    places: HashMap<UnitId, usize>,
    spans: Vec<Span>,
    meetings: Vec<Meeting>,
    texts: text::Budget,
}

/// A prompt and all that followed from it.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptTrace {
    /// Its number within the session.
    pub invocation: Invocation,
    /// What was typed.
    pub prompt: Said,
    /// When.
    pub from: UnixMillis,
    /// When it was over; `None` if it is not.
    pub to: Option<UnixMillis>,
    /// What became of it; `None` while it goes on.
    pub state: Option<UnitState>,
    /// Why it went wrong.
    pub failure: Option<Failure>,
    changed: Seq,
}

/// A unit and what it was doing.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitTrace {
    /// Which.
    pub id: UnitId,
    /// Who it is; `None` for main.
    pub head: Option<UnitHead>,
    /// The invocation that it was declared in.
    pub invocation: Invocation,
    /// Its tokens, as they last were, as text.
    pub tokens: String,
    /// Its path.
    pub path: Arc<str>,
    /// When it was declared.
    pub queued: UnixMillis,
    /// When it began.
    pub started: Option<UnixMillis>,
    /// When it ended.
    pub ended: Option<UnixMillis>,
    /// What it is doing, or how it ended.
    pub state: UnitState,
    /// Why it went wrong.
    pub failure: Option<Failure>,
    /// What it was doing at each time, in order.
    pub doing: Vec<Doing>,
    /// What it has used.
    pub spent: Spent,
    /// How many turns it has begun.
    pub turns: u32,
    /// How many of its calls have their output.
    pub tool_uses: u32,
    changed: Seq,
    /// What happened in it, by place in the trace.
    spans: Vec<usize>,
    /// Those it started, by place in the trace.
    children: Vec<usize>,
    open: unit::Open,
}

/// What a unit does from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doing {
    /// What it does.
    pub activity: Activity,
    /// Since when.
    pub from: UnixMillis,
    /// Until when; `None` if it still does.
    pub to: Option<UnixMillis>,
}

/// What a unit may be doing that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Waits for a permit.
    Queued,
    /// Works: asks a model, runs a tool.
    Running,
    /// Its request has to wait.
    Throttled,
    /// Waits for a person.
    Asking,
    /// Waits for units that it started.
    Waiting,
}

impl Activity {
    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Throttled, Self::Asking, Self::Waiting];

    /// Returns the name used in the trace's forms.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Throttled => "throttled",
            Self::Asking => "asking",
            Self::Waiting => "waiting",
        }
    }
}

/// Something that happened in a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its place in the trace.
    pub id: usize,
    /// Whose it is.
    pub unit: UnitId,
    /// The invocation it belongs to.
    pub invocation: Invocation,
    /// What it is.
    pub kind: SpanKind,
    /// Since when.
    pub from: UnixMillis,
    /// Until when, the same for what takes no time; `None` if it goes on.
    pub to: Option<UnixMillis>,
    /// The model of a request, the tool of a call, what a wait is for, the
    /// command of a hook, the sort of a mark.
    pub name: Arc<str>,
    /// What it is about, in a few words.
    pub about: Arc<str>,
    /// What went wrong, in a few words.
    pub failed: Option<Arc<str>>,
    /// The tokens of a request.
    pub usage: Option<Usage>,
    /// The call it belongs to.
    pub call: Option<CallId>,
    /// What was said.
    pub texts: Vec<Said>,
    changed: Seq,
}

/// What a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A message that the unit's conversation got.
    Prompt,
    /// News of other units, or messages of the user, at a turn's boundary.
    News,
    /// A request, from when it goes out to the end of its answer.
    Request,
    /// A summary that a model wrote.
    Compaction,
    /// A request that waits before it goes out.
    Wait,
    /// A tool call that runs.
    Call,
    /// A question to a person.
    Question,
    /// A hook that was asked.
    Hook,
    /// Something that takes no time: a notice, a change of a file.
    Mark,
}

impl SpanKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Prompt,
        Self::News,
        Self::Request,
        Self::Compaction,
        Self::Wait,
        Self::Call,
        Self::Question,
        Self::Hook,
        Self::Mark,
    ];

    /// Returns the name used in the trace's forms.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::News => "news",
            Self::Request => "request",
            Self::Compaction => "compaction",
            Self::Wait => "wait",
            Self::Call => "call",
            Self::Question => "question",
            Self::Hook => "hook",
            Self::Mark => "mark",
        }
    }
}

/// What happens where a unit and others meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeetingKind {
    /// Branches part from its own.
    Split,
    /// Somebody goes on where its branch is: a step of a flow.
    Step,
    /// They come back.
    Join,
}

impl MeetingKind {
    /// Returns the word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Step => "step",
            Self::Join => "join",
        }
    }
}

/// Where branches split or join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// The number of its first event; no other meeting has it.
    pub id: Seq,
    /// What happens there.
    pub kind: MeetingKind,
    /// Whose branch it is.
    pub unit: UnitId,
    /// The units that part from it or come back.
    pub children: Vec<UnitId>,
    /// The call that they part at.
    pub call: Option<CallId>,
    /// The invocation it belongs to.
    pub invocation: Invocation,
    /// When.
    pub at: UnixMillis,
    /// The tokens of the unit then, as text.
    pub tokens: String,
    changed: Seq,
}

impl Trace {
    /// Returns the number of the last event there is.
    #[must_use]
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Returns when the first event happened.
    fn first(&self) -> UnixMillis {
        self.first.unwrap_or_default()
    }

    /// Returns when what is open ends, as far as is known: now, or when the
    /// process was last alive.
    fn end(&self, facts: &TraceFacts) -> UnixMillis {
        facts.now.map_or(self.alive, |now| now.max(self.now))
    }

    fn unit(&self, id: UnitId) -> Option<&UnitTrace> {
        self.units.get(*self.places.get(&id)?)
    }
}

#[cfg(test)]
mod tests;
