//! The walk: runs the steps of a flow to its end.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::names::kind;
use super::{AgentStep, Step, Steps};
use crate::branch::Token;
use crate::event::{Failure, FailureKind, Origin, Outcome, SlotPosition, UnitEnd};
use crate::fanout::{self, Caller, Ended, Queued};
use crate::line::{Budget, Child, Seat, Strand};

/// What a step came to that was not run to its end.
const STOPPED: Outcome = Outcome::Cancelled { ran: true };

/// Walks a flow on a unit's branch and returns what it came to: what its last
/// step did, or all that its last steps did if those run side by side.
///
/// A step that ends badly does not end the flow: its branch joins like any
/// other, and the steps behind it read what became of it. Only the last step's
/// failure is the flow's. Once the unit is cancelled nothing more starts.
pub async fn walk(holder: &Caller, flow: &Step) -> Outcome {
    match holder.line.reserve(flow.forks()).await {
        Some(first) => run(holder, flow, first).await,
        None => STOPPED,
    }
}

/// Runs a step on the branch of `holder`; its own tokens begin with `first`.
fn run<'a>(holder: &'a Caller, step: &'a Step, first: Token) -> BoxFuture<'a, Outcome> {
    match step {
        Step::Agent(agent) => Box::pin(alone(holder, agent)),
        Step::Sequence(steps) => Box::pin(sequence(holder, steps, first)),
        Step::Parallel(steps) => Box::pin(parallel(holder, steps, first)),
        Step::Each(_) | Step::Until(_) | Step::When(_) | Step::Inner(_) | Step::Computed(_) => {
            let message = "this kind of step is not walked";
            Box::pin(async move { Outcome::failed(FailureKind::Setup, message) })
        }
    }
}

/// Runs an agent that goes on where its holder is.
async fn alone(holder: &Caller, agent: &AgentStep) -> Outcome {
    let seats = holder.line.declare(None, vec![of_agent(agent)]).await;
    let Some(seat) = seats.and_then(|seats| seats.into_iter().next()) else { return STOPPED };
    let unit = seat.unit;
    let end = queue(holder, agent, seat).await;
    holder.line.join(vec![unit]).await;
    match end.as_deref().map(|end| &end.outcome) {
        Some(Outcome::Failed(failure)) => of_step(&agent.name, failure),
        Some(outcome) => outcome.clone(),
        // The run was over before it could report.
        None => STOPPED,
    }
}

/// Runs steps in order. What becomes of one is for the next to read.
async fn sequence(holder: &Caller, steps: &Steps, mut first: Token) -> Outcome {
    let (last, before) = steps.split_last();
    for step in before {
        run(holder, step, first).await;
        first = after(first, step.forks());
    }
    run(holder, last, first).await
}

/// Runs steps side by side, each on a branch of its own, and joins them.
async fn parallel(holder: &Caller, steps: &Steps, first: Token) -> Outcome {
    let children = children(steps, first);
    let mut told: Vec<Ended> =
        children.iter().map(|child| Ended::not_yet(&child.description, &child.agent)).collect();
    let Some(seats) = holder.line.declare(None, children).await else { return STOPPED };
    let units = seats.iter().map(|seat| seat.unit).collect();
    let mut running = start(holder, steps, seats, after(first, u64::from(steps.count())));
    let mut tally = Tally::default();
    while let Some((index, end)) = running.next().await {
        tally.take(index, end.as_deref());
        if let Some(end) = end {
            fanout::ends(holder, &mut told, index, end).await;
        }
    }
    drop(running);
    holder.line.join(units).await;
    if tally.stopped && holder.cancel.is_cancelled() {
        return STOPPED;
    }
    if tally.done {
        return Outcome::Done { text: fanout::told(holder, told).await.text.into() };
    }
    let failed =
        tally.failed.map(|(index, failure)| of_step(name(&steps.as_slice()[index]), &failure));
    failed.unwrap_or(STOPPED)
}

type Running<'a> = FuturesUnordered<BoxFuture<'a, (usize, Option<Arc<UnitEnd>>)>>;

/// Starts the steps of a parallel. The tokens of what is inside them begin
/// with `below`.
fn start<'a>(
    holder: &'a Caller,
    steps: &'a Steps,
    seats: Vec<Seat>,
    mut below: Token,
) -> Running<'a> {
    let running = FuturesUnordered::new();
    for (index, (step, seat)) in steps.iter().zip(seats).enumerate() {
        let branch = branch(holder, step, seat, below);
        running.push(Box::pin(async move { (index, branch.await) }) as BoxFuture<'a, _>);
        below = after(below, step.forks());
    }
    running
}

