//! Extends a command's time limit by the time that it waits for the user.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest extension, and so the shortest interval between checks of an open question.
const LEAST_EXTENSION: Duration = Duration::from_secs(1);

/// The shortest wait that counts: a question without a user to ask is answered at once.
const LEAST_WAIT: Duration = Duration::from_millis(200);

/// The time that a command has waited for the user.
#[derive(Debug, Default)]
pub(super) struct UserWaitTime(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of open questions.
    open: u32,
    /// The time at which the first of them was asked.
    since: Option<Instant>,
    /// Time spent on earlier questions.
    before: Duration,
    /// Sum of all extensions.
    extended: Duration,
}

/// An open question, until it is dropped.
pub(super) struct PendingQuestion<'a>(&'a UserWaitTime);

impl UserWaitTime {
    /// Registers an open question.
    pub(super) fn begin(&self) -> PendingQuestion<'_> {
        let mut state = self.lock();
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        PendingQuestion(self)
    }

    /// Returns the next extension of the limit; `None` if the limit stands.
    pub(super) fn extension(&self) -> Option<Duration> {
        let mut state = self.lock();
        let now = state.since.map(|since| since.elapsed()).unwrap_or_default();
        let waited = (state.before + now).saturating_sub(state.extended);
        if waited < LEAST_WAIT && state.open == 0 {
            return None;
        }
        let extension = waited.max(LEAST_EXTENSION);
        state.extended += extension;
        Some(extension)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        if state.open == 0
            && let Some(since) = state.since.take()
        {
            state.before += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_is_extended_by_the_time_of_questions_and_no_more() {
        let waited = UserWaitTime::default();
        assert_eq!(waited.extension(), None);
        let (first, second) = (waited.begin(), waited.begin());
        advance(Duration::from_secs(20)).await;
        drop(first);
        advance(Duration::from_secs(10)).await;
        // One is still open.
        assert_eq!(waited.extension(), Some(Duration::from_secs(30)));
        assert_eq!(waited.extension(), Some(LEAST_EXTENSION));
        advance(Duration::from_secs(5)).await;
        drop(second);
        assert_eq!(waited.extension(), Some(Duration::from_secs(4)));
        assert_eq!(waited.extension(), None);
    }
}
