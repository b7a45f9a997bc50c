//! Steps: what a flow is made of.
//!
//! They are put together with the constructors of [`Step`], which refuse what
//! could not be walked. What only a whole flow can say, which names its texts
//! may use, is checked where it becomes a [`Flow`].

mod parts;

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::error::FlowError;
use super::given::Compute;
use super::text::{Expression, Wording};
use super::{Flow, ITEMS_CAP, NESTING_CAP, ROUNDS_CAP, STEPS_CAP, TOKENS_CAP};
use crate::event::{FailureKind, Outcome};
use crate::tool::{AnswerSchema, Isolation};

/// One step of a flow. A value of this type can be walked, if its texts name
/// what is there: see [`Flow::new`].
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// One agent.
    Agent(AgentStep),
    /// Steps in order: each goes on where the one before it ended.
    Sequence(Steps),
    /// Steps side by side, which see nothing of each other.
    Parallel(Steps),
    /// The same step for each item of an array, side by side.
    Each(Each),
    /// A step that is walked again until a condition holds.
    Until(Until),
    /// A step that is walked only if a condition holds.
    When(When),
    /// A flow of its own, with a scope of its own.
    Inner(Inner),
    /// A value that the program makes, without a model.
    Computed(Computed),
}

/// One agent of a flow.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStep {
    /// Its name, by which later steps know it.
    pub name: Arc<str>,
    /// The agent definition it follows. If there is none of that name the step
    /// fails when it is its turn.
    pub agent: Arc<str>,
    /// Whether that is the built-in one, whatever has taken its place: a flow of
    /// the program means what it was written for.
    pub is_built_in: bool,
    /// The whole task.
    pub prompt: Wording,
    /// What it is told of the steps before it.
    pub sees: Sees,
    /// The model to use instead of the definition's.
    pub model: Option<Arc<str>>,
    /// Its bounds.
    pub limits: StepLimits,
    /// What its answer must fit; then texts may read that as its `value`.
    pub schema: Option<Arc<AnswerSchema>>,
    /// What keeps its changes from others, instead of the definition's.
    pub isolation: Option<Isolation>,
    /// What its failure means for the flow.
    pub on_error: OnError,
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

/// What the failure of a step means for its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The flow goes on, and what comes behind the step reads what became of
    /// it.
    #[default]
    Continue,
    /// It is the flow's failure, too: what stands beside the step comes to its
    /// end, and nothing behind it starts.
    Stop,
    /// As [`Self::Stop`] if the provider refuses the key, as [`Self::Continue`] else:
    /// for many that ask with the same key. No file says so.
    StopIfRefused,
}

impl OnError {
    /// Returns what tells of an agent's end whether nothing behind it starts.
    #[must_use]
    pub fn closes(self) -> fn(&Outcome) -> bool {
        match self {
            Self::Continue => |outcome| Self::Continue.stops_after(outcome),
            Self::Stop => |outcome| Self::Stop.stops_after(outcome),
            Self::StopIfRefused => |outcome| Self::StopIfRefused.stops_after(outcome),
        }
    }

    /// Tells whether nothing behind an agent starts that has ended like that.
    #[must_use]
    pub fn stops_after(self, outcome: &Outcome) -> bool {
        match self {
            Self::Continue => false,
            Self::Stop => !matches!(outcome, Outcome::Done { .. }),
            Self::StopIfRefused => matches!(
                outcome,
                Outcome::Failed(failure) if failure.kind == FailureKind::Authentication
            ),
        }
    }
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
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    pub(super) name: Option<Arc<str>>,
    steps: Vec<Step>,
    /// How many branches fork in them.
    forks: u64,
    /// How many steps they are, with all that are inside them and the one they
    /// are the steps of.
    whole: u32,
    /// How many levels they have.
    levels: u32,
}

/// The same step for each item of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Each {
    pub(super) name: Arc<str>,
    pub(super) items: Expression,
    pub(super) max_items: NonZeroU32,
    pub(super) body: Box<Step>,
    pub(super) gives_up: Option<GiveUpRule>,
}

/// Rule for giving up the items of a step that all fail alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GiveUpRule {
    /// Number of items that have to fail in the same way, before any other ends.
    pub after: NonZeroU32,
    /// Advice for people, added to the notice.
    pub hint: Arc<str>,
}

/// A step that is walked again until a condition holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Until {
    pub(super) condition: Expression,
    pub(super) max_rounds: NonZeroU32,
    pub(super) body: Box<Step>,
}

/// A step that is walked only if a condition holds.
#[derive(Debug, Clone, PartialEq)]
pub struct When {
    pub(super) condition: Expression,
    pub(super) body: Box<Step>,
}

