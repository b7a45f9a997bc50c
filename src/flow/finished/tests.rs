//! Sessions that hold what a walk need not ask again.

use super::*;
use crate::event::testing::{Log, ended, queued};
use crate::event::{FailureKind, InvocationEnd, StepDigest};

fn mark(key: &str, digest: u128) -> StepMark {
    StepMark { key: key.into(), digest: StepDigest(digest) }
}

fn step(name: &str, digest: u128, origin: Origin) -> EventKind {
    let EventKind::UnitQueued(head) = queued(name, 0, origin, None) else { unreachable!() };
    EventKind::UnitQueued(UnitHead { step: Some(mark(name, digest)), ..head })
}

fn walked(name: &str) -> EventKind {
    EventKind::Walked(Arc::new(FlowHead {
        name: name.into(),
        inputs: "{}".into(),
        steps: 1,
        goes_on: false,
    }))
}

fn done(text: &str) -> EventKind {
    ended(Outcome::Done { text: text.into() }, text)
}

/// The unit and the answer that a step of a flow is found with.
fn found(finished: &Finished, flow: &str, mark: &StepMark) -> Option<(u32, String)> {
    finished.find(flow, mark).map(|done| (done.unit.0, done.end.text.to_string()))
}

#[test]
fn a_step_is_found_by_its_flow_its_place_and_what_it_was_asked() {
    let mut log = Log { invocation: 1, ..Log::default() };
    log.put(0, "", walked("audit"))
        .put(1, "", step("a", 1, Origin::Visible))
        .put(2, "", step("b", 1, Origin::Visible))
        .put(3, "", step("c", 1, Origin::Visible))
        .put(1, "", done("said a"))
        .put(2, "", ended(Outcome::failed(FailureKind::Request, "no"), "half"));
    let finished: Finished = log.events.iter().collect();
    assert_eq!(found(&finished, "audit", &mark("a", 1)), Some((1, "said a".to_owned())));
    assert_eq!(found(&finished, "audit", &mark("a", 2)), None);
    assert_eq!(found(&finished, "other", &mark("a", 1)), None);
    assert_eq!(found(&finished, "audit", &mark("b", 1)), None);
    assert_eq!(found(&finished, "audit", &mark("c", 1)), None);
    assert!(finished.has_walked("audit") && !finished.has_walked("other"));
}

#[test]
fn a_failure_is_found_only_where_it_is_wanted_and_an_answer_before_it() {
    let no = || ended(Outcome::failed(FailureKind::Request, "no"), "half");
    let mut log = Log { invocation: 1, ..Log::default() };
    log.put(0, "", walked("audit"))
        .put(1, "", step("a", 1, Origin::Visible))
        .put(2, "", step("b", 1, Origin::Visible))
        .put(3, "", step("c", 1, Origin::Visible))
        .put(1, "", no())
        .put(2, "", no())
        .put(3, "", ended(Outcome::Cancelled { ran: true }, ""));
    log.invocation = 2;
    log.put(0, "", walked("audit")).put(4, "", step("b", 1, Origin::Visible)).put(
        4,
        "",
        done("said b"),
    );
    let finished: Finished = log.events.iter().collect();
    let units = |finished: &Finished| {
        ["a", "b", "c"].map(|key| finished.find("audit", &mark(key, 1)).map(|done| done.unit.0))
    };
    assert_eq!(units(&finished), [None, Some(4), None]);
    let finished = finished.with_failures();
    assert_eq!(units(&finished), [Some(1), Some(4), None]);
    assert_eq!(found(&finished, "audit", &mark("a", 2)), None);
}

#[test]
fn the_last_answer_counts_and_whoever_gave_it_first() {
    let mut log = Log { invocation: 1, ..Log::default() };
    log.put(0, "", walked("audit")).put(1, "", step("a", 1, Origin::Visible)).put(
        1,
        "",
        done("old"),
    );
    log.invocation = 2;
    log.put(0, "", walked("audit"))
        .put(2, "", step("a", 1, Origin::Reused(UnitId(1))))
        .put(2, "", done("old"))
        .put(3, "", step("b", 1, Origin::Visible))
        .put(3, "", done("new"));
    log.invocation = 3;
    // No flow is walked here, whatever the unit says.
    log.put(4, "", step("b", 1, Origin::Visible)).put(4, "", done("stray"));
    let finished: Finished = log.events.iter().collect();
    assert_eq!(found(&finished, "audit", &mark("a", 1)), Some((1, "old".to_owned())));
    assert_eq!(found(&finished, "audit", &mark("b", 1)), Some((3, "new".to_owned())));
}

fn over(outcome: Outcome) -> EventKind {
    let (text, unfinished) = (Arc::default(), Vec::new());
    EventKind::InvocationEnded(Arc::new(InvocationEnd { outcome, text, cancel: None, unfinished }))
}

#[test]
fn a_walk_that_came_to_its_end_is_over_and_one_that_was_cut_off_is_not() {
    let mut log = Log::default();
    let ends = [
        Outcome::Done { text: "all".into() },
        Outcome::Interrupted,
        Outcome::failed(FailureKind::Request, "no"),
        Outcome::failed(FailureKind::Unmet, "all was walked"),
    ];
    let mut finished = Finished::default();
    let mut found_after = Vec::new();
    for (number, end) in (1..).zip(ends) {
        log.invocation = number;
        let key = format!("step {number}");
        log.put(0, "", walked("audit"))
            .put(number, "", step(&key, 1, Origin::Visible))
            .put(number, "", done("said"))
            .put(0, "", over(end));
        for event in log.events.drain(..) {
            finished.take(&event);
            finished.forget_if_over(&event);
        }
        let steps = ["step 1", "step 2", "step 3"];
        let found = steps.map(|key| found(&finished, "audit", &mark(key, 1)).is_some());
        found_after.push((found, finished.has_walked("audit")));
    }
    let expected = [
        ([false; 3], false),
        ([false, true, false], true),
        ([false, true, true], true),
        ([false; 3], false),
    ];
    assert_eq!(found_after, expected);
}
