//! Forks: the bytes they share with their parents, what they may not do, how
//! they come back, and how their parents tend them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tine::agent::Opening;
use tine::event::{EventKind, FailureKind, Origin, Outcome, UnitHead, UnitId, UnitState};
use tine::guard::Mode;
use tine::model::check;
use tine::run::Signal;
use tine::tool::Task;

use crate::fanout::check_invariants;
use crate::support::bodies::{model_on, prove};
use crate::support::inside::{Setup, Story};
use crate::support::server::{Reaction, RecordedRequest, Server};
use crate::support::talk::{Talk, serve};
use crate::support::tine::Place;

/// A fork, as a call of the Agent tool.
fn fork(directive: &str) -> Value {
    json!({ "description": directive, "prompt": directive })
}

/// A fork as a slot of a batch.
fn fork_slot(directive: &str) -> Value {
    json!({ "description": directive, "prompt": directive, "subagent_type": "fork" })
}

/// Makes these calls in main's first turn. Forks answer that they did what
/// they were told; main says `done` to everything else.
fn serve_forks(calls: &[(&str, Value)]) -> Server {
    let calling = Reaction::reply(Some("Let me see."), calls);
    serve(move |talk| match talk.directive() {
        Some(directive) => Reaction::text_reply(&format!("I did {directive}.")),
        None if talk.turn() == 1 => calling.clone(),
        None => Reaction::text_reply("done"),
    })
}

fn of_forks(requests: &[RecordedRequest]) -> Vec<&RecordedRequest> {
    let mut forks: Vec<_> =
        requests.iter().filter(|request| Talk::of(request).directive().is_some()).collect();
    forks.sort_by_key(|request| Talk::of(request).directive().map(str::to_owned));
    forks
}

fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Checks what must hold for all forks of one call of main.
#[track_caller]
fn check_on_the_wire(requests: &[RecordedRequest], directives: &[&str]) {
    let parent = &requests[0];
    let forks = of_forks(requests);
    let told: Vec<String> =
        forks.iter().filter_map(|fork| Talk::of(fork).directive().map(str::to_owned)).collect();
    assert_eq!(told, directives);
    for fork in &forks {
        check::check_continues(&parent.body, &fork.body).expect("a fork goes on from its parent");
        let (ours, theirs) = (fork.json(), parent.json());
        for part in ["model", "tools"] {
            assert_eq!(ours[part].to_string(), theirs[part].to_string(), "{part}");
        }
        assert_eq!(ours["messages"][0].to_string(), theirs["messages"][0].to_string());
    }
    for (index, fork) in forks.iter().enumerate() {
        let text = String::from_utf8_lossy(&fork.body);
        for (other, sibling) in forks.iter().enumerate().filter(|(other, _)| *other != index) {
            let directive = directives[other];
            assert!(!text.contains(directive), "a fork was sent `{directive}`");
            // Equal up to the directive: what differs is behind its heading.
            let same = &fork.body[..shared(&fork.body, &sibling.body)];
            assert!(same.windows(14).any(|part| part == b"Directive:\\n\\n"));
        }
    }
}

#[test]
fn forks_begin_with_their_parents_bytes_and_hold_no_siblings_directive() {
    let directives = ["mend alpha", "mend beta", "mend gamma"];
    let mut calls: Vec<_> = directives.map(|directive| ("Agent", fork(directive))).into();
    calls.push(("Read", json!({ "file_path": "secret-plan.txt" })));
    let server = serve_forks(&calls);
    let place = Place::new();
    let finished = place.ask(&server, &["-o", "stream-json"]).exits(0);
    assert_eq!(finished.records().result()["result"], "done");
    let requests = server.finish();
    check_on_the_wire(&requests, &directives);
    for fork in of_forks(&requests) {
        let body = fork.json();
        let messages = body["messages"].as_array().unwrap();
        let calls = messages[2]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 4);
        assert!(calls.iter().all(|call| call["function"]["arguments"] == "{}"), "{calls:?}");
        let placeholders: Vec<_> = messages[3..7].iter().map(|output| &output["content"]).collect();
        assert!(placeholders.iter().all(|text| *text == placeholders[0]), "{placeholders:?}");
        assert_eq!(messages.len(), 8);
        assert!(!String::from_utf8_lossy(&fork.body).contains("secret-plan"));
    }
}

