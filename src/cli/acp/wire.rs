//! Lines of an editor and lines for it, between standard input, standard output
//! and the crate.
//!
//! The crate's queues grow without bound. So its frames are taken from it at
//! once and counted here: an editor that leaves too many unread is not read
//! either, and updates wait before they enter.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{Channel, Error, ErrorCode, RawJsonRpcMessage, TransportFrame};
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::updates::Updates;
use crate::cli::control::{self, Heard, WholeLines};
use crate::json_text;

/// Most lines that an editor may leave unread before no more is read of it.
/// One that writes all it has to say before it reads anything may have as many.
const UNREAD_CAP: usize = 4_096;

/// Most lines that the writing thread has before it.
const WRITING_CAP: usize = 16;

/// How long a process that is about to end waits for its lines to be read.
const READER_GRACE: Duration = Duration::from_secs(2);

/// Carries frames until the crate lets go of its end. `gone` is cancelled once
/// nobody can read any more.
pub(super) async fn pump(channel: Channel, updates: Arc<Updates>, gone: CancellationToken) {
    let (mut from_crate, to_crate) = channel.into_parts();
    let mut to_crate = Some(to_crate);
    let mut heard = control::listen();
    let mut watching = Some(control::watch_reader());
    let (writer, mut written) = start_writer();
    let mut unread: VecDeque<Line> = VecDeque::new();
    loop {
        tokio::select! {
            biased;
            room = writer.reserve(), if !unread.is_empty() => match (room, unread.pop_front()) {
                (Ok(room), Some(line)) => {
                    if line.is_update {
                        updates.written();
                    }
                    room.send(line.text);
                }
                _ => break,
            },
            frame = from_crate.next() => match frame {
                Some(frame) => unread.extend(Line::of(&frame)),
                None => break,
            },
            () = control::reader_gone(&mut watching) => gone.cancel(),
            line = heard.recv(), if to_crate.is_some() && unread.len() < UNREAD_CAP => match line {
                Some(line) => {
                    let passed = frame_of(line).map(|frame| {
                        to_crate.as_ref().is_some_and(|to| to.unbounded_send(frame).is_ok())
                    });
                    if passed == Some(false) {
                        to_crate = None;
                    }
                    // The crate looks at each line before the next one is read.
                    tokio::task::yield_now().await;
                }
                None => to_crate = None,
            },
            _ = &mut written => break,
        }
    }
    gone.cancel();
    // Whoever waits to send something waits for nobody any more.
    updates.close();
    let last = async {
        for line in unread {
            if writer.send(line.text).await.is_err() {
                return;
            }
        }
        drop(writer);
        // The thread has ended or panicked; either way it writes no more.
        let _ = written.await;
    };
    // Nobody reads: then nobody misses it.
    let _ = tokio::time::timeout(READER_GRACE, last).await;
}

/// A line for an editor.
struct Line {
    text: String,
    /// Whether it is one of the updates, with or without a place among them.
    is_update: bool,
}

impl Line {
    fn of(frame: &TransportFrame) -> Option<Self> {
        let is_update = matches!(frame, TransportFrame::Single(RawJsonRpcMessage::Notification(it))
            if &*it.method == "session/update");
        // Only values that were made from JSON are sent.
        let mut text = frame.to_json().ok()?;
        text.push('\n');
        Some(Self { text, is_update })
    }
}

/// Returns what the crate is given of a line; `None` if it says nothing.
fn frame_of(line: Heard) -> Option<TransportFrame> {
    let line = match line {
        Heard::Line(line) if line.trim_ascii().is_empty() => return None,
        Heard::Line(line) => line,
        Heard::TooLong(_) => {
            let error = Error::invalid_request().data("the line is too long");
            return Some(TransportFrame::Malformed { raw: String::new(), error });
        }
    };
    let text = String::from_utf8_lossy(&line);
    let frame = TransportFrame::parse_json(json_text::strip_mark(&text));
    if let TransportFrame::Malformed { raw, error } = &frame
        && error.code == ErrorCode::PARSE_ERROR
    {
        // The crate would send the whole line back.
        let (raw, error) = (raw.clone(), Error::parse_error());
        return Some(TransportFrame::Malformed { raw, error });
    }
    Some(frame)
}

/// Starts the thread that writes lines. What it returns beside where they go
/// resolves once nothing is written any more.
fn start_writer() -> (mpsc::Sender<String>, oneshot::Receiver<()>) {
    let (sender, mut lines) = mpsc::channel::<String>(WRITING_CAP);
    let (say_ended, ended) = oneshot::channel();
    let writing = move || {
        while let Some(line) = lines.blocking_recv()
            && WholeLines.write_all(line.as_bytes()).is_ok()
        {}
        // Nobody may wait for it.
        let _ = say_ended.send(());
    };
    std::thread::Builder::new()
        .name("editor".to_owned())
        .spawn(writing)
        .expect("the system has room for one more thread");
    (sender, ended)
}
