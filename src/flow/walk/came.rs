//! What a step came to: for the flow, for the steps behind it, and for texts
//! that read it.

use std::sync::Arc;

use minijinja::value::Serde;
use minijinja::{Value, context};
use tokio_util::sync::CancellationToken;

use super::trail::Trail;
use crate::event::{Failure, FailureKind, Outcome, UnitEnd, UnitId, UnitState, batch_state};
use crate::flow::Flow;
use crate::flow::step::{AgentStep, Computed, Each, OnError, Step, Until, When};

/// What a step came to that was not run to its end.
pub(super) const STOPPED: Outcome = Outcome::Cancelled { ran: true };

/// What there is to read behind a step, by name.
pub(super) type Exports = Vec<(Arc<str>, Value)>;

/// What a step came to.
pub(super) struct Came {
    pub(super) outcome: Outcome,
    /// Whether nothing of it was walked, because a condition did not hold.
    pub(super) is_skipped: bool,
    /// Whether nothing behind it starts.
    pub(super) stops: bool,
    /// Itself, for texts; `None` if nobody reads it.
    pub(super) value: Option<Value>,
    /// The value that it gave, if it gave one.
    pub(super) yields: Value,
    pub(super) exports: Exports,
    /// What the last step of a whole flow said that has not succeeded.
    pub(super) left: Option<Arc<str>>,
    /// The first failure among several steps of which others did their work.
    pub(super) in_part: Option<Failure>,
    /// Who has answered in it.
    pub(super) trail: Trail,
}

impl Came {
    fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            is_skipped: false,
            stops: false,
            value: None,
            yields: Value::from(()),
            exports: Exports::new(),
            left: None,
            in_part: None,
            trail: Trail::default(),
        }
    }

    /// Returns what it came to for whoever reads of it: the failure of a part of it is
    /// its own.
    pub(super) fn told(&self) -> Outcome {
        let in_part = self.in_part.clone().map(Outcome::Failed);
        in_part.unwrap_or_else(|| self.outcome.clone())
    }

    /// Tells whether nobody was asked and there is nothing to read.
    pub(super) fn is_nothing(&self) -> bool {
        let is_silent = matches!(&self.outcome, Outcome::Done { text } if text.is_empty());
        is_silent && self.trail == Trail::default()
    }

    /// Lets nothing more of the flow start if it ends with this.
    pub(super) fn closing(self, flow: &CancellationToken) -> Self {
        if self.stops {
            flow.cancel();
        }
        self
    }

    /// A step that was not run to its end: so nothing behind it is.
    pub(super) fn stopped() -> Self {
        Self::of(STOPPED)
    }

    /// A step that is left out.
    pub(super) fn skipped(flow: &Flow, step: &Step) -> Self {
        let done = Outcome::Done { text: Arc::default() };
        let answer = Answer::bare("skipped", None);
        let value = Some(unwalked_value(step, &answer));
        let exports = unwalked(flow, step, &answer);
        Self { is_skipped: true, value, exports, ..Self::of(done) }
    }

    /// A step that failed before there was a unit for it.
    pub(super) fn failed(flow: &Flow, step: &Step, what: &str) -> Self {
        let outcome = Outcome::failed(FailureKind::Setup, what);
        let answer = Answer::bare("failed", Some(what));
        Self {
            stops: step.on_error() == OnError::Stop,
            value: Some(unwalked_value(step, &answer)),
            exports: unwalked(flow, step, &answer),
            ..Self::of(outcome)
        }
    }

    /// An agent that has ended; `None` if the run was over before.
    pub(super) fn answered(
        agent: &AgentStep,
        unit: UnitId,
        end: Option<&UnitEnd>,
        is_wanted: bool,
    ) -> Self {
        let Some(end) = end else { return Self::stopped() };
        let is_done = matches!(end.outcome, Outcome::Done { .. });
        let mut came = Self::of(end.outcome.clone());
        came.stops = agent.on_error.stops_after(&end.outcome);
        if is_wanted {
            came.yields = if is_done { given(agent, &end.text) } else { Value::from(()) };
            let error = error(&end.outcome);
            let value = Answer {
                text: Value::from(Arc::clone(&end.text)),
                value: came.yields.clone(),
                unit: Value::from(unit.to_string()),
                ..Answer::bare(status_of(&end.outcome), error.as_deref())
            };
            came.name(&agent.name, value.value());
        }
        came
    }

    /// A value that was made without a model.
    pub(super) fn made(
        Computed { name, compute, .. }: &Computed,
        made: &serde_json::Value,
        is_wanted: bool,
    ) -> Self {
        let text: Arc<str> = match made.as_str() {
            _ if !compute.is_text() => Arc::default(),
            Some(text) => text.into(),
            None => made.to_string().into(),
        };
        let mut came = Self::of(Outcome::Done { text: Arc::clone(&text) });
        if is_wanted {
            came.yields = Value::from(Serde(made));
            let (text, value) = (Value::from(text), came.yields.clone());
            let value = Answer { text, value, ..Answer::bare("completed", None) };
            came.name(name, value.value());
        }
        came
    }

    /// A flow that was walked as a step of another one.
    pub(super) fn into_one(
        self,
        step: &Step,
        name: &Arc<str>,
        on_error: OnError,
        is_wanted: bool,
    ) -> Self {
        let mut came = Self { trail: self.trail, ..Self::of(self.outcome) };
        came.is_skipped = self.is_skipped;
        came.stops = on_error.stops_after(&came.outcome);
        if is_wanted {
            let text = match &came.outcome {
                Outcome::Done { text } => Arc::clone(text),
                Outcome::Failed(_) | Outcome::Cancelled { .. } | Outcome::Interrupted => {
                    self.left.unwrap_or_default()
                }
            };
            let status = if came.is_skipped { "skipped" } else { status_of(&came.outcome) };
            let error = error(&came.outcome);
            let value = Answer {
                text: Value::from(text),
                value: self.yields.clone(),
                ..Answer::bare(status, error.as_deref())
            };
            came.yields = self.yields;
            came.name(name, value.value());
        }
        // As for an agent: the failure says whose it is.
        if let Outcome::Failed(failure) = &came.outcome {
            let name = step.name().map_or("flow", |name| name);
            came.outcome = Outcome::Failed(of_step(name, failure));
        }
        came
    }

    /// Several steps that came to this. `status` is what texts read of that.
    pub(super) fn group(
        self,
        step: &Step,
        status: Option<&str>,
        items: Option<Vec<Value>>,
        mut exports: Exports,
    ) -> Self {
        let own = if self.is_skipped { "skipped" } else { status_of(&self.outcome) };
        let error = error(&self.told());
        let value = items.map(|items| group(status.unwrap_or(own), items, error.as_deref()));
        if let Some((name, value)) = step.name().zip(value.as_ref()) {
            exports.push((Arc::clone(name), value.clone()));
        }
        Self { value, exports, ..self }
    }

    /// A step that failed after all of it was walked: what is inside it can be
    /// read as it was left.
    pub(super) fn failed_after(self, walked: Self, name: Option<&Arc<str>>) -> Self {
        let error = error(&self.outcome);
        let failing = |value: &Value| failing(value, error.as_deref());
        let own = |(own, value): (Arc<str>, Value)| {
            let is_it = Some(&own) == name;
            let value = if is_it { failing(&value) } else { value };
            (own, value)
        };
        let value = walked.value.as_ref().map(failing);
        let exports = walked.exports.into_iter().map(own).collect();
        Self { value, exports, yields: walked.yields, trail: walked.trail, ..self }
    }

    fn name(&mut self, name: &Arc<str>, value: Value) {
        self.exports.push((Arc::clone(name), value.clone()));
        self.value = Some(value);
    }
}

