//! What steps that need no model compute, and what they are given for it.

use std::fmt;

use serde_json::Value;

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

    /// Makes the value.
    ///
    /// # Errors
    ///
    /// The step fails with this message.
    fn compute(&self, given: &Given) -> Result<Value, String>;
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
