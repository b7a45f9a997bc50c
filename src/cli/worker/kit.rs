//! What a worker runs slots with: what the run says to all of them, and what is
//! this machine's own.
//!
//! Nothing in a copy of a workspace is believed here: its settings, hooks and
//! servers of tools are not looked at, and definitions, skills and instructions
//! are those that the run's own user saw. The models and their keys are this
//! machine's; what may be done, and what commands and fetches reach, is what both
//! allow.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::cli::args::{RunFlags, WorkerFlags};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::model::{Chosen, DefaultModel, Wanted, choose, find_model};
use crate::cli::start::ground::{Ground, facts, seed, workspace};
use crate::cli::start::parts::all_tools;
use crate::cli::start::repository_root;
use crate::cli::{debug, executor, rules, sandbox, say};
use crate::config::{
    Config, Effort, Environment, Loaded, Meeting, ModelChoice, WorktreeEnd, dirs, resolve_model,
};
use crate::event::SessionId;
use crate::fanout::{Fanout, FindModel, Local, Parking, Pool, Surroundings, Worktrees};
use crate::fleet::ground::RUNS;
use crate::fleet::packet::{Bounds, Packet};
use crate::fleet::permits::Permits;
use crate::guard::sandbox::{Insistence, Sandbox};
use crate::guard::{Mode, Policy};
use crate::hook::Hooks;
use crate::mcp;
use crate::model::http::exchange::Exchanges;
use crate::model::retry::Jitter;
use crate::model::{Model, Models};
use crate::session::Blobs;
use crate::tool::{Registry, Workspace};

/// What a worker is, whatever it runs: read once, when it starts.
pub struct Footing {
    /// Where runs and workers meet.
    pub meeting: Meeting,
    /// Most slots at work here at once.
    pub max_concurrent: NonZeroUsize,
    /// The labels that it takes slots of, besides those without one.
    pub labels: Vec<String>,
    /// Where copies of workspaces and the texts of runs are kept.
    pub work_dir: PathBuf,
    environment: Environment,
    config: Config,
    /// What bounds everything here: the mode, and rules that deny.
    flags: RunFlags,
    sandbox: Arc<Sandbox>,
    models: Arc<Models>,
    /// Permits requests; `None` where nobody is asked.
    permits: Option<Permits>,
}

/// What a slot is run with.
pub struct SlotKit {
    /// What all units below it share, and itself.
    pub fanout: Fanout,
    /// What may be done here at most; [`Policy::governed_by`] makes it a slot's.
    pub policy: Policy,
    /// Every tool; a slot has some of them.
    pub tools: Registry,
    /// The run's main model, for those that have no other.
    pub model: Arc<dyn Model>,
}

impl Footing {
    /// Reads everything that can be wrong before there is a run.
    ///
    /// # Errors
    ///
    /// The configuration or a flag is wrong, or there is no place to work.
    pub fn new(
        environment: &Environment,
        flags: &RunFlags,
        wanted: &WorkerFlags,
    ) -> Result<Self, Refusal> {
        let config = config(environment, flags)?;
        debug::hide_environment(environment);
        debug::hide_configured(&config, environment);
        let WorkerFlags { connect, max_concurrent, label, work_dir } = wanted;
        let no_home = |error: dirs::NoHome| {
            let refusal =
                Refusal::new(Exit::BadConfig, "there is no place to work: HOME is not set");
            tracing::debug!("{error}");
            refusal.hint("set HOME, XDG_STATE_HOME or TINE_HOME, or pass `--work-dir DIR`")
        };
        let work_dir = match work_dir {
            Some(named) => std::path::absolute(named).map_err(|error| {
                let message = format!("cannot work in `{}`: {error}", named.display());
                Refusal::new(Exit::BadInput, message)
            })?,
            None => dirs::worker_root(environment).map_err(no_home)?,
        };
        let mode = rules::mode_of_flags(flags).unwrap_or(Mode::AcceptEdits);
        Ok(Self {
            meeting: executor::meeting(environment, &config, connect)?,
            max_concurrent: max_concurrent.unwrap_or(config.agents.max_concurrent),
            labels: label.clone(),
            work_dir,
            flags: RunFlags { permission_mode: Some(mode), add_dir: Vec::new(), ..flags.clone() },
            sandbox: Arc::new(sandbox::of(environment, &config)),
            models: Arc::new(Models::new(Exchanges::Live)),
            permits: None,
            environment: environment.clone(),
            config,
        })
    }

