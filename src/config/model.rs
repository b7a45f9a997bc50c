//! Which model a name means.
//!
//! The answer is a plain value; the model clients are made from it elsewhere.
//! Where a model of a server is, and which key goes there, is `server`'s.

use std::path::PathBuf;

use thiserror::Error;

use super::server::{ServerModel, settle};
use super::{Config, Environment, ModelEntry, Preset};

/// What answers requests.
#[derive(Debug, Clone)]
pub enum ModelChoice {
    /// The built-in rules that need no network.
    Offline,
    /// A file of prepared answers.
    Scripted(PathBuf),
    /// A server.
    Server(Box<ServerModel>),
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
        "`{source_name}` is `{url}`, which is no `http` or `https` URL\nhint: it should look like `https://api.example.com/v1`"
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
        Some(entry) => server(name, entry, environment),
        None if names_a_server(environment) => by_environment(name, environment),
        None => Err(ModelChoiceError::NotConfigured { name: name.to_owned() }),
    }
}

fn name_list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { String::new() } else { format!("; there is {}", quoted.join(", ")) }
}

/// The model of an entry, if nothing of it is missing.
fn server(
    name: &str,
    entry: &ModelEntry,
    environment: &Environment,
) -> Result<ModelChoice, ModelChoiceError> {
    Ok(ModelChoice::Server(Box::new(settle(name, entry, environment)?.ready()?)))
}

fn names_a_server(environment: &Environment) -> bool {
    let Environment { openai_api_key, openai_base_url, ollama_host, .. } = environment;
    openai_api_key.is_some() || openai_base_url.is_some() || ollama_host.is_some()
}

/// The model that the server of the environment calls `name`.
fn by_environment(name: &str, environment: &Environment) -> Result<ModelChoice, ModelChoiceError> {
    let Environment { openai_api_key, openai_base_url, ollama_host, .. } = environment;
    let is_openai = openai_base_url.is_some() || openai_api_key.is_some() || ollama_host.is_none();
    let preset = Preset::from_name(if is_openai { "openai" } else { "ollama" });
    server(name, &ModelEntry { preset, ..ModelEntry::default() }, environment)
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
        let (base_url, key_env) = (Some(base_url.to_owned()), key_env.map(str::to_owned));
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
}
