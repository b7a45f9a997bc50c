//! Requests on their way to an answer: they go out, wait, fail, are answered.

use std::sync::Arc;

use crate::event::{
    AfterFailure, Compaction, Event, Replied, RequestFailed, Throttled, UnixMillis,
};
use crate::message::{Reply, Usage};

use super::super::super::usage::Spent;
use super::super::{Label, Said, Span, SpanKind, Trace};
use super::before;

impl Trace {
    pub(super) fn turn(&mut self, event: &Event) {
        self.end_request(event, "not answered");
        self.change(event, |unit| {
            unit.turns += 1;
            unit.open.has_answered = false;
        });
        self.request(event);
    }

    pub(super) fn throttled(&mut self, event: &Event, throttled: &Throttled) {
        let Throttled { model, cause, wait_ms: _ } = throttled;
        self.forget_request(event);
        self.wait(event, cause.as_str(), model);
    }

    pub(super) fn admitted(&mut self, event: &Event, waited_ms: u64) {
        self.end_wait(event);
        self.change(event, |unit| unit.spent += Spent { waited_ms, ..Spent::default() });
        self.request(event);
    }

    /// A request goes out.
    fn request(&mut self, event: &Event) {
        let span = self.mark(event, "", "", Vec::new());
        (span.kind, span.to) = (SpanKind::Request, None);
        let span = self.spans.len() - 1;
        self.change(event, |unit| unit.open.request = Some(span));
    }

    /// A request has to wait from now on.
    fn wait(&mut self, event: &Event, cause: &str, about: &str) {
        self.end_wait(event);
        let span = self.mark(event, cause, about, Vec::new());
        (span.kind, span.to) = (SpanKind::Wait, None);
        let span = self.spans.len() - 1;
        self.change(event, |unit| unit.open.wait = Some(span));
    }

    fn end_wait(&mut self, event: &Event) {
        let place = self.place(event);
        if let Some(span) = self.units[place].open.wait.take() {
            let now = self.now;
            let span = &mut self.spans[span];
            (span.to, span.changed) = (Some(now), event.seq);
        }
    }

    /// Ends a request that nothing more is said of.
    fn end_request(&mut self, event: &Event, why: &str) {
        let place = self.place(event);
        if let Some(span) = self.units[place].open.request.take() {
            let now = self.now;
            let span = &mut self.spans[span];
            (span.to, span.changed) = (Some(now), event.seq);
            span.failed = Some(why.into());
        }
    }

    /// A request was not sent after all: it waits. What was taken for it takes
    /// no time, and says nothing.
    fn forget_request(&mut self, event: &Event) {
        let place = self.place(event);
        if let Some(span) = self.units[place].open.request.take() {
            let span = &mut self.spans[span];
            (span.kind, span.to, span.changed) = (SpanKind::Mark, Some(span.from), event.seq);
            span.name = "turn".into();
        }
    }

    /// Returns the request that is over with this event.
    fn asked(&mut self, event: &Event, model: &Arc<str>, took_ms: u64) -> &mut Span {
        self.end_wait(event);
        let place = self.place(event);
        let (now, open) = (self.now, self.units[place].open.request.take());
        let index = open.unwrap_or_else(|| {
            let span = self.mark(event, "", "", Vec::new());
            (span.kind, span.from) = (SpanKind::Request, before(now, took_ms));
            self.spans.len() - 1
        });
        let span = &mut self.spans[index];
        let from: UnixMillis = span.from.max(before(now, took_ms));
        (span.from, span.to, span.changed) = (from, Some(now), event.seq);
        span.name = Arc::clone(model);
        span
    }

    pub(super) fn replied(&mut self, event: &Event, replied: &Replied) {
        let Replied { reply, model, usage, stop, took_ms } = replied;
        let texts = self.said(reply);
        let span = self.asked(event, model, *took_ms);
        (span.usage, span.about) = (Some(*usage), stop.as_str().into());
        span.texts.extend(texts);
        self.spend(event, *usage, 0);
        self.change(event, |unit| {
            unit.open.has_answered = reply.calls.is_empty();
            unit.open.given =
                reply.calls.iter().map(|call| (call.id.clone(), call.clone())).collect();
        });
    }

    fn said(&mut self, reply: &Reply) -> Vec<Said> {
        let Reply { text, thinking, calls: _, sealed: _ } = reply;
        let texts = [(Label::Thinking, thinking), (Label::Answer, text)];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        texts.map(|(label, text)| self.texts.keep(label, &text.as_str().into())).collect()
    }

    pub(super) fn failed(&mut self, event: &Event, failed: &RequestFailed) {
        let RequestFailed { model, attempt, status, message, usage, took_ms, next } = failed;
        let said = self.texts.keep(Label::Error, message);
        let span = self.asked(event, model, *took_ms);
        span.failed = Some(match status {
            Some(status) => format!("HTTP {status}").into(),
            None => "no answer".into(),
        });
        span.about = format!("attempt {attempt}").into();
        (span.usage, span.texts) = (Some(*usage), vec![said]);
        match next {
            AfterFailure::Retry { delay_ms: _, most: _ } => {
                self.spend(event, *usage, 1);
                self.wait(event, "retry", model);
            }
            AfterFailure::Fallback { model: _ } => {
                self.spend(event, *usage, 0);
                self.request(event);
            }
            AfterFailure::Compact
            | AfterFailure::LeaveOut
            | AfterFailure::TooLong
            | AfterFailure::Nothing => {
                self.spend(event, *usage, 0);
            }
        }
    }

    pub(super) fn compacted(&mut self, event: &Event, compaction: &Compaction) {
        let Compaction { trigger, text, model, usage, took_ms, .. } = compaction;
        let said = self.texts.keep(Label::Summary, text);
        let place = self.place(event);
        let was_asking = self.units[place].open.request.is_some();
        let span = self.asked(event, model, *took_ms);
        (span.kind, span.about) = (SpanKind::Compaction, trigger.as_str().into());
        (span.usage, span.texts) = (Some(*usage), vec![said]);
        self.spend(event, *usage, 0);
        if was_asking {
            // The turn's own request follows.
            self.request(event);
        }
    }

    fn spend(&mut self, event: &Event, usage: Usage, retries: u64) {
        self.change(event, |unit| {
            unit.spent += Spent { usage, requests: 1, retries, waited_ms: 0 };
        });
    }
}
