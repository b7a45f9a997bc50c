//! `tine -p`: one prompt, one answer.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::model::DefaultModel;
use super::start::{Outside, Start};
use super::terminal::QuietControls;
use super::{input, resume, signals, slash, undo, usage};
use crate::agent::Opening;
use crate::branch::Branch;
use crate::config::Environment;
use crate::event::{
    Event, EventKind, FailureKind, Invocation, InvocationEnd, Outcome, Seq, SessionId, UnitId,
};
use crate::git;
use crate::model::{Models, offline};
use crate::report::Json;
use crate::run::{self, Reporter as _, RunEnd};
use crate::skill::{SkillError, Skills};

/// How long work on other threads may go on after the result is out.
pub(super) const SHUTDOWN_GRACE: Duration = Duration::from_millis(50);

/// Most threads for work that blocks: files and searches. A turn may ask for a
/// hundred reads at once; the disk gains nothing from a hundred threads.
const BLOCKING_THREADS: usize = 16;

/// What the names of the threads begin with that units run on.
pub(super) const UNIT_THREADS: &str = "units";

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
    let start = Start::new(environment, flags, default_model)?;
    let runtime = runtime()?;
    let last_message = start.flags.output_last_message.as_deref().map(create).transpose()?;
    let models = Arc::clone(&start.models);
    let quiet = start.is_live().then(QuietControls::new).flatten();
    let finished = runtime.block_on(async {
        let signals = signals::listen().map_err(|error| {
            Refusal::new(Exit::Error, format!("cannot listen to signals: {error}"))
        })?;
        go(start, prompt, Outside { signals, client: None }).await
    });
    drop(quiet);
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    let (finished, scratch) = finished?;
    say_remarks(&models);
    // Only now: until here some unit may still have been writing there.
    drop(scratch);
    Ok(wind_up(&finished, last_message))
}

/// Starts the threads that units run on.
pub(super) fn runtime() -> Result<Runtime, Refusal> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name(UNIT_THREADS)
        .enable_all()
        .build()
        .map_err(|error| Refusal::new(Exit::Error, format!("cannot start threads: {error}")))
}

/// Makes the prompt whole, and runs it.
pub(super) async fn go(
    start: Start,
    prompt: String,
    mut outside: Outside,
) -> Result<(RunEnd, Option<TempDir>), Refusal> {
    // A skill that is given a change runs git, which may take its time.
    let (typed, skills) = (prompt.clone(), Arc::clone(&start.skills));
    let (spill, root, git) = (start.spill().to_owned(), start.root.clone(), start.git.clone());
    let expanding =
        tokio::task::spawn_blocking(move || expand(&typed, &skills, &spill, (&git, &root)));
    let meant = tokio::select! {
        meant = expanding => meant.expect("a skill's text is put together without panics")?,
        signal = outside.signals.recv() => {
            let signal = signal.expect("signals are listened to until the end");
            return Err(Refusal::new(Exit::after(signal), "stopped before it began"));
        }
    };
    if let Meant::Skill { name, text } = &meant
        && start.is_offline()
        && name == "review"
        && !text.contains(offline::REVIEWERS)
    {
        return Err(Refusal::new(
            Exit::BadInput,
            "the offline rules cannot follow this project's own `review` skill",
        )
        .hint("choose a model with `-m MODEL`; `tine doctor` says how to get one"));
    }
    let opening = match meant {
        Meant::Typed => Opening::Prompt(prompt.as_str().into()),
        Meant::Skill { name: _, text } => Opening::Prompt(text.into()),
        Meant::Command(opening) => opening,
    };
    let (run, scratch) = start.run(prompt, opening, outside)?;
    Ok((run.go().await, scratch))
}

/// Says what is odd about a recording that was made or played.
pub(super) fn say_remarks(models: &Models) {
    for remark in models.exchanges().remarks() {
        super::say(&format!("warning: {remark}"));
    }
}

