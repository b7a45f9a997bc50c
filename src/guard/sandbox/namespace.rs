//! The processes of a command that has a process namespace to itself.
//!
//! bubblewrap's own process, the only one that is ours, stands outside and
//! passes no signal on. The first process inside leads the session of all
//! others, and when it ends the kernel ends them, whatever they did to get away.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::child;

/// All processes of one command.
#[derive(Debug)]
pub struct Namespace {
    first: Pid,
    /// Readable once they are gone, and never taken for another process's.
    descriptor: OwnedFd,
}

impl Namespace {
    /// Finds the namespace by what bubblewrap says of it.
    ///
    /// # Errors
    ///
    /// It says nothing: it could not make one, or all have ended already.
    pub fn from_news(news: &str) -> io::Result<Self> {
        let (_, rest) = news.split_once("\"child-pid\"").ok_or(io::ErrorKind::InvalidData)?;
        let digits: String = rest
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        let first = digits.parse().map_err(io::Error::other)?;
        Ok(Self { descriptor: child::process_descriptor(first)?, first: Pid::from_raw(first) })
    }

    /// Sends a signal to the command and all that has stayed with it.
    pub fn signal(&self, signal: Signal) {
        if !self.is_gone_within(Duration::ZERO) {
            // It may have just gone.
            let _ = killpg(self.first, signal);
        }
    }

    /// Waits for the last process to be gone; `false` if that takes longer.
    /// Blocks the thread.
    #[must_use]
    pub fn is_gone_within(&self, limit: Duration) -> bool {
        let mut descriptors = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
        poll(&mut descriptors, limit).is_ok_and(|ready| ready > 0)
    }
}
