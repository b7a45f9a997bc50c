//! What steps that need no model compute, and what they are given for it.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::event::FailureKind;

/// Makes the value of a step without a model.
///
/// It is called on a thread that may block, and is not stopped when the flow is
/// cancelled: it should take no longer than people would wait. If it panics, its
/// step fails.
pub trait Compute: fmt::Debug + Send + Sync {
    /// Names the steps whose results it looks at. They must have ended before
    /// it, as those that a text names.
    fn reads(&self) -> &[&str] {
        &[]
    }

    /// Tells whether its value is read as text, too: behind it in a prompt, or as what
    /// the flow comes to. What is only gone through item by item need not be written
    /// out as a whole.
    fn is_text(&self) -> bool {
        true
    }

    /// Makes the value.
    ///
    /// # Errors
    ///
    /// The step fails like this.
    fn compute(&self, given: &Given) -> Result<Value, Fault>;
}

/// Why there is no value of a step that needs no model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What sort of failure it is: where the step is the last one, the flow's.
    pub kind: FailureKind,
    /// What went wrong.
    pub message: String,
    /// What there is to read all the same, as the last words of whoever walks
    /// the flow.
    pub text: Option<Arc<str>>,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self { kind: FailureKind::Setup, message, text: None }
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Self::from(message.to_owned())
    }
}

/// What there is where a step stands: as much as a text may name there.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub(super) inputs: Value,
    pub(super) steps: Value,
    pub(super) item: Option<Value>,
    pub(super) index: Option<usize>,
    pub(super) round: Option<u32>,
}

impl Given {
    /// Returns an input of the flow; `None` if it has none of this name.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&Value> {
        self.inputs.get(name)
    }

    /// Returns what a step came to, as texts read it; `None` unless it is one
    /// that [`Compute::reads`] names.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Value> {
        self.steps.get(name)
    }

    /// Returns the item of the nearest `for_each` around the step, and its index
    /// from 0.
    #[must_use]
    pub fn item(&self) -> Option<(&Value, usize)> {
        self.item.as_ref().zip(self.index)
    }

    /// Returns the round of the nearest `until` around the step, from 1.
    #[must_use]
    pub fn round(&self) -> Option<u32> {
        self.round
    }
}
