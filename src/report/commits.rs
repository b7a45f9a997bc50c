//! What stays of a run: events as rows for the scrollback.
//!
//! The text of main comes in pieces and goes out as it becomes final; a call is
//! a row when it ends; of other units is told what went wrong and how they
//! ended. Code and changes wait a moment for their colours, in order.

mod calls;
mod held;
mod told;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::board::Ended;
use super::ink::{Coloured, Highlighter, Ink};
use super::prose::{Prose, wrapped};
use super::result::Tally;
use super::row::Row;
use super::units::Units;
use super::unread::Unread;
use crate::event::{
    ChangedBy, Delta, Event, EventKind, FileChange, Outcome, Piece, Question, UnitId, UnixMillis,
    Verdict,
};
use crate::message::{CallId, Output, Reply, byte_size};
use crate::tool_name::may_wait_for_agents;

pub use calls::{CallEnd, call_row};
use held::Held;
pub use told::{NEWS, left_rows, prompt_rows};

/// Most rows of reasoning in an answer; the rest is counted.
const THOUGHTS: usize = 12;

/// Most outputs that can be opened again.
const OUTPUTS: usize = 50;

/// Most bytes of an output that are kept for that.
const OUTPUT_CAP: usize = 65_536;

/// What stays, as far as it is told.
pub struct Commits {
    prose: Prose,
    /// The bytes of the answer that came in pieces.
    said: usize,
    thinking: Thinking,
    calls: HashMap<CallId, Running>,
    outputs: VecDeque<Opened>,
    /// What the user wrote and main has not read.
    waiting: Unread,
    /// Calls that the user said no to, until it is known that they do not run.
    refused: HashSet<(UnitId, CallId)>,
    /// An invocation began without a prompt: it is told with what it brings.
    brings_news: bool,
    /// Main has answered in this invocation.
    has_answered: bool,
    tally: Tally,
    held: Held,
    /// What the last row was part of.
    last: Option<Part>,
}

/// A call that has no output yet.
struct Running {
    tool: Arc<str>,
    subject: Arc<str>,
    changes: Vec<Arc<FileChange>>,
    /// Whether it started agents, whose rows tell what became of it.
    has_agents: bool,
}

/// A call that ended, for looking at it again.
#[derive(Debug, Clone)]
struct Opened {
    /// The tool's name and what it was about.
    title: String,
    /// Its output, cut at its cap.
    output: String,
    /// How many bytes of it that left out.
    left_out: usize,
    /// The files that it changed.
    changes: Vec<Arc<FileChange>>,
}

impl Running {
    fn new(tool: Arc<str>, subject: Arc<str>) -> Self {
        Self { tool, subject, changes: Vec::new(), has_agents: false }
    }
}

impl Opened {
    fn new(title: String, output: &Output, changes: Vec<Arc<FileChange>>) -> Self {
        let text = &output.text;
        let end = text.floor_char_boundary(OUTPUT_CAP);
        Self { title, output: text[..end].to_owned(), left_out: text.len() - end, changes }
    }
}

/// What rows are part of; a blank row stands between some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Prompt,
    Thinking,
    Text,
    Work,
}

#[derive(Default)]
struct Thinking {
    line: String,
    rows: usize,
    left_out: usize,
    said: usize,
}

impl Commits {
    /// Nothing yet. Without a highlighter code stays plain, and of an edit only
    /// the call is told.
    #[must_use]
    pub fn new(highlighter: Option<Highlighter>) -> Self {
        Self {
            prose: Prose::new(0),
            said: 0,
            thinking: Thinking::default(),
            calls: HashMap::new(),
            outputs: VecDeque::new(),
            waiting: Unread::default(),
            refused: HashSet::new(),
            brings_news: false,
            has_answered: false,
            tally: Tally::default(),
            held: Held::new(highlighter),
            last: None,
        }
    }

    /// Takes rows that are about no event. They stand above what is still being
    /// written.
    pub fn note(&mut self, rows: Vec<Row>) {
        self.put(Part::Work, rows);
    }

    /// Takes note of an event; `units` and `left` are what the board knows
    /// after it, `columns` how wide prose may be.
    pub fn take(&mut self, event: &Event, (units, left): (&Units, &[Ended]), columns: u16) {
        let ending = self.tally.take(event);
        if ends_an_answer(event) {
            self.end_answer(event, columns);
        }
        let has_told =
            matches!(&event.kind, EventKind::Notified { children, .. } if !children.is_empty());
        let is_of_agents = event.unit == UnitId::MAIN && (has_told || !left.is_empty());
        if is_of_agents && std::mem::take(&mut self.brings_news) {
            self.put(Part::Prompt, prompt_rows("", columns));
        }
        // Whatever is told now stands above what main is writing.
        self.put(Part::Work, left_rows(left, columns));
        self.conversation(event, columns);
        if !self.is_told_already(event) {
            self.put(Part::Work, told::rows(event, units, columns));
        }
        if let (EventKind::InvocationEnded(end), Some(ending)) = (&event.kind, ending) {
            self.calls.clear();
            self.refused.clear();
            if let Outcome::Done { text } = &end.outcome
                && !self.has_answered
                && !text.trim().is_empty()
            {
                // No model had a part in it.
                self.put(Part::Work, wrapped(Ink::Plain, text.trim_end(), columns, 2));
            }
            self.put(Part::Work, told::closing(end, units.counts(), &ending, columns));
        }
    }

