//! Somebody at a terminal: a pseudo-terminal with the binary on it, what is
//! typed, and what the screen shows of it.
//!
//! Where frames are drawn, what is waited for is looked for at their ends only:
//! so no test ever sees half of one.

use std::fs::File;
use std::io::{PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Instant;

use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, tcgetpgrp};

use super::picture::picture;
use super::screen::{Reflow, Screen, Size, Writer};
use super::tine::{HANG_LIMIT, Tine};

/// The terminal of a single run.
pub(crate) const USUAL: Size = Size { columns: 100, rows: 30 };

/// Where standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardOutput {
    /// To the same terminal.
    Terminal,
    /// To a pipe.
    Pipe,
    /// To a terminal at which nothing is typed. It hangs up once it is left
    /// unread.
    OtherTerminal,
}

/// A process on a terminal. It is killed when this value goes.
pub(crate) struct Sitting {
    child: Child,
    /// What is written here is as if it was typed; `None` once it hung up.
    keys: Option<File>,
    written: Receiver<Vec<u8>>,
    reader: Option<Reader>,
    /// How the terminal was set before anything ran on it.
    pub(crate) before: Termios,
    /// What came behind the frame that the screen shows.
    rest: Vec<u8>,
    /// Everything that came, with its control sequences.
    pub(crate) raw: Vec<u8>,
    pub(crate) screen: Screen,
}

impl Sitting {
    /// Starts a chat on a terminal of its own.
    pub(crate) fn start(tine: Tine, size: Size) -> Self {
        Self::on(owning(tine), size, Writer::Chat, StandardOutput::Terminal)
    }

    /// Starts a chat that is seen on another terminal than it is typed at.
    pub(crate) fn apart(tine: Tine, size: Size) -> Self {
        Self::on(owning(tine), size, Writer::Chat, StandardOutput::OtherTerminal)
    }

    /// Starts a run with its standard error on a terminal.
    pub(crate) fn watch(tine: Tine, stdout: StandardOutput) -> Self {
        Self::on(tine, USUAL, Writer::Progress, stdout)
    }

    /// Starts a run as a shell does it: the terminal is the process's own, so
    /// that it may be read from, and so that keys are signals.
    pub(crate) fn answer(tine: Tine, stdout: StandardOutput) -> Self {
        Self::on(owning(tine), USUAL, Writer::Progress, stdout)
    }

    fn on(tine: Tine, size: Size, writer: Writer, stdout: StandardOutput) -> Self {
        let OpenptyResult { master, slave } = pty(size);
        let before = tcgetattr(&slave).expect("it is a terminal");
        let mut command = tine.into_command();
        command.stdin(copy(&slave)).stderr(copy(&slave));
        let seen = match stdout {
            StandardOutput::Terminal => {
                command.stdout(slave);
                copy(&master)
            }
            StandardOutput::Pipe => {
                command.stdout(Stdio::piped());
                copy(&master)
            }
            StandardOutput::OtherTerminal => {
                let other = pty(size);
                command.stdout(other.slave);
                other.master
            }
        };
        let child = command.spawn().expect("cargo has built the binary");
        // The terminal ends only when nobody holds its other side.
        drop(command);
        let (rest, raw, screen) = (Vec::new(), Vec::new(), Screen::new(size, writer));
        let (reader, written) = read(seen);
        let (keys, reader) = (Some(File::from(master)), Some(reader));
        Self { child, keys, written, reader, before, rest, raw, screen }
    }

    fn terminal(&self) -> &File {
        self.keys.as_ref().expect("it has not hung up")
    }