/// What texts read of one agent, flow or computation.
struct Answer<'a> {
    status: &'a str,
    text: Value,
    value: Value,
    error: Option<&'a str>,
    unit: Value,
}

impl<'a> Answer<'a> {
    fn bare(status: &'a str, error: Option<&'a str>) -> Self {
        let none = || Value::from(());
        Self { status, text: Value::from(""), value: none(), error, unit: none() }
    }

    fn value(&self) -> Value {
        let Self { status, text, value, error, unit } = self;
        context! { status => *status, text, value, error => *error, unit }
    }
}

/// What texts read of several steps.
fn group(status: &str, items: Vec<Value>, error: Option<&str>) -> Value {
    context! { status, items, error }
}

/// Returns what texts read of a step, but that it failed in the end.
fn failing(value: &Value, error: Option<&str>) -> Value {
    context! { status => "failed", error, ..value.clone() }
}

/// Returns the answer that an agent gave to its schema, and nothing if it has
/// none. What became of a worktree stands on lines of its own, before it.
fn given(agent: &AgentStep, text: &str) -> Value {
    let Some(_) = &agent.schema else { return Value::from(()) };
    // An answer is written on one line.
    let answer = text.lines().next_back().unwrap_or_default();
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_default();
    Value::from(Serde(answer))
}

/// Returns what texts read of a step of which nothing was walked.
fn unwalked_value(step: &Step, answer: &Answer<'_>) -> Value {
    match step {
        Step::Agent(_) | Step::Inner(_) | Step::Computed(_) => answer.value(),
        Step::Sequence(_) | Step::Parallel(_) | Step::Each(_) => {
            group(answer.status, Vec::new(), answer.error)
        }
        Step::Until(Until { body, .. }) | Step::When(When { body, .. }) => {
            unwalked_value(body, answer)
        }
    }
}

