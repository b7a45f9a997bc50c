//! One model of a server: what an entry of the configuration, its preset and
//! the environment say together.
//!
//! A key goes only to the address it was configured for. A preset's key goes to
//! the preset's own server or, where the environment moves that, to the address
//! that stands beside the key; an address in the configuration has the key that
//! stands beside it, or none.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::model::ModelChoiceError;
use super::{
    AnswerTimeouts, Api, Effort, Environment, Headers, ModelEntry, Mover, Preset, Quirks, known,
};
use crate::message::Price;
use crate::model::adaptation::Adaptation;

/// The port of Ollama, where `OLLAMA_HOST` names none.
const OLLAMA_PORT: u16 = 11434;

/// One model of a server, with all that is known of both.
#[derive(Debug, Clone)]
pub struct ServerModel {
    /// What people call the model.
    pub name: String,
    /// What the server calls it.
    pub model: String,
    /// How the server is spoken to.
    pub api: Api,
    /// Where requests go, less what the API puts behind it:
    /// `/chat/completions`, `/responses` or `/messages`. Without a slash at
    /// its end; for Anthropic's API it always ends in `/v1`.
    pub base_url: String,
    /// `None` if the server takes requests without one.
    pub key: Option<SecretString>,
    /// Where the key came from.
    pub key_source: KeySource,
    /// Most tokens of a request and its answer together; `None` if that is not
    /// known.
    pub context_window: Option<u32>,
    /// Most tokens of one answer; `None` leaves it to the server.
    pub max_output_tokens: Option<u32>,
    /// Most tokens that an answer of this model can be asked for, for APIs that
    /// insist on a limit; `None` if that is not known.
    pub longest_answer: Option<u32>,
    /// What its tokens cost; `None` if nobody said.
    pub price: Option<Price>,
    /// Most requests in a minute; `None` if nobody said.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Most tokens in a minute; `None` if nobody said.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// Most requests at once; `None` if nobody said.
    pub max_in_flight: Option<NonZeroUsize>,
    /// Timeouts of its requests.
    pub timeouts: AnswerTimeouts,
    /// How hard it thinks; `None` leaves it to the server.
    pub effort: Option<Effort>,
    /// Whether it sees images.
    pub images: bool,
    /// Where the server departs from its API's documents.
    pub quirks: Quirks,
    /// Sent with every request.
    pub headers: Headers,
    /// Added to every request's body.
    pub extra_body: Map<String, Value>,
    /// Changes to its requests that its server is known to need.
    pub adaptations: Vec<Adaptation>,
}

impl ServerModel {
    /// Tells whether requests for another model go to the same place, and show
    /// it the same.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        let key = |model: &Self| model.key.as_ref().map(|key| key.expose_secret().to_owned());
        self.base_url == other.base_url && key(self) == key(other)
    }
}

/// Two are alike if all that is said of them is, the key too.
impl PartialEq for ServerModel {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            name,
            model,
            api,
            base_url,
            key,
            key_source,
            context_window,
            max_output_tokens,
            longest_answer,
            price,
            requests_per_minute,
            tokens_per_minute,
            max_in_flight,
            timeouts,
            effort,
            images,
            quirks,
            headers,
            extra_body,
            adaptations,
        } = self;
        let exposed = SecretString::expose_secret;
        key.as_ref().map(exposed) == other.key.as_ref().map(exposed)
            && *name == other.name
            && *model == other.model
            && *api == other.api
            && *base_url == other.base_url
            && *key_source == other.key_source
            && *context_window == other.context_window
            && *max_output_tokens == other.max_output_tokens
            && *longest_answer == other.longest_answer
            && *price == other.price
            && *requests_per_minute == other.requests_per_minute
            && *tokens_per_minute == other.tokens_per_minute
            && *max_in_flight == other.max_in_flight
            && *timeouts == other.timeouts
            && *effort == other.effort
            && *images == other.images
            && *quirks == other.quirks
            && *headers == other.headers
            && *extra_body == other.extra_body
            && *adaptations == other.adaptations
    }
}

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// There is none.
    None,
    /// The environment variable of this name.
    Variable(String),
}

impl KeySource {
    /// Returns the text for records: the variable's name, or `none`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Variable(name) => name,
        }
    }
}

