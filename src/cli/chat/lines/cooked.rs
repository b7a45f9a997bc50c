//! The thread that serves a chat in lines, on a terminal as the shell left it:
//! the system edits and shows what is typed, and a whole line is read at once.
//!
//! Nothing is read but by this thread, so what was typed before a question was
//! put is never taken for its answer.

use std::io::{self, Stdin, Write as _};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use nix::unistd::read;
use tokio::sync::mpsc;

use super::Lines;
use crate::cli::chat::clock::Clock;
use crate::cli::chat::desk::{Seen, Step};
use crate::cli::chat::terminal::{SEEN_CAP, SessionNumber, ToTerminal};
use crate::cli::chat::tty::{self, FromTerminal};
use crate::config::{Bell, Environment};

/// Most bytes of a line: what a terminal takes.
const LINE_CAP: usize = 4_096;

/// How late the end of a program is noticed that has the terminal.
const MEANWHILE: Duration = Duration::from_millis(20);

/// What the thread is made of.
pub(in crate::cli::chat) struct Making {
    pub(in crate::cli::chat) lines: Lines,
    pub(in crate::cli::chat) environment: Environment,
    pub(in crate::cli::chat) bell: Bell,
    pub(in crate::cli::chat) inbox: Receiver<ToTerminal>,
    pub(in crate::cli::chat) sender: SyncSender<ToTerminal>,
    pub(in crate::cli::chat) steps: mpsc::Sender<(SessionNumber, Step)>,
}

/// Serves the terminal.
///
/// # Errors
///
/// If there is no thread to be had.
pub(in crate::cli::chat) fn start(making: Making) -> io::Result<JoinHandle<()>> {
    let Making { lines, environment, bell, inbox, sender, steps } = making;
    let stdin = io::stdin();
    let again = watch(sender)?;
    let cooked = Cooked {
        lines,
        stdin,
        environment,
        bell,
        inbox,
        steps,
        session: SessionNumber::default(),
        clock: Clock::start(),
        again,
        is_readable: false,
        is_away: false,
        is_over: false,
    };
    thread::Builder::new().name("lines".to_owned()).spawn(move || cooked.go())
}

