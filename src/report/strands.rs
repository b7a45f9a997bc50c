//! What the units beside main write, for following one of them.
//!
//! Of each that runs the end of what it wrote is kept, up to a bound, so that
//! following one begins with what was there. Of the one that is followed the
//! rows are kept, too. Nothing of this ever stays on the screen.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::commits::{CallEnd, call_row};
use super::ink::Ink;
use super::prose::{Prose, wrapped};
use super::row::Row;
use super::words;
use crate::event::{Delta, Event, EventKind, Piece, UnitEnd, UnitId, UnitState};
use crate::message::{CallId, Output, Reply};

/// Most bytes that are kept of what a unit wrote.
const KEPT: usize = 65_536;

/// Most rows of the unit that is followed.
const ROWS: usize = 2_000;

/// Most units that have ended and can still be followed.
const ENDED: usize = 16;

/// What units wrote, and which of them is followed.
#[derive(Default)]
pub struct Strands {
    strands: BTreeMap<UnitId, Strand>,
    /// Units that ended, in the order in which they did.
    ended: VecDeque<UnitId>,
    followed: Option<Followed>,
}

/// What a unit wrote.
#[derive(Default)]
struct Strand {
    /// What people call it.
    name: String,
    state: UnitState,
    pieces: VecDeque<Written>,
    bytes: usize,
    /// The bytes of the answer that came in pieces.
    said: usize,
    /// The calls that have no output.
    calls: Vec<(CallId, Arc<str>, Arc<str>)>,
    last: Option<(String, Arc<Output>)>,
}

/// A piece of what a unit wrote.
#[derive(Debug, Clone)]
enum Written {
    Text(String),
    Thinking(String),
    /// Its answer is whole.
    End,
    /// Something that it did.
    Row(Row),
}

/// The unit that is followed, as rows for so many columns.
struct Followed {
    unit: UnitId,
    columns: u16,
    rows: VecDeque<Row>,
    /// How many rows went before those.
    gone: usize,
    prose: Prose,
    thought: String,
    /// The row before which what is shown ends, from the first one ever on;
    /// `None` while it goes on with what is written.
    end: Option<usize>,
    /// How many rows were shown last.
    shown: usize,
}

