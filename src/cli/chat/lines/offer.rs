//! A list in lines: each with its number, and the number is the answer.

use crate::cli::chat::desk::listing::{Choice, Item, Listing};
use crate::event::UnitId;
use crate::report::{Unit, Units, words};
use crate::run::FromUser;

/// Most entries that are listed. A list of hundreds is listened to by nobody.
const LISTED_CAP: usize = 50;

/// What a number means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// What was chosen from a list of the chat.
    Chosen(Choice),
    /// A unit, by what people call it: what becomes of it is asked next.
    Unit(UnitId, String),
    /// To be told to the run.
    Tell(FromUser),
    /// Nothing after all.
    Nothing,
}

/// A list that is open.
#[derive(Debug)]
pub(super) struct Offer {
    title: String,
    items: Vec<(String, Answer)>,
    /// How many more there are.
    left_out: usize,
}

impl Offer {
    fn new(title: String, mut items: Vec<(String, Answer)>) -> Self {
        let left_out = items.len().saturating_sub(LISTED_CAP);
        items.truncate(LISTED_CAP);
        Self { title, items, left_out }
    }

    /// What a list of the chat offers.
    pub(super) fn of(listing: Listing) -> Self {
        let (title, items) = listing.into_parts();
        let item = |item: Item| (item.row.plain().trim().to_owned(), Answer::Chosen(item.choice));
        Self::new(title, items.into_iter().map(item).collect())
    }

    /// The units that have not ended; `None` if there are none.
    pub(super) fn of_units(units: &Units, is_busy: bool) -> Option<Self> {
        let running = units.running().map(|(id, unit)| (id, unit, "running"));
        let queued = units.queued().map(|(id, unit)| (id, unit, "queued"));
        let item = |(id, unit, state): (UnitId, &Unit, &str)| {
            let name = words::unit_name(id, &unit.head);
            let call = unit.last_call.as_ref();
            let call = call.map(|call| format!(", {}", words::call(&call.tool, &call.subject)));
            let text = format!("{name}: {state}{}", call.unwrap_or_default());
            (text, Answer::Unit(id, name))
        };
        let mut items: Vec<_> = running.chain(queued).map(item).collect();
        let is_awaited = |unit: &Unit| unit.head.parent == UnitId::MAIN && !unit.head.is_background;
        let awaited = units.running().chain(units.queued()).any(|(_, unit)| is_awaited(unit));
        if items.is_empty() {
            return None;
        }
        if awaited && is_busy {
            let text = "go on without those that the conversation waits for".to_owned();
            items.insert(0, (text, Answer::Tell(FromUser::SetAside)));
        }
        Some(Self::new("agents".to_owned(), items))
    }

    /// What can be done about a unit.
    pub(super) fn of_unit(unit: UnitId, name: &str) -> Self {
        let items = vec![
            ("stop it".to_owned(), Answer::Tell(FromUser::Stop(unit))),
            ("run its task again".to_owned(), Answer::Tell(FromUser::Again(unit))),
        ];
        Self::new(name.to_owned(), items)
    }

    /// Returns it line by line.
    pub(super) fn lines(&self) -> Vec<String> {
        let items = (1..).zip(&self.items).map(|(number, (text, _))| format!("{number}. {text}"));
        let left_out = (self.left_out > 0).then(|| format!("and {} more", self.left_out));
        [self.title.clone()].into_iter().chain(items).chain(left_out).collect()
    }

    /// Says what is an answer.
    pub(super) fn prompt(&self) -> String {
        match self.items.len() {
            0 => "nothing fits; Enter goes back: ".to_owned(),
            1 => "1, or Enter for none: ".to_owned(),
            count => format!("1 to {count}, or Enter for none: "),
        }
    }

    /// Returns what a line chooses.
    ///
    /// # Errors
    ///
    /// If it is no answer: what is one.
    pub(super) fn read(&self, line: &str) -> Result<Answer, String> {
        if line.is_empty() {
            return Ok(Answer::Nothing);
        }
        let number: Option<usize> = line.parse().ok();
        let item = number.and_then(|number| self.items.get(number.checked_sub(1)?));
        match item {
            Some((_, answer)) => Ok(answer.clone()),
            None => Err(format!("that is no answer; type {}", self.prompt())),
        }
    }
}
