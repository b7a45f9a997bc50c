//! `/usage` and `tine session usage`: what a session has used. No model is
//! asked for it and nothing is written to the session.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::args::{Format, RunFlags};
use super::exit::{Exit, Refusal};
use super::session::{self, Skipped, print_out};
use super::{print, resume, slash, start};
use crate::config::Environment;
use crate::report::SessionUsage;
use crate::session::read;

/// Prints what the session used that the flags mean.
pub(super) fn of_flags(environment: &Environment, flags: &RunFlags) -> Result<Exit, Refusal> {
    if !resume::is_wanted(flags) {
        return Err(slash::needs_a_session());
    }
    let root = session::root(environment)?;
    let (usage, skipped) =
        of(&resume::wanted(&root, flags, &start::working_directory(environment)?)?)?;
    skipped.say();
    let files = [&flags.records_file(), &flags.output_last_message].map(|path| {
        let path = path.as_deref()?;
        Some(print::create(path).map(|(_, file)| file))
    });
    let [records, message] = files.map(Option::transpose);
    let result = usage.result(None);
    let text = lines(&usage);
    write_to(records?, &result)?;
    write_to(message?, text.as_bytes())?;
    match flags.output_format() {
        Format::Text => print_out(text.as_bytes(), false),
        Format::Json | Format::StreamJson => print_out(&result, true),
    }
}

/// Prints what the session in `directory` used.
pub(super) fn of_session(directory: &Path, as_json: bool) -> Result<Exit, Refusal> {
    let (usage, skipped) = of(directory)?;
    skipped.say();
    match as_json {
        true => print_out(&usage.record(), true),
        false => print_out(lines(&usage).as_bytes(), false),
    }
}

/// Returns what the session in `directory` has used so far, and what of its log
/// could not be read. A run may be writing it.
pub(super) fn of(directory: &Path) -> Result<(SessionUsage, Skipped), Refusal> {
    let mut usage = SessionUsage::default();
    let mut skipped = Skipped::default();
    let entries = read(directory).map_err(|error| session::cannot_read(&error))?;
    skipped.events(entries).for_each(|event| usage.take(&event));
    Ok((usage, skipped))
}

fn lines(usage: &SessionUsage) -> String {
    usage.lines().into_iter().map(|line| line + "\n").collect()
}

fn write_to(file: Option<File>, bytes: &[u8]) -> Result<(), Refusal> {
    let written = file.map_or(Ok(()), |mut file| file.write_all(bytes));
    written.map_err(|error| Refusal::new(Exit::Error, format!("cannot write the output: {error}")))
}
