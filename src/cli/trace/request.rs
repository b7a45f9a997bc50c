//! One request to the page's server, and whether it may be answered.
//!
//! Any page of any browser, and any program of another user of the machine, can
//! send requests here. What is answered names the token, which only the user was
//! told, and an address that is this server's own: a name that leads here from
//! elsewhere is not believed.

use crate::event::Seq;

/// Most bytes of a request's head. Browsers send about one kilobyte.
pub(super) const HEAD_CAP: usize = 16 * 1024;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The page.
    Page,
    /// What came after an event.
    Changes(Seq),
}

/// Why nothing is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is no request.
    Malformed,
    /// It does not know the token, or takes this server for another one.
    Forbidden,
    /// There is no such thing here.
    NotFound,
    /// Nothing can be done here but look.
    Method,
}

impl Refused {
    /// Returns the status line's end.
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::Method => "405 Method Not Allowed",
        }
    }
}

/// Who the server is.
#[derive(Debug, Clone)]
pub(super) struct Door {
    /// The port that it listens on.
    pub(super) port: u16,
    /// What a request has to name.
    pub(super) token: String,
}

impl Door {
    /// Returns the address of the page.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    /// Reads the head of a request, without the empty line at its end.
    pub(super) fn open(&self, head: &[u8]) -> Result<Asked, Refused> {
        let head = std::str::from_utf8(head).map_err(|_| Refused::Malformed)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refused::Malformed);
        };
        let hosts = lines.filter_map(|line| line.split_once(':'));
        let hosts = hosts.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let hosts: Vec<&str> = hosts.map(|(_, host)| host.trim()).collect();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let token = value(query, "token").unwrap_or_default();
        if !self.is_own(&hosts) || !is_same(token.as_bytes(), self.token.as_bytes()) {
            return Err(Refused::Forbidden);
        }
        match (method, path) {
            ("GET", "/") => Ok(Asked::Page),
            ("GET", "/changes") => {
                let after = value(query, "after").and_then(|after| after.parse().ok());
                after.map(|after| Asked::Changes(Seq(after))).ok_or(Refused::Malformed)
            }
            ("GET", _) => Err(Refused::NotFound),
            (_, _) => Err(Refused::Method),
        }
    }

    fn is_own(&self, hosts: &[&str]) -> bool {
        let own = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", self.port));
        matches!(hosts, [host] if own.iter().any(|own| own.eq_ignore_ascii_case(host)))
    }
}

fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|pair| pair.0 == name)
        .map(|it| it.1)
}

/// Compares in a time that says nothing of where two texts differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other));
    one.len() == other.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, expected: Result<Asked, Refused>) {
        let door = Door { port: 4000, token: "s3cret".to_owned() };
        assert_eq!(door.open(head.as_bytes()), expected, "{head}");
    }

    #[test]
    fn only_who_knows_the_token_and_the_address_is_let_in() {
        use Refused::{Forbidden, Malformed, Method, NotFound};
        let own = "Host: 127.0.0.1:4000";
        let get = |target: &str, host: &str| format!("GET {target} HTTP/1.1\r\n{host}\r\nA: b");
        check(&get("/?token=s3cret", own), Ok(Asked::Page));
        check(&get("/?token=s3cret", "host: LOCALHOST:4000"), Ok(Asked::Page));
        check(&get("/changes?token=s3cret&after=7", own), Ok(Asked::Changes(Seq(7))));
        check(&get("/changes?token=s3cret", own), Err(Malformed));
        check(&get("/x?token=s3cret", own), Err(NotFound));
        for target in ["/", "/?token=", "/?token=s3cre", "/?token=s3cret2", "/x", "/?t=s3cret"] {
            check(&get(target, own), Err(Forbidden));
        }
        for host in [
            "Host: example.com:4000",
            "Host: 127.0.0.1",
            "Host: 127.0.0.1:4001",
            "Host: 127.0.0.1.example.com:4000",
            "X: y",
            "Host: 127.0.0.1:4000\r\nHost: example.com",
        ] {
            check(&get("/?token=s3cret", host), Err(Forbidden));
        }
        check(&format!("POST /?token=s3cret HTTP/1.1\r\n{own}"), Err(Method));
        for head in ["", "GET /", "GET / HTTP/2", "GET  / HTTP/1.1"] {
            check(head, Err(Malformed));
        }
        assert_eq!(Door { port: 1, token: String::new() }.open(b"\xff"), Err(Malformed));
    }
}
