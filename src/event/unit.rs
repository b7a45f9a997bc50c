//! The units of a session: who they are, what state they are in, how they end.

use std::fmt;
use std::sync::Arc;

use crate::message::{CallId, Usage};

/// Names a unit within its session. 0 is the main conversation; the others are
/// numbered in the order they were declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

impl UnitId {
    /// The main conversation.
    pub const MAIN: Self = Self(0);

    /// Reads a name written by `Display`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name.strip_prefix("agent-") {
            Some(number) => number.parse().ok().map(Self),
            None => (name == "main").then_some(Self::MAIN),
        }
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAIN { f.write_str("main") } else { write!(f, "agent-{}", self.0) }
    }
}

/// Where a slot stands in its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPosition {
    /// From 0, in the order of `tasks[]`.
    pub index: u32,
    /// How many slots the batch has.
    pub total: u32,
}

/// Who a unit is, from the moment it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitHead {
    /// What it is for, in the caller's words.
    pub description: Arc<str>,
    /// The agent definition it follows.
    pub agent: Arc<str>,
    /// The call that declared it; `None` if the user or a flow did.
    pub call: Option<CallId>,
    /// The unit that started it.
    pub parent: UnitId,
    /// 1 for a child of the main conversation.
    pub depth: u32,
    /// Its place in the batch; `None` for a single call.
    pub slot: Option<SlotPosition>,
    /// What its conversation begins with.
    pub origin: Origin,
    /// Whether its parent goes on while it runs.
    pub is_background: bool,
    /// The unit whose place in the batch it takes, because the user wants that
    /// task to be run again.
    pub again: Option<UnitId>,
    /// Which step of a flow it is; `None` for all that no flow asked for.
    pub step: Option<StepMark>,
}

impl UnitHead {
    /// Tells whether it is an agent. A unit that only holds the branch of steps
    /// is none, and people are not told of it as one.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        match self.origin {
            Origin::Prompt
            | Origin::Visible
            | Origin::Fork
            | Origin::Continued(_)
            | Origin::Reused(_) => true,
            Origin::Steps => false,
        }
    }
}

/// Which step of a flow a unit is, and what it was asked for there: by these a
/// later walk of the flow knows what need not run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepMark {
    /// Its place in the flow, such as `review[3]/verify#2`: the item of a
    /// `for_each` stands in brackets, the round of an `until` behind a `#`.
    pub key: Arc<str>,
    /// Names all that makes up what it is asked for.
    pub digest: StepDigest,
}

/// A hash of what a step is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StepDigest(pub u128);

impl StepDigest {
    /// Reads what `Display` writes.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for StepDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What a flow is walked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowHead {
    /// The flow's name.
    pub name: Arc<str>,
    /// The values of its inputs: a JSON object.
    pub inputs: Arc<str>,
    /// How many steps are declared in it.
    pub steps: u32,
    /// Whether it goes on with an earlier walk of the session: what was said in
    /// those of the same name is not told to its agents once more.
    pub goes_on: bool,
}

/// What a unit's conversation begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Its own prompt.
    #[default]
    Prompt,
    /// What its branch lets it see of other units, then its own prompt.
    Visible,
    /// Its parent's conversation up to the answer that made the call, or all
    /// of it if there was no call; then its own prompt.
    Fork,
    /// The whole conversation of a unit that had ended, then a message to it.
    Continued(UnitId),
    /// Nothing: it asks no model. It holds the branch of steps of a flow, and
    /// no permit.
    Steps,
    /// Nothing: it asks no model, for an earlier walk of its flow had its
    /// answer from this unit.
    Reused(UnitId),
}

impl Origin {
    /// Tells whether a unit that begins so asks a model: whatever others do is
    /// no work of theirs.
    #[must_use]
    pub fn asks(self) -> bool {
        match self {
            Self::Prompt | Self::Visible | Self::Fork | Self::Continued(_) => true,
            Self::Steps | Self::Reused(_) => false,
        }
    }
}

