//! A shell and all it starts: one session and its process group, one pipe for its output.
//!
//! The session has no terminal: no command reads what the user types or writes to the
//! screen behind tine's back. Cancellation, a timeout, too much output, or dropping the
//! watching future ends the group and all descendants that have left it for another session.
//! If a command exits by itself and is confined, its background processes end, too, because
//! the model could not end them; otherwise they keep running, and the output names them. The
//! sandbox does the confining.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::event::Backend;
use crate::guard::Script;
use crate::guard::sandbox::{
    Awaited, Handover, Held, Namespace, NotPrepared, Place, Prepared, Ready, Tampered,
};
use crate::guard::shell::Machine;
use crate::tool::blocking::to_the_end;
use crate::tool::{Granted, Workspace};

use super::capture::Capture;
use super::descendants::{CommandMark, Descendant};
use super::waited::UserWaitTime;

/// How long a group that was asked to end may take before it is killed.
const TERM_PATIENCE: Duration = Duration::from_millis(200);

/// How often a group that was asked to end is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// How long a killed shell may take to be gone. Only one that hangs in the
/// kernel takes long, and for that nobody should wait.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// How long bubblewrap may take to say what it has started. It takes a
/// millisecond.
const NEWS_PATIENCE: Duration = Duration::from_secs(2);

/// Maximum rounds of killing processes that have left the group. A process that starts
/// another one during a round makes another round necessary.
const KILL_ROUNDS: usize = 20;

/// Number of consecutive rounds without a process after which all count as gone. One round
/// can miss a process that starts another one and exits while the table is read.
const EMPTY_ROUNDS: usize = 3;

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
        /// Who says how it ended.
        how: How,
    },
    /// It ran too long and was ended.
    TimedOut,
    /// It printed too much and was ended.
    TooMuch,
    /// It was cancelled and is ended.
    Cancelled,
}

/// The end of a command, and the processes that it left.
#[derive(Debug)]
pub(super) struct CommandResult {
    pub(super) ending: Ending,
    /// Processes that it started and that still run.
    pub(super) running: Vec<Descendant>,
}

/// Who says how a shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// The kernel.
    Itself,
    /// A process that stands between, which passes it on as a number.
    Through,
}

