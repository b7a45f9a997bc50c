//! Where requests go and what goes with each of them; connections to there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::secrets::Secrets;
use crate::config::is_loopback;
use crate::model::api::SettingsError;
use crate::model::{ModelError, ModelErrorKind};

/// Longest time to make a connection. A host that is there answers in well
/// under a second.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(15);

/// Time without a byte before TCP probes a connection, and between two probes. A model
/// may think for minutes without a byte.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Unanswered probes after which the connection is dead.
const KEEPALIVE_PROBES: u32 = 3;

/// Maximum time that sent bytes stay unacknowledged. The system's own limit is a quarter
/// of an hour.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_LIMIT: Duration = Duration::from_secs(30);

/// A server, and what every request to it carries.
pub(in crate::model) struct Address {
    /// Without a slash at its end.
    base: String,
    /// With its question mark; empty if there is none.
    query: String,
    /// Where answers are asked for.
    target: String,
    headers: HeaderMap,
    secrets: Secrets,
    shown: String,
    is_loopback: bool,
    is_plain: bool,
    /// `true` if a peer may leave sent bytes unread for any time.
    waits_for_stuck_peers: bool,
    /// `true` once an answer came from there.
    has_answered: AtomicBool,
}

impl Address {
    /// An address at which answers are asked for under `path`.
    ///
    /// # Errors
    ///
    /// The URL cannot be used.
    pub(in crate::model) fn new(base_url: &str, path: &str) -> Result<Self, SettingsError> {
        let mut url = parse_url(base_url)?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        url.set_query(None);
        url.set_fragment(None);
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            target: format!("{base}{path}{query}"),
            base,
            query,
            headers: HeaderMap::new(),
            secrets: Secrets::default(),
            shown: shown(base_url),
            is_loopback: url.host_str().is_some_and(is_loopback),
            is_plain: url.scheme() == "http",
            waits_for_stuck_peers: true,
            has_answered: AtomicBool::new(false),
        })
    }

    /// Returns the address with headers for every request, and what is secret
    /// in them.
    pub(in crate::model) fn with(self, headers: HeaderMap, secrets: Secrets) -> Self {
        Self { headers, secrets, ..self }
    }

    /// Sets whether a peer may leave sent bytes unread for any time. A server that answers
    /// one request after the other may leave a long one unread for minutes.
    pub(in crate::model) fn waits_for_stuck_peers(self, waits_for_stuck_peers: bool) -> Self {
        Self { waits_for_stuck_peers, ..self }
    }

    /// Notes that an answer came from there.
    pub(in crate::model) fn note_answer(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Returns whether an answer came from there before.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Returns the URL as people may see it.
    pub(in crate::model) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the host, and its port where that is an unusual one.
    pub(super) fn host(&self) -> String {
        let url = Url::parse(&self.base).ok();
        let host = url.as_ref().and_then(|url| {
            let host = url.host_str()?;
            Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
        });
        host.unwrap_or_else(|| self.shown.clone())
    }

    /// Returns the URL at which answers are asked for.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Returns the URL of something else the server has.
    pub(super) fn beside(&self, path: &str) -> String {
        format!("{}{path}{}", self.base, self.query)
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Takes the secrets out of an error that may quote them.
    pub(in crate::model) fn redact(&self, error: ModelError) -> ModelError {
        ModelError { message: self.secrets.redact(error.message), ..error }
    }

    /// Makes connections to there.
    ///
    /// # Errors
    ///
    /// The system has no usable root certificates.
    pub(in crate::model) fn connections(&self) -> Result<reqwest::Client, ModelError> {
        // Another part of the program, or a test, may have been first; every
        // provider here is ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("tine/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            // What is sent again goes through the gate and is told.
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_LIMIT)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_keepalive_retries(KEEPALIVE_PROBES);
        #[cfg(target_os = "linux")]
        {
            let limit = (!self.waits_for_stuck_peers).then_some(UNACKNOWLEDGED_LIMIT);
            builder = builder.tcp_user_timeout(limit);
        }
        if self.is_loopback {
            builder = builder.no_proxy();
        }
        if self.is_loopback && self.is_plain {
            // Reading the system's certificates takes longer than all else
            // before the first request, and nothing here needs them.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|error| {
            ModelError::new(ModelErrorKind::Connection, format!("cannot set up TLS: {error}"))
        })
    }
}

/// Returns a URL without what may be secret in it.
pub fn shown(base_url: &str) -> String {
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

/// Returns the headers of servers that take the key as a bearer token.
///
/// # Errors
///
/// The key cannot be sent.
pub(in crate::model) fn bearer(key: Option<&SecretString>) -> Result<HeaderMap, SettingsError> {
    Ok(secret(AUTHORIZATION, "Bearer ", key)?.into_iter().collect())
}

/// Returns the header that carries a key; none without a key.
///
/// # Errors
///
/// The key cannot be sent.
pub(in crate::model) fn secret(
    name: HeaderName,
    before: &str,
    key: Option<&SecretString>,
) -> Result<Option<(HeaderName, HeaderValue)>, SettingsError> {
    let Some(key) = key.filter(|key| !key.expose_secret().is_empty()) else {
        return Ok(None);
    };
    let mut value = HeaderValue::try_from(format!("{before}{}", key.expose_secret()))
        .map_err(|_| SettingsError::Key)?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}

/// Puts the configured headers over those of the API.
///
/// # Errors
///
/// One of them cannot be sent.
pub(in crate::model) fn configured(
    mut headers: HeaderMap,
    configured: &[(String, String)],
) -> Result<HeaderMap, SettingsError> {
    for (name, value) in configured {
        let refuse = || SettingsError::Header { name: name.clone() };
        let name = HeaderName::try_from(name).map_err(|_| refuse())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| refuse())?;
        // Keys come in headers of many names.
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn parse_url(base_url: &str) -> Result<Url, SettingsError> {
    let refuse = |reason: String| SettingsError::Url { url: shown(base_url), reason };
    let url = Url::parse(base_url).map_err(|error| refuse(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("it must start with `http://` or `https://`".to_owned()));
    }
    Ok(url)
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
            let address = Address::new(url, "/x").unwrap();
            assert_eq!(address.is_loopback, expected, "{url}");
        }
    }
}
