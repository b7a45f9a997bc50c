//! A call and what came of it, in one row.

use crate::message::{Output, counted};
use crate::report::ink::Ink;
use crate::report::row::Row;
use crate::report::words;

/// Most characters of the first line of what went wrong.
const ERROR_CAP: usize = 160;

/// Shortest time of a call that is told, in milliseconds.
const LONG: u64 = 1_000;

/// What came of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallEnd<'a> {
    /// What the model reads.
    pub output: &'a Output,
    /// How long it ran, in milliseconds.
    pub took_ms: u64,
}

/// Returns a call, and what came of it once that is known.
#[must_use]
pub fn call_row(tool: &str, subject: &str, end: Option<CallEnd<'_>>) -> Row {
    let row = Row::new().text(Ink::Function, &words::call(tool, ""));
    let subject = words::short_line(subject.trim(), ERROR_CAP);
    let row = if subject.is_empty() { row } else { row.text(Ink::Plain, &format!(" {subject}")) };
    let Some(CallEnd { output, took_ms }) = end else { return row };
    let mut row = row.text(Ink::Plain, "  ");
    if output.is_error {
        let first = output.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let first = words::short_line(first.trim(), ERROR_CAP);
        row = row.text(Ink::Bad, "failed").text(Ink::Dim, &format!(": {first}"));
    } else if output.images.is_empty() {
        let lines = u32::try_from(output.text.lines().count()).unwrap_or(u32::MAX);
        row = row.text(Ink::Dim, &counted(lines, "line"));
    } else {
        row = row.text(Ink::Dim, &words::images(&output.images));
    }
    match took_ms {
        0..LONG => row,
        LONG.. => row.text(Ink::Dim, &format!("  {}", words::duration(took_ms))),
    }
}
