//! A server that is a process of its own: started, spoken to in lines, ended.
//!
//! It leads a process group, so that nothing it started outlives it. What it
//! writes to standard error is its own log: it goes to ours at the debug level,
//! and its last words say why it ended.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::entry::Launch;
use super::link::{Channel, FarEnds, MESSAGE_CAP, channel};
use crate::guard::SearchPath;
use crate::guard::sandbox::Variables;
use crate::hook::{Footing, missing_program};
use crate::reaper;

/// How long a server may take to end once its input has: most do at once.
const CLOSE_PATIENCE: Duration = Duration::from_millis(300);

/// How long it may take after SIGTERM, and after SIGKILL.
const TERM_PATIENCE: Duration = Duration::from_millis(200);
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// How long its last words are waited for. They are in the pipe, if there are
/// any; something it started may hold the other end.
const WORDS_PATIENCE: Duration = Duration::from_millis(100);

/// Most of its standard error that is kept, in bytes: a stack's last lines.
const WORDS_CAP: usize = 4 * 1024;

/// Maximum bytes of a message whose line has no end. Each piece that is read of one has it parsed.
const ENDLESS_CAP: usize = 1024 * 1024;

/// How much is read at a time.
const BUFFER: usize = 64 * 1024;

/// What every server is started with.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The variables that it may inherit.
    pub variables: Variables,
    /// Where it starts, if its entry does not say.
    pub directory: PathBuf,
    /// The directories that may not provide its program.
    pub workspace: Vec<PathBuf>,
}

/// A server that runs. It ends, with all it has started, once this is dropped.
pub(super) struct Program {
    stop: DropGuard,
    living: JoinHandle<String>,
}

impl Program {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// If there is no such program, or it cannot be started.
    pub(super) fn start(launch: &Started<'_>, tasks: &TaskTracker) -> io::Result<(Channel, Self)> {
        let Started { program, arguments, variables, directory, footing: _, surroundings } = launch;
        let search = launch.search_path();
        let mut command = Command::new(program);
        command
            .args(*arguments)
            .env_clear()
            .envs(surroundings.variables.of_servers())
            .envs(*variables)
            .current_dir(directory.unwrap_or(&surroundings.directory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        reaper::start();
        if let Some(search) = &search {
            command.env("PATH", search.without_workspace());
        }
        let child = command.spawn().map_err(|error| explain(error, program, search.as_ref()))?;
        let (channel, far) = channel();
        let stop = CancellationToken::new();
        // Whoever waits for the end of all servers waits for this one, too.
        let living = tasks.spawn(live(child, far, stop.clone(), search));
        Ok((channel, Self { stop: stop.drop_guard(), living }))
    }

    /// Ends it, if it still runs, and returns how it ended with its last words.
    pub(super) async fn end(self) -> String {
        drop(self.stop);
        self.living.await.unwrap_or_default()
    }
}

/// What is started.
pub(super) struct Started<'a> {
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) variables: &'a std::collections::BTreeMap<String, String>,
    pub(super) directory: Option<&'a Path>,
    pub(super) footing: &'a Footing,
    pub(super) surroundings: &'a Surroundings,
}

impl<'a> Started<'a> {
    /// `None` if it is no program.
    pub(super) fn of(launch: &'a Launch, surroundings: &'a Surroundings) -> Option<Self> {
        match launch {
            Launch::Program { program, arguments, variables, directory, footing } => Some(Self {
                program,
                arguments,
                variables,
                directory: directory.as_deref(),
                footing,
                surroundings,
            }),
            Launch::Http { .. } => None,
        }
    }

    /// Returns where its program and those that it starts by name are looked for; `None`
    /// without a `PATH`.
    fn search_path(&self) -> Option<SearchPath> {
        let own = self.variables.get("PATH").map(OsStr::new);
        let path = own.or_else(|| self.surroundings.variables.path())?;
        Some(SearchPath::split(path, &self.surroundings.workspace))
    }
}

/// Says of a program that only the workspace has why it is not started.
fn explain(error: io::Error, program: &str, search: Option<&SearchPath>) -> io::Error {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let search = search.filter(|_| is_missing);
    search.and_then(|it| it.explain(program, AS_COMMAND)).map_or(error, io::Error::other)
}

/// Where the configuration of a server names a program.
const AS_COMMAND: &str = "as `command` in the configuration";

/// Exit status of `env` and of shells that do not find a program.
const NOT_FOUND: i32 = 127;

/// Returns an explanation if a server's last words name a program that it did not find and that
/// only the workspace has.
fn explain_end(status: ExitStatus, words: &str, search: &SearchPath) -> Option<String> {
    let is_missing = status.code() == Some(NOT_FOUND);
    let program = missing_program(words).filter(|_| is_missing)?;
    search.explain(program, "in the server's command or script")
}

/// Why lines are not read any more.
pub(super) enum Over {
    /// The other side closed its output.
    Closed,
    /// A line was too long.
    TooLong,
    /// Nobody listens.
    Unheard,
}

