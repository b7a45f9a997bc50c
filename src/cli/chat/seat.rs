//! A session that is ready to be sat at: its run, and the ways to speak to it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tempfile::TempDir;
use tokio::sync::mpsc;

use super::desk::Seen;
use super::terminal::ToTerminal;
use super::{opening, tty};
use crate::cli::exit::Refusal;
use crate::cli::kit::Kit;
use crate::cli::start::{Sitter, Sitting, Start};
use crate::event::{Delta, Event, SessionId};
use crate::report::meter::Meter;
use crate::report::row::Row;
use crate::run::{Asked, FromUser, Reporter, Run, Signal};
use crate::session;

/// Most that a run may be asked before it has taken it: one thing, since it
/// does one at a time.
const ASKED_CAP: usize = 1;

/// Most that is said to a run before it has heard it.
const SAID_CAP: usize = 256;

/// Most signals that wait for a run.
const SIGNALS_CAP: usize = 8;

/// A session that is ready to be sat at.
pub(super) struct Seat {
    pub(super) run: Run,
    pub(super) kit: Arc<Kit>,
    /// Where it is kept, if it is not to be.
    pub(super) scratch: Option<TempDir>,
    /// What it shows first.
    pub(super) rows: Vec<Row>,
    /// How many tokens main's conversation has; `None` if that is not known.
    pub(super) context: Option<u64>,
    /// Where the run is asked.
    pub(super) asking: mpsc::Sender<Asked>,
    pub(super) said: mpsc::Sender<FromUser>,
    pub(super) signals: mpsc::Sender<Signal>,
    /// Behind the run, whose log has to be closed before it goes.
    pub(super) place: Place,
}

impl Seat {
    /// Opens the session. What is odd about it is said on the terminal, so
    /// nobody else may have the screen meanwhile.
    ///
    /// It `follows` if another session was left for it.
    pub(super) fn take(
        start: Start,
        follows: bool,
        terminal: &SyncSender<ToTerminal>,
    ) -> Result<Self, Refusal> {
        let (asking, asked) = mpsc::channel(ASKED_CAP);
        let (said, answers) = mpsc::channel(SAID_CAP);
        let (signals, arriving) = mpsc::channel(SIGNALS_CAP);
        let Kit { session, directory, is_kept, .. } = &start.kit;
        let (session, directory) = (session.clone(), directory.clone());
        let is_empty = *is_kept && start.is_new();
        let place = Place { session, directory, is_kept: *is_kept, is_empty };
        let rows = opening::rows(&start, tty::size(io::stdout()).text_columns());
        let context = start.past().map_or(Some(0), |past| Meter::context_of(past.conversation()));
        let shown = Box::new(Shows(terminal.clone()));
        let sitter = Sitter::Chat(shown);
        let sitting = Sitting { signals: arriving, answers, asking: asked, sitter, follows };
        let (run, kit, scratch) = start.sit(sitting)?;
        Ok(Self { run, kit, scratch, rows, context, asking, said, signals, place })
    }
}

/// Where a session is kept. One in which nothing was said goes with this value:
/// it would be of no use to anybody.
pub(super) struct Place {
    session: SessionId,
    directory: PathBuf,
    is_kept: bool,
    is_empty: bool,
}

impl Place {
    /// Something is said in it.
    pub(super) fn begins(&mut self) {
        self.is_empty = false;
    }

    /// Returns what is said of a session that is left.
    pub(super) fn farewell(&self) -> Option<String> {
        let stays = self.is_kept && !self.is_empty;
        stays.then(|| format!("session {}; `tine -c` goes on with it", self.session))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_empty {
            // What cannot be removed stays, and is listed.
            let _ = session::remove(&self.directory);
        }
    }
}

/// Shows a run by telling the terminal.
struct Shows(SyncSender<ToTerminal>);

impl Shows {
    fn tell(&self, seen: Seen) -> io::Result<()> {
        self.0.send(ToTerminal::Seen(seen)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Reporter for Shows {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.tell(Seen::Event(Box::new(event.clone())))
    }

    fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        self.tell(Seen::Delta(delta.clone()))
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }
}
