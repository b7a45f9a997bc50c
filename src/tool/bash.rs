//! The Bash tool: one command in a shell of its own.
//!
//! Ending a command ends all it started. `process` owns its process group and its output,
//! `descendants` finds what has left the group, `plain` makes text of the output, and
//! `capture` bounds what is kept of it. Whether a command may run at all is the guard's
//! decision.

mod capture;
#[cfg(test)]
mod confined_tests;
mod descendants;
mod network;
mod plain;
mod process;
mod waited;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::NoticeLevel;
use crate::guard::sandbox::{Tampered, What, proxy};
use crate::line::Told;
use crate::message::{Output, ToolSchema};
use crate::path_text;

use super::arguments;
use super::blocking::cancelled;
use super::original::OriginalWatch;
use super::{Effect, Granted, Tool, ToolContext, ToolError};

use capture::Capture;
use descendants::Descendant;
use network::AskingGatekeeper;
use process::{CommandResult, Ending, How, Process};
use waited::UserWaitTime;

/// How long a command may run unless the call says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a command may run at most: a unit that waits longer looks dead.
pub const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Most output of one command, in bytes. A log that is longer is a command run
/// wild: past this it would only fill the disk and keep a processor busy.
pub const TOTAL_CAP: u64 = 64 * 1024 * 1024;

/// Most protected places that are named. A command that has changed more is no
/// accident, and the first few say so.
const TOLD_CAP: usize = 10;

/// Runs commands.
#[derive(Debug, Clone, Copy)]
pub struct Bash;

const PARAMETERS: &str = r#"{"type":"object","properties":{
    "command":{"type":"string","description":"The command."},
    "timeout":{"type":"integer","minimum":1,"maximum":600000,"description":"Milliseconds after which it is ended; 120000 if left out."},
    "description":{"type":"string","description":"What it does, in five to ten words."}
    },"required":["command"]}"#;

impl Tool for Bash {
    fn schema(&self) -> ToolSchema {
        arguments::schema("Bash", include_str!("../../prompts/tools/bash.md"), PARAMETERS)
    }

    fn effect(&self) -> Effect {
        Effect::Executes
    }

    fn subject(&self, arguments: &Value) -> String {
        arguments::subject(arguments, "command")
    }

    fn run<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a Granted,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let wanted = Wanted::parse(arguments)?;
            if let Some(gone) = context.workspace.missing_root() {
                return Err(ToolError::tell(gone));
            }
            let started = Instant::now();
            let name = format!("bash-{}-{}", context.line.unit(), call.id);
            let mut capture = Capture::new(&context.workspace.spill, name);
            let watched = OriginalWatch::begin(&context.workspace, call, &wanted.command).await;
            let mut process = Process::start(&context.workspace, call, &wanted.command)
                .map_err(|error| not_run(&error))?;
            let watching = watch(&mut process, (context, call), wanted.timeout, &mut capture).await;
            let (CommandResult { ending, running }, refused) =
                watching.map_err(|error| not_run(&error))?;
            let tampered = process.finish().await;
            let told = told(&tampered, &context.workspace.root);
            if !tampered.is_empty() {
                let (level, text) = (NoticeLevel::Warning, told.trim_end().into());
                context.line.tell(Told::Notice { level, text }).await;
            }
            let strayed = match watched {
                Some(watched) => watched.finish(&context.workspace.root).await,
                None => String::new(),
            };
            let ended = Ended { ending, told, refused, running: still_running(&running) };
            match output(&ended, wanted.timeout, capture) {
                Some(output) => Ok(Output { text: output.text + &strayed, ..output }),
                None => {
                    if !running.is_empty() {
                        let text = format!(
                            "a cancelled command left processes running: {}",
                            ended.running
                        )
                        .into();
                        let level = NoticeLevel::Warning;
                        context.line.tell(Told::Notice { level, text }).await;
                    }
                    Err(cancelled(started.elapsed()))
                }
            }
        })
    }
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    command: Value,
    #[serde(default)]
    timeout: Value,
}

struct Wanted {
    command: String,
    timeout: Duration,
}

