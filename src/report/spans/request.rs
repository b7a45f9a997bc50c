//! Requests as spans: who was asked, what came of it, what it took.

use std::sync::Arc;

use opentelemetry::{Array, KeyValue, StringValue, Value};

use super::content::count;
use super::strand::{Strand, Turn};
use super::{Failed, Kind, Span, Spans, cut};
use crate::event::{AfterFailure, Compaction, Event, Replied, RequestFailed, UnitId, UnixMillis};
use crate::message::{StopReason, Usage};
use crate::telemetry::SpanAt;

/// Where a model is, as conventions have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPlace {
    /// Whose API it speaks, in the conventions' words where they have one.
    pub provider: &'static str,
    /// What its server calls it.
    pub model: String,
    /// The server's name and port; `None` if there is no server.
    pub server: Option<(String, u16)>,
}

/// Tells where a model is by the name that people call it.
pub type DescribeModel = Arc<dyn Fn(&str) -> ModelPlace + Send + Sync>;

/// Says who is asked.
pub(super) fn of_model(place: &ModelPlace) -> Vec<KeyValue> {
    let mut said = vec![
        KeyValue::new("gen_ai.provider.name", place.provider),
        KeyValue::new("gen_ai.request.model", cut(&place.model)),
    ];
    if let Some((host, port)) = &place.server {
        said.push(KeyValue::new("server.address", host.clone()));
        said.push(KeyValue::new("server.port", i64::from(*port)));
    }
    said
}

impl Spans {
    pub(super) fn replied(&mut self, event: &Event, replied: &Replied) {
        let Some(mut span) = self.request(event, &replied.model, replied.took_ms) else { return };
        let finish = finish_reason(replied.stop);
        let reasons = Value::Array(Array::String(vec![StringValue::from(finish)]));
        span.attributes.push(KeyValue::new("gen_ai.response.finish_reasons", reasons));
        span.attributes.extend(of_usage(replied.usage));
        span.attributes.extend(self.shows.reply(&replied.reply, finish));
        self.finish(event.unit, span);
        let Some(strand) = self.strands.get_mut(&event.unit) else { return };
        strand.finish = finish;
        let Some(turn) = &mut strand.turn else { return };
        turn.asking_since = None;
        turn.last = event.at;
        turn.open_calls = replied.reply.calls.len();
        turn.reply = Some(Arc::clone(&replied.reply));
        if turn.is_over() {
            self.end_turn(event.unit, None);
        }
    }

    pub(super) fn request_failed(&mut self, event: &Event, failed: &RequestFailed) {
        let Some(mut span) = self.request(event, &failed.model, failed.took_ms) else { return };
        span.attributes.extend(of_usage(failed.usage));
        if let Some(status) = failed.status {
            let status = i64::from(status);
            span.attributes.push(KeyValue::new("http.response.status_code", status));
        }
        let kind = failed.status.map_or("_OTHER".into(), |status| status.to_string().into());
        span.failed = Some(Failed { kind, message: cut(&failed.message) });
        self.finish(event.unit, span);
        let Some(turn) = self.strands.get_mut(&event.unit).and_then(|it| it.turn.as_mut()) else {
            return;
        };
        turn.failed += 1;
        turn.last = event.at;
        turn.asking_since = match &failed.next {
            AfterFailure::Fallback { model: _ } => Some(event.at),
            // An `Admitted` says when it goes out again.
            AfterFailure::Retry { .. }
            | AfterFailure::Compact
            | AfterFailure::LeaveOut
            | AfterFailure::TooLong
            | AfterFailure::Nothing => None,
        };
    }

    pub(super) fn compacted(&mut self, event: &Event, compaction: &Compaction) {
        let (model, took_ms) = (&compaction.model, compaction.took_ms);
        let Some(mut span) = self.request(event, model, took_ms) else { return };
        span.attributes.extend(of_usage(compaction.usage));
        span.attributes.push(KeyValue::new("tine.compaction", compaction.trigger.as_str()));
        self.finish(event.unit, span);
        if let Some(turn) = self.strands.get_mut(&event.unit).and_then(|it| it.turn.as_mut()) {
            turn.last = event.at;
            // The turn's own request follows, if it was not answered before.
            turn.asking_since = turn.reply.is_none().then_some(event.at);
        }
    }