#[test]
fn forks_in_a_batch_share_the_bytes_too_and_their_answers_come_in_order() {
    let tasks = json!({ "tasks": [fork_slot("mend alpha"), fork_slot("mend beta")] });
    let server = serve_forks(&[("Agent", tasks)]);
    Place::new().ask(&server, &[]).exits(0);
    let requests = server.finish();
    check_on_the_wire(&requests, &["mend alpha", "mend beta"]);
    let last = Talk::of(requests.last().unwrap());
    assert_eq!(
        last.outputs(),
        ["## Task 1: mend alpha (fork)\n\nI did mend alpha.\n\n---\n\n## Task 2: mend beta \
          (fork)\n\nI did mend beta."]
    );
}

#[test]
fn a_typed_fork_of_an_empty_conversation_works_and_main_is_told_of_its_end() {
    let server = serve_forks(&[]);
    let place = Place::new();
    let told = place.tine(["-p", "/fork mend alpha", "-m", "m", "-o", "stream-json"]);
    let finished = told.server(&server).run().exits(0);
    let requests = server.finish();
    let [fork, main] = &requests[..] else { panic!("one request each: {}", requests.len()) };
    let (fork_body, main_body) = (fork.json(), main.json());
    assert_eq!(fork_body["messages"].as_array().unwrap().len(), 2);
    assert_eq!(fork_body["messages"][0], main_body["messages"][0]);
    assert_eq!(fork_body["tools"].to_string(), main_body["tools"].to_string());
    let first = fork_body["messages"][1]["content"].as_str().unwrap();
    assert!(first.starts_with("<environment>\nWorking directory: "), "{first}");
    let main = Talk::of(main);
    assert_eq!(main.task(), "/fork mend alpha");
    assert!(main.last_prompt().contains("I did mend alpha."), "{}", main.last_prompt());
    let records = finished.records();
    let [started] = &records.system("task_started")[..] else { panic!("one unit") };
    assert_eq!(started["is_backgrounded"], true);
    assert_eq!(started["tool_use_id"], Value::Null);
}

#[test]
fn a_typed_fork_without_a_directive_is_refused_with_an_example() {
    let place = Place::new();
    let model = place.script("s.json", &json!({ "units": {} }));
    place.tine(["-p", "/fork  ", "-m", &model]).run().refuses(
        2,
        "error: `/fork` needs to know what the fork shall do\n\
         hint: for example: `/fork look for other callers of this function`\n",
    );
}

#[test]
fn a_fork_reports_the_bytes_it_shared_and_the_tokens_that_came_from_the_cache() {
    let server = serve(|talk| match (talk.directive(), talk.turn()) {
        (Some(_), _) => {
            let usage = json!({ "prompt_tokens": 900, "completion_tokens": 5,
                "prompt_tokens_details": { "cached_tokens": 800 } });
            Reaction::stream(crate::support::server::events([
                &json!({ "choices": [{ "index": 0, "delta": { "content": "ok" },
                    "finish_reason": "stop" }], "usage": usage }),
            ]))
        }
        (None, 1) => Reaction::call_reply(&[("Agent", fork("mend alpha"))]),
        (None, _) => Reaction::text_reply("done"),
    });
    let finished = Place::new().ask(&server, &["-o", "stream-json"]).exits(0);
    let requests = server.finish();
    let fork = of_forks(&requests)[0];
    let records = finished.records();
    let [told] = &records.system("task_notification")[..] else { panic!("one end") };
    let expected = json!({
        "shared_bytes": shared(&requests[0].body, &fork.body),
        "total_bytes": fork.body.len(),
        "cached_tokens": 800,
    });
    assert_eq!(told["prefix_share"], expected);
    let summary = told["summary"].as_str().unwrap();
    assert!(summary.contains("shared") && summary.contains("800 tokens from the cache"));
    let main = Talk::of(requests.last().unwrap());
    assert!(main.last_prompt().contains("800 tokens came from the cache"));
}

#[test]
fn what_is_not_done_when_the_wait_is_over_is_named_and_no_success_is_reported() {
    let server = serve(|talk| match (talk.directive(), talk.turn()) {
        (Some(_), _) => Reaction::Hang,
        (None, 1) => Reaction::call_reply(&[("Agent", fork("mend alpha"))]),
        (None, _) => Reaction::text_reply("I am done."),
    });
    let flags = ["-o", "json", "--config", "background.wait_s=0"];
    let result = Place::new().ask(&server, &flags).exits(1).result();
    assert_eq!(result["is_error"], true);
    assert_eq!(result["result"], "I am done.");
    assert_eq!(result["unfinished"], json!(["agent-1"]));
    let error = result["errors"][0].as_str().unwrap();
    assert!(error.contains("had not ended after 0 s (`background.wait_s`)"), "{error}");
}

