//! The agent loop: what a unit does from its prompt to its end.
//!
//! A [`Unit`] asks its model, runs the calls of the answer, and goes on until
//! an answer has no calls. It owns its history and nothing else; whatever it
//! does it tells its line, and what it becomes is an [`Outcome`], never an
//! error.

mod calls;
mod history;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{FailureKind, NoticeLevel, Outcome};
use crate::guard::Policy;
use crate::line::{Told, UnitEvent};
use crate::message::{CallId, StopReason};
use crate::model::Model;
use crate::tool::{Registry, ToolContext};

pub use calls::CALLS_CAP;
pub use history::History;

/// Everything that runs an agent loop: the main conversation or a slot.
pub struct Unit {
    /// The agent definition's name; `main` for the main conversation.
    pub agent: Arc<str>,
    /// What the unit is for; empty for the main conversation.
    pub description: Arc<str>,
    /// Who answers it.
    pub model: Arc<dyn Model>,
    /// What it can call.
    pub tools: Registry,
    /// What it may do.
    pub policy: Arc<Policy>,
    /// Most turns; `None` means no limit.
    pub max_turns: Option<u32>,
    /// What its calls may use. Its line and its cancel token are the unit's.
    pub context: ToolContext,
    /// Its conversation so far.
    pub history: History,
}

impl Unit {
    /// Runs the loop from a prompt to its end.
    pub async fn run(mut self, prompt: Arc<str>) -> Outcome {
        self.context.line.tell(Told::Prompted { text: Arc::clone(&prompt) }).await;
        self.history.prompted(prompt);
        let mut turn = 0;
        loop {
            if self.max_turns.is_some_and(|most| turn >= most) {
                let message = format!("reached its limit of {turn} turns");
                return Outcome::failed(FailureKind::MaxTurns, message);
            }
            turn += 1;
            self.context.line.tell(Told::TurnStarted { turn }).await;
            let replied = match self.request(turn).await {
                Ok(replied) => replied,
                Err(outcome) => return outcome,
            };
            self.history.replied(&replied.reply);
            let (reply, stop) = (Arc::clone(&replied.reply), replied.stop);
            self.context.line.tell(UnitEvent::Replied(replied)).await;
            if reply.calls.is_empty() {
                self.warn_if_lacking(&reply.text, stop).await;
                return Outcome::Done { text: reply.text.as_str().into() };
            }
            self.run_calls(&reply.calls).await;
            if self.context.cancel.is_cancelled() {
                return Outcome::Cancelled { ran: true };
            }
        }
    }

    /// An answer that is cut short, or is nothing at all, is still an answer,
    /// but whoever reads it must know.
    async fn warn_if_lacking(&self, answer: &str, stop: StopReason) {
        let text = match stop {
            StopReason::MaxTokens => "the answer stops at the model's output limit",
            StopReason::Refusal => "the provider withheld part of the answer",
            StopReason::EndTurn | StopReason::ToolUse if answer.trim().is_empty() => {
                "the model's answer is empty"
            }
            StopReason::EndTurn | StopReason::ToolUse => return,
        };
        let notice = Told::Notice { level: NoticeLevel::Warning, text: text.into() };
        self.context.line.tell(notice).await;
    }

    /// Gives calls ids that are unique within the unit: some servers number
    /// them anew in every answer.
    fn name_calls(&mut self, calls: &mut [crate::message::Call]) {
        // How often each id came: an answer may hold many calls of one id.
        let mut copies: HashMap<CallId, u32> = HashMap::new();
        for call in calls {
            let mut id = call.id.clone();
            let copy = copies.entry(id.clone()).or_insert(1);
            while !self.history.claim(&id) {
                *copy += 1;
                id = CallId(format!("{}_{copy}", call.id).into());
            }
            call.id = id;
        }
    }
}
