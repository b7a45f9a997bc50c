//! What became of each row of `tine map`: one JSON line for each, in the order of
//! the table, as soon as all before it have theirs.
//!
//! Rows are known by the step that they are: a fold over events, so the lines of
//! a run that was killed come again from its log. As for every record, names and
//! order of the fields are a promise.

mod failures;
mod waiting;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::lines;
use crate::event::{Event, EventKind, Origin, Outcome, UnitEnd, UnitHead, UnitId, UnitState};
use crate::message::Usage;

use failures::Failures;
use waiting::Waiting;

/// What the step is called that all rows are items of.
pub const ROWS: &str = "rows";

/// Tells whether a text begins as lines of rows do: with the first one.
#[must_use]
pub fn begins_as_map(text: &[u8]) -> bool {
    let (first, next) = (b"{\"id\":\"", b"\",\"row\":1,\"status\":\"");
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    // One that a full disk cut off ends anywhere.
    let is_torn = line.len() == text.len() && !line.is_empty();
    let Some(rest) = line.strip_prefix(first) else { return is_torn && first.starts_with(line) };
    // No `id` holds these bytes: its quotes are escaped.
    let is_whole = rest.windows(next.len()).any(|part| part == next);
    let is_cut = |kept: usize| rest.strip_suffix(&next[..kept]).is_some_and(is_without_quotes);
    is_whole || (is_torn && (0..next.len()).any(is_cut))
}

fn is_without_quotes(name: &[u8]) -> bool {
    let mut is_escaped = false;
    name.iter().all(|byte| {
        let is_quote = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_quote
    })
}

/// What is known of a map so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapCounts {
    /// Rows with an answer.
    pub completed: u32,
    /// Rows that went wrong.
    pub failed: u32,
    /// Rows that were stopped, or never began.
    pub stopped: u32,
    /// Rows of these whose end an earlier process has seen.
    pub from_before: u32,
    /// Rows at work.
    pub running: u32,
    /// Rows of which this process has heard at all.
    pub known: u32,
    /// Rows of these that have ended before, and need not run.
    pub reused: u32,
    /// Rows of these that had an answer to something else than they are asked
    /// now, and run again.
    pub changed: u32,
    /// Rows of earlier processes that the table does not have.
    pub gone: u32,
}

impl MapCounts {
    /// Returns how many rows have ended.
    #[must_use]
    pub fn ended(self) -> u32 {
        self.completed + self.failed + self.stopped
    }
}

/// Writes what becomes of rows.
pub struct Mapped {
    output: Box<dyn Write + Send>,
    /// What the rows are called, in their order.
    names: Arc<[Arc<str>]>,
    /// Whether answers are JSON.
    is_structured: bool,
    /// The rows that have not ended.
    rows: HashMap<UnitId, Row>,
    /// What rows came to in earlier processes, as long as no line has it.
    earlier: HashMap<UnitId, Earlier>,
    /// By row: whether an earlier process has had an answer.
    answered: Vec<bool>,
    /// Lines that wait for those before them.
    waiting: Waiting,
    next: usize,
    counts: MapCounts,
    failures: Failures,
}

/// A row that has not ended.
#[derive(Debug, Clone, Copy)]
struct Row {
    index: usize,
    is_running: bool,
    /// The unit of an earlier process that it has its end from.
    before: Option<UnitId>,
}

/// What a row came to in an earlier process. Its unit in this one asks nobody and
/// uses nothing.
#[derive(Debug, Clone, Default)]
struct Earlier {
    index: usize,
    usage: Usage,
    turns: u32,
    duration_ms: u64,
    /// What it had said before it failed; empty if it did not.
    partial: Arc<str>,
}

impl Mapped {
    /// Lines for rows of these names, to `output`. Where a schema asks for it
    /// answers are JSON.
    #[must_use]
    pub fn new(output: Box<dyn Write + Send>, names: Arc<[Arc<str>]>, is_structured: bool) -> Self {
        Self {
            output,
            answered: vec![false; names.len()],
            names,
            is_structured,
            rows: HashMap::new(),
            earlier: HashMap::new(),
            waiting: Waiting::default(),
            next: 0,
            counts: MapCounts::default(),
            failures: Failures::default(),
        }
    }

    /// Returns what is known so far.
    #[must_use]
    pub fn counts(&self) -> MapCounts {
        self.counts
    }

