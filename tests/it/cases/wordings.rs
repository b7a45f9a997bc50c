//! The wordings of errors that servers send.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tine::model::served::{Served, ServedSettings};
use tine::model::{ModelError, ModelErrorKind};

use crate::model_http::{ask, prefix, request};
use crate::support::play::Case;
use crate::support::server::{Reaction, Server};

/// Plays the case with this refusal as the third answer, and checks that the
/// conversation was compacted and went on.
#[track_caller]
fn check_compacts(refusal: &str) {
    let answers = ["1.200.sse", "2.200.sse", refusal, "4.200.sse", "5.200.sse"];
    let case = Case::playing("overflow-wordings", &answers);
    let arguments = ["-m", "m", "-p", "go", "-o", "json", "--config", "retry.base_ms=1"];
    let result = case.tine(&arguments).run().exits(0).result();
    assert_eq!(result["result"], "OK", "{refusal}: {result}");
    assert_eq!(case.bodies().len(), 5, "{refusal}");
}

#[test]
fn a_conversation_that_is_too_long_is_compacted_in_every_wording() {
    check_compacts("3.400.json");
    let directory = Case::open("overflow-wordings").file("other");
    let mut files = 0;
    for entry in fs::read_dir(directory).expect("the case is there") {
        let name = entry.expect("the case can be read").file_name();
        check_compacts(&format!("other/{}", name.to_str().expect("names are UTF-8")));
        files += 1;
    }
    assert!(files >= 5, "{files}");
}

#[test]
fn a_page_that_calls_the_request_too_large_has_it_compacted() {
    check_compacts("../gateway-page-blames-base-url/too-large.413.html");
}

async fn refused(status: u16, content_type: &'static str, body: Vec<u8>) -> ModelError {
    let server = Server::start(move |_| Reaction::status(status, content_type, body.clone()));
    let settings = ServedSettings::new("m", "m", server.base_url());
    let model = Served::new(settings).expect("the server's address is one");
    let error = ask(&model, request(&prefix(), 1)).await.expect_err("it is refused");
    let host = server.base_url().replace("http://", "").replace("/v1", "");
    ModelError { message: error.message.replace(&host, "HOST"), ..error }
}

#[tokio::test]
async fn a_page_of_a_gateway_names_the_cause_that_its_status_tells() {
    use ModelErrorKind::{Overflow, Overloaded, RateLimited, Request};
    let page = Case::open("gateway-page-blames-base-url").file("1.502.html");
    let page = fs::read(page).expect("the case is there");
    let error = refused(502, "text/html", page).await;
    assert_eq!(
        (error.kind, &*error.message),
        (
            Overloaded,
            "HTTP 502: the gateway at HOST answered with \"502 Bad Gateway\": the server behind \
             it does not answer"
        )
    );
    let titled = |title: &str| format!("<html><head><title>{title}</title></head></html>");
    for (status, title, kind, cause) in [
        (500, "Internal Server Error", Overloaded, "HOST answered with"),
        (503, "503 Service Temporarily Unavailable", Overloaded, "does not answer"),
        (504, "504 Gateway Time-out", Overloaded, "does not answer in time"),
        (520, "Web server is returning an unknown error", Overloaded, "does not answer"),
        (522, "Connection timed out", Overloaded, "does not answer in time"),
        (524, "A timeout occurred", Overloaded, "does not answer in time"),
        (413, "413 Payload Too Large", Overflow, "the request is too large"),
        (403, "Attention Required! | Cloudflare", Request, "blocks the request"),
        (403, "Just a moment...", Request, "blocks the request"),
        (429, "Access denied | x used Cloudflare", RateLimited, "too many requests"),
        (404, "404 Not Found", Request, "is `base_url` right?"),
        (405, "405 Not Allowed", Request, "is `base_url` right?"),
    ] {
        let error = refused(status, "text/html", titled(title).into_bytes()).await;
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(cause) && error.message.contains(title), "{error}");
        let blames_url = error.message.contains("base_url");
        assert_eq!(blames_url, matches!(status, 404 | 405), "{error}");
    }
    // Express: the cause is in the text, whatever the status.
    let express = "<!DOCTYPE html><title>Error</title><pre>PayloadTooLargeError: request entity \
                   too large<br> &nbsp; at readStream</pre>";
    for status in [413, 500] {
        let error = refused(status, "text/html; charset=utf-8", express.into()).await;
        assert_eq!(error.kind, Overflow, "{error}");
        assert!(error.message.contains("PayloadTooLargeError"), "{error}");
    }
    // Cloudflare, in plain text.
    let error = refused(403, "text/plain", b"error code: 1020".to_vec()).await;
    assert_eq!(error.kind, Request, "{error}");
    // JSON with a wrong content type is not a page, and a byte order mark is not part of it.
    let error = refused(404, "text/html", "\u{feff}{\"error\":\"no such model\"}".into()).await;
    assert_eq!(&*error.message, "HTTP 404: no such model");
}

