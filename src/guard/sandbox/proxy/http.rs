//! HTTP/1.1 proxy requests (RFC 9110, 9112): `CONNECT`, and requests with an absolute `http://` URL,
//! one for each connection.

use std::io;

use reqwest::Url;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Gatekeeper, NoConnection, Target, Tunnel, within};

/// Maximum length of a head, in bytes.
const HEAD_CAP: usize = 64 * 1024;

/// The status of an answer after which both sides speak another protocol.
const SWITCHING_PROTOCOLS: u16 = 101;

/// Maximum number of header fields.
const FIELDS_CAP: usize = 128;

/// Fields that are for the proxy or about the connection to it, and the one that the URL decides.
const OWN_FIELDS: [&str; 5] =
    ["connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"];

/// A client's request.
#[derive(Debug)]
enum ProxyRequest {
    /// Bytes to and from this host, of which these go first.
    Tunnel { target: Target, ahead: Vec<u8> },
    /// This request to this host.
    Request { target: Target, request: Request },
}

/// One request that is passed on.
#[derive(Debug)]
pub(super) struct Request {
    /// The rewritten head, and the part of the body that was read with it.
    ahead: Vec<u8>,
    /// The number of bytes of the body that are still to come.
    body_left: u64,
}

/// The status and the reason of a request that is not served.
type Unserved = (&'static str, String);

pub(super) async fn open(
    client: &mut TcpStream,
    gatekeeper: &dyn Gatekeeper,
    ended: &CancellationToken,
) -> io::Result<Option<Tunnel>> {
    let received = within(ended, receive(client)).await?;
    let unserved = match parse(&received) {
        Ok(ProxyRequest::Tunnel { target, ahead }) => match gatekeeper.connect(target).await {
            Ok(mut host) => {
                let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
                within(ended, client.write_all(established)).await?;
                within(ended, host.write_all(&ahead)).await?;
                return Ok(Some(Tunnel { host, request: None }));
            }
            Err(error) => status_of(error),
        },
        Ok(ProxyRequest::Request { target, request }) => match gatekeeper.connect(target).await {
            Ok(host) => return Ok(Some(Tunnel { host, request: Some(request) })),
            Err(error) => status_of(error),
        },
        Err(unserved) => unserved,
    };
    within(ended, refuse(client, unserved)).await?;
    Ok(None)
}

fn status_of(error: NoConnection) -> Unserved {
    match error {
        NoConnection::Refused(why) => ("403 Forbidden", why),
        NoConnection::Failed(why) => ("502 Bad Gateway", why),
    }
}

async fn refuse(client: &mut TcpStream, (status, why): Unserved) -> io::Result<()> {
    let length = why.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    );
    client.write_all(answer.as_bytes()).await
}

impl Request {
    /// Passes the request on, and then the answer. Whatever the client sends after the request is
    /// not read: it may be a request for another host.
    pub(super) async fn pass(self, client: &mut TcpStream, host: &mut TcpStream) -> io::Result<()> {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_host, mut to_host) = host.split();
        let sending = async {
            to_host.write_all(&self.ahead).await?;
            tokio::io::copy(&mut (&mut from_client).take(self.body_left), &mut to_host).await?;
            // The answer decides when the exchange is over.
            std::future::pending::<io::Result<()>>().await
        };
        let answering = async {
            while !pass_head(&mut from_host, &mut to_client).await? {}
            tokio::io::copy(&mut from_host, &mut to_client).await.map(drop)
        };
        tokio::select! {
            sent = sending => sent,
            answered = answering => answered,
        }
    }
}

/// Passes the head of an answer on, which tells the client to close the connection. Returns whether
/// it is the final one: provisional ones come before it.
async fn pass_head(
    host: &mut (impl AsyncRead + Unpin),
    client: &mut (impl AsyncWrite + Unpin),
) -> io::Result<bool> {
    let mut received = Vec::new();
    // One byte at a time, because the next head follows a provisional one.
    while !received.ends_with(b"\r\n\r\n") && received.len() < HEAD_CAP {
        received.push(host.read_u8().await?);
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_CAP];
    let mut answer = httparse::Response::new(&mut fields);
    let (Ok(httparse::Status::Complete(_)), Some(status)) = (answer.parse(&received), answer.code)
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let is_final = !(100..200).contains(&status) || status == SWITCHING_PROTOCOLS;
    let reason = answer.reason.unwrap_or_default();
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
    if is_final {
        head.extend(b"Connection: close\r\n");
    }
    write_fields(&mut head, answer.headers);
    client.write_all(&head).await?;
    Ok(is_final)
}

/// Adds the fields that are not in [`OWN_FIELDS`], and the empty line.
fn write_fields(head: &mut Vec<u8>, fields: &[httparse::Header<'_>]) {
    for field in fields {
        if !OWN_FIELDS.iter().any(|own| field.name.eq_ignore_ascii_case(own)) {
            head.extend([field.name.as_bytes(), b": ", field.value, b"\r\n"].concat());
        }
    }
    head.extend(b"\r\n");
}

/// Reads until the head of a request is complete, too long, or cut off.
async fn receive(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    while received.len() < HEAD_CAP {
        let length = client.read_buf(&mut received).await?;
        if length == 0 || memchr::memmem::find(&received, b"\r\n\r\n").is_some() {
            break;
        }
    }
    Ok(received)
}

/// Parses a request.
fn parse(received: &[u8]) -> Result<ProxyRequest, Unserved> {
    let no_proxy_request = || {
        let text = "This is tine's proxy for sandboxed commands. It takes CONNECT, http:// URLs \
                    and SOCKS5.";
        ("400 Bad Request", text.to_owned())
    };
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_CAP];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(end)) = request.parse(received) else {
        return Err(no_proxy_request());
    };
    let (Some(method), Some(path)) = (request.method, request.path) else {
        return Err(no_proxy_request());
    };
    let body = &received[end..];
    if method == "CONNECT" {
        let target = Target::parse(path).ok_or_else(no_proxy_request)?;
        return Ok(ProxyRequest::Tunnel { target, ahead: body.to_owned() });
    }
    let url = Url::parse(path).ok().filter(|url| url.scheme() == "http");
    let url = url.ok_or_else(no_proxy_request)?;
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(no_proxy_request());
    };
    let target = Target::new(host, port).ok_or_else(no_proxy_request)?;
    let length = body_length(request.headers)?;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path();
    let head =
        format!("{method} {path}{query} HTTP/1.1\r\nHost: {host}{port}\r\nConnection: close\r\n");
    let mut ahead = head.into_bytes();
    write_fields(&mut ahead, request.headers);
    let read = usize::try_from(length).map_or(body.len(), |length| body.len().min(length));
    ahead.extend(&body[..read]);
    let body_left = length - read as u64;
    Ok(ProxyRequest::Request { target, request: Request { ahead, body_left } })
}

/// Returns the length of a request's body.
fn body_length(fields: &[httparse::Header<'_>]) -> Result<u64, Unserved> {
    let values = |name: &'static str| {
        fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name))
    };
    if values("transfer-encoding").next().is_some() {
        let text = "Requests through this proxy need a Content-Length.";
        return Err(("411 Length Required", text.to_owned()));
    }
    let mut lengths = values("content-length").map(|field| field.value);
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(0),
        (Some(length), None) => {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
            length.ok_or_else(|| ("400 Bad Request", "The length is not a number.".to_owned()))
        }
        (Some(_), Some(_)) => Err(("400 Bad Request", "The length is given twice.".to_owned())),
    }
}
