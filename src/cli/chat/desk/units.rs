//! Keys for units: picking, following, stopping, and again.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Desk, Focus, Step};
use crate::event::UnitId;
use crate::run::FromUser;

/// Rows that a page of a strand moves by.
const PAGE: isize = 10;

impl Desk {
    pub(super) fn picked_key(&mut self, key: KeyEvent, unit: UnitId) -> Vec<Step> {
        let digit = self.digit.take();
        match (key.code, key.modifiers) {
            (KeyCode::Up | KeyCode::Down, KeyModifiers::NONE) => self.pick_by_arrow(key.code),
            (KeyCode::Char(letter @ '1'..='9'), KeyModifiers::NONE) => self.pick_by_number(letter),
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
            (code, modifiers) => {
                self.focus = Focus::Line;
                let is_word = matches!(code, KeyCode::Char(_)) && modifiers.is_empty();
                // `3 more of them` is a message.
                if let Some(digit) = digit.filter(|_| is_word) {
                    self.line.paste(&digit.to_string());
                }
                self.line_key(key)
            }
        }
    }

    pub(super) fn strand_key(&mut self, key: KeyEvent, unit: UnitId) -> Vec<Step> {
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
                if let Some(unit) = self.numbered(letter) {
                    self.follow(unit);
                }
            }
            (KeyCode::Tab, _) if self.is_asked() => {
                self.focus = Focus::Question;
            }
            _ => return self.line_key(key),
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

    pub(super) fn pick_by_number(&mut self, letter: char) -> Vec<Step> {
        match self.numbered(letter) {
            Some(unit) => {
                (self.focus, self.digit) = (Focus::Picked(unit), Some(letter));
                Vec::new()
            }
            None => {
                self.focus = Focus::Line;
                self.line.paste(&letter.to_string());
                self.edited().into_iter().collect()
            }
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
