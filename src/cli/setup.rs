//! Choosing a model: on the first run, and with `tine setup`.
//!
//! A dialogue in plain lines. What is there already comes first: servers on
//! this machine, and providers whose key is set. Nothing is written before the
//! model has answered a request.

mod talk;

use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::runtime::Runtime;

use super::args::RunFlags;
use super::doctor::{LOCAL_LIMIT, MODEL_LIMIT};
use super::exit::{Exit, Refusal};
use super::print;
use super::project::{self, Manner};
use crate::config::settings::{self, NewModel, NewServer};
use crate::config::{
    Config, Environment, Found, ListedKind, ListedModel, ModelChoice, ModelEntry, list_models,
    resolve_model,
};
use crate::event::UnitId;
use crate::message::{Head, Message, Prefix, counted};
use crate::model::adaptation::ADAPTATIONS_CAP;
use crate::model::http::probe::{self, AvailableModel};
use crate::model::served::Served;
use crate::model::{Asker, Chunk, Model, ModelError, ModelErrorKind, Models, Purpose, Request};
use crate::report::words::short_line;
use talk::{Dialogue, Stop};

/// How long the first answer may take. A server on this machine loads the model
/// first.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Most characters of it that are shown.
const ANSWER_CAP: usize = 80;

/// What a model is sent to be tried.
const HELLO: &str = "Say hello in one short sentence.";

/// What was chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SetUp {
    /// A model, which the configuration names from now on.
    Written,
    /// A name for this run alone.
    ForNow(&'static str),
}

/// Something that has models, or stands for one.
enum Source {
    /// A server on this machine, by its preset, with the models it listed.
    Local { preset: String, base_url: String, models: Vec<AvailableModel> },
    /// A provider whose key is set, or a server that the environment names.
    Provider { preset: String, base_url: String, key_env: Option<String> },
    /// A server that the user names.
    Other,
    /// The fixed rules.
    Offline,
}

impl Source {
    fn name(&self) -> &str {
        match self {
            Self::Local { preset, .. } | Self::Provider { preset, .. } => preset,
            Self::Other => "other",
            Self::Offline => "offline",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11} ", self.name())?;
        match self {
            Self::Local { preset: _, base_url, models } => {
                let count = counted(models.len() as u64, "model");
                write!(f, "on this machine, {base_url}: {count}")
            }
            Self::Provider { preset: _, base_url: _, key_env: Some(key) } => {
                write!(f, "{key} is set")
            }
            Self::Provider { preset: _, base_url, key_env: None } => f.write_str(base_url),
            Self::Other => f.write_str("another server, whose address you know"),
            Self::Offline => f.write_str("fixed rules and no model, to look around"),
        }
    }
}

/// A model that was chosen.
struct Chosen {
    /// What `-m` would call it.
    name: String,
    /// The name that its server has for it.
    model: String,
    server: ChosenServer,
    /// The context window that the server names.
    context_window: Option<NonZeroU32>,
}

/// Where a chosen model is.
enum ChosenServer {
    Preset(String),
    At(At),
}

/// A server that no preset knows.
struct At {
    base_url: String,
    key_env: Option<String>,
}

impl Chosen {
    fn of_preset(preset: &str, model: AvailableModel) -> Self {
        let AvailableModel { id: model, context_window } = model;
        let (name, server) = (format!("{preset}:{model}"), ChosenServer::Preset(preset.to_owned()));
        Self { name, model, server, context_window }
    }

    fn at(at: At, model: AvailableModel) -> Self {
        let AvailableModel { id: model, context_window } = model;
        Self { name: model.clone(), model, server: ChosenServer::At(at), context_window }
    }

    /// Returns the table to write for it; `None` if its name says everything.
    fn table(&self) -> Option<NewModel<'_>> {
        let Self { name: _, model, server, context_window } = self;
        let context_window = *context_window;
        let server = match server {
            ChosenServer::Preset(_) if context_window.is_none() => return None,
            ChosenServer::Preset(preset) => NewServer::Preset(preset),
            ChosenServer::At(At { base_url, key_env }) => {
                NewServer::Address { base_url, key_env: key_env.as_deref() }
            }
        };
        Some(NewModel { model, server, context_window })
    }

    /// Returns a configuration that knows it.
    fn within(&self, config: &Config) -> Config {
        let mut config = config.clone();
        if let ChosenServer::At(At { base_url, key_env }) = &self.server {
            let entry = ModelEntry {
                base_url: Some(base_url.clone()),
                key_env: key_env.clone(),
                model: Some(self.model.clone()),
                ..ModelEntry::default()
            };
            config.models.insert(self.name.clone(), entry);
        }
        config
    }
}

