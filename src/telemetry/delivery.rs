//! A batch on its way: how it is written, how often it is sent, and what the
//! collector makes of it.
//!
//! The bytes are those of OTLP's own types. What is done with them is ours, and
//! nothing here reads the environment: settings have the last word.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use opentelemetry_proto::transform::common::tonic::Attributes;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::{Response, StatusCode, Url};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Span;
use crate::config::{Encoding, Telemetry, is_loopback};

/// The conventions that names of spans and of what they say are from.
const CONVENTIONS: &str = "https://opentelemetry.io/schemas/1.41.0";

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Most times that a batch is sent. With the pauses between them that is as
/// long as a collector takes to start anew.
const ATTEMPTS: u32 = 4;

/// The pause before the second attempt; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Most bytes of an answer that are read. It is empty, or a number and a
/// sentence.
const ANSWER_CAP: usize = 64 * 1024;

/// Most characters of what a collector has against spans.
const REMARK_CAP: usize = 200;

/// The way to a collector.
pub(super) struct Delivery {
    client: reqwest::Client,
    endpoint: Url,
    encoding: Encoding,
    timeout: Duration,
    resource: Resource,
    scope: InstrumentationScope,
}

/// What came of a batch.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    /// How many of its spans the collector has.
    pub(super) spans: u64,
    /// Why it has no more of them.
    pub(super) trouble: Option<String>,
}

/// Spans that a collector was given and will not have.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rejected {
    spans: u64,
    /// What it says to that, or to spans that it took.
    remark: String,
}

/// An attempt by which a collector got nothing.
struct Missed {
    why: String,
    /// How long it wants to be left alone; `None` if asking again is no use.
    pause: Option<Duration>,
}

impl Delivery {
    /// # Errors
    ///
    /// Why nothing can be sent.
    pub(super) fn new(settings: &Telemetry) -> Result<Self, String> {
        let endpoint = Url::parse(&settings.endpoint).map_err(|error| error.to_string())?;
        Ok(Self {
            client: client(settings, &endpoint)?,
            endpoint,
            encoding: settings.encoding,
            timeout: settings.timeout,
            resource: resource(settings),
            scope: InstrumentationScope {
                name: "tine".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ..InstrumentationScope::default()
            },
        })
    }

    /// Brings spans to the collector. Once `closing` fires, an attempt that
    /// fails is the last.
    pub(super) async fn bring(&self, spans: Vec<Span>, closing: &CancellationToken) -> Delivered {
        let count = spans.len() as u64;
        let mut trouble = None;
        let sending = self.send(self.written(spans), closing, &mut trouble);
        match tokio::time::timeout(self.timeout, sending).await {
            Ok(Some(Rejected { spans: 0, remark })) => {
                tracing::debug!(count, remark, "spans were sent");
                Delivered { spans: count, trouble: None }
            }
            Ok(Some(Rejected { spans, remark })) => {
                let trouble =
                    if remark.is_empty() { "it rejected them".to_owned() } else { remark };
                Delivered { spans: count.saturating_sub(spans), trouble: Some(trouble) }
            }
            Ok(None) => Delivered { spans: 0, trouble },
            Err(_) => {
                let trouble = trouble.unwrap_or_else(|| "it did not answer in time".to_owned());
                Delivered { spans: 0, trouble: Some(trouble) }
            }
        }
    }

    /// Sends a batch until the collector takes it. `None` if it does not;
    /// `trouble` is why the last attempt failed.
    async fn send(
        &self,
        batch: Bytes,
        closing: &CancellationToken,
        trouble: &mut Option<String>,
    ) -> Option<Rejected> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            let Missed { why, pause: wanted } = match self.post(batch.clone()).await {
                Ok(rejected) => return Some(rejected),
                Err(missed) => missed,
            };
            tracing::debug!(attempt, why, "a collector did not take spans");
            *trouble = Some(why);
            let wanted = wanted.filter(|_| attempt < ATTEMPTS && !closing.is_cancelled())?;
            tokio::select! {
                () = tokio::time::sleep(pause.max(wanted)) => {}
                // It may be well by now, and there is no other time to ask.
                () = closing.cancelled() => {}
            }
            pause *= 2;
        }
        None
    }

    async fn post(&self, batch: Bytes) -> Result<Rejected, Missed> {
        let kind = match self.encoding {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        };
        let request = self.client.post(self.endpoint.clone()).header(CONTENT_TYPE, kind);
        let answer = request
            .body(batch)
            .send()
            .await
            .map_err(|error| Missed { why: reason(&error), pause: Some(Duration::ZERO) })?;
        let status = answer.status();
        if !status.is_success() {
            let pause = is_worth_another(status).then(|| wanted_pause(&answer));
            return Err(Missed { why: format!("it answered {status}"), pause });
        }
        let body = beginning(answer).await;
        Ok(match self.encoding {
            Encoding::Protobuf => Rejected::in_protobuf(&body),
            Encoding::Json => Rejected::in_json(&body),
        }
        .unwrap_or_default())
    }

    fn written(&self, spans: Vec<Span>) -> Bytes {
        let scope_spans = vec![ScopeSpans {
            scope: Some(self.scope.clone()),
            spans: spans.into_iter().map(Span::into_wire).collect(),
            schema_url: CONVENTIONS.to_owned(),
        }];
        let resource = Some(self.resource.clone());
        let resource_spans =
            vec![ResourceSpans { resource, scope_spans, schema_url: String::new() }];
        let request = ExportTraceServiceRequest { resource_spans };
        match self.encoding {
            Encoding::Protobuf => request.encode_to_vec().into(),
            Encoding::Json => {
                serde_json::to_vec(&request).expect("numbers, texts and lists are JSON").into()
            }
        }
    }
}

