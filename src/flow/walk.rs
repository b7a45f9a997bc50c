//! The walk: runs the steps of a flow to its end.
//!
//! It goes down the tree by recursion. Each step is told where it stands, which
//! is all that it may know of others, and gives back what it came to. What
//! several steps side by side have in common is in `beside`, what an agent is
//! declared and run as in `unit`.

mod beside;
mod came;
mod scope;
mod trail;
mod unit;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::finished::Finished;
use super::given::Fault;
use super::inputs::{InputValues, Supplied};
use super::names::kind;
use super::step::{Computed, Inner, OnError, Passed, Step, Steps, Until, When};
use super::text::Expression;
use super::{Flow, Success};
use crate::branch::Token;
use crate::event::{Failure, FailureKind, FlowHead, NoticeLevel, Outcome};
use crate::fanout::Caller;
use crate::line::{Told, UnitEvent};
use crate::skill::Followed;

use came::{Came, Exports, STOPPED};
use scope::{Key, Scope, Texts};
use trail::Trail;

/// A flow that is to be walked, and what with.
#[derive(Debug, Clone, PartialEq)]
pub struct Walk {
    /// The flow.
    pub flow: Arc<Flow>,
    /// The values of its inputs.
    pub inputs: InputValues,
    /// What earlier walks of it have come to that need not run again; nothing
    /// if it is walked from its beginning.
    pub finished: Finished,
    /// What of the skill that it is walked for holds for its agents; `None` if
    /// it is walked for none.
    pub followed: Option<Arc<Followed>>,
}

impl Walk {
    /// A walk of a flow from its beginning.
    #[must_use]
    pub fn new(flow: Arc<Flow>, inputs: InputValues) -> Self {
        Self { flow, inputs, finished: Finished::default(), followed: None }
    }

    /// Returns what stands in the log of it.
    #[must_use]
    pub fn head(&self) -> FlowHead {
        FlowHead {
            name: Arc::clone(self.flow.name()),
            inputs: self.inputs.json().into(),
            steps: self.flow.step().whole(),
            goes_on: self.finished.has_walked(self.flow.name()),
        }
    }
}

/// Walks a flow on a unit's branch and returns what it came to: what its last
/// step did, or all that its last steps did if those run side by side.
///
/// A step that ends badly does not end the flow, unless it says so: its branch
/// joins like any other, and the steps behind it read what became of it. Only
/// the last step's failure is the flow's. Of several side by side that are the last
/// each one's is, unless something must hold in the end, which then says what is
/// enough. Once the unit is cancelled nothing more starts.
pub async fn walk(holder: &Caller, walk: &Walk) -> Outcome {
    let Walk { flow, inputs, finished, followed } = walk;
    let (texts, followed) = (Texts::of(flow), followed.as_ref());
    let ground = Ground { texts, finished, root: flow.name(), followed };
    let Some(first) = holder.line.reserve(flow.step().forks()).await else { return STOPPED };
    let on = Stand {
        ground: &ground,
        flow,
        holder,
        scope: Scope::new(inputs),
        key: Key::default(),
        first,
        trail: Trail::default(),
        closed: CancellationToken::new(),
        is_wanted: false,
    };
    let came = whole(on).await;
    if let Some(left) = &came.left {
        // Whoever asked reads what its last step said all the same.
        holder.line.tell(UnitEvent::Leaves(Arc::clone(left))).await;
    }
    if came.is_nothing() {
        let text = "nothing was done: no condition held, or there were no items".into();
        holder.line.tell(Told::Notice { level: NoticeLevel::Info, text }).await;
    }
    came.outcome
}

/// Walks a whole flow where it stands: all its steps, and then what must hold.
async fn whole(on: Stand<'_>) -> Came {
    let flow = on.flow;
    let mut scope = on.scope.clone();
    let texts = &on.ground.texts;
    let came = run(on, flow.step()).await;
    let Outcome::Done { text } = &came.outcome else { return came };
    let left = Some(Arc::clone(text));
    let Some(success) = flow.success() else {
        return match came.told() {
            // It has what others of its last steps said, and not all of it.
            outcome @ Outcome::Failed(_) => Came { outcome, left, ..came },
            Outcome::Done { .. } | Outcome::Cancelled { .. } | Outcome::Interrupted => came,
        };
    };
    scope.learn(&came.exports);
    let Success { condition, otherwise } = success;
    let source = condition.source();
    let why = match (texts.holds(condition, &scope), otherwise) {
        (Ok(true), _) => return came,
        (Ok(false), Some(otherwise)) => otherwise.to_string(),
        (Ok(false), None) => format!("succeeds_if = {:?} does not hold", &**source),
        (Err(error), _) => format!("succeeds_if = {:?}: {error}", &**source),
    };
    let outcome = Outcome::failed(FailureKind::Unmet, why);
    Came { outcome, left, is_skipped: false, ..came }
}

