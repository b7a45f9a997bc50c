//! `tine trace --follow`: the page of a session that runs, served to a browser of
//! this machine.
//!
//! One loop owns the trace: it reads what the log has grown by and answers what
//! connections ask, one thing after the other. It ends with the run, a while
//! after which pages have been told so, or with a signal.

use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::request::{Asked, Door, HEAD_CAP, Refused};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::{session, signals};
use crate::report::trace::{Reach, Trace, TraceFacts};
use crate::run;
use crate::session::{Entry, Tail, is_running};

/// Most connections at once. A page asks one thing at a time; a browser opens a
/// few more on suspicion.
const CONNECTIONS_CAP: usize = 32;

/// How long a request may take to come.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// How long an answer may take to go. The largest page is some 100 MB.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How often the log is looked at when nobody asks.
const LOOK: Duration = Duration::from_millis(500);

/// How long pages are waited for once the run is over. They ask every second.
const FAREWELL: Duration = Duration::from_secs(15);

/// Serves the page of the session in `directory` for as long as it runs.
pub(super) fn run(directory: &Path) -> Result<Exit, Refusal> {
    if !is_running(directory) {
        let message = format!("session `{}` does not run", session::id_of(directory));
        return Err(Refusal::new(Exit::BadInput, message)
            .hint("without `--follow` its page is written to a file"));
    }
    let live = Live::open(directory)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| runtime.block_on(serve(live)));
    served.map_err(|error| Refusal::new(Exit::Error, format!("cannot serve the page: {error}")))
}

/// A session while it runs.
struct Live {
    directory: PathBuf,
    tail: Tail,
    trace: Trace,
    facts: TraceFacts,
    /// Whether a page was ever asked for.
    is_watched: bool,
    /// Whether a page was told that the run is over.
    is_told: bool,
}

impl Live {
    fn open(directory: &Path) -> Result<Self, Refusal> {
        let tail = Tail::open(directory).map_err(|error| session::cannot_read(&error))?;
        let facts = TraceFacts { now: Some(run::now()), ..super::facts(directory) };
        let mut live = Self {
            directory: directory.to_owned(),
            tail,
            trace: Trace::default(),
            facts,
            is_watched: false,
            is_told: false,
        };
        live.read();
        Ok(live)
    }

    /// Reads what has come, and looks whether anything more may.
    fn read(&mut self) {
        // Before the log: what is written until then is read.
        let is_running = self.facts.now.is_some() && is_running(&self.directory);
        while let Some(entry) = self.tail.read_on() {
            match entry {
                Entry::Event(event) => self.trace.take(&event),
                Entry::Unknown { line: _, kind: _ } => self.facts.unknown_events += 1,
                Entry::Bad { line: _, why: _ } => self.facts.bad_lines += 1,
            }
        }
        self.facts.now = is_running.then(run::now);
    }

    fn is_over(&self) -> bool {
        self.facts.now.is_none()
    }

    fn answer(&mut self, asked: Asked) -> Answer {
        self.read();
        self.is_watched = true;
        self.is_told |= self.is_over();
        match asked {
            Asked::Page => {
                let page = self.trace.page(&self.facts, Reach::Server);
                Answer { kind: "text/html; charset=utf-8", body: page }
            }
            Asked::Changes(after) => {
                let changes = self.trace.json_after(&self.facts, after);
                Answer { kind: "application/json", body: changes }
            }
        }
    }
}

/// What goes back to a browser.
struct Answer {
    kind: &'static str,
    body: Vec<u8>,
}

/// A request that waits for its answer.
type Question = (Asked, oneshot::Sender<Answer>);

async fn serve(mut live: Live) -> io::Result<Exit> {
    let mut signals = signals::listen()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let token = Uuid::new_v4().simple().to_string();
    let door = Door { port: listener.local_addr()?.port(), token };
    tell(&door, &live)?;
    let (sender, mut questions) = mpsc::channel::<Question>(CONNECTIONS_CAP);
    let mut connections = JoinSet::new();
    let closing = CancellationToken::new();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut farewell: Option<Instant> = None;
    loop {
        if live.is_over() && farewell.is_none() {
            crate::cli::say(&"the run is over");
            farewell = Some(Instant::now() + FAREWELL);
        }
        if live.is_over() && (live.is_told || !live.is_watched) {
            break;
        }
        let parting = farewell.unwrap_or_else(Instant::now);
        tokio::select! {
            signal = signals.recv() => return Ok(signal.map_or(Exit::Done, Exit::after)),
            accepted = listener.accept() => if let Ok((stream, _)) = accepted
                && connections.len() < CONNECTIONS_CAP
            {
                let (door, sender, closing) = (door.clone(), sender.clone(), closing.clone());
                connections.spawn(connection(stream, door, sender, closing));
            },
            Some((asked, reply)) = questions.recv() => {
                // A browser that has gone meanwhile needs none.
                let _ = reply.send(live.answer(asked));
            }
            Some(_) = connections.join_next() => {}
            _ = look.tick() => live.read(),
            () = sleep_until(parting), if farewell.is_some() => break,
        }
    }
    // The last answer is on its way. Who has asked nothing yet gets none:
    // browsers open connections on suspicion.
    closing.cancel();
    let rest = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, rest).await;
    Ok(Exit::Done)
}

fn tell(door: &Door, live: &Live) -> io::Result<()> {
    let id = session::id_of(&live.directory);
    crate::cli::say(&format!("session {id}, for as long as it runs; Ctrl-C ends this:"));
    writeln!(io::stdout().lock(), "{}", door.url())
}

/// Answers one request.
async fn connection(
    mut stream: TcpStream,
    door: Door,
    questions: mpsc::Sender<Question>,
    closing: CancellationToken,
) {
    let came = tokio::select! {
        came = timeout(HEAD_LIMIT, head(&mut stream)) => came,
        () = closing.cancelled() => return,
    };
    let Ok(Ok(Some(head))) = came else {
        // Nothing was asked.
        return;
    };
    let answer = match door.open(&head) {
        Ok(asked) => {
            let (reply, answer) = oneshot::channel();
            if questions.send((asked, reply)).await.is_err() {
                return;
            }
            answer.await.map_err(|_| Refused::NotFound)
        }
        Err(refused) => Err(refused),
    };
    let bytes = written(answer);
    let send = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    // A browser that has gone meanwhile needs no answer.
    let _ = timeout(ANSWER_LIMIT, send).await;
}

/// Reads the head of a request; `None` if it is too long or has no end.
async fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while head.len() <= HEAD_CAP {
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            head.truncate(end);
            return Ok(Some(head));
        }
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(None)
}

/// Returns an answer as it goes out. No other page may read it, and nothing
/// keeps it.
fn written(answer: Result<Answer, Refused>) -> Vec<u8> {
    let (status, Answer { kind, body }) = match answer {
        Ok(answer) => ("200 OK", answer),
        Err(refused) => {
            let body = format!("{}\n", refused.status()).into_bytes();
            (refused.status(), Answer { kind: "text/plain; charset=utf-8", body })
        }
    };
    let length = body.len();
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}
