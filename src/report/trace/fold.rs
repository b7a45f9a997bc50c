//! The fold: what each event adds to a trace.

mod calls;
mod requests;

use std::sync::Arc;

use super::{Label, Meeting, MeetingKind, PromptTrace, Said, Span, SpanKind, Trace, UnitTrace};
use crate::event::{
    Event, EventKind, Failure, HookRan, InvocationEnd, Outcome, UnitEnd, UnitHead, UnitId,
    UnitState, UnixMillis,
};
use crate::message::Prompt;

use super::super::words;

impl Trace {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        self.first.get_or_insert(event.at);
        self.now = self.now.max(event.at);
        self.last = self.last.max(event.seq);
        if proves_life(&event.kind) {
            self.alive = self.now;
        }
        match &event.kind {
            EventKind::SessionOpened(head) => self.head = Some(head.clone()),
            EventKind::InvocationStarted { prompt, message: _ } => self.invoked(event, prompt),
            EventKind::InvocationEnded(end) => self.over(event, end),
            EventKind::UnitQueued(head) => self.queued(event, head),
            EventKind::UnitStarted => self.started(event),
            EventKind::Lost { .. } => self.lost(event),
            EventKind::UnitEnded(end) => self.ended(event, end),
            EventKind::SetAside { units } => self.set_aside(event, units),
            EventKind::Joined { children } => self.joined(event, children),
            EventKind::TurnStarted { turn: _ } => self.turn(event),
            EventKind::Throttled(throttled) => self.throttled(event, throttled),
            EventKind::Admitted { waited_ms } => self.admitted(event, *waited_ms),
            EventKind::RequestFailed(failed) => self.failed(event, failed),
            EventKind::Replied(replied) => self.replied(event, replied),
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::ToolStarted { call, tool, subject, confinement: _ } => {
                self.calls(event, call, (tool, subject));
            }
            EventKind::ToolFinished { call, tool, output, took_ms } => {
                self.called(event, (call, tool), (output, *took_ms));
            }
            EventKind::Denied { call, tool, arguments: _, reason } => {
                self.denied(event, call, (tool, reason));
            }
            EventKind::Asked { id, question } => self.questioned(event, *id, question),
            EventKind::Answered { id, question, answer } => {
                self.answered(event, *id, (question, answer));
            }
            EventKind::Prompted(prompt) => self.prompted(event, prompt),
            EventKind::Notified { text, .. } | EventKind::UserWrote { text } => {
                self.heard(event, text);
            }
            EventKind::Notice { level, text } => {
                let said = self.texts.keep(Label::Notice, text);
                self.mark(event, level.as_str(), text, vec![said]);
            }
            EventKind::HookRan(ran) => self.hooked(event, ran),
            EventKind::UserTookBack
            | EventKind::PrefixShared(_)
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::Rewound { .. }
            | EventKind::Chosen(_)
            | EventKind::Left
            | EventKind::Walked(_)
            | EventKind::Offered(_) => {
                if let Some((name, about)) = in_words(&event.kind) {
                    self.mark(event, name, &about, Vec::new());
                }
            }
        }
    }

    fn prompted(&mut self, event: &Event, prompt: &Prompt) {
        let text = match prompt.images.is_empty() {
            true => Arc::clone(&prompt.text),
            false => words::prompt(prompt).into(),
        };
        let said = self.texts.keep(Label::Prompt, &text);
        self.mark(event, "", "", vec![said]).kind = SpanKind::Prompt;
    }

    fn heard(&mut self, event: &Event, text: &Arc<str>) {
        let said = self.texts.keep(Label::Prompt, text);
        self.mark(event, "", "", vec![said]).kind = SpanKind::News;
    }

    fn hooked(&mut self, event: &Event, ran: &HookRan) {
        let said = self.texts.keep(Label::Notice, &words::hook_ran(ran).into());
        let now = self.now;
        let span = self.mark(event, ran.event.as_str(), &ran.hook, vec![said]);
        span.kind = SpanKind::Hook;
        (span.from, span.call) = (before(now, ran.took_ms), ran.call.clone());
    }

    fn invoked(&mut self, event: &Event, prompt: &Arc<str>) {
        let prompt = self.texts.keep(Label::Prompt, prompt);
        self.prompts.push(PromptTrace {
            invocation: event.invocation,
            prompt,
            from: self.now,
            to: None,
            state: None,
            failure: None,
            changed: event.seq,
        });
        let now = self.now;
        self.change(event, |unit| {
            unit.started.get_or_insert(now);
            (unit.open.is_open, unit.open.has_answered) = (true, false);
        });
    }

    fn over(&mut self, event: &Event, end: &InvocationEnd) {
        let is_repaired = end.outcome == Outcome::Interrupted;
        let at = if is_repaired { self.alive } else { self.now };
        let prompt = self.prompts.iter_mut().rev();
        let prompt = prompt.into_iter().find(|it| it.invocation == event.invocation);
        if let Some(prompt) = prompt.filter(|prompt| prompt.to.is_none()) {
            (prompt.to, prompt.changed) = (Some(at.max(prompt.from)), event.seq);
            prompt.state = Some(end.outcome.state());
            prompt.failure = failure(&end.outcome);
        }
        self.close(event, UnitId::MAIN, at);
        self.change(event, |main| (main.state, main.failure) = outcome(&end.outcome));
        if is_repaired {
            // The next process has said it of all that this one left open.
            self.units.iter_mut().for_each(|unit| unit.cut_at(at));
        }
    }

    fn queued(&mut self, event: &Event, head: &UnitHead) {
        let place = self.place(event);
        let is_new = self.units[place].head.is_none() && event.unit != UnitId::MAIN;
        if !is_new {
            return;
        }
        self.units[place].head = Some(head.clone());
        // A unit is declared after its parent; in a log that says otherwise the
        // way up need not end.
        if let Some(&parent) = self.places.get(&head.parent).filter(|parent| **parent < place) {
            self.units[parent].children.push(place);
        }
        self.change(event, |unit| unit.open.is_open = true);
        self.adjust(event, head, 1);
        self.part(event, head);
    }

    /// Takes note that branches part; those of one call do at one place, and those
    /// of one step, which are declared in one go.
    fn part(&mut self, event: &Event, head: &UnitHead) {
        let invocation = event.invocation;
        let tokens = self.unit(head.parent).map(|unit| unit.tokens.clone()).unwrap_or_default();
        let is_step = event.branch.tokens.to_string() == tokens;
        let kind = if is_step { MeetingKind::Step } else { MeetingKind::Split };
        if let Some(last) = self.meetings.last_mut()
            && (last.kind, last.unit, last.invocation) == (kind, head.parent, invocation)
            && last.call == head.call
            && (last.call.is_some() || last.changed.0 + 1 == event.seq.0)
        {
            last.children.push(event.unit);
            last.changed = event.seq;
            return;
        }
        self.meetings.push(Meeting {
            id: event.seq,
            kind,
            unit: head.parent,
            children: vec![event.unit],
            call: head.call.clone(),
            invocation,
            at: self.now,
            tokens,
            changed: event.seq,
        });
    }

    fn joined(&mut self, event: &Event, children: &[UnitId]) {
        self.meetings.push(Meeting {
            id: event.seq,
            kind: MeetingKind::Join,
            unit: event.unit,
            children: children.to_vec(),
            call: None,
            invocation: event.invocation,
            at: self.now,
            tokens: event.branch.tokens.to_string(),
            changed: event.seq,
        });
        self.change(event, |_| ());
    }

    fn started(&mut self, event: &Event) {
        let now = self.now;
        self.change(event, |unit| {
            unit.started.get_or_insert(now);
            unit.open.waits_again = false;
        });
    }

    /// What is open in a unit that was lost is over, and it waits again.
    fn lost(&mut self, event: &Event) {
        if let Some((name, about)) = in_words(&event.kind) {
            self.mark(event, name, &about, Vec::new());
        }
        if self.unit(event.unit).is_some_and(|unit| unit.open.is_open) {
            self.close(event, event.unit, self.now);
            self.change(event, |unit| (unit.open.is_open, unit.open.waits_again) = (true, true));
        }
    }

    fn ended(&mut self, event: &Event, end: &UnitEnd) {
        let at = if end.outcome == Outcome::Interrupted { self.alive } else { self.now };
        let was_open = self.unit(event.unit).is_some_and(|unit| unit.open.is_open);
        if !was_open {
            return;
        }
        self.close(event, event.unit, at);
        self.change(event, |unit| {
            (unit.state, unit.failure) = outcome(&end.outcome);
            unit.ended = Some(at.max(unit.queued));
        });
        if let Some(head) = self.unit(event.unit).and_then(|unit| unit.head.clone()) {
            self.adjust(event, &head, -1);
        }
    }

    /// Ends what is open in a unit.
    fn close(&mut self, event: &Event, unit: UnitId, at: UnixMillis) {
        let Some(&place) = self.places.get(&unit) else { return };
        let open = std::mem::take(&mut self.units[place].open);
        let spans = open.request.into_iter().chain(open.wait).chain(open.calls.into_values());
        for span in spans.chain(open.questions.into_values()) {
            let span = &mut self.spans[span];
            (span.to, span.changed) = (Some(at.max(span.from)), event.seq);
            span.failed.get_or_insert_with(|| "cut off".into());
        }
        let unit = &mut self.units[place];
        // Of main, the next prompt finds them still out.
        (unit.open.beside, unit.open.steps) = (open.beside, open.steps);
        unit.settle(at, event.seq);
    }

    /// Counts a child at its parent: one more that is out, or one fewer.
    fn adjust(&mut self, event: &Event, head: &UnitHead, by: i32) {
        let Some(&parent) = self.places.get(&head.parent) else { return };
        let (now, parent) = (self.now, &mut self.units[parent]);
        let count = match (head.is_background, &head.call) {
            (true, _) => &mut parent.open.beside,
            (false, None) => &mut parent.open.steps,
            (false, Some(_)) => return,
        };
        *count = count.saturating_add_signed(by);
        parent.settle(now, event.seq);
    }

    fn set_aside(&mut self, event: &Event, units: &[UnitId]) {
        for id in units {
            let Some(&place) = self.places.get(id) else { continue };
            let unit = &mut self.units[place];
            let is_open = unit.open.is_open;
            let Some(head) = unit.head.as_mut().filter(|head| !head.is_background) else {
                continue;
            };
            let before = head.clone();
            head.is_background = true;
            unit.changed = event.seq;
            if is_open {
                self.adjust(event, &before, -1);
                self.adjust(event, &UnitHead { is_background: true, ..before }, 1);
            }
        }
    }

    /// Adds a span that takes no time, and returns it.
    fn mark(&mut self, event: &Event, name: &str, about: &str, texts: Vec<Said>) -> &mut Span {
        let place = self.place(event);
        let index = self.spans.len();
        self.units[place].spans.push(index);
        self.units[place].changed = event.seq;
        self.spans.push(Span {
            id: index,
            unit: event.unit,
            invocation: event.invocation,
            kind: SpanKind::Mark,
            from: self.now,
            to: Some(self.now),
            name: short(name),
            about: short(about),
            failed: None,
            usage: None,
            call: None,
            texts,
            changed: event.seq,
        });
        &mut self.spans[index]
    }

    /// Changes a unit, and takes note of what it does then.
    fn change(&mut self, event: &Event, change: impl FnOnce(&mut UnitTrace)) {
        let place = self.place(event);
        let (now, unit) = (self.now, &mut self.units[place]);
        change(unit);
        unit.tokens = event.branch.tokens.to_string();
        if *unit.path != *event.branch.path.as_str() {
            unit.path = event.branch.path.as_str().into();
        }
        unit.settle(now, event.seq);
    }

    /// Returns where the unit of an event is; there is one from here on.
    fn place(&mut self, event: &Event) -> usize {
        let (units, now) = (&mut self.units, self.now);
        *self.places.entry(event.unit).or_insert_with(|| {
            units.push(UnitTrace::new(event.unit, None, event.invocation, now));
            units.len() - 1
        })
    }
}

