//! A run as spans: a fold over events.
//!
//! Times are the events' own, and a span's id is made of the session and the
//! number of the event that opened it, so the same events always give the same
//! spans. An invocation is a trace; in it the agents it started stand below the
//! call that started each, turns below their agent, requests and calls below
//! their turn. Names are those of OpenTelemetry's conventions for generative
//! AI, and ours begin with `tine.`. What was said is left out unless the user
//! wants it in.

mod content;
mod request;
mod strand;

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};

use crate::config::{Telemetry, TraceParent};
use crate::event::{
    Event, EventKind, OfferedTool, Outcome, Question, Seq, SessionId, UnitHead, UnitId, UnixMillis,
};
use crate::message::{CallId, Output};
use crate::telemetry::{Failed, Kind, Span, SpanAt};
use crate::tool_name::{self, STRUCTURED_OUTPUT};
use content::{Shows, cut};
use strand::{Call, Strand, Turn};

pub use request::{DescribeModel, ModelPlace};

/// Folds events into spans.
pub struct Spans {
    session: SessionId,
    shows: Shows,
    settings: Telemetry,
    describe: DescribeModel,
    /// The units that have begun to wait or to work and have not ended.
    strands: BTreeMap<UnitId, Strand>,
    /// Where the last invocation stands: what a person starts between two of
    /// them belongs there.
    last: Option<SpanAt>,
    /// The tools of servers that main has.
    offered: Arc<[OfferedTool]>,
    /// Those that are over and were not taken yet.
    over: Vec<Span>,
}

impl Spans {
    /// No spans yet. `describe` tells where a model is.
    #[must_use]
    pub fn new(session: SessionId, settings: Telemetry, describe: DescribeModel) -> Self {
        Self {
            session,
            shows: Shows(settings.captures_content),
            settings,
            describe,
            strands: BTreeMap::new(),
            last: None,
            offered: Arc::default(),
            over: Vec::new(),
        }
    }

    /// Takes note of an event and returns the spans that are over with it. Of
    /// what began in another process nothing is told.
    pub fn take(&mut self, event: &Event) -> Vec<Span> {
        match &event.kind {
            EventKind::InvocationStarted { prompt, .. } => self.invoke(event, prompt),
            EventKind::InvocationEnded(end) => self.end(event, &end.outcome, &end.text, 0),
            EventKind::UnitQueued(head) => self.queue(event, head),
            EventKind::UnitStarted => {
                self.change(event, |strand| strand.started = strand.started.or(Some(event.at)));
            }
            EventKind::Lost { .. } => self.lost(event),
            EventKind::UnitEnded(end) => self.end(event, &end.outcome, &end.text, end.tool_uses),
            EventKind::TurnStarted { turn } => self.turn(event, *turn),
            EventKind::Throttled(_) => self.change(event, |strand| strand.asks(None)),
            EventKind::Admitted { waited_ms } => self.change(event, |strand| {
                strand.waited_ms += waited_ms;
                strand.asks(Some(event.at));
            }),
            EventKind::PrefixShared(share) => {
                self.change(event, |strand| strand.shared = Some(*share));
            }
            EventKind::RequestFailed(failed) => self.request_failed(event, failed),
            EventKind::Replied(replied) => self.replied(event, replied),
            EventKind::Compacted(compaction) => self.compacted(event, compaction),
            EventKind::ToolStarted { call, subject, .. } => self.calls(event, call, subject),
            EventKind::ToolFinished { call, tool, output, took_ms } => {
                self.called(event, (call, tool), (output, *took_ms));
            }
            EventKind::Denied { call, .. } => {
                self.change(event, |strand| strand.call(call).is_denied = true);
            }
            EventKind::Asked { id: _, question: Question::Call(question) } => {
                self.change(event, |strand| {
                    strand.call(&question.call).asked = Some(event.at);
                });
            }
            EventKind::Answered { id: _, question: Question::Call(question), answer: _ } => {
                self.change(event, |strand| strand.call(&question.call).answered(event.at));
            }
            EventKind::Offered(offered) => {
                if let Some(tools) = &offered.tools {
                    self.offered = Arc::clone(tools);
                }
            }
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::Chosen(_)
            | EventKind::Left
            | EventKind::HookRan(_) => {}
        }
        std::mem::take(&mut self.over)
    }

