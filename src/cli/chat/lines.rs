//! A chat without a screen: lines go in and lines come out, and none of them
//! changes again. For terminals that cannot move their cursor, and for readers
//! that speak what appears.
//!
//! A machine of states as the desk is: it waits for nothing and writes nothing
//! itself. A line answers the question or the list that stands at the end, else
//! it is a message.

mod cooked;
mod offer;
mod page;
mod typed;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::desk::{About, Seen, Step};
use super::turns::Turns;
use crate::cli::exit::Refusal;
use crate::event::{Event, EventKind, InvocationEnd, QuestionId, UnitId, UnixMillis};
use crate::report::filling::Answering;
use crate::report::questions::{OpenQuestion, Questions};
use crate::report::row::Row;
use crate::report::unread::Unread;
use crate::report::{Plain, Stdout, StdoutKind, Units, sanitise, words};
use crate::run::Reporter as _;
use offer::Offer;
use page::Page;

pub(super) use cooked::{Making, start};

/// What is said where a message is expected.
const PROMPT: &str = "> ";

/// The state of a chat without a screen.
pub(super) struct Lines {
    about: About,
    turns: Turns,
    page: Page,
    plain: Plain,
    /// What the reporter of lines writes.
    printed: Receiver<Vec<u8>>,
    units: Units,
    questions: Questions,
    /// The question that the next line answers.
    shown: Option<Shown>,
    /// The one that was answered, until the run says so.
    answered: Option<QuestionId>,
    /// What answered a question that was taken back, until the next line.
    taken_back: Option<Answering>,
    offer: Option<Offer>,
    /// What was typed of a line that is not whole.
    part: String,
    /// The lines of a message that goes on in the next.
    begun: String,
    /// What was written and main has not read.
    waiting: Unread,
    /// What main said last.
    said: Option<Said>,
    /// Something was asked for that is shown when it is there.
    is_looking: bool,
    /// Whether somebody else has the terminal.
    is_away: bool,
}

/// A question that stands at the end.
struct Shown {
    id: QuestionId,
    answering: Answering,
    since: UnixMillis,
    /// Whether the one before was taken back, so that its answer may come yet.
    took_place: bool,
}

/// Something that main said.
struct Said {
    text: Arc<str>,
    is_told: bool,
}