/// How much of a fork's first request its parent had sent before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixShare {
    /// The bytes that are the same from the first one on.
    pub shared_bytes: u64,
    /// The bytes of the whole request.
    pub total_bytes: u64,
}

/// What a fork's first request has saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkShare {
    /// How much of it its parent had sent before.
    pub prefix: PrefixShare,
    /// The tokens of it that the provider read from its cache; 0 if it does
    /// not say, or has not answered.
    pub cached_tokens: u64,
}

/// The states of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum UnitState {
    /// Waits for a permit.
    #[default]
    Queued,
    /// Works.
    Running,
    /// Works, but its request has to wait.
    Throttled,
    /// Works, but has to wait for a person's answer.
    AwaitingApproval,
    /// Ended well.
    Completed,
    /// Ended in an error of its own.
    Failed,
    /// Was cancelled while it ran.
    Cancelled,
    /// Was cancelled before it started.
    Skipped,
    /// The process that it ran in ended.
    Interrupted,
}

impl UnitState {
    /// Tells whether a unit in this state does nothing any more.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::Throttled | Self::AwaitingApproval => false,
            Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::Skipped
            | Self::Interrupted => true,
        }
    }

    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Running,
        Self::Throttled,
        Self::AwaitingApproval,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
        Self::Interrupted,
    ];

    /// Returns the state in DESIGN's words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Throttled => "throttled",
            Self::AwaitingApproval => "awaiting_approval",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Returns the state of a batch as a whole: running while any slot is under
/// way, else cancelled, failed or completed, whichever any slot is first.
#[must_use]
pub fn batch_state(slots: impl IntoIterator<Item = UnitState>) -> UnitState {
    let rank = |state: &UnitState| match state {
        UnitState::Completed => 0,
        UnitState::Failed => 1,
        UnitState::Cancelled | UnitState::Skipped | UnitState::Interrupted => 2,
        UnitState::Queued
        | UnitState::Running
        | UnitState::Throttled
        | UnitState::AwaitingApproval => 3,
    };
    match slots.into_iter().max_by_key(rank) {
        Some(
            UnitState::Queued
            | UnitState::Running
            | UnitState::Throttled
            | UnitState::AwaitingApproval,
        ) => UnitState::Running,
        Some(UnitState::Cancelled | UnitState::Skipped | UnitState::Interrupted) => {
            UnitState::Cancelled
        }
        Some(UnitState::Failed) => UnitState::Failed,
        Some(UnitState::Completed) | None => UnitState::Completed,
    }
}

/// What became of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It gave its answer, and the answer is whole.
    Done {
        /// The answer.
        text: Arc<str>,
    },
    /// It went wrong; the others go on.
    Failed(Failure),
    /// It was cancelled.
    Cancelled {
        /// Whether it had started.
        ran: bool,
    },
    /// The process that it ran in ended: tine's, as was found when the session
    /// was opened again, or its worker's, with which another unit was lost
    /// that had started it.
    Interrupted,
}

impl Outcome {
    /// A failure of the given kind.
    pub fn failed(kind: FailureKind, message: impl Into<Arc<str>>) -> Self {
        Self::Failed(Failure { kind, message: message.into() })
    }

    /// Returns the state a unit with this outcome is in.
    #[must_use]
    pub fn state(&self) -> UnitState {
        match self {
            Self::Done { text: _ } => UnitState::Completed,
            Self::Failed(_) => UnitState::Failed,
            Self::Cancelled { ran: true } => UnitState::Cancelled,
            Self::Cancelled { ran: false } => UnitState::Skipped,
            Self::Interrupted => UnitState::Interrupted,
        }
    }
}

/// Why a unit went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure it is; decides the exit code.
    pub kind: FailureKind,
    /// The real error, in words.
    pub message: Arc<str>,
}

