//! What goes wrong with a server, in words for people and models.
//!
//! The protocol's library names its own types in its errors, and the library
//! below it whole URLs. A URL's query and what stands before its host may hold a
//! key: of a URL only scheme, host and path are ever shown.

use std::error::Error;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;

/// Most characters of an error of a server.
const ERROR_CAP: usize = 2_000;

/// Says why a handshake failed.
pub(super) fn of_handshake(error: &ClientInitializeError) -> String {
    use ClientInitializeError::{
        ConnectionClosed, ExpectedInitResponse, ExpectedInitResult, JsonRpcError, TransportError,
    };
    let said = if let ConnectionClosed(_) = error {
        "it did not answer `initialize`".to_owned()
    } else if let ExpectedInitResult(_) | ExpectedInitResponse(_) = error {
        "it answered `initialize` with something else".to_owned()
    } else if let JsonRpcError(error) = error {
        of_server(error)
    } else if let TransportError { error, .. } = error {
        words(&*error.error)
    } else {
        // The library's own words.
        words(error)
    };
    cut(&said)
}

/// Says why a request has no answer.
pub(super) fn of_request(error: &ServiceError) -> String {
    if let ServiceError::TransportSend(error) = error {
        return cut(&words(&*error.error));
    }
    cut(&words(error))
}

/// Returns the message of a server's error, with its `data`.
pub(super) fn of_server(error: &ErrorData) -> String {
    let words = match error.message.trim() {
        "" => format!("its error has no message (code {})", error.code.0),
        words => words.to_owned(),
    };
    let data = error.data.as_ref().filter(|data| !data.is_null());
    let data = data.map(|data| data.as_str().map_or_else(|| data.to_string(), str::to_owned));
    match data.filter(|data| !data.is_empty() && !words.contains(data.as_str())) {
        Some(data) => cut(&format!("{words}: {data}")),
        None => cut(&words),
    }
}

/// Returns a server's own words, as much of them as is shown.
pub(super) fn cut(text: &str) -> String {
    without_secrets(text).chars().take(ERROR_CAP).collect()
}

/// Returns a URL with nothing but its scheme, host and path; as well each of
/// those in a text.
pub(super) fn without_secrets(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(scheme) = rest.find("://") {
        let (before, after) = rest.split_at(scheme + "://".len());
        let is_end = |c: char| c.is_whitespace() || matches!(c, ')' | '"' | '\'' | '`' | '<' | '>');
        let (url, behind) = after.split_at(after.find(is_end).unwrap_or(after.len()));
        let (authority, path) = url.split_at(url.find(['/', '?', '#', '\\']).unwrap_or(url.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        shown.extend([before, host, path.split(['?', '#']).next().unwrap_or_default()]);
        rest = behind;
    }
    shown + rest
}

/// Returns an error and its causes, without names of types.
fn words(error: &(dyn Error + 'static)) -> String {
    if let Some(StreamableHttpError::Client(error)) =
        error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        return of_http(error);
    }
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return of_http(error);
    }
    with_causes(error.to_string(), error)
}

fn of_http(error: &reqwest::Error) -> String {
    let place =
        error.url().map_or("it".to_owned(), |url| format!("`{}`", without_secrets(url.as_str())));
    let what = if error.is_timeout() {
        "did not answer in time".to_owned()
    } else if error.is_connect() {
        "cannot be reached".to_owned()
    } else if let Some(status) = error.status() {
        format!("answered with status {}", status.as_u16())
    } else if error.is_body() || error.is_decode() {
        "broke its answer off".to_owned()
    } else {
        "cannot be asked".to_owned()
    };
    with_causes(format!("{place} {what}"), error)
}

fn with_causes(mut said: String, error: &(dyn Error + 'static)) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        source = cause.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_url_scheme_host_and_path_are_shown() {
        for (text, shown) in [
            ("http://127.0.0.1:1/mcp?key=S", "http://127.0.0.1:1/mcp"),
            ("https://user:S@host/a/b#S", "https://host/a/b"),
            ("https://host?S", "https://host"),
            ("https://S:S@", "https://"),
            (
                "for url (http://h/p?k=S) and \"ws://S@h/q\", no",
                "for url (http://h/p) and \"ws://h/q\", no",
            ),
            ("no URL, but 50% :// of ? it", "no URL, but 50% :// of ? it"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}
