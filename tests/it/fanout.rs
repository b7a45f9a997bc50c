//! Batches on paused time: the cap, the queue, ends, cancels, nesting.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tine::event::{Event, EventKind, Outcome, UnitId, UnitState};
use tine::run::Signal;

use crate::support::inside::{Setup, Story};

fn task(description: &str) -> Value {
    json!({"description": description, "prompt": "do it", "subagent_type": "general-purpose"})
}

fn batch(tasks: Vec<Value>) -> Value {
    json!({"name": "Agent", "arguments": {"tasks": tasks}})
}

/// A main conversation that makes these calls at once and then ends.
fn main_calls(calls: Vec<Value>) -> Value {
    json!([{"calls": calls}, {"text": "all done"}])
}

fn names(count: usize) -> Vec<Value> {
    (0..count).map(|index| task(&format!("slot {index}"))).collect()
}

/// What must hold for every run, however it went.
#[track_caller]
pub(crate) fn check_invariants(story: &Story) {
    let mut queued: HashMap<UnitId, usize> = HashMap::new();
    let mut ended: HashMap<UnitId, usize> = HashMap::new();
    let mut calls: HashMap<&str, usize> = HashMap::new();
    let mut outputs: HashMap<&str, usize> = HashMap::new();
    for (number, event) in (1..).zip(&story.events) {
        assert_eq!(event.seq.0, number, "events have their numbers without gaps");
        assert!(!ended.contains_key(&event.unit), "a unit that has ended speaks: {event:?}");
        match &event.kind {
            EventKind::UnitQueued(_) => *queued.entry(event.unit).or_default() += 1,
            EventKind::UnitEnded(_) => *ended.entry(event.unit).or_default() += 1,
            EventKind::Replied(replied) => {
                replied
                    .reply
                    .calls
                    .iter()
                    .for_each(|call| *calls.entry(&call.id.0).or_default() += 1);
            }
            EventKind::ToolFinished { call, .. } => *outputs.entry(&call.0).or_default() += 1,
            _ => {}
        }
    }
    assert_eq!(ended, queued, "each unit has exactly one end");
    assert_eq!(outputs, calls, "each call has exactly one output");
    let is_start = |event: &&Event| matches!(event.kind, EventKind::InvocationStarted { .. });
    let starts = story.events.iter().filter(is_start).count();
    let results = story.events.iter().filter(|event| is_result(event)).count();
    assert_eq!(results, starts, "each invocation has exactly one end");
    let is_last = |event: &Event| is_result(event) || matches!(event.kind, EventKind::Left);
    assert!(story.events.last().is_some_and(is_last), "something follows the end");
}

fn is_result(event: &Event) -> bool {
    matches!(event.kind, EventKind::InvocationEnded(_))
}

#[tokio::test(start_paused = true)]
async fn twelve_slots_at_cap_eight_run_in_order_and_refill_as_slots_free_up() {
    let mut units =
        json!({"main": main_calls(vec![batch(names(12))]), "*": [{"text": "ok", "delay_ms": 100}]});
    // The first slot is quick, so the ninth starts before any of the others end.
    units["slot 0"] = json!([{"text": "ok", "delay_ms": 10}]);
    let story = Setup::new(json!({ "units": units })).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Completed; 12]);
    assert_eq!(story.most_running(), 8);
    assert_eq!(story.took, Duration::from_millis(200));
    let started: Vec<UnitId> = story
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::UnitStarted))
        .map(|event| event.unit)
        .collect();
    assert_eq!(started, (1..=12).map(UnitId).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn results_come_in_slot_order_and_ends_in_time_order() {
    let units = json!({
        "main": main_calls(vec![batch(names(3))]),
        "slot 0": [{"text": "first", "delay_ms": 300}],
        "slot 1": [{"text": "second", "delay_ms": 100}],
        "slot 2": [{"text": "third", "delay_ms": 200}],
    });
    let story = Setup::new(json!({ "units": units })).run().await;
    check_invariants(&story);
    let order: Vec<u32> = story.ends().iter().map(|(unit, _)| unit.0).collect();
    assert_eq!(order, [2, 3, 1]);
    assert_eq!(
        story.outputs(UnitId::MAIN),
        ["## Task 1: slot 0 (general-purpose)\n\nfirst\n\n---\n\n\
          ## Task 2: slot 1 (general-purpose)\n\nsecond\n\n---\n\n\
          ## Task 3: slot 2 (general-purpose)\n\nthird"]
    );
}

#[tokio::test(start_paused = true)]
async fn one_slots_failure_is_its_own_and_is_told_with_its_error_and_partial_text() {
    let mut tasks = names(5);
    tasks[3]["timeout_s"] = json!(5);
    tasks[4]["max_turns"] = json!(2);
    let todo = json!({"name": "TodoWrite", "arguments": {"todos": []}});
    let units = json!({
        "main": main_calls(vec![batch(tasks)]),
        "slot 0": [{"text": "fine"}],
        "slot 1": [{"text": "half a", "fault": {"error": {"status": 503, "message": "overloaded"}}}],
        "slot 2": [{"fault": "panic"}],
        "slot 3": [{"text": "so far", "fault": "hang"}],
        "slot 4": [{"text": "going", "calls": [todo], "repeat": true}],
    });
    let story = Setup::new(json!({ "units": units })).run().await;
    check_invariants(&story);
    use UnitState::{Completed, Failed};
    assert_eq!(story.states(), [Completed, Failed, Failed, Failed, Failed]);
    let output = story.outputs(UnitId::MAIN)[0];
    let sections: Vec<&str> = output.split("\n\n---\n\n").collect();
    assert_eq!(sections[0], "## Task 1: slot 0 (general-purpose)\n\nfine");
    assert!(sections[1].contains("overloaded") && sections[1].ends_with("half a"), "{output}");
    assert!(sections[2].contains("[failed: panicked: "), "{output}");
    assert_eq!(
        sections[3],
        "## Task 4: slot 3 (general-purpose)\n\n[failed: ran past its time limit of 5 s]\
         \n\nPartial result:\n\nso far"
    );
    assert_eq!(
        sections[4],
        "## Task 5: slot 4 (general-purpose)\n\n[failed: reached its limit of 2 turns (`max_turns`)]\
         \n\nPartial result:\n\ngoing"
    );
    assert_eq!(story.end.outcome, Outcome::Done { text: "all done".into() });
}

#[tokio::test(start_paused = true)]
async fn an_unknown_model_fails_one_slot_before_it_asks_anything() {
    let mut tasks = names(2);
    tasks[0]["model"] = json!("none-such");
    let units = json!({"main": main_calls(vec![batch(tasks)]), "*": [{"text": "ok"}]});
    let story = Setup::new(json!({ "units": units })).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Failed, UnitState::Completed]);
    assert!(story.outputs(UnitId::MAIN)[0].contains("model `none-such` is not configured"));
}

