//! What units may use: the sums, and leave to go on.
//!
//! A ledger's sums are those of its unit and of all that it started, so a limit
//! holds for inner work, too, whoever does it. The run's own limits are main's.

use tokio::sync::oneshot;

use super::super::ledger::{Ledger, Spent};
use super::{Answer, Dispatcher, Effect, Out};
use crate::event::{EventKind, Failure, FailureKind, UnitId};
use crate::line::{Ahead, Budget, CallLeave, RequestLeave};
use crate::message::{Usage, counted};

/// A limit that a ledger has reached.
struct Reached {
    kind: FailureKind,
    /// The limit and where it was set.
    limit: String,
    /// What was used.
    used: String,
}

impl Dispatcher {
    /// From now on the whole run may use no more than this.
    pub fn limit(&mut self, budget: Budget) {
        self.main_ledger().budget = budget;
    }

    /// Adds what a request used to the sums of its unit and of all on whose
    /// behalf that works.
    pub(super) fn spend(&mut self, unit: UnitId, usage: Usage) {
        self.add(unit, Spent { usage, calls: 0 });
    }

    fn add(&mut self, unit: UnitId, spent: Spent) {
        let mut next = Some(unit);
        while let Some(ledger) = next.and_then(|unit| self.units.get_mut(&unit)) {
            ledger.spent += spent;
            next = ledger.parent;
        }
    }

    /// Lets a unit send its next request, unless a limit is reached. A question
    /// after a cancel has begun is dropped.
    pub(super) fn may_request(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        turn: Option<u32>,
        reply: oneshot::Sender<Result<RequestLeave, Failure>>,
    ) {
        if self.ledger(unit).cancel.is_cancelled() {
            return;
        }
        let leave = match self.reached(unit) {
            Some(failure) => Err(failure),
            None => Ok(self.start_request(out, unit, turn)),
        };
        out.effects.push(Effect::Answer(Answer::Request(reply, leave)));
    }

    fn start_request(&mut self, out: &mut Out, unit: UnitId, turn: Option<u32>) -> RequestLeave {
        if let Some(turn) = turn {
            self.turn_started(out, unit, turn);
        }
        let mut chain = self.chain(unit);
        RequestLeave {
            calls_are_limited: chain.any(|(_, ledger)| ledger.budget.tool_calls.is_some()),
        }
    }

    pub(super) fn turn_started(&mut self, out: &mut Out, unit: UnitId, turn: u32) {
        self.ledger(unit).turns = turn;
        self.record(out, unit, EventKind::TurnStarted { turn });
    }

    /// Tells a unit what can be known ahead of what it would ask.
    pub(super) fn ahead(&mut self, out: &mut Out, unit: UnitId, reply: oneshot::Sender<Ahead>) {
        let is_unlimited = self.chain(unit).all(|(_, ledger)| ledger.budget == Budget::default());
        let (sender, news) = oneshot::channel();
        let ledger = self.ledger(unit);
        if ledger.has_aside().is_some() {
            out.effects.push(Effect::Answer(Answer::GoOn(sender)));
        } else {
            ledger.first_news = Some(sender);
        }
        out.effects.push(Effect::Answer(Answer::Ahead(reply, Ahead { is_unlimited, news })));
    }

    /// Lets a unit run as many calls as all limits leave.
    pub(super) fn may_call(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        count: usize,
        reply: oneshot::Sender<CallLeave>,
    ) {
        if self.ledger(unit).cancel.is_cancelled() {
            return;
        }
        let left = |ledger: &Ledger| {
            let most = u64::from(ledger.budget.tool_calls?);
            usize::try_from(most.saturating_sub(ledger.spent.calls)).ok()
        };
        let left = self.chain(unit).filter_map(|(_, ledger)| left(ledger)).min();
        let allowed = left.map_or(count, |left| left.min(count));
        self.add(unit, Spent { usage: Usage::default(), calls: count as u64 });
        let refused = if allowed < count { self.reached(unit) } else { None };
        let leave = CallLeave { count: allowed, refused };
        out.effects.push(Effect::Answer(Answer::Calls(reply, leave)));
    }

    /// Returns the failure of the first limit that is reached: the unit's own,
    /// then those of the units on whose behalf it works.
    fn reached(&self, unit: UnitId) -> Option<Failure> {
        self.chain(unit).find_map(|(of, ledger)| {
            let Reached { kind, limit, used } = reached(ledger)?;
            let who = match of {
                UnitId::MAIN => "the run ".to_owned(),
                of if of == unit => String::new(),
                of => format!("{of}, on whose behalf it works, "),
            };
            let message = format!("{who}reached its limit of {limit}: {used}");
            Some(Failure { kind, message: message.into() })
        })
    }

    /// Returns a unit and those above it, up to main.
    fn chain(&self, unit: UnitId) -> impl Iterator<Item = (UnitId, &Ledger)> {
        let get = |unit: UnitId| self.units.get(&unit).map(|ledger| (unit, ledger));
        std::iter::successors(get(unit), move |(_, ledger)| ledger.parent.and_then(get))
    }
}

/// Returns the limit of a ledger that leaves no room for a request.
fn reached(ledger: &Ledger) -> Option<Reached> {
    let Budget { usd, tokens, tool_calls } = ledger.budget;
    let Spent { usage, calls } = ledger.spent;
    if let Some(most) = usd
        && usage.cost.usd >= most
    {
        let (limit, used) =
            (format!("{most} (`--max-budget-usd`)"), format!("{} used", usage.cost.usd));
        return Some(Reached { kind: FailureKind::Budget, limit, used });
    }
    if let Some(most) = tokens
        && usage.total() >= most.get()
    {
        let limit = format!("{} (`max_tokens`)", counted(most.get(), "token"));
        return Some(Reached {
            kind: FailureKind::MaxTokens,
            limit,
            used: format!("{} used", usage.total()),
        });
    }
    // As many calls as the limit are allowed, and an answer behind them.
    if let Some(most) = tool_calls
        && calls > u64::from(most)
    {
        let limit = format!("{} (`--max-tool-calls`)", counted(u64::from(most), "tool call"));
        let used = format!("{calls} asked for");
        return Some(Reached { kind: FailureKind::MaxToolCalls, limit, used });
    }
    None
}
