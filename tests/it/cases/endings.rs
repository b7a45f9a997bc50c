//! How an answer of a model ends, and what proves that it is whole.

use serde_json::{Value, json};
use tine::event::{EventKind, FailureKind, Outcome, UnitId};
use tine::message::StopReason;
use tine::model::api::Kind;
use tine::model::served::{Served, ServedSettings};
use tine::model::{ModelError, ModelErrorKind};

use crate::model_http::{ask, prefix, request};
use crate::support::inside::Setup;
use crate::support::play::Case;
use crate::support::server::{Reaction, Server};

/// Runs a case with short waits and returns its result.
#[track_caller]
fn result(case: &Case, code: i32) -> Value {
    let arguments = ["-m", "m", "-p", "go", "-o", "json", "--config", "retry.base_ms=1"];
    case.tine(&arguments).run().exits(code).result()
}

/// Plays the first file and then the whole answer, and checks that this is the
/// result after two requests.
#[track_caller]
fn check_asked_again(case: &str, first: &str) {
    let case = Case::playing(case, &[first, "2.200.sse"]);
    let result = result(&case, 0);
    assert_eq!(result["result"], "The whole answer.", "{first}: {result}");
    assert_eq!(case.bodies().len(), 2, "{first}");
}

/// Plays one file for every request, and returns the result of the failed run.
#[track_caller]
fn failed(case: &str, file: &str, requests: usize) -> Value {
    let case = Case::playing(case, &[file]);
    let result = result(&case, 75);
    assert_eq!(result["is_error"], true, "{result}");
    assert_eq!(case.bodies().len(), requests, "{result}");
    result
}

#[test]
fn a_reason_that_means_failure_is_asked_again_and_then_named() {
    for first in ["1.200.sse", "malformed.sse"] {
        check_asked_again("finish-reason-failures", first);
    }
    let failed = failed("finish-reason-failures", "malformed.sse", 3).to_string();
    assert!(failed.contains("function_call_filter: MALFORMED_FUNCTION_CALL"), "{failed}");
}

#[test]
fn a_filtered_answer_is_told_as_one() {
    let case = Case::playing("finish-reason-failures", &["filtered.sse"]);
    let arguments = ["-m", "m", "-p", "go", "-o", "json"];
    // Whatever code that is.
    let finished = case.tine(&arguments).run();
    assert_eq!(finished.result()["stop_reason"], "refusal", "{}", finished.stdout);
    assert_eq!(case.bodies().len(), 1);
}

#[test]
fn an_empty_answer_is_asked_again_and_then_an_error() {
    check_asked_again("empty-answer-is-success", "1.200.sse");
    let failed = failed("empty-answer-is-success", "1.200.sse", 3).to_string();
    assert!(failed.contains("the answer is empty"), "{failed}");
}

