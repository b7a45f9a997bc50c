//! Which model a name means, and where it is.
//!
//! The answer is a plain value; the model clients are made from it elsewhere.
//! A key goes only to the address it was configured for.

use std::net::IpAddr;
use std::path::PathBuf;

use reqwest::Url;
use secrecy::SecretString;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{Config, Environment, Headers, ModelEntry};

/// Where models are if neither a configuration nor the environment says.
const OPENAI_URL: &str = "https://api.openai.com/v1";

/// The port of Ollama, where `OLLAMA_HOST` names none.
const OLLAMA_PORT: u16 = 11434;

/// What answers requests.
#[derive(Debug, Clone)]
pub enum ModelChoice {
    /// The built-in rules that need no network.
    Offline,
    /// A file of prepared answers.
    Scripted(PathBuf),
    /// A server that speaks the OpenAI protocol.
    Server(Box<ServerModel>),
}

/// One model of a server that speaks the OpenAI protocol.
#[derive(Debug, Clone)]
pub struct ServerModel {
    /// What people call the model.
    pub name: String,
    /// What the server calls it.
    pub model: String,
    /// Without a slash at its end.
    pub base_url: String,
    /// `None` if the server takes requests without one.
    pub key: Option<SecretString>,
    /// Where the key came from.
    pub key_source: KeySource,
    /// Most tokens of one answer; `None` leaves it to the server.
    pub max_output_tokens: Option<u32>,
    /// Most tokens of a request and its answer together; `None` if that is not
    /// known.
    pub context_window: Option<u32>,
    /// Sent with every request.
    pub headers: Headers,
    /// Added to every request's body.
    pub extra_body: Map<String, Value>,
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

/// Why no model can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelChoiceError {
    /// Nothing says where any model is.
    #[error(
        "no model is configured\nhint: set `OPENAI_API_KEY` or `OLLAMA_HOST`, or add a model under \
         `[models]` in `config.toml`; `-m offline` needs neither"
    )]
    NothingConfigured,
    /// Nothing says where this model is.
    #[error(
        "model `{name}` is not configured\nhint: add it under `[models]` in `config.toml`; see \
         `config.example.toml`"
    )]
    NotConfigured {
        /// The name that was asked for.
        name: String,
    },
    /// Models could be used, but none was chosen.
    #[error(
        "no model is chosen\nhint: pass `-m MODEL` or set `model` in `config.toml`{}",
        name_list(.configured)
    )]
    MissingName {
        /// The names under `[models]`, in order.
        configured: Vec<String>,
    },
    /// The key's variable is not set, and the server is not on this machine.
    #[error("model `{name}` has no key\nhint: set `{variable}`")]
    MissingKey {
        /// The model's name.
        name: String,
        /// The variable that should hold the key.
        variable: String,
    },
    /// An address cannot be one of a model.
    #[error(
        "`{source_name}` is `{url}`, which is no `http` or `https` URL\nhint: it should look like `{OPENAI_URL}`"
    )]
    BadUrl {
        /// The key or variable that holds it.
        source_name: String,
        /// What it holds.
        url: String,
    },
    /// `scripted:` names no file.
    #[error("`scripted:` names no file\nhint: write `scripted:FILE`")]
    MissingScript,
}

/// Finds out which model is meant: by `flag`, else by the configuration.
///
/// # Errors
///
/// With what to set so that there is one.
pub fn resolve_model(
    config: &Config,
    environment: &Environment,
    flag: Option<&str>,
) -> Result<ModelChoice, ModelChoiceError> {
    let only = config.models.keys().next().filter(|_| config.models.len() == 1);
    let Some(name) = flag.or(config.model.as_deref()).or(only.map(String::as_str)) else {
        let configured: Vec<_> = config.models.keys().cloned().collect();
        return Err(if configured.is_empty() && !names_a_server(environment) {
            ModelChoiceError::NothingConfigured
        } else {
            ModelChoiceError::MissingName { configured }
        });
    };
    if name == "offline" {
        return Ok(ModelChoice::Offline);
    }
    if let Some(file) = name.strip_prefix("scripted:") {
        let file = Some(file).filter(|file| !file.is_empty());
        return Ok(ModelChoice::Scripted(file.ok_or(ModelChoiceError::MissingScript)?.into()));
    }
    match config.models.get(name) {
        Some(entry) => configured(name, entry, environment),
        None if names_a_server(environment) => by_environment(name, environment),
        None => Err(ModelChoiceError::NotConfigured { name: name.to_owned() }),
    }
}