#[tokio::test]
async fn every_request_of_a_run_with_forks_is_what_the_log_says() {
    let message = json!({ "to": "agent-1", "message": "and beta?" });
    let slots = json!({ "tasks": [fork_slot("mend gamma"), fork_slot("mend delta")] });
    let server = serve(move |talk| match (talk.directive(), talk.turn()) {
        (None, 1) => Reaction::reply(Some("Let me see."), &[("Glob", json!({ "pattern": "*" }))]),
        (None, 2) => Reaction::call_reply(&[
            ("Agent", fork("mend alpha")),
            ("Agent", slots.clone()),
            ("TaskList", json!({})),
        ]),
        (None, 3) => Reaction::call_reply(&[("TaskWait", json!({ "task_ids": ["agent-1"] }))]),
        (None, 4) => Reaction::call_reply(&[("SendMessage", message.clone())]),
        (None, _) => Reaction::text_reply("done"),
        // A fork's turns count from its parent's.
        (Some("mend alpha"), 3) => Reaction::call_reply(&[("Read", json!({ "file_path": "x" }))]),
        (Some(directive), _) => Reaction::text_reply(&format!("I did {directive}.")),
    });
    let model = model_on(&server);
    let story = Setup::on(Arc::clone(&model) as _).run().await;
    check_invariants(&story);
    let origins: Vec<Origin> = (1..=4).map(|unit| head(&story, unit).origin).collect();
    assert_eq!(origins, [Origin::Fork, Origin::Fork, Origin::Fork, Origin::Continued(UnitId(1))]);
    prove(&story.events, &server.finish(), &model);
}

// --- on the scripted model, which checks that a fork begins with the bytes of
// --- one of its parent's requests

fn agent(arguments: Value) -> Value {
    json!({ "name": "Agent", "arguments": arguments })
}

fn tool(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

async fn play(units: Value) -> Story {
    let story = Setup::new(json!({ "units": units })).run().await;
    check_invariants(&story);
    story
}

fn answer(story: &Story) -> &str {
    match &story.end.outcome {
        Outcome::Done { text } => text,
        other => panic!("{other:?}"),
    }
}

/// What was said to main about its background units, in order.
fn news(story: &Story) -> Vec<&str> {
    let news = |event: &'_ tine::event::Event| event.unit == UnitId::MAIN;
    let told = story.events.iter().filter(|event| news(event));
    told.filter_map(|event| match &event.kind {
        EventKind::Notified { text, .. } => Some(&**text),
        _ => None,
    })
    .collect()
}

fn head(story: &Story, unit: u32) -> &UnitHead {
    let mut heads = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::UnitQueued(head) if event.unit == UnitId(unit) => Some(head),
        _ => None,
    });
    heads.next().expect("the unit was declared")
}

