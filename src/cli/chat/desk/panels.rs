//! What stands above the units: a list, a question, a strand that is followed,
//! or what a word can become.

use super::completing::Completing;
use super::listing::Listing;
use crate::event::{QuestionId, UnixMillis};
use crate::report::Choices;
use crate::report::board::Board;
use crate::report::filling::Filling;
use crate::report::ink::Ink;
use crate::report::panel::{
    Asked, Shown, question_rows, strand_foot, strand_head, strand_head_after,
};
use crate::report::questions::Questions;
use crate::report::row::Row;
use crate::report::strands::Strands;

/// Fewest rows of a strand beside a question.
const STRAND: usize = 4;

/// What the keys do about the question that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// They answer it.
    Answer,
    /// They will, in a moment.
    NotYet,
    /// They are the words of an answer.
    Words,
    /// They go elsewhere.
    Elsewhere,
}

/// All that may stand there.
pub(super) struct Panels<'a> {
    pub(super) list: Option<&'a Listing>,
    pub(super) questions: &'a Questions,
    pub(super) filling: Option<&'a Filling>,
    pub(super) keys: Keys,
    pub(super) board: &'a Board,
    pub(super) strands: &'a mut Strands,
    pub(super) completing: &'a Completing,
    pub(super) now: UnixMillis,
    /// The question that was put into the scrollback whole.
    pub(super) shown_whole: Option<QuestionId>,
    /// The answers that can be given to what is to be seen of the question;
    /// none before it is drawn, or if too little of it is to be seen.
    pub(super) offered: Option<Choices>,
}

impl Panels<'_> {
    /// Returns it in at most so many rows.
    pub(super) fn rows(&mut self, columns: u16, rows: usize) -> Vec<Row> {
        if let Some(list) = self.list {
            return list.rows(columns, rows);
        }
        let is_followed = self.strands.followed().is_some();
        let mut shown = self.question(columns, rows);
        let room = rows.saturating_sub(shown.len());
        if is_followed && room >= STRAND {
            let mut strand = self.strand(columns, room);
            strand.append(&mut shown);
            return strand;
        }
        match shown.is_empty() {
            true => self.completing.rows(columns, rows),
            false => shown,
        }
    }

    fn question(&mut self, columns: u16, rows: usize) -> Vec<Row> {
        let Some((id, open)) = self.questions.first() else { return Vec::new() };
        let asked = Asked {
            name: &open.name,
            question: &open.question,
            choices: open.choices,
            filling: self.filling,
            waiting: self.questions.waiting(),
            takes_keys: self.keys == Keys::Answer,
            was_shown_whole: self.shown_whole == Some(id),
        };
        let Shown { rows: mut shown, choices } = question_rows(asked, columns, rows);
        self.offered = choices;
        let said = match self.keys {
            Keys::Answer | Keys::NotYet => None,
            Keys::Words if self.filling.is_some() => {
                Some("Enter answers with these words  Esc back")
            }
            Keys::Words => Some("Enter says no with these words  Esc back"),
            Keys::Elsewhere => Some("Tab answers it"),
        };
        if let (Some(said), Some(first)) = (said, shown.iter_mut().rfind(|row| row.columns() == 0))
        {
            *first = Row::new().text(Ink::Dim, "  ").text(Ink::Dim, said);
        }
        shown
    }

    fn strand(&mut self, columns: u16, rows: usize) -> Vec<Row> {
        let Some(unit) = self.strands.followed() else { return Vec::new() };
        let head = match (self.board.head(unit), self.strands.name_of(unit)) {
            (None, Some((name, state))) => strand_head_after(name, state, columns),
            (Some(_), _) | (None, None) => strand_head(self.board, unit, self.now, columns),
        };
        let foot = strand_foot(self.board, unit, columns);
        let room = rows.saturating_sub(1 + usize::from(foot.is_some()));
        let text = self.strands.rows(columns, room);
        [head].into_iter().chain(text).chain(foot).collect()
    }
}
