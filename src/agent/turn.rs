//! One turn's request and its answer.

use std::sync::Arc;

use tokio::time::Instant;

use super::Unit;
use super::asking::{Answered, Audience, IfTooLong, Unanswered};
use crate::event::{FailureKind, Outcome, PrefixShare, Replied};
use crate::line::Told;
use crate::message::Prefix;
use crate::model::check;
use crate::model::{Answer, Asker, ModelError, ModelErrorKind, Purpose, Request};

/// Why a turn has no answer.
enum NoAnswer {
    /// The request was too long.
    TooLong(ModelError),
    /// The unit is over.
    Over(Outcome),
}

impl Unit {
    /// Sends the history and returns the whole answer. A conversation that is
    /// too long is compacted once and sent again.
    ///
    /// # Errors
    ///
    /// The error is the outcome of the unit: there is no answer, or the unit
    /// was cancelled. The text streamed until then is known to the dispatcher.
    pub(super) async fn answer(&mut self, turn: u32) -> Result<Replied, Outcome> {
        let error = match self.request(turn, IfTooLong::Compact).await {
            Ok(replied) => return Ok(replied),
            Err(NoAnswer::Over(outcome)) => return Err(outcome),
            Err(NoAnswer::TooLong(error)) => error,
        };
        self.compact_too_long(&error).await?;
        self.may_request(None).await?;
        match self.request(turn, IfTooLong::Fail).await {
            Ok(replied) => Ok(replied),
            Err(NoAnswer::Over(outcome)) => Err(outcome),
            Err(NoAnswer::TooLong(error)) => {
                let message = format!("too long also after a compaction: {error}");
                Err(Outcome::failed(FailureKind::Overflow, message))
            }
        }
    }

    async fn request(&mut self, turn: u32, if_too_long: IfTooLong) -> Result<Replied, NoAnswer> {
        let is_afresh = self.compacting.sends_afresh();
        let forked = self.forked_from.clone().filter(|_| turn == 1 && is_afresh);
        // What a summary has replaced is shared with nobody.
        let forked = forked.filter(|_| if_too_long == IfTooLong::Compact);
        let sent = forked.as_ref().and_then(|forked| forked.point.sent());
        if forked.is_some() {
            self.tell_share(sent.as_ref()).await;
        }
        let request = Request {
            prefix: self.history.prefix().clone(),
            asker: Asker {
                unit: self.context.line.unit(),
                agent: Arc::clone(&self.agent),
                description: Arc::clone(&self.description),
                purpose: Purpose::Turn,
                turn,
                attempt: match if_too_long {
                    IfTooLong::Compact => 1,
                    // The first was too long.
                    IfTooLong::Fail => 2,
                },
                is_afresh,
                forked_from: forked.as_ref().filter(|_| sent.is_some()).map(|forked| forked.parent),
            },
        };
        let cancel = self.context.cancel.clone();
        let asking = async {
            let lead = match &forked {
                Some(forked) => forked.point.prime(self.bounds.prime).await,
                None => None,
            };
            self.ask(request, Audience::Turn(lead), if_too_long).await
        };
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(NoAnswer::Over(Outcome::Cancelled { ran: true })),
            answered = asking => answered,
        };
        let Answered { answer: Answer { mut reply, usage, stop }, took_ms, .. } = match answered {
            Ok(answered) => answered,
            Err(Unanswered::Ends(outcome)) => return Err(NoAnswer::Over(outcome)),
            Err(Unanswered::Failed(error)) if error.kind == ModelErrorKind::Overflow => {
                return Err(NoAnswer::TooLong(error));
            }
            Err(Unanswered::Failed(error)) => {
                return Err(NoAnswer::Over(Outcome::failed(error.kind.failure(), error.message)));
            }
        };
        self.name_calls(&mut reply.calls);
        let model = Arc::clone(self.model.name());
        Ok(Replied { reply: Arc::new(reply), model, usage, stop, took_ms })
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
}

/// Returns the whole milliseconds since `started`.
pub(super) fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
