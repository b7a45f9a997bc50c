//! What a person at a chat sees and does, as a machine of states: keys and
//! events go in, steps and frames come out. It waits for nothing and draws
//! nothing.
//!
//! Keys go to what has the focus. The line has it unless something was opened
//! over it, and a question takes it only from an empty line.

mod answers;
mod completing;
mod footer;
mod input;
mod keys;
pub(super) mod listing;
mod panels;
mod seen;
mod submit;
mod units;

use super::commands::COMMANDS;
use super::decode::Typed;
use super::history::History;
use super::line::Line;
use super::turns::Turns;
use crate::cli::exit::Refusal;
use crate::event::{Event, EventKind, QuestionId, UnitHead, UnitId, UnixMillis};
use crate::report::Choices;
use crate::report::board::Board;
use crate::report::commits::Commits;
use crate::report::filling::Filling;
use crate::report::ink::{Highlighter, Ink};
use crate::report::meter::Meter;
use crate::report::paint::{Frame, Size};
use crate::report::prose::wrapped;
use crate::report::questions::Questions;
use crate::report::region::{Parts, region};
use crate::report::row::Row;
use crate::report::strands::Strands;
use completing::Completing;
use listing::Listing;

pub(super) use seen::{About, Given, Manners, Seen, Step};

/// How long a question has to be seen before a key can answer it, in
/// milliseconds: what was typed before it came is no answer.
const QUESTION_GUARD: u64 = 300;

/// How often running times go on, in milliseconds.
const TICK: u64 = 1_000;

/// What has the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Focus {
    Line,
    /// The units' rows.
    Picked(UnitId),
    /// A unit that is followed.
    Strand(UnitId),
    /// The question that is shown.
    Question,
    /// The line, for the words of an answer; the draft that stood there.
    Reason {
        id: QuestionId,
        draft: String,
    },
    /// The list that is open.
    List,
}

/// The state of a chat.
pub(super) struct Desk {
    about: About,
    size: Size,
    board: Board,
    commits: Commits,
    strands: Strands,
    questions: Questions,
    /// The first question, if it is a form, as far as it is filled in.
    filling: Option<Filling>,
    meter: Meter,
    line: Line,
    completing: Completing,
    focus: Focus,
    /// Since when the first question has been on the screen.
    seen_since: Option<UnixMillis>,
    /// The answers that can be given to what is to be seen of it.
    offered: Option<Choices>,
    /// The question that was put into the scrollback whole.
    shown_whole: Option<QuestionId>,
    /// A letter that may answer it, or begin a message.
    held: Option<answers::Held>,
    /// The digits typed last, which pick units or begin a message.
    digits: String,
    /// What waits was asked back, and has not come.
    takes_back: bool,
    list: Option<Listing>,
    turns: Turns,
    /// How many calls were opened since something last happened.
    opened: usize,
    /// What stands in the footer until the next key.
    note: Option<String>,
    /// What stood in the line when it was given to an editor.
    lent: Option<String>,
    /// Another session was asked for.
    is_switching: bool,
    /// Whether another session was asked for, and is to be said again.
    wants_to_switch: bool,
}

impl Desk {
    pub(super) fn new(manners: Manners, history: History, size: Size) -> Self {
        Self {
            about: About::default(),
            size,
            board: Board::default(),
            commits: Commits::new(None),
            strands: Strands::default(),
            questions: Questions::default(),
            filling: None,
            meter: Meter::default(),
            line: Line::new(manners.editing, history),
            completing: Completing::default(),
            focus: Focus::Line,
            seen_since: None,
            offered: None,
            shown_whole: None,
            digits: String::new(),
            takes_back: false,
            held: None,
            list: None,
            turns: Turns::new(manners.bell_after_ms),
            opened: 0,
            note: None,
            lent: None,
            is_switching: false,
            wants_to_switch: false,
        }
    }

