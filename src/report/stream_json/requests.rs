//! Requests that have no answer yet: they wait, they fail, they are made again.
//!
//! A client that collects what is streamed must not take the pieces of two
//! attempts for one message. So an attempt that failed is closed as a message
//! of its own, marked as void, before the next one begins under another id.

use std::io;
use std::sync::Arc;

use super::StreamJson;
use super::convert::{speaker, stream_event, updated};
use crate::event::{
    AfterFailure, Event, NoticeLevel, Question, QuestionId, RequestFailed, Throttled, UnitId,
    Verdict,
};
use crate::message::Usage;
use crate::report::lines::message_id;
use crate::report::record::{ApiRetry, Control, Record, Status, System, TaskStatus, Wait};
use crate::report::stream::Stream;
use crate::report::words;

impl StreamJson {
    pub(super) fn throttled(&mut self, event: &Event, throttled: &Throttled) -> io::Result<()> {
        self.paused.insert(event.unit);
        let Throttled { model: _, cause, wait_ms } = throttled;
        let wait = Wait::throttled(cause.as_str(), *wait_ms);
        self.standing(event, (None, TaskStatus::Paused), wait)
    }

    /// Tells that a request goes out, if it was told that it has to wait. Of
    /// one that is made again that was told with its delay.
    pub(super) fn admitted(&mut self, event: &Event, waited_ms: u64) -> io::Result<()> {
        if !self.paused.remove(&event.unit) {
            return Ok(());
        }
        self.standing(event, (Some("requesting"), TaskStatus::Running), Wait::over(waited_ms))
    }

    /// Tells that a unit waits for a person, with its first open question; and
    /// asks the client, if that answers.
    pub(super) fn asked(
        &mut self,
        event: &Event,
        id: QuestionId,
        question: &Question,
    ) -> io::Result<()> {
        if self.units.questions_of(event.unit) == 1 {
            let waits = (None, TaskStatus::Paused);
            self.standing(event, waits, Wait::for_approval())?;
        }
        if !self.options.asks_client {
            return Ok(());
        }
        self.output.write_bare(&Control::asks(event.unit, id, question))
    }

    /// Tells that it goes on, with the last answer; and takes a question back
    /// that the client has not answered.
    pub(super) fn answered(
        &mut self,
        event: &Event,
        id: QuestionId,
        answer: &Verdict,
    ) -> io::Result<()> {
        let is_taken_back = match answer {
            Verdict::Covered(_) | Verdict::NobodyToAsk | Verdict::Withdrawn => true,
            Verdict::Yes
            | Verdict::YesWith(_)
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::Filled(_)
            | Verdict::No
            | Verdict::NoBecause(_) => false,
        };
        if self.options.asks_client && is_taken_back {
            self.output.write_bare(&Control::takes_back(id))?;
        }
        let goes_on = match answer {
            Verdict::Yes
            | Verdict::YesWith(_)
            | Verdict::Covered(_)
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::Filled(_)
            | Verdict::No
            | Verdict::NoBecause(_) => self.units.questions_of(event.unit) == 0,
            Verdict::NobodyToAsk => self.units.questions_of(event.unit) == 0,
            // The unit's end follows.
            Verdict::Withdrawn => false,
        };
        if !goes_on {
            return Ok(());
        }
        self.standing(event, (None, TaskStatus::Running), Wait::default())
    }

    /// Tells that a unit waits again that was lost with its worker.
    pub(super) fn lost(&mut self, event: &Event, worker: &str, attempt: u32) -> io::Result<()> {
        self.standing(event, (None, TaskStatus::Pending), Wait::lost(worker, attempt))
    }

    /// Tells how a request or a unit stands: in a `status` for main, in the state of the
    /// task for any other unit.
    fn standing(
        &mut self,
        event: &Event,
        (of_main, of_task): (Option<&'static str>, TaskStatus),
        wait: Wait,
    ) -> io::Result<()> {
        let Some(speaker) = speaker(&self.units, event.unit, &event.branch) else {
            return Ok(());
        };
        if event.unit == UnitId::MAIN {
            let status = Status { status: of_main, wait };
            return self.output.write(Record::System(System::Status(status)));
        }
        let task_id = event.unit.to_string();
        self.output.write(updated(&task_id, of_task, wait, speaker.strand))
    }

    pub(super) fn request_failed(
        &mut self,
        event: &Event,
        failed: &RequestFailed,
    ) -> io::Result<()> {
        match &failed.next {
            AfterFailure::TooLong | AfterFailure::Nothing => {
                self.break_off(event.unit, failed.usage)
            }
            AfterFailure::Compact | AfterFailure::LeaveOut => {
                self.void(event, failed.usage)?;
                self.goes_on(event)
            }
            AfterFailure::Fallback { model } => {
                self.void(event, failed.usage)?;
                self.goes_on(event)?;
                self.models.insert(event.unit, Arc::clone(model));
                self.notice(event, NoticeLevel::Warning, &words::request_failed(failed))
            }
            AfterFailure::Retry { delay_ms, most } => {
                self.void(event, failed.usage)?;
                let Some(speaker) = speaker(&self.units, event.unit, &event.branch) else {
                    return Ok(());
                };
                self.output.write(Record::System(System::ApiRetry(ApiRetry {
                    attempt: failed.attempt,
                    max_retries: *most,
                    retry_delay_ms: *delay_ms,
                    error_status: failed.status,
                    error: sort_of_error(failed.status),
                    message: &failed.message,
                    model: &failed.model,
                    strand: speaker.strand,
                })))
            }
        }
    }

    /// Tells that a unit waits no more which was turned away at the gate.
    fn goes_on(&mut self, event: &Event) -> io::Result<()> {
        if !self.paused.remove(&event.unit) {
            return Ok(());
        }
        self.standing(event, (Some("requesting"), TaskStatus::Running), Wait::default())
    }

    /// Closes what was streamed of an answer that does not count, and lets the
    /// next attempt begin a message of its own.
    fn void(&mut self, event: &Event, usage: Usage) -> io::Result<()> {
        let unit = event.unit;
        if !self.streams.get(&unit).is_some_and(Stream::has_begun) {
            return Ok(());
        }
        let id = message_id(&self.facts.session, event.seq);
        let Some(stream) = self.streams.insert(unit, Stream::new(id, event.seq)) else {
            return Ok(());
        };
        let branch = self.branch_of(unit);
        let Some(speaker) = speaker(&self.units, unit, &branch) else { return Ok(()) };
        stream.void(usage, &mut |origin, streamed| {
            self.output.write_from(origin, stream_event(streamed, &speaker))
        })
    }
}

/// Returns the word that clients know for what an HTTP status stands for. Those
/// of tine are in `message`.
fn sort_of_error(status: Option<u16>) -> &'static str {
    match status {
        Some(401 | 403) => "authentication_failed",
        Some(402) => "billing_error",
        Some(429) => "rate_limit",
        Some(529) => "overloaded",
        Some(408 | 409 | 425 | 500..) => "server_error",
        Some(400..500) => "invalid_request",
        Some(_) | None => "unknown",
    }
}
