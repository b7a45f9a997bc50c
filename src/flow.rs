//! Flows: steps that the runtime walks, and no model.
//!
//! A [`Step`] is an agent, steps in order, or steps side by side. [`walk()`] runs
//! a whole tree of them over the same pool, the same slots and the same
//! dispatcher as the calls of models do. Which step sees which other is decided
//! by the tree alone: branches fork where steps part and join where they come
//! together, and the tokens for all of it are drawn in declared order before
//! anything runs, whatever the timing.

mod walk;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::event::Origin;
use crate::fanout::Job;
use crate::tool::{Task, TaskKind, Typed};

pub use walk::walk;

/// Most agents, sequences and parallels of one flow, as many as one batch may
/// have slots.
pub const STEPS_CAP: u32 = 100_000;

/// How deep steps may stand in one another. People nest two or three levels;
/// a walk goes down by recursion.
pub const NESTING_CAP: u32 = 32;

/// One step of a flow. A value of this type can always be walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One agent.
    Agent(AgentStep),
    /// Steps in order: each goes on where the one before it ended.
    Sequence(Steps),
    /// Steps side by side, which see nothing of each other.
    Parallel(Steps),
}

/// One agent of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStep {
    /// Its name, by which later steps know it.
    pub name: Arc<str>,
    /// The agent definition it follows. If there is none of that name the step
    /// fails when it is its turn.
    pub agent: Arc<str>,
    /// The whole task.
    pub prompt: Arc<str>,
    /// What it is told of the steps before it.
    pub sees: Sees,
    /// The model to use instead of the definition's.
    pub model: Option<Arc<str>>,
    /// Its bounds.
    pub limits: StepLimits,
}

/// What an agent of a flow is told of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sees {
    /// What its branch lets it see: what the user asked for, and all that the
    /// steps before it said, found and failed at.
    #[default]
    Visible,
    /// Its own prompt and nothing else.
    Nothing,
}

/// The bounds of one agent of a flow; `None` means the run's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepLimits {
    /// Most turns.
    pub max_turns: Option<u32>,
    /// Most tokens of it and all it starts.
    pub max_tokens: Option<NonZeroU64>,
    /// Most time from its start.
    pub timeout: Option<Duration>,
}

/// At least one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    steps: Vec<Step>,
    /// How many branches fork in them.
    forks: u32,
    /// How many steps they are, with all that are inside them and the one they
    /// are the steps of.
    whole: u32,
    /// How many levels they have.
    levels: u32,
}

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
}

impl Step {
    /// Steps in order.
    ///
    /// # Errors
    ///
    /// There are none, too many, or they are nested too deep.
    pub fn sequence(steps: Vec<Self>) -> Result<Self, FlowError> {
        let forks = forks_in(&steps);
        Steps::new(steps, forks).map(Self::Sequence)
    }

    /// Steps side by side.
    ///
    /// # Errors
    ///
    /// As for [`Step::sequence`].
    pub fn parallel(steps: Vec<Self>) -> Result<Self, FlowError> {
        let own = u32::try_from(steps.len()).map_err(|_| FlowError::TooMany)?;
        let forks = forks_in(&steps).saturating_add(own);
        Steps::new(steps, forks).map(Self::Parallel)
    }

    /// Tells whether any of its agents is told of others.
    #[must_use]
    pub fn sees_others(&self) -> bool {
        match self {
            Self::Agent(step) => step.sees == Sees::Visible,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.iter().any(Self::sees_others),
        }
    }

    /// Returns how many branches fork in it: as many tokens it needs.
    fn forks(&self) -> u32 {
        match self {
            Self::Agent(_) => 0,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.forks,
        }
    }

    /// Returns how many steps it is, with all inside it.
    fn whole(&self) -> u32 {
        match self {
            Self::Agent(_) => 1,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.whole,
        }
    }

    fn levels(&self) -> u32 {
        match self {
            Self::Agent(_) => 1,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.levels,
        }
    }
}

fn forks_in(steps: &[Step]) -> u32 {
    steps.iter().map(Step::forks).fold(0, u32::saturating_add)
}

