//! The fold: what each event changes of what a session has come to.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Account, CUT_OFF, CutOff, GRANTED_CAP, HEARD_CAP, Past, PastUnit, Told, Work};
use crate::branch::Token;
use crate::event::{
    Chosen, Event, EventKind, Invocation, Lasting, Question, QuestionId, Seq, UnitEnd, UnitHead,
    UnitId, UnitState, Verdict,
};

impl Past {
    /// Takes note of an event that was appended to the log.
    pub fn take(&mut self, event: &Event) {
        self.saw(event.seq, event.unit, event.invocation, event.branch.tokens.largest());
        self.joins.take(event);
        if event.unit == UnitId::MAIN {
            self.take_of_main(event);
        }
        match &event.kind {
            EventKind::SessionOpened(head) => {
                self.head.get_or_insert_with(|| head.clone());
            }
            EventKind::InvocationStarted { prompt, .. } => self.invocation_started(event, prompt),
            EventKind::InvocationEnded(end) => {
                self.invocation(event.invocation).is_open = false;
                self.lose_open_calls(event.seq);
                self.account.outcome = Some(end.outcome.clone());
                self.forget_ended(event.invocation);
            }
            EventKind::UnitQueued(head) => self.queued(event, head),
            EventKind::UnitStarted => self.started(event),
            EventKind::Lost { worker: _, attempt: _ } => self.lost(event),
            EventKind::UnitEnded(end) => self.ended(event, end),
            EventKind::SetAside { units } => self.set_aside(event.unit, units),
            EventKind::Joined { children } => self.joined(event, children),
            EventKind::Notified { children, text: _, wrote } => {
                self.waiting = self.waiting.saturating_sub(*wrote);
                if event.unit == UnitId::MAIN {
                    self.told(children, Told::Yes);
                }
            }
            EventKind::UserWrote { text: _ } => self.waiting = self.waiting.saturating_add(1),
            EventKind::UserTookBack => self.waiting = 0,
            EventKind::Chosen(chosen) => self.chose(chosen),
            EventKind::ToolFinished { call, tool: _, output, took_ms: _ } => {
                self.finished(event.unit, &call.0, output.text == CUT_OFF);
            }
            EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::Compacted(_)
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. } => {
                if let Some(work) = self.work(event.unit) {
                    work.take(event);
                }
            }
            EventKind::Prompted(_)
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Notice { .. }
            | EventKind::Left => {}
            EventKind::Offered(now) => self.offered = now.tools.clone().or(self.offered.take()),
            EventKind::Answered { id, question, answer } => self.answered(*id, question, answer),
        }
    }

    fn started(&mut self, event: &Event) {
        if let Some(unit) = self.units.get_mut(&event.unit) {
            unit.work.begins(event.at);
            self.account.is_in(event.unit, UnitState::Running);
        }
    }

    /// A unit waits again that was lost with its worker. Of what it had started
    /// there nothing is left to be done or told.
    fn lost(&mut self, event: &Event) {
        let Some(unit) = self.units.get_mut(&event.unit).filter(|unit| unit.end.is_none()) else {
            return;
        };
        unit.branch = event.branch.clone();
        unit.work.lost();
        unit.has_aside = false;
        self.account.is_in(event.unit, UnitState::Queued);
        let mut below = BTreeSet::new();
        // Whoever starts a unit has the smaller name.
        for (&id, parent) in self.parents.range(event.unit..) {
            if id != event.unit && (*parent == event.unit || below.contains(parent)) {
                below.insert(id);
            }
        }
        for id in below {
            self.units.remove(&id);
            // What was cut off there is asked for again.
            if self.account.units.get(&id).is_some_and(|(_, state)| is_cut_off(*state)) {
                self.account.units.remove(&id);
            }
        }
    }

    fn chose(&mut self, chosen: &Chosen) {
        self.model = Some(Arc::clone(&chosen.model));
        self.chosen = Some(chosen.clone());
    }

    /// Takes note of what a person has allowed for the whole session. What was
    /// allowed for a batch ended with it.
    fn answered(&mut self, id: QuestionId, question: &Question, answer: &Verdict) {
        let Question::Call(asked) = question else { return };
        let rules = match answer.grant(asked) {
            Some((Lasting::Session | Lasting::Always, rules)) => rules,
            Some((Lasting::Once | Lasting::Batch, _)) | None => return,
        };
        for rule in rules {
            if self.granted.len() < GRANTED_CAP {
                self.granted.entry(Arc::clone(rule)).or_insert(id);
            }
        }
    }

    /// Takes note of what any line says.
    pub(super) fn saw(
        &mut self,
        seq: Seq,
        unit: UnitId,
        invocation: Invocation,
        largest: Option<Token>,
    ) {
        self.last = self.last.max(seq);
        self.largest_unit = self.largest_unit.max(unit.0);
        let invocation = self.invocation(invocation);
        invocation.largest = invocation.largest.max(largest);
    }

    fn invocation(&mut self, invocation: Invocation) -> &mut super::PastInvocation {
        self.invocations.entry(invocation).or_default()
    }

    fn work(&mut self, unit: UnitId) -> Option<&mut Work> {
        match unit {
            UnitId::MAIN => Some(&mut self.main),
            unit => self.units.get_mut(&unit).map(|unit| &mut unit.work),
        }
    }

    /// Keeps what main's model would be sent.
    fn take_of_main(&mut self, event: &Event) {
        match &event.kind {
            EventKind::InvocationStarted { prompt, .. } => self.conversation.asked(prompt),
            EventKind::Prompted(_) | EventKind::Notified { .. } => {
                self.lose_open_calls(event.seq);
                self.conversation.prompted(event);
            }
            EventKind::Replied(replied) => {
                self.lose_open_calls(event.seq);
                self.model = Some(Arc::clone(&replied.model));
                self.conversation.replied(event);
            }
            EventKind::ToolFinished { call, .. } => {
                // A second output, or one whose call cannot be read, is none.
                if self.main.open.iter().any(|open| open.id == *call) {
                    self.conversation.finished(event);
                }
            }
            EventKind::Compacted(compaction) => self.conversation.compacted(event.seq, compaction),
            EventKind::Rewound { to } => {
                self.lose_open_calls(event.seq);
                self.conversation.rewound(*to);
            }
            EventKind::Walked(_) => self.conversation.walked(event),
            EventKind::InvocationEnded(_) => self.conversation.ended(event),
            EventKind::RequestFailed(failed) => self.conversation.failed(event, &failed.next),
            EventKind::SessionOpened(_)
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. } => {}
        }
    }

    /// The conversation went on, so the calls that have no output had one in
    /// lines that cannot be read.
    fn lose_open_calls(&mut self, seq: Seq) {
        for call in std::mem::take(&mut self.main.open) {
            self.forget_children(&call.children);
            self.conversation.lost(seq, call.id, call.tool);
        }
    }

    fn invocation_started(&mut self, event: &Event, prompt: &Arc<str>) {
        self.invocation(event.invocation).is_open = true;
        self.lose_open_calls(event.seq);
        self.main = Work::default();
        self.main.begins(event.at);
        self.account_of(prompt);
    }

    /// Begins the account of an invocation. It tells of units that work beside
    /// main since an earlier one, too; and main that is told news works on what
    /// the user asked before.
    fn account_of(&mut self, prompt: &Arc<str>) {
        let Account { prompt: before, units, .. } = std::mem::take(&mut self.account);
        let is_open = |unit: &UnitId| self.units.get(unit).is_some_and(|unit| unit.end.is_none());
        self.account = Account {
            prompt: if prompt.is_empty() { before } else { Arc::clone(prompt) },
            units: units.into_iter().filter(|(unit, _)| is_open(unit)).collect(),
            ..Account::default()
        };
        self.parents.retain(|unit, _| self.units.contains_key(unit));
    }

    fn queued(&mut self, event: &Event, head: &UnitHead) {
        if let (Some(id), Some(parent)) = (&head.call, self.work(head.parent))
            && let Some(call) = parent.open.iter_mut().find(|open| open.id == *id)
        {
            call.children.push(event.unit);
        }
        if let Some(parent) = self.units.get_mut(&head.parent).filter(|_| head.is_background) {
            parent.has_aside = true;
        }
        self.parents.insert(event.unit, head.parent);
        if head.is_agent() {
            let known = (Arc::clone(&head.description), UnitState::Queued);
            self.account.units.insert(event.unit, known);
        }
        let unit = PastUnit {
            head: head.clone(),
            invocation: event.invocation,
            branch: event.branch.clone(),
            work: Work::default(),
            end: None,
            is_joined: false,
            told: Told::No,
            has_aside: false,
        };
        self.units.insert(event.unit, unit);
    }

    fn set_aside(&mut self, parent: UnitId, units: &[UnitId]) {
        for unit in units {
            if let Some(unit) = self.units.get_mut(unit) {
                unit.head.is_background = true;
            }
        }
        if let Some(parent) = self.units.get_mut(&parent) {
            parent.has_aside = true;
        }
    }

    fn ended(&mut self, event: &Event, end: &Arc<UnitEnd>) {
        self.account.is_in(event.unit, end.outcome.state());
        let Some(unit) = self.units.get_mut(&event.unit) else { return };
        unit.branch = event.branch.clone();
        unit.end = Some(Arc::clone(end));
        let open = std::mem::take(&mut unit.work.open);
        // What its parent is told is in its end.
        unit.work.text = Arc::default();
        let (is_over, has_aside) = (unit.is_over(), unit.has_aside);
        for call in open {
            self.forget_children(&call.children);
        }
        if has_aside {
            // Nobody is left whom their ends could be told.
            self.units.retain(|_, unit| unit.head.parent != event.unit);
        }
        if is_over {
            self.mark_heard(event.unit);
        }
    }

    /// Moves a unit to those whose ends main has received.
    fn mark_heard(&mut self, unit: UnitId) {
        let Some(heard) = self.units.remove(&unit) else { return };
        self.heard.insert(unit, heard);
        if self.heard.len() > HEARD_CAP {
            self.heard.pop_first();
        }
    }

    fn joined(&mut self, event: &Event, children: &[UnitId]) {
        if let Some(parent) = self.units.get_mut(&event.unit) {
            parent.branch = event.branch.clone();
        }
        for child in children {
            let Some(unit) = self.units.get_mut(child) else { continue };
            unit.is_joined = true;
            // No call waits for it, so that was all.
            if unit.head.call.is_none() && !unit.head.is_background {
                self.units.remove(child);
            }
        }
        // A call that took the end of a unit gives it to main with its output.
        // Without one, the news follow.
        if event.unit == UnitId::MAIN && !self.main.open.is_empty() {
            self.told(children, Told::Soon);
        }
    }

    fn told(&mut self, children: &[UnitId], told: Told) {
        for child in children {
            let Some(unit) = self.units.get_mut(child) else { continue };
            if unit.head.is_background && unit.told != Told::Yes {
                unit.told = told;
            }
            if unit.is_over() {
                self.mark_heard(*child);
            }
        }
    }

    /// Takes note that a call has its output.
    pub(super) fn finished(&mut self, unit: UnitId, call: &str, is_cut_off: bool) {
        let Some(work) = self.work(unit) else { return };
        let Some(closed) = work.closes(call) else { return };
        self.forget_children(&closed.children);
        if is_cut_off && let Some(subject) = closed.subject {
            let (call, tool) = (closed.id, closed.tool);
            self.account.cut_off.push(CutOff { unit, call, tool, subject });
        }
        if unit == UnitId::MAIN {
            self.told_soon(is_cut_off);
        }
    }

    /// What was about to be told has been, once main's turn is over; a call
    /// that was cut off told nothing.
    fn told_soon(&mut self, is_cut_off: bool) {
        if !is_cut_off && !self.main.open.is_empty() {
            return;
        }
        let told = if is_cut_off { Told::No } else { Told::Yes };
        let soon = self.units.iter().filter(|(_, unit)| unit.told == Told::Soon);
        let soon: Vec<UnitId> = soon.map(|(&id, _)| id).collect();
        self.told(&soon, told);
    }

    /// Forgets units whose parent has waited for them and has all there is of
    /// them. One without an end had it in a line that cannot be read.
    fn forget_children(&mut self, children: &[UnitId]) {
        for child in children {
            if self.units.get(child).is_some_and(|unit| !unit.head.is_background) {
                self.units.remove(child);
            }
        }
    }

    /// Forgets units of an invocation that is over; those that ran beside it
    /// may go on with all they wait for, or may still have to be told.
    fn forget_ended(&mut self, invocation: Invocation) {
        let is_over = |&(&id, unit): &(&UnitId, &PastUnit)| {
            unit.invocation == invocation && !unit.head.is_background && !self.works_beside(id)
        };
        let over: Vec<UnitId> = self.units.iter().filter(is_over).map(|(&id, _)| id).collect();
        over.iter().for_each(|unit| drop(self.units.remove(unit)));
    }

    /// Tells whether a unit works for one that main does not wait for.
    fn works_beside(&self, unit: UnitId) -> bool {
        // A line may say anything; whoever starts a unit has the smaller name.
        let parent = |&unit: &UnitId| {
            self.units.get(&unit).map(|of| of.head.parent).filter(|parent| *parent < unit)
        };
        let mut above = std::iter::successors(Some(unit), parent);
        above.any(|unit| {
            self.units.get(&unit).is_some_and(|unit| unit.head.is_background && unit.end.is_none())
        })
    }
}

/// Tells whether a unit in this state was to do more.
fn is_cut_off(state: UnitState) -> bool {
    match state {
        UnitState::Skipped | UnitState::Interrupted => true,
        UnitState::Queued
        | UnitState::Running
        | UnitState::Throttled
        | UnitState::AwaitingApproval
        | UnitState::Completed
        | UnitState::Failed
        | UnitState::Cancelled => false,
    }
}

impl PastUnit {
    /// Tells whether it ran beside main, which has not heard its end.
    pub(super) fn is_untold(&self) -> bool {
        self.reports_to_main() && self.end.is_some() && self.told != Told::Yes
    }

    /// Tells whether it ran beside main, which has heard all of it.
    fn is_over(&self) -> bool {
        let is_heard = self.told == Told::Yes && self.is_joined;
        self.end.is_some() && self.reports_to_main() && is_heard
    }

    fn reports_to_main(&self) -> bool {
        self.head.is_background && self.head.parent == UnitId::MAIN
    }
}

impl Account {
    fn is_in(&mut self, unit: UnitId, state: UnitState) {
        if let Some((_, known)) = self.units.get_mut(&unit) {
            *known = state;
        }
    }
}
