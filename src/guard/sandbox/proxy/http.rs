//! HTTP/1.1 proxy requests (RFC 9110, 9112): `CONNECT`, and requests with an absolute `http://` URL,
//! one for each connection.

use std::io;

use reqwest::Url;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::{Gatekeeper, NoConnection, Target, Tunnel, within};

/// Maximum length of a request's head, in bytes.
const HEAD_CAP: usize = 64 * 1024;

/// Maximum number of header fields.
const FIELDS_CAP: usize = 128;

/// Fields that are for the proxy or about the connection to it, and the one that the URL decides.
const OWN_FIELDS: [&str; 5] =
    ["connection", "host", "keep-alive", "proxy-authorization", "proxy-connection"];

/// A client's request.
struct Request {
    target: Target,
    is_connect: bool,
    /// Bytes for the host that go first.
    ahead: Vec<u8>,
}

pub(super) async fn open(
    client: &mut TcpStream,
    gatekeeper: &dyn Gatekeeper,
    ended: &CancellationToken,
) -> io::Result<Option<Tunnel>> {
    let received = within(ended, receive(client)).await?;
    let Some(Request { target, is_connect, ahead }) = parse(&received) else {
        let text = "This is tine's proxy for sandboxed commands. It takes CONNECT, http:// URLs and SOCKS5.";
        refuse(client, "400 Bad Request", text).await?;
        return Ok(None);
    };
    match gatekeeper.connect(target).await {
        Ok(host) => {
            if is_connect {
                client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            }
            Ok(Some(Tunnel { host, ahead }))
        }
        Err(NoConnection::Refused(why)) => {
            refuse(client, "403 Forbidden", &why).await?;
            Ok(None)
        }
        Err(NoConnection::Failed(why)) => {
            refuse(client, "502 Bad Gateway", &why).await?;
            Ok(None)
        }
    }
}

async fn refuse(client: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    );
    client.write_all(answer.as_bytes()).await
}

/// Reads until the head of a request is complete, too long, or cut off.
async fn receive(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    while received.len() < HEAD_CAP {
        let length = client.read_buf(&mut received).await?;
        if length == 0 || head_length(&received).is_some() {
            break;
        }
    }
    Ok(received)
}

/// Returns the length of the head with its empty line, once that has come.
fn head_length(received: &[u8]) -> Option<usize> {
    memchr::memmem::find(received, b"\r\n\r\n").map(|end| end + 4)
}

/// Parses a request; `None` if it is not a proxy request.
fn parse(received: &[u8]) -> Option<Request> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_CAP];
    let mut request = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(end) = request.parse(received).ok()? else { return None };
    let (method, path, body) = (request.method?, request.path?, &received[end..]);
    if method == "CONNECT" {
        let target = Target::parse(path)?;
        return Some(Request { target, is_connect: true, ahead: body.to_owned() });
    }
    let url = Url::parse(path).ok().filter(|url| url.scheme() == "http")?;
    let target = Target::new(url.host_str()?, url.port_or_known_default()?)?;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let mut head = format!("{method} {}{query} HTTP/1.1\r\n", url.path());
    head += &format!("Host: {}{port}\r\n", url.host_str()?);
    // The host closes the connection after its answer, so that the client cannot send a request
    // for another host on it.
    head += "Connection: close\r\n";
    let mut head = head.into_bytes();
    for field in &*request.headers {
        if OWN_FIELDS.iter().any(|own| field.name.eq_ignore_ascii_case(own)) {
            continue;
        }
        head.extend([field.name.as_bytes(), b": ", field.value, b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    head.extend(body);
    Some(Request { target, is_connect: false, ahead: head })
}
