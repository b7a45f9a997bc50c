//! What a session has cost so far, and how full main's context window is.

use crate::event::{Event, EventKind, UnitId};
use crate::message::{Cost, Usage};

/// What a session has used.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    used: Usage,
    /// The tokens of main's last request and its answer.
    context: Option<u64>,
}

impl Meter {
    /// Returns the meter of a session in which main's conversation has so many
    /// tokens; `None` if no request has told.
    #[must_use]
    pub fn with_context(context: Option<u64>) -> Self {
        Self { context, ..Self::default() }
    }

    /// Returns how many tokens a conversation has that is to go on; `None` if
    /// no request has told.
    #[must_use]
    pub fn context_of(conversation: &[EventKind]) -> Option<u64> {
        conversation.iter().rev().find_map(|kind| {
            if let EventKind::Replied(replied) = kind {
                return Some(replied.usage.total());
            }
            let EventKind::Compacted(compaction) = kind else { return None };
            Some(compaction.tokens_after)
        })
    }

    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        let is_main = event.unit == UnitId::MAIN;
        match &event.kind {
            EventKind::Replied(replied) => {
                self.used += replied.usage;
                if is_main {
                    self.context = Some(replied.usage.total());
                }
            }
            EventKind::RequestFailed(failed) => self.used += failed.usage,
            EventKind::Compacted(compaction) => {
                self.used += compaction.usage;
                if is_main {
                    self.context = Some(compaction.tokens_after);
                }
            }
            EventKind::Rewound { .. } if is_main => self.forget_context(),
            EventKind::SessionOpened(_)
            | EventKind::InvocationStarted { .. }
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { .. }
            | EventKind::UnitQueued(_)
            | EventKind::UnitStarted
            | EventKind::Lost { .. }
            | EventKind::TurnStarted { .. }
            | EventKind::ToolStarted { .. }
            | EventKind::ToolFinished { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UnitEnded(_)
            | EventKind::Joined { .. }
            | EventKind::Notice { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::InvocationEnded(_) => {}
        }
    }

    /// The conversation went back: how much it was then is not known any more.
    pub fn forget_context(&mut self) {
        self.context = None;
    }

    /// Returns what all requests cost.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.used.cost
    }

    /// Returns how much of a window of so many tokens main's conversation
    /// fills, in percent.
    #[must_use]
    pub fn percent_of(&self, window: u64) -> Option<u64> {
        let used = self.context?;
        used.saturating_mul(100).checked_div(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::story::Story;

    #[test]
    fn a_conversation_that_goes_on_is_as_full_as_it_was() {
        let mut story = Story::new();
        story.reply(0, "a", 100, 20).reply(0, "b", 200, 30);
        let kinds: Vec<EventKind> = story.events().iter().map(|event| event.kind.clone()).collect();
        assert_eq!(Meter::context_of(&kinds), Some(230));
        assert_eq!(Meter::context_of(&kinds[..1]), Some(120));
        assert_eq!(Meter::context_of(&[]), None);
        assert_eq!(Meter::with_context(Some(230)).percent_of(1_000), Some(23));
        assert_eq!(Meter::with_context(None).percent_of(1_000), None);
    }

    #[test]
    fn the_window_holds_what_main_was_last_asked_and_answered() {
        let mut story = Story::new();
        story.batch("c", &["north"]).start(1);
        let mut meter = Meter::default();
        story.events().iter().for_each(|event| meter.take(event));
        assert_eq!(meter.percent_of(1_000), None);
        story.reply(0, "a", 100, 20).reply(1, "b", 5_000, 5);
        story.events().iter().for_each(|event| meter.take(event));
        assert_eq!(meter.percent_of(1_000), Some(12));
        assert_eq!(meter.percent_of(0), None);
    }
}
