//! WebFetch against a server on loopback, which only a user's own setting lets
//! it reach.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::records::OutputRecord;
use crate::support::server::{Reaction, Server};
use crate::support::tine::{Finished, Place};

/// Main fetches these in one turn each, and then ends.
fn fetches(urls: &[String]) -> Value {
    let fetch = |url: &String| json!({"calls": [{"name": "WebFetch", "arguments": {"url": url}}]});
    let turns = urls.iter().map(fetch).chain([json!({"text": "done"})]);
    json!({"units": {"main": turns.collect::<Vec<_>>()}})
}

fn port(server: &Server) -> String {
    let base = server.base_url();
    base.trim_end_matches("/v1").rsplit(':').next().expect("there is a last part").to_owned()
}

/// Returns the URL of something that the server has.
fn at(server: &Server, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", port(server))
}

/// Runs a script that may fetch everything from this server.
fn allowed(server: &Server, script: &Value) -> Finished {
    let hosts = format!("web.allow_hosts=[\"127.0.0.1:{}\"]", port(server));
    let flags =
        ["-o", "stream-json", "--config", &hosts, "--allowed-tools", "WebFetch(domain:127.0.0.1)"];
    Place::new().play(script, &flags).exits(0)
}

/// Fetches one page after the other; returns what the model reads of them.
fn fetched(server: &Server, paths: &[&str]) -> Vec<OutputRecord> {
    let urls: Vec<String> = paths.iter().map(|path| at(server, path)).collect();
    allowed(server, &fetches(&urls)).records().outputs()
}

fn page(body: impl Into<Vec<u8>>) -> Reaction {
    Reaction::status(200, "text/html; charset=utf-8", body)
}

fn sent_on(to: &str) -> Reaction {
    let headers = vec![("location".to_owned(), to.to_owned())];
    Reaction::Status { code: 302, headers, body: Vec::new() }
}

#[test]
fn a_page_is_markdown_and_the_request_says_nothing_of_who_asks() {
    let server = Server::start(|_| {
        let headers = [("content-type", "text/html"), ("set-cookie", "a=b")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let body = "<title>Notes</title><h1>One</h1><p>see <a href=two>two</a>".into();
        Reaction::Status { code: 200, headers, body }
    });
    let outputs = fetched(&server, &["/a#part", "/b"]);
    let expected = format!(
        "URL: {}\nTitle: Notes\n\n# One\n\nsee [two]({})",
        at(&server, "/a"),
        at(&server, "/two")
    );
    assert_eq!((&*outputs[0].text, outputs[0].is_error), (&*expected, false));
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["accept", "user-agent", "accept-encoding", "host"]);
        let agent = request.header("user-agent").unwrap();
        assert_eq!(agent, concat!("tine/", env!("CARGO_PKG_VERSION")));
        assert_eq!(request.method, "GET");
    }
}

#[test]
fn a_page_that_was_fetched_lately_is_not_fetched_again() {
    let server = Server::start(|_| page("<p>x"));
    let outputs = fetched(&server, &["/a", "/a#other", "/b"]);
    assert_eq!(outputs[0].text, outputs[1].text);
    assert_eq!(server.count(), 2);
}

#[test]
fn without_a_rule_and_anybody_to_ask_nothing_is_fetched_and_the_rule_is_named() {
    let server = Server::start(|_| page("x"));
    let script = fetches(&[at(&server, "/")]);
    let finished = Place::new().play(&script, &["-o", "stream-json"]).exits(0);
    let output = finished.records().outputs().remove(0);
    let rule = "the rule `WebFetch(domain:127.0.0.1)` would allow it";
    assert!(output.is_error && output.text.contains(rule), "{}", output.text);
    assert_eq!(finished.records().result()["permission_denials"][0]["tool_name"], "WebFetch");
    assert_eq!(server.count(), 0);
}

