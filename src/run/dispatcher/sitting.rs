//! A run that lives on: main rests between invocations, and what it started in
//! the background goes on meanwhile.
//!
//! While main rests its ledger has ended. The next invocation gives it another
//! one, which takes over what outlives an invocation. Only the end of the whole
//! run, or a cancel of everything, ends what works in the background.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::NoRewind;
use super::super::ledger::{Ledger, Standing};
use super::{Answer, Dispatcher, Effect, Out, Response};
use crate::branch::Branch;
use crate::event::{
    CancelReason, EventKind, Invocation, Outcome, Seq, SessionHead, UnitId, UnitState, UnixMillis,
};

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Typed {
    /// What was typed; empty if it is news that main is told.
    pub prompt: Arc<str>,
    /// What a client calls the message; `None` if it has no name for it.
    pub message: Option<Arc<str>>,
}

impl<T: Into<Arc<str>>> From<T> for Typed {
    fn from(prompt: T) -> Self {
        Self { prompt: prompt.into(), message: None }
    }
}

impl Dispatcher {
    /// From now on main rests after each invocation. It rests now: the first
    /// one has not begun. `head` is that of a session which is new.
    pub fn live_on(&mut self, head: Option<SessionHead>, now: UnixMillis) -> Response {
        let mut out = Out::new(now);
        self.lives_on = true;
        let next = self.main_ledger().invocation;
        // An event of the time before belongs to the invocation before; in a
        // new session there is none.
        let last = Invocation(next.0.saturating_sub(1).max(1));
        let tokens = self.joins.joined_in(last);
        let main = self.main_ledger();
        main.invocation = last;
        main.branch = Branch { tokens, ..Branch::root() };
        main.standing = Standing::Ended(UnitState::Completed);
        self.has_begun = next != last;
        if let Some(head) = head {
            self.opened(&mut out, head);
        }
        out.done()
    }

    /// Tells whether main rests, so that an invocation may begin.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.lives_on && !self.finished && self.units[&UnitId::MAIN].has_ended()
    }

    /// Tells whether nothing at all works.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.rests() && self.units[&UnitId::MAIN].open_children == 0
    }

    /// Tells whether the next invocation may begin now.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        // What was told to stop altogether has to be gone first.
        self.rests() && !self.departs && (self.is_quiet() || !self.everything.is_cancelled())
    }

    /// Begins the next invocation; ignored unless it may begin.
    pub(super) fn begin_next(&mut self, out: &mut Out, asked: Typed) {
        if !self.may_begin() {
            return;
        }
        if self.everything.is_cancelled() {
            self.everything = CancellationToken::new();
        }
        let before = self.main_ledger().invocation;
        let next = if self.has_begun { Invocation(before.0 + 1) } else { before };
        self.has_begun = true;
        let fresh = Ledger::main(next, self.everything.child_token());
        let before = std::mem::replace(self.main_ledger(), fresh);
        self.main_ledger().takes_over(before);
        (self.cancel, self.unfinished) = (None, Vec::new());
        self.begin(out, asked);
    }

    /// The invocation that has begun is the last one: what works beside main
    /// ends with it, and so does the run.
    pub fn rest_no_more(&mut self) {
        self.lives_on = false;
    }

    /// Puts main's conversation back to what it was after an event. Only while
    /// nothing works. Whoever asked for it is told once the log is on the disk.
    pub fn rewind(
        &mut self,
        to: Seq,
        reply: oneshot::Sender<Result<(), NoRewind>>,
        now: UnixMillis,
    ) -> Response {
        let mut out = Out::new(now);
        self.record(&mut out, UnitId::MAIN, EventKind::Rewound { to });
        out.effects.push(Effect::AnswerSynced(Answer::Rewound(reply, Ok(()))));
        out.done()
    }

    /// Returns how many units of main work.
    #[must_use]
    pub fn at_work(&self) -> u32 {
        self.units[&UnitId::MAIN].open_children
    }

    /// The process leaves the session, once nothing works any more.
    pub(super) fn depart(&mut self, out: &mut Out) {
        if !self.lives_on {
            return;
        }
        let is_first = !std::mem::replace(&mut self.departs, true);
        self.everything.cancel();
        if !self.rests() {
            self.cancel = self.cancel.max(Some(CancelReason::Interrupt));
        }
        // Whoever asks again gives no more time.
        if is_first && !self.is_quiet() {
            out.effects.push(Effect::StartDeadline);
        }
        self.depart_if_due(out);
    }

    /// Ends the run if the process leaves and nothing works any more.
    pub(super) fn depart_if_due(&mut self, out: &mut Out) {
        if self.departs && self.is_quiet() {
            self.take_back(out);
            self.record(out, UnitId::MAIN, EventKind::Left);
            out.effects.push(Effect::Sync);
            self.over(out);
        }
    }

    pub(super) fn over(&mut self, out: &mut Out) {
        out.effects.push(Effect::Over);
        self.finished = true;
    }

    /// Ends what was told to stop while main rests, and has not.
    pub(super) fn give_up_rest(&mut self, out: &mut Out) {
        if !self.everything.is_cancelled() {
            return;
        }
        for unit in self.open_children_of(UnitId::MAIN).collect::<Vec<_>>() {
            let ran = self.ledger(unit).has_run();
            self.end(out, unit, Outcome::Cancelled { ran }, None);
        }
    }

    /// Tells whether the end of main leaves units in the background alone.
    pub(super) fn spares_background(&self) -> bool {
        self.lives_on && !self.everything.is_cancelled()
    }

    /// Returns how many units keep main from ending, or end with it.
    pub(super) fn held_by(&mut self) -> usize {
        let spares_background = self.spares_background();
        let main = self.main_ledger();
        let beside = main.has_aside().map_or(0, |aside| aside.out);
        let open = main.open_children as usize;
        if spares_background { open - beside } else { open }
    }

    /// Returns the open children of a unit that end with it.
    pub(super) fn ending_with(&self, parent: UnitId) -> Vec<UnitId> {
        let spared = parent == UnitId::MAIN && self.spares_background();
        let ends = |&unit: &UnitId| !spared || !self.units[&parent].started_in_background(unit);
        self.open_children_of(parent).filter(ends).collect()
    }

    /// Tells main to stop, and what it waits for.
    pub(super) fn stop_turn(&mut self) {
        let main = &self.units[&UnitId::MAIN];
        main.cancel.cancel();
        let foreground = self.open_children_of(UnitId::MAIN);
        for unit in foreground.filter(|&unit| !main.started_in_background(unit)) {
            self.units[&unit].cancel.cancel();
        }
    }
}