/// Tells whenever a line can be read, and waits to be asked again. Tells once that the
/// terminal is gone on which lines appear.
fn watch(sender: SyncSender<ToTerminal>) -> io::Result<Sender<()>> {
    let (again, asked) = channel();
    let watching = move || {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        loop {
            let mut fds = [
                PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
                PollFd::new(stdout.as_fd(), PollFlags::empty()),
            ];
            while poll(&mut fds, PollTimeout::NONE) == Err(Errno::EINTR) {}
            let [stdin, stdout] = fds.map(|one| one.revents().unwrap_or(PollFlags::POLLERR));
            // What was typed before is read first.
            if stdin.is_empty() && !stdout.is_empty() {
                // Nobody may be there to hear it any more.
                let _ = sender.send(ToTerminal::Typed(FromTerminal::Gone));
                return;
            }
            if sender.send(ToTerminal::Readable).is_err() || asked.recv().is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("typed".to_owned()).spawn(watching)?;
    Ok(again)
}

struct Cooked {
    lines: Lines,
    stdin: Stdin,
    environment: Environment,
    bell: Bell,
    inbox: Receiver<ToTerminal>,
    steps: mpsc::Sender<(SessionNumber, Step)>,
    /// The session that is seen.
    session: SessionNumber,
    clock: Clock,
    /// Has the watch go on.
    again: Sender<()>,
    /// Whether it waits for that.
    is_readable: bool,
    is_away: bool,
    is_over: bool,
}

/// What was read.
enum Read {
    Some(String),
    Nothing,
    /// Ctrl-D at the beginning of a line.
    End,
    /// The terminal is gone.
    Gone,
}

impl Cooked {
    fn go(mut self) {
        while !self.is_over {
            let Ok(first) = self.inbox.recv() else { break };
            self.take(first);
            for _ in 0..SEEN_CAP {
                match self.inbox.try_recv() {
                    Ok(next) => self.take(next),
                    Err(_) => break,
                }
            }
            if self.settle().is_err() {
                // The signal that says so may come later, or never.
                self.tell(Step::Gone);
                return;
            }
        }
        self.lines.close();
        // The terminal may be gone; then nobody reads the end.
        let _ = self.write();
    }

    fn take(&mut self, next: ToTerminal) {
        match next {
            ToTerminal::Seen(seen) => {
                if let Seen::Began { .. } = seen {
                    self.session = self.session.next();
                }
                let steps = self.lines.see(seen);
                self.carry_out(steps);
            }
            ToTerminal::Readable => {
                self.is_readable = true;
                self.read_on();
            }
            ToTerminal::Interrupted => {
                let now = self.clock.now();
                let steps = self.lines.interrupt(now);
                self.carry_out(steps);
            }
            ToTerminal::Away(given) => {
                self.set_away(true);
                // The driver may have been told to end meanwhile.
                let _ = given.send(());
            }
            ToTerminal::Back => self.set_away(false),
            ToTerminal::Over => self.is_over = true,
            ToTerminal::Typed(FromTerminal::Gone) => self.tell(Step::Gone),
            // Of a screen.
            ToTerminal::Typed(FromTerminal::Typed(_)) | ToTerminal::Resized => {}
        }
    }

    fn set_away(&mut self, is_away: bool) {
        if is_away {
            self.lines.end_row();
            // A terminal that is gone is noticed by the next one who writes.
            let _ = self.write();
        }
        self.lines.set_away(is_away);
        self.is_away = is_away;
        self.read_on();
    }

    /// Reads a line, if there is one and it is ours, and has the watch go on.
    fn read_on(&mut self) {
        if !self.is_readable || self.is_away {
            return;
        }
        self.is_readable = false;
        if self.read().is_continue() {
            // It waits for nothing else.
            let _ = self.again.send(());
        }
    }

    /// Reads a line, if there is one. Breaks once there will be none any more.
    fn read(&mut self) -> ControlFlow<(), bool> {
        let steps = match read_line(&self.stdin) {
            Read::Nothing => return ControlFlow::Continue(false),
            Read::Some(line) => self.lines.typed(&line, self.clock.now()),
            Read::End => self.lines.end_of_input(),
            Read::Gone => {
                self.tell(Step::Gone);
                return ControlFlow::Break(());
            }
        };
        self.carry_out(steps);
        ControlFlow::Continue(true)
    }

    /// Puts the next question or prompt, and writes.
    fn settle(&mut self) -> io::Result<()> {
        while self.lines.is_about_to_ask() {
            match self.read() {
                ControlFlow::Continue(true) => {}
                ControlFlow::Continue(false) | ControlFlow::Break(()) => break,
            }
        }
        if self.lines.is_about_to_ask() {
            // Half a line that stands there is of something else. If the
            // terminal is gone nothing is typed either.
            let _ = tcflush(&self.stdin, FlushArg::TCIFLUSH);
        }
        self.lines.prompt(self.clock.now());
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let text = self.lines.take();
        if text.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Shell(line) => self.shell(&line),
                Step::Call(_) => match self.bell {
                    Bell::Off => {}
                    // Of a terminal that may be any the bell is all that is known.
                    Bell::Bell | Bell::Osc9 => self.lines.ring(),
                },
                Step::Tell(_)
                | Step::Invoke(_)
                | Step::News
                | Step::Command(..)
                | Step::Chosen(_)
                | Step::Gone
                | Step::Leave { .. } => self.tell(step),
                // Of a screen.
                Step::Edit(_) | Step::Suspend | Step::Gather | Step::Colour(_) | Step::Redraw => {}
            }
        }
    }

    fn tell(&mut self, step: Step) {
        // It takes them as fast as anybody can type; if it is gone, so are we.
        if self.steps.try_send((self.session, step)).is_err() {
            self.lines.say("error: too much at once; the last line is left out");
        }
    }

    /// Lets the shell have the terminal until it is done.
    fn shell(&mut self, line: &str) {
        self.set_away(true);
        let mut command = tty::shell(&self.environment, line);
        let ended = tty::lend(io::stdin(), &mut command, || {
            match self.inbox.recv_timeout(MEANWHILE) {
                // It was typed for the program that has the terminal.
                Ok(ToTerminal::Interrupted) | Err(_) => {}
                // It has the terminal already, in a way.
                Ok(ToTerminal::Away(given)) => drop(given.send(())),
                Ok(ToTerminal::Back) => {}
                Ok(next) => self.take(next),
            }
            if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.set_away(false);
        match ended {
            Ok(None) => {}
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => self.lines.say(&format!("it ended with {status}")),
            Err(error) => self.lines.say(&format!("error: {error}")),
        }
    }
}

/// Reads a line, if there is one: whoever reads a terminal gets one at a time.
fn read_line(stdin: &Stdin) -> Read {
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::ZERO) {
        Ok(0) | Err(Errno::EINTR) => return Read::Nothing,
        Ok(_) => {}
        Err(_) => return Read::Gone,
    }
    let events = fds[0].revents().unwrap_or(PollFlags::POLLERR);
    let mut line = vec![0; LINE_CAP];
    match read(stdin, &mut line) {
        Ok(0) if events == PollFlags::POLLIN => Read::End,
        Ok(count @ 1..) => Read::Some(String::from_utf8_lossy(&line[..count]).into_owned()),
        Err(Errno::EINTR | Errno::EAGAIN) => Read::Nothing,
        Ok(_) | Err(_) => Read::Gone,
    }
}