/// Talks to whoever sits at standard input.
pub(super) fn run(environment: &Environment, flags: &RunFlags) -> Result<Exit, Refusal> {
    if let SetUp::ForNow(name) = choose(environment, flags)? {
        super::say(&format!("hint: nothing is kept; `tine -m {name}` uses it"));
    }
    Ok(Exit::Done)
}

/// Has a model chosen and tried, and writes it to the configuration.
///
/// # Errors
///
/// Whoever was asked has gone, or the configuration cannot be read or written.
pub(super) fn choose(environment: &Environment, flags: &RunFlags) -> Result<SetUp, Refusal> {
    let (config, _) = project::config(environment, flags, Manner::Tell)?;
    let runtime = print::runtime()?;
    let sources = runtime.block_on(sources(&config, environment));
    let (input, out) = (&mut io::stdin().lock(), &mut io::stdout().lock());
    let mut setup = Setup { environment, config, runtime, dialogue: Dialogue { input, out } };
    loop {
        match setup.go(&sources) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(refusal)) => return Err(refusal),
            Err(Stop::Again) => {}
            Err(Stop::Gone) => {
                return Err(Refusal::new(Exit::BadConfig, "no model was chosen")
                    .hint("`tine setup` asks again; `-m MODEL` needs no configuration"));
            }
        }
    }
}

struct Setup<'a> {
    environment: &'a Environment,
    config: Config,
    runtime: Runtime,
    dialogue: Dialogue<'a>,
}

impl Setup<'_> {
    /// One pass through all questions. What cannot be written ends it.
    fn go(&mut self, sources: &[Source]) -> Result<Result<SetUp, Refusal>, Stop> {
        let is_found =
            |source: &Source| matches!(source, Source::Local { .. } | Source::Provider { .. });
        self.dialogue.say(match sources.iter().any(is_found) {
            true => "a model is needed; here are",
            false => {
                "a model is needed, but no server answers on this machine and no provider's key \
                 is set (`tine models` lists them); there are still"
            }
        })?;
        let chosen = match self.dialogue.source(sources)? {
            Source::Offline => return Ok(Ok(SetUp::ForNow("offline"))),
            Source::Local { preset, base_url: _, models } => {
                Chosen::of_preset(preset, self.dialogue.model(models)?)
            }
            Source::Provider { preset, .. } => {
                let models = self.served(&Chosen::of_preset(preset, any_model()))?;
                // The limits of hosted models are known by their names.
                let model = self.dialogue.model(&models)?;
                Chosen::of_preset(preset, AvailableModel { context_window: None, ..model })
            }
            Source::Other => self.other()?,
        };
        self.try_out(&chosen)?;
        let table = chosen.table();
        Ok(match settings::choose_model(self.environment, &chosen.name, table.as_ref()) {
            Ok(path) => {
                self.dialogue.say(format_args!("`model` is set in {}", path.display()))?;
                Ok(SetUp::Written)
            }
            Err(error) => Err(Refusal::because(Exit::BadConfig, &error)
                .hint(format!("`tine -m {}` works without it", chosen.name))),
        })
    }

    /// Asks for a server by its address.
    fn other(&mut self) -> Result<Chosen, Stop> {
        let base_url = self.dialogue.ask("its address, such as https://box.example/v1", "")?;
        let key_env =
            self.dialogue.ask("the variable that holds its key (empty if it has none)", "")?;
        let at = || {
            let key_env = Some(key_env.clone()).filter(|name| !name.is_empty());
            At { base_url: base_url.trim_end_matches('/').to_owned(), key_env }
        };
        let models = self.served(&Chosen::at(at(), any_model()))?;
        Ok(Chosen::at(at(), self.dialogue.model(&models)?))
    }

    /// Returns the models that the server of this one lists.
    fn served(&mut self, chosen: &Chosen) -> Result<Vec<AvailableModel>, Stop> {
        let config = chosen.within(&self.config);
        let listed = self.runtime.block_on(async {
            match resolve_model(&config, self.environment, Some(&chosen.name)) {
                Ok(ModelChoice::Server(server)) => {
                    let client = Served::new((&*server).into()).map_err(|it| it.to_string())?;
                    client.served_models(MODEL_LIMIT).await.map_err(|it| it.to_string())
                }
                Ok(ModelChoice::Offline | ModelChoice::Scripted(_)) => Ok(Vec::new()),
                Err(error) => Err(error.to_string()),
            }
        });
        listed.map_err(|error| self.dialogue.refuse(error))
    }

    /// Asks the model something.
    fn try_out(&mut self, chosen: &Chosen) -> Result<(), Stop> {
        let config = chosen.within(&self.config);
        self.dialogue.say(format_args!("asking {} …", chosen.name))?;
        let asked = self.runtime.block_on(async {
            let choice = resolve_model(&config, self.environment, Some(&chosen.name))
                .map_err(|error| error.to_string())?;
            tokio::time::timeout(ANSWER_LIMIT, ask(&choice)).await.unwrap_or_else(|_| {
                Err(format!("it did not answer within {} s", ANSWER_LIMIT.as_secs()))
            })
        });
        match asked {
            Ok(answer) => {
                let answer = short_line(&answer, ANSWER_CAP);
                self.dialogue.say(format_args!("it answers: {answer}"))
            }
            Err(error) => Err(self.dialogue.refuse(error)),
        }
    }
}

