//! What the dispatcher knows of one unit.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::branch::{Branch, BranchPath};
use crate::event::{Outcome, Piece, Replied, UnitEnd, UnitId, UnixMillis};
use crate::message::{Call, CallId, Usage};

/// Most bytes kept of an answer that is still being written. It is what a unit
/// that is cut off leaves behind; more than this is in no share of a parent's
/// text.
const WRITING_CAP: usize = 64_000;

/// Where a unit is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Queued,
    Running,
    Ended,
}

/// What the dispatcher knows of one unit.
#[derive(Debug)]
pub(super) struct Ledger {
    /// `None` for the main conversation.
    pub(super) parent: Option<UnitId>,
    pub(super) depth: u32,
    pub(super) branch: Branch,
    pub(super) cancel: CancellationToken,
    pub(super) standing: Standing,
    pub(super) started: Option<UnixMillis>,
    pub(super) turns: u32,
    /// Calls without an output, with their place in the reply and their tools.
    open_calls: HashMap<CallId, (usize, Arc<str>)>,
    /// Children that have not ended.
    pub(super) open_children: u32,
    tool_uses: u32,
    usage: Usage,
    /// The text of the last whole answer.
    text: Arc<str>,
    /// The text of the answer that is being written.
    writing: String,
    /// The path segments that children have, each with how often it was asked
    /// for.
    segments: HashMap<String, u32>,
}

impl Ledger {
    pub(super) fn main(cancel: CancellationToken) -> Self {
        Self::new(None, 0, Branch::root(), cancel, Standing::Running)
    }

    pub(super) fn queued(
        parent: UnitId,
        depth: u32,
        branch: Branch,
        cancel: CancellationToken,
    ) -> Self {
        Self::new(Some(parent), depth, branch, cancel, Standing::Queued)
    }

    fn new(
        parent: Option<UnitId>,
        depth: u32,
        branch: Branch,
        cancel: CancellationToken,
        standing: Standing,
    ) -> Self {
        Self {
            parent,
            depth,
            branch,
            cancel,
            standing,
            started: None,
            turns: 0,
            open_calls: HashMap::new(),
            open_children: 0,
            tool_uses: 0,
            usage: Usage::default(),
            text: Arc::default(),
            writing: String::new(),
            segments: HashMap::new(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.standing == Standing::Ended
    }

    /// Returns a path segment for a child that no sibling has.
    pub(super) fn segment(&mut self, description: &str) -> String {
        let wanted = BranchPath::segment(description);
        loop {
            let count = self.segments.entry(wanted.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                return wanted;
            }
            let numbered = format!("{wanted}-{count}");
            if !self.segments.contains_key(&numbered) {
                self.segments.insert(numbered.clone(), 1);
                return numbered;
            }
        }
    }

    pub(super) fn writes(&mut self, piece: &Piece) {
        match piece {
            Piece::Text(text) if self.writing.len() < WRITING_CAP => self.writing.push_str(text),
            Piece::Text(_) | Piece::Thinking(_) => {}
        }
    }

    pub(super) fn replied(&mut self, replied: &Replied) {
        self.writing = String::new();
        self.usage += replied.usage;
        if !replied.reply.text.trim().is_empty() {
            self.text = replied.reply.text.as_str().into();
        }
        let calls = &replied.reply.calls;
        self.tool_uses += u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let place =
            |(index, call): (usize, &Call)| (call.id.clone(), (index, call.tool.as_str().into()));
        self.open_calls = calls.iter().enumerate().map(place).collect();
    }

    pub(super) fn closed(&mut self, call: &CallId) {
        self.open_calls.remove(call);
    }

    /// Takes the calls that have no output, in the order of the reply.
    pub(super) fn take_open_calls(&mut self) -> Vec<(CallId, Arc<str>)> {
        let mut open: Vec<_> = self.open_calls.drain().collect();
        open.sort_unstable_by_key(|(_, (index, _))| *index);
        open.into_iter().map(|(call, (_, tool))| (call, tool)).collect()
    }

    /// Marks the end and returns what the unit had done by then.
    pub(super) fn end(
        &mut self,
        outcome: Outcome,
        output_file: Option<Arc<str>>,
        now: UnixMillis,
    ) -> UnitEnd {
        self.standing = Standing::Ended;
        let writing = std::mem::take(&mut self.writing);
        let written =
            if writing.trim().is_empty() { std::mem::take(&mut self.text) } else { writing.into() };
        let text = match &outcome {
            Outcome::Done { text } => Arc::clone(text),
            Outcome::Failed(_) | Outcome::Cancelled { ran: _ } => written,
        };
        UnitEnd {
            outcome,
            text,
            usage: self.usage,
            turns: self.turns,
            tool_uses: self.tool_uses,
            duration_ms: self.started.map_or(0, |started| now.since(started)),
            output_file,
        }
    }
}
