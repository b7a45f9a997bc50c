//! The way to the server: address, headers, connections, statuses.
//!
//! One service stands below the library and sees every response first. It lets
//! only streams through, tidied; all else becomes [`NotAStream`], so that no
//! status, web page or whole answer is lost in the library's own error types.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_openai::config::Config;
use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, Url};
use secrecy::{ExposeSecret, SecretString};

use super::events::{self, Ended};
use super::{ANSWER_CAP, OpenAiSettings, SettingsError, fault};
use crate::config::is_loopback;
use crate::model::{ModelError, ModelErrorKind};

/// Most bytes of an error body that are read: more than any provider writes,
/// little enough to hold for every unit at once.
const ERROR_BODY_CAP: usize = 64 * 1024;

/// Longest time to make a connection. A host that is there answers in well
/// under a second.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);

/// Shortest key that is searched for in error texts. A shorter one is a
/// placeholder such as `x` that stands in ordinary words too.
const REDACTED_MIN: usize = 8;

/// A client of the library for one server.
pub(super) type Client = async_openai::Client<Address>;

/// Where requests go and what goes with each of them.
#[derive(Clone)]
pub(super) struct Address(Arc<AddressParts>);

struct AddressParts {
    /// Without a slash at its end.
    base: String,
    /// With its question mark; empty if there is none.
    query: String,
    headers: HeaderMap,
    key: SecretString,
    shown: String,
    is_loopback: bool,
    is_plain: bool,
}

impl Address {
    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// The URL, the key or a header cannot be sent.
    pub(super) fn new(settings: &OpenAiSettings) -> Result<Self, SettingsError> {
        let mut url = parse_url(&settings.base_url)?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        url.set_query(None);
        url.set_fragment(None);
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self(Arc::new(AddressParts {
            base,
            query,
            headers: headers(settings)?,
            key: settings.key.clone().unwrap_or_default(),
            shown: shown(&settings.base_url),
            is_loopback: url.host_str().is_some_and(is_loopback),
            is_plain: url.scheme() == "http",
        })))
    }

    /// Returns the URL as people may see it.
    pub(super) fn shown(&self) -> &str {
        &self.0.shown
    }

    /// Takes the key out of a text that may quote it.
    pub(super) fn redact(&self, text: String) -> String {
        let key = self.0.key.expose_secret();
        if key.len() >= REDACTED_MIN { text.replace(key, "[key]") } else { text }
    }

    /// Makes connections of its own.
    ///
    /// # Errors
    ///
    /// The system has no usable root certificates.
    pub(super) fn connections(&self) -> Result<reqwest::Client, ModelError> {
        // Another part of the program, or a test, may have been first; every
        // provider here is ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        self.http().map_err(|error| {
            ModelError::new(ModelErrorKind::Connection, format!("cannot set up TLS: {error}"))
        })
    }

    /// Returns a client for one request, over shared connections.
    ///
    /// Why its answer ended is put into `ended`.
    pub(super) fn client(&self, http: &reqwest::Client, idle: Duration, ended: &Ended) -> Client {
        let (address, sender, ended) = (self.clone(), http.clone(), Arc::clone(ended));
        let service = tower::service_fn(move |factory: HttpRequestFactory| {
            let (address, sender, ended) = (address.clone(), sender.clone(), Arc::clone(&ended));
            async move {
                let opened = open(&address, &sender, factory, idle).await;
                let opened = opened.map(|(response, start)| events::tidied(response, start, ended));
                opened.map_err(|other| OpenAIError::Boxed(Box::new(other)))
            }
        });
        Client::build(http.clone(), self.clone()).with_http_service(service)
    }

    fn http(&self) -> reqwest::Result<reqwest::Client> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("tine/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            // A compressing proxy holds small pieces back.
            .gzip(false);
        if self.0.is_loopback {
            builder = builder.no_proxy();
        }
        if self.0.is_loopback && self.0.is_plain {
            // Reading the system's certificates takes longer than all else
            // before the first request, and nothing here needs them.
            builder = builder.tls_certs_only([]);
        }
        builder.build()
    }
}

impl Config for Address {
    fn headers(&self) -> HeaderMap {
        self.0.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}{}", self.0.base, self.0.query)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.0.base
    }

    fn api_key(&self) -> &SecretString {
        &self.0.key
    }
}

/// Why the library gets no stream.
#[derive(Debug)]
pub(super) enum NotAStream {
    /// The request failed.
    Failed(ModelError),
    /// The server does not stream: this is its whole answer.
    Whole(Vec<u8>),
}

impl fmt::Display for NotAStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Whole(bytes) => write!(f, "a whole answer of {} bytes", bytes.len()),
        }
    }
}

impl std::error::Error for NotAStream {}

