//! The models of a process. Each is opened once, so that all units that use it
//! share its connections; those of one address and one key share its gate.
//!
//! A process may serve several projects, and each has its own word on what a
//! name means. So two models are one only if all that is said of them is alike:
//! no prompt goes where another project says.

mod lanes;
mod through;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use self::lanes::Lanes;
use self::through::Through;
use super::adaptation::{AdaptationStore, Adaptations, LearnedAdaptations};
use super::gate::{Beyond, Bounds, Lane, LaneId, LaneName};
use super::http;
use super::http::exchange::Exchanges;
use super::offline::Offline;
use super::scripted::Scripted;
use super::served::{Served, ServedSettings};
use super::{Facts, Model};
use crate::config::{Api, ModelChoice, ServerModel};

/// Most models that stay open while nothing uses them: more than any
/// configuration has, fewer than a process meets that serves projects for weeks.
const OPENED_CAP: usize = 256;

/// The models that were opened so far.
#[derive(Default)]
pub struct Models {
    exchanges: Exchanges,
    // A mutex, because slots are set up side by side; making a client neither
    // waits nor connects.
    opened: Arc<Mutex<Opened>>,
    /// The adaptations that are stored for later processes; `None` if none are.
    adaptations: Option<AdaptationStore>,
    /// What requests pass besides the gates here; `None` for nothing.
    beyond: Option<Arc<dyn Beyond>>,
}

#[derive(Default)]
struct Opened {
    /// Each with all that was said of it.
    models: Vec<(ServerModel, Arc<dyn Model>)>,
    lanes: Lanes,
    /// The known adaptations, by all that they depend on.
    learned: BTreeMap<String, Arc<LearnedAdaptations>>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(opened.models.iter().map(|(server, _)| &server.name)).finish()
    }
}

impl Models {
    /// Models whose requests go there.
    #[must_use]
    pub fn new(exchanges: Exchanges) -> Self {
        Self { exchanges, opened: Arc::default(), adaptations: None, beyond: None }
    }

    /// Returns the same models, which load and store their adaptations in `file`. Recorded
    /// and replayed models ignore the file, so that they do not depend on other processes.
    #[must_use]
    pub fn remembering(self, file: &Path) -> Self {
        let is_live = matches!(self.exchanges, Exchanges::Live);
        Self { adaptations: is_live.then(|| AdaptationStore::new(file)), ..self }
    }

    /// The same models, whose requests pass `beyond`, too, before they are sent.
    #[must_use]
    pub fn leading_to(&self, beyond: Arc<dyn Beyond>) -> Self {
        let (exchanges, opened) = (self.exchanges.clone(), Arc::clone(&self.opened));
        let adaptations = self.adaptations.clone();
        Self { exchanges, opened, adaptations, beyond: Some(beyond) }
    }

    /// Returns the lane that another process of a run calls so, whose requests pass
    /// the gates of this one. `bounds` are what it has configured, and count where
    /// nothing is here.
    #[must_use]
    pub fn lane_called(&self, run: &str, name: &LaneName, bounds: Bounds) -> Lane {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.lanes.called(run, name, bounds)
    }

    /// Returns where requests go.
    #[must_use]
    pub fn exchanges(&self) -> &Exchanges {
        &self.exchanges
    }

    /// Returns what is known of a model of a server that is open, however hard
    /// it thinks.
    #[must_use]
    pub fn facts(&self, choice: &ModelChoice) -> Option<Facts> {
        let ModelChoice::Server(server) = choice else { return None };
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open = opened.models.iter();
        let found = open.find(|(other, _)| {
            *other == ServerModel { effort: other.effort.clone(), ..(**server).clone() }
        });
        found.map(|(_, model)| model.facts().clone())
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
        let (model, id) = opened.model(server, &self.exchanges, self.adaptations.as_ref())?;
        Ok(match (&self.beyond, model.lane()) {
            (Some(beyond), Some(lane)) => {
                let lane = lane.leading_to(Arc::clone(beyond), id, lanes::bounds(server));
                Arc::new(Through { lane, model })
            }
            (None, _) | (_, None) => model,
        })
    }
}

impl Opened {
    /// Returns a model, opened if it is not yet.
    fn model(
        &mut self,
        server: &ServerModel,
        exchanges: &Exchanges,
        store: Option<&AdaptationStore>,
    ) -> Result<(Arc<dyn Model>, Arc<LaneId>), String> {
        let (id, lane) = self.lanes.own(server);
        if let Some((_, model)) = self.models.iter().find(|(other, _)| other == server) {
            return Ok((Arc::clone(model), id));
        }
        let lane = match exchanges {
            Exchanges::Live => Some(lane),
            Exchanges::Record(recorder) => {
                recorder.add_model(server);
                Some(lane)
            }
            // There is no provider to be spared.
            Exchanges::Replay(_) => None,
        };
        let exchanges = exchanges.clone();
        let learned = self.learned(server, store);
        let settings = ServedSettings { lane, exchanges, learned, ..ServedSettings::from(server) };
        let model: Arc<dyn Model> =
            Arc::new(Served::new(settings).map_err(|error| error.to_string())?);
        if self.models.len() >= OPENED_CAP {
            self.models.retain(|(_, model)| Arc::strong_count(model) > 1);
        }
        self.models.push((server.clone(), Arc::clone(&model)));
        Ok((model, id))
    }