    /// Returns what it was started in.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The same, whose requests are sent only when they are permitted.
    #[must_use]
    pub fn permitted_by(self, permits: Permits) -> Self {
        Self { permits: Some(permits), ..self }
    }

    /// Returns where the texts of a run go; the worker removes what is in [`RUNS`].
    #[must_use]
    pub fn run_directory(&self, session: &SessionId) -> PathBuf {
        self.work_dir.join(RUNS).join(&*session.0)
    }

    /// Puts together what a slot of a run is run with, in a copy of the run's
    /// workspace whose working directory is `root`.
    ///
    /// # Errors
    ///
    /// This tine is another version than the run's, the run's model cannot be had
    /// here, or the copy cannot be opened. The sentence is for whoever runs it.
    pub fn kit(&self, packet: &Packet, root: &Path, pool: Pool) -> Result<SlotKit, Refusal> {
        check_version(packet)?;
        let models = self.models_for(&packet.session);
        let (choice, model) = self.main_model(packet, &models)?;
        let root = root.canonicalize().map_err(|error| {
            let message = format!("cannot work in `{}`: {error}", root.display());
            Refusal::new(Exit::BadInput, message)
        })?;
        let environment = &self.environment;
        let (config, sandbox) = self.bounded_by(&packet.bounds);
        let (policy, git) = rules::policy(environment, &config, &self.flags, (&root, &sandbox))?;
        // That of the working directory comes with each slot's own rules.
        let (top, copy) = packet.tops(&root);
        let policy = policy.standing_for((top, copy));
        let directory = self.run_directory(&packet.session);
        let worktrees = directory.join("worktrees");
        let ground = Ground { roots: policy.roots(), directory, sandbox, git };
        let workspace = workspace(ground, &config, environment)?;
        // Undo is for the workspace that a copy's changes come into.
        let workspace = Workspace { before: Blobs::nowhere(), ..workspace };
        let surroundings = Surroundings {
            instructions: packet.instructions.clone(),
            environment: facts(&root, repository_root(&root).as_deref()),
        };
        let tools = all_tools(&packet.definitions);
        let fanout = Fanout {
            definitions: packet.definitions.clone(),
            skills: Arc::new(packet.skills_in(&root)),
            workspace: Arc::new(workspace),
            pool,
            executor: Arc::new(Local),
            limits: packet.limits,
            find_model: self.find_model(packet, choice, (&model, &models)),
            surroundings,
            parking: Parking::default(),
            fallbacks: self.fallbacks(packet, &models),
            jitter: Jitter::new(seed()),
            // Nobody would find here what is kept.
            worktrees: Worktrees::new(
                Some(&worktrees),
                &root,
                &packet.session.0,
                WorktreeEnd::Apply,
            ),
            hooks: Arc::new(Hooks::default()),
            servers: Arc::new(no_servers(&root)),
        };
        Ok(SlotKit { fanout, policy, tools, model })
    }

    /// Returns the configuration for a run's slots, and what their commands are kept
    /// in: what its bounds and this machine's both allow.
    fn bounded_by(&self, bounds: &Bounds) -> (Config, Arc<Sandbox>) {
        let mut config = self.config.clone();
        bounds.narrow(&mut config);
        let sandbox = match config.sandbox == self.config.sandbox {
            true => Arc::clone(&self.sandbox),
            false => Arc::new(self.sandbox.with(sandbox::settings(&self.environment, &config))),
        };
        (config, sandbox)
    }

    /// Returns the models whose requests are for a run.
    fn models_for(&self, session: &SessionId) -> Arc<Models> {
        match &self.permits {
            Some(permits) => Arc::new(self.models.leading_to(permits.of(session))),
            None => Arc::clone(&self.models),
        }
    }

