//! `tine sessions` and `tine session show`: what happened before.

use std::io::{self, BufRead as _, BufReader, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use super::args::{SessionCommand, ShowFormat};
use super::exit::{Exit, Refusal};
use super::start;
use crate::config::{Environment, dirs};
use crate::event::UnixMillis;
use crate::report::{sanitise, transcript};
use crate::session::{self, Entry, FindError, LogError, SessionState, SessionSummary};

/// Lists all sessions, newest first.
pub(super) fn list(environment: &Environment) -> Result<Exit, Refusal> {
    let sessions = session::list(&root(environment)?).map_err(|error| cannot_read(&error))?;
    if sessions.is_empty() {
        super::say(&"no sessions yet; `tine review` or `tine -p PROMPT` makes one");
        return Ok(Exit::Done);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written = sessions.iter().try_for_each(|session| writeln!(out, "{}", line(session)));
    finish(written.and_then(|()| out.flush()))
}

/// Does what is asked with one session.
pub(super) fn look(environment: &Environment, command: &SessionCommand) -> Result<Exit, Refusal> {
    let SessionCommand::Show { id, format } = command;
    let directory = session::find(&root(environment)?, id).map_err(|error| not_found(&error))?;
    match format {
        ShowFormat::Text => show_text(&directory),
        ShowFormat::Jsonl => show_lines(&directory),
    }
}

fn show_text(directory: &Path) -> Result<Exit, Refusal> {
    let entries = session::read(directory).map_err(|error| cannot_read(&error))?;
    let mut bad = Vec::new();
    let events = entries.filter_map(|entry| match entry {
        Entry::Event(event) => Some(event),
        Entry::Unknown { .. } => None,
        Entry::Bad { line, why } => {
            bad.push(format!("warning: line {line} of the log cannot be read: {why}"));
            None
        }
    });
    let mut out = BufWriter::new(io::stdout().lock());
    let written =
        transcript(events, &crate::report::Viewer::Anyone, crate::report::Writer::Gone, &mut out)
            .and_then(|()| out.flush());
    bad.iter().for_each(super::say);
    finish(written)
}

fn show_lines(directory: &Path) -> Result<Exit, Refusal> {
    let path = directory.join("log.jsonl");
    let mut log = std::fs::File::open(&path).map_err(|error| {
        Refusal::new(Exit::Error, format!("cannot read `{}`: {error}", path.display()))
    })?;
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        return finish(io::copy(&mut log, &mut out).map(drop));
    }
    let written = BufReader::new(log)
        .split(b'\n')
        .try_for_each(|line| writeln!(out, "{}", sanitise::json(&String::from_utf8_lossy(&line?))));
    finish(written)
}

/// A reader that has seen enough is no error.
pub(super) fn finish(written: io::Result<()>) -> Result<Exit, Refusal> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Refusal::new(Exit::Error, format!("cannot write the output: {error}")))
        }
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

fn line(session: &SessionSummary) -> String {
    let state = match session.state {
        SessionState::Running => "running",
        SessionState::Ended => "ended",
        SessionState::Interrupted => "interrupted",
    };
    let started = local_time(session.started);
    let prompt = sanitise::line(&session.first_prompt);
    let cwd = sanitise::line(&session.cwd);
    format!("{}  {started}  {state:<11}  {cwd}  {prompt}", session.id)
}

/// The day and the time of a place on the user's own clock.
fn local_time(at: UnixMillis) -> String {
    let at = i64::try_from(at.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(String::new, |at| {
        at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
    })
}

fn root(environment: &Environment) -> Result<PathBuf, Refusal> {
    dirs::sessions_root(environment).map_err(|_| start::no_home())
}

fn not_found(error: &FindError) -> Refusal {
    Refusal::new(Exit::BadInput, error.to_string())
}

fn cannot_read(error: &LogError) -> Refusal {
    Refusal::because(Exit::Error, error)
}