#[tokio::test(start_paused = true)]
async fn nested_batches_do_not_deadlock_even_with_one_permit() {
    let units = json!({
        "main": main_calls(vec![batch(names(3))]),
        "*": [{"calls": [batch(vec![task("leaf"), task("leaf")])]}, {"text": "inner done"}],
        "leaf": [{"text": "leaf", "delay_ms": 10}],
    });
    let story = Setup::new(json!({ "units": units })).cap(1).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Completed; 9]);
    assert_eq!(story.took, Duration::from_millis(60));
}

#[tokio::test(start_paused = true)]
async fn several_agent_calls_of_one_turn_share_the_pool_side_by_side() {
    let calls = vec![batch(names(2)), batch(names(2)), batch(names(2))];
    let units = json!({"main": main_calls(calls), "*": [{"text": "ok", "delay_ms": 100}]});
    let story = Setup::new(json!({ "units": units })).cap(4).run().await;
    check_invariants(&story);
    assert_eq!(story.most_running(), 4);
    assert_eq!(story.took, Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn units_nest_no_deeper_than_the_limit_and_are_told_so() {
    let units = json!({
        "main": main_calls(vec![batch(vec![task("outer")])]),
        "outer": [{"calls": [batch(vec![task("inner")])]}, {"text": "outer"}],
        "inner": [{"calls": [batch(vec![task("never")])]}, {"text": "inner"}],
    });
    let story = Setup::new(json!({ "units": units })).depth(2).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Completed; 2]);
    assert_eq!(
        story.outputs(UnitId(2)),
        ["Tool \"Agent\" not found. Available tools: Read, Write, Edit, ApplyPatch, Bash, \
          Glob, Grep, TodoWrite, Skill, AskUserQuestion, WebFetch"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_cancels_what_runs_and_never_starts_what_waits() {
    let units = json!({
        "main": main_calls(vec![batch(names(12))]),
        "*": [{"text": "part", "fault": "hang"}],
    });
    let story = Setup::new(json!({ "units": units }))
        .signal(Duration::from_millis(50), Signal::Interrupt)
        .run()
        .await;
    check_invariants(&story);
    let mut expected = vec![UnitState::Cancelled; 8];
    expected.extend([UnitState::Skipped; 4]);
    assert_eq!(story.states(), expected);
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
    assert_eq!(story.took, Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn at_whatever_moment_a_cancel_comes_the_log_is_whole() {
    // Slots that read, nest, wait and answer at different times, so that the
    // cancel meets every kind of wait.
    let read = json!({"name": "Read", "arguments": {"file_path": "none"}});
    let units = json!({
        "main": main_calls(vec![batch(names(6)), batch(vec![task("nested")])]),
        "nested": [{"calls": [batch(names(2))], "delay_ms": 7}, {"text": "n", "delay_ms": 7}],
        "*": [
            {"calls": [read], "delay_ms": 5, "text": "abc", "chunk": 1, "piece_delay_ms": 3},
            {"text": "ok", "delay_ms": 11},
        ],
    });
    for after in 0..72 {
        let signal = if after % 2 == 0 { Signal::Interrupt } else { Signal::Terminate };
        let story = Setup::new(json!({ "units": units }))
            .cap(2)
            .signal(Duration::from_millis(after), signal)
            .run()
            .await;
        check_invariants(&story);
        assert!(story.most_running() <= 2, "after {after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_hangs_after_a_cancel_is_given_up_and_the_result_still_comes() {
    // A tool that cannot be cancelled quickly is bounded by the run's grace.
    let units = json!({"main": [{"fault": "hang"}]});
    let story = Setup::new(json!({ "units": units }))
        .signal(Duration::from_millis(10), Signal::Interrupt)
        .signal(Duration::from_millis(10), Signal::Interrupt)
        .run()
        .await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
}

#[tokio::test(start_paused = true)]
async fn a_thousand_slots_all_end_once_and_the_parents_text_stays_bounded() {
    let units = json!({
        "main": main_calls(vec![batch(names(1_000))]),
        "*": [{"text": "x".repeat(2_000), "delay_ms": 1}],
    });
    let story = Setup::new(json!({ "units": units })).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), vec![UnitState::Completed; 1_000]);
    assert!(story.outputs(UnitId::MAIN)[0].len() <= tine::tool::AGENT_OUTPUT_CAP);
    assert_eq!(story.took, Duration::from_millis(125));
}
