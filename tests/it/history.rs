//! The prompt of every unit is a fold over its events: shown on the bytes that
//! a server got.

use std::sync::Arc;

use serde_json::{Value, json};
use tine::agent::CALLS_CAP;
use tine::event::EventKind;
use tine::tool::OUTPUT_CAP;

use crate::support::bodies::{self, model_on};
use crate::support::inside::Setup;
use crate::support::server::{Reaction, RecordedRequest, Server};

/// Main starts two agents; each agent searches and reads at once, then answers.
fn react(request: &RecordedRequest) -> Reaction {
    let body = request.json();
    let messages = body["messages"].as_array().expect("a request has messages");
    let is_main = messages[0]["content"].as_str().is_some_and(|text| text.starts_with("be good"));
    let answered = messages.iter().any(|message| message["role"] == "tool");
    match (is_main, answered) {
        (_, true) => Reaction::text_reply("all done"),
        (true, false) => {
            let task = |name: &str| json!({"description": name, "prompt": name, "subagent_type": "explore"});
            let tasks = json!({"tasks": [task("left"), task("right")]});
            Reaction::call_reply(&[("Agent", tasks)])
        }
        (false, false) => Reaction::call_reply(&[
            ("Glob", json!({"pattern": "*"})),
            ("Read", json!({"file_path": "not there"})),
        ]),
    }
}

#[tokio::test]
async fn every_request_of_every_unit_is_rendered_from_the_events_before_it() {
    let server = Server::start(react);
    let model = model_on(&server);
    let story = Setup::on(Arc::clone(&model) as _).run().await;
    let bodies = bodies::prove(&story.events, &server.finish(), &model);
    let turns: Vec<usize> = bodies.values().map(Vec::len).collect();
    assert_eq!(turns, [2, 2, 2], "main and two agents, before and after their calls");
}

/// Runs one answer with these calls and returns the output of each.
async fn outputs_of(calls: Value) -> Vec<(String, bool, usize)> {
    let script = json!({"units": {"main": [{"calls": calls}, {"text": "done"}]}});
    let story = Setup::new(script).run().await;
    story
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolFinished { output, tool, .. } => {
                let length = tool.chars().count().max(output.text.chars().count());
                Some((output.text.clone(), output.is_error, length))
            }
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn calls_past_the_cap_of_an_answer_get_an_output_without_running() {
    let calls = vec![json!({"name": "Glob", "arguments": {"pattern": "*.none"}}); CALLS_CAP + 2];
    let outputs = outputs_of(calls.into()).await;
    assert_eq!(outputs.len(), CALLS_CAP + 2);
    assert!(outputs[..CALLS_CAP].iter().all(|(_, is_error, _)| !is_error));
    for (text, is_error, _) in &outputs[CALLS_CAP..] {
        assert!(*is_error && text.starts_with("Not run: at most 256 calls"), "{text}");
    }
}

#[tokio::test]
async fn no_output_of_a_call_is_longer_than_its_cap() {
    let long = "x".repeat(200_000);
    let outputs = outputs_of(json!([
        {"name": long, "arguments": {}},
        {"name": "Skill", "arguments": {"skill": long}},
        {"name": "Read", "arguments": {"file_path": long}},
        {"name": "Glob", "arguments": {"pattern": long}},
    ]))
    .await;
    assert_eq!(outputs.len(), 4);
    for (text, _, length) in outputs {
        assert!(length <= OUTPUT_CAP, "{length}: {}", &text[..100]);
    }
}
