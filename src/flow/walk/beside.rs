//! Steps side by side: those of a parallel, and those for the items of a
//! `for_each`. Each goes on a branch of its own, and they join.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use minijinja::Value;
use minijinja::value::ValueKind;

use super::came::{Came, Exports, Tally};
use super::scope::{Key, Scope};
use super::trail::Trail;
use super::unit::{self, Asked};
use super::{Stand, after, run};
use crate::branch::Token;
use crate::event::{FailureKind, NoticeLevel, Origin, Outcome, SlotPosition, UnitEnd};
use crate::fanout::{self, Caller, Ended};
use crate::flow::names::kind;
use crate::flow::step::{AgentStep, Each, GiveUpRule, Step, Steps, When};
use crate::line::{Child, Seat, Strand, Told};
use crate::message::Usage;

/// Walks the steps of a parallel.
pub(super) async fn parallel<'a>(on: Stand<'a>, step: &'a Step, steps: &'a Steps) -> Came {
    let mut below = after(on.first, u64::from(steps.count()));
    let mut members = Vec::new();
    for (own, member) in (0..).map(|index| after(on.first, index)).zip(steps.iter()) {
        let (scope, key) = (on.scope.clone(), on.key.clone());
        members.push(Member { step: member, scope, key, name: None, own, below });
        below = after(below, member.forks());
    }
    let wants = on.wants(step);
    let beside = Beside { step, wants, are_read: true, gives_up: None };
    walk(on, beside, members).await
}

/// Walks a step for each item of an array.
pub(super) async fn each<'a>(on: Stand<'a>, step: &'a Step, each: &'a Each) -> Came {
    let Each { name, max_items, body, gives_up, .. } = each;
    let items = match items(&on, each) {
        Ok(items) => items,
        Err(error) => return on.fails(step, &error).await,
    };
    let key = on.key.entered(name);
    let mut below = after(on.first, u64::from(max_items.get()));
    let mut members = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let own = after(on.first, index as u64);
        let (scope, key) = (on.scope.with_item(item, index), key.item(index));
        let name = Some(key.label());
        members.push(Member { step: body, scope, key, name, own, below });
        below = after(below, body.forks());
    }
    let wants = on.wants(step);
    let beside = Beside { step, wants, are_read: false, gives_up: gives_up.as_ref() };
    walk(on, beside, members).await
}

/// Returns the items that a step is walked for.
fn items(on: &Stand<'_>, each: &Each) -> Result<Vec<Value>, String> {
    let Each { items, max_items, .. } = each;
    let of_it = |why: String| format!("for_each = {:?}: {why}", &**items.source());
    let value = on.ground.texts.value(items, &on.scope).map_err(of_it)?;
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(of_it(format!("it gives {}, and not a list", value.kind())));
    }
    let most = max_items.get() as usize;
    let all = value.try_iter().map_err(|error| of_it(error.to_string()))?;
    let all: Vec<Value> = all.take(most + 1).collect();
    if all.len() > most {
        let count = value.len().map_or_else(|| "more".to_owned(), |count| format!("{count} items"));
        return Err(of_it(format!("it gives {count}; at most {most} are walked (`max_items`)")));
    }
    Ok(all)
}

/// One of several steps side by side.
struct Member<'a> {
    step: &'a Step,
    scope: Scope,
    key: Key,
    /// What it is called, if that is not the step's own name.
    name: Option<Arc<str>>,
    /// The token of its branch.
    own: Token,
    /// The first of those inside it.
    below: Token,
}

/// What several steps side by side are.
struct Beside<'a> {
    step: &'a Step,
    /// Whether anybody reads what they came to.
    wants: bool,
    /// Whether steps behind them read of each of them.
    are_read: bool,
    /// When no further member is begun.
    gives_up: Option<&'a GiveUpRule>,
}

/// A member that has a unit to be.
struct Declared<'a> {
    at: At,
    /// The token of its branch.
    own: Token,
    runs: Runs<'a>,
}

/// A member that was not left out.
struct At {
    /// Its place among all members.
    index: usize,
    /// Its place among those that were not left out.
    place: usize,
    name: Arc<str>,
}