    /// Takes note of something.
    pub(super) fn see(&mut self, seen: Seen, now: UnixMillis) -> Vec<Step> {
        let mut steps = match seen {
            Seen::Began { about, highlighter, rows, context } => {
                self.begin(about, highlighter, rows);
                self.meter = Meter::with_context(context);
                Vec::new()
            }
            Seen::Changed(about) => {
                self.about = about;
                Vec::new()
            }
            Seen::Event(event) => self.event(&event),
            Seen::Delta(delta) => {
                self.board.delta(&delta);
                self.strands.delta(&delta);
                self.commits.delta(&delta, self.columns());
                Vec::new()
            }
            Seen::Typed(Typed::Key(key)) => self.key(key, now),
            Seen::Typed(Typed::Paste(pasted)) => self.paste(&pasted),
            Seen::Coloured(coloured) => {
                self.commits.coloured(coloured);
                Vec::new()
            }
            Seen::Paths(paths) => {
                self.completing.take_paths(paths);
                self.complete();
                Vec::new()
            }
            Seen::Shown(rows) => {
                self.commits.note(rows);
                Vec::new()
            }
            Seen::Choose(list) => {
                self.keep_reason();
                self.held = None;
                (self.list, self.focus) = (Some(list), Focus::List);
                Vec::new()
            }
            Seen::Refused { given, text, refusal } => {
                self.refused(given, &text, &refusal);
                Vec::new()
            }
            Seen::Edited(text) => {
                self.take_edited(&text);
                self.edited().into_iter().collect()
            }
            Seen::Rewound(text) => {
                // The event says so, too, but may come later.
                self.meter.forget_context();
                self.put_back(&text);
                Vec::new()
            }
            Seen::First(text) => {
                self.line.set(&text);
                self.submit()
            }
        };
        steps.extend(self.news());
        steps
    }

    /// Takes note of another size.
    pub(super) fn resized(&mut self, size: Size) {
        self.size = size;
    }

    /// Returns when something is to be done or drawn without anything being seen.
    pub(super) fn wakes(&self, now: UnixMillis) -> Option<UnixMillis> {
        let ticks = self.is_busy() || self.board.units().running().next().is_some();
        let tick = ticks.then(|| UnixMillis(now.0 - now.0 % TICK + TICK));
        let guarded = self.seen_since.map(|since| UnixMillis(since.0 + QUESTION_GUARD));
        let guarded = guarded.filter(|until| *until > now);
        let held = self.held.as_ref().map(answers::Held::until);
        let forgets = self.turns.forgets_interrupt();
        [tick, guarded, held, forgets, self.commits.deadline()].into_iter().flatten().min()
    }

    /// Returns what the screen shows now. What came to stay is handed out once.
    pub(super) fn frame(&mut self, now: UnixMillis) -> Frame {
        let columns = self.columns();
        // A list covers it. What is not painted is not seen, either.
        let is_seen = self.is_asked() && self.list.is_none();
        self.seen_since = is_seen.then(|| self.seen_since.unwrap_or(now));
        let commits = self.commits.settled(columns, now);
        let (line, cursor) = self.line_rows(columns);
        let footer = self.footer(columns);
        let picked = match self.focus {
            Focus::Picked(unit) | Focus::Strand(unit) => Some(unit),
            Focus::Line | Focus::Question | Focus::Reason { .. } | Focus::List => None,
        };
        let mut panels = panels::Panels {
            list: self.list.as_ref(),
            questions: &self.questions,
            filling: self.filling.as_ref(),
            keys: self.question_keys(now),
            board: &self.board,
            strands: &mut self.strands,
            completing: &self.completing,
            now,
            shown_whole: self.shown_whole,
            offered: None,
        };
        let parts = Parts {
            commits: &self.commits,
            board: &self.board,
            picked,
            panel: &mut |columns, rows| panels.rows(columns, rows),
            line: &line,
            cursor,
            footer,
        };
        let (region, cursor) = region(parts, self.size, now);
        self.offered = panels.offered;
        Frame { commits, region, cursor }
    }

    /// Returns the window's title.
    pub(super) fn title(&self) -> String {
        let sign = match (self.is_asked(), self.is_busy()) {
            (true, _) => " ?",
            (false, true) => " *",
            (false, false) => "",
        };
        format!("tine: {}{sign}", self.about.place)
    }

    /// Tells whether another session was asked for, which is not there yet.
    pub(super) fn is_switching(&self) -> bool {
        self.is_switching
    }

    /// Tells whether main works, or is about to.
    fn is_busy(&self) -> bool {
        self.turns.is_busy()
    }

    /// Tells whether a question is open. The first one is shown.
    fn is_asked(&self) -> bool {
        self.questions.first().is_some()
    }

    /// Tells whether something is offered for a word, and can be seen: nothing
    /// else stands in its place.
    fn offers(&self) -> bool {
        let is_hidden = self.is_asked() || self.strands.followed().is_some();
        self.completing.is_open() && !is_hidden && self.list.is_none()
    }

    fn columns(&self) -> u16 {
        self.size.text_columns()
    }

    /// Begins a session: what was known of another is forgotten.
    fn begin(&mut self, about: About, highlighter: Option<Highlighter>, rows: Vec<Row>) {
        self.about = about;
        self.board = Board::default();
        self.commits = Commits::new(highlighter);
        self.strands = Strands::default();
        (self.questions, self.filling) = (Questions::default(), None);
        (self.focus, self.list) = (Focus::Line, None);
        self.seen_since = None;
        self.turns = self.turns.anew();
        (self.held, self.takes_back) = (None, false);
        self.digits.clear();
        self.is_switching = false;
        self.commits.note(rows);
    }

