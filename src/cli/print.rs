//! `tine -p`: one prompt, one answer.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::slash::Typed;
use super::start::{Kept, Start};
use super::target::{Links, Target};
use super::terminal::QuietControls;
use super::{flow, input, resume, signals, slash, telemetry, undo, usage};
use crate::branch::Branch;
use crate::config::Environment;
use crate::event::{
    Event, EventKind, FailureKind, Invocation, InvocationEnd, Outcome, Seq, SessionId, UnitId,
};
use crate::model::Models;
use crate::report::Json;
use crate::run::{self, Main, Reporter, RunEnd, Signal};

/// How long work on other threads may go on after the result is out.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_millis(50);

/// Most threads for work that blocks: files and searches. A turn may ask for a
/// hundred reads at once; the disk gains nothing from a hundred threads.
const BLOCKING_THREADS: usize = 16;

/// What the names of the threads begin with that units run on.
pub(super) const UNIT_THREADS: &str = "units";

/// What a run begins with.
pub(super) struct Begin {
    /// What the user has typed for it.
    pub(super) typed: String,
    /// What main does.
    pub(super) main: Main,
    /// Who is shown it, instead of people and programs as the flags say. Then
    /// nobody can be asked.
    pub(super) shown: Option<Box<dyn Reporter>>,
}

impl From<(String, Main)> for Begin {
    fn from((typed, main): (String, Main)) -> Self {
        Self { typed, main, shown: None }
    }
}

/// Runs what was typed or piped in.
pub(super) fn run(
    environment: &Environment,
    flags: RunFlags,
    typed: Option<String>,
) -> Result<Exit, Refusal> {
    resume::check(&flags)?;
    let prompt = match resume::is_wanted(&flags) {
        true => input::prompt_if_any(typed)?,
        false => Some(input::prompt(typed)?),
    };
    let Some(prompt) = prompt else { return resume::look(environment, &flags) };
    if slash::asks_for_usage(&prompt) {
        return usage::of_flags(environment, &flags);
    }
    if let Some(asked) = undo::asked(&prompt) {
        return undo::of_flags(environment, &flags, &asked?);
    }
    run_prompt(environment, flags, prompt, DefaultModel::None)
}

/// Runs a prompt. A refusal means that nothing was begun; what goes wrong
/// later is said here.
pub(super) fn run_prompt(
    environment: &Environment,
    flags: RunFlags,
    prompt: String,
    default_model: DefaultModel,
) -> Result<Exit, Refusal> {
    run_main(environment, flags, default_model, move |start| {
        let main = start.kit.meaning(&prompt, Typed::Line)?;
        Ok((prompt, main).into())
    })
}

/// Runs what `make` says once everything else is there.
pub(super) fn run_main(
    environment: &Environment,
    flags: RunFlags,
    default_model: DefaultModel,
    make: impl FnOnce(&mut Start) -> Result<Begin, Refusal> + Send + 'static,
) -> Result<Exit, Refusal> {
    let start = Start::new(environment, flags, default_model)?;
    let runtime = runtime()?;
    let last_message = start.kit.flags.output_last_message.as_deref();
    let links = Links::OfUser(&start.kit.git);
    let last_message = last_message.map(|path| Target::new(path, links)).transpose()?;
    let session = start.kit.is_kept.then(|| again(&start.kit.flags, &start.kit.session));
    let Kept { models, servers, pool: _, exporter } = start.kit.goes_on();
    let quiet = start.is_live().then(QuietControls::new).flatten();
    let finished = runtime.block_on(async {
        let signals = signals::listen_while_read().map_err(|error| {
            Refusal::new(Exit::Error, format!("cannot listen to signals: {error}"))
        })?;
        go(start, make, signals).await
    });
    runtime.block_on(servers.close());
    let exit = finished.as_ref().ok().map(|(run, ..)| Exit::of(&run.end));
    runtime.block_on(telemetry::close(exporter.as_ref(), exit));
    drop(quiet);
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    let (finished, scratch, is_flow) = finished?;
    say_remarks(&models);
    // Only now: until here some unit may still have been writing there.
    drop(scratch);
    let exit = wind_up(&finished, keep_last(&finished.end, last_message));
    if let Some(command) = session.filter(|_| is_flow && exit.is_by_signal()) {
        super::say(&format!("hint: {command} goes on"));
    }
    Ok(exit)
}

/// Says with which command a flow goes on that was begun with these flags.
fn again(flags: &RunFlags, session: &SessionId) -> String {
    if resume::is_wanted(flags) && !flags.fork_session {
        return "the same command".to_owned();
    }
    let instead =
        [("--session-id", flags.session_id.is_some()), ("--fork-session", flags.fork_session)];
    match instead.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => {
            format!("the same command with `--resume {session}` in the place of `{flag}`")
        }
        None => format!("the same command with `--resume {session}`"),
    }
}

/// Starts the threads that units run on.
pub(super) fn runtime() -> Result<Runtime, Refusal> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name(UNIT_THREADS)
        .enable_all()
        .build()
        .map_err(|error| Refusal::new(Exit::Error, format!("cannot start threads: {error}")))?;
    let _inside = runtime.enter();
    signals::survive_file_limit();
    Ok(runtime)
}

