//! Runs a tool's file work off the async threads, and stops it when the unit
//! must stop.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::message::Output;

use super::ToolError;

/// Runs `work` on a blocking thread and returns its output.
///
/// The work is handed a token and looks at it now and then; the token also
/// fires when the returned future is dropped. A cancel is answered at once,
/// even while the work hangs in the file system.
///
/// # Errors
///
/// The work's own error, or [`ToolError::Cancelled`].
pub async fn stoppable(
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<Output, ToolError> + Send + 'static,
) -> Result<Output, ToolError> {
    let started = Instant::now();
    let token = cancel.child_token();
    let _fires_when_dropped = token.clone().drop_guard();
    let handle = tokio::task::spawn_blocking(move || work(&token));
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(cancelled(started.elapsed())),
        done = handle => done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())),
    }
}

/// Runs `work` on a blocking thread to its end: what has begun to change a
/// file must not be left half done.
pub async fn to_the_end<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The error of a call that was cancelled.
#[must_use]
pub fn cancelled(after: Duration) -> ToolError {
    ToolError::Cancelled { after }
}

/// A file whose reads fail once the token has fired.
#[derive(Debug)]
pub struct StoppableFile<'a> {
    /// What is read.
    pub file: File,
    /// What stops it.
    pub token: &'a CancellationToken,
}

impl Read for StoppableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.token.is_cancelled() {
            // Nobody reads this: the call is reported as cancelled.
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_cancel_is_answered_while_the_work_hangs() {
        let cancel = CancellationToken::new();
        let (release, hangs) = mpsc::channel::<()>();
        let inner = cancel.clone();
        let result = stoppable(&cancel, move |_| {
            inner.cancel();
            let _ = hangs.recv();
            Ok(Output::default())
        });
        assert!(matches!(result.await, Err(ToolError::Cancelled { .. })));
        drop(release);
    }

    #[tokio::test]
    async fn work_whose_caller_is_gone_finds_its_token_fired() {
        let (told, heard) = tokio::sync::oneshot::channel();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let cancel = CancellationToken::new();
        let mut call = Box::pin(stoppable(&cancel, move |token| {
            begun.send(()).unwrap();
            while !token.is_cancelled() {
                std::thread::yield_now();
            }
            told.send(()).unwrap();
            Ok(Output::default())
        }));
        tokio::select! {
            _ = &mut call => panic!("the work waits for its token"),
            begun = begins => begun.unwrap(),
        }
        drop(call);
        heard.await.unwrap();
    }

    #[test]
    fn reading_stops_with_the_token() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a"), "a").unwrap();
        let token = CancellationToken::new();
        let file = File::open(place.path().join("a")).unwrap();
        let mut file = StoppableFile { file, token: &token };
        token.cancel();
        assert!(file.read(&mut [0]).is_err());
    }
}
