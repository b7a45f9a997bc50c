//! Starts a command within its bounds, and is there when it ends.
//!
//! What the kernel is told is made ready here, before there is a second
//! process; `child` is all that happens in that one. A command is ended and
//! waited for by its descriptor, which never names another one.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::{fmt, io};

use nix::libc::rlimit;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;

use super::child::{self, Duties, Order};
use super::network;
use crate::guard::SearchPath;
use crate::guard::shell::is_executable;
use crate::reaper;

/// A command with its bounds, which has not been started. Debug output shows
/// no variable: any may be a key.
pub struct Ready {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    directory: PathBuf,
    leads_session: bool,
    is_command: bool,
    duties: Duties,
    /// The way in which the program gets its variables.
    handover: VariablesBy,
    /// Directories that may not provide the program.
    workspace: Vec<PathBuf>,
}

/// The way in which a program gets the variables of the command.
///
/// A program that starts the command and is itself unconfined must not load libraries that the
/// command's `LD_LIBRARY_PATH` or `LD_PRELOAD` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VariablesBy {
    /// As its environment: it is the command.
    Environment,
    /// As options of bubblewrap, which it reads from a descriptor.
    BubblewrapOptions,
    /// From a descriptor, of which its first two arguments tell.
    Starter,
}

/// Standard input, output and error, in this order.
pub type Streams<'a> = [BorrowedFd<'a>; 3];

impl Ready {
    /// The program and its arguments, in an empty environment.
    pub(super) fn new(words: &[OsString], directory: &Path, duties: Duties) -> Self {
        let (program, arguments) = words.split_first().expect("a command has a name");
        Self {
            program: program.clone(),
            arguments: arguments.to_owned(),
            variables: Vec::new(),
            directory: directory.to_owned(),
            leads_session: false,
            is_command: false,
            duties,
            handover: VariablesBy::Environment,
            workspace: Vec::new(),
        }
    }

    /// Gives the variables to the program in another way.
    pub(super) fn with_variables_by(mut self, handover: VariablesBy) -> Self {
        self.handover = handover;
        self
    }

    /// Has the program looked for outside of the workspace: no sandbox bounds what an
    /// agent may have put there.
    pub(super) fn found_outside(mut self, workspace: &[PathBuf]) -> Self {
        self.workspace = workspace.to_owned();
        self
    }

    /// Returns its environment.
    #[must_use]
    pub fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    /// Gives it another environment.
    pub fn set_variables<T: Into<OsString>>(
        &mut self,
        variables: impl IntoIterator<Item = (T, T)>,
    ) {
        let owned = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.variables = owned.collect();
    }

    /// Has it lead a session of its own, and so a process group of its own. It cannot open
    /// tine's terminal as `/dev/tty`, to read from it or to write to it.
    #[must_use]
    pub fn leading_a_session(mut self) -> Self {
        self.leads_session = true;
        self
    }

    /// Has the reaper spare what it leaves in the background, if tine ends by itself.
    pub fn mark_as_command(&mut self) {
        self.is_command = true;
    }

    /// Starts it. The calling thread waits until the program runs, and must
    /// outlive it: the kernel ends the command with the thread that started it.
    ///
    /// # Errors
    ///
    /// There is no such program, or the system would not start it.
    pub fn start(mut self, streams: Streams<'_>) -> io::Result<Running> {
        self.hand_variables_over()?;
        let program = c_string(self.find()?.as_os_str())?;
        let words = std::iter::once(&self.program).chain(&self.arguments);
        let arguments = words.map(|word| c_string(word)).collect::<io::Result<Vec<_>>>()?;
        let variables = self.variables.iter().map(|(name, value)| {
            let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
            c_string(&OsString::from_vec(bytes))
        });
        let order = Order {
            program,
            arguments,
            variables: variables.collect::<io::Result<_>>()?,
            directory: c_string(self.directory.as_os_str())?,
            streams: streams.map(|stream| stream.as_raw_fd()),
            leads_session: self.leads_session,
            limit: self
                .is_command
                .then(reaper::command_limits)
                .flatten()
                .map(|reaper::Limits { soft, hard }| rlimit { rlim_cur: soft, rlim_max: hard }),
            duties: self.duties,
        };
        reaper::start();
        let (id, descriptor) = child::start(&order)?;
        let id = Pid::from_raw(id);
        Ok(Running { id, leads_session: order.leads_session, descriptor, status: None })
    }

