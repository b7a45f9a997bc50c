//! Whether processes live that a test did not start itself.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use nix::sys::stat::Mode;

use super::tine::{HANG_LIMIT, Place, lines};

/// A named pipe that a command and everything it starts hold open. It ends
/// when the last of them is gone, so nobody has to look again and again.
pub(crate) struct Life {
    path: PathBuf,
}

impl Life {
    /// Makes the pipe `life` in the working directory.
    pub(crate) fn new(place: &Place) -> Self {
        let path = place.work().join("life");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).expect("the place is new");
        Self { path }
    }

    /// A command that holds the pipe, says so and runs `command`.
    pub(crate) fn held_by(command: &str) -> String {
        format!("exec 3>life; echo up >&3; {command}")
    }

    /// Waits until somebody holds the pipe.
    #[track_caller]
    pub(crate) fn begun(&self) -> Begun {
        let path = self.path.clone();
        // Opening it waits for whoever writes.
        let lines = lines(move || std::fs::File::open(path).expect("the pipe is there"));
        let line = lines.recv_timeout(HANG_LIMIT).expect("a command says that it is up");
        assert_eq!(line, "up\n");
        Begun(lines)
    }
}

/// Somebody holds the pipe.
pub(crate) struct Begun(Receiver<String>);

impl Begun {
    /// Waits until all that held it are gone.
    #[track_caller]
    pub(crate) fn ended(self) {
        assert_eq!(self.0.recv_timeout(HANG_LIMIT), Err(RecvTimeoutError::Disconnected));
    }
}
