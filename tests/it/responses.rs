//! The Responses client against a real socket, against the provider's own
//! types, and behind the binary.

use std::sync::Arc;
use std::time::Duration;

use async_openai::types::responses::{
    CreateResponse, OutputItem, ResponseStreamEvent, ResponseUsage,
};
use secrecy::SecretString;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tine::message::{
    Call, Head, Image, ImageKind, Message, Output, Prefix, Reply, Sealed, StopReason, ToolSchema,
    Usage,
};
use tine::model::api::Kind;
use tine::model::check::check_continues;
use tine::model::served::{Served, ServedSettings};
use tine::model::{Answer, Model, ModelError, ModelErrorKind};

use crate::fanout::check_invariants;
use crate::model_http::{ask, prefix, request};
use crate::support::bodies::prove;
use crate::support::inside::Setup;
use crate::support::responses::{Says, response, sealed, serve, stream, talk};
use crate::support::server::{End, Reaction, RecordedRequest, Server};
use crate::support::talk::Talk;
use crate::support::tine::{Finished, Place};

fn settings(server: &Server) -> ServedSettings {
    ServedSettings { api: Kind::Responses, ..ServedSettings::new("m", "m", server.base_url()) }
}

fn model_on(server: &Server) -> Arc<Served> {
    Arc::new(Served::new(settings(server)).expect("the server's address is one"))
}

/// Asks a server that reacts like this.
async fn answer_of(reaction: Reaction) -> Result<Answer, ModelError> {
    let server = Server::start(move |_| reaction.clone());
    let answer = ask(&model_on(&server), request(&prefix(), 1)).await;
    let url = server.base_url();
    assert_eq!(server.finish().len(), 1, "one request, no retries");
    answer.map_err(|error| ModelError { message: error.message.replace(&url, "URL"), ..error })
}

fn everything() -> Says {
    Says::text("Let me see, Grüße 🦀.")
        .after("hm, hm")
        .and(&[("Read", json!({ "file_path": "a\n\"b\"" })), ("Glob", json!({}))])
}

/// What [`everything`] is to the client.
fn all_of_it() -> Answer {
    let call = |id: &str, tool: &str, arguments: &Value| Call {
        id: id.into(),
        tool: tool.to_owned(),
        arguments: arguments.to_string(),
    };
    let kept = format!(
        r#"[{{"reasoning":{}}},{{"message":{{"start":0,"end":25}}}},{{"call":0}},{{"call":1}}]"#,
        concat!(
            r#"{"type":"reasoning","id":"rs_0","summary":[{"type":"summary_text","text":"hm, hm"}],"#,
            r#""encrypted_content":"sealed: hm, hm"}"#
        )
    );
    Answer {
        reply: Reply {
            text: "Let me see, Grüße 🦀.".into(),
            thinking: "hm, hm".into(),
            calls: vec![
                call("call_a", "Read", &json!({ "file_path": "a\n\"b\"" })),
                call("call_b", "Glob", &json!({})),
            ],
            sealed: Some(Sealed { by: "".into(), json: kept.into() }),
        },
        usage: Usage { input: 6, output: 5, cache_read: 4, ..Usage::default() },
        stop: StopReason::ToolUse,
    }
}

/// Takes away what differs from server to server: its address.
fn without_address(mut answer: Answer) -> Answer {
    if let Some(Sealed { by, json: _ }) = &mut answer.reply.sealed {
        assert!(by.starts_with("responses http://127.0.0.1:") && by.ends_with("/v1 m"), "{by}");
        *by = "".into();
    }
    answer
}

#[tokio::test]
async fn an_answer_is_the_same_however_it_comes() {
    let (events, expected) = (everything().events(), all_of_it());
    let bytes = stream(&events);
    let whole = &events.last().expect("an answer has an end")["response"];
    let mut marked = bytes.clone();
    marked.extend_from_slice(b"data: [DONE]\n\n");
    for (name, reaction) in [
        ("at once", Reaction::stream(bytes.clone())),
        ("byte by byte", Reaction::byte_by_byte(&bytes)),
        ("with an end mark", Reaction::stream(marked)),
        ("whole", Reaction::json(200, whole)),
        ("not closed", Reaction::pieces([bytes], End::Hang)),
    ] {
        let answer = answer_of(reaction).await.map(without_address);
        assert_eq!(answer, Ok(expected.clone()), "{name}");
    }
}

