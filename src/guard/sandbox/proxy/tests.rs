//! What clients say, on sockets of loopback, and what becomes of it.

use std::sync::Mutex;

use tokio::io::AsyncReadExt as _;

use super::*;

/// Lets `allowed.example` through to a server of this test, and keeps what was asked for.
struct Fake {
    server: std::net::SocketAddr,
    asked: Mutex<Vec<Target>>,
}

impl Gatekeeper for Fake {
    fn connect(&self, target: Target) -> BoxFuture<'_, Result<TcpStream, NoConnection>> {
        self.asked.lock().unwrap().push(target.clone());
        Box::pin(async move {
            match &*target.host {
                "allowed.example" | "10.1.2.3" | "2001:db8::1" => {
                    let connected = TcpStream::connect(self.server).await;
                    connected.map_err(|error| NoConnection::Failed(error.to_string()))
                }
                "gone.example" => Err(NoConnection::Failed("it is gone".to_owned())),
                _ => Err(NoConnection::Refused("no rule allows it".to_owned())),
            }
        })
    }
}

/// Sends `words` through the proxy; the server answers all that it reads with `[…]` around it.
/// Returns what the client reads to the end, and what was asked for.
async fn exchange(words: &[u8]) -> (Vec<u8>, Vec<Target>) {
    let loopback = (std::net::Ipv4Addr::LOCALHOST, 0);
    let server = TcpListener::bind(loopback).await.unwrap();
    let fake = Fake { server: server.local_addr().unwrap(), asked: Mutex::default() };
    let listener = TcpListener::bind(loopback).await.unwrap();
    let address = listener.local_addr().unwrap();
    let ended = CancellationToken::new();
    let answering = async {
        loop {
            let (mut stream, _) = server.accept().await.unwrap();
            let mut read = Vec::new();
            // A request does not end the connection.
            while !read.ends_with(b"body") && stream.read_buf(&mut read).await.unwrap() > 0 {}
            let head: &[u8] =
                if read.ends_with(b"body") { b"HTTP/1.1 200 OK\r\n\r\n" } else { b"" };
            stream.write_all(&[head, b"[", &read[..], b"]"].concat()).await.unwrap();
        }
    };
    let client = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(words).await.unwrap();
        client.shutdown().await.unwrap();
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        ended.cancel();
        read
    };
    let (read, ()) = tokio::select! {
        done = async { tokio::join!(client, serve(listener, &fake, &ended)) } => done,
        () = answering => unreachable!("it answers until the client has read"),
    };
    (read, fake.asked.into_inner().unwrap())
}

#[track_caller]
fn target(host: &str, port: u16) -> Target {
    Target::new(host, port).unwrap()
}

#[tokio::test]
async fn a_tunnel_passes_on_what_is_sent_and_what_was_sent_ahead() {
    let (read, asked) =
        exchange(b"CONNECT Allowed.Example:443 HTTP/1.1\r\nHost: x\r\n\r\nhello").await;
    assert_eq!(read, b"HTTP/1.1 200 Connection established\r\n\r\n[hello]");
    assert_eq!(asked, [target("allowed.example", 443)]);
}

#[tokio::test]
async fn a_request_with_a_whole_url_goes_to_its_host_without_what_is_for_the_proxy() {
    let request = b"POST http://allowed.example:81/a?b=c HTTP/1.1\r\nHost: elsewhere.example\r\n\
        Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive\r\n\
        Content-Length: 4\r\n\r\nbody";
    let (read, asked) = exchange(request).await;
    let expected = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[POST /a?b=c HTTP/1.1\r\nHost: allowed.example:81\r\nConnection: close\r\n\
                    Content-Length: 4\r\n\r\nbody]";
    assert_eq!(String::from_utf8(read).unwrap(), expected);
    assert_eq!(asked, [target("allowed.example", 81)]);
}

/// A server that answers the first request with `answer` and keeps the connection open.
async fn keeps_open(words: &[u8], answer: &'static [u8]) -> (Vec<u8>, Vec<u8>) {
    let loopback = (std::net::Ipv4Addr::LOCALHOST, 0);
    let server = TcpListener::bind(loopback).await.unwrap();
    let fake = Fake { server: server.local_addr().unwrap(), asked: Mutex::default() };
    let listener = TcpListener::bind(loopback).await.unwrap();
    let address = listener.local_addr().unwrap();
    let ended = CancellationToken::new();
    let answering = async {
        let (mut stream, _) = server.accept().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            read.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer).await.unwrap();
        // Whatever comes besides, until the proxy closes the connection.
        stream.read_to_end(&mut read).await.unwrap();
        read
    };
    let client = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(words).await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"ok") {
            read.push(client.read_u8().await.unwrap());
        }
        drop(client);
        ended.cancel();
        read
    };
    let (answer, read, ()) = tokio::join!(client, answering, serve(listener, &fake, &ended));
    (answer, read)
}

#[tokio::test]
async fn a_second_request_on_a_connection_reaches_nobody_and_the_client_is_told_to_close() {
    let first = "GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    let second = "GET http://other.example/ HTTP/1.1\r\nAuthorization: secret\r\n\r\n";
    for (answer, expected) in [
        (
            &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"[..],
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        ),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok",
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok",
        ),
    ] {
        let (said, read) = keeps_open(format!("{first}{second}").as_bytes(), answer).await;
        assert_eq!(String::from_utf8(said).unwrap(), expected);
        let request = "GET / HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(read).unwrap(), request);
    }
}

