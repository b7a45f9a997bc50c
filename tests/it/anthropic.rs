//! Anthropic's Messages API: the client against a real socket, and the binary
//! with tools, forks and sessions against a server that caches prompts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tine::agent::History;
use tine::config::AnswerTimeouts;
use tine::event::{Compaction, CompactionTrigger, EventKind, Replied, UnitId};
use tine::message::{Head, Message, Prefix, StopReason, Usage};
use tine::model::anthropic::unmarked;
use tine::model::api::Kind;
use tine::model::served::{Served, ServedSettings};
use tine::model::{
    Answer, Asker, Chunk, Model, ModelError, ModelErrorKind, Purpose, Request, check,
};

use crate::fanout::check_invariants;
use crate::support::anthropic::{
    Cache, Part, call_reply, encoded, events, head_of, reply, serve, serve_cached, talk, text_reply,
};
use crate::support::bodies::prove_behind;
use crate::support::inside::Setup;
use crate::support::server::{End, Reaction, RecordedRequest, Server};
use crate::support::tine::{KEY, Place, Tine};

fn settings(base_url: &str) -> ServedSettings {
    ServedSettings { api: Kind::Anthropic, ..ServedSettings::new("m", "claude-x", base_url) }
}

fn model_on(server: &Server) -> Arc<Served> {
    Arc::new(Served::new(settings(&server.base_url())).expect("the server's address is one"))
}

fn prefix() -> Prefix {
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
    prefix.push(Message::User("go".into()));
    prefix
}

async fn ask(model: &Served, prefix: &Prefix) -> Result<(Vec<Chunk>, Answer), ModelError> {
    let (agent, description) = ("main".into(), "".into());
    let (unit, purpose, turn) = (UnitId::MAIN, Purpose::Turn, 1);
    let (is_afresh, attempt, forked_from) = (true, 1, None);
    let asker = Asker { unit, agent, description, purpose, turn, is_afresh, attempt, forked_from };
    let mut stream = model.respond(Request { prefix: prefix.clone(), asker, text_schema: None });
    let mut said = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk? {
            Chunk::Finished(answer) => return Ok((said, *answer)),
            chunk => said.push(chunk),
        }
    }
    panic!("a stream ends in an answer or an error");
}

// --- the client

