//! Rows on their way out, some of which wait for their colours.
//!
//! They go out in the order in which they came. One that waits holds up those
//! behind it, for a bounded time; then it goes as it is, and so does the rest of
//! its block.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::event::{FileChange, UnixMillis};
use crate::report::ink::{Coloured, Highlighter};
use crate::report::row::Row;

/// How long a block of code waits for its colours in all, in milliseconds.
const CODE_WAIT: u64 = 250;

/// How long a change of a file is looked for, in milliseconds.
const CHANGE_WAIT: u64 = 500;

/// Most blocks that are known to be too slow.
const SLOW_CAP: usize = 64;

pub(super) struct Held {
    rows: VecDeque<Entry>,
    highlighter: Option<Highlighter>,
    next: u64,
    /// Blocks whose colours came too late.
    slow: BTreeSet<u64>,
}

struct Entry {
    rows: Vec<Row>,
    waits: Option<Waits>,
}

struct Waits {
    number: u64,
    /// Until when; `None` until the rows are first asked for.
    until: Option<UnixMillis>,
    patience: u64,
    block: Option<u64>,
}

impl Held {
    pub(super) fn new(highlighter: Option<Highlighter>) -> Self {
        Self { rows: VecDeque::new(), highlighter, next: 0, slow: BTreeSet::new() }
    }

    pub(super) fn push(&mut self, row: Row) {
        let block = row.code().map(|block| block.number);
        let number = self.number();
        let is_slow = block.is_some_and(|block| self.slow.contains(&block));
        let is_sent = !is_slow
            && self.highlighter.as_ref().is_some_and(|thread| thread.send_line(number, &row));
        let waits = is_sent.then_some(Waits { number, until: None, patience: CODE_WAIT, block });
        self.rows.push_back(Entry { rows: vec![row], waits });
    }

    /// Takes what a change of a file will look like.
    pub(super) fn push_change(&mut self, change: &Arc<FileChange>, is_whole: bool, at: UnixMillis) {
        let number = self.number();
        let sends = |thread: &Highlighter| thread.send_change(number, change, is_whole);
        if self.highlighter.as_ref().is_some_and(sends) {
            let until = Some(UnixMillis(at.0.saturating_add(CHANGE_WAIT)));
            let waits = Waits { number, until, patience: CHANGE_WAIT, block: None };
            self.rows.push_back(Entry { rows: Vec::new(), waits: Some(waits) });
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn coloured(&mut self, coloured: Coloured) {
        let Coloured { number, rows } = coloured;
        let is_it = |entry: &&mut Entry| entry.waits.as_ref().is_some_and(|it| it.number == number);
        // What comes too late has gone out already.
        if let Some(entry) = self.rows.iter_mut().find(is_it) {
            entry.rows = rows;
            entry.waits = None;
        }
    }

    /// Returns the rows that go out now.
    pub(super) fn release(&mut self, now: UnixMillis) -> Vec<Row> {
        for waits in self.rows.iter_mut().filter_map(|entry| entry.waits.as_mut()) {
            let until = UnixMillis(now.0.saturating_add(waits.patience));
            waits.until.get_or_insert(until);
        }
        let mut out = Vec::new();
        while let Some(entry) = self.rows.front() {
            if let Some(Waits { until, block, .. }) = &entry.waits {
                let is_slow = block.is_some_and(|block| self.slow.contains(&block));
                if !is_slow && until.is_none_or(|until| now < until) {
                    break;
                }
                if self.slow.len() == SLOW_CAP {
                    self.slow.pop_first();
                }
                self.slow.extend(block);
            }
            out.extend(self.rows.pop_front().into_iter().flat_map(|entry| entry.rows));
        }
        out
    }

    /// Returns the rows that have not gone out.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flat_map(|entry| &entry.rows)
    }

    pub(super) fn deadline(&self) -> Option<UnixMillis> {
        self.rows.front()?.waits.as_ref()?.until
    }
}
