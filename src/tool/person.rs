//! Asking a person something on behalf of a call.
//!
//! A form goes through the one queue of questions that approvals go through.
//! Whoever waits for a person keeps no other unit out of the pool, and its time
//! does not run.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::event::{Entry, Form, Question, Verdict};
use crate::guard::Decided;
use crate::line::Line;

use super::ToolContext;

/// What became of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Answers, one for each field.
    Answers(Arc<[Entry]>),
    /// The user does not want to answer; why, where that was said.
    Declined(Option<Arc<str>>),
    /// There is nobody who could be asked.
    NobodyToAsk,
    /// The unit is to stop.
    Cancelled,
}

/// Takes a question back where its asker is dropped before there is an answer.
/// After a cancel its unit's questions end with the unit.
struct Unasked(Option<Line>);

impl Drop for Unasked {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.take_back();
        }
    }
}

/// Asks the user and waits for the answer until `ended` or the unit is cancelled; then the question
/// is withdrawn and the result is `None`. Dropping the future withdraws it, too.
pub async fn answer(
    context: &ToolContext,
    question: Question,
    decided: Decided,
    ended: &CancellationToken,
) -> Option<Verdict> {
    let (line, cancel) = (context.line.clone(), context.cancel.clone());
    // Before what asks, so that it is dropped after it.
    let mut unasked = Unasked(Some(line.clone()));
    let mut verdict = None;
    let asking = async {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = ended.cancelled() => {}
            answer = line.ask_user(question, decided) => verdict = answer,
        }
    };
    context.delegate.lend(Box::pin(asking)).await;
    if verdict.is_some() || cancel.is_cancelled() {
        unasked.0 = None;
    }
    verdict
}

/// Has a person fill in a form, and waits for it however long that takes.
/// Dropping the future takes the question back.
pub async fn ask(context: &ToolContext, form: Arc<Form>) -> Said {
    let question = Question::Form(form);
    match answer(context, question, Decided::default(), &context.cancel).await {
        Some(Verdict::Filled(given)) => Said::Answers(given),
        Some(Verdict::NoBecause(why)) => Said::Declined(Some(why)),
        Some(Verdict::NobodyToAsk) => Said::NobodyToAsk,
        Some(Verdict::Withdrawn) | None => Said::Cancelled,
        // A form is filled in or not; the rest answers other questions.
        Some(
            Verdict::No
            | Verdict::Yes
            | Verdict::YesWith(_)
            | Verdict::ForBatch
            | Verdict::ForSession
            | Verdict::Always
            | Verdict::Covered(_),
        ) => Said::Declined(None),
    }
}