#[test]
fn counts_before_the_end_prove_nothing() {
    check_asked_again("stream-usage-before-end", "1.200.sse");
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn chat(delta: Value, finish: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn half() -> Value {
    chat(json!({ "content": "Half an ans" }), Value::Null)
}

/// Plays a stream for every request of a run with tools and the chat API; returns
/// how the run and its error end.
#[track_caller]
fn ends_in_an_error(body: &str) -> (usize, String) {
    let answers = vec![(200, "text/event-stream", body.as_bytes().to_vec())];
    let case = Case::answering("empty-answer-is-success", answers);
    let result = result(&case, 75);
    (case.bodies().len(), result.to_string())
}

#[test]
fn an_answer_without_a_word_is_no_success_whatever_else_it_holds() {
    for (delta, finish, expected) in [
        (json!({ "content": " \n" }), "stop", "it has no text and no call"),
        (json!({ "reasoning_content": "Hm." }), "stop", "it has reasoning, but no text"),
        (json!({ "reasoning_content": "Hm." }), "length", "reached its output limit"),
    ] {
        let body = sse(&[chat(delta, json!(finish))]) + "data: [DONE]\n\n";
        let (requests, error) = ends_in_an_error(&body);
        assert!(error.contains(expected), "{error}");
        assert_eq!(requests, 3, "{error}");
    }
}

#[test]
fn an_unknown_reason_is_named_with_the_text_there_was() {
    let body = sse(&[half(), chat(json!({}), json!("jumped"))]) + "data: [DONE]\n\n";
    let (requests, error) = ends_in_an_error(&body);
    assert!(error.contains("`jumped`") && error.contains("Half an ans"), "{error}");
    assert_eq!(requests, 3, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_slot_with_an_empty_answer_has_failed() {
    let task = json!({ "description": "slot", "prompt": "go", "subagent_type": "general-purpose" });
    let call = json!({ "name": "Agent", "arguments": { "tasks": [task] } });
    let script = json!({ "units": {
        "main": [{ "calls": [call] }, { "text": "done" }],
        "slot": [{ "text": " ", "repeat": true }],
    } });
    let story = Setup::new(script).run().await;
    let outputs = story.outputs(UnitId::MAIN);
    assert!(outputs[0].contains("the answer is empty"), "{outputs:?}");
    let kinds = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::UnitEnded(end) => match &end.outcome {
            Outcome::Failed(failure) => Some(failure.kind),
            _ => None,
        },
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [FailureKind::EmptyAnswer]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_has_answered_may_have_nothing_to_add() {
    let look = json!({ "name": "Agent", "arguments": { "description": "slot", "prompt": "go",
        "subagent_type": "general-purpose", "run_in_background": true } });
    let script = json!({ "units": {
        "main": [{ "calls": [look] }, { "text": "It looks." }, { "text": "" }],
        "slot": [{ "text": "found" }],
    } });
    let story = Setup::new(script).run().await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "It looks.".into() });
}

/// How an answer ends.
type Ends = Result<StopReason, ModelErrorKind>;

async fn answer(
    kind: Kind,
    content_type: &'static str,
    body: &str,
) -> Result<StopReason, ModelError> {
    let body = body.as_bytes().to_vec();
    let server = Server::start(move |_| Reaction::status(200, content_type, body.clone()));
    let settings = ServedSettings { api: kind, ..ServedSettings::new("m", "m", server.base_url()) };
    let model = Served::new(settings).expect("the server's address is one");
    ask(&model, request(&prefix(), 1)).await.map(|answer| answer.stop)
}

async fn check(kind: Kind, name: &str, body: &str, expected: Ends) {
    let ends = answer(kind, "text/event-stream", body).await;
    assert_eq!(ends.as_ref().map_err(|error| error.kind).copied(), expected, "{name}: {ends:?}");
}

/// The error's sentence is shown, whatever shape it has.
async fn check_said(kind: Kind, body: &str, content_type: &'static str) {
    let error = answer(kind, content_type, body).await.expect_err("the body is an error");
    assert!(error.message.ends_with("error: out of order"), "{body}: {error}");
}

fn call(arguments: &str) -> Value {
    json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
        "function": { "name": "Read", "arguments": arguments } }] })
}

#[tokio::test]
async fn chat_completions_end_with_a_reason_or_with_their_mark() {
    use ModelErrorKind::{Cut, Overflow, Unusable};
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 4 });
    let counting = |delta: Value| {
        let mut piece = chat(delta, Value::Null);
        piece["usage"] = usage.clone();
        piece
    };
    let counts = json!({ "choices": [], "usage": usage });
    let ended = |word: Value| chat(json!({}), word);
    let native = |word: &str, native: &str| {
        let mut piece = ended(json!(word));
        piece["choices"][0]["native_finish_reason"] = json!(native);
        piece
    };
    let done = |events: &[Value]| sse(events) + "data: [DONE]\n\n";
    let stop = ended(json!("stop"));
    for (name, body, expected) in [
        ("counts beside each piece", sse(&[counting(json!({ "content": "Half" }))]), Err(Cut)),
        ("counts with an empty piece", sse(&[counting(json!({})), half()]), Err(Cut)),
        ("counts first", sse(&[counts.clone(), half()]), Err(Cut)),
        ("counts last", sse(&[half(), counts.clone()]), Err(Cut)),
        ("a mark", done(&[half()]), Ok(StopReason::EndTurn)),
        ("a mark behind nothing", done(&[]), Err(Cut)),
        ("a mark behind counts", done(std::slice::from_ref(&counts)), Err(Cut)),
        ("a mark behind half a call", done(&[chat(call("{\"file"), Value::Null)]), Err(Cut)),
        ("a mark behind a call", done(&[chat(call("{}"), Value::Null)]), Ok(StopReason::ToolUse)),
        ("a word for no reason", sse(&[half(), ended(json!("null"))]), Err(Cut)),
        ("a reason too early", sse(&[stop.clone(), half()]), Err(Cut)),
        ("and then another", sse(&[stop.clone(), half(), stop.clone()]), Ok(StopReason::EndTurn)),
        (
            "a limit, more text and a mark",
            done(&[ended(json!("length")), half()]),
            Ok(StopReason::MaxTokens),
        ),
        ("calls and `stop`", sse(&[chat(call("{}"), json!("stop"))]), Ok(StopReason::ToolUse)),
        ("no call and `tool_calls`", sse(&[half(), ended(json!("tool_calls"))]), Err(Unusable)),
        ("a failure behind calls", sse(&[chat(call("{}"), json!("network_error"))]), Err(Cut)),
        (
            "an upstream limit",
            sse(&[half(), native("stop", "MAX_TOKENS")]),
            Ok(StopReason::MaxTokens),
        ),
        ("an upstream failure", sse(&[half(), native("stop", "network_error")]), Err(Cut)),
        ("an upstream word", sse(&[half(), native("stop", "jumped")]), Ok(StopReason::EndTurn)),
        ("a full context", sse(&[half(), ended(json!("model_length"))]), Err(Overflow)),
        (
            "an error that is none",
            {
                let mut piece = half();
                piece["error"] = json!("");
                piece["choices"][0]["error"] = Value::Null;
                sse(&[piece, stop.clone()])
            },
            Ok(StopReason::EndTurn),
        ),
    ] {
        check(Kind::Chat, name, &body, expected).await;
    }
}