/// What a member's unit does.
enum Runs<'a> {
    /// It is an agent.
    Agent(Stand<'a>, &'a AgentStep, Asked),
    /// It holds the branch of other steps.
    Steps(Stand<'a>, &'a Step),
}

/// Walks members side by side, and joins their branches.
async fn walk<'a>(on: Stand<'a>, beside: Beside<'a>, members: Vec<Member<'a>>) -> Came {
    let mut all = Gathered::of(&beside, members.len());
    let (mut declared, mut failed) = (Vec::new(), Vec::new());
    for (index, member) in members.into_iter().enumerate() {
        // What each is asked is put together before any of them is declared, and the
        // texts of ten thousand items can take a while.
        tokio::task::yield_now().await;
        if on.is_over() {
            return Came::stopped();
        }
        let (own, name) = (member.own, name(&member));
        let at = |all: &Gathered, name| At { index, place: all.told.len() - 1, name };
        match resolve(&on, member, beside.wants).await {
            Ok(runs) => {
                all.told.push(Ended::not_yet(&name, &agent(&runs)));
                declared.push(Declared { at: at(&all, name), own, runs });
            }
            Err(came) if came.is_skipped => all.keep(index, *came),
            Err(came) => {
                all.told.push(Ended::not_yet(&name, &kind(beside.step).into()));
                failed.push((at(&all, name), *came));
            }
        }
    }
    for (at, came) in failed {
        let came = came.closing(&on.closed);
        let end = end_of(came.outcome.clone());
        all.take(on.holder, at, came, Some(Arc::new(end))).await;
    }
    if !declared.is_empty() {
        let children = children(&declared);
        let Some(seats) = on.holder.line.declare(None, children).await else {
            return Came::stopped();
        };
        let units = seats.iter().map(|seat| seat.unit).collect();
        let mut running = start(on.holder, declared, seats, beside.wants);
        let mut streak = FailureStreak { gives_up: beside.gives_up, first: None, failed: 0 };
        while let Some((at, came, end)) = running.next().await {
            if let Some(text) = end.as_deref().and_then(|end| streak.record(end)) {
                on.closed.cancel();
                let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
                on.holder.line.tell(notice).await;
            }
            all.take(on.holder, at, came, end).await;
        }
        drop(running);
        on.holder.line.join(units).await;
    }
    all.came(&on, &beside).await
}

/// Finds out what a member's unit is to do. The error is what it came to
/// without one.
async fn resolve<'a>(
    on: &Stand<'a>,
    member: Member<'a>,
    wants: bool,
) -> Result<Runs<'a>, Box<Came>> {
    let Member { mut step, scope, key, name: _, own: _, below: first } = member;
    let stand = Stand { scope, key, first, is_wanted: wants, ..on.clone() };
    while let Step::When(When { condition, body }) = step {
        match stand.holds(condition, "when") {
            Ok(true) => step = body,
            Ok(false) => return Err(Box::new(Came::skipped(stand.flow, step))),
            Err(error) => return Err(Box::new(stand.fails(step, &error).await)),
        }
    }
    Ok(match step {
        Step::Agent(agent) => {
            let asked = Asked::of(&stand, agent);
            Runs::Agent(stand, agent, asked)
        }
        Step::Sequence(_)
        | Step::Parallel(_)
        | Step::Each(_)
        | Step::Until(_)
        | Step::When(_)
        | Step::Inner(_)
        | Step::Computed(_) => Runs::Steps(stand, step),
    })
}