/// Returns a model to ask a server for its list with. Every name will do.
fn any_model() -> AvailableModel {
    AvailableModel { id: "any".to_owned(), context_window: None }
}

/// Returns what there is to choose from.
async fn sources(config: &Config, environment: &Environment) -> Vec<Source> {
    let listed = list_models(config, environment);
    let presets = listed.into_iter().filter(|listed| listed.kind == ListedKind::Preset);
    let found = join_all(presets.map(source)).await;
    let (local, hosted): (Vec<_>, Vec<_>) =
        found.into_iter().flatten().partition(|source| matches!(source, Source::Local { .. }));
    local.into_iter().chain(hosted).chain([Source::Other, Source::Offline]).collect()
}

async fn source(listed: ListedModel) -> Option<Source> {
    let ListedModel { name: preset, takes_other_names, found, .. } = listed;
    let Found { server, key_env, is_key_set, is_ready } = found.ok()?;
    let base_url = server.base_url;
    if key_env.is_none() {
        let models = probe::served_at(&base_url, LOCAL_LIMIT).await.ok()?;
        return Some(Source::Local { preset, base_url, models });
    }
    let key_env = key_env.filter(|_| is_key_set);
    (is_key_set || takes_other_names && is_ready).then_some(Source::Provider {
        preset,
        base_url,
        key_env,
    })
}

/// Makes one request, and returns the answer.
async fn ask(choice: &ModelChoice) -> Result<String, String> {
    let model = Models::default().open(choice)?;
    let mut prefix = Prefix::new(Head::new(String::new(), Vec::new()).into());
    prefix.push(Message::User(HELLO.into()));
    let asker = Asker {
        unit: UnitId::MAIN,
        agent: "main".into(),
        description: "".into(),
        purpose: Purpose::Turn,
        turn: 1,
        attempt: 1,
        is_afresh: true,
        forked_from: None,
    };
    let request = Request { prefix, asker, text_schema: None };
    let mut adapted = 0;
    loop {
        let error = match answer(&*model, request.clone()).await {
            Ok(text) => return Ok(text),
            Err(error) => error,
        };
        adapted += 1;
        let refused = error.refused.as_ref().filter(|_| adapted <= ADAPTATIONS_CAP);
        if refused.and_then(|refused| model.adapt(&request, refused)).is_none() {
            return Err(error.to_string());
        }
    }
}

/// Makes a request once, and returns the text of its answer.
async fn answer(model: &dyn Model, request: Request) -> Result<String, ModelError> {
    let mut answer = model.respond(request);
    while let Some(chunk) = answer.next().await {
        match chunk? {
            Chunk::Finished(answer) => return Ok(answer.reply.text),
            Chunk::Text(_) | Chunk::Thinking(_) | Chunk::SentTwice(_) => {}
        }
    }
    Err(ModelError::new(ModelErrorKind::Cut, "the answer broke off"))
}
