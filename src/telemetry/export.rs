//! The thread that brings spans to a collector.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Span;
use crate::config::{Encoding, Telemetry, is_loopback};

/// Most spans that wait for a collector. A batch of a thousand slots ends within
/// a breath; what is more than this is lost rather than kept in memory.
const QUEUE_CAP: usize = 8_192;

/// Most spans of one request: the number that the specification proposes.
const BATCH_CAP: usize = 512;

/// How long spans gather before they are sent.
const GATHERING: Duration = Duration::from_secs(1);

/// How long a process that is over waits for its collector.
pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

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

    /// Sends what waits, as long as [`CLOSE_LIMIT`] lets it, and returns what
    /// did not arrive. Spans that come later are lost.
    pub async fn close(&self) -> Option<Lost> {
        self.0.closing.cancel();
        if self.0.queue.get().is_some() {
            // Whoever took too long is told of below.
            let _ = tokio::time::timeout(CLOSE_LIMIT, self.0.finished.cancelled()).await;
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
        let exporter = match exporter(&self.settings) {
            Ok(exporter) => exporter,
            Err(trouble) => return self.tally.note(&trouble),
        };
        let scope =
            InstrumentationScope::builder("tine").with_version(env!("CARGO_PKG_VERSION")).build();
        loop {
            let batch = self.batch(&mut receiver).await;
            if batch.is_empty() {
                return;
            }
            let count = batch.len();
            let data: Vec<SpanData> =
                batch.into_iter().map(|span| span.into_data(&scope)).collect();
            // The library bounds each of its attempts, this bounds them all.
            match tokio::time::timeout(self.settings.timeout, exporter.export(data)).await {
                Ok(Ok(())) => {
                    tracing::debug!(count, "spans were sent");
                    self.tally.sent.fetch_add(count as u64, Ordering::Relaxed);
                }
                Ok(Err(error)) => self.tally.note(&cause(&error.to_string())),
                Err(_) => self.tally.note("it did not answer in time"),
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

fn exporter(settings: &Telemetry) -> Result<opentelemetry_otlp::SpanExporter, String> {
    let client = client(settings)?;
    let headers = settings.headers.iter();
    let headers: HashMap<String, String> =
        headers.map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect();
    let built = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(&settings.endpoint)
        .with_timeout(settings.timeout)
        .with_headers(headers)
        .with_protocol(match settings.encoding {
            Encoding::Protobuf => Protocol::HttpBinary,
            Encoding::Json => Protocol::HttpJson,
        })
        .build();
    let mut exporter = built.map_err(|error| error.to_string())?;
    let attribute = |(name, value): &(String, String)| KeyValue::new(name.clone(), value.clone());
    let resource = Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(settings.resource.iter().map(attribute))
        .with_service_name(settings.service.clone())
        .build();
    exporter.set_resource(&resource);
    Ok(exporter)
}

fn client(settings: &Telemetry) -> Result<reqwest::Client, String> {
    // Another part of the program may have been first; every provider here is
    // ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = reqwest::Url::parse(&settings.endpoint).map_err(|error| error.to_string())?;
    let is_local = url.host_str().is_some_and(is_loopback);
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("tine/", env!("CARGO_PKG_VERSION")))
        // What stands in a header is for nobody else.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_LIMIT)
        .timeout(settings.timeout);
    if is_local {
        builder = builder.no_proxy();
    }
    if is_local && url.scheme() == "http" {
        // Reading the system's certificates takes longer than all else here.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| error.to_string())
}

/// Most characters of what a collector has against spans.
const CAUSE_CAP: usize = 200;

/// Returns what went wrong without what surrounds it.
fn cause(error: &str) -> String {
    error.lines().next().unwrap_or_default().chars().take(CAUSE_CAP).collect()
}
