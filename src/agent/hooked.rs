//! Where a unit asks hooks, and what it does about what they say.
//!
//! Hooks run in the unit's own time: nobody else waits for them. What they add
//! to what the model reads becomes part of the event that brings it there, so
//! that the conversation can be made again from the log.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Unit;
use super::calls::Ready;
use super::guarded::Stopped;
use crate::event::{CompactionTrigger, FailureKind, HookEvent, NoticeLevel, Outcome, UnitId};
use crate::hook::{CallFacts, Effect, Heard, Hooks, Occasion, Source, Who, Wish};
use crate::line::{Line, Told};
use crate::message::Output;
use crate::prompt;
use crate::tool::OUTPUT_CAP;

/// How often in a row hooks may keep a unit from ending. Each time costs a
/// request at least; a hook that is never content must not cost a night.
pub const HELD_CAP: u32 = 8;

/// Most characters that hooks add to one output, give or take their frames:
/// half of what an output may have.
const SAID_CAP: usize = OUTPUT_CAP / 2;

/// How long hooks may take that are told that a person is waited for, once that
/// person has answered.
const NOTICE_GRACE: Duration = Duration::from_secs(2);

/// How long the hooks of a session's end may take together. The process is
/// about to go, and was perhaps told to.
pub const SESSION_END_LIMIT: Duration = Duration::from_millis(1_500);

/// Asks hooks on behalf of a unit.
#[derive(Debug, Clone, Copy)]
pub struct Hooked<'a> {
    /// The hooks.
    pub hooks: &'a Hooks,
    /// Where it is told of each.
    pub line: &'a Line,
    /// Ends them.
    pub cancel: &'a CancellationToken,
    /// Who asks.
    pub who: Who<'a>,
}

impl Hooked<'_> {
    /// Asks the hooks of a moment and tells of each; `None` once a cancel has
    /// begun.
    pub async fn ask(&self, occasion: &Occasion<'_>) -> Option<Effect> {
        if !self.hooks.has(occasion.event()) {
            return Some(Effect::default());
        }
        let heard = self.hooks.ask(occasion, &self.who, self.cancel).await;
        let effect = self.tell(heard).await;
        (!self.cancel.is_cancelled()).then_some(effect)
    }

    async fn tell(&self, heard: Heard) -> Effect {
        let Heard { effect, ran } = heard;
        for ran in ran {
            self.line.tell(Told::HookRan(ran)).await;
        }
        effect
    }

    /// Asks what is to be asked before main begins with what the user has
    /// typed: the hooks of the session's beginning, if it begins with this, and
    /// those of the prompt. Returns the message with what they add.
    ///
    /// # Errors
    ///
    /// The outcome of main: a hook does not let it begin, or it was cancelled.
    pub async fn submitted(
        &self,
        begins: Option<(Source, &str)>,
        typed: &str,
        message: &str,
    ) -> Result<Arc<str>, Outcome> {
        let mut message = message.to_owned();
        if let Some((source, model)) = begins {
            let occasion = Occasion::SessionStart { source, model };
            let effect = going_on(self.ask(&occasion).await)?;
            message = prompt::with_hook(&message, HookEvent::SessionStart, &effect.context);
        }
        let occasion = Occasion::UserPromptSubmit { prompt: typed };
        let effect = going_on(self.ask(&occasion).await)?;
        if let Wish::Deny(reason) = &effect.wish {
            return Err(outcome("a hook blocks the prompt", reason));
        }
        Ok(prompt::with_hook(&message, HookEvent::UserPromptSubmit, &effect.context).into())
    }

    /// Asks the hooks of the session's end, also after a cancel. They take no
    /// longer than [`SESSION_END_LIMIT`]. Those that nobody waits for have
    /// `grace` from then on, and it is told of those that are ended.
    pub async fn session_ends(&self, reason: &str, grace: Duration) {
        if self.hooks.has(HookEvent::SessionEnd) {
            self.ask_at_the_end(reason).await;
        }
        let ran = self.hooks.finish(grace).await;
        self.tell(Heard { ran, effect: Effect::default() }).await;
    }

    async fn ask_at_the_end(&self, reason: &str) {
        let (occasion, over) = (Occasion::SessionEnd { reason }, CancellationToken::new());
        let mut asking = pin!(self.hooks.ask(&occasion, &self.who, &over));
        let heard = match timeout(SESSION_END_LIMIT, &mut asking).await {
            Ok(heard) => heard,
            Err(_) => {
                over.cancel();
                asking.await
            }
        };
        self.tell(heard).await;
    }
}