/// A model that may still lack its key.
pub(super) struct Settled {
    /// All but a key that is missing.
    pub(super) server: ServerModel,
    /// The variable that holds the key, set or not.
    pub(super) key_env: Option<String>,
    /// Whether the server takes no request without one.
    needs_key: bool,
}

impl Settled {
    /// Returns the model if nothing is missing.
    pub(super) fn ready(self) -> Result<ServerModel, ModelChoiceError> {
        let lacks_its_key = self.lacks_its_key();
        let Self { server, key_env, needs_key: _ } = self;
        match key_env {
            Some(variable) if lacks_its_key => {
                Err(ModelChoiceError::MissingKey { name: server.name, variable })
            }
            Some(_) | None => Ok(server),
        }
    }

    /// Tells whether no request can be made before its key's variable is set.
    pub(super) fn lacks_its_key(&self) -> bool {
        self.needs_key && self.server.key.is_none()
    }
}

/// Puts together what is said of a model.
pub(super) fn settle(
    name: &str,
    entry: &ModelEntry,
    environment: &Environment,
) -> Result<Settled, ModelChoiceError> {
    let Place { base_url, api, quirks, provider, key_env, needs_key, is_near } =
        place(name, entry, environment)?;
    let key = key_env.as_deref().and_then(|variable| environment.key(variable)).cloned();
    let key_source = match (&key, &key_env) {
        (Some(_), Some(variable)) => KeySource::Variable(variable.clone()),
        (Some(_) | None, _) => KeySource::None,
    };
    let model = entry.model.clone().unwrap_or_else(|| name.to_owned());
    let known = provider.and_then(|preset| known::find(preset.known, &model));
    let server = ServerModel {
        name: name.to_owned(),
        model,
        api,
        base_url,
        key,
        key_source,
        context_window: entry.context_window.or(known.map(|known| known.context_window)),
        max_output_tokens: entry.max_output_tokens,
        longest_answer: known.and_then(|known| known.longest_answer),
        price: entry.price,
        requests_per_minute: entry.requests_per_minute,
        tokens_per_minute: entry.tokens_per_minute,
        max_in_flight: entry.max_in_flight,
        timeouts: timeouts(entry, is_near),
        effort: entry.effort.clone(),
        images: entry.images.unwrap_or_else(|| known.map_or(quirks.images, |known| known.images)),
        quirks,
        headers: entry.headers.clone(),
        extra_body: entry.extra_body.clone(),
        adaptations: entry.adaptations.clone(),
    };
    Ok(Settled { server, key_env, needs_key })
}

/// Returns the timeouts of a model.
fn timeouts(entry: &ModelEntry, is_near: bool) -> AnswerTimeouts {
    let usual = match entry.preset {
        _ if is_near => AnswerTimeouts::NEAR,
        Some(preset) if preset.is_own_server() => AnswerTimeouts::OWN,
        Some(_) | None => AnswerTimeouts::HOSTED,
    };
    let seconds = |seconds: NonZeroU32| Duration::from_secs(seconds.get().into());
    AnswerTimeouts {
        headers: entry.headers_s.map_or(usual.headers, seconds),
        first_piece: entry.first_piece_s.map_or(usual.first_piece, seconds),
        idle: entry.idle_s.map_or(usual.idle, seconds),
        // A configured time means that headers are known to come late.
        second_request: usual.second_request.filter(|_| entry.headers_s.is_none()),
    }
}

/// Where a model is.
struct Place {
    base_url: String,
    api: Api,
    quirks: Quirks,
    /// Whose server that is, if it is one of a preset.
    provider: Option<&'static Preset>,
    key_env: Option<String>,
    needs_key: bool,
    /// Whether it is this machine or one of a private network.
    is_near: bool,
}

