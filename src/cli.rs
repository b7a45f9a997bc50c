//! The command line: what the user typed, turned into a run.
//!
//! Only this layer and `config` read the process's environment; only this
//! layer ends the process. What a command cannot do is a [`Refusal`], printed
//! in one place.

mod acp;
pub mod args;
mod asking;
mod catalogue;
pub mod chat;
mod completions;
mod control;
mod debug;
mod demo;
mod doctor;
mod executor;
pub mod exit;
mod flow;
mod hooks;
mod init;
mod input;
mod kit;
mod map;
mod mcp;
mod model;
mod models;
mod named;
mod permissions;
mod place;
mod print;
mod project;
mod recordings;
mod resume;
mod review;
mod rules;
mod runner;
mod said;
mod sandbox;
mod servers;
mod session;
mod sessions;
mod setup;
mod signals;
mod slash;
mod start;
mod target;
mod telemetry;
mod terminal;
mod texts;
mod trace;
mod trust;
mod undo;
mod usage;
pub mod worker;
mod workers;
mod worktree;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use crate::config::Environment;
use crate::guard::sandbox::{NOT_STARTED, ran_as_starter};
use crate::reaper;
use args::{Arguments, BorrowedFlags, Command, FlowCommand, Format, InputFormat, RunFlags, Sifted};
use exit::{Exit, Refusal};

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(why) = ran_as_starter(&words) {
        say(&why);
        return ExitCode::from(NOT_STARTED);
    }
    keep_others_out();
    if reaper::ran_as_reaper(&words) {
        return ExitCode::SUCCESS;
    }
    if is_version(&words) {
        // Whoever has gone does not want to know.
        let _ = writeln!(io::stdout(), "tine {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    reaper::tag_process();
    let Sifted { arguments, notes } = args::sift(words);
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    notes.iter().for_each(say);
    keep_panics_of_units_quiet();
    let flags = arguments.run.clone();
    let begun = begin(&arguments);
    let exit = match begun.and_then(|()| run(arguments)) {
        Ok(exit) => exit,
        Err(refusal) => {
            // A script has one place to look, also for what could not begin.
            let stdout = (flags.output_format() != Format::Text)
                .then(|| Box::new(io::stdout()) as Box<dyn io::Write + Send>);
            let file = flags.records_file().filter(|_| !refusal.keeps_files);
            let file = file.and_then(|path| print::open(&path).ok());
            let file = file.map(|file| Box::new(file) as Box<dyn io::Write + Send>);
            let outputs = stdout.into_iter().chain(file).collect();
            let session = flags.session_id.or_else(|| flags.resume.as_deref()?.parse().ok());
            print::show_refusal(&refusal, session, None, outputs);
            say(&refusal);
            refusal.exit
        }
    };
    if !exit.is_by_signal() {
        reaper::dismiss();
    }
    ExitCode::from(exit.code())
}

/// Tells whether nothing is wanted but the version. Programs ask for it each time
/// before they start tine, and clap takes longer to put all flags together than
/// the rest of the process takes.
fn is_version(words: &[OsString]) -> bool {
    matches!(words, [_, only] if only == "--version" || only == "-v" || only == "-V")
}

/// Does what goes before everything else.
fn begin(arguments: &Arguments) -> Result<(), Refusal> {
    // Files are named from where it works.
    arguments.run.cd.as_deref().map_or(Ok(()), work_in)?;
    named::check(arguments)?;
    debug::set_up(&arguments.run)
}

fn run(arguments: Arguments) -> Result<Exit, Refusal> {
    let Arguments { print, prompt_interactive, prompt, run, command, .. } = arguments;
    let BorrowedFlags { openai_api_key, openai_base_url, .. } = &run.borrowed;
    let environment = Environment::from_process()
        .with_openai(openai_api_key.as_ref(), openai_base_url.as_deref());
    runner::reads(environment.github_actions);
    if openai_api_key.is_some() {
        say(&"warning: whoever lists processes sees `--openai-api-key`; set `OPENAI_API_KEY`");
    }
    run.inert.said().iter().for_each(say);
    if let Some((message, hint)) = run.inert.refused() {
        return Err(Refusal::new(Exit::Usage, message.as_str()).hint(*hint));
    }
    if run.borrowed.list_extensions {
        say(&"there are no extensions");
        say(&"hint: `tine skills`, `tine agents` and `tine mcp list` list what there is");
        return Ok(Exit::Done);
    }
    let (typed, how) = typed(print, prompt_interactive, prompt)?;
    if let (Some(typed), Some(_)) = (typed.as_ref().filter(|it| !it.is_empty()), &command) {
        return Err(Refusal::new(Exit::Usage, format!("`{typed}` is a prompt beside a command"))
            .hint("give a prompt or a command, not both"));
    }
    check_flags(command.as_ref(), &run)?;
    match command {
        Some(Command::Review(flags)) => review::run(&environment, run, &flags),
        Some(Command::Flow { command }) => flow::run(&environment, run, command),
        Some(Command::Map(flags)) => map::run(&environment, run, flags),
        Some(Command::Init { words }) => init::run(&environment, run, &words),
        Some(Command::Demo) => demo::run(&environment, run),
        Some(Command::Acp) => acp::run(&environment, run),
        Some(Command::Setup) => setup::run(&environment, &run),
        Some(Command::Doctor) => doctor::run(&environment, &run),
        Some(Command::Sandbox(wanted)) => sandbox::run(&environment, &run, &wanted),
        Some(Command::Models { json }) => models::run(&environment, &run, json),
        Some(Command::Skills(listed)) => catalogue::skills(&environment, &run, &listed),
        Some(Command::Agents(listed)) => catalogue::agents(&environment, &run, &listed),
        Some(Command::Trust(flags)) => trust::run(&environment, &flags),
        Some(Command::Permissions { command, json }) => {
            permissions::run(&environment, run, command, json)
        }
        Some(Command::Sessions { command, list }) => {
            sessions::run(&environment, &run, command, &list)
        }
        Some(Command::Session { command }) => session::run(&environment, command),
        Some(Command::Trace(flags)) => trace::run(&environment, flags),
        Some(Command::Mcp { command }) => mcp::run(&environment, run, &command),
        Some(Command::Worktree { command }) => worktree::run(&environment, &command),
        Some(Command::Worker(wanted)) => worker::run(&environment, &run, &wanted),
        Some(Command::Workers(wanted)) => workers::run(&environment, &run, &wanted),
        Some(Command::Completions { shell }) => completions::run(shell),
        Some(Command::Man) => completions::manual(),
        None => converse(&environment, run, typed, how),
    }
}

/// Returns the prompt, from a flag or alone, and how it is to be answered.
fn typed(
    print: Option<Option<String>>,
    interactive: Option<String>,
    alone: Option<String>,
) -> Result<(Option<String>, How), Refusal> {
    let how = match (&print, &interactive) {
        (Some(_), _) => How::Printed,
        (None, Some(_)) => How::InChat,
        (None, None) => How::Either,
    };
    match (print.flatten().or(interactive), alone) {
        (Some(first), Some(second)) if !first.is_empty() => {
            Err(Refusal::new(Exit::Usage, format!("`{second}` is a second prompt"))
                .hint("put the whole prompt in quotes"))
        }
        (first, second) => Ok((second.or(first), how)),
    }
}

/// How a person wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// One answer is printed.
    Printed,
    /// In a chat, which begins with the prompt.
    InChat,
    /// A prompt is answered; without one there is a chat where somebody sits.
    Either,
}