/// A flow as a step of another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Inner {
    pub(super) name: Arc<str>,
    pub(super) flow: Arc<Flow>,
    pub(super) inputs: Vec<(Arc<str>, Passed)>,
    pub(super) on_error: OnError,
}

/// What a nested flow is given as an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Passed {
    /// Words of the outer flow's scope. They are parsed if the input takes JSON.
    Words(Wording),
    /// A value as it is.
    Value(Value),
}

/// A value that the program makes, without a model.
#[derive(Debug, Clone)]
pub struct Computed {
    pub(super) name: Arc<str>,
    pub(super) compute: Arc<dyn Compute>,
    pub(super) on_error: OnError,
}

impl PartialEq for Computed {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.compute, &other.compute);
        self.name == other.name && self.on_error == other.on_error && is_same
    }
}

impl AgentStep {
    /// An agent that sees what its branch lets it see, has the run's own bounds
    /// and does not end its flow.
    pub fn new(
        name: impl Into<Arc<str>>,
        agent: impl Into<Arc<str>>,
        prompt: impl Into<Wording>,
    ) -> Self {
        Self {
            name: name.into(),
            agent: agent.into(),
            is_built_in: false,
            prompt: prompt.into(),
            sees: Sees::default(),
            model: None,
            limits: StepLimits::default(),
            schema: None,
            isolation: None,
            on_error: OnError::default(),
        }
    }
}

