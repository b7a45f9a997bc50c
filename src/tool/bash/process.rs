//! A shell and all it starts: one process group, one pipe for its output.
//!
//! The group never outlives the wish to have it run: it is ended on a cancel,
//! on a timeout, on too much output, and when whoever watches it is dropped.
//! Only what a command that ended by itself left in the background stays.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::tool::Workspace;

use super::capture::Capture;

/// How long a group that was asked to end may take before it is killed.
const TERM_PATIENCE: Duration = Duration::from_millis(200);

/// How often a group that was asked to end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long a killed shell may take to be gone. Only one that hangs in the
/// kernel takes long, and for that nobody should wait.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// How long output is awaited after the shell has ended while something it
/// started still holds the pipe: enough for the end of a pipeline, too short
/// to be noticed when a server was started.
const GRACE: Duration = Duration::from_millis(300);

/// How much is read at a time: what a pipe holds.
const BUFFER: usize = 64 * 1024;

/// How a command ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The shell ended by itself.
    Exited {
        status: ExitStatus,
        /// The group of the processes that still hold the output, if any do.
        left_behind: Option<i32>,
    },
    /// It ran too long and was ended.
    TimedOut,
    /// It printed too much and was ended.
    TooMuch,
    /// It was cancelled and is ended.
    Cancelled,
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Group,
    /// `None` once nobody holds the other end.
    output: Option<ChildStdout>,
    buffer: Vec<u8>,
}

impl Process {
    /// Starts a command in `bash`, or in `sh` where there is no `bash`.
    pub(super) fn start(workspace: &Workspace, command: &str) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let child = match spawn("bash", workspace, command, writer.try_clone()?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                spawn("sh", workspace, command, writer)?
            }
            started => started?,
        };
        let group = Group::led_by(&child);
        Ok(Self { child, group, output: Some(readable(reader)?), buffer: vec![0; BUFFER] })
    }

    /// Takes the output until the command ends or has to be ended.
    ///
    /// When this returns, nothing that was to be ended still runs.
    pub(super) async fn watch(
        &mut self,
        limit: Duration,
        cancel: &CancellationToken,
        capture: &mut Capture<'_>,
    ) -> io::Result<Ending> {
        let ending = self.follow(limit, cancel, capture).await?;
        match ending {
            Ending::Exited { .. } => self.group.release(),
            Ending::TimedOut | Ending::TooMuch | Ending::Cancelled => self.end(capture).await,
        }
        Ok(ending)
    }

    async fn follow(
        &mut self,
        limit: Duration,
        cancel: &CancellationToken,
        capture: &mut Capture<'_>,
    ) -> io::Result<Ending> {
        let mut status = None;
        let mut over = std::pin::pin!(sleep(limit));
        loop {
            if let (Some(status), None) = (status, &self.output) {
                return Ok(Ending::Exited { status, left_behind: None });
            }
            tokio::select! {
                // Output comes last: a flood of it must not hold up the rest.
                biased;
                () = cancel.cancelled() => return Ok(Ending::Cancelled),
                () = &mut over => return Ok(match status {
                    None => Ending::TimedOut,
                    Some(status) => {
                        Ending::Exited { status, left_behind: Some(self.group.id.as_raw()) }
                    }
                }),
                ended = self.child.wait(), if status.is_none() => {
                    status = Some(ended?);
                    over.set(sleep(GRACE));
                }
                read = read(&mut self.output, &mut self.buffer) => {
                    if !self.take(read?, capture) {
                        return Ok(Ending::TooMuch);
                    }
                }
            }
        }
    }

    /// Takes what was read; `false` if that was too much.
    fn take(&mut self, length: usize, capture: &mut Capture<'_>) -> bool {
        if length == 0 {
            self.output = None;
        }
        capture.push(&self.buffer[..length])
    }

    /// Ends the group: politely, then by force.
    async fn end(&mut self, capture: &mut Capture<'_>) {
        self.group.signal(Signal::SIGTERM);
        let mut patience = std::pin::pin!(sleep(TERM_PATIENCE));
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                biased;
                () = &mut patience => break,
                _ = look.tick() => {
                    // The shell belongs to the group until it is waited for;
                    // how it ended no longer matters.
                    let _ = self.child.try_wait();
                    if self.group.is_gone() {
                        break;
                    }
                }
                // Last words; and who hangs in a full pipe cannot end.
                read = read(&mut self.output, &mut self.buffer) => {
                    match read {
                        Ok(length) => { self.take(length, capture); }
                        Err(_) => self.output = None,
                    }
                }
            }
        }
        self.group.signal(Signal::SIGKILL);
        let _ = timeout(KILL_PATIENCE, self.child.wait()).await;
        self.group.release();
    }
}

fn spawn(
    shell: &str,
    workspace: &Workspace,
    command: &str,
    output: PipeWriter,
) -> io::Result<Child> {
    let mut builder = Command::new(shell);
    builder
        // The dashes end the shell's own options: a command may begin with one.
        .args(["-c", "--", command])
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        // One pipe for both, so that they arrive in the order of writing.
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .kill_on_drop(true);
    for name in &workspace.secret_variables {
        builder.env_remove(name);
    }
    builder.spawn()
}

/// Makes the pipe readable without a thread; tokio does that for a child's
/// output, and a pipe is a pipe.
fn readable(reader: PipeReader) -> io::Result<ChildStdout> {
    ChildStdout::from_std(std::process::ChildStdout::from(OwnedFd::from(reader)))
}

/// Reads a piece; 0 at the end. Never returns if the end was read before.
async fn read(output: &mut Option<ChildStdout>, buffer: &mut [u8]) -> io::Result<usize> {
    match output {
        Some(output) => output.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// A process group; killed when dropped, unless it was released.
#[derive(Debug)]
struct Group {
    id: Pid,
    released: bool,
}

impl Group {
    fn led_by(child: &Child) -> Self {
        let id = child.id().expect("a child that was not waited for has an id");
        let id = i32::try_from(id).expect("a process id fits its own type");
        Self { id: Pid::from_raw(id), released: false }
    }

    fn signal(&self, signal: Signal) {
        // The only error is that nobody is left.
        let _ = killpg(self.id, signal);
    }

    fn is_gone(&self) -> bool {
        killpg(self.id, None) == Err(Errno::ESRCH)
    }

    fn release(&mut self) {
        self.released = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.released {
            self.signal(Signal::SIGKILL);
        }
    }
}
