//! What happens in a session, as plain numbered values.
//!
//! An [`Event`] is what the log keeps and what every view is folded from: the
//! model's prompt, the terminal, the JSON records, the result. It holds no
//! channels and no handles. A [`Delta`] is a glimpse of an event still being
//! made (streamed text): shown, never kept.

mod change;
mod confinement;
mod form;
mod hook;
mod offered;
mod question;
mod request;
#[cfg(test)]
pub(crate) mod testing;
mod turn;
mod unit;

use std::fmt;
use std::sync::Arc;

use crate::branch::Branch;
use crate::message::{CallId, Output, Prompt, Reply, StopReason, Usage};

pub use change::{ChangedBy, Digest, FileChange, FileState, LINK_MODE, Worktree};
pub use confinement::{Access, Backend, Confinement, Insistence, NetworkAccess, SandboxHead};
pub use form::{Choice, Entry, Field, Form, Takes};
pub use hook::{HookDecision, HookEvent, HookOutcome, HookRan};
pub use offered::{Offered, OfferedTool, ServerGlance, ServerStatus};
pub use question::{CallQuestion, Lasting, Question, QuestionId, Terms, Verdict};
pub use request::{AfterFailure, RequestFailed, ThrottleCause, Throttled};
pub use turn::snap_to_turn_start;
pub use unit::{
    Failure, FailureKind, FlowHead, ForkShare, Origin, Outcome, PrefixShare, SlotPosition,
    StepDigest, StepMark, UnitEnd, UnitHead, UnitId, UnitState, batch_state,
};

/// Milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Returns the milliseconds from `earlier` to this time, 0 if the clock
    /// went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Names a session: a UUID, written in the usual form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub Arc<str>);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of an event within its session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Seq(pub u64);

/// The number of an invocation within its session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Invocation(pub u32);

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number within the session.
    pub seq: Seq,
    /// When the dispatcher took note of it.
    pub at: UnixMillis,
    /// The invocation it belongs to.
    pub invocation: Invocation,
    /// The unit it happened in.
    pub unit: UnitId,
    /// Who may see it.
    pub branch: Branch,
    /// What happened.
    pub kind: EventKind,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// A session was created. Always the first event of a log.
    SessionOpened(SessionHead),
    /// The user asked for something.
    InvocationStarted {
        /// What the user typed.
        prompt: Arc<str>,
        /// What a client calls the message; `None` if it has no name for it.
        message: Option<Arc<str>>,
    },
    /// A unit's conversation got a user message: all of it, as the model reads
    /// it.
    Prompted(Prompt),
    /// A unit's conversation got news at a turn's boundary: ends of units it
    /// started in the background, messages that were sent to it. Their
    /// `Joined` stands before it. One of no unit and no message reminds the
    /// unit of what its answer must be.
    Notified {
        /// The units whose ends were told.
        children: Vec<UnitId>,
        /// The whole message, as the model reads it.
        text: Arc<str>,
        /// How many of the user's messages that waited it holds, oldest first.
        wrote: u32,
    },
    /// The user wrote to the main conversation. The message waits there until
    /// a `Notified` holds it or the user takes it back.
    UserWrote {
        /// What the user typed.
        text: Arc<str>,
    },
    /// The user took back all messages that waited.
    UserTookBack,
    /// A unit's conversation was replaced by a summary.
    Compacted(Arc<Compaction>),
    /// A unit was declared and waits for a permit.
    UnitQueued(UnitHead),
    /// A unit got its permit and runs.
    UnitStarted,
    /// A unit that ran on a worker is lost with it: it waits again, to be run
    /// from its beginning. What it used stays used.
    Lost {
        /// The worker.
        worker: Arc<str>,
        /// Which attempt at the unit that was, from 1.
        attempt: u32,
    },
    /// A unit is about to send a request.
    TurnStarted {
        /// The turn's number within the unit, from 1.
        turn: u32,
    },
    /// A fork's first request was put together.
    PrefixShared(PrefixShare),
    /// A unit's request waits in the gate. Its `Admitted` follows, unless the
    /// unit ends before.
    Throttled(Throttled),
    /// A unit's request goes out after it had to wait: in the gate, or for
    /// another attempt.
    Admitted {
        /// How long it waited, in milliseconds.
        waited_ms: u64,
    },
    /// A unit's request failed.
    RequestFailed(Arc<RequestFailed>),
    /// A model answered.
    Replied(Replied),
    /// A tool call began to run.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool's own name (not an alias the model used).
        tool: Arc<str>,
        /// What the call is about, in a few words: a path, a command.
        subject: Arc<str>,
        /// How it is kept in bounds; `None` if it runs no command.
        confinement: Option<Confinement>,
    },
    /// A unit is about to change a file.
    FileChanged(Arc<FileChange>),
    /// Something became of a unit's own worktree.
    Worktree(Worktree),
    /// A tool call has its output. Every call of a reply gets exactly one,
    /// whether or not it ever ran.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The tool's own name.
        tool: Arc<str>,
        /// What the model reads.
        output: Arc<Output>,
        /// How long it ran, in milliseconds.
        took_ms: u64,
    },
    /// The guard refused a call. Its `ToolFinished` follows.
    Denied {
        /// The call.
        call: CallId,
        /// The tool's own name.
        tool: Arc<str>,
        /// The arguments, as the model wrote them.
        arguments: Arc<str>,
        /// Why, in words for the model and for people.
        reason: Arc<str>,
    },
    /// A person is asked something by a unit. Its `Answered` follows, whatever
    /// comes of it, unless the process dies.
    Asked {
        /// The question's own number.
        id: QuestionId,
        /// What it asks.
        question: Question,
    },
    /// A question is closed. Where there is nobody to ask it was never asked,
    /// and this is all there is of it.
    Answered {
        /// Which one.
        id: QuestionId,
        /// What was asked.
        question: Question,
        /// What became of it.
        answer: Verdict,
    },
    /// A unit ended. Exactly one for each queued unit.
    UnitEnded(Arc<UnitEnd>),
    /// A unit waits no more for units that it had started to wait for: from
    /// here on they run beside it.
    SetAside {
        /// The units.
        units: Vec<UnitId>,
    },
    /// The main conversation is again what it was after an earlier event. It
    /// never goes back behind its last summary.
    Rewound {
        /// The event.
        to: Seq,
    },
    /// A flow is walked from here on. It stands behind what the user asked for.
    Walked(Arc<FlowHead>),
    /// A unit's branch took in those of its children. The event's own branch
    /// is the joined one.
    Joined {
        /// The units that came back.
        children: Vec<UnitId>,
    },
    /// Something people should know that is no part of the conversation.
    Notice {
        /// How much it matters.
        level: NoticeLevel,
        /// One sentence.
        text: Arc<str>,
    },
    /// The invocation is over. Always the last event of main in it; units that
    /// run beside main may go on.
    InvocationEnded(Arc<InvocationEnd>),
    /// From here on main answers otherwise than the session began, or than was
    /// chosen last.
    Chosen(Chosen),
    /// The process left the session, in which nothing was at work any more.
    Left,
    /// A hook was asked. What it adds for a model stands in the event that
    /// brings it there: a prompt, an output.
    HookRan(Arc<HookRan>),
    /// Servers of tools offer something to the main conversation. A prompt's
    /// comes before all that its main does.
    Offered(Arc<Offered>),
}

