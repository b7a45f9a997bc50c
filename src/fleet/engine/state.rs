//! What is over, and which workers there are: two small buckets.

use async_nats::jetstream::stream::{DirectGetErrorKind, Stream};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{Engine, EngineError};

/// How many workers are asked for at a time.
const AT_ONCE: usize = 32;

impl Engine {
    /// Says that a run is over, or one slot of it. Returns once it is stored.
    ///
    /// # Errors
    ///
    /// What will not pass; a server that is away is waited for.
    pub async fn stop(&self, run: &str, unit: Option<u32>) -> Result<(), EngineError> {
        self.put(self.names.control(run, unit), Bytes::new()).await
    }

    /// Reports a worker's state. It is forgotten after three reports' time.
    ///
    /// # Errors
    ///
    /// What will not pass; a server that is away is waited for.
    pub async fn report(&self, worker: &str, payload: Bytes) -> Result<(), EngineError> {
        self.put(self.names.worker(worker), payload).await
    }

    /// Returns every worker with its last report, by name.
    ///
    /// # Errors
    ///
    /// A bucket that cannot be read.
    pub async fn workers(&self) -> Result<Vec<(String, Bytes)>, EngineError> {
        let (stream, subjects) = self.worker_subjects().await?;
        let reports = subjects.into_iter().map(|(subject, _)| {
            let stream = &stream;
            async move {
                let last = stream.direct_get_last_for_subject(subject.as_str()).await;
                let worker = self.names.parse_worker(&subject).unwrap_or(subject);
                match last {
                    Ok(message) => Ok(Some((worker, message.payload))),
                    // It went while the others were asked for.
                    Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
                    Err(error) => Err(unlisted(error)),
                }
            }
        });
        let found = futures_util::stream::iter(reports).buffer_unordered(AT_ONCE);
        let found: Vec<Option<(String, Bytes)>> = found.try_collect().await?;
        let mut workers: Vec<_> = found.into_iter().flatten().collect();
        workers.sort();
        Ok(workers)
    }

    /// Returns how many workers there are.
    ///
    /// # Errors
    ///
    /// A bucket that cannot be read.
    pub async fn worker_count(&self) -> Result<usize, EngineError> {
        self.worker_subjects().await.map(|(_, subjects)| subjects.len())
    }

    async fn worker_subjects(&self) -> Result<(Stream<()>, Vec<(String, usize)>), EngineError> {
        let stream = self.jetstream.get_stream_no_info(self.names.workers_stream()).await;
        let stream = stream.map_err(unlisted)?;
        let subjects = stream.info_with_subjects(self.names.all_workers()).await;
        let subjects = subjects.map_err(unlisted)?.try_collect().await.map_err(unlisted)?;
        Ok((stream, subjects))
    }
}

fn unlisted(error: impl ToString) -> EngineError {
    EngineError::Failed { doing: "listing workers", cause: error.to_string() }
}
