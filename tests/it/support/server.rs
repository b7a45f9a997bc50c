//! A scripted HTTP server on loopback, for tests and benches.
//!
//! It answers every request with the [`Reaction`] a function picks for it, and
//! puts each conversation through the library's own checks of its API. It
//! runs on a thread of its own, so that tests which wait for a process can use
//! it too. Nothing here knows what the client under test is.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tine::model::check;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::tine::HANG_LIMIT;

/// Most bytes of a request's head; more means that the client is broken.
const HEAD_CAP: usize = 64 * 1024;

/// A request as it came in.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case, in the order they came.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// From 0, over all connections.
    pub(crate) sequence: usize,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(other, _)| other == name);
        named.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the client sends JSON")
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// Answers 200 with a body that comes in chunks.
    Stream { content_type: &'static str, pieces: Vec<Piece>, end: End },
    /// Answers 200 with events that stand still until a gate opens.
    Steps(Vec<Stepped>),
    /// Answers with a whole body.
    Status { code: u16, headers: Vec<(String, String)>, body: Vec<u8> },
    /// Writes these bytes, whatever they are, and closes.
    Raw(Vec<Piece>),
    /// Closes without a word.
    Close,
    /// Breaks the connection off without a word.
    Reset,
    /// Writes `first`, whatever that is, and then `again` until the client has
    /// gone.
    Endless { first: Vec<u8>, again: Vec<u8> },
    /// Never answers.
    Hang,
    /// Does something else once the gate is open.
    Held(Gate, Box<Reaction>),
}

/// Holds answers back until somebody opens it. A clone is the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    /// A gate that is closed.
    pub(crate) fn closed() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets everything through, now and later.
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn opened(&self) {
        let mut gate = self.0.subscribe();
        gate.wait_for(|&is_open| is_open).await.expect("the gate holds its sender");
    }
}

/// Bytes that are sent as one chunk, after a pause.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) after: Duration,
    pub(crate) bytes: Vec<u8>,
}

impl<T: Into<Vec<u8>>> From<T> for Piece {
    fn from(bytes: T) -> Self {
        Self { after: Duration::ZERO, bytes: bytes.into() }
    }
}

/// Bytes that are sent as one chunk, once a gate is open.
#[derive(Debug, Clone)]
pub(crate) struct Stepped {
    gate: Gate,
    bytes: Vec<u8>,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP wants it; the connection is kept.
    Whole,
    /// The connection closes in the middle of the body.
    Cut,
    /// The connection breaks off in the middle of the body.
    Reset,
    /// Nothing more comes, and the connection stays open.
    Hang,
}

impl Reaction {
    /// A stream of events in one piece.
    pub(crate) fn stream(bytes: impl Into<Vec<u8>>) -> Self {
        Self::pieces([bytes.into()], End::Whole)
    }

