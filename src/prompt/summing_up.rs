//! The words around summaries, and around what is too long to be summed up.

use std::path::Path;

use super::{fill, unused_tag};

/// Returns the message that asks for a summary of the conversation before it,
/// with the user's hint if there is one.
#[must_use]
pub fn compact(hint: Option<&str>) -> String {
    let mut text = include_str!("../../prompts/compact.md").trim_end().to_owned();
    if let Some(hint) = hint.map(str::trim).filter(|hint| !hint.is_empty()) {
        let asked = include_str!("../../prompts/compact_hint.md").trim_end();
        text.push_str("\n\n");
        text.push_str(&asked.replace("{hint}", hint));
    }
    text
}

/// Returns the placeholder for an output of `bytes` bytes that the request for a
/// summary leaves out.
#[must_use]
pub fn output_left_out(bytes: usize) -> String {
    include_str!("../../prompts/output_left_out.md")
        .trim_end()
        .replace("{bytes}", &bytes.to_string())
}

/// Returns the start of a user message of which `bytes` more are left out.
#[must_use]
pub fn prompt_left_out(start: &str, bytes: usize) -> String {
    let note = include_str!("../../prompts/prompt_left_out.md").trim_end();
    format!("{start}\n\n{}", note.replace("{bytes}", &bytes.to_string()))
}

/// Returns what replaces the summary of a conversation without an answer.
#[must_use]
pub fn nothing_answered() -> &'static str {
    include_str!("../../prompts/nothing_answered.md").trim_end()
}

/// Returns the note for the model about an earlier message that did not fit.
#[must_use]
pub fn set_aside_as_too_long(message: &str) -> String {
    include_str!("../../prompts/set_aside_as_too_long.md").trim_end().replace("{message}", message)
}

/// Returns the note for the model about a message that a server may have refused;
/// `file` holds it.
#[must_use]
pub fn set_aside_as_refused(file: Option<&Path>) -> String {
    let file = file.map(|file| format!(" Its text is in {}.", file.display())).unwrap_or_default();
    include_str!("../../prompts/set_aside_as_refused.md").trim_end().replace("{file}", &file)
}

/// Returns the message that stands for a conversation which was summed up.
/// `environment` is what [`environment`](super::environment) returned; `request` is what is being
/// worked on, if that is not in a message of its own.
#[must_use]
pub fn compacted(environment: &str, summary: &str, request: Option<&str>) -> String {
    let request = request.map(|request| {
        let tag = unused_tag("request", &[request]);
        let frame = include_str!("../../prompts/compacted_request.md").trim_end();
        fill(frame, &[("tag", &tag), ("request", request)])
    });
    // Part by part, not replaced: each may hold any text, another's place too.
    let mut text = String::new();
    for part in include_str!("../../prompts/compacted.md").trim_end().split_inclusive("\n\n") {
        match part.trim_end() {
            "{environment}" if environment.is_empty() => {}
            "{environment}" => text.extend([environment, "\n\n"]),
            "{request}" => text.extend(request.iter().flat_map(|request| [&**request, "\n\n"])),
            framed if framed.contains("{summary}") => {
                let tag = unused_tag("summary", &[summary]);
                text.push_str(&fill(part, &[("tag", &tag), ("summary", summary.trim())]));
            }
            _ => text.push_str(part),
        }
    }
    text
}
