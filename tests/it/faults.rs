//! What can go wrong between a server and us, over real sockets: one table, and
//! what comes of each row in each API.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tine::event::UnitId;
use tine::message::{Head, Message, Prefix};
use tine::model::api::Kind;
use tine::model::retry::{Decision, Policy, Tried, Why, decide};
use tine::model::served::{Served, ServedSettings};
use tine::model::{Asker, Chunk, Model, ModelError, ModelErrorKind, Purpose, Request};

use crate::support::anthropic::{self, Part};
use crate::support::responses::{self, Says};
use crate::support::server::{End, Reaction, Server, events};
use crate::support::tine::Place;

/// Too short for anything but a server that keeps silent for good.
const SHORT: Duration = Duration::from_millis(60);

/// Most bytes that may leave a server whose answer never ends: what is read
/// until it is given up, and what both ends of the socket hold.
const ENDLESS_LIMIT: usize = 48 << 20;

/// One API, and how an answer that says `Hi` comes in it.
struct Dialect {
    kind: Kind,
    /// Up to the text.
    start: Vec<u8>,
    /// All behind the text.
    rest: Vec<u8>,
}

impl Dialect {
    fn all() -> [Self; 3] {
        let chat = [
            json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "Hi" } }] }),
            json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 5 } }),
        ];
        let chat = [events(&chat), b"data: [DONE]\n\n".to_vec()].concat();
        let responses = responses::stream(&Says::text("Hi").events());
        let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
        let anthropic = anthropic::events(&[Part::Text("Hi")], &usage);
        [
            Self::split(Kind::Chat, &chat, "assistant"),
            Self::split(Kind::Responses, &responses, "response.output_text.delta"),
            Self::split(Kind::Anthropic, &anthropic, "text_delta"),
        ]
    }

    /// Splits the events behind the last one that holds `mark`.
    fn split(kind: Kind, whole: &[u8], mark: &str) -> Self {
        let text = str::from_utf8(whole).expect("events are text");
        let at = text.rfind(mark).expect("some event holds the mark");
        let end = at + text[at..].find("\n\n").expect("events end in a blank line") + 2;
        Self { kind, start: whole[..end].to_vec(), rest: whole[end..].to_vec() }
    }

    fn whole(&self) -> Vec<u8> {
        [&*self.start, &self.rest].concat()
    }

    /// An event with more text.
    fn delta(&self, text: &str) -> Vec<u8> {
        match self.kind {
            Kind::Chat => events([&json!({ "choices": [{ "delta": { "content": text } }] })]),
            Kind::Responses => responses::stream(&[json!({ "delta": text, "content_index": 0,
                "type": "response.output_text.delta", "item_id": "msg_0", "output_index": 0 })]),
            Kind::Anthropic => anthropic::encoded(&[json!({ "type": "content_block_delta",
                "index": 0, "delta": { "type": "text_delta", "text": text } })]),
        }
    }

    /// An event that is an error: the provider has too many requests.
    fn error(&self) -> Vec<u8> {
        let limited = json!({ "type": "rate_limit_error", "message": "busy" });
        match self.kind {
            Kind::Chat => events([&json!({ "error": limited })]),
            Kind::Responses => responses::stream(&[
                json!({ "type": "error", "code": "rate_limit_exceeded", "message": "busy" }),
            ]),
            Kind::Anthropic => anthropic::encoded(&[json!({ "type": "error", "error": limited })]),
        }
    }
}

/// What comes of a request.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The text that came, whole or not.
    heard: String,
    /// The error, and what the retries make of it.
    failed: Option<(ModelErrorKind, String, Decision)>,
}

fn answers() -> Outcome {
    Outcome { heard: "Hi".to_owned(), failed: None }
}

/// Nothing came but this error.
fn fails(kind: ModelErrorKind, message: &str, then: Decision) -> Outcome {
    Outcome { heard: String::new(), failed: Some((kind, message.to_owned(), then)) }
}

/// The text came, and then this error.
fn breaks(kind: ModelErrorKind, message: &str, then: Decision) -> Outcome {
    Outcome { heard: "Hi".to_owned(), ..fails(kind, message, then) }
}

const HOPELESS: Decision = Decision::GiveUp(Why::Hopeless);

/// The draw is 0, so that only what the provider asks for is waited.
const AGAIN: Decision = Decision::Again { after: Duration::ZERO };

fn again_in(milliseconds: u64) -> Decision {
    Decision::Again { after: Duration::from_millis(milliseconds) }
}

