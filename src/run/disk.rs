//! Putting the log on disk: beside the run, not in its way.
//!
//! A sync takes a disk milliseconds, and a run that waited for each one would
//! start its next unit that much later. So a thread of its own syncs, and only
//! an answer that promises something to be on disk waits. One sync serves all
//! that was written before it began; while one runs, at most one more is due.
//!
//! It is one thread for all of them, not one of the runtime's own: so tests can
//! kill the process at its first sync, its second, and so on.

use std::sync::mpsc as sync_mpsc;

use tokio::sync::mpsc;

use super::dispatcher::Answer;
use crate::session::{LogError, SessionLog};

/// The thread that syncs, and who waits for it.
pub(super) struct Disk {
    orders: sync_mpsc::Sender<ClockHold>,
    done: mpsc::Receiver<Result<(), LogError>>,
    is_busy: bool,
    /// Whether something was written that the running sync may not take along.
    is_due: bool,
    /// They wait for the sync that runs.
    waiting: Vec<Answer>,
    /// They wait for the one after it.
    waiting_next: Vec<Answer>,
}

impl Disk {
    /// The disk that holds `log`.
    ///
    /// # Errors
    ///
    /// The system has no room for one more file handle.
    pub(super) fn of(log: &SessionLog) -> Result<Self, LogError> {
        let handle = log.sync_handle()?;
        Ok(Self::new(move || handle.sync()))
    }

    fn new(mut sync: impl FnMut() -> Result<(), LogError> + Send + 'static) -> Self {
        let (orders, ordered) = sync_mpsc::channel();
        // One sync runs at a time.
        let (say, done) = mpsc::channel(1);
        std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || {
                while let Ok(_held) = ordered.recv()
                    && say.blocking_send(sync()).is_ok()
                {}
            })
            .expect("the system has room for one more thread");
        Self {
            orders,
            done,
            is_busy: false,
            is_due: false,
            waiting: Vec::new(),
            waiting_next: Vec::new(),
        }
    }

    /// Puts all that was written by now on disk, and then gives `answers`.
    pub(super) fn sync(&mut self, answers: Vec<Answer>) {
        if self.is_busy {
            self.is_due = true;
            self.waiting_next.extend(answers);
        } else {
            self.waiting.extend(answers);
            self.begin();
        }
    }

    /// Waits for the end of the sync that runs, and gives the answers that
    /// waited for it; waits forever if none runs. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    ///
    /// What was written since the sync before may be lost.
    pub(super) async fn synced(&mut self) -> Result<(), LogError> {
        if !self.is_busy {
            return std::future::pending().await;
        }
        let result = self.done.recv().await.expect("the thread answers every order");
        self.is_busy = false;
        // Whoever waits goes on even without the log: the work is worth more
        // than its record.
        self.waiting.drain(..).for_each(Answer::give);
        if self.is_due {
            self.is_due = false;
            self.waiting = std::mem::take(&mut self.waiting_next);
            self.begin();
        }
        result
    }

    /// Waits until all is on disk that was written by now.
    ///
    /// # Errors
    ///
    /// As for [`Disk::synced`].
    pub(super) async fn finish(&mut self) -> Result<(), LogError> {
        while self.is_busy {
            self.synced().await?;
        }
        Ok(())
    }

    fn begin(&mut self) {
        self.is_busy = true;
        self.orders.send(ClockHold::new()).expect("the thread lives as long as this value");
    }
}

/// Keeps paused time from running ahead of a disk. Time is paused by tests only,
/// and stands still while one of the runtime's threads for blocking work is
/// taken: one waits there until this is dropped.
struct ClockHold {
    #[cfg(debug_assertions)]
    _holds: sync_mpsc::Sender<()>,
}

impl ClockHold {
    #[cfg(debug_assertions)]
    fn new() -> Self {
        let (holds, held) = sync_mpsc::channel();
        tokio::task::spawn_blocking(move || held.recv());
        Self { _holds: holds }
    }

    #[cfg(not(debug_assertions))]
    fn new() -> Self {
        Self {}
    }
}

/// Nobody is left waiting for a disk that is gone.
impl Drop for Disk {
    fn drop(&mut self) {
        self.waiting.drain(..).chain(self.waiting_next.drain(..)).for_each(Answer::give);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{self, Receiver};

    use super::*;

    fn answer() -> (Answer, Receiver<()>) {
        let (reply, answer) = oneshot::channel();
        (Answer::GoOn(reply), answer)
    }

    fn failed() -> LogError {
        LogError::TooLong { path: String::new(), bytes: 0 }
    }

    /// A disk whose syncs end when and how the test says.
    fn disk() -> (Disk, sync_mpsc::Sender<Result<(), LogError>>) {
        let (end, ends) = sync_mpsc::channel();
        (Disk::new(move || ends.recv().unwrap_or(Ok(()))), end)
    }

    #[tokio::test]
    async fn an_answer_waits_for_a_sync_that_began_after_what_it_promises() {
        let (mut disk, end) = disk();
        let (first, mut first_given) = answer();
        disk.sync(vec![first]);
        let (second, mut second_given) = answer();
        disk.sync(vec![second]);
        assert!(first_given.try_recv().is_err());
        end.send(Ok(())).unwrap();
        disk.synced().await.unwrap();
        assert!(first_given.try_recv().is_ok());
        assert!(second_given.try_recv().is_err());
        end.send(Ok(())).unwrap();
        disk.synced().await.unwrap();
        assert!(second_given.try_recv().is_ok());
    }

    #[tokio::test]
    async fn what_is_due_while_a_sync_runs_is_one_sync_more() {
        let (mut disk, end) = disk();
        (0..5).for_each(|_| disk.sync(Vec::new()));
        end.send(Ok(())).unwrap();
        end.send(Ok(())).unwrap();
        // A third one would wait for an end that never comes.
        disk.finish().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_stands_still_while_a_disk_works() {
        let mut disk = Disk::new(|| {
            (0..1_000).for_each(|_| std::thread::yield_now());
            Ok(())
        });
        disk.sync(Vec::new());
        tokio::select! {
            biased;
            () = tokio::time::sleep(std::time::Duration::from_secs(3_600)) => panic!("an hour passed"),
            synced = disk.synced() => synced.unwrap(),
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_disk_that_failed_or_is_gone() {
        let (mut disk, end) = disk();
        let (first, mut first_given) = answer();
        disk.sync(vec![first]);
        let (second, mut second_given) = answer();
        disk.sync(vec![second]);
        end.send(Err(failed())).unwrap();
        assert!(disk.synced().await.is_err());
        assert!(first_given.try_recv().is_ok());
        drop((disk, end));
        assert!(second_given.try_recv().is_ok());
    }
}