#[tokio::test(start_paused = true)]
async fn a_fork_runs_while_main_goes_on_and_joins_when_its_end_is_told() {
    let story = play(json!({
        "main": [
            {"text": "off you go", "calls": [agent(fork("look"))]},
            {"calls": [tool("Glob", json!({"pattern": "*"}))], "delay_ms": 50},
            {"text": "waiting", "expect": {"lacks": ["found it"]}},
            {"text": "all done", "expect": {"contains": ["found it", "No agent is out any more."]}},
        ],
        "look": [{"text": "found it", "delay_ms": 300}],
    }))
    .await;
    assert_eq!(answer(&story), "all done");
    assert_eq!(story.took, Duration::from_millis(300));
    assert_eq!((head(&story, 1).origin, head(&story, 1).is_background), (Origin::Fork, true));
    let told =
        story.events.iter().position(|event| matches!(event.kind, EventKind::Notified { .. }));
    let told = told.expect("main was told");
    for (place, event) in story.events.iter().enumerate() {
        let joined = event.branch.tokens.to_string();
        // The join is the event before.
        let expected = if event.unit != UnitId::MAIN || place + 1 >= told { "1" } else { "" };
        assert_eq!(joined, expected, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_end_is_told_once_with_how_many_are_still_out() {
    let story = play(json!({
        "main": [
            {"calls": [agent(fork("a")), agent(fork("b")), agent(fork("c"))]},
            {"text": "waiting", "repeat": true},
        ],
        "a": [{"text": "A", "delay_ms": 300}],
        "b": [{"fault": {"error": {"status": 500, "message": "down"}}, "delay_ms": 100}],
        "c": [{"fault": "panic", "delay_ms": 200}],
    }))
    .await;
    let told = news(&story);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("down") && told[0].contains("2 agents are still out"), "{}", told[0]);
    assert!(told[1].contains("panicked") && told[1].contains("1 agent is still out"));
    assert!(told[2].contains("\n\nA\n") && told[2].contains("No agent is out any more."));
    assert_eq!(story.events.last().unwrap().branch.tokens.to_string(), "1-3");
}

#[tokio::test(start_paused = true)]
async fn a_fork_starts_no_agents_in_any_shape_and_is_told_to_do_the_work_itself() {
    let typed = json!({"description": "x", "prompt": "x", "subagent_type": "explore"});
    let calls = vec![
        agent(fork("again")),
        agent(typed.clone()),
        agent(json!({"tasks": [typed, fork_slot("again")]})),
    ];
    let story = play(json!({
        "main": [
            {"calls": [agent(json!({"tasks": [fork_slot("slot"), {"description": "typed",
                "prompt": "p", "subagent_type": "general-purpose"}]})), agent(fork("beside"))]},
            {"text": "ok", "repeat": true},
        ],
        "slot": [{"calls": calls}, {"text": "did it myself"}],
        "beside": [{"calls": calls}, {"text": "did it myself"}],
        // A fork inside a slot is a fork as well.
        "typed": [{"calls": [agent(fork("inner"))]}, {"text": "t", "repeat": true}],
        "inner": [{"calls": calls}, {"text": "did it myself"}],
    }))
    .await;
    let forks: Vec<UnitId> =
        (1..=4).map(UnitId).filter(|unit| head(&story, unit.0).origin == Origin::Fork).collect();
    assert_eq!(forks.len(), 3);
    for unit in forks {
        let outputs = story.outputs(unit);
        assert_eq!(outputs.len(), 3);
        assert!(outputs.iter().all(|text| text.starts_with("You are a fork")), "{outputs:?}");
    }
    assert_eq!(story.states(), [UnitState::Completed; 4]);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_types_the_tag_is_no_fork() {
    let units = json!({
        "main": [{"calls": [agent(fork("look"))]}, {"text": "ok", "repeat": true}],
        "look": [{"text": "found it"}],
    });
    let typed = "<fork-boilerplate>\nyou are a fork\n</fork-boilerplate>";
    let setup = Setup::new(json!({ "units": units }));
    let story = setup.opens(Opening::Prompt(typed.into())).run().await;
    assert_eq!(story.states(), [UnitState::Completed]);
    assert!(story.outputs(UnitId::MAIN)[0].starts_with("agent-1 runs in the background"));
}

#[tokio::test(start_paused = true)]
async fn of_several_forks_the_first_goes_ahead_and_the_others_wait_for_its_first_piece() {
    let slots: Vec<Value> = ["a", "b", "c"].map(fork_slot).into();
    let units = json!({
        "main": [{"calls": [agent(json!({ "tasks": slots }))]}, {"text": "ok"}],
        "*": [{"text": "ab", "delay_ms": 400, "chunk": 1, "piece_delay_ms": 300}],
    });
    // Each takes 400 ms to its first piece and 300 ms to its second.
    for (prime, took) in [(0, 700), (2_000, 1_100), (100, 800)] {
        let setup = Setup::new(json!({ "units": units }));
        let story = Setup { prime: Duration::from_millis(prime), ..setup }.run().await;
        check_invariants(&story);
        assert_eq!(story.took, Duration::from_millis(took), "bound of {prime} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn background_units_are_listed_read_waited_for_and_stopped() {
    let story = play(json!({
        "main": [
            {"calls": [agent(fork("quick")), agent(fork("slow")), agent(fork("endless"))]},
            {"calls": [tool("TaskOutput", json!({"task_id": "agent-2", "block": false}))],
             "delay_ms": 60},
            {"calls": [tool("TaskWait", json!({"task_ids": ["agent-1", "agent-2"], "until": "any"}))]},
            {"calls": [tool("TaskWait", json!({"timeout_s": 1}))]},
            {"calls": [tool("TaskStop", json!({"task_id": "agent-3"}))]},
            {"calls": [tool("TaskList", json!({}))]},
            {"text": "ok", "repeat": true},
        ],
        "quick": [{"text": "Q", "delay_ms": 100}],
        "slow": [{"text": "SLOW", "chunk": 1, "piece_delay_ms": 50}],
        "endless": [{"text": "part", "fault": "hang"}],
    }))
    .await;
    let outputs = story.outputs(UnitId::MAIN);
    let line = |unit: u32, name: &str, state: &str| {
        format!("agent-{unit} (fork) \"{name}\": {state}, 1 turn, 0 calls")
    };
    assert_eq!(outputs[3], format!("{}\n\nSL", line(2, "slow", "running")));
    assert_eq!(
        outputs[4],
        format!(
            "{}\n\nQ\n\nStill out:\n{}",
            line(1, "quick", "completed"),
            line(2, "slow", "running")
        )
    );
    assert_eq!(
        outputs[5],
        format!(
            "{}\n\nSLOW\n\nStill out:\n{}",
            line(2, "slow", "completed"),
            line(3, "endless", "running")
        )
    );
    assert!(outputs[6].starts_with("agent-3 is being stopped"), "{}", outputs[6]);
    assert!(outputs[7].contains(&line(1, "quick", "completed")), "{}", outputs[7]);
    // What a tool gave is not told again; what was stopped is.
    let told = news(&story).concat();
    assert!(!told.contains("agent-1") && !told.contains("agent-2"), "{told}");
    assert!(told.contains("agent-3") && told.contains("stopped while it ran"), "{told}");
    assert_eq!(story.end.unfinished, []);
}

#[tokio::test(start_paused = true)]
async fn a_message_reaches_a_running_unit_at_its_next_turn_and_continues_one_that_has_ended() {
    let message = |text: &str| tool("SendMessage", json!({"to": "agent-1", "message": text}));
    let story = play(json!({
        "main": [
            {"calls": [agent(fork("look"))]},
            {"calls": [message("look at b.rs too")], "delay_ms": 10},
            {"calls": [tool("TaskWait", json!({}))]},
            {"calls": [message("and now c.rs")]},
            {"text": "ok", "repeat": true},
        ],
        "look": [
            {"calls": [tool("Glob", json!({"pattern": "*"}))], "delay_ms": 50},
            {"text": "a and b", "expect": {"contains": ["look at b.rs too"]}},
        ],
        "agent:fork": [],
    }))
    .await;
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!(outputs[1], "agent-1 gets the message at its next turn.");
    assert!(
        outputs[3].starts_with("agent-1 had ended (completed); agent-2 continues"),
        "{}",
        outputs[3]
    );
    assert_eq!(head(&story, 2).origin, Origin::Continued(UnitId(1)));
    let asked = story.events.iter().filter(|event| event.unit == UnitId(2));
    let prompts: Vec<&str> = asked
        .filter_map(|event| match &event.kind {
            EventKind::Prompted(prompt) => Some(&*prompt.text),
            _ => None,
        })
        .collect();
    assert!(prompts[0].ends_with("<message>\nand now c.rs\n</message>"), "{prompts:?}");
}

#[tokio::test(start_paused = true)]
async fn tending_a_unit_that_is_not_ones_own_is_told_with_those_that_are() {
    let story = play(json!({
        "main": [
            {"calls": [tool("TaskOutput", json!({"task_id": "agent-9"}))]},
            {"calls": [agent(fork("look"))]},
            {"calls": [
                tool("TaskStop", json!({"task_id": "agent-9"})),
                tool("TaskOutput", json!({"task_id": "nobody"})),
                tool("TaskWait", json!({"task_ids": []})),
                tool("TaskWait", json!({"until": "some"})),
                tool("TaskWait", json!({"timeout_s": -1})),
                tool("SendMessage", json!({"to": "agent-1", "message": " "})),
            ]},
            {"text": "ok", "repeat": true},
        ],
        "look": [{"text": "x", "delay_ms": 500}],
    }))
    .await;
    let outputs = story.outputs(UnitId::MAIN);
    assert_eq!(outputs[0], "Agent \"agent-9\" not found. You have no agents in the background.");
    let mut refusals = outputs[2..].to_vec();
    refusals.sort_unstable();
    let mut expected = [
        "Agent \"agent-9\" not found. Yours in the background: agent-1",
        "Parameter \"task_id\" must be an agent's id such as \"agent-3\".",
        "Parameter \"task_ids\" must be an array of 1 to 20 ids of agents.",
        "Parameter \"until\" must be \"all\" or \"any\".",
        "Parameter \"timeout_s\" must be a number of seconds, 0 or more.",
        "Parameter \"message\" must be a non-empty string.",
    ];
    expected.sort_unstable();
    assert_eq!(refusals, expected);
}

#[tokio::test(start_paused = true)]
async fn any_agent_can_run_in_the_background_alone_or_as_a_task_among_others() {
    let typed = |name: &str, background: bool| {
        json!({"description": name, "prompt": name, "subagent_type": "explore",
            "run_in_background": background})
    };
    let story = play(json!({
        "main": [
            {"calls": [agent(typed("alone", true)), agent(json!({
                "tasks": [typed("beside", true), typed("waited for", false)]}))]},
            {"text": "ok", "repeat": true},
        ],
        "alone": [{"text": "A", "delay_ms": 900}],
        "beside": [{"text": "B", "delay_ms": 500}],
        "waited for": [{"text": "W", "delay_ms": 100}],
    }))
    .await;
    let outputs = story.outputs(UnitId::MAIN);
    assert!(outputs[0].starts_with("agent-1 runs in the background"), "{}", outputs[0]);
    assert!(outputs[1].contains("(explore)\n\nagent-2 runs in the background"), "{}", outputs[1]);
    assert!(outputs[1].ends_with("## Task 2: waited for (explore)\n\nW"), "{}", outputs[1]);
    assert_eq!(news(&story).len(), 2);
    assert_eq!(story.took, Duration::from_millis(900));
}

#[tokio::test(start_paused = true)]
async fn a_unit_that_waits_for_its_background_units_keeps_nobody_out_of_the_pool() {
    let units = json!({
        "main": [{"calls": [agent(json!({"tasks": [
            {"description": "parent", "prompt": "p", "subagent_type": "general-purpose"}]}))]},
            {"text": "ok"}],
        "parent": [
            {"calls": [agent(fork("a")), agent(fork("b"))]},
            {"calls": [tool("TaskWait", json!({"task_ids": ["agent-2"]}))]},
            {"text": "waiting"}, {"text": "both done"},
        ],
        "a": [{"text": "A", "delay_ms": 100}],
        "b": [{"text": "B", "delay_ms": 100}],
    });
    let story = Setup::new(json!({ "units": units })).cap(1).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Completed; 3]);
    assert!(story.outputs(UnitId::MAIN)[0].ends_with("both done"));
    assert_eq!(story.took, Duration::from_millis(200));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_names_the_forks_it_left_unfinished() {
    let units = json!({
        "main": [{"calls": [agent(fork("look"))]}, {"text": "waiting"}],
        "look": [{"text": "part", "fault": "hang"}],
    });
    let story = Setup::new(json!({ "units": units }))
        .signal(Duration::from_millis(50), Signal::Interrupt)
        .run()
        .await;
    check_invariants(&story);
    assert_eq!(story.end.outcome, Outcome::Cancelled { ran: true });
    assert_eq!(story.end.unfinished, [UnitId(1)]);
    assert_eq!(story.states(), [UnitState::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn at_whatever_moment_a_cancel_comes_a_run_with_forks_is_whole() {
    let units = json!({
        "main": [
            {"calls": [agent(fork("a")), agent(json!({"tasks": [fork_slot("b"), fork_slot("c")]}))],
             "delay_ms": 5},
            {"calls": [tool("TaskWait", json!({}))], "delay_ms": 5},
            {"text": "ok", "delay_ms": 5, "repeat": true},
        ],
        "*": [
            {"calls": [tool("Glob", json!({"pattern": "*"}))], "delay_ms": 7},
            {"text": "ok", "delay_ms": 11},
        ],
    });
    for after in 0..60 {
        let signal = if after % 2 == 0 { Signal::Interrupt } else { Signal::Terminate };
        let setup = Setup::new(json!({ "units": units })).cap(2);
        let story = Setup { prime: Duration::from_secs(1), ..setup }
            .signal(Duration::from_millis(after), signal)
            .run()
            .await;
        check_invariants(&story);
    }
}

#[tokio::test(start_paused = true)]
async fn forks_that_never_end_are_unfinished_when_the_wait_is_over() {
    let units = json!({
        "main": [{"calls": [agent(fork("look"))]}, {"text": "my part is done"}],
        "look": [{"fault": "hang"}],
    });
    let setup = Setup::new(json!({ "units": units }));
    let story = Setup { background_wait: Duration::from_secs(30), ..setup }.run().await;
    check_invariants(&story);
    let Outcome::Failed(failure) = &story.end.outcome else { panic!("{:?}", story.end) };
    assert_eq!(failure.kind, FailureKind::Unfinished);
    assert_eq!(story.end.unfinished, [UnitId(1)]);
    assert_eq!(&*story.end.text, "my part is done");
    assert_eq!(story.took, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_typed_fork_that_fails_is_told_to_main() {
    let units = json!({
        "main": [{"text": "it failed", "expect": {"contains": ["out of cheese"]}}],
        "look": [{"fault": {"error": {"status": 400, "message": "out of cheese"}}}],
    });
    let setup = Setup::new(json!({ "units": units }));
    let task = Task::background_fork("look", "look");
    let opening = Opening::Fork { task, request: "/fork look".into() };
    let story = setup.opens(opening).run().await;
    check_invariants(&story);
    assert_eq!(answer(&story), "it failed");
}

// On real time: files are written on threads that paused time does not wait for.
#[tokio::test]
async fn a_fork_has_seen_no_file_that_its_conversation_does_not_hold() {
    let bash = |command: &str| tool("Bash", json!({ "command": command }));
    let units = json!({
        "main": [
            {"calls": [bash("echo precious > a.txt")]},
            {"calls": [tool("Read", json!({"file_path": "a.txt"})), bash("true"), agent(fork("look"))]},
            {"text": "ok", "repeat": true},
        ],
        "look": [
            {"calls": [tool("Write", json!({"file_path": "a.txt", "content": "lost"}))]},
            {"text": "tried"},
        ],
    });
    let setup = Setup::new(json!({ "units": units }));
    let story = setup.mode(Mode::BypassPermissions).run().await;
    check_invariants(&story);
    let refused = story.outputs(UnitId(1))[0];
    assert!(refused.contains("you have not read"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_not_taken_back_by_having_nothing_to_add() {
    let story = play(json!({
        "main": [{"calls": [agent(fork("look"))]}, {"text": "the answer"}, {"text": " "}],
        "look": [{"text": "x", "delay_ms": 100}],
    }))
    .await;
    assert_eq!(answer(&story), "the answer");
}

#[tokio::test(start_paused = true)]
async fn waiting_without_ids_waits_for_all_however_many_there_are() {
    let forks: Vec<Value> = (0..30).map(|index| agent(fork(&format!("f{index}")))).collect();
    let story = play(json!({
        "main": [{"calls": forks}, {"calls": [tool("TaskWait", json!({}))]}, {"text": "ok", "repeat": true}],
        "*": [{"text": "x", "delay_ms": 100}],
    }))
    .await;
    let waited = story.outputs(UnitId::MAIN)[30];
    assert!(waited.contains("Ended as well; TaskOutput reads them:\nagent-21 (fork)"), "{waited}");
    assert!(!waited.contains("Still out"));
}

#[tokio::test(start_paused = true)]
async fn several_calls_of_one_turn_wait_without_losing_the_units_place() {
    let waits: Vec<Value> = (0..8)
        .map(|index| tool("TaskWait", json!({"timeout_s": f64::from(index % 3) / 10.0})))
        .collect();
    let units = json!({
        "main": [{"calls": [agent(json!({"tasks": [
            {"description": "parent", "prompt": "p", "subagent_type": "general-purpose"}]}))]},
            {"text": "ok"}],
        "parent": [{"calls": [agent(fork("a"))]}, {"calls": waits}, {"text": "done", "repeat": true}],
        "a": [{"text": "A", "delay_ms": 1_000}],
    });
    let story = Setup::new(json!({ "units": units })).cap(1).run().await;
    check_invariants(&story);
    assert_eq!(story.states(), [UnitState::Completed; 2]);
}
