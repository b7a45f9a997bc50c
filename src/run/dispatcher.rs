//! The dispatcher: the one owner of a run's state.
//!
//! Units send it [`UnitEvent`]s; the outside world sends it signals. It handles
//! them one at a time, so whatever it says about the run (how many units are
//! running, which token is next) is true at that moment. Nothing else in the
//! crate decides whether a unit may start, numbers events or draws tokens.

mod answer;
mod background;
mod budget;
mod lost;
mod orders;
mod questions;
mod refused;
mod repair;
mod seed;
mod sitting;
mod told;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Moved;
use super::ledger::Ledger;
use crate::branch::{Branch, RootJoins, Tokens};
use crate::event::{
    CancelReason, Chosen, Delta, Event, EventKind, Invocation, InvocationEnd, NoticeLevel, Outcome,
    QuestionId, Seq, SessionHead, UnitEnd, UnitId, UnixMillis, Verdict,
};
use crate::guard::Mode;
use crate::line::{FromUnit, UnitEvent};
use crate::message::CallId;
use crate::prompt::Context;
use units::Declared;

pub use answer::Answer;
pub use background::WROTE_CAP;
pub use repair::{Tell, repair};
pub use seed::Seed;
pub use sitting::Typed;

/// What can reach the dispatcher.
#[derive(Debug)]
pub enum Input {
    /// A unit speaks.
    Unit(FromUnit),
    /// Somebody answers a question.
    Answer(QuestionId, Verdict),
    /// Somebody answers a question, and wants the turn to stop.
    AnswerLast(QuestionId, Verdict),
    /// From now on nobody answers questions.
    NobodyAnswers,
    /// Somebody wants units to stop.
    Cancel(Reach, CancelReason),
    /// Units were told to stop and had time enough; the rest is given up.
    Overdue,
    /// Something outside the units went wrong that people should know.
    Trouble(Arc<str>),
    /// Somebody wants the next thing done. Only said while main rests.
    Begin(Typed),
    /// From here on main answers with this.
    Chosen(Chosen),
    /// From here on this much runs without a rule.
    Mode(Mode),
    /// The user writes to main.
    Wrote(Arc<str>),
    /// The user takes back what main has not read.
    TookBack,
    /// The units that main waits for go on beside it.
    SetAside(Option<(Option<CallId>, Moved)>),
    /// The task of this unit is run again in its place.
    Again(UnitId),
    /// The process leaves the session: whatever still works is to stop.
    Leave,
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
    /// Write these rules to the user's settings, as allowed from now on.
    KeepRules(Vec<Arc<str>>),
    /// Units were told to stop: from now on their time is limited.
    StartDeadline,
    /// The invocation is over: main rests, or the run is over.
    Finish,
    /// The run is over; nothing follows.
    Over,
}

/// The state of a run.
#[derive(Debug)]
pub struct Dispatcher {
    seq: u64,
    /// One counter for each invocation that units of this run belong to.
    tokens: BTreeMap<Invocation, Tokens>,
    /// What the root branch has joined in each invocation.
    joins: RootJoins,
    next_unit: u32,
    units: BTreeMap<UnitId, Ledger>,
    /// What units can be told of each other; `None` if nobody will ask: it
    /// grows with the session.
    context: Option<Context>,
    /// Parent of the tokens of main and of what it starts: a child's cannot be
    /// hung elsewhere later, and what works in the background outlives main's.
    everything: CancellationToken,
    cancel: Option<CancelReason>,
    /// Units that ended only because the run did.
    unfinished: Vec<UnitId>,
    /// Whether anybody answers questions.
    is_answered: bool,
    /// Questions without an answer, oldest first.
    questions: BTreeMap<QuestionId, questions::Open>,
    /// What their answers allow beyond them.
    grants: questions::Grants,
    /// The end of main, as long as units beside it have not ended.
    leaving: Option<Leaving>,
    /// Whether main rests after each invocation until the next one begins.
    lives_on: bool,
    /// What main answers with; `None` if nobody has said.
    chosen: Option<Chosen>,
    /// Whether any invocation of the session has begun.
    has_begun: bool,
    /// Whether the process leaves the session once nothing works any more.
    departs: bool,
    unanswered: refused::Unanswered,
    finished: bool,
}

impl Dispatcher {
    /// A dispatcher for the first invocation of a session.
    #[must_use]
    pub fn new() -> Self {
        Self::after(Seed::default())
    }

    /// A dispatcher for the next invocation of a session.
    #[must_use]
    pub fn after(mut seed: Seed) -> Self {
        let everything = CancellationToken::new();
        let mut main = Ledger::main(seed.invocation, everything.child_token());
        let mut units = seed.take_ended(&mut main);
        units.insert(UnitId::MAIN, main);
        let tokens = seed.largest.into_iter();
        Self {
            seq: seed.last.0,
            tokens: tokens.map(|(number, largest)| (number, Tokens::after(largest))).collect(),
            joins: seed.joins,
            next_unit: seed.next_unit.0,
            units,
            context: None,
            everything,
            cancel: None,
            unfinished: Vec::new(),
            is_answered: false,
            questions: BTreeMap::new(),
            grants: questions::Grants::of(seed.granted),
            leaving: None,
            lives_on: false,
            chosen: seed.chosen,
            has_begun: true,
            departs: false,
            unanswered: refused::Unanswered::default(),
            finished: false,
        }
    }