impl From<AgentStep> for Step {
    fn from(step: AgentStep) -> Self {
        Self::Agent(step)
    }
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
        let forks = forks_in(&steps).saturating_add(steps.len() as u64);
        Steps::new(steps, forks).map(Self::Parallel)
    }

    /// The same step for each item of the array that `items` gives, as many at
    /// once as there is room in the pool. If there are more than `max_items`
    /// none is walked, and the step fails.
    ///
    /// # Errors
    ///
    /// It may have more than [`ITEMS_CAP`] items, or with its body it is too
    /// much for a flow.
    pub fn each(
        name: impl Into<Arc<str>>,
        items: Expression,
        max_items: NonZeroU32,
        body: Self,
    ) -> Result<Self, FlowError> {
        if max_items.get() > ITEMS_CAP {
            return Err(FlowError::TooManyItems);
        }
        let (name, body) = (name.into(), Box::new(body));
        Self::Each(Each { name, items, max_items, body, gives_up: None }).within_caps()
    }

    /// A step that is walked once, and then again until `condition` holds. If
    /// it does not after `max_rounds` the step fails.
    ///
    /// # Errors
    ///
    /// It may have more than [`ROUNDS_CAP`] rounds, or with its body it is too
    /// much for a flow.
    pub fn until(
        condition: Expression,
        max_rounds: NonZeroU32,
        body: Self,
    ) -> Result<Self, FlowError> {
        if max_rounds.get() > ROUNDS_CAP {
            return Err(FlowError::TooManyRounds);
        }
        Self::Until(Until { condition, max_rounds, body: Box::new(body) }).within_caps()
    }

    /// A step that is walked only if `condition` holds before it.
    ///
    /// # Errors
    ///
    /// With its body it is too much for a flow.
    pub fn when(condition: Expression, body: Self) -> Result<Self, FlowError> {
        Self::When(When { condition, body: Box::new(body) }).within_caps()
    }

    /// A flow as a step, with these inputs.
    ///
    /// # Errors
    ///
    /// The flow does not take these inputs or wants others, or it is too much
    /// for another flow.
    pub fn inner(
        name: impl Into<Arc<str>>,
        flow: Arc<Flow>,
        inputs: Vec<(Arc<str>, Passed)>,
        on_error: OnError,
    ) -> Result<Self, FlowError> {
        flow.takes(inputs.iter().map(|(name, _)| &**name))?;
        Self::Inner(Inner { name: name.into(), flow, inputs, on_error }).within_caps()
    }

    /// A value that the program makes.
    pub fn computed(
        name: impl Into<Arc<str>>,
        compute: Arc<dyn Compute>,
        on_error: OnError,
    ) -> Self {
        Self::Computed(Computed { name: name.into(), compute, on_error })
    }

    /// Gives steps in order, or side by side, a name by which later steps know
    /// them. All other steps have one, or that of what they hold, and keep it.
    #[must_use]
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        let named = |steps: Steps| Steps { name: Some(name.into()), ..steps };
        match self {
            Self::Sequence(steps) => Self::Sequence(named(steps)),
            Self::Parallel(steps) => Self::Parallel(named(steps)),
            Self::Agent(_)
            | Self::Each(_)
            | Self::Until(_)
            | Self::When(_)
            | Self::Inner(_)
            | Self::Computed(_) => self,
        }
    }

    /// Returns the name by which later steps know it.
    #[must_use]
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::Agent(step) => Some(&step.name),
            Self::Sequence(steps) | Self::Parallel(steps) => steps.name.as_ref(),
            Self::Each(each) => Some(&each.name),
            Self::Until(until) => until.body.name(),
            Self::When(when) => when.body.name(),
            Self::Inner(inner) => Some(&inner.name),
            Self::Computed(computed) => Some(&computed.name),
        }
    }

    /// Tells whether any of its agents is told of others.
    #[must_use]
    pub fn sees_others(&self) -> bool {
        match self {
            Self::Agent(step) => step.sees == Sees::Visible,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.iter().any(Self::sees_others),
            Self::Each(Each { body, .. })
            | Self::Until(Until { body, .. })
            | Self::When(When { body, .. }) => body.sees_others(),
            Self::Inner(inner) => inner.flow.sees_others(),
            Self::Computed(_) => false,
        }
    }

    /// Returns how many branches may fork in it: as many tokens it needs.
    #[must_use]
    pub fn forks(&self) -> u64 {
        match self {
            Self::Agent(_) | Self::Computed(_) => 0,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.forks,
            Self::Each(Each { max_items, body, .. }) => {
                u64::from(max_items.get()).saturating_mul(body.forks().saturating_add(1))
            }
            Self::Until(Until { max_rounds, body, .. }) => {
                u64::from(max_rounds.get()).saturating_mul(body.forks())
            }
            Self::When(when) => when.body.forks(),
            Self::Inner(inner) => inner.flow.step().forks(),
        }
    }

    /// Returns how many steps it is, with all inside it. A condition, or what
    /// walks a step several times, is none of its own.
    #[must_use]
    pub fn whole(&self) -> u32 {
        match self {
            Self::Agent(_) | Self::Computed(_) => 1,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.whole,
            Self::Each(Each { body, .. })
            | Self::Until(Until { body, .. })
            | Self::When(When { body, .. }) => body.whole(),
            Self::Inner(inner) => inner.flow.step().whole().saturating_add(1),
        }
    }

    /// Returns what its failure means for its flow.
    #[must_use]
    pub fn on_error(&self) -> OnError {
        match self {
            Self::Agent(step) => step.on_error,
            // Each of their steps says so for itself.
            Self::Sequence(_) | Self::Parallel(_) => OnError::Continue,
            Self::Each(Each { body, .. })
            | Self::Until(Until { body, .. })
            | Self::When(When { body, .. }) => body.on_error(),
            Self::Inner(inner) => inner.on_error,
            Self::Computed(computed) => computed.on_error,
        }
    }

    fn levels(&self) -> u32 {
        match self {
            Self::Agent(_) | Self::Computed(_) => 1,
            Self::Sequence(steps) | Self::Parallel(steps) => steps.levels,
            Self::Each(Each { body, .. })
            | Self::Until(Until { body, .. })
            | Self::When(When { body, .. }) => body.levels() + 1,
            Self::Inner(inner) => inner.flow.step().levels() + 1,
        }
    }

    fn within_caps(self) -> Result<Self, FlowError> {
        check_caps(self.whole(), self.levels(), self.forks()).map(|()| self)
    }
}

fn forks_in(steps: &[Step]) -> u64 {
    steps.iter().map(Step::forks).fold(0, u64::saturating_add)
}

fn check_caps(whole: u32, levels: u32, forks: u64) -> Result<(), FlowError> {
    if whole > STEPS_CAP {
        return Err(FlowError::TooMany);
    }
    if levels > NESTING_CAP {
        return Err(FlowError::TooDeep);
    }
    if forks > TOKENS_CAP {
        return Err(FlowError::TooManyTokens);
    }
    Ok(())
}

impl Steps {
    fn new(steps: Vec<Step>, forks: u64) -> Result<Self, FlowError> {
        let whole = steps.iter().map(Step::whole).fold(1, u32::saturating_add);
        let levels = 1 + steps.iter().map(Step::levels).max().ok_or(FlowError::Empty)?;
        check_caps(whole, levels, forks)?;
        Ok(Self { name: None, steps, forks, whole, levels })
    }

    /// Returns the steps, in declared order.
    pub fn iter(&self) -> std::slice::Iter<'_, Step> {
        self.steps.iter()
    }

    /// Returns how many there are, without what is inside them.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.steps.len()).expect("there are no more than a flow may have")
    }
}

#[cfg(test)]
mod tests;