/// Returns what is declared for members.
fn children(declared: &[Declared<'_>]) -> Vec<Child> {
    let total = u32::try_from(declared.len()).expect("there are no more than a flow may have");
    let child = |(index, declared): (u32, &Declared<'_>)| {
        let name = Arc::clone(&declared.at.name);
        let child = match &declared.runs {
            Runs::Agent(_, agent, asked) => unit::child(agent, name, asked),
            Runs::Steps(_, step) => unit::bare(name, kind(step).into(), Origin::Steps),
        };
        let slot = Some(SlotPosition { index, total });
        Child { slot, strand: Strand::Reserved(declared.own), ..child }
    };
    (0..).zip(declared).map(child).collect()
}

/// What a member has come to, and the end of its unit; none if the run was over
/// before.
type Ran = (At, Came, Option<Arc<UnitEnd>>);

/// Starts members as the units that were declared for them.
fn start<'a>(
    holder: &'a Caller,
    declared: Vec<Declared<'a>>,
    seats: Vec<Seat>,
    wants: bool,
) -> FuturesUnordered<BoxFuture<'a, Ran>> {
    let running = FuturesUnordered::new();
    for (Declared { at, own: _, runs }, seat) in declared.into_iter().zip(seats) {
        let running_one: BoxFuture<'a, Ran> = match runs {
            Runs::Agent(stand, agent, asked) => {
                let wants = wants || stand.flow.keeps(&agent.name);
                let unit = seat.unit;
                let trail = asked.trail(unit);
                let closed = stand.closed.clone();
                // Its place in the order of arrival is taken here and now.
                let runs = unit::run(stand, agent, asked, seat);
                Box::pin(async move {
                    let end = runs.await;
                    let came = Came::answered(agent, unit, end.as_deref(), wants);
                    (at, Came { trail, ..came }.closing(&closed), end)
                })
            }
            Runs::Steps(stand, step) => Box::pin(async move {
                let (came, end) = hold(holder, stand, step, seat).await;
                (at, came, end)
            }),
        };
        running.push(running_one);
    }
    running
}

/// Walks steps on a branch of their own. The unit that holds it needs no permit:
/// it asks no model.
async fn hold(
    parent: &Caller,
    on: Stand<'_>,
    step: &Step,
    seat: Seat,
) -> (Came, Option<Arc<UnitEnd>>) {
    let line = parent.line.of(seat.unit);
    if !line.may_start().await {
        return (Came::stopped(), fanout::never_ran(&line).await);
    }
    let holder = Caller { line, cancel: seat.cancel, ..parent.clone() };
    let came = run(Stand { holder: &holder, ..on }, step).await;
    let end = holder.line.ended(came.told(), None).await;
    (came, end)
}

/// Run of members that all failed in the same way.
struct FailureStreak<'a> {
    /// `None` once a member has not failed so, or if the step has no such rule.
    gives_up: Option<&'a GiveUpRule>,
    /// Kind and reason of the first failure.
    first: Option<(FailureKind, Arc<str>)>,
    failed: u32,
}

impl FailureStreak<'_> {
    /// Records an end, and returns the notice if no further member is to begin.
    fn record(&mut self, end: &UnitEnd) -> Option<String> {
        let gives_up = self.gives_up?;
        let failure = match &end.outcome {
            // The model answered: another item may get a whole answer.
            Outcome::Failed(failure) if is_about_answer(failure.kind) => {
                self.gives_up = None;
                return None;
            }
            // A unit that sent no request in this process cost nothing.
            Outcome::Failed(failure) if end.turns > 0 => failure,
            Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => {
                return None;
            }
            Outcome::Done { text: _ } => {
                self.gives_up = None;
                return None;
            }
        };
        let why = failure.message.lines().next().unwrap_or_default();
        let (kind, reason) = self.first.get_or_insert_with(|| (failure.kind, why.into()));
        if *kind != failure.kind || **reason != *why {
            self.gives_up = None;
            return None;
        }
        self.failed += 1;
        if self.failed < gives_up.after.get() {
            return None;
        }
        self.gives_up = None;
        let (count, kind) = (self.failed, failure.kind.as_str());
        Some(format!(
            "the first {count} all failed for the same reason ({kind}: {why}), so no more are \
             started; {}",
            gives_up.hint
        ))
    }
}

/// Returns whether a failure is about one answer of a model, and so about the item that
/// was asked for.
fn is_about_answer(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::OutputLimit | FailureKind::Refusal | FailureKind::EmptyAnswer)
}

/// What the members of steps side by side have come to.
struct Gathered {
    tally: Tally,
    told: Vec<Ended>,
    /// By member; none if nobody reads them.
    values: Vec<Value>,
    /// By member; none if nobody reads them.
    exports: Vec<Exports>,
    /// By member.
    trails: Vec<Trail>,
    /// How many members there are.
    count: usize,
}

