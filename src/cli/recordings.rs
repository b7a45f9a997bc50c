//! `--record` and `--replay`: where requests go, and which recorded models
//! answer.

use std::path::Path;

use super::args::{ReplayTiming, RunFlags};
use super::exit::{Exit, Refusal};
use crate::config::{Environment, ModelChoice, ServerModel, dirs};
use crate::model::http::exchange::{
    Exchanges, Pace, Player, RecordError, Recorder, ReplayError, Volatile,
};

/// What of a run differs from machine to machine and from day to day.
pub(super) struct Surroundings<'a> {
    pub(super) environment: &'a Environment,
    /// The variables that hold keys.
    pub(super) secret_variables: &'a [String],
    /// The facts of the moment, as every unit reads them.
    pub(super) facts: &'a str,
    /// The working directory.
    pub(super) root: &'a Path,
    /// The repository that it is in.
    pub(super) repository: Option<&'a Path>,
    /// Where the session's files are.
    pub(super) session: &'a Path,
}

impl Surroundings<'_> {
    fn volatile(&self) -> Volatile {
        let Self { environment, secret_variables, facts, root, repository, session } = *self;
        let keys = secret_variables.iter().filter_map(|variable| environment.key(variable));
        let volatile = keys.fold(Volatile::default(), Volatile::key);
        let config = dirs::config_directory(environment);
        let home = environment.home.as_deref();
        // Tools name some directories as they are, without links.
        let real = |path: &Path| path.canonicalize().ok();
        let places = [
            (Some(root), "{cwd}"),
            (repository, "{repository}"),
            (Some(session), "{session}"),
            (config.as_deref(), "{config}"),
            (home, "{home}"),
        ];
        places.into_iter().filter_map(|(path, word)| Some((path?, word))).fold(
            volatile.text(facts, "{facts}"),
            |volatile, (path, word)| {
                let volatile = volatile.path(path, word);
                real(path).iter().fold(volatile, |volatile, path| volatile.path(path, word))
            },
        )
    }
}

/// Finds out where requests go.
pub(super) fn exchanges(
    flags: &RunFlags,
    surroundings: &Surroundings<'_>,
) -> Result<Exchanges, Refusal> {
    match (&flags.record, &flags.replay) {
        (Some(directory), _) => {
            let recorder = Recorder::create(directory, surroundings.volatile());
            Ok(Exchanges::Record(recorder.map_err(|error| cannot_record(&error))?))
        }
        (None, Some(directory)) => {
            let pace = match flags.replay_timing {
                Some(ReplayTiming::Recorded) => Pace::Recorded,
                Some(ReplayTiming::None) | None => Pace::AtOnce,
            };
            let player = Player::open(directory, surroundings.volatile(), pace);
            Ok(Exchanges::Replay(player.map_err(|error| cannot_replay(&error))?))
        }
        (None, None) => Ok(Exchanges::Live),
    }
}

/// Refuses to record what asks no server.
pub(super) fn check(exchanges: &Exchanges, choice: &ModelChoice) -> Result<(), Refusal> {
    let name = match (exchanges, choice) {
        (Exchanges::Record(_), ModelChoice::Offline) => "offline",
        (Exchanges::Record(_), ModelChoice::Scripted(_)) => "scripted:",
        (Exchanges::Record(_), ModelChoice::Server(_))
        | (Exchanges::Live | Exchanges::Replay(_), _) => return Ok(()),
    };
    Err(Refusal::new(Exit::Usage, format!("`{name}` asks no server: there is nothing to record"))
        .hint("leave `--record` out, or choose a model of a server with `-m MODEL`"))
}

/// Finds a model that was recorded under this name.
pub(super) fn recorded(exchanges: &Exchanges, name: &str) -> Option<ModelChoice> {
    match exchanges {
        Exchanges::Replay(player) => {
            Some(ModelChoice::Server(Box::new(player.models().get(name)?.clone())))
        }
        Exchanges::Live | Exchanges::Record(_) => None,
    }
}

/// Chooses a recorded model: the one that is asked for, else the session's own
/// if it was recorded, else the one that answered then.
pub(super) fn choose(
    player: &Player,
    flag: Option<&str>,
    before: Option<&str>,
) -> Result<ServerModel, Refusal> {
    let models = player.models();
    let refuse = |message: String| {
        let names: Vec<String> = models.keys().map(|name| format!("`{name}`")).collect();
        let refusal = Refusal::new(Exit::BadInput, message);
        match names.is_empty() {
            true => refusal,
            false => refusal.hint(format!("there is {}", names.join(", "))),
        }
    };
    let directory = player.directory().display();
    if let Some(name) = flag {
        let named = models.get(name).cloned();
        return named.ok_or_else(|| {
            refuse(format!("model `{name}` is not in the recording `{directory}`"))
        });
    }
    let chosen = before.and_then(|name| models.get(name)).or(player.main_model());
    chosen.cloned().ok_or_else(|| refuse(format!("no model is in the recording `{directory}`")))
}

fn cannot_record(error: &RecordError) -> Refusal {
    let refusal = Refusal::because(Exit::BadInput, error);
    match error {
        RecordError::Taken { .. } => {
            refusal.hint("name another directory, or remove that one first")
        }
        RecordError::Unwritable { .. } => refusal,
    }
}

fn cannot_replay(error: &ReplayError) -> Refusal {
    let refusal = Refusal::because(Exit::BadInput, error);
    match error {
        ReplayError::Missing { .. } => refusal.hint("`--record DIR` makes one"),
        ReplayError::Mangled { .. } => refusal.hint("record it again"),
        ReplayError::Unreadable { .. } | ReplayError::TooLarge { .. } => refusal,
    }
}
