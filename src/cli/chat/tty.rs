//! The terminal itself: raw mode and the way back from it, the thread that
//! reads it, and how another program gets it for a while.
//!
//! Whatever happens, the terminal is given back as it was: at the end, on a
//! panic, before a stop. Nothing is drawn here.

use std::io::{self, PipeReader, PipeWriter};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::termios::{
    SetArg, SpecialCharacterIndices, Termios, cfmakeraw, tcgetattr, tcsetattr,
};
use nix::unistd::{Pid, getpgrp, read, tcgetpgrp, write};

use super::decode::{Decoder, Typed};
use crate::cli::print;
use crate::cli::start::{whole_workspace, working_directory};
use crate::config::Environment;
use crate::guard::SearchPath;
use crate::reaper;
use crate::report::caught::catches_panics;
use crate::report::paint::Size;

/// Has pastes marked.
const BEGIN: &[u8] = b"\x1b[?2004h";

/// Ends a frame that was begun, and what else may be as nobody else wants it:
/// no breaks at the margin, no cursor, marked pastes, a colour.
const END: &[u8] = b"\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?2004l\x1b[m";

/// Most bytes that are read at once.
const READ_CAP: usize = 4 * 1024;

/// What is edited with where nothing else is named.
const EDITOR: &str = "vi";

/// What runs a line where nothing else is named.
const SHELL: &str = "/bin/sh";

/// How a terminal was before it was raw, while one is.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// Whether another program has the terminal.
static IS_LENT: AtomicBool = AtomicBool::new(false);

/// When the last one that had it gave it back.
static LENT_UNTIL: Mutex<Option<Instant>> = Mutex::new(None);

/// How late a signal may be heard that was typed for a program which it has
/// ended.
const ECHO: Duration = Duration::from_millis(500);

/// How long a program may take to end that is told to: an editor keeps what was
/// typed, and whoever ends us does not wait for more than some seconds.
const FAREWELL: Duration = Duration::from_secs(1);

struct Before {
    input: OwnedFd,
    output: OwnedFd,
    settings: Termios,
}

/// Returns how large a terminal is; what does not know it has 80 columns and 24
/// rows.
#[must_use]
pub fn size(terminal: impl AsFd) -> Size {
    match rustix::termios::tcgetwinsize(terminal) {
        Ok(window) if window.ws_col > 0 && window.ws_row > 0 => {
            Size { columns: window.ws_col, rows: window.ws_row }
        }
        Ok(_) | Err(_) => Size { columns: 80, rows: 24 },
    }
}

/// A terminal that gives each key as it is pressed, as long as this value
/// lives. There is one at a time.
#[derive(Debug)]
#[must_use = "the terminal is as it was once this is dropped"]
pub struct Raw {
    _private: (),
}

impl Raw {
    /// Makes a terminal raw.
    ///
    /// # Errors
    ///
    /// If it is no terminal, or none that this process may change.
    pub fn enter(input: impl AsFd, output: impl AsFd) -> io::Result<Self> {
        let input = input.as_fd().try_clone_to_owned()?;
        let output = output.as_fd().try_clone_to_owned()?;
        let settings = tcgetattr(&input)?;
        let mut raw = settings.clone();
        cfmakeraw(&mut raw);
        // A read never waits: `poll` does, which can be ended.
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        let mut before = before();
        tcsetattr(&input, SetArg::TCSANOW, &raw)?;
        let entered = write_all(&output, BEGIN);
        *before = Some(Before { input, output, settings });
        drop(before);
        // From here on dropping it puts everything back.
        let raw = Self { _private: () };
        entered.map(|()| raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back as it was, if it is raw.
fn restore() {
    put_back_after(|output| {
        // The terminal is gone: then there is nothing to put back.
        let _ = write_all(output, END);
    });
}

/// Puts back how a terminal takes keys that takes no words any more.
pub fn put_back() {
    put_back_after(|_| {});
}

fn put_back_after(end: impl FnOnce(&OwnedFd)) {
    let Some(Before { input, output, settings }) = before().take() else { return };
    end(&output);
    // A process in the background that changed it would be stopped; whoever is
    // in front has it as they want it by now.
    if tcgetpgrp(&input).is_ok_and(|group| group != getpgrp()) {
        return;
    }
    let _ = tcsetattr(&input, SetArg::TCSANOW, &settings);
}

/// Has a panic put the terminal back before it says anything. One of a unit is
/// that unit's failure and says nothing there; one that is caught is none.
pub fn restore_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if catches_panics() {
            tracing::error!("{panic}");
            return;
        }
        let thread = std::thread::current();
        if !thread.name().is_some_and(|name| name.starts_with(print::UNIT_THREADS)) {
            restore();
        }
        usual(panic);
    }));
}

