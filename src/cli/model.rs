//! Which model answers, and opening it.

use std::sync::Arc;

use tokio::sync::watch;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::{recordings, texts};
use crate::config::{
    Config, Effort, Environment, ModelChoice, ModelChoiceError, dirs, note_of_preset, resolve_model,
};
use crate::definition::AgentDefinition;
use crate::event;
use crate::model::http::exchange::Exchanges;
use crate::model::{Facts, Model, Models};

/// What answers when nothing is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DefaultModel {
    /// Nothing: the user has to choose.
    None,
    /// The embedded rules.
    Offline,
}

/// Who may say which model answers.
pub(super) struct Wanted<'a> {
    /// The user.
    pub(super) flag: Option<&'a str>,
    /// The definition by which main works, where the user does not. A repository
    /// may have brought it.
    pub(super) agent: Option<&'a str>,
    /// The session that is gone on with.
    pub(super) before: Option<&'a str>,
    /// What answers where nobody does.
    pub(super) default_model: DefaultModel,
    /// How hard it thinks, if the user says so.
    pub(super) effort: Option<&'a Effort>,
}

impl<'a> Wanted<'a> {
    /// What flags and the agent say by whose definition main works.
    pub(super) fn by(flags: &'a RunFlags, agent: Option<&'a AgentDefinition>) -> Self {
        Self {
            flag: flags.model.as_deref(),
            agent: agent.and_then(|agent| agent.model.as_deref()),
            before: None,
            default_model: DefaultModel::None,
            effort: flags.effort.as_ref(),
        }
    }

    /// And what the session has gone by, or else everybody. The session's is not
    /// the one that answered last: that may have been a skill's for a turn.
    pub(super) fn or(self, before: Option<&'a event::Chosen>, default_model: DefaultModel) -> Self {
        Self { before: before.map(|chosen| &*chosen.model), default_model, ..self }
    }
}

/// The model that answers.
pub(super) struct Chosen {
    /// What was chosen, as hard as it thinks where no flag says anything.
    pub(super) choice: ModelChoice,
    /// The model, ready to be asked.
    pub(super) model: Arc<dyn Model>,
    /// What to say once it is certain that there is something to run.
    pub(super) note: Option<String>,
}

/// Chooses the model: the flag's, else the agent's, else the session's own, else
/// the configured one.
pub(super) fn choose(
    environment: &Environment,
    config: &Config,
    wanted: &Wanted<'_>,
    models: &Models,
) -> Result<Chosen, Refusal> {
    let named = |name: &&str| config.models.contains_key(*name);
    let agent = wanted.agent.filter(|_| wanted.flag.is_none());
    let flag = wanted.flag.or(agent.filter(named));
    let chosen = chosen(environment, config, &Wanted { flag, ..*wanted }, models)?;
    let own = chosen.model.name();
    let Some(name) = agent.filter(|name| flag.is_none() && **name != **own) else {
        return Ok(chosen);
    };
    let opened = |choice: ModelChoice| {
        let model = models.open(&choice.clone().with_effort(wanted.effort))?;
        Ok((model, choice))
    };
    match asked_for(name, config, environment, &chosen.choice).and_then(opened) {
        Ok((model, choice)) => Ok(Chosen { choice, model, note: None }),
        Err(why) => {
            super::say(&format!(
                "warning: the agent asks for the model `{name}`, and `{own}` goes on: {why}"
            ));
            Ok(chosen)
        }
    }
}

