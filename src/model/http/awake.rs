//! Waits that do not count the time in which this process was stopped.
//!
//! While it stands still (SIGSTOP, Ctrl-Z, a debugger), what the provider sends waits in
//! the kernel. Its deadline passes all the same, so it would be taken for silence.

use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

/// Longest part of a wait. A stop counts as no more than this.
const PART: Duration = Duration::from_secs(5);

/// By how much a part has to be late to be taken for a stop. A busy machine is late by
/// less.
const LATE: Duration = Duration::from_secs(1);

/// Waits for a future until a deadline, and puts the deadline off by the time in which
/// the process was stopped.
///
/// # Errors
///
/// The deadline has passed.
pub(in crate::model) async fn timeout_awake<T>(
    deadline: &mut Instant,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut future = std::pin::pin!(future);
    loop {
        let until = (*deadline).min(Instant::now() + PART);
        let ended = timeout_at(until, &mut future).await;
        let late = Instant::now().saturating_duration_since(until);
        if late >= LATE {
            // How much of the part had passed before the stop is not known.
            *deadline += late + PART;
        }
        match ended {
            Err(_) if Instant::now() < *deadline => {}
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::{advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Waits at most a minute, beside what happens; `None` if the minute was over.
    async fn wait(happens: impl AsyncFnOnce(oneshot::Sender<()>)) -> Option<Duration> {
        let (sender, piece) = oneshot::channel();
        let began = Instant::now();
        let mut deadline = began + LIMIT;
        let waiting = timeout_awake(&mut deadline, piece);
        let (came, ()) = tokio::join!(waiting, happens(sender));
        came.ok().map(|_| began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_is_not_taken_for_silence() {
        for (before, stop) in [(1, 75), (30, 75), (58, 75), (2, 61), (3, 100_000), (0, 3_600)] {
            let waited = wait(async |sender| {
                sleep(Duration::from_secs(before)).await;
                advance(Duration::from_secs(stop)).await;
                sleep(Duration::from_secs(1)).await;
                let _ = sender.send(());
            });
            assert!(waited.await.is_some(), "{before} s, then a stop of {stop} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_at_the_deadline() {
        let began = Instant::now();
        let waited = wait(async |sender| {
            sleep(Duration::from_secs(300)).await;
            drop(sender);
        });
        assert_eq!(waited.await, None);
        assert_eq!(began.elapsed(), Duration::from_secs(300));
        let mut deadline = Instant::now() + LIMIT;
        let began = Instant::now();
        let waited = timeout_awake(&mut deadline, std::future::pending::<()>()).await;
        assert!(waited.is_err());
        assert_eq!(began.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stop_the_rest_of_the_limit_is_waited() {
        let mut deadline = Instant::now() + LIMIT;
        let began = Instant::now();
        let stopped = async {
            sleep(Duration::from_secs(30)).await;
            advance(Duration::from_secs(75)).await;
        };
        let (waited, ()) =
            tokio::join!(timeout_awake(&mut deadline, std::future::pending::<()>()), stopped);
        assert!(waited.is_err());
        let all = began.elapsed().as_secs();
        assert!((130..=135).contains(&all), "{all} s");
    }
}
