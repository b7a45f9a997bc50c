//! The thread that brings spans to a collector.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Span;
use super::delivery::{Delivered, Delivery};
use crate::config::Telemetry;

/// Most spans that wait for a collector. A batch of a thousand slots ends within
/// a breath; what is more than this is lost rather than kept in memory.
const QUEUE_CAP: usize = 8_192;

/// Most spans of one request: the number that the specification proposes.
const BATCH_CAP: usize = 512;

/// How long spans gather before they are sent.
const GATHERING: Duration = Duration::from_secs(1);

/// How long a process that is over waits for its collector.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The same where a signal ends it: whoever sent that waits.
pub const SIGNAL_LIMIT: Duration = Duration::from_millis(500);

/// Brings spans to a collector. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Exporter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Telemetry,
    /// There once there is a span.
    queue: OnceLock<mpsc::Sender<Span>>,
    /// Fires when no more spans come.
    closing: CancellationToken,
    /// Fires when the thread has ended.
    finished: CancellationToken,
    tally: Tally,
}

/// What became of the spans.
#[derive(Debug, Default)]
struct Tally {
    given: AtomicU64,
    sent: AtomicU64,
    /// The first thing that went wrong.
    trouble: OnceLock<String>,
}

/// Spans that did not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub spans: u64,
    /// Where they should have gone, without what may be secret in it.
    pub endpoint: String,
    /// Why; `None` if the collector just took too long.
    pub why: Option<String>,
}

impl Exporter {
    /// One that has not connected yet, and does not before there is a span.
    #[must_use]
    pub fn new(settings: Telemetry) -> Self {
        Self(Arc::new(Inner {
            settings,
            queue: OnceLock::new(),
            closing: CancellationToken::new(),
            finished: CancellationToken::new(),
            tally: Tally::default(),
        }))
    }

    /// Returns what it was made of.
    #[must_use]
    pub fn settings(&self) -> &Telemetry {
        &self.0.settings
    }

    /// Takes a span. It never waits: what finds no room is lost, and counted.
    pub fn send(&self, span: Span) {
        self.0.tally.given.fetch_add(1, Ordering::Relaxed);
        let queue = self.0.queue.get_or_init(|| self.start());
        if queue.try_send(span).is_err() {
            self.0.tally.note("they came faster than the collector took them");
        }
    }

    /// Sends what waits, as long as `limit` lets it, and returns what did not
    /// arrive. Spans that come later are lost.
    pub async fn close(&self, limit: Duration) -> Option<Lost> {
        self.0.closing.cancel();
        if self.0.queue.get().is_some() {
            // Whoever took too long is told of below.
            let _ = tokio::time::timeout(limit, self.0.finished.cancelled()).await;
        }
        let Tally { given, sent, trouble } = &self.0.tally;
        let spans = given.load(Ordering::Relaxed) - sent.load(Ordering::Relaxed);
        let endpoint = crate::model::http::shown(&self.0.settings.endpoint);
        (spans > 0).then(|| Lost { spans, endpoint, why: trouble.get().cloned() })
    }

    /// Starts the thread.
    fn start(&self) -> mpsc::Sender<Span> {
        let (sender, receiver) = mpsc::channel(QUEUE_CAP);
        let inner = Arc::clone(&self.0);
        let spawned = std::thread::Builder::new().name("spans".to_owned()).spawn(move || {
            let _finished = inner.finished.clone().drop_guard();
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(inner.bring_away(receiver)),
                Err(error) => inner.tally.note(&error.to_string()),
            }
        });
        if let Err(error) = spawned {
            self.0.tally.note(&error.to_string());
            self.0.finished.cancel();
        }
        sender
    }
}

impl Tally {
    fn note(&self, trouble: &str) {
        tracing::debug!(trouble, "spans are lost");
        // Only the first is told.
        let _ = self.trouble.set(trouble.to_owned());
    }
}

impl Inner {
    /// Sends batches until no more spans come.
    async fn bring_away(&self, mut receiver: mpsc::Receiver<Span>) {
        let delivery = match Delivery::new(&self.settings) {
            Ok(delivery) => delivery,
            Err(trouble) => return self.tally.note(&trouble),
        };
        loop {
            let batch = self.batch(&mut receiver).await;
            if batch.is_empty() {
                return;
            }
            let Delivered { spans, trouble } = delivery.bring(batch, &self.closing).await;
            self.tally.sent.fetch_add(spans, Ordering::Relaxed);
            if let Some(trouble) = trouble {
                self.tally.note(&trouble);
            }
        }
    }

    /// Waits for a span and for those that come soon after it. None means that
    /// no more will.
    async fn batch(&self, receiver: &mut mpsc::Receiver<Span>) -> Vec<Span> {
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            _ = receiver.recv_many(&mut batch, BATCH_CAP) => {}
            () = self.closing.cancelled() => receiver.close(),
        }
        let gathering = tokio::time::sleep(GATHERING);
        tokio::pin!(gathering);
        while batch.len() < BATCH_CAP {
            let room = BATCH_CAP - batch.len();
            tokio::select! {
                biased;
                more = receiver.recv_many(&mut batch, room) => {
                    if more == 0 {
                        break;
                    }
                }
                () = self.closing.cancelled(), if !receiver.is_closed() => receiver.close(),
                () = &mut gathering => break,
            }
        }
        batch
    }
}
