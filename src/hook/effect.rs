//! What the hooks of one moment want together.
//!
//! They are put together in the order in which they are configured, whatever
//! order they end in: the harshest wish counts, and of arguments and
//! outputs the last.

use std::sync::Arc;

use serde_json::Value;

use super::reply::Reply;
use crate::event::HookDecision;
use crate::message::Output;
use crate::prompt::cut;

/// Most characters of what one hook adds to what a model reads. About 2,000
/// tokens: a page of hints, and all hooks of a moment together are bounded too.
pub const CONTEXT_CAP: usize = 8_000;

/// Most characters of the reasons that one hook gives.
pub const REASON_CAP: usize = 4_000;

/// Most characters of a hook's name: what stands in the log of each run of it.
pub(super) const NAME_CAP: usize = 200;

/// What hooks decide together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wish {
    /// Nothing.
    #[default]
    Nothing,
    /// A person need not be asked.
    Allow,
    /// A person has to be asked, for this reason.
    Ask(Arc<str>),
    /// It must not be, for this reason.
    Deny(Arc<str>),
}

/// What the hooks of one moment want.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effect {
    /// What they decide.
    pub wish: Wish,
    /// Why the unit is to end, if it is.
    pub stop: Option<Arc<str>>,
    /// The arguments that a call is to have instead.
    pub input: Option<Value>,
    /// What the model is to read in place of what the call gave.
    pub output: Option<Output>,
    /// What the model is to read; empty for nothing.
    pub context: String,
}

impl Effect {
    /// Adds what one more hook says.
    pub(super) fn add(&mut self, reply: Reply) {
        let Reply { outcome: _, wish, reason, stop, input, output, context, message: _ } = reply;
        self.wish = std::mem::take(&mut self.wish).and(wish, reason);
        self.stop = joined(self.stop.take(), stop);
        self.input = input.or(self.input.take());
        self.output = output.or(self.output.take());
        if !context.is_empty() {
            let gap = if self.context.is_empty() { "" } else { "\n\n" };
            self.context = bounded(format!("{}{gap}{context}", self.context));
        }
    }
}

impl Wish {
    fn and(self, wish: Option<HookDecision>, reason: Arc<str>) -> Self {
        let other = match wish {
            None => return self,
            Some(HookDecision::Allow) => Self::Allow,
            Some(HookDecision::Ask) => Self::Ask(reason),
            Some(HookDecision::Deny | HookDecision::Stop) => Self::Deny(reason),
        };
        match (self, other) {
            (Self::Deny(one), Self::Deny(other)) => Self::Deny(both(&one, &other)),
            (Self::Deny(reason), _) | (_, Self::Deny(reason)) => Self::Deny(reason),
            (Self::Ask(one), Self::Ask(other)) => Self::Ask(both(&one, &other)),
            (Self::Ask(reason), _) | (_, Self::Ask(reason)) => Self::Ask(reason),
            (Self::Allow, _) | (_, Self::Allow) => Self::Allow,
            (Self::Nothing, Self::Nothing) => Self::Nothing,
        }
    }
}

fn joined(one: Option<Arc<str>>, other: Option<Arc<str>>) -> Option<Arc<str>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(&one, &other)),
        (one, other) => one.or(other),
    }
}

fn both(one: &str, other: &str) -> Arc<str> {
    match (one, other) {
        ("", text) | (text, "") => text.into(),
        (one, other) => clipped(&format!("{one}\n{other}").into(), REASON_CAP),
    }
}

fn bounded(text: String) -> String {
    if text.len() <= CONTEXT_CAP { text } else { cut(&text, CONTEXT_CAP, None) }
}

/// Keeps the first characters of a text and says what is missing.
pub(super) fn clipped(text: &Arc<str>, room: usize) -> Arc<str> {
    if text.len() <= room { Arc::clone(text) } else { cut(text, room, None).into() }
}