/// Returns what there is to read behind a step of which nothing was walked. If
/// it failed, what is inside it was left out.
fn unwalked(flow: &Flow, step: &Step, answer: &Answer<'_>) -> Exports {
    let mut exports = Exports::new();
    if let Some(name) = step.name().filter(|name| flow.keeps(name)) {
        exports.push((Arc::clone(name), unwalked_value(step, answer)));
    }
    let inside = Answer::bare("skipped", None);
    match step {
        Step::Sequence(steps) | Step::Parallel(steps) => {
            exports.extend(steps.iter().flat_map(|step| unwalked(flow, step, &inside)));
        }
        Step::Until(Until { body, .. }) | Step::When(When { body, .. }) => {
            // Its own name is that of what it holds.
            return unwalked(flow, body, answer);
        }
        Step::Agent(_) | Step::Each(Each { .. }) | Step::Inner(_) | Step::Computed(_) => {}
    }
    exports
}

/// Returns what texts call the way a step ended.
fn status_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { text: _ } => "completed",
        Outcome::Failed(_) => "failed",
        Outcome::Cancelled { ran: _ } | Outcome::Interrupted => "cancelled",
    }
}

fn error(outcome: &Outcome) -> Option<Arc<str>> {
    match outcome {
        Outcome::Done { text: _ } => None,
        Outcome::Failed(failure) => Some(Arc::clone(&failure.message)),
        Outcome::Cancelled { ran: _ } | Outcome::Interrupted => Some("cancelled".into()),
    }
}

/// Returns a step's failure under its name, once.
pub(super) fn of_step(name: &str, failure: &Failure) -> Failure {
    let named = format!("`{name}` failed: ");
    let message = match failure.message.starts_with(&named) {
        true => Arc::clone(&failure.message),
        false => (named + &failure.message).into(),
    };
    Failure { kind: failure.kind, message }
}

/// What is known of steps side by side that have ended.
#[derive(Default)]
pub(super) struct Tally {
    /// One at least was done.
    done: bool,
    /// One at least was cancelled.
    stopped: bool,
    /// The first in declared order that failed.
    failed: Option<(usize, Failure)>,
    /// The first in declared order that ends the flow, one that failed before
    /// one that was cancelled.
    ends_flow: Option<((bool, usize), Outcome)>,
    /// How many were not left out.
    walked: usize,
    states: Vec<UnitState>,
}

impl Tally {
    /// Takes note of an end, and of the name that goes with it.
    pub(super) fn take(&mut self, index: usize, name: &str, came: &Came) {
        if came.is_skipped {
            return;
        }
        self.walked += 1;
        let of_it = match came.told() {
            Outcome::Failed(failure) => {
                let failure = of_step(name, &failure);
                first(&mut self.failed, index, &failure);
                Outcome::Failed(failure)
            }
            other @ (Outcome::Done { .. } | Outcome::Cancelled { .. } | Outcome::Interrupted) => {
                other
            }
        };
        self.states.push(of_it.state());
        match &came.outcome {
            Outcome::Done { text: _ } => self.done = true,
            Outcome::Failed(_) => {}
            Outcome::Cancelled { ran: _ } | Outcome::Interrupted => self.stopped = true,
        }
        if came.stops {
            let is_failed = matches!(came.outcome, Outcome::Failed(_));
            first(&mut self.ends_flow, (!is_failed, index), &of_it);
        }
    }

    /// Returns what all of them came to: what they said, if one was done.
    /// `is_cancelled` tells whether their holder is to stop.
    pub(super) fn came(self, is_cancelled: bool, told: Outcome) -> (Came, &'static str) {
        let whole = match batch_state(self.states.iter().copied()) {
            UnitState::Completed => "completed",
            UnitState::Failed => "failed",
            UnitState::Queued
            | UnitState::Running
            | UnitState::Throttled
            | UnitState::AwaitingApproval
            | UnitState::Cancelled
            | UnitState::Skipped
            | UnitState::Interrupted => "cancelled",
        };
        if self.stopped && is_cancelled {
            return (Came::stopped(), whole);
        }
        if let Some((_, outcome)) = self.ends_flow {
            return (Came { stops: true, ..Came::of(outcome) }, whole);
        }
        let outcome = match &self.failed {
            _ if self.done || self.walked == 0 => told,
            Some((_, failure)) => Outcome::Failed(failure.clone()),
            None => STOPPED,
        };
        let in_part = self.failed.map(|(_, failure)| failure);
        (Came { in_part, ..Came::of(outcome) }, whole)
    }

    /// Tells whether what they said is what they came to.
    pub(super) fn is_told(&self) -> bool {
        self.done && self.ends_flow.is_none()
    }
}

fn first<P: Ord, T: Clone>(of: &mut Option<(P, T)>, place: P, what: &T) {
    if of.as_ref().is_none_or(|(first, _)| place < *first) {
        *of = Some((place, what.clone()));
    }
}
