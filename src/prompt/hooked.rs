//! What hooks of the user's add to what a model reads.

use super::{fill, unused_tag};
use crate::event::HookEvent;

/// Returns what hooks say at a moment, in a frame that tells it from all else.
#[must_use]
pub fn hook(event: HookEvent, text: &str) -> String {
    let tag = unused_tag("hook", &[text]);
    let values = [("tag", &*tag), ("event", event.as_str()), ("text", text)];
    fill(include_str!("../../prompts/hook.md").trim_end(), &values)
}

/// Returns a message with what hooks add to it; without a text it stays as it
/// is.
#[must_use]
pub fn with_hook(message: &str, event: HookEvent, text: &str) -> String {
    if text.is_empty() { message.to_owned() } else { format!("{message}\n\n{}", hook(event, text)) }
}

/// Returns what a unit is told that hooks keep from ending.
#[must_use]
pub fn held(event: HookEvent, reason: &str) -> String {
    let template = include_str!("../../prompts/hook_held.md").trim_end();
    fill(template, &[("hook", &hook(event, reason))])
}
