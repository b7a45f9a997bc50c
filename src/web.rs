//! Pages of the web, fetched for a model: nothing is sent along that could
//! tell who asks, nothing on this machine or in its network is reached, and
//! what comes back is bounded.
//!
//! A request goes to the host that was judged and to no other: whoever is sent
//! on to another one is told so instead. Where names lead is looked at on the
//! very address that is connected to.

mod address;
mod cache;
mod connect;
mod fence;
mod page;
mod resolver;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Client, NoProxy, Proxy, Response, Url};
use thiserror::Error;

pub use address::Host;
use address::Way;
use cache::Cache;
pub use connect::ConnectError;
pub use page::Page;
use resolver::{Filtering, LookUp};

/// Most bytes of a page that are read. A long manual on one page has two million;
/// what is above ends there, and the model is told.
pub const BODY_CAP: usize = 5 * 1024 * 1024;

/// Most redirects that are followed, all of them on one host.
pub const HOPS: usize = 5;

/// Longest time for all of it. Pages come in seconds or not at all.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Longest time to make a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Most characters of what a server says beside an error.
const REFUSAL_CAP: usize = 500;

/// What is asked for, best first. Some sites keep Markdown for models.
const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
);

/// What decides where requests may go, and which way.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// Hosts that may be reached wherever they are.
    pub allowed: Vec<Host>,
    /// The proxy that all other requests go through.
    pub proxy: Option<String>,
    /// What does not go through it.
    pub no_proxy: Option<String>,
}

/// Fetches pages; one for the whole run.
pub struct Web {
    reach: Reach,
    look_up: Arc<LookUp>,
    /// Reaches what is public. Made when it is first needed: reading the
    /// system's certificates takes longer than the rest of a start.
    public: OnceLock<Result<Client, String>>,
    /// Reaches what is allowed by its name.
    allowed: OnceLock<Result<Client, String>>,
    cache: Cache,
}

/// What a request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The page.
    Page(Arc<Page>),
    /// It is on another host now.
    Moved(Url),
}

/// Why there is no page.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FetchError {
    /// It is not a URL of the web.
    #[error("`{url}` is not a URL that can be fetched: {why}")]
    Url {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// It is on this machine, or in its network.
    #[error(
        "{host} is not on the public web, and only that can be fetched; the user can allow the \
         host with `web.allow_hosts`"
    )]
    Private {
        /// The host.
        host: String,
    },
    /// The way there leads in a circle.
    #[error("the server sends on more than {HOPS} times")]
    Hops,
    /// There was no answer.
    #[error("no answer from {host}: {why}")]
    Connection {
        /// The host.
        host: String,
        /// What went wrong.
        why: String,
    },
    /// It took too long.
    #[error("the page did not come within {} s", TIME_LIMIT.as_secs())]
    TooSlow,
    /// The server refused.
    #[error("the server answered {status}{said}")]
    Status {
        /// Its status.
        status: String,
        /// What it said about it, if that is a text.
        said: String,
    },
    /// It is nothing to read.
    #[error("it is {kind} of {size}, and only text can be read")]
    Binary {
        /// What the server calls it.
        kind: String,
        /// How much there is of it.
        size: String,
    },
    /// The page cannot be made into text.
    #[error("the page cannot be read as HTML")]
    Unreadable,
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy's URL may hold a password.
        f.debug_struct("Web").field("allowed", &self.reach.allowed).finish_non_exhaustive()
    }
}

impl Default for Web {
    fn default() -> Self {
        Self::new(Reach::default())
    }
}

impl Web {
    /// What reaches so far.
    #[must_use]
    pub fn new(reach: Reach) -> Self {
        Self::looking_up(reach, Arc::new(resolver::system))
    }

    /// The same, where names lead somewhere else than the system says.
    fn looking_up(reach: Reach, look_up: Arc<LookUp>) -> Self {
        let (public, allowed) = (OnceLock::new(), OnceLock::new());
        Self { reach, look_up, public, allowed, cache: Cache::default() }
    }

    /// Fetches a page, or hands out the one that was fetched lately. Dropping
    /// the future ends it.
    ///
    /// # Errors
    ///
    /// There is none, or it must not be fetched.
    pub async fn fetch(&self, url: &str) -> Result<Fetched, FetchError> {
        let (url, way) = self.way(parsed(url)?)?;
        if let Some(page) = self.cache.get(&url) {
            return Ok(Fetched::Page(page));
        }
        let fetching = self.follow(url.clone(), way);
        let fetched = tokio::time::timeout(TIME_LIMIT, fetching).await;
        let fetched = fetched.unwrap_or(Err(FetchError::TooSlow))?;
        if let Fetched::Page(page) = &fetched {
            self.cache.put(url, Arc::clone(page));
        }
        Ok(fetched)
    }