fn place(
    name: &str,
    entry: &ModelEntry,
    environment: &Environment,
) -> Result<Place, ModelChoiceError> {
    let &ModelEntry { preset, api, ref base_url, ref key_env, .. } = entry;
    let mover = preset.filter(|_| base_url.is_none()).and_then(|preset| preset.moved_by);
    let moved = mover.and_then(|mover| Some((mover, address(mover, environment)?)));
    let (url, source_name) = match (base_url, preset, &moved) {
        (None, _, Some((mover, url))) => (url.as_str(), mover.variable().to_owned()),
        (None, Some(preset), None) => (preset.base_url, format!("models.{name}.preset")),
        (url, _, _) => (url.as_deref().unwrap_or_default(), format!("models.{name}.base_url")),
    };
    let parsed = parse_url(url, || source_name)?;
    let is_own = |preset: &&'static Preset| {
        Url::parse(preset.base_url).is_ok_and(|own| own.origin() == parsed.origin())
    };
    let own = preset.filter(is_own);
    let host = parsed.host_str().unwrap_or_default();
    let provider = own.or_else(|| Preset::from_host(host));
    // Where the environment moves a preset, another server stands there.
    let alike = preset.filter(|_| moved.is_none()).or(provider);
    let api = api.unwrap_or(match (own, preset, mover) {
        (None, Some(_), Some(Mover::OpenAiBaseUrl)) => Api::Chat,
        (_, Some(preset), _) => preset.api,
        (_, None, _) => Api::Chat,
    });
    let preset_key = own.or(preset.filter(|_| moved.is_some())).and_then(|preset| preset.key_env);
    let insists = key_env.is_some() || own.is_some_and(|preset| preset.key_env.is_some());
    Ok(Place {
        base_url: without_end(url, api),
        api,
        quirks: alike.map_or(Quirks::NONE, |preset| preset.quirks),
        provider,
        key_env: key_env.clone().or(preset_key.map(str::to_owned)),
        // Servers on one's own machine rarely look at the key.
        needs_key: insists && !is_loopback(host),
        is_near: is_near(host),
    })
}

/// Where the environment says that a server is.
fn address(mover: Mover, environment: &Environment) -> Option<String> {
    match mover {
        Mover::OpenAiBaseUrl => environment.openai_base_url.clone(),
        Mover::AnthropicBaseUrl => environment.anthropic_base_url.clone(),
        Mover::OllamaHost => environment.ollama_host.as_deref().map(ollama_url),
    }
}

fn parse_url(url: &str, source_name: impl FnOnce() -> String) -> Result<Url, ModelChoiceError> {
    let is_web = |parsed: &Url| matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    Url::parse(url)
        .ok()
        .filter(is_web)
        .ok_or_else(|| ModelChoiceError::BadUrl { source_name: source_name(), url: url.to_owned() })
}

/// Anthropic's own programs put `/v1` behind the address they are given, others
/// expect it there. It is right with and without.
fn without_end(url: &str, api: Api) -> String {
    let url = url.trim().trim_end_matches('/');
    match api {
        Api::Chat | Api::Responses => url.to_owned(),
        Api::Anthropic => {
            let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
            let path = path.trim_end_matches('/');
            format!("{}/v1{query}", path.strip_suffix("/v1").unwrap_or(path))
        }
    }
}

/// Tells whether a URL's host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // RFC 6761 keeps `localhost` and all below it for this machine.
    address.map_or(host == "localhost" || host.ends_with(".localhost"), |ip| ip.is_loopback())
}

/// Returns whether a URL's host is this machine or in a private network (RFC 1918, RFC
/// 4193, link-local addresses, names without a public suffix).
fn is_near(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => {
            is_loopback(host)
                || !host.contains('.')
                || [".local", ".lan", ".internal", ".home.arpa"]
                    .iter()
                    .any(|end| host.ends_with(end))
        }
    }
}

/// Reads `OLLAMA_HOST` as Ollama does: host and port, with or without a
/// scheme. It is written for servers too, so it may say "every address".
fn ollama_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut address = match authority.strip_prefix("0.0.0.0") {
        Some(port) => format!("127.0.0.1{port}"),
        None if authority.starts_with(':') => format!("127.0.0.1{authority}"),
        None => authority.to_owned(),
    };
    let after_host = address.rsplit(']').next().unwrap_or_default();
    if !host.contains("://") && !after_host.contains(':') {
        address = format!("{address}:{OLLAMA_PORT}");
    }
    let separator = if path.is_empty() { "" } else { "/" };
    format!("{scheme}://{address}{separator}{path}/v1")
}

#[cfg(test)]
mod tests;
