//! The reporters, on a thread of their own.
//!
//! A terminal or a pipe that is slow to read never delays the log. Reporters
//! may fall behind by a bounded number of events; then the run waits for them.
//! Once the run is over or was told to stop, it waits only as long as somebody
//! still reads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::{Reporter, Signals};
use crate::event::{Delta, Event};

/// Most events and deltas that reporters may be behind.
const BEHIND_CAP: usize = 1_024;

/// How long a reader may take nothing at all before a run that is over, or was
/// told to stop, goes on without it.
const READER_GRACE: Duration = Duration::from_secs(2);

/// How long pieces of answers gather before they are shown: nobody sees how late
/// that is, and a wake-up for each would cost more than all that is done with it.
const GATHERING: Duration = Duration::from_millis(8);

/// What reporters are shown.
pub(super) enum Shown {
    /// Something that happened.
    Event(Arc<Event>),
    /// A piece of an answer.
    Delta(Delta),
}

/// The reporters, and what became of them.
pub(super) struct Audience {
    /// `None` once nobody is shown anything any more.
    sender: Option<mpsc::Sender<Shown>>,
    /// The thread that shows, while it may be waiting for more pieces.
    thread: Option<Thread>,
    /// Why the first reporter, the one on standard output, has stopped.
    gone: oneshot::Receiver<io::Error>,
    /// The end of the thread, and why one of the others has stopped.
    finished: oneshot::Receiver<io::Result<()>>,
    is_running: bool,
    /// Counts what was shown, to tell a slow reader from one that has stopped.
    progress: Arc<AtomicU64>,
    error: Option<io::Error>,
}

impl Audience {
    pub(super) fn new(reporters: Vec<Box<dyn Reporter>>) -> Self {
        let (say_gone, gone) = oneshot::channel();
        let (say_finished, finished) = oneshot::channel();
        let progress = Arc::new(AtomicU64::new(0));
        // A thread that has nothing to show is not started.
        let is_running = !reporters.is_empty();
        let (sender, thread) = is_running
            .then(|| {
                let (sender, receiver) = mpsc::channel(BEHIND_CAP);
                let progress = Arc::clone(&progress);
                let handle = std::thread::Builder::new()
                    .name("reporters".to_owned())
                    .spawn(move || {
                        let result = show(reporters, receiver, say_gone, &progress);
                        // The run may have given up waiting.
                        let _ = say_finished.send(result);
                    })
                    .expect("the system has room for one more thread");
                (sender, handle.thread().clone())
            })
            .unzip();
        Self { sender, thread, gone, finished, is_running, progress, error: None }
    }

    /// Waits until the first reporter has stopped by itself; forever if there
    /// is none or that is known. Dropping the future loses nothing.
    pub(super) async fn gone(&mut self) {
        if !self.is_running || self.error.is_some() {
            return std::future::pending().await;
        }
        let error = (&mut self.gone).await;
        self.error = Some(error.unwrap_or_else(|_| panicked()));
    }

    /// Shows something, once the reporters are near enough to it. A signal
    /// that arrives meanwhile is kept, and from then on only progress counts.
    pub(super) async fn show(&mut self, shown: Shown, signals: &mut Signals) {
        let Some(sender) = self.sender.clone() else {
            return;
        };
        let is_event = matches!(shown, Shown::Event(_));
        let sending = match sender.try_send(shown) {
            Ok(()) => {
                if is_event {
                    self.hurry();
                }
                return;
            }
            Err(TrySendError::Closed(_)) => {
                self.sender = None;
                return;
            }
            Err(TrySendError::Full(shown)) => sender.send(shown),
        };
        tokio::pin!(sending);
        loop {
            let before = self.progress.load(Ordering::Relaxed);
            let is_told = signals.is_told();
            tokio::select! {
                sent = &mut sending => {
                    if sent.is_err() {
                        self.sender = None;
                    }
                    return;
                }
                () = signals.arrived(), if !is_told => {}
                () = tokio::time::sleep(READER_GRACE), if is_told => {
                    if self.progress.load(Ordering::Relaxed) == before {
                        self.sender = None;
                        return;
                    }
                }
            }
        }
    }

    /// Has what waits for more pieces wait no longer.
    fn hurry(&self) {
        self.thread.iter().for_each(Thread::unpark);
    }

    /// Waits until everything was shown. After a signal it waits only as long
    /// as somebody reads. Returns what kept it from being shown.
    pub(super) async fn close(mut self, signals: &mut Signals) -> Option<io::Error> {
        self.sender = None;
        self.hurry();
        if !self.is_running {
            return self.error;
        }
        loop {
            let before = self.progress.load(Ordering::Relaxed);
            let is_told = signals.is_told();
            tokio::select! {
                finished = &mut self.finished => {
                    let Ok(result) = finished else { return Some(panicked()) };
                    let gone = self.gone.try_recv().ok();
                    return self.error.or(gone).or(result.err());
                }
                () = signals.arrived(), if !is_told => {}
                () = tokio::time::sleep(READER_GRACE), if is_told => {
                    if self.progress.load(Ordering::Relaxed) == before {
                        return self.error.or(Some(io::ErrorKind::TimedOut.into()));
                    }
                }
            }
        }
    }
}