/// What all steps of a walk have in common.
struct Ground<'a> {
    texts: Texts,
    finished: &'a Finished,
    /// The name of the whole flow.
    root: &'a Arc<str>,
    followed: Option<&'a Arc<Followed>>,
}

/// Where a step stands.
#[derive(Clone)]
struct Stand<'a> {
    ground: &'a Ground<'a>,
    /// The flow that the step is of.
    flow: &'a Flow,
    /// Whose branch the step goes on.
    holder: &'a Caller,
    scope: Scope,
    key: Key,
    /// The first of the tokens that were reserved for the step.
    first: Token,
    /// Who has answered before it.
    trail: Trail,
    /// Fires when a step has ended the flow: nothing more of it starts.
    closed: CancellationToken,
    /// Whether what it comes to is read as a part of what is around it.
    is_wanted: bool,
}

impl Stand<'_> {
    /// Tells whether nothing more is to start.
    fn is_over(&self) -> bool {
        self.is_cancelled() || self.closed.is_cancelled()
    }

    fn is_cancelled(&self) -> bool {
        self.holder.cancel.is_cancelled()
    }

    /// Tells whether anybody reads what a step comes to.
    fn wants(&self, step: &Step) -> bool {
        self.is_wanted || step.name().is_some_and(|name| self.flow.keeps(name))
    }

    /// Says what a step came to that failed before there was a unit for it.
    async fn fails(&self, step: &Step, what: &str) -> Came {
        self.warn(step, what).await;
        Came::failed(self.flow, step, what)
    }

    /// Tells of the failure of a step that no unit tells of.
    async fn warn(&self, step: &Step, what: &str) {
        let name = step.name().map_or_else(|| kind(step), |name| &**name);
        let text = format!("the step `{name}` failed: {what}").into();
        self.holder.line.tell(Told::Notice { level: NoticeLevel::Warning, text }).await;
    }

    /// Tells whether a condition holds.
    fn holds(&self, condition: &Expression, word: &str) -> Result<bool, String> {
        let held = self.ground.texts.holds(condition, &self.scope);
        held.map_err(|error| format!("{word} = {:?}: {error}", &**condition.source()))
    }
}

/// Walks a step where it stands.
fn run<'a>(on: Stand<'a>, step: &'a Step) -> BoxFuture<'a, Came> {
    let closed = on.closed.clone();
    let walked = one(on, step);
    Box::pin(async move { walked.await.closing(&closed) })
}

fn one<'a>(on: Stand<'a>, step: &'a Step) -> BoxFuture<'a, Came> {
    match step {
        Step::Agent(agent) => Box::pin(unit::alone(on, agent)),
        Step::Sequence(steps) => Box::pin(sequence(on, step, steps)),
        Step::Parallel(steps) => Box::pin(beside::parallel(on, step, steps)),
        Step::Each(each) => Box::pin(beside::each(on, step, each)),
        Step::Until(each) => Box::pin(until(on, step, each)),
        Step::When(when) => Box::pin(self::when(on, step, when)),
        Step::Inner(inner) => Box::pin(self::inner(on, step, inner)),
        Step::Computed(computed) => Box::pin(self::computed(on, step, computed)),
    }
}

/// Walks steps in order. What becomes of one is for the next to read.
async fn sequence<'a>(mut on: Stand<'a>, step: &'a Step, steps: &'a Steps) -> Came {
    let wants = on.wants(step);
    let mut exports = Exports::new();
    let mut items = Vec::new();
    let mut last: Option<Came> = None;
    let mut trail = Trail::default();
    for member in steps.iter() {
        if on.is_over() {
            return Came::stopped();
        }
        let mut came = run(Stand { is_wanted: wants, ..on.clone() }, member).await;
        on.first = after(on.first, member.forks());
        on.trail = on.trail.then(came.trail);
        trail = trail.then(came.trail);
        on.scope.learn(&came.exports);
        exports.append(&mut came.exports);
        items.extend(came.value.take().filter(|_| wants));
        let stops = came.stops;
        // What was left out has no say in what the whole came to.
        if !came.is_skipped || last.is_none() {
            last = Some(came);
        }
        if stops {
            break;
        }
    }
    let last = last.unwrap_or_else(Came::stopped);
    Came { trail, ..last.group(step, None, wants.then_some(items), exports) }
}