    fn event(&mut self, event: &Event) -> Vec<Step> {
        let columns = self.columns();
        let left = self.board.take(event);
        self.strands.take(event);
        self.meter.take(event);
        let is_another = self.questions.take(event, self.board.units());
        self.commits.take(event, (self.board.units(), &left), columns);
        let mut steps = Vec::new();
        if is_another {
            steps.extend(self.show_question());
        }
        if let EventKind::UserTookBack | EventKind::UserWrote { .. } | EventKind::Notified { .. } =
            event.kind
        {
            self.takes_back = false;
        }
        steps.extend(self.turns.take(event));
        if let EventKind::InvocationStarted { .. } | EventKind::InvocationEnded(_) = event.kind {
            self.opened = 0;
        }
        if let EventKind::UnitQueued(UnitHead { again: Some(before), .. }) = &event.kind {
            self.go_over(*before, event.unit);
        }
        if let Focus::Picked(unit) = self.focus
            && !self.board.pickable().contains(&unit)
        {
            self.focus = self.resting_focus();
        }
        steps
    }

    /// Has the keys go over to the unit that does another one's task again.
    fn go_over(&mut self, before: UnitId, unit: UnitId) {
        if self.focus == Focus::Picked(before) {
            self.focus = Focus::Picked(unit);
        }
        if self.strands.followed() == Some(before) {
            self.strands.follow(Some(unit));
        }
        if self.focus == Focus::Strand(before) {
            self.focus = Focus::Strand(unit);
        }
    }

    /// Shows the first question, if there is another one now, or takes away
    /// what is answered.
    fn show_question(&mut self) -> Option<Step> {
        self.seen_since = None;
        self.filling = self.questions.first().and_then(|(_, open)| Filling::of(&open.question));
        let had_words = self.keep_reason();
        if had_words {
            self.note = Some("that question has gone".to_owned());
        }
        let Some((_, open)) = self.questions.first() else {
            if self.focus == Focus::Question {
                self.focus = self.resting_focus();
            }
            return None;
        };
        let name = open.name.clone();
        let is_free = matches!(self.focus, Focus::Line | Focus::Picked(_));
        // What is typed after words that were for another was not meant for this.
        if is_free && !had_words && self.line.text().is_empty() {
            self.focus = Focus::Question;
        }
        Some(Step::Call(format!("{name} asks")))
    }

    /// Returns what has the keys when nothing else was opened.
    fn resting_focus(&self) -> Focus {
        match self.strands.followed() {
            Some(unit) => Focus::Strand(unit),
            None if self.is_asked() && self.line.text().is_empty() => Focus::Question,
            None => Focus::Line,
        }
    }

    /// Returns what the keys do about the question that is shown.
    fn question_keys(&self, now: UnixMillis) -> panels::Keys {
        let counts = self.seen_since.is_some_and(|since| now.since(since) >= QUESTION_GUARD);
        match (&self.focus, self.is_asked()) {
            (Focus::Question, true) if counts => panels::Keys::Answer,
            (Focus::Question, true) => panels::Keys::NotYet,
            (Focus::Reason { .. }, true) => panels::Keys::Words,
            (_, true | false) => panels::Keys::Elsewhere,
        }
    }

    /// Asks for a turn where there is something to be told and nobody at work
    /// or at the line.
    fn news(&mut self) -> Option<Step> {
        let is_due = self.board.units().untold() > 0 || self.commits.waiting().next().is_some();
        let is_free = self.turns.takes_news()
            && !self.is_switching
            && self.list.is_none()
            && self.line.text().is_empty();
        (is_due && is_free).then(|| self.turns.ask(Step::News))
    }

    fn refused(&mut self, given: Given, text: &str, refusal: &Refusal) {
        self.is_switching = false;
        self.turns.refused(given);
        self.commits.note(refusal_rows(refusal, self.columns()));
        self.put_back(text);
    }
}

/// Returns why something is not done, and what to do instead.
pub(super) fn refusal_rows(refusal: &Refusal, columns: u16) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, line) in refusal.message.lines().enumerate() {
        let before = if number == 0 { "error: " } else { "" };
        rows.extend(wrapped(Ink::Bad, &format!("{before}{line}"), columns, 2));
    }
    if let Some(hint) = &refusal.hint {
        rows.extend(wrapped(Ink::Dim, &format!("hint: {hint}"), columns, 2));
    }
    rows
}

#[cfg(test)]
mod tests;
