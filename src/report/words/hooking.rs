//! The words of hooks that ran.

use super::{SENTENCE_CAP, SUBJECT_CAP, duration, short_line};
use crate::event::{HookDecision, HookEvent, HookOutcome, HookRan};

/// Returns what people must know of a hook that ran, if anything: it went
/// wrong, it blocks, or it has something to say to them.
#[must_use]
pub fn hook(ran: &HookRan) -> Option<String> {
    let name = name(ran);
    let reason = short_line(&ran.reason, SENTENCE_CAP);
    if ran.outcome == HookOutcome::Failed {
        return Some(format!("warning: {name} {reason}"));
    }
    let blocks = match (ran.decision, ran.event) {
        (Some(HookDecision::Stop), _) => Some("ends it"),
        // The denial is told as one.
        (Some(HookDecision::Deny), HookEvent::PreToolUse | HookEvent::PermissionRequest) => None,
        (Some(HookDecision::Deny), HookEvent::PostToolUse) => Some("objects"),
        (Some(HookDecision::Deny), _) => Some("blocks"),
        (Some(HookDecision::Allow | HookDecision::Ask) | None, _) => None,
    };
    let blocks = blocks.map(|blocks| match &*reason {
        "" => format!("{name} {blocks}"),
        reason => format!("{name} {blocks}: {reason}"),
    });
    let says = (!ran.message.is_empty()).then(|| short_line(&ran.message, SENTENCE_CAP));
    match (blocks, says) {
        (Some(blocks), Some(says)) => Some(format!("{blocks}; it says: {says}")),
        (Some(blocks), None) => Some(blocks),
        (None, Some(says)) => Some(format!("{name} says: {says}")),
        (None, None) => None,
    }
}

/// Returns all that there is to say of a hook that ran, in a line.
#[must_use]
pub fn hook_ran(ran: &HookRan) -> String {
    if let Some(words) = hook(ran) {
        return words;
    }
    let name = name(ran);
    let how = match ran.outcome {
        HookOutcome::Done | HookOutcome::Failed | HookOutcome::Blocked => {
            format!("ran for {}", duration(ran.took_ms))
        }
        HookOutcome::Cancelled => format!("was ended after {}", duration(ran.took_ms)),
        HookOutcome::Started => "was started".to_owned(),
    };
    let decision = ran.decision.map(|decision| format!(", decides: {}", decision.as_str()));
    let changes = if ran.changes_input { ", changes the arguments" } else { "" };
    let context = if ran.context.is_empty() { "" } else { ", adds to what the model reads" };
    format!("{name} {how}{}{changes}{context}", decision.unwrap_or_default())
}

fn name(ran: &HookRan) -> String {
    format!("{} hook `{}`", ran.event.as_str(), short_line(&ran.hook, SUBJECT_CAP))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran() -> HookRan {
        HookRan {
            event: HookEvent::Stop,
            hook: "check.sh".into(),
            call: None,
            outcome: HookOutcome::Done,
            exit_code: Some(0),
            decision: None,
            reason: "".into(),
            context: "".into(),
            message: "".into(),
            changes_input: false,
            took_ms: 12,
        }
    }

    #[test]
    fn people_hear_of_hooks_that_block_fail_or_speak_and_of_no_others() {
        let deny = Some(HookDecision::Deny);
        let blocks = HookRan { decision: deny, reason: "tests fail".into(), ..ran() };
        let denies = HookRan { event: HookEvent::PreToolUse, ..blocks.clone() };
        let objects = HookRan { event: HookEvent::PostToolUse, ..blocks.clone() };
        let outcome = HookOutcome::Failed;
        let fails = HookRan { outcome, reason: "ran past its limit of 60 s".into(), ..ran() };
        let says = HookRan { message: "look\u{1b}[2J".into(), ..ran() };
        for (ran, expected) in [
            (ran(), None),
            (blocks, Some("Stop hook `check.sh` blocks: tests fail")),
            (denies, None),
            (objects, Some("PostToolUse hook `check.sh` objects: tests fail")),
            (fails, Some("warning: Stop hook `check.sh` ran past its limit of 60 s")),
            (says, Some("Stop hook `check.sh` says: look\\u{1b}[2J")),
        ] {
            assert_eq!(hook(&ran).as_deref(), expected);
        }
    }

    #[test]
    fn documents_tell_of_every_hook() {
        assert_eq!(hook_ran(&ran()), "Stop hook `check.sh` ran for 12 ms");
        let changed = HookRan {
            event: HookEvent::PreToolUse,
            decision: Some(HookDecision::Allow),
            changes_input: true,
            context: "more".into(),
            ..ran()
        };
        let expected = "PreToolUse hook `check.sh` ran for 12 ms, decides: allow, changes the \
                        arguments, adds to what the model reads";
        assert_eq!(hook_ran(&changed), expected);
    }
}
