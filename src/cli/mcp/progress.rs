//! What becomes of a batch that a client of `tine mcp serve` asked for.
//!
//! A fold over the run's events, as any reporter: it tells of each slot's end as
//! it comes, and keeps what the client gets of it in the end.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::event::{Delta, Event, EventKind, InvocationEnd, Outcome, UnitEnd, UnitHead, UnitId};
use crate::report::words;
use crate::run::Reporter;

/// Most characters of a slot's own text in the structured result, however few
/// slots there are; the batch's text has more of it.
const TEXT_CAP: usize = 24_000;

/// Most characters of all those texts together.
const TEXTS_CAP: usize = 200_000;

/// What is told while a batch runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Progress {
    /// A slot has ended.
    Ended {
        /// How many have.
        ended: u32,
        /// Of how many.
        total: u32,
        /// Which one, and how.
        message: String,
    },
    /// All is over.
    Over(Box<Finished>),
}

/// A batch that is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finished {
    /// What becomes of main is that of the batch.
    pub(super) end: Arc<InvocationEnd>,
    /// The slots, in the order of `tasks`.
    pub(super) slots: Vec<Value>,
}

/// Tells a client's request of its batch.
pub(super) struct Telling {
    told: mpsc::UnboundedSender<Progress>,
    heads: BTreeMap<UnitId, UnitHead>,
    slots: BTreeMap<u32, Value>,
    ended: u32,
    total: u32,
    /// Characters that the texts may still have.
    room: usize,
}

impl Telling {
    /// The channel holds one message for each slot, which the batch bounds, and
    /// nobody waits for a client that reads slowly.
    pub(super) fn new(told: mpsc::UnboundedSender<Progress>) -> Self {
        let (heads, slots) = (BTreeMap::new(), BTreeMap::new());
        Self { told, heads, slots, ended: 0, total: 0, room: TEXTS_CAP }
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        if let (UnitId::MAIN, Some(slot)) = (head.parent, head.slot) {
            self.total = slot.total;
            self.heads.insert(unit, head.clone());
        }
    }

    fn unit_ended(&mut self, unit: UnitId, end: &UnitEnd) {
        let Some(head) = self.heads.remove(&unit) else { return };
        let Some(position) = head.slot else { return };
        self.ended += 1;
        let message = format!("{}: {}", head.description, words::unit_end(end));
        let value = self.slot(position.index, &head, end);
        self.slots.insert(position.index, value);
        let (ended, total) = (self.ended, self.total);
        // A client that is gone is told nothing.
        let _ = self.told.send(Progress::Ended { ended, total, message });
    }

    fn slot(&mut self, index: u32, head: &UnitHead, end: &UnitEnd) -> Value {
        let (status, text, error) = match &end.outcome {
            Outcome::Done { text } => ("completed", text, None),
            Outcome::Failed(failure) => ("failed", &end.text, Some(&*failure.message)),
            Outcome::Cancelled { ran: true } => ("cancelled", &end.text, None),
            Outcome::Cancelled { ran: false } => ("skipped", &end.text, None),
            Outcome::Interrupted => ("interrupted", &end.text, None),
        };
        let cap = TEXT_CAP.min(self.room);
        let shown: String = text.chars().take(cap).collect();
        let count = shown.chars().count();
        self.room -= count;
        let is_cut = text.chars().nth(count).is_some();
        json!({
            "index": index,
            "description": &*head.description,
            "subagent_type": &*head.agent,
            "status": status,
            "text": shown,
            "text_is_cut": is_cut,
            "error": error,
            "output_file": end.output_file.as_deref(),
            "duration_ms": end.duration_ms,
            "tool_uses": end.tool_uses,
            "usage": {
                "input_tokens": end.usage.input,
                "output_tokens": end.usage.output,
                "cache_read_input_tokens": end.usage.cache_read,
                "cache_creation_input_tokens": end.usage.cache_creation,
            },
        })
    }
}

impl Reporter for Telling {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::UnitQueued(head) = &event.kind {
            self.queued(event.unit, head);
        } else if let EventKind::UnitEnded(end) = &event.kind {
            self.unit_ended(event.unit, end);
        } else if let EventKind::InvocationEnded(end) = &event.kind {
            let slots = std::mem::take(&mut self.slots).into_values().collect();
            let finished = Finished { end: Arc::clone(end), slots };
            // As above.
            let _ = self.told.send(Progress::Over(Box::new(finished)));
        }
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}