/// Where the reporter of lines writes.
struct Printed(Sender<Vec<u8>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    pub(super) fn new(bell_after_ms: u64) -> Self {
        let (sender, printed) = channel();
        let stdout = Stdout::new(Box::new(Printed(sender.clone())), StdoutKind::Terminal);
        Self {
            about: About::default(),
            turns: Turns::new(bell_after_ms),
            page: Page::default(),
            plain: Plain::new(stdout, Box::new(Printed(sender))),
            printed,
            units: Units::default(),
            questions: Questions::default(),
            shown: None,
            answered: None,
            taken_back: None,
            offer: None,
            part: String::new(),
            begun: String::new(),
            waiting: Unread::default(),
            said: None,
            is_looking: false,
            is_away: false,
        }
    }

    /// Takes note of something.
    pub(super) fn see(&mut self, seen: Seen) -> Vec<Step> {
        // What was asked for comes behind these.
        let is_other = matches!(&seen, Seen::Changed(_))
            || matches!(&seen, Seen::Event(event)
                if matches!(event.kind, EventKind::SessionOpened(_) | EventKind::Chosen(_)
            | EventKind::Offered(_) | EventKind::Left));
        self.is_looking &= is_other;
        let mut steps = match seen {
            Seen::Began { about, highlighter: _, rows, context: _ } => {
                self.begin(about);
                self.rows(&rows);
                Vec::new()
            }
            Seen::Changed(about) => {
                self.about = about;
                Vec::new()
            }
            Seen::Event(event) => self.event(&event),
            Seen::Shown(rows) => {
                self.rows(&rows);
                Vec::new()
            }
            Seen::Choose(listing) => {
                self.offer(Offer::of(listing));
                Vec::new()
            }
            Seen::Refused { given, text: _, refusal } => {
                self.turns.refused(given);
                self.refused(&refusal);
                Vec::new()
            }
            Seen::First(text) => self.first(&text),
            // Of a screen.
            Seen::Delta(_)
            | Seen::Typed(_)
            | Seen::Coloured(_)
            | Seen::Paths(_)
            | Seen::Edited(_)
            // It stands above.
            | Seen::Rewound(_) => Vec::new(),
        };
        steps.extend(self.news());
        steps
    }

    /// Begins a session: what was known of another is forgotten.
    fn begin(&mut self, about: About) {
        let mut page = std::mem::take(&mut self.page);
        page.hold(self.is_away);
        let turns = self.turns.anew();
        *self = Self { about, turns, page, is_away: self.is_away, ..Self::new(0) };
    }

    fn event(&mut self, event: &Event) -> Vec<Step> {
        self.tell(event);
        self.written(event);
        self.units.take(event);
        self.questions.take(event, &self.units);
        let mut steps: Vec<Step> = self.turns.take(event).into_iter().collect();
        let call = |(_, open): (_, &OpenQuestion)| Step::Call(format!("{} asks", open.name));
        match &event.kind {
            EventKind::InvocationStarted { prompt, .. } => {
                if prompt.trim().is_empty() {
                    self.page.news("the conversation goes on with news of agents");
                }
            }
            EventKind::InvocationEnded(_) => self.said = None,
            EventKind::SetAside { units } => self.page.news(&words::set_aside(units)),
            EventKind::Asked { id, .. } => {
                let is_first = self.questions.first().is_some_and(|(first, _)| first == *id);
                steps.extend(self.next_question().filter(|_| is_first).map(call));
            }
            EventKind::Answered { id, .. } => {
                let was_first = self.answered.take_if(|answered| answered == id).is_some();
                let is_shown = self.shown.as_ref().is_some_and(|shown| shown.id == *id);
                if is_shown {
                    self.take_question_back();
                }
                let next = self.next_question().filter(|_| was_first || is_shown);
                steps.extend(next.map(call));
            }
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            // As with a screen, whoever asked for it says so.
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::UnitEnded(_)
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Joined { .. }
            | EventKind::Chosen(_)
            | EventKind::Left
            | EventKind::Offered(_)
            | EventKind::Notice { .. } => {}
        }
        steps
    }

    /// Takes note of what was written to main, and whether it has read it.
    fn written(&mut self, event: &Event) {
        if let EventKind::UserWrote { .. } = event.kind {
            self.page.news("that waits until the model can read it");
        }
        // What it reads stands above.
        self.waiting.take(event);
    }

    /// Says in lines what an event tells.
    fn tell(&mut self, event: &Event) {
        if event.unit == UnitId::MAIN {
            self.tell_said(&event.kind);
        }
        let said = self.said.as_ref().filter(|said| said.is_told);
        let written = match (&event.kind, said) {
            // Cut off before it said more, it ends with what it said last.
            (EventKind::InvocationEnded(end), Some(said)) if said.text == end.text => {
                let end = InvocationEnd { text: Arc::default(), ..(**end).clone() };
                let kind = EventKind::InvocationEnded(Arc::new(end));
                self.plain.event(&Event { kind, ..event.clone() })
            }
            _ => self.plain.event(event),
        };
        let written = written.and_then(|()| self.plain.pause());
        written.expect("what it writes to is here");
        let printed: Vec<u8> = self.printed.try_iter().flatten().collect();
        if !printed.is_empty() {
            self.page.news(&String::from_utf8_lossy(&printed));
        }
    }

    /// Says what main said if more follows; its last words are its answer.
    fn tell_said(&mut self, kind: &EventKind) {
        if let EventKind::Replied(replied) = kind {
            let text = replied.reply.text.as_str();
            let is_empty = text.trim().is_empty();
            self.said = (!is_empty).then(|| Said { text: text.into(), is_told: false });
        }
        let goes_on = matches!(
            kind,
            EventKind::ToolStarted { .. }
                | EventKind::TurnStarted { .. }
                | EventKind::Notified { .. }
        );
        if let Some(said) = self.said.as_mut().filter(|said| goes_on && !said.is_told) {
            said.is_told = true;
            self.page.news(&sanitise::text(&said.text));
        }
    }

    /// The question at the end is answered by somebody else, or not at all.
    fn take_question_back(&mut self) {
        self.taken_back = self.shown.take().map(|shown| shown.answering);
        self.page.line("the question is taken back");
        self.page.hold(self.is_away);
    }

    /// Asks for a turn where there is something to be told and nobody at work.
    fn news(&mut self) -> Option<Step> {
        let is_due = self.units.untold() > 0 || !self.waiting.is_empty();
        let is_free = self.turns.takes_news() && self.offer.is_none() && self.begun.is_empty();
        (is_due && is_free).then(|| self.turns.ask(Step::News))
    }

    fn is_busy(&self) -> bool {
        self.turns.is_busy()
    }

    fn rows(&mut self, rows: &[Row]) {
        rows.iter().for_each(|row| self.page.news(row.plain().trim_end()));
    }

    fn refused(&mut self, refusal: &Refusal) {
        let text = sanitise::text(&refusal.to_string()).into_owned();
        self.page.news(&text);
    }

    /// Says something that nobody asked the run about.
    pub(super) fn say(&mut self, line: &str) {
        self.page.line(&sanitise::line(line));
    }

    /// Rings for whoever sits there.
    pub(super) fn ring(&mut self) {
        if !self.is_away {
            self.page.ring();
        }
    }

    /// Somebody else has the terminal from now on, or no longer does.
    pub(super) fn set_away(&mut self, is_away: bool) {
        self.is_away = is_away;
        self.page.hold(is_away || self.shown.is_some());
    }

    /// Returns what is to be written now.
    pub(super) fn take(&mut self) -> String {
        if self.is_away { String::new() } else { self.page.take() }
    }

    /// Ends the row that the cursor stands in.
    pub(super) fn end_row(&mut self) {
        self.page.begin();
    }

    /// Says what waits to be told: nothing more is asked.
    pub(super) fn close(&mut self) {
        self.shown = None;
        self.page.hold(false);
        self.page.begin();
    }

    fn next_question(&self) -> Option<(QuestionId, &OpenQuestion)> {
        let is_known = |id| {
            let shown = self.shown.as_ref().map(|shown| shown.id);
            [shown, self.answered].contains(&Some(id))
        };
        self.questions.first().filter(|(id, _)| !is_known(*id))
    }

    /// Tells whether a question is put next: what was typed before is none of
    /// its answers.
    pub(super) fn is_about_to_ask(&self) -> bool {
        !self.is_away && self.next_question().is_some()
    }

    /// Says what the next line is, if that is not said.
    pub(super) fn prompt(&mut self, now: UnixMillis) {
        if self.is_away {
            return;
        }
        if let Some((id, open)) = self.next_question() {
            let OpenQuestion { unit: _, name, question, choices } = open;
            let (text, answering) =
                words::asked(name, question, *choices, self.questions.waiting());
            let took_place = self.taken_back.take().is_some();
            self.page.prompt(&text);
            self.page.hold(true);
            self.shown = Some(Shown { id, answering, since: now, took_place });
            // Half a line is of something else.
            self.part.clear();
        }
        if self.page.is_prompted() {
            return;
        }
        let is_free = !self.is_busy() && !self.is_looking && !self.turns.is_leaving();
        if let Some(shown) = &self.shown {
            self.page.prompt(&format!("{}: ", shown.answering.offered()));
        } else if let Some(offer) = &self.offer {
            self.page.prompt(&offer.prompt());
        } else if is_free || !self.begun.is_empty() {
            self.page.prompt(PROMPT);
        }
    }

    /// Opens a list.
    fn offer(&mut self, offer: Offer) {
        offer.lines().iter().for_each(|line| self.page.news(line));
        self.offer = Some(offer);
    }
}

#[cfg(test)]
mod tests;
