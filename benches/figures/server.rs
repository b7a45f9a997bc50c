//! The scripted server: a process of its own, so that nothing it does counts
//! as the work of what is measured.
//!
//! A thread for each connection, blocking reads and one write an answer: it
//! must never be what everybody waits for. It is told what to do on standard
//! input and says what it saw on standard output, a line each.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::script::{self, Answer, Script, Who};

/// The argument that makes this program the server.
pub(crate) const ARGUMENT: &str = "--serve";

/// What an answer begins with.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n";

/// What it ends with.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A request, as the server saw it once all of it was there.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// When.
    pub(crate) at: Duration,
    /// Who made it.
    pub(crate) who: Who,
    /// For the how-manyeth time, from 1.
    pub(crate) turn: u32,
    /// The CPU time the watched process had used by then.
    pub(crate) cpu: Option<Duration>,
    /// The most memory it had held by then, in KiB; only for the main
    /// conversation and the last slot, since reading it takes a while.
    pub(crate) peak: Option<u64>,
}

/// What the server is told.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// The process whose CPU time and memory are of interest.
    Watch(i32),
    /// Say so when this many requests have come.
    Await(usize),
    /// Say so when main has got so far.
    AwaitTurn(u32),
    /// Say what was seen, and end.
    Finish,
}

