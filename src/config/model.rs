//! Which model a name means.
//!
//! The answer is a plain value; the model clients are made from it elsewhere.
//! Where a model of a server is, and which key goes there, is `server`'s.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::server::{ServerModel, settle};
use super::{Config, Effort, Environment, ModelEntry, Mover, PRESETS, Preset};

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

impl ModelChoice {
    /// Returns the same model that thinks as hard as the user says, if the user
    /// says anything.
    #[must_use]
    pub fn with_effort(mut self, effort: Option<&Effort>) -> Self {
        if let (Self::Server(server), Some(effort)) = (&mut self, effort) {
            server.effort = Some(effort.clone());
        }
        self
    }

    /// Returns what somebody at another machine would choose it by, with `-m`,
    /// where a file is named as seen from `root`. Whether there is a server of
    /// that name, and with which key, is known there alone.
    #[must_use]
    pub fn wished(&self, root: &Path) -> String {
        match self {
            Self::Offline => OFFLINE.to_owned(),
            Self::Scripted(file) => format!("{SCRIPTED}{}", root.join(file).display()),
            Self::Server(server) => server.name.clone(),
        }
    }
}

/// The name of the built-in rules.
const OFFLINE: &str = "offline";

/// What stands before a file of prepared answers.
const SCRIPTED: &str = "scripted:";

/// Why no model can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelChoiceError {
    /// Nothing says where any model is.
    #[error(
        "no model is configured\nhint: set one of {} and pass `-m PRESET:MODEL` (`tine models` \
         lists the presets), or add a model under `[models]` in `config.toml`; `-m offline` needs \
         neither",
        key_variables()
    )]
    NothingConfigured,
    /// Nothing says where this model is.
    #[error(
        "model `{name}` is not configured\nhint: add it under `[models]` in `config.toml`, or pass \
         `-m PRESET:{name}`; `tine models` lists what there is"
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
    #[error("model `{name}` has no key\nhint: set `{variable}`{}", hint_at_ollama(.name))]
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
    /// `PRESET:` names no model.
    #[error("`{preset}:` names no model\nhint: write `{preset}:MODEL`")]
    MissingPresetModel {
        /// The preset's name.
        preset: &'static str,
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
    let Some(name) = flag.or(default_name(config)) else {
        let configured: Vec<_> = config.models.keys().cloned().collect();
        return Err(if configured.is_empty() && environment_preset("", environment).is_none() {
            ModelChoiceError::NothingConfigured
        } else {
            ModelChoiceError::MissingName { configured }
        });
    };
    Ok(match named(name, config, environment)? {
        Named::Offline => ModelChoice::Offline,
        Named::Scripted(file) => ModelChoice::Scripted(file),
        Named::Entry(entry) => {
            ModelChoice::Server(Box::new(settle(name, &entry, environment)?.ready()?))
        }
    })
}

/// What a name stands for.
pub(super) enum Named {
    Offline,
    Scripted(PathBuf),
    /// A model of a server.
    Entry(Box<ModelEntry>),
}

/// Returns the name that is meant where none is asked for: the configured one,
/// or that of the only model.
pub(super) fn default_name(config: &Config) -> Option<&str> {
    let only = config.models.keys().next().filter(|_| config.models.len() == 1);
    config.model.as_deref().or(only.map(String::as_str))
}

/// Finds out what a name stands for. What is configured comes first, then the
/// presets, then the server of the environment.
pub(super) fn named(
    name: &str,
    config: &Config,
    environment: &Environment,
) -> Result<Named, ModelChoiceError> {
    if name == OFFLINE {
        return Ok(Named::Offline);
    }
    if let Some(file) = name.strip_prefix(SCRIPTED) {
        let file = Some(file).filter(|file| !file.is_empty());
        return Ok(Named::Scripted(file.ok_or(ModelChoiceError::MissingScript)?.into()));
    }
    if let Some(entry) = config.models.get(name) {
        return Ok(Named::Entry(Box::new(entry.clone())));
    }
    if let Some((preset, model)) = Preset::split(name) {
        if model.is_empty() {
            return Err(ModelChoiceError::MissingPresetModel { preset: preset.name });
        }
        if let Some(server) = find_server_instead(name, environment) {
            return Ok(Named::Entry(Box::new(entry_of(server, name))));
        }
        return Ok(Named::Entry(Box::new(entry_of(preset, model))));
    }
    match environment_preset(name, environment) {
        Some(preset) => Ok(Named::Entry(Box::new(entry_of(preset, name)))),
        None => Err(ModelChoiceError::NotConfigured { name: name.to_owned() }),
    }
}

/// Presets that are called like a family of models: `qwen:7b` is a model of Ollama.
const FAMILIES: [&str; 2] = ["qwen", "deepseek"];