impl Steps {
    fn new(steps: Vec<Step>, forks: u32) -> Result<Self, FlowError> {
        let whole = steps.iter().map(Step::whole).fold(1, u32::saturating_add);
        let levels = 1 + steps.iter().map(Step::levels).max().ok_or(FlowError::Empty)?;
        if whole > STEPS_CAP {
            return Err(FlowError::TooMany);
        }
        if levels > NESTING_CAP {
            return Err(FlowError::TooDeep);
        }
        Ok(Self { steps, forks, whole, levels })
    }

    /// Returns the steps, in declared order.
    pub fn iter(&self) -> std::slice::Iter<'_, Step> {
        self.steps.iter()
    }

    /// Returns how many there are, without what is inside them.
    fn count(&self) -> u32 {
        u32::try_from(self.steps.len()).expect("there are no more than a flow may have")
    }

    /// Returns the last step and all before it.
    fn split_last(&self) -> (&Step, &[Step]) {
        self.steps.split_last().expect("steps are made of at least one")
    }
}

impl AgentStep {
    fn job(&self) -> Job {
        let agent = Arc::clone(&self.agent);
        let typed =
            Arc::new(Typed { agent, model: self.model.clone(), tools: None, followed: None });
        let task = Task {
            description: Arc::clone(&self.name),
            prompt: Arc::clone(&self.prompt),
            kind: TaskKind::Typed(Arc::clone(&typed)),
            max_turns: self.limits.max_turns,
            max_tokens: self.limits.max_tokens,
            timeout: self.limits.timeout,
            isolation: None,
            is_background: false,
            schema: None,
        };
        Job::Typed { task, typed }
    }

    fn origin(&self) -> Origin {
        match self.sees {
            Sees::Visible => Origin::Visible,
            Sees::Nothing => Origin::Prompt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, sees: Sees) -> Step {
        Step::Agent(AgentStep {
            name: name.into(),
            agent: "explore".into(),
            prompt: "look".into(),
            sees,
            model: None,
            limits: StepLimits::default(),
        })
    }

    fn agents(count: u32) -> Vec<Step> {
        (0..count).map(|number| agent(&number.to_string(), Sees::Nothing)).collect()
    }

    #[test]
    fn steps_without_a_step_are_refused() {
        assert_eq!(Step::sequence(Vec::new()), Err(FlowError::Empty));
        assert_eq!(Step::parallel(Vec::new()), Err(FlowError::Empty));
    }

    #[test]
    fn more_steps_than_the_cap_are_refused_wherever_they_stand() {
        let half = Step::parallel(agents(STEPS_CAP / 2 - 1)).unwrap();
        assert!(Step::sequence(vec![half.clone(), agent("last", Sees::Nothing)]).is_ok());
        assert_eq!(Step::sequence(vec![half.clone(), half]), Err(FlowError::TooMany));
        assert_eq!(Step::parallel(agents(STEPS_CAP)), Err(FlowError::TooMany));
    }

    #[test]
    fn steps_nested_too_deep_are_refused() {
        let mut step = agent("inmost", Sees::Nothing);
        for _ in 1..NESTING_CAP {
            step = Step::sequence(vec![step]).unwrap();
        }
        assert_eq!(Step::sequence(vec![step]), Err(FlowError::TooDeep));
    }

    #[test]
    fn a_flow_sees_others_if_one_of_its_agents_does() {
        let nothing = Step::parallel(agents(3)).unwrap();
        assert!(!nothing.sees_others());
        let steps = vec![nothing, agent("last", Sees::Visible)];
        assert!(Step::sequence(steps).unwrap().sees_others());
    }

    #[test]
    fn each_step_of_a_parallel_forks_and_those_inside_it_too() {
        let inner = Step::parallel(agents(3)).unwrap();
        let group = Step::sequence(vec![inner, agent("reducer", Sees::Visible)]).unwrap();
        let outer = Step::parallel(vec![group.clone(), group]).unwrap();
        assert_eq!(outer.forks(), 8);
    }
}
