//! The terminal's own echo of control characters, turned off for a while.
//!
//! A terminal shows `^C` where the cursor stands, which is at the end of a full
//! row of the live region: the row then takes two lines, and one of them would
//! stay when the region is cleared.

use std::io::{self, IsTerminal as _, Stdin};

use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

/// Control characters are not echoed as long as this value lives.
pub(super) struct QuietControls {
    stdin: Stdin,
    saved: Termios,
}

impl QuietControls {
    /// Turns the echo off; `None` if standard input is no terminal, or not
    /// this process's to change.
    pub(super) fn new() -> Option<Self> {
        let stdin = io::stdin();
        if !stdin.is_terminal() || !is_foreground(&stdin) {
            return None;
        }
        let saved = tcgetattr(&stdin).ok()?;
        let mut quiet = saved.clone();
        quiet.local_flags.remove(LocalFlags::ECHOCTL);
        tcsetattr(&stdin, SetArg::TCSANOW, &quiet).ok()?;
        Some(Self { stdin, saved })
    }
}

impl Drop for QuietControls {
    fn drop(&mut self) {
        if is_foreground(&self.stdin) {
            // The terminal is gone: then it echoes nothing anyway.
            let _ = tcsetattr(&self.stdin, SetArg::TCSANOW, &self.saved);
        }
    }
}

/// A process in the background that changed the terminal would be stopped.
pub(super) fn is_foreground(stdin: &Stdin) -> bool {
    tcgetpgrp(stdin).is_ok_and(|group| group == getpgrp())
}