    /// A stream of events in the given pieces.
    pub(crate) fn pieces<T: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = T>, end: End) -> Self {
        let pieces = pieces.into_iter().map(Piece::from).collect();
        Self::Stream { content_type: "text/event-stream", pieces, end }
    }

    /// A stream of events in which each byte is a piece.
    pub(crate) fn byte_by_byte(bytes: &[u8]) -> Self {
        Self::pieces(bytes.iter().map(|&byte| [byte]), End::Whole)
    }

    /// A whole JSON body.
    pub(crate) fn json(code: u16, body: &Value) -> Self {
        Self::status(code, "application/json", body.to_string())
    }

    /// A whole body.
    pub(crate) fn status(code: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self::Status { code, headers, body: body.into() }
    }

    /// This, once the gate is open.
    pub(crate) fn behind(self, gate: &Gate) -> Self {
        Self::Held(gate.clone(), Box::new(self))
    }

    /// This, after a pause.
    pub(crate) fn after(mut self, pause: Duration) -> Self {
        if let Self::Stream { pieces, .. } = &mut self
            && let Some(first) = pieces.first_mut()
        {
            first.after = pause;
        }
        self
    }

    /// The answer of a model that says `text`.
    pub(crate) fn text_reply(text: &str) -> Self {
        let delta = json!({ "role": "assistant", "content": text });
        Self::stream(reply_events(&delta, "stop"))
    }

    /// The answer of a model that says these pieces, each once its gate is open.
    /// It is over with the last one.
    pub(crate) fn in_steps<'a>(steps: impl IntoIterator<Item = (&'a str, &'a Gate)>) -> Self {
        let delta = |piece| json!({ "role": "assistant", "content": piece });
        Self::in_parts(steps.into_iter().map(|(piece, gate)| (delta(piece), gate)))
    }

    /// The answer of a model that consists of these parts, each once its gate is
    /// open. It is over with the last one.
    pub(crate) fn in_parts<'a>(parts: impl IntoIterator<Item = (Value, &'a Gate)>) -> Self {
        let step = |(delta, gate): (Value, &Gate)| Stepped {
            gate: gate.clone(),
            bytes: events([&said(&delta)]),
        };
        let mut steps: Vec<_> = parts.into_iter().map(step).collect();
        steps.last_mut().expect("an answer has a step").bytes.extend(reply_end("stop"));
        Self::Steps(steps)
    }

    /// The answer of a model that makes calls; their ids are `call_a` and so on.
    pub(crate) fn call_reply(calls: &[(&str, Value)]) -> Self {
        Self::reply(None, calls)
    }

    /// The answer of a model that says something and makes calls.
    pub(crate) fn reply(text: Option<&str>, calls: &[(&str, Value)]) -> Self {
        let calls: Vec<_> = calls
            .iter()
            .zip('a'..)
            .enumerate()
            .map(|(index, ((name, arguments), letter))| {
                json!({ "index": index, "id": format!("call_{letter}"), "type": "function",
                    "function": { "name": name, "arguments": arguments.to_string() } })
            })
            .collect();
        let delta = json!({ "role": "assistant", "content": text, "tool_calls": calls });
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        Self::stream(reply_events(&delta, finish))
    }
}

/// Encodes events: each value is one event's data.
pub(crate) fn events<'a>(values: impl IntoIterator<Item = &'a Value>) -> Vec<u8> {
    values.into_iter().flat_map(|value| format!("data: {value}\n\n").into_bytes()).collect()
}

fn reply_events(delta: &Value, finish: &str) -> Vec<u8> {
    let mut bytes = events([&said(delta)]);
    bytes.extend(reply_end(finish));
    bytes
}

/// A part of what a model says.
fn said(delta: &Value) -> Value {
    event(choice(delta, None), Value::Null)
}

/// The events that end an answer.
fn reply_end(finish: &str) -> Vec<u8> {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let finished = event(choice(&json!({}), Some(finish)), Value::Null);
    let mut bytes = events([&finished, &event(json!([]), usage)]);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

fn event(choices: Value, usage: Value) -> Value {
    json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": choices, "usage": usage })
}

fn choice(delta: &Value, finish: Option<&str>) -> Value {
    json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }])
}

/// What the server remembers of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Everything, and each body is checked.
    All,
    /// Only how many there were: for measurements.
    Count,
}

/// A running server. It stops when this value goes.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    react: Box<dyn Fn(&RecordedRequest) -> Reaction + Send + Sync>,
    keep: Keep,
    requests: Mutex<Vec<RecordedRequest>>,
    violations: Mutex<Vec<String>>,
    count: watch::Sender<usize>,
    hung_up: watch::Sender<usize>,
    connections: AtomicUsize,
    /// Bytes that were written of endless answers.
    endless: AtomicUsize,
    /// Requests that wait for their answer.
    open: AtomicUsize,
    most_open: AtomicUsize,
}