    fn invoke(&mut self, event: &Event, prompt: &Arc<str>) {
        let parent = self.settings.parent;
        let trace = parent.map_or_else(|| self.new_trace(event), |parent| parent.trace);
        let at = SpanAt { trace, span: self.span_id(event.seq) };
        let mut strand = Strand::new(at, parent.map(|parent| parent.span), event.at);
        strand.is_parent_remote = parent.is_some();
        strand.is_sampled = self.settings.sampler.takes(trace, parent.as_ref());
        strand.started = Some(event.at);
        strand.attributes.push(KeyValue::new("tine.invocation", i64::from(event.invocation.0)));
        strand.attributes.extend(self.shows.input(prompt));
        self.last = Some(at);
        self.strands.insert(event.unit, strand);
    }

    fn queue(&mut self, event: &Event, head: &UnitHead) {
        let parent = self.strands.get(&head.parent);
        let is_sampled = parent.map(|parent| parent.is_sampled);
        let call = head.call.as_ref().and_then(|call| parent?.calls.get(call)?.at);
        let above = call.or(parent.map(|parent| parent.at)).or(self.last);
        let trace = above.map_or_else(|| self.new_trace(event), |above| above.trace);
        let at = SpanAt { trace, span: self.span_id(event.seq) };
        let remote: Option<TraceParent> = self.settings.parent;
        let mut strand = Strand::new(at, above.map(|above| above.span), event.at);
        strand.is_sampled =
            is_sampled.unwrap_or_else(|| self.settings.sampler.takes(trace, remote.as_ref()));
        strand.branch = event.branch.clone();
        strand.head = Some(head.clone());
        self.strands.insert(event.unit, strand);
    }

    fn turn(&mut self, event: &Event, number: u32) {
        let at = self.place(event.unit, event.seq);
        self.end_turn(event.unit, None);
        if let (Some(strand), Some(at)) = (self.strands.get_mut(&event.unit), at) {
            strand.turns += 1;
            strand.turn = Some(Turn::new(at, number, event.at));
        }
    }

    /// Ends a unit's turn, if it is in one. What a bad end cut off is told.
    fn end_turn(&mut self, unit: UnitId, cut_off: Option<(UnixMillis, &Failed)>) {
        let Some(strand) = self.strands.get_mut(&unit) else { return };
        let Some(turn) = strand.turn.take() else { return };
        if let (Some(since), Some((end, failed))) = (turn.asking_since, cut_off) {
            let span = self.unanswered(unit, &turn, (since, end), failed.clone());
            self.finish(unit, span);
        }
        let Some(strand) = self.strands.get(&unit) else { return };
        let mut span = Span {
            attributes: vec![KeyValue::new("tine.turn", i64::from(turn.number))],
            ..strand.span(turn.at, format!("turn {}", turn.number), (turn.start, turn.last))
        };
        span.attributes.extend(self.common(strand));
        if let Some((end, failed)) = cut_off {
            (span.end, span.failed) = (end, Some(failed.clone()));
        }
        span.parent = Some(strand.at.span);
        self.finish(unit, span);
    }

    /// The turn of a unit that was lost fails; the unit itself goes on in its
    /// next attempt.
    fn lost(&mut self, event: &Event) {
        let failed = Failed { kind: "worker_lost".into(), message: String::new() };
        self.end_turn(event.unit, Some((event.at, &failed)));
        self.change(event, Strand::lost);
    }

    fn calls(&mut self, event: &Event, id: &CallId, subject: &Arc<str>) {
        let at = self.place(event.unit, event.seq);
        self.change(event, |strand| {
            let call = strand.call(id);
            (call.at, call.started, call.subject) = (at, Some(event.at), Arc::clone(subject));
        });
    }

