//! `tine sessions`: the list, and what looks after the sessions in it.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::args::{ListFlags, RunFlags, SessionsCommand};
use super::exit::{Exit, Refusal};
use super::session::{cannot_read, finish, id_of, not_found, root};
use super::{runner, start};
use crate::config::{Config, DAY, Environment, Loaded, dirs};
use crate::message::counted;
use crate::report::inert::Form;
use crate::report::{sanitise, session_record, words};
use crate::run;
use crate::session::{self, Expiry, LogError, SessionName, SessionSummary, Words};

/// Most characters of an excerpt in a line below its session.
const EXCERPT_CAP: usize = 120;

/// Lists the sessions, or does what the command says.
pub(super) fn run(
    environment: &Environment,
    flags: &RunFlags,
    command: Option<SessionsCommand>,
    list: &ListFlags,
) -> Result<Exit, Refusal> {
    let Some(command) = command else {
        return show_list(environment, list);
    };
    if *list != ListFlags::default() {
        return Err(Refusal::new(Exit::Usage, "flags of a list stand before another command")
            .hint("put them behind it: `tine sessions list --here`"));
    }
    match command {
        SessionsCommand::List(list) => show_list(environment, &list),
        SessionsCommand::Search { words, list } => search(environment, &words, &list),
        SessionsCommand::Rename { id, name } => rename(environment, &id, &name),
        SessionsCommand::Delete { ids } => delete(environment, &ids),
        SessionsCommand::Prune { older_than, dry_run } => {
            let expiry = expiry(environment, flags, older_than)?;
            prune(&root(environment)?, expiry, dry_run)
        }
    }
}

/// Begins to remove sessions that are too old, on a thread that nobody waits
/// for: what is not done when the process ends is left to a later run.
pub(super) fn age_out(environment: &Environment, max_age: Option<Duration>) {
    let (Some(max_age), Ok(root)) = (max_age, dirs::sessions_root(environment)) else { return };
    let work = move || {
        let expiry = Expiry { now: run::now(), max_age };
        for directory in session::expired(&root, expiry).unwrap_or_default() {
            // The run has other work, and the next one tries again.
            if let Err(error) = session::remove_expired(&directory, expiry) {
                tracing::debug!("an old session stays: {error}");
            }
        }
    };
    // Without a thread to spare, a later run does it.
    let _ = std::thread::Builder::new().name("age-out".to_owned()).spawn(work);
}

fn summaries(environment: &Environment, list: &ListFlags) -> Result<Vec<SessionSummary>, Refusal> {
    let root = root(environment)?;
    let sessions = match list.here {
        true => session::list_project(&root, &start::working_directory(environment)?),
        false => session::list(&root),
    };
    sessions.map_err(|error| cannot_read(&error))
}

