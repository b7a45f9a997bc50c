//! The units of a run: declared, let in, ended, joined.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::ledger::{Ledger, Standing, WaitsFor};
use super::{Answer, Dispatcher, Effect, Leaving, Out};
use crate::branch::{Branch, Token};
use crate::event::{EventKind, Failure, FailureKind, Origin, Outcome, UnitEnd, UnitHead, UnitId};
use crate::line::{Child, Orders, Seat, Strand};
use crate::message::{CallId, Output, counted};
use crate::prompt::Said;

/// Children that a unit declares, all at once.
pub(super) struct Declared {
    pub(super) call: Option<CallId>,
    pub(super) children: Vec<Child>,
    pub(super) orders: Option<Orders>,
}

impl Dispatcher {
    /// Gives each child a name, a token and a place in the log, all in
    /// declared order and before any of them runs. `None` once a cancel has
    /// begun.
    pub(super) fn declare(
        &mut self,
        out: &mut Out,
        parent: UnitId,
        declared: Declared,
    ) -> Option<Vec<Seat>> {
        if self.ledger(parent).cancel.is_cancelled() {
            return None;
        }
        let Declared { call, children, orders } = declared;
        self.forget_calls(parent);
        let first = UnitId(self.next_unit);
        let is_waited_for = children.iter().any(|child| !child.is_background);
        if let Some(orders) = orders.filter(|_| is_waited_for) {
            let aside = CancellationToken::new();
            let waits = WaitsFor { call: call.clone(), first, orders, aside };
            self.ledger(parent).waits.push(waits);
        }
        let seats = children.into_iter().map(|child| {
            let before = child.again.and_then(|before| self.units.get(&before));
            let (call_of, batch) = match before {
                Some(before) => (before.call, before.batch),
                None => (first, child.slot.map(|_| first)),
            };
            let aside = self.aside_of(parent, call_of);
            // Whoever was to wait for it has gone on by now.
            let is_background = child.is_background || aside.is_cancelled();
            let seat = self.seat(out, parent, call.as_ref(), Child { is_background, ..child });
            let ledger = self.ledger(seat.unit);
            (ledger.call, ledger.batch) = (call_of, batch);
            Seat { aside, ..seat }
        });
        Some(seats.collect())
    }

    fn seat(&mut self, out: &mut Out, parent: UnitId, call: Option<&CallId>, child: Child) -> Seat {
        let unit = UnitId(self.next_unit);
        self.next_unit += 1;
        let token = match child.strand {
            Strand::Fresh => Some(self.reserve(parent, 1)),
            Strand::Reserved(token) => Some(token),
            Strand::Parents => None,
        };
        let cancel = self.child_cancel(parent);
        let ledger = self.ledger(parent);
        let segment = ledger.segment(&child.description);
        let branch = match token {
            Some(token) => ledger.branch.fork(token, &segment),
            None => ledger.branch.at(&segment),
        };
        ledger.open_children += 1;
        if child.is_background {
            ledger.aside().children.insert(unit);
            ledger.aside().out += 1;
        }
        let head = UnitHead {
            description: child.description,
            agent: child.agent,
            call: call.cloned(),
            parent,
            depth: ledger.depth + 1,
            slot: child.slot,
            origin: child.origin,
            is_background: child.is_background,
            again: child.again,
            step: child.step,
        };
        let (invocation, origin) = (ledger.invocation, head.origin);
        if let Origin::Continued(ended) = origin
            && let Some(ended) = self.units.get_mut(&ended)
        {
            ended.continued_by = Some(unit);
        }
        let mut queued = Ledger::queued(&head, invocation, branch.clone(), cancel.clone());
        queued.budget = child.budget;
        self.units.insert(unit, queued);
        self.record(out, unit, EventKind::UnitQueued(head));
        Seat { unit, branch, origin, cancel, aside: CancellationToken::new() }
    }

    /// Returns the token that stops a child. The end of the turn stops what
    /// main waits for one by one, and leaves what it started in the background
    /// alone; what another unit started has nobody to report to without it.
    fn child_cancel(&mut self, parent: UnitId) -> CancellationToken {
        if parent == UnitId::MAIN {
            self.everything.child_token()
        } else {
            self.ledger(parent).cancel.child_token()
        }
    }

    /// Draws consecutive tokens and returns the first.
    pub(super) fn reserve(&mut self, unit: UnitId, count: u64) -> Token {
        let invocation = self.ledger(unit).invocation;
        self.tokens.entry(invocation).or_default().reserve(count)
    }

    /// Start is a question: once a cancel has begun it is dropped, and the
    /// unit never runs.
    pub(super) fn may_start(&mut self, out: &mut Out, unit: UnitId, reply: oneshot::Sender<()>) {
        let now = out.now;
        let ledger = self.ledger(unit);
        if ledger.cancel.is_cancelled() || ledger.standing != Standing::Queued {
            return;
        }
        ledger.starts(now);
        self.record(out, unit, EventKind::UnitStarted);
        out.effects.push(Effect::Answer(Answer::GoOn(reply)));
    }

