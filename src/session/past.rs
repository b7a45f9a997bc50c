//! What a session has come to: one pass over its log.
//!
//! A [`Past`] holds what a run needs to go on and nothing else: the main
//! conversation since its last summary, what is still open, what was never
//! told. It says nothing of what to do about it, and it is a fold: events that
//! are appended to the log later are taken the same way.

mod conversation;
mod fold;
mod work;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::line::{self, Peek};
use super::log::LogError;
use super::read::{Entry, read};
use crate::branch::{Branch, RootJoins, Token};
use crate::event::{
    Chosen, EventKind, Invocation, OfferedTool, Outcome, QuestionId, Seq, SessionHead, UnitEnd,
    UnitHead, UnitId, UnitState,
};
use crate::message::CallId;

use conversation::Conversation;
pub use work::{OpenCall, Work};

/// The output of a call that had started when its process ended.
pub const CUT_OFF: &str = include_str!("../../prompts/interrupted.md").trim_ascii_end();

/// The output of a call that had not started when its process ended.
pub const NOT_RUN: &str = include_str!("../../prompts/not_run.md").trim_ascii_end();

/// The largest number that an event, a unit or an invocation of a log may
/// have. A log that was tampered with can so not use up the numbers that are
/// still to be given.
const NUMBER_LIMIT: u32 = u32::MAX / 2;

/// Maximum number of background units whose ends are kept after main has received them.
/// Each may be a long answer, and an old one is seldom asked for again.
const HEARD_CAP: usize = 256;

/// Most rules that are taken for allowed. A person allows a few; past this
/// they are asked again.
const GRANTED_CAP: usize = 1_000;

/// What a session has come to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Past {
    head: Option<SessionHead>,
    /// What was chosen last for main, if that was not as the session began.
    chosen: Option<Chosen>,
    /// The model of main's last answer, or the one that was chosen since.
    model: Option<Arc<str>>,
    last: Seq,
    largest_unit: u32,
    invocations: BTreeMap<Invocation, PastInvocation>,
    joins: RootJoins,
    main: Work,
    conversation: Conversation,
    units: BTreeMap<UnitId, PastUnit>,
    /// Background units of main whose ends main has received: the last [`HEARD_CAP`].
    /// Its conversation may still name them.
    heard: BTreeMap<UnitId, PastUnit>,
    account: Account,
    /// Who started each of the units that are told of there.
    parents: BTreeMap<UnitId, UnitId>,
    granted: BTreeMap<Arc<str>, QuestionId>,
    /// The tools of servers that main's conversation has.
    offered: Option<Arc<[OfferedTool]>>,
    /// How many messages of the user main has not read.
    waiting: u32,
    bad_lines: u64,
}

/// What an invocation has come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastInvocation {
    /// The largest token that any of its strands has.
    pub largest: Option<Token>,
    /// Whether it began and has no end.
    pub is_open: bool,
}

/// A unit that something is still to be done about: it has no end, or its end
/// was not told.
#[derive(Debug, Clone, PartialEq)]
pub struct PastUnit {
    /// Who it is.
    pub head: UnitHead,
    /// The invocation whose tokens its branch is made of.
    pub invocation: Invocation,
    /// Its branch, as it last was.
    pub branch: Branch,
    /// What it has done.
    pub work: Work,
    /// Its end, if it has one.
    pub end: Option<Arc<UnitEnd>>,
    /// Whether its parent's branch has taken in its own.
    pub is_joined: bool,
    /// What its parent has heard of its end, if it runs beside it.
    pub told: Told,
    /// Whether it started units that run beside it.
    has_aside: bool,
}

/// What a parent has heard of the end of a unit that ran beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Told {
    /// Nothing.
    #[default]
    No,
    /// It is about to be told, by the output of a call that is not there yet.
    Soon,
    /// All of it.
    Yes,
}

/// What became of the last invocation, for people.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// What the user asked for last; empty if nothing was ever asked.
    pub prompt: Arc<str>,
    /// How it ended; `None` if it did not.
    pub outcome: Option<Outcome>,
    /// Its agents and those that worked beside it, in the order they were
    /// declared: what each was for and its state. What only holds the branch of
    /// steps is not among them.
    pub units: BTreeMap<UnitId, (Arc<str>, UnitState)>,
    /// Calls that were cut off while they ran.
    pub cut_off: Vec<CutOff>,
}

/// A call that was cut off while it ran: what it did is unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct CutOff {
    /// Whose it was.
    pub unit: UnitId,
    /// The call.
    pub call: CallId,
    /// The tool's own name; may be anything.
    pub tool: Arc<str>,
    /// What it was about; may be anything.
    pub subject: Arc<str>,
}

impl Past {
    /// Reads the log of a session directory.
    ///
    /// Lines that cannot be read are skipped and counted.
    ///
    /// # Errors
    ///
    /// Only if the log cannot be opened.
    pub fn read(directory: &Path) -> Result<Self, LogError> {
        let mut past = Self::default();
        let mut entries = read(directory)?;
        while let Some(entry) = entries.next_where(|text| match line::peek(text) {
            Ok(peek) => !past.skim(&peek),
            Err(_) => true,
        }) {
            match entry {
                Entry::Event(event) if is_in_range(event.seq, event.unit, event.invocation) => {
                    past.take(&event);
                }
                Entry::Event(_) | Entry::Bad { .. } => past.bad_lines += 1,
                Entry::Unknown { .. } => {}
            }
        }
        Ok(past)
    }