#[tokio::test]
async fn a_request_goes_where_the_api_is_with_its_headers() {
    let server = serve(|_| text_reply("hi"));
    let settings = ServedSettings {
        key: Some(SecretString::from(KEY)),
        headers: vec![("anthropic-version".into(), "2030-01-01".into())],
        ..settings(&server.base_url())
    };
    ask(&Served::new(settings).unwrap(), &prefix()).await.unwrap();
    ask(&model_on(&server), &prefix()).await.unwrap();
    let requests = server.finish();
    let paths: Vec<_> = requests.iter().map(|request| &*request.path).collect();
    assert_eq!(paths, ["/v1/messages", "/v1/messages"]);
    let header = |at: usize, name| requests[at].header(name);
    assert_eq!((header(0, "x-api-key"), header(1, "x-api-key")), (Some(KEY), None));
    assert_eq!(header(0, "anthropic-version"), Some("2030-01-01"));
    assert_eq!(header(1, "anthropic-version"), Some("2023-06-01"));
    assert_eq!(
        (header(0, "authorization"), header(0, "content-type")),
        (None, Some("application/json"))
    );
}

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_are_cut() {
    let parts = [
        Part::Thinking("Hm, \u{1f914}…", "sig"),
        Part::Text("Grüße"),
        Part::Call("Read", json!({ "file_path": "ä" })),
    ];
    let usage = json!({ "input_tokens": 3, "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 5, "output_tokens": 1 });
    let bytes = events(&parts, &usage);
    let server = Server::start({
        let bytes = bytes.clone();
        move |request| match request.sequence {
            0 => Reaction::stream(bytes.clone()),
            _ => Reaction::byte_by_byte(&bytes),
        }
    });
    let model = model_on(&server);
    let (said, whole) = ask(&model, &prefix()).await.unwrap();
    let thought = Chunk::Thinking("Hm, \u{1f914}…".into());
    assert_eq!(said, [thought, Chunk::Text("Grü".into()), Chunk::Text("ße".into())]);
    let counted =
        Usage { input: 3, output: 5, cache_read: 40, cache_creation: 5, ..Usage::default() };
    assert_eq!((whole.usage, whole.stop), (counted, StopReason::ToolUse));
    assert_eq!(ask(&model, &prefix()).await.unwrap(), (said, whole));
    server.finish();
}

#[tokio::test]
async fn what_was_counted_before_an_answer_broke_off_is_not_lost() {
    let bytes = events(
        &[Part::Text("Half an answer")],
        &json!({ "input_tokens": 900, "output_tokens": 1 }),
    );
    let end = bytes.windows(13).position(|part| part == b"message_delta").expect("it is there");
    let half = bytes[..end - "event: ".len()].to_vec();
    let server = Server::start(move |_| Reaction::pieces([half.clone()], End::Whole));
    let error = ask(&model_on(&server), &prefix()).await.unwrap_err();
    assert_eq!((error.kind, error.spent.input), (ModelErrorKind::Cut, 900));
    server.finish();
}

#[track_caller]
fn kind_of(error: &ModelError) -> (ModelErrorKind, Option<u16>) {
    (error.kind, error.status)
}

#[tokio::test]
async fn errors_say_what_to_do_whether_they_come_instead_of_an_answer_or_within_one() {
    use ModelErrorKind::{Authentication, Overflow, Overloaded, RateLimited, Request};
    let long = "prompt is too long: 210000 tokens > 200000 maximum";
    for (status, name, message, kind) in [
        (529, "overloaded_error", "Overloaded", RateLimited),
        (429, "rate_limit_error", "slow down", RateLimited),
        (500, "api_error", "Internal server error", Overloaded),
        (504, "timeout_error", "too slow", Overloaded),
        (401, "authentication_error", "invalid x-api-key", Authentication),
        (403, "permission_error", "not yours", Authentication),
        (404, "not_found_error", "model: claude-x", Request),
        (400, "invalid_request_error", "max_tokens: must be positive", Request),
        (400, "invalid_request_error", long, Overflow),
    ] {
        let error = json!({ "type": "error", "error": { "type": name, "message": message } });
        let before = json!({ "type": "message_start",
            "message": { "usage": { "input_tokens": 7, "output_tokens": 1 } } });
        let server = Server::start({
            let error = error.clone();
            move |request| match request.sequence {
                0 => Reaction::json(status, &error),
                _ => Reaction::stream(encoded(&[before.clone(), error.clone()])),
            }
        });
        let model = model_on(&server);
        let refused = ask(&model, &prefix()).await.unwrap_err();
        assert_eq!(kind_of(&refused), (kind, Some(status)), "{refused}");
        assert!(refused.message.contains(message), "{refused}");
        let within = ask(&model, &prefix()).await.unwrap_err();
        assert_eq!((within.kind, within.spent.input), (kind, 7), "{within}");
        assert!(within.message.contains(message), "{within}");
        server.finish();
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let answer = json!({ "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "hi" }],
        "usage": { "input_tokens": 3, "output_tokens": 2 } });
    let server = Server::start(move |_| Reaction::json(200, &answer));
    let (said, answer) = ask(&model_on(&server), &prefix()).await.unwrap();
    assert_eq!(said, [Chunk::Text("hi".into())]);
    assert_eq!(answer.usage, Usage { input: 3, output: 2, ..Usage::default() });
    server.finish();
}

#[tokio::test]
async fn a_silence_while_it_thinks_in_secret_is_none_as_long_as_the_server_is_heard() {
    let start = json!({ "type": "content_block_start", "index": 0,
        "content_block": { "type": "thinking", "thinking": "", "signature": "" } });
    let ping = encoded(&[json!({ "type": "ping" })]);
    let rest = events(&[Part::Text("hi")], &json!({}));
    let server = Server::start(move |_| {
        let piece = |bytes: &[u8]| crate::support::server::Piece {
            after: Duration::from_millis(60),
            bytes: bytes.to_vec(),
        };
        let mut pieces = vec![piece(&encoded(std::slice::from_ref(&start)))];
        pieces.extend((0..6).map(|_| piece(&ping)));
        pieces.push(piece(&rest));
        Reaction::Stream { content_type: "text/event-stream", pieces, end: End::Whole }
    });
    let limits = Duration::from_millis(200);
    let settings = {
        let timeouts = AnswerTimeouts {
            headers: limits,
            first_piece: limits,
            idle: limits,
            second_request: None,
        };
        ServedSettings { timeouts, ..settings(&server.base_url()) }
    };
    let (_, answer) = ask(&Served::new(settings).unwrap(), &prefix()).await.unwrap();
    assert_eq!(answer.reply.text, "hi");
    server.finish();
}

#[tokio::test]
async fn behind_a_summary_an_answer_goes_without_the_reasoning_that_was_signed_before_it() {
    let server = serve(|_| reply(&[Part::Thinking("hm", "sig1"), Part::Text("I looked.")]));
    let model = model_on(&server);
    let mut history = History::new(Arc::clone(&prefix().head));
    history.prompted("go".into());
    let (_, Answer { reply, usage, stop }) = ask(&model, history.prefix()).await.unwrap();
    let (reply, model_name) = (Arc::new(reply), Arc::clone(model.name()));
    history.replied(&Replied { reply, model: model_name, usage, stop, took_ms: 1 });
    history.prompted("and?".into());
    let sent = |history: &History| String::from_utf8(model.body(history.prefix())).unwrap();
    assert!(sent(&history).contains("sig1"));
    history.compacted(&Compaction {
        trigger: CompactionTrigger::Auto,
        text: "summed up".into(),
        kept_prompts: 2,
        tokens_before: 0,
        tokens_after: 0,
        model: "m".into(),
        usage: Usage::default(),
        took_ms: 1,
    });
    let compacted = sent(&history);
    assert!(compacted.contains("summed up") && compacted.contains("I looked."), "{compacted}");
    assert!(!compacted.contains("sig1"), "{compacted}");
    check::anthropic::check(compacted.as_bytes()).expect("the API takes it");
    server.finish();
}

// --- the binary

/// Configures the server's model.
fn configure(place: &Place, server: &Server) {
    // As people write it, without the version at its end.
    let base_url = server.base_url().replace("/v1", "");
    place.configure(&format!(
        "[models.m]\napi = 'anthropic'\nbase_url = '{base_url}'\nkey_env = 'ANTHROPIC_API_KEY'\n"
    ));
}

/// One prompt against a server, not yet run.
fn asking(place: &Place, server: &Server, flags: &[&str]) -> Tine {
    configure(place, server);
    place.tine(["-p", "go", "-m", "m"].iter().chain(flags)).env("ANTHROPIC_API_KEY", KEY)
}

/// A fork, as a call of the Agent tool.
fn fork(directive: &str) -> Value {
    json!({ "description": directive, "prompt": directive })
}

fn of_forks(requests: &[RecordedRequest]) -> Vec<&RecordedRequest> {
    requests.iter().filter(|request| talk(request).directive().is_some()).collect()
}

/// Returns the blocks with a mark: where they are, and what they begin with.
fn marks(request: &RecordedRequest) -> Vec<String> {
    let mut body = request.json();
    let mut marks = Vec::new();
    let mut note = |place: String, blocks: &mut Value| {
        for (at, block) in blocks.as_array_mut().into_iter().flatten().enumerate() {
            if block.as_object_mut().is_some_and(|fields| fields.remove("cache_control").is_some())
            {
                marks.push(format!("{place}{at}"));
            }
        }
    };
    note("tool ".into(), &mut body["tools"]);
    note("system ".into(), &mut body["system"]);
    for (at, message) in body["messages"].as_array_mut().into_iter().flatten().enumerate() {
        note(format!("message {at}, block "), &mut message["content"]);
    }
    marks
}

#[test]
fn the_tool_loop_goes_on_from_the_same_bytes_with_its_marks_where_they_must_be() {
    let place = Place::new();
    place.write("a.txt", "alpha\n");
    let read = |name: &str| Part::Call("Read", json!({ "file_path": name }));
    let cache = Arc::new(Cache::default());
    let server = serve_cached(&cache, move |talk| match talk.turn() {
        1 => vec![
            Part::Thinking("Two looks.", "sig1"),
            Part::Text("Let me see."),
            read("a.txt"),
            read("gone.txt"),
        ],
        2 => vec![read("a.txt")],
        _ => vec![Part::Text("alpha")],
    });
    let records = asking(&place, &server, &["-o", "stream-json"]).run().exits(0).records();
    assert_eq!(records.result()["result"], "alpha");
    let requests = server.finish();
    for pair in requests.windows(2) {
        check::check_continues(&pair[0].body, &pair[1].body).expect("a turn goes on from the last");
    }
    assert_eq!(marks(&requests[0]), ["system 0", "message 0, block 0"]);
    assert_eq!(marks(&requests[1]), ["system 0", "message 0, block 0", "message 2, block 1"]);
    assert_eq!(marks(&requests[2]), ["system 0", "message 2, block 1", "message 4, block 0"]);
    let body = requests[2].json();
    let thinking = json!({ "type": "thinking", "thinking": "Two looks.", "signature": "sig1" });
    assert_eq!(body["messages"][1]["content"][0], thinking);
    assert_eq!(body["messages"][2]["content"][1]["is_error"], true);
    assert!(body["messages"][2]["content"][0]["content"].as_str().unwrap().contains("alpha"));
    // Each turn read all that the one before had sent.
    let usage = &records.result()["usage"];
    let sent = |at: usize| Cache::default().take(&requests[at].json()).written;
    assert_eq!(usage["cache_read_input_tokens"], json!(sent(0) + sent(1)));
    assert_eq!(usage["cache_creation_input_tokens"], json!(sent(2)));
    assert_eq!(usage["input_tokens"], 0);
}

#[test]
fn forks_read_their_parents_prefix_from_the_cache_even_behind_many_calls() {
    // Each fork's prompt has more blocks behind the shared part than the cache
    // looks back: the parent's calls, an output for each, and the directive.
    let names: Vec<String> = (10..22).map(|number| format!("mend part {number}")).collect();
    let calls: Vec<_> = names.iter().map(|name| Part::Call("Agent", fork(name))).collect();
    let cache = Arc::new(Cache::default());
    let server = serve_cached(&cache, move |talk| match (talk.directive(), talk.turn()) {
        (Some(_), _) => vec![Part::Text("done, as I was told")],
        (None, 1) => calls.clone(),
        (None, _) => vec![Part::Text("done")],
    });
    let place = Place::new();
    let flags = ["-o", "stream-json", "--config", "agents.prime_ms=2000"];
    let records = asking(&place, &server, &flags).run().exits(0).records();
    let requests = server.finish();
    let parent = Cache::default().take(&requests[0].json()).written;
    let forks = of_forks(&requests);
    assert_eq!(forks.len(), names.len());
    for fork in forks {
        check::check_continues(&requests[0].body, &fork.body).expect("a fork goes on from there");
        assert_eq!(marks(fork), ["system 0", "message 0, block 0", "message 3, block 0"]);
        let calls = fork.json()["messages"][1]["content"].as_array().unwrap().clone();
        assert!(calls.iter().all(|call| call["input"] == json!({})), "{calls:?}");
        for name in names.iter().filter(|name| Some(name.as_str()) != talk(fork).directive()) {
            assert!(!String::from_utf8_lossy(&fork.body).contains(name.as_str()), "{name}");
        }
    }
    let told = records.system("task_notification");
    assert_eq!(told.len(), names.len());
    for told in told {
        let share = &told["prefix_share"];
        assert_eq!(share["cached_tokens"].as_u64(), Some(parent as u64));
        let stem = check::stem(&unmarked(&requests[0].body)).len() as u64;
        assert_eq!(share["shared_bytes"].as_u64(), Some(stem));
    }
    // That is what the mark in the middle is for.
    let read_behind_the_parent = |body: &Value| {
        let cache = Cache::default();
        cache.take(&requests[0].json());
        cache.take(body).read
    };
    let with = of_forks(&requests)[0].json();
    let mut without = with.clone();
    let block = without["messages"][0]["content"][0].as_object_mut().unwrap();
    block.remove("cache_control").expect("the mark is there");
    let [with, without] = [with, without].map(|body| read_behind_the_parent(&body));
    assert!(without < with && with == parent, "{without} {with} {parent}");
}

#[test]
fn a_batch_of_slots_and_forks_gives_its_answers_in_order() {
    let slot = |name: &str, agent: &str| json!({ "description": name, "prompt": name, "subagent_type": agent });
    let tasks = [slot("look", "explore"), slot("mend alpha", "fork"), slot("mend beta", "fork")];
    let batch = json!({ "tasks": tasks });
    let server = serve(move |talk| match (talk.directive(), talk.task(), talk.turn()) {
        (Some(directive), _, _) => text_reply(&format!("I did {directive}.")),
        (None, "go", 1) => call_reply(&[("Agent", batch.clone())]),
        (None, "go", _) => text_reply("done"),
        (None, "look", 1) => call_reply(&[("Glob", json!({ "pattern": "*" }))]),
        (None, _, _) => text_reply("I looked."),
    });
    let place = Place::new();
    asking(&place, &server, &[]).run().exits(0);
    let requests = server.finish();
    for fork in of_forks(&requests) {
        check::check_continues(&requests[0].body, &fork.body).expect("a fork goes on from there");
    }
    assert_eq!(
        talk(requests.last().unwrap()).outputs(),
        ["## Task 1: look (explore)\n\nI looked.\n\n---\n\n\
          ## Task 2: mend alpha (fork)\n\nI did mend alpha.\n\n---\n\n\
          ## Task 3: mend beta (fork)\n\nI did mend beta."]
    );
}

#[test]
fn a_session_goes_on_from_the_same_bytes_with_its_reasoning() {
    let server = serve(|talk| match talk.turn() {
        1 => reply(&[Part::Thinking("hm", "sig1"), Part::Call("Glob", json!({ "pattern": "*" }))]),
        2 => reply(&[Part::Thinking("aha", "sig2"), Part::Text("one")]),
        _ => text_reply("two"),
    });
    let place = Place::new();
    asking(&place, &server, &[]).run().exits(0);
    let again = place.tine(["-p", "and now?", "-c", "-m", "m"]).env("ANTHROPIC_API_KEY", KEY);
    again.run().exits(0);
    let requests = server.finish();
    let [_, second, third] = &requests[..] else { panic!("{} requests", requests.len()) };
    check::check_continues(&second.body, &third.body).expect("the session goes on");
    let body = third.json();
    let signed = |at: usize| body["messages"][at]["content"][0]["signature"].clone();
    assert_eq!((signed(1), signed(3)), (json!("sig1"), json!("sig2")));
    assert_eq!(marks(third), ["system 0", "message 2, block 0", "message 4, block 0"]);
}

#[tokio::test]
async fn every_request_of_a_run_with_forks_and_reasoning_is_what_the_log_says() {
    let slots = json!({ "tasks": [
        { "description": "mend beta", "prompt": "mend beta", "subagent_type": "fork" },
        { "description": "mend gamma", "prompt": "mend gamma", "subagent_type": "fork" },
    ] });
    let server = serve(move |talk| match (talk.directive(), talk.turn()) {
        (None, 1) => reply(&[
            Part::Thinking("First a look.", "sig1"),
            Part::Text("Let me see."),
            Part::Call("Glob", json!({ "pattern": "*" })),
        ]),
        (None, 2) => reply(&[
            Part::Thinking("Now all at once.", "sig2"),
            Part::Call("Agent", fork("mend alpha")),
            Part::Thinking("And two more.", "sig3"),
            Part::Call("Agent", slots.clone()),
        ]),
        (None, _) => text_reply("done"),
        // A fork's turns count from its parent's.
        (Some("mend alpha"), 3) => reply(&[
            Part::Thinking("My part.", "sig4"),
            Part::Call("Read", json!({ "file_path": "x" })),
        ]),
        (Some(directive), _) => text_reply(&format!("I did {directive}.")),
    });
    let model = model_on(&server);
    let story = Setup::on(Arc::clone(&model) as _).run().await;
    check_invariants(&story);
    let requests = server.finish();
    prove_behind(&head_of(&requests[0]), &story.events, &requests, &model);
    let shares = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::PrefixShared(share) => Some(share.shared_bytes),
        _ => None,
    });
    let sent = check::stem(&unmarked(&requests[1].body)).len() as u64;
    assert_eq!(shares.collect::<Vec<_>>(), [sent; 3]);
    let signatures = |request: &RecordedRequest| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        ["sig1", "sig2", "sig3", "sig4"].map(|signature| body.contains(signature))
    };
    // What main thought behind the arguments that a fork does not see is not
    // in the fork, and all else is.
    for fork in of_forks(&requests) {
        let is_later = talk(fork).turn() > 3;
        assert_eq!(signatures(fork), [true, true, false, is_later]);
    }
    assert_eq!(signatures(requests.last().unwrap()), [true, true, true, false]);
}
