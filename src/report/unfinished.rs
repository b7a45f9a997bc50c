//! What an invocation without an end has come to: a fold over events.
//!
//! A process that was killed writes no end. What its units finished, what was
//! cut off and what never began is told from the events alone, in the same
//! words wherever a session is looked at or gone on with.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::event::{Event, EventKind, Outcome, UnitHead, UnitId};
use crate::message::CallId;
use crate::tool_name::may_wait_for_agents;

use super::words;

/// What was done and what was not when a log ends in the middle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unfinished {
    /// Units that ended well.
    pub completed: u64,
    /// Units that ended in an error.
    pub failed: u64,
    /// Units that were cancelled while they ran.
    pub cancelled: u64,
    /// Units that had started and have no end of their own, in the order of
    /// their numbers.
    pub cut_off: Vec<NamedUnit>,
    /// Units that were declared and never started, in the order of their
    /// numbers.
    pub never_started: Vec<NamedUnit>,
    /// Units that were lost with their workers and have not started again, in
    /// the order of their numbers.
    pub lost: Vec<NamedUnit>,
    /// Calls that began and have no output, in the order they began: what they
    /// did is unknown. Calls that wait for units of their own are not among
    /// them.
    pub open_calls: Vec<OpenCall>,
}

/// A unit and what people call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedUnit {
    /// The unit.
    pub unit: UnitId,
    /// Its name; safe for a terminal and bounded.
    pub name: String,
}

/// A call that has no output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub call: CallId,
    /// Whose it is.
    pub unit: NamedUnit,
    /// The tool's own name; may be anything.
    pub tool: Arc<str>,
    /// What it is about; may be anything.
    pub subject: Arc<str>,
}

/// Why a log ends in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// Its process is gone.
    Gone,
    /// Its process still writes.
    AtWork,
}

/// Returns what the last invocation of a log has come to; `None` if it has its
/// end and so have all units.
pub fn unfinished(events: impl Iterator<Item = impl Borrow<Event>>) -> Option<Unfinished> {
    let mut progress = Progress::default();
    for event in events {
        progress.take(event.borrow());
    }
    progress.unfinished()
}

/// Returns what to say of it: a line about the units, and one about calls whose
/// effects are unknown, if there are any.
#[must_use]
pub fn unfinished_lines(unfinished: &Unfinished, writer: Writer) -> Vec<String> {
    let (state, started, waiting, main) = match writer {
        Writer::Gone => ("interrupted", "cut off", "never started", "was cut off"),
        Writer::AtWork => ("running", "at work", "waiting", "is at work"),
    };
    let counts = [
        (unfinished.completed, "done"),
        (unfinished.failed, "failed"),
        (unfinished.cancelled, "cancelled"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let groups = [
        (&unfinished.cut_off, started),
        (&unfinished.never_started, waiting),
        (&unfinished.lost, "lost with a worker"),
    ];
    let groups = groups.into_iter().filter(|(units, _)| !units.is_empty());
    let parts: Vec<String> = counts
        .map(|(count, word)| format!("{count} {word}"))
        .chain(groups.map(|(units, word)| {
            let names = words::named(units.iter().map(|unit| unit.name.clone()));
            format!("{} {word} ({names})", units.len())
        }))
        .collect();
    let what = match parts.is_empty() {
        true => format!("the main conversation {main}"),
        false => parts.join(", "),
    };
    let calls = (writer == Writer::Gone && !unfinished.open_calls.is_empty()).then(|| {
        let calls = words::named(unfinished.open_calls.iter().map(|open| {
            format!("{} ({})", words::call(&open.tool, &open.subject), open.unit.name)
        }));
        format!("cut off in the middle, so what they did is unknown: {calls}")
    });
    std::iter::once(format!("{state}: {what}")).chain(calls).collect()
}

/// The fold behind [`unfinished`], for whoever reads the events for something
/// else as well. It keeps what is open and sums of the rest.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether an invocation has begun that has no end.
    is_open: bool,
    /// Units without an end.
    open: BTreeMap<UnitId, Open>,
    /// Those of this invocation that ended before they started.
    skipped: Vec<Ended>,
    /// Those that ended with their process, as was found later.
    interrupted: Vec<Ended>,
    open_calls: Vec<OpenCall>,
    completed: u64,
    failed: u64,
    cancelled: u64,
}

#[derive(Debug)]
struct Ended {
    unit: NamedUnit,
    parent: UnitId,
}

#[derive(Debug)]
struct Open {
    name: String,
    parent: UnitId,
    standing: Standing,
    /// Whether it does more than to hold the branch of steps.
    is_agent: bool,
}

/// How far a unit has come that has no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waits,
    Lost,
    Started,
}

