//! What is wrong with a flow file, gathered while it is read.

use std::path::Path;

use super::FINDINGS_CAP;
use crate::front_matter::{Finding, Severity};

/// What was found so far.
#[derive(Default)]
pub(super) struct Findings {
    found: Vec<Finding>,
    /// How many more there are.
    left_out: usize,
}

impl Findings {
    pub(super) fn error(&mut self, path: &Path, line: usize, message: String) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let path = path.to_owned();
        self.found.push(Finding { path, line, severity: Severity::Error, message });
    }

    /// Tells whether nothing that is found any more is told.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() >= FINDINGS_CAP
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns all, each file's by line.
    pub(super) fn done(mut self) -> Vec<Finding> {
        self.found.sort_by(|one, other| (&one.path, one.line).cmp(&(&other.path, other.line)));
        if let Some(last) = self.found.last().filter(|_| self.left_out > 0) {
            let message = format!("and {} more", self.left_out);
            self.found.push(Finding { message, ..last.clone() });
        }
        self.found
    }
}
