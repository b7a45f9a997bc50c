//! Questions that only a person may answer.

use std::sync::Arc;

use super::{Confinement, Seq};
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
    /// Yes, and to all like it of this unit's batch.
    ForBatch,
    /// Yes, and to all like it for the rest of the session.
    ForSession,
    /// Yes, and to all like it from now on: a rule is in the user's settings.
    Always,
    /// The user said no.
    No,
    /// The user said no, and what to do instead.
    NoBecause(Arc<str>),
    /// There was nobody to ask.
    NobodyToAsk,
    /// The unit ended before there was an answer.
    Withdrawn,
}

impl Verdict {
    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::ForBatch => "yes_for_batch",
            Self::ForSession => "yes_for_session",
            Self::Always => "yes_always",
            Self::No => "no",
            Self::NoBecause(_) => "no_because",
            Self::NobodyToAsk => "nobody_to_ask",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Reads a name written by [`Verdict::as_str`]. `message` is what the user
    /// said with a no.
    #[must_use]
    pub fn from_name(name: &str, message: Option<Arc<str>>) -> Option<Self> {
        let plain = [
            Self::Yes,
            Self::ForBatch,
            Self::ForSession,
            Self::Always,
            Self::No,
            Self::NobodyToAsk,
            Self::Withdrawn,
        ];
        match message {
            Some(message) => {
                Some(Self::NoBecause(message)).filter(|verdict| verdict.as_str() == name)
            }
            None => plain.into_iter().find(|verdict| verdict.as_str() == name),
        }
    }

    /// Tells whether the unit may do what it asked for.
    #[must_use]
    pub fn is_yes(&self) -> bool {
        match self {
            Self::Yes | Self::ForBatch | Self::ForSession | Self::Always => true,
            Self::No | Self::NoBecause(_) | Self::NobodyToAsk | Self::Withdrawn => false,
        }
    }
}
