//! Whether a call may run: the guard decides, or has a person decide.
//!
//! Whoever waits for a person keeps nobody else waiting: the unit's permit is
//! given back, and its time does not run.

use std::sync::Arc;

use super::Unit;
use super::calls::Ready;
use crate::event::{CallQuestion, Confinement, Question, Verdict};
use crate::guard::{Allowed, Ask, Decision};
use crate::line::Told;
use crate::tool::Granted;

/// Why a call does not run.
pub(super) enum Stopped {
    /// The guard or a person refused it: what its model reads.
    Denied(String),
    /// A cancel has begun.
    Cancelled,
}

impl Unit {
    /// Decides about a call, and tells of a refusal.
    pub(super) async fn grant(&self, ready: &Ready<'_>) -> Result<Granted, Stopped> {
        let effect = ready.runner.effect();
        let allowed = match self.policy.decide(&ready.tool, effect, &ready.arguments) {
            Decision::Allow(allowed) => allowed,
            Decision::Ask(ask) => self.ask_user(ready, ask).await?,
            Decision::Deny { reason } => return Err(self.denied(ready, &reason).await),
        };
        Ok(Granted {
            id: ready.call.id.clone(),
            confinement: self.confinement(&allowed).unwrap_or(Confinement::NONE),
            script: allowed.script,
            places: allowed.places,
        })
    }

    async fn ask_user(&self, ready: &Ready<'_>, ask: Ask) -> Result<Allowed, Stopped> {
        let unasked = ask.refusal();
        let Ask { reason, rules, allowed, remedy: _ } = ask;
        let question = Question::Call(Arc::new(CallQuestion {
            call: ready.call.id.clone(),
            tool: Arc::clone(&ready.tool),
            subject: ready.runner.subject(&ready.arguments).into(),
            arguments: ready.call.arguments.as_str().into(),
            reason: reason.as_str().into(),
            rules,
            confinement: self.confinement(&allowed),
        }));
        let refusal = match self.answer_to(question).await {
            Some(verdict) if verdict.is_yes() => return Ok(allowed),
            Some(Verdict::NoBecause(message)) => format!("the user said no: {message}"),
            Some(Verdict::NobodyToAsk) => unasked,
            Some(Verdict::Withdrawn) | None => return Err(Stopped::Cancelled),
            Some(
                Verdict::No
                | Verdict::Yes
                | Verdict::ForBatch
                | Verdict::ForSession
                | Verdict::Always,
            ) => "the user said no".to_owned(),
        };
        Err(self.denied(ready, &refusal).await)
    }

    async fn answer_to(&self, question: Question) -> Option<Verdict> {
        let (line, cancel) = (self.context.line.clone(), self.context.cancel.clone());
        let mut answer = None;
        let asking = async {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                verdict = line.ask_user(question) => answer = verdict,
            }
        };
        self.context.delegate.lend(Box::pin(asking)).await;
        answer
    }

    /// Returns how a command is kept in bounds; `None` for what runs none.
    fn confinement(&self, allowed: &Allowed) -> Option<Confinement> {
        allowed.access.map(|access| self.context.workspace.confinement(access))
    }

    async fn denied(&self, ready: &Ready<'_>, reason: &str) -> Stopped {
        let denied = Told::Denied {
            call: ready.call.id.clone(),
            tool: Arc::clone(&ready.tool),
            arguments: ready.call.arguments.as_str().into(),
            reason: reason.into(),
        };
        self.context.line.tell(denied).await;
        Stopped::Denied(format!("Permission to use {} denied: {reason}", ready.tool))
    }
}
