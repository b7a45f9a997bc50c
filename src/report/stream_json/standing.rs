//! How a session stands, for a program that drives it: whether anything goes on,
//! and whether it waits for an answer.

use crate::event::{Event, EventKind};
use crate::report::units::Units;

/// How a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Nothing is left to be done.
    #[default]
    Idle,
    /// Something goes on, or is about to.
    Running,
    /// It does, and a question has no answer.
    RequiresAction,
}

impl State {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
        }
    }
}

/// A fold over events.
#[derive(Debug, Default)]
pub(super) struct Standing {
    is_at_work: bool,
    /// The client ended the last turn: it is told no news by itself.
    was_cancelled: bool,
    state: State,
}

impl Standing {
    /// Takes note of an event that the units know of already. Returns how the
    /// session stands now, if that is not as before.
    pub(super) fn take(&mut self, event: &Event, units: &Units) -> Option<State> {
        if let EventKind::InvocationStarted { .. } = &event.kind {
            self.is_at_work = true;
        }
        if let EventKind::InvocationEnded(end) = &event.kind {
            (self.is_at_work, self.was_cancelled) = (false, end.cancel.is_some());
        }
        // What has ended beside main is told in a turn of its own.
        let is_owed = units.untold() > 0 && !self.was_cancelled;
        let state = match self.is_at_work || units.beside() > 0 || is_owed {
            true if units.is_asking() => State::RequiresAction,
            true => State::Running,
            false => State::Idle,
        };
        let before = std::mem::replace(&mut self.state, state);
        (before != state).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{UnitId, Verdict};
    use crate::report::story::{Story, done, question};

    #[test]
    fn it_runs_until_what_works_beside_main_is_told_and_waits_for_answers_meanwhile() {
        let told = EventKind::Notified { children: vec![UnitId(1)], text: "x".into(), wrote: 0 };
        let mut story = Story::new();
        story.invocation("go").batch("b", &["look"]).start(1);
        story.push(0, EventKind::SetAside { units: vec![UnitId(1)] }).over(done("later"), "later");
        story.asks(1, 9, question("ls")).answered(1, 9, (question("ls"), Verdict::Yes));
        story.end(1, done("found")).invocation("").push(0, told).over(done("now"), "now");
        let (mut units, mut standing) = (Units::default(), Standing::default());
        let states: Vec<_> = story
            .events()
            .iter()
            .filter_map(|event| {
                units.take(event);
                standing.take(event, &units)
            })
            .collect();
        let expected = [State::Running, State::RequiresAction, State::Running, State::Idle];
        assert_eq!(states, expected);
    }
}
