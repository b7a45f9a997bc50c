//! Requests that fail: made again, made of another model, made shorter, or
//! given up with what there is.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tine::event::{AfterFailure, EventKind, FailureKind, Outcome, RequestFailed, UnitId};
use tine::model::Model;
use tine::model::retry::Policy;
use tine::model::scripted::Scripted;
use tine::run::Signal;

use crate::fanout::check_invariants;
use crate::support::inside::{Setup, Story};

fn setup(script: Value) -> Setup {
    Setup { retries: Policy::default(), ..Setup::new(script) }
}

fn scripted(name: &str, script: &Value) -> Arc<dyn Model> {
    Arc::new(Scripted::parse(name, "script", &script.to_string()).expect("the script is valid"))
}

fn error(status: u16) -> Value {
    json!({ "error": { "status": status, "message": "not now" } })
}

fn failures(story: &Story) -> Vec<&RequestFailed> {
    let failed = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::RequestFailed(failed) => Some(&**failed),
        _ => None,
    });
    failed.collect()
}

fn done(text: &str) -> Outcome {
    Outcome::Done { text: text.into() }
}

/// Returns the models that answered, in order.
fn answered(story: &Story) -> Vec<&str> {
    let replied = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::Replied(replied) => Some(&*replied.model),
        _ => None,
    });
    replied.collect()
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_asked_again_and_nothing_has_run_twice() {
    for fault in [error(429), error(500), error(529), error(408), json!("cut")] {
        let story = setup(json!({"units": {"main": [
            {"text": "half an", "calls": [{"name": "Glob", "arguments": {"pattern": "*"}}],
             "faults": [fault.clone(), fault.clone()]},
            {"text": "whole"},
        ]}}))
        .run()
        .await;
        assert_eq!(story.end.outcome, done("whole"), "{fault}");
        let attempts = failures(&story).iter().map(|failed| failed.attempt).collect::<Vec<_>>();
        assert_eq!(attempts, [1, 2], "{fault}");
        let is_start = |kind: &EventKind| matches!(kind, EventKind::ToolStarted { .. });
        let started = story.events.iter().filter(|event| is_start(&event.kind)).count();
        assert_eq!(started, 1, "{fault}");
        check_invariants(&story);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_not_asked_again_before_the_time_it_gave() {
    let fault = json!({ "error": { "status": 503, "message": "busy", "retry_after_ms": 90_000 } });
    let story =
        setup(json!({"units": {"main": [{"text": "there", "faults": [fault]}]}})).run().await;
    assert_eq!(story.end.outcome, done("there"));
    let AfterFailure::Retry { delay_ms, most: 10 } = failures(&story)[0].next else { panic!() };
    assert!((90_000..90_500).contains(&delay_ms), "{delay_ms}");
    assert!(story.took >= Duration::from_millis(delay_ms));
}

#[tokio::test(start_paused = true)]
async fn what_will_never_work_is_asked_once_and_a_key_twice() {
    for (status, attempts, kind) in [
        (400, 1, FailureKind::Request),
        (404, 1, FailureKind::Request),
        (413, 1, FailureKind::Overflow),
        (403, 1, FailureKind::Authentication),
        (401, 2, FailureKind::Authentication),
    ] {
        let faults = vec![error(status); 20];
        let story = setup(json!({"units": {"main": [{"faults": faults}]}})).run().await;
        let Outcome::Failed(failure) = &story.end.outcome else { panic!("{:?}", story.end) };
        assert_eq!((failures(&story).len(), failure.kind), (attempts, kind), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_is_tried_the_turn_ends_with_the_text_there_was() {
    let story = setup(json!({"units": {"main": [
        {"text": "half an answer", "faults": vec![json!("cut"); 11]},
    ]}}))
    .run()
    .await;
    let message = "the answer broke off before its end (after 10 retries)";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Provider, message));
    assert_eq!(&*story.end.text, "half an answer");
    let last = failures(&story).last().map(|failed| failed.next.clone());
    assert_eq!(last, Some(AfterFailure::Nothing));
    // Also what an earlier attempt had written, if the last one wrote nothing.
    let story = setup(json!({"units": {"main": [
        {"text": "half", "faults": ["cut"], "fault": {"error": {"status": 503, "message": "no"}}},
    ]}}))
    .run()
    .await;
    assert_eq!(&*story.end.text, "half");
}

/// Main and its forks are overloaded and go on with the second model; a slot of
/// its own begins with the first.
#[tokio::test(start_paused = true)]
async fn an_overloaded_model_is_left_for_the_next_one_and_forks_go_with_their_parent() {
    let tasks = json!([
        {"description": "fork", "prompt": "look", "subagent_type": "fork"},
        {"description": "own", "prompt": "look", "subagent_type": "explore"},
    ]);
    let first = json!({"units": {
        "main": [{"faults": vec![error(529); 3]}],
        "own": [{"text": "own"}],
    }});
    let second = json!({"units": {
        "main": [{"calls": [{"name": "Agent", "arguments": {"tasks": tasks}}]}, {"text": "done"}],
        "fork": [{"text": "forked"}],
    }});
    let setup = Setup { fallbacks: vec![scripted("second", &second)], cap: 1, ..setup(first) };
    let story = setup.run().await;
    assert_eq!(story.end.outcome, done("done"));
    assert_eq!(answered(&story), ["second", "second", "scripted", "second"]);
    let next: Vec<_> = failures(&story).iter().map(|failed| &failed.next).collect();
    let [AfterFailure::Retry { .. }, AfterFailure::Retry { .. }, fallback] = &next[..] else {
        panic!("{next:?}")
    };
    assert_eq!(**fallback, AfterFailure::Fallback { model: "second".into() });
    check_invariants(&story);
}

#[tokio::test(start_paused = true)]
async fn the_last_fallback_is_tried_out_as_the_only_model_is() {
    let fails = json!({"units": {"*": [{"faults": vec![error(503); 30]}]}});
    let setup = Setup { fallbacks: vec![scripted("second", &fails)], ..setup(fails.clone()) };
    let story = setup.run().await;
    let message = "HTTP 503: not now (after 10 retries)";
    assert_eq!(story.end.outcome, Outcome::failed(FailureKind::Provider, message));
    let of = |name: &str| failures(&story).iter().filter(|failed| &*failed.model == name).count();
    assert_eq!((of("scripted"), of("second")), (3, 11));
}

/// A conversation that a provider calls too long is summed up without its
/// largest output, and goes on; also in a slot.
#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_too_long_is_compacted_and_goes_on() {
    let long = "x".repeat(9_000);
    let write = json!({"name": "Write", "arguments": {"file_path": "long.txt", "content": long}});
    let read = json!({"name": "Read", "arguments": {"file_path": "long.txt"}});
    let turns = json!([
        {"calls": [write]},
        {"calls": [read]},
        {"text": "went on", "faults": ["too_long"],
         "expect": {"contains": ["the summary"], "lacks": ["xxxx"]}},
    ]);
    let summary = json!([{"text": "the summary", "expect": {
        "contains": ["bytes stood here"], "lacks": ["\txxxx"]}}]);
    for unit in ["main", "slot"] {
        let task =
            json!({"description": "slot", "prompt": "go", "subagent_type": "general-purpose"});
        let call = json!({"name": "Agent", "arguments": {"tasks": [task]}});
        let mut units = json!({ unit: turns, format!("{unit}:compact"): summary });
        if unit == "slot" {
            units["main"] = json!([{"calls": [call]}, {"text": "went on"}]);
        }
        let setup = setup(json!({ "units": units })).mode(tine::guard::Mode::BypassPermissions);
        let story = setup.run().await;
        assert_eq!(story.end.outcome, done("went on"), "{unit}");
        let nexts: Vec<_> = failures(&story).iter().map(|failed| failed.next.clone()).collect();
        assert_eq!(nexts, [AfterFailure::Compact], "{unit}");
        check_invariants(&story);
    }
}

#[tokio::test(start_paused = true)]
async fn what_stays_too_long_is_an_error_of_its_own_with_the_partial_result() {
    let story = setup(json!({"units": {
        "main": [
            {"text": "so far", "calls": [{"name": "Glob", "arguments": {"pattern": "*"}}]},
            {"faults": ["too_long", "too_long"]},
        ],
        "main:compact": [{"text": "the summary"}],
        "*": [{"fault": "too_long", "repeat": true}],
    }}))
    .run()
    .await;
    let Outcome::Failed(failure) = &story.end.outcome else { panic!("{:?}", story.end) };
    assert_eq!((failure.kind, &*story.end.text), (FailureKind::Overflow, "so far"));
    let compactions =
        story.events.iter().filter(|event| matches!(event.kind, EventKind::Compacted(_))).count();
    assert_eq!(compactions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_back_off_and_a_stalled_stream_at_once() {
    let waits = json!({ "error": { "status": 503, "message": "no", "retry_after_ms": 60_000 } });
    for fault in [waits, json!("hang")] {
        let script = json!({"units": {"main": [{"text": "half", "faults": [fault]}]}});
        let moment = Duration::from_secs(7);
        let story = setup(script).signal(moment, Signal::Interrupt).run().await;
        assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true }, "{fault}");
        assert!(story.took <= moment + Duration::from_millis(100), "{fault}: {:?}", story.took);
        assert_eq!(&*story.end.text, "half", "{fault}");
    }
}

/// The tokens of a request that broke off, and of a summary that nobody can
/// use, are in every sum.
#[tokio::test(start_paused = true)]
async fn what_was_paid_for_in_vain_is_counted() {
    let usage = json!({"input": 100, "output": 10, "cost_usd": 0.5});
    let story = setup(json!({
        "context_window": 200,
        "units": {
            "main": [
                {"usage": {"input": 180, "output": 5}, "calls": [{"name": "Glob", "arguments": {"pattern": "*"}}]},
                {"text": "done", "usage": usage},
            ],
            "main:compact": [{"text": " ", "usage": usage}],
        },
    }))
    .run()
    .await;
    assert_eq!(story.end.outcome, done("done"));
    let [failed] = failures(&story)[..] else { panic!("{:?}", failures(&story)) };
    assert_eq!((&*failed.message, failed.usage.total()), ("the summary is empty", 110));
    assert_eq!(failed.usage.cost.usd.dollars(), 0.5);
    assert!(story.events.iter().all(|event| event.unit == UnitId::MAIN));
}