    /// Returns why rows have failed, each reason with how many rows, the most
    /// frequent first.
    #[must_use]
    pub fn failures(&self) -> Vec<(u32, &str)> {
        self.failures.by_count()
    }

    /// Takes note of an event of an earlier process: lines of rows that need not
    /// run again say what they used then.
    pub fn recall(&mut self, event: &Event) {
        if let EventKind::UnitQueued(head) = &event.kind {
            let Some(index) = row_of(head) else { return };
            if index >= self.names.len() {
                self.counts.gone = self.counts.gone.max(count(index + 1 - self.names.len()));
            } else if !matches!(head.origin, Origin::Reused(_)) {
                self.earlier.insert(event.unit, Earlier { index, ..Earlier::default() });
            }
        } else if let EventKind::UnitEnded(end) = &event.kind
            && let Some(earlier) = self.earlier.get_mut(&event.unit)
        {
            let UnitEnd { outcome, text, usage, turns, duration_ms, .. } = &**end;
            let index = earlier.index;
            self.answered[index] |= matches!(outcome, Outcome::Done { text: _ });
            let has_failed = matches!(outcome, Outcome::Failed(_));
            let partial = if has_failed { Arc::clone(text) } else { Arc::default() };
            let (usage, turns, duration_ms) = (*usage, *turns, *duration_ms);
            *earlier = Earlier { index, usage, turns, duration_ms, partial };
        }
    }

    /// Takes note of an event.
    ///
    /// # Errors
    ///
    /// The lines cannot be written.
    pub fn take(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::UnitQueued(head) = &event.kind {
            self.queued(event.unit, head);
        } else if event.kind == EventKind::UnitStarted {
            if let Some(row) = self.rows.get_mut(&event.unit) {
                row.is_running = true;
                self.counts.running += 1;
            }
        } else if let EventKind::Lost { .. } = event.kind {
            if let Some(row) = self.rows.get_mut(&event.unit) {
                self.counts.running -= u32::from(std::mem::take(&mut row.is_running));
            }
        } else if let EventKind::UnitEnded(end) = &event.kind {
            if let Some(row) = self.rows.remove(&event.unit) {
                return self.ended(event.unit, row, end);
            }
        } else if let EventKind::InvocationEnded(_) = event.kind {
            return self.over();
        }
        Ok(())
    }

    /// Writes what is written by now to its end.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        let Some(index) = row_of(head).filter(|index| *index < self.names.len()) else { return };
        let before = match head.origin {
            Origin::Reused(before) => Some(before),
            Origin::Prompt
            | Origin::Visible
            | Origin::Fork
            | Origin::Continued(_)
            | Origin::Steps => None,
        };
        self.counts.known += 1;
        self.counts.reused += u32::from(before.is_some());
        self.counts.changed += u32::from(before.is_none() && self.answered[index]);
        self.rows.insert(unit, Row { index, is_running: false, before });
    }

    fn ended(&mut self, unit: UnitId, row: Row, end: &UnitEnd) -> io::Result<()> {
        let Row { index, is_running, before } = row;
        self.counts.running -= u32::from(is_running);
        // What was stopped before it could end again has not ended.
        let before = before.filter(|_| !is_stopped(&end.outcome));
        self.counts.from_before += u32::from(before.is_some());
        match end.outcome {
            Outcome::Done { text: _ } => self.counts.completed += 1,
            Outcome::Failed(_) => self.counts.failed += 1,
            Outcome::Cancelled { ran: _ } | Outcome::Interrupted => self.counts.stopped += 1,
        }
        let earlier = match before {
            Some(before) => self.earlier.remove(&before).unwrap_or_default(),
            None => Earlier {
                usage: end.usage,
                turns: end.turns,
                duration_ms: end.duration_ms,
                partial: Arc::clone(&end.text),
                index,
            },
        };
        let error = error(&end.outcome);
        if let (Outcome::Failed(_), Some(error)) = (&end.outcome, &error) {
            self.failures.take(error);
        }
        let record = RowRecord {
            status: end.outcome.state().as_str(),
            result: match &end.outcome {
                Outcome::Done { text } => Some(answer(text, self.is_structured)),
                Outcome::Failed(_) | Outcome::Cancelled { ran: _ } | Outcome::Interrupted => {
                    Some(&*earlier.partial).filter(|text| !text.is_empty()).map(Answer::Text)
                }
            },
            error: error.as_deref(),
            usage: RowUsage::of(earlier.usage),
            turns: earlier.turns,
            duration_ms: earlier.duration_ms,
            agent_id: Some(before.unwrap_or(unit).to_string()),
            from_before: before.is_some(),
            ..RowRecord::new(&self.names, index)
        };
        let line = line_of(&record);
        self.put(index, line)
    }

    /// Writes the line of a row, once all before it are written.
    fn put(&mut self, index: usize, line: Vec<u8>) -> io::Result<()> {
        if index != self.next {
            return self.waiting.put(index, line);
        }
        let mut line = Some(line);
        while let Some(next) = line {
            self.output.write_all(&next)?;
            self.next += 1;
            line = self.waiting.take(self.next)?;
        }
        Ok(())
    }

    /// Rows of which nothing was heard have a line too: none is lost.
    fn over(&mut self) -> io::Result<()> {
        while self.next < self.names.len() {
            self.counts.stopped += 1;
            let record = RowRecord {
                status: UnitState::Skipped.as_str(),
                error: Some(NEVER_STARTED),
                ..RowRecord::new(&self.names, self.next)
            };
            let line = line_of(&record);
            self.put(self.next, line)?;
        }
        self.flush()
    }
}