    /// Returns what a model refuses. Models of one name at one address share it
    /// if nothing else is configured for one of them that a server may refuse.
    fn learned(
        &mut self,
        server: &ServerModel,
        store: Option<&AdaptationStore>,
    ) -> Arc<LearnedAdaptations> {
        let ServerModel { model, api, base_url, effort, adaptations, .. } = server;
        let place = format!("{} {} {model}", api.as_str(), http::shown(base_url));
        let mut given = match api {
            Api::Chat => Adaptations::from_model_name(model),
            Api::Responses | Api::Anthropic => Adaptations::default(),
        };
        given.extend(adaptations.iter().cloned());
        if self.learned.len() >= OPENED_CAP {
            self.learned.retain(|_, learned| Arc::strong_count(learned) > 1);
        }
        let key = format!("{place} {effort:?} {adaptations:?}");
        let learned = self.learned.entry(key).or_insert_with(|| {
            Arc::new(LearnedAdaptations::new(given, store.map(|store| store.entry(&place))))
        });
        Arc::clone(learned)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::config::{Config, Effort, Environment, ModelEntry, resolve_model};
    use crate::message::{Price, Usd};
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
        let asked = |model: &Arc<dyn Model>| {
            let entry = model.lane().unwrap().ask(1).now_or_never();
            entry.expect("only another process takes time to answer")
        };
        let Entry::Passed(_pass) = asked(&first) else { panic!("it is free") };
        let waits = |name: &&str| matches!(asked(&open(name)), Entry::Held(_));
        let names = entries.iter().map(|(name, ..)| *name).filter(waits);
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert!(Arc::ptr_eq(&first, &open(entries[0].0)));
    }

    #[tokio::test]
    async fn one_name_is_two_models_where_two_projects_say_different_things_of_it() {
        let price = |input| Price {
            input: Usd(input),
            output: Usd(1),
            cache_read: Usd(1),
            cache_write: Usd(1),
        };
        let entry = |url: &str, key_env: &str, input: u64| ModelEntry {
            base_url: Some(url.to_owned()),
            key_env: Some(key_env.to_owned()),
            price: Some(price(input)),
            ..ModelEntry::default()
        };
        let environment = Environment::from_variables([("K1", "one"), ("K2", "two")]);
        let named = |entry: ModelEntry| {
            let config = Config { models: [("m".to_owned(), entry)].into(), ..Config::default() };
            resolve_model(&config, &environment, Some("m")).unwrap()
        };
        let one = named(entry("http://localhost:1", "K1", 1));
        let models = Models::default();
        let opened = models.open(&one).unwrap();
        assert!(Arc::ptr_eq(&opened, &models.open(&one).unwrap()));
        for other in [
            entry("http://localhost:2", "K1", 1),
            entry("http://localhost:1", "K2", 1),
            entry("http://localhost:1", "K1", 2),
            ModelEntry { model: Some("n".to_owned()), ..entry("http://localhost:1", "K1", 1) },
        ] {
            let other = named(other);
            assert!(models.facts(&other).is_none());
            let model = models.open(&other).unwrap();
            assert!(!Arc::ptr_eq(&opened, &model));
            assert_eq!(models.facts(&other).unwrap().price, model.facts().price);
        }
        let hard = one.clone().with_effort(Effort::new("high").as_ref());
        assert!(!Arc::ptr_eq(&opened, &models.open(&hard).unwrap()));
        assert_eq!(models.facts(&hard).unwrap().price, opened.facts().price);
    }

    #[tokio::test]
    async fn models_that_nothing_uses_are_let_go_once_there_are_many() {
        let models = Models::default();
        let open = |port: usize| {
            let url = Some(format!("http://localhost:{port}"));
            let entry = ModelEntry { base_url: url, ..ModelEntry::default() };
            let config = Config { models: [("m".to_owned(), entry)].into(), ..Config::default() };
            models.open(&resolve_model(&config, &Environment::default(), None).unwrap()).unwrap()
        };
        let used = open(1);
        (2..=OPENED_CAP + 1).for_each(|port| drop(open(port)));
        assert_eq!(models.opened.lock().unwrap().models.len(), 2);
        assert!(Arc::ptr_eq(&used, &open(1)));
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
