//! Events as lines for whoever looks for a fault.
//!
//! All that is decided in a run becomes an event, so this one place tells of
//! units, requests, waits, calls, hooks and summaries. Nothing of what was said
//! is told: for that there is the log.

use tracing::{Level, debug, enabled, info};

use crate::event::{AfterFailure, Event, EventKind, Outcome};

/// Writes an event down, if anybody wants it. Else it costs one comparison.
pub(super) fn trace(event: &Event) {
    if !enabled!(target: "tine::event", Level::INFO) {
        return;
    }
    let (seq, unit) = (event.seq.0, &event.unit);
    match &event.kind {
        EventKind::SessionOpened(head) => {
            info!(target: "tine::event", seq, session = %head.session, model = %head.model, "session opened");
        }
        EventKind::InvocationStarted { .. } => {
            info!(target: "tine::event", seq, invocation = event.invocation.0, "invocation started");
        }
        EventKind::InvocationEnded(end) => {
            let outcome = end.outcome.state().as_str();
            info!(target: "tine::event", seq, outcome, "invocation ended");
        }
        EventKind::UnitQueued(head) => {
            let (agent, parent) = (&head.agent, head.parent);
            debug!(target: "tine::event", seq, %unit, %agent, %parent, "unit queued");
        }
        EventKind::UnitStarted => info!(target: "tine::event", seq, %unit, "unit started"),
        EventKind::Lost { worker, attempt } => lost(event, worker, *attempt),
        EventKind::UnitEnded(end) => ended(event, &end.outcome),
        EventKind::TurnStarted { turn } => {
            debug!(target: "tine::event", seq, %unit, turn, "turn started");
        }
        EventKind::Compacted(compaction) => {
            let (before, after) = (compaction.tokens_before, compaction.tokens_after);
            info!(target: "tine::event", seq, %unit, before, after, "conversation compacted");
        }
        EventKind::HookRan(hook) => {
            let (on, outcome) = (hook.event.as_str(), hook.outcome.as_str());
            let took_ms = hook.took_ms;
            debug!(target: "tine::event", seq, %unit, on, outcome, took_ms, "hook ran");
        }
        EventKind::Throttled(_)
        | EventKind::Admitted { .. }
        | EventKind::RequestFailed(_)
        | EventKind::Replied(_) => request(event),
        EventKind::ToolStarted { .. }
        | EventKind::ToolFinished { .. }
        | EventKind::Denied { .. }
        | EventKind::Asked { .. }
        | EventKind::Answered { .. } => call(event),
        EventKind::Prompted(_)
        | EventKind::Notified { .. }
        | EventKind::UserWrote { .. }
        | EventKind::UserTookBack
        | EventKind::PrefixShared(_)
        | EventKind::FileChanged(_)
        | EventKind::Worktree(_)
        | EventKind::SetAside { .. }
        | EventKind::Rewound { .. }
        | EventKind::Walked(_)
        | EventKind::Joined { .. }
        | EventKind::Notice { .. }
        | EventKind::Chosen(_)
        | EventKind::Left
        | EventKind::Offered(_) => {}
    }
}

fn lost(event: &Event, worker: &str, attempt: u32) {
    let (seq, unit) = (event.seq.0, &event.unit);
    info!(target: "tine::event", seq, %unit, worker, attempt, "unit lost");
}

fn ended(event: &Event, outcome: &Outcome) {
    let (seq, unit, state) = (event.seq.0, &event.unit, outcome.state().as_str());
    match outcome {
        Outcome::Failed(failure) => {
            let kind = failure.kind.as_str();
            info!(target: "tine::event", seq, %unit, state, kind, "unit ended");
        }
        Outcome::Done { .. } | Outcome::Cancelled { .. } | Outcome::Interrupted => {
            info!(target: "tine::event", seq, %unit, state, "unit ended");
        }
    }
}

fn request(event: &Event) {
    let (seq, unit) = (event.seq.0, &event.unit);
    if let EventKind::Throttled(throttled) = &event.kind {
        let (cause, wait_ms) = (throttled.cause.as_str(), throttled.wait_ms);
        debug!(target: "tine::event", seq, %unit, cause, wait_ms, "request waits in the gate");
    }
    if let EventKind::Admitted { waited_ms } = &event.kind {
        debug!(target: "tine::event", seq, %unit, waited_ms, "request goes out");
    }
    if let EventKind::RequestFailed(failed) = &event.kind {
        let (status, attempt, message) = (failed.status, failed.attempt, &failed.message);
        let next = match &failed.next {
            AfterFailure::Retry { .. } => "retry",
            AfterFailure::Fallback { .. } => "fallback",
            AfterFailure::Compact => "compact",
            AfterFailure::LeaveOut => "leave_out",
            AfterFailure::TooLong => "too_long",
            AfterFailure::Nothing => "nothing",
        };
        info!(target: "tine::event", seq, %unit, status, attempt, next, %message, "request failed");
    }
    if let EventKind::Replied(replied) = &event.kind {
        let (model, took_ms, stop) = (&replied.model, replied.took_ms, replied.stop.as_str());
        let (input, output) = (replied.usage.input, replied.usage.output);
        debug!(target: "tine::event", seq, %unit, %model, took_ms, stop, input, output, "request answered");
    }
}

fn call(event: &Event) {
    let (seq, unit) = (event.seq.0, &event.unit);
    if let EventKind::ToolStarted { call, tool, .. } = &event.kind {
        debug!(target: "tine::event", seq, %unit, %call, %tool, "call started");
    }
    if let EventKind::ToolFinished { call, tool, output, took_ms } = &event.kind {
        let is_error = output.is_error;
        debug!(target: "tine::event", seq, %unit, %call, %tool, is_error, took_ms, "call finished");
    }
    if let EventKind::Denied { call, tool, reason, .. } = &event.kind {
        info!(target: "tine::event", seq, %unit, %call, %tool, %reason, "call denied");
    }
    if let EventKind::Asked { id, .. } = &event.kind {
        debug!(target: "tine::event", seq, %unit, question = id.0.0, "somebody is asked");
    }
    if let EventKind::Answered { id, .. } = &event.kind {
        debug!(target: "tine::event", seq, %unit, question = id.0.0, "question closed");
    }
}