impl Wanted {
    fn parse(arguments: Value) -> Result<Self, ToolError> {
        let raw: Raw = arguments::parse(arguments)?;
        let command = arguments::text("command", raw.command)?;
        let timeout = match arguments::optional_number("timeout", &raw.timeout)? {
            None => DEFAULT_TIMEOUT,
            Some(0) => return Err(arguments::wrong("timeout", "1 or more milliseconds")),
            // More is cut, not refused: the output says when time was up.
            Some(number) => Duration::from_millis(number).min(LONGEST_TIMEOUT),
        };
        Ok(Self { command, timeout })
    }
}

/// Waits for the end of a command and serves its connections. Returns its result, with sentences
/// about the hosts that it did not reach.
async fn watch(
    process: &mut Process,
    (context, call): (&ToolContext, &Granted),
    limit: Duration,
    capture: &mut Capture<'_>,
) -> io::Result<(CommandResult, String)> {
    let (ended, waited) = (CancellationToken::new(), UserWaitTime::default());
    let Some(handover) = process.take_handover() else {
        let result = process.watch((limit, &waited), &context.cancel, capture).await?;
        return Ok((result, String::new()));
    };
    let hosts = AskingGatekeeper::new((context, call), &ended, &waited);
    let serving = async {
        // Without a listener the command did not start, and has printed the reason.
        let listener = tokio::select! {
            () = ended.cancelled() => return,
            listener = handover.listener() => listener,
        };
        match listener {
            Ok(Some(listener)) => proxy::serve(listener, &hosts, &ended).await,
            Ok(None) => {}
            Err(error) => hosts.note(&format!("The command had no proxy: {error}.")),
        }
    };
    let watching = async {
        let result = process.watch((limit, &waited), &context.cancel, capture).await;
        ended.cancel();
        result
    };
    let (result, ()) = tokio::join!(watching, serving);
    Ok((result?, hosts.finish()))
}

fn not_run(error: &dyn std::error::Error) -> ToolError {
    ToolError::tell(format!("The command could not be run: {error}."))
}

/// The end of a command, with the sentences about it.
struct Ended {
    ending: Ending,
    /// Its changes of protected places.
    told: String,
    /// Sentences about hosts that it did not reach.
    refused: String,
    /// Its processes that still run; empty if none do.
    running: String,
}

/// Names processes that still run.
fn still_running(processes: &[Descendant]) -> String {
    if processes.is_empty() {
        return String::new();
    }
    let named: Vec<String> = processes.iter().take(TOLD_CAP).map(Descendant::shown).collect();
    let more = match processes.len().saturating_sub(TOLD_CAP) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("process {}{more}", named.join(", "))
}

/// Returns what the model reads; `None` for a cancelled command.
fn output(ended: &Ended, timeout: Duration, capture: Capture<'_>) -> Option<Output> {
    let (last_words, is_error) = match &ended.ending {
        Ending::Cancelled => return None,
        Ending::TimedOut => {
            let after = timeout.as_secs_f64();
            (format!("[Timed out after {after} s; {}]", were_ended(&ended.running)), true)
        }
        Ending::TooMuch => {
            let most = TOTAL_CAP / 1024 / 1024;
            (format!("[More than {most} MiB of output; {}]", were_ended(&ended.running)), true)
        }
        Ending::Exited { status, left_behind, how } => {
            let left = left_words(*left_behind, &ended.running);
            (left + &exit_words(*status, *how), !status.success())
        }
    };
    let last_words = format!("{}{}{last_words}", ended.told, ended.refused);
    let is_error = is_error || !ended.told.is_empty();
    Some(Output { text: capture.finish(last_words.trim_end()), is_error, images: Vec::new() })
}

/// Says that a command was ended, and what could not be.
fn were_ended(running: &str) -> String {
    match running {
        "" => "the command and all it started were ended.".to_owned(),
        running => {
            format!("the command was ended, but some of its processes still run: {running}.")
        }
    }
}