impl Strands {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        if event.unit == UnitId::MAIN {
            return;
        }
        match &event.kind {
            EventKind::UnitQueued(head) if head.is_agent() => {
                let name = words::unit_name(event.unit, head);
                self.strands.insert(event.unit, Strand { name, ..Strand::default() });
            }
            // What only holds steps says nothing that could be followed.
            EventKind::UnitQueued(_) => {}
            EventKind::UnitStarted => {
                if let Some(strand) = self.strands.get_mut(&event.unit) {
                    strand.state = UnitState::Running;
                }
            }
            EventKind::Lost { worker, attempt } => {
                self.lost(event.unit, &words::lost(worker, *attempt));
            }
            EventKind::ToolStarted { .. } | EventKind::ToolFinished { .. } => self.call(event),
            EventKind::Replied(replied) => {
                self.replied(event.unit, &replied.reply);
            }
            EventKind::RequestFailed(failed) => {
                if let Some(strand) = self.strands.get_mut(&event.unit) {
                    strand.said = 0;
                }
                let text = words::request_failed(failed);
                self.write(event.unit, Written::Row(Row::new().text(Ink::Caution, &text)));
            }
            EventKind::Denied { tool, reason, .. } => {
                let text = words::denied(tool, reason);
                self.write(event.unit, Written::Row(Row::new().text(Ink::Caution, &text)));
            }
            EventKind::UnitEnded(end) => self.unit_ended(event.unit, end),
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::InvocationEnded(_) => {}
        }
    }

    fn lost(&mut self, unit: UnitId, text: &str) {
        if let Some(strand) = self.strands.get_mut(&unit) {
            (strand.state, strand.said) = (UnitState::Queued, 0);
            strand.calls.clear();
        }
        self.write(unit, Written::End);
        self.write(unit, Written::Row(Row::new().text(Ink::Caution, text)));
    }

    fn unit_ended(&mut self, unit: UnitId, end: &UnitEnd) {
        let state = end.outcome.state();
        if let Some(strand) = self.strands.get_mut(&unit) {
            strand.state = state;
        }
        let ink = super::board::ink_of(state);
        let row = Row::new().text(ink, &words::unit_end(end));
        self.write(unit, Written::End);
        self.write(unit, Written::Row(row));
        self.end(unit);
    }

    fn call(&mut self, event: &Event) {
        let Some(strand) = self.strands.get_mut(&event.unit) else { return };
        if let EventKind::ToolStarted { call, tool, subject, .. } = &event.kind {
            strand.calls.push((call.clone(), Arc::clone(tool), Arc::clone(subject)));
        }
        if let EventKind::ToolFinished { call, output, took_ms, .. } = &event.kind
            && let Some(at) = strand.calls.iter().position(|(known, ..)| known == call)
        {
            let (_, tool, subject) = strand.calls.remove(at);
            strand.last = Some((words::call(&tool, &subject), Arc::clone(output)));
            let end = CallEnd { output, took_ms: *took_ms };
            self.write(event.unit, Written::Row(call_row(&tool, &subject, Some(end))));
        }
    }

    /// Takes the whole of an answer, of which pieces may be missing.
    fn replied(&mut self, unit: UnitId, reply: &Reply) {
        let Some(strand) = self.strands.get_mut(&unit) else { return };
        let said = std::mem::take(&mut strand.said);
        if let Some(missing) = reply.text.get(said..).filter(|missing| !missing.is_empty()) {
            self.write(unit, Written::Text(missing.to_owned()));
        }
        self.write(unit, Written::End);
    }

    /// Takes note of a piece of an answer.
    pub fn delta(&mut self, delta: &Delta) {
        let Some(strand) = self.strands.get_mut(&delta.unit) else { return };
        let piece = match &delta.piece {
            Piece::Text(text) => {
                strand.said += text.len();
                Written::Text(text.to_string())
            }
            Piece::Thinking(text) => Written::Thinking(text.to_string()),
        };
        self.write(delta.unit, piece);
    }

    /// Follows a unit, or none.
    pub fn follow(&mut self, unit: Option<UnitId>) {
        self.followed = unit.map(|unit| Followed::new(unit, 0));
    }

    /// Returns the unit that is followed.
    #[must_use]
    pub fn followed(&self) -> Option<UnitId> {
        self.followed.as_ref().map(|followed| followed.unit)
    }

    /// Returns the units that can be followed, in the order in which they were
    /// declared: what people call each, and its state.
    #[must_use]
    pub fn known(&self) -> Vec<(UnitId, String, &'static str)> {
        let known = self.strands.iter();
        known
            .map(|(unit, strand)| (*unit, strand.name.clone(), words::state(strand.state)))
            .collect()
    }

    /// Returns what people call a unit, and its state; `None` if it is not known
    /// any more.
    #[must_use]
    pub fn name_of(&self, unit: UnitId) -> Option<(&str, UnitState)> {
        self.strands.get(&unit).map(|strand| (&*strand.name, strand.state))
    }

    /// Returns the last call of a unit that ended: what it was, and its output.
    #[must_use]
    pub fn last_output(&self, unit: UnitId) -> Option<(&str, &Output)> {
        let (title, output) = self.strands.get(&unit)?.last.as_ref()?;
        Some((title, output))
    }

    /// Moves what is shown of the unit that is followed by so many rows, upwards
    /// if it is less than 0.
    ///
    /// What is shown then stays where it is while the unit writes on, until its
    /// last row is reached again.
    pub fn scroll(&mut self, by: isize) {
        if let Some(followed) = &mut self.followed {
            followed.scroll(by);
        }
    }

    /// Returns so many rows of the unit that is followed: its last ones, or
    /// those that were scrolled to.
    pub fn rows(&mut self, columns: u16, count: usize) -> Vec<Row> {
        let Some(followed) = &mut self.followed else { return Vec::new() };
        if followed.columns != columns {
            let strand = self.strands.get(&followed.unit);
            let pieces = strand.into_iter().flat_map(|strand| &strand.pieces);
            followed.begin_anew(columns, pieces);
        }
        followed.last(count)
    }

    fn write(&mut self, unit: UnitId, piece: Written) {
        let Some(strand) = self.strands.get_mut(&unit) else { return };
        if let Some(followed) = &mut self.followed
            && followed.unit == unit
            && followed.columns > 0
        {
            followed.take(&piece);
        }
        strand.write(piece);
    }

    fn end(&mut self, unit: UnitId) {
        if !self.strands.contains_key(&unit) {
            return;
        }
        self.ended.push_back(unit);
        while self.ended.len() > ENDED {
            let followed = self.followed();
            let oldest = self.ended.iter().position(|unit| Some(*unit) != followed);
            if let Some(oldest) = oldest.and_then(|oldest| self.ended.remove(oldest)) {
                self.strands.remove(&oldest);
            }
        }
    }
}

