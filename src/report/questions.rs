//! Questions without an answer, in the order in which they came.
//!
//! The first of them is the one that is shown. Who shows it, and how, is not
//! known here.

use std::collections::BTreeMap;

use super::asking::Choices;
use super::units::Units;
use super::words;
use crate::event::{Event, EventKind, Question, QuestionId, UnitId};

/// Questions without an answer.
#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<QuestionId, OpenQuestion>,
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// Who asks.
    pub unit: UnitId,
    /// What people call it.
    pub name: String,
    /// What it asks.
    pub question: Question,
    /// The answers that it takes.
    pub choices: Choices,
}

impl Questions {
    /// Takes note of an event; `units` is what is known after it. Returns
    /// whether another question is the first one now, or none.
    pub fn take(&mut self, event: &Event, units: &Units) -> bool {
        let first = self.first().map(|(id, _)| id);
        if let EventKind::Asked { id, question } = &event.kind {
            self.open.insert(*id, OpenQuestion::of(event.unit, question, units));
        }
        if let EventKind::Answered { id, .. } = &event.kind {
            self.open.remove(id);
        }
        self.first().map(|(id, _)| id) != first
    }

    /// Returns the question that is shown.
    #[must_use]
    pub fn first(&self) -> Option<(QuestionId, &OpenQuestion)> {
        self.open.first_key_value().map(|(id, open)| (*id, open))
    }

    /// Returns how many more there are behind that.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.open.len().saturating_sub(1)
    }
}

impl OpenQuestion {
    fn of(unit: UnitId, question: &Question, units: &Units) -> Self {
        let name = units.get(unit).map(|known| words::unit_name(unit, &known.head));
        let choices = match question {
            Question::Batch { slots: _ } => Choices::Batch,
            Question::Form(_) => Choices::Form,
            Question::Call(asked) => Choices::Call {
                in_batch: is_in_batch(unit, units),
                has_rules: !asked.rules.is_empty(),
            },
        };
        let name = name.unwrap_or_else(|| unit.to_string());
        Self { unit, name, question: question.clone(), choices }
    }
}

/// Tells whether a unit is a slot, or works for one.
fn is_in_batch(unit: UnitId, units: &Units) -> bool {
    let upwards = std::iter::successors(units.get(unit), |known| units.get(known.head.parent));
    upwards.into_iter().any(|known| known.head.slot.is_some())
}