impl EventKind {
    /// Returns what servers of tools offer, if it is that.
    #[must_use]
    pub fn offered(&self) -> Option<&Offered> {
        if let Self::Offered(offered) = self { Some(offered) } else { None }
    }
}

/// What main answers with, as a person may choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its model.
    pub model: Arc<str>,
    /// The permission mode's name.
    pub mode: Arc<str>,
}

/// How a session began.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionHead {
    /// The session's id.
    pub session: SessionId,
    /// The version of tine that wrote the log.
    pub version: Arc<str>,
    /// The working directory, as text.
    pub cwd: Arc<str>,
    /// The model of the main conversation.
    pub model: Arc<str>,
    /// The permission mode's name.
    pub mode: Arc<str>,
    /// The session that this one began as a copy of.
    pub forked_from: Option<SessionId>,
    /// What commands were to be kept in; `None` in older logs.
    pub sandbox: Option<SandboxHead>,
}

/// How a conversation was replaced by a summary.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// Who asked for it.
    pub trigger: CompactionTrigger,
    /// The message that stands for what was summed up, as the model reads it.
    pub text: Arc<str>,
    /// How many user messages, counted from the last, are kept as they were,
    /// each with all that followed it.
    pub kept_prompts: u32,
    /// The tokens of the conversation before; an estimate where the provider
    /// does not count.
    pub tokens_before: u64,
    /// An estimate of the tokens of the conversation after.
    pub tokens_after: u64,
    /// The model that wrote the summary.
    pub model: Arc<str>,
    /// What that cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// Who asked for a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionTrigger {
    /// The conversation came near the end of the model's context window.
    Auto,
    /// The user.
    Manual,
}

impl CompactionTrigger {
    /// Every trigger.
    pub const ALL: [Self; 2] = [Self::Auto, Self::Manual];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
        }
    }
}

/// A model's answer and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Replied {
    /// What it said.
    pub reply: Arc<Reply>,
    /// The model that said it, as configured.
    pub model: Arc<str>,
    /// The tokens of this one request; zeros where the provider did not say.
    pub usage: Usage,
    /// Why it stopped.
    pub stop: StopReason,
    /// From sending the request to the end of the answer, in milliseconds.
    pub took_ms: u64,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Something is not as asked for.
    Warning,
}

impl NoticeLevel {
    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
        }
    }
}

/// How an invocation ended.
#[derive(Debug, Clone, PartialEq)]
pub struct InvocationEnd {
    /// What became of the main unit.
    pub outcome: Outcome,
    /// The text main had written when it ended badly; the result text when it
    /// ended well.
    pub text: Arc<str>,
    /// The harshest cancel that was asked for, if any.
    pub cancel: Option<CancelReason>,
    /// Units that had not ended by themselves when the invocation did.
    pub unfinished: Vec<UnitId>,
}

/// Why units are being cancelled. Later variants are harsher; a reason is
/// never replaced by a milder one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CancelReason {
    /// The user ended the turn, or with a second SIGINT everything.
    Interrupt,
    /// Nobody reads the output any more.
    OutputGone,
    /// The terminal went away: SIGHUP.
    Hangup,
    /// The process was told to end: SIGTERM.
    Terminate,
}

impl CancelReason {
    /// Every reason, mildest first.
    pub const ALL: [Self; 4] = [Self::Interrupt, Self::OutputGone, Self::Hangup, Self::Terminate];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::OutputGone => "output_gone",
            Self::Hangup => "hangup",
            Self::Terminate => "terminate",
        }
    }
}

/// A piece of an answer that is still being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The unit whose model writes.
    pub unit: UnitId,
    /// What it wrote.
    pub piece: Piece,
}

/// What a model writes piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A piece of its answer.
    Text(Arc<str>),
    /// A piece of its reasoning.
    Thinking(Arc<str>),
}