impl Strand {
    fn write(&mut self, piece: Written) {
        self.bytes += piece.bytes();
        match (self.pieces.back_mut(), piece) {
            // Pieces of a few letters each would cost more than they hold.
            (Some(Written::Text(last)), Written::Text(more)) if last.len() < KEPT / 16 => {
                last.push_str(&more);
            }
            (Some(Written::Thinking(last)), Written::Thinking(more)) if last.len() < KEPT / 16 => {
                last.push_str(&more);
            }
            (_, piece) => self.pieces.push_back(piece),
        }
        while self.bytes > KEPT && self.pieces.len() > 1 {
            let bytes = self.pieces.pop_front().map_or(0, |piece| piece.bytes());
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

impl Written {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Thinking(text) => text.len(),
            Self::End => 1,
            Self::Row(row) => row.columns().max(1),
        }
    }
}

impl Followed {
    fn new(unit: UnitId, columns: u16) -> Self {
        Self {
            unit,
            columns,
            rows: VecDeque::new(),
            gone: 0,
            prose: Prose::new(unit.0),
            thought: String::new(),
            end: None,
            shown: 0,
        }
    }

    /// Makes the rows for another width. It ends as far before the last row as
    /// it did.
    fn begin_anew<'a>(&mut self, columns: u16, pieces: impl Iterator<Item = &'a Written>) {
        let back = self.end.map(|end| self.all().saturating_sub(end));
        *self = Self { shown: self.shown, ..Self::new(self.unit, columns) };
        pieces.for_each(|piece| self.take(piece));
        self.end = back.map(|back| self.all().saturating_sub(back));
    }

    /// Returns how many rows there are, with those that are gone.
    fn all(&self) -> usize {
        self.gone + self.rows.len() + self.tail(u16::MAX).len()
    }

    fn scroll(&mut self, by: isize) {
        let all = self.all();
        let end = self.end.unwrap_or(all).saturating_add_signed(by);
        self.end = Some(end.max(self.first_end(all, self.shown))).filter(|end| *end < all);
    }

    /// Returns where so many rows end if they begin with the first there is.
    fn first_end(&self, all: usize, count: usize) -> usize {
        (self.gone + count).min(all)
    }

    fn last(&mut self, count: usize) -> Vec<Row> {
        self.shown = count;
        let Some(end) = self.end else {
            let tail = self.tail(u16::try_from(count).unwrap_or(u16::MAX));
            let before = count.saturating_sub(tail.len()).min(self.rows.len());
            let before = self.rows.range(self.rows.len() - before..).cloned();
            return before.chain(tail).collect();
        };
        let all = self.all();
        let end = end.clamp(self.first_end(all, count), all);
        self.end = Some(end).filter(|end| *end < all);
        let end = end - self.gone;
        let tail = self.tail(u16::MAX);
        let first = end.saturating_sub(count);
        let kept = self.rows.range(first.min(self.rows.len())..end.min(self.rows.len()));
        let from_tail = first.saturating_sub(self.rows.len())..end.saturating_sub(self.rows.len());
        kept.cloned().chain(tail[from_tail].iter().cloned()).collect()
    }

    fn take(&mut self, piece: &Written) {
        match piece {
            Written::Thinking(text) => {
                self.thought.push_str(text);
                if let Some(end) = self.thought.rfind('\n') {
                    let whole: String = self.thought.drain(..=end).collect();
                    self.put(wrapped(Ink::Dim, whole.trim_end(), self.columns, 0));
                }
            }
            Written::Text(text) => {
                self.end_thought();
                self.prose.push(text);
                let rows = self.prose.settled(self.columns);
                self.put(rows);
            }
            Written::End => self.end(),
            Written::Row(row) => {
                self.end();
                self.put(vec![row.clone().cut(usize::from(self.columns))]);
            }
        }
    }

    fn end_thought(&mut self) {
        let rest = std::mem::take(&mut self.thought);
        if !rest.trim().is_empty() {
            self.put(wrapped(Ink::Dim, rest.trim_end(), self.columns, 0));
        }
    }

    fn end(&mut self) {
        self.end_thought();
        let rows = self.prose.finish(self.columns);
        self.put(rows);
    }

    /// Returns the last rows of what is not final.
    fn tail(&self, count: u16) -> Vec<Row> {
        let mut rows = match self.thought.trim() {
            "" => Vec::new(),
            thought => wrapped(Ink::Dim, thought, self.columns, 0),
        };
        if !self.prose.is_empty() {
            rows.extend(self.prose.tail(self.columns, count));
        }
        let columns = usize::from(self.columns);
        let first = rows.len().saturating_sub(usize::from(count));
        rows.into_iter().skip(first).map(|row| row.cut(columns)).collect()
    }

    fn put(&mut self, rows: Vec<Row>) {
        let columns = usize::from(self.columns);
        self.rows.extend(rows.into_iter().map(|row| row.cut(columns)));
        let over = self.rows.len().saturating_sub(ROWS);
        self.rows.drain(..over);
        self.gone += over;
    }
}

#[cfg(test)]
mod tests;
