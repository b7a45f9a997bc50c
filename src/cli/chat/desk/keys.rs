//! What each key does, by what has the focus.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::listing::{Choice, Item, Listing};
use super::{Desk, Focus, Step};
use crate::cli::chat::history::ENTRIES;
use crate::cli::chat::line::Edited;
use crate::event::UnixMillis;
use crate::report::ink::Ink;
use crate::report::row::Row;
use crate::report::words;
use crate::run::FromUser;

impl Desk {
    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent, now: UnixMillis) -> Vec<Step> {
        if let Some(steps) = self.held_key(key) {
            return steps;
        }
        let digits = std::mem::take(&mut self.digits);
        self.note = None;
        self.wants_to_switch &= key.code == KeyCode::Enter;
        let is_control =
            |letter| (key.code, key.modifiers) == (KeyCode::Char(letter), KeyModifiers::CONTROL);
        if !is_control('c') {
            self.turns.not_interrupted();
        }
        if !is_control('d') {
            self.turns.stays();
        }
        match (key.code, key.modifiers) {
            (KeyCode::Char('c'), KeyModifiers::CONTROL) => return self.interrupt(now),
            (KeyCode::Char('z'), KeyModifiers::CONTROL) => return vec![Step::Suspend],
            (KeyCode::Char('o'), KeyModifiers::CONTROL) => {
                self.open_call();
                return Vec::new();
            }
            _ => {}
        }
        match self.focus.clone() {
            Focus::List => self.list_key(key),
            Focus::Question => self.question_key(key, now),
            Focus::Reason { id, draft } => self.reason_key(key, id, &draft),
            Focus::Picked(unit) => self.picked_key(key, unit, &digits),
            Focus::Strand(unit) => self.strand_key(key, unit, &digits),
            Focus::Line => self.line_key(key),
        }
    }

    /// Ctrl-C: the text goes, else the turn ends; the second one ends all.
    fn interrupt(&mut self, now: UnixMillis) -> Vec<Step> {
        if self.list.take().is_some() {
            self.focus = self.resting_focus();
            return Vec::new();
        }
        if let Focus::Reason { draft, .. } = self.focus.clone() {
            self.end_reason(&draft);
            return Vec::new();
        }
        // What the first one took back into the line does not count as typed.
        if let Some(leave) = self.turns.second_interrupt(now) {
            return vec![leave];
        }
        if !self.line.text().is_empty() {
            self.line.clear();
            self.complete();
            return Vec::new();
        }
        self.note = Some(self.turns.first_interrupt(now));
        if self.is_busy() { self.end_turn() } else { Vec::new() }
    }

    /// Ends the turn. What waits for it comes back into the line.
    pub(super) fn end_turn(&mut self) -> Vec<Step> {
        let mut steps = self.take_back_waiting();
        steps.push(Step::Tell(FromUser::EndTurn));
        steps
    }

    fn take_back_waiting(&mut self) -> Vec<Step> {
        let mut texts: Vec<&str> = self.commits.waiting().map(|text| &**text).collect();
        if texts.is_empty() || self.takes_back {
            return Vec::new();
        }
        let draft = self.line.text().to_owned();
        if !draft.is_empty() {
            texts.push(&draft);
        }
        let text = texts.join("\n\n");
        self.line.set(&text);
        self.takes_back = true;
        vec![Step::Tell(FromUser::TookBack)]
    }

    /// Shows the whole output of the last call; again, of the one before.
    fn open_call(&mut self) {
        if let Some(unit) = self.strands.followed() {
            let opened = self.strands.last_output(unit).map(|(title, output)| {
                let lines = output.text.lines().map(|line| Row::new().text(Ink::Plain, line));
                [Row::new().text(Ink::Strong, title)].into_iter().chain(lines).collect()
            });
            match opened {
                Some(rows) => self.commits.note(rows),
                None => self.note = Some("no call of it has ended yet".to_owned()),
            }
            return;
        }
        match (self.commits.open_call(self.opened), self.opened) {
            (true, _) => self.opened += 1,
            (false, 0) => self.note = Some("no call has ended yet".to_owned()),
            (false, _) => self.note = Some("there are no more calls".to_owned()),
        }
    }

    fn list_key(&mut self, key: KeyEvent) -> Vec<Step> {
        let Some(list) = &mut self.list else {
            self.focus = self.resting_focus();
            return Vec::new();
        };
        match (key.code, key.modifiers) {
            (KeyCode::Up, _) | (KeyCode::Char('p'), KeyModifiers::CONTROL) => list.step(-1),
            (KeyCode::Down | KeyCode::Tab, _) | (KeyCode::Char('n'), KeyModifiers::CONTROL) => {
                list.step(1);
            }
            (KeyCode::PageUp, _) => list.step(-10),
            (KeyCode::PageDown, _) => list.step(10),
            (KeyCode::Enter, _) => {
                let chosen = list.chosen();
                self.close_list();
                return chosen.map(|choice| self.choose(choice)).unwrap_or_default();
            }
            (KeyCode::Esc, _) => self.close_list(),
            (KeyCode::Backspace, _) if !list.backspace() => self.close_list(),
            (KeyCode::Char(letter), KeyModifiers::NONE | KeyModifiers::SHIFT) => {
                list.type_text(letter.encode_utf8(&mut [0; 4]));
            }
            _ => {}
        }
        Vec::new()
    }

    fn close_list(&mut self) {
        self.list = None;
        self.focus = self.resting_focus();
    }

    fn choose(&mut self, choice: Choice) -> Vec<Step> {
        match choice {
            Choice::Text(text) => {
                self.line.set(&text);
                self.focus = Focus::Line;
                self.edited().into_iter().collect()
            }
            Choice::Strand(unit) => {
                self.follow(unit);
                Vec::new()
            }
            Choice::Theme(theme) => vec![Step::Colour(theme)],
            Choice::Nothing => Vec::new(),
            Choice::Session(_) => {
                self.is_switching = true;
                vec![Step::Chosen(choice)]
            }
            Choice::Model(_) | Choice::Turn(_) | Choice::Back(..) | Choice::TakeBack => {
                vec![Step::Chosen(choice)]
            }
        }
    }

    /// Gives a key to the line, which has the focus from now on.
    pub(super) fn line_takes(&mut self, key: KeyEvent) -> Vec<Step> {
        self.focus = Focus::Line;
        self.turns.stays();
        self.line_key(key)
    }

    pub(super) fn line_key(&mut self, key: KeyEvent) -> Vec<Step> {
        if let Some(steps) = self.completion_key(key) {
            return steps;
        }
        let is_empty = self.line.text().is_empty();
        let has_units = !self.board.pickable().is_empty();
        match (key.code, key.modifiers) {
            (KeyCode::Tab, KeyModifiers::NONE) if self.is_asked() => {
                self.focus = Focus::Question;
                return Vec::new();
            }
            (KeyCode::Tab, KeyModifiers::NONE) => return Vec::new(),
            (KeyCode::Char(letter @ '1'..='9'), KeyModifiers::NONE)
                if is_empty && has_units && self.is_busy() =>
            {
                return self.pick_by_number(letter, "");
            }
            (KeyCode::Up, KeyModifiers::NONE) if is_empty && has_units && self.is_busy() => {
                return self.pick_by_arrow(key.code);
            }
            (KeyCode::Down, KeyModifiers::NONE) if is_empty && has_units => {
                return self.pick_by_arrow(key.code);
            }
            (KeyCode::Up, KeyModifiers::ALT) => return self.take_back_waiting(),
            (KeyCode::Char('b'), KeyModifiers::CONTROL) if self.is_busy() && self.sets_aside() => {
                return vec![Step::Tell(FromUser::SetAside)];
            }
            _ => {}
        }
        match self.line.key(key) {
            Edited::Taken => self.edited().into_iter().collect(),
            Edited::Unused => Vec::new(),
            Edited::Enter => self.submit(),
            Edited::Escape if self.is_busy() => self.end_turn(),
            Edited::Escape => Vec::new(),
            // Seen before the line has it.
            Edited::Interrupt => Vec::new(),
            Edited::End => self.leave(),
            Edited::Search => {
                self.search();
                Vec::new()
            }
            Edited::Editor => {
                let text = self.line.text().to_owned();
                self.lent = Some(text.clone());
                vec![Step::Edit(text)]
            }
            Edited::Redraw => vec![Step::Redraw],
        }
    }

    /// Takes a key for what is offered for the word before the cursor; `None`
    /// if it is none of its.
    fn completion_key(&mut self, key: KeyEvent) -> Option<Vec<Step>> {
        if !self.offers() {
            return None;
        }
        let replaced = match (key.code, key.modifiers) {
            (KeyCode::Tab, KeyModifiers::NONE) => self.completing.tab(self.line.text()),
            (KeyCode::BackTab, _) => {
                self.completing.step(-1);
                None
            }
            (KeyCode::Up, KeyModifiers::NONE) if self.completing.is_picked() => {
                self.completing.step(-1);
                None
            }
            (KeyCode::Down, KeyModifiers::NONE) => {
                self.completing.step(1);
                None
            }
            (KeyCode::Enter, KeyModifiers::NONE) if self.completing.is_picked() => {
                self.completing.picked()
            }
            (KeyCode::Esc, _) => {
                self.completing.dismiss(self.line.text());
                None
            }
            _ => return None,
        };
        let step = replaced.and_then(|(range, text)| {
            self.line.replace(range, &text);
            self.edited()
        });
        Some(step.into_iter().collect())
    }

    /// Looks for something that was typed before.
    fn search(&mut self) {
        let found = self.line.history().search("", ENTRIES);
        let item = |text: String| Item {
            row: Row::new().text(Ink::Plain, &words::short_line(&text, 200)),
            choice: Choice::Text(text),
        };
        let mut list = Listing::new("history", found.into_iter().map(item).collect());
        list.type_text(self.line.text().trim());
        (self.list, self.focus) = (Some(list), Focus::List);
    }

    /// Leaves, if nothing would be lost by it or it was said twice.
    fn leave(&mut self) -> Vec<Step> {
        match self.turns.leave(self.board.units().background().count()) {
            Ok(leave) => vec![leave],
            Err(why) => {
                self.note = Some(why);
                Vec::new()
            }
        }
    }
}