fn name_list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { String::new() } else { format!("; there is {}", quoted.join(", ")) }
}

fn configured(
    name: &str,
    entry: &ModelEntry,
    environment: &Environment,
) -> Result<ModelChoice, ModelChoiceError> {
    let (base_url, is_local) = base_url(&entry.base_url, || format!("models.{name}.base_url"))?;
    let key = entry.key_env.as_deref().and_then(|variable| environment.key(variable));
    let key_source = match (&entry.key_env, key) {
        (Some(variable), Some(_)) => KeySource::Variable(variable.clone()),
        (Some(variable), None) if !is_local => {
            let (name, variable) = (name.to_owned(), variable.clone());
            return Err(ModelChoiceError::MissingKey { name, variable });
        }
        // Servers on one's own machine rarely look at the key.
        (Some(_) | None, _) => KeySource::None,
    };
    Ok(ModelChoice::Server(Box::new(ServerModel {
        name: name.to_owned(),
        model: entry.model.clone().unwrap_or_else(|| name.to_owned()),
        base_url,
        key: key.cloned(),
        key_source,
        max_output_tokens: entry.max_output_tokens,
        context_window: entry.context_window,
        headers: entry.headers.clone(),
        extra_body: entry.extra_body.clone(),
    })))
}

fn names_a_server(environment: &Environment) -> bool {
    let Environment { openai_api_key, openai_base_url, ollama_host, .. } = environment;
    openai_api_key.is_some() || openai_base_url.is_some() || ollama_host.is_some()
}

/// The model that the server of the environment calls `name`.
fn by_environment(name: &str, environment: &Environment) -> Result<ModelChoice, ModelChoiceError> {
    let key = environment.openai_api_key.clone();
    let (variable, url) = match (&environment.openai_base_url, &environment.ollama_host) {
        (Some(url), _) => ("OPENAI_BASE_URL", url.clone()),
        (None, Some(host)) if key.is_none() => ("OLLAMA_HOST", ollama_url(host)),
        (None, _) => ("OPENAI_BASE_URL", OPENAI_URL.to_owned()),
    };
    let (base_url, _) = base_url(&url, || variable.to_owned())?;
    let key_source = match key {
        Some(_) => KeySource::Variable("OPENAI_API_KEY".to_owned()),
        None => KeySource::None,
    };
    Ok(ModelChoice::Server(Box::new(ServerModel {
        name: name.to_owned(),
        model: name.to_owned(),
        base_url,
        key,
        key_source,
        max_output_tokens: None,
        context_window: None,
        headers: Headers::default(),
        extra_body: Map::new(),
    })))
}

/// Returns the address without slashes at its end, and whether it is on this
/// machine.
fn base_url(
    url: &str,
    source_name: impl FnOnce() -> String,
) -> Result<(String, bool), ModelChoiceError> {
    let host = Url::parse(url)
        .ok()
        .filter(|parsed| matches!(parsed.scheme(), "http" | "https"))
        .and_then(|parsed| parsed.host_str().map(str::to_owned));
    match host {
        Some(host) => Ok((url.trim().trim_end_matches('/').to_owned(), is_loopback(&host))),
        None => Err(ModelChoiceError::BadUrl { source_name: source_name(), url: url.to_owned() }),
    }
}

