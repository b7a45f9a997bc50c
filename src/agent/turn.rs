//! One turn's request and its answer.

use std::sync::Arc;

use tokio::time::Instant;

use super::answering::WantedAnswer;
use super::asking::{Answered, Audience, IfTooLong, Unanswered};
use super::compact::PROMPT_TOO_LONG;
use super::{Unit, size};
use crate::event::{FailureKind, NoticeLevel, Outcome, PrefixShare, Replied};
use crate::line::Told;
use crate::message::{Prefix, Usage};
use crate::model::check;
use crate::model::{Answer, Asker, ModelError, ModelErrorKind, Purpose, Request};

/// Tokens that the system prompt has at least. A smaller count is not one of the request.
const SYSTEM_PROMPT: u64 = 400;

/// Why a turn has no answer.
enum NoAnswer {
    /// The request was too long.
    TooLong(ModelError),
    /// The server refused the request, and may take it without the messages that have no
    /// answer.
    Refused(ModelError),
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
    pub(super) async fn answer(
        &mut self,
        turn: u32,
        wanted: &WantedAnswer,
    ) -> Result<Replied, Outcome> {
        match self.request(turn, wanted, IfTooLong::Compact).await {
            Ok(replied) => return Ok(replied),
            Err(NoAnswer::Over(outcome)) => return Err(outcome),
            Err(NoAnswer::TooLong(error)) => {
                self.learn_window(&error).await;
                self.compact_refused(&error).await?;
            }
            Err(NoAnswer::Refused(error)) => self.compact_refused(&error).await?,
        }
        self.may_request(None).await?;
        match self.request(turn, wanted, IfTooLong::Fail).await {
            Ok(replied) => Ok(replied),
            Err(NoAnswer::Over(outcome)) => Err(outcome),
            Err(NoAnswer::Refused(error)) => {
                Err(Outcome::failed(error.kind.failure(), error.message))
            }
            Err(NoAnswer::TooLong(error)) => {
                let message =
                    format!("still too long after a compaction: {error}; {PROMPT_TOO_LONG}");
                Err(Outcome::failed(FailureKind::Overflow, message))
            }
        }
    }

    /// Takes the context window that a refusal names. Of all units that share the model, the
    /// first one that learns it reports it.
    async fn learn_window(&self, error: &ModelError) {
        let Some(window) = error.window else { return };
        if self.model.learn_window(window) {
            let text = format!(
                "the server of `{}` reports a context window of {window} tokens; set the model's \
                 `context_window` in config.toml so that tine knows it from the start",
                self.model.name()
            );
            let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
            self.context.line.tell(notice).await;
        }
    }

    async fn request(
        &mut self,
        turn: u32,
        wanted: &WantedAnswer,
        if_too_long: IfTooLong,
    ) -> Result<Replied, NoAnswer> {
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
                    // The first was too long or refused.
                    IfTooLong::Fail => 2,
                },
                is_afresh,
                forked_from: forked.as_ref().filter(|_| sent.is_some()).map(|forked| forked.parent),
            },
            text_schema: wanted.text_schema.clone(),
        };
        let cancel = self.context.cancel.clone();
        let asking = async {
            let lead = match &forked {
                Some(forked) => forked.point.prime(self.bounds.prime).await,
                None => None,
            };
            let audience = Audience::Turn { lead, wanted };
            self.ask(request, audience, if_too_long).await
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
            Err(Unanswered::Refused(error)) => return Err(NoAnswer::Refused(error)),
            Err(Unanswered::Failed(error)) => {
                return Err(NoAnswer::Over(Outcome::failed(error.kind.failure(), error.message)));
            }
        };
        if turn == 1 && is_afresh {
            self.warn_if_tools_are_missing(usage).await;
        }
        wanted.take_as_call(&mut reply, stop);
        self.name_calls(&mut reply.calls);
        let model = Arc::clone(self.model.name());
        Ok(Replied { reply: Arc::new(reply), model, usage, stop, took_ms })
    }

    /// Warns if the server counted the words of the first request but not the tools: chat
    /// templates of some models leave them out, and the server does not say so.
    async fn warn_if_tools_are_missing(&self, usage: Usage) {
        let prefix = self.history.prefix();
        let words = size::of_text(&prefix.head.system) + size::of_entries(&prefix.entries);
        let all = size::of_head(&prefix.head) + size::of_entries(&prefix.entries);
        let counted = Usage { output: 0, ..usage }.total();
        // About as many tokens as the words alone have, and far fewer than all.
        let is_words_alone = (words - words / 4..=words + words / 4).contains(&counted);
        if counted < SYSTEM_PROMPT || !is_words_alone || counted * 2 > all {
            return;
        }
        let text = format!(
            "the server counted {counted} tokens where about {all} were sent: the chat template \
             of `{}` seems to leave the tools out, so the model cannot call them",
            self.model.name()
        );
        let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
        self.context.line.tell(notice).await;
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
