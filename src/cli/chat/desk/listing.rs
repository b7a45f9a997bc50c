//! A list to choose from, with what was typed to find something in it.

use crate::config::Theme;
use crate::event::{Seq, UnitId};
use crate::report::panel::{List, list_rows};
use crate::report::row::Row;

/// Something that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::chat) enum Choice {
    /// A text for the line.
    Text(String),
    /// A unit to follow.
    Strand(UnitId),
    /// Other colours.
    Theme(Theme),
    /// Another model, from the next message on.
    Model(String),
    /// Another session to go on with.
    Session(String),
    /// A turn to go back before.
    Turn(Before),
    /// What goes back.
    Back(Before, Back),
    /// The files go back as planned.
    TakeBack,
    /// Nothing after all.
    Nothing,
}

/// The time before a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::chat) struct Before {
    /// The last event that stays.
    pub(in crate::cli::chat) to: Seq,
    /// What was typed then.
    pub(in crate::cli::chat) prompt: String,
}

/// What goes back to an earlier turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::chat) enum Back {
    /// The conversation and the files.
    Both,
    /// The conversation alone.
    Conversation,
    /// The files alone.
    Files,
}

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::chat) struct Item {
    /// What it looks like.
    pub(in crate::cli::chat) row: Row,
    /// What it means.
    pub(in crate::cli::chat) choice: Choice,
}

/// A list that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::chat) struct Listing {
    title: String,
    items: Vec<Item>,
    filter: String,
    /// Which of those that fit is picked.
    picked: usize,
}

impl Listing {
    pub(in crate::cli::chat) fn new(title: impl Into<String>, items: Vec<Item>) -> Self {
        Self { title: title.into(), items, filter: String::new(), picked: 0 }
    }

    /// Returns what it is a list of, and what it offers.
    pub(in crate::cli::chat) fn into_parts(self) -> (String, Vec<Item>) {
        (self.title, self.items)
    }

    /// Returns the items that have what was typed.
    fn fitting(&self) -> impl Iterator<Item = &Item> {
        let wanted = self.filter.to_lowercase();
        self.items.iter().filter(move |item| {
            // A text is longer than its row.
            let whole =
                if let Choice::Text(text) = &item.choice { Some(text.clone()) } else { None };
            let text = whole.unwrap_or_else(|| item.row.plain());
            wanted.is_empty() || text.to_lowercase().contains(&wanted)
        })
    }

    pub(super) fn rows(&self, columns: u16, rows: usize) -> Vec<Row> {
        let items: Vec<Row> = self.fitting().map(|item| item.row.clone()).collect();
        let (title, filter, picked) = (&*self.title, &*self.filter, self.picked);
        list_rows(&List { title, filter, items: &items, picked }, columns, rows)
    }

    /// Picks another one, so many below.
    pub(super) fn step(&mut self, by: isize) {
        let last = self.fitting().count().saturating_sub(1);
        self.picked = self.picked.saturating_add_signed(by).min(last);
    }

    pub(super) fn type_text(&mut self, text: &str) {
        self.filter.push_str(text);
        self.picked = 0;
    }

    /// Takes back the last letter; tells whether there was one.
    pub(super) fn backspace(&mut self) -> bool {
        self.picked = 0;
        self.filter.pop().is_some()
    }

    /// Returns what is picked.
    pub(super) fn chosen(&self) -> Option<Choice> {
        self.fitting().nth(self.picked).map(|item| item.choice.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ink::Ink;

    fn listing(names: &[&str]) -> Listing {
        let item = |name: &&str| Item {
            row: Row::new().text(Ink::Plain, name),
            choice: Choice::Text((*name).to_owned()),
        };
        Listing::new("words", names.iter().map(item).collect())
    }

    fn chosen(listing: &Listing) -> Option<String> {
        let Choice::Text(text) = listing.chosen()? else { panic!("only texts are offered") };
        Some(text)
    }

    #[test]
    fn what_is_typed_leaves_what_has_it_and_picks_the_first() {
        let mut list = listing(&["alpha", "beta", "Gamma", "delta"]);
        list.step(1);
        assert_eq!(chosen(&list).as_deref(), Some("beta"));
        list.type_text("gA");
        assert_eq!(chosen(&list).as_deref(), Some("Gamma"));
        assert!(list.backspace() && list.backspace() && !list.backspace());
        list.step(10);
        assert_eq!(chosen(&list).as_deref(), Some("delta"));
        list.step(-10);
        assert_eq!(chosen(&list).as_deref(), Some("alpha"));
        list.type_text("nothing of the kind");
        list.step(1);
        assert_eq!(chosen(&list), None);
    }
}