/// Answers one prompt, a client or a person.
fn converse(
    environment: &Environment,
    run: RunFlags,
    typed: Option<String>,
    how: How,
) -> Result<Exit, Refusal> {
    let may_chat = is_chat(environment, &run) && run.input_format == InputFormat::Text;
    match (run.input_format, how) {
        (_, How::InChat) if !may_chat => {
            Err(Refusal::new(Exit::Usage, "`--prompt-interactive` begins a chat, in a terminal")
                .hint("`-p PROMPT` answers without one"))
        }
        (InputFormat::Text, How::Either) if may_chat && typed.is_none() => {
            chat::run(environment, run, None)
        }
        (InputFormat::Text, How::InChat) => {
            chat::run(environment, run, typed.filter(|typed| !typed.trim().is_empty()))
        }
        (InputFormat::Text, How::Printed | How::Either) => print::run(environment, run, typed),
        (InputFormat::StreamJson, How::Printed | How::InChat | How::Either) => {
            control::run(environment, run, typed.as_deref().filter(|text| !text.is_empty()))
        }
    }
}

/// Works in another directory from now on.
fn work_in(directory: &Path) -> Result<(), Refusal> {
    std::env::set_current_dir(directory).map_err(|error| {
        Refusal::new(Exit::BadInput, format!("cannot work in `{}`: {error}", directory.display()))
    })
}