    /// Takes what matters of a line of which the body does not; `false` if the
    /// body may matter.
    fn skim(&mut self, peek: &Peek<'_>) -> bool {
        if !is_in_range(peek.seq, peek.unit, peek.invocation) {
            return false;
        }
        self.saw(peek.seq, peek.unit, peek.invocation, peek.tokens.largest());
        let is_main = peek.unit == UnitId::MAIN;
        match &*peek.kind {
            "prompted" | "notified" => !is_main,
            "denied" | "notice" => true,
            "tool_finished" if !is_main => match peek.finished() {
                Some(finished) => {
                    self.finished(peek.unit, &finished.call, finished.has_text(CUT_OFF));
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Tells whether nothing at all is known of the session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last == Seq(0)
    }

    /// Returns how the session began; `None` if that line is damaged.
    #[must_use]
    pub fn head(&self) -> Option<&SessionHead> {
        self.head.as_ref()
    }

    /// Returns what main was to answer with in the end; `None` if the line that
    /// says it is damaged.
    #[must_use]
    pub fn chosen(&self) -> Option<Chosen> {
        let first = || {
            let SessionHead { model, mode, .. } = self.head.as_ref()?;
            Some(Chosen { model: Arc::clone(model), mode: Arc::clone(mode) })
        };
        self.chosen.clone().or_else(first)
    }

    /// Returns the model that main last used, as configured.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        let first = self.head.as_ref().map(|head| &head.model);
        self.model.as_ref().or(first).map(|model| &**model)
    }

    /// Returns the number of the last event.
    #[must_use]
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Returns the name of the next unit.
    #[must_use]
    pub fn next_unit(&self) -> UnitId {
        UnitId(self.largest_unit + 1)
    }

    /// Returns the invocations by their numbers.
    #[must_use]
    pub fn invocations(&self) -> &BTreeMap<Invocation, PastInvocation> {
        &self.invocations
    }

    /// Returns what the root branch has joined in each invocation.
    #[must_use]
    pub fn joins(&self) -> &RootJoins {
        &self.joins
    }

    /// Returns what the main conversation has done in the last invocation.
    #[must_use]
    pub fn main(&self) -> &Work {
        &self.main
    }

    /// Returns what the main conversation's history is folded from, oldest
    /// first. Every call in it that is not open has its output.
    #[must_use]
    pub fn conversation(&self) -> &[EventKind] {
        self.conversation.events()
    }

    /// Returns the calls of main that a summary has replaced: their ids are
    /// taken.
    #[must_use]
    pub fn summed_up_calls(&self) -> &[CallId] {
        self.conversation.summed_up_calls()
    }

    /// Returns the units that something is still to be done about.
    #[must_use]
    pub fn units(&self) -> &BTreeMap<UnitId, PastUnit> {
        &self.units
    }

    /// Returns the units that main started in the background and whose ends it
    /// has not heard.
    pub fn untold(&self) -> impl Iterator<Item = (UnitId, &PastUnit)> {
        self.units.iter().filter(|(_, unit)| unit.is_untold()).map(|(&id, unit)| (id, unit))
    }

    /// Returns the background units of main whose ends it has received, as far as they
    /// are kept.
    pub fn received_units(&self) -> impl Iterator<Item = (UnitId, &PastUnit)> {
        self.heard.iter().map(|(&id, unit)| (id, unit))
    }

    /// Returns the tools of servers that main's conversation has; `None` if
    /// none were ever offered to it.
    #[must_use]
    pub fn offered(&self) -> Option<&Arc<[OfferedTool]>> {
        self.offered.as_ref()
    }

    /// Tells whether the model has answered in main's conversation, so that what
    /// its requests begin with is to stay.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        let is_answer = |kind: &EventKind| matches!(kind, EventKind::Replied(_));
        self.conversation.events().iter().any(is_answer)
    }

    /// Returns the rules that people have allowed for the whole session, each
    /// with the question whose answer did.
    #[must_use]
    pub fn granted(&self) -> &BTreeMap<Arc<str>, QuestionId> {
        &self.granted
    }

    /// Returns how many messages the user wrote to main that it has not read.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Returns the last event that main's conversation can go back behind: its
    /// last summary, since what that replaced is held no more.
    #[must_use]
    pub fn rewinds_to(&self) -> Seq {
        self.conversation.rewinds_to()
    }

    /// Tells whether every call that main had made by an event had its output by
    /// then, too.
    #[must_use]
    pub fn was_settled_after(&self, event: Seq) -> bool {
        self.conversation.was_settled_after(event)
    }

    /// Returns what became of the last invocation.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns how many lines of the log could not be read.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad_lines
    }
}

fn is_in_range(seq: Seq, unit: UnitId, invocation: Invocation) -> bool {
    seq.0 <= u64::from(NUMBER_LIMIT) << 31 && unit.0 <= NUMBER_LIMIT && invocation.0 <= NUMBER_LIMIT
}

#[cfg(test)]
mod tests;