/// A running server. It ends when this value goes.
pub(crate) struct Server {
    child: Child,
    orders: ChildStdin,
    said: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    pub(crate) fn start(script: &Script) -> Self {
        let program = std::env::current_exe().expect("a program knows where it is");
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .arg(serde_json::to_string(script).expect("a script is plain"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let orders = child.stdin.take().expect("standard input was asked for");
        let said = child.stdout.take().expect("standard output was asked for");
        let mut server = Self { child, orders, said: BufReader::new(said), port: 0 };
        server.port = server.hear();
        server
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// From now on requests are noted with this process's CPU time.
    pub(crate) fn watch(&mut self, pid: i32) {
        self.order(&Order::Watch(pid));
    }

    /// Waits until this many requests have come.
    pub(crate) fn wait_for(&mut self, requests: usize) {
        self.order(&Order::Await(requests));
        let () = self.hear();
    }

    /// Waits until the main conversation asks for this turn.
    pub(crate) fn wait_for_turn(&mut self, turn: u32) {
        self.order(&Order::AwaitTurn(turn));
        let () = self.hear();
    }

    /// Ends the server and returns what it saw, in the order of arrival.
    pub(crate) fn finish(mut self) -> Vec<Seen> {
        self.order(&Order::Finish);
        self.hear()
    }

    fn order(&mut self, order: &Order) {
        writeln!(self.orders, "{}", serde_json::to_string(order).expect("an order is plain"))
            .expect("the server reads its orders");
    }

    fn hear<T: for<'de> Deserialize<'de>>(&mut self) -> T {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("the server speaks");
        serde_json::from_str(&line).expect("the server speaks JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Shared {
    script: Script,
    watched: AtomicI32,
    seen: Mutex<Vec<Seen>>,
    came: Condvar,
}

/// The server's own process: serves until it is told to end.
pub(crate) fn serve(script: &str) {
    let script = serde_json::from_str(script).expect("the script was written by this program");
    let shared = Arc::new(Shared {
        script,
        watched: AtomicI32::new(0),
        seen: Mutex::default(),
        came: Condvar::new(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    say(&listener.local_addr().expect("a bound socket has an address").port());
    let accepting = Arc::clone(&shared);
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let shared = Arc::clone(&accepting);
            // A client that goes away in the middle ends its connection.
            std::thread::spawn(move || drop(converse(socket, &shared)));
        }
    });
    for line in std::io::stdin().lines() {
        let line = line.expect("orders are text");
        match serde_json::from_str(&line).expect("orders are JSON") {
            Order::Watch(pid) => shared.watched.store(pid, Ordering::Relaxed),
            Order::Await(count) => {
                shared.wait_until(|seen| seen.len() >= count);
                say(&());
            }
            Order::AwaitTurn(turn) => {
                let is_it = |seen: &Seen| seen.who == Who::Main && seen.turn >= turn;
                shared.wait_until(|seen| seen.iter().any(is_it));
                say(&());
            }
            Order::Finish => {
                say(&*shared.seen.lock().expect("no thread panics with the lock"));
                return;
            }
        }
    }
}

fn say(value: &impl Serialize) {
    let mut line = serde_json::to_vec(value).expect("what is said is plain");
    line.push(b'\n');
    let mut output = std::io::stdout().lock();
    // Whoever started this process may be gone; then it ends, too.
    let _ = output.write_all(&line).and_then(|()| output.flush());
}

/// Serves one connection until the client closes it.
fn converse(mut socket: TcpStream, shared: &Shared) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(64 * 1024);
    while let Some(length) = read_request(&mut socket, &mut buffer)? {
        let (who, turn) = script::asker(&buffer[..length]);
        shared.note(who, turn);
        let answer = shared.script.answer(who, turn, &buffer[..length]);
        buffer.drain(..length);
        match answer {
            Answer::Events(pause, events) => {
                if pause > Duration::ZERO {
                    std::thread::sleep(pause);
                }
                write_answer(&mut socket, &events)?;
            }
            Answer::Pieces(per_second, events) => {
                write_pieces(&mut socket, per_second, &events)?;
            }
            Answer::Silence => {
                let mut rest = Vec::new();
                socket.read_to_end(&mut rest)?;
                return Ok(());
            }
        }
    }
    Ok(())
}

impl Shared {
    fn wait_until(&self, is_enough: impl Fn(&[Seen]) -> bool) {
        let seen = self.seen.lock().expect("no thread panics with the lock");
        let enough = self.came.wait_while(seen, |seen| !is_enough(seen));
        drop(enough.expect("no thread panics with the lock"));
    }

    fn note(&self, who: Who, turn: u32) {
        let at = clock::now();
        let watched = self.watched.load(Ordering::Relaxed);
        // The last of many slots where main asks for nothing.
        let is_last = who == Who::Slot(self.script.slots.saturating_sub(1));
        let is_wanted = who == Who::Main || is_last;
        let peak = is_wanted.then(|| clock::peak_memory(watched)).flatten();
        let seen = Seen { at, who, turn, cpu: clock::cpu_time(watched), peak };
        self.seen.lock().expect("no thread panics with the lock").push(seen);
        self.came.notify_all();
    }
}

/// Reads until the buffer begins with a whole body and returns its length;
/// `None` if the client has closed the connection.
fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<usize>> {
    let mut piece = [0; 64 * 1024];
    let mut body: Option<(usize, usize)> = None;
    loop {
        if body.is_none()
            && let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n")
        {
            body = Some((end + 4, content_length(&buffer[..end])));
        }
        if let Some((start, length)) =
            body.filter(|&(start, length)| buffer.len() >= start + length)
        {
            buffer.drain(..start);
            return Ok(Some(length));
        }
        match socket.read(&mut piece)? {
            0 => return Ok(None),
            count => buffer.extend_from_slice(&piece[..count]),
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    String::from_utf8_lossy(head)
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.trim().parse().expect("a length is a number"))
}

fn write_answer(socket: &mut TcpStream, events: &[u8]) -> std::io::Result<()> {
    let answer = [HEAD, &chunk(events), LAST_CHUNK].concat();
    socket.write_all(&answer)
}

/// Writes events one by one, each when it is due.
fn write_pieces(
    socket: &mut TcpStream,
    per_second: Option<u32>,
    events: &[Vec<u8>],
) -> std::io::Result<()> {
    socket.write_all(HEAD)?;
    let started = clock::now();
    for (number, event) in (0..).zip(events) {
        if let Some(per_second) = per_second {
            let due = started + Duration::from_secs(1) * number / per_second;
            // Who was kept from running is late with one piece and not with all.
            std::thread::sleep(due.saturating_sub(clock::now()));
        }
        socket.write_all(&chunk(event))?;
    }
    socket.write_all(LAST_CHUNK)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}
