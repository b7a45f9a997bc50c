//! The main conversation, as far as its model would still be sent it.

use std::sync::Arc;

use crate::event::{AfterFailure, Compaction, Event, EventKind, Seq};
use crate::message::{CallId, Output};

/// The output of a call whose own is in no line that can be read.
const LOST: &str = include_str!("../../../prompts/lost.md").trim_ascii_end();

/// The events that the main conversation's history is folded from.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conversation {
    events: Vec<EventKind>,
    /// Their numbers.
    seqs: Vec<Seq>,
    /// The last summary.
    summary: Seq,
    /// The calls of events that are gone.
    summed_up: Vec<CallId>,
    /// What was asked and has not entered the conversation yet.
    asked: Option<Arc<str>>,
    /// Whether a flow is walked, whose end is an answer.
    is_walking: bool,
}

impl Conversation {
    pub(super) fn events(&self) -> &[EventKind] {
        &self.events
    }

    pub(super) fn summed_up_calls(&self) -> &[CallId] {
        &self.summed_up
    }

    pub(super) fn rewinds_to(&self) -> Seq {
        self.summary
    }

    pub(super) fn was_settled_after(&self, event: Seq) -> bool {
        let before = self.seqs.iter().zip(&self.events).filter(|(seq, _)| **seq <= event);
        let mut open = 0_usize;
        for (_, kind) in before {
            if let EventKind::Replied(replied) = kind {
                open = replied.reply.calls.len();
            } else if let EventKind::ToolFinished { .. } = kind {
                open = open.saturating_sub(1);
            }
        }
        open == 0
    }

    fn push(&mut self, seq: Seq, kind: EventKind) {
        self.seqs.push(seq);
        self.events.push(kind);
    }

    /// Takes note of a prompt that is about to enter the conversation.
    pub(super) fn asked(&mut self, prompt: &Arc<str>) {
        self.asked = Some(Arc::clone(prompt));
    }

    pub(super) fn prompted(&mut self, event: &Event) {
        (self.asked, self.is_walking) = (None, false);
        self.push(event.seq, event.kind.clone());
    }

    pub(super) fn replied(&mut self, event: &Event) {
        // Only a damaged line lets an answer stand before its prompt.
        if let Some(text) = self.asked.take() {
            self.push(event.seq, EventKind::Prompted(text.into()));
        }
        self.push(event.seq, event.kind.clone());
    }

    /// Records a failed request if the history depends on it: a prompt that follows one
    /// given up is joined with the one before it, until they are parted again.
    pub(super) fn failed(&mut self, event: &Event, next: &AfterFailure) {
        let is_kept = match next {
            AfterFailure::Nothing => self.events.last().is_some_and(|last| !is_failure(last)),
            AfterFailure::LeaveOut => true,
            AfterFailure::Retry { .. }
            | AfterFailure::Fallback { model: _ }
            | AfterFailure::Compact
            | AfterFailure::TooLong => false,
        };
        if is_kept {
            self.push(event.seq, event.kind.clone());
        }
    }

    /// Takes note of a flow that is walked from now on.
    pub(super) fn walked(&mut self, event: &Event) {
        self.is_walking = true;
        self.push(event.seq, event.kind.clone());
    }

    /// Takes note of the end of an invocation, which says what a flow came to.
    pub(super) fn ended(&mut self, event: &Event) {
        if std::mem::take(&mut self.is_walking) {
            self.push(event.seq, event.kind.clone());
        }
    }

    pub(super) fn finished(&mut self, event: &Event) {
        self.push(event.seq, event.kind.clone());
    }

    /// Gives a call an output in place of one that was lost, which was noticed
    /// at the event with this number.
    pub(super) fn lost(&mut self, seq: Seq, call: CallId, tool: Arc<str>) {
        let output = Arc::new(Output::error(LOST));
        self.push(seq, EventKind::ToolFinished { call, tool, output, took_ms: 0 });
    }

    /// Drops what happened after an event. What a summary has replaced is not
    /// held any more, so nothing goes back behind one.
    pub(super) fn rewound(&mut self, to: Seq) {
        let to = to.max(self.summary);
        let kept = self.seqs.iter().rposition(|&seq| seq <= to).map_or(0, |last| last + 1);
        (self.asked, self.is_walking) = (None, false);
        self.seqs.truncate(kept);
        let dropped = self.events.split_off(kept);
        self.sum_up(dropped);
    }

    /// Drops events. The ids of their calls stay taken.
    fn sum_up(&mut self, events: Vec<EventKind>) {
        for event in events {
            if let EventKind::Replied(replied) = event {
                let calls = replied.reply.calls.iter().map(|call| call.id.clone());
                self.summed_up.extend(calls);
            }
        }
    }

    /// Drops what a summary has replaced, as the unit's own history does: the
    /// last few user messages stay, with all that followed them.
    ///
    /// The summary itself stands where it was made, so that the fold over what
    /// is left takes the same way.
    pub(super) fn compacted(&mut self, seq: Seq, compaction: &Arc<Compaction>) {
        // Where there are fewer, even the summary before this one is kept.
        if let Some(place) = self.place_of_prompt(compaction.kept_prompts) {
            let kept = self.events.split_off(place).into_iter().zip(self.seqs.split_off(place));
            let kept = kept.filter(|(event, _)| !matches!(event, EventKind::Compacted(_)));
            let (kept, seqs) = kept.unzip();
            self.seqs = seqs;
            let replaced = std::mem::replace(&mut self.events, kept);
            self.sum_up(replaced);
        }
        self.summary = seq;
        self.push(seq, EventKind::Compacted(Arc::clone(compaction)));
    }

    /// Returns the index at which the `count`-th user message from the end begins: the
    /// length for 0, `None` if there are fewer. Joined prompts count as one message.
    fn place_of_prompt(&self, count: u32) -> Option<usize> {
        let Some(before) = count.checked_sub(1) else {
            return Some(self.events.len());
        };
        let begins = |at: &usize| is_prompt(&self.events[*at]) && !self.is_joined(*at);
        let mut prompts = (0..self.events.len()).rev().filter(begins);
        prompts.nth(before as usize)
    }

    /// Returns whether the prompt at this place is joined with the user message
    /// before it, as the history does after a request that was given up.
    fn is_joined(&self, at: usize) -> bool {
        let Some(failure) = at.checked_sub(1) else { return false };
        if !is_failure(&self.events[failure]) {
            return false;
        }
        let is_no_message = |event: &&EventKind| {
            matches!(event, EventKind::Compacted(_) | EventKind::RequestFailed(_))
        };
        let mut before = self.events[..failure].iter().rev().skip_while(is_no_message);
        // A summary is a user message, too.
        before.next().is_none_or(is_prompt) && !self.is_parted(at)
    }

    /// Returns whether the prompt at this index was separated again from the message that
    /// it had been joined with.
    fn is_parted(&self, at: usize) -> bool {
        let behind = self.events[at + 1..].iter();
        behind.take_while(|event| is_failure(event)).any(is_left_out)
    }
}

fn is_prompt(event: &EventKind) -> bool {
    matches!(event, EventKind::Prompted(_) | EventKind::Notified { .. })
}

fn is_left_out(event: &EventKind) -> bool {
    matches!(event, EventKind::RequestFailed(failed) if failed.next == AfterFailure::LeaveOut)
}

/// Returns whether a prompt behind it is joined with the one before it.
fn is_failure(event: &EventKind) -> bool {
    matches!(event, EventKind::RequestFailed(_))
}
