//! What tells gates and lanes apart: in a process, and among those of one run.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// What a run's name becomes a key for, in BLAKE3's sense.
const CONTEXT: &str = "tine 2026-11-22 names of gates among the processes of a run";

/// How much of a hash is a name: enough that no two of a run are alike, and that it
/// fits nothing which was hashed for another purpose.
const NAME_DIGITS: usize = 32;

/// The address of a provider and a key for it, as a hash. It stays in its process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint([u8; 32]);

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The address, and the key that is used there; `None` for none.
    #[must_use]
    pub fn new(base_url: &str, key: Option<&SecretString>) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(blake3::hash(base_url.as_bytes()).as_bytes());
        if let Some(key) = key {
            hasher.update(blake3::hash(key.expose_secret().as_bytes()).as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Returns what its gate is called among the processes of a run.
    ///
    /// Whoever hears that name and guesses a key can find out whether it is this one,
    /// and nothing else; in another run it has another name.
    #[must_use]
    pub fn called(&self, run: &str) -> String {
        name(run, &self.0, None)
    }
}

/// Names a lane in its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneId {
    /// Where its requests go.
    pub endpoint: Endpoint,
    /// What the provider calls the model.
    pub model: String,
}

impl LaneId {
    /// Returns what it is called among the processes of a run; see
    /// [`Endpoint::called`].
    #[must_use]
    pub fn called(&self, run: &str) -> LaneName {
        let Self { endpoint, model } = self;
        LaneName { gate: endpoint.called(run), lane: name(run, &endpoint.0, Some(model)) }
    }
}

/// What a lane is called among the processes of a run. It says which lanes are of
/// one provider and one key, and shows neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneName {
    /// Its gate.
    pub gate: String,
    /// Itself.
    pub lane: String,
}

fn name(run: &str, endpoint: &[u8; 32], model: Option<&str>) -> String {
    let key = blake3::derive_key(CONTEXT, run.as_bytes());
    let mut hasher = blake3::Hasher::new_keyed(&key);
    hasher.update(endpoint);
    if let Some(model) = model {
        hasher.update(blake3::hash(model.as_bytes()).as_bytes());
    }
    hasher.finalize().to_hex()[..NAME_DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(base_url: &str, key: Option<&str>, model: &str) -> LaneId {
        let key = key.map(SecretString::from);
        LaneId { endpoint: Endpoint::new(base_url, key.as_ref()), model: model.to_owned() }
    }

    #[test]
    fn processes_of_a_run_call_a_lane_alike_and_others_differently() {
        let name = id("http://a", Some("key"), "m").called("run");
        assert_eq!(id("http://a", Some("key"), "m").called("run"), name);
        for other in [
            id("http://b", Some("key"), "m").called("run"),
            id("http://a", Some("other"), "m").called("run"),
            id("http://a", None, "m").called("run"),
            id("http://a", Some("key"), "m").called("other run"),
        ] {
            assert!(other.gate != name.gate && other.lane != name.lane, "{other:?}");
        }
        let sibling = id("http://a", Some("key"), "n").called("run");
        assert!(sibling.gate == name.gate && sibling.lane != name.lane);
    }

    #[test]
    fn nothing_shows_a_key_or_a_plain_hash_of_it() {
        let id = id("http://a", Some("sk-secret"), "m");
        let hash = blake3::hash(b"sk-secret").to_hex();
        let shown = format!("{id:?} {:?}", id.called("run"));
        assert!(!shown.contains("sk-secret") && !shown.contains(&hash[..8]), "{shown}");
    }
}
