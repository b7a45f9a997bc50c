//! One request and its answer.

use std::sync::Arc;

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::Unit;
use crate::event::{Outcome, Piece, PrefixShare, Replied};
use crate::line::{Told, UnitEvent};
use crate::message::Prefix;
use crate::model::check;
use crate::model::{Answer, Asker, Chunk, ModelError, ModelErrorKind, Purpose, Request};
use crate::tool::Lead;

impl Unit {
    /// Sends the history and returns the whole answer.
    ///
    /// # Errors
    ///
    /// The error is the outcome of the unit: there is no answer, or the unit
    /// was cancelled. The text streamed until then is known to the dispatcher.
    pub(super) async fn request(&mut self, turn: u32) -> Result<Replied, Outcome> {
        let forked = self.forked_from.clone().filter(|_| turn == 1);
        let sent = forked.as_ref().and_then(|forked| forked.point.sent());
        if forked.is_some() {
            self.tell_share(sent.as_ref()).await;
        }
        let started = Instant::now();
        let request = Request {
            prefix: self.history.prefix().clone(),
            asker: Asker {
                unit: self.context.line.unit(),
                agent: Arc::clone(&self.agent),
                description: Arc::clone(&self.description),
                purpose: Purpose::Turn,
                turn,
                is_afresh: self.compacting.sends_afresh(),
                forked_from: forked.as_ref().filter(|_| sent.is_some()).map(|forked| forked.parent),
            },
        };
        let cancel = self.context.cancel.clone();
        let asking = async {
            let lead = match &forked {
                Some(forked) => forked.point.prime(self.bounds.prime).await,
                None => None,
            };
            self.stream(request, lead).await
        };
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Outcome::Cancelled { ran: true }),
            answer = asking => answer,
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

    /// Says how much of the first request the parent had sent: compared on
    /// the bytes themselves, so that what is said is what happens.
    async fn tell_share(&self, sent: Option<&Prefix>) {
        let body = self.model.body(self.history.prefix());
        let sent = sent.map(|sent| self.model.body(sent)).unwrap_or_default();
        // Nearly always the whole of it; then one comparison of memory says so.
        let stem = check::stem(&sent);
        let shared = match body.starts_with(stem) {
            true => stem.len(),
            false => body.iter().zip(stem).take_while(|(ours, theirs)| ours == theirs).count(),
        };
        let share = PrefixShare { shared_bytes: shared as u64, total_bytes: body.len() as u64 };
        self.context.line.tell(Told::PrefixShared(share)).await;
    }

    async fn stream(
        &self,
        request: Request,
        mut lead: Option<Lead<'_>>,
    ) -> Result<Answer, ModelError> {
        let mut chunks = self.model.respond(request);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            if let Some(lead) = lead.take() {
                lead.warm();
            }
            let piece = match chunk {
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