fn chosen(
    environment: &Environment,
    config: &Config,
    wanted: &Wanted<'_>,
    models: &Models,
) -> Result<Chosen, Refusal> {
    let opened = |choice: ModelChoice, note: Option<&str>| {
        recordings::check(models.exchanges(), &choice)?;
        let model = open(models, &choice.clone().with_effort(wanted.effort))?;
        let of_preset = || match &choice {
            ModelChoice::Server(server) => note_of_preset(&server.name, config, environment),
            ModelChoice::Offline | ModelChoice::Scripted(_) => None,
        };
        let note = note.map(str::to_owned).or_else(of_preset);
        Ok(Chosen { choice, model, note })
    };
    if let Exchanges::Replay(player) = models.exchanges() {
        let server = recordings::choose(player, wanted.flag.or(wanted.agent), wanted.before)?;
        return opened(ModelChoice::Server(Box::new(server)), None);
    }
    let refused = |error: ModelChoiceError| Refusal::new(Exit::BadConfig, error.to_string());
    let Some(before) = wanted.before.filter(|_| wanted.flag.is_none()) else {
        let (choice, note) = choose_anew(environment, config, wanted)?;
        return opened(choice, note);
    };
    let own = resolve_model(config, environment, Some(before)).map_err(refused);
    own.and_then(|choice| opened(choice, None)).or_else(|refusal| {
        let (choice, note) = choose_anew(environment, config, wanted).map_err(|_| {
            Refusal::new(refusal.exit, refusal.message.clone())
                .hint("this was the session's model; choose another with `-m MODEL`")
        })?;
        let chosen = opened(choice, note)?;
        let (why, now) = (&refusal.message, chosen.model.name());
        super::say(&format!("warning: the session's model is not there, `{now}` goes on: {why}"));
        Ok(chosen)
    })
}

fn choose_anew(
    environment: &Environment,
    config: &Config,
    wanted: &Wanted<'_>,
) -> Result<(ModelChoice, Option<&'static str>), Refusal> {
    match (resolve_model(config, environment, wanted.flag), wanted.default_model) {
        (Ok(choice), _) => Ok((choice, None)),
        (Err(ModelChoiceError::NothingConfigured), DefaultModel::Offline) => {
            Ok((ModelChoice::Offline, Some(texts::OFFLINE_REVIEWS)))
        }
        // A key in the environment, set for other programs, chooses no model.
        (Err(ModelChoiceError::MissingName { configured }), DefaultModel::Offline)
            if configured.is_empty() =>
        {
            Ok((ModelChoice::Offline, Some(texts::OFFLINE_CHOSEN)))
        }
        (Err(ModelChoiceError::NothingConfigured), DefaultModel::None) => {
            let path = dirs::config_file(environment)
                .map_or_else(|| "config.toml".to_owned(), |path| path.display().to_string());
            let refusal = Refusal::new(Exit::BadConfig, texts::NO_MODEL.replace("{config}", &path));
            Err(Refusal { lacks_model: true, ..refusal.hint(texts::TRY_OFFLINE) })
        }
        (Err(ModelChoiceError::MissingName { configured }), DefaultModel::None)
            if configured.is_empty() =>
        {
            let error = ModelChoiceError::MissingName { configured };
            let refusal = Refusal::new(Exit::BadConfig, error.to_string());
            Err(Refusal { lacks_model: true, ..refusal })
        }
        (Err(error), _) => Err(Refusal::new(Exit::BadConfig, error.to_string())),
    }
}

/// Opens the models to go on with where the one before is overloaded.
pub(super) fn fallbacks(
    environment: &Environment,
    config: &Config,
    flags: &RunFlags,
    models: &Models,
) -> Result<Vec<Arc<dyn Model>>, Refusal> {
    let refused = |error: ModelChoiceError| Refusal::new(Exit::BadConfig, error.to_string());
    let fallback = |name: &String| {
        let choice = match recordings::recorded(models.exchanges(), name) {
            Some(recorded) => recorded,
            None => resolve_model(config, environment, Some(name)).map_err(refused)?,
        };
        open(models, &choice.with_effort(flags.effort.as_ref()))
    };
    flags.fallback_model.iter().map(fallback).collect()
}

/// Opens a model that has been chosen already.
pub(super) fn reopened(choice: &ModelChoice, models: &Models) -> Result<Arc<dyn Model>, Refusal> {
    recordings::check(models.exchanges(), choice)?;
    open(models, choice)
}