/// Says what a command has changed although it must not.
fn told(tampered: &[Tampered], root: &Path) -> String {
    let say = |Tampered { path, what, is_undone, kept }: &Tampered| {
        let path = path_text::shown(root, path);
        let was = match what {
            What::Made => "made",
            What::Changed => "changed",
            What::Removed => "removed",
        };
        let now = if *is_undone { "It is as it was again" } else { "It could not be put back" };
        let kept = kept.as_ref().map(|kept| path_text::shown(root, kept));
        let kept = kept.map(|kept| format!("; what stood there is in `{kept}`"));
        let kept = kept.unwrap_or_default();
        format!("[`{path}` was {was} while the command ran, which no command may. {now}{kept}.]\n")
    };
    let said: String = tampered.iter().take(TOLD_CAP).map(say).collect();
    match tampered.len().saturating_sub(TOLD_CAP) {
        0 => said,
        more => format!("{said}[And {more} more.]\n"),
    }
}

/// Says what the shell has left in the background.
fn left_words(left_behind: Option<i32>, running: &str) -> String {
    let group = left_behind.map_or(String::new(), |group| {
        format!(
            "[The shell has ended; what it started in the background holds its output and goes on \
             running as process group {group}. Its further output is lost: send it to a file.]\n"
        )
    });
    match running {
        "" => group,
        running => format!("{group}[Still running in the background: {running}.]\n"),
    }
}

