//! The Chat Completions client against a real socket: whatever servers send,
//! the client gives an answer or an error that says what to do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use async_openai::types::chat::{CreateChatCompletionRequest, CreateChatCompletionStreamResponse};
use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tine::config::{OutputLimitKey, Quirks};
use tine::event::UnitId;
use tine::message::{
    Call, Head, Image, ImageKind, Message, Output, Prefix, Reply, StopReason, ToolSchema, Usage,
};
use tine::model::http::{ANSWER_CAP, ERROR_TEXT_CAP};
use tine::model::served::{Served, ServedSettings, SettingsError};
use tine::model::{
    Answer, Asker, Chunk, Model, ModelError, ModelErrorKind, Purpose, Request, check,
};

use crate::support::server::{End, Keep, Piece, Reaction, Server, events};

/// Too short for anything but a server that keeps silent for good.
const SHORT: Duration = Duration::from_millis(30);

/// What is said when nothing came for so long, before the answer and in it.
const NO_HEADERS: &str = "no answer from `URL` within 0.03 s";
const NO_FIRST: &str = "no piece of an answer from `URL` within 0.03 s";
const NO_MORE: &str = "the answer of `URL` stopped: nothing came for 0.03 s";

const DONE: &str = "[DONE]";
const BOM: char = '\u{feff}';
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;

fn settings(base_url: &str) -> ServedSettings {
    ServedSettings::new("test", "served-model", base_url)
}

pub(crate) fn prefix() -> Prefix {
    let read = ToolSchema {
        name: "Read".into(),
        description: "Reads a file.".into(),
        parameters: serde_json::value::RawValue::from_string(r#"{"type":"object"}"#.into())
            .expect("valid JSON"),
    };
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), vec![read])));
    prefix.push(Message::User("What is in a?".into()));
    prefix
}

pub(crate) fn request(prefix: &Prefix, turn: u32) -> Request {
    let (unit, agent, description) = (UnitId(3), "explore".into(), "a".into());
    let (purpose, is_afresh) = (Purpose::Turn, turn == 1);
    let asker =
        Asker { unit, agent, description, purpose, turn, attempt: 1, is_afresh, forked_from: None };
    Request { prefix: prefix.clone(), asker, text_schema: None }
}

/// Asks, and checks that the pieces add up to the answer and nothing follows.
pub(crate) async fn ask(model: &Served, request: Request) -> Result<Answer, ModelError> {
    let mut stream = model.respond(request);
    let (mut text, mut thinking) = (String::new(), String::new());
    let last = loop {
        match stream.next().await.expect("a stream ends in an answer or an error") {
            Ok(Chunk::Text(piece)) => text.push_str(&piece),
            Ok(Chunk::Thinking(piece)) => thinking.push_str(&piece),
            Ok(Chunk::SentTwice(notice)) => panic!("{notice}"),
            Ok(Chunk::Finished(answer)) => break Ok(*answer),
            Err(error) => break Err(error),
        }
    };
    assert!(stream.next().await.is_none());
    if let Ok(answer) = &last {
        assert_eq!((&answer.reply.text, &answer.reply.thinking), (&text, &thinking));
    }
    last
}

type Expected = Result<Answer, (ModelErrorKind, String)>;

async fn check(name: &str, reaction: Reaction, expected: Expected) {
    check_with(name, reaction, |_| {}, expected).await;
}

async fn check_with(
    name: &str,
    reaction: Reaction,
    change: impl FnOnce(&mut ServedSettings),
    expected: Expected,
) {
    let server = Server::start(move |_| reaction.clone());
    let mut settings = settings(&server.base_url());
    change(&mut settings);
    let answer = ask(&Served::new(settings).expect("usable settings"), request(&prefix(), 2)).await;
    let url = server.base_url();
    let host = url.replace("http://", "").replace("/v1", "");
    let told = |error: ModelError| error.message.replace(&url, "URL").replace(&host, "HOST");
    let answer = answer.map_err(|error| (error.kind, told(error)));
    assert_eq!(answer, expected, "{name}");
    // None at all if the time was up before the server looked.
    assert!(server.finish().len() <= 1, "{name}: one request, no retries");
}

fn text(text: &str) -> Answer {
    let reply = Reply { text: text.into(), ..Reply::default() };
    Answer { reply, usage: Usage::default(), stop: StopReason::EndTurn }
}

fn calls(calls: &[(&str, &str, &str)]) -> Answer {
    let calls = calls
        .iter()
        .map(|(id, tool, arguments)| Call {
            id: (*id).into(),
            tool: (*tool).into(),
            arguments: (*arguments).into(),
        })
        .collect();
    let reply = Reply { calls, ..Reply::default() };
    Answer { reply, usage: Usage::default(), stop: StopReason::ToolUse }
}

fn failed(kind: ModelErrorKind, message: &str) -> Expected {
    Err((kind, message.into()))
}

/// A stream of events with the given data.
fn sse(data: &[&str]) -> Reaction {
    Reaction::stream(data.iter().map(|data| format!("data: {data}\n\n")).collect::<String>())
}

/// A stream of deltas that ends as it should.
fn deltas(deltas: &[&str]) -> Reaction {
    let events: Vec<_> = deltas.iter().map(|delta| in_choice(delta)).collect();
    let data: Vec<_> = events.iter().map(String::as_str).chain([STOP, DONE]).collect();
    sse(&data)
}

