//! Whether a runner of GitHub reads what is printed, which obeys some lines.
//!
//! What files, models and providers wrote is in it: so lists, reports and records, and
//! all that is said on standard error, go by here. An answer goes out byte for byte.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::report::inert::{self, Form, Inert};

/// There is one for the process, as there is one standard output.
static READS: AtomicBool = AtomicBool::new(false);

/// Takes note of whether one reads.
pub(super) fn reads(whether: bool) {
    READS.store(whether, Ordering::Relaxed);
}

/// Tells whether one reads.
pub(super) fn is_reading() -> bool {
    READS.load(Ordering::Relaxed)
}

/// Returns output of which a runner obeys nothing, if one reads it.
pub(super) fn inert(output: Box<dyn Write + Send>, form: Form) -> Box<dyn Write + Send> {
    if is_reading() { Box::new(Inert::new(output, form)) } else { output }
}

/// Returns text of which a runner obeys nothing, if one reads it.
pub(super) fn inert_text(text: String) -> String {
    if is_reading() { inert::text(&text) } else { text }
}

/// Returns standard output for lists and reports.
pub(super) fn stdout(is_json: bool) -> Box<dyn Write + Send> {
    let form = if is_json { Form::Json } else { Form::Text };
    inert(Box::new(io::BufWriter::new(io::stdout())), form)
}
