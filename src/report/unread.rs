//! What the user wrote to main and it has not read, oldest first.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::{Event, EventKind, UnitId};

/// A fold over a session's events.
#[derive(Debug, Default)]
pub struct Unread {
    texts: VecDeque<Arc<str>>,
}

impl Unread {
    /// Takes note of an event. Returns what main reads with it.
    pub fn take(&mut self, event: &Event) -> Vec<Arc<str>> {
        if event.unit != UnitId::MAIN {
            return Vec::new();
        }
        if let EventKind::UserWrote { text } = &event.kind {
            self.texts.push_back(Arc::clone(text));
        }
        if event.kind == EventKind::UserTookBack {
            self.texts.clear();
        }
        let EventKind::Notified { wrote, .. } = &event.kind else { return Vec::new() };
        let count = (*wrote as usize).min(self.texts.len());
        self.texts.drain(..count).collect()
    }

    /// Returns what waits.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.texts.iter()
    }

    /// Tells whether nothing does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::Story;

    #[test]
    fn what_was_written_waits_until_it_is_read_or_taken_back() {
        let wrote = |text: &str| EventKind::UserWrote { text: text.into() };
        let read = EventKind::Notified { children: Vec::new(), text: "".into(), wrote: 2 };
        let mut story = Story::new();
        story.push(0, wrote("a")).push(0, wrote("b")).push(0, wrote("c")).push(0, read);
        story.push(0, EventKind::UserTookBack);
        let mut unread = Unread::default();
        let mut taken = Vec::new();
        let mut waits = Vec::new();
        for event in story.events() {
            taken.extend(unread.take(event));
            waits.push(unread.iter().count());
        }
        assert_eq!(taken, ["a".into(), "b".into()]);
        assert_eq!(waits, [1, 2, 3, 1, 0]);
        assert!(unread.is_empty());
    }
}
