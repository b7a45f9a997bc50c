//! The words for what a person does to a conversation while it goes on.

use crate::event::{Chosen, FlowHead, Seq, UnitId};
use crate::message::counted;

use super::agents;

/// What is said of a `UserTookBack`.
pub const TOOK_BACK: &str = "what the user wrote and was not read yet is taken back";

/// Returns what is said of units that their parent waits for no more.
#[must_use]
pub fn set_aside(units: &[UnitId]) -> String {
    format!("{} set aside: from here on in the background", agents(units.len() as u64))
}

/// Returns what is said of what main answers with from now on.
#[must_use]
pub fn chosen(Chosen { model, mode }: &Chosen) -> String {
    format!("main answers with {model}, in mode {mode}")
}

/// Returns what is said of a flow that is walked from here on.
#[must_use]
pub fn walked(head: &FlowHead) -> String {
    let steps = counted(head.steps, "step");
    let goes_on = if head.goes_on { "goes on with the flow" } else { "walks the flow" };
    format!("{goes_on} `{}`, {steps}", head.name)
}

/// Returns what is said of a conversation that went back to an event.
#[must_use]
pub fn rewound(to: Seq) -> String {
    format!("the conversation is what it was after event {}", to.0)
}
