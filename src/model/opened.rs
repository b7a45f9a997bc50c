//! The models of a process. Each is opened once, so that all units that use it
//! share its connections; those of one address and one key share its gate.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::ExposeSecret as _;

use super::gate::{Gate, Quota};
use super::http::exchange::Exchanges;
use super::offline::Offline;
use super::scripted::Scripted;
use super::served::{Served, ServedSettings};
use super::{Facts, Model};
use crate::config::{ModelChoice, ServerModel};

/// The models that were opened so far.
#[derive(Default)]
pub struct Models {
    exchanges: Exchanges,
    // A mutex, because slots are set up side by side; making a client neither
    // waits nor connects.
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    /// By what people call them, and how hard they think.
    models: BTreeMap<(String, Option<String>), Arc<dyn Model>>,
    /// By the provider's address, and what tells its keys apart.
    gates: BTreeMap<(String, Option<[u8; 32]>), Gate>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(opened.models.keys()).finish()
    }
}

impl Models {
    /// Models whose requests go there.
    #[must_use]
    pub fn new(exchanges: Exchanges) -> Self {
        Self { exchanges, opened: Mutex::default() }
    }

    /// Returns where requests go.
    #[must_use]
    pub fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    /// Returns what is known of a model that is open.
    #[must_use]
    pub fn facts(&self, name: &str) -> Option<Facts> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut named = opened.models.iter().filter(|((other, _), _)| other == name);
        named.next().map(|(_, model)| model.facts().clone())
    }

    /// Opens the model that was chosen, unless it is open already.
    ///
    /// # Errors
    ///
    /// The error is a sentence for whoever chose it.
    pub fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, String> {
        let server = match choice {
            ModelChoice::Offline => return Ok(Arc::new(Offline::new())),
            ModelChoice::Scripted(path) => {
                let name = format!("scripted:{}", path.display());
                let scripted = Scripted::open(name, path).map_err(|error| error.to_string())?;
                return Ok(Arc::new(scripted));
            }
            ModelChoice::Server(server) => server,
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let effort = server.effort.as_ref().map(|effort| effort.as_str().to_owned());
        let key = (server.name.clone(), effort);
        if let Some(model) = opened.models.get(&key) {
            return Ok(Arc::clone(model));
        }
        let quota = Quota {
            requests_per_minute: server.requests_per_minute,
            tokens_per_minute: server.tokens_per_minute,
        };
        let lane = match &self.exchanges {
            Exchanges::Live => Some(opened.gate(server).lane(quota)),
            Exchanges::Record(recorder) => {
                recorder.add_model(server);
                Some(opened.gate(server).lane(quota))
            }
            // There is no provider to be spared.
            Exchanges::Replay(_) => None,
        };
        let exchanges = self.exchanges.clone();
        let settings = ServedSettings { lane, exchanges, ..ServedSettings::from(&**server) };
        let model = Arc::new(Served::new(settings).map_err(|error| error.to_string())?);
        opened.models.insert(key, Arc::clone(&model) as Arc<dyn Model>);
        Ok(model)
    }
}

impl Opened {
    /// Returns the gate in front of a model's provider. Of several models that
    /// share it, the one that allows the fewest requests at once counts.
    fn gate(&mut self, server: &ServerModel) -> Gate {
        let key =
            server.key.as_ref().map(|key| *blake3::hash(key.expose_secret().as_bytes()).as_bytes());
        let gates = self.gates.entry((server.base_url.clone(), key));
        let gate = gates.or_insert_with(|| Gate::new(None));
        if let Some(most) = server.max_in_flight {
            gate.allow_at_most(most);
        }
        gate.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Environment, ModelEntry, resolve_model};
    use crate::model::gate::Entry;

    /// Opens models, each by its name, its address and its key's variable, and
    /// tells which of them must wait while one request of the first is under way.
    #[track_caller]
    fn check(entries: &[(&str, &str, Option<&str>)], expected: &[&str]) {
        let entry = |url: &str, key_env: Option<&str>| ModelEntry {
            base_url: Some(url.to_owned()),
            key_env: key_env.map(str::to_owned),
            max_in_flight: std::num::NonZeroUsize::new(1),
            ..ModelEntry::default()
        };
        let models = entries.iter().map(|(name, url, key)| ((*name).to_owned(), entry(url, *key)));
        let config = Config { models: models.collect(), ..Config::default() };
        let environment =
            Environment::from_variables([("K1", "one"), ("K2", "two"), ("K3", "one")]);
        let models = Models::default();
        let open = |name: &str| {
            models.open(&resolve_model(&config, &environment, Some(name)).unwrap()).unwrap()
        };
        let first = open(entries[0].0);
        let Entry::Passed(_pass) = first.lane().unwrap().enter(1) else { panic!("it is free") };
        let waits = |name: &&str| matches!(open(name).lane().unwrap().enter(1), Entry::Held(_));
        let names = entries.iter().map(|(name, ..)| *name).filter(waits);
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert!(Arc::ptr_eq(&first, &open(entries[0].0)));
    }

    #[tokio::test]
    async fn models_of_one_address_and_one_key_share_a_gate() {
        check(
            &[
                ("a", "http://localhost:1/v1", Some("K1")),
                ("b", "http://localhost:1/v1/", Some("K1")),
                ("same key", "http://localhost:1/v1", Some("K3")),
                ("other key", "http://localhost:1/v1", Some("K2")),
                ("no key", "http://localhost:1/v1", None),
                ("other address", "http://localhost:2/v1", Some("K1")),
            ],
            &["a", "b", "same key"],
        );
    }
}
