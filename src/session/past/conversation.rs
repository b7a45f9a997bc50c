//! The main conversation, as far as its model would still be sent it.

use std::sync::Arc;

use crate::event::{Compaction, EventKind};
use crate::message::{CallId, Output};

/// The output of a call whose own is in no line that can be read.
const LOST: &str = include_str!("../../../prompts/lost.md").trim_ascii_end();

/// The events that the main conversation's history is folded from.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Conversation {
    events: Vec<EventKind>,
    /// The calls of events that are gone.
    summed_up: Vec<CallId>,
    /// What was asked and has not entered the conversation yet.
    asked: Option<Arc<str>>,
}

impl Conversation {
    pub(super) fn events(&self) -> &[EventKind] {
        &self.events
    }

    pub(super) fn summed_up_calls(&self) -> &[CallId] {
        &self.summed_up
    }

    /// Takes note of a prompt that is about to enter the conversation.
    pub(super) fn asked(&mut self, prompt: &Arc<str>) {
        self.asked = Some(Arc::clone(prompt));
    }

    pub(super) fn prompted(&mut self, kind: &EventKind) {
        self.asked = None;
        self.events.push(kind.clone());
    }

    pub(super) fn replied(&mut self, kind: &EventKind) {
        // Only a damaged line lets an answer stand before its prompt.
        if let Some(text) = self.asked.take() {
            self.events.push(EventKind::Prompted { text });
        }
        self.events.push(kind.clone());
    }

    pub(super) fn finished(&mut self, kind: &EventKind) {
        self.events.push(kind.clone());
    }

    /// Gives a call an output in place of one that was lost.
    pub(super) fn lost(&mut self, call: CallId, tool: Arc<str>) {
        let output = Arc::new(Output::error(LOST));
        self.events.push(EventKind::ToolFinished { call, tool, output, took_ms: 0 });
    }

    /// Drops what a summary has replaced, as the unit's own history does: the
    /// last few user messages stay, with all that followed them.
    ///
    /// The summary itself stands where it was made, so that the fold over what
    /// is left takes the same way.
    pub(super) fn compacted(&mut self, compaction: &Arc<Compaction>) {
        // Where there are fewer, even the summary before this one is kept.
        if let Some(place) = self.place_of_prompt(compaction.kept_prompts) {
            let mut kept = self.events.split_off(place);
            kept.retain(|event| !matches!(event, EventKind::Compacted(_)));
            for event in std::mem::replace(&mut self.events, kept) {
                if let EventKind::Replied(replied) = event {
                    let calls = replied.reply.calls.iter().map(|call| call.id.clone());
                    self.summed_up.extend(calls);
                }
            }
        }
        self.events.push(EventKind::Compacted(Arc::clone(compaction)));
    }

    /// Returns where the prompt stands that is the `count`-th from the last;
    /// the end for 0, nothing if there are fewer.
    fn place_of_prompt(&self, count: u32) -> Option<usize> {
        let Some(before) = count.checked_sub(1) else {
            return Some(self.events.len());
        };
        let is_prompt = |event: &EventKind| {
            matches!(event, EventKind::Prompted { .. } | EventKind::Notified { .. })
        };
        let mut prompts = (0..self.events.len()).rev().filter(|&at| is_prompt(&self.events[at]));
        prompts.nth(before as usize)
    }
}