impl Rejected {
    fn in_protobuf(body: &[u8]) -> Option<Self> {
        let said = ExportTraceServiceResponse::decode(body).ok()?.partial_success?;
        let spans = u64::try_from(said.rejected_spans).unwrap_or(0);
        Some(Self { spans, remark: beginning_of(&said.error_message) })
    }

    /// In JSON, 64 bits are a text; some send a number.
    fn in_json(body: &[u8]) -> Option<Self> {
        let said: Value = serde_json::from_slice(body).ok()?;
        let said = said.get("partialSuccess")?;
        let spans = said.get("rejectedSpans");
        let spans = spans.and_then(|spans| spans.as_u64().or_else(|| spans.as_str()?.parse().ok()));
        let remark = said.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
        Some(Self { spans: spans.unwrap_or(0), remark: beginning_of(remark) })
    }
}

fn client(settings: &Telemetry, endpoint: &Url) -> Result<reqwest::Client, String> {
    // Another part of the program may have been first; every provider here is
    // ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let is_local = endpoint.host_str().is_some_and(is_loopback);
    let mut builder = reqwest::Client::builder()
        .default_headers(headers(settings)?)
        // What stands in a header is for nobody else.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_LIMIT)
        .timeout(settings.timeout);
    if is_local {
        builder = builder.no_proxy();
    }
    if is_local && endpoint.scheme() == "http" {
        // Reading the system's certificates takes longer than all else here.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| error.to_string())
}

fn headers(settings: &Telemetry) -> Result<HeaderMap, String> {
    let ours = HeaderValue::from_static(concat!("tine/", env!("CARGO_PKG_VERSION")));
    let mut headers = HeaderMap::from_iter([(USER_AGENT, ours)]);
    for (name, value) in &settings.headers {
        let key = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_str(value.expose_secret());
        let (Ok(key), Ok(mut value)) = (key, value) else {
            return Err(format!("the header `{name}` cannot be sent"));
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// Returns where spans come from. What is said twice holds as it was said last.
fn resource(settings: &Telemetry) -> Resource {
    let version = ("service.version", env!("CARGO_PKG_VERSION"));
    let given = settings.resource.iter().map(|(name, value)| (&**name, &**value));
    let said: BTreeMap<&str, &str> =
        [version].into_iter().chain(given).chain([("service.name", &*settings.service)]).collect();
    let said =
        said.into_iter().map(|(name, value)| KeyValue::new(name.to_owned(), value.to_owned()));
    Resource { attributes: Attributes::from(said).0, ..Resource::default() }
}

/// Tells whether the specification has a request sent again.
fn is_worth_another(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// Returns how long a collector wants to be left alone, if it says so in
/// seconds.
fn wanted_pause(answer: &Response) -> Duration {
    let seconds = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    seconds.and_then(|seconds| seconds.parse().ok()).map_or(Duration::ZERO, Duration::from_secs)
}

/// Reads an answer. The spans are taken, so one that is too long or breaks off
/// changes nothing.
async fn beginning(mut answer: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        if body.len() + piece.len() > ANSWER_CAP {
            break;
        }
        body.extend_from_slice(&piece);
    }
    body
}

/// Returns why there was no answer, without what surrounds it.
fn reason(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.last().map_or_else(|| "it did not answer".to_owned(), |it| beginning_of(&it.to_string()))
}

fn beginning_of(remark: &str) -> String {
    remark.lines().next().unwrap_or_default().chars().take(REMARK_CAP).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_rejected_is_read_as_a_number_or_as_a_text() {
        let read = |body: &str| Rejected::in_json(body.as_bytes());
        let of = |spans, remark: &str| Some(Rejected { spans, remark: remark.to_owned() });
        let said = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"old\nlines"}}"#;
        assert_eq!(read(said), of(3, "old"));
        assert_eq!(read(r#"{"partialSuccess":{"rejectedSpans":2}}"#), of(2, ""));
        assert_eq!(read(r#"{"partialSuccess":{}}"#), of(0, ""));
        assert_eq!(read(r#"{"partialSuccess":{"rejectedSpans":-1}}"#), of(0, ""));
        assert_eq!((read("{}"), read("no")), (None, None));
        assert_eq!(Rejected::in_protobuf(&[]), None);
        assert_eq!(Rejected::in_protobuf(&[0xff; 4]), None);
    }
}
