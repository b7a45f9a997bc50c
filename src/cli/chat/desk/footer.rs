//! The last row: what the session is, and what the keys do now.

use super::{Desk, Focus};
use crate::cli::chat::line::State;
use crate::cli::chat::turns::in_background;
use crate::event::UnitId;
use crate::message::short_number;
use crate::report::ink::Ink;
use crate::report::row::{Row, columns_of};
use crate::report::words;

/// Fewest columns of a footer that names the model.
const WIDE: u16 = 60;

impl Desk {
    /// Returns the footer.
    pub(super) fn footer(&self, columns: u16) -> Row {
        let mut facts = Vec::new();
        match self.line.state() {
            State::Normal => facts.push("NORMAL".to_owned()),
            State::Visual => facts.push("VISUAL".to_owned()),
            // Letters are letters: what everybody expects.
            State::Emacs | State::Insert => {}
        }
        if columns >= WIDE - 1 && !self.about.model.is_empty() {
            facts.push(words::short_line(&self.about.model, 30));
        }
        facts.push(self.about.mode.to_owned());
        facts.extend(self.window());
        facts.extend(words::cost(self.meter.cost()));
        let (ink, words) = match &self.note {
            Some(note) => (Ink::Caution, note.clone()),
            None => (Ink::Dim, self.keys_now()),
        };
        // What the keys do now is worth more than what the session is.
        let room = usize::from(columns).saturating_sub(columns_of(&words));
        let width = |facts: &[String]| facts.iter().map(|fact| columns_of(fact) + 2).sum::<usize>();
        while width(&facts) > room && !facts.is_empty() {
            facts.remove(0);
        }
        facts.push(String::new());
        Row::new().text(Ink::Dim, &facts.join("  ")).text(ink, &words).cut(usize::from(columns))
    }

    fn window(&self) -> Option<String> {
        let window = self.about.window?;
        let percent = self.meter.percent_of(window)?;
        Some(format!("{percent}% of {}", short_number(window)))
    }

    /// Says what the keys do that nobody would guess.
    fn keys_now(&self) -> String {
        if self.turns.is_leaving() {
            return "leaving".to_owned();
        }
        let background = self.board.units().background().count();
        let words = match &self.focus {
            Focus::List => "Enter takes it  Esc back  type to find",
            Focus::Reason { .. } => "Esc back",
            Focus::Picked(_) => "Enter follows  x stops it  r runs it again  Esc back",
            Focus::Strand(_) => "Esc back  Up/Down scroll  x stops it  r runs it again",
            Focus::Question if self.is_busy() => "Tab to the line  Esc ends the turn",
            Focus::Question => "Tab to the line",
            Focus::Line if self.is_asked() => "Tab answers the question",
            Focus::Line if self.offers() => "Tab completes  Esc closes",
            Focus::Line if self.is_busy() && self.sets_aside() => {
                "Esc ends the turn  Ctrl-B goes on without its agents"
            }
            Focus::Line if self.is_busy() => "Esc ends the turn",
            Focus::Line if self.board.units().untold() > 0 => {
                "news of agents come with your message"
            }
            Focus::Line if background > 0 => {
                return format!("{}: Down picks", in_background(background));
            }
            Focus::Line => "/help",
        };
        words.to_owned()
    }

    /// Tells whether main waits for units that could go on beside it.
    pub(super) fn sets_aside(&self) -> bool {
        let units = self.board.units();
        let open = units.running().chain(units.queued());
        open.into_iter()
            .any(|(_, unit)| unit.head.parent == UnitId::MAIN && !unit.head.is_background)
    }
}