    /// Puts the variables into a file of memory if the program does not get them as its environment.
    fn hand_variables_over(&mut self) -> io::Result<()> {
        let (option, before, between): (_, &[u8], &[u8]) = match self.handover {
            VariablesBy::Environment => return Ok(()),
            VariablesBy::BubblewrapOptions => ("--args", b"--setenv\0", b"\0"),
            VariablesBy::Starter => (network::VARIABLES_OPTION, b"", b"="),
        };
        let mut file = File::from(memfd_create("tine-variables", MFdFlags::MFD_CLOEXEC)?);
        for (name, value) in std::mem::take(&mut self.variables) {
            let parts = [before, name.as_bytes(), between, value.as_bytes(), b"\0"];
            if name.as_bytes().contains(&0) || value.as_bytes().contains(&0) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            file.write_all(&parts.concat())?;
        }
        file.rewind()?;
        let number = file.as_raw_fd().to_string();
        self.arguments.splice(0..0, [option.into(), number.into()]);
        self.duties.handed_on.push(file.into());
        Ok(())
    }

    /// Finds the program as a shell would: on the `PATH` that it gets, but not in the
    /// workspace if that is left out.
    fn find(&self) -> io::Result<PathBuf> {
        if self.program.as_bytes().contains(&b'/') {
            return Ok(self.program.clone().into());
        }
        let path = self.variables.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or(OsStr::new(USUAL_PATH), |(_, path)| path);
        let directories = match &*self.workspace {
            [] => std::env::split_paths(path).collect(),
            workspace => SearchPath::split(path, workspace).outside,
        };
        let directories = directories.into_iter();
        directories
            .map(|directory| self.directory.join(directory).join(&self.program))
            .find(|file| is_executable(file))
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Where programs are looked for if nobody says where.
const USUAL_PATH: &str = "/bin:/usr/bin";

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::from)
}

/// A command that was started. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    id: Pid,
    leads_session: bool,
    /// Readable once it has ended.
    descriptor: OwnedFd,
    /// How it ended, once it was waited for.
    status: Option<ExitStatus>,
}

impl Running {
    /// Returns its process.
    #[must_use]
    pub fn id(&self) -> Pid {
        self.id
    }

    /// Sends it a signal, if it has not been waited for, and to its process group if it leads one.
    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have just ended; until it is waited for, its number is
            // nobody else's.
            let _ =
                if self.leads_session { killpg(self.id, signal) } else { kill(self.id, signal) };
        }
    }

    /// Returns how it ended, if it has.
    ///
    /// # Errors
    ///
    /// The system would not say.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.reap(WaitPidFlag::WNOHANG)
    }

    /// Waits until it has ended. Blocks the thread.
    ///
    /// # Errors
    ///
    /// The system would not say.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.reap(WaitPidFlag::empty())? {
                return Ok(status);
            }
        }
    }

    fn reap(&mut self, how: WaitPidFlag) -> io::Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let ended = loop {
            match waitid(Id::PIDFd(self.descriptor.as_fd()), how | WaitPidFlag::WEXITED) {
                Err(nix::errno::Errno::EINTR) => {}
                ended => break ended?,
            }
        };
        self.status = match ended {
            WaitStatus::Exited(_, code) => Some(ExitStatus::from_raw(code << 8)),
            WaitStatus::Signaled(_, signal, has_core) => {
                Some(ExitStatus::from_raw(signal as i32 | if has_core { 0x80 } else { 0 }))
            }
            WaitStatus::Stopped(..)
            | WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => None,
        };
        Ok(self.status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Ok(None) = self.try_wait()
            && let Ok(descriptor) = self.descriptor.try_clone()
        {
            // Soon, but not at once; and nobody else would. Without a thread it
            // stays as a line in the table of processes.
            let _ = std::thread::Builder::new()
                .spawn(move || waitid(Id::PIDFd(descriptor.as_fd()), WaitPidFlag::WEXITED));
        }
    }
}

/// A command that was started, for tasks to wait for.
#[derive(Debug)]
pub struct Awaited {
    running: Running,
    ended: AsyncFd<OwnedFd>,
}

impl Awaited {
    /// Must be called within a runtime.
    ///
    /// # Errors
    ///
    /// The runtime cannot watch it.
    pub fn new(running: Running) -> io::Result<Self> {
        let ended = child::readable(running.descriptor.try_clone()?)?;
        Ok(Self { running, ended })
    }

    /// Returns the command itself.
    pub fn get_mut(&mut self) -> &mut Running {
        &mut self.running
    }

