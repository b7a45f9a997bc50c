//! A unit's conversation, folded from all events of its session.
//!
//! A live unit folds its own events as they happen; this is the same fold over
//! a log, with what stands before the unit's own events: nothing, what it saw
//! of others, or another unit's conversation. So whatever was ever sent to a
//! model can be made again from the log alone.

use std::sync::Arc;

use super::History;
use crate::event::{Event, EventKind, Origin, UnitHead, UnitId};
use crate::message::{CallId, Head};
use crate::prompt::Context;
use crate::tool::ForkPoint;

/// Returns the conversation that `unit` had after the last of `events`, which
/// are those of its session from the first one on.
///
/// `head` is not in the log: it is the unit's own, or for a fork its parent's.
#[must_use]
pub fn render(events: &[Event], unit: UnitId, head: Arc<Head>) -> History {
    let mut history = beginning(events, unit, head);
    history.extend(in_force(events, unit).into_iter().map(|event| &event.kind));
    history
}

/// Returns the events of a unit's conversation without those that it has gone
/// back behind, and those of attempts at it that were lost. It does not go back
/// behind a summary.
fn in_force(events: &[Event], unit: UnitId) -> Vec<&Event> {
    let mut in_force: Vec<&Event> = Vec::new();
    for event in events.iter().filter(|event| event.unit == unit) {
        if let EventKind::Rewound { to } = event.kind {
            let stays =
                |event: &&Event| event.seq <= to || matches!(event.kind, EventKind::Compacted(_));
            let kept = in_force.iter().rposition(stays).map_or(0, |last| last + 1);
            in_force.truncate(kept);
        } else if is_loss(event) {
            in_force.clear();
        }
        in_force.push(event);
    }
    in_force
}

/// Tells whether a unit begins anew with an event.
fn is_loss(event: &Event) -> bool {
    matches!(event.kind, EventKind::Lost { worker: _, attempt: _ })
}

/// Returns what a conversation held before the unit's own events.
fn beginning(events: &[Event], unit: UnitId, head: Arc<Head>) -> History {
    let Some((before, declared)) = declaration(events, unit) else {
        return History::new(head);
    };
    match declared.origin {
        Origin::Prompt | Origin::Steps => History::new(head),
        // It asks nothing; whoever goes on from it goes on from that one.
        Origin::Reused(before_it) => render(before, before_it, head),
        Origin::Visible => seeing(events, unit, head),
        Origin::Fork => fork_base(before, declared, head),
        Origin::Continued(ended) => render(before, ended, head),
    }
}

/// Returns how a unit was declared, and all events before that; `None` for
/// main, which nobody declares.
fn declaration(events: &[Event], unit: UnitId) -> Option<(&[Event], &UnitHead)> {
    let mut own = events.iter().enumerate().filter(|(_, event)| event.unit == unit);
    own.find_map(|(place, event)| {
        let EventKind::UnitQueued(head) = &event.kind else { return None };
        Some((&events[..place], head))
    })
}

/// Returns a conversation that begins with what the unit saw of others when it
/// was prompted.
fn seeing(events: &[Event], unit: UnitId, head: Arc<Head>) -> History {
    let of_unit = |event: &Event| event.unit == unit;
    let begins = events.iter().rposition(|event| of_unit(event) && is_loss(event)).unwrap_or(0);
    let is_prompt = |event: &Event| of_unit(event) && matches!(event.kind, EventKind::Prompted(_));
    let Some(place) = events[begins..].iter().position(is_prompt) else {
        return History::new(head);
    };
    let place = begins + place;
    let prompt = &events[place];
    let mut context: Context = events[..place].iter().collect();
    History::seeing(head, &context.seen_by(unit, prompt.invocation, &prompt.branch.tokens))
}

/// Returns what a fork has of its parent's conversation: all up to the answer
/// that made the call, or all of it if there was no call.
fn fork_base(before: &[Event], declared: &UnitHead, head: Arc<Head>) -> History {
    let answer = declared.call.as_ref().and_then(|call| calling(before, declared.parent, call));
    let end = answer.map_or(before.len(), |answer| answer + 1);
    let parent = render(&before[..end], declared.parent, head);
    History::after(ForkPoint::base_of(parent.prefix()))
}