/// Tells whether a URL's host is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    // RFC 6761 keeps `localhost` and all below it for this machine.
    address.map_or(host == "localhost" || host.ends_with(".localhost"), |ip| ip.is_loopback())
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
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn config(models: &[(&str, ModelEntry)]) -> Config {
        let models = models.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone()));
        Config { models: models.collect(), ..Config::default() }
    }

    fn entry(base_url: &str, key_env: Option<&str>) -> ModelEntry {
        let (base_url, key_env) = (base_url.to_owned(), key_env.map(str::to_owned));
        ModelEntry { base_url, key_env, ..ModelEntry::default() }
    }

    /// A choice in one line: name, model, address, key, source of the key.
    fn shown(choice: Result<ModelChoice, ModelChoiceError>) -> Result<String, ModelChoiceError> {
        Ok(match choice? {
            ModelChoice::Offline => "offline".to_owned(),
            ModelChoice::Scripted(path) => format!("scripted {}", path.display()),
            ModelChoice::Server(server) => {
                let ServerModel { name, model, base_url, key, key_source, .. } = *server;
                let key = key.as_ref().map_or("-", |key| key.expose_secret());
                format!("{name} {model} {base_url} {key} {}", key_source.as_str())
            }
        })
    }

    #[track_caller]
    fn check(
        config: &Config,
        variables: &[(&str, &str)],
        flag: Option<&str>,
        expected: Result<&str, ModelChoiceError>,
    ) {
        let environment = Environment::from_variables(variables.iter().copied());
        let choice = resolve_model(config, &environment, flag);
        assert_eq!(shown(choice), expected.map(str::to_owned));
    }

    const KEY: (&str, &str) = ("OPENAI_API_KEY", "sk-1");

    #[test]
    fn the_built_in_models_need_nothing_and_mind_nothing() {
        let broken = [("OPENAI_BASE_URL", "nonsense")];
        check(&Config::default(), &broken, Some("offline"), Ok("offline"));
        check(&Config::default(), &[], Some("scripted:a/b.json"), Ok("scripted a/b.json"));
        let missing = Err(ModelChoiceError::MissingScript);
        check(&Config::default(), &[], Some("scripted:"), missing);
    }

    #[test]
    fn the_flag_comes_before_the_configuration_and_that_before_the_only_model() {
        let mut config = config(&[("qwen", entry("http://localhost:1/v1/", None))]);
        check(&config, &[], None, Ok("qwen qwen http://localhost:1/v1 - none"));
        config.model = Some("offline".to_owned());
        check(&config, &[], None, Ok("offline"));
        check(&config, &[], Some("qwen"), Ok("qwen qwen http://localhost:1/v1 - none"));
    }

    #[test]
    fn without_a_name_the_error_says_what_is_missing() {
        let nothing = Err(ModelChoiceError::NothingConfigured);
        check(&Config::default(), &[], None, nothing);
        let missing = |configured: &[&str]| {
            let configured = configured.iter().map(|&name| name.to_owned()).collect();
            Err(ModelChoiceError::MissingName { configured })
        };
        check(&Config::default(), &[KEY], None, missing(&[]));
        let url = || entry("http://localhost/v1", None);
        check(&config(&[("b", url()), ("a", url())]), &[], None, missing(&["a", "b"]));
        assert_eq!(
            missing(&["a", "b"]).unwrap_err().to_string(),
            "no model is chosen\n\
             hint: pass `-m MODEL` or set `model` in `config.toml`; there is `a`, `b`"
        );
    }

    #[test]
    fn a_configured_model_has_the_key_of_its_own_variable_only() {
        let remote = config(&[("q", entry("https://api.example.com/v1", Some("Q_KEY")))]);
        let both = [KEY, ("Q_KEY", "sk-2")];
        check(&remote, &both, None, Ok("q q https://api.example.com/v1 sk-2 Q_KEY"));
        let missing =
            ModelChoiceError::MissingKey { name: "q".to_owned(), variable: "Q_KEY".to_owned() };
        check(&remote, &[KEY], None, Err(missing));
        let keyless = config(&[("q", entry("https://api.example.com/v1", None))]);
        check(&keyless, &[KEY], None, Ok("q q https://api.example.com/v1 - none"));
    }

    #[test]
    fn a_server_on_this_machine_needs_no_key() {
        for host in ["localhost:8080", "127.0.0.1", "127.8.8.8", "[::1]:80", "a.localhost"] {
            let url = format!("http://{host}/v1");
            let local = config(&[("q", entry(&url, Some("Q_KEY")))]);
            check(&local, &[], None, Ok(&format!("q q {url} - none")));
        }
        for host in ["localhost.example.com", "128.0.0.1", "127.0.0.1.example.com"] {
            let remote = config(&[("q", entry(&format!("http://{host}/v1"), Some("Q_KEY")))]);
            let missing =
                ModelChoiceError::MissingKey { name: "q".to_owned(), variable: "Q_KEY".to_owned() };
            check(&remote, &[], None, Err(missing));
        }
    }

    #[test]
    fn any_other_name_is_a_model_of_the_server_in_the_environment() {
        let none = Config::default();
        let flag = Some("m-1");
        check(&none, &[KEY], flag, Ok("m-1 m-1 https://api.openai.com/v1 sk-1 OPENAI_API_KEY"));
        let url = ("OPENAI_BASE_URL", "http://box:8000/v1//");
        check(&none, &[url], flag, Ok("m-1 m-1 http://box:8000/v1 - none"));
        check(&none, &[KEY, url], flag, Ok("m-1 m-1 http://box:8000/v1 sk-1 OPENAI_API_KEY"));
        let ollama = ("OLLAMA_HOST", "box");
        check(&none, &[ollama], flag, Ok("m-1 m-1 http://box:11434/v1 - none"));
        // A key is for OpenAI's server, so it never goes to Ollama's.
        let openai = Ok("m-1 m-1 https://api.openai.com/v1 sk-1 OPENAI_API_KEY");
        check(&none, &[KEY, ollama], flag, openai);
        check(&none, &[url, ollama], flag, Ok("m-1 m-1 http://box:8000/v1 - none"));
        let unknown = ModelChoiceError::NotConfigured { name: "m-1".to_owned() };
        check(&none, &[], flag, Err(unknown));
    }

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        for (host, url) in [
            ("localhost", "http://localhost:11434/v1"),
            ("box:80", "http://box:80/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:99", "http://127.0.0.1:99/v1"),
            (":99", "http://127.0.0.1:99/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("http://box", "http://box/v1"),
            ("https://box:99/", "https://box:99/v1"),
            ("https://box/path/", "https://box/path/v1"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }

    #[test]
    fn an_address_that_is_no_web_address_is_named() {
        let bad = |source_name: &str, url: &str| {
            let (source_name, url) = (source_name.to_owned(), url.to_owned());
            Err(ModelChoiceError::BadUrl { source_name, url })
        };
        for url in ["", "nonsense", "ftp://box/v1", "file:///etc/passwd", "http://"] {
            check(&config(&[("q", entry(url, None))]), &[], None, bad("models.q.base_url", url));
        }
        let variable = [("OPENAI_BASE_URL", "box:80")];
        check(&Config::default(), &variable, Some("m"), bad("OPENAI_BASE_URL", "box:80"));
    }

    #[test]
    fn what_an_entry_says_is_passed_on_and_no_secret_is_shown() {
        let mut full = entry("https://box/v1", Some("Q_KEY"));
        full.model = Some("qwen-3".to_owned());
        full.max_output_tokens = Some(7);
        full.context_window = Some(9);
        full.headers.0.insert("X-Team".to_owned(), "secret-team".to_owned());
        full.extra_body.insert("top_k".to_owned(), 5.into());
        let environment = Environment::from_variables([("Q_KEY", "secret-key")]);
        let choice = resolve_model(&config(&[("q", full)]), &environment, None).unwrap();
        let debug = format!("{choice:?}");
        assert!(debug.contains("X-Team") && !debug.contains("secret-"), "{debug}");
        let ModelChoice::Server(server) = choice else { panic!("{debug}") };
        let ServerModel { model, max_output_tokens, context_window, headers, extra_body, .. } =
            *server;
        assert_eq!((&*model, max_output_tokens, context_window), ("qwen-3", Some(7), Some(9)));
        assert_eq!(headers.0["X-Team"], "secret-team");
        assert_eq!(extra_body["top_k"], 5);
    }
}