#[tokio::test]
async fn responses_end_with_their_last_event_only() {
    use ModelErrorKind::{Cut, Overflow, Unusable};
    let text = json!({ "type": "response.output_text.delta", "item_id": "m", "output_index": 0,
        "content_index": 0, "delta": "Half" });
    let ended = |event: &str, response: Value| json!({ "type": event, "response": response });
    let incomplete = |reason: &str| {
        let details = json!({ "reason": reason });
        let response = json!({ "status": "incomplete", "incomplete_details": details });
        ended("response.incomplete", response)
    };
    let completed = ended("response.completed", json!({ "status": "completed" }));
    for (name, last, expected) in [
        ("completed", completed.clone(), Ok(StopReason::EndTurn)),
        ("a limit", incomplete("max_output_tokens"), Ok(StopReason::MaxTokens)),
        ("a filter", incomplete("content_filter"), Ok(StopReason::Refusal)),
        ("a full context", incomplete("context_length_exceeded"), Err(Overflow)),
        ("a failure", incomplete("server_error"), Err(Cut)),
        ("incomplete and yet `stop`", incomplete("stop"), Err(Cut)),
        ("an unknown reason", incomplete("jumped"), Err(Unusable)),
        ("failed", ended("response.failed", json!({ "status": "failed" })), Err(Cut)),
        ("cancelled", ended("response.cancelled", json!({})), Err(Cut)),
        (
            "completed, says the event alone",
            ended("response.completed", json!({ "status": "failed" })),
            Err(Cut),
        ),
        ("nothing", json!({ "type": "ping" }), Err(Cut)),
    ] {
        check(Kind::Responses, name, &sse(&[text.clone(), last]), expected).await;
    }
    let marked = sse(std::slice::from_ref(&text)) + "data: [DONE]\n\n";
    check(Kind::Responses, "a mark", &marked, Err(Cut)).await;
    for (status, expected) in
        [("completed", Ok(StopReason::EndTurn)), ("in_progress", Err(Cut)), ("queued", Err(Cut))]
    {
        let output = json!([{ "type": "message", "id": "m", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Hi" }] }]);
        let body = json!({ "object": "response", "status": status, "output": output }).to_string();
        let ends = answer(Kind::Responses, "application/json", &body).await;
        assert_eq!(ends.map_err(|error| error.kind), expected, "{status}");
    }
}

#[tokio::test]
async fn messages_end_with_a_stop_reason_or_with_their_last_event() {
    use ModelErrorKind::{Cut, Overflow, Unusable};
    let start = |reason: Value| {
        json!({ "type": "message_start", "message": { "type": "message", "role": "assistant",
            "content": [], "stop_reason": reason, "usage": { "input_tokens": 3 } } })
    };
    let text = json!({ "type": "content_block_delta", "index": 0,
        "delta": { "type": "text_delta", "text": "Half" } });
    let stop =
        |reason: &str| json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
    let over = json!({ "type": "message_stop" });
    let none = || start(Value::Null);
    for (name, events, expected) in [
        (
            "both",
            vec![none(), text.clone(), stop("end_turn"), over.clone()],
            Ok(StopReason::EndTurn),
        ),
        ("no last event", vec![none(), text.clone(), stop("end_turn")], Ok(StopReason::EndTurn)),
        ("no reason", vec![none(), text.clone(), over.clone()], Ok(StopReason::EndTurn)),
        ("neither", vec![none(), text.clone()], Err(Cut)),
        ("nothing", vec![none(), over.clone()], Err(Cut)),
        ("a reason at the start", vec![start(json!("end_turn")), text.clone()], Err(Cut)),
        ("a reason too early", vec![none(), stop("end_turn"), text.clone()], Err(Cut)),
        ("a limit", vec![none(), text.clone(), stop("max_tokens")], Ok(StopReason::MaxTokens)),
        ("withheld", vec![none(), text.clone(), stop("refusal")], Ok(StopReason::Refusal)),
        ("paused", vec![none(), text.clone(), stop("pause_turn"), over.clone()], Err(Cut)),
        (
            "a full context",
            vec![none(), text.clone(), stop("model_context_window_exceeded"), over.clone()],
            Err(Overflow),
        ),
        (
            "an unknown reason",
            vec![none(), text.clone(), stop("jumped"), over.clone()],
            Err(Unusable),
        ),
        ("no call", vec![none(), text.clone(), stop("tool_use"), over.clone()], Err(Unusable)),
    ] {
        check(Kind::Anthropic, name, &sse(&events), expected).await;
    }
}

#[tokio::test]
async fn an_error_is_one_in_whatever_shape_it_comes() {
    const SHAPES: [&str; 12] = [
        r#"data: {"error":{"message":"out of order"}}"#,
        r#"data: {"error":"out of order"}"#,
        r#"data: {"message":"out of order","code":"x"}"#,
        r#"data: {"detail":"out of order"}"#,
        r#"data: {"object":"error","message":"out of order","code":500}"#,
        r#"data: {"type":"server_error","message":"out of order"}"#,
        r#"data: {"error_code":18,"error_msg":"out of order"}"#,
        r#"data: {"base_resp":{"status_code":1000,"status_msg":"out of order"}}"#,
        r#"data: [{"error":{"code":500,"message":"out of order"}}]"#,
        "event: error\ndata: out of order",
        "event: error\ndata: {\"message\":\"out of order\"}",
        "event: error\ndata: {\"type\":\"overloaded\",\"error\":{\"message\":\"out of order\"}}",
    ];
    let halves = [
        (Kind::Chat, half()),
        (
            Kind::Responses,
            json!({ "type": "response.output_text.delta", "item_id": "m", "delta": "Half" }),
        ),
        (
            Kind::Anthropic,
            json!({ "type": "content_block_delta", "index": 0, "delta": { "text": "Half" } }),
        ),
    ];
    for (kind, half) in halves {
        for shape in SHAPES {
            check_said(kind, &format!("{shape}\n\n"), "text/event-stream").await;
            let behind = sse(std::slice::from_ref(&half)) + shape + "\n\ndata: [DONE]\n\n";
            check_said(kind, &behind, "text/event-stream").await;
            if let Some(body) = shape.strip_prefix("data: ") {
                // An error with a good status, and under a wrong type.
                for content_type in ["application/json", "text/event-stream", "text/plain"] {
                    check_said(kind, body, content_type).await;
                }
            }
        }
    }
    let in_choice = json!({ "choices": [{ "index": 0, "delta": {},
        "error": { "message": "out of order", "code": 502 }, "finish_reason": "error" }] });
    check_said(Kind::Chat, &sse(&[half(), in_choice]), "text/event-stream").await;
}

#[tokio::test]
async fn a_whole_answer_is_read_under_whatever_type_it_comes() {
    let chat = json!({ "choices": [{ "index": 0, "finish_reason": "stop",
        "message": { "role": "assistant", "content": "Hi" } }] });
    let responses = json!({ "object": "response", "status": "completed", "output": [
        { "type": "message", "id": "m", "content": [{ "type": "output_text", "text": "Hi" }] }] });
    let anthropic = json!({ "type": "message", "role": "assistant", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "Hi" }] });
    for (kind, body) in
        [(Kind::Chat, chat), (Kind::Responses, responses), (Kind::Anthropic, anthropic)]
    {
        for content_type in ["application/json", "text/event-stream", "text/plain", "text/html"] {
            let ends = answer(kind, content_type, &body.to_string()).await;
            assert_eq!(ends, Ok(StopReason::EndTurn), "{kind:?} {content_type}");
        }
        let half = &body.to_string()[..40];
        let error = answer(kind, "application/json", half).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Cut, "{error}");
    }
}
