//! Whether a call may run: the guard decides, or has a person decide.
//!
//! Whoever waits for a person keeps nobody else waiting: the unit's permit is
//! given back, and its time does not run.

use std::sync::Arc;

use serde_json::Value;

use super::Unit;
use super::calls::Ready;
use super::hooked::Answered;
use crate::event::{
    Access, Backend, CallQuestion, Confinement, HookEvent, NoticeLevel, Question, Verdict,
};
use crate::guard::{Allowed, Ask, CommandBounds, Decided, Decision, Explained};
use crate::hook::Wish;
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
        let allowed = self.weigh(ready).await?;
        if let Some(text) =
            allowed.access.and_then(|access| self.context.workspace.sandbox.warning(access))
        {
            let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
            self.context.line.tell(notice).await;
        }
        let confinement = self.confinement(&allowed).unwrap_or(Confinement::NONE);
        let bounds = match (allowed.bounds, confinement.backend) {
            (Some(bounds), _) => bounds,
            (None, Backend::None) => CommandBounds::NONE,
            // A person approved it, and a sandbox is required all the same.
            (None, Backend::Bwrap | Backend::Landlock) => self.command_bounds().await?,
        };
        Ok(Granted {
            id: ready.call.id.clone(),
            confinement,
            script: allowed.script,
            places: allowed.places,
            bounds,
        })
    }

    async fn command_bounds(&self) -> Result<CommandBounds, Stopped> {
        let policy = Arc::clone(&self.policy);
        // It looks through directories.
        let finding = tokio::task::spawn_blocking(move || policy.command_bounds());
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => Err(Stopped::Cancelled),
            found = finding => {
                Ok(found.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
            }
        }
    }

    /// Decides about a call, and asks hooks unless it is denied without them.
    /// What they allow a person is not asked about, as far as a rule for the whole
    /// tool would spare it.
    async fn weigh(&self, ready: &mut Ready<'_>) -> Result<Allowed, Stopped> {
        self.redirect(ready);
        let mut explained = self.decide(ready, &ready.arguments).await?;
        let mut wish = Wish::Nothing;
        let is_denied = matches!(explained.decision, Decision::Deny { .. });
        if !is_denied && self.hooks.has(HookEvent::PreToolUse) {
            let (wished, is_changed) = self.before_call(ready).await?;
            wish = wished;
            if is_changed {
                self.redirect(ready);
                explained = self.decide(ready, &ready.arguments).await?;
            }
        }
        match (explained.decision, wish) {
            (Decision::Deny { reason }, _) => Err(self.denied(ready, &reason).await),
            (_, Wish::Deny(reason)) => Err(self.denied(ready, &reason).await),
            (Decision::Allow(allowed), Wish::Nothing | Wish::Allow) => Ok(allowed),
            (Decision::Allow(allowed), Wish::Ask(reason)) => {
                let reason = match &*reason {
                    "" => "a hook has it asked".to_owned(),
                    reason => format!("a hook has it asked: {reason}"),
                };
                if !self.policy.may_ask() {
                    let reason = format!("{reason}; `dontAsk` asks nobody");
                    return Err(self.denied(ready, &reason).await);
                }
                let (rules, remedy, decided) = (Vec::new(), None, Decided::default());
                // Without that hook it would run: another one may say yes.
                let is_sparable = true;
                let ask = Ask { reason, rules, allowed, remedy, decided, is_sparable };
                self.ask_user(ready, ask).await
            }
            (Decision::Ask(ask), Wish::Allow) if ask.is_sparable => Ok(unseen(ask.allowed)),
            (Decision::Ask(ask), Wish::Nothing | Wish::Allow | Wish::Ask(_)) => {
                self.ask_user(ready, ask).await
            }
        }
    }

    /// Decides about a call with these arguments.
    async fn decide(&self, ready: &Ready<'_>, arguments: &Value) -> Result<Explained, Stopped> {
        let decided = self.explained(ready, arguments).await?;
        let decision = match &decided.decision {
            Decision::Allow(_) => "allow",
            Decision::Ask(_) => "ask",
            Decision::Deny { .. } => "deny",
        };
        tracing::debug!(tool = %ready.tool, decision, "the guard decides");
        Ok(decided)
    }

    async fn explained(&self, ready: &Ready<'_>, arguments: &Value) -> Result<Explained, Stopped> {
        let (policy, tool) = (Arc::clone(&self.policy), Arc::clone(&ready.tool));
        let effect = ready.runner.effect();
        if effect.is_parallel_safe() {
            // A look at a path or two; calls that run side by side begin in the
            // order in which they were asked for.
            return Ok(policy.explain(&tool, effect, arguments));
        }
        // A command may have git asked what its repository sets.
        let arguments = arguments.clone();
        let judging =
            tokio::task::spawn_blocking(move || policy.explain(&tool, effect, &arguments));
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => Err(Stopped::Cancelled),
            decided = judging => {
                Ok(decided.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
            }
        }
    }

    async fn ask_user(&self, ready: &mut Ready<'_>, ask: Ask) -> Result<Allowed, Stopped> {
        match self.answered_by_hooks(ready, &ask).await? {
            None => {}
            Some(Ok(allowed)) => return Ok(allowed),
            Some(Err(refusal)) => return Err(self.denied(ready, &refusal).await),
        }
        let unasked = ask.refusal();
        let Ask { reason, rules, allowed, remedy: _, decided, is_sparable: _ } = ask;
        let question = Question::Call(Arc::new(CallQuestion {
            call: ready.call.id.clone(),
            tool: Arc::clone(&ready.tool),
            subject: ready.runner.subject(&ready.arguments).into(),
            arguments: ready.written(),
            reason: reason.as_str().into(),
            rules,
            confinement: self.confinement(&allowed),
        }));
        let told = format!("{} needs your permission to use {}", self.agent, ready.tool);
        let refusal = match self.answer_to(question, decided, &told).await {
            Some(Verdict::Yes | Verdict::ForBatch | Verdict::ForSession | Verdict::Always) => {
                return Ok(allowed);
            }
            Some(Verdict::Covered(_)) => return Ok(unseen(allowed)),
            Some(Verdict::YesWith(terms)) => match &terms.arguments {
                None => return Ok(allowed),
                Some(arguments) => match serde_json::from_str(arguments) {
                    Ok(arguments) => {
                        match self.allow_changed(ready, arguments, "the user's own").await? {
                            Ok((allowed, _)) => return Ok(allowed),
                            Err(refusal) => refusal,
                        }
                    }
                    Err(_) => "the user's own arguments for it are no JSON object".to_owned(),
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

    /// Asks hooks in a person's stead; `None` if they leave it to the person, or
    /// if it is for a person alone. The inner error is why the call does not run.
    async fn answered_by_hooks(
        &self,
        ready: &mut Ready<'_>,
        ask: &Ask,
    ) -> Result<Option<Result<Allowed, String>>, Stopped> {
        Ok(match self.before_asking(ready, &ask.reason).await? {
            Answered::Nothing => None,
            Answered::No(reason) => Some(Err(reason.to_string())),
            Answered::Yes(None) if ask.is_sparable => Some(Ok(unseen(ask.allowed.clone()))),
            Answered::Yes(None) => None,
            Answered::Yes(Some(arguments)) => {
                match self.allow_changed(ready, arguments, "a hook's").await? {
                    Ok((allowed, true)) => Some(Ok(unseen(allowed))),
                    Ok((_, false)) => {
                        let why = "with a hook's arguments: only a person may allow that";
                        Some(Err(why.to_owned()))
                    }
                    Err(why) => Some(Err(why)),
                }
            }
        })
    }

    /// Gives a call the arguments that somebody has chosen instead. Nobody is
    /// asked about those again, but what is denied stays denied; the inner error
    /// says why. The flag tells whether a hook's yes is enough for them.
    async fn allow_changed(
        &self,
        ready: &mut Ready<'_>,
        arguments: Value,
        whose: &str,
    ) -> Result<Result<(Allowed, bool), String>, Stopped> {
        if !arguments.is_object() {
            return Ok(Err(format!("{whose} arguments for it are no JSON object")));
        }
        // Also for what is denied: it is these that are.
        ready.change(arguments);
        self.redirect(ready);
        Ok(match self.decide(ready, &ready.arguments).await?.decision {
            Decision::Allow(allowed) => Ok((allowed, true)),
            Decision::Ask(Ask { allowed, is_sparable, .. }) => Ok((allowed, is_sparable)),
            Decision::Deny { reason } => Err(format!("with {whose} arguments: {reason}")),
        })
    }

    async fn answer_to(&self, question: Question, decided: Decided, told: &str) -> Option<Verdict> {
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
        let asking = self.noticed(told, asking);
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
            arguments: ready.written(),
            reason: reason.into(),
        };
        self.context.line.tell(denied).await;
        Stopped::Denied(format!("Permission to use {} denied: {reason}", ready.tool))
    }
}

/// What nobody has looked at is confined as what a rule allows.
fn unseen(allowed: Allowed) -> Allowed {
    let access = allowed.access.map(|access| access.min(Access::WorkspaceWrite));
    Allowed { access, ..allowed }
}