/// Walks a step again and again, until the condition holds.
async fn until<'a>(on: Stand<'a>, step: &'a Step, until: &'a Until) -> Came {
    let Until { condition, max_rounds, body } = until;
    let name = body.name().map_or("until", |name| name);
    let mut first = on.first;
    let mut last = Came::stopped();
    let mut trail = Trail::default();
    for round in 1..=max_rounds.get() {
        if on.is_over() {
            return Came::stopped();
        }
        let key = on.key.entered(name).round(round);
        let mut inside = Stand { key, first, trail: on.trail.then(trail), ..on.clone() };
        inside.scope.round = Some(round);
        last = run(inside.clone(), body).await;
        trail = trail.then(last.trail);
        last.trail = trail;
        if last.stops {
            return last;
        }
        if on.is_over() {
            // Whether the round was the last one nobody has asked.
            return Came { trail, ..Came::stopped() };
        }
        inside.scope.learn(&last.exports);
        match inside.holds(condition, "until") {
            Ok(true) => return last,
            Ok(false) => first = after(first, body.forks()),
            Err(error) => return on.fails(step, &error).await.failed_after(last, body.name()),
        }
    }
    let rounds = crate::message::counted(max_rounds.get(), "round");
    let why = format!("until = {:?} does not hold after {rounds}", &**condition.source());
    on.fails(step, &why).await.failed_after(last, body.name())
}

/// Walks a step if the condition holds.
async fn when<'a>(on: Stand<'a>, step: &'a Step, when: &'a When) -> Came {
    match on.holds(&when.condition, "when") {
        Ok(true) => run(on, &when.body).await,
        Ok(false) => Came::skipped(on.flow, step),
        Err(error) => on.fails(step, &error).await,
    }
}

/// Walks a flow as a step, in a scope of its own.
async fn inner<'a>(on: Stand<'a>, step: &'a Step, inner: &'a Inner) -> Came {
    let Inner { name, flow, inputs, on_error } = inner;
    let mut given = Vec::new();
    for (name, passed) in inputs {
        let supplied = match passed {
            Passed::Value(value) => Supplied::Value(value.clone()),
            Passed::Words(words) => match on.ground.texts.words(words, &on.scope) {
                Ok(words) => Supplied::Words(words.to_string()),
                Err(error) => return on.fails(step, &format!("input `{name}`: {error}")).await,
            },
        };
        given.push((name.to_string(), supplied));
    }
    let inputs = match flow.given(given) {
        Ok(inputs) => inputs,
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return on.fails(step, &errors.join("; ")).await;
        }
    };
    let wants = on.wants(step);
    let inside = Stand {
        flow,
        scope: Scope::new(&inputs),
        key: on.key.entered(name).closed(),
        closed: on.closed.child_token(),
        is_wanted: wants,
        ..on.clone()
    };
    let came = whole(inside).await;
    if let Outcome::Failed(Failure { kind: FailureKind::Unmet, message }) = &came.outcome
        && came.left.is_some()
    {
        on.warn(step, message).await;
    }
    came.into_one(step, name, *on_error, wants)
}

/// Has the program make a value, on a thread that may block.
async fn computed<'a>(on: Stand<'a>, step: &'a Step, computed: &'a Computed) -> Came {
    let Computed { name: _, compute, on_error } = computed;
    let given = on.scope.given(compute.reads());
    let compute = Arc::clone(compute);
    let computing = tokio::task::spawn_blocking(move || compute.compute(&given));
    let made = match computing.await {
        Ok(made) => made,
        Err(_) => Err("it panicked".into()),
    };
    let stops = *on_error == OnError::Stop;
    match made {
        Ok(value) => Came::made(computed, &value, on.wants(step)),
        Err(Fault { kind, message, text }) => {
            let came = on.fails(step, &message).await;
            if let Some(text) = text {
                on.holder.line.tell(UnitEvent::Leaves(text)).await;
            }
            Came { stops, outcome: Outcome::failed(kind, message), ..came }
        }
    }
}

/// Returns the token that is `count` behind another.
fn after(token: Token, count: u64) -> Token {
    Token(token.0 + count)
}