    /// Tells whether an event is that a call is denied which the user has just
    /// said no to: the row of that answer tells it.
    fn is_told_already(&mut self, event: &Event) -> bool {
        if let EventKind::Answered { question: Question::Call(asked), answer, .. } = &event.kind
            && matches!(answer, Verdict::No | Verdict::NoBecause(_))
        {
            self.refused.insert((event.unit, asked.call.clone()));
        }
        let EventKind::Denied { call, .. } = &event.kind else { return false };
        self.refused.remove(&(event.unit, call.clone()))
    }

    /// Takes note of what ends an answer of main: nothing of it follows.
    fn end_answer(&mut self, event: &Event, columns: u16) {
        if let EventKind::RequestFailed(failed) = &event.kind
            && told::is_made_again(failed)
        {
            self.begin_anew(columns);
            return;
        }
        if let EventKind::Replied(replied) = &event.kind {
            self.has_answered = true;
            self.add_missing(&replied.reply, columns);
        }
        self.finish_text(columns);
        self.said = 0;
        self.thinking = Thinking::default();
    }

    /// Takes note of what is said and done in main.
    fn conversation(&mut self, event: &Event, columns: u16) {
        if let EventKind::UnitQueued(head) = &event.kind
            && head.parent == UnitId::MAIN
            && let Some(running) = head.call.as_ref().and_then(|call| self.calls.get_mut(call))
        {
            running.has_agents = true;
        }
        if event.unit != UnitId::MAIN {
            return;
        }
        let read = self.waiting.take(event);
        match &event.kind {
            EventKind::InvocationStarted { prompt, .. } => {
                self.brings_news = prompt.trim().is_empty();
                self.has_answered = false;
                if !self.brings_news {
                    self.put(Part::Prompt, prompt_rows(prompt, columns));
                }
            }
            EventKind::Notified { .. } => {
                self.brings_news = false;
                for text in read {
                    self.put(Part::Prompt, prompt_rows(&text, columns));
                }
            }
            EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_) => self.call(event),
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Compacted(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
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

    /// Takes the whole of an answer, of which pieces may be missing.
    fn add_missing(&mut self, reply: &Reply, columns: u16) {
        if let Some(missing) = reply.thinking.get(self.thinking.said..) {
            self.think(missing, columns);
        }
        self.end_thinking(columns);
        if let Some(missing) = reply.text.get(self.said..) {
            self.prose.push(missing);
        }
    }

    /// Takes note of a piece of an answer.
    pub fn delta(&mut self, delta: &Delta, columns: u16) {
        if delta.unit != UnitId::MAIN {
            return;
        }
        match &delta.piece {
            Piece::Text(text) => {
                self.end_thinking(columns);
                self.said += text.len();
                self.prose.push(text);
            }
            Piece::Thinking(text) => {
                self.thinking.said += text.len();
                self.think(text, columns);
            }
        }
    }

    /// Takes what came back from the highlighter.
    pub fn coloured(&mut self, coloured: Coloured) {
        self.held.coloured(coloured);
    }

    /// Returns the rows that have become final since the last call.
    pub fn settled(&mut self, columns: u16, now: UnixMillis) -> Vec<Row> {
        let rows = self.prose.settled(columns);
        self.put(Part::Text, rows);
        self.held.release(now)
    }

    /// Returns when rows go out that still wait; `None` if none do.
    #[must_use]
    pub fn deadline(&self) -> Option<UnixMillis> {
        self.held.deadline()
    }

    /// Returns the last rows of what is not final.
    #[must_use]
    pub fn tail(&self, columns: u16, rows: u16) -> Vec<Row> {
        let mut tail: Vec<Row> = self.held.rows().cloned().collect();
        if !self.prose.is_empty() {
            let prose = self.prose.tail(columns, rows);
            if !prose.is_empty() && self.needs_blank(Part::Text) {
                tail.push(Row::new());
            }
            tail.extend(prose);
        }
        tail.split_off(tail.len().saturating_sub(usize::from(rows)))
    }

    /// Returns how many rows are final and wait for their colours.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.rows().count()
    }

    /// Returns what the user wrote and main has not read, oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &Arc<str>> {
        self.waiting.iter()
    }

    /// Tells all of a call of main that ended, 0 for the last one. Returns
    /// whether there is one.
    pub fn open_call(&mut self, back: usize) -> bool {
        let Some(opened) = self.outputs.iter().rev().nth(back).cloned() else { return false };
        let Opened { title, output, left_out, changes } = opened;
        let lines = output.lines().map(|line| Row::new().text(Ink::Plain, line));
        let rows = [Row::new().text(Ink::Strong, &title)].into_iter().chain(lines);
        let cut = (left_out > 0).then(|| {
            let (left_out, kept) = (byte_size(left_out as u64), byte_size(OUTPUT_CAP as u64));
            let text = format!("[{left_out} left out: of an output {kept} are kept for this]");
            Row::new().text(Ink::Dim, &text)
        });
        self.put(Part::Work, rows.chain(cut).collect());
        changes.iter().for_each(|change| self.held.push_change(change, true));
        true
    }