/// The sorts of failure that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The provider refused the key.
    Authentication,
    /// The provider refused the request for good.
    Request,
    /// The conversation is longer than the model's context window, also after
    /// a compaction.
    Overflow,
    /// The provider or the way to it failed; later it may work.
    Provider,
    /// The unit reached its turn limit.
    MaxTurns,
    /// The unit and all it started reached a limit on money.
    Budget,
    /// The unit and all it started reached a limit on tokens.
    MaxTokens,
    /// The unit and all it started reached a limit on tool calls.
    MaxToolCalls,
    /// The unit made the same call over and over, always with the same output.
    Loop,
    /// The unit ran past its time limit.
    Timeout,
    /// The unit could not be set up.
    Setup,
    /// The unit's code panicked.
    Panic,
    /// Units that it had started in the background did not end in time.
    Unfinished,
    /// A hook ended it.
    Hook,
    /// The unit gave no answer that fits its schema.
    StructuredOutput,
    /// The unit's answer stops at the model's output limit.
    OutputLimit,
    /// The provider withheld the unit's answer, or the rest of it.
    Refusal,
    /// The unit's answer has no text.
    EmptyAnswer,
    /// A flow came to its end, and not to what it was walked for.
    Unmet,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 19] = [
        Self::Authentication,
        Self::Request,
        Self::Overflow,
        Self::Provider,
        Self::MaxTurns,
        Self::Budget,
        Self::MaxTokens,
        Self::MaxToolCalls,
        Self::Loop,
        Self::Timeout,
        Self::Setup,
        Self::Panic,
        Self::Unfinished,
        Self::Hook,
        Self::StructuredOutput,
        Self::OutputLimit,
        Self::Refusal,
        Self::EmptyAnswer,
        Self::Unmet,
    ];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Request => "request",
            Self::Overflow => "context_overflow",
            Self::Provider => "provider",
            Self::MaxTurns => "max_turns",
            Self::Budget => "budget",
            Self::MaxTokens => "max_tokens",
            Self::MaxToolCalls => "max_tool_calls",
            Self::Loop => "loop_detected",
            Self::Timeout => "timeout",
            Self::Setup => "setup",
            Self::Panic => "panic",
            Self::Unfinished => "unfinished",
            Self::Hook => "hook",
            Self::StructuredOutput => "structured_output",
            Self::OutputLimit => "output_limit",
            Self::Refusal => "refusal",
            Self::EmptyAnswer => "empty_answer",
            Self::Unmet => "unmet",
        }
    }
}

/// How a unit ended and what it had done by then.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitEnd {
    /// What became of it.
    pub outcome: Outcome,
    /// The last text its model wrote; with a bad outcome, the partial result.
    pub text: Arc<str>,
    /// The tokens of all its requests.
    pub usage: Usage,
    /// How many turns it took; in its last attempt, if it was lost before.
    pub turns: u32,
    /// How many tool calls it made.
    pub tool_uses: u32,
    /// From its last start to its end, in milliseconds; 0 if it did not start,
    /// or not again after it was lost.
    pub duration_ms: u64,
    /// The file that holds its whole text, if one was written.
    pub output_file: Option<Arc<str>>,
    /// For a fork that sent a request: how much of it its parent had sent.
    pub share: Option<ForkShare>,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_row_of_the_fixture_gives_its_batch_state() {
        let fixtures: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
        let state = |name: &Value| {
            UnitState::ALL.into_iter().find(|state| Some(state.as_str()) == name.as_str()).unwrap()
        };
        let rows = fixtures["batch_aggregate"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        for row in rows {
            let slots = row["slots"].as_array().unwrap().iter().map(state);
            assert_eq!(batch_state(slots), state(&row["status"]), "{row}");
        }
    }

    #[test]
    fn a_slot_that_waits_or_never_ran_counts_too() {
        use UnitState::{Cancelled, Completed, Queued, Running, Skipped};
        assert_eq!(batch_state([Completed, Queued]), Running);
        assert_eq!(batch_state([Completed, Skipped]), Cancelled);
    }
}