/// Says what went wrong at the end, and returns how the process ends.
pub(super) fn wind_up(finished: &RunEnd, last_message: Option<(PathBuf, File)>) -> Exit {
    let mut exit = Exit::of(&finished.end);
    for trouble in &finished.trouble {
        super::say(&format!("warning: {trouble}"));
    }
    let mut fail = |what: &str, error: &io::Error| {
        super::say(&format!("error: cannot write {what}: {error}"));
        exit = if exit == Exit::Done { Exit::Error } else { exit };
    };
    if let Some((path, mut file)) = last_message {
        let text = match &finished.end.outcome {
            Outcome::Done { text } => text,
            Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => {
                &finished.end.text
            }
        };
        if let Err(error) = file.write_all(text.as_bytes()) {
            fail(&format!("`{}`", path.display()), &error);
        }
    }
    match (&finished.output_error, finished.signal) {
        (None, _) => {}
        (Some(error), _) if error.kind() == io::ErrorKind::BrokenPipe => {}
        // Told to end while nobody was reading.
        (Some(error), Some(signal)) if error.kind() == io::ErrorKind::TimedOut => {
            return Exit::after(signal);
        }
        (Some(error), _) => fail("the output", error),
    }
    exit
}

pub(super) fn create(path: &Path) -> Result<(PathBuf, File), Refusal> {
    let file = File::create(path).map_err(|error| {
        Refusal::new(Exit::BadInput, format!("cannot write `{}`: {error}", path.display()))
    })?;
    Ok((path.to_owned(), file))
}

/// Prints the result of a run that could not begin.
pub(super) fn show_refusal(
    refusal: &Refusal,
    session: Option<Uuid>,
    outputs: Vec<Box<dyn Write + Send>>,
) {
    let end = InvocationEnd {
        outcome: Outcome::failed(FailureKind::Setup, refusal.message.as_str()),
        text: Arc::default(),
        cancel: None,
        unfinished: Vec::new(),
    };
    let event = Event {
        seq: Seq(1),
        at: run::now(),
        invocation: Invocation(1),
        unit: UnitId::MAIN,
        branch: Branch::root(),
        kind: EventKind::InvocationEnded(Arc::new(end)),
    };
    let session = session.unwrap_or_else(Uuid::now_v7);
    let session = SessionId(session.hyphenated().to_string().into());
    for output in outputs {
        // Nobody reads: the refusal is on standard error, too.
        let _ = Json::new(output, session.clone(), Arc::new(|_| None)).event(&event);
    }
}

/// What a typed prompt means.
enum Meant {
    /// What it says.
    Typed,
    /// A skill, and the prompt it makes.
    Skill { name: String, text: String },
    /// A built-in command.
    Command(Opening),
}

/// Finds out what `/name arguments` means, or that it is a plain prompt.
fn expand(
    prompt: &str,
    skills: &Skills,
    spill: &Path,
    repository: (&git::Program, &Path),
) -> Result<Meant, Refusal> {
    let Some(line) = prompt.strip_prefix('/') else {
        return Ok(Meant::Typed);
    };
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    };
    if !is_name(name) {
        return Ok(Meant::Typed);
    }
    let skill = skills.find(name).filter(|skill| skill.user_invocable);
    if let Some(opening) = slash::opening(name, arguments) {
        let opening = opening?;
        if skill.is_some() {
            super::say(&format!(
                "warning: the skill `{name}` cannot be typed: `/{name}` is a built-in command"
            ));
        }
        return Ok(Meant::Command(opening));
    }
    let Some(skill) = skill else {
        // `/tmp is full` is a sentence about a directory.
        if Path::new("/").join(name).exists() {
            return Ok(Meant::Typed);
        }
        let names: Vec<String> =
            slash::names(skills).iter().map(|name| format!("/{name}")).collect();
        return Err(Refusal::new(Exit::BadInput, format!("there is no skill `/{name}`"))
            .hint(format!("there are: {}", names.join(", "))));
    };
    let text = skill.expand(arguments, spill, repository).map_err(|error| refusal(&error))?;
    Ok(Meant::Skill { name: skill.name.clone(), text })
}

fn refusal(error: &SkillError) -> Refusal {
    match error {
        SkillError::Git(_)
        | SkillError::UnknownFlag { .. }
        | SkillError::MissingValue { .. }
        | SkillError::TwoChanges => Refusal::new(Exit::BadInput, error.to_string()),
        SkillError::Unwritable { source, .. } => {
            Refusal::new(Exit::Error, format!("{error}: {source}"))
        }
    }
}
