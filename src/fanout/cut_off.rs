//! What a parent reads of its children when their process ended before it
//! could: the text that the call would have had, had they all been stopped
//! then.

use std::sync::Arc;

use serde_json::Value;

use super::text::{Ended, of_batch, of_single};
use crate::event::{UnitEnd, UnitHead, UnitId};
use crate::message::Output;
use crate::session::Spill;
use crate::tool::BATCH_CAP;
use crate::tool::coerce::unquoted;

/// A unit that a call had started, and its end.
#[derive(Debug, Clone)]
pub struct Started<'a> {
    /// The unit.
    pub unit: UnitId,
    /// Who it is.
    pub head: &'a UnitHead,
    /// Its end. Of one that ran beside its parent, the call tells nothing.
    pub end: Arc<UnitEnd>,
}

/// Writes the output of an Agent call. `children` are those it had started, in
/// declared order; `arguments` tell of the others.
///
/// Results are kept as they were, and whatever has none says why.
#[must_use]
pub fn output(arguments: &str, children: &[Started<'_>], spill: &Spill) -> Output {
    let Some(slot) = children.first().and_then(|child| child.head.slot) else {
        let slots: Vec<Ended> = children.iter().map(|child| ended(child, 1, spill)).collect();
        return of_single(&slots);
    };
    // A log can say anything.
    let total = usize::try_from(slot.total).unwrap_or(usize::MAX).min(BATCH_CAP);
    let mut slots = undeclared(arguments, total);
    for child in children {
        let index = child.head.slot.map_or(u32::MAX, |slot| slot.index);
        if let Some(slot) = slots.get_mut(index as usize) {
            *slot = ended(child, total, spill);
        }
    }
    of_batch(&slots, spill)
}

fn ended(child: &Started<'_>, slots: usize, spill: &Spill) -> Ended {
    let mut ended = Ended::not_yet(&child.head.description, &child.head.agent);
    if child.head.is_background {
        ended.goes_on(child.unit);
    } else {
        ended.ends(&child.end, slots, spill);
    }
    ended
}

/// The slots as the call asks for them.
fn undeclared(arguments: &str, total: usize) -> Vec<Ended> {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    // The log holds what the model wrote, which may be quoted.
    let tasks = unquoted(&arguments["tasks"]);
    let text = |index: usize, name: &str| -> Arc<str> {
        tasks[index][name].as_str().unwrap_or_default().into()
    };
    let slot = |index| Ended::not_yet(&text(index, "description"), &text(index, "subagent_type"));
    (0..total).map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Origin, Outcome, SlotPosition};
    use crate::message::Usage;

    fn child(name: &str, slot: Option<(u32, u32)>, outcome: Outcome) -> (UnitHead, Arc<UnitEnd>) {
        let head = UnitHead {
            description: name.into(),
            agent: "explore".into(),
            call: Some("call".into()),
            parent: UnitId::MAIN,
            depth: 1,
            slot: slot.map(|(index, total)| SlotPosition { index, total }),
            origin: Origin::Prompt,
            is_background: false,
            again: None,
            step: None,
        };
        let text = match &outcome {
            Outcome::Done { text } => Arc::clone(text),
            Outcome::Failed(_) | Outcome::Cancelled { .. } | Outcome::Interrupted => {
                "so far".into()
            }
        };
        let end = UnitEnd {
            outcome,
            text,
            usage: Usage::default(),
            turns: 1,
            tool_uses: 0,
            duration_ms: 0,
            output_file: None,
            share: None,
        };
        (head, Arc::new(end))
    }

    fn started(children: &[(UnitHead, Arc<UnitEnd>)]) -> Vec<Started<'_>> {
        let started = (1..).zip(children).map(|(unit, (head, end))| Started {
            unit: UnitId(unit),
            head,
            end: Arc::clone(end),
        });
        started.collect()
    }

    #[track_caller]
    fn check(arguments: &str, children: &[(UnitHead, Arc<UnitEnd>)], expected: &str) {
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().to_owned() };
        assert_eq!(output(arguments, &started(children), &spill).text, expected);
    }

    #[test]
    fn results_are_kept_and_the_rest_says_why_there_is_none() {
        let done = Outcome::Done { text: "found".into() };
        let arguments = r#"{"tasks":[{"description":"a"},{"description":"b"},{"description":"c"},
            {"description":"d","subagent_type":"reviewer"}]}"#;
        let children = [
            child("a", Some((0, 4)), done),
            child("b", Some((1, 4)), Outcome::Interrupted),
            child("c", Some((2, 4)), Outcome::Cancelled { ran: false }),
        ];
        check(
            arguments,
            &children,
            "## Task 1: a (explore)\n\nfound\n\n---\n\n\
             ## Task 2: b (explore)\n\n[interrupted: the process ended while it ran]\n\n\
             Partial result:\n\nso far\n\n---\n\n\
             ## Task 3: c (explore)\n\n[never started: cancelled]\n\n---\n\n\
             ## Task 4: d (reviewer)\n\n[never started]",
        );
    }

    #[test]
    fn a_single_call_has_the_text_of_its_one_unit() {
        let text = "[interrupted: the process ended while it ran]\n\nPartial result:\n\nso far";
        check("{}", &[child("a", None, Outcome::Interrupted)], text);
    }

    /// As in a call that came to its end; what became of the unit is news.
    #[test]
    fn a_unit_beside_its_caller_is_told_as_running() {
        let (mut head, end) = child("a", None, Outcome::Interrupted);
        head.is_background = true;
        let text = include_str!("../../prompts/background.md").trim_end();
        let text = text.replace("{unit}", "agent-1");
        check("{}", &[(head, end)], &text);
    }

    #[test]
    fn a_batch_of_a_size_that_no_call_can_have_is_no_harm() {
        let done = Outcome::Done { text: "found".into() };
        let children = [child("a", Some((u32::MAX, u32::MAX)), done)];
        let place = tempfile::tempdir().unwrap();
        let spill = Spill { directory: place.path().to_owned() };
        let output = output("", &started(&children), &spill);
        assert!(output.text.starts_with("100000 tasks, cancelled as a whole"), "{}", output.text);
    }
}