    /// From now on keeps what units can be told of each other. `so_far` is what
    /// the session holds of it already.
    pub fn keep_context(&mut self, so_far: Context) {
        self.context = Some(so_far);
    }

    /// Tells whether it does.
    #[must_use]
    pub fn keeps_context(&self) -> bool {
        self.context.is_some()
    }

    /// Returns the token that stops the main unit.
    #[must_use]
    pub fn main_cancel(&self) -> CancellationToken {
        self.units[&UnitId::MAIN].cancel.clone()
    }

    /// Begins the session and its invocation.
    pub fn open(&mut self, head: SessionHead, asked: Typed, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        self.opened(&mut out, head);
        self.begin(&mut out, asked);
        out.done()
    }

    fn opened(&mut self, out: &mut Out, head: SessionHead) {
        let (model, mode) = (Arc::clone(&head.model), Arc::clone(&head.mode));
        self.chosen = Some(Chosen { model, mode });
        self.record(out, UnitId::MAIN, EventKind::SessionOpened(head));
    }

    /// From here on main answers with this. Nothing happens if it does already.
    fn choose(&mut self, out: &mut Out, chosen: Chosen) {
        if self.chosen.as_ref() != Some(&chosen) {
            self.chosen = Some(chosen.clone());
            self.record(out, UnitId::MAIN, EventKind::Chosen(chosen));
        }
    }

    /// Begins a further invocation of the session.
    pub fn go_on(&mut self, asked: Typed, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        self.begin(&mut out, asked);
        out.done()
    }

    fn begin(&mut self, out: &mut Out, Typed { prompt, message }: Typed) {
        self.main_ledger().started = Some(out.now);
        self.record(out, UnitId::MAIN, EventKind::InvocationStarted { prompt, message });
        out.effects.push(Effect::Sync);
    }

