//! What is said of a map on standard error.

use std::time::Duration;

use crate::event::SessionId;
use crate::flow::UNFILLED;
use crate::message::counted;
use crate::report::MapCounts;

/// Most reasons for failures that are said at the end. All of them stand in the
/// lines.
const REASONS: usize = 3;

/// Says what has ended in earlier processes, and what of that does not hold for
/// the table and the prompt as they are now. Nothing if there was no earlier one.
pub(super) fn goes_on(counts: MapCounts) -> Vec<String> {
    let MapCounts { known, reused, changed, gone, .. } = counts;
    let mut lines = Vec::new();
    if reused > 0 {
        let rest = match known - reused {
            0 => "none is left".to_owned(),
            rest => format!("{rest} to go"),
        };
        lines.push(format!("{} ended before, {rest}", counted(reused, "row")));
    }
    if changed > 0 {
        lines.push(format!(
            "warning: asked again, since the table, the prompt, the agent or the schema has \
             changed: {} that had an answer",
            counted(changed, "row")
        ));
    }
    if gone > 0 {
        let rows = counted(gone, "row");
        lines.push(format!("warning: the table is shorter than before, by {rows}"));
    }
    lines
}

/// Says what most rows failed of, the most frequent first.
pub(super) fn failures(reasons: &[(u32, &str)], failed: u32) -> Vec<String> {
    let said = reasons.iter().take(REASONS);
    let mut lines: Vec<String> = said
        .clone()
        .map(|(count, reason)| format!("{} failed: {reason}", counted(*count, "row")))
        .collect();
    let rest = failed - said.map(|(count, _)| count).sum::<u32>();
    if rest > 0 {
        lines.push(format!("{} failed of something else", counted(rest, "row")));
    }
    lines
}

/// Says what can be done where lines could not be written.
pub(super) fn lost(session: &SessionId) -> String {
    format!(
        "hint: what has ended is in the session: with `--resume {session}` all lines are written again, and the rest is asked"
    )
}

/// Says how rows that have no answer get one. Where all of them failed before any
/// agent was asked, for these reasons, another try fails again.
pub(super) fn hint(
    counts: MapCounts,
    reasons: &[(u32, &str)],
    session: &SessionId,
) -> Option<String> {
    let MapCounts { failed, stopped, .. } = counts;
    let unaskable = reasons.iter().filter(|(_, reason)| is_of_prompt(reason));
    if failed > 0 && failed == unaskable.map(|(count, _)| count).sum::<u32>() {
        let rest = if stopped > 0 { "goes on with the rest and " } else { "" };
        return Some(format!(
            "hint: the prompt has to be mended; then the same command with `--resume {session}` \
             {rest}runs the rows again that failed"
        ));
    }
    let (flags, what) = match (failed, stopped) {
        (0, 0) => return None,
        (0, _) => ("", "goes on with the rest"),
        (_, 0) => (" --retry-failed", "runs the rows again that failed"),
        (_, _) => (" --retry-failed", "goes on with the rest and runs the rows again that failed"),
    };
    Some(format!("hint: the same command with `--resume {session}{flags}` {what}"))
}

/// Tells whether a row failed because the prompt does not fit it.
fn is_of_prompt(reason: &str) -> bool {
    let why = reason.split_once(": ").map(|(_, why)| why);
    why.is_some_and(|why| why.starts_with(UNFILLED))
}

/// Says how far it has come after so many milliseconds. For ten thousand rows it
/// fits a terminal of 80 columns.
pub(super) fn line(counts: MapCounts, total: u32, took_ms: u64) -> String {
    let ended = counts.ended();
    let mut line = format!("{ended} of {}", counted(total, "row"));
    let parts = joined(&[(counts.failed, "failed"), (counts.running, "running")]);
    if !parts.is_empty() {
        line.push_str(&format!(", {parts}"));
    }
    if let Some(rate) = rate(counts, took_ms) {
        line.push_str(&format!(" · {}", rate_text(rate)));
        if ended < total {
            line.push_str(&format!(" · {} to go", span(f64::from(total - ended) / rate)));
        }
    }
    line
}

/// Says what all of it came to.
pub(super) fn summary(counts: MapCounts, total: u32, took_ms: u64) -> String {
    let MapCounts { completed, failed, stopped, from_before, .. } = counts;
    let parts = [(completed, "completed"), (failed, "failed"), (stopped, "not done")];
    let mut line = format!("{}: {}", counted(total, "row"), joined(&parts));
    if from_before > 0 {
        line.push_str(&format!(" ({from_before} before)"));
    }
    if let Some(rate) = rate(counts, took_ms) {
        #[expect(clippy::cast_precision_loss, reason = "a time is shown in seconds")]
        let took = span((took_ms as f64 / 1000.0).round());
        line.push_str(&format!(" in {took} · {}", rate_text(rate)));
    }
    line
}