#[tokio::test]
async fn a_request_goes_where_it_should_with_what_it_should() {
    let server = serve(|_| Says::text("Hi"));
    let settings = ServedSettings {
        key: Some(SecretString::from("secret-key")),
        max_output_tokens: Some(900),
        effort: Some("low".into()),
        extra_body: [("temperature".to_owned(), json!(0))].into_iter().collect(),
        ..settings(&server)
    };
    ask(&Served::new(settings).unwrap(), request(&prefix(), 1)).await.unwrap();
    let requests = server.finish();
    let request = &requests[0];
    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/responses"));
    assert_eq!(request.header("authorization"), Some("Bearer secret-key"));
    let mut body = request.json();
    let key = body["prompt_cache_key"].take();
    assert_eq!(key.as_str().map(str::len), Some(32));
    assert_eq!(
        body,
        json!({ "model": "m", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"], "max_output_tokens": 900,
            "reasoning": { "effort": "low" }, "prompt_cache_key": null, "temperature": 0,
            "instructions": "Be brief.",
            "tools": [{ "type": "function", "name": "Read", "description": "Reads a file.",
                "parameters": { "type": "object" }, "strict": false }],
            "input": [{ "type": "message", "role": "user", "content": "What is in a?" }] })
    );
}

#[test]
fn keys_that_are_ours_cannot_be_configured() {
    for key in ["input", "instructions", "model", "stream", "tools"] {
        let settings = ServedSettings {
            api: Kind::Responses,
            extra_body: [(key.to_owned(), json!(1))].into_iter().collect(),
            ..ServedSettings::new("m", "m", "http://localhost:1")
        };
        let error = Served::new(settings).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("`{key}` cannot be set in the extra body"));
    }
}

#[tokio::test]
async fn an_error_within_the_stream_says_what_it_is() {
    use ModelErrorKind as Kind;
    let created =
        json!({ "type": "response.created", "response": response("in_progress", &[], None) });
    let failed = |code: &str, message: &str| {
        let mut response = response("failed", &[], None);
        response["error"] = json!({ "code": code, "message": message });
        json!({ "type": "response.failed", "response": response })
    };
    let flat = |code: &str, message: &str| json!({ "type": "error", "code": code, "message": message, "param": null });
    let nested = |kind: &str, code: &str, message: &str| json!({ "type": "error", "error": { "type": kind, "code": code, "message": message } });
    let untyped = json!({ "error": { "type": "rate_limit_error", "message": "too many" } });
    let soon = Some(Duration::from_millis(6_570));
    let slow = "Rate limit reached. Please try again in 6.57s. Visit us.";
    for (event, kind, message, retry_after) in [
        (failed("rate_limit_exceeded", slow), Kind::RateLimited, slow, soon),
        (nested("tokens", "rate_limit_exceeded", slow), Kind::RateLimited, slow, soon),
        (
            nested("too_many_requests", "too_many_requests", "Too Many Requests"),
            Kind::RateLimited,
            "Too Many Requests",
            None,
        ),
        (untyped, Kind::RateLimited, "too many", None),
        (failed("server_error", "Oops."), Kind::Overloaded, "Oops.", None),
        (flat("server_error", "Oops."), Kind::Overloaded, "Oops.", None),
        (
            nested("service_unavailable_error", "server_is_overloaded", "Busy."),
            Kind::RateLimited,
            "Busy.",
            None,
        ),
        (failed("context_length_exceeded", "Too long."), Kind::Overflow, "Too long.", None),
        (flat("context_length_exceeded", "Too long."), Kind::Overflow, "Too long.", None),
        (failed("invalid_prompt", "Not that."), Kind::Request, "Not that.", None),
        (
            nested("invalid_request_error", "invalid_encrypted_content", "Not mine."),
            Kind::Request,
            "Not mine.",
            None,
        ),
        (
            nested("invalid_request_error", "invalid_api_key", "Who?"),
            Kind::Authentication,
            "Who?",
            None,
        ),
    ] {
        let text = event.to_string();
        let error =
            answer_of(Reaction::stream(stream(&[created.clone(), event]))).await.unwrap_err();
        let expected = format!("the provider answered with an error: {message}");
        assert_eq!(
            (error.kind, error.message, error.retry_after),
            (kind, expected, retry_after),
            "{text}"
        );
    }
}

