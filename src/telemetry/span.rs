//! A span as a value, and as it is sent.

use std::borrow::Cow;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_proto::tonic::trace::v1 as wire;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::transform::common::tonic::Attributes;

use crate::event::UnixMillis;

/// What is said of every span in the flags that it has: it is sent, and whether
/// its parent is another process's is known.
const SENT_AND_KNOWN: u32 = 0x1 | wire::SpanFlags::ContextHasIsRemoteMask as u32;

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
    /// Returns it as it is sent.
    pub(super) fn into_wire(self) -> wire::Span {
        let mut attributes = self.attributes;
        let status = match self.failed {
            None => wire::Status::default(),
            Some(Failed { kind, message }) => {
                attributes.push(KeyValue::new("error.type", kind));
                wire::Status { message, code: StatusCode::Error.into() }
            }
        };
        let kind = match self.kind {
            Kind::Internal => wire::span::SpanKind::Internal,
            Kind::Client => wire::span::SpanKind::Client,
        };
        let of_parent = match self.is_parent_remote {
            true => wire::SpanFlags::ContextIsRemoteMask as u32,
            false => 0,
        };
        wire::Span {
            trace_id: self.at.trace.to_bytes().to_vec(),
            span_id: self.at.span.to_bytes().to_vec(),
            parent_span_id: self.parent.map(|id| id.to_bytes().to_vec()).unwrap_or_default(),
            flags: SENT_AND_KNOWN | of_parent,
            name: self.name,
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(self.start),
            end_time_unix_nano: nanoseconds(self.end),
            attributes: Attributes::from(attributes).0,
            status: Some(status),
            ..wire::Span::default()
        }
    }
}

fn nanoseconds(at: UnixMillis) -> u64 {
    at.0.saturating_mul(1_000_000)
}