fn is_stopped(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Cancelled { ran: _ } | Outcome::Interrupted => true,
        Outcome::Done { text: _ } | Outcome::Failed(_) => false,
    }
}

/// Returns which row a unit is, from 0; `None` of any other.
fn row_of(head: &UnitHead) -> Option<usize> {
    let key = &head.step.as_ref()?.key;
    key.strip_prefix(ROWS)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

fn count(rows: usize) -> u32 {
    u32::try_from(rows).expect("a flow has fewer steps than that")
}

/// What is said of a row that was not reached.
const NEVER_STARTED: &str = "it never started";

/// Says why there is no answer.
fn error(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Done { text: _ } => None,
        Outcome::Failed(failure) => Some(format!("{}: {}", failure.kind.as_str(), failure.message)),
        Outcome::Cancelled { ran: true } => Some("it was cancelled".to_owned()),
        Outcome::Cancelled { ran: false } => Some(NEVER_STARTED.to_owned()),
        Outcome::Interrupted => Some("the process ended while it ran".to_owned()),
    }
}

/// Returns an answer as its line has it. What became of a worktree stands on
/// lines of its own, before an answer that fits a schema.
fn answer(text: &str, is_structured: bool) -> Answer<'_> {
    let last = || text.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
    let json = is_structured.then(last).flatten();
    json.map_or(Answer::Text(text), Answer::Json)
}

/// A row's line.
#[derive(Debug, Serialize)]
struct RowRecord<'a> {
    id: &'a str,
    /// From 1, in the order of the table.
    row: usize,
    status: &'static str,
    /// A text, or JSON where a schema asks for it; `null` without an answer.
    result: Option<Answer<'a>>,
    error: Option<&'a str>,
    usage: RowUsage,
    turns: u32,
    duration_ms: u64,
    agent_id: Option<String>,
    /// Whether it did not run this time, because it had ended before.
    from_before: bool,
}

impl<'a> RowRecord<'a> {
    /// The line of a row of which nothing is known yet.
    fn new(names: &'a [Arc<str>], index: usize) -> Self {
        Self {
            id: &names[index],
            row: index + 1,
            status: UnitState::Queued.as_str(),
            result: None,
            error: None,
            usage: RowUsage::of(Usage::default()),
            turns: 0,
            duration_ms: 0,
            agent_id: None,
            from_before: false,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Text(&'a str),
    Json(&'a RawValue),
}

#[derive(Debug, Serialize)]
struct RowUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
    /// Left out where a price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
}

impl RowUsage {
    fn of(usage: Usage) -> Self {
        let Usage { input, output, cache_read, cache_creation, cost } = usage;
        Self {
            input_tokens: input,
            output_tokens: output,
            cache_read_input_tokens: cache_read,
            cache_creation_input_tokens: cache_creation,
            cost_usd: (!cost.is_partial).then(|| cost.usd.dollars()),
        }
    }
}

fn line_of(record: &RowRecord<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    lines::write(record, &mut line).expect("a row is always JSON");
    line
}

#[cfg(test)]
mod tests;