#[tokio::test]
async fn what_nobody_knows_is_shown_with_its_first_lines() {
    let error = refused(418, "text/plain", b"short\nand stout\n".to_vec()).await;
    assert_eq!(&*error.message, "HTTP 418: short and stout");
    let error = refused(400, "application/json", br#"{"odd":{"shape":1}}"#.to_vec()).await;
    assert_eq!(&*error.message, r#"HTTP 400: {"odd":{"shape":1}}"#);
}

#[test]
fn a_key_that_google_refuses_is_a_refused_key() {
    let case = Case::playing("retry-time-in-words", &["google-key.400.json"]);
    let arguments = ["-m", "m", "-p", "go", "-o", "json"];
    let result = case.tine(&arguments).run().exits(41).result().to_string();
    assert!(
        result.contains("HTTP 400: API key not valid. Please pass a valid API key."),
        "{result}"
    );
    assert_eq!(case.bodies().len(), 1);
}

/// Returns the wait that a body asks for, as an answer of its own and within a
/// stream, in milliseconds.
async fn waits(body: &[u8]) -> [Option<u128>; 2] {
    let millis = |error: ModelError| error.retry_after.map(|wait| wait.as_millis());
    let refusal = millis(refused(429, "application/json", body.to_vec()).await);
    let value: Value = serde_json::from_slice(body).expect("it is JSON");
    let event = format!("event: error\ndata: {value}\n\n").into_bytes();
    let server = Server::start(move |_| Reaction::stream(event.clone()));
    let settings = ServedSettings::new("m", "m", server.base_url());
    let model = Served::new(settings).expect("the server's address is one");
    let within = ask(&model, request(&prefix(), 1)).await.expect_err("the stream breaks");
    [refusal, millis(within)]
}

#[tokio::test]
async fn the_time_that_a_provider_names_is_heeded_wherever_it_stands() {
    let case = Case::open("retry-time-in-words");
    for (file, expected) in [("1.429.json", 3_000), ("google.429.json", 3_200)] {
        let body = fs::read(case.file(file)).expect("the case is there");
        assert_eq!(waits(&body).await, [Some(expected); 2], "{file}");
    }
    let limited =
        |message: &str| json!({ "error": { "type": "rate_limit_error", "message": message } });
    for (body, expected) in [
        (limited("Please try again in 1m30.5s."), Some(90_500)),
        (limited("Please try again in 250ms."), Some(250)),
        (limited("Please retry after 33 seconds. Please go here to read more."), Some(33_000)),
        (limited("Rate limited: wait 12 seconds"), Some(12_000)),
        (limited("请求过于频繁，请 20 秒后重试"), Some(20_000)),
        (
            json!({ "error": { "status": "RESOURCE_EXHAUSTED", "code": 429, "message": "Quota.",
                "details": [{ "@type": "RetryInfo", "retryDelay": "21s" }] } }),
            Some(21_000),
        ),
        (
            json!({ "error": { "type": "rate_limit_error", "message": "no", "retry_after": 4 } }),
            Some(4_000),
        ),
        (limited("Slow down."), None),
    ] {
        assert_eq!(waits(body.to_string().as_bytes()).await, [expected; 2], "{body}");
    }
}

#[tokio::test]
async fn a_header_and_a_sentence_are_both_waited_for() {
    let server = Server::start(|_| Reaction::Status {
        code: 429,
        headers: vec![("retry-after".to_owned(), "1".to_owned())],
        body: br#"{"error":{"message":"Please try again in 3s."}}"#.to_vec(),
    });
    let settings = ServedSettings::new("m", "m", server.base_url());
    let model = Served::new(settings).expect("the server's address is one");
    let error = ask(&model, request(&prefix(), 1)).await.expect_err("it is refused");
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[tokio::test]
async fn a_list_of_one_error_is_shown_as_its_sentence() {
    let body =
        br#"[{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]"#;
    let error = refused(503, "application/json", body.to_vec()).await;
    assert_eq!(&*error.message, "HTTP 503: The model is overloaded.");
}