    /// Handles one input. This is synchronous and does no I/O of its own, so a
    /// test can drive every path without a runtime.
    pub fn handle(&mut self, input: Input, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        if !self.finished {
            match input {
                Input::Unit(FromUnit { unit, event }) => self.hear(&mut out, unit, event),
                Input::Answer(id, answer) => self.answer(&mut out, id, answer),
                Input::AnswerLast(id, answer) => self.answer_last(&mut out, id, answer),
                Input::NobodyAnswers => self.nobody_answers(&mut out),
                Input::Cancel(reach, reason) => self.cancel(&mut out, reach, reason),
                Input::Overdue => self.give_up(&mut out),
                Input::Begin(asked) => self.begin_next(&mut out, asked),
                Input::Chosen(chosen) => self.choose(&mut out, chosen),
                Input::Mode(mode) => {
                    if let Some(chosen) = self.chosen.clone() {
                        self.choose(&mut out, Chosen { mode: mode.as_str().into(), ..chosen });
                    }
                }
                Input::Wrote(text) => self.wrote(&mut out, text),
                Input::TookBack => self.take_back(&mut out),
                Input::SetAside(of) => self.set_aside(&mut out, of),
                Input::Again(unit) => self.again(&mut out, unit),
                Input::Leave => self.depart(&mut out),
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
        if !self.is_heard(unit, &event) {
            return;
        }
        match event {
            UnitEvent::Declare { call, children, orders, reply } => {
                let seats = self.declare(out, unit, Declared { call, children, orders });
                out.answer(seats.map(|seats| Answer::Seats(reply, seats)));
            }
            UnitEvent::Reserve { count, reply } => {
                let first = self.reserve(unit, count);
                out.effects.push(Effect::Answer(Answer::Reserved(reply, first)));
            }
            UnitEvent::MayStart { reply } => self.may_start(out, unit, reply),
            UnitEvent::Lost { worker, attempt: number, reply } => {
                self.lost(out, unit, lost::Attempt { worker, number }, reply);
            }
            UnitEvent::MayRequest { turn, reply } => self.may_request(out, unit, turn, reply),
            UnitEvent::Ahead { reply } => self.ahead(out, unit, reply),
            UnitEvent::TurnStarted { turn } => self.turn_started(out, unit, turn),
            UnitEvent::MayCall { count, reply } => self.may_call(out, unit, count, reply),
            UnitEvent::Ask { question, decided, reply } => {
                self.ask(out, questions::Open { unit, question, decided, reply });
            }
            UnitEvent::Unasked => self.withdraw_unheard(out, unit),
            UnitEvent::Ended { outcome, output_file, reply } => {
                self.ended(out, unit, Leaving { outcome, output_file, reply });
            }
            UnitEvent::Join { children, reply } => {
                self.join(out, unit, children);
                out.effects.push(Effect::Answer(Answer::GoOn(reply)));
            }
            UnitEvent::Tend(tend) => self.tend(out, unit, tend),
            UnitEvent::Visible { reply } => {
                let said = self.visible(unit);
                out.answer(said.map(|said| Answer::Visible(reply, said)));
            }
            UnitEvent::Leaves(text) => self.ledger(unit).leaves(text),
            UnitEvent::Delta(piece) => {
                self.ledger(unit).writes(&piece);
                out.effects.push(Effect::Glimpse(Delta { unit, piece }));
            }
            UnitEvent::ToolStarted { call, tool, subject, confinement, synced } => {
                let started = EventKind::ToolStarted { call, tool, subject, confinement };
                self.record_synced(out, unit, started, synced);
            }
            UnitEvent::FileChanged { change, synced } => {
                self.record_synced(out, unit, EventKind::FileChanged(change), Some(synced));
            }
            UnitEvent::ToolFinished { call, tool, output, took_ms } => {
                self.ledger(unit).closed(&call);
                self.record(out, unit, EventKind::ToolFinished { call, tool, output, took_ms });
                out.effects.push(Effect::Sync);
            }
            UnitEvent::Replied(replied) => {
                self.ledger(unit).replied(&replied);
                self.spend(unit, replied.usage);
                // Not synced: what ends its turn is, be it an output or the
                // unit's end, and so is the start of whatever it sets off.
                self.record(out, unit, EventKind::Replied(replied));
            }
            UnitEvent::Told(told) => self.told(out, unit, told),
        }
    }

    /// Tells units to stop, here and now: whatever is handled after this finds
    /// the cancel begun.
    fn cancel(&mut self, out: &mut Out, reach: Reach, reason: CancelReason) {
        match reach {
            Reach::Unit(unit) => {
                let stopped = self.units.get(&unit).filter(|_| unit != UnitId::MAIN);
                if let Some(ledger) = stopped {
                    ledger.cancel.cancel();
                }
            }
            // A turn that is over has nothing to stop.
            Reach::Turn if self.rests() => {}
            Reach::Turn => {
                self.cancel = self.cancel.max(Some(reason));
                self.stop_turn();
            }
            Reach::All => {
                self.cancel = self.cancel.max(Some(reason));
                self.everything.cancel();
                // Only the user may want to go on after this.
                if self.lives_on && reason > CancelReason::Interrupt {
                    self.depart(out);
                }
            }
        }
    }

    /// Ends what did not end by itself, so that the run has its result.
    fn give_up(&mut self, out: &mut Out) {
        if self.rests() {
            return self.give_up_rest(out);
        }
        if !self.spares_background() {
            self.everything.cancel();
        }
        self.stop_turn();
        match self.leaving.take() {
            Some(leaving) => self.end_and_answer(out, UnitId::MAIN, leaving),
            None => drop(self.end(out, UnitId::MAIN, Outcome::Cancelled { ran: true }, None)),
        }
    }

    fn finish(&mut self, out: &mut Out, main: &UnitEnd) {
        self.take_back_if_refused(out, main);
        let end = InvocationEnd {
            outcome: main.outcome.clone(),
            text: Arc::clone(&main.text),
            cancel: self.cancel,
            unfinished: std::mem::take(&mut self.unfinished),
        };
        self.record(out, UnitId::MAIN, EventKind::InvocationEnded(Arc::new(end)));
        out.effects.push(Effect::Sync);
        out.effects.push(Effect::Finish);
        if self.lives_on {
            // What units beside main come to is not owed to this.
            self.cancel = None;
            self.depart_if_due(out);
        } else {
            self.over(out);
        }
    }

    fn record(&mut self, out: &mut Out, unit: UnitId, kind: EventKind) {
        let branch = self.ledger(unit).branch.clone();
        self.record_on(out, unit, branch, kind);
    }

    fn record_on(&mut self, out: &mut Out, unit: UnitId, branch: Branch, kind: EventKind) {
        let invocation = self.ledger(unit).invocation;
        let event = Event { seq: Seq(0), at: out.now, invocation, unit, branch, kind };
        self.number(out, event);
    }

    /// Gives an event its number and takes note of it.
    fn number(&mut self, out: &mut Out, event: Event) {
        self.seq += 1;
        let event = Event { seq: Seq(self.seq), ..event };
        self.joins.take(&event);
        self.unanswered.take(&event);
        if let Some(context) = &mut self.context {
            context.take(&event);
        }
        out.effects.push(Effect::Record(event));
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

/// The end of a unit that it has reported itself.
#[derive(Debug)]
struct Leaving {
    outcome: Outcome,
    output_file: Option<Arc<str>>,
    reply: oneshot::Sender<Arc<UnitEnd>>,
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

    /// Gives an answer, if there is one.
    fn answer(&mut self, answer: Option<Answer>) {
        self.effects.extend(answer.map(Effect::Answer));
    }

    fn done(self) -> Response {
        Response { effects: self.effects }
    }
}

#[cfg(test)]
mod tests;
