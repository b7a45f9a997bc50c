//! Questions that only a person may answer.

use super::Seq;

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
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The user said yes.
    Yes,
    /// The user said no.
    No,
    /// There was nobody to ask.
    NobodyToAsk,
    /// The unit ended before there was an answer.
    Withdrawn,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Self; 4] = [Self::Yes, Self::No, Self::NobodyToAsk, Self::Withdrawn];

    /// Returns the name used in records and in the log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NobodyToAsk => "nobody_to_ask",
            Self::Withdrawn => "withdrawn",
        }
    }
}