impl Gathered {
    fn of(beside: &Beside<'_>, count: usize) -> Self {
        let held = |is_held: bool| if is_held { count } else { 0 };
        Self {
            tally: Tally::default(),
            told: Vec::new(),
            values: vec![Value::from(()); held(beside.wants)],
            exports: vec![Exports::new(); held(beside.are_read)],
            trails: vec![Trail::default(); count],
            count,
        }
    }

    /// Takes note of what a member has come to.
    async fn take(&mut self, holder: &Caller, at: At, came: Came, end: Option<Arc<UnitEnd>>) {
        self.tally.take(at.index, &at.name, &came);
        if let Some(end) = end {
            fanout::ends(holder, &mut self.told, at.place, end).await;
        }
        self.keep(at.index, came);
    }

    /// Keeps what there is to read of a member.
    fn keep(&mut self, index: usize, came: Came) {
        self.trails[index] = came.trail;
        if let (Some(place), Some(value)) = (self.values.get_mut(index), came.value) {
            *place = value;
        }
        if let Some(place) = self.exports.get_mut(index) {
            *place = came.exports;
        }
    }

    /// Returns what all of them came to.
    async fn came(self, on: &Stand<'_>, beside: &Beside<'_>) -> Came {
        let Self { tally, told, values, exports, trails, count } = self;
        let are_skipped = count > 0 && told.is_empty();
        let text = match tally.is_told() {
            true => fanout::told(on.holder, told).await.text.into(),
            false => Arc::default(),
        };
        let (mut came, status) = tally.came(on.is_cancelled(), Outcome::Done { text });
        came.is_skipped = are_skipped;
        came.trail = trails.into_iter().collect();
        let status = (!are_skipped).then_some(status);
        let exports = exports.into_iter().flatten().collect();
        came.group(beside.step, status, beside.wants.then_some(values), exports)
    }
}

fn name(member: &Member<'_>) -> Arc<str> {
    let own = || member.step.name().cloned().unwrap_or_else(|| kind(member.step).into());
    member.name.clone().unwrap_or_else(own)
}

fn agent(runs: &Runs<'_>) -> Arc<str> {
    match runs {
        Runs::Agent(_, agent, _) => Arc::clone(&agent.agent),
        Runs::Steps(_, step) => kind(step).into(),
    }
}

/// The end of a step that failed before there was a unit for it.
fn end_of(outcome: Outcome) -> UnitEnd {
    UnitEnd {
        outcome,
        text: Arc::default(),
        usage: Usage::default(),
        turns: 0,
        tool_uses: 0,
        duration_ms: 0,
        output_file: None,
        share: None,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn gives_up_after(failures: &[(FailureKind, &'static str)]) -> bool {
        let after = NonZeroU32::new(2).unwrap();
        let rule = GiveUpRule { after, hint: "hint".into() };
        let mut streak = FailureStreak { gives_up: Some(&rule), first: None, failed: 0 };
        let mut told = failures.iter().map(|(kind, message)| {
            let end = end_of(Outcome::failed(*kind, *message));
            streak.record(&UnitEnd { turns: 1, ..end }).is_some()
        });
        told.any(|is_told| is_told)
    }

    #[test]
    fn only_failures_of_one_kind_and_reason_stop_the_others() {
        use FailureKind::{Authentication, EmptyAnswer, OutputLimit, Refusal, Request};
        assert!(gives_up_after(&[(Request, "a\nof 1"), (Request, "a\nof 2")]));
        assert!(!gives_up_after(&[(Request, "a"), (Request, "b"), (Request, "b")]));
        assert!(!gives_up_after(&[(Request, "a"), (Authentication, "a")]));
        for kind in [EmptyAnswer, OutputLimit, Refusal] {
            assert!(!gives_up_after(&[(kind, "a"); 3]), "{}", kind.as_str());
            assert!(!gives_up_after(&[(Request, "a"), (kind, "a"), (Request, "a")]));
        }
    }
}