    /// Ends a unit: closes its open calls, ends what it started, and records
    /// its one end.
    pub(super) fn end(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        outcome: Outcome,
        output_file: Option<Arc<str>>,
    ) -> Arc<UnitEnd> {
        let outcome = match self.ledger(unit).open_children {
            0 => outcome,
            _ => self.end_orphans(out, unit, outcome),
        };
        self.withdraw(out, unit);
        self.close_calls(out, unit, "cancelled before it had an output");
        let now = out.now;
        let ledger = self.ledger(unit);
        let ran = ledger.has_run();
        let end = Arc::new(ledger.end(outcome, output_file, now));
        let parent = ledger.parent;
        if let Outcome::Done { text: _ } = end.outcome {
            // It ended by itself after all, in the time it was given.
            self.unfinished.retain(|left| *left != unit);
        }
        if unit == UnitId::MAIN {
            self.finish(out, &end);
        } else {
            self.record(out, unit, EventKind::UnitEnded(Arc::clone(&end)));
            if ran {
                out.effects.push(Effect::Sync);
            }
        }
        if let Some(parent) = parent {
            self.ledger(parent).open_children -= 1;
            self.background_ended(out, parent, unit, &end);
            self.leave(out);
        }
        end
    }

    /// A unit that ends while its children do not (it panicked, or was given
    /// up) takes them with it.
    ///
    /// What the run itself leaves behind is unfinished; what another unit does
    /// is told where that unit's failure is.
    fn end_orphans(&mut self, out: &mut Out, parent: UnitId, outcome: Outcome) -> Outcome {
        let orphans = self.ending_with(parent);
        if orphans.is_empty() {
            return outcome;
        }
        for &orphan in &orphans {
            let ledger = self.ledger(orphan);
            let ran = ledger.has_run();
            ledger.cancel.cancel();
            self.end(out, orphan, Outcome::Cancelled { ran }, None);
        }
        if parent == UnitId::MAIN || self.cancel.is_some() {
            self.left_behind(orphans);
            return outcome;
        }
        match outcome {
            Outcome::Failed(Failure { kind, message }) => {
                let count = u32::try_from(orphans.len()).unwrap_or(u32::MAX);
                let agents = counted(count, "agent");
                let message = format!("{message}; {agents} that it had started stopped with it");
                Outcome::failed(kind, message)
            }
            Outcome::Done { .. } | Outcome::Cancelled { .. } | Outcome::Interrupted => outcome,
        }
    }

    /// A unit has ended; main may have to wait for others.
    pub(super) fn ended(&mut self, out: &mut Out, unit: UnitId, leaving: Leaving) {
        if unit == UnitId::MAIN && self.held_by() > 0 {
            self.let_children_end(out, leaving);
        } else {
            self.end_and_answer(out, unit, leaving);
        }
    }

    /// Main has ended and units beside it have not: they are told to stop, and
    /// have the time to end their commands before the run is over.
    pub(super) fn let_children_end(&mut self, out: &mut Out, leaving: Leaving) {
        let behind = self.ending_with(UnitId::MAIN);
        self.left_behind(behind);
        self.leaving = Some(leaving);
        if !self.spares_background() {
            self.everything.cancel();
        }
        self.stop_turn();
        out.effects.push(Effect::StartDeadline);
    }

    /// Ends main if that is all that is left to do.
    fn leave(&mut self, out: &mut Out) {
        if self.held_by() == 0
            && let Some(leaving) = self.leaving.take()
        {
            self.end_and_answer(out, UnitId::MAIN, leaving);
        }
        self.depart_if_due(out);
    }

    /// Ends a unit that waits to hear what it had done by then.
    pub(super) fn end_and_answer(&mut self, out: &mut Out, unit: UnitId, leaving: Leaving) {
        let Leaving { outcome, output_file, reply } = leaving;
        let end = self.end(out, unit, outcome, output_file);
        out.effects.push(Effect::Answer(Answer::End(reply, end)));
    }

    fn left_behind(&mut self, units: Vec<UnitId>) {
        for unit in units {
            if self.ledger(unit).is_agent && !self.unfinished.contains(&unit) {
                self.unfinished.push(unit);
            }
        }
    }

    pub(super) fn open_children_of(
        &self,
        parent: UnitId,
    ) -> impl Iterator<Item = UnitId> + use<'_> {
        let is_open = move |ledger: &Ledger| ledger.parent == Some(parent) && !ledger.has_ended();
        self.units.iter().filter(move |(_, ledger)| is_open(ledger)).map(|(&unit, _)| unit)
    }

    /// Every call of a reply has exactly one output in the log.
    pub(super) fn close_calls(&mut self, out: &mut Out, unit: UnitId, why: &str) {
        for (call, tool) in self.ledger(unit).take_open_calls() {
            let output = Arc::new(Output::error(why));
            self.record(out, unit, EventKind::ToolFinished { call, tool, output, took_ms: 0 });
        }
    }

    pub(super) fn join(&mut self, out: &mut Out, parent: UnitId, children: Vec<UnitId>) {
        for &child in &children {
            // Whoever waited for it saw it go without a word.
            if self.units.get(&child).is_some_and(|ledger| !ledger.has_ended()) {
                let lost = Outcome::failed(FailureKind::Panic, "the unit was lost");
                self.end(out, child, lost, None);
            }
        }
        let branches: Vec<Branch> = children
            .iter()
            .filter_map(|child| self.units.remove(child))
            .map(|ledger| ledger.branch)
            .collect();
        self.forget_calls(parent);
        let ledger = self.ledger(parent);
        ledger.branch = ledger.branch.join(branches.iter().map(|branch| &branch.tokens));
        self.record(out, parent, EventKind::Joined { children });
    }

    /// Returns what a unit's branch lets it see of others.
    pub(super) fn visible(&mut self, unit: UnitId) -> Option<Vec<Arc<Said>>> {
        let ledger = self.ledger(unit);
        let (invocation, tokens) = (ledger.invocation, ledger.branch.tokens.clone());
        Some(self.context.as_mut()?.seen_by(unit, invocation, &tokens))
    }
}
