//! A model of a server, whatever API that speaks.
//!
//! An answer is one stream without a task or a channel behind it: it reads on
//! only when it is asked for more, and dropping it ends the request. What is
//! said in it is the [`Api`]'s business; this file follows it to its end, with
//! bounds on time and size.

mod second;
mod settings;
mod talk;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::value::RawValue;

use self::talk::Talk;
use super::adaptation::{
    self, Adaptation, Adaptations, LearnedAdaptations, RefusedRequest, Untried,
};
use super::api::{Api, Kind, Options};
use super::gate::Lane;
use super::http::connections::Connections;
use super::http::exchange::Route;
use super::http::probe::{self, AvailableModel};
use super::http::secrets::Secrets;
use super::http::{self, Address};
use super::{AdaptationOutcome, Chunk, Facts, Model, ModelError, Request};
use crate::config::AnswerTimeouts;
use crate::message::Prefix;

pub use super::api::SettingsError;
pub use settings::{CONTEXT_WINDOW, ServedSettings};

/// A model of a server.
pub struct Served {
    name: Arc<str>,
    facts: Facts,
    /// The facts with the context window that the server itself named; unset until it has.
    learned: OnceLock<Facts>,
    lane: Option<Lane>,
    endpoint: Arc<Endpoint>,
}

struct Endpoint {
    address: Address,
    route: Route,
    /// The API without any adaptation.
    api: Arc<Api>,
    kind: Kind,
    options: Options,
    learned: Arc<LearnedAdaptations>,
    timeouts: AnswerTimeouts,
    connections: Connections,
    /// The lane that a second request passes.
    lane: Option<Lane>,
}

impl Endpoint {
    /// Returns the API with these adaptations, for answers that fit the schema.
    fn api(&self, adaptations: &Adaptations, text_schema: Option<&Arc<RawValue>>) -> Arc<Api> {
        if adaptations.is_empty() && text_schema.is_none() {
            return Arc::clone(&self.api);
        }
        let text_schema = text_schema.cloned();
        let options = Options { text_schema, ..adaptations.options(&self.options) };
        let api = Api::new(self.kind, options);
        Arc::new(api.expect("only the extra body can be refused, and it is the same"))
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served")
            .field("name", &self.name)
            .field("url", &self.endpoint.address.shown())
            .finish_non_exhaustive()
    }
}

impl Served {
    /// A client that has not connected yet.
    ///
    /// # Errors
    ///
    /// Something in the settings cannot be sent.
    pub fn new(settings: ServedSettings) -> Result<Self, SettingsError> {
        let shown = http::shown(&settings.base_url);
        let secrets = Secrets::new(settings.key.as_ref(), &settings.headers);
        let options = Options {
            max_output_tokens: settings.max_output_tokens,
            longest_answer: settings.longest_answer,
            effort: settings.effort,
            takes_images: settings.takes_images,
            extra: settings.extra_body,
            sealed_by: format!("{} {shown} {}", settings.api.as_str(), settings.model).into(),
            quirks: settings.quirks,
            secrets: secrets.clone(),
            ..Options::new(settings.model)
        };
        let api = Api::new(settings.api, options.clone())?;
        let headers = http::configured(api.headers(settings.key.as_ref())?, &settings.headers)?;
        let timeouts = settings.timeouts;
        let address = Address::new(&settings.base_url, api.path())?
            .with(headers, secrets)
            .waits_for_stuck_peers(timeouts.second_request.is_none());
        let facts = Facts {
            context_window: settings.context_window,
            max_output_tokens: settings.max_output_tokens,
            price: settings.price,
            takes_images: settings.takes_images,
        };
        let route = Route {
            model: Arc::clone(&settings.name),
            api: settings.api.as_str(),
            path: api.path(),
            exchanges: settings.exchanges,
        };
        let (kind, learned, api) = (settings.api, settings.learned, Arc::new(api));
        let (name, lane) = (settings.name, settings.lane);
        let endpoint = Endpoint {
            address,
            route,
            api,
            kind,
            options,
            learned,
            timeouts,
            connections: Connections::default(),
            lane: lane.clone(),
        };
        let learned = OnceLock::new();
        Ok(Self { name, facts, learned, lane, endpoint: Arc::new(endpoint) })
    }

    /// Returns the models that the server lists.
    ///
    /// # Errors
    ///
    /// As for a request; a server that answers but has no list gives an empty
    /// one.
    pub async fn served_models(&self, limit: Duration) -> Result<Vec<AvailableModel>, ModelError> {
        probe::served_models(&self.endpoint.address, limit).await
    }
}

impl Model for Served {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn body(&self, prefix: &Prefix) -> Vec<u8> {
        let known = self.endpoint.learned.known();
        self.endpoint.api(&known, None).body(&known.prefix(prefix))
    }

    fn lane(&self) -> Option<&Lane> {
        self.lane.as_ref()
    }

    fn facts(&self) -> &Facts {
        self.learned.get().unwrap_or(&self.facts)
    }

    fn learn_window(&self, tokens: NonZeroU64) -> bool {
        let context_window = tokens.get();
        context_window < self.facts.context_window
            && self.learned.set(Facts { context_window, ..self.facts.clone() }).is_ok()
    }

    fn adapt(&self, request: &Request, refused: &RefusedRequest) -> Option<AdaptationOutcome> {
        let Endpoint { learned, options, .. } = &*self.endpoint;
        let sent = |adaptations: &Adaptations| {
            let prefix = adaptations.prefix(&request.prefix);
            self.endpoint.api(adaptations, request.text_schema.as_ref()).sent(&prefix)
        };
        let (before, known) = (sent(&refused.adaptations), learned.known());
        if *known != refused.adaptations && sent(&known) != before {
            return Some(AdaptationOutcome::Before { claim: learned.claim(&known) });
        }
        let keys = adaptation::keys_of(&before);
        let sent_with =
            adaptation::SentRequest { keys: &keys, extra: &options.extra, prefix: &request.prefix };
        let Untried { kept, tried } = learned.untried(refused);
        let proposed = adaptation::candidates(refused, &sent_with).into_iter();
        // At last all of them together: each may help with a part.
        let together = (tried.len() > 1).then(|| tried.concat());
        let mut proposed = proposed.filter(|all| !tried.contains(all)).chain(together);
        let helps = |all: &Vec<Adaptation>| {
            let mut changed = kept.clone();
            changed.extend(all.iter().cloned());
            sent(&changed) != before
        };
        let Some(found) = proposed.find(helps) else {
            learned.withdraw(refused);
            return None;
        };
        learned.learn(refused, kept, &found);
        let claim = learned.claim(&found.iter().cloned().collect());
        Some(AdaptationOutcome::Now { notice: adaptation::sentence(&self.name, &found), claim })
    }

    fn advise(&self, request: &Request, refused: &RefusedRequest) -> Option<String> {
        let (keys, extra) = (&[], &self.endpoint.options.extra);
        let sent = adaptation::SentRequest { keys, extra, prefix: &request.prefix };
        adaptation::advice(&refused.said, &sent)
    }

    fn respond(&self, request: Request) -> BoxStream<'static, Result<Chunk, ModelError>> {
        let talk = Box::new(Talk::new(Arc::clone(&self.endpoint), request));
        stream::unfold(talk, |mut talk| async move { Some((talk.next().await?, talk)) }).boxed()
    }
}
