//! `tine trace`: a session as a page, as a file for Perfetto, as JSON.

mod follow;
mod request;

use std::fs;
use std::path::{Path, PathBuf};

use super::args::{Output, TraceFlags, TraceFormat};
use super::exit::{Exit, Refusal};
use super::session::{self, Skipped, id_of, print_out};
use super::target::{self, Links, Target};
use super::{print, start};
use crate::config::Environment;
use crate::report::trace::{MARK, Reach, Trace, TraceFacts};
use crate::run;
use crate::session::{SessionName, SessionState, SessionSummary, is_running, list_project};

/// Where a page goes that nobody has named.
const PAGE: &str = "trace.html";

/// How far into a file its mark is looked for.
const MARK_WITHIN: u64 = 256;

/// Does what is asked with a session's trace.
pub(super) fn run(environment: &Environment, flags: TraceFlags) -> Result<Exit, Refusal> {
    let TraceFlags { id, output, format, follow } = flags;
    let output = match output {
        Some(Output::File(path)) => Some(path),
        Some(Output::Format(_)) | None => None,
    };
    if follow && (output.is_some() || format != TraceFormat::Html) {
        return Err(Refusal::new(Exit::Usage, "`--follow` serves a page and writes no file")
            .hint("leave `--output` and `--format` out, or write the trace later"));
    }
    let root = session::root(environment)?;
    let directory = match &id {
        Some(id) => crate::session::find(&root, id).map_err(|error| session::not_found(&error))?,
        None => latest(&root, &start::working_directory(environment)?, follow)?,
    };
    if follow {
        return follow::run(&directory);
    }
    let (trace, facts) = read(&directory)?;
    let bytes = match format {
        TraceFormat::Html => trace.page(&facts, Reach::Nothing),
        TraceFormat::Perfetto => trace.perfetto(&facts),
        TraceFormat::Json => trace.json(&facts),
    };
    let is_named = output.is_some();
    let path = output.or_else(|| (format == TraceFormat::Html).then(|| PathBuf::from(PAGE)));
    match path.filter(|path| path.as_os_str() != "-") {
        // Whatever of the session is in a page is JSON.
        None => print_out(&bytes, true),
        Some(path) => {
            let git = start::git_here(environment);
            write_to(&path, &bytes, if is_named { Links::OfUser(&git) } else { Links::Inside })?;
            let id = id_of(&directory);
            super::say(&format!("the trace of session {id} is in `{}`", path.display()));
            Ok(Exit::Done)
        }
    }
}

/// Returns the session of a directory in which something happened last; with
/// `follow`, of those that run.
fn latest(root: &Path, cwd: &Path, follow: bool) -> Result<PathBuf, Refusal> {
    let all = list_project(root, cwd).map_err(|error| session::cannot_read(&error))?;
    let fits = |session: &SessionSummary| !follow || session.state == SessionState::Running;
    let activity = |session: &SessionSummary| session.last_activity.max(session.started);
    let latest = all.into_iter().filter(fits).max_by_key(activity);
    latest.map(|session| session.directory).ok_or_else(|| {
        let sort = if follow { "no session runs in" } else { "there is no session of" };
        Refusal::new(Exit::BadInput, format!("{sort} {}", cwd.display()))
            .hint("`tine sessions` lists all of them; `tine trace ID` takes any")
    })
}

/// Reads a session to its end.
fn read(directory: &Path) -> Result<(Trace, TraceFacts), Refusal> {
    let mut skipped = Skipped::default();
    let mut trace = Trace::default();
    // Before the log: a run that ends meanwhile is one that goes on.
    let is_running = is_running(directory);
    let entries = crate::session::read(directory).map_err(|error| session::cannot_read(&error))?;
    skipped.events(entries).for_each(|event| trace.take(&event));
    skipped.say();
    let facts = TraceFacts {
        now: is_running.then(run::now),
        bad_lines: skipped.bad_lines(),
        unknown_events: skipped.unknown_events(),
        ..facts(directory)
    };
    Ok((trace, facts))
}

/// Returns what is known of a session beside its log.
fn facts(directory: &Path) -> TraceFacts {
    let name = crate::session::read_name(directory);
    TraceFacts {
        session: id_of(directory).into(),
        name: name.as_ref().map(SessionName::as_str).map(Into::into),
        ..TraceFacts::default()
    }
}

/// Writes a file that only the user can read, all of it or none. A trace that is
/// there is replaced, and nothing else.
fn write_to(path: &Path, bytes: &[u8], links: Links<'_>) -> Result<(), Refusal> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let message = format!("`{}` is a directory", path.display());
            return Err(Refusal::new(Exit::BadInput, message).hint("name a file in it"));
        }
        Ok(found)
            if found.is_file() && found.len() > 0 && !print::is_open(path) && !is_trace(path) =>
        {
            let message = format!("`{}` is there already, and is no trace", path.display());
            return Err(Refusal::new(Exit::BadInput, message)
                .hint("name another file with `--output`, or remove that one first"));
        }
        Ok(_) | Err(_) => {}
    }
    let written = Target::private(path, links)?.write(bytes);
    written.map_err(|error| Refusal::cannot_write(Exit::BadInput, path, &error))
}

/// Tells whether a file is a trace of tine's. One that cannot be read is none.
fn is_trace(path: &Path) -> bool {
    target::head(path, MARK_WITHIN)
        .is_ok_and(|head| head.windows(MARK.len()).any(|window| window == MARK.as_bytes()))
}