/// Runs one step of a parallel as the unit that was declared for it.
fn branch<'a>(
    holder: &'a Caller,
    step: &'a Step,
    seat: Seat,
    first: Token,
) -> BoxFuture<'a, Option<Arc<UnitEnd>>> {
    match step {
        Step::Agent(agent) => queue(holder, agent, seat),
        Step::Sequence(_)
        | Step::Parallel(_)
        | Step::Each(_)
        | Step::Until(_)
        | Step::When(_)
        | Step::Inner(_)
        | Step::Computed(_) => Box::pin(hold(holder, step, seat, first)),
    }
}

/// Queues an agent. Its place in the order of arrival is taken here and now.
fn queue<'a>(
    holder: &'a Caller,
    agent: &AgentStep,
    seat: Seat,
) -> BoxFuture<'a, Option<Arc<UnitEnd>>> {
    let ticket = holder.fanout.pool.ticket();
    Box::pin(fanout::queue(holder, Queued { job: Arc::new(agent.job()), seat, ticket }))
}

/// Runs steps on a branch of their own. The unit that holds it needs no permit:
/// it asks no model.
async fn hold(parent: &Caller, step: &Step, seat: Seat, first: Token) -> Option<Arc<UnitEnd>> {
    let line = parent.line.of(seat.unit);
    if !line.may_start().await {
        return fanout::never_ran(&line).await;
    }
    let holder = Caller { line, cancel: seat.cancel, ..parent.clone() };
    let outcome = run(&holder, step, first).await;
    holder.line.ended(outcome, None).await
}

/// What is known of steps side by side that have ended.
#[derive(Default)]
struct Tally {
    /// One at least was done.
    done: bool,
    /// One at least was cancelled.
    stopped: bool,
    /// The first in declared order that failed.
    failed: Option<(usize, Failure)>,
}

impl Tally {
    /// Takes note of an end; there is none if the run was over before.
    fn take(&mut self, index: usize, end: Option<&UnitEnd>) {
        match end.map(|end| &end.outcome) {
            Some(Outcome::Done { text: _ }) => self.done = true,
            Some(Outcome::Failed(failure)) => {
                if self.failed.as_ref().is_none_or(|(first, _)| index < *first) {
                    self.failed = Some((index, failure.clone()));
                }
            }
            Some(Outcome::Cancelled { ran: _ } | Outcome::Interrupted) | None => {
                self.stopped = true;
            }
        }
    }
}

/// Returns a step's failure under its name.
fn of_step(name: &str, failure: &Failure) -> Outcome {
    Outcome::failed(failure.kind, format!("`{name}` failed: {}", failure.message))
}

/// Returns what is declared for the steps of a parallel, whose tokens begin
/// with `first`.
fn children(steps: &Steps, first: Token) -> Vec<Child> {
    let total = steps.count();
    let children = (0..total).zip(steps.iter()).map(|(index, step)| {
        let child = match step {
            Step::Agent(agent) => of_agent(agent),
            Step::Sequence(_)
            | Step::Parallel(_)
            | Step::Each(_)
            | Step::Until(_)
            | Step::When(_)
            | Step::Inner(_)
            | Step::Computed(_) => child(&name(step).into(), &kind(step).into(), Origin::Steps),
        };
        Child {
            slot: Some(SlotPosition { index, total }),
            strand: Strand::Reserved(after(first, u64::from(index))),
            ..child
        }
    });
    children.collect()
}

fn of_agent(agent: &AgentStep) -> Child {
    let budget = Budget { tokens: agent.limits.max_tokens, ..Budget::default() };
    Child { budget, ..child(&agent.name, &agent.agent, agent.origin()) }
}

/// A child that goes on where its parent is.
fn child(name: &Arc<str>, agent: &Arc<str>, origin: Origin) -> Child {
    Child {
        description: Arc::clone(name),
        agent: Arc::clone(agent),
        slot: None,
        origin,
        is_background: false,
        strand: Strand::Parents,
        budget: Budget::default(),
        again: None,
    }
}

fn name(step: &Step) -> &str {
    step.name().map_or_else(|| kind(step), |name| &**name)
}

/// Returns the token that is `count` behind another.
fn after(token: Token, count: u64) -> Token {
    Token(token.0 + count)
}