#[tokio::test]
async fn a_refusal_says_why() {
    for (words, status, why) in [
        ("CONNECT other.example:443 HTTP/1.1\r\n\r\n", "403 Forbidden", "no rule allows it"),
        ("GET http://other.example/ HTTP/1.1\r\n\r\n", "403 Forbidden", "no rule allows it"),
        ("CONNECT gone.example:443 HTTP/1.1\r\n\r\n", "502 Bad Gateway", "it is gone"),
        ("GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n", "400 Bad Request", "tine's proxy"),
        ("GET https://allowed.example/ HTTP/1.1\r\n\r\n", "400 Bad Request", "tine's proxy"),
        (
            "POST http://allowed.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "411 Length Required",
            "need a Content-Length",
        ),
        (
            "POST http://allowed.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "400 Bad Request",
            "given twice",
        ),
        ("CONNECT allowed.example HTTP/1.1\r\n\r\n", "400 Bad Request", "tine's proxy"),
        ("CONNECT a@allowed.example:1 HTTP/1.1\r\n\r\n", "400 Bad Request", "tine's proxy"),
        ("CONNECT 2001:db8::1:443 HTTP/1.1\r\n\r\n", "400 Bad Request", "tine's proxy"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "400 Bad Request", "tine's proxy"),
        ("GET http://allowed.example/ HTTP/1.1\r\nHost:", "400 Bad Request", "tine's proxy"),
    ] {
        let (read, asked) = exchange(words.as_bytes()).await;
        let read = String::from_utf8(read).unwrap();
        assert!(read.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{words}: {read}");
        assert!(read.contains(why), "{words}: {read}");
        let is_parsed = status.starts_with("403") || status.starts_with("502");
        assert_eq!(asked.is_empty(), !is_parsed, "{words}");
    }
    let head = format!("CONNECT allowed.example:443 HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    let (_, asked) = exchange(head.as_bytes()).await;
    assert_eq!(asked, []);
}

/// Words of SOCKS5: a greeting without a password, and a request.
fn socks(command: u8, address: &[u8]) -> Vec<u8> {
    [&[5, 1, 0, 5, command, 0], address, b"hello"].concat()
}

#[tokio::test]
async fn socks_reaches_names_and_addresses_and_takes_no_other_command() {
    let name = |name: &str| [&[3, name.len() as u8], name.as_bytes(), &[1, 187]].concat();
    let version_6 = [&[4_u8][..], &[0x20, 1, 0x0d, 0xb8], &[0; 11], &[1], &[0, 80]].concat();
    for (words, answer, asked) in [
        (socks(1, &name("allowed.example")), 0, Some(target("allowed.example", 443))),
        (socks(1, &[1, 10, 1, 2, 3, 0, 80]), 0, Some(target("10.1.2.3", 80))),
        (socks(1, &version_6), 0, Some(target("2001:db8::1", 80))),
        (socks(1, &name("other.example")), 2, Some(target("other.example", 443))),
        (socks(1, &name("gone.example")), 4, Some(target("gone.example", 443))),
        (socks(2, &name("allowed.example")), 7, None),
        (socks(3, &name("allowed.example")), 7, None),
        (socks(1, &name("a b")), 8, None),
        (socks(1, &name("")), 8, None),
        (socks(1, &[9]), 8, None),
    ] {
        let (read, made) = exchange(&words).await;
        let mut expected = vec![5, 0, 5, answer, 0, 1, 0, 0, 0, 0, 0, 0];
        if answer == 0 {
            expected.extend(b"[hello]");
        }
        assert_eq!(read, expected, "{words:?}");
        assert_eq!(made, Vec::from_iter(asked), "{words:?}");
    }
    // A password is all that it offers.
    assert_eq!(exchange(&[5, 1, 2]).await.0, [5, 0xFF]);
}

/// Waits for a person who never answers.
struct Asking<'a>(&'a CancellationToken);

impl Gatekeeper for Asking<'_> {
    fn connect(&self, _target: Target) -> BoxFuture<'_, Result<TcpStream, NoConnection>> {
        Box::pin(async {
            self.0.cancelled().await;
            Err(NoConnection::Refused("the command has ended".to_owned()))
        })
    }
}

#[tokio::test]
async fn it_returns_once_the_command_has_ended_whatever_its_clients_wait_for() {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let ended = CancellationToken::new();
    let clients = async {
        let mut silent = TcpStream::connect(address).await.unwrap();
        let mut asking = TcpStream::connect(address).await.unwrap();
        asking.write_all(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await.unwrap();
        ended.cancel();
        let mut read = Vec::new();
        asking.read_to_end(&mut read).await.unwrap_or_default();
        silent.read_to_end(&mut read).await.unwrap_or_default();
    };
    let asking = Asking(&ended);
    tokio::join!(serve(listener, &asking, &ended), clients);
}

#[test]
fn all_spellings_of_a_host_are_one() {
    for (host, expected) in [
        ("Crates.IO", Some("crates.io")),
        ("crates.io.", Some("crates.io")),
        ("bücher.example", Some("xn--bcher-kva.example")),
        ("127.1", Some("127.0.0.1")),
        ("0x7f000001", Some("127.0.0.1")),
        ("2130706433", Some("127.0.0.1")),
        ("[::1]", Some("::1")),
        ("::1", Some("::1")),
        ("::ffff:127.0.0.1", Some("::ffff:7f00:1")),
        ("", None),
        (".", None),
        ("a b", None),
        ("a/b", None),
        ("a@b", None),
        ("a:1", None),
        ("a?b", None),
        ("a#b", None),
        ("a\\b", None),
        ("a\0b", None),
        ("[::1", None),
        (".localhost", None),
        ("a..b", None),
        (&"a".repeat(64), None),
        (&["a"; 127].join("."), Some(&*["a"; 127].join("."))),
        (&["a"; 128].join("."), None),
    ] {
        let host_of = Target::new(host, 1).map(|target| target.host);
        assert_eq!(host_of.as_deref(), expected, "{host:?}");
    }
}