fn before() -> MutexGuard<'static, Option<Before>> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_all(output: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(output, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What comes from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromTerminal {
    /// Somebody typed.
    Typed(Typed),
    /// Nobody will any more: the terminal is gone.
    Gone,
}

/// The thread that reads the terminal.
#[derive(Debug)]
#[must_use = "nothing is read once this is dropped"]
pub struct Keys {
    /// Ends the wait for a key when it goes.
    wait: Option<PipeWriter>,
    /// Held while it is read, so that whoever has it knows that it is not.
    may_read: Arc<Mutex<bool>>,
}

/// For whom was typed what came before the terminal was raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// For the chat: an Enter is one.
    Chat,
    /// For whoever had the terminal. What it left is text, and sends nothing.
    Other,
}

impl Keys {
    /// Reads a raw terminal until it is gone, or the one that is drawn on is,
    /// nobody hears or this value is dropped.
    ///
    /// # Errors
    ///
    /// If there is no thread or pipe to be had.
    pub fn read(
        input: impl AsFd,
        output: impl AsFd,
        ahead: Ahead,
        mut tell: impl FnMut(FromTerminal) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Self> {
        let input = input.as_fd().try_clone_to_owned()?;
        let output = output.as_fd().try_clone_to_owned()?;
        let (over, wait) = io::pipe()?;
        let may_read = Arc::new(Mutex::new(true));
        let allowed = Arc::clone(&may_read);
        let reading = move || {
            let decoder = Decoder::default();
            let mut reader = Reader { input, output, over, decoder, ahead: Some(ahead) };
            loop {
                let mut typed = Vec::new();
                let was_read = {
                    let allowed = allowed.lock().unwrap_or_else(PoisonError::into_inner);
                    if *allowed { reader.read(&mut typed) } else { Read::Over }
                };
                // Not while it is held: whoever hears may be waiting for that.
                let told = typed.into_iter().map(FromTerminal::Typed).try_for_each(&mut tell);
                match was_read {
                    Read::Some if told.is_continue() => {}
                    Read::Some | Read::Over => return,
                    Read::Gone => {
                        let _ = tell(FromTerminal::Gone);
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("keys".to_owned()).spawn(reading)?;
        Ok(Self { wait: Some(wait), may_read })
    }
}

impl Drop for Keys {
    /// Returns once nothing is read any more: what is typed from now on is
    /// another program's.
    fn drop(&mut self) {
        drop(self.wait.take());
        *self.may_read.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

enum Read {
    Some,
    /// Nothing is to be read any more.
    Over,
    Gone,
}

/// What reads a terminal, piece by piece.
struct Reader {
    input: OwnedFd,
    /// What is drawn on. It says when it is gone.
    output: OwnedFd,
    /// Ready once nothing is to be read any more.
    over: PipeReader,
    decoder: Decoder,
    /// For whom what is there was typed, while nothing was read yet.
    ahead: Option<Ahead>,
}

impl Reader {
    /// Waits for something to read, or for a silence that says what it was.
    fn read(&mut self, typed: &mut Vec<Typed>) -> Read {
        let wait = match self.decoder.wait() {
            _ if self.ahead.is_some() => PollTimeout::ZERO,
            Some(wait) => PollTimeout::try_from(wait).expect("a wait is some seconds"),
            None => PollTimeout::NONE,
        };
        let mut all = [
            PollFd::new(self.over.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.input.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.output.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut all, wait) {
            Ok(0) => {
                self.ahead = None;
                self.decoder.settle(typed);
                return Read::Some;
            }
            Ok(_) => {}
            Err(Errno::EINTR) => return Read::Some,
            Err(_) => return Read::Gone,
        }
        let [over, input_events, output] =
            all.map(|one| one.revents().unwrap_or(PollFlags::POLLERR));
        if !over.is_empty() {
            return Read::Over;
        }
        // What was typed before is read first.
        if input_events.is_empty() && !output.is_empty() {
            self.decoder.settle(typed);
            return Read::Gone;
        }
        let mut buffer = [0; READ_CAP];
        match read(&self.input, &mut buffer) {
            Ok(0) if input_events == PollFlags::POLLIN => Read::Some,
            Ok(count @ 1..) => {
                self.feed(&buffer[..count], typed);
                Read::Some
            }
            Err(Errno::EINTR | Errno::EAGAIN) => Read::Some,
            Ok(_) | Err(_) => {
                self.decoder.settle(typed);
                Read::Gone
            }
        }
    }

    fn feed(&mut self, bytes: &[u8], typed: &mut Vec<Typed>) {
        match self.ahead.take() {
            Some(ahead) => {
                let raw: Vec<u8> = bytes.iter().filter_map(|byte| as_raw(*byte, ahead)).collect();
                self.decoder.feed(&raw, typed);
            }
            None => self.decoder.feed(bytes, typed),
        }
    }
}

/// Returns what a raw terminal would have given. To Linux, Enter is a line feed
/// while lines are read, and an end of file that no reader took is a NUL from
/// then on (`__DISABLED_CHAR`, drivers/tty/n_tty.c).
fn as_raw(byte: u8, ahead: Ahead) -> Option<u8> {
    match (byte, ahead) {
        (b'\n', Ahead::Chat) => Some(b'\r'),
        (0, Ahead::Chat) => Some(b'\x04'),
        (0, Ahead::Other) => None,
        (byte, _) => Some(byte),
    }
}

/// Runs another program on the terminal, which is not raw and that nobody
/// reads. `meanwhile` is called until it ends; how long it takes is how late
/// that is noticed. If that breaks off, the program is told to end, and after
/// some time it is ended; `None` then.
///
/// # Errors
///
/// If it cannot be started or waited for.
pub fn lend(
    terminal: impl AsFd,
    command: &mut Command,
    mut meanwhile: impl FnMut() -> ControlFlow<()>,
) -> io::Result<Option<ExitStatus>> {
    let before = tcgetattr(&terminal);
    // Ctrl-Z stops that program, and us with it. It inherits what is let in.
    let mask = SigSet::thread_get_mask()?;
    stops().thread_unblock()?;
    IS_LENT.store(true, Ordering::SeqCst);
    reaper::start_for_user();
    let ended = command.spawn().and_then(|mut child| {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if meanwhile().is_break() {
                return end(&mut child, FAREWELL).map(|()| None);
            }
        }
    });
    *LENT_UNTIL.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    IS_LENT.store(false, Ordering::SeqCst);
    mask.thread_set_mask()?;
    has_waits(&terminal);
    has_waits(io::stdout());
    if let Ok(before) = before {
        // What was killed may have left it in any state. It may be gone.
        let _ = tcsetattr(&terminal, SetArg::TCSADRAIN, &before);
    }
    ended
}

/// Has whoever reads or writes a terminal wait for it, as it was before another
/// program had it: one that changed that and was killed has changed it for all.
fn has_waits(terminal: impl AsFd) {
    // One that is gone fails whoever uses it next.
    let flags = fcntl(&terminal, FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    if let Ok(flags) = flags.map(|flags| flags - OFlag::O_NONBLOCK) {
        let _ = fcntl(&terminal, FcntlArg::F_SETFL(flags));
    }
}

/// Ends a program as a terminal does that goes away. It must not go on reading
/// what is somebody else's terminal again: a shell that was about to wait may
/// have missed what it was told.
fn end(child: &mut Child, patience: Duration) -> io::Result<()> {
    let id = i32::try_from(child.id()).map_err(io::Error::other)?;
    kill(Pid::from_raw(id), Signal::SIGHUP)?;
    let told = Instant::now();
    while told.elapsed() < patience {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(patience / 100);
    }
    child.kill()?;
    child.wait().map(drop)
}

fn stops() -> SigSet {
    SigSet::from(Signal::SIGTSTP)
}

/// Has Ctrl-Z stop nothing before this thread, and those that it starts from
/// now on, say so.
///
/// # Errors
///
/// Never on any known system.
pub fn keep_stops() -> io::Result<()> {
    stops().thread_block().map_err(io::Error::from)
}

/// Tells whether another program has the terminal. An interrupt that is typed
/// then reaches us, too, and is meant for that program.
#[must_use]
pub fn is_lent() -> bool {
    IS_LENT.load(Ordering::SeqCst)
}

/// Tells whether another program has the terminal, or had it just now: a signal
/// that has ended it may be heard here later than its end is seen.
#[must_use]
pub fn was_lent() -> bool {
    let until = *LENT_UNTIL.lock().unwrap_or_else(PoisonError::into_inner);
    is_lent() || until.is_some_and(|until| until.elapsed() < ECHO)
}

/// Tells whether something was typed that nobody has read.
#[must_use]
pub fn has_input(terminal: impl AsFd) -> bool {
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(1..))
}

/// Stops this process and those of its job, as Ctrl-Z does, and returns when it
/// goes on. The terminal is not raw while it is stopped.
///
/// # Errors
///
/// If it cannot be stopped.
pub fn stop() -> io::Result<()> {
    kill(Pid::from_raw(0), Signal::SIGTSTP)?;
    // No other thread takes it; this one does before the call returns.
    stops().thread_unblock()?;
    keep_stops()
}

/// Returns what edits a file: `$VISUAL` or `$EDITOR`, which may have arguments.
#[must_use]
pub fn editor(environment: &Environment, file: &Path) -> Command {
    let editor = environment.editor.as_deref().unwrap_or(EDITOR);
    let mut command = Command::new(SHELL);
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("editor").arg(file);
    // It runs in no sandbox, and the user has not said where it is.
    if let (Some(path), Ok(root)) = (environment.inherited.path(), working_directory(environment)) {
        let search = SearchPath::split(path, &whole_workspace(&[root]));
        command.env("PATH", search.without_workspace());
    }
    command
}

/// Returns what runs a line that the user typed.
#[must_use]
pub fn shell(environment: &Environment, line: &str) -> Command {
    let shell = environment.shell.as_deref().unwrap_or(Path::new(SHELL));
    let mut command = Command::new(shell);
    command.arg("-c").arg(line);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::termios::LocalFlags;
    use std::sync::mpsc::{self, Receiver};

    /// Longer than anything here takes on any machine.
    const HANG_LIMIT: Duration = Duration::from_secs(30);

    fn letter(c: char) -> FromTerminal {
        FromTerminal::Typed(Typed::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)))
    }

    fn control(c: char) -> FromTerminal {
        FromTerminal::Typed(Typed::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)))
    }

    fn reading(input: &OwnedFd, ahead: Ahead) -> (Keys, Receiver<FromTerminal>) {
        reading_beside(input, input, ahead)
    }

    fn reading_beside(
        input: &OwnedFd,
        output: &OwnedFd,
        ahead: Ahead,
    ) -> (Keys, Receiver<FromTerminal>) {
        let (sender, receiver) = mpsc::channel();
        let tell = move |one| {
            sender.send(one).map_or(ControlFlow::Break(()), |()| ControlFlow::Continue(()))
        };
        (Keys::read(input, output, ahead, tell).unwrap(), receiver)
    }

    #[test]
    fn a_terminal_is_read_key_by_key_and_then_as_it_was() {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let before = tcgetattr(&slave).unwrap();
        let raw = Raw::enter(&slave, &slave).unwrap();
        assert!(!tcgetattr(&slave).unwrap().local_flags.contains(LocalFlags::ICANON));
        let (keys, typed) = reading(&slave, Ahead::Other);
        write(&master, b"a\x1b").unwrap();
        assert_eq!(typed.recv_timeout(HANG_LIMIT), Ok(letter('a')));
        let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
        let escape = FromTerminal::Typed(Typed::Key(escape));
        assert_eq!(typed.recv_timeout(HANG_LIMIT), Ok(escape), "after a silence");
        drop(keys);
        write(&master, b"bc").unwrap();
        let mut there = [PollFd::new(slave.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut there, PollTimeout::NONE), Ok(1));
        let mut buffer = [0; 1];
        // What is typed from now on is another program's.
        assert_eq!((read(&slave, &mut buffer), &buffer), (Ok(1), b"b"));
        assert!(typed.recv_timeout(HANG_LIMIT).is_err(), "nobody reads it any more");
        let (keys, typed) = reading(&slave, Ahead::Other);
        assert_eq!(typed.recv_timeout(HANG_LIMIT), Ok(letter('c')));
        drop((keys, raw));
        assert_eq!(tcgetattr(&slave).unwrap(), before);
        let expected = [BEGIN, END].concat();
        let mut written = Vec::new();
        while written.len() < expected.len() {
            let mut some = [0; 256];
            let count = read(&master, &mut some).unwrap();
            written.extend_from_slice(&some[..count]);
        }
        assert_eq!(written, expected);
    }

    /// Types something while lines are read, and then two keys.
    #[track_caller]
    fn check(ahead: Ahead, expected: &[FromTerminal]) {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        write(&master, b"a\r\x04b").unwrap();
        // What is echoed was read as lines are.
        let mut echoed = Vec::new();
        while !echoed.contains(&b'b') {
            let mut some = [0; 16];
            let count = read(&master, &mut some).unwrap();
            echoed.extend_from_slice(&some[..count]);
        }
        // Not by `Raw`, of which there is one in a process.
        let mut raw = tcgetattr(&slave).unwrap();
        cfmakeraw(&mut raw);
        tcsetattr(&slave, SetArg::TCSANOW, &raw).unwrap();
        let (_keys, typed) = reading(&slave, ahead);
        let next = |_: &FromTerminal| typed.recv_timeout(HANG_LIMIT).unwrap();
        assert_eq!(expected.iter().map(next).collect::<Vec<_>>(), expected);
        write(&master, b"\0\n").unwrap();
        let then = [control(' '), control('j')];
        assert_eq!(then.each_ref().map(next), then, "from then on");
    }

    #[test]
    fn what_was_typed_while_lines_were_read_is_for_whom_it_was_meant() {
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        let enter = FromTerminal::Typed(Typed::Key(enter));
        check(Ahead::Chat, &[letter('a'), enter, control('d'), letter('b')]);
        check(Ahead::Other, &[letter('a'), control('j'), letter('b')]);
    }

    #[test]
    fn a_terminal_that_goes_is_told_once() {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        let (_keys, typed) = reading(&slave, Ahead::Other);
        drop(master);
        assert_eq!(typed.recv_timeout(HANG_LIMIT), Ok(FromTerminal::Gone));
        assert!(typed.recv_timeout(HANG_LIMIT).is_err());
    }

    #[test]
    fn what_was_typed_is_read_before_another_terminal_is_gone_that_is_drawn_on() {
        let (typed_at, drawn_on) = (openpty(None, None).unwrap(), openpty(None, None).unwrap());
        let mut raw = tcgetattr(&typed_at.slave).unwrap();
        cfmakeraw(&mut raw);
        tcsetattr(&typed_at.slave, SetArg::TCSANOW, &raw).unwrap();
        write(&typed_at.master, b"a").unwrap();
        drop(drawn_on.master);
        let (_keys, typed) = reading_beside(&typed_at.slave, &drawn_on.slave, Ahead::Chat);
        let next = || typed.recv_timeout(HANG_LIMIT).unwrap();
        assert_eq!([next(), next()], [letter('a'), FromTerminal::Gone]);
    }

    #[test]
    fn a_program_has_the_terminal_until_it_ends() {
        let environment = Environment::from_variables([("EDITOR", "test x =")]);
        assert!(!is_lent());
        let file = std::fs::File::open("/dev/null").unwrap();
        let mut calls = 0;
        let mut command = editor(&environment, Path::new("x"));
        let status = lend(&file, &mut command, || {
            assert!(is_lent());
            calls += 1;
            std::thread::yield_now();
            ControlFlow::Continue(())
        });
        assert!(status.unwrap().unwrap().success() && !is_lent());
        let ended = lend(&file, &mut shell(&environment, "sleep 60"), || ControlFlow::Break(()));
        assert_eq!(ended.unwrap(), None);
        let mut deaf = shell(&environment, "trap '' HUP; exec sleep 60").spawn().unwrap();
        end(&mut deaf, Duration::ZERO).unwrap();
        assert!(!deaf.wait().unwrap().success());
        let failing = shell(&environment, "exit 3").status().unwrap();
        assert_eq!(failing.code(), Some(3));
        let flags = |argument| fcntl(&file, argument).map(OFlag::from_bits_retain).unwrap();
        let ended = lend(&file, &mut shell(&environment, "sleep 60"), || {
            flags(FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
            assert!(flags(FcntlArg::F_GETFL).contains(OFlag::O_NONBLOCK));
            ControlFlow::Break(())
        });
        assert_eq!(ended.unwrap(), None);
        assert!(!flags(FcntlArg::F_GETFL).contains(OFlag::O_NONBLOCK), "it is waited for");
    }

    #[test]
    fn what_knows_no_size_has_the_usual_one() {
        let OpenptyResult { master: _master, slave } = openpty(None, None).unwrap();
        assert_eq!(size(&slave), Size { columns: 80, rows: 24 });
        let window =
            rustix::termios::Winsize { ws_row: 15, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&slave, window).unwrap();
        assert_eq!(size(&slave), Size { columns: 40, rows: 15 });
    }

    #[test]
    fn what_edits_is_not_looked_for_in_the_workspace() {
        let place = tempfile::tempdir().unwrap();
        let path = format!("{}/bin:.:/usr/bin", place.path().display());
        let mut environment = Environment::from_variables([("PATH", &*path)]);
        environment.cwd = Some(place.path().to_owned());
        let command = editor(&environment, Path::new("a"));
        let given = command.get_envs().find(|(name, _)| *name == "PATH");
        assert_eq!(given, Some(("PATH".as_ref(), Some("/usr/bin".as_ref()))));
    }
}