fn exit_words(status: ExitStatus, how: How) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => String::new(),
        // A process between us and the shell passes on a number, which a command may also
        // give by itself.
        (Some(code @ 129..=192), _) if how == How::Through => {
            format!("exit code {code}, as by signal {}", code - 128)
        }
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read};
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::tool::OUTPUT_CAP;
    use crate::tool::testing::{Place, SECRET, call};

    async fn check(command: &str, expected: Result<&str, &str>) {
        let result = Place::new().call(&Bash, json!({"command": command})).await;
        assert_eq!(result, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[tokio::test]
    async fn both_outputs_arrive_in_the_order_of_writing() {
        let command = "for n in 1 2 3; do echo out $n; echo err $n >&2; done";
        check(command, Ok("out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n")).await;
        check("true", Ok("(no output)")).await;
        check("printf 'caf\\351'", Ok("caf\u{FFFD}")).await;
    }

    #[tokio::test]
    async fn a_command_that_fails_says_how_at_the_end() {
        check("echo a; exit 3", Err("a\nexit code 3")).await;
        check("printf a; false", Err("a\nexit code 1")).await;
        check("kill -9 $$", Err("killed by signal 9")).await;
        check("-x", Err("bash: line 1: -x: command not found\nexit code 127")).await;
    }

    #[tokio::test]
    async fn a_command_runs_in_the_working_directory_without_input_and_without_keys() {
        let place = Place::new();
        let text = place.call(&Bash, json!({"command": "pwd; cat; echo end"})).await.unwrap();
        assert_eq!(text, format!("{}\nend\n", place.root().display()));
        assert!(std::env::var(SECRET).is_ok(), "this test must run under cargo");
        let text = place.call(&Bash, json!({"command": format!("echo ${{{SECRET}-unset}}")})).await;
        assert_eq!(text.as_deref(), Ok("unset\n"));
    }

    #[tokio::test]
    async fn a_command_has_a_session_of_its_own_without_a_terminal() {
        let command = "read -r _ _ _ _ group session terminal _ </proc/$$/stat; \
                       test $group = $$ && test $session = $$ && test $terminal = 0";
        check(command, Ok("(no output)")).await;
    }

    #[tokio::test]
    async fn long_output_is_cut_and_the_file_it_names_has_all_of_it() {
        let place = Place::new();
        let text = place.call(&Bash, json!({"command": "seq 100000"})).await.unwrap();
        let path = place.workspace.spill.directory.join("bash-main-call_1.txt");
        let all: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), all);
        assert!(text.starts_with("1\n2\n") && text.ends_with("99999\n100000\n"));
        assert!(text.contains(&format!("the whole text is in {}", path.display())));
        assert!(text.chars().count() <= OUTPUT_CAP);
    }

    #[tokio::test]
    async fn a_command_that_never_stops_printing_is_ended() {
        let refused = Place::new().call(&Bash, json!({"command": "yes"})).await.unwrap_err();
        let expected = "[More than 64 MiB of output; the command and all it started were ended.]";
        assert!(refused.ends_with(expected));
        assert!(refused.chars().count() <= OUTPUT_CAP);
    }

    /// A pipe that everything a command starts holds open: it ends when the
    /// last of them is gone.
    struct Life {
        place: Arc<Place>,
        reader: BufReader<File>,
    }

    impl Life {
        /// Starts `setup; command` with the pipe in place, and waits until the
        /// setup is done.
        async fn of(
            (setup, command): (&str, &str),
            timeout: u64,
        ) -> (Self, tokio::task::JoinHandle<Result<String, String>>) {
            let place = Arc::new(Place::new());
            let pipe = place.path("life");
            nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
            let arguments = json!({
                "command": format!("exec 9>life; {setup} echo before; echo ready >&9; {command}"),
                "timeout": timeout,
            });
            let caller = Arc::clone(&place);
            let result = tokio::spawn(async move { call(&Bash, &caller.context, arguments).await });
            let reader = tokio::task::spawn_blocking(move || {
                let mut reader = BufReader::new(File::open(pipe).unwrap());
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                assert_eq!(line, "ready\n");
                reader
            });
            let reader = reader.await.unwrap();
            (Self { place, reader }, result)
        }

        /// Returns once every process is gone.
        async fn ends(mut self) {
            let end = tokio::task::spawn_blocking(move || self.reader.read_to_end(&mut Vec::new()));
            end.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_cancel_ends_the_command_and_all_it_started() {
        for command in [
            ("", "sleep 1000 & sleep 1000"),
            ("trap '' TERM;", "sleep 1000 & while :; do sleep 1000; done"),
            ("", "exec >&- 2>&-; sleep 1000"),
            ("", "kill -STOP $$"),
        ] {
            let (life, result) = Life::of(command, 600_000).await;
            life.place.context.cancel.cancel();
            let refused = result.await.unwrap().unwrap_err();
            assert!(refused.starts_with("cancelled after "), "{refused}");
            life.ends().await;
        }
    }

    /// Ways to leave the group of a command, and what the shell does then.
    const DETACHED: [(&str, &str); 7] = [
        ("setsid sleep 1000 &", "wait"),
        ("setsid --fork sleep 1000;", "sleep 1000"),
        ("(setsid sleep 1000 &);", "sleep 1000"),
        ("(nohup setsid bash -c 'sleep 1000 & sleep 1000' &);", "sleep 1000"),
        ("setsid env -i sleep 1000 &", "wait"),
        ("setsid bash -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' &", "wait"),
        ("setsid -f setsid -f setsid sleep 1000;", "sleep 1000"),
    ];

    #[tokio::test]
    async fn what_has_left_the_group_ends_with_a_cancel_and_a_dropped_call() {
        for command in DETACHED {
            let (life, result) = Life::of(command, 600_000).await;
            life.place.context.cancel.cancel();
            let refused = result.await.unwrap().unwrap_err();
            assert!(refused.starts_with("cancelled after "), "{refused}");
            life.ends().await;

            let (life, result) = Life::of(command, 600_000).await;
            result.abort();
            assert!(result.await.unwrap_err().is_cancelled());
            life.ends().await;
        }
    }

    #[tokio::test]
    async fn a_cancel_leaves_the_daemon_of_another_call_alone() {
        let (daemon, result) =
            Life::of(("", "setsid --fork sleep 1000 >/dev/null 2>&1"), 600_000).await;
        let text = result.await.unwrap().unwrap();
        let (_, id) = text.split_once("process ").expect("what runs is named");
        let id: i32 = id.split_once(' ').unwrap().0.parse().unwrap();
        let (other, result) = Life::of(("", "setsid sleep 1000 & wait"), 600_000).await;
        other.place.context.cancel.cancel();
        result.await.unwrap().unwrap_err();
        other.ends().await;
        let id = nix::unistd::Pid::from_raw(id);
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).expect("it runs still");
        daemon.ends().await;
    }

    #[tokio::test]
    async fn a_command_without_its_working_directory_says_that_it_is_gone() {
        let place = Place::new();
        let command = "cd ..; rm -rf \"$OLDPWD\"";
        assert_eq!(
            place.call(&Bash, json!({"command": command})).await.as_deref(),
            Ok("(no output)")
        );
        let refused = place.call(&Bash, json!({"command": "echo hi"})).await.unwrap_err();
        let expected = format!("The working directory {} is gone: ", place.root().display());
        assert!(refused.starts_with(&expected), "{refused}");
    }

    #[tokio::test]
    async fn a_command_may_clean_up_when_it_is_cancelled() {
        let (life, result) =
            Life::of(("trap 'echo bye >&9; exit' TERM;", "sleep 1000 & wait"), 600_000).await;
        life.place.context.cancel.cancel();
        result.await.unwrap().unwrap_err();
        let mut reader = life.reader;
        let words = tokio::task::spawn_blocking(move || {
            let mut words = String::new();
            reader.read_to_string(&mut words).map(|_| words)
        });
        assert_eq!(words.await.unwrap().unwrap(), "bye\n");
    }

    #[tokio::test]
    async fn a_timeout_ends_the_command_and_keeps_its_output() {
        let (life, result) = Life::of(("", "sleep 1000 & sleep 1000"), 2_000).await;
        let expected = "before\n[Timed out after 2 s; the command and all it started were ended.]";
        assert_eq!(result.await.unwrap().unwrap_err(), expected);
        life.ends().await;
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_ends_the_command_and_all_it_started() {
        let (life, result) = Life::of(("", "sleep 1000 & sleep 1000"), 600_000).await;
        result.abort();
        assert!(result.await.unwrap_err().is_cancelled());
        life.ends().await;
    }

    #[tokio::test]
    async fn what_stays_in_the_background_does_not_hold_up_the_call() {
        let (life, result) = Life::of(("", "sleep 1000 & echo $$"), 600_000).await;
        let text = result.await.unwrap().unwrap();
        let group: i32 = text.lines().nth(1).unwrap().parse().unwrap();
        let (expected, running) = text.split_at(text.rfind("[Still").unwrap());
        assert_eq!(
            expected,
            format!(
                "before\n{group}\n[The shell has ended; what it started in the background holds \
                 its output and goes on running as process group {group}. Its further output is \
                 lost: send it to a file.]\n"
            )
        );
        assert!(running.starts_with("[Still running in the background: process "), "{running}");
        assert!(running.ends_with(" (`sleep 1000`).]"), "{running}");
        nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::SIGKILL)
            .unwrap();
        life.ends().await;
    }

    #[tokio::test]
    async fn what_stays_in_the_background_with_its_own_output_is_left_alone() {
        let (life, result) = Life::of(("", "sleep 1000 >/dev/null 2>&1 & echo $$"), 600_000).await;
        let text = result.await.unwrap().unwrap();
        let group: i32 = text.lines().nth(1).unwrap().parse().unwrap();
        let running = text.lines().nth(2).unwrap();
        assert!(running.starts_with("[Still running in the background: process "), "{running}");
        assert!(running.ends_with(" (`sleep 1000`).]"), "{running}");
        nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::SIGKILL)
            .unwrap();
        life.ends().await;
    }

    #[test]
    fn a_timeout_is_bounded_and_has_a_default() {
        let timeout = |value: Value| {
            let wanted = Wanted::parse(json!({"command": "x", "timeout": value}));
            wanted.map(|wanted| wanted.timeout).map_err(|error| error.to_string())
        };
        assert_eq!(timeout(Value::Null), Ok(DEFAULT_TIMEOUT));
        assert_eq!(timeout(json!("1500")), Ok(Duration::from_millis(1_500)));
        assert_eq!(timeout(json!(9_999_999)), Ok(LONGEST_TIMEOUT));
        let expected = "Parameter \"timeout\" must be 1 or more milliseconds.";
        assert_eq!(timeout(json!(0)), Err(expected.to_owned()));
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_run_is_refused_in_words() {
        let place = Place::new();
        let refused = place.call(&Bash, json!({})).await.unwrap_err();
        assert_eq!(refused, "Parameter \"command\" must be a non-empty string.");
        let refused = place.call(&Bash, json!({"command": "a\0b"})).await.unwrap_err();
        assert!(refused.starts_with("The command could not be run: "), "{refused}");
    }

    #[test]
    fn a_subject_is_the_first_line() {
        assert_eq!(Bash.subject(&json!({"command": "cd a &&\n  ls"})), "cd a &&");
    }
}