fn panicked() -> io::Error {
    io::Error::other("what shows the run has panicked")
}

/// The thread: shows until there is nothing more, or nobody left to show it to.
///
/// # Errors
///
/// Why one of the other reporters than the first has stopped. It does not end
/// the run, which the first is there for.
fn show(
    reporters: Vec<Box<dyn Reporter>>,
    mut receiver: mpsc::Receiver<Shown>,
    say_gone: oneshot::Sender<io::Error>,
    progress: &AtomicU64,
) -> io::Result<()> {
    let mut reporters: Vec<(bool, Box<dyn Reporter>)> =
        reporters.into_iter().enumerate().map(|(index, reporter)| (index == 0, reporter)).collect();
    let mut say_gone = Some(say_gone);
    let mut result = Ok(());
    let mut each = |call: &mut dyn FnMut(&mut dyn Reporter) -> io::Result<()>| {
        reporters.retain_mut(|(is_first, reporter)| match call(&mut **reporter) {
            Ok(()) => true,
            Err(error) => {
                match say_gone.take_if(|_| *is_first) {
                    // The run may be over; then `close` asks.
                    Some(say) => drop(say.send(error)),
                    None => result = Err(error),
                }
                false
            }
        });
        progress.fetch_add(1, Ordering::Relaxed);
        !reporters.is_empty()
    };
    let mut goes_on = true;
    while goes_on && let Some(shown) = receiver.blocking_recv() {
        let mut next = Some(shown);
        let mut are_pieces = true;
        while let Some(shown) = next {
            each(&mut |reporter| match &shown {
                Shown::Event(event) => reporter.event(event),
                Shown::Delta(delta) => reporter.delta(delta),
            });
            are_pieces &= matches!(shown, Shown::Delta(_));
            next = receiver.try_recv().ok();
        }
        goes_on = each(&mut |reporter| reporter.pause());
        if are_pieces {
            // Events do not wait for them.
            std::thread::park_timeout(GATHERING);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::branch::Branch;
    use crate::event::{EventKind, Invocation, NoticeLevel, Seq, UnitId, UnixMillis};

    /// Writes event numbers down and fails at one of them.
    struct Scribe {
        written: Arc<Mutex<Vec<u64>>>,
        fails_at: u64,
    }

    impl Reporter for Scribe {
        fn event(&mut self, event: &Event) -> io::Result<()> {
            if event.seq.0 == self.fails_at {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.written.lock().unwrap().push(event.seq.0);
            Ok(())
        }

        fn delta(&mut self, _: &Delta) -> io::Result<()> {
            Ok(())
        }

        fn pause(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn scribe(fails_at: u64) -> (Box<dyn Reporter>, Arc<Mutex<Vec<u64>>>) {
        let written = Arc::default();
        (Box::new(Scribe { written: Arc::clone(&written), fails_at }), written)
    }

    fn event(seq: u64) -> Shown {
        Shown::Event(Arc::new(Event {
            seq: Seq(seq),
            at: UnixMillis(0),
            invocation: Invocation(1),
            unit: UnitId::MAIN,
            branch: Branch::root(),
            kind: EventKind::Notice { level: NoticeLevel::Info, text: "x".into() },
        }))
    }

    async fn show_three(reporters: Vec<Box<dyn Reporter>>) -> Option<io::ErrorKind> {
        let mut audience = Audience::new(reporters);
        let mut signals = Signals::new(mpsc::channel(1).1);
        for seq in 1..=3 {
            audience.show(event(seq), &mut signals).await;
        }
        audience.close(&mut signals).await.map(|error| error.kind())
    }

    #[tokio::test]
    async fn one_reporter_that_stops_does_not_silence_the_others() {
        let ((first, first_written), (second, second_written)) = (scribe(2), scribe(9));
        let error = show_three(vec![first, second]).await;
        assert_eq!(error, Some(io::ErrorKind::BrokenPipe));
        assert_eq!(*first_written.lock().unwrap(), [1]);
        assert_eq!(*second_written.lock().unwrap(), [1, 2, 3]);

        let ((first, first_written), (second, _)) = (scribe(9), scribe(2));
        assert_eq!(show_three(vec![first, second]).await, Some(io::ErrorKind::BrokenPipe));
        assert_eq!(*first_written.lock().unwrap(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn all_is_well_once_everything_was_shown() {
        let (first, written) = scribe(9);
        assert_eq!(show_three(vec![first]).await, None);
        assert_eq!(*written.lock().unwrap(), [1, 2, 3]);
        assert_eq!(show_three(Vec::new()).await, None);
    }
}