    fn called(
        &mut self,
        event: &Event,
        (id, tool): (&CallId, &str),
        (output, took_ms): (&Output, u64),
    ) {
        let fresh = self.place(event.unit, event.seq);
        let is_named = self.shows.0 || self.is_there(tool);
        let Some(strand) = self.strands.get_mut(&event.unit) else { return };
        let call = strand.calls.remove(id).unwrap_or_default();
        let Some(at) = call.at.or(fresh) else { return };
        let start = call.started.unwrap_or(UnixMillis(event.at.0.saturating_sub(took_ms)));
        let arguments = strand.turn.as_ref().and_then(|turn| turn.arguments(id)).map(cut);
        if let Some(turn) = &mut strand.turn {
            turn.open_calls = turn.open_calls.saturating_sub(1);
            turn.last = event.at;
        }
        let above = strand.turn.as_ref().map_or(strand.at.span, |turn| turn.at.span);
        let tool = (is_named || call.was_found()).then(|| cut(tool));
        let of_tool = tool.as_ref().map(|tool| format!(" {tool}")).unwrap_or_default();
        let name = format!("execute_tool{of_tool}");
        let mut span = Span { parent: Some(above), ..strand.span(at, name, (start, event.at)) };
        span.attributes = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.unwrap_or_else(|| "_OTHER".to_owned())),
            KeyValue::new("gen_ai.tool.call.id", cut(&id.0)),
            KeyValue::new("gen_ai.tool.type", "function"),
        ];
        let is_over = strand.turn.as_ref().is_some_and(Turn::is_over);
        span.attributes.extend(self.common(&self.strands[&event.unit]));
        span.attributes.extend(call.attributes());
        span.attributes.extend(self.shows.call(arguments, &call.subject, output));
        span.failed = call.failed(output.is_error);
        self.finish(event.unit, span);
        if is_over {
            self.end_turn(event.unit, None);
        }
    }

    /// Tells whether a name is one that a tool is known to have. One that a model
    /// made up may be anything that was said.
    fn is_there(&self, tool: &str) -> bool {
        let is_ours = tool == STRUCTURED_OUTPUT || tool_name::KNOWN.contains(&tool);
        is_ours || self.offered.iter().any(|offered| *offered.name == *tool)
    }

    fn end(&mut self, event: &Event, outcome: &Outcome, text: &str, tool_uses: u32) {
        let failed = self.shows.failure(outcome);
        let cut_off = failed.as_ref().map(|failed| (event.at, failed));
        self.end_turn(event.unit, cut_off);
        let Some(strand) = self.strands.remove(&event.unit) else { return };
        let start = strand.started.unwrap_or(event.at);
        let name = format!("invoke_agent {}", cut(strand.agent()));
        let mut span = Span { failed, ..strand.span(strand.at, name, (start, event.at)) };
        (span.parent, span.is_parent_remote) = (strand.parent, strand.is_parent_remote);
        span.attributes = vec![KeyValue::new("gen_ai.operation.name", "invoke_agent")];
        span.attributes.extend(self.common(&strand));
        span.attributes.extend(strand.of_the_whole(event.unit, start));
        span.attributes.push(KeyValue::new("tine.outcome", outcome.state().as_str()));
        if tool_uses > 0 {
            span.attributes.push(KeyValue::new("tine.tool_uses", i64::from(tool_uses)));
        }
        if let Some(model) = &strand.model {
            span.attributes.extend(request::of_model(&(self.describe)(model)));
        }
        let unit = strand.head.as_ref().map(|head| (&*head.description, &strand.branch.path));
        let finish = span.failed.as_ref().map_or(strand.finish, |_| "error");
        span.attributes.extend(self.shows.ending(unit, (text, finish)));
        if strand.is_sampled {
            self.over.push(span);
        }
    }

    /// Returns what every span of a unit says.
    fn common(&self, strand: &Strand) -> [KeyValue; 2] {
        [
            KeyValue::new("gen_ai.conversation.id", self.session.to_string()),
            KeyValue::new("gen_ai.agent.name", cut(strand.agent())),
        ]
    }

    fn change(&mut self, event: &Event, change: impl FnOnce(&mut Strand)) {
        self.strands.get_mut(&event.unit).map(change);
    }

    fn finish(&mut self, unit: UnitId, span: Span) {
        if self.strands.get(&unit).is_some_and(|strand| strand.is_sampled) {
            self.over.push(span);
        }
    }

    /// Returns the place of a span of this unit that an event opens.
    fn place(&self, unit: UnitId, seq: Seq) -> Option<SpanAt> {
        let strand = self.strands.get(&unit)?;
        Some(SpanAt { trace: strand.at.trace, span: self.span_id(seq) })
    }

    fn span_id(&self, seq: Seq) -> SpanId {
        let hash = blake3::hash(format!("span {} {}", self.session, seq.0).as_bytes());
        let bytes = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        SpanId::from_bytes(*bytes)
    }

    /// Returns the trace that an event begins. Its time is in it, for a session
    /// that is not kept may be begun again under the same id.
    fn new_trace(&self, event: &Event) -> TraceId {
        let (seq, at) = (event.seq.0, event.at.0);
        let hash = blake3::hash(format!("trace {} {seq} {at}", self.session).as_bytes());
        let bytes = hash.as_bytes().first_chunk().expect("a hash has 32 bytes");
        TraceId::from_bytes(*bytes)
    }
}

impl Call {
    fn failed(&self, is_error: bool) -> Option<Failed> {
        let kind = match (self.is_denied, is_error) {
            (true, _) => "denied",
            (false, true) => "tool_error",
            (false, false) => return None,
        };
        Some(Failed { kind: kind.into(), message: String::new() })
    }
}

#[cfg(test)]
mod tests;
