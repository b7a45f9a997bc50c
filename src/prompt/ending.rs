//! How the end of a unit is told to whoever started it.

use crate::event::{Outcome, UnitEnd};

/// Returns what a unit has to say at its end, in about `room` characters: its
/// answer, or its state, its real error and what it had written by then.
///
/// What does not fit is cut, and the file that holds the whole is named:
/// `partial` for what a unit had written that ended badly.
#[must_use]
pub fn ending(end: &UnitEnd, room: usize, partial: Option<&str>) -> String {
    let (state, error) = match &end.outcome {
        Outcome::Done { text } if text.trim().is_empty() => {
            return "[completed without a text]".to_owned();
        }
        Outcome::Done { text } => return cut(text, room, end.output_file.as_deref()),
        Outcome::Failed(failure) => ("failed", cut(&failure.message, room / 2, None)),
        Outcome::Cancelled { ran: true } => ("cancelled", "stopped while it ran".to_owned()),
        Outcome::Cancelled { ran: false } => return "[never started: cancelled]".to_owned(),
        Outcome::Interrupted => ("interrupted", "the process ended while it ran".to_owned()),
    };
    match end.text.trim() {
        "" => format!("[{state}: {error}]"),
        written => {
            let written = cut(written, room / 2, partial);
            format!("[{state}: {error}]\n\nPartial result:\n\n{written}")
        }
    }
}

/// Keeps the first `room` characters and says what is missing.
#[must_use]
pub fn cut(text: &str, room: usize, file: Option<&str>) -> String {
    let Some((end, _)) = text.char_indices().nth(room) else {
        return text.to_owned();
    };
    let missing = text.len() - end;
    match file {
        Some(file) => {
            format!("{}\n[{missing} more bytes; the whole text is in {file}]", &text[..end])
        }
        None => format!("{}\n[{missing} more bytes are left out]", &text[..end]),
    }
}