/// Returns the preset of the environment's server if that server takes a name that begins
/// like another preset. A conversation with the user's own server must not go to a
/// provider because of a model's name.
fn find_server_instead(name: &str, environment: &Environment) -> Option<&'static Preset> {
    let (preset, model) = Preset::split(name)?;
    let key = preset.key_env?;
    let server = find_named_server(environment).filter(|server| *server != preset)?;
    // All models of these two providers have a dash in their names.
    let is_tag = model.starts_with(|c: char| c.is_ascii_digit()) || !model.contains('-');
    (environment.key(key).is_none() || is_of_family(name) && is_tag).then_some(server)
}

/// Returns the preset whose address the environment sets.
fn find_named_server(environment: &Environment) -> Option<&'static Preset> {
    let Environment { openai_base_url, ollama_host, .. } = environment;
    let openai = openai_base_url.as_ref().map(|_| "openai");
    Preset::from_name(openai.or(ollama_host.as_ref().map(|_| "ollama"))?)
}

fn is_of_family(name: &str) -> bool {
    FAMILIES.iter().any(|family| name.split(':').next() == Some(family))
}

/// Returns a note on which server a name was sent to that begins like a preset; `None`
/// unless the environment names another server.
#[must_use]
pub fn note_of_preset(name: &str, config: &Config, environment: &Environment) -> Option<String> {
    let (preset, model) = Preset::split(name).filter(|(preset, _)| preset.key_env.is_some())?;
    let server = find_named_server(environment).filter(|server| *server != preset)?;
    let variable = server.moved_by.map_or("", Mover::variable);
    if config.models.contains_key(name) {
        return None;
    }
    let preset = preset.name;
    match find_server_instead(name, environment) {
        Some(_) => Some(format!(
            "note: `{name}` goes to the server of `{variable}`, not to the preset `{preset}`; to use \
             the preset, add a table under `[models]` with `preset = \"{preset}\"`"
        )),
        None if is_of_family(name) => Some(format!(
            "note: `{model}` goes to the preset `{preset}`; to use the model `{name}` of the \
             server in `{variable}`, write `{}:{name}`",
            server.name
        )),
        None => None,
    }
}

/// Returns a hint for a name that may have been meant as a model of Ollama.
fn hint_at_ollama(name: &str) -> String {
    let preset = Preset::split(name).filter(|_| is_of_family(name));
    preset.map_or_else(String::new, |(preset, _)| {
        format!(
            "; the name selects the preset `{}`; for Ollama's model `{name}` write `ollama:{name}`",
            preset.name
        )
    })
}

/// Returns the preset whose server takes a name that is nowhere else, as the
/// environment says. Names that begin with `claude` are Anthropic's.
pub(super) fn environment_preset(name: &str, environment: &Environment) -> Option<&'static Preset> {
    let Environment { openai_api_key, openai_base_url, ollama_host, .. } = environment;
    let Environment { anthropic_api_key, anthropic_base_url, .. } = environment;
    let is_anthropic = anthropic_api_key.is_some() || anthropic_base_url.is_some();
    let is_openai = openai_base_url.is_some() || openai_api_key.is_some();
    let preset = match (is_anthropic, is_openai, ollama_host.is_some()) {
        (true, _, _) if name.starts_with("claude") => "anthropic",
        (_, true, _) => "openai",
        (_, false, true) => "ollama",
        (true, false, false) => "anthropic",
        (false, false, false) => return None,
    };
    Preset::from_name(preset)
}

/// A model of a preset of which nothing else is said.
pub(super) fn entry_of(preset: &'static Preset, model: &str) -> ModelEntry {
    let model = Some(model.to_owned());
    ModelEntry { preset: Some(preset), model, ..ModelEntry::default() }
}

fn name_list(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    if quoted.is_empty() { String::new() } else { format!("; there is {}", quoted.join(", ")) }
}