#[tokio::test]
async fn tokens_of_a_failed_answer_are_counted() {
    let usage = json!({ "input_tokens": 10, "output_tokens": 5 });
    let mut failed = response("failed", &[], Some(usage));
    failed["error"] = json!({ "code": "server_error", "message": "Oops." });
    let event = json!({ "type": "response.failed", "response": failed });
    let error = answer_of(Reaction::stream(stream(&[event]))).await.unwrap_err();
    assert_eq!(error.spent, Usage { input: 10, output: 5, ..Usage::default() });
}

#[tokio::test]
async fn an_answer_without_its_end_is_cut() {
    let events = everything().events();
    for kept in [0, 1, 5, events.len() - 1] {
        let error = answer_of(Reaction::stream(stream(&events[..kept]))).await.unwrap_err();
        let expected = "the answer of `URL` broke off before its end";
        assert_eq!((error.kind, &*error.message), (ModelErrorKind::Cut, expected), "{kept} events");
    }
}

// --- against the provider's own types

/// A conversation with everything that can be said.
fn full_conversation(sealed_by: &str) -> Prefix {
    let schema = ToolSchema {
        name: "Read".into(),
        description: "Reads a file.".into(),
        parameters: RawValue::from_string(r#"{"type":"object"}"#.into()).expect("valid JSON"),
    };
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), vec![schema])));
    prefix.push(Message::User("What is in a?".into()));
    let mut reply = all_of_it().reply;
    reply.sealed = reply.sealed.map(|sealed| {
        let phase = sealed.json.replace(r#""end":25"#, r#""end":25,"phase":"commentary""#);
        Sealed { by: sealed_by.into(), json: phase.into() }
    });
    prefix.push(Message::Model(Arc::new(reply)));
    let images = vec![Image { kind: ImageKind::Png, base64: "AAAA".into() }];
    let seen = Output { images, ..Output::ok("a picture") };
    prefix.push(Message::Output { call: "call_a".into(), output: Arc::new(seen) });
    prefix.push(Message::Output { call: "call_b".into(), output: Arc::new(Output::error("no")) });
    let text = Reply { text: "Done.".into(), ..Reply::default() };
    prefix.push(Message::Model(Arc::new(text)));
    prefix.push(Message::User("And b?".into()));
    prefix
}

#[test]
fn every_part_of_a_request_is_one_that_the_provider_knows() {
    let settings = ServedSettings {
        api: Kind::Responses,
        max_output_tokens: Some(900),
        effort: Some("low".into()),
        takes_images: true,
        ..ServedSettings::new("m", "m", "http://localhost:1/v1")
    };
    let model = Served::new(settings).unwrap();
    let body = model.body(&full_conversation("responses http://localhost:1/v1 m"));
    tine::model::check::responses::check(&body).unwrap();
    let sent: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(sent["input"].as_array().unwrap().len(), 9);
    let read: CreateResponse = serde_json::from_slice(&body).unwrap();
    // What it does not know would be missing.
    assert_eq!(serde_json::to_value(read).unwrap(), sent);
}

#[tokio::test]
async fn an_answer_is_what_the_providers_own_types_read() {
    for says in [
        everything(),
        Says::text("Just so."),
        Says::calls(&[("Read", json!({ "a": [1, null] }))]).after("hm"),
    ] {
        let answer = answer_of(says.reaction()).await.unwrap();
        let events = says.events();
        let read = |event: &Value| -> ResponseStreamEvent {
            serde_json::from_value(event.clone()).unwrap_or_else(|error| panic!("{error}: {event}"))
        };
        let read: Vec<_> = events.iter().map(read).collect();
        let Some(ResponseStreamEvent::ResponseCompleted(last)) = read.last() else {
            panic!("an answer ends")
        };
        let response = &last.response;
        assert_eq!(answer.reply.text, response.output_text().unwrap_or_default());
        let calls: Vec<_> = response
            .output
            .iter()
            .filter_map(|item| match item {
                OutputItem::FunctionCall(call) => Some(Call {
                    id: (&*call.call_id).into(),
                    tool: call.name.clone(),
                    arguments: call.arguments.clone(),
                }),
                _ => None,
            })
            .collect();
        assert_eq!(answer.reply.calls, calls);
        let ResponseUsage { input_tokens, input_tokens_details, output_tokens, .. } =
            response.usage.as_ref().expect("it counts");
        let Usage { input, output, cache_read, cache_creation, cost: _ } = answer.usage;
        assert_eq!(input + cache_read + cache_creation, u64::from(*input_tokens));
        assert_eq!(cache_read, u64::from(input_tokens_details.cached_tokens));
        assert_eq!(output, u64::from(*output_tokens));
    }
}

