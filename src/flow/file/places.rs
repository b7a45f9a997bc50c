//! Where the steps and texts of a flow stand in its files, so that what only the
//! whole flow can tell is wrong with them is told with a line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Page, line_in};
use crate::flow::{FlowError, StepPlace, TextError, TextPlace};

/// Where each step stands, by its place in the flow.
#[derive(Default)]
pub(super) struct Places(BTreeMap<Vec<usize>, Spots>);

/// Where one step stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Spots {
    /// Where its name does, or the step itself if it has none.
    pub(super) name: usize,
    pub(super) texts: Vec<(TextPlace, Spot)>,
}

/// Where a text stands.
#[derive(Debug, Clone)]
pub(super) enum Spot {
    /// In the flow file, as a string.
    Here(Range<usize>),
    /// In a file of its own.
    File(PathBuf, Arc<str>),
}

impl Places {
    pub(super) fn put(&mut self, at: &[usize], spots: Spots) {
        self.0.insert(at.to_vec(), spots);
    }

    /// Returns where a step stands, or the nearest one around it that stands
    /// somewhere.
    fn find(&self, StepPlace(at): &StepPlace) -> Option<&Spots> {
        (0..=at.len()).rev().find_map(|length| self.0.get(&at[..length]))
    }
}

impl Page<'_, '_> {
    /// Says of a text what is wrong with it.
    pub(super) fn text_error(&mut self, key: &str, spot: &Spot, error: &TextError) {
        match error {
            TextError::Syntax { line, message } => {
                let line = usize::try_from(*line).unwrap_or(1);
                self.error_at(spot, line, format!("`{key}` cannot be read: {message}"));
            }
            TextError::TooLong { .. }
            | TextError::PieceTooLong { .. }
            | TextError::TooManyElifs => {
                self.error_at(spot, 1, format!("`{key}` cannot be read: {error}"));
            }
        }
    }

    /// Says something of a line of a text.
    fn error_at(&mut self, spot: &Spot, line: usize, message: String) {
        match spot {
            Spot::Here(span) => {
                let line = self.line_of(span, line);
                self.error_on(line, message);
            }
            Spot::File(path, _) => self.reading.findings.error(path, line, message),
        }
    }

    /// Returns the line of the file on which a line of a string stands, from 1.
    fn line_of(&self, span: &Range<usize>, line: usize) -> usize {
        let (first, last) = (self.line(span.start), self.line(span.end));
        let written = self.text.get(span.clone()).unwrap_or_default();
        let behind = ["\"\"\"", "'''"].iter().find_map(|quotes| written.strip_prefix(quotes));
        // A break right behind the quotes is none of the string's.
        let skipped = behind.is_some_and(|text| text.starts_with(['\n', '\r']));
        (first + usize::from(skipped) + line - 1).min(last)
    }

    /// Says what the whole flow has found wrong with a step.
    pub(super) fn misnamed(&mut self, error: &FlowError) {
        let spots = error.at().and_then(|at| self.places.find(at)).cloned();
        let Some(spots) = spots else {
            self.error_on(1, error.to_string());
            return;
        };
        match error {
            FlowError::Names { text, name, .. } => {
                match spots.texts.iter().find(|(place, _)| place == text) {
                    Some((_, spot)) => {
                        let line = self.line_naming(spot, name);
                        self.error_at(spot, line, error.to_string());
                    }
                    None => self.error(spots.name, error.to_string()),
                }
            }
            FlowError::Empty
            | FlowError::TooMany
            | FlowError::TooDeep
            | FlowError::TooManyItems
            | FlowError::TooManyRounds
            | FlowError::TooManyTokens
            | FlowError::NoName { .. }
            | FlowError::Twice { .. }
            | FlowError::Input(_) => self.error(spots.name, error.to_string()),
        }
    }

    /// Returns the first line of a text, from 1, that names this.
    fn line_naming(&self, spot: &Spot, name: &str) -> usize {
        match spot {
            Spot::Here(span) => {
                let written = self.text.get(span.clone()).unwrap_or_default();
                let at = written.find(name).unwrap_or(0);
                let lines = line_in(written.as_bytes(), at);
                // Lines are counted without a first one that is empty.
                let first = self.line_of(span, 1) - self.line(span.start);
                (lines - first.min(lines - 1)).max(1)
            }
            Spot::File(_, text) => line_in(text.as_bytes(), text.find(name).unwrap_or(0)),
        }
    }
}