/// Finds out what is to be done, which may take its time, and runs it. The last of
/// what it returns tells whether that was a flow of which nobody else says how it
/// goes on.
async fn go(
    mut start: Start,
    make: impl FnOnce(&mut Start) -> Result<Begin, Refusal> + Send + 'static,
    mut signals: mpsc::Receiver<Signal>,
) -> Result<(RunEnd, Option<TempDir>, bool), Refusal> {
    let making = tokio::task::spawn_blocking(move || make(&mut start).map(|made| (start, made)));
    let (start, Begin { typed, main, shown }) = tokio::select! {
        made = making => made.expect("what is to be done is put together without panics")?,
        signal = signals.recv() => {
            let signal = signal.expect("signals are listened to until the end");
            return Err(Refusal::new(Exit::after(signal), "stopped before it began"));
        }
    };
    let is_flow = matches!((&main, &shown), (Main::Flow { .. }, None));
    if is_flow {
        flow::check_bounds(&start.kit.flags)?;
    }
    let (run, scratch) = match shown {
        None => start.run(&typed, main, signals),
        Some(shown) => start.run_for(&typed, main, shown, signals),
    }?;
    Ok((run.go().await, scratch, is_flow))
}

/// Says what is odd about a recording that was made or played.
pub(super) fn say_remarks(models: &Models) {
    for remark in models.exchanges().remarks() {
        super::say(&format!("warning: {remark}"));
    }
}

/// Writes down the last message, if that is wanted, and returns how an
/// invocation ends the process.
pub(super) fn keep_last(end: &InvocationEnd, last_message: Option<Target>) -> Exit {
    let exit = Exit::of(end);
    let Some(target) = last_message else { return exit };
    let text = match &end.outcome {
        Outcome::Done { text } => text,
        Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => &end.text,
    };
    let what = format!("`{}`", target.path().display());
    match target.write(text.as_bytes()) {
        Ok(()) => exit,
        Err(error) => unwritten(exit, &what, &error),
    }
}

/// Says what went wrong at the end of a run whose last invocation ends the
/// process like this, and returns how the process ends.
pub(super) fn wind_up(finished: &RunEnd, exit: Exit) -> Exit {
    for trouble in &finished.trouble {
        super::say(&format!("warning: {trouble}"));
    }
    match (&finished.output_error, finished.signal) {
        (None, _) => exit,
        // Some of the output may not have arrived.
        (Some(error), _) if error.kind() == io::ErrorKind::BrokenPipe => {
            if exit == Exit::Done {
                Exit::OutputGone
            } else {
                exit
            }
        }
        // Told to end while nobody was reading.
        (Some(error), Some(signal)) if error.kind() == io::ErrorKind::TimedOut => {
            Exit::after(signal)
        }
        (Some(error), _) => unwritten(exit, "the output", error),
    }
}

fn unwritten(exit: Exit, what: &str, error: &io::Error) -> Exit {
    super::say(&format!("error: cannot write {what}: {error}"));
    // The output cannot be written, though its reader may still be there.
    if matches!(exit, Exit::Done | Exit::OutputGone) { Exit::Error } else { exit }
}

/// Opens a file to be written anew. What is open already, and only named by its
/// number, belongs to whoever has opened it: it goes on behind what is there.
pub(super) fn open(path: &Path) -> io::Result<File> {
    match is_open(path) {
        true => File::options().append(true).open(path),
        false => File::create(path),
    }
}

/// Most links that lead from one name to the next. The kernel follows forty; those
/// to what is open are two or three.
const LINKS_CAP: usize = 8;

/// Tells whether a path names what is open already, by its number: also as
/// `/dev/stdout` does, which is a link to that.
pub(super) fn is_open(path: &Path) -> bool {
    let is_number = |path: &Path| {
        let is_of_process = || path.parent().is_some_and(|parent| parent.ends_with("fd"));
        path.starts_with("/dev/fd") || (path.starts_with("/proc") && is_of_process())
    };
    let mut at = path.to_owned();
    for _ in 0..LINKS_CAP {
        if is_number(&at) {
            return true;
        }
        let Ok(next) = at.read_link() else { return false };
        at = at.parent().unwrap_or(Path::new("/")).join(next);
    }
    false
}

/// Opens a file as [`create`] does. Only the user can read a new one.
pub(super) fn create_private(path: &Path) -> Result<(PathBuf, File), Refusal> {
    let open = || match is_open(path) {
        true => open(path),
        false => File::options().write(true).create(true).truncate(true).mode(0o600).open(path),
    };
    match open() {
        Ok(file) => Ok((path.to_owned(), file)),
        Err(error) => Err(Refusal::cannot_write(Exit::BadInput, path, &error)),
    }
}

pub(super) fn create(path: &Path) -> Result<(PathBuf, File), Refusal> {
    match open(path) {
        Ok(file) => Ok((path.to_owned(), file)),
        Err(error) => Err(Refusal::cannot_write(Exit::BadInput, path, &error)),
    }
}

/// Prints the result of a run that could not begin, or of a message that was not
/// answered, by what its client calls it.
pub(super) fn show_refusal(
    refusal: &Refusal,
    session: Option<Uuid>,
    message: Option<&str>,
    outputs: Vec<Box<dyn Write + Send>>,
) {
    let end = InvocationEnd {
        outcome: Outcome::failed(FailureKind::Setup, refusal.message.as_str()),
        text: Arc::default(),
        cancel: None,
        unfinished: Vec::new(),
    };
    let at = run::now();
    let event = |kind| Event {
        seq: Seq(1),
        at,
        invocation: Invocation(1),
        unit: UnitId::MAIN,
        branch: Branch::root(),
        kind,
    };
    let started =
        EventKind::InvocationStarted { prompt: Arc::default(), message: message.map(Into::into) };
    let events = [event(started), event(EventKind::InvocationEnded(Arc::new(end)))];
    let session = session.unwrap_or_else(Uuid::new_v4);
    let session = SessionId(session.hyphenated().to_string().into());
    for output in outputs {
        let mut json = Json::new(output, session.clone(), Arc::new(|_| None));
        for event in &events {
            // Nobody reads: the refusal is on standard error, too.
            let _ = json.event(event);
        }
    }
}
