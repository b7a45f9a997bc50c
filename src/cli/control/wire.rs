//! Standard input and output of a client: lines in, whole lines out.
//!
//! Reading and writing have a thread each, so that neither waits for the other:
//! a client that does not read while it writes would otherwise wait forever for
//! a process that does the same.

use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as sync_mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::{mpsc, oneshot};

use super::skim::{Skim, Skimmed};

/// Most bytes of a line: of all the images that a conversation may hold, and a
/// few files that are quoted beside them. No model takes more.
pub(super) const LINE_CAP: usize = 24 * 1024 * 1024;

/// Most lines that were read and not looked at.
const HEARD_CAP: usize = 4;

/// Most replies that wait for a client to read them. One that writes all it has
/// to say before it reads anything may have as many.
const REPLIES_CAP: usize = 4_096;

/// Most bytes of all of them, but for short ones: what is asked for may be a
/// file.
const REPLIES_BYTES_CAP: usize = 32 * 1024 * 1024;

/// How long a short one is: the longest name of a request, and a few words.
const SHORT: usize = 2 * 1024;

/// How long a process that is about to end waits for its replies to be read.
const READER_GRACE: Duration = Duration::from_secs(2);

/// A line of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum Heard {
    /// It, without its line break.
    Line(Vec<u8>),
    /// It is too long to be read, but for this.
    TooLong(Skimmed),
}

/// Begins to read lines. The channel closes at the end of the input.
pub(in crate::cli) fn listen() -> mpsc::Receiver<Heard> {
    let (sender, heard) = mpsc::channel(HEARD_CAP);
    let reading = move || {
        let mut stdin = io::stdin().lock();
        while let Some(line) = next_line(&mut stdin) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    spawn("client", reading);
    heard
}

/// Waits until nobody can read standard output any more; forever where that is
/// not to be known.
pub(in crate::cli) async fn reader_gone(gone: &mut Option<oneshot::Receiver<()>>) {
    if let Some(waiting) = gone {
        let is_gone = waiting.await.is_ok();
        *gone = None;
        if is_gone {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Begins to watch whether somebody can read standard output.
pub(in crate::cli) fn watch_reader() -> oneshot::Receiver<()> {
    let (sender, gone) = oneshot::channel();
    spawn("reader", move || {
        let stdout = io::stdout();
        let mut watched = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        while let Err(Errno::EINTR) = poll(&mut watched, PollTimeout::NONE) {}
        let is_gone = PollFlags::POLLERR | PollFlags::POLLHUP;
        if watched[0].revents().is_some_and(|events| events.intersects(is_gone)) {
            // The conversation may be over.
            let _ = sender.send(());
        }
    });
    gone
}

/// Reads a line; `None` at the end, and where nothing can be read any more.
fn next_line(input: &mut impl io::BufRead) -> Option<Heard> {
    let mut line = Vec::new();
    let mut long: Option<Skim> = None;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => &[],
        };
        let end = memchr::memchr(b'\n', bytes);
        let part = &bytes[..end.unwrap_or(bytes.len())];
        if long.is_none() && line.len() + part.len() > LINE_CAP {
            long.get_or_insert_default().take(&mem::take(&mut line));
        }
        match &mut long {
            Some(long) => long.take(part),
            None => line.extend_from_slice(part),
        }
        let is_over = bytes.is_empty();
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() || is_over {
            return match (long, is_over && line.is_empty()) {
                (Some(long), _) => Some(Heard::TooLong(long.end())),
                (None, true) => None,
                (None, false) => Some(Heard::Line(line)),
            };
        }
    }
}

/// Replies on their way to the client.
pub(super) struct Replies {
    sender: sync_mpsc::SyncSender<Vec<u8>>,
    /// The bytes of those that wait.
    unread: Arc<AtomicUsize>,
    written: sync_mpsc::Receiver<()>,
}

impl Replies {
    pub(super) fn new() -> Self {
        let (sender, lines) = sync_mpsc::sync_channel::<Vec<u8>>(REPLIES_CAP);
        let (say_written, written) = sync_mpsc::channel();
        let unread = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&unread);
        let writing = move || {
            // Nobody reads: then nobody waits for a reply either.
            while let Ok(line) = lines.recv()
                && WholeLines.write_all(&line).is_ok()
            {
                waiting.fetch_sub(line.len(), Ordering::Relaxed);
            }
            drop(say_written);
        };
        spawn("replies", writing);
        Self { sender, unread, written }
    }

    /// Sends a line; `false` if the client has left too much unread.
    pub(super) fn send(&self, line: Vec<u8>) -> bool {
        let (bytes, before) = (line.len(), self.unread.load(Ordering::Relaxed));
        // A single one may be as long as it is.
        let has_room = bytes <= SHORT || before == 0 || before + bytes <= REPLIES_BYTES_CAP;
        if !has_room {
            return false;
        }
        self.unread.fetch_add(bytes, Ordering::Relaxed);
        let is_full = matches!(self.sender.try_send(line), Err(sync_mpsc::TrySendError::Full(_)));
        if is_full {
            self.unread.fetch_sub(bytes, Ordering::Relaxed);
        }
        !is_full
    }

    /// Waits until all of them are written, as long as somebody may read.
    pub(super) fn close(self) {
        let Self { sender, unread: _, written } = self;
        drop(sender);
        // Either way nothing more can be done for them.
        let _ = written.recv_timeout(READER_GRACE);
    }
}

/// Standard output, for whoever writes whole lines to it: what is given at once
/// is not torn by what others write.
pub(in crate::cli) struct WholeLines;

impl Write for WholeLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns what `write` writes to the output that it is given.
pub(super) fn written_by(write: impl FnOnce(Box<dyn Write + Send>)) -> Vec<u8> {
    let (sender, parts) = sync_mpsc::channel();
    write(Box::new(Parts(sender)));
    parts.try_iter().flatten().collect()
}

/// Where parts of a text go.
struct Parts(sync_mpsc::Sender<Vec<u8>>);

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whoever put it here keeps the other end until all is written.
        let _ = self.0.send(bytes.to_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .expect("the system has room for one more thread");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Heard> {
        let mut input = io::BufReader::with_capacity(7, input);
        std::iter::from_fn(|| next_line(&mut input)).collect()
    }

    #[test]
    fn lines_come_whole_the_last_one_without_its_break_too() {
        let line = |text: &str| Heard::Line(text.into());
        assert_eq!(lines(b""), []);
        assert_eq!(
            lines(b"a line that is long\n\nb"),
            [line("a line that is long"), line(""), line("b")]
        );
    }

    #[test]
    fn a_huge_line_is_passed_over_and_the_next_one_is_read() {
        let mut input = b"{\"type\":\"user\",\"message\":\"".to_vec();
        input.resize(LINE_CAP + 1, b'x');
        input.extend_from_slice(b"\",\"uuid\":\"u-1\"}\nnext\n");
        let (kind, uuid) = (Some("user".to_owned()), Some("u-1".to_owned()));
        let long = Skimmed { kind, uuid, ..Skimmed::default() };
        assert_eq!(lines(&input), [Heard::TooLong(long), Heard::Line("next".into())]);
    }
}