    /// Opens the run's main model as this machine knows it. The run's user has
    /// chosen it as with `-m`, so it may be any; which server that is, and with
    /// which key, is said here.
    fn main_model(
        &self,
        packet: &Packet,
        models: &Arc<Models>,
    ) -> Result<(ModelChoice, Arc<dyn Model>), Refusal> {
        let wanted = Wanted {
            flag: Some(&packet.model),
            agent: None,
            before: None,
            default_model: DefaultModel::None,
            effort: packet.effort.as_ref(),
        };
        let chosen = choose(&self.environment, &self.config, &wanted, models)?;
        let Chosen { choice, model, note: _ } = chosen;
        if packet.limits.needs_price && model.facts().price.is_none() {
            let name = &packet.model;
            let message = format!("the run's money is limited, and `{name}` has no price here");
            return Err(Refusal::new(Exit::BadConfig, message)
                .hint(format!("set `models.{name}.price` in this worker's `config.toml`")));
        }
        Ok((choice, model))
    }

    /// Returns what finds models by the names that tasks and definitions have for
    /// them. The main model goes by its own, wherever it may be asked for.
    fn find_model(
        &self,
        packet: &Packet,
        choice: ModelChoice,
        (main, models): (&Arc<dyn Model>, &Arc<Models>),
    ) -> Box<FindModel> {
        let given = (self.config.clone(), self.environment.clone());
        // It never changes: a packet says what the run began with.
        let (_, own) = watch::channel(choice);
        let effort: Option<Effort> = packet.effort.clone();
        let find = find_model(given, own, effort, Arc::clone(models));
        let main = Arc::clone(main);
        Box::new(move |name| match name == &**main.name() {
            true => Ok(Arc::clone(&main)),
            false => find(name),
        })
    }

    /// Opens those of the run's fallbacks that can be had here.
    fn fallbacks(&self, packet: &Packet, models: &Models) -> Vec<Arc<dyn Model>> {
        let open = |name: &String| -> Result<Arc<dyn Model>, String> {
            let choice = resolve_model(&self.config, &self.environment, Some(name));
            let choice = choice.map_err(|error| error.to_string())?;
            models.open(&choice.with_effort(packet.effort.as_ref()))
        };
        let fallback = |name: &String| {
            let opened = open(name);
            if let Err(why) = &opened {
                tracing::warn!("the run's fallback `{name}` cannot be had here: {why}");
            }
            opened.ok()
        };
        packet.fallbacks.iter().filter_map(fallback).collect()
    }
}

/// Reads the user's configuration, and no project's.
fn config(environment: &Environment, flags: &RunFlags) -> Result<Config, Refusal> {
    let loaded = Config::load(environment, None, None, &flags.config);
    let Loaded { mut config, warnings } =
        loaded.map_err(|error| Refusal::new(Exit::BadConfig, error.to_string()))?;
    warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    if flags.sandbox {
        config.sandbox.mode = Insistence::Required;
    }
    Ok(config)
}

/// Refuses a run of another version: prompts and tools would differ between its
/// units.
fn check_version(packet: &Packet) -> Result<(), Refusal> {
    let (theirs, own) = (&packet.version, env!("CARGO_PKG_VERSION"));
    if theirs == own {
        return Ok(());
    }
    let message = format!("the run is of tine {theirs}, and this worker is tine {own}");
    Err(Refusal::new(Exit::BadInput, message).hint("run the same version of tine everywhere"))
}

/// No servers of tools: they are started where the run is.
fn no_servers(root: &Path) -> mcp::Servers {
    let nothing = Duration::ZERO;
    let limits = mcp::Limits { startup: nothing, connect: nothing, call: nothing };
    let surroundings =
        mcp::Surroundings { directory: root.to_owned(), ..mcp::Surroundings::default() };
    mcp::Servers::new(Vec::new(), limits, surroundings)
}

#[cfg(test)]
mod tests;