async fn live(
    mut child: Child,
    far: FarEnds,
    stop: CancellationToken,
    search: Option<SearchPath>,
) -> String {
    let group = Group::of(&child);
    let FarEnds { received, said } = far;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = input.expect("the input is a pipe");
    let writing = AbortOnDropHandle::new(tokio::spawn(write(input, received)));
    let hearing = tokio::spawn(hear(errors.expect("the errors are a pipe")));
    let mut hearing = AbortOnDropHandle::new(hearing);
    let over = tokio::select! {
        biased;
        () = stop.cancelled() => Over::Unheard,
        over = read(output.expect("the output is a pipe"), said) => over,
    };
    // Its input ends with this.
    drop(writing);
    let status = end(&mut child, &group).await;
    drop(group);
    let words = timeout(WORDS_PATIENCE, &mut hearing).await;
    let words = words.ok().and_then(Result::ok).unwrap_or_default();
    let how = match (over, status) {
        (Over::TooLong, _) => format!("it sent a message of more than {MESSAGE_CAP} bytes"),
        (Over::Closed | Over::Unheard, Some(status)) => format!("it ended: {status}"),
        (Over::Closed | Over::Unheard, None) => "it did not end".to_owned(),
    };
    let missing = status.zip(search).and_then(|(status, it)| explain_end(status, &words, &it));
    match (missing, words.as_str()) {
        (Some(missing), _) => format!("{how}; {missing}"),
        (None, "") => how,
        (None, words) => format!("{how}; its last words: {words}"),
    }
}

/// Ends what still runs: its input has ended, then politely, then by force.
async fn end(child: &mut Child, group: &Group) -> Option<ExitStatus> {
    let mut status = timeout(CLOSE_PATIENCE, child.wait()).await.ok().and_then(Result::ok);
    if status.is_none() {
        group.signal(Signal::SIGTERM);
        status = timeout(TERM_PATIENCE, child.wait()).await.ok().and_then(Result::ok);
    }
    // What it has started ends in any case.
    group.signal(Signal::SIGKILL);
    if status.is_none() {
        status = timeout(KILL_PATIENCE, child.wait()).await.ok().and_then(Result::ok);
    }
    status
}

async fn write(mut input: ChildStdin, mut received: mpsc::Receiver<String>) {
    while let Some(mut text) = received.recv().await {
        text.push('\n');
        if input.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads lines, and sends on those that are not blank.
///
/// A message whose line has no end is sent on once it is whole: some servers write none.
pub(super) async fn read(mut output: impl AsyncRead + Unpin, said: mpsc::Sender<String>) -> Over {
    let mut buffer = vec![0; BUFFER];
    let mut line: Vec<u8> = Vec::new();
    loop {
        let length = output.read(&mut buffer).await.unwrap_or(0);
        if length == 0 {
            let _ = send_on(&mut line, &said).await;
            return Over::Closed;
        }
        let mut rest = &buffer[..length];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            if send_on(&mut line, &said).await.is_err() {
                return Over::Unheard;
            }
        }
        line.extend_from_slice(rest);
        if line.len() > MESSAGE_CAP {
            return Over::TooLong;
        }
        if is_whole(&line) && send_on(&mut line, &said).await.is_err() {
            return Over::Unheard;
        }
    }
}

async fn send_on(
    line: &mut Vec<u8>,
    said: &mpsc::Sender<String>,
) -> Result<(), mpsc::error::SendError<String>> {
    let text = String::from_utf8_lossy(line).trim().to_owned();
    line.clear();
    if text.is_empty() { Ok(()) } else { said.send(text).await }
}

/// Returns whether a line without an end is a whole message already.
fn is_whole(line: &[u8]) -> bool {
    line.len() <= ENDLESS_CAP
        && line.starts_with(b"{")
        && line.ends_with(b"}")
        && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Reads what a server writes to its own log, and returns the end of it.
async fn hear(mut errors: impl AsyncRead + Unpin) -> String {
    let mut buffer = vec![0; BUFFER];
    let mut last: VecDeque<u8> = VecDeque::new();
    loop {
        let length = errors.read(&mut buffer).await.unwrap_or(0);
        if length == 0 {
            let last: Vec<u8> = last.into();
            let text = String::from_utf8_lossy(&last);
            let lines: Vec<&str> =
                text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
            return lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
        }
        let piece = &buffer[..length];
        tracing::debug!(target: "tine::mcp", "{}", String::from_utf8_lossy(piece).trim_end());
        last.extend(&piece[length.saturating_sub(WORDS_CAP)..]);
        last.drain(..last.len().saturating_sub(WORDS_CAP));
    }
}

/// Most lines of its last words: the message of an error, and where it was.
const LAST_LINES: usize = 3;

/// A process group; killed when dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // The only error is that nobody is left.
            let _ = killpg(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_is_read_with_and_without_its_end() {
        let (mut near, far) = tokio::io::duplex(1024);
        let (said, mut heard) = mpsc::channel(8);
        let reading = tokio::spawn(read(far, said));
        for (written, expected) in [
            ("{\"id\":1}\r\n\n", "{\"id\":1}"),
            ("{\"id\":2,\"a\":{\"b\":3}}", "{\"id\":2,\"a\":{\"b\":3}}"),
            ("\n{\"id\":", ""),
            ("4}", "{\"id\":4}"),
            ("\nthe last words", ""),
        ] {
            near.write_all(written.as_bytes()).await.unwrap();
            if !expected.is_empty() {
                assert_eq!(heard.recv().await.as_deref(), Some(expected));
            }
        }
        drop(near);
        assert_eq!(heard.recv().await.as_deref(), Some("the last words"));
        assert!(matches!(reading.await, Ok(Over::Closed)));
    }
}
