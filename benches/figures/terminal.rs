//! The program at a pseudo-terminal: what is typed, what comes back and when,
//! and what a screen shows of it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};

use crate::clock;

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/it/support/screen.rs"]
pub(crate) mod screen;

use screen::{Screen, Size, Writer};

/// How large the terminal is.
pub(crate) const SIZE: Size = Size { columns: 80, rows: 24 };

/// How long nothing may come before the run counts as failed.
const HANG_LIMIT: Duration = Duration::from_secs(60);

/// Returns which row of the screen the line begins with.
pub(crate) fn row_of_line(screen: &Screen) -> Option<usize> {
    screen.shown().iter().rposition(|row| row == ">" || row.starts_with("> "))
}

/// Returns what stands in the line, whatever its rows are.
pub(crate) fn line(screen: &Screen) -> String {
    let (Some(first), Some((last, _))) = (row_of_line(screen), screen.cursor()) else {
        return String::new();
    };
    let rows = screen.shown();
    let rows = rows.get(first..=last.max(first)).unwrap_or_default();
    rows.iter().map(|row| row.trim_start_matches('>').trim()).collect()
}

/// The program at a terminal. It is killed when this value goes.
pub(crate) struct Sitting {
    child: Child,
    /// What is written here is as if it was typed.
    keys: File,
    written: Receiver<(Duration, Vec<u8>)>,
    pub(crate) screen: Screen,
    /// Just before the process was started.
    pub(crate) started: Duration,
    /// What the screen has shown, and when it came.
    pub(crate) taken: Vec<(Duration, Vec<u8>)>,
}

impl Sitting {
    /// Starts the program, with the terminal for all that it reads and writes.
    pub(crate) fn start(mut command: Command) -> Self {
        let Size { columns, rows } = SIZE;
        let window = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&window, None).expect("the system has a pseudo-terminal to spare");
        // A process that held it would never see its own terminal end.
        for side in [&pty.master, &pty.slave] {
            fcntl(side, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a descriptor has flags");
        }
        let copy = || pty.slave.try_clone().expect("a descriptor can be copied");
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let keys = File::from(pty.master.try_clone().expect("a descriptor can be copied"));
        let written = read(pty.master);
        let screen = Screen::new(SIZE, Writer::Chat);
        let started = clock::now();
        let child = command.spawn().expect("the program can be started");
        Self { child, keys, written, screen, started, taken: Vec::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids are small")
    }

    pub(crate) fn cpu(&self) -> Duration {
        clock::cpu_time(self.pid()).expect("Linux tells a process's CPU time")
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes a few keys");
    }

    /// Waits for a frame that shows what is wanted; returns when its last byte
    /// was there.
    pub(crate) fn wait_until(&mut self, what: &str, shows: impl Fn(&Screen) -> bool) -> Duration {
        loop {
            let (at, bytes) = self.written.recv_timeout(HANG_LIMIT).unwrap_or_else(|error| {
                panic!("{error} while waiting for {what}:\n{}", self.screen.shown().join("\n"))
            });
            if self.take(at, bytes, &shows) {
                return at;
            }
        }
    }

    /// Shows what comes until then.
    pub(crate) fn watch_until(&mut self, then: Duration) {
        let left = || then.saturating_sub(clock::now());
        while let Ok((at, bytes)) = self.written.recv_timeout(left()) {
            self.take(at, bytes, &|_| false);
        }
    }

    /// Shows what came, and tells whether any frame of it has what is wanted.
    fn take(&mut self, at: Duration, bytes: Vec<u8>, shows: &dyn Fn(&Screen) -> bool) -> bool {
        let (mut is_there, mut rest) = (false, &*bytes);
        while !rest.is_empty() {
            rest = &rest[self.screen.take(rest)..];
            is_there = is_there || (!self.screen.is_in_frame() && shows(&self.screen));
        }
        self.taken.push((at, bytes));
        is_there
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        // It ends only because of this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends what is written and when it came, and hangs up at the end.
fn read(master: OwnedFd) -> Receiver<(Duration, Vec<u8>)> {
    let (sender, receiver) = mpsc::channel();
    let mut master = File::from(master);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 * 1024];
        // Linux reports an error once the other side is closed.
        while let Ok(count @ 1..) = master.read(&mut buffer) {
            if sender.send((clock::now(), buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    receiver
}
