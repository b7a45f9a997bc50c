//! The dispatcher: the one owner of a run's state.
//!
//! Units send it [`UnitEvent`]s; the outside world sends it signals. It handles
//! them one at a time, so whatever it says about the run (how many units are
//! running, which token is next) is true at that moment. Nothing else in the
//! crate decides whether a unit may start, numbers events or draws tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::ledger::{Ledger, Standing};
use crate::branch::{Branch, Tokens};
use crate::event::{
    CancelReason, Delta, Event, EventKind, FailureKind, Invocation, InvocationEnd, NoticeLevel,
    Outcome, Seq, SessionHead, UnitEnd, UnitHead, UnitId, UnixMillis,
};
use crate::line::{Child, FromUnit, Seat, UnitEvent};
use crate::message::{CallId, Output};

/// What can reach the dispatcher.
#[derive(Debug)]
pub enum Input {
    /// A unit speaks.
    Unit(FromUnit),
    /// Somebody wants units to stop.
    Cancel(Reach, CancelReason),
    /// Units were told to stop and had time enough; the rest is given up.
    Overdue,
    /// Something outside the units went wrong that people should know.
    Trouble(Arc<str>),
}

/// How far a cancel goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// One unit and what it started.
    Unit(UnitId),
    /// The current turn with its foreground units.
    Turn,
    /// Every unit.
    All,
}

/// What the runtime has to do now, in this order.
#[derive(Debug)]
#[must_use = "an effect that is dropped is an event nobody hears of or an answer nobody gets"]
pub struct Response {
    /// The effects, in order.
    pub effects: Vec<Effect>,
}

/// One thing the runtime has to do.
#[derive(Debug)]
pub enum Effect {
    /// Append to the log and show.
    Record(Event),
    /// Show, but do not keep.
    Glimpse(Delta),
    /// Begin to put on disk what was recorded by now.
    Sync,
    /// Let a waiting unit go on.
    Answer(Answer),
    /// Let a waiting unit go on once all that was recorded by now is on disk.
    AnswerSynced(Answer),
    /// The invocation is over; nothing follows.
    Finish,
}

/// An answer that a unit waits for.
#[derive(Debug)]
pub enum Answer {
    /// It may go on: it may start, its call is on disk, its children are in.
    GoOn(oneshot::Sender<()>),
    /// Its children have seats.
    Seats(oneshot::Sender<Vec<Seat>>, Vec<Seat>),
    /// It ended, and this is what it had done.
    End(oneshot::Sender<Arc<UnitEnd>>, Arc<UnitEnd>),
}

impl Answer {
    /// Gives the answer.
    pub fn give(self) {
        // A unit that no longer waits was dropped; it needs no answer.
        match self {
            Self::GoOn(reply) => drop(reply.send(())),
            Self::Seats(reply, seats) => drop(reply.send(seats)),
            Self::End(reply, end) => drop(reply.send(end)),
        }
    }
}

/// The state of a run.
#[derive(Debug)]
pub struct Dispatcher {
    seq: u64,
    invocation: Invocation,
    tokens: Tokens,
    next_unit: u32,
    units: BTreeMap<UnitId, Ledger>,
    /// Parent of every unit's token.
    everything: CancellationToken,
    cancel: Option<CancelReason>,
    /// Units that ended only because their parents did.
    unfinished: Vec<UnitId>,
    finished: bool,
}

impl Dispatcher {
    /// A dispatcher for the first invocation of a session.
    #[must_use]
    pub fn new() -> Self {
        let everything = CancellationToken::new();
        let main = Ledger::main(everything.child_token());
        Self {
            seq: 0,
            invocation: Invocation(1),
            tokens: Tokens::default(),
            next_unit: 1,
            units: BTreeMap::from([(UnitId::MAIN, main)]),
            everything,
            cancel: None,
            unfinished: Vec::new(),
            finished: false,
        }
    }

    /// Returns the token that stops the main unit.
    #[must_use]
    pub fn main_cancel(&self) -> CancellationToken {
        self.units[&UnitId::MAIN].cancel.clone()
    }

    /// Begins the session and its invocation.
    pub fn open(&mut self, head: SessionHead, prompt: Arc<str>, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        self.main_ledger().started = Some(now);
        self.record(&mut out, UnitId::MAIN, EventKind::SessionOpened(head));
        self.record(&mut out, UnitId::MAIN, EventKind::InvocationStarted { prompt });
        out.effects.push(Effect::Sync);
        out.done()
    }