/// Returns where the answer stands that made a call.
fn calling(events: &[Event], unit: UnitId, call: &CallId) -> Option<usize> {
    events.iter().rposition(|event| {
        let EventKind::Replied(replied) = &event.kind else { return false };
        event.unit == unit && replied.reply.calls.iter().any(|made| made.id == *call)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Seq;
    use crate::event::testing::{Log, called, finished, prompted, queued, replied};
    use crate::message::{Message, Output};

    /// What a unit's conversation holds, a line for each message.
    fn lines(log: &Log, unit: u32) -> Vec<String> {
        let head = Arc::new(Head::new(String::new(), Vec::new()));
        let history = render(&log.events, UnitId(unit), head);
        let line = |message: &Message| match message {
            Message::User(prompt) => format!("user: {}", prompt.text),
            Message::Model(reply) => format!("model: {}", reply.text),
            Message::Output { call: _, output } => format!("output: {}", output.text),
        };
        history.prefix().messages().map(line).collect()
    }

    /// Main asks, and starts `child` with a call in its second turn.
    fn parent_of(child: EventKind) -> Log {
        let mut log = Log::default();
        log.put(0, "", prompted("go"))
            .put(0, "", called("I look.", &[("Read", "{}")]))
            .put(0, "", finished("Read", Output::ok("found")))
            .put(0, "", called("I fork.", &[("Agent", "{}")]))
            .put(1, "1", child);
        log
    }

    #[test]
    fn a_unit_with_a_prompt_of_its_own_has_its_own_events_only() {
        let mut log = parent_of(queued("child", 0, Origin::Prompt, Some("Agent")));
        log.put(1, "1", prompted("task")).put(1, "1", replied("done"));
        assert_eq!(lines(&log, 1), ["user: task", "model: done"]);
    }

    #[test]
    fn a_fork_that_a_call_made_begins_with_all_up_to_the_answer_with_the_call() {
        let mut log = parent_of(queued("child", 0, Origin::Fork, Some("Agent")));
        log.put(1, "1", prompted("directive")).put(0, "", finished("Agent", Output::ok("out")));
        assert_eq!(
            lines(&log, 1),
            [
                "user: go",
                "model: I look.",
                "output: found",
                "model: I fork.",
                "output: This call goes on in the conversation that you were forked from. Its \
                 result is not part of yours.",
                "user: directive"
            ]
        );
    }

    #[test]
    fn a_fork_that_the_user_made_begins_with_all_there_is() {
        let mut log = Log::default();
        log.put(0, "", prompted("go"))
            .put(0, "", replied("done"))
            .put(1, "1", queued("child", 0, Origin::Fork, None))
            .put(0, "", prompted("later"))
            .put(1, "1", prompted("directive"));
        assert_eq!(lines(&log, 1), ["user: go", "model: done", "user: directive"]);
    }

    #[test]
    fn what_main_has_gone_back_behind_is_not_sent_again() {
        let mut log = Log::default();
        log.put(0, "", prompted("go"))
            .put(0, "", replied("done"))
            .put(0, "", prompted("no"))
            .put(0, "", replied("wrong"))
            .put(0, "", EventKind::Rewound { to: Seq(2) })
            .put(0, "", prompted("better"));
        assert_eq!(lines(&log, 0), ["user: go", "model: done", "user: better"]);
    }

    #[test]
    fn a_unit_that_goes_on_from_another_has_all_of_it() {
        let mut log = parent_of(queued("first", 0, Origin::Prompt, Some("Agent")));
        log.put(1, "1", prompted("task"))
            .put(1, "1", replied("done"))
            .put(2, "2", queued("again", 0, Origin::Continued(UnitId(1)), None))
            .put(2, "2", prompted("and now?"));
        assert_eq!(lines(&log, 2), ["user: task", "model: done", "user: and now?"]);
    }

    #[test]
    fn a_unit_that_sees_others_begins_with_what_was_visible_when_it_was_prompted() {
        let mut log = Log::default();
        log.put(1, "1", queued("Alice", 0, Origin::Visible, None))
            .put(1, "1", replied("early"))
            .put(2, "1-2", queued("Bob", 0, Origin::Visible, None))
            .put(2, "1-2", prompted("task"))
            .put(1, "1", replied("late"))
            .put(2, "1-2", replied("done"));
        let [first, second] = <[_; 2]>::try_from(lines(&log, 2)).unwrap();
        assert!(first.contains("<said from=\"Alice\">\nearly\n</said>"), "{first}");
        assert!(first.ends_with("\n\nYour task:\n\ntask") && !first.contains("late"), "{first}");
        assert_eq!(second, "model: done");
        assert_eq!(lines(&log, 3), [""; 0], "a unit that is not in the log");
    }

    #[test]
    fn a_unit_that_was_lost_begins_anew() {
        let mut log = parent_of(queued("child", 0, Origin::Visible, Some("Agent")));
        let lost = || EventKind::Lost { worker: "w-7".into(), attempt: 1 };
        log.put(1, "1", prompted("look"))
            .put(1, "1", called("I see.", &[("Read", "{}")]))
            .put(1, "1", finished("Read", Output::error("lost with its worker")))
            .put(1, "1", lost());
        assert!(lines(&log, 1).is_empty());
        log.put(0, "", replied("meanwhile")).put(1, "1", prompted("look")).put(
            1,
            "1",
            replied("I see more."),
        );
        let lines = lines(&log, 1);
        let [first, second] = &lines[..] else { panic!("{lines:?}") };
        assert!(first.contains("meanwhile") && first.ends_with("look"), "{first}");
        assert!(!first.contains("I see."), "{first}");
        assert_eq!(second, "model: I see more.");
    }
}
