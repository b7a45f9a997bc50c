//! Questions that only a person may answer.

use std::sync::Arc;

use super::{Confinement, Entry, Form, Seq};
use crate::message::CallId;

/// Names a question within its session: the number of the first event about it.
/// So what is typed for a question that has since gone is not taken for an
/// answer to the one now on screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuestionId(pub Seq);

/// What a unit asks before it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Whether it may start so many agents with one call.
    Batch {
        /// How many.
        slots: u32,
    },
    /// Whether a call may run.
    Call(Arc<CallQuestion>),
    /// What a person says to this.
    Form(Arc<Form>),
}

/// A call that may run only if a person says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallQuestion {
    /// The call.
    pub call: CallId,
    /// The tool's own name.
    pub tool: Arc<str>,
    /// What the call is about, whole: a path, a command.
    pub subject: Arc<str>,
    /// The arguments, as the model wrote them.
    pub arguments: Arc<str>,
    /// Why it is asked, in words for people.
    pub reason: Arc<str>,
    /// The narrowest rules that would allow the call and others like it; empty
    /// if no rule is sensible, and then the answer holds for this call only.
    pub rules: Vec<Arc<str>>,
    /// How a command would be confined after a yes; `None` if nothing is run.
    pub confinement: Option<Confinement>,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The user said yes, to this question.
    Yes,
    /// Yes, but on other terms than it was asked on.
    YesWith(Arc<Terms>),
    /// Yes, and to all like it of this unit's batch.
    ForBatch,
    /// Yes, and to all like it for the rest of the session.
    ForSession,
    /// Yes, and to all like it from now on: its rules go into the user's
    /// settings.
    Always,
    /// What was said to this question holds for it, too: nobody was asked
    /// again.
    Covered(QuestionId),
    /// What the user said to a form, field by field.
    Filled(Arc<[Entry]>),
    /// The user said no.
    No,
    /// The user said no, and what to do instead.
    NoBecause(Arc<str>),
    /// There was nobody to ask.
    NobodyToAsk,
    /// The unit ended before there was an answer.
    Withdrawn,
}

/// What a yes allows, where that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The arguments that the call runs with; `None` for its own.
    pub arguments: Option<Arc<str>>,
    /// For how long the rules hold.
    pub lasting: Lasting,
    /// What is allowed besides the call.
    pub rules: Vec<Arc<str>>,
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lasting {
    /// For the one call.
    Once,
    /// For the batch of the unit that asked, and what its units start.
    Batch,
    /// For every unit, for the rest of the session.
    Session,
    /// From now on.
    Always,
}

impl Lasting {
    /// Every one, shortest first.
    pub const ALL: [Self; 4] = [Self::Once, Self::Batch, Self::Session, Self::Always];

    /// Returns the name used in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Batch => "batch",
            Self::Session => "session",
            Self::Always => "always",
        }
    }
}

impl Verdict {
    /// Those that are no more than their names.
    pub const PLAIN: [Self; 7] = [
        Self::Yes,
        Self::ForBatch,
        Self::ForSession,
        Self::Always,
        Self::No,
        Self::NobodyToAsk,
        Self::Withdrawn,
    ];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::YesWith(_) => "yes_with",
            Self::ForBatch => "yes_for_batch",
            Self::ForSession => "yes_for_session",
            Self::Always => "yes_always",
            Self::Covered(_) => "covered",
            Self::Filled(_) => "filled",
            Self::No => "no",
            Self::NoBecause(_) => "no_because",
            Self::NobodyToAsk => "nobody_to_ask",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Tells whether the unit may do what it asked for.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        match self {
            Self::Yes
            | Self::YesWith(_)
            | Self::ForBatch
            | Self::ForSession
            | Self::Always
            | Self::Covered(_)
            | Self::Filled(_) => true,
            Self::No | Self::NoBecause(_) | Self::NobodyToAsk | Self::Withdrawn => false,
        }
    }

    /// Returns which rules it allows besides the call that was asked about, and
    /// for how long; `None` if there are none.
    #[must_use]
    pub fn grant<'a>(&'a self, asked: &'a CallQuestion) -> Option<(Lasting, &'a [Arc<str>])> {
        let (lasting, rules) = match self {
            Self::YesWith(terms) => (terms.lasting, &terms.rules),
            Self::ForBatch => (Lasting::Batch, &asked.rules),
            Self::ForSession => (Lasting::Session, &asked.rules),
            Self::Always => (Lasting::Always, &asked.rules),
            Self::Yes
            | Self::Covered(_)
            | Self::Filled(_)
            | Self::No
            | Self::NoBecause(_)
            | Self::NobodyToAsk
            | Self::Withdrawn => return None,
        };
        (lasting > Lasting::Once && !rules.is_empty()).then_some((lasting, rules))
    }
}