    fn call(&mut self, event: &Event) {
        if let EventKind::ToolStarted { call, tool, subject, .. } = &event.kind {
            let (tool, subject) = (Arc::clone(tool), Arc::clone(subject));
            // What waits for agents is told first: their rows stand below it.
            if may_wait_for_agents(&tool) {
                self.put(Part::Work, vec![call_row(&tool, &subject, None)]);
            }
            self.calls.insert(call.clone(), Running::new(tool, subject));
        }
        if let EventKind::FileChanged(change) = &event.kind
            && let ChangedBy::Call(call) = &change.by
            && let Some(running) = self.calls.get_mut(call)
        {
            running.changes.push(Arc::clone(change));
        }
        if let EventKind::ToolFinished { call, output, took_ms, .. } = &event.kind
            && let Some(running) = self.calls.remove(call)
        {
            self.call_ended(running, CallEnd { output, took_ms: *took_ms });
        }
    }

    fn call_ended(&mut self, running: Running, end: CallEnd<'_>) {
        let Running { tool, subject, changes, has_agents } = running;
        if !may_wait_for_agents(&tool) || (end.output.is_error && !has_agents) {
            self.put(Part::Work, vec![call_row(&tool, &subject, Some(end))]);
        }
        if !end.output.is_error {
            changes.iter().for_each(|change| self.held.push_change(change, false));
        }
        let title = super::words::call(&tool, &subject);
        self.remember(Opened::new(title, end.output, changes));
    }

    fn remember(&mut self, opened: Opened) {
        if self.outputs.len() == OUTPUTS {
            self.outputs.pop_front();
        }
        self.outputs.push_back(opened);
    }

    /// Takes back what an answer said that is made again.
    fn begin_anew(&mut self, columns: u16) {
        if self.said == 0 && self.thinking.said == 0 {
            return;
        }
        let rows = self.prose.settled(columns);
        self.put(Part::Text, rows);
        self.prose.finish(columns);
        self.said = 0;
        self.thinking = Thinking::default();
        let text = "the answer broke off and begins anew";
        self.put(Part::Work, vec![Row::new().text(Ink::Dim, text)]);
    }

    fn think(&mut self, text: &str, columns: u16) {
        self.thinking.line.push_str(text);
        while let Some(end) = self.thinking.line.find('\n') {
            let line: String = self.thinking.line.drain(..=end).collect();
            self.thought(line.trim_end(), columns);
        }
        // One that never ends goes out in pieces.
        if self.thinking.line.len() > OUTPUT_CAP {
            let line = std::mem::take(&mut self.thinking.line);
            self.thought(&line, columns);
        }
    }

    fn thought(&mut self, line: &str, columns: u16) {
        if line.trim().is_empty() {
            return;
        }
        let rows = super::prose::wrapped(Ink::Dim, line, columns, 0);
        let room = THOUGHTS.saturating_sub(self.thinking.rows).min(rows.len());
        self.thinking.rows += room;
        self.thinking.left_out += rows.len() - room;
        self.put(Part::Thinking, rows.into_iter().take(room).collect());
    }

    fn end_thinking(&mut self, columns: u16) {
        let rest = std::mem::take(&mut self.thinking.line);
        self.thought(&rest, columns);
        let left_out = std::mem::take(&mut self.thinking.left_out);
        if let Ok(count @ 1..) = u32::try_from(left_out) {
            let rows = crate::message::counted(count, "row");
            let text = format!("[{rows} of thinking left out]");
            self.put(Part::Thinking, vec![Row::new().text(Ink::Dim, &text)]);
        }
    }

    fn finish_text(&mut self, columns: u16) {
        self.end_thinking(columns);
        if !self.prose.is_empty() || self.last == Some(Part::Text) {
            let rows = self.prose.finish(columns);
            self.put(Part::Text, rows);
        }
    }

    fn needs_blank(&self, part: Part) -> bool {
        match (self.last, part) {
            (None, _) | (Some(Part::Prompt), Part::Work) => false,
            (Some(last), part) => last != part || part == Part::Prompt,
        }
    }

    fn put(&mut self, part: Part, rows: Vec<Row>) {
        if rows.is_empty() {
            return;
        }
        if self.needs_blank(part) {
            self.held.push(Row::new());
        }
        self.last = Some(part);
        rows.into_iter().for_each(|row| self.held.push(row));
    }
}

/// Tells whether an event is the end of what main was writing, whole or not.
fn ends_an_answer(event: &Event) -> bool {
    let ends = matches!(
        event.kind,
        EventKind::Replied(_) | EventKind::RequestFailed(_) | EventKind::InvocationEnded(_)
    );
    ends && event.unit == UnitId::MAIN
}

#[cfg(test)]
mod tests;
