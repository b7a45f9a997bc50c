//! A hosted server that sends no headers: tine sends a second request and takes the
//! earlier answer.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tine::config::AnswerTimeouts;
use tine::event::{EventKind, NoticeLevel, Outcome, UnitId};
use tine::message::{Head, Message, Prefix, Price, Usage, Usd};
use tine::model::served::{Served, ServedSettings};
use tine::model::{Asker, Chunk, Model as _, ModelError, ModelErrorKind, Purpose, Request};
use tokio::time::{Instant, advance};

use crate::support::inside::Setup;
use crate::support::server::{Gate, Reaction, Server, events};
use crate::support::tine::HANG_LIMIT;

/// Time before the second request, where a test does not stop the clock.
const SOON: Duration = Duration::from_millis(20);

/// Nothing else has an end in time.
const TIMEOUTS: AnswerTimeouts = AnswerTimeouts {
    headers: HANG_LIMIT,
    first_piece: HANG_LIMIT,
    idle: HANG_LIMIT,
    second_request: Some(SOON),
};

fn settings(base_url: &str, timeouts: AnswerTimeouts) -> ServedSettings {
    let price = Price { input: Usd(1), output: Usd(1), cache_read: Usd(1), cache_write: Usd(1) };
    ServedSettings { timeouts, price: Some(price), ..ServedSettings::new("m", "m", base_url) }
}

fn model(base_url: &str, timeouts: AnswerTimeouts) -> Served {
    Served::new(settings(base_url, timeouts)).expect("the server's address is one")
}

/// The result of a request.
#[derive(Debug, PartialEq)]
struct Heard {
    text: String,
    /// Number of notices that it was sent twice.
    notices: usize,
    /// `true` if its cost is known in part only.
    is_partial: bool,
    failed: Option<ModelErrorKind>,
}

fn answered_twice() -> Heard {
    Heard { text: "Hi".to_owned(), notices: 1, is_partial: true, failed: None }
}

fn answered() -> Heard {
    Heard { notices: 0, is_partial: false, ..answered_twice() }
}

async fn ask(model: &Served, prompt: &str) -> Heard {
    let mut prefix = Prefix::new(Arc::new(Head::new("Be brief.".into(), Vec::new())));
    prefix.push(Message::User(prompt.into()));
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
    let (mut text, mut notices) = (String::new(), 0);
    let usage_of = |failed: &Result<Usage, ModelError>| match failed {
        Ok(usage) => *usage,
        Err(error) => error.spent,
    };
    let end = loop {
        match stream.next().await.expect("a stream ends in an answer or an error") {
            Ok(Chunk::Text(piece)) => text.push_str(&piece),
            Ok(Chunk::Thinking(piece)) => panic!("there is no reasoning, but `{piece}`"),
            Ok(Chunk::SentTwice(_)) => notices += 1,
            Ok(Chunk::Finished(answer)) => break Ok(answer.usage),
            Err(error) => break Err(error),
        }
    };
    let is_partial = usage_of(&end).cost.is_partial;
    Heard { text, notices, is_partial, failed: end.err().map(|error| error.kind) }
}

/// Treats the first connection, which stays open until the client closes it.
type Misbehaviour = fn(&mut TcpStream);

fn says_nothing(_: &mut TcpStream) {}

fn shuts_its_reading_side(socket: &mut TcpStream) {
    socket.shutdown(Shutdown::Read).expect("the connection is open");
    // Its end cannot be read any more, so it stays open.
    std::mem::forget(socket.try_clone().expect("the system has descriptors"));
}

/// Says the same until the client has gone.
fn repeats(socket: &mut TcpStream, first: &str, again: &str) {
    let mut bytes = first;
    while socket.write_all(bytes.as_bytes()).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
        bytes = again;
    }
}

fn continues_for_ever(socket: &mut TcpStream) {
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    repeats(socket, go_on, go_on);
}

fn trickles_headers(socket: &mut TcpStream) {
    repeats(socket, "HTTP/1.1 200 OK\r\nx-trace: ", "a");
}

fn says(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).expect("the connection is open");
}

fn says_half_a_status(socket: &mut TcpStream) {
    says(socket, "HTTP/1.");
}

fn says_half_of_the_headers(socket: &mut TcpStream) {
    says(socket, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncach");
}

/// Reads a request to its end.
fn read_request(socket: &mut TcpStream) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 64 * 1024];
    loop {
        let count = socket.read(&mut buffer).expect("the client sends a request");
        assert!(count > 0, "the client sends a whole request");
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some(end) = text.find("\r\n\r\n") else { continue };
        let length = text[..end].lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.expect("a body has a length").parse().expect("in digits");
        if bytes.len() >= end + 4 + length {
            return;
        }
    }
}