impl Server {
    /// Starts a server that keeps every request.
    pub(crate) fn start(
        react: impl Fn(&RecordedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        Self::start_keeping(Keep::All, react)
    }

    /// Starts a server.
    pub(crate) fn start_keeping(
        keep: Keep,
        react: impl Fn(&RecordedRequest) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            react: Box::new(react),
            keep,
            requests: Mutex::default(),
            violations: Mutex::default(),
            count: watch::Sender::new(0),
            hung_up: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
            endless: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
        });
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // Not tokio's own `bind`: an async test is already inside a runtime.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let address = listener.local_addr().expect("a bound socket has an address");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let accepting = accept(listener, Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accepting => {}
                    // Sent or dropped: either way nobody needs the server.
                    _ = stopped => {}
                }
            });
        });
        Self { address, shared, runtime: handle, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the base URL to configure: `http://127.0.0.1:PORT/v1`.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns how many requests have come.
    pub(crate) fn count(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Returns how many connections have been made.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns how many bytes of endless answers went out.
    pub(crate) fn endless_bytes(&self) -> usize {
        self.shared.endless.load(Ordering::Relaxed)
    }

    /// Returns how many requests waited for their answers at one moment.
    pub(crate) fn most_open(&self) -> usize {
        self.shared.most_open.load(Ordering::Relaxed)
    }

    /// Waits until at least `count` requests have come.
    pub(crate) async fn came(&self, count: usize) {
        self.reaches(&self.shared.count, count, "requests").await;
    }

    /// Waits until at least `count` clients have closed a connection on which
    /// the server kept silent.
    pub(crate) async fn hung_up(&self, count: usize) {
        self.reaches(&self.shared.hung_up, count, "clients that hung up").await;
    }

    /// Waits until so many have come; panics once none has for a long time.
    async fn reaches(&self, counter: &watch::Sender<usize>, count: usize, what: &str) {
        let mut counter = counter.subscribe();
        let waits = async move {
            while *counter.borrow_and_update() < count {
                let next = timeout(HANG_LIMIT, counter.changed()).await;
                next.ok()?.expect("the server holds the sender");
            }
            Some(())
        };
        // On the server's own clock: one that a test has paused runs ahead while nobody
        // in there has anything to do.
        let reached = self.runtime.spawn(waits).await.expect("the server runs");
        reached.unwrap_or_else(|| panic!("waited in vain for {count} {what}"));
    }

    /// Waits until at least `count` requests have come. Not for async tests.
    pub(crate) fn wait_until_came(&self, count: usize) {
        self.runtime.block_on(self.came(count));
    }

    /// As [`hung_up`](Self::hung_up). Not for async tests.
    pub(crate) fn wait_until_hung_up(&self, count: usize) {
        self.runtime.block_on(self.hung_up(count));
    }

    /// Returns the requests so far; none if they are only counted.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().expect("no test panics while it holds the lock").clone()
    }

    /// Ends the server and returns its requests.
    ///
    /// Panics if one of them was not as it should be.
    #[track_caller]
    pub(crate) fn finish(self) -> Vec<RecordedRequest> {
        let violations = self.shared.violations.lock().expect("as above").clone();
        assert_eq!(violations, [""; 0], "requests that a provider would refuse");
        self.requests()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; a second one would abort.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn take(&self, request: RecordedRequest) -> Reaction {
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        let reaction = (self.react)(&request);
        if self.keep == Keep::All {
            let mut requests = self.requests.lock().expect("as above");
            if let Err(violation) = check_request(&request, &requests) {
                let text = format!("request {}: {violation}", request.sequence);
                self.violations.lock().expect("as above").push(text);
            }
            requests.push(request);
        }
        // Last, so that whoever waits for the count finds the request kept.
        self.count.send_modify(|count| *count += 1);
        reaction
    }
}

/// Checks a request by the rules of its API, if it is a conversation.
fn check_request(request: &RecordedRequest, earlier: &[RecordedRequest]) -> Result<(), String> {
    // How many messages a fork of an empty conversation has: its directive,
    // and the system prompt where that is a message.
    let (checked, key, empty) = match request.path.split('?').next() {
        Some(path) if path.ends_with("/chat/completions") => {
            (check::check(&request.body), "messages", 2)
        }
        Some(path) if path.ends_with("/responses") => {
            (check::responses::check(&request.body), "input", 1)
        }
        Some(path) if path.ends_with("/messages") => {
            (check::anthropic::check(&request.body), "messages", 1)
        }
        Some(_) | None => return Ok(()),
    };
    checked.map_err(|error| error.to_string())?;
    let is_empty =
        || request.json()[key].as_array().is_some_and(|messages| messages.len() == empty);
    check_fork(request, earlier, is_empty)
}

/// Checks that a fork begins with the bytes of a request that came before,
/// unless there was nothing before its directive.
fn check_fork(
    request: &RecordedRequest,
    earlier: &[RecordedRequest],
    is_empty: impl Fn() -> bool,
) -> Result<(), String> {
    let is_fork =
        String::from_utf8_lossy(&request.body).contains("<fork-boilerplate>\\nYou are a fork");
    let goes_on =
        |before: &RecordedRequest| check::check_continues(&before.body, &request.body).is_ok();
    match is_fork && !is_empty() && !earlier.iter().any(goes_on) {
        true => Err("the fork goes on from no request before it".to_owned()),
        false => Ok(()),
    }
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a non-blocking socket");
    let sequence = Arc::new(AtomicUsize::new(0));
    loop {
        // What has gone wrong with one connection is no reason to take no others.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let (shared, sequence) = (Arc::clone(&shared), Arc::clone(&sequence));
        tokio::spawn(async move {
            let next = || sequence.fetch_add(1, Ordering::Relaxed);
            // A client that goes away is part of many tests.
            let _ = serve(socket, &shared, next).await;
        });
    }
}

/// Serves one connection until one side closes it.
async fn serve(
    mut socket: TcpStream,
    shared: &Shared,
    next: impl Fn() -> usize,
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    while let Some(request) = read_request(&mut socket, &mut buffer, &next).await? {
        let mut reaction = shared.take(request);
        while let Reaction::Held(gate, then) = reaction {
            gate.opened().await;
            reaction = *then;
        }
        if !matches!(reaction, Reaction::Hang) {
            // Before the answer: with it in hand the client may send the next.
            shared.open.fetch_sub(1, Ordering::Relaxed);
        }
        match reaction {
            Reaction::Stream { content_type, pieces, end } => {
                stream(&mut socket, content_type, pieces, end).await?;
                match end {
                    End::Whole => {}
                    End::Cut => return Ok(()),
                    End::Reset => return socket.set_zero_linger(),
                    End::Hang => return until_closed(&mut socket, shared).await,
                }
            }
            Reaction::Steps(steps) => step_by_step(&mut socket, steps, shared).await?,
            Reaction::Status { code, headers, body } => {
                let mut bytes = format!("HTTP/1.1 {code} Scripted\r\n").into_bytes();
                for (name, value) in headers {
                    bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
                }
                let end = format!("content-length: {}\r\n\r\n", body.len());
                bytes.extend_from_slice(end.as_bytes());
                bytes.extend_from_slice(&body);
                socket.write_all(&bytes).await?;
            }
            Reaction::Raw(pieces) => {
                for piece in pieces {
                    pause(piece.after).await;
                    socket.write_all(&piece.bytes).await?;
                }
                return socket.shutdown().await;
            }
            Reaction::Close => return Ok(()),
            Reaction::Reset => return socket.set_zero_linger(),
            Reaction::Endless { first, again } => {
                let mut bytes = &first;
                loop {
                    socket.write_all(bytes).await?;
                    shared.endless.fetch_add(bytes.len(), Ordering::Relaxed);
                    bytes = &again;
                }
            }
            Reaction::Hang => return until_closed(&mut socket, shared).await,
            Reaction::Held(_, _) => unreachable!("every gate was passed"),
        }
    }
    Ok(())
}

async fn stream(
    socket: &mut TcpStream,
    content_type: &str,
    pieces: Vec<Piece>,
    end: End,
) -> std::io::Result<()> {
    // Whatever has no pause before it goes out in one write. The end must:
    // a client that stops at the end mark keeps the connection only if the
    // end of the body is already there.
    let mut bytes = stream_head(content_type);
    for piece in pieces {
        if piece.after > Duration::ZERO {
            socket.write_all(&bytes).await?;
            bytes.clear();
            pause(piece.after).await;
        }
        put_chunk(&mut bytes, &piece.bytes);
    }
    if end == End::Whole {
        bytes.extend_from_slice(STREAM_END);
    }
    socket.write_all(&bytes).await
}

/// Sends a stream as its gates open; a client that does not wait for that has
/// hung up.
async fn step_by_step(
    socket: &mut TcpStream,
    steps: Vec<Stepped>,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut bytes = stream_head("text/event-stream");
    for Stepped { gate, bytes: step } in steps {
        socket.write_all(&bytes).await?;
        bytes.clear();
        tokio::select! {
            () = gate.opened() => {}
            closed = until_closed(socket, shared) => {
                closed?;
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
        }
        put_chunk(&mut bytes, &step);
    }
    bytes.extend_from_slice(STREAM_END);
    socket.write_all(&bytes).await
}

const STREAM_END: &[u8] = b"0\r\n\r\n";

fn stream_head(content_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n")
        .into_bytes()
}

fn put_chunk(bytes: &mut Vec<u8>, chunk: &[u8]) {
    // An empty one would be the end of the body, behind which a client may send
    // its next request to whoever hangs here.
    if chunk.is_empty() {
        return;
    }
    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
    bytes.extend_from_slice(chunk);
    bytes.extend_from_slice(b"\r\n");
}

async fn pause(time: Duration) {
    if time > Duration::ZERO {
        tokio::time::sleep(time).await;
    }
}

async fn until_closed(socket: &mut TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut sink = [0; 1024];
    while socket.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    shared.hung_up.send_modify(|count| *count += 1);
    Ok(())
}

/// Reads one request; `None` if the client has closed the connection.
async fn read_request(
    socket: &mut TcpStream,
    buffer: &mut Vec<u8>,
    next: impl Fn() -> usize,
) -> std::io::Result<Option<RecordedRequest>> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        assert!(buffer.len() < HEAD_CAP, "a request's head is over {HEAD_CAP} bytes");
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().expect("a length is a number"));
    buffer.drain(..head_end + 4);
    while buffer.len() < length {
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = buffer.drain(..length).collect();
    Ok(Some(RecordedRequest { method, path, headers, body, sequence: next() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// Sends a request, whatever for.
    fn ask(server: &Server) -> TcpStream {
        let mut client = TcpStream::connect(server.address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        client
    }

    /// Reads up to this text, which ends what came.
    fn read_to(client: &mut TcpStream, end: &str) -> String {
        let (mut text, mut some) = (String::new(), [0; 4_096]);
        while !text.ends_with(end) {
            let count = client.read(&mut some).unwrap();
            assert!(count > 0, "{text}");
            text += str::from_utf8(&some[..count]).unwrap();
        }
        text
    }

    #[test]
    fn an_answer_in_steps_stands_still_until_the_next_gate_opens() {
        let gates = [Gate::closed(), Gate::closed()];
        let steps = Reaction::in_steps([("one", &gates[0]), ("two", &gates[1])]);
        let server = Server::start(move |_| steps.clone());
        let mut client = ask(&server);
        read_to(&mut client, "chunked\r\n\r\n");
        gates[0].open();
        let first = read_to(&mut client, "}\n\n\r\n");
        assert!(first.contains(r#""content":"one""#) && !first.contains("two"), "{first}");
        gates[1].open();
        let rest = read_to(&mut client, "data: [DONE]\n\n\r\n0\r\n\r\n");
        assert!(rest.contains(r#""content":"two""#) && !rest.contains("one"), "{rest}");
    }

    #[tokio::test]
    async fn a_client_that_goes_before_a_gate_opens_has_hung_up() {
        let gate = Gate::closed();
        let steps = Reaction::in_steps([("one", &gate)]);
        let server = Server::start(move |_| steps.clone());
        drop(ask(&server));
        server.hung_up(1).await;
    }
}