// --- behind the binary

impl Place {
    /// Configures models `m` and `other`, both on this server.
    fn has_models_on(&self, server: &Server) {
        let url = server.base_url();
        let entry =
            |name: &str| format!("[models.{name}]\napi = \"responses\"\nbase_url = \"{url}\"\n");
        self.configure(&format!("{}{}", entry("m"), entry("other")));
    }

    fn asks(&self, server: &Server, flags: &[&str]) -> Finished {
        self.has_models_on(server);
        self.tine(["-p", "go", "-m", "m"].iter().chain(flags)).run().exits(0)
    }
}

fn fork(directive: &str) -> Value {
    json!({ "description": directive, "prompt": directive, "subagent_type": "fork" })
}

fn of_directive<'a>(requests: &'a [RecordedRequest], directive: &str) -> &'a RecordedRequest {
    let mut requests = requests.iter();
    requests.find(|request| talk(request).directive() == Some(directive)).expect("it was sent")
}

#[track_caller]
fn goes_on(earlier: &RecordedRequest, later: &RecordedRequest) {
    assert_eq!(check_continues(&earlier.body, &later.body), Ok(()));
}

#[test]
fn a_conversation_with_calls_works_and_its_reasoning_goes_back_with_it() {
    let server = serve(|talk| match talk.turn() {
        1 => Says::text("Let me see.")
            .after("a file?")
            .and(&[("Read", json!({ "file_path": "a.txt" }))]),
        2 => Says::calls(&[("Glob", json!({ "pattern": "*" }))]).after("more?"),
        _ => Says::text("There is hello in a.").after("done"),
    });
    let place = Place::new();
    place.write("a.txt", "hello\n");
    let finished = place.asks(&server, &["-o", "stream-json"]);
    let result = finished.records().result().clone();
    assert_eq!(result["result"], "There is hello in a.");
    let requests = server.finish();
    let [first, second, third] = &requests[..] else { panic!("three turns") };
    goes_on(first, second);
    goes_on(second, third);
    let input = |request: &RecordedRequest| request.json()["input"].as_array().unwrap().clone();
    let kinds: Vec<_> = input(third).iter().map(|item| item["type"].clone()).collect();
    assert_eq!(
        kinds,
        [
            "message",
            "reasoning",
            "message",
            "function_call",
            "function_call_output",
            "reasoning",
            "function_call",
            "function_call_output"
        ]
    );
    assert_eq!([&input(third)[1], &input(third)[5]], [&sealed("a file?"), &sealed("more?")]);
    assert!(input(second)[4]["output"].as_str().unwrap().contains("hello"));
}