#[test]
fn no_rule_and_no_mode_lets_it_reach_this_machine() {
    let server = Server::start(|_| page("secret"));
    let port = port(&server);
    let hosts = ["127.0.0.1", "localhost", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "0.0.0.0"];
    let urls = hosts.map(|host| format!("http://{host}:{port}/"));
    let flags = ["-o", "stream-json", "--dangerously-skip-permissions"];
    let finished = Place::new().play(&fetches(&urls), &flags).exits(0);
    for output in finished.records().outputs() {
        assert!(output.is_error && output.text.contains("not on the public web"), "{output:?}");
    }
    assert_eq!((server.count(), server.connections()), (0, 0));
}

#[test]
fn redirects_are_followed_on_the_host_alone_and_not_for_ever() {
    let other = Server::start(|_| page("other"));
    let elsewhere = at(&other, "/");
    let server = Server::start(move |request| match &*request.path {
        "/1" => sent_on("/2"),
        "/2" => sent_on("3"),
        "/3" => page("<p>here"),
        "/round" => sent_on("/round"),
        "/out" => sent_on("https://example.com/x?y#z"),
        "/port" => sent_on(&elsewhere),
        "/file" => sent_on("file:///etc/passwd"),
        _ => sent_on("/"),
    });
    let outputs = fetched(&server, &["/1", "/round", "/out", "/port", "/file"]);
    let texts: Vec<&str> = outputs.iter().map(|output| output.text.as_str()).collect();
    assert_eq!(texts[0], format!("URL: {}\n\nhere", at(&server, "/3")));
    assert_eq!(texts[1], "Not fetched: the server sends on more than 5 times.");
    assert!(texts[2].contains("now at:\n\nhttps://example.com/x?y\n"), "{}", texts[2]);
    assert!(!outputs[2].is_error);
    assert!(texts[3].contains("127.0.0.1 is not on the public web"), "{}", texts[3]);
    assert!(texts[4].contains("it must begin with `https://`"), "{}", texts[4]);
    assert_eq!((server.count(), other.count()), (3 + 6 + 1 + 1 + 1, 0));
}

#[test]
fn a_page_without_an_end_is_cut_and_its_text_is_bounded() {
    let server = Server::start(|_| Reaction::Endless {
        first: b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nfirst\n".to_vec(),
        again: b"and one more line\n".repeat(1_000),
    });
    let output = fetched(&server, &["/"]).remove(0);
    let note = "Not all of it: only its first 5.2 MB were read\n\nfirst\nand one";
    let start: String = output.text.chars().take(200).collect();
    assert!(output.text.contains(note) && !output.is_error, "{start}");
    assert!(output.text.chars().count() <= tine::tool::OUTPUT_CAP, "{}", output.text.len());
}

#[test]
fn what_is_no_text_and_what_a_server_refuses_is_told() {
    let server = Server::start(|request| match &*request.path {
        "/image" => Reaction::status(200, "image/png", *b"\x89PNG"),
        "/gone" => Reaction::status(410, "text/plain", "moved to the attic"),
        "/page" => Reaction::status(404, "text/html", "<h1>no</h1>"),
        _ => Reaction::Close,
    });
    let outputs = fetched(&server, &["/image", "/gone", "/page", "/close"]);
    let texts: Vec<&str> = outputs.iter().map(|output| output.text.as_str()).collect();
    assert_eq!(
        texts[..3],
        [
            "Not fetched: it is image/png of 4 bytes, and only text can be read.",
            "Not fetched: the server answered 410 Gone: moved to the attic.",
            "Not fetched: the server answered 404 Not Found.",
        ]
    );
    assert!(texts[3].starts_with("Not fetched: no answer from 127.0.0.1: "), "{}", texts[3]);
    assert!(outputs.iter().all(|output| output.is_error));
}

#[test]
fn an_interrupt_ends_a_fetch_that_hangs() {
    let server = Server::start(|_| Reaction::Hang);
    let place = Place::new();
    let model = place.script("script.json", &fetches(&[at(&server, "/")]));
    let hosts = format!("web.allow_hosts=[\"127.0.0.1:{}\"]", port(&server));
    let flags = ["-p", "go", "-m", &model, "--config", &hosts, "--allowed-tools", "WebFetch"];
    let running = place.tine(flags).start();
    server.wait_until_came(1);
    running.signal(Signal::SIGINT);
    running.wait().exits(130);
}
