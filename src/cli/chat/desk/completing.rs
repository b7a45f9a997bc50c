//! What the word before the cursor can become, while it is typed.

use crate::cli::chat::complete::{Choice, Kind, Paths, Word, commands, in_common, word};
use crate::report::ink::Ink;
use crate::report::row::{Row, columns_of};

/// Most rows of what can be chosen.
const ROWS: usize = 7;

/// What is offered for the word before the cursor.
#[derive(Default)]
pub(super) struct Completing {
    paths: Paths,
    /// Whether paths were asked for since a word for one was begun.
    is_gathering: bool,
    wants_paths: bool,
    offered: Option<Offered>,
    /// The text whose offers were sent away.
    dismissed: Option<String>,
}

struct Offered {
    word: Word,
    choices: Vec<Choice>,
    picked: Option<usize>,
}

impl Completing {
    /// Looks at the word before the cursor.
    pub(super) fn look(&mut self, text: &str, cursor: usize, known: &[(&str, &str)]) {
        self.offered = None;
        let found = word(text, cursor);
        let is_path = matches!(&found, Some(Word { kind: Kind::Path, .. }));
        self.wants_paths = is_path && !self.is_gathering;
        self.is_gathering = is_path;
        if self.dismissed.as_deref() == Some(text) {
            return;
        }
        self.dismissed = None;
        let Some(word) = found else { return };
        let choices = match word.kind {
            Kind::Command => commands(&word.typed, known),
            Kind::Path => self.paths.choices(&word.typed),
        };
        // What stands there whole needs no offer.
        let is_whole = |choice: &Choice| choice.text.trim_end() == &text[word.range.clone()];
        if !choices.is_empty() && !matches!(&choices[..], [one] if is_whole(one)) {
            self.offered = Some(Offered { word, choices, picked: None });
        }
    }

    /// Tells, once for each word, whether the paths are to be gathered.
    pub(super) fn wants_paths(&mut self) -> bool {
        std::mem::take(&mut self.wants_paths)
    }

    pub(super) fn take_paths(&mut self, paths: Paths) {
        self.paths = paths;
    }

    /// Tells whether something is offered.
    pub(super) fn is_open(&self) -> bool {
        self.offered.is_some()
    }

    /// Tells whether one of the offers is picked.
    pub(super) fn is_picked(&self) -> bool {
        self.offered.as_ref().is_some_and(|offered| offered.picked.is_some())
    }

    /// Sends the offers for a text away.
    pub(super) fn dismiss(&mut self, text: &str) {
        self.offered = None;
        self.dismissed = Some(text.to_owned());
    }

    /// Picks another offer, so many below.
    pub(super) fn step(&mut self, by: isize) {
        if let Some(Offered { choices, picked, .. }) = &mut self.offered {
            let count = choices.len();
            *picked = Some(match *picked {
                None if by < 0 => count - 1,
                None => 0,
                Some(at) => at.saturating_add_signed(by).min(count - 1),
            });
        }
    }

    /// Returns the word and what it becomes with Tab: what is picked, or all
    /// that the offers have in common. `None` if that says nothing new: then
    /// the next offer is picked.
    pub(super) fn tab(&mut self, text: &str) -> Option<(std::ops::Range<usize>, String)> {
        let Offered { word, choices, picked } = self.offered.as_mut()?;
        let common = in_common(choices);
        if picked.is_none() && choices.len() == 1 {
            return Some((word.range.clone(), choices[0].text.clone()));
        }
        if picked.is_none()
            && common.len() > word.range.len()
            && common.starts_with(&text[word.range.clone()])
        {
            return Some((word.range.clone(), common.to_owned()));
        }
        *picked = Some(picked.map_or(0, |at| (at + 1) % choices.len()));
        None
    }

    /// Returns the word and what was picked for it.
    pub(super) fn picked(&self) -> Option<(std::ops::Range<usize>, String)> {
        let Offered { word, choices, picked } = self.offered.as_ref()?;
        let choice = choices.get((*picked)?)?;
        Some((word.range.clone(), choice.text.clone()))
    }

    /// Returns the offers in at most so many rows.
    pub(super) fn rows(&self, columns: u16, rows: usize) -> Vec<Row> {
        let Some(Offered { word, choices, picked }) = &self.offered else { return Vec::new() };
        let room = ROWS.min(rows).min(choices.len());
        let at = picked.unwrap_or(0);
        let first = (at + 1).saturating_sub(room);
        let widest = choices.iter().map(|choice| columns_of(choice.text.trim_end())).max();
        let widest = widest.unwrap_or(0).min(usize::from(columns) / 2);
        let seen = choices.iter().enumerate().skip(first).take(room);
        let row = |(number, choice): (usize, &Choice)| {
            let is_picked = *picked == Some(number);
            let ink = if is_picked { Ink::Picked } else { Ink::Plain };
            let name = Row::new().text(Ink::Plain, if is_picked { "> " } else { "  " });
            let name = name.text(ink, choice.text.trim_end());
            let row = match &*choice.about {
                "" => name,
                about => name.padded(widest + 4).text(Ink::Dim, about),
            };
            row.cut(usize::from(columns))
        };
        let is_path = matches!(word.kind, Kind::Path);
        let cut = (is_path && self.paths.is_cut).then(|| {
            let said = "  not all files are listed: there are too many";
            Row::new().text(Ink::Dim, said).cut(usize::from(columns))
        });
        seen.map(row).chain(cut).take(rows).collect()
    }
}