/// Why a command did not start.
#[derive(Debug, Error)]
pub(super) enum NotStarted {
    /// It could not be kept in bounds.
    #[error(transparent)]
    NotPrepared(#[from] NotPrepared),
    /// The system would not start it.
    #[error(transparent)]
    Refused(#[from] io::Error),
}

/// A command that runs.
#[derive(Debug)]
pub(super) struct Process {
    /// Dropped first: while the shell lives, its children are known as such.
    group: Group,
    child: Awaited,
    /// What is around it, if it is confined.
    bounds: Option<Bounds>,
    /// `None` once nobody holds the other end.
    output: Option<ChildStdout>,
    buffer: Vec<u8>,
}

/// What is around a confined command.
#[derive(Debug)]
struct Bounds {
    held: Held,
    /// Where bubblewrap tells of the namespace, until it is read.
    news: Option<ChildStdout>,
    namespace: Option<Arc<Namespace>>,
    is_bwrap: bool,
}

impl Process {
    /// Starts a command in `bash`, or in `sh` where there is no `bash`; or what
    /// is to run in its stead.
    pub(super) fn start(
        workspace: &Workspace,
        call: &Granted,
        command: &str,
    ) -> Result<Self, NotStarted> {
        let confinement = call.confinement;
        let script = call.script.as_ref().map_or(command, |script| &script.text);
        let roots: Vec<PathBuf> =
            std::iter::once(&workspace.root).chain(&workspace.added).cloned().collect();
        let place = Place { directory: &workspace.root, roots: &roots, bounds: &call.bounds };
        // The dashes end the shell's own options: a command may begin with one.
        let program = [workspace.sandbox.shell(), "-c", "--", script].map(OsString::from);
        let Prepared { mut ready, mut held } =
            workspace.sandbox.prepare(confinement, &place, &program)?;
        if let Some(Script { text: _, machine }) = &call.script {
            narrow(&mut ready, machine);
        }
        // Whatever is in bubblewrap has a namespace, which ends as a whole.
        let mark = (confinement.backend != Backend::Bwrap).then(|| mark(&mut ready));
        let (reader, writer) = io::pipe()?;
        let null = File::open("/dev/null")?;
        // One pipe for both, so that they arrive in the order of writing.
        let streams = [null.as_fd(), writer.as_fd(), writer.as_fd()];
        let running = ready.leading_a_session().start(streams)?;
        let mark = mark.map(|mark| CommandMark::of(mark, running.id()));
        let group = Group { id: running.id(), mark, released: false };
        let child = Awaited::new(running)?;
        let bounds = match confinement.backend {
            Backend::None => None,
            backend @ (Backend::Bwrap | Backend::Landlock) => {
                let news = held.take_news().map(readable).transpose()?;
                let is_bwrap = backend == Backend::Bwrap;
                Some(Bounds { held, news, namespace: None, is_bwrap })
            }
        };
        let output = Some(readable(reader)?);
        Ok(Self { child, group, bounds, output, buffer: vec![0; BUFFER] })
    }

    /// Returns where the listener of the command's proxy comes from, if it gets one.
    pub(super) fn take_handover(&mut self) -> Option<Handover> {
        self.bounds.as_mut()?.held.take_handover()
    }

    /// Clears up after a command that has ended, and returns what it changed
    /// although it must not.
    pub(super) async fn finish(self) -> Vec<Tampered> {
        let Some(bounds) = self.bounds else { return Vec::new() };
        to_the_end(move || {
            if let Some(namespace) = bounds.namespace {
                // What hangs in the kernel does nothing more.
                let _ = namespace.is_gone_within(KILL_PATIENCE);
            }
            bounds.held.finish()
        })
        .await
    }

    /// Takes the output until the command ends or has to be ended.
    ///
    /// When this returns, nothing that was to be ended still runs, but for processes
    /// that cannot be ended.
    pub(super) async fn watch(
        &mut self,
        (limit, waited): (Duration, &UserWaitTime),
        cancel: &CancellationToken,
        capture: &mut Capture<'_>,
    ) -> io::Result<CommandResult> {
        if let Some(bounds) = &mut self.bounds {
            bounds.learn().await;
        }
        let ending = self.follow((limit, waited), cancel, capture).await?;
        match ending {
            Ending::Exited { .. } => {
                if self.bounds.is_some() {
                    self.group.signal(Signal::SIGKILL);
                    self.group.kill_detached().await;
                }
            }
            Ending::TimedOut | Ending::TooMuch | Ending::Cancelled => self.end(capture).await,
        }
        let running = self.group.descendants().await;
        self.group.release();
        Ok(CommandResult { ending, running })
    }

    async fn follow(
        &mut self,
        (limit, waited): (Duration, &UserWaitTime),
        cancel: &CancellationToken,
        capture: &mut Capture<'_>,
    ) -> io::Result<Ending> {
        let mut status = None;
        let how = match &self.bounds {
            Some(Bounds { is_bwrap: true, .. }) => How::Through,
            Some(Bounds { is_bwrap: false, .. }) | None => How::Itself,
        };
        let mut over = std::pin::pin!(sleep(limit));
        loop {
            if let (Some(status), None) = (status, &self.output) {
                return Ok(Ending::Exited { status, left_behind: None, how });
            }
            tokio::select! {
                // Output comes last: a flood of it must not hold up the rest.
                biased;
                () = cancel.cancelled() => return Ok(Ending::Cancelled),
                () = &mut over => return Ok(match status {
                    None => match waited.extension() {
                        Some(extension) => {
                            over.set(sleep(extension));
                            continue;
                        }
                        None => Ending::TimedOut,
                    },
                    Some(status) => Ending::Exited {
                        status,
                        // A confined one is ended with its shell.
                        left_behind: match &self.bounds {
                            Some(_) => None,
                            None => Some(self.group.id.as_raw()),
                        },
                        how,
                    },
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

    /// Ends the group and what has left it: politely, then by force.
    async fn end(&mut self, capture: &mut Capture<'_>) {
        // All of them: any may leave the group or lose its parent while the group is ended.
        let descendants = self.group.descendants().await;
        self.group.detached_of(&descendants).for_each(|process| process.signal(Signal::SIGTERM));
        let namespace = self.bounds.as_ref().and_then(|bounds| bounds.namespace.clone());
        match &namespace {
            // The process that stands between passes no signal on, and would
            // end them all without a chance to clean up.
            Some(namespace) => namespace.signal(Signal::SIGTERM),
            None => self.group.signal(Signal::SIGTERM),
        }
        let mut patience = std::pin::pin!(sleep(TERM_PATIENCE));
        let mut look = interval(LOOK);
        loop {
            tokio::select! {
                biased;
                () = &mut patience => break,
                _ = look.tick() => {
                    // The shell belongs to the group until it is waited for;
                    // how it ended no longer matters.
                    let _ = self.child.get_mut().try_wait();
                    let is_gone =
                        |namespace: &Arc<Namespace>| namespace.is_gone_within(Duration::ZERO);
                    let is_rest_gone = !descendants.iter().any(Descendant::is_alive);
                    if self.group.is_gone() && namespace.as_ref().is_none_or(is_gone) && is_rest_gone {
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
        if let Some(namespace) = &namespace {
            namespace.signal(Signal::SIGKILL);
        }
        self.group.signal(Signal::SIGKILL);
        descendants.iter().for_each(|process| process.signal(Signal::SIGKILL));
        self.group.kill_detached().await;
        let _ = timeout(KILL_PATIENCE, self.child.wait()).await;
    }
}

impl Bounds {
    /// Learns which processes there are inside. bubblewrap says it before it
    /// does anything else, or ends.
    async fn learn(&mut self) {
        let Some(mut news) = self.news.take() else { return };
        let mut said = String::new();
        let reading = news.read_to_string(&mut said);
        if let Ok(Ok(_)) = timeout(NEWS_PATIENCE, reading).await {
            // One that has ended already needs no watching.
            self.namespace = Namespace::from_news(&said).ok().map(Arc::new);
        }
    }
}

/// Marks a command and its environment, and returns the mark.
fn mark(ready: &mut Ready) -> String {
    let mark = CommandMark::text();
    let mut variables = ready.variables().to_vec();
    CommandMark::add_to(&mark, &mut variables);
    ready.set_variables(variables);
    ready.mark_as_command();
    mark
}

/// Leaves a command what the gate knows to be harmless of its environment, and
/// where its temporary files are.
fn narrow(ready: &mut Ready, machine: &Machine) {
    let given = ready.variables().to_vec();
    let temporary = given.iter().find(|(name, _)| name == "TMPDIR").cloned();
    ready.set_variables(temporary.into_iter().chain(machine.environment(given)));
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

/// A process group and what has left it; killed when dropped, unless it was released.
#[derive(Debug)]
struct Group {
    id: Pid,
    /// `None` if nothing can leave it.
    mark: Option<CommandMark>,
    released: bool,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // The only error is that nobody is left.
        let _ = killpg(self.id, signal);
    }

    fn is_gone(&self) -> bool {
        killpg(self.id, None) == Err(Errno::ESRCH)
    }

    /// Returns what runs in the group and outside of it, without the shell.
    async fn descendants(&self) -> Vec<Descendant> {
        match self.mark.clone() {
            // The table of processes is read on another thread: it may be long.
            Some(mark) => to_the_end(move || mark.descendants()).await,
            None => Vec::new(),
        }
    }

    /// Returns those that have left the group.
    fn detached_of<'a>(
        &self,
        descendants: &'a [Descendant],
    ) -> impl Iterator<Item = &'a Descendant> + use<'a> {
        let group = self.id.as_raw();
        descendants.iter().filter(move |process| process.group != group)
    }

    /// Kills what has left the group.
    async fn kill_detached(&self) {
        let mut empty = 0;
        for _ in 0..KILL_ROUNDS {
            let descendants = self.descendants().await;
            let mut detached = self.detached_of(&descendants).peekable();
            if detached.peek().is_some() {
                empty = 0;
                detached.for_each(|process| process.signal(Signal::SIGKILL));
                sleep(LOOK).await;
                continue;
            }
            empty += 1;
            if self.mark.is_none() || empty == EMPTY_ROUNDS {
                return;
            }
        }
    }

    fn release(&mut self) {
        self.released = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        let Some(mark) = &self.mark else { return self.signal(Signal::SIGKILL) };
        let mut empty = 0;
        // The first time before the shell is gone: its children are known as such. One of
        // them may have started another since.
        for _ in 0..KILL_ROUNDS {
            let descendants = mark.descendants();
            self.signal(Signal::SIGKILL);
            descendants.iter().for_each(|process| process.signal(Signal::SIGKILL));
            empty = if descendants.is_empty() { empty + 1 } else { 0 };
            if empty == EMPTY_ROUNDS {
                break;
            }
        }
    }
}