/// Asks, and says what comes of it. Nothing comes behind the end.
async fn ask(dialect: &Dialect, server: &Server, limits: Limits) -> Outcome {
    let mut settings =
        ServedSettings { api: dialect.kind, ..ServedSettings::new("m", "m", server.base_url()) };
    match limits {
        Limits::Usual => {}
        Limits::ShortHeaders => settings.timeouts.headers = SHORT,
        Limits::ShortFirstPiece => settings.timeouts.first_piece = SHORT,
        Limits::ShortIdle => settings.timeouts.idle = SHORT,
    }
    let model = Served::new(settings).expect("the server's address is one");
    outcome(&model, server).await
}

/// Asks a model, and says what comes of it.
async fn outcome(model: &Served, server: &Server) -> Outcome {
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
    prefix.push(Message::User("What is in a?".into()));
    let asker = Asker {
        unit: UnitId::MAIN,
        agent: "main".into(),
        description: "".into(),
        purpose: Purpose::Turn,
        turn: 1,
        attempt: 1,
        is_afresh: true,
        forked_from: None,
    };
    let mut stream = model.respond(Request { prefix, asker, text_schema: None });
    let mut heard = String::new();
    let failed = loop {
        match stream.next().await.expect("a stream ends in an answer or an error") {
            Ok(Chunk::Text(piece)) => heard.push_str(&piece),
            Ok(Chunk::Thinking(piece)) => panic!("nobody thought `{piece}`"),
            Ok(Chunk::SentTwice(notice)) => panic!("{notice}"),
            Ok(Chunk::Finished(answer)) => {
                assert_eq!(answer.reply.text, heard);
                break None;
            }
            Err(error) => break Some(error),
        }
    };
    assert!(stream.next().await.is_none());
    let url = server.base_url();
    let host = url.replace("http://", "").replace("/v1", "");
    let failed = failed.map(|error| {
        let then = decide(&error, Tried::default(), Policy::default(), false, 0.0);
        let ModelError { kind, message, .. } = error;
        (kind, message.replace(&url, "URL").replace(&host, "HOST"), then)
    });
    Outcome { heard, failed }
}

#[derive(Debug, Clone, Copy)]
enum Limits {
    Usual,
    ShortHeaders,
    ShortFirstPiece,
    ShortIdle,
}

/// Plays one row in each API.
async fn check(
    name: &str,
    limits: Limits,
    react: impl Fn(&Dialect) -> Reaction,
    expected: Outcome,
) {
    for dialect in Dialect::all() {
        let reaction = react(&dialect);
        let server = Server::start(move |_| reaction.clone());
        let mut outcome = ask(&dialect, &server, limits).await;
        // What an endless answer says is of no interest.
        outcome.heard.truncate(expected.heard.len());
        assert_eq!(outcome, expected, "{name}, {:?}", dialect.kind);
        let taken = server.endless_bytes();
        assert!(taken < ENDLESS_LIMIT, "{name}, {:?}: {taken} bytes were taken", dialect.kind);
        // None at all if the time was up before the server looked.
        assert!(server.finish().len() <= 1, "{name}: one request, no retries");
    }
}

/// An error body with headers.
fn refusal(code: u16, headers: &[(&str, &str)], error: &Value) -> Reaction {
    let body = json!({ "type": "error", "error": error }).to_string().into_bytes();
    let json = ("content-type", "application/json");
    let headers = headers.iter().chain([&json]);
    let headers = headers.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    Reaction::Status { code, headers, body }
}

fn head(code: u16, content_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 {code} Scripted\r\ncontent-type: {content_type}\r\n\r\n").into_bytes()
}

/// A 200 that never ends: `first`, and then `again` for ever.
fn endless(first: &[u8], again: &[u8]) -> Reaction {
    let first = [&head(200, "text/event-stream"), first].concat();
    Reaction::Endless { first, again: again.to_vec() }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes everything");
    encoder.finish().expect("as above")
}

/// A stream that was compressed although nobody asked for it.
fn compressed(body: Vec<u8>) -> Reaction {
    let headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Reaction::Status { code: 200, headers, body }
}

/// A name, a status, headers; the kind of error, and what the retries make of
/// it.
type Refused<'a> = (&'a str, u16, &'a [(&'a str, &'a str)], ModelErrorKind, Decision);

