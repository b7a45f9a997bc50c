//! How far a map has come: a line that is rewritten on a terminal, and elsewhere
//! a line now and then.

use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use crate::event::{Delta, Event, EventKind, InvocationEnd, Outcome, SessionId, UnixMillis};
use crate::message::counted;
use crate::report::{Ending, MapCounts, Mapped, Tally, words};
use crate::run::Reporter;

/// How often something is said where no line is rewritten, in milliseconds. Logs
/// of CI are read by people.
const EVERY_MS: u64 = 30_000;

/// How often the line is rewritten at most, in milliseconds.
const REWRITTEN_MS: u64 = 100;

/// Shows a map and writes its lines.
pub(super) struct Progress {
    mapped: Mapped,
    total: u32,
    /// The line that is rewritten; `None` where there is no terminal.
    bar: Option<ProgressBar>,
    began: Option<UnixMillis>,
    said: UnixMillis,
    told: watch::Sender<MapCounts>,
    tally: Tally,
    /// The session by which it can be gone on with; `None` if it is not kept.
    session: Option<SessionId>,
}

impl Progress {
    /// Shows a map of so many rows, and tells how far it has come. A session that
    /// is kept is named: with it the map can be gone on with.
    pub(super) fn new(
        mapped: Mapped,
        total: u32,
        has_screen: bool,
        (told, session): (watch::Sender<MapCounts>, Option<SessionId>),
    ) -> Self {
        let bar = has_screen.then(|| bar(total));
        Self {
            mapped,
            total,
            bar,
            began: None,
            said: UnixMillis(0),
            told,
            tally: Tally::default(),
            session,
        }
    }

    fn begins(&self) {
        let rows = counted(self.total, "row");
        match &self.session {
            Some(session) => self.say(&format!("{rows}, session {session}")),
            None => self.say(&format!("{rows}, in no session")),
        }
    }

    fn show(&mut self, now: UnixMillis) {
        let began = *self.began.get_or_insert(now);
        let every = if self.bar.is_some() { REWRITTEN_MS } else { EVERY_MS };
        if now.since(self.said.max(began)) < every {
            return;
        }
        self.said = now;
        let line = line(self.mapped.counts(), self.total, now.since(began), false);
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.mapped.counts().ended().into());
                bar.set_message(line);
            }
            None => self.say(&line),
        }
    }

    /// Says what all of it came to, and what can be done about the rest.
    fn sum_up(&self, now: UnixMillis, (end, ending): (&InvocationEnd, &Ending), has_begun: bool) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let counts = self.mapped.counts();
        let took = self.began.map_or(0, |began| now.since(began));
        self.say(&line(counts, self.total, took, true));
        words::taken_lines(ending).iter().for_each(|line| self.say(line));
        if let (false, Outcome::Failed(failure)) = (has_begun, &end.outcome) {
            self.say(&format!("error: {}", failure.message));
        }
        let Some(session) = &self.session else { return };
        if let Some(hint) = hint(counts, session) {
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
        let taken = self.mapped.take(event);
        self.told.send_replace(self.mapped.counts());
        taken?;
        let ending = self.tally.take(event);
        if let (EventKind::InvocationEnded(end), Some(ending)) = (&event.kind, ending) {
            self.sum_up(event.at, (&**end, &ending), has_begun);
            return Ok(());
        }
        if let EventKind::InvocationStarted { .. } = &event.kind {
            self.begins();
        } else if let EventKind::Notice { level: _, text } = &event.kind {
            self.say(text);
        }
        self.show(event.at);
        Ok(())
    }

    fn delta(&mut self, _: &Delta) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.mapped.flush()
    }
}

fn bar(total: u32) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(Some(total.into()), target);
    let style = ProgressStyle::with_template("{wide_bar} {msg}");
    bar.set_style(style.expect("the template is right"));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// Says how rows that have no answer get one.
fn hint(counts: MapCounts, session: &SessionId) -> Option<String> {
    let MapCounts { completed: _, failed, stopped, from_before: _, running: _ } = counts;
    let (flags, what) = match (failed, stopped) {
        (0, 0) => return None,
        (0, _) => ("", "goes on with the rest"),
        (_, 0) => (" --retry-failed", "runs the rows again that failed"),
        (_, _) => (" --retry-failed", "goes on with the rest and runs the rows again that failed"),
    };
    Some(format!("hint: the same command with `--resume {session}{flags}` {what}"))
}

/// Says how far it has come after so many milliseconds.
fn line(counts: MapCounts, total: u32, took_ms: u64, is_last: bool) -> String {
    let MapCounts { completed, failed, stopped, from_before, running } = counts;
    let ended = counts.ended();
    let mut line = format!("{ended} of {total} rows");
    let parts = [(completed, "completed"), (failed, "failed"), (stopped, "not done")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    for (count, what) in parts {
        line.push_str(&format!(", {count} {what}"));
    }
    if from_before > 0 {
        line.push_str(&format!(" ({from_before} before)"));
    }
    if !is_last && running > 0 {
        line.push_str(&format!(", {running} running"));
    }
    let new = ended - from_before.min(ended);
    if took_ms == 0 || new == 0 {
        return line;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with two digits")]
    let rate = f64::from(new) / (took_ms as f64 / 1000.0);
    line.push_str(&format!(" · {}", rate_text(rate)));
    if !is_last && ended < total {
        let seconds = f64::from(total - ended) / rate;
        line.push_str(&format!(" · {} to go", span(seconds)));
    }
    line
}

/// Says a rate so that its number is no less than one.
fn rate_text(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1.0 => format!("{rate:.1} rows a second"),
        rate if rate * 60.0 >= 1.0 => format!("{:.1} rows a minute", rate * 60.0),
        rate => format!("{:.1} rows an hour", rate * 3600.0),
    }
}

fn span(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds.ceil()).map_or(u64::MAX, |it| it.as_secs()) {
        seconds if seconds < 60 => format!("{seconds}s"),
        seconds if seconds < 3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        seconds if seconds < 48 * 3600 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        seconds => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_many_how_fast_and_how_long() {
        let counts = MapCounts { completed: 30, failed: 2, running: 8, ..MapCounts::default() };
        assert_eq!(
            line(counts, 100, 16_000, false),
            "32 of 100 rows, 30 completed, 2 failed, 8 running · 2.0 rows a second · 34s to go"
        );
        assert_eq!(
            line(counts, 32, 16_000, true),
            "32 of 32 rows, 30 completed, 2 failed · 2.0 rows a second"
        );
        let before = MapCounts { completed: 30, from_before: 20, ..MapCounts::default() };
        assert_eq!(
            line(before, 10_000, 600_000, false),
            "30 of 10000 rows, 30 completed (20 before) · 1.0 rows a minute · 6d 22h to go"
        );
        assert_eq!(line(MapCounts::default(), 5, 0, false), "0 of 5 rows");
    }
}
