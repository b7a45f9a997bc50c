//! The proxy through which a command reaches hosts.
//!
//! One port serves HTTP (`CONNECT`, and requests with an absolute `http://` URL) and SOCKS5 without
//! authentication. The gatekeeper decides which hosts may be reached, resolves their names and
//! connects. The proxy only copies bytes: TLS stays between the command and the host.

mod http;
mod socks;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use reqwest::Url;
use thiserror::Error;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The port of the proxy in the network namespace of a command.
pub const PORT: u16 = 3128;

/// Maximum number of simultaneous connections of one command, and of all; others wait. Each needs two
/// descriptors, of which a process often has no more than 1,024.
const CONNECTIONS_CAP: usize = 64;
static CONNECTIONS: Semaphore = Semaphore::const_new(160);

/// Maximum length of a host's name and of its labels (RFC 1035), in bytes.
const NAME_CAP: usize = 253;
const LABEL_CAP: usize = 63;

/// The longest time for a client's request.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// The longest time that a client may take to close a connection that is over.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Pause after a failed accept: the process may have run out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A host and a port that a command asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The name or address as URLs have it, in lower case; IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Target {
    /// Parses a host; `None` if it is not a valid one.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Option<Self> {
        let is_address = host.contains(':') && !host.starts_with('[');
        let written = if is_address { format!("[{host}]") } else { host.to_owned() };
        // Behind the brackets would be a port.
        let is_cut = written.starts_with('[') != written.ends_with(']');
        if written.is_empty() || is_cut || written.contains(['/', '@', '?', '#', '\\', ' ']) {
            return None;
        }
        // All spellings of an address become one.
        let url = Url::parse(&format!("http://{written}/")).ok()?;
        let host = url.host_str()?.trim_matches(['[', ']']).trim_end_matches('.');
        let is_label = |label: &str| !label.is_empty() && label.len() <= LABEL_CAP;
        let is_name = host.len() <= NAME_CAP && host.split('.').all(is_label);
        is_name.then(|| Self { host: host.to_owned(), port })
    }

    /// Reads `HOST:PORT`, with IPv6 in brackets.
    fn parse(authority: &str) -> Option<Self> {
        let (host, port) = authority.rsplit_once(':')?;
        // Without brackets the last colon may be one of the address.
        let is_whole = !host.contains(':') || host.ends_with(']');
        Self::new(host, port.parse().ok()?).filter(|_| is_whole)
    }
}

/// Why a connection was not made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoConnection {
    /// No rule and no user allows it.
    #[error("{0}")]
    Refused(String),
    /// The host did not answer.
    #[error("{0}")]
    Failed(String),
}

/// Decides which hosts a command reaches, and connects to them.
pub trait Gatekeeper: Sync {
    /// Connects to a host if the command may reach it. This may wait for a person; it returns
    /// soon after the command has ended.
    ///
    /// # Errors
    ///
    /// The host may not be reached, or does not answer.
    fn connect(&self, target: Target) -> BoxFuture<'_, Result<TcpStream, NoConnection>>;
}

/// A connection to a host, for a client.
struct Tunnel {
    host: TcpStream,
    /// The one HTTP request that is passed on; `None` to copy all bytes.
    request: Option<http::Request>,
}

/// Serves a command until it has `ended`, and then returns soon.
pub async fn serve(listener: TcpListener, gatekeeper: &dyn Gatekeeper, ended: &CancellationToken) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = ended.cancelled() => break,
            Some(()) = connections.next(), if !connections.is_empty() => {}
            client = accept(&listener), if connections.len() < CONNECTIONS_CAP => {
                connections.push(serve_one(client, gatekeeper, ended));
            }
        }
    }
    // Gatekeepers take back their open questions; the rest ends at once.
    while connections.next().await.is_some() {}
}

/// A client, and its share of the connections.
type Client = (TcpStream, SemaphorePermit<'static>);

/// Waits until there may be one more connection, and for a client.
async fn accept(listener: &TcpListener) -> Client {
    let permit = CONNECTIONS.acquire().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((client, _)) => return (client, permit),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve_one(
    (mut client, _permit): Client,
    gatekeeper: &dyn Gatekeeper,
    ended: &CancellationToken,
) {
    // Not cancelled: the gatekeeper takes its open question back when the command ends.
    let opened = open(&mut client, gatekeeper, ended).await;
    let Ok(Some(Tunnel { mut host, request })) = opened else {
        let _ = select(pin!(timeout(CLOSE_LIMIT, close(client))), pin!(ended.cancelled())).await;
        return;
    };
    let passing = async {
        match request {
            Some(request) => request.pass(&mut client, &mut host).await,
            None => copy_bidirectional(&mut client, &mut host).await.map(drop),
        }
    };
    // The command sees a broken connection itself.
    let _ = select(pin!(passing), pin!(ended.cancelled())).await;
    let _ = select(pin!(timeout(CLOSE_LIMIT, close(client))), pin!(ended.cancelled())).await;
}

/// Closes a client's connection. Reads its remaining bytes first: unread bytes would reset the
/// connection before the client has read everything.
async fn close(mut client: TcpStream) {
    if client.shutdown().await.is_ok() {
        let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
    }
}

/// Reads a client's request and connects to its target; `None` if the client was refused.
async fn open(
    client: &mut TcpStream,
    gatekeeper: &dyn Gatekeeper,
    ended: &CancellationToken,
) -> io::Result<Option<Tunnel>> {
    let mut first = [0];
    let peeked = within(ended, client.peek(&mut first)).await?;
    match (peeked, first) {
        (0, _) => Ok(None),
        (_, [socks::VERSION]) => socks::open(client, gatekeeper, ended).await,
        _ => http::open(client, gatekeeper, ended).await,
    }
}

/// Exchanges bytes with a client, within the time limit and until the command has ended.
async fn within<T>(
    ended: &CancellationToken,
    exchange: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match select(pin!(timeout(REQUEST_LIMIT, exchange)), pin!(ended.cancelled())).await {
        Either::Left((Ok(exchanged), _)) => exchanged,
        Either::Left((Err(_), _)) => Err(io::ErrorKind::TimedOut.into()),
        Either::Right(((), _)) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
