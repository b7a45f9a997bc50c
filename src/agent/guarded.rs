//! Whether a call may run: the guard decides, or has a person decide.
//!
//! Whoever waits for a person keeps nobody else waiting: the unit's permit is
//! given back, and its time does not run.

use std::sync::Arc;

use serde_json::Value;

use super::Unit;
use super::calls::Ready;
use crate::event::{Access, CallQuestion, Confinement, Question, Verdict};
use crate::guard::{Allowed, Ask, Decided, Decision};
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
    /// Decides about a call, and tells of a refusal. The arguments may be others
    /// afterwards, if a person has changed them.
    pub(super) async fn grant(&self, ready: &mut Ready<'_>) -> Result<Granted, Stopped> {
        let allowed = match self.decide(ready, &ready.arguments).await? {
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

    /// Decides about a call with these arguments.
    async fn decide(&self, ready: &Ready<'_>, arguments: &Value) -> Result<Decision, Stopped> {
        let (policy, tool) = (Arc::clone(&self.policy), Arc::clone(&ready.tool));
        let effect = ready.runner.effect();
        if effect.is_parallel_safe() {
            // A look at a path or two; calls that run side by side begin in the
            // order in which they were asked for.
            return Ok(policy.decide(&tool, effect, arguments));
        }
        // A command may have git asked what its repository sets.
        let arguments = arguments.clone();
        let judging = tokio::task::spawn_blocking(move || policy.decide(&tool, effect, &arguments));
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => Err(Stopped::Cancelled),
            decided = judging => {
                Ok(decided.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
            }
        }
    }

    async fn ask_user(&self, ready: &mut Ready<'_>, ask: Ask) -> Result<Allowed, Stopped> {
        let unasked = ask.refusal();
        let Ask { reason, rules, allowed, remedy: _, decided } = ask;
        let question = Question::Call(Arc::new(CallQuestion {
            call: ready.call.id.clone(),
            tool: Arc::clone(&ready.tool),
            subject: ready.runner.subject(&ready.arguments).into(),
            arguments: ready.call.arguments.as_str().into(),
            reason: reason.as_str().into(),
            rules,
            confinement: self.confinement(&allowed),
        }));
        let refusal = match self.answer_to(question, decided).await {
            Some(Verdict::Yes | Verdict::ForBatch | Verdict::ForSession | Verdict::Always) => {
                return Ok(allowed);
            }
            // Nobody has looked at this one, so it is confined as one that a
            // rule allows.
            Some(Verdict::Covered(_)) => {
                let access = allowed.access.map(|access| access.min(Access::WorkspaceWrite));
                return Ok(Allowed { access, ..allowed });
            }
            Some(Verdict::YesWith(terms)) => match &terms.arguments {
                None => return Ok(allowed),
                Some(arguments) => match self.allow_changed(ready, arguments).await? {
                    Ok(allowed) => return Ok(allowed),
                    Err(refusal) => refusal,
                },
            },
            // What is no form is not filled in.
            Some(Verdict::Filled(_) | Verdict::No) => "the user said no".to_owned(),
            Some(Verdict::NoBecause(message)) => format!("the user said no: {message}"),
            Some(Verdict::NobodyToAsk) => unasked,
            Some(Verdict::Withdrawn) | None => return Err(Stopped::Cancelled),
        };
        Err(self.denied(ready, &refusal).await)
    }

    /// Gives a call the arguments that a person has chosen instead. Nobody is
    /// asked about those again, but what is denied stays denied; the inner error
    /// says why.
    async fn allow_changed(
        &self,
        ready: &mut Ready<'_>,
        arguments: &str,
    ) -> Result<Result<Allowed, String>, Stopped> {
        let arguments = serde_json::from_str(arguments).ok().filter(Value::is_object);
        let Some(arguments) = arguments else {
            return Ok(Err("the user's own arguments for it are no JSON object".to_owned()));
        };
        Ok(match self.decide(ready, &arguments).await? {
            Decision::Allow(allowed) | Decision::Ask(Ask { allowed, .. }) => {
                ready.arguments = arguments;
                Ok(allowed)
            }
            Decision::Deny { reason } => Err(format!("with the user's own arguments: {reason}")),
        })
    }

    async fn answer_to(&self, question: Question, decided: Decided) -> Option<Verdict> {
        let (line, cancel) = (self.context.line.clone(), self.context.cancel.clone());
        let mut answer = None;
        let asking = async {
            tokio::select! {
                biased;
                // First: the words of a no that stops the turn are not lost.
                verdict = line.ask_user(question, decided) => answer = verdict,
                () = cancel.cancelled() => {}
            }
        };
        self.context.delegate.lend(Box::pin(asking)).await;
        answer.filter(|verdict| !(verdict.is_yes() && self.context.cancel.is_cancelled()))
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