/// What hooks have said about a call.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What stands below its output.
    pub(super) below: String,
    /// Why the unit ends, if it does.
    pub(super) stop: Option<Arc<str>>,
}

impl Said {
    fn add(&mut self, event: HookEvent, text: &str) {
        let room = SAID_CAP.saturating_sub(self.below.chars().count());
        if !text.is_empty() && room > 0 {
            self.below.push_str("\n\n");
            self.below.push_str(&prompt::hook(event, &prompt::cut(text, room, None)));
        }
    }

    /// Returns the outcome of a unit that hooks have ended.
    pub(super) fn end(&self) -> Option<Outcome> {
        self.stop.as_ref().map(|reason| outcome("a hook ended the work", reason))
    }
}

/// What hooks make of a question that a person would be asked.
pub(super) enum Answered {
    /// Nothing: the person is asked.
    Nothing,
    /// It may run, with these arguments if there are some.
    Yes(Option<serde_json::Value>),
    /// It must not.
    No(Arc<str>),
}

impl Unit {
    fn hooked(&self) -> Hooked<'_> {
        Hooked {
            hooks: &self.hooks,
            line: &self.context.line,
            cancel: &self.context.cancel,
            who: Who {
                unit: self.context.line.unit(),
                agent: &self.agent,
                mode: self.policy.mode().as_str(),
                cwd: &self.context.workspace.root,
            },
        }
    }

    fn is_main(&self) -> bool {
        self.context.line.unit() == UnitId::MAIN
    }

    /// Asks the hooks of a unit's beginning, and returns its first message with
    /// what they add. Main's are asked where what the user typed is known.
    pub(super) async fn begins(&self, text: Arc<str>) -> Result<Arc<str>, Outcome> {
        if self.is_main() || !self.hooks.has(HookEvent::SubagentStart) {
            return Ok(text);
        }
        let occasion = Occasion::SubagentStart { prompt: &text };
        let effect = going_on(self.hooked().ask(&occasion).await)?;
        Ok(prompt::with_hook(&text, HookEvent::SubagentStart, &effect.context).into())
    }

    /// Asks whether a unit with nothing more to do may end; else returns what it
    /// is told. `held` counts how often it was kept.
    pub(super) async fn is_held(
        &self,
        answer: &str,
        held: &mut u32,
    ) -> Result<Option<Arc<str>>, Outcome> {
        let is_held = *held > 0;
        let occasion = match self.is_main() {
            true => Occasion::Stop { is_held, answer },
            false => Occasion::SubagentStop { is_held, answer },
        };
        let event = occasion.event();
        let Some(effect) = self.hooked().ask(&occasion).await else {
            return Err(Outcome::Cancelled { ran: true });
        };
        let Effect { wish: Wish::Deny(reason), stop: None, .. } = effect else {
            return Ok(None);
        };
        if *held >= HELD_CAP {
            let text = format!("hooks have kept it from ending {HELD_CAP} times, so it ends now");
            self.warn(&text).await;
            return Ok(None);
        }
        *held += 1;
        Ok(Some(prompt::held(event, &reason).into()))
    }

    /// Asks the hooks that are asked before a call, which may change its
    /// arguments; `true` if they have.
    pub(super) async fn before_call(&self, ready: &mut Ready<'_>) -> Result<(Wish, bool), Stopped> {
        let Some(effect) = self.hooked().ask(&Occasion::PreToolUse(ready.facts())).await else {
            return Err(Stopped::Cancelled);
        };
        ready.said.add(HookEvent::PreToolUse, &effect.context);
        if let Some(reason) = effect.stop {
            ready.said.stop = Some(Arc::clone(&reason));
            return Ok((Wish::Deny(why(&reason).into()), false));
        }
        let is_changed = effect.input.is_some();
        if let Some(arguments) = effect.input {
            ready.change(arguments);
        }
        let wish = match effect.wish {
            Wish::Deny(reason) => Wish::Deny(why(&reason).into()),
            wish @ (Wish::Nothing | Wish::Allow | Wish::Ask(_)) => wish,
        };
        Ok((wish, is_changed))
    }

    /// Asks the hooks that may answer in a person's stead.
    pub(super) async fn before_asking(
        &self,
        ready: &mut Ready<'_>,
        reason: &str,
    ) -> Result<Answered, Stopped> {
        let occasion = Occasion::PermissionRequest { call: ready.facts(), reason };
        let Some(effect) = self.hooked().ask(&occasion).await else {
            return Err(Stopped::Cancelled);
        };
        if let Some(reason) = effect.stop {
            ready.said.stop = Some(Arc::clone(&reason));
            return Ok(Answered::No(why(&reason).into()));
        }
        Ok(match effect.wish {
            Wish::Nothing | Wish::Ask(_) => Answered::Nothing,
            Wish::Allow => Answered::Yes(effect.input),
            Wish::Deny(reason) => Answered::No(why(&reason).into()),
        })
    }

    /// Asks the hooks that are asked after a call that went well, and returns the
    /// output, or the one that they give in its place.
    pub(super) async fn after_call(
        &self,
        call: CallFacts<'_>,
        output: Output,
        said: &mut Said,
    ) -> Output {
        if output.is_error || !self.hooks.has(HookEvent::PostToolUse) {
            return output;
        }
        // After a cancel the output is all there is to say.
        let asked = self.hooked().ask(&Occasion::PostToolUse(call, &output)).await;
        let Some(effect) = asked else { return output };
        if let Wish::Deny(reason) = &effect.wish {
            said.add(HookEvent::PostToolUse, reason);
        }
        said.add(HookEvent::PostToolUse, &effect.context);
        said.stop = effect.stop.or(said.stop.take());
        effect.output.unwrap_or(output)
    }

    /// Waits for a person's answer, and has the hooks told that one is waited
    /// for. An answer does not wait long for them.
    pub(super) async fn noticed<T>(&self, message: &str, asked: impl Future<Output = T>) -> T {
        if !self.hooks.has_people() || !self.hooks.has(HookEvent::Notification) {
            return asked.await;
        }
        let over = self.context.cancel.child_token();
        let hooked = Hooked { cancel: &over, ..self.hooked() };
        let occasion = Occasion::Notification { message, kind: "permission_prompt" };
        let (mut telling, mut asked) = (pin!(hooked.ask(&occasion)), pin!(asked));
        tokio::select! {
            biased;
            answer = &mut asked => {
                // Whoever has answered knows already what there is to tell.
                if timeout(NOTICE_GRACE, &mut telling).await.is_err() {
                    over.cancel();
                    telling.await;
                }
                answer
            }
            _ = &mut telling => asked.await,
        }
    }

    /// Asks the hooks that are asked before a compaction, and returns what the
    /// summary is to heed. The inner error is why there is to be none.
    pub(super) async fn before_compaction(
        &self,
        trigger: CompactionTrigger,
        hint: Option<&str>,
    ) -> Result<Result<Option<String>, Arc<str>>, Outcome> {
        let effect = going_on(self.hooked().ask(&Occasion::PreCompact { trigger, hint }).await)?;
        if let Wish::Deny(reason) = effect.wish {
            return Ok(Err(reason));
        }
        let hints: Vec<&str> =
            hint.into_iter().chain([&*effect.context]).filter(|hint| !hint.is_empty()).collect();
        Ok(Ok((!hints.is_empty()).then(|| hints.join("\n\n"))))
    }

    /// Asks the hooks of a session's beginning after main's conversation was
    /// compacted, and gives the model what they add.
    pub(super) async fn after_compaction(&mut self) {
        if !self.is_main() || !self.hooks.has(HookEvent::SessionStart) {
            return;
        }
        let (source, model) = (Source::Compact, Arc::clone(self.model.name()));
        let occasion = Occasion::SessionStart { source, model: &model };
        // After a cancel there is nothing more to read.
        let Some(effect) = self.hooked().ask(&occasion).await else { return };
        if !effect.context.is_empty() {
            let text: Arc<str> = prompt::hook(HookEvent::SessionStart, &effect.context).into();
            self.prompted(text.into()).await;
        }
    }

    async fn warn(&self, text: &str) {
        let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
        self.context.line.tell(notice).await;
    }
}

/// Returns what hooks want that do not end the unit.
fn going_on(effect: Option<Effect>) -> Result<Effect, Outcome> {
    match effect {
        None => Err(Outcome::Cancelled { ran: true }),
        Some(Effect { stop: Some(reason), .. }) => Err(outcome("a hook ended the work", &reason)),
        Some(effect) => Ok(effect),
    }
}

fn outcome(what: &str, reason: &str) -> Outcome {
    let message = if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") };
    Outcome::failed(FailureKind::Hook, message)
}

/// Returns why a call does not run that a hook refuses.
fn why(reason: &str) -> String {
    if reason.is_empty() {
        "a hook says no".to_owned()
    } else {
        format!("a hook says no: {reason}")
    }
}