    /// Handles one input. This is synchronous and does no I/O of its own, so a
    /// test can drive every path without a runtime.
    pub fn handle(&mut self, input: Input, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        if !self.finished {
            match input {
                Input::Unit(FromUnit { unit, event }) => self.hear(&mut out, unit, event),
                Input::Cancel(reach, reason) => self.cancel(reach, reason),
                Input::Overdue => self.give_up(&mut out),
                Input::Trouble(text) => {
                    let notice = EventKind::Notice { level: NoticeLevel::Warning, text };
                    self.record(&mut out, UnitId::MAIN, notice);
                }
            }
        }
        out.done()
    }

    /// Tells whether a cancel of the whole turn has begun, and the harshest
    /// reason for it.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancel
    }

    fn hear(&mut self, out: &mut Out, unit: UnitId, event: UnitEvent) {
        // A unit whose end is in the log says nothing any more.
        if self.units.get(&unit).is_none_or(Ledger::has_ended) {
            return;
        }
        match event {
            UnitEvent::Declare { call, children, reply } => {
                if let Some(seats) = self.declare(out, unit, &call, children) {
                    out.effects.push(Effect::Answer(Answer::Seats(reply, seats)));
                }
            }
            UnitEvent::MayStart { reply } => self.may_start(out, unit, reply),
            UnitEvent::Ended { outcome, output_file, reply } => {
                let end = self.end(out, unit, outcome, output_file);
                out.effects.push(Effect::Answer(Answer::End(reply, end)));
            }
            UnitEvent::Join { children, reply } => {
                self.join(out, unit, children);
                out.effects.push(Effect::Answer(Answer::GoOn(reply)));
            }
            UnitEvent::Delta(piece) => {
                self.ledger(unit).writes(&piece);
                out.effects.push(Effect::Glimpse(Delta { unit, piece }));
            }
            UnitEvent::ToolStarted { call, tool, subject, synced } => {
                self.record(out, unit, EventKind::ToolStarted { call, tool, subject });
                if let Some(reply) = synced {
                    out.effects.push(Effect::AnswerSynced(Answer::GoOn(reply)));
                }
            }
            UnitEvent::ToolFinished { call, tool, output, took_ms } => {
                self.ledger(unit).closed(&call);
                self.record(out, unit, EventKind::ToolFinished { call, tool, output, took_ms });
                out.effects.push(Effect::Sync);
            }
            UnitEvent::Replied(replied) => {
                self.ledger(unit).replied(&replied);
                // Not synced: what ends its turn is, be it an output or the
                // unit's end, and so is the start of whatever it sets off.
                self.record(out, unit, EventKind::Replied(replied));
            }
            UnitEvent::Prompted { text } => self.record(out, unit, EventKind::Prompted { text }),
            UnitEvent::TurnStarted { turn } => {
                self.ledger(unit).turns = turn;
                self.record(out, unit, EventKind::TurnStarted { turn });
            }
            UnitEvent::Denied { call, tool, arguments, reason } => {
                self.record(out, unit, EventKind::Denied { call, tool, arguments, reason });
            }
            UnitEvent::Notice { level, text } => {
                self.record(out, unit, EventKind::Notice { level, text });
            }
        }
    }

    /// Gives each child a name, a token and a place in the log, all in
    /// declared order and before any of them runs. `None` once a cancel has
    /// begun.
    fn declare(
        &mut self,
        out: &mut Out,
        parent: UnitId,
        call: &CallId,
        children: Vec<Child>,
    ) -> Option<Vec<Seat>> {
        if self.ledger(parent).cancel.is_cancelled() {
            return None;
        }
        let count = u32::try_from(children.len()).unwrap_or(u32::MAX);
        self.ledger(parent).open_children += count;
        let mut seats = Vec::with_capacity(children.len());
        for child in children {
            let unit = UnitId(self.next_unit);
            self.next_unit += 1;
            let token = self.tokens.draw();
            let parent_ledger = self.units.get_mut(&parent).expect("hear() checked the unit");
            let segment = parent_ledger.segment(&child.description);
            let branch = parent_ledger.branch.fork(token, &segment);
            let cancel = parent_ledger.cancel.child_token();
            let depth = parent_ledger.depth + 1;
            let head = UnitHead {
                description: child.description,
                agent: child.agent,
                call: call.clone(),
                parent,
                depth,
                slot: child.slot,
            };
            let ledger = Ledger::queued(parent, depth, branch.clone(), cancel.clone());
            self.units.insert(unit, ledger);
            self.record(out, unit, EventKind::UnitQueued(head));
            seats.push(Seat { unit, branch, cancel });
        }
        Some(seats)
    }

    /// Start is a question: once a cancel has begun it is dropped, and the
    /// unit never runs.
    fn may_start(&mut self, out: &mut Out, unit: UnitId, reply: oneshot::Sender<()>) {
        let now = out.now;
        let ledger = self.ledger(unit);
        if ledger.cancel.is_cancelled() || ledger.standing != Standing::Queued {
            return;
        }
        ledger.standing = Standing::Running;
        ledger.started = Some(now);
        self.record(out, unit, EventKind::UnitStarted);
        out.effects.push(Effect::Answer(Answer::GoOn(reply)));
    }

    /// Ends a unit: closes its open calls, ends what it started, and records
    /// its one end.
    fn end(
        &mut self,
        out: &mut Out,
        unit: UnitId,
        outcome: Outcome,
        output_file: Option<Arc<str>>,
    ) -> Arc<UnitEnd> {
        if self.ledger(unit).open_children > 0 {
            self.end_orphans(out, unit);
        }
        self.close_calls(out, unit);
        let now = out.now;
        let ledger = self.ledger(unit);
        let ran = ledger.standing != Standing::Queued;
        let end = Arc::new(ledger.end(outcome, output_file, now));
        if let Some(parent) = ledger.parent {
            self.ledger(parent).open_children -= 1;
        }
        if unit == UnitId::MAIN {
            self.finish(out, &end);
        } else {
            self.record(out, unit, EventKind::UnitEnded(Arc::clone(&end)));
            if ran {
                out.effects.push(Effect::Sync);
            }
        }
        end
    }

    /// A unit that ends while its children do not (it panicked, or was given
    /// up) takes them with it.
    fn end_orphans(&mut self, out: &mut Out, parent: UnitId) {
        let orphans: Vec<UnitId> = self
            .units
            .iter()
            .filter(|(_, ledger)| ledger.parent == Some(parent) && !ledger.has_ended())
            .map(|(&unit, _)| unit)
            .collect();
        for orphan in orphans {
            self.unfinished.push(orphan);
            let ledger = self.ledger(orphan);
            let ran = ledger.standing == Standing::Running;
            ledger.cancel.cancel();
            self.end(out, orphan, Outcome::Cancelled { ran }, None);
        }
    }

    /// Every call of a reply has exactly one output in the log.
    fn close_calls(&mut self, out: &mut Out, unit: UnitId) {
        for (call, tool) in self.ledger(unit).take_open_calls() {
            let output = Arc::new(Output::error("cancelled before it had an output"));
            self.record(out, unit, EventKind::ToolFinished { call, tool, output, took_ms: 0 });
        }
    }

    fn join(&mut self, out: &mut Out, parent: UnitId, children: Vec<UnitId>) {
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
        let ledger = self.ledger(parent);
        ledger.branch = ledger.branch.join(branches.iter().map(|branch| &branch.tokens));
        self.record(out, parent, EventKind::Joined { children });
    }

    /// Tells units to stop, here and now: whatever is handled after this finds
    /// the cancel begun.
    fn cancel(&mut self, reach: Reach, reason: CancelReason) {
        let token = match reach {
            Reach::Unit(unit) => match self.units.get(&unit) {
                Some(ledger) => ledger.cancel.clone(),
                None => return,
            },
            Reach::Turn => {
                self.cancel = self.cancel.max(Some(reason));
                self.main_cancel()
            }
            Reach::All => {
                self.cancel = self.cancel.max(Some(reason));
                self.everything.clone()
            }
        };
        token.cancel();
    }

    /// Ends what did not end by itself, so that the run has its result.
    fn give_up(&mut self, out: &mut Out) {
        self.everything.cancel();
        self.end(out, UnitId::MAIN, Outcome::Cancelled { ran: true }, None);
    }

    fn finish(&mut self, out: &mut Out, main: &UnitEnd) {
        let end = InvocationEnd {
            outcome: main.outcome.clone(),
            text: Arc::clone(&main.text),
            cancel: self.cancel,
            unfinished: std::mem::take(&mut self.unfinished),
        };
        self.record(out, UnitId::MAIN, EventKind::InvocationEnded(Arc::new(end)));
        out.effects.push(Effect::Sync);
        out.effects.push(Effect::Finish);
        self.finished = true;
    }

    fn record(&mut self, out: &mut Out, unit: UnitId, kind: EventKind) {
        self.seq += 1;
        out.effects.push(Effect::Record(Event {
            seq: Seq(self.seq),
            at: out.now,
            invocation: self.invocation,
            unit,
            branch: self.ledger(unit).branch.clone(),
            kind,
        }));
    }

    fn ledger(&mut self, unit: UnitId) -> &mut Ledger {
        self.units.get_mut(&unit).expect("only units with a ledger are asked for")
    }

    fn main_ledger(&mut self) -> &mut Ledger {
        self.ledger(UnitId::MAIN)
    }
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self::new()
    }
}

/// Collects the effects of one input.
struct Out {
    now: UnixMillis,
    effects: Vec<Effect>,
}

impl Out {
    fn new(now: UnixMillis) -> Self {
        Self { now, effects: Vec::new() }
    }

    fn done(self) -> Response {
        Response { effects: self.effects }
    }
}

#[cfg(test)]
mod tests;