    /// Waits until it has ended. May be given up and called again.
    ///
    /// # Errors
    ///
    /// The system would not say.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.running.try_wait()? {
                return Ok(status);
            }
            self.ended.readable_mut().await?.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use super::*;

    fn ready(words: &[&str], directory: &Path) -> Ready {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        Ready::new(&words, directory, Duties::default())
    }

    /// Starts it with nothing to read; returns it and what it says.
    fn start(ready: Ready) -> io::Result<(Running, io::PipeReader)> {
        let null = File::open("/dev/null").unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let running = ready.start([null.as_fd(), writer.as_fd(), writer.as_fd()])?;
        Ok((running, reader))
    }

    #[track_caller]
    fn check(ready: Ready, expected: (&str, Option<i32>, Option<i32>)) {
        let (mut running, mut reader) = start(ready).unwrap();
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        let status = running.wait().unwrap();
        assert_eq!((said.as_str(), status.code(), status.signal()), expected);
        assert_eq!(running.try_wait().unwrap(), Some(status));
    }

    #[test]
    fn a_command_runs_where_it_should_with_what_it_is_given() {
        let place = tempfile::tempdir().unwrap();
        let script = "echo \"$1 $KEY $#\" >&2; cat marker; exit 7";
        std::fs::write(place.path().join("marker"), "here\n").unwrap();
        let mut ready = ready(&["sh", "-c", script, "sh", "a b", ""], place.path());
        ready.set_variables([("KEY", "value"), ("PATH", "/nowhere:/usr/bin:/bin")]);
        check(ready, ("a b value 2\nhere\n", Some(7), None));
    }

    #[test]
    fn what_starts_a_command_from_outside_its_bounds_has_none_of_its_variables() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        // Its arguments are the option and the descriptor.
        let script = "#!/bin/sh\ncat /proc/$$/environ; cat /proc/self/fd/$2";
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        for (by, expected) in [
            (VariablesBy::BubblewrapOptions, "--setenv\0KEY\0a b=c\0--setenv\0E\0\0"),
            (VariablesBy::Starter, "KEY=a b=c\0E=\0"),
        ] {
            let mut ready = ready(&[program.to_str().unwrap()], place.path());
            ready.set_variables([("KEY", "a b=c"), ("E", "")]);
            check(ready.with_variables_by(by), (expected, Some(0), None));
        }
    }

    #[test]
    fn a_command_that_a_signal_ended_says_which() {
        check(ready(&["/bin/sh", "-c", "kill -TERM $$"], Path::new("/")), ("", None, Some(15)));
    }

    #[test]
    fn no_signal_is_blocked_and_a_closed_pipe_ends_a_command() {
        let script = "grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f 2";
        let (mut running, mut reader) =
            start(ready(&["/bin/sh", "-c", script], Path::new("/"))).unwrap();
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert!(running.wait().unwrap().success());
        let [blocked, ignored] =
            [0, 1].map(|line| u64::from_str_radix(said.lines().nth(line).unwrap(), 16).unwrap());
        assert_eq!((blocked, ignored & 1 << (Signal::SIGPIPE as u32 - 1)), (0, 0));
    }

    #[test]
    fn nothing_of_ours_is_left_open_in_a_command() {
        let _open = File::open("/dev/null").unwrap();
        let script = "ls /proc/self/fd | wc -l";
        // Three, and the directory that `ls` reads.
        check(ready(&["/bin/sh", "-c", script], Path::new("/")), ("4\n", Some(0), None));
    }

    #[test]
    fn what_cannot_be_started_says_why_and_leaves_no_process() {
        let refused = |words: &[&str], directory| {
            start(ready(words, Path::new(directory))).map(drop).unwrap_err().kind()
        };
        assert_eq!(refused(&["no-such-program"], "/"), io::ErrorKind::NotFound);
        assert_eq!(refused(&["/no/such/program"], "/"), io::ErrorKind::NotFound);
        assert_eq!(refused(&["/etc/passwd"], "/"), io::ErrorKind::PermissionDenied);
        assert_eq!(refused(&["/bin/true"], "/no/such/place"), io::ErrorKind::NotFound);
        assert_eq!(refused(&["/bin/true", "a\0b"], "/"), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_command_that_is_dropped_is_gone_and_nobody_waits_for_it() {
        let (running, mut reader) =
            start(ready(&["/bin/cat", "/dev/zero"], Path::new("/"))).unwrap();
        let descriptor = running.descriptor.try_clone().unwrap();
        drop(running);
        // Only its end closes the pipe.
        io::copy(&mut reader, &mut io::sink()).unwrap();
        loop {
            let gone =
                waitid(Id::PIDFd(descriptor.as_fd()), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
            match gone {
                Err(nix::errno::Errno::ECHILD) => break,
                Ok(_) | Err(_) => std::thread::yield_now(),
            }
        }
    }

    #[tokio::test]
    async fn a_task_waits_for_a_command() {
        let (running, _reader) =
            start(ready(&["/bin/sh", "-c", "exit 3"], Path::new("/"))).unwrap();
        let mut awaited = Awaited::new(running).unwrap();
        assert_eq!(awaited.wait().await.unwrap().code(), Some(3));
        assert_eq!(awaited.wait().await.unwrap().code(), Some(3));
    }
}
