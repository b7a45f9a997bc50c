//! A pseudo-terminal with a process on it, and what its screen shows.
//!
//! The screen knows the few control sequences that a progress display needs
//! and panics at any other, so nothing is overlooked.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};

use super::tine::{HANG_LIMIT, Tine};

/// Columns of the terminal.
pub(crate) const COLUMNS: u16 = 100;

/// Lines of the terminal.
pub(crate) const LINES: u16 = 30;

/// Where standard output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StandardOutput {
    /// To the same terminal.
    Terminal,
    /// To a pipe.
    Pipe,
}

/// A process on a terminal. It is killed when this value goes.
pub(crate) struct OnTerminal {
    child: Child,
    /// What is written here is as if it was typed.
    keys: File,
    written: Receiver<Vec<u8>>,
    /// Everything that came, with its control sequences.
    pub(crate) raw: Vec<u8>,
    pub(crate) screen: Screen,
}

impl OnTerminal {
    /// Starts a process with its standard error on a new terminal.
    pub(crate) fn start(tine: Tine, stdout: StandardOutput) -> Self {
        let size = Winsize { ws_row: LINES, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("the system has a pseudo-terminal to spare");
        // A process that held it would never see its own terminal end.
        for side in [&pty.master, &pty.slave] {
            fcntl(side, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a descriptor has flags");
        }
        let mut command = tine.into_command();
        connect(&mut command, pty.slave, stdout);
        let child = command.spawn().expect("cargo has built the binary");
        // The terminal ends only when nobody holds its other side.
        drop(command);
        let keys = File::from(pty.master.try_clone().expect("a descriptor can be copied"));
        let (raw, screen) = (Vec::new(), Screen::default());
        Self { child, keys, written: read(pty.master), raw, screen }
    }

    /// The same as a shell does it: the terminal is the process's own, so that
    /// it may be read from, and so that keys are signals.
    pub(crate) fn own(tine: Tine, stdout: StandardOutput) -> Self {
        Self::start(tine.by("setsid", ["--ctty", "--wait"]), stdout)
    }

    /// Types something.
    pub(crate) fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes a few keys");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the screen shows what is wanted.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, shows: impl Fn(&Screen) -> bool) {
        while !shows(&self.screen) {
            assert!(self.take(), "it ended without it:\n{}", self.screen.text());
        }
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

    /// Takes more output; `false` at its end.
    #[track_caller]
    fn take(&mut self) -> bool {
        match self.written.recv_timeout(HANG_LIMIT) {
            Ok(bytes) => {
                self.raw.extend_from_slice(&bytes);
                self.screen.take(&bytes);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs after:\n{}", self.screen.text()),
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(command: &mut Command, slave: OwnedFd, stdout: StandardOutput) {
    let copy = || slave.try_clone().expect("a descriptor can be copied");
    command.stdin(copy()).stderr(copy());
    match stdout {
        StandardOutput::Terminal => command.stdout(slave),
        StandardOutput::Pipe => command.stdout(Stdio::piped()),
    };
}

/// Sends what is written, and hangs up at the end.
fn read(master: OwnedFd) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let mut master = File::from(master);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        // Linux reports an error once the other side is closed.
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What a terminal shows. It has no bottom: nothing scrolls away.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The beginning of a character or a control sequence.
    pending: Vec<u8>,
}

impl Screen {
    /// Returns the rows, without the blanks at their ends.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned());
        rows.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Returns the row that starts with this word.
    pub(crate) fn row(&self, word: &str) -> Option<String> {
        self.text().lines().find(|row| row.starts_with(word)).map(str::to_owned)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_slice();
        while let Some(length) = self.step(rest) {
            rest = &rest[length..];
        }
        self.pending = rest.to_vec();
    }

    /// Takes one character or control sequence and returns its length; `None`
    /// if there is no whole one.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes {
            [] | [0x1b] => None,
            [0x1b, b'[', rest @ ..] => {
                let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte))?;
                let parameter = std::str::from_utf8(&rest[..end]).expect("parameters are ASCII");
                self.control(parameter, rest[end]);
                Some(2 + end + 1)
            }
            [b'\r', ..] => {
                self.column = 0;
                Some(1)
            }
            [b'\n', ..] => {
                self.row += 1;
                Some(1)
            }
            [b'\t', ..] => {
                self.column = (self.column / 8 + 1) * 8;
                Some(1)
            }
            // What is typed to end something is echoed, and shows nothing.
            [0x03 | 0x04, ..] => Some(1),
            [0x00..0x20, ..] => panic!("an unknown control character: {bytes:?}"),
            _ => {
                let length = match bytes[0] {
                    0x00..0x80 => 1,
                    0x80..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0.. => 4,
                };
                let character = std::str::from_utf8(bytes.get(..length)?).expect("it is UTF-8");
                character.chars().for_each(|character| self.put(character));
                Some(length)
            }
        }
    }

    fn control(&mut self, parameter: &str, end: u8) {
        let count = parameter.parse().unwrap_or(1);
        match (end, parameter) {
            (b'A', _) => self.row = self.row.saturating_sub(count),
            (b'B', _) => self.row += count,
            (b'C', _) => self.column += count,
            (b'D', _) => self.column = self.column.saturating_sub(count),
            (b'K', "2") => self.clear(0),
            (b'K', "" | "0") => self.clear(self.column),
            (b'J', "" | "0") => {
                self.clear(self.column);
                self.rows.truncate(self.row + 1);
            }
            // Colours, and whether the cursor is seen.
            (b'm', _) | (b'h' | b'l', "?25") => {}
            _ => panic!("an unknown control sequence: {parameter}{}", char::from(end)),
        }
    }

    fn clear(&mut self, from: usize) {
        if let Some(row) = self.rows.get_mut(self.row) {
            row.truncate(from);
        }
    }

    fn put(&mut self, character: char) {
        // As on a terminal, the break comes with the character that no longer
        // fits.
        if self.column == usize::from(COLUMNS) {
            (self.row, self.column) = (self.row + 1, 0);
        }
        if self.rows.len() <= self.row {
            self.rows.resize(self.row + 1, Vec::new());
        }
        let row = &mut self.rows[self.row];
        if row.len() <= self.column {
            row.resize(self.column + 1, ' ');
        }
        row[self.column] = character;
        self.column += 1;
    }
}