fn joined(parts: &[(u32, &str)]) -> String {
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// Returns how many rows have ended in a second; `None` if that is not known yet:
/// what ends within the first second says nothing of the next one.
fn rate(counts: MapCounts, took_ms: u64) -> Option<f64> {
    let new = counts.ended().saturating_sub(counts.from_before + counts.stopped);
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with two digits")]
    let seconds = took_ms as f64 / 1000.0;
    (new > 0 && took_ms >= 1000).then(|| f64::from(new) / seconds)
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
    fn what_a_map_goes_on_with_is_said_with_what_has_changed() {
        assert_eq!(goes_on(MapCounts { known: 3, ..MapCounts::default() }), [""; 0]);
        let all = MapCounts { known: 3, reused: 3, ..MapCounts::default() };
        assert_eq!(goes_on(all), ["3 rows ended before, none is left"]);
        let some = MapCounts { known: 9, reused: 1, changed: 2, gone: 1, ..MapCounts::default() };
        let expected = [
            "1 row ended before, 8 to go",
            "warning: asked again, since the table, the prompt, the agent or the schema has \
             changed: 2 rows that had an answer",
            "warning: the table is shorter than before, by 1 row",
        ];
        assert_eq!(goes_on(some), expected);
    }

    #[test]
    fn the_most_frequent_failures_are_said() {
        assert_eq!(failures(&[], 0), [""; 0]);
        let reasons = [(7, "timeout: 10m"), (2, "request: no"), (1, "a"), (1, "b")];
        let expected = [
            "7 rows failed: timeout: 10m",
            "2 rows failed: request: no",
            "1 row failed: a",
            "4 rows failed of something else",
        ];
        assert_eq!(failures(&reasons, 14), expected);
    }

    #[test]
    fn the_line_says_how_many_how_fast_and_how_long() {
        let counts = MapCounts { completed: 30, failed: 2, running: 8, ..MapCounts::default() };
        assert_eq!(
            line(counts, 100, 16_000),
            "32 of 100 rows, 2 failed, 8 running · 2.0 rows a second · 34s to go"
        );
        let before = MapCounts { completed: 30, from_before: 20, ..MapCounts::default() };
        assert_eq!(
            line(before, 10_000, 600_000),
            "30 of 10000 rows · 1.0 rows a minute · 6d 22h to go"
        );
        assert_eq!(line(MapCounts::default(), 1, 0), "0 of 1 row");
        let counts = MapCounts { completed: 5_432, failed: 123, running: 64, ..before };
        let long = line(counts, 10_000, 60_000_000);
        assert!(long.chars().count() <= 80, "{long}");
    }

    #[test]
    fn the_summary_says_what_all_rows_came_to() {
        let counts = MapCounts { completed: 30, failed: 2, ..MapCounts::default() };
        let expected = "32 rows: 30 completed, 2 failed in 16s · 2.0 rows a second";
        assert_eq!(summary(counts, 32, 16_000), expected);
        let counts = MapCounts { completed: 4, stopped: 2, from_before: 1, ..counts };
        let expected =
            "8 rows: 4 completed, 2 failed, 2 not done (1 before) in 2m 5s · 2.4 rows a minute";
        assert_eq!(summary(counts, 8, 125_000), expected);
        let none = MapCounts { stopped: 1, ..MapCounts::default() };
        assert_eq!(summary(none, 1, 5), "1 row: 1 not done");
        let counts = MapCounts { completed: 2, ..MapCounts::default() };
        assert_eq!(summary(counts, 2, 13), "2 rows: 2 completed");
        assert_eq!(summary(counts, 2, 1_300), "2 rows: 2 completed in 1s · 1.5 rows a second");
    }

    #[test]
    fn what_fails_whenever_it_is_tried_is_not_said_to_be_tried_again() {
        let session = SessionId("019a".into());
        let check = |failed: u32, reasons: &[(u32, &str)], stopped: u32, expected: &str| {
            let counts = MapCounts { failed, stopped, ..MapCounts::default() };
            let hint = hint(counts, reasons, &session).unwrap_or_default();
            assert_eq!(hint, expected);
        };
        let setup = [
            (1, "setup: its prompt cannot be put together: a"),
            (1, "setup: its prompt cannot be put together: b"),
        ];
        let mend = "hint: the prompt has to be mended; then the same command with `--resume 019a`";
        let again = "hint: the same command with `--resume 019a --retry-failed`";
        check(2, &setup, 0, &format!("{mend} runs the rows again that failed"));
        let expected = format!("{mend} goes on with the rest and runs the rows again that failed");
        check(2, &setup, 1, &expected);
        for reason in ["request: no", "setup: cannot make a worktree: no", "setup"] {
            let expected = format!("{again} runs the rows again that failed");
            check(3, &[&setup[..], &[(1, reason)]].concat(), 0, &expected);
        }
        // There were more reasons than are counted.
        check(3, &setup, 0, &format!("{again} runs the rows again that failed"));
        check(0, &[], 1, "hint: the same command with `--resume 019a` goes on with the rest");
        check(0, &[], 0, "");
    }
}