fn in_choice(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

/// A stream of tool-call deltas that ends as it should.
fn call_deltas(pieces: &[&str]) -> Reaction {
    let pieces: Vec<_> =
        pieces.iter().map(|piece| format!(r#"{{"tool_calls":[{piece}]}}"#)).collect();
    deltas(&pieces.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn a_usual_answer_is_read_whole() {
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    check("text", Reaction::text_reply("Grüße"), Ok(Answer { usage, ..text("Grüße") })).await;
    let calling = Reaction::call_reply(&[
        ("Read", json!({ "path": "a" })),
        ("Bash", json!({ "command": "ls" })),
    ]);
    let expected =
        calls(&[("call_a", "Read", r#"{"path":"a"}"#), ("call_b", "Bash", r#"{"command":"ls"}"#)]);
    check("calls", calling, Ok(Answer { usage, ..expected })).await;
}

#[tokio::test]
async fn text_is_read_however_its_events_are_framed() {
    let hello = || Ok(text("Hello"));
    let hel = in_choice(r#"{"content":"Hel"}"#);
    let lo = in_choice(r#"{"content":"lo"}"#);
    let rows = [
        (
            "CRLF line ends, comments and other fields",
            Reaction::stream(format!(
                ": hi\r\n\r\nid: 1\r\nretry: 5\r\ndata: {hel}\r\n\r\n: more\r\n\
                 event: message\r\ndata:{lo}\r\n\r\ndata: {STOP}\r\n\r\ndata: [DONE]\r\n\r\n"
            )),
        ),
        ("empty events and a padded end mark", sse(&["", &hel, " ", &lo, STOP, "[DONE] "])),
        ("a ping event", sse(&[r#"{"type":"ping"}"#, &hel, &lo, STOP, DONE])),
        ("no end mark", sse(&[&hel, &lo, STOP])),
        ("an end mark alone", sse(&[&hel, &lo, DONE])),
        (
            "an end mark, after which nothing is read",
            Reaction::pieces(
                [format!("data: {hel}\n\ndata: {lo}\n\ndata:[DONE] \n"), "data: {oops\n\n".into()],
                End::Hang,
            ),
        ),
        (
            "an end mark without blank lines before and after",
            Reaction::stream(format!("data: {hel}\n\ndata: {lo}\ndata: [DONE]")),
        ),
        (
            "a byte order mark",
            Reaction::stream(format!("{BOM}data: {hel}\n\ndata: {lo}\n\ndata: {STOP}\n\n")),
        ),
        (
            "carriage returns alone",
            Reaction::stream(format!("data: {hel}\r\rdata: {lo}\r\rdata: {STOP}\r\r")),
        ),
        (
            "a last event without its blank line",
            Reaction::stream(format!("data: {hel}\n\ndata: {lo}\n\ndata: {STOP}\n")),
        ),
        (
            "a last event without any line end",
            Reaction::stream(format!("data: {hel}\n\ndata: {lo}\n\ndata: {STOP}")),
        ),
        (
            "an odd content type",
            Reaction::Stream {
                content_type: "text/plain; charset=utf-8",
                pieces: vec![format!("data: {hel}\n\ndata: {lo}\n\ndata: {STOP}\n\n").into()],
                end: End::Whole,
            },
        ),
        (
            "a connection that breaks after the end",
            Reaction::pieces([format!("data: {hel}\n\ndata: {lo}\n\ndata: {STOP}\n\n")], End::Cut),
        ),
    ];
    for (name, reaction) in rows {
        check(name, reaction, hello()).await;
    }
}

#[tokio::test]
async fn a_stream_that_is_called_json_is_read_as_a_stream() {
    let events = format!("data: {}\n\ndata: {STOP}\n\n", in_choice(r#"{"content":"Hello"}"#));
    let named = |pieces: Vec<Vec<u8>>| Reaction::Stream {
        content_type: "application/json; charset=utf-8",
        pieces: pieces.into_iter().map(Into::into).collect(),
        end: End::Whole,
    };
    for start in ["", ": wait\n\n", "event: message\n", "id: 1\n", "\u{feff}", "\r\n"] {
        let bytes = format!("{start}{events}").into_bytes();
        let letters = bytes.iter().map(|&byte| vec![byte]).collect();
        check(start, named(vec![bytes]), Ok(text("Hello"))).await;
        check(start, named(letters), Ok(text("Hello"))).await;
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    let event = in_choice(r#"{"content":"Grüße 🦀"}"#);
    let mut bytes = format!("data: {event}\n\ndata: {STOP}\n\n").into_bytes();
    let crab = bytes.windows(4).position(|four| four == "🦀".as_bytes());
    bytes.remove(crab.expect("the crab is there") + 3);
    let expected = || Ok(text("Grüße \u{fffd}"));
    check("in one piece", Reaction::stream(bytes.clone()), expected()).await;
    check("byte by byte", Reaction::byte_by_byte(&bytes), expected()).await;
}

#[tokio::test]
async fn a_long_event_is_read_and_an_endless_one_is_stopped() {
    let long = "x".repeat(3 << 20);
    let event = format!("data: {}\n\n", in_choice(&format!(r#"{{"content":"{long}"}}"#)));
    let end = format!("data: {STOP}\n\n");
    let pieces = event.as_bytes().chunks(4096).chain([end.as_bytes()]);
    check("long", Reaction::pieces(pieces, End::Whole), Ok(text(&long))).await;
    let stopped = || failed(ModelErrorKind::Request, "`URL` sent a piece of more than 4 MiB");
    let line = "x".repeat(64 * 1024);
    let pieces = std::iter::once("data: ").chain(std::iter::repeat_n(&*line, 65));
    check("no line end", Reaction::pieces(pieces, End::Hang), stopped()).await;
    let line = format!("data: {line}\n");
    let pieces = std::iter::repeat_n(&*line, 65);
    check("no blank line", Reaction::pieces(pieces, End::Hang), stopped()).await;
}

#[tokio::test]
async fn text_is_found_whatever_stands_around_it() {
    let hello = || Ok(text("Hello"));
    let hel = in_choice(r#"{"content":"Hel"}"#);
    let lo = in_choice(r#"{"content":"lo"}"#);
    let rows = [
        (
            "null in every place",
            deltas(&[
                r#"{"role":null,"content":null,"tool_calls":null,"reasoning":null,"refusal":null}"#,
                r#"{"content":"Hello"}"#,
            ]),
        ),
        ("unknown fields", deltas(&[r#"{"content":"Hello","annotations":[{"x":{"y":[1]}}]}"#])),
        (
            "parts",
            deltas(&[
                r#"{"content":[{"type":"text","text":"Hel"},{"type":"image_url","image_url":{}}]}"#,
                r#"{"content":["l",{"text":"o"}]}"#,
            ]),
        ),
        (
            "no choice's number",
            sse(&[
                r#"{"choices":[{"delta":{"content":"Hello"}}]}"#,
                r#"{"choices":[{"finish_reason":"stop"}]}"#,
            ]),
        ),
        (
            "choices and errors that are null",
            sse(&[
                r#"{"choices":null,"error":null}"#,
                r#"{"choices":[],"usage":null}"#,
                &hel,
                &lo,
                STOP,
            ]),
        ),
        (
            "a second choice",
            sse(&[&hel, r#"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#, &lo, STOP]),
        ),
    ];
    for (name, reaction) in rows {
        check(name, reaction, hello()).await;
    }
}

#[tokio::test]
async fn reasoning_is_kept_apart_from_the_text() {
    let thinking = |thinking: &str| {
        let reply = Reply { thinking: thinking.into(), ..text("Hi").reply };
        Ok(Answer { reply, ..text("Hi") })
    };
    let rows = [
        ("reasoning_content", [r#"{"reasoning_content":"Hm"}"#, r#"{"content":"Hi"}"#]),
        ("reasoning", [r#"{"reasoning":"Hm","content":""}"#, r#"{"content":"Hi"}"#]),
        ("both", [r#"{"reasoning":"Hm","reasoning_content":"Hm"}"#, r#"{"content":"Hi"}"#]),
    ];
    for (name, pieces) in rows {
        check(name, deltas(&pieces), thinking("Hm")).await;
    }
}

#[tokio::test]
async fn the_pieces_of_a_call_find_together() {
    let first = r#""function":{"name":"Read","arguments":"{\"path\""}}"#;
    let second = r#""function":{"arguments":":\"a\"}"}}"#;
    let named = r#""function":{"name":"Read","arguments":":\"a\"}"}}"#;
    let rows = [
        (
            "the usual form",
            [r#"{"index":0,"id":"x","type":"function","#, first],
            [r#"{"index":0,"#, second],
        ),
        (
            "name and id in each",
            [r#"{"index":0,"id":"x","#, first],
            [r#"{"index":0,"id":"x","#, named],
        ),
        ("neither index nor id", [r#"{"id":"x","#, first], [r#"{"#, second]),
        ("a name in each", [r#"{"id":"x","#, first], [r#"{"id":null,"#, named]),
        ("the id in each", [r#"{"id":"x","#, first], [r#"{"id":"x","#, second]),
        (
            "another id in each",
            [r#"{"index":0,"id":"x","#, first],
            [r#"{"index":0,"id":"y","#, second],
        ),
        ("an index in quotes", [r#"{"index":"0","id":"x","#, first], [r#"{"index":0,"#, second]),
        ("the id at last", [r#"{"index":0,"#, first], [r#"{"index":0,"id":"x","#, second]),
    ];
    for (name, one, other) in rows {
        let reaction = call_deltas(&[&one.concat(), &other.concat()]);
        check(name, reaction, Ok(calls(&[("x", "Read", r#"{"path":"a"}"#)]))).await;
    }
}

#[tokio::test]
async fn a_call_in_one_piece_is_read() {
    let rows = [
        r#"{"index":0,"id":"x","function":{"name":"Read","arguments":"{\"path\":\"a\"}"}}"#,
        r#"{"index":0,"id":"x","function":{"name":"Read","arguments":{"path":"a"}}}"#,
        r#"{"id":"x","function":{"name":"Read","arguments":{"path":"a"}}}"#,
    ];
    for piece in rows {
        let expected = Ok(calls(&[("x", "Read", r#"{"path":"a"}"#)]));
        check(piece, call_deltas(&[piece]), expected).await;
    }
}

#[tokio::test]
async fn a_call_under_its_old_name_is_read() {
    let expected = || Ok(calls(&[("call_3_2_0", "Read", r#"{"path":"a"}"#)]));
    let pieces = [
        r#"{"function_call":{"name":"Read","arguments":""}}"#,
        r#"{"function_call":{"arguments":"{\"path\""}}"#,
        r#"{"function_call":{"arguments":":\"a\"}"}}"#,
        r#"{"content":"","function_call":null}"#,
    ];
    check("in pieces", deltas(&pieces), expected()).await;
    let message = json!({ "choices": [{ "finish_reason": "function_call", "message": {
        "content": null,
        "function_call": { "name": "Read", "arguments": r#"{"path":"a"}"# } } }] });
    check("whole", Reaction::json(200, &message), expected()).await;
    let function = r#"{"name":"Read","arguments":"{\"path\":\"a\"}"}"#;
    let both = format!(
        r#"{{"function_call":{function},"tool_calls":[{{"id":"x","function":{function}}}]}}"#
    );
    check("twice", deltas(&[&both]), Ok(calls(&[("x", "Read", r#"{"path":"a"}"#)]))).await;
    let none = r#"{"content":"Hi","function_call":{"name":null,"arguments":""}}"#;
    check("an empty one", deltas(&[none]), Ok(text("Hi"))).await;
}

#[tokio::test]
async fn several_calls_stay_apart() {
    let (a, b) = (r#"{"path":"a"}"#, r#"{"path":"b"}"#);
    let named = |first: &str, second: &str| Ok(calls(&[(first, "Read", a), (second, "Read", b)]));
    let read = |path: &str| {
        format!(r#""function":{{"name":"Read","arguments":"{{\"path\":\"{path}\"}}"}}"#)
    };
    let (read_a, read_b) = (read("a"), read("b"));
    let in_one = |first: &str, second: &str| {
        deltas(&[&format!(r#"{{"tool_calls":[{{{first}{read_a}}},{{{second}{read_b}}}]}}"#)])
    };
    let rows = [
        ("by index", in_one(r#""index":0,"id":"x","#, r#""index":1,"id":"y","#), named("x", "y")),
        ("by id alone", in_one(r#""id":"x","#, r#""id":"y","#), named("x", "y")),
        ("by nothing", in_one("", ""), named("call_3_2_0", "call_3_2_1")),
        ("empty ids", in_one(r#""id":"","#, r#""id":"","#), named("call_3_2_0", "call_3_2_1")),
        (
            "every index 0",
            in_one(r#""index":0,"id":"x","#, r#""index":0,"id":"y","#),
            named("x", "y"),
        ),
        (
            "one id for both",
            in_one(r#""index":0,"id":"x","#, r#""index":1,"id":"x","#),
            named("x", "call_3_2_1"),
        ),
    ];
    for (name, reaction, expected) in rows {
        check(name, reaction, expected).await;
    }
    let turns = call_deltas(&[
        r#"{"index":0,"id":"x","function":{"name":"Read","arguments":"{\"path\""}}"#,
        r#"{"index":1,"id":"y","function":{"name":"Read","arguments":"{\"path\""}}"#,
        r#"{"index":0,"function":{"arguments":":\"a\"}"}}"#,
        r#"{"index":1,"function":{"arguments":":\"b\"}"}}"#,
    ]);
    check("taking turns", turns, named("x", "y")).await;
}

#[tokio::test]
async fn a_call_is_kept_whatever_is_wrong_with_it() {
    let rows = [
        ("no name", r#"{"index":0,"id":"x","function":{"arguments":"{}"}}"#, ("x", "", "{}")),
        ("no function", r#"{"index":0,"id":"x"}"#, ("x", "", "")),
        ("no arguments", r#"{"id":"x","function":{"name":"Read"}}"#, ("x", "Read", "")),
        (
            "broken arguments",
            r#"{"id":"x","function":{"name":"Read","arguments":"{\"p"}}"#,
            ("x", "Read", "{\"p"),
        ),
        ("a number for an id", r#"{"id":7,"function":{"name":"Read"}}"#, ("7", "Read", "")),
    ];
    for (name, piece, expected) in rows {
        check(name, call_deltas(&[piece]), Ok(calls(&[expected]))).await;
    }
}

#[tokio::test]
async fn tokens_are_counted_wherever_they_stand() {
    let counted = |input, output| {
        let usage = Usage { input, output, ..Usage::default() };
        Ok(Answer { usage, ..text("Hi") })
    };
    let hi = in_choice(r#"{"content":"Hi"}"#);
    let rows = [
        ("nowhere", sse(&[&hi, STOP, DONE]), counted(0, 0)),
        (
            "last, without choices",
            sse(&[
                &hi,
                STOP,
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
                DONE,
            ]),
            counted(7, 2),
        ),
        (
            "last, with choices missing",
            sse(&[&hi, STOP, r#"{"usage":{"prompt_tokens":7,"completion_tokens":2}}"#]),
            counted(7, 2),
        ),
        (
            "in every piece, the last one counts",
            sse(&[
                r#"{"choices":[{"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
            ]),
            counted(7, 2),
        ),
        (
            "no reason for the end, but counts and a mark",
            sse(&[
                r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":""}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":""}],"usage":{"prompt_tokens":7.0,"completion_tokens":null}}"#,
                DONE,
            ]),
            counted(7, 0),
        ),
    ];
    for (name, reaction, expected) in rows {
        check(name, reaction, expected).await;
    }
}

#[tokio::test]
async fn cached_tokens_are_not_counted_twice() {
    let usage = Usage { input: 2, output: 2, cache_read: 5, ..Usage::default() };
    let hi = in_choice(r#"{"content":"Hi"}"#);
    let rows = [
        r#""prompt_tokens_details":{"cached_tokens":5}"#,
        r#""prompt_tokens_details":null,"prompt_cache_hit_tokens":5"#,
    ];
    for cached in rows {
        let counts = format!(r#"{{"usage":{{"prompt_tokens":7,"completion_tokens":2,{cached}}}}}"#);
        check(cached, sse(&[&hi, STOP, &counts]), Ok(Answer { usage, ..text("Hi") })).await;
    }
}

#[tokio::test]
async fn the_reason_for_the_end_is_read_from_reason_and_calls() {
    let ended =
        |reason: &str| format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
    let hi = in_choice(r#"{"content":"Hi"}"#);
    let rows = [
        ("stop", StopReason::EndTurn),
        ("eos_token", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal),
        ("content_filter: SAFETY", StopReason::Refusal),
        ("MAX_TOKENS", StopReason::MaxTokens),
    ];
    for (reason, stop) in rows {
        check(reason, sse(&[&hi, &ended(reason)]), Ok(Answer { stop, ..text("Hi") })).await;
    }
    let refusal = deltas(&[r#"{"refusal":"No."}"#]);
    check("refusal", refusal, Ok(Answer { stop: StopReason::Refusal, ..text("No.") })).await;
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let message = json!({
        "choices": [{ "index": 0, "finish_reason": "stop", "message": {
            "role": "assistant", "content": "Hi", "tool_calls": null } }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 2 },
    });
    let usage = Usage { input: 7, output: 2, ..Usage::default() };
    check("text", Reaction::json(200, &message), Ok(Answer { usage, ..text("Hi") })).await;
    let message = json!({ "choices": [{ "message": { "content": "", "tool_calls": [
        { "id": "x", "function": { "name": "Read", "arguments": "{}" } },
        { "id": "y", "function": { "name": "Bash", "arguments": {} } },
    ] } }] });
    let expected = calls(&[("x", "Read", "{}"), ("y", "Bash", "{}")]);
    check("calls, no reason", Reaction::json(200, &message), Ok(expected)).await;
    let rows = [
        ("no choices", "{\"id\": 1}", "the answer holds no message: {\"id\": 1}"),
        ("no JSON", "oops", "the answer cannot be read: oops"),
    ];
    for (name, body, expected) in rows {
        let reaction = Reaction::status(200, "application/json", body);
        check(name, reaction, failed(ModelErrorKind::Cut, expected)).await;
    }
}

#[tokio::test]
async fn an_error_body_is_read_in_every_form() {
    use ModelErrorKind::{Authentication, Overloaded, RateLimited, Request};
    let spoken = |code, body: &str| Reaction::status(code, "application/json", body);
    let rows = [
        (
            "the usual form",
            spoken(401, r#"{"error":{"message":"bad key","type":"x","code":"invalid_api_key"}}"#),
            failed(Authentication, "HTTP 401: bad key"),
        ),
        (
            "a number for the code",
            spoken(429, r#"{"error":{"message":"slow down","code":429}}"#),
            failed(RateLimited, "HTTP 429: slow down"),
        ),
        ("a text", spoken(400, r#"{"error":"too odd"}"#), failed(Request, "HTTP 400: too odd")),
        (
            "no error key",
            spoken(503, r#"{"message":"busy"}"#),
            failed(Overloaded, "HTTP 503: busy"),
        ),
        (
            "detail",
            spoken(404, r#"{"detail":"Not Found"}"#),
            failed(Request, "HTTP 404: Not Found"),
        ),
        (
            "detail as a list",
            spoken(422, r#"{"detail":[{"msg":"bad"}]}"#),
            failed(Request, r#"HTTP 422: [{"msg":"bad"}]"#),
        ),
        ("nothing", spoken(500, ""), failed(Overloaded, "HTTP 500")),
        (
            "null",
            spoken(500, r#"{"error":null}"#),
            failed(Overloaded, r#"HTTP 500: {"error":null}"#),
        ),
    ];
    for (name, reaction, expected) in rows {
        check(name, reaction, expected).await;
    }
}

#[tokio::test]
async fn what_is_no_error_object_is_put_into_short_words() {
    use ModelErrorKind::{Overflow, Overloaded, RateLimited, Request};
    let rows = [
        (
            "plain words",
            Reaction::status(529, "text/plain", " over\n  loaded "),
            failed(RateLimited, "HTTP 529: over loaded"),
        ),
        (
            "a web page",
            Reaction::status(502, "text/html; charset=utf-8", "<html><body>nginx</body></html>"),
            failed(
                Overloaded,
                "HTTP 502: the gateway at HOST answered with \"nginx\": the server behind it does \
                 not answer",
            ),
        ),
        (
            "a web page under another name",
            Reaction::status(404, "text/plain", "\n<!DOCTYPE html><title>x</title>"),
            failed(
                Request,
                "HTTP 404: the server at HOST answered with \"x\", a web page; is `base_url` right?",
            ),
        ),
        (
            "a web page as an answer",
            Reaction::status(200, "text/html", "<html></html>"),
            failed(Request, "`URL` answered with a web page, not a model; is `base_url` right?"),
        ),
        (
            "long words",
            Reaction::status(413, "text/plain", "x".repeat(300_000)),
            failed(Overflow, &format!("HTTP 413: {}…", "x".repeat(500))),
        ),
        (
            "a redirect",
            Reaction::Status {
                code: 307,
                headers: vec![("location".into(), "http://localhost:1/v1".into())],
                body: Vec::new(),
            },
            failed(
                Request,
                "HTTP 307: the server points to `http://localhost:1/v1`; set `base_url` to it",
            ),
        ),
    ];
    for (name, reaction, expected) in rows {
        check(name, reaction, expected).await;
    }
}

#[tokio::test]
async fn every_status_has_its_kind() {
    use ModelErrorKind::{Authentication, Overflow, Overloaded, RateLimited, Request};
    let rows: [(ModelErrorKind, &[u16]); 5] = [
        (Authentication, &[401, 403]),
        (Request, &[400, 404, 405, 422]),
        (Overflow, &[413]),
        (Overloaded, &[408, 409, 425, 500, 502, 503, 504]),
        (RateLimited, &[429, 529]),
    ];
    for (kind, codes) in rows {
        for &code in codes {
            let reaction = Reaction::status(code, "text/plain", "no");
            check("status", reaction, failed(kind, &format!("HTTP {code}: no"))).await;
        }
    }
}

#[tokio::test]
async fn an_error_inside_an_answer_is_an_error() {
    use ModelErrorKind::{Authentication, Overloaded, RateLimited, Request};
    let hi = in_choice(r#"{"content":"Hi"}"#);
    let rows = [
        (r#"{"error":{"message":"boom"}}"#, Overloaded, "boom"),
        (r#"{"error":{"message":"slow","code":429}}"#, RateLimited, "slow"),
        (r#"{"error":{"message":"too odd","code":"400"},"choices":[]}"#, Request, "too odd"),
        (r#"{"error":{"message":"no","type":"invalid_request_error","code":null}}"#, Request, "no"),
        (r#"{"error":{"message":"key","type":"authentication_error"}}"#, Authentication, "key"),
        (r#"{"error":"boom"}"#, Overloaded, "boom"),
        (r#"{"object":"error","message":"bad","code":400}"#, Request, "bad"),
    ];
    for (body, kind, words) in rows {
        let expected = || failed(kind, &format!("the provider answered with an error: {words}"));
        check(body, sse(&[&hi, body]), expected()).await;
        check(body, Reaction::status(200, "application/json", body), expected()).await;
    }
    let ended = r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#;
    let expected = failed(ModelErrorKind::Cut, "the provider ended the answer with `error`");
    check("reason", sse(&[&hi, ended]), expected).await;
}

#[tokio::test]
async fn an_answer_without_an_end_is_cut() {
    let cut = || failed(ModelErrorKind::Cut, "the answer of `URL` broke off before its end");
    let hi = in_choice(r#"{"content":"Hi"}"#);
    let counting = r#"{"choices":[{"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#;
    check("text, then nothing", sse(&[&hi]), cut()).await;
    check("nothing", sse(&[]), cut()).await;
    check("only the end mark", sse(&[DONE]), cut()).await;
    check("counts beside the text", sse(&[counting]), cut()).await;
    let hello = failed(ModelErrorKind::Cut, "the answer cannot be read: hello");
    check("no events at all", Reaction::stream("hello"), hello).await;
    check(
        "a piece that is not valid JSON",
        sse(&[&hi, "{oops"]),
        failed(
            ModelErrorKind::Cut,
            "the server sent a piece that cannot be read (key must be a string at line 1 column 2): {oops",
        ),
    )
    .await;
    let broken = Reaction::pieces([format!("data: {hi}\n\n")], End::Cut);
    let words = "the answer of `URL` broke off: unexpected EOF during chunk size line";
    check("a broken connection", broken, failed(ModelErrorKind::Cut, words)).await;
}

#[tokio::test]
async fn tokens_of_an_answer_that_breaks_off_are_counted() {
    let hi = r#"{"choices":[{"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}"#;
    for end in [End::Whole, End::Cut, End::Reset, End::Hang] {
        let server = Server::start(move |_| Reaction::pieces([format!("data: {hi}\n\n")], end));
        let settings = {
            let mut settings = settings(&server.base_url());
            settings.timeouts.idle = SHORT;
            settings
        };
        let error = ask(&Served::new(settings).unwrap(), request(&prefix(), 1)).await.unwrap_err();
        assert_eq!(error.spent, Usage { input: 7, output: 1, ..Usage::default() }, "{end:?}");
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_on() {
    let hi = format!("data: {}\n\n", in_choice(r#"{"content":"Hi"}"#));
    let role = format!("data: {}\n\n", in_choice(r#"{"role":"assistant"}"#));
    let no_first = || failed(ModelErrorKind::Silent, NO_FIRST);
    let no_more = || failed(ModelErrorKind::Silent, NO_MORE);
    // The other limit stays as long as it usually is.
    let headers = |settings: &mut ServedSettings| settings.timeouts.headers = SHORT;
    let first = |settings: &mut ServedSettings| settings.timeouts.first_piece = SHORT;
    let idle = |settings: &mut ServedSettings| settings.timeouts.idle = SHORT;
    let hanging = |bytes: &str| Reaction::pieces([bytes], End::Hang);
    let no_headers = failed(ModelErrorKind::Silent, NO_HEADERS);
    check_with("nothing", Reaction::Hang, headers, no_headers).await;
    check_with("a comment", hanging(": wait\n\n"), first, no_first()).await;
    check_with("a role", hanging(&role), first, no_first()).await;
    check_with("after a piece", hanging(&hi), idle, no_more()).await;
    let open_end = format!("{hi}data: {STOP}\n\n");
    check_with("after the end", hanging(&open_end), idle, Ok(text("Hi"))).await;
}

/// Answers one request with `first` and then with `again`, for ever.
fn flood(first: String, again: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("the client connects");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let mut request = [0; 64 * 1024];
        let _ = socket.read(&mut request).expect("the client asks");
        let mut bytes = format!("{head}{first}").into_bytes();
        // Until the client has gone.
        while socket.write_all(&bytes).is_ok() {
            bytes = again.clone().into_bytes();
        }
    });
    format!("http://{address}/v1")
}

#[tokio::test]
async fn a_server_that_keeps_sending_nothing_is_given_up_on() {
    let hi = format!("data: {}\n\n", in_choice(r#"{"content":"Hi"}"#));
    let role = format!("data: {}\n\n", in_choice(r#"{"role":"assistant"}"#));
    let stop = format!("{hi}data: {STOP}\n\n");
    let check_flooded = async |first: &str, again: &str, change: fn(&mut _), expected: Expected| {
        let url = flood(first.to_owned(), again.to_owned());
        let mut settings = settings(&url);
        change(&mut settings);
        let answer = ask(&Served::new(settings).unwrap(), request(&prefix(), 1)).await;
        let answer = answer.map_err(|error| (error.kind, error.message.replace(&url, "URL")));
        assert_eq!(answer, expected, "{first}{again}");
    };
    // The other limit stays as long as it usually is.
    let short_first = |settings: &mut ServedSettings| settings.timeouts.first_piece = SHORT;
    let short_idle = |settings: &mut ServedSettings| settings.timeouts.idle = SHORT;
    for again in [&*role, "data: \n\n"] {
        let no_first = failed(ModelErrorKind::Silent, NO_FIRST);
        check_flooded("", again, short_first, no_first).await;
        check_flooded(&hi, again, short_idle, failed(ModelErrorKind::Silent, NO_MORE)).await;
        check_flooded(&stop, again, short_idle, Ok(text("Hi"))).await;
    }
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_says_where_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let model = Served::new(settings(&url)).unwrap();
    let message =
        format!("nothing listens at `{url}` (connection refused); is the server running?");
    assert_eq!(
        ask(&model, request(&prefix(), 1)).await,
        Err(ModelError::new(ModelErrorKind::NotRunning, message))
    );
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
    let url = format!("https://{}/v1", listener.local_addr().expect("a bound socket has one"));
    // Nothing there speaks TLS.
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let error = ask(&Served::new(settings(&url)).unwrap(), request(&prefix(), 1)).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unreachable);
    assert!(error.message.starts_with(&format!("cannot connect to `{url}`: ")), "{error}");
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_told_apart() {
    let server = Server::start(|_| Reaction::Close);
    let model = Served::new(settings(&server.base_url())).unwrap();
    let error = ask(&model, request(&prefix(), 1)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Connection);
    let start =
        format!("the connection to `{}` broke before the answer began: ", server.base_url());
    assert!(error.message.starts_with(&start), "{error}");
}

#[tokio::test]
async fn an_endless_answer_is_stopped() {
    let piece = format!(r#"{{"content":"{}"}}"#, "x".repeat(ANSWER_CAP / 64));
    let mut pieces = vec![&*piece; 64];
    pieces.push(r#"{"content":"x"}"#);
    let reaction = deltas(&pieces);
    let expected = failed(ModelErrorKind::Request, "the answer is longer than 16 MiB");
    check("one byte too many", reaction, expected).await;
}

#[tokio::test]
async fn a_reply_is_the_same_wherever_its_bytes_are_split() {
    let first = json!({ "choices": [{ "delta": { "content": "Grüße, 世界 🦀" } }] });
    let last = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
    let bytes = events([&first, &last]);
    let expected = || Ok(text("Grüße, 世界 🦀"));
    check("byte by byte", Reaction::byte_by_byte(&bytes), expected()).await;
    let whole = bytes.clone();
    let server = Server::start(move |request| {
        let (head, tail) = whole.split_at(request.sequence + 1);
        Reaction::pieces([head, tail], End::Whole)
    });
    let model = Served::new(settings(&server.base_url())).unwrap();
    for split in 1..bytes.len() {
        let answer = ask(&model, request(&prefix(), 1)).await;
        assert_eq!(answer, Ok(text("Grüße, 世界 🦀")), "split at {split}");
    }
}

#[tokio::test]
async fn a_turn_sends_the_bytes_of_the_turn_before_and_then_its_own() {
    let server = Server::start(|request| match request.sequence {
        0 => Reaction::call_reply(&[("Read", json!({ "path": "a" })), ("", json!(3))]),
        1 => Reaction::call_reply(&[("Read", json!({ "path": "b" }))]),
        _ => Reaction::text_reply("Done."),
    });
    let model = Served::new(settings(&server.base_url())).unwrap();
    let mut prefix = prefix();
    let mut bodies = Vec::new();
    for turn in 1..=3 {
        bodies.push(model.body(&prefix));
        let answer = ask(&model, request(&prefix, turn)).await.unwrap();
        let calls = answer.reply.calls.clone();
        prefix.push(Message::Model(Arc::new(answer.reply)));
        for call in calls {
            let output = Arc::new(Output::ok("Grüße \u{1b} \"a\"\n"));
            prefix.push(Message::Output { call: call.id, output });
        }
    }
    let sent: Vec<_> = server.finish().into_iter().map(|request| request.body).collect();
    assert_eq!(sent, bodies);
    for pair in sent.windows(2) {
        assert_eq!(check::check_continues(&pair[0], &pair[1]), Ok(()));
    }
}

#[tokio::test]
async fn an_id_the_conversation_knows_is_not_used_twice() {
    let server = Server::start(|_| Reaction::call_reply(&[("Read", json!({}))]));
    let model = Served::new(settings(&server.base_url())).unwrap();
    let mut prefix = prefix();
    let mut ids = Vec::new();
    for _ in 0..3 {
        // The same turn, as when a later invocation counts from 1 again.
        let answer = ask(&model, request(&prefix, 1)).await.unwrap();
        let id = answer.reply.calls[0].id.clone();
        ids.push(id.to_string());
        prefix.push(Message::Model(Arc::new(answer.reply)));
        prefix.push(Message::Output { call: id, output: Arc::default() });
    }
    server.finish();
    assert_eq!(ids, ["call_a", "call_3_1_0", "call_3_1_1"]);
}

#[test]
fn equal_conversations_are_equal_bytes() {
    let model = || Served::new(settings("http://localhost:1/v1")).unwrap();
    assert_eq!(model().body(&prefix()), model().body(&prefix()));
}

/// A conversation with everything that can be said.
fn full_conversation() -> Prefix {
    let mut prefix = prefix();
    let call = |id: &str| Call { id: id.into(), tool: "Read".into(), arguments: "{}".into() };
    let calls = vec![call("a"), call("b")];
    prefix.push(Message::Model(Arc::new(Reply { calls, ..Reply::default() })));
    let images = vec![Image { kind: ImageKind::Png, base64: "AAAA".into() }];
    let seen = Output { images, ..Output::ok("a picture") };
    prefix.push(Message::Output { call: "a".into(), output: Arc::new(seen) });
    prefix.push(Message::Output { call: "b".into(), output: Arc::new(Output::error("no")) });
    prefix.push(Message::Model(Arc::new(text("Done.").reply)));
    prefix.push(Message::User("And b?".into()));
    prefix
}

#[test]
fn every_part_of_a_request_is_one_that_the_provider_knows() {
    let settings = ServedSettings {
        max_output_tokens: Some(900),
        effort: Some("low".into()),
        takes_images: true,
        quirks: Quirks { output_limit: OutputLimitKey::MaxCompletionTokens, ..Quirks::NONE },
        ..settings("http://localhost:1/v1")
    };
    let body = Served::new(settings).unwrap().body(&full_conversation());
    check::check(&body).unwrap();
    let mut sent: Value = serde_json::from_slice(&body).unwrap();
    let read: CreateChatCompletionRequest = serde_json::from_slice(&body).unwrap();
    // A missing content is the same as none, and the library writes it so.
    sent["messages"][2].as_object_mut().unwrap().remove("content");
    // What it does not know would be missing.
    assert_eq!(serde_json::to_value(read).unwrap(), sent);
}

#[tokio::test]
async fn an_answer_is_what_the_providers_own_types_read() {
    let said =
        Reaction::reply(Some("Hi"), &[("Read", json!({ "path": "a" })), ("Bash", json!({}))]);
    let Reaction::Stream { pieces, .. } = &said else { unreachable!("it is a stream") };
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
    let (mut text, mut arguments) = (String::new(), String::new());
    let mut counted = (0, 0);
    for data in String::from_utf8(bytes).unwrap().split("\n\n").filter(|data| !data.is_empty()) {
        let data = data.strip_prefix("data: ").expect("an event has data");
        if data == DONE {
            continue;
        }
        let read: CreateChatCompletionStreamResponse = serde_json::from_str(data).unwrap();
        for choice in read.choices {
            text.push_str(&choice.delta.content.unwrap_or_default());
            for call in choice.delta.tool_calls.into_iter().flatten() {
                arguments.push_str(&call.function.unwrap().arguments.unwrap());
            }
        }
        if let Some(usage) = read.usage {
            counted = (u64::from(usage.prompt_tokens), u64::from(usage.completion_tokens));
        }
    }
    let server = Server::start(move |_| said.clone());
    let model = Served::new(settings(&server.base_url())).unwrap();
    let answer = ask(&model, request(&prefix(), 1)).await.unwrap();
    let ours: String = answer.reply.calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!((answer.reply.text, ours), (text, arguments));
    assert_eq!((answer.usage.input, answer.usage.output), counted);
}

#[test]
fn the_limit_of_outputs_is_that_of_the_tools() {
    assert_eq!(check::OUTPUT_LIMIT, tine::tool::OUTPUT_CAP + check::OUTPUT_SLACK);
}

#[tokio::test]
async fn a_request_goes_where_it_should_with_what_it_should() {
    let server = Server::start(|_| Reaction::text_reply("Hi"));
    let settings = ServedSettings {
        key: Some(SecretString::from("secret-key")),
        max_output_tokens: Some(9),
        headers: vec![("X-Team".into(), "blue".into())],
        extra_body: [("temperature".to_owned(), json!(0))].into_iter().collect(),
        ..settings(&format!("{}/?api-version=1", server.base_url()))
    };
    ask(&Served::new(settings).unwrap(), request(&prefix(), 1)).await.unwrap();
    let requests = server.finish();
    let request = &requests[0];
    assert_eq!((&*request.method, &*request.path), ("POST", "/v1/chat/completions?api-version=1"));
    assert_eq!(request.header("authorization"), Some("Bearer secret-key"));
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    let mut body = request.json();
    let messages = body["messages"].take();
    body["tools"].take();
    assert_eq!(
        body,
        json!({ "model": "served-model", "stream": true, "temperature": 0, "max_tokens": 9,
            "stream_options": { "include_usage": true }, "tools": null, "messages": null })
    );
    assert_eq!(
        messages,
        json!([{ "role": "system", "content": "Be brief." },
            { "role": "user", "content": "What is in a?" }])
    );
}

#[tokio::test]
async fn the_key_is_in_no_text() {
    let server = Server::start(|_| Reaction::status(401, "text/plain", "unknown key secret-key"));
    let settings = ServedSettings {
        key: Some(SecretString::from("secret-key")),
        headers: vec![("x-key".into(), "secret-key".into())],
        ..settings(&server.base_url().replacen("127", "secret-key@127", 1))
    };
    assert!(!format!("{settings:?}").contains("secret-key"));
    let model = Served::new(settings).unwrap();
    assert!(!format!("{model:?}").contains("secret-key"));
    let error = ask(&model, request(&prefix(), 1)).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Authentication, Some(401)));
    assert_eq!(error.message, "HTTP 401: unknown key [key]");
    assert!(!format!("{error:?}").contains("secret-key"), "{error:?}");
}

#[tokio::test]
async fn no_cut_leaves_a_part_of_a_secret() {
    let check = async |reaction: Reaction, lead: &str| {
        let server = Server::start(move |_| reaction.clone());
        let settings = ServedSettings {
            key: Some(SecretString::from("secret-key-1")),
            headers: vec![("x-pass".into(), "secret-value-2".into())],
            ..settings(&server.base_url())
        };
        let asked = ask(&Served::new(settings).unwrap(), request(&prefix(), 1)).await;
        let message = asked.unwrap_err().message;
        assert!(message.starts_with(lead) && message.ends_with('…'), "{message}");
        assert!(!message.contains("secret"), "{message}");
    };
    for secret in ["secret-key-1", "secret-value-2"] {
        // The last characters before the cut are the secret's first.
        let quoting = |secret: &str| format!("{}{secret}{secret}", "x".repeat(ERROR_TEXT_CAP - 6));
        let words = quoting(secret);
        check(Reaction::status(401, "text/plain", words.clone()), "HTTP 401: x").await;
        let object = json!({ "error": { "message": words } }).to_string();
        let lead = "the provider answered with an error: x";
        check(sse(&[&object]), lead).await;
        check(Reaction::status(200, "application/json", object), lead).await;
        let lead =
            "the server sent a piece that cannot be read (expected value at line 1 column 1): x";
        check(sse(&[&words]), lead).await;
    }
}

#[test]
fn settings_that_cannot_be_sent_are_refused() {
    let refused = |settings| Served::new(settings).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        refused(settings("localhost:8000/v1")),
        "base URL `localhost:8000/v1` cannot be used: it must start with `http://` or `https://`"
    );
    assert_eq!(
        refused(settings("")),
        "base URL `(not a URL)` cannot be used: relative URL without a base"
    );
    let local = || settings("http://localhost:1");
    let key = Some(SecretString::from("a\nb"));
    assert_eq!(refused(ServedSettings { key, ..local() }), SettingsError::Key.to_string());
    let headers = vec![("a b".to_owned(), String::new())];
    assert_eq!(
        refused(ServedSettings { headers, ..local() }),
        "header `a b` cannot be sent: its name or its value holds a forbidden character"
    );
    let extra_body = [("messages".to_owned(), json!([]))].into_iter().collect();
    assert_eq!(
        refused(ServedSettings { extra_body, ..local() }),
        "`messages` cannot be set in the extra body"
    );
}

#[tokio::test]
async fn a_dropped_answer_ends_its_request() {
    let server = Server::start(|_| Reaction::Hang);
    let model = Served::new(settings(&server.base_url())).unwrap();
    let mut stream = model.respond(request(&prefix(), 1));
    tokio::select! {
        _ = stream.next() => unreachable!("the server keeps silent"),
        () = server.came(1) => {}
    }
    drop(stream);
    server.hung_up(1).await;
}

#[tokio::test]
async fn requests_share_a_connection() {
    let server = Server::start_keeping(Keep::Count, |_| Reaction::text_reply("Hi"));
    let model = Served::new(settings(&server.base_url())).unwrap();
    for _ in 0..3 {
        ask(&model, request(&prefix(), 1)).await.unwrap();
    }
    assert_eq!((server.count(), server.connections()), (3, 1));
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn connections_are_kept_where_the_end_comes_late() {
    /// Long enough that nobody who only looks once sees the end.
    const LATE: Duration = Duration::from_millis(12);
    let hi = in_choice(r#"{"content":"Hi"}"#);
    let answer = Piece::from(format!("data: {hi}\n\ndata: {DONE}\n\n"));
    let end = Piece { after: LATE, ..Piece::from(": over\n\n") };
    let server = Server::start_keeping(Keep::Count, move |_| Reaction::Stream {
        content_type: "text/event-stream",
        pieces: vec![answer.clone(), end.clone()],
        end: End::Whole,
    });
    let model = Served::new(settings(&server.base_url())).unwrap();
    for _ in 0..20 {
        ask(&model, request(&prefix(), 1)).await.unwrap();
    }
    // A few take turns: while one waits for its end, another works.
    let (requests, connections) = (server.count(), server.connections());
    assert!(requests == 20 && connections <= 8, "{connections} connections");
}

#[test]
fn the_server_writes_what_it_was_told_and_keeps_what_it_got() {
    let server = Server::start(|_| Reaction::Raw(vec!["HTTP/1.1 200 OK\r\n\r\nhi".into()]));
    let address = server.base_url().replace("http://", "").replace("/v1", "");
    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"PUT /x HTTP/1.1\r\nContent-Length: 2\r\n\r\nab").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    server.wait_until_came(1);
    assert_eq!(answer, "HTTP/1.1 200 OK\r\n\r\nhi");
    assert_eq!(server.requests()[0].body, b"ab");
}

#[test]
#[should_panic(expected = "requests that a provider would refuse")]
fn the_server_refuses_a_request_that_a_provider_would() {
    let server = Server::start(|_| Reaction::Raw(Vec::new()));
    let address = server.base_url().replace("http://", "").replace("/v1", "");
    let mut socket = TcpStream::connect(address).unwrap();
    let body = json!({ "messages": [{ "role": "tool", "tool_call_id": "a", "content": "" }] });
    let body = body.to_string();
    let length = body.len();
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
    socket.write_all((head + &body).as_bytes()).unwrap();
    server.wait_until_came(1);
    server.finish();
}