fn answer(socket: &mut TcpStream) {
    let said = json!({ "choices": [{ "delta": { "content": "Hi" }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5 } });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let bytes = [head.as_bytes(), &events([&said]), b"data: [DONE]\n\n"].concat();
    socket.write_all(&bytes).expect("the client listens");
}

/// A server that misbehaves on its first connection, and answers on all others.
struct OddServer {
    base_url: String,
    connections: Arc<AtomicUsize>,
    /// Tells when the client has closed the first connection.
    dropped: mpsc::Receiver<()>,
}

impl OddServer {
    fn start(misbehave: Misbehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let (sender, dropped) = mpsc::channel();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(mut socket) = socket else { return };
                let sender = sender.clone();
                let is_first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                std::thread::spawn(move || match is_first {
                    true => {
                        // Bytes before the request would be those of no response.
                        let _ = socket.peek(&mut [0]);
                        misbehave(&mut socket);
                        // What the client still sends is thrown away until it closes.
                        let mut rest = [0; 64 * 1024];
                        while socket.read(&mut rest).is_ok_and(|count| count > 0) {}
                        // The test may be over.
                        let _ = sender.send(());
                    }
                    false => {
                        read_request(&mut socket);
                        answer(&mut socket);
                    }
                });
            }
        });
        Self { base_url: format!("http://{address}/v1"), connections, dropped }
    }
}

#[tokio::test]
async fn a_server_that_sends_no_headers_is_asked_once_more_beside() {
    let kinds: [(&str, Misbehaviour); 6] = [
        ("nothing", says_nothing),
        ("its reading side is shut", shuts_its_reading_side),
        ("100 Continue for ever", continues_for_ever),
        ("headers byte by byte", trickles_headers),
        ("half of a status line", says_half_a_status),
        ("half of the headers", says_half_of_the_headers),
    ];
    for (name, misbehave) in kinds {
        let server = OddServer::start(misbehave);
        let model = model(&server.base_url, TIMEOUTS);
        assert_eq!(ask(&model, "go").await, answered_twice(), "{name}");
        assert_eq!(server.connections.load(Ordering::Relaxed), 2, "{name}");
        if name != "its reading side is shut" {
            server.dropped.recv_timeout(HANG_LIMIT).expect("the first request is dropped");
        }
    }
}

#[tokio::test]
async fn a_long_request_of_which_nothing_is_read_is_sent_once_more() {
    // It reads nothing before it has been told that the other was answered.
    static ANSWERED: AtomicUsize = AtomicUsize::new(0);
    let server = OddServer::start(|_| {
        while ANSWERED.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
    });
    let model = model(&server.base_url, TIMEOUTS);
    // More than both ends of a connection hold.
    let heard = ask(&model, &"word ".repeat(4 << 20)).await;
    ANSWERED.store(1, Ordering::Relaxed);
    assert_eq!(heard, answered_twice());
}

/// Answers with this on the first request once the gate is open, and at once on others.
fn scripted(first: Reaction, gate: &Gate, others: Reaction) -> Server {
    let first = first.behind(gate);
    Server::start(move |request| match request.sequence {
        0 => first.clone(),
        _ => others.clone(),
    })
}

#[tokio::test]
async fn whatever_becomes_of_the_second_request_the_first_may_still_be_answered() {
    let busy = json!({ "error": { "message": "busy" } });
    for second in [
        Reaction::json(429, &busy),
        Reaction::json(503, &busy),
        Reaction::json(401, &busy),
        Reaction::status(502, "text/html", "<html>no</html>"),
        Reaction::Close,
        Reaction::Reset,
        Reaction::Hang,
    ] {
        let gate = Gate::closed();
        let story = format!("{second:?}");
        let server = scripted(Reaction::text_reply("Hi"), &gate, second);
        let model = model(&server.base_url(), TIMEOUTS);
        let opens = async {
            server.came(2).await;
            gate.open();
        };
        let (heard, ()) = tokio::join!(ask(&model, "go"), opens);
        assert_eq!(heard, answered_twice(), "{story}");
        assert_eq!(server.finish().len(), 2, "{story}");
    }
}

#[tokio::test]
async fn whatever_becomes_of_the_first_request_the_second_may_still_be_answered() {
    for first in [Reaction::Close, Reaction::Reset, Reaction::Hang] {
        let (gate, later) = (Gate::closed(), Gate::closed());
        let story = format!("{first:?}");
        let server = scripted(first, &gate, Reaction::text_reply("Hi").behind(&later));
        let model = model(&server.base_url(), TIMEOUTS);
        let opens = async {
            server.came(2).await;
            gate.open();
            later.open();
        };
        let (heard, ()) = tokio::join!(ask(&model, "go"), opens);
        assert_eq!(heard, answered_twice(), "{story}");
    }
}

#[tokio::test]
async fn if_both_break_that_is_what_is_told() {
    let gate = Gate::closed();
    let server = scripted(Reaction::Close, &gate, Reaction::Close);
    let model = model(&server.base_url(), TIMEOUTS);
    let opens = async {
        server.came(2).await;
        gate.open();
    };
    let (heard, ()) = tokio::join!(ask(&model, "go"), opens);
    let failed = Some(ModelErrorKind::Connection);
    let expected = Heard { text: String::new(), notices: 1, is_partial: true, failed };
    assert_eq!(heard, expected);
}

