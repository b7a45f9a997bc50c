//! The line: what comes into it besides keys, and how it is shown.

use super::{COMMANDS, Desk, Focus, Step};
use crate::cli::chat::decode::Pasted;
use crate::cli::chat::line::view::{Room, view};
use crate::report::ink::Ink;
use crate::report::region::line_rows;
use crate::report::row::Row;

impl Desk {
    /// Takes a text back from an editor. What came into the line meanwhile stays
    /// behind it.
    pub(super) fn take_edited(&mut self, text: &str) {
        match self.lent.take().is_some_and(|lent| lent == self.line.text()) {
            true => self.line.set(text),
            false => self.put_back(text),
        }
        if self.focus == Focus::Question {
            self.focus = Focus::Line;
        }
    }

    /// Puts a text into the line, before what stands there.
    pub(super) fn put_back(&mut self, text: &str) {
        let draft = self.line.text();
        let whole = match (text.is_empty(), draft.is_empty()) {
            (true, _) => return,
            (false, true) => text.to_owned(),
            (false, false) => format!("{text}\n\n{draft}"),
        };
        self.line.set(&whole);
    }

    pub(super) fn paste(&mut self, pasted: &Pasted) -> Vec<Step> {
        if pasted.left_out > 0 {
            let left_out = crate::message::byte_size(pasted.left_out as u64);
            self.note = Some(format!("{left_out} of the pasted text are left out"));
        }
        self.turns.not_interrupted();
        self.turns.stays();
        self.wants_to_switch = false;
        let digits = std::mem::take(&mut self.digits);
        match &self.focus {
            Focus::List => {
                if let Some(list) = &mut self.list {
                    list.type_text(pasted.text.trim());
                }
                return Vec::new();
            }
            // It never picks and never answers, nor does the letter before it.
            Focus::Picked(_) | Focus::Question => {
                if let Some(held) = self.held.take() {
                    self.line_takes(held.key);
                }
                self.focus = Focus::Line;
                self.line.paste(&digits);
            }
            Focus::Line | Focus::Strand(_) | Focus::Reason { .. } => {}
        }
        self.line.paste(&pasted.text);
        self.edited().into_iter().collect()
    }

    /// The line has another text.
    pub(super) fn edited(&mut self) -> Option<Step> {
        self.complete();
        self.completing.wants_paths().then_some(Step::Gather)
    }

    pub(super) fn complete(&mut self) {
        let commands: Vec<(&str, &str)> = COMMANDS
            .iter()
            .map(|command| (command.name, command.about))
            .chain(self.about.skills.iter().map(|(name, about)| (&**name, &**about)))
            .collect();
        let is_line = matches!(self.focus, Focus::Line | Focus::Strand(_));
        let (text, cursor) = (self.line.text(), self.line.cursor());
        self.completing.look(if is_line { text } else { "" }, cursor, &commands);
    }

    /// Returns the line with its prompt, and where the cursor stands in it.
    pub(super) fn line_rows(&self, columns: u16) -> (Vec<Row>, (u16, u16)) {
        let mark = match self.focus {
            Focus::Reason { .. } if self.filling.is_some() => "answer: ",
            Focus::Reason { .. } => "no, because: ",
            Focus::Line | Focus::Picked(_) | Focus::Strand(_) | Focus::Question | Focus::List => {
                "> "
            }
        };
        let indent = mark.len();
        let room = usize::from(columns).saturating_sub(indent).max(2);
        let room = Room { columns: room, rows: line_rows(self.size) };
        let selected = self.line.selection().unwrap_or_default();
        let view = view(self.line.text(), self.line.cursor(), selected, room);
        let last = view.rows.len() - 1;
        let mark = |number| match number {
            0 if view.goes_on_above => "^ ",
            number if number == last && view.goes_on_below => "v ",
            0 => mark,
            _ => "",
        };
        let rows =
            view.rows.iter().zip(&view.selected).enumerate().map(|(number, (text, within))| {
                let (before, rest) = text.split_at(within.start);
                let (selected, after) = rest.split_at(within.len());
                let row = Row::new().text(Ink::Strong, &format!("{:>indent$}", mark(number)));
                let row = row.text(Ink::Plain, before).text(Ink::Picked, selected);
                row.text(Ink::Plain, after)
            });
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        (rows.collect(), (small(view.cursor.0), small(view.cursor.1 + indent)))
    }
}
