//! Where a turn of the main conversation starts: the only places at which its
//! history may be cut.

use std::borrow::Borrow;

use super::{Event, EventKind, UnitId};

/// Moves a cut forward to the next user message of the main conversation, or to
/// the end if there is none. A cut that stands in front of one stays.
///
/// What is behind the returned index is kept whole: its turns are not cut open,
/// and no call loses its output. `events` may hold those of other units, too; a
/// cut is never put in front of them for their own sake. A cut beyond the end is
/// one at the end.
#[must_use]
pub fn snap_to_turn_start<E: Borrow<Event>>(events: &[E], cut: usize) -> usize {
    let cut = cut.min(events.len());
    let later = &events[cut..];
    let starts_turn = |event: &E| is_turn_start(event.borrow());
    cut + later.iter().position(starts_turn).unwrap_or(later.len())
}

fn is_turn_start(event: &Event) -> bool {
    event.unit == UnitId::MAIN && matches!(event.kind, EventKind::Prompted { text: _ })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::branch::Branch;
    use crate::event::{Invocation, Replied, Seq, UnixMillis};
    use crate::message::{CallId, Output, Reply, StopReason, Usage};

    /// Makes an event of a word such as `u` (a user message), `a@sub` (an
    /// answer in the unit `sub`) or `t` (a tool's output).
    fn event(word: &str) -> Event {
        let (kind, unit) = word.split_once('@').map_or((word, UnitId::MAIN), |(kind, unit)| {
            let units = ["sub", "p1", "p2"];
            let index = units.iter().position(|name| *name == unit).unwrap();
            (kind, UnitId(u32::try_from(index).unwrap() + 1))
        });
        let kind = match kind {
            "u" => EventKind::Prompted { text: "Go on.".into() },
            "a" => EventKind::Replied(Replied {
                reply: Arc::new(Reply::default()),
                model: "m".into(),
                usage: Usage::default(),
                stop: StopReason::EndTurn,
                took_ms: 1,
            }),
            "t" => EventKind::ToolFinished {
                call: CallId("c".into()),
                tool: "Read".into(),
                output: Arc::new(Output::error("gone")),
                took_ms: 1,
            },
            other => panic!("`{other}` is no event"),
        };
        Event {
            seq: Seq(1),
            at: UnixMillis(0),
            invocation: Invocation(1),
            unit,
            branch: Branch::root(),
            kind,
        }
    }

    fn events(words: &str) -> Vec<Event> {
        words.split_whitespace().map(event).collect()
    }

    #[test]
    fn every_row_of_the_fixture_gives_its_cut() {
        let fixtures: Value =
            serde_json::from_str(include_str!("../../tests/fixtures/fixtures.json")).unwrap();
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let rows = fixtures["snap_to_turn_start"].as_array().unwrap();
        assert_eq!(rows.len(), 16);
        for row in rows {
            let events = events(row["events"].as_str().unwrap());
            let cut = snap_to_turn_start(&events, number(&row["cut"]));
            assert_eq!(cut, number(&row["expect"]), "{row}");
        }
    }

    #[test]
    fn a_cut_beyond_the_end_is_one_at_the_end() {
        assert_eq!(snap_to_turn_start(&events("u a"), 7), 2);
    }

    #[test]
    fn outputs_stay_with_their_calls() {
        assert_eq!(snap_to_turn_start(&events("u a t a u a"), 2), 4);
    }

    #[test]
    fn events_may_be_borrowed() {
        let events = events("u u@sub a@sub a u");
        let of_main: Vec<&Event> =
            events.iter().filter(|event| event.unit == UnitId::MAIN).collect();
        assert_eq!(snap_to_turn_start(&of_main, 1), 2);
    }
}