/// Returns the sort and the words of what takes no time and changes no unit;
/// `None` for what does.
fn in_words(kind: &EventKind) -> Option<(&'static str, String)> {
    Some(match kind {
        EventKind::FileChanged(change) => ("file", words::file_changed(change)),
        EventKind::Worktree(worktree) => ("worktree", words::worktree(worktree)),
        EventKind::PrefixShared(share) => {
            let (shared, total) = (share.shared_bytes, share.total_bytes);
            ("prefix", format!("{shared} of {total} bytes are its parent's"))
        }
        EventKind::Rewound { to } => ("rewound", words::rewound(*to)),
        EventKind::Lost { worker, attempt } => ("lost", words::lost(worker, *attempt)),
        EventKind::Chosen(chosen) => ("chosen", words::chosen(chosen)),
        EventKind::UserTookBack => ("taken back", words::TOOK_BACK.to_owned()),
        EventKind::Offered(offered) => ("offered", words::offered(offered)),
        EventKind::Left => ("left", String::new()),
        EventKind::Walked(head) => ("flow", words::walked(head)),
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::UserWrote { .. }
        | EventKind::Compacted(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::TurnStarted { .. }
        | EventKind::Throttled(_)
        | EventKind::Admitted { .. }
        | EventKind::RequestFailed(_)
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::Denied { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::SetAside { .. }
        | EventKind::Joined { .. }
        | EventKind::Notice { .. }
        | EventKind::HookRan(_)
        | EventKind::InvocationEnded(_) => return None,
    })
}

/// Most characters of what is said in a few words.
const SHORT_CAP: usize = 300;

fn short(text: &str) -> Arc<str> {
    match text.char_indices().nth(SHORT_CAP) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns the time so many milliseconds before another.
fn before(at: UnixMillis, took_ms: u64) -> UnixMillis {
    UnixMillis(at.0.saturating_sub(took_ms))
}

fn outcome(outcome: &Outcome) -> (UnitState, Option<Failure>) {
    (outcome.state(), failure(outcome))
}

fn failure(outcome: &Outcome) -> Option<Failure> {
    match outcome {
        Outcome::Failed(failure) => Some(failure.clone()),
        Outcome::Done { text: _ } | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => None,
    }
}

/// Tells whether an event is none that the next process may have written over
/// what a dead one left open.
fn proves_life(kind: &EventKind) -> bool {
    match kind {
        EventKind::ToolFinished { took_ms, .. } => *took_ms > 0,
        EventKind::UnitEnded(end) => match &end.outcome {
            Outcome::Done { text: _ } | Outcome::Failed(_) | Outcome::Cancelled { ran: true } => {
                true
            }
            Outcome::Cancelled { ran: false } | Outcome::Interrupted => false,
        },
        EventKind::InvocationEnded(end) => end.outcome != Outcome::Interrupted,
        EventKind::Joined { .. } | EventKind::UserTookBack => false,
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::UserWrote { .. }
        | EventKind::Compacted(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::Lost { .. }
        | EventKind::TurnStarted { .. }
        | EventKind::PrefixShared(_)
        | EventKind::Throttled(_)
        | EventKind::Admitted { .. }
        | EventKind::RequestFailed(_)
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::Denied { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Notice { .. }
        | EventKind::Chosen(_)
        | EventKind::Left
        | EventKind::Walked(_)
        | EventKind::HookRan(_)
        | EventKind::Offered(_) => true,
    }
}
