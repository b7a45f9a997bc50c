//! Signals: everything ends, nothing new begins, and the log stays whole.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::life::Life;
use crate::support::records::Records;
use crate::support::server::{Reaction, Server};
use crate::support::talk::{serve, serve_calls};
use crate::support::tine::Place;

fn tasks(count: u32, agent: &str) -> Value {
    let task = |number| {
        let name = format!("slot {number}");
        json!({ "description": name, "prompt": name, "subagent_type": agent })
    };
    json!({ "tasks": (1..=count).map(task).collect::<Vec<_>>() })
}

/// Twelve slots that never get an answer.
fn twelve_silent() -> Server {
    serve_calls(&[("Agent", tasks(12, "explore"))], |_| Reaction::Hang)
}

/// Runs them under a cap of eight, stops them when eight run, and returns what
/// was told.
fn stopped_by(signal: Signal, code: i32) -> Records {
    let (place, server) = (Place::new(), twelve_silent());
    let running = place.asking(&server, &["-o", "stream-json"]).hangups(true).start();
    server.wait_until_came(1 + 8);
    running.signal(signal);
    let records = running.wait().exits(code).records();
    assert_eq!(server.count(), 1 + 8, "a request came after the signal");
    records
}

#[test]
fn an_interrupt_ends_what_runs_and_never_starts_what_waits() {
    let records = stopped_by(Signal::SIGINT, 130);
    let mut ends: Vec<(Vec<&str>, bool)> = records
        .system("task_notification")
        .iter()
        .map(|end| {
            assert_eq!(end["status"], "stopped");
            let states = records.states(end["task_id"].as_str().unwrap());
            (states, end["reason"] == "never_started")
        })
        .collect();
    ends.sort();
    let never = (vec!["pending", "killed"], true);
    let stopped = (vec!["pending", "running", "killed"], false);
    assert_eq!(ends, [vec![never; 4], vec![stopped; 8]].concat());
    let result = records.result();
    assert_eq!(
        (&result["subtype"], &result["is_error"]),
        (&json!("error_during_execution"), &json!(true))
    );
    assert_eq!(result["errors"], json!(["interrupted"]));
    assert_eq!(records.outputs().len(), 1, "the batch has its one output");
}

#[test]
fn terminate_and_hangup_have_codes_of_their_own() {
    assert_eq!(stopped_by(Signal::SIGTERM, 143).result()["is_error"], true);
    assert_eq!(stopped_by(Signal::SIGHUP, 129).result()["is_error"], true);
}

/// `nohup` asks for hang-ups not to matter.
#[test]
fn a_hangup_that_is_ignored_ends_nothing() {
    let (place, server) = (Place::new(), twelve_silent());
    let running = place.asking(&server, &["-o", "stream-json"]).hangups(false).start();
    server.wait_until_came(1 + 8);
    running.signal(Signal::SIGHUP);
    running.signal(Signal::SIGINT);
    // Had the first one been heard, it would be the harsher reason, with 129.
    running.wait().exits(130);
}

#[test]
fn text_says_what_was_stopped() {
    let (place, server) = (Place::new(), twelve_silent());
    let running = place.asking(&server, &[]).start();
    server.wait_until_came(1 + 8);
    running.signal(Signal::SIGINT);
    let finished = running.wait().exits(130);
    assert_eq!(finished.stdout, "");
    let count = |end: &str| finished.stderr.lines().filter(|line| line.ends_with(end)).count();
    assert_eq!((count("] cancelled"), count("] never started")), (8, 4), "{}", finished.stderr);
    assert!(finished.stderr.ends_with("error: interrupted\n"), "{}", finished.stderr);
}

#[test]
fn what_was_said_by_then_is_the_answer_so_far() {
    let said = Reaction::reply(Some("One moment."), &[("Agent", tasks(1, "explore"))]);
    let server = serve(move |talk| match talk.task() {
        "go" => said.clone(),
        _ => Reaction::Hang,
    });
    let place = Place::new();
    let running = place.asking(&server, &["-o", "json"]).start();
    server.wait_until_came(2);
    running.signal(Signal::SIGINT);
    let result = running.wait().exits(130).result();
    assert_eq!(result["result"], "One moment.");
}

/// Has a child that ends when it is asked to, and one that has to be killed.
fn two_sleepers() -> String {
    Life::held_by("sleep 1000 & (trap '' TERM; sleep 1000) & wait")
}

#[test]
fn no_process_is_left() {
    let server = serve_calls(&[("Agent", tasks(1, "general-purpose"))], |_| {
        Reaction::call_reply(&[("Bash", json!({ "command": two_sleepers() }))])
    });
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let place = Place::new();
        let life = Life::new(&place);
        let running = place.asking(&server, &["--permission-mode", "bypassPermissions"]).start();
        let begun = life.begun();
        running.signal(signal);
        running.wait().exits(code);
        begun.ended();
    }
}

#[test]
fn every_call_has_its_output_in_the_log_also_one_that_never_ran() {
    let place = Place::new();
    let life = Life::new(&place);
    let server = serve_calls(
        &[
            ("Glob", json!({ "pattern": "*" })),
            ("Bash", json!({ "command": two_sleepers() })),
            ("Bash", json!({ "command": "echo never" })),
        ],
        |_| Reaction::Close,
    );
    let running = place.asking(&server, &["--permission-mode", "bypassPermissions"]).start();
    let begun = life.begun();
    running.signal(Signal::SIGINT);
    running.wait().exits(130);
    begun.ended();
    let log = place.log();
    let of = |kind: &str| -> Vec<Value> {
        log.iter().filter(|line| line["kind"] == kind).map(|line| line["body"].clone()).collect()
    };
    let calls: Vec<_> = of("tool_finished").iter().map(|body| body["call"].clone()).collect();
    assert_eq!(calls, ["call_a", "call_b", "call_c"]);
    let started: Vec<_> = of("tool_started").iter().map(|body| body["call"].clone()).collect();
    assert_eq!(started, ["call_a", "call_b"]);
    assert_eq!(of("invocation_ended").len(), 1);
    assert_eq!(log.last().map(|line| &line["kind"]), Some(&json!("invocation_ended")));
}

#[test]
fn a_second_interrupt_is_no_second_result() {
    let (place, server) = (Place::new(), twelve_silent());
    let running = place.asking(&server, &["-o", "stream-json"]).start();
    server.wait_until_came(1 + 8);
    for signal in [Signal::SIGINT, Signal::SIGINT, Signal::SIGTERM] {
        running.signal(signal);
    }
    let finished = running.wait();
    let code = finished.status.code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    assert_eq!(finished.records().system("task_notification").len(), 12);
}