/// Returns what finds models by name, for a run in which `own` answers.
pub(super) fn find_model(
    (config, environment): (Config, Environment),
    own: watch::Receiver<ModelChoice>,
    effort: Option<Effort>,
    models: Arc<Models>,
) -> impl Fn(&str) -> Result<Arc<dyn Model>, String> + Send + Sync {
    move |name| {
        if let Some(recorded) = recordings::recorded(models.exchanges(), name) {
            return models.open(&recorded.with_effort(effort.as_ref())).map_err(sentence);
        }
        let choice = asked_for(name, &config, &environment, &own.borrow())?;
        models.open(&choice.with_effort(effort.as_ref())).map_err(sentence)
    }
}

/// Names by which Claude Code knows models and no server does. Files written for
/// it are full of them.
const ALIASES: [&str; 6] = ["sonnet", "opus", "haiku", "opusplan", "best", "default"];

/// Finds out which model a name means that a definition, a skill or a model asks
/// for. It may come from a repository, which must not speak for a model, nor
/// send a conversation to whichever provider there happens to be a key for: what
/// is not configured must be a model of the server that answers already.
fn asked_for(
    name: &str,
    config: &Config,
    environment: &Environment,
    own: &ModelChoice,
) -> Result<ModelChoice, String> {
    let is_configured = config.models.contains_key(name);
    if ALIASES.contains(&name) && !is_configured {
        return Err(format!("`{name}` names no model here; `[models.{name}]` could say which"));
    }
    let choice = resolve_model(config, environment, Some(name))
        .map_err(|error| sentence(error.to_string()))?;
    let is_near = match (&choice, own) {
        (ModelChoice::Server(_), _) if is_configured => true,
        (ModelChoice::Server(server), ModelChoice::Server(own)) => server.is_beside(own),
        (ModelChoice::Server(_), ModelChoice::Scripted(_) | ModelChoice::Offline)
        | (ModelChoice::Scripted(_) | ModelChoice::Offline, _) => false,
    };
    match is_near {
        true => Ok(choice),
        false => Err(format!("`{name}` can only be chosen with `-m`")),
    }
}

/// Returns the first line. What follows is a hint for people; whoever wrote a
/// name gets the sentence.
fn sentence(text: String) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns what tells of models by name what is known of them here: elsewhere
/// in this process the same name may mean another one.
pub(super) fn find_facts(
    config: Config,
    environment: Environment,
    models: Arc<Models>,
) -> impl Fn(&str) -> Option<Facts> + Send + Sync {
    move |name| {
        let choice = match recordings::recorded(models.exchanges(), name) {
            Some(recorded) => recorded,
            None => resolve_model(&config, &environment, Some(name)).ok()?,
        };
        models.facts(&choice)
    }
}

fn open(models: &Models, choice: &ModelChoice) -> Result<Arc<dyn Model>, Refusal> {
    models.open(choice).map_err(|error| Refusal::new(Exit::BadConfig, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        variables: &[(&str, &str)],
        flag: Option<&str>,
        default_model: DefaultModel,
        is_offline: bool,
    ) {
        let environment = Environment::from_variables(variables.iter().copied());
        let wanted = Wanted { flag, agent: None, before: None, default_model, effort: None };
        let choice = choose_anew(&environment, &Config::default(), &wanted);
        assert_eq!(matches!(choice, Ok((ModelChoice::Offline, _))), is_offline, "{choice:?}");
    }

    #[test]
    fn a_review_needs_no_model_even_where_a_key_for_one_is_set() {
        let key = [("OPENAI_API_KEY", "k")];
        check(&[], None, DefaultModel::Offline, true);
        check(&key, None, DefaultModel::Offline, true);
        check(&key, Some("m"), DefaultModel::Offline, false);
        check(&[], None, DefaultModel::None, false);
        check(&key, None, DefaultModel::None, false);
    }
}
