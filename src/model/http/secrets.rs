//! What must stand in no text that people or models read.
//!
//! Servers quote what they were sent, and their words end up in errors. A text
//! is searched before anything of it is cut off: half a key is a secret too.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

/// Shortest key or header that is searched for in texts. A shorter one is a
/// placeholder such as `x` that stands in ordinary words too.
pub(super) const REDACTED_MIN: usize = 8;

/// The key of a server and the values of configured headers. A clone shares
/// them.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The longest first: one may be a part of another.
    parts: Arc<[Part]>,
}

struct Part {
    secret: SecretString,
    word: &'static str,
}

impl Secrets {
    /// Those that go with each request.
    pub(in crate::model) fn new(key: Option<&SecretString>, headers: &[(String, String)]) -> Self {
        let key = key.into_iter().map(|key| (key.expose_secret(), "[key]"));
        let values = headers.iter().map(|(_, value)| value.as_str());
        // `Bearer sk-1`: a server may quote the second word alone.
        let tokens =
            headers.iter().filter(|(name, _)| name.to_ascii_lowercase().ends_with("authorization"));
        let tokens = tokens.filter_map(|(_, value)| value.split_whitespace().last());
        let mut parts: Vec<_> = key
            .chain(values.chain(tokens).map(|value| (value, "[header]")))
            .filter(|(secret, _)| secret.len() >= REDACTED_MIN)
            .map(|(secret, word)| Part { secret: secret.into(), word })
            .collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.secret.expose_secret().len()));
        Self { parts: parts.into() }
    }

    /// Returns a text without them.
    pub(in crate::model) fn redact(&self, text: String) -> String {
        self.parts.iter().fold(text, |text, part| {
            let secret = part.secret.expose_secret();
            if text.contains(secret) { text.replace(secret, part.word) } else { text }
        })
    }
}

/// Shows none of them.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.parts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_goes_and_the_longest_first() {
        let headers = [
            ("X-Team", "sk-123456-blue"),
            ("Proxy-Authorization", "Basic dXNlcjpwYXNz"),
            ("X-Short", "blue"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let secrets = Secrets::new(Some(&"sk-123456".into()), &headers);
        let text = "sk-123456-blue, sk-123456, Basic dXNlcjpwYXNz, dXNlcjpwYXNz, blue";
        assert_eq!(secrets.redact(text.to_owned()), "[header], [key], [header], [header], blue");
        assert_eq!(format!("{secrets:?}"), "Secrets(4)");
    }
}