/// Tells whether somebody sits there to chat with.
fn is_chat(environment: &Environment, run: &RunFlags) -> bool {
    let is_text = run.output_format() == Format::Text;
    is_text && !environment.ci && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Refuses flags that mean nothing to a command.
fn check_flags(command: Option<&Command>, run: &RunFlags) -> Result<(), Refusal> {
    let runs_a_model = match command {
        None
        | Some(
            Command::Review(_)
            | Command::Demo
            | Command::Init { .. }
            | Command::Map(_)
            | Command::Flow { command: FlowCommand::Run(_) },
        ) => true,
        Some(
            Command::Acp
            | Command::Flow { command: FlowCommand::Check { .. } | FlowCommand::Show { .. } }
            | Command::Setup
            | Command::Doctor
            | Command::Sandbox(_)
            | Command::Models { .. }
            | Command::Skills(_)
            | Command::Agents(_)
            | Command::Permissions { .. }
            | Command::Trust(_)
            | Command::Sessions { .. }
            | Command::Session { .. }
            | Command::Trace(_)
            | Command::Worktree { .. }
            | Command::Worker(_)
            | Command::Workers(_)
            | Command::Completions { .. }
            | Command::Man
            | Command::Mcp { .. },
        ) => false,
    };
    let lists_workers = matches!(command, Some(Command::Workers(_)));
    if !runs_a_model && !lists_workers && run.output_format() != Format::Text {
        return Err(Refusal::new(Exit::Usage, "this command prints text only")
            .hint("leave `--output-format` out"));
    }
    if !runs_a_model && (resume::is_wanted(run) || run.fork_session) {
        return Err(Refusal::new(Exit::Usage, "this command goes on with no session")
            .hint("leave `--continue`, `--resume` and `--fork-session` out"));
    }
    if command.is_some() && run.json_schema.is_some() {
        return Err(Refusal::new(Exit::Usage, "this command's answer has a form of its own")
            .hint("leave `--json-schema` out, or ask with `-p`"));
    }
    if command.is_some() && run.input_format == InputFormat::StreamJson {
        return Err(Refusal::new(Exit::Usage, "this command reads no messages")
            .hint("leave `--input-format` out"));
    }
    Ok(())
}

/// Keys are in this process's environment and memory. What a model runs may be
/// the same user's, and would otherwise read both in `/proc`.
fn keep_others_out() {
    // Where the kernel refuses, nothing is worse than before.
    let _ = nix::sys::prctl::set_dumpable(false);
}

/// A unit's panic is told as that unit's failure; Rust's own words about it
/// would tear the live region. Any other panic is a defect to be seen.
fn keep_panics_of_units_quiet() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current();
        if thread.name().is_some_and(|name| name.starts_with(print::UNIT_THREADS)) {
            tracing::error!("{panic}");
        } else {
            default(panic);
        }
    }));
}

/// Prints clap's own words; asking for help or the version is no error.
fn usage(error: &clap::Error) -> ExitCode {
    // Nobody reads: then there is nobody to tell.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() })
}

/// Writes to standard error; the text may quote what the user gave.
fn say(text: &impl std::fmt::Display) {
    let text = text.to_string();
    said::note(&text);
    let text = runner::inert_text(crate::report::sanitise::text(&text).into_owned());
    // Nobody reads: then there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
