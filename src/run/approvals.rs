//! Rules that people allow from now on, on their way into their settings.
//!
//! Writing a file may take its time, so it happens beside the run, one rule
//! after the other. What cannot be written is told; the answer that it came
//! from holds for the session all the same.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

/// How long a run that is over waits until its rules are written. A local disk
/// takes milliseconds.
const WRITING_GRACE: Duration = Duration::from_secs(2);

/// Writes one rule to the user's settings. The error says why it could not be
/// written, in words for people.
pub type KeepRule = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The user's settings, and what is still to be written there.
pub(super) struct Settings {
    keep: KeepRule,
    waiting: VecDeque<Arc<str>>,
    writing: Option<JoinHandle<Result<(), String>>>,
}

impl Settings {
    pub(super) fn new(keep: KeepRule) -> Self {
        Self { keep, waiting: VecDeque::new(), writing: None }
    }

    /// Begins to write rules.
    pub(super) fn keep(&mut self, rules: Vec<Arc<str>>) {
        self.waiting.extend(rules);
        self.go_on();
    }

    /// Waits until a rule could not be written and says so. Dropping the future
    /// loses nothing.
    pub(super) async fn trouble(&mut self) -> Arc<str> {
        loop {
            if let Some(trouble) = self.written().await {
                return trouble;
            }
        }
    }

    /// Waits until everything is written; returns what could not be.
    pub(super) async fn finish(&mut self) -> Vec<Arc<str>> {
        let mut troubles = Vec::new();
        let all = async {
            while self.writing.is_some() {
                troubles.extend(self.written().await);
            }
        };
        if tokio::time::timeout(WRITING_GRACE, all).await.is_err() {
            troubles
                .push("the settings take too long to write; a rule may be missing there".into());
        }
        troubles
    }

    /// Waits for the rule that is being written; forever if there is none.
    async fn written(&mut self) -> Option<Arc<str>> {
        let Some(writing) = &mut self.writing else { return std::future::pending().await };
        let result = writing.await.unwrap_or_else(|_| Err("it panicked".to_owned()));
        self.writing = None;
        self.go_on();
        let error = result.err()?;
        Some(format!("a rule holds for this session, but is not in the settings: {error}").into())
    }

    fn go_on(&mut self) {
        if self.writing.is_some() {
            return;
        }
        let Some(rule) = self.waiting.pop_front() else { return };
        let keep = Arc::clone(&self.keep);
        self.writing = Some(tokio::task::spawn_blocking(move || keep(&rule)));
    }
}
