//! A server that listens somewhere and is spoken to by streamable HTTP.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::events::LenientClient;
use super::link::MESSAGE_CAP;
use crate::config::is_loopback;

/// Longest wait for a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Most redirects that are followed, all to the same place: `/mcp` to `/mcp/`.
const REDIRECTS_CAP: usize = 4;

/// Returns the way to a server.
///
/// # Errors
///
/// A header that cannot be sent, in words that show no value.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<LenientClient>, String> {
    let mut sent = HashMap::new();
    for (name, value) in headers {
        let bad = || format!("its header `{name}` cannot be sent");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        sent.insert(key, value);
    }
    // Another part of the program may have been first; every provider is ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parsed =
        reqwest::Url::parse(url).map_err(|error| format!("its `url` is no URL: {error}"))?;
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("tine/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_LIMIT);
    if parsed.host_str().is_some_and(is_loopback) {
        builder = builder.no_proxy();
        if parsed.scheme() == "http" {
            // Reading the system's certificates takes its time, and nothing
            // here needs them.
            builder = builder.tls_certs_only([]);
        }
    }
    let client = builder
        .redirect(Policy::custom(|attempt| {
            let is_same = attempt
                .previous()
                .first()
                .is_some_and(|first| first.origin() == attempt.url().origin());
            // Elsewhere the headers would go along, and keys may be among them.
            match is_same && attempt.previous().len() <= REDIRECTS_CAP {
                true => attempt.follow(),
                false => attempt.stop(),
            }
        }))
        .build()
        .map_err(|error| format!("no way to speak HTTP: {error}"))?;
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(sent)
        .max_sse_event_size(MESSAGE_CAP);
    Ok(StreamableHttpClientTransport::with_client(LenientClient(client), config))
}