    /// Returns a request that was under way when its unit ended.
    pub(super) fn unanswered(
        &self,
        unit: UnitId,
        turn: &Turn,
        (since, end): (UnixMillis, UnixMillis),
        failed: Failed,
    ) -> Span {
        let strand = &self.strands[&unit];
        let mut bytes = turn.at.span.to_bytes();
        // No event opened it. Its turn's id is one of a hash, so this is too.
        bytes.reverse();
        let span = opentelemetry::trace::SpanId::from_bytes(bytes);
        let at = SpanAt { span, ..turn.at };
        let model = strand.model.clone();
        let mut span = self.asked(strand, at, model.as_ref(), (since, end));
        (span.parent, span.failed) = (Some(turn.at.span), Some(failed));
        span
    }

    /// Returns a request that ends with an event. Nothing that waited before it
    /// does any more.
    fn request(&mut self, event: &Event, model: &Arc<str>, took_ms: u64) -> Option<Span> {
        let at = self.place(event.unit, event.seq)?;
        let strand = self.strands.get_mut(&event.unit)?;
        strand.model = Some(Arc::clone(model));
        let (waited, shared) = (std::mem::take(&mut strand.waited_ms), strand.shared.take());
        let turn = strand.turn.as_ref();
        let began = UnixMillis(event.at.0.saturating_sub(took_ms));
        let start = turn.map_or(began, |turn| began.max(turn.start));
        let (above, failed) = turn.map_or((strand.at.span, 0), |turn| (turn.at.span, turn.failed));
        let strand = &self.strands[&event.unit];
        let mut span = self.asked(strand, at, Some(model), (start, event.at));
        span.parent = Some(above);
        if failed > 0 {
            span.attributes.push(KeyValue::new("tine.attempt", i64::from(failed) + 1));
        }
        if waited > 0 {
            span.attributes.push(KeyValue::new("tine.waited_ms", count(waited)));
        }
        if let Some(shared) = shared {
            let bytes = KeyValue::new("tine.shared_bytes", count(shared.shared_bytes));
            span.attributes.push(bytes);
        }
        Some(span)
    }

    fn asked(
        &self,
        strand: &Strand,
        at: SpanAt,
        model: Option<&Arc<str>>,
        times: (UnixMillis, UnixMillis),
    ) -> Span {
        let place = model.map(|model| (self.describe)(model));
        let name =
            place.as_ref().map_or("chat".to_owned(), |place| format!("chat {}", cut(&place.model)));
        let mut span = Span { kind: Kind::Client, ..strand.span(at, name, times) };
        span.attributes = vec![KeyValue::new("gen_ai.operation.name", "chat")];
        span.attributes.extend(place.iter().flat_map(of_model));
        span.attributes.extend(self.common(strand));
        span
    }
}

fn of_usage(usage: Usage) -> Vec<KeyValue> {
    // Conventions count what was read from a cache as input, too.
    let input = usage.total().saturating_sub(usage.output);
    let mut said = vec![
        KeyValue::new("gen_ai.usage.input_tokens", count(input)),
        KeyValue::new("gen_ai.usage.output_tokens", count(usage.output)),
    ];
    let cached = [
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_creation),
    ];
    let cached = cached.into_iter().filter(|(_, tokens)| *tokens > 0);
    said.extend(cached.map(|(name, tokens)| KeyValue::new(name, count(tokens))));
    if usage.cost.usd.0 > 0 {
        said.push(KeyValue::new("tine.cost_usd", usage.cost.usd.dollars()));
    }
    said
}

/// Returns why a model stopped, in the conventions' words.
fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}
