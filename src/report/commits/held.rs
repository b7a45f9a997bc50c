//! Rows on their way out, some of which wait for their colours.
//!
//! They go out in the order in which they came. One that waits holds up those
//! behind it, for a bounded time; then it goes as it is, and so does the rest of
//! its block.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::event::{FileChange, UnixMillis};
use crate::report::difference::not_shown;
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
    what: What,
}

/// What waits.
#[derive(Clone, Copy)]
enum What {
    /// A line of this block of code.
    Line(u64),
    /// A change of a file.
    Change,
}

impl What {
    fn patience(self) -> u64 {
        match self {
            Self::Line(_) => CODE_WAIT,
            Self::Change => CHANGE_WAIT,
        }
    }

    fn is_in(self, blocks: &BTreeSet<u64>) -> bool {
        match self {
            Self::Line(block) => blocks.contains(&block),
            Self::Change => false,
        }
    }
}

impl Held {
    pub(super) fn new(highlighter: Option<Highlighter>) -> Self {
        Self { rows: VecDeque::new(), highlighter, next: 0, slow: BTreeSet::new() }
    }

    pub(super) fn push(&mut self, row: Row) {
        let number = self.number();
        let what = row.code().map(|block| What::Line(block.number));
        let sends = |what: &What| {
            let thread = self.highlighter.as_ref().filter(|_| !what.is_in(&self.slow));
            thread.is_some_and(|thread| thread.send_line(number, &row))
        };
        let waits = what.filter(sends).map(|what| Waits { number, until: None, what });
        self.rows.push_back(Entry { rows: vec![row], waits });
    }

    /// Takes what a change of a file will look like.
    pub(super) fn push_change(&mut self, change: &Arc<FileChange>, is_whole: bool) {
        let number = self.number();
        let Some(thread) = &self.highlighter else { return };
        self.rows.push_back(match thread.send_change(number, change, is_whole) {
            true => {
                let waits = Waits { number, until: None, what: What::Change };
                Entry { rows: Vec::new(), waits: Some(waits) }
            }
            false => Entry { rows: vec![not_shown("too much else is looked at")], waits: None },
        });
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
            let until = UnixMillis(now.0.saturating_add(waits.what.patience()));
            waits.until.get_or_insert(until);
        }
        let mut out = Vec::new();
        while let Some(entry) = self.rows.front() {
            let mut late = None;
            if let Some(Waits { until, what, .. }) = &entry.waits {
                if !what.is_in(&self.slow) && until.is_none_or(|until| now < until) {
                    break;
                }
                late = Some(*what);
            }
            match late {
                Some(What::Line(block)) => self.is_slow(block),
                Some(What::Change) => out.push(not_shown("it took too long to find")),
                None => {}
            }
            out.extend(self.rows.pop_front().into_iter().flat_map(|entry| entry.rows));
        }
        out
    }

    fn is_slow(&mut self, block: u64) {
        if self.slow.len() == SLOW_CAP {
            self.slow.pop_first();
        }
        self.slow.insert(block);
    }

    /// Returns the rows that have not gone out.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flat_map(|entry| &entry.rows)
    }

    pub(super) fn deadline(&self) -> Option<UnixMillis> {
        self.rows.front()?.waits.as_ref()?.until
    }
}