impl Progress {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        match &event.kind {
            EventKind::InvocationStarted { .. } => self.begin(),
            EventKind::UnitQueued(head) => self.queued(event.unit, head),
            EventKind::UnitStarted => self.stands(event.unit, Standing::Started),
            EventKind::Lost { .. } => {
                self.stands(event.unit, Standing::Lost);
                self.forget_below(event.unit);
            }
            EventKind::ToolStarted { call, tool, subject, confinement: _ }
                if !may_wait_for_agents(tool) =>
            {
                let unit = self.named(event.unit);
                let (call, tool, subject) = (call.clone(), tool.clone(), subject.clone());
                self.open_calls.push(OpenCall { call, unit, tool, subject });
            }
            EventKind::ToolFinished { call, .. } => {
                let is_it = |open: &OpenCall| open.unit.unit == event.unit && open.call == *call;
                if let Some(place) = self.open_calls.iter().position(is_it) {
                    self.open_calls.remove(place);
                }
            }
            EventKind::UnitEnded(end) => self.ended(event.unit, &end.outcome),
            EventKind::InvocationEnded(_) => self.is_open = false,
            EventKind::SessionOpened(_)
            | EventKind::Prompted(_)
            | EventKind::Notified { .. }
            | EventKind::Compacted(_)
            | EventKind::TurnStarted { .. }
            | EventKind::PrefixShared(_)
            | EventKind::Throttled(_)
            | EventKind::Admitted { waited_ms: _ }
            | EventKind::RequestFailed(_)
            | EventKind::Replied(_)
            | EventKind::ToolStarted { .. }
            | EventKind::FileChanged(_)
            | EventKind::Worktree(_)
            | EventKind::HookRan(_)
            | EventKind::Denied { .. }
            | EventKind::Asked { .. }
            | EventKind::Answered { .. }
            | EventKind::UserWrote { .. }
            | EventKind::UserTookBack
            | EventKind::SetAside { .. }
            | EventKind::Rewound { .. }
            | EventKind::Walked(_)
            | EventKind::Chosen(_)
            | EventKind::Offered(_)
            | EventKind::Left
            | EventKind::Joined { .. }
            | EventKind::Notice { .. } => {}
        }
    }

    /// Returns what the events so far have come to, as [`unfinished`] does.
    #[must_use]
    pub fn unfinished(&self) -> Option<Unfinished> {
        if !self.is_open && self.open.is_empty() {
            return None;
        }
        let units = |standing: Standing| {
            let agents = self.open.iter().filter(|(_, open)| open.is_agent);
            let open = agents.filter(move |(_, open)| open.standing == standing);
            open.map(|(&unit, open)| NamedUnit { unit, name: open.name.clone() })
        };
        let with = |standing: Standing, ended: &[Ended]| {
            let ended = ended.iter().map(|ended| ended.unit.clone());
            let mut all: Vec<NamedUnit> = units(standing).chain(ended).collect();
            all.sort_by_key(|named| named.unit);
            all
        };
        Some(Unfinished {
            completed: self.completed,
            failed: self.failed,
            cancelled: self.cancelled,
            cut_off: with(Standing::Started, &self.interrupted),
            never_started: with(Standing::Waits, &self.skipped),
            lost: with(Standing::Lost, &[]),
            open_calls: self.open_calls.clone(),
        })
    }

    fn begin(&mut self) {
        // If the one before came to its end, what is open goes on in the same
        // process. Otherwise that process is gone and this is another.
        let before = std::mem::take(self);
        if !before.is_open {
            (self.open, self.open_calls) = (before.open, before.open_calls);
        }
        self.is_open = true;
    }

    fn queued(&mut self, unit: UnitId, head: &UnitHead) {
        let (name, parent) = (words::unit_name(unit, head), head.parent);
        let (standing, is_agent) = (Standing::Waits, head.is_agent());
        self.open.insert(unit, Open { name, parent, standing, is_agent });
    }

    fn stands(&mut self, unit: UnitId, standing: Standing) {
        if let Some(open) = self.open.get_mut(&unit) {
            open.standing = standing;
        }
    }

    /// What a unit had started that was lost was cut off, and is owed no more.
    fn forget_below(&mut self, unit: UnitId) {
        let ended = || self.skipped.iter().chain(&self.interrupted);
        let mut ended: Vec<(UnitId, UnitId)> =
            ended().map(|ended| (ended.unit.unit, ended.parent)).collect();
        // Whoever starts a unit has the smaller name.
        ended.sort_unstable();
        let mut below = BTreeSet::from([unit]);
        for (ended, parent) in ended {
            if below.contains(&parent) {
                below.insert(ended);
            }
        }
        self.skipped.retain(|ended| !below.contains(&ended.unit.unit));
        self.interrupted.retain(|ended| !below.contains(&ended.unit.unit));
    }

    fn ended(&mut self, unit: UnitId, outcome: &Outcome) {
        let named = self.named(unit);
        let open = self.open.remove(&unit);
        let parent = open.as_ref().map_or(UnitId::MAIN, |open| open.parent);
        let ended = Ended { unit: named, parent };
        self.open_calls.retain(|open| open.unit.unit != unit);
        if open.is_some_and(|open| !open.is_agent) {
            return;
        }
        match outcome {
            Outcome::Done { text: _ } => self.completed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Cancelled { ran: true } => self.cancelled += 1,
            Outcome::Cancelled { ran: false } => self.skipped.push(ended),
            Outcome::Interrupted => self.interrupted.push(ended),
        }
    }

    fn named(&self, unit: UnitId) -> NamedUnit {
        let name = self.open.get(&unit).map_or_else(|| unit.to_string(), |open| open.name.clone());
        NamedUnit { unit, name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Origin;
    use crate::report::story::{Story, cancelled, done, failed, skipped};

    #[track_caller]
    fn check(story: &Story, gone: &[&str], at_work: &str) {
        let unfinished = unfinished(story.events().iter()).expect("it has no end");
        assert_eq!(unfinished_lines(&unfinished, Writer::Gone), gone);
        assert_eq!(unfinished_lines(&unfinished, Writer::AtWork), [at_work]);
    }

    #[test]
    fn every_unit_is_done_cut_off_or_never_started() {
        let mut story = Story::new();
        story.invocation("go").call(0, "c", "Agent", "6 tasks");
        story.batch("c", &["a", "b", "security", "d", "e", "f"]);
        for unit in 1..=4 {
            story.start(unit);
        }
        story.end(1, done("x")).end(2, failed("x")).end(4, cancelled()).end(5, skipped());
        story.call(3, "w", "Bash", "make deploy").call(3, "r", "Read", "a.rs");
        story.output(3, "r", "Read", "x");
        check(
            &story,
            &[
                "interrupted: 1 done, 1 failed, 1 cancelled, 1 cut off (security), \
                 2 never started (e, f)",
                "cut off in the middle, so what they did is unknown: Bash make deploy (security)",
            ],
            "running: 1 done, 1 failed, 1 cancelled, 1 at work (security), 2 waiting (e, f)",
        );
    }

    #[test]
    fn a_log_whose_invocation_ended_has_nothing_unfinished() {
        assert_eq!(unfinished(Story::batch_of_three().events().iter()), None);
        assert_eq!(unfinished(Story::new().events().iter()), None);
    }

    #[test]
    fn main_alone_is_cut_off_too() {
        let mut story = Story::new();
        story.invocation("go").turn(0, 1);
        check(
            &story,
            &["interrupted: the main conversation was cut off"],
            "running: the main conversation is at work",
        );
        story.call(0, "w", "Bash", "make\u{1b}[2J");
        check(
            &story,
            &[
                "interrupted: the main conversation was cut off",
                "cut off in the middle, so what they did is unknown: Bash make\\u{1b}[2J (main)",
            ],
            "running: the main conversation is at work",
        );
    }

    #[test]
    fn only_the_last_invocation_counts() {
        let mut story = Story::new();
        story.invocation("one").batch("c", &["a", "b"]).start(1).end(1, done("x")).start(2);
        story.call(2, "w", "Bash", "make").invocation("two").batch("d", &["c"]).start(3);
        check(&story, &["interrupted: 1 cut off (c)"], "running: 1 at work (c)");
        story.end(3, done("x")).over(done("x"), "x");
        assert_eq!(unfinished(story.events().iter()), None);
    }

    #[test]
    fn a_unit_that_outlives_its_invocation_is_not_forgotten() {
        let mut story = Story::new();
        story.invocation("one").queue("long", "c", None).start(1).over(done("x"), "x");
        check(&story, &["interrupted: 1 cut off (long)"], "running: 1 at work (long)");
        story.invocation("two").over(done("x"), "x");
        check(&story, &["interrupted: 1 cut off (long)"], "running: 1 at work (long)");
    }

    #[test]
    fn what_was_found_to_be_cut_off_is() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a", "b", "c"]).start(1).start(2).start(3);
        story.end(2, Outcome::Interrupted);
        check(&story, &["interrupted: 3 cut off (a, b, c)"], "running: 3 at work (a, b, c)");
    }

    #[test]
    fn what_only_holds_the_branch_of_steps_is_no_agent() {
        let mut story = Story::angles();
        story.steps(1, Origin::Prompt, &["more[0]", "more[1]"]);
        check(
            &story,
            &["interrupted: 1 failed, 1 cut off (correctness[0]), \
               2 never started (more[0], more[1])"],
            "running: 1 failed, 1 at work (correctness[0]), 2 waiting (more[0], more[1])",
        );
    }

    #[test]
    fn many_names_are_cut_and_counted() {
        let mut story = Story::new();
        let names: Vec<String> = (1..=10_000).map(|number| format!("s{number}")).collect();
        story.invocation("go").batch("c", &names.iter().map(|name| &**name).collect::<Vec<_>>());
        check(
            &story,
            &["interrupted: 10000 never started (s1, s2, s3, s4, s5, s6, s7, s8 and 9992 more)"],
            "running: 10000 waiting (s1, s2, s3, s4, s5, s6, s7, s8 and 9992 more)",
        );
    }

    #[test]
    fn a_unit_that_was_lost_waits_again_and_what_it_had_started_is_owed_no_more() {
        let mut story = Story::new();
        story.invocation("go").batch("c", &["a"]).start(1).steps(1, Origin::Prompt, &["x", "y"]);
        story.start(2).end(2, Outcome::Interrupted).end(3, skipped()).lose(1, 1);
        check(
            &story,
            &["interrupted: 1 lost with a worker (a)"],
            "running: 1 lost with a worker (a)",
        );
        story.start(1);
        check(&story, &["interrupted: 1 cut off (a)"], "running: 1 at work (a)");
    }
}
