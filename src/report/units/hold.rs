//! What keeps a request from going out.

use crate::event::{
    AfterFailure, Event, EventKind, RequestFailed, ThrottleCause, Throttled, UnixMillis,
};

/// Why a request does not go out yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// What it waits for.
    pub cause: HoldCause,
    /// How long, in milliseconds, where that is known.
    pub wait_ms: Option<u64>,
    /// Since when.
    pub since: UnixMillis,
}

impl Hold {
    /// Returns how long it still takes, in milliseconds; `None` if that is not
    /// known, or is over.
    #[must_use]
    pub fn left(self, now: UnixMillis) -> Option<u64> {
        self.wait_ms?.checked_sub(now.since(self.since)).filter(|left| *left > 0)
    }
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldCause {
    /// Something in the gate.
    Gate(ThrottleCause),
    /// The time to make it again.
    Retry {
        /// Which of the retries that will be, from 1.
        retry: u32,
        /// How many there are at most.
        most: u32,
    },
}

/// Returns why the request of an event's unit does not go out yet, as of the
/// event; `None` for an event that says nothing of it.
pub(super) fn hold(event: &Event) -> Option<Hold> {
    match &event.kind {
        EventKind::Throttled(Throttled { model: _, cause, wait_ms }) => {
            Some(Hold { cause: HoldCause::Gate(*cause), wait_ms: *wait_ms, since: event.at })
        }
        EventKind::RequestFailed(failed) => {
            let RequestFailed { attempt, next, .. } = &**failed;
            let AfterFailure::Retry { delay_ms, most } = *next else { return None };
            let cause = HoldCause::Retry { retry: *attempt, most };
            Some(Hold { cause, wait_ms: Some(delay_ms), since: event.at })
        }
        EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::Compacted(_)
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::Lost { .. }
        | EventKind::TurnStarted { .. }
        | EventKind::PrefixShared(_)
        | EventKind::Admitted { waited_ms: _ }
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::HookRan(_)
        | EventKind::Denied { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Walked(_)
        | EventKind::Chosen(_)
        | EventKind::Offered(_)
        | EventKind::Left
        | EventKind::Joined { .. }
        | EventKind::Notice { .. }
        | EventKind::InvocationEnded(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_down() {
        let hold = |wait_ms| Hold {
            cause: HoldCause::Gate(ThrottleCause::Provider),
            wait_ms,
            since: UnixMillis(1_000),
        };
        let left = |wait_ms, now| hold(wait_ms).left(UnixMillis(now));
        assert_eq!(left(Some(12_000), 1_000), Some(12_000));
        assert_eq!(left(Some(12_000), 12_000), Some(1_000));
        assert_eq!((left(Some(12_000), 13_000), left(Some(12_000), 20_000)), (None, None));
        assert_eq!(left(None, 2_000), None);
    }
}
