//! What is known of a unit, its turn and its calls while they go on.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanId;

use crate::branch::Branch;
use crate::event::{Origin, PrefixShare, UnitHead, UnitId, UnixMillis};
use crate::message::{CallId, Reply};
use crate::telemetry::{Kind, Span, SpanAt};

/// A unit that has not ended.
pub(super) struct Strand {
    pub(super) at: SpanAt,
    pub(super) parent: Option<SpanId>,
    pub(super) is_parent_remote: bool,
    pub(super) is_sampled: bool,
    /// `None` for main.
    pub(super) head: Option<UnitHead>,
    pub(super) branch: Branch,
    queued: UnixMillis,
    pub(super) started: Option<UnixMillis>,
    /// What is said of it from the start.
    pub(super) attributes: Vec<KeyValue>,
    /// How many attempts at it were lost with their workers.
    lost: u32,
    pub(super) turns: u32,
    pub(super) turn: Option<Turn>,
    /// By id: those that run, and those that somebody was asked about.
    pub(super) calls: HashMap<CallId, Call>,
    /// The last model that it asked.
    pub(super) model: Option<Arc<str>>,
    /// Why the last answer ended, in the conventions' words.
    pub(super) finish: &'static str,
    /// How long its next request has waited so far.
    pub(super) waited_ms: u64,
    /// What its next request shares with its parent's.
    pub(super) shared: Option<PrefixShare>,
}

/// A turn that goes on.
pub(super) struct Turn {
    pub(super) at: SpanAt,
    pub(super) number: u32,
    pub(super) start: UnixMillis,
    /// When something of it was last over.
    pub(super) last: UnixMillis,
    /// Since when a request is under way; `None` while none is.
    pub(super) asking_since: Option<UnixMillis>,
    /// How many of its requests have failed.
    pub(super) failed: u32,
    /// What was answered.
    pub(super) reply: Option<Arc<Reply>>,
    /// How many calls have no output yet.
    pub(super) open_calls: usize,
}

/// A call that has no output yet.
#[derive(Default)]
pub(super) struct Call {
    /// `None` while it has not begun to run.
    pub(super) at: Option<SpanAt>,
    pub(super) started: Option<UnixMillis>,
    pub(super) subject: Arc<str>,
    /// Since when a person is asked about it.
    pub(super) asked: Option<UnixMillis>,
    asked_ms: Option<u64>,
    pub(super) is_denied: bool,
}

impl Strand {
    pub(super) fn new(at: SpanAt, parent: Option<SpanId>, queued: UnixMillis) -> Self {
        Self {
            at,
            parent,
            is_parent_remote: false,
            is_sampled: true,
            head: None,
            branch: Branch::root(),
            queued,
            started: None,
            attributes: Vec::new(),
            lost: 0,
            turns: 0,
            turn: None,
            calls: HashMap::new(),
            model: None,
            finish: "stop",
            waited_ms: 0,
            shared: None,
        }
    }

    /// Returns the agent definition that it follows.
    pub(super) fn agent(&self) -> &str {
        self.head.as_ref().map_or("main", |head| &head.agent)
    }

    /// It begins anew.
    pub(super) fn lost(&mut self) {
        self.lost += 1;
        self.calls.clear();
        (self.waited_ms, self.shared, self.finish) = (0, None, "stop");
    }

    /// Its request is under way since then, or waits.
    pub(super) fn asks(&mut self, since: Option<UnixMillis>) {
        if let Some(turn) = &mut self.turn {
            turn.asking_since = since;
        }
    }

    pub(super) fn call(&mut self, id: &CallId) -> &mut Call {
        self.calls.entry(id.clone()).or_default()
    }

    /// Returns a span of this unit of which no more is known.
    pub(super) fn span(
        &self,
        at: SpanAt,
        name: String,
        (start, end): (UnixMillis, UnixMillis),
    ) -> Span {
        Span {
            at,
            parent: None,
            is_parent_remote: false,
            name,
            kind: Kind::Internal,
            start: start.min(end),
            end,
            attributes: Vec::new(),
            failed: None,
        }
    }

    /// Returns what is said of it at its end.
    pub(super) fn of_the_whole(&self, unit: UnitId, start: UnixMillis) -> Vec<KeyValue> {
        let mut said = self.attributes.clone();
        said.push(KeyValue::new("tine.unit", unit.to_string()));
        said.push(KeyValue::new("tine.turns", i64::from(self.turns)));
        let Some(head) = &self.head else { return said };
        let queued_ms = start.since(self.queued);
        said.push(KeyValue::new("tine.branch", super::cut(&self.branch.tokens.to_string())));
        said.push(KeyValue::new("tine.depth", i64::from(head.depth)));
        said.push(KeyValue::new("tine.queued_ms", super::content::count(queued_ms)));
        said.push(KeyValue::new("tine.is_background", head.is_background));
        said.push(KeyValue::new("tine.is_fork", head.origin == Origin::Fork));
        if let Some(slot) = head.slot {
            said.push(KeyValue::new("tine.slot.index", i64::from(slot.index)));
            said.push(KeyValue::new("tine.slot.count", i64::from(slot.total)));
        }
        if let Origin::Continued(before) = head.origin {
            said.push(KeyValue::new("tine.continues", before.to_string()));
        }
        if let Origin::Reused(before) = head.origin {
            said.push(KeyValue::new("tine.reuses", before.to_string()));
        }
        if let Some(again) = head.again {
            said.push(KeyValue::new("tine.repeats", again.to_string()));
        }
        if self.lost > 0 {
            said.push(KeyValue::new("tine.lost", i64::from(self.lost)));
        }
        said
    }
}

impl Turn {
    pub(super) fn new(at: SpanAt, number: u32, start: UnixMillis) -> Self {
        Self {
            at,
            number,
            start,
            last: start,
            asking_since: Some(start),
            failed: 0,
            reply: None,
            open_calls: 0,
        }
    }

    /// Tells whether it was answered and every call has its output.
    pub(super) fn is_over(&self) -> bool {
        self.reply.is_some() && self.open_calls == 0
    }

    /// Returns what a call of it was given.
    pub(super) fn arguments(&self, id: &CallId) -> Option<&str> {
        let calls = &self.reply.as_ref()?.calls;
        calls.iter().find(|call| call.id == *id).map(|call| call.arguments.as_str())
    }
}

impl Call {
    /// Tells whether there is such a tool: only then it begins, is denied, or a
    /// person is asked about it.
    pub(super) fn was_found(&self) -> bool {
        let was_asked = self.asked.is_some() || self.asked_ms.is_some();
        self.at.is_some() || self.is_denied || was_asked
    }

    pub(super) fn answered(&mut self, at: UnixMillis) {
        if let Some(asked) = self.asked.take() {
            self.asked_ms = Some(self.asked_ms.unwrap_or_default() + at.since(asked));
        }
    }

    pub(super) fn attributes(&self) -> Option<KeyValue> {
        self.asked_ms.map(|waited| KeyValue::new("tine.asked_ms", super::content::count(waited)))
    }
}