fn limit(list: &ListFlags) -> usize {
    list.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

fn show_list(environment: &Environment, list: &ListFlags) -> Result<Exit, Refusal> {
    let sessions = summaries(environment, list)?;
    if sessions.is_empty() {
        super::say(match list.here {
            true => &"no sessions of this directory; `tine sessions` lists those of all",
            false => &"no sessions yet; `tine review` or `tine -p PROMPT` makes one",
        });
        return Ok(Exit::Done);
    }
    let mut out = runner::stdout(false);
    let mut sessions = sessions.iter().take(limit(list));
    let written = sessions.try_for_each(|session| show(session, None, list, &mut out));
    finish(written.and_then(|()| out.flush()))
}

fn search(environment: &Environment, words: &[String], list: &ListFlags) -> Result<Exit, Refusal> {
    let words = Words::new(words).ok_or_else(|| {
        Refusal::new(Exit::BadInput, "there is nothing to look for")
            .hint("name a word: `tine sessions search retry`")
    })?;
    // Each is shown when it is found, which may take a while.
    let mut out = runner::inert(Box::new(io::stdout()), Form::Text);
    let mut found = 0;
    for session in summaries(environment, list)? {
        let Some(excerpt) = session::search(&session, &words) else { continue };
        if let Err(error) = show(&session, Some(&excerpt), list, &mut out) {
            return finish(Err(error));
        }
        found += 1;
        if found == limit(list) {
            break;
        }
    }
    if found == 0 {
        super::say(&"no session holds all of these words");
    }
    Ok(Exit::Done)
}

fn show(
    session: &SessionSummary,
    excerpt: Option<&str>,
    list: &ListFlags,
    out: &mut impl Write,
) -> io::Result<()> {
    if list.json {
        return out.write_all(&session_record(session, excerpt));
    }
    writeln!(out, "{}", line(session))?;
    match excerpt {
        Some(excerpt) => writeln!(out, "    {}", words::short_line(excerpt, EXCERPT_CAP)),
        None => Ok(()),
    }
}

fn line(session: &SessionSummary) -> String {
    let (id, state) = (&session.id, session.state.as_str());
    let started = words::local_time(session.started, TimeZone::system());
    let cwd = sanitise::line(&session.cwd);
    let prompt = sanitise::line(&session.first_prompt);
    let name = session.name.as_ref().map(SessionName::as_str);
    let name = name.map(|name| format!("[{}] ", sanitise::line(name))).unwrap_or_default();
    format!("{id}  {started}  {state:<11}  {cwd}  {name}{prompt}")
}

fn rename(environment: &Environment, id: &str, name: &str) -> Result<Exit, Refusal> {
    let name = match name.trim() {
        "" => None,
        name => Some(parse_name(name)?),
    };
    let directory = session::find(&root(environment)?, id).map_err(|error| not_found(&error))?;
    let renamed = match &name {
        Some(name) => session::write_name(&directory, name),
        None => session::remove_name(&directory),
    };
    renamed.map_err(|error| Refusal::because(Exit::Error, &error))?;
    let id = id_of(&directory);
    super::say(&match name {
        Some(name) => format!("session {id} is named `{name}`"),
        None => format!("session {id} has no name"),
    });
    Ok(Exit::Done)
}

/// Takes a session's name as it was typed.
pub(super) fn parse_name(name: &str) -> Result<SessionName, Refusal> {
    SessionName::parse(name).map_err(|error| Refusal::new(Exit::BadInput, error.to_string()))
}

fn delete(environment: &Environment, ids: &[String]) -> Result<Exit, Refusal> {
    let root = root(environment)?;
    // All are looked up before any goes: what could be one of two must not
    // become the other one.
    let found: Vec<_> = ids.iter().map(|id| session::find(&root, id)).collect();
    let mut seen = BTreeSet::new();
    let mut judge = Judge::default();
    for found in found {
        match found {
            Ok(directory) if !seen.insert(directory.clone()) => {}
            Ok(directory) => judge.take(&directory, session::remove(&directory)),
            Err(error) => judge.refuse(&not_found(&error)),
        }
    }
    Ok(judge.exit.unwrap_or(Exit::Done))
}

/// Says of each session what became of it.
#[derive(Default)]
struct Judge {
    /// Of the first that could not be deleted.
    exit: Option<Exit>,
    deleted: usize,
}

impl Judge {
    fn take(&mut self, directory: &Path, removed: Result<(), LogError>) {
        match removed {
            Ok(()) => {
                self.deleted += 1;
                // Nobody reads: it is deleted all the same.
                let _ = writeln!(io::stdout().lock(), "deleted {}", id_of(directory));
            }
            Err(error) => self.refuse(&cannot_delete(directory, &error)),
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        super::say(refusal);
        self.exit.get_or_insert(refusal.exit);
    }
}

fn cannot_delete(directory: &Path, error: &LogError) -> Refusal {
    match error {
        LogError::Locked { directory: _, holder } => {
            let process = holder.map(|id| format!(", in process {id}")).unwrap_or_default();
            let message = format!("session `{}` is running{process}", id_of(directory));
            Refusal::new(Exit::BadInput, message).hint("end it, and delete it then")
        }
        LogError::Version { .. } | LogError::TooLong { .. } | LogError::Io { .. } => {
            Refusal::because(Exit::Error, error)
        }
    }
}

fn prune(root: &Path, expiry: Expiry, dry_run: bool) -> Result<Exit, Refusal> {
    let expired = session::expired(root, expiry).map_err(|error| cannot_read(&error))?;
    if dry_run {
        let mut sessions = session::list(root).map_err(|error| cannot_read(&error))?;
        sessions.retain(|session| expired.contains(&session.directory));
        super::say(&format!("{} would be deleted", count(sessions.len())));
        let mut out = runner::stdout(false);
        let written = sessions.iter().try_for_each(|session| writeln!(out, "{}", line(session)));
        return finish(written.and_then(|()| out.flush()));
    }
    let mut judge = Judge::default();
    for directory in &expired {
        match session::remove_expired(directory, expiry) {
            // It has been used since it was looked at.
            Ok(false) | Err(LogError::Locked { .. }) => {}
            removed => judge.take(directory, removed.map(drop)),
        }
    }
    super::say(&format!("{} deleted", count(judge.deleted)));
    Ok(judge.exit.unwrap_or(Exit::Done))
}

fn count(sessions: usize) -> String {
    counted(sessions as u64, "session")
}

fn expiry(
    environment: &Environment,
    flags: &RunFlags,
    older_than: Option<u32>,
) -> Result<Expiry, Refusal> {
    let max_age = match older_than {
        Some(days) => Some(DAY * days),
        None => configured_age(environment, flags)?,
    };
    let max_age = max_age.ok_or_else(|| {
        Refusal::new(Exit::Usage, "nothing says how old is too old")
            .hint("say it: `--older-than DAYS`, or `session.max_age_days` in `config.toml`")
    })?;
    Ok(Expiry { now: run::now(), max_age })
}

fn configured_age(
    environment: &Environment,
    flags: &RunFlags,
) -> Result<Option<Duration>, Refusal> {
    let Loaded { config, warnings } = Config::load(environment, None, None, &flags.config)
        .map_err(|error| Refusal::new(Exit::BadConfig, error.to_string()))?;
    warnings.iter().for_each(|warning| super::say(&format!("warning: {warning}")));
    Ok(config.session.max_age)
}
