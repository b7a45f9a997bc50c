//! How the end of a unit is told to whoever started it.

use super::fill;
use super::marks::escape_marks;
use crate::event::{Outcome, UnitEnd};
use crate::message::StopReason;

/// Returns what a unit has to say at its end, in about `room` characters: its
/// answer, or its state, its real error and what it had written by then.
///
/// What does not fit is cut, and the file that holds the whole is named:
/// `partial` for what a unit had written that ended badly. What imitates a mark of the
/// program is escaped.
#[must_use]
pub fn ending(end: &UnitEnd, room: usize, partial: Option<&str>) -> String {
    let (state, error) = match &end.outcome {
        Outcome::Done { text } if text.trim().is_empty() => {
            return "[completed without a text]".to_owned();
        }
        Outcome::Done { text } => return cut_escaped(text, room, end.output_file.as_deref()),
        Outcome::Failed(failure) => ("failed", cut_escaped(&failure.message, room / 2, None)),
        Outcome::Cancelled { ran: true } => ("cancelled", "stopped while it ran".to_owned()),
        Outcome::Cancelled { ran: false } => return "[never started: cancelled]".to_owned(),
        Outcome::Interrupted => ("interrupted", "the process ended while it ran".to_owned()),
    };
    match end.text.trim() {
        "" => format!("[{state}: {error}]"),
        written => {
            let written = cut_escaped(written, room / 2, partial);
            format!("[{state}: {error}]\n\nPartial result:\n\n{written}")
        }
    }
}

/// Marks a summary with a note if it stops at the model's output limit.
#[must_use]
pub fn mark_summary(summary: String, stop: StopReason) -> String {
    match stop {
        StopReason::MaxTokens => {
            let template = include_str!("../../prompts/summary_cut_off.md").trim_end();
            fill(template, &[("summary", summary.trim_end())])
        }
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Refusal => summary,
    }
}

/// Keeps the first `room` characters and says what is missing.
#[must_use]
pub fn cut(text: &str, room: usize, file: Option<&str>) -> String {
    let (head, note) = head(text, room, file);
    format!("{head}{note}")
}

/// Keeps the first `room` characters of what an agent wrote, without marks of the
/// program, and says what is missing.
#[must_use]
pub fn cut_escaped(text: &str, room: usize, file: Option<&str>) -> String {
    let (head, note) = head(text, room, file);
    format!("{}{note}", escape_marks(head))
}

/// Returns the first `room` characters, and a note on what is missing.
fn head<'a>(text: &'a str, room: usize, file: Option<&str>) -> (&'a str, String) {
    let Some((end, _)) = text.char_indices().nth(room) else { return (text, String::new()) };
    let missing = text.len() - end;
    let note = match file {
        Some(file) => format!("\n[{missing} more bytes; the whole text is in {file}]"),
        None => format!("\n[{missing} more bytes are left out]"),
    };
    (&text[..end], note)
}
