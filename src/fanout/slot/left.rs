//! What a unit's worktree leaves behind, and what is said of it.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Slot, first_point};
use crate::agent::History;
use crate::event::{Failure, Outcome, UnitEnd};
use crate::fanout::caller::Caller;
use crate::fanout::worktree::OwnTree;
use crate::guard::{Policy, Searches};
use crate::line::{Line, Seat};
use crate::prompt::escape_worktree_notes;
use crate::tool::files::Seen;
use crate::tool::{ToolContext, Workspace};

impl Slot {
    /// Ends the worktree, and says in the outcome what became of it. An
    /// outcome that has no words leaves that to the note.
    pub(super) async fn leave(&self, own: OwnTree, outcome: Outcome) -> (Outcome, Option<String>) {
        let caller = self.caller(&self.tools, &self.caller_model, &self.seat.cancel);
        let at = (own.origin(), &self.policy);
        let context = context(&caller, &self.line, &self.seat, at);
        let note = self.fanout.worktrees.end(own, &context, &outcome).await;
        said(outcome, note)
    }
}

/// Returns the context in which the change of a unit gets into a workspace.
pub(super) fn context(
    caller: &Caller,
    line: &Line,
    seat: &Seat,
    (workspace, policy): (&Arc<Workspace>, &Arc<Policy>),
) -> ToolContext {
    let history = History::new(caller.fanout.head("", &caller.tools));
    ToolContext {
        line: line.clone(),
        cancel: seat.cancel.clone(),
        workspace: Arc::clone(workspace),
        policy: Arc::clone(policy),
        searches: Searches::by(policy),
        seen: Seen::default(),
        takes_images: false,
        skills: Arc::clone(&caller.fanout.skills),
        delegate: Arc::new(caller.clone()),
        fork_point: Arc::new(first_point(&history, &caller.model)),
    }
}

/// Escapes parts of an agent's answer that look like the note about its worktree, whether
/// or not the real note follows.
pub(super) fn escape_notes(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Done { text } => match escape_worktree_notes(&text) {
            Cow::Borrowed(_) => Outcome::Done { text },
            Cow::Owned(escaped) => Outcome::Done { text: escaped.into() },
        },
        Outcome::Failed(_) | Outcome::Cancelled { .. } | Outcome::Interrupted => outcome,
    }
}

/// Puts a note into an outcome that has words; otherwise it is returned.
pub(super) fn said(outcome: Outcome, note: String) -> (Outcome, Option<String>) {
    match outcome {
        // In front: what is long is cut at its end.
        Outcome::Done { text } => {
            (Outcome::Done { text: format!("{note}\n\n{text}").into() }, None)
        }
        Outcome::Failed(failure) => {
            let message = format!("{} {note}", failure.message).into();
            (Outcome::Failed(Failure { message, ..failure }), None)
        }
        Outcome::Cancelled { .. } | Outcome::Interrupted => (outcome, Some(note)),
    }
}

/// Puts a note behind what a unit had written.
pub(super) fn noted(end: Arc<UnitEnd>, note: Option<String>) -> Arc<UnitEnd> {
    let Some(note) = note else { return end };
    let text = format!("{}\n\n{note}", end.text).trim_start().into();
    Arc::new(UnitEnd { text, ..(*end).clone() })
}
