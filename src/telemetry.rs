//! Spans, and their way to a collector.
//!
//! A [`Span`] is a plain value: what it says is decided by whoever folds events
//! into it. [`Exporter`] brings spans away over OTLP on a thread of its own,
//! which is started for the first of them, so a process that has none has no
//! thread and no connection. Nothing here ever holds up a run or fails one.

mod delivery;
mod export;
mod span;

pub use export::{CLOSE_LIMIT, Exporter, Lost, SIGNAL_LIMIT};
pub use span::{Failed, Kind, Span, SpanAt};
