//! Keys for units: picking, following, stopping, and again.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Desk, Focus, Step};
use crate::event::UnitId;
use crate::run::FromUser;

/// Rows that a page of a strand moves by.
const PAGE: isize = 10;

impl Desk {
    /// Takes a key for a unit that is picked; `digits` are those before it.
    pub(super) fn picked_key(&mut self, key: KeyEvent, unit: UnitId, digits: &str) -> Vec<Step> {
        match (key.code, key.modifiers) {
            (KeyCode::Up | KeyCode::Down, KeyModifiers::NONE) => self.pick_by_arrow(key.code),
            (KeyCode::Char(letter @ '1'..='9'), KeyModifiers::NONE) => {
                self.pick_by_number(letter, digits)
            }
            (KeyCode::Enter, KeyModifiers::NONE) => {
                self.follow(unit);
                Vec::new()
            }
            (KeyCode::Char('x'), KeyModifiers::NONE) => self.stop(unit),
            (KeyCode::Char('r'), KeyModifiers::NONE) => self.again(unit),
            (KeyCode::Esc, _) => {
                self.focus = self.resting_focus();
                Vec::new()
            }
            (KeyCode::Tab, _) if self.is_asked() => {
                self.focus = Focus::Question;
                Vec::new()
            }
            _ => {
                self.focus = Focus::Line;
                self.begin_with(digits, key);
                self.line_key(key)
            }
        }
    }

    /// Takes a key while a unit is followed; `digits` are those before it.
    pub(super) fn strand_key(&mut self, key: KeyEvent, unit: UnitId, digits: &str) -> Vec<Step> {
        let is_empty = self.line.text().is_empty();
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) => {
                self.strands.follow(None);
                self.focus = self.resting_focus();
            }
            (KeyCode::Up, KeyModifiers::NONE) if is_empty => self.strands.scroll(-1),
            (KeyCode::PageUp, _) => self.strands.scroll(-PAGE),
            (KeyCode::Down, KeyModifiers::NONE) if is_empty => self.strands.scroll(1),
            (KeyCode::PageDown, _) => self.strands.scroll(PAGE),
            (KeyCode::Char('x'), KeyModifiers::NONE) if is_empty => return self.stop(unit),
            (KeyCode::Char('r'), KeyModifiers::NONE) if is_empty => return self.again(unit),
            (KeyCode::Char(letter @ '1'..='9'), KeyModifiers::NONE) if is_empty => {
                match self.numbered(letter) {
                    Some(unit) => {
                        self.follow(unit);
                        self.digits = format!("{digits}{letter}");
                    }
                    None => return self.begins_message(digits, letter),
                }
            }
            (KeyCode::Tab, _) if self.is_asked() => {
                self.focus = Focus::Question;
            }
            _ => {
                self.begin_with(digits, key);
                return self.line_key(key);
            }
        }
        Vec::new()
    }

    pub(super) fn pick_by_arrow(&mut self, key: KeyCode) -> Vec<Step> {
        let units = self.board.pickable();
        let at = match self.focus {
            Focus::Picked(unit) => units.iter().position(|known| *known == unit),
            Focus::Line
            | Focus::Strand(_)
            | Focus::Question
            | Focus::Reason { .. }
            | Focus::List => None,
        };
        let next = match (at, key == KeyCode::Up) {
            (None, true) => units.len().checked_sub(1),
            (None, false) => Some(0),
            (Some(at), true) => Some(at.saturating_sub(1)),
            (Some(at), false) => Some((at + 1).min(units.len() - 1)),
        };
        if let Some(unit) = next.and_then(|next| units.get(next)) {
            self.focus = Focus::Picked(*unit);
        }
        Vec::new()
    }

    /// Picks a unit by its number; `digits` are those before it.
    pub(super) fn pick_by_number(&mut self, letter: char, digits: &str) -> Vec<Step> {
        let Some(unit) = self.numbered(letter) else { return self.begins_message(digits, letter) };
        (self.focus, self.digits) = (Focus::Picked(unit), format!("{digits}{letter}"));
        Vec::new()
    }

    /// Nothing has that number: it is the beginning of a message.
    fn begins_message(&mut self, digits: &str, letter: char) -> Vec<Step> {
        self.focus = Focus::Line;
        self.line.paste(&format!("{digits}{letter}"));
        self.edited().into_iter().collect()
    }

    /// Puts digits into the line that a letter makes the beginning of a message:
    /// `3 more of them`.
    fn begin_with(&mut self, digits: &str, key: KeyEvent) {
        let modifiers = key.modifiers - KeyModifiers::SHIFT;
        if matches!(key.code, KeyCode::Char(_)) && modifiers.is_empty() && !digits.is_empty() {
            self.line.paste(digits);
        }
    }

    /// Returns the unit with a digit's number.
    fn numbered(&self, digit: char) -> Option<UnitId> {
        let number = digit.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
        self.board.numbered(number?)
    }

    pub(super) fn follow(&mut self, unit: UnitId) {
        self.strands.follow(Some(unit));
        self.focus = Focus::Strand(unit);
    }

    fn stop(&mut self, unit: UnitId) -> Vec<Step> {
        if self.board.units().get(unit).is_none() {
            self.note = Some("it has ended".to_owned());
            return Vec::new();
        }
        vec![Step::Tell(FromUser::Stop(unit))]
    }

    fn again(&mut self, unit: UnitId) -> Vec<Step> {
        vec![Step::Tell(FromUser::Again(unit))]
    }
}