#[test]
fn forks_begin_with_their_parents_bytes_and_hold_no_siblings_directive() {
    let slots = ["mend alpha", "mend beta"];
    let tasks = json!({ "tasks": [fork(slots[0]), fork(slots[1]),
        { "description": "look", "prompt": "look", "subagent_type": "explore" }] });
    let server = serve(move |talk| match (talk.directive(), talk.task(), talk.turn()) {
        (Some(directive), _, _) => Says::text(&format!("I did {directive}.")),
        (None, "go", 1) => Says::text("Let me see.").after("who?").and(&[("Agent", tasks.clone())]),
        (None, "go", _) => Says::text("done"),
        (None, _, 1) => Says::calls(&[("Glob", json!({ "pattern": "*" }))]).after("where?"),
        (None, _, _) => Says::text("found"),
    });
    Place::new().asks(&server, &[]);
    let requests = server.finish();
    assert_eq!(requests.len(), 6, "main, two forks and an agent with a call, main");
    let forks = slots.map(|directive| of_directive(&requests, directive));
    let (parent, last) = (&requests[0], requests.last().unwrap());
    for (fork, other) in forks.into_iter().zip(slots.iter().rev()) {
        goes_on(parent, fork);
        let body = fork.json();
        for key in ["model", "instructions", "tools", "prompt_cache_key"] {
            assert_eq!(body[key].to_string(), parent.json()[key].to_string(), "{key}");
        }
        assert!(!String::from_utf8_lossy(&fork.body).contains(other), "a fork was told `{other}`");
        let input = body["input"].as_array().unwrap();
        assert_eq!(input[1], sealed("who?"));
        assert_eq!(input[3]["arguments"], "{}");
        assert_eq!((input.len(), &input[4]["type"]), (6, &json!("function_call_output")));
    }
    let same = forks[0].body.iter().zip(&forks[1].body).take_while(|(one, other)| one == other);
    assert!(forks[0].body[..same.count()].ends_with(b"Directive:\\n\\nmend "));
    goes_on(parent, last);
    assert_eq!(last.json()["prompt_cache_key"], parent.json()["prompt_cache_key"]);
    let of_agent = requests.iter().filter(|request| talk(request).task() == "look");
    let of_agent: Vec<_> = of_agent.collect();
    goes_on(of_agent[0], of_agent[1]);
    assert_ne!(of_agent[0].json()["prompt_cache_key"], parent.json()["prompt_cache_key"]);
    assert_eq!(
        talk(last).outputs(),
        ["## Task 1: mend alpha (fork)\n\nI did mend alpha.\n\n---\n\n## Task 2: mend beta \
          (fork)\n\nI did mend beta.\n\n---\n\n## Task 3: look (explore)\n\nfound"]
    );
}

#[tokio::test]
async fn every_request_is_what_the_log_says() {
    let react = |talk: &Talk| match (talk.directive(), talk.turn()) {
        (None, 1) => {
            Says::text("Let me see.").after("hm").and(&[("Glob", json!({ "pattern": "*" }))])
        }
        (None, 2) => Says::calls(&[
            ("Agent", json!({ "tasks": [fork("mend alpha"), fork("mend beta")] })),
            ("TaskList", json!({})),
        ])
        .after("who?"),
        (None, _) => Says::text("done"),
        (Some(_), 3) => Says::calls(&[("Read", json!({ "file_path": "x" }))]).after("what?"),
        (Some(directive), _) => Says::text(&format!("I did {directive}.")),
    };
    let server = serve(react);
    let model = model_on(&server);
    let story = Setup::on(Arc::clone(&model) as _).run().await;
    check_invariants(&story);
    let bodies = prove(&story.events, &server.finish(), &model);
    assert_eq!(bodies.values().map(Vec::len).collect::<Vec<_>>(), [3, 2, 2]);
}

#[test]
fn a_session_goes_on_from_the_same_bytes_and_with_another_model_without_the_reasoning() {
    let server = serve(|talk| match talk.last_prompt() {
        prompt if prompt.ends_with("go") && talk.turn() == 1 => {
            Says::calls(&[("Glob", json!({ "pattern": "*" }))]).after("hm")
        }
        prompt => Says::text(&format!("that was {} characters", prompt.len())).after("so"),
    });
    let place = Place::new();
    place.asks(&server, &[]);
    place.tine(["-c", "-p", "and now?"]).run().exits(0);
    place.tine(["-c", "-p", "and then?", "-m", "other"]).run().exits(0);
    let requests = server.finish();
    let [_, before, after, other] = &requests[..] else { panic!("{} requests", requests.len()) };
    goes_on(before, after);
    assert_eq!(before.json()["prompt_cache_key"], after.json()["prompt_cache_key"]);
    let kinds = |request: &RecordedRequest| {
        let body = request.json();
        let input = body["input"].as_array().unwrap();
        input.iter().filter(|item| item["type"] == "reasoning").count()
    };
    assert_eq!((kinds(before), kinds(after)), (1, 2));
    assert_eq!(kinds(other), 0);
}
