//! The models that can be chosen, and how far each is set up, for `tine models`.
//!
//! Nothing in a list is secret: keys are only said to be there, and an address
//! is shown without a name and password in it.

use reqwest::Url;

use super::model::{Named, default_name, entry_of, environment_preset, named};
use super::server::settle;
use super::{Config, Environment, ModelChoiceError, ModelEntry, PRESETS, ServerModel};

/// A model, or a preset whose models can be chosen.
#[derive(Debug)]
pub struct ListedModel {
    /// What it is chosen by.
    pub name: String,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// What it is.
    pub kind: ListedKind,
    /// Whether it is used where none is asked for.
    pub is_default: bool,
    /// Whether it takes every name that means nothing else.
    pub takes_other_names: bool,
    /// What it would be used with, or why it cannot be.
    pub found: Result<Found, ModelChoiceError>,
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// A model with a name of its own.
    Configured,
    /// A preset: its models are chosen as `PRESET:MODEL`.
    Preset,
}

impl ListedKind {
    /// Returns the word for records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Preset => "preset",
        }
    }
}

/// What a model would be used with.
#[derive(Debug)]
pub struct Found {
    /// The server's model, without its key; a preset's has no name.
    pub server: ServerModel,
    /// The variable that holds its key; `None` if it is sent none.
    pub key_env: Option<String>,
    /// Whether that is set.
    pub is_key_set: bool,
    /// Whether a request can be made as it is.
    pub is_ready: bool,
}

/// Returns the configured models by name, then the presets. A default that is
/// configured as `PRESET:MODEL` or by the environment's name comes first.
#[must_use]
pub fn list_models(config: &Config, environment: &Environment) -> Vec<ListedModel> {
    let default = default_name(config);
    let unnamed = default.filter(|name| !config.models.contains_key(*name)).and_then(|name| {
        match named(name, config, environment) {
            Ok(Named::Entry(entry)) => Some((name, entry)),
            Ok(Named::Offline | Named::Scripted(_)) | Err(_) => None,
        }
    });
    let entries = config.models.iter().map(|(name, entry)| (name.as_str(), entry));
    let unnamed = unnamed.as_ref().map(|(name, entry)| (*name, entry.as_ref()));
    let configured = unnamed.into_iter().chain(entries).map(|(name, entry)| ListedModel {
        name: name.to_owned(),
        alias: None,
        kind: ListedKind::Configured,
        is_default: default == Some(name),
        takes_other_names: false,
        found: found(name, entry, environment),
    });
    let other = environment_preset("", environment);
    let presets = PRESETS.iter().map(|preset| ListedModel {
        name: preset.name.to_owned(),
        alias: preset.alias,
        kind: ListedKind::Preset,
        is_default: false,
        takes_other_names: other == Some(preset),
        found: found(preset.name, &entry_of(preset, ""), environment),
    });
    configured.chain(presets).collect()
}

fn found(
    name: &str,
    entry: &ModelEntry,
    environment: &Environment,
) -> Result<Found, ModelChoiceError> {
    let settled = settle(name, entry, environment)?;
    let key_env = settled.key_env.clone();
    let is_key_set = settled.server.key.is_some();
    let is_ready = !settled.lacks_its_key();
    let mut server = settled.server;
    server.key = None;
    server.base_url = without_user(&server.base_url);
    Ok(Found { server, key_env, is_key_set, is_ready })
}

fn without_user(base_url: &str) -> String {
    let Ok(mut url) = Url::parse(base_url) else { return base_url.to_owned() };
    if url.username().is_empty() && url.password().is_none() {
        return base_url.to_owned();
    }
    // Both fail only for URLs that have no host, which have no user either.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each in a line: name, default, API, address, key, readiness.
    fn shown(config: &Config, variables: &[(&str, &str)]) -> Vec<String> {
        let environment = Environment::from_variables(variables.iter().copied());
        let line = |listed: ListedModel| {
            let ListedModel { name, is_default, takes_other_names, found, .. } = listed;
            let marks = [(is_default, "*"), (takes_other_names, "+")];
            let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
            match found {
                Ok(Found { server, key_env, is_key_set, is_ready }) => format!(
                    "{marks}{name} {} {} {}{} {is_ready}",
                    server.api.as_str(),
                    server.base_url,
                    key_env.as_deref().unwrap_or("-"),
                    if is_key_set { "!" } else { "" },
                ),
                Err(error) => {
                    format!("{marks}{name} {}", error.to_string().lines().next().unwrap())
                }
            }
        };
        list_models(config, &environment).into_iter().map(line).collect()
    }

    #[test]
    fn every_preset_is_listed_with_what_is_set() {
        let variables = [("GROQ_API_KEY", "k"), ("OPENAI_BASE_URL", "http://u:secret@box/v1")];
        assert_eq!(
            shown(&Config::default(), &variables),
            [
                "+openai chat http://box/v1 OPENAI_API_KEY true",
                "anthropic anthropic https://api.anthropic.com/v1 ANTHROPIC_API_KEY false",
                "openrouter chat https://openrouter.ai/api/v1 OPENROUTER_API_KEY false",
                "deepseek chat https://api.deepseek.com DEEPSEEK_API_KEY false",
                "dashscope chat https://dashscope-intl.aliyuncs.com/compatible-mode/v1 \
                 DASHSCOPE_API_KEY false",
                "groq chat https://api.groq.com/openai/v1 GROQ_API_KEY! true",
                "ollama chat http://127.0.0.1:11434/v1 - true",
                "lmstudio chat http://127.0.0.1:1234/v1 - true",
                "llamacpp chat http://127.0.0.1:8080/v1 - true",
                "vllm chat http://127.0.0.1:8000/v1 - true",
            ]
        );
    }

    #[test]
    fn configured_models_come_first_and_what_is_wrong_with_one_is_said() {
        let entry =
            |url: &str| ModelEntry { base_url: Some(url.to_owned()), ..ModelEntry::default() };
        let models = [("b", entry("box:80")), ("a", entry("http://box/v1"))];
        let mut config = Config {
            models: models.map(|(name, entry)| (name.to_owned(), entry)).into(),
            ..Config::default()
        };
        let first = |config: &Config, count: usize| shown(config, &[])[..count].to_vec();
        let wrong = "b `models.b.base_url` is `box:80`, which is no `http` or `https` URL";
        assert_eq!(first(&config, 2), ["a chat http://box/v1 - true", wrong]);
        config.model = Some("a".to_owned());
        assert_eq!(first(&config, 1), ["*a chat http://box/v1 - true"]);
        config.model = Some("groq:m".to_owned());
        let default = "*groq:m chat https://api.groq.com/openai/v1 GROQ_API_KEY false";
        assert_eq!(first(&config, 2), [default, "a chat http://box/v1 - true"]);
        // Nothing else is said of it.
        config.model = Some("offline".to_owned());
        assert_eq!(first(&config, 1), ["a chat http://box/v1 - true"]);
    }
}
