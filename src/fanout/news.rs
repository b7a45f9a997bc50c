//! What a unit reads of the units it started in the background, and of
//! messages that were sent to it.

use std::fmt::Write as _;
use std::sync::Arc;

use super::text::{cut, first_line};
use crate::event::{Outcome, PrefixShare, UnitEnd};
use crate::line::Glance;
use crate::message::counted;

/// Most characters of the answer of one unit. The whole is in a file that the
/// text names.
pub const ANSWER_CAP: usize = 8_000;

/// Most characters of one message to a unit.
pub const MESSAGE_CAP: usize = 16_000;

/// Most units whose answers are told at once; of more than these only the
/// states are told.
const ANSWERS_TOLD: usize = 8;

/// Most characters of a unit's description.
const NAME_CAP: usize = 120;

/// Writes the news that enter a conversation: `ended` units, how many are
/// `still_out`, and messages.
#[must_use]
pub fn text(ended: &[Glance], still_out: usize, messages: &[Arc<str>]) -> String {
    let mut parts: Vec<String> = messages.iter().map(|message| sent(message)).collect();
    for (index, glance) in ended.iter().enumerate() {
        parts.extend(notification(glance, index < ANSWERS_TOLD));
    }
    if !ended.is_empty() {
        parts.push(match still_out {
            0 => "No agent is out any more.".to_owned(),
            1 => "1 agent is still out; you will be told when it ends.".to_owned(),
            _ => format!("{still_out} agents are still out; you will be told when they end."),
        });
    }
    parts.join("\n\n")
}

fn sent(message: &str) -> String {
    include_str!("../../prompts/message.md")
        .trim_end()
        .replace("{message}", &cut(message, MESSAGE_CAP, None))
}

/// `None` for a unit that has not ended.
fn notification(glance: &Glance, is_whole: bool) -> Option<String> {
    let end = glance.end.as_ref()?;
    let mut answer = if is_whole { answer(end) } else { "(left out: use TaskOutput)".to_owned() };
    if glance.unread > 0 {
        write!(answer, "\n\n{} of your messages came too late for it.", glance.unread)
            .expect("a string takes any text");
    }
    // The answer last: it may hold any text, the names of places too.
    let text = include_str!("../../prompts/notification.md")
        .trim_end()
        .replace("{unit}", &glance.unit.to_string())
        .replace("{name}", &name(&glance.description))
        .replace("{agent}", &glance.agent)
        .replace("{state}", end.outcome.state().as_str())
        .replace("{cost}", &cost(end));
    Some(text.replace("{answer}", &answer))
}

/// Returns what a unit has to say at its end: its answer, or its real error
/// and what it had written by then.
#[must_use]
pub fn answer(end: &UnitEnd) -> String {
    let reason = match &end.outcome {
        Outcome::Done { text } => return cut(text, ANSWER_CAP, end.output_file.as_deref()),
        Outcome::Failed(failure) => cut(&failure.message, ANSWER_CAP / 4, None),
        Outcome::Cancelled { ran: true } => "stopped while it ran".to_owned(),
        Outcome::Cancelled { ran: false } => "stopped before it started".to_owned(),
        Outcome::Interrupted => "the process ended while it ran".to_owned(),
    };
    match end.text.trim() {
        "" => reason,
        partial => format!("{reason}\n\nPartial result:\n\n{}", cut(partial, ANSWER_CAP, None)),
    }
}

fn cost(end: &UnitEnd) -> String {
    let mut cost = format!(
        "{}, {}, {} tokens",
        counted(end.turns, "turn"),
        counted(end.tool_uses, "call"),
        end.usage.total()
    );
    if let Some(PrefixShare { shared_bytes, total_bytes, cached_tokens }) = end.share {
        write!(
            cost,
            "; {shared_bytes} of the {total_bytes} bytes of its first request were this \
             conversation's, {cached_tokens} tokens came from the cache"
        )
        .expect("a string takes any text");
    }
    cost
}

fn name(description: &str) -> String {
    first_line(description).chars().take(NAME_CAP).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{FailureKind, UnitId, UnitState};
    use crate::message::Usage;

    fn ended(unit: u32, outcome: Outcome, share: Option<PrefixShare>) -> Glance {
        let end = UnitEnd {
            outcome,
            text: "so far".into(),
            usage: Usage { input: 90, output: 10, ..Usage::default() },
            turns: 2,
            tool_uses: 3,
            duration_ms: 1,
            output_file: None,
            share,
        };
        Glance {
            unit: UnitId(unit),
            description: "look\naround".into(),
            agent: "fork".into(),
            state: UnitState::Completed,
            text: "so far".into(),
            turns: 2,
            tool_uses: 3,
            end: Some(Arc::new(end)),
            unread: 0,
        }
    }

    #[test]
    fn an_end_is_told_with_its_state_its_cost_and_who_is_still_out() {
        let share = PrefixShare { shared_bytes: 900, total_bytes: 1_000, cached_tokens: 80 };
        let done = Outcome::Done { text: "nothing {state} found".into() };
        insta::assert_snapshot!(text(&[ended(3, done, Some(share))], 2, &[]), @r#"
        <task-notification id="agent-3" status="completed">
        agent-3 (fork), which you started in the background for "look", has ended: completed.
        It took 2 turns, 3 calls, 100 tokens; 900 of the 1000 bytes of its first request were this conversation's, 80 tokens came from the cache.

        nothing {state} found
        </task-notification>

        2 agents are still out; you will be told when they end.
        "#);
    }

    #[test]
    fn a_bad_end_is_told_with_its_error_and_its_partial_text() {
        let failed = Outcome::failed(FailureKind::Provider, "503 overloaded");
        insta::assert_snapshot!(text(&[ended(1, failed, None)], 0, &[]), @r#"
        <task-notification id="agent-1" status="failed">
        agent-1 (fork), which you started in the background for "look", has ended: failed.
        It took 2 turns, 3 calls, 100 tokens.

        503 overloaded

        Partial result:

        so far
        </task-notification>

        No agent is out any more.
        "#);
    }

    #[test]
    fn news_are_bounded_however_many_there_are() {
        let long = "x".repeat(100_000);
        let all: Vec<Glance> = (0..1_000)
            .map(|unit| ended(unit, Outcome::Done { text: long.as_str().into() }, None))
            .collect();
        assert!(text(&all, 0, &[]).len() < ANSWERS_TOLD * 2 * ANSWER_CAP + all.len() * 500);
        assert!(text(&[], 0, &[long.into()]).len() < MESSAGE_CAP + 500);
    }
}
