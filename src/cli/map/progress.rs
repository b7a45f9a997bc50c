//! How far a map has come: a line that is rewritten on a terminal, and elsewhere
//! a line now and then. What they say is in `words`.

use std::fs::File;
use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tokio::sync::watch;

use super::words::{failures, goes_on, hint, line, lost, summary};
use crate::event::{Delta, Event, EventKind, InvocationEnd, Outcome, SessionId, UnixMillis};
use crate::message::counted;
use crate::report::words::taken_lines;
use crate::report::{Ending, MapCounts, Mapped, Tally};
use crate::run::Reporter;

/// How often something is said where no line is rewritten, in milliseconds. Logs
/// of CI are read by people.
const EVERY_MS: u64 = 30_000;

/// How often the line is rewritten where nothing happens: the time to go grows.
const TICK: Duration = Duration::from_secs(1);

/// What is known of a map once its run is over.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pub(super) counts: MapCounts,
    /// What can be done about lines that could not be written.
    pub(super) lost: Option<String>,
}

/// Shows a map and writes its lines.
pub(super) struct Progress {
    mapped: Mapped,
    /// The file of the lines, until what an earlier process has written is gone.
    cut: Option<File>,
    total: u32,
    /// The line that is rewritten; `None` where there is no terminal.
    bar: Option<ProgressBar>,
    /// Whether the lines of rows come to the same terminal.
    shares_screen: bool,
    began: Option<UnixMillis>,
    said: UnixMillis,
    told: watch::Sender<Told>,
    tally: Tally,
    /// Whether it is said yet what there is of earlier processes.
    is_placed: bool,
    /// The session by which it can be gone on with; `None` if it is not kept.
    session: Option<SessionId>,
}

impl Progress {
    /// Shows a map of so many rows, and tells how far it has come. What is in
    /// the file that is `cut` goes once the map begins. A session that is kept
    /// is named: with it the map can be gone on with.
    pub(super) fn new(
        mapped: Mapped,
        cut: Option<File>,
        (total, has_screen, shares_screen): (u32, bool, bool),
        (told, session): (watch::Sender<Told>, Option<SessionId>),
    ) -> Self {
        let bar = has_screen.then(|| bar(total, told.subscribe()));
        Self {
            mapped,
            cut,
            total,
            bar,
            shares_screen,
            began: None,
            said: UnixMillis(0),
            told,
            tally: Tally::default(),
            is_placed: false,
            session,
        }
    }

    /// Only now the session is this process's own, and so are its lines.
    fn begins(&mut self, now: UnixMillis) -> io::Result<()> {
        self.began = Some(now);
        if let Some(file) = self.cut.take() {
            self.note(file.set_len(0))?;
        }
        self.bar.iter().for_each(ProgressBar::reset_elapsed);
        let rows = counted(self.total, "row");
        match &self.session {
            Some(session) => self.say(&format!("{rows}, session {session}")),
            None => self.say(&format!("{rows}, in no session")),
        }
        Ok(())
    }

    /// Says once what has ended before, and what of it does not hold any more:
    /// all rows are known before any of them begins.
    fn place(&mut self) {
        let counts = self.mapped.counts();
        if !self.is_placed && counts.known == self.total {
            self.is_placed = true;
            goes_on(counts).iter().for_each(|line| self.say(line));
        }
    }

    /// Takes note of what kept a line from being written. Whoever ends the
    /// process says that; this says what can be done about it.
    fn note(&self, written: io::Result<()>) -> io::Result<()> {
        let lost = match (&written, &self.session) {
            (Err(_), Some(session)) => Some(lost(session)),
            (Err(_), None) | (Ok(()), _) => None,
        };
        if let (Err(_), Some(bar)) = (&written, &self.bar) {
            bar.finish_and_clear();
        }
        self.told.send_replace(Told { counts: self.mapped.counts(), lost });
        written
    }

    /// Writes lines, where the line that is rewritten is not in their way.
    fn writing(&mut self, write: impl FnOnce(&mut Mapped) -> io::Result<()>) -> io::Result<()> {
        let mapped = &mut self.mapped;
        match &self.bar {
            Some(bar) if self.shares_screen => bar.suspend(|| write(mapped)),
            Some(_) | None => write(mapped),
        }
    }

    fn show(&mut self, now: UnixMillis) {
        let counts = self.mapped.counts();
        if let Some(bar) = &self.bar {
            bar.set_position(counts.ended().into());
            return;
        }
        let began = self.began.unwrap_or(now);
        if now.since(self.said.max(began)) >= EVERY_MS {
            self.said = now;
            self.say(&line(counts, self.total, now.since(began)));
        }
    }

    /// Says what all of it came to, and what can be done about the rest.
    fn sum_up(&self, now: UnixMillis, (end, ending): (&InvocationEnd, &Ending), has_begun: bool) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let counts = self.mapped.counts();
        let took = self.began.map_or(0, |began| now.since(began));
        self.say(&summary(counts, self.total, took));
        taken_lines(ending).iter().for_each(|line| self.say(line));
        let reasons = self.mapped.failures();
        failures(&reasons, counts.failed).iter().for_each(|line| self.say(line));
        if let (false, Outcome::Failed(failure)) = (has_begun, &end.outcome) {
            self.say(&format!("error: {}", failure.message));
        }
        let Some(session) = &self.session else { return };
        if let Some(hint) = hint(counts, &reasons, session) {
            self.say(&hint);
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| crate::cli::say(&text)),
            None => crate::cli::say(&text),
        }
    }
}

impl Reporter for Progress {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        let has_begun = self.mapped.counts().ended() > 0;
        let taken = self.writing(|mapped| mapped.take(event));
        self.note(taken)?;
        let ending = self.tally.take(event);
        if let (EventKind::InvocationEnded(end), Some(ending)) = (&event.kind, ending) {
            self.sum_up(event.at, (&**end, &ending), has_begun);
            return Ok(());
        }
        if let EventKind::InvocationStarted { .. } = &event.kind {
            self.begins(event.at)?;
        } else if let EventKind::Notice { level: _, text } = &event.kind {
            self.say(text);
        }
        self.place();
        self.show(event.at);
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        let flushed = self.writing(Mapped::flush);
        self.note(flushed)
    }
}

/// The line that is rewritten. What it says is put together as often as it is
/// drawn, not as often as something happens.
fn bar(total: u32, told: watch::Receiver<Told>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(Some(total.into()), target);
    let write_line = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let took = u64::try_from(state.elapsed().as_millis()).unwrap_or(u64::MAX);
        let counts = told.borrow().counts;
        out.write_str(&line(counts, total, took)).expect("a text takes what is written to it");
    };
    let style = ProgressStyle::with_template("{line} {wide_bar}");
    bar.set_style(style.expect("the template is right").with_key("line", write_line));
    bar.enable_steady_tick(TICK);
    bar
}
