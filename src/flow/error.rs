//! What can be wrong with a flow, its texts and what it is given.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::bounds::{ELIF_CAP, PIECE_CAP};
use super::text::TEXT_CAP;
use super::{INPUTS_CAP, ITEMS_CAP, NAME_CAP, NESTING_CAP, ROUNDS_CAP, STEPS_CAP, TOKENS_CAP};

/// Why steps cannot be walked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// There are none.
    #[error("a sequence or a parallel has at least one step, but this one has none")]
    Empty,
    /// There are too many.
    #[error("a flow has at most {STEPS_CAP} steps; start the rest from another one")]
    TooMany,
    /// They stand too deep in one another.
    #[error("steps stand at most {NESTING_CAP} deep in one another")]
    TooDeep,
    /// A `for_each` may have too many items.
    #[error("`max_items` is at most {ITEMS_CAP}")]
    TooManyItems,
    /// An `until` may have too many rounds.
    #[error("`max_rounds` is at most {ROUNDS_CAP}")]
    TooManyRounds,
    /// All its items, rounds and parallels together are too many.
    #[error(
        "at most {TOKENS_CAP} branches may part in a flow; lower `max_items` or `max_rounds` \
         where steps stand in one another"
    )]
    TooManyTokens,
    /// A step's name is none that a text could use.
    #[error(
        "`{name}` is no name for a step: it takes letters, digits and `_`, no digit in front, and \
         at most {NAME_CAP} of them"
    )]
    NoName {
        /// The name.
        name: Arc<str>,
        /// Where the step stands.
        at: StepPlace,
    },
    /// Two steps have the same name.
    #[error("two steps are called `{name}`; later steps would not know which one is meant")]
    Twice {
        /// The name.
        name: Arc<str>,
        /// Where the second one stands.
        at: StepPlace,
    },
    /// A text names something that is not there.
    #[error("{} names `{name}`: {why}", whose(text, step))]
    Names {
        /// The step, by its name or its kind.
        step: Arc<str>,
        /// Where it stands.
        at: StepPlace,
        /// Which of its texts.
        text: TextPlace,
        /// What it names.
        name: String,
        /// Why that is not there, and what is.
        why: String,
    },
    /// It is given what it cannot take.
    #[error(transparent)]
    Input(#[from] InputError),
}

impl FlowError {
    /// Returns where the step stands that is wrong; `None` if it is the steps
    /// that were put together last.
    #[must_use]
    pub fn at(&self) -> Option<&StepPlace> {
        match self {
            Self::NoName { at, .. } | Self::Twice { at, .. } | Self::Names { at, .. } => Some(at),
            Self::Empty
            | Self::TooMany
            | Self::TooDeep
            | Self::TooManyItems
            | Self::TooManyRounds
            | Self::TooManyTokens
            | Self::Input(_) => None,
        }
    }
}

/// Where a step stands in its flow: its number among the steps of a sequence or
/// parallel, from 0, behind the numbers of those around it. What walks a step
/// several times, or on a condition, stands where that step does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepPlace(pub Vec<usize>);

/// Which text of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPlace {
    /// Its prompt.
    Prompt,
    /// What gives its items.
    ForEach,
    /// What must hold in the end.
    Until,
    /// What must hold before.
    When,
    /// An input of the flow that it is.
    Input(Arc<str>),
    /// None: the program reads it.
    Computation,
    /// What must hold once the whole flow has been walked.
    Success,
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prompt => f.write_str("the prompt"),
            Self::ForEach => f.write_str("`for_each`"),
            Self::Until => f.write_str("`until`"),
            Self::When => f.write_str("`when`"),
            Self::Input(name) => write!(f, "the input `{name}`"),
            Self::Computation => f.write_str("the computation"),
            Self::Success => f.write_str("`succeeds_if`"),
        }
    }
}

/// Why a template or an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextError {
    /// It does not follow the grammar.
    #[error("{message} (line {line})")]
    Syntax {
        /// From 1, within the text.
        line: u32,
        /// What is wrong there.
        message: String,
    },
    /// It is too long.
    #[error("it has {length} bytes; at most {TEXT_CAP} are read")]
    TooLong {
        /// How long it is.
        length: usize,
    },
    /// An expression, or what stands between two marks, is too long.
    #[error("an expression of it has {length} bytes; at most {PIECE_CAP} are read")]
    PieceTooLong {
        /// How long it is.
        length: usize,
    },
    /// There are too many alternatives in it.
    #[error("it has more than {ELIF_CAP} `{{% elif %}}`")]
    TooManyElifs,
}

/// Why a flow does not take what it is given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputError {
    /// It has no such input.
    #[error("there is no input `{name}`{}", among(known))]
    Unknown {
        /// What it was given.
        name: String,
        /// What there is.
        known: Vec<Arc<str>>,
    },
    /// It must be given an input.
    #[error("the input `{name}` must be given")]
    Missing {
        /// The input.
        name: Arc<str>,
    },
    /// It is given the same input twice.
    #[error("the input `{name}` is given twice")]
    Twice {
        /// The input.
        name: String,
    },
    /// An input takes JSON, and this is none.
    #[error("the input `{name}` takes JSON: {reason}")]
    NoJson {
        /// The input.
        name: Arc<str>,
        /// What is wrong with it.
        reason: String,
    },
    /// They are too long.
    #[error("all inputs together have {length} bytes as JSON; at most {INPUTS_CAP} are taken")]
    TooLong {
        /// How long they are.
        length: usize,
    },
}

/// Says which text it is. What must hold once all is walked belongs to no step.
fn whose(text: &TextPlace, step: &str) -> String {
    match text {
        TextPlace::Success => format!("{text} of the flow"),
        TextPlace::Prompt
        | TextPlace::ForEach
        | TextPlace::Until
        | TextPlace::When
        | TextPlace::Input(_)
        | TextPlace::Computation => format!("{text} of `{step}`"),
    }
}

fn among(known: &[Arc<str>]) -> String {
    match known {
        [] => "; the flow has none".to_owned(),
        known => format!("; there are {}", listed(known)),
    }
}

/// Lists names as people read them.
pub(super) fn listed<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