async fn check_refused(rows: &[Refused<'_>]) {
    for &(name, code, headers, kind, then) in rows {
        let reaction = |_: &Dialect| refusal(code, headers, &json!({ "message": "no" }));
        let expected = fails(kind, &format!("HTTP {code}: no"), then);
        check(name, Limits::Usual, reaction, expected).await;
    }
}

#[tokio::test]
async fn a_provider_that_says_when_to_come_again_is_heeded() {
    use ModelErrorKind::{Overloaded, RateLimited, Request};
    let date = ("date", "Fri, 07 Mar 2025 00:00:00 GMT");
    check_refused(&[
        ("no header", 429, &[], RateLimited, AGAIN),
        ("milliseconds", 429, &[("retry-after-ms", "1500")], RateLimited, again_in(1_500)),
        ("seconds", 429, &[("Retry-After", "2")], RateLimited, again_in(2_000)),
        (
            "a date, by the server's clock",
            429,
            &[date, ("Retry-After", "Fri, 07 Mar 2025 00:00:30 GMT")],
            RateLimited,
            again_in(30_000),
        ),
        (
            "the reset of a quota",
            429,
            &[("x-ratelimit-reset-requests", "1m6s"), ("x-ratelimit-reset-tokens", "120ms")],
            RateLimited,
            again_in(66_000),
        ),
        (
            "the reset of the quota that is used up",
            429,
            &[
                ("x-ratelimit-remaining-requests", "7"),
                ("x-ratelimit-reset-requests", "1m6s"),
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "120ms"),
            ],
            RateLimited,
            again_in(120),
        ),
        (
            "the moment of a reset",
            429,
            &[
                date,
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2025-03-07T00:00:13Z"),
            ],
            RateLimited,
            again_in(13_000),
        ),
        ("no sense", 429, &[("retry-after", "soon")], RateLimited, AGAIN),
        (
            "an hour",
            429,
            &[("retry-after", "3600")],
            RateLimited,
            Decision::GiveUp(Why::TooLate { after: Duration::from_secs(3_600) }),
        ),
        ("do not ask again", 429, &[("x-should-retry", "false")], RateLimited, HOPELESS),
        ("do ask again", 400, &[("x-should-retry", "true")], Request, AGAIN),
        ("unavailable until", 503, &[("retry-after", "1")], Overloaded, again_in(1_000)),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_is_taken_by_its_status() {
    use ModelErrorKind::{Authentication, Overloaded, RateLimited, Request};
    check_refused(&[
        ("overloaded", 529, &[], RateLimited, AGAIN),
        ("unavailable", 503, &[], Overloaded, AGAIN),
        ("broken", 500, &[], Overloaded, AGAIN),
        ("gateway", 502, &[], Overloaded, AGAIN),
        ("too slow", 408, &[], Overloaded, AGAIN),
        ("conflict", 409, &[], Overloaded, AGAIN),
        ("the key", 401, &[], Authentication, Decision::Again { after: Duration::ZERO }),
        ("not allowed", 403, &[], Authentication, HOPELESS),
        ("wrong", 400, &[], Request, HOPELESS),
        ("no such model", 404, &[], Request, HOPELESS),
        ("cannot be processed", 422, &[], Request, HOPELESS),
    ])
    .await;
}

#[tokio::test]
async fn a_refusal_is_taken_by_its_words_where_the_status_says_too_little() {
    use ModelErrorKind::{Overflow, Overloaded, RateLimited, Request};
    let plan = "(check the plan and the balance of this key's account)";
    let rows = [
        (
            400,
            json!({ "code": "context_length_exceeded", "message": "no" }),
            Overflow,
            "HTTP 400: no".to_owned(),
            HOPELESS,
        ),
        (
            400,
            json!({ "type": "invalid_request_error", "message": "prompt is too long: 9 > 8" }),
            Overflow,
            "HTTP 400: prompt is too long: 9 > 8".to_owned(),
            HOPELESS,
        ),
        (
            500,
            json!({ "message": "the request exceeds the available context size" }),
            Overflow,
            "HTTP 500: the request exceeds the available context size".to_owned(),
            HOPELESS,
        ),
        (
            413,
            json!({ "type": "request_too_large", "message": "too large" }),
            Overflow,
            "HTTP 413: too large".to_owned(),
            HOPELESS,
        ),
        (
            429,
            json!({ "type": "insufficient_quota", "message": "quota" }),
            Request,
            format!("HTTP 429: quota {plan}"),
            HOPELESS,
        ),
        (
            402,
            json!({ "message": "Insufficient Balance" }),
            Request,
            format!("HTTP 402: Insufficient Balance {plan}"),
            HOPELESS,
        ),
        (
            429,
            json!({ "code": 429, "message": "You exceeded your current quota" }),
            RateLimited,
            "HTTP 429: You exceeded your current quota".to_owned(),
            AGAIN,
        ),
        (503, json!("busy"), Overloaded, "HTTP 503: busy".to_owned(), AGAIN),
    ];
    for (code, error, kind, message, then) in rows {
        let reaction = |_: &Dialect| refusal(code, &[], &error);
        check(&message, Limits::Usual, reaction, fails(kind, &message, then)).await;
    }
}

#[tokio::test]
async fn what_is_no_model_is_told_apart() {
    use ModelErrorKind::{Connection, Cut, Overloaded, Request};
    let page = "<!DOCTYPE html><title>x</title>";
    let usual = Limits::Usual;
    check(
        "a page",
        usual,
        |_| Reaction::status(200, "text/html; charset=utf-8", page),
        fails(
            Request,
            "`URL` answered with a web page (\"x\"), not a model; is `base_url` right?",
            HOPELESS,
        ),
    )
    .await;
    check(
        "a page of a gateway",
        usual,
        |_| Reaction::status(502, "text/html", page),
        fails(
            Overloaded,
            "HTTP 502: the gateway at HOST answered with \"x\": the server behind it does not answer",
            AGAIN,
        ),
    )
    .await;
    check(
        "a redirect",
        usual,
        |_| refusal(308, &[("location", "http://localhost:1")], &json!("moved")),
        fails(
            Request,
            "HTTP 308: the server points to `http://localhost:1`; set `base_url` to it",
            HOPELESS,
        ),
    )
    .await;
    check(
        "no HTTP",
        usual,
        |_| Reaction::Raw(vec!["SSH-2.0-OpenSSH_9.2\r\n\r\n".into()]),
        fails(
            Connection,
            "the connection to `URL` broke before the answer began: invalid HTTP version parsed",
            AGAIN,
        ),
    )
    .await;
    let no_end = "the answer of `URL` broke off before its end";
    check("no words", usual, |_| Reaction::stream(""), fails(Cut, no_end, AGAIN)).await;
    let hello = fails(Cut, "the answer cannot be read: hello", AGAIN);
    check("other words", usual, |_| Reaction::stream("hello"), hello).await;
    check(
        "JSON that is none",
        usual,
        |_| Reaction::status(200, "application/json", "oops"),
        fails(Cut, "the answer cannot be read: oops", AGAIN),
    )
    .await;
}

/// A gateway that is in trouble for a moment, seen before and after a model has answered.
#[tokio::test]
async fn what_comes_from_elsewhere_is_asked_again_if_the_address_has_answered() {
    use ModelErrorKind::{Authentication, Overloaded, Request};
    let page = "<!DOCTYPE html><title>x</title>";
    let html = |code| Reaction::status(code, "text/html; charset=utf-8", page);
    let to_login = || refusal(302, &[("location", "http://localhost:1/login")], &json!("login"));
    let rows = [
        ("a page", html(200), Request, Overloaded),
        (
            "a page that is called JSON",
            Reaction::status(200, "application/json", page),
            Request,
            Overloaded,
        ),
        ("a page that is called a stream", Reaction::stream(page), Request, Overloaded),
        ("a blocked request", html(403), Request, Overloaded),
        ("an unknown path", html(404), Request, Overloaded),
        ("a method that is not allowed", html(405), Request, Overloaded),
        ("a redirect", to_login(), Request, Overloaded),
        ("a broken server", html(500), Overloaded, Overloaded),
        ("a gateway", html(502), Overloaded, Overloaded),
        ("maintenance", html(503), Overloaded, Overloaded),
        // Neither is over in a moment.
        ("a login", html(401), Authentication, Authentication),
        ("a login of a proxy", html(407), Request, Request),
        ("no page", refusal(404, &[], &json!({ "message": "no such model" })), Request, Request),
    ];
    for (name, reaction, before, after) in rows {
        for dialect in Dialect::all() {
            let (wrong, whole) = (reaction.clone(), dialect.whole());
            let server = Server::start(move |request| match request.sequence {
                1 => Reaction::stream(whole.clone()),
                _ => wrong.clone(),
            });
            let settings = ServedSettings {
                api: dialect.kind,
                ..ServedSettings::new("m", "m", server.base_url())
            };
            let model = Served::new(settings).expect("the server's address is one");
            for expected in [Some(before), None, Some(after)] {
                let outcome = outcome(&model, &server).await;
                let failed = outcome.failed.map(|(kind, _, then)| (kind, then == HOPELESS));
                let expected = expected.map(|kind| (kind, kind == Request));
                assert_eq!(failed, expected, "{name}, {:?}", dialect.kind);
            }
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_worth_another() {
    use ModelErrorKind::{Connection, Cut};
    let before = "the connection to `URL` broke before the answer began:";
    let within = "the answer of `URL` broke off:";
    let reset = "Connection reset by peer (os error 104)";
    let usual = Limits::Usual;
    let closed = format!("{before} connection closed before message completed");
    check("closed", usual, |_| Reaction::Close, fails(Connection, &closed, AGAIN)).await;
    let before = format!("{before} {reset}");
    check("reset", usual, |_| Reaction::Reset, fails(Connection, &before, AGAIN)).await;
    let ending = |end| move |dialect: &Dialect| Reaction::pieces([&*dialect.start], end);
    let eof = format!("{within} unexpected EOF during chunk size line");
    check("cut", usual, ending(End::Cut), breaks(Cut, &eof, AGAIN)).await;
    let within = format!("{within} {reset}");
    check("reset within", usual, ending(End::Reset), breaks(Cut, &within, AGAIN)).await;
    let no_end = "the answer of `URL` broke off before its end";
    check("an early end", usual, ending(End::Whole), breaks(Cut, no_end, AGAIN)).await;
}

#[tokio::test]
async fn a_server_that_stalls_is_given_up_on() {
    use ModelErrorKind::Silent;
    let no_headers = fails(Silent, "no answer from `URL` within 0.06 s", AGAIN);
    let no_first = || fails(Silent, "no piece of an answer from `URL` within 0.06 s", AGAIN);
    let no_more = || breaks(Silent, "the answer of `URL` stopped: nothing came for 0.06 s", AGAIN);
    let (first, idle) = (Limits::ShortFirstPiece, Limits::ShortIdle);
    check("before the answer", Limits::ShortHeaders, |_| Reaction::Hang, no_headers).await;
    let commented = |_: &Dialect| Reaction::pieces([": wait\n\n"], End::Hang);
    check("before the first piece", first, commented, no_first()).await;
    let stalled = |dialect: &Dialect| Reaction::pieces([&*dialect.start], End::Hang);
    check("within", idle, stalled, no_more()).await;
    check("for ever keeping alive", first, |_| endless(b"", b": wait\n\n"), no_first()).await;
    let blank = |dialect: &Dialect| endless(&dialect.start, b"data: \n\n");
    check("for ever saying nothing", idle, blank, no_more()).await;
    let unknown = |dialect: &Dialect| endless(&dialect.start, b"data: {\"type\":\"x\"}\n\n");
    check("for ever saying something else", idle, unknown, no_more()).await;
}

#[tokio::test]
async fn what_cannot_be_read_is_a_cut_answer() {
    use ModelErrorKind::{Cut, RateLimited};
    let usual = Limits::Usual;
    let behind = |bytes: &'static [u8]| {
        move |dialect: &Dialect| Reaction::stream([&dialect.start, bytes, &dialect.rest].concat())
    };
    let broken = "the server sent a piece that cannot be read \
                  (key must be a string at line 1 column 2): {oops";
    check("no JSON", usual, behind(b"data: {oops\n\n"), breaks(Cut, broken, AGAIN)).await;
    let half = "the server sent a piece that cannot be read \
                (EOF while parsing a string at line 1 column 5): {\"cho";
    let at_the_end =
        |dialect: &Dialect| Reaction::stream([&*dialect.start, b"data: {\"cho"].concat());
    check("half of an event", usual, at_the_end, breaks(Cut, half, AGAIN)).await;
    check("no events", usual, behind(b"\0\xff\xfe{}\r\nhello: x\n\n:\n\n"), answers()).await;
    let busy = "the provider answered with an error: busy";
    let failing =
        |dialect: &Dialect| Reaction::stream([&*dialect.start, &dialect.error()].concat());
    check("an error within", usual, failing, breaks(RateLimited, busy, AGAIN)).await;
    let failing = |dialect: &Dialect| Reaction::stream(dialect.error());
    check("an error first", usual, failing, fails(RateLimited, busy, AGAIN)).await;
}

#[tokio::test]
async fn an_answer_is_the_same_however_it_comes() {
    let usual = Limits::Usual;
    check("at once", usual, |dialect| Reaction::stream(dialect.whole()), answers()).await;
    let split = |dialect: &Dialect| Reaction::byte_by_byte(&dialect.whole());
    check("byte by byte", usual, split, answers()).await;
    let returned = |dialect: &Dialect| {
        let text = String::from_utf8(dialect.whole()).expect("events are text");
        Reaction::stream(format!("\u{feff}{}", text.replace('\n', "\r\n")))
    };
    check("with a mark and carriage returns", usual, returned, answers()).await;
    check("compressed", usual, |dialect| compressed(gzip(&dialect.whole())), answers()).await;
}

#[tokio::test]
async fn a_compressed_answer_that_breaks_off_is_cut() {
    use ModelErrorKind::Cut;
    let usual = Limits::Usual;
    let half = |dialect: &Dialect| {
        // A stream that is flushed behind the text, as a proxy does.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&dialect.start).expect("memory takes everything");
        encoder.flush().expect("as above");
        compressed(encoder.get_ref().clone())
    };
    let message = "the answer of `URL` broke off: unexpected end of file";
    check("truncated", usual, half, breaks(Cut, message, AGAIN)).await;
    let no_gzip = |dialect: &Dialect| compressed(dialect.whole());
    let message = "the answer of `URL` broke off: Invalid gzip header";
    check("not compressed", usual, no_gzip, fails(Cut, message, AGAIN)).await;
}

#[tokio::test]
async fn a_server_that_never_ends_is_stopped_with_little_taken() {
    use ModelErrorKind::{Overloaded, Request};
    let usual = Limits::Usual;
    let long = "x".repeat(64 << 10);
    let too_long = "`URL` sent a piece of more than 4 MiB";
    let line = |dialect: &Dialect| endless(&[&*dialect.start, b"data: "].concat(), long.as_bytes());
    check("a line", usual, line, breaks(Request, too_long, HOPELESS)).await;
    let lines = |dialect: &Dialect| endless(&dialect.start, format!("data: {long}\n").as_bytes());
    check("an event", usual, lines, breaks(Request, too_long, HOPELESS)).await;
    let bomb = |dialect: &Dialect| {
        compressed(gzip(&[&*dialect.start, b"data: ", &vec![b'x'; 6 << 20]].concat()))
    };
    check("a line out of nothing", usual, bomb, breaks(Request, too_long, HOPELESS)).await;
    let text = |dialect: &Dialect| endless(&dialect.start, &dialect.delta(&long));
    let message = "the answer is longer than 16 MiB";
    check("an answer", usual, text, breaks(Request, message, HOPELESS)).await;
    let whole = |_: &Dialect| Reaction::Endless {
        first: head(200, "application/json"),
        again: long.clone().into_bytes(),
    };
    let message = "the answer is too long";
    check("a whole answer", usual, whole, fails(Request, message, HOPELESS)).await;
    let refusal = |_: &Dialect| Reaction::Endless {
        first: head(500, "text/plain"),
        again: long.clone().into_bytes(),
    };
    let message = format!("HTTP 500: {}…", "x".repeat(500));
    check("a refusal", usual, refusal, fails(Overloaded, &message, AGAIN)).await;
}

/// A gateway's page at one request of a run, and at its first.
#[test]
fn a_page_in_the_middle_of_a_run_does_not_end_it() {
    let page = "<!DOCTYPE html><title>Just a moment...</title>";
    let login = ("location", "http://localhost:1/login");
    for code in [200, 302, 403, 404, 500, 502, 503] {
        let html = ("content-type", "text/html");
        let headers = [html, login].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (headers, body) = (headers.to_vec(), page.as_bytes().to_vec());
        let wrong = Reaction::Status { code, headers, body };
        let ask = |at: usize| {
            let wrong = wrong.clone();
            let server = Server::start(move |request| match request.sequence {
                number if number == at => wrong.clone(),
                0 => Reaction::call_reply(&[("Glob", json!({ "pattern": "*" }))]),
                _ => Reaction::text_reply("done"),
            });
            let flags = ["--config", "retry.most=10", "--config", "retry.base_ms=1"];
            let status = Place::new().ask(&server, &flags).status;
            (status.code(), server.finish().len())
        };
        assert_eq!(ask(1), (Some(0), 3), "{code}");
        // Before any answer the address may be wrong.
        let (exit, requests) = ask(0);
        assert_eq!(
            (exit == Some(0), requests),
            (code >= 500, 1 + usize::from(code >= 500)),
            "{code}"
        );
    }
}
