//! A hook's command: JSON in, what it prints out, within its limits.
//!
//! It leads a process group that never outlives it, nor the wish to have it run:
//! when the command ends, on a cancel or past its time the whole group is asked
//! to end, and killed soon after; it is killed too when whoever waits is dropped.
//! What leaves the group, as `setsid` does, ends with tine.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::reaper;

/// Most bytes of what a hook prints that are kept, of either side. What it has
/// to say is far shorter. The rest is read and thrown away: how a hook ends
/// still counts.
pub const OUTPUT_CAP: usize = 1024 * 1024;

/// How long a group that was asked to end may take before it is killed.
const TERM_PATIENCE: Duration = Duration::from_millis(200);

/// How often a group that was asked to end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long a killed process may take to be gone. Only one that hangs in the
/// kernel takes long, and for that nobody should wait.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// How long output is awaited after the command has ended while something it
/// started still holds its pipes.
const GRACE: Duration = Duration::from_millis(300);

/// How much is read at a time.
const BUFFER: usize = 16 * 1024;

/// A command that is to run.
#[derive(Debug)]
pub(super) struct Order {
    /// The program and its arguments; at least one word.
    pub(super) words: Vec<String>,
    pub(super) directory: PathBuf,
    pub(super) variables: Vec<(OsString, OsString)>,
}

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself, or by a signal that we have not sent. What was printed is cut
    /// a byte past its cap.
    Exited { status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8> },
    /// It ran too long. `stdout` is what it had printed, cut like that of a command that
    /// ended.
    TimedOut { stdout: Vec<u8> },
    /// It was cancelled.
    Cancelled,
    /// It never ran.
    NotStarted(io::Error),
}

impl Ended {
    /// Returns whether all that was printed is part of the hook's input, so that a model or
    /// a tool may have written it.
    pub(super) fn repeats(&self, input: &Value) -> bool {
        let Self::Exited { status: _, stdout, stderr: _ } = self else { return false };
        let printed = String::from_utf8_lossy(stdout);
        let escaped = Value::from(printed.trim()).to_string();
        // Without the quotes around it.
        printed.contains('{') && input.to_string().contains(&escaped[1..escaped.len() - 1])
    }
}

/// Runs a command to its end. When this returns, nothing of its group still
/// runs but what hangs in the kernel.
pub(super) async fn run(
    order: &Order,
    input: Vec<u8>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Ended {
    let (mut child, mut group) = match start(order) {
        Ok(started) => started,
        Err(error) => return Ended::NotStarted(error),
    };
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let status = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        status = timeout(limit, follow(&mut child, input, &mut stdout, &mut stderr)) => {
            Some(status)
        }
    };
    let ended = match status {
        None => Ended::Cancelled,
        Some(Err(_)) => Ended::TimedOut { stdout },
        Some(Ok(Ok(status))) => Ended::Exited { status, stdout, stderr },
        Some(Ok(Err(error))) => Ended::NotStarted(error),
    };
    // Also of one that ended by itself: a name that a group still has is given
    // to nobody else, and one that it has no more is not likely to be already.
    group.end(&mut child).await;
    ended
}

fn start(order: &Order) -> io::Result<(Child, Group)> {
    let (program, arguments) = order.words.split_first().expect("a command has a name");
    reaper::start();
    let child = Command::new(program)
        .args(arguments)
        .current_dir(&order.directory)
        .env_clear()
        .envs(order.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let id = Pid::from_raw(id.expect("a child that was not waited for has an id"));
    Ok((child, Group { id, is_over: false }))
}

/// Hands over the input and takes the output until the command has ended.
async fn follow(
    child: &mut Child,
    input: Vec<u8>,
    said: &mut Vec<u8>,
    complained: &mut Vec<u8>,
) -> io::Result<ExitStatus> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let talking = async {
        tokio::join!(hand_over(stdin, input), read_all(stdout, said), read_all(stderr, complained),)
    };
    let mut talking = std::pin::pin!(talking);
    tokio::select! {
        _ = &mut talking => child.wait().await,
        status = child.wait() => {
            // Another process may hold its pipes.
            let _ = timeout(GRACE, &mut talking).await;
            status
        }
    }
}

async fn hand_over(stdin: Option<ChildStdin>, input: Vec<u8>) {
    let Some(mut stdin) = stdin else { return };
    // A hook need not read what it is told.
    let _ = stdin.write_all(&input).await;
}

/// Reads to the end, and keeps as much as shows whether it was too much.
async fn read_all(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; BUFFER];
    loop {
        // What cannot be read any more has ended.
        let length = from.read(&mut buffer).await.unwrap_or(0);
        if length == 0 {
            return;
        }
        let room = OUTPUT_CAP + 1 - to.len();
        to.extend_from_slice(&buffer[..length.min(room)]);
    }
}

/// A process group; killed when dropped, unless it was ended.
#[derive(Debug)]
struct Group {
    id: Pid,
    is_over: bool,
}

impl Group {
    /// Ends the group: politely, then by force.
    async fn end(&mut self, child: &mut Child) {
        self.signal(Signal::SIGTERM);
        let gone = async {
            let mut look = interval(LOOK);
            loop {
                look.tick().await;
                // It belongs to the group until it is waited for; how it ended
                // no longer matters.
                let _ = child.try_wait();
                if killpg(self.id, None) == Err(Errno::ESRCH) {
                    return;
                }
            }
        };
        // What has not gone by then is killed.
        if timeout(TERM_PATIENCE, gone).await.is_err() {
            self.signal(Signal::SIGKILL);
            let _ = timeout(KILL_PATIENCE, child.wait()).await;
        }
        self.is_over = true;
    }

    fn signal(&self, signal: Signal) {
        // The only error is that nobody is left.
        let _ = killpg(self.id, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::SIGKILL);
        }
    }
}
