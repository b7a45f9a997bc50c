//! Calls and the questions about them.

use std::sync::Arc;

use crate::event::{Event, Question, QuestionId, Verdict};
use crate::message::{CallId, Output};
use crate::tool_name::may_wait_for_agents;

use super::super::super::words;
use super::super::{Label, SpanKind, Trace};
use super::before;

impl Trace {
    pub(super) fn denied(
        &mut self,
        event: &Event,
        call: &CallId,
        (tool, reason): (&str, &Arc<str>),
    ) {
        let said = self.texts.keep(Label::Reason, reason);
        let span = self.mark(event, "denied", tool, vec![said]);
        (span.failed, span.call) = (Some("denied".into()), Some(call.clone()));
    }

    pub(super) fn calls(
        &mut self,
        event: &Event,
        call: &CallId,
        (tool, subject): (&Arc<str>, &Arc<str>),
    ) {
        let place = self.place(event);
        let given = self.units[place].open.given.get(call).map(|call| call.arguments.clone());
        let given = given.map(|given| self.texts.keep(Label::Arguments, &given.into()));
        let span = self.mark(event, tool, subject, given.into_iter().collect());
        (span.kind, span.to, span.call) = (SpanKind::Call, None, Some(call.clone()));
        let span = self.spans.len() - 1;
        self.change(event, |unit| {
            unit.open.waiting_calls += u32::from(may_wait_for_agents(tool));
            unit.open.calls.insert(call.clone(), span);
        });
    }

    pub(super) fn called(
        &mut self,
        event: &Event,
        (call, tool): (&CallId, &Arc<str>),
        (output, took_ms): (&Output, u64),
    ) {
        let place = self.place(event);
        let started = self.units[place].open.calls.remove(call);
        let given = self.units[place].open.given.remove(call);
        let span = started.unwrap_or_else(|| {
            // It was refused, or there is no such tool: it never began.
            let given = given.map(|call| self.texts.keep(Label::Arguments, &call.arguments.into()));
            let now = self.now;
            let span = self.mark(event, tool, "", given.into_iter().collect());
            (span.kind, span.call) = (SpanKind::Call, Some(call.clone()));
            span.from = before(now, took_ms);
            self.spans.len() - 1
        });
        let mut text = output.text.clone();
        if !output.images.is_empty() {
            text = format!("{text}\n({})", words::images(&output.images));
        }
        let said = self.texts.keep(Label::Output, &text.into());
        // What a later process says of a call took no time.
        let to = if took_ms == 0 { self.alive } else { self.now };
        let span = &mut self.spans[span];
        span.to = Some(to.max(span.from));
        span.changed = event.seq;
        span.failed = output.is_error.then(|| "error".into());
        span.texts.push(said);
        let waited = started.is_some() && may_wait_for_agents(tool);
        self.change(event, |unit| {
            unit.tool_uses += 1;
            unit.open.waiting_calls = unit.open.waiting_calls.saturating_sub(u32::from(waited));
        });
    }

    pub(super) fn questioned(&mut self, event: &Event, id: QuestionId, question: &Question) {
        let said = self.texts.keep(Label::Question, &words::question(question).into());
        let (name, call) = asked_about(question);
        let span = self.mark(event, &name, "", vec![said]);
        (span.kind, span.to, span.call) = (SpanKind::Question, None, call);
        let span = self.spans.len() - 1;
        self.change(event, |unit| {
            unit.open.questions.insert(id, span);
        });
    }

    pub(super) fn answered(
        &mut self,
        event: &Event,
        id: QuestionId,
        (question, answer): (&Question, &Verdict),
    ) {
        let place = self.place(event);
        let Some(span) = self.units[place].open.questions.remove(&id) else {
            // It was decided without anybody being asked.
            let said = self.texts.keep(Label::Verdict, &words::answered(question, answer).into());
            let (name, call) = asked_about(question);
            let span = self.mark(event, &name, answer.as_str(), vec![said]);
            (span.kind, span.call) = (SpanKind::Question, call);
            return;
        };
        let said = self.texts.keep(Label::Verdict, &words::answered(question, answer).into());
        let (now, span) = (self.now, &mut self.spans[span]);
        (span.to, span.changed, span.about) = (Some(now), event.seq, answer.as_str().into());
        span.failed = (!answer.is_yes()).then(|| answer.as_str().into());
        span.texts.push(said);
        self.change(event, |_| ());
    }
}

fn asked_about(question: &Question) -> (Arc<str>, Option<CallId>) {
    match question {
        Question::Batch { slots: _ } => ("batch".into(), None),
        Question::Call(asked) => (Arc::clone(&asked.tool), Some(asked.call.clone())),
        Question::Form(form) => (Arc::clone(&form.tool), Some(form.call.clone())),
    }
}