/// Keeps the paused clock from running ahead while sockets are waited for: it stands until
/// a test moves it.
struct StoppedClock {
    _until_dropped: mpsc::Sender<()>,
}

impl StoppedClock {
    fn new() -> Self {
        tokio::time::pause();
        let (sender, receiver) = mpsc::channel::<()>();
        // tokio does not advance a paused clock while a blocking task runs.
        drop(tokio::task::spawn_blocking(move || receiver.recv()));
        Self { _until_dropped: sender }
    }
}

/// Moves a stopped clock as time passes in a process that runs. One long step looks like a
/// process that was stopped meanwhile.
async fn pass(time: Duration) {
    const STEP: Duration = Duration::from_millis(100);
    let mut left = time;
    while !left.is_zero() {
        let step = left.min(STEP);
        advance(step).await;
        left -= step;
    }
}

#[tokio::test]
async fn before_the_headers_time_in_which_tine_is_stopped_is_no_silence() {
    for (before, stop) in [(0, 3_600), (30, 60), (44, 75), (30, 100_000)] {
        for is_slow in [false, true] {
            let _clock = StoppedClock::new();
            let gate = Gate::closed();
            let server = scripted(Reaction::text_reply("Hi"), &gate, Reaction::text_reply("Hi"));
            let model = model(&server.base_url(), AnswerTimeouts::HOSTED);
            let asking = tokio::spawn(async move { ask(&model, "go").await });
            server.came(1).await;
            pass(Duration::from_secs(before)).await;
            advance(Duration::from_secs(stop)).await;
            assert_eq!(server.connections(), 1, "{before} s, then a stop of {stop} s");
            let expected = if is_slow {
                // The rest of the wait, and the part of it in which the stop was.
                pass(Duration::from_secs(45 - before + 6)).await;
                answered_twice()
            } else {
                gate.open();
                answered()
            };
            assert_eq!(asking.await.expect("it does not panic"), expected, "{before} {stop}");
            gate.open();
            tokio::time::resume();
        }
    }
}

#[tokio::test]
async fn a_hosted_server_that_is_silent_costs_less_than_a_minute() {
    let _clock = StoppedClock::new();
    let start = Instant::now();
    let server = scripted(Reaction::Hang, &Gate::closed(), Reaction::text_reply("Hi"));
    let model = model(&server.base_url(), AnswerTimeouts::HOSTED);
    let asking = tokio::spawn(async move { ask(&model, "go").await });
    server.came(1).await;
    pass(Duration::from_millis(44_900)).await;
    assert_eq!(server.connections(), 1);
    pass(Duration::from_millis(200)).await;
    assert_eq!(asking.await.expect("it does not panic"), answered_twice());
    assert!(start.elapsed() < Duration::from_secs(62));
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_prompt_that_a_local_server_reads_for_minutes_is_sent_once() {
    for (timeouts, minutes) in [(AnswerTimeouts::OWN, 9), (AnswerTimeouts::NEAR, 59)] {
        let _clock = StoppedClock::new();
        let gate = Gate::closed();
        let server = scripted(Reaction::text_reply("Hi"), &gate, Reaction::Close);
        let model = model(&server.base_url(), timeouts);
        let asking = tokio::spawn(async move { ask(&model, "go").await });
        server.came(1).await;
        pass(Duration::from_secs(60 * minutes)).await;
        gate.open();
        assert_eq!(asking.await.expect("it does not panic"), answered());
        assert_eq!((server.connections(), server.finish().len()), (1, 1));
        tokio::time::resume();
    }
}

#[tokio::test]
async fn the_records_say_that_a_request_was_sent_twice_and_may_be_paid_twice() {
    let server = scripted(Reaction::Hang, &Gate::closed(), Reaction::text_reply("Hi"));
    let model = Arc::new(model(&server.base_url(), TIMEOUTS));
    let story = Setup::on(model).run().await;
    assert_eq!(story.end.outcome, Outcome::Done { text: "Hi".into() });
    let notices = story.events.iter().filter_map(|event| match &event.kind {
        EventKind::Notice { level: NoticeLevel::Warning, text } => Some(text.to_string()),
        _ => None,
    });
    let url = server.base_url();
    let expected = format!(
        "`{url}` sent no response headers within 0.02 s; tine sent the request a second time and \
         uses the first answer (the provider may charge for both)"
    );
    assert_eq!(notices.collect::<Vec<_>>(), [expected]);
    let replied = story.events.iter().find_map(|event| match &event.kind {
        EventKind::Replied(replied) => Some(replied.usage.cost.is_partial),
        _ => None,
    });
    assert_eq!(replied, Some(true));
}
