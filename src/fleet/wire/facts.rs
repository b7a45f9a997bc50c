//! What units tell, as the events that the log makes of it.

use serde::{Deserialize, Serialize};

use super::json::{Raw, Text};
use crate::event::EventKind;
use crate::line::Told;
use crate::session::kinds;

/// An event in the log's form.
#[derive(Serialize, Deserialize)]
pub(super) struct Fact<'a> {
    kind: Text<'a>,
    body: Raw,
}

impl Fact<'_> {
    pub(super) fn of(kind: &EventKind) -> Self {
        let (kind, body) = kinds::of_kind(kind);
        Self { kind: kind.into(), body }
    }

    pub(super) fn into_kind(self) -> Result<EventKind, String> {
        kinds::kind(&self.kind, &self.body)
    }

    /// Says that the event is none that may stand here.
    pub(super) fn is_wrong(found: &EventKind) -> String {
        let (kind, _) = kinds::of_kind(found);
        format!("`{kind}` is not what is said here")
    }
}

/// Returns what a unit told that became this event.
///
/// # Errors
///
/// No unit just tells that: the event itself.
pub(super) fn told_of(kind: EventKind) -> Result<Told, Box<EventKind>> {
    Ok(match kind {
        EventKind::Prompted(prompt) => Told::Prompted(prompt),
        EventKind::Notified { children, text, wrote: 0 } if children.is_empty() => {
            Told::Reminded { text }
        }
        EventKind::PrefixShared(share) => Told::PrefixShared(share),
        EventKind::Walked(head) => Told::Walked(head),
        EventKind::Offered(offered) => Told::Offered(offered),
        EventKind::Compacted(compaction) => Told::Compacted(compaction),
        EventKind::Throttled(throttled) => Told::Throttled(throttled),
        EventKind::Admitted { waited_ms } => Told::Admitted { waited_ms },
        EventKind::RequestFailed(failed) => Told::RequestFailed(failed),
        EventKind::Worktree(worktree) => Told::Worktree(worktree),
        EventKind::HookRan(ran) => Told::HookRan(ran),
        EventKind::Denied { call, tool, arguments, reason } => {
            Told::Denied { call, tool, arguments, reason }
        }
        EventKind::Notice { level, text } => Told::Notice { level, text },
        kind @ (EventKind::SessionOpened(_)
        | EventKind::InvocationStarted { .. }
        | EventKind::Notified { .. }
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        | EventKind::UnitQueued(_)
        | EventKind::UnitStarted
        | EventKind::Lost { .. }
        | EventKind::TurnStarted { .. }
        | EventKind::Replied(_)
        | EventKind::ToolStarted { .. }
        | EventKind::FileChanged(_)
        | EventKind::ToolFinished { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. }
        | EventKind::UnitEnded(_)
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Joined { .. }
        | EventKind::InvocationEnded(_)
        | EventKind::Chosen(_)
        | EventKind::Left) => return Err(Box::new(kind)),
    })
}
