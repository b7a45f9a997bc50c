//! A span as a value, and as the library takes it.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::event::UnixMillis;

/// Which span it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanAt {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
}

/// Something that took time and is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Which one it is.
    pub at: SpanAt,
    /// The span that it belongs to; `None` for the first of a trace.
    pub parent: Option<SpanId>,
    /// Whether that one is of another process.
    pub is_parent_remote: bool,
    /// What it is called.
    pub name: String,
    /// Who works meanwhile.
    pub kind: Kind,
    /// When it began.
    pub start: UnixMillis,
    /// When it was over; never before it began.
    pub end: UnixMillis,
    /// What is said of it.
    pub attributes: Vec<KeyValue>,
    /// What went wrong, if anything did.
    pub failed: Option<Failed>,
}

/// Who works while a span goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// This process.
    Internal,
    /// Somebody whom it asks.
    Client,
}

/// What went wrong in a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What sort of failure it is, in a word.
    pub kind: Cow<'static, str>,
    /// The real error; empty where it might quote what was said.
    pub message: String,
}

impl Span {
    /// Returns it as the library takes it.
    pub(super) fn into_data(self, scope: &InstrumentationScope) -> SpanData {
        let context = SpanContext::new(
            self.at.trace,
            self.at.span,
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        );
        let mut attributes = self.attributes;
        let status = match self.failed {
            None => Status::Unset,
            Some(Failed { kind, message }) => {
                attributes.push(KeyValue::new("error.type", kind));
                Status::error(message)
            }
        };
        SpanData {
            span_context: context,
            parent_span_id: self.parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: self.is_parent_remote,
            span_kind: match self.kind {
                Kind::Internal => SpanKind::Internal,
                Kind::Client => SpanKind::Client,
            },
            name: self.name.into(),
            start_time: time(self.start),
            end_time: time(self.end),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: scope.clone(),
        }
    }
}

fn time(at: UnixMillis) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0)
}
