//! Connections for sandboxed commands. The addresses are judged as those of fetched pages; the
//! user's proxy is used if there is one.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower_service::Service as _;

use super::address::{is_in_own_network, is_public, may_be_public, own_networks};
use super::{CONNECT_LIMIT, Web};

/// Maximum number of names that are resolved at once, well below the number of threads for work that
/// blocks.
const LOOKUPS_CAP: usize = 4;

/// A connection that was not made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConnectError {
    /// The host is on this machine or in its network.
    #[error(
        "{host} is not on the public internet; the user can allow the host with `web.allow_hosts`"
    )]
    Private {
        /// The host.
        host: String,
    },
    /// No address of the host answered.
    #[error("no connection to {host}:{port}: {why}")]
    Failed {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The reason.
        why: String,
    },
}

impl Web {
    /// Connects to a host on the public internet, or to one in `web.allow_hosts` at any address. The
    /// name is resolved once, and only addresses that were judged are connected to.
    ///
    /// # Errors
    ///
    /// The host is not on the public internet, or does not answer.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let private = || ConnectError::Private { host: host.to_owned() };
        let failed = |why: String| ConnectError::Failed { host: host.to_owned(), port, why };
        let is_allowed = self.reach.allowed.iter().any(|allowed| allowed.is_at(host, port));
        let is_proxy =
            self.proxy_host().is_some_and(|proxy| proxy.trim_matches(['[', ']']) == host);
        if !is_allowed && (is_proxy || !may_be_public(host)) {
            return Err(private());
        }
        if !is_allowed && let Some(proxy) = self.proxy_for(host, port).map_err(&failed)? {
            let target = authority(host, port);
            return match timeout(CONNECT_LIMIT, through(&proxy, &target)).await {
                Ok(connected) => connected.map_err(|why| failed(format!("your proxy: {why}"))),
                Err(_) => Err(failed("your proxy does not answer".to_owned())),
            };
        }
        let found = timeout(CONNECT_LIMIT, self.resolve(host)).await;
        let found = found.map_err(|_| failed("its name was not resolved in time".to_owned()))?;
        let found = found.map_err(|error| failed(error.to_string()))?;
        let networks = own_networks();
        let is_far = |address: IpAddr| is_public(address) && !is_in_own_network(address, &networks);
        let addresses: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| is_allowed || is_far(*address))
            .map(|address| SocketAddr::new(address, port))
            .collect();
        if addresses.is_empty() {
            return Err(private());
        }
        match timeout(CONNECT_LIMIT, TcpStream::connect(&addresses[..])).await {
            Ok(connected) => connected.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", CONNECT_LIMIT.as_secs()))),
        }
    }

    /// Resolves a name. Few are resolved at once, also if nobody waits for them any more: each takes
    /// a thread until the system's resolver gives up.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        static LOOKUPS: Semaphore = Semaphore::const_new(LOOKUPS_CAP);
        let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
        let finding = (self.look_up)(host.to_owned());
        let finding = tokio::spawn(async move {
            let found = finding.await;
            drop(permit);
            found
        });
        finding.await.map_err(io::Error::other)?
    }

    /// Returns the user's proxy if it applies to this host. That proxy resolves the name. The error
    /// says why the setting cannot be used.
    fn proxy_for(&self, host: &str, port: u16) -> Result<Option<Intercept>, String> {
        let Some(proxy) = self.reach.proxy.as_deref() else { return Ok(None) };
        if self.proxy_host().is_none() {
            return Err("your proxy setting is not a URL".to_owned());
        }
        let direct = self.reach.no_proxy.as_deref().unwrap_or_default();
        let matcher = Matcher::builder().all(proxy).no(direct).build();
        let target = format!("https://{}/", authority(host, port)).parse();
        let target = target.map_err(|_| "the host cannot be written as a URL".to_owned())?;
        Ok(matcher.intercept(&target))
    }
}

fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

async fn through(proxy: &Intercept, authority: &str) -> Result<TcpStream, String> {
    if proxy.uri().scheme_str() != Some("http") {
        return Err("only `http://` proxies are used for sandboxed commands".to_owned());
    }
    let mut tunnel = Tunnel::new(proxy.uri().clone(), HttpConnector::new());
    if let Some(password) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(password.clone());
    }
    let target = format!("https://{authority}/")
        .parse()
        .map_err(|_| "the host cannot be written as a URL")?;
    let connected = tunnel.call(target).await;
    connected.map(TokioIo::into_inner).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::web::{Host, Reach};

    async fn refused(reach: Reach, host: &str, port: u16) -> String {
        Web::new(reach).connect(host, port).await.map(drop).unwrap_err().to_string()
    }

    #[tokio::test]
    async fn only_what_the_user_allows_is_reached_on_this_machine() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = server.local_addr().unwrap().port();
        let private = "is not on the public internet";
        for host in
            ["127.0.0.1", "localhost", "::1", "10.0.0.1", "169.254.169.254", "box", "a.internal"]
        {
            let refused = refused(Reach::default(), host, port).await;
            assert!(refused.contains(private), "{host}: {refused}");
        }
        for allowed in ["localhost", "127.0.0.1", &format!("localhost:{port}")] {
            let host = Host::parse(allowed).unwrap();
            let reach = Reach { allowed: vec![host], ..Reach::default() };
            let name = allowed.split(':').next().unwrap();
            assert!(Web::new(reach.clone()).connect(name, port).await.is_ok(), "{allowed}");
            assert!(refused(reach, "::1", port).await.contains(private));
        }
        let reach =
            Reach { allowed: vec![Host::parse("localhost:1").unwrap()], ..Reach::default() };
        assert!(refused(reach, "localhost", port).await.contains(private));
    }

    /// A proxy that answers `answer`, and what it reads first.
    async fn proxy(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reading = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                read.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            // A refused client closes the connection.
            if stream.read_u8().await.is_ok() {
                stream.write_all(b"hello").await.unwrap();
            }
            String::from_utf8(read).unwrap()
        });
        (format!("ada:secret@{address}"), reading)
    }

    #[tokio::test]
    async fn the_users_proxy_is_used_for_what_is_not_near() {
        let (address, reading) = proxy("HTTP/1.1 200 OK\r\n\r\n").await;
        let reach = Reach { proxy: Some(format!("http://{address}")), ..Reach::default() };
        let mut stream = Web::new(reach).connect("crates.io", 443).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let read = reading.await.unwrap();
        assert!(read.starts_with("CONNECT crates.io:443 HTTP/1.1\r\n"), "{read}");
        assert!(read.to_lowercase().contains("proxy-authorization: basic "), "{read}");
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "hello");
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_or_cannot_be_used_is_an_error_and_no_way_to_this_machine() {
        let (address, _reading) = proxy("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
        let http = Reach { proxy: Some(format!("http://{address}")), ..Reach::default() };
        let said = refused(http.clone(), "crates.io", 443).await;
        assert!(said.starts_with("no connection to crates.io:443: your proxy: "), "{said}");
        assert!(!said.contains("secret"), "{said}");
        let private = "is not on the public internet";
        assert!(refused(http, "localhost", 443).await.contains(private));
        let https = Reach { proxy: Some(format!("https://{address}")), ..Reach::default() };
        let said = refused(https, "crates.io", 443).await;
        assert!(said.ends_with("only `http://` proxies are used for sandboxed commands"), "{said}");
    }
}
