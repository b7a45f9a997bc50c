//! Flows: steps that the runtime walks, and no model.
//!
//! A [`Step`] is an agent, steps in order or side by side, a step for each item
//! of an array, until or when a condition holds, a flow of its own, or a value
//! that the program makes. A [`Flow`] gives one a name and inputs, and has
//! checked that its texts name what is there. [`walk()`] runs it over the same
//! pool, the same slots and the same dispatcher as the calls of models do. Which
//! step sees which other is decided by the tree alone: branches fork where steps
//! part and join where they come together, and the tokens for all of it are
//! drawn in declared order before anything runs, whatever the timing.

mod bounds;
mod called;
mod error;
pub mod file;
mod finished;
mod given;
mod inputs;
mod names;
mod step;
mod text;
mod tree;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use error::{FlowError, InputError, StepPlace, TextError, TextPlace};
pub use finished::Finished;
pub use given::{Compute, Fault, Given};
pub use inputs::{Input, InputValues, Supplied};
pub use step::{
    AgentStep, Computed, Each, GiveUpRule, Inner, OnError, Passed, Sees, Step, StepLimits, Steps,
    Until, When,
};
pub use text::{Expression, GLOBALS, Template, Wording};
pub use tree::Shown;
pub use walk::{Walk, walk};

/// How the failure of a step begins whose prompt does not fit what is filled in.
pub const UNFILLED: &str = "its prompt cannot be put together";

/// Most agents, sequences and parallels of one flow, as many as one batch may
/// have slots.
pub const STEPS_CAP: u32 = 100_000;

/// How deep steps may stand in one another. People nest two or three levels;
/// a walk goes down by recursion.
pub const NESTING_CAP: u32 = 32;

/// Most items that one `for_each` is walked for, as many as one batch may have
/// slots.
pub const ITEMS_CAP: u32 = STEPS_CAP;

/// The items that one `for_each` is walked for if nothing else is said: more
/// agents than that are started on purpose, or by mistake.
pub const ITEMS: u32 = 100;

/// Most rounds of one `until`. What does not come to its end in that many comes
/// to none.
pub const ROUNDS_CAP: u32 = 1_000;

/// Most branches that may part in one flow: more than any walk has time for, and
/// few enough that no invocation runs out of tokens.
pub const TOKENS_CAP: u64 = 1 << 40;

/// Most characters of a step's name. It stands in lines that people read.
pub const NAME_CAP: usize = 64;

/// Most bytes of all inputs together, as JSON. They stand in one line of the
/// log, escaped once more.
pub const INPUTS_CAP: usize = 8 * 1024 * 1024;

/// Most bytes of a prompt that was filled in, or of an input of a nested flow: no
/// model's context holds more.
pub const RENDERED_CAP: usize = 4 * 1024 * 1024;

/// A flow. A value of this type can always be walked.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    name: Arc<str>,
    description: Arc<str>,
    inputs: Vec<Input>,
    step: Step,
    /// The steps whose results texts read. Those of all others are not kept: a
    /// flow over ten thousand rows must not hold ten thousand answers.
    kept: BTreeSet<Arc<str>>,
    /// What must hold once it has been walked; `None` if its last step says all.
    success: Option<Success>,
}

/// What must hold once a flow has been walked. Its last step may say well what went
/// wrong, and has done its work then.
#[derive(Debug, Clone, PartialEq)]
pub struct Success {
    /// The condition.
    pub condition: Expression,
    /// What has gone wrong if it does not hold, in words for people; `None` if that
    /// is the condition itself.
    pub otherwise: Option<Arc<str>>,
}

impl Flow {
    /// A flow of steps, once all their texts are found to name what is there.
    ///
    /// # Errors
    ///
    /// Everything that is wrong: names that no text could use or that two steps
    /// share, and texts that name what is not there, or not yet.
    pub fn new(
        name: impl Into<Arc<str>>,
        description: impl Into<Arc<str>>,
        inputs: Vec<Input>,
        step: Step,
    ) -> Result<Self, Vec<FlowError>> {
        Self::succeeding_if(None, (name.into(), description.into()), inputs, step)
    }

    /// A flow that fails unless something holds once all of it has been walked.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`]; what must hold may name each step that is there behind
    /// the last one.
    pub fn succeeding_if(
        success: Option<Success>,
        (name, description): (Arc<str>, Arc<str>),
        inputs: Vec<Input>,
        step: Step,
    ) -> Result<Self, Vec<FlowError>> {
        let condition = success.as_ref().map(|success| &success.condition);
        let kept = names::check(&inputs, &step, condition)?;
        Ok(Self { name, description, inputs, step, kept, success })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns what it is for, in words for people.
    #[must_use]
    pub fn description(&self) -> &Arc<str> {
        &self.description
    }

    /// Returns its inputs, in declared order.
    #[must_use]
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns its one step.
    #[must_use]
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Returns what must hold once it has been walked.
    #[must_use]
    pub fn success(&self) -> Option<&Success> {
        self.success.as_ref()
    }

    /// Tells whether texts read what a step of this name came to.
    #[must_use]
    pub fn keeps(&self, name: &str) -> bool {
        self.kept.contains(name)
    }

    /// Tells whether any of its agents is told of others.
    #[must_use]
    pub fn sees_others(&self) -> bool {
        self.step.sees_others()
    }
}
