//! `--debug`: what it tells, where it takes its filter from, and that no key
//! is in it.

use serde_json::json;

use crate::support::server::{Reaction, Server};
use crate::support::talk::serve_calls;
use crate::support::tine::{KEY, Place};

/// A provider whose main starts an agent.
fn provider() -> Server {
    let task = json!({ "description": "d", "prompt": "look", "subagent_type": "explore" });
    serve_calls(&[("Agent", task)], |_| Reaction::text_reply("I looked."))
}

#[test]
fn what_happens_inside_is_told_without_keys_and_without_what_a_terminal_obeys() {
    let place = Place::new();
    let provider = Server::start(|_| {
        let evil = format!("no \u{1b}[2J {KEY}");
        Reaction::json(400, &json!({ "error": { "message": evil } }))
    });
    let flags = ["--debug=trace", "--debug-file", "debug.log"];
    place.asking(&provider, &flags).run();
    let log = place.read("debug.log").unwrap();
    for joint in [
        "invocation started",
        "turn started",
        "a request is sent",
        "request failed",
        "invocation ended",
    ] {
        assert!(log.contains(joint), "no `{joint}` in {log}");
    }
    assert!(!log.contains(KEY) && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn a_filter_says_what_is_told_and_one_that_is_none_is_refused() {
    let place = Place::new();
    let provider = provider();
    let ask = |filter: &str| place.asking(&provider, &[filter]).run().stderr;
    let events = ask("--debug=tine::event=debug");
    for joint in ["unit queued", "unit started", "call started", "call finished", "unit ended"] {
        assert!(events.contains(joint), "no `{joint}` in {events}");
    }
    assert!(!events.contains("a request is sent"), "{events}");
    assert!(!ask("--debug=off").contains("unit started"));
    let refused = place.asking(&provider, &["--debug=tine=loud"]).run().exits(2);
    assert!(refused.stderr.contains("`--debug=tine=loud` is no filter"), "{refused:?}");
}
