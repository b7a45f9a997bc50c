//! How long a failure is only a failed try: what takes several messages, as a blob
//! does, is begun anew until it is done.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use super::signs::Signs;
use super::{Engine, EngineError};

/// How often something is tried on a connection that stands before its failure is
/// believed.
const TRIES: u32 = 6;

/// How often something is begun anew because the connection was lost meanwhile: what
/// cuts it each time would do so for ever.
const CUTS: u32 = 20;

/// The pause after the first failure; each is three times as long as the one before.
/// All of them are twelve seconds: a cluster that has lost a leader chooses another in
/// nine at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Why a try failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// The next one may not.
    Passing(String),
    /// All others would.
    Final(EngineError),
}

impl Engine {
    /// Does something with blobs until it is done, anew with each new connection. A server
    /// that is away, or over which JetStream does not answer, is waited for without an end:
    /// dropping the future gives up.
    ///
    /// # Errors
    ///
    /// What is final, what has failed [`TRIES`] times, and what was cut off [`CUTS`]
    /// times.
    pub(super) async fn tried<T, F: Future<Output = Result<T, Failed>>>(
        &self,
        doing: &'static str,
        once: impl FnMut() -> F,
    ) -> Result<T, EngineError> {
        let stream = self.names.blobs_stream();
        let answers = || async { self.hears(&stream).await.is_ok() };
        self.signs.tried(doing, once, answers).await
    }
}

impl Signs {
    /// The same. `answers` tells whether JetStream does, and takes its time if it does not.
    async fn tried<T, F: Future<Output = Result<T, Failed>>, A: Future<Output = bool>>(
        &self,
        doing: &'static str,
        mut once: impl FnMut() -> F,
        answers: impl Fn() -> A,
    ) -> Result<T, EngineError> {
        let (mut failed, mut cut, mut pause) = (0, 0, FIRST_PAUSE);
        loop {
            let since = self.standing().await;
            let mut reconnected = self.reconnected();
            let (cause, is_cut) = tokio::select! {
                tried = once() => match tried {
                    Ok(done) => return Ok(done),
                    Err(Failed::Final(error)) => return Err(error),
                    // A server that is away was not asked.
                    Err(Failed::Passing(cause)) => (cause, self.connected_since() != Some(since)),
                },
                // Whom it was asked is gone, and what was on its way with it.
                () = reconnected.next() => ("the connection was lost".to_owned(), true),
            };
            if is_cut {
                cut += 1;
                if cut < CUTS {
                    continue;
                }
            }
            failed += 1;
            if failed == TRIES || cut == CUTS {
                return Err(EngineError::Failed { doing, cause });
            }
            // The last one tells only of one that answers. Else it is as good as away, and
            // when it is back all this was no failure.
            if failed + 1 == TRIES && !answers().await {
                while !answers().await {}
                (failed, pause) = (0, FIRST_PAUSE);
                continue;
            }
            tracing::debug!("{doing} failed and is tried again: {cause}");
            sleep(pause).await;
            pause *= 3;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use async_nats::Event;
    use futures_util::FutureExt as _;
    use tokio::time::{Instant, timeout};

    use super::super::signs::signs;
    use super::*;

    /// Longest wait of a client for an answer.
    const ANSWER: Duration = Duration::from_secs(5);

    async fn there() -> bool {
        true
    }

    fn passing() -> Failed {
        Failed::Passing("no answer in time".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_is_waited_for_however_long() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        let once = || async {
            // It goes while it is asked.
            signals.note(&Event::Disconnected);
            sleep(ANSWER).await;
            Err::<(), _>(passing())
        };
        let storing = signs.tried("storing", once, there);
        let waiting = timeout(Duration::from_secs(3_600), storing).await;
        assert!(waiting.is_err(), "{waiting:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_asked_of_a_server_that_is_away() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        signals.note(&Event::Disconnected);
        let storing =
            signs.tried("storing", || async { Ok(signs.connected_since().is_some()) }, there);
        let coming_back = async {
            sleep(Duration::from_secs(3_600)).await;
            signals.note(&Event::Connected);
        };
        let (stored, ()) = tokio::join!(storing, coming_back);
        assert!(matches!(stored, Ok(true)), "{stored:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn with_a_new_connection_it_is_begun_anew_at_once() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        let tries = Cell::new(0);
        let once = || async {
            tries.set(tries.get() + 1);
            if tries.get() == CUTS {
                return Ok(());
            }
            signals.note(&Event::Disconnected);
            signals.note(&Event::Connected);
            std::future::pending().await
        };
        let since = Instant::now();
        let stored = signs.tried("storing", once, there).await;
        assert!(matches!(stored, Ok(())), "{stored:?}");
        assert_eq!(since.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_server_that_is_there_does_not_do_is_an_error_soon() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        let tries = Cell::new(0);
        let once = || async {
            tries.set(tries.get() + 1);
            Err::<(), _>(passing())
        };
        let since = Instant::now();
        let stored = signs.tried("storing", once, there).await;
        assert!(matches!(stored, Err(EngineError::Failed { doing: "storing", cause: _ })));
        assert_eq!((tries.get(), since.elapsed().as_secs()), (TRIES, 12));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_where_jetstream_does_not_answer_is_tried_until_it_does() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        let begun = Instant::now();
        let is_away = || begun.elapsed() < Duration::from_secs(3_600);
        let answers = || async {
            sleep(ANSWER).await;
            !is_away()
        };
        let once = || async {
            let is_away = is_away();
            sleep(ANSWER).await;
            if is_away { Err(passing()) } else { Ok(()) }
        };
        let stored = signs.tried("storing", once, answers).await;
        assert!(matches!(stored, Ok(())), "{stored:?}");
        let stored = signs.tried("storing", || async { Err::<(), _>(passing()) }, answers).await;
        assert!(matches!(stored, Err(EngineError::Failed { doing: "storing", cause: _ })));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_final_is_believed_at_once() {
        let (signals, signs) = signs();
        signals.note(&Event::Connected);
        let once = || async {
            let name = "x".to_owned();
            Err::<(), _>(Failed::Final(EngineError::NoBlob { name }))
        };
        let read = signs.tried("reading", once, there).now_or_never();
        assert!(matches!(read, Some(Err(EngineError::NoBlob { name: _ }))), "{read:?}");
    }
}