/// Returns a URL without what may be secret in it.
pub(super) fn shown(base_url: &str) -> String {
    let Ok(mut url) = Url::parse(base_url) else {
        return "(not a URL)".to_owned();
    };
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for URLs that have no host, which have no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// Tells whether a URL points to OpenAI itself.
pub(super) fn is_openai(base_url: &str) -> bool {
    Url::parse(base_url).is_ok_and(|url| url.host_str() == Some("api.openai.com"))
}

/// Asks, and returns a stream of events with the bytes of it that were read.
async fn open(
    address: &Address,
    http: &reqwest::Client,
    factory: HttpRequestFactory,
    idle: Duration,
) -> Result<(Response, Vec<u8>), NotAStream> {
    let no_answer = |error: &reqwest::Error| {
        NotAStream::Failed(fault::no_answer(error, address.shown(), address.0.is_loopback))
    };
    let request = factory.build().await.map_err(|error| {
        NotAStream::Failed(ModelError::new(ModelErrorKind::Request, error.to_string()))
    })?;
    let mut response = http.execute(request).await.map_err(|error| no_answer(&error))?;
    let status = response.status();
    let content_type = header(&response, &CONTENT_TYPE).to_ascii_lowercase();
    if status.is_redirection() {
        let error = fault::redirected(status.as_u16(), header(&response, &LOCATION));
        return Err(NotAStream::Failed(error));
    }
    if !status.is_success() {
        let body = read(&mut response, ERROR_BODY_CAP, idle).await.bytes;
        return Err(NotAStream::Failed(fault::refused(status.as_u16(), &content_type, &body)));
    }
    if content_type.contains("html") {
        return Err(NotAStream::Failed(fault::page(address.shown())));
    }
    if content_type.contains("json") && !content_type.contains("ndjson") {
        // Some servers and proxies call a stream by this name too.
        let body = read_until(&mut response, ANSWER_CAP, idle, events::is_stream).await;
        if matches!(body.end, BodyEnd::Enough) {
            return Ok((response, body.bytes));
        }
        return Err(body.whole().map_or_else(NotAStream::Failed, NotAStream::Whole));
    }
    Ok((response, Vec::new()))
}

/// Gets a document that is no stream.
///
/// # Errors
///
/// As for a request.
pub(super) async fn get(address: &Address, path: &str, cap: usize) -> Result<Vec<u8>, ModelError> {
    // Another part of the program may have been first; every provider is ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed =
        |error: &reqwest::Error| fault::no_answer(error, address.shown(), address.0.is_loopback);
    let http = address.http().map_err(|error| failed(&error))?;
    let request = http.get(Config::url(address, path)).headers(Config::headers(address));
    let mut response = request.send().await.map_err(|error| failed(&error))?;
    let status = response.status().as_u16();
    let content_type = header(&response, &CONTENT_TYPE).to_ascii_lowercase();
    let is_success = response.status().is_success();
    let body = read(&mut response, cap, CONNECT_LIMIT).await;
    if is_success { body.whole() } else { Err(fault::refused(status, &content_type, &body.bytes)) }
}

/// The bytes of a body and how reading them ended.
struct Body {
    bytes: Vec<u8>,
    end: BodyEnd,
}

enum BodyEnd {
    Whole,
    /// What came is all that was wanted for now.
    Enough,
    TooLong,
    Broken,
    Silent,
}

impl Body {
    fn whole(self) -> Result<Vec<u8>, ModelError> {
        let (kind, message) = match self.end {
            BodyEnd::Whole | BodyEnd::Enough => return Ok(self.bytes),
            BodyEnd::TooLong => (ModelErrorKind::Request, "the answer is too long"),
            BodyEnd::Broken => (ModelErrorKind::Cut, "the answer broke off"),
            BodyEnd::Silent => (ModelErrorKind::Silent, "the answer stopped before its end"),
        };
        Err(ModelError::new(kind, message))
    }
}

async fn read(response: &mut Response, cap: usize, idle: Duration) -> Body {
    read_until(response, cap, idle, |_| false).await
}

async fn read_until(
    response: &mut Response,
    cap: usize,
    idle: Duration,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Body {
    let mut bytes = Vec::new();
    let end = loop {
        match tokio::time::timeout(idle, response.chunk()).await {
            Ok(Ok(Some(piece))) => {
                bytes.extend_from_slice(&piece[..piece.len().min(cap - bytes.len())]);
                if bytes.len() == cap {
                    break BodyEnd::TooLong;
                }
                if is_enough(&bytes) {
                    break BodyEnd::Enough;
                }
            }
            Ok(Ok(None)) => break BodyEnd::Whole,
            Ok(Err(_)) => break BodyEnd::Broken,
            Err(_) => break BodyEnd::Silent,
        }
    };
    Body { bytes, end }
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> &'a str {
    response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn parse_url(base_url: &str) -> Result<Url, SettingsError> {
    let refuse = |reason: String| SettingsError::Url { url: shown(base_url), reason };
    let url = Url::parse(base_url).map_err(|error| refuse(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("it must start with `http://` or `https://`".to_owned()));
    }
    Ok(url)
}

fn headers(settings: &OpenAiSettings) -> Result<HeaderMap, SettingsError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = settings.key.as_ref().filter(|key| !key.expose_secret().is_empty()) {
        let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))
            .map_err(|_| SettingsError::Key)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in &settings.headers {
        let refuse = || SettingsError::Header { name: name.clone() };
        let name = HeaderName::try_from(name).map_err(|_| refuse())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| refuse())?;
        // Keys come in headers of many names.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_localhost_are_this_machine_as_for_the_configuration() {
        for (url, expected) in [
            ("http://localhost:1/v1", true),
            ("http://models.localhost/v1", true),
            ("http://[::1]:1/v1", true),
            ("http://localhost.example.com/v1", false),
        ] {
            let address = Address::new(&OpenAiSettings::new("m", "m", url)).unwrap();
            assert_eq!(address.0.is_loopback, expected, "{url}");
        }
    }
}
