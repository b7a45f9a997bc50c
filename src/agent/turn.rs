//! One request and its answer.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::Unit;
use crate::event::{Outcome, Piece, Replied};
use crate::line::UnitEvent;
use crate::model::{Answer, Asker, Chunk, ModelError, ModelErrorKind, Request};

impl Unit {
    /// Sends the history and returns the whole answer.
    ///
    /// # Errors
    ///
    /// The error is the outcome of the unit: there is no answer, or the unit
    /// was cancelled. The text streamed until then is known to the dispatcher.
    pub(super) async fn request(&mut self, turn: u32) -> Result<Replied, Outcome> {
        let started = Instant::now();
        let request = Request {
            prefix: self.history.prefix().clone(),
            asker: Asker {
                unit: self.context.line.unit(),
                agent: Arc::clone(&self.agent),
                description: Arc::clone(&self.description),
                turn,
            },
        };
        let cancel = self.context.cancel.clone();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Outcome::Cancelled { ran: true }),
            answer = self.stream(request) => answer,
        };
        let Answer { mut reply, usage, stop } =
            answer.map_err(|error| Outcome::failed(error.kind.failure(), error.message))?;
        self.name_calls(&mut reply.calls);
        Ok(Replied {
            reply: Arc::new(reply),
            model: Arc::clone(self.model.name()),
            usage,
            stop,
            took_ms: millis(started),
        })
    }

    async fn stream(&self, request: Request) -> Result<Answer, ModelError> {
        let mut chunks = self.model.respond(request);
        while let Some(chunk) = chunks.next().await {
            let piece = match chunk? {
                Chunk::Text(text) => Piece::Text(text),
                Chunk::Thinking(text) => Piece::Thinking(text),
                Chunk::Finished(answer) => return Ok(*answer),
            };
            self.context.line.tell(UnitEvent::Delta(piece)).await;
        }
        Err(ModelError::new(ModelErrorKind::Cut, "the answer broke off before its end"))
    }
}

/// Returns the whole milliseconds since `started`.
pub(super) fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
