//! Why rows have failed, counted.

use std::collections::BTreeMap;

/// Most reasons that are told apart. Providers say few things many times; one
/// that says something new for each row is as bad as none.
const REASONS_CAP: usize = 1_000;

/// Most characters of a reason: those of one line.
const REASON_CAP: usize = 200;

/// How many rows failed of what.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Box<str>, u32>);

impl Failures {
    /// Takes note of a failure.
    pub(super) fn take(&mut self, error: &str) {
        let line = error.lines().next().unwrap_or_default();
        let reason: String = line.chars().take(REASON_CAP).collect();
        if let Some(count) = self.0.get_mut(&*reason) {
            *count += 1;
        } else if self.0.len() < REASONS_CAP {
            self.0.insert(reason.into(), 1);
        }
    }

    /// Returns the reasons, the most frequent first.
    pub(super) fn by_count(&self) -> Vec<(u32, &str)> {
        let mut all: Vec<(u32, &str)> =
            self.0.iter().map(|(reason, count)| (*count, &**reason)).collect();
        all.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_lines_that_are_counted_up_to_a_bound() {
        let mut failures = Failures::default();
        let long = "x".repeat(REASON_CAP);
        for error in ["b", "a\nmore", "c", "a", "a\n", &format!("{long}y"), &format!("{long}z")] {
            failures.take(error);
        }
        assert_eq!(failures.by_count(), [(3, "a"), (2, &*long), (1, "b"), (1, "c")]);
        (0..2 * REASONS_CAP).for_each(|number| failures.take(&format!("row {number}")));
        assert_eq!(failures.by_count().len(), REASONS_CAP);
    }
}