fn key_variables() -> String {
    let variables = PRESETS.iter().filter_map(|preset| preset.key_env);
    variables.map(|variable| format!("`{variable}`")).collect::<Vec<_>>().join(", ")
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
    fn a_configured_name_comes_before_a_preset_and_that_before_the_environment() {
        let none = Config::default();
        let keys = [KEY, ("GROQ_API_KEY", "sk-2"), ("OLLAMA_HOST", "box")];
        let groq = Ok("groq:a/b a/b https://api.groq.com/openai/v1 sk-2 GROQ_API_KEY");
        check(&none, &keys, Some("groq:a/b"), groq);
        // Only the first colon is the preset's.
        let ollama = Ok("ollama:qwen3:8b qwen3:8b http://box:11434/v1 - none");
        check(&none, &keys, Some("ollama:qwen3:8b"), ollama);
        let here = config(&[("groq:a/b", entry("http://localhost/v1", None))]);
        check(&here, &keys, Some("groq:a/b"), Ok("groq:a/b groq:a/b http://localhost/v1 - none"));
        let other = Ok("qwen3:8b qwen3:8b http://box:11434/v1 - none");
        check(&none, &keys[2..], Some("qwen3:8b"), other);
        let missing = ModelChoiceError::MissingPresetModel { preset: "dashscope" };
        check(&none, &keys, Some("qwen:"), Err(missing));
        let (name, variable) = ("deepseek:m".to_owned(), "DEEPSEEK_API_KEY".to_owned());
        let missing = ModelChoiceError::MissingKey { name, variable };
        check(&none, &keys[..2], Some("deepseek:m"), Err(missing));
        let mut default = here;
        default.model = Some("ollama:m".to_owned());
        check(&default, &[], None, Ok("ollama:m m http://127.0.0.1:11434/v1 - none"));
    }

    #[test]
    fn a_name_that_looks_like_a_preset_is_asked_of_the_server_that_the_environment_names() {
        let none = Config::default();
        let (url, ollama) = (("OPENAI_BASE_URL", "http://box/v1"), ("OLLAMA_HOST", "box"));
        let qwen_key = ("DASHSCOPE_API_KEY", "sk-4");
        for (variables, name, expected) in [
            (&[url][..], "qwen:7b", "qwen:7b qwen:7b http://box/v1 - none"),
            (&[url, KEY], "qwen:7b", "qwen:7b qwen:7b http://box/v1 sk-1 OPENAI_API_KEY"),
            (&[url, qwen_key], "qwen:7b", "qwen:7b qwen:7b http://box/v1 - none"),
            (
                &[ollama],
                "deepseek:latest",
                "deepseek:latest deepseek:latest http://box:11434/v1 - none",
            ),
            (
                &[ollama, KEY],
                "qwen:0.5b-chat",
                "qwen:0.5b-chat qwen:0.5b-chat http://box:11434/v1 - none",
            ),
            (&[ollama, url], "qwen:14b", "qwen:14b qwen:14b http://box/v1 - none"),
            (&[url], "groq:a/b", "groq:a/b groq:a/b http://box/v1 - none"),
            (
                &[url, qwen_key],
                "qwen:qwen-max",
                "qwen:qwen-max qwen-max \
              https://dashscope-intl.aliyuncs.com/compatible-mode/v1 sk-4 DASHSCOPE_API_KEY",
            ),
            (
                &[url, qwen_key],
                "dashscope:7b",
                "dashscope:7b 7b \
              https://dashscope-intl.aliyuncs.com/compatible-mode/v1 sk-4 DASHSCOPE_API_KEY",
            ),
            (&[url], "ollama:qwen:7b", "ollama:qwen:7b qwen:7b http://127.0.0.1:11434/v1 - none"),
            (&[url], "openai:qwen:7b", "openai:qwen:7b qwen:7b http://box/v1 - none"),
        ] {
            check(&none, variables, Some(name), Ok(expected));
        }
        // What is configured is what it says.
        let entry = entry_of(Preset::from_name("qwen").unwrap(), "7b");
        let configured = config(&[("qwen:7b", entry)]);
        let there = "qwen:7b 7b https://dashscope-intl.aliyuncs.com/compatible-mode/v1 sk-4 \
                     DASHSCOPE_API_KEY";
        check(&configured, &[url, qwen_key], Some("qwen:7b"), Ok(there));
    }

    #[test]
    fn a_note_names_the_server_chosen_for_a_preset_name() {
        let note = |variables: &[(&str, &str)], name: &str| {
            let environment = Environment::from_variables(variables.iter().copied());
            note_of_preset(name, &Config::default(), &environment).unwrap_or_default()
        };
        let (url, key) = (("OPENAI_BASE_URL", "http://box/v1"), ("DASHSCOPE_API_KEY", "k"));
        assert!(
            note(&[url], "qwen:7b").contains("the server of `OPENAI_BASE_URL`, not to the preset")
        );
        assert!(note(&[url, key], "qwen:qwen-max").contains("write `openai:qwen:qwen-max`"));
        assert_eq!(note(&[url, ("GROQ_API_KEY", "k")], "groq:a-b"), "");
        assert_eq!((note(&[key], "qwen:7b"), note(&[url], "m")), (String::new(), String::new()));
        let error = |name: &str| {
            let (name, variable) = (name.to_owned(), "V".to_owned());
            ModelChoiceError::MissingKey { name, variable }.to_string()
        };
        assert!(error("qwen:7b").ends_with("for Ollama's model `qwen:7b` write `ollama:qwen:7b`"));
        assert!(error("groq:m").ends_with("hint: set `V`"));
    }

    #[test]
    fn claude_is_anthropics_and_with_only_anthropic_set_so_is_any_name() {
        let none = Config::default();
        let anthropic = ("ANTHROPIC_API_KEY", "sk-3");
        let claude = Some("claude-opus-5-5");
        let there = "claude-opus-5-5 claude-opus-5-5 https://api.anthropic.com/v1 sk-3 \
                     ANTHROPIC_API_KEY";
        check(&none, &[KEY, anthropic], claude, Ok(there));
        let url = ("ANTHROPIC_BASE_URL", "http://box/a");
        let boxed = "claude-opus-5-5 claude-opus-5-5 http://box/a/v1 - none";
        check(&none, &[KEY, url], claude, Ok(boxed));
        // A proxy that speaks OpenAI's protocol may serve it too.
        let openai =
            "claude-opus-5-5 claude-opus-5-5 https://api.openai.com/v1 sk-1 OPENAI_API_KEY";
        check(&none, &[KEY], claude, Ok(openai));
        let other = Some("m-1");
        check(
            &none,
            &[KEY, anthropic],
            other,
            Ok("m-1 m-1 https://api.openai.com/v1 sk-1 OPENAI_API_KEY"),
        );
        let only = "m-1 m-1 https://api.anthropic.com/v1 sk-3 ANTHROPIC_API_KEY";
        check(&none, &[anthropic], other, Ok(only));
        let ollama = ("OLLAMA_HOST", "box");
        check(&none, &[anthropic, ollama], other, Ok("m-1 m-1 http://box:11434/v1 - none"));
        check(&none, &[anthropic, ollama], claude, Ok(there));
    }

    #[test]
    fn a_choice_is_wished_for_by_the_name_that_chooses_it() {
        let config = config(&[("q", entry("http://localhost/v1", None))]);
        for (name, wish) in [
            ("offline", "offline"),
            ("scripted:a.json", "scripted:/w/a.json"),
            ("scripted:/b.json", "scripted:/b.json"),
            ("q", "q"),
            ("ollama:m", "ollama:m"),
        ] {
            let choice = resolve_model(&config, &Environment::default(), Some(name)).unwrap();
            assert_eq!(choice.wished(Path::new("/w")), wish);
        }
    }

    #[test]
    fn the_users_effort_comes_before_the_configured_one() {
        let entry = ModelEntry { effort: Effort::new("low"), ..entry("http://localhost/v1", None) };
        let config = config(&[("q", entry)]);
        let effort = |flag: Option<&str>| {
            let choice = resolve_model(&config, &Environment::default(), None).unwrap();
            let effort = flag.and_then(Effort::new);
            match choice.with_effort(effort.as_ref()) {
                ModelChoice::Server(server) => server.effort,
                ModelChoice::Offline | ModelChoice::Scripted(_) => None,
            }
        };
        assert_eq!(effort(None), Effort::new("low"));
        assert_eq!(effort(Some("max")), Effort::new("max"));
    }

    #[test]
    fn what_is_missing_comes_with_what_to_do() {
        let text = |error: ModelChoiceError| error.to_string();
        assert_eq!(
            text(ModelChoiceError::NothingConfigured),
            "no model is configured\n\
             hint: set one of `OPENAI_API_KEY`, `ANTHROPIC_API_KEY`, `OPENROUTER_API_KEY`, \
             `DEEPSEEK_API_KEY`, `DASHSCOPE_API_KEY`, `GROQ_API_KEY` and pass `-m PRESET:MODEL` \
             (`tine models` lists the presets), or add a model under `[models]` in `config.toml`; \
             `-m offline` needs neither"
        );
        assert_eq!(
            text(ModelChoiceError::NotConfigured { name: "m-1".to_owned() }),
            "model `m-1` is not configured\n\
             hint: add it under `[models]` in `config.toml`, or pass `-m PRESET:m-1`; `tine \
             models` lists what there is"
        );
        assert_eq!(
            text(ModelChoiceError::MissingPresetModel { preset: "groq" }),
            "`groq:` names no model\nhint: write `groq:MODEL`"
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
        let broken = ("OPENAI_BASE_URL", "box:80");
        let bad = |name: &str, url: &str| ModelChoiceError::BadUrl {
            source_name: name.to_owned(),
            url: url.to_owned(),
        };
        check(&none, &[broken], flag, Err(bad("OPENAI_BASE_URL", "box:80")));
        let unknown = ModelChoiceError::NotConfigured { name: "m-1".to_owned() };
        check(&none, &[], flag, Err(unknown));
    }
}