    /// Types something.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.terminal().write_all(keys.as_bytes()).expect("the terminal takes a few keys");
    }

    /// Pastes a text, as a terminal does it that was asked to mark pastes.
    pub(crate) fn paste(&mut self, text: &str) {
        assert!(self.screen.marks_pastes(), "a paste would be typed");
        let bytes = format!("\u{1b}[200~{}\u{1b}[201~", text.replace('\n', "\r"));
        let mut keys = self.terminal().try_clone().expect("a descriptor can be copied");
        // A terminal takes 4 kB and waits for whoever reads it, who may wait for
        // us to read what it draws.
        std::thread::spawn(move || drop(keys.write_all(bytes.as_bytes())));
    }

    /// Gives the terminal another size, and tells the process. What was written
    /// before is shown first, as far as it has come.
    pub(crate) fn resize(&mut self, size: Size, reflow: Reflow) {
        while let Ok(bytes) = self.written.try_recv() {
            self.raw.extend_from_slice(&bytes);
            self.rest.extend(bytes);
        }
        while !self.rest.is_empty() {
            let taken = self.screen.take(&self.rest);
            self.rest.drain(..taken);
        }
        self.screen.resize(size, reflow);
        set_size(self.terminal(), size);
    }

    /// Tells whether there is a terminal still.
    pub(crate) fn has_terminal(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns how the terminal is set.
    pub(crate) fn settings(&self) -> Termios {
        tcgetattr(self.terminal()).expect("it is a terminal")
    }

    /// Sends a signal to the process whose terminal it is.
    pub(crate) fn signal(&self, signal: Signal) {
        let leader = tcgetpgrp(self.terminal()).expect("the terminal is somebody's");
        kill(leader, signal).expect("the process was not waited for");
    }

    /// Closes the terminal, as a window that is closed or a connection that
    /// breaks does.
    pub(crate) fn hang_up(&mut self) {
        self.keys = None;
        self.leave_unread();
    }

    /// Reads no more of what is written: once the terminal is full, whoever
    /// writes to it waits. The other terminal, of which that is all, hangs up.
    pub(crate) fn leave_unread(&mut self) {
        if let Some(Reader { stop, thread }) = self.reader.take() {
            drop(stop);
            thread.join().expect("it only reads");
        }
    }

    /// Waits for the end of a process whose terminal nobody reads; returns its
    /// code.
    pub(crate) fn wait_unread(&mut self) -> Option<i32> {
        self.leave_unread();
        let id = Pid::from_raw(i32::try_from(self.id()).expect("an id is small"));
        let (ended, end) = mpsc::channel::<()>();
        let watching = std::thread::spawn(move || {
            let hangs = end.recv_timeout(HANG_LIMIT) == Err(RecvTimeoutError::Timeout);
            assert!(!hangs || kill(id, Signal::SIGKILL).is_err(), "it hangs");
        });
        let code = self.child.wait().expect("a child can be waited for").code();
        drop(ended);
        watching.join().expect("it ends");
        code
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the screen shows this text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(|screen| screen.shown().iter().any(|row| row.contains(text)));
    }

    /// Waits until the screen shows what is wanted.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, shows: impl Fn(&Screen) -> bool) {
        let begun = Instant::now();
        while self.screen.is_in_frame() || !shows(&self.screen) {
            assert!(self.take(), "it ended without it:\n{}", self.screen.text());
            // A clock on the screen goes on whatever hangs.
            assert!(begun.elapsed() < HANG_LIMIT, "it never comes:\n{}", self.screen.text());
        }
    }

    /// Returns the screen as it is kept, the same in each run.
    pub(crate) fn snapshot(&self) -> String {
        picture(&self.screen)
    }

    /// Waits for the end; returns the exit code and what went to the pipe.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            // Little goes there, and only at the end.
            pipe.read_to_string(&mut stdout).expect("the answer is UTF-8");
        }
        while self.take() {}
        (self.child.wait().expect("a child can be waited for").code(), stdout)
    }

    /// Takes more output, up to the end of a frame; `false` at its end.
    #[track_caller]
    fn take(&mut self) -> bool {
        if self.rest.is_empty() {
            match self.written.recv_timeout(HANG_LIMIT) {
                Ok(bytes) => {
                    self.raw.extend_from_slice(&bytes);
                    self.rest = bytes;
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("it hangs after:\n{}", self.screen.text()),
            }
        }
        let taken = self.screen.take(&self.rest);
        self.rest.drain(..taken);
        true
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn owning(tine: Tine) -> Tine {
    tine.by("setsid", ["--ctty", "--wait"])
}

/// Opens a terminal that no process inherits: one that held it would never see
/// its own terminal end.
fn pty(size: Size) -> OpenptyResult {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).expect("the system has a pseudo-terminal to spare");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a new one can be used");
    let path = ptsname_r(&master).expect("it has a name");
    let slave = open(path.as_str(), flags, Mode::empty()).expect("nobody else has it");
    set_size(&slave, size);
    OpenptyResult { master: master.into(), slave }
}

fn set_size(terminal: impl AsFd, size: Size) {
    let Size { columns, rows } = size;
    let window =
        rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(terminal, window).expect("it is a terminal");
}

fn copy(side: &OwnedFd) -> OwnedFd {
    side.try_clone().expect("a descriptor can be copied")
}

/// The thread that reads a terminal.
struct Reader {
    /// Ends it when this goes.
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

/// Sends what is written, and hangs up at the end.
fn read(master: OwnedFd) -> (Reader, Receiver<Vec<u8>>) {
    let (sender, receiver) = mpsc::channel();
    let (stopped, stop) = std::io::pipe().expect("there is a pipe to spare");
    let mut master = File::from(master);
    let thread = std::thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let both = [stopped.as_fd(), master.as_fd()];
            let mut both = both.map(|one| PollFd::new(one, PollFlags::POLLIN));
            poll(&mut both, PollTimeout::NONE).expect("both are open");
            if both[0].any() == Some(true) {
                return;
            }
            // Linux reports an error once the other side is closed.
            let Ok(count @ 1..) = master.read(&mut buffer) else { return };
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    (Reader { stop, thread }, receiver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::tine::Place;

    /// A shell script on a terminal, in the place of the binary.
    fn script(place: &Place, script: &str) -> Sitting {
        let tine = place.tine([""; 0]).by("sh", ["-c", script]);
        Sitting::start(tine, Size { columns: 40, rows: 4 })
    }

    #[test]
    fn keys_pastes_and_sizes_reach_the_process_and_frames_come_back_whole() {
        let place = Place::new();
        let mut sitting = script(
            &place,
            "frame() { printf '\\033[?2026h\\r%s\\033[K\\033[?2026l' \"$1\"; }
             typed() { head -c $1 | tr '\\033\\r' '^;'; }
             stty raw -echo; printf '\\033[?2004h'; frame \"$(stty size)\"
             frame \"$(typed 2)\"; frame \"$(typed 15)\"
             typed 1 >/dev/null; frame \"$(stty size) after 3.25 s\"",
        );
        sitting.wait_for("4 40");
        sitting.keys("ab");
        sitting.wait_for("ab");
        sitting.paste("c\nd");
        sitting.wait_for("^[200~c;d^[201~");
        sitting.resize(Size { columns: 30, rows: 3 }, Reflow::Yes);
        sitting.keys("x");
        sitting.wait_for("3 30");
        insta::assert_snapshot!(sitting.snapshot(), @r"
        |3 30 after #s                 |
        |                              |
        |                              |
        cursor at row 0, column 17
        ");
        assert_eq!(sitting.wait(), (Some(0), String::new()));
    }
}