    async fn follow(&self, mut url: Url, mut way: Way) -> Result<Fetched, FetchError> {
        for _ in 0..=HOPS {
            let response = self.send(&url, way).await?;
            if !response.status().is_redirection() {
                return page::read(url, response).await.map(|page| Fetched::Page(Arc::new(page)));
            }
            let (to, next) = self.way(location(&url, &response)?)?;
            if to.host_str() != url.host_str() {
                return Ok(Fetched::Moved(to));
            }
            (url, way) = (to, next);
        }
        Err(FetchError::Hops)
    }

    async fn send(&self, url: &Url, way: Way) -> Result<Response, FetchError> {
        let host = || url.host_str().unwrap_or_default().to_owned();
        let client = match way {
            Way::Allowed => self.allowed.get_or_init(allowed_client),
            Way::Public => self.public.get_or_init(|| public_client(&self.reach, &self.look_up)),
        };
        let failed = |why: String| FetchError::Connection { host: host(), why };
        let client = client.as_ref().map_err(|why| failed(why.clone()))?;
        let sent = client.get(url.clone()).header(ACCEPT, ACCEPTED).send().await;
        sent.map_err(|error| match resolver::is_private(&error) {
            true => FetchError::Private { host: host() },
            false => failed(reason(&error)),
        })
    }

    /// Returns where a request for a URL goes, and which way.
    fn way(&self, mut url: Url) -> Result<(Url, Way), FetchError> {
        let refuse = |why: &str| {
            let why = why.to_owned();
            FetchError::Url { url: shown(&url), why }
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse("it must begin with `https://`"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("it holds a name or a password"));
        }
        let Some(host) = url.host_str().map(str::to_owned) else {
            return Err(refuse("it names no host"));
        };
        url.set_fragment(None);
        if self.reach.allowed.iter().any(|allowed| allowed.is_of(&url)) {
            return Ok((url, Way::Allowed));
        }
        let is_proxy = self.proxy_host().is_some_and(|proxy| host == proxy);
        if is_proxy || !address::may_be_public(&host) {
            return Err(FetchError::Private { host });
        }
        if url.scheme() == "http" {
            let is_set = url.set_port(url.port().filter(|port| *port != 80)).is_ok()
                && url.set_scheme("https").is_ok();
            debug_assert!(is_set, "a URL with a host takes both");
        }
        Ok((url, Way::Public))
    }

    fn proxy_host(&self) -> Option<String> {
        proxy_url(self.reach.proxy.as_deref()?)?.host_str().map(str::to_owned)
    }
}

fn parsed(url: &str) -> Result<Url, FetchError> {
    Url::parse(url.trim())
        .map_err(|error| FetchError::Url { url: short(url, REFUSAL_CAP), why: error.to_string() })
}

/// Returns a URL without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs that have no host, which have no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    short(url.as_str(), REFUSAL_CAP)
}

fn location(url: &Url, response: &Response) -> Result<Url, FetchError> {
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let status = || response.status().to_string();
    let said = " without saying where to go on".to_owned();
    let to = to.ok_or_else(|| FetchError::Status { status: status(), said })?;
    url.join(to)
        .map_err(|error| FetchError::Url { url: short(to, REFUSAL_CAP), why: error.to_string() })
}

/// A client that nobody is recognised by.
fn client() -> reqwest::ClientBuilder {
    // Another part of the program, or a test, may have been first; every
    // provider here is ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("tine/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .connect_timeout(CONNECT_LIMIT)
        .no_proxy()
}

/// What is allowed by its name is near: no proxy leads there.
fn allowed_client() -> Result<Client, String> {
    client().build().map_err(|error| reason(&error))
}

fn public_client(reach: &Reach, look_up: &Arc<LookUp>) -> Result<Client, String> {
    let mut builder = client().https_only(true);
    let mut trusted = None;
    if let Some(url) = reach.proxy.as_deref().and_then(proxy_url) {
        trusted = url.host_str().map(str::to_owned);
        let proxy = Proxy::all(url).map_err(|error| reason(&error))?;
        let no_proxy = reach.no_proxy.as_deref().and_then(NoProxy::from_string);
        builder = builder.proxy(proxy.no_proxy(no_proxy));
    }
    builder = builder.dns_resolver(Arc::new(Filtering { trusted, look_up: Arc::clone(look_up) }));
    builder.build().map_err(|error| reason(&error))
}

/// Proxies are often named without a scheme.
fn proxy_url(text: &str) -> Option<Url> {
    let has_host = |url: &Url| url.host_str().is_some();
    let whole = Url::parse(text).ok().filter(has_host);
    whole.or_else(|| Url::parse(&format!("http://{text}")).ok().filter(has_host))
}

/// Returns what went wrong, without the URL, which stands beside it.
fn reason(error: &reqwest::Error) -> String {
    let mut reason = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        reason = error.to_string();
        cause = error.source();
    }
    if reason.is_empty() { "the connection failed".to_owned() } else { reason }
}

/// Returns the first characters of a text that somebody else wrote.
fn short(text: &str, cap: usize) -> String {
    match text.char_indices().nth(cap) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
