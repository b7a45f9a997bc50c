//! Putting a run together from flags, configuration and surroundings.

mod reporters;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::args::RunFlags;
use super::asking;
use super::exit::{Exit, Refusal};
use super::model::{Chosen, DefaultModel, Wanted, choose, fallbacks, find_model};
use super::place::{Place, create_log, name_session};
use super::project::{self, Manner};
use super::recordings;
use super::resume::{self, Resume};
use super::rules;
use super::sandbox;
use super::sessions::{age_out, parse_name};
use crate::agent::Opening;
use crate::config::{self, Config, Environment, ModelChoice, dirs};
use crate::definition::Definitions;
use crate::event::{SessionHead, SessionId};
use crate::fanout::{Fanout, Limits, Parking, Pool, Surroundings, Worktrees};
use crate::git;
use crate::guard::sandbox::Sandbox;
use crate::guard::{Mode, Policy};
use crate::line::Budget;
use crate::model::http::exchange::{Exchanges, Pace};
use crate::model::retry::{self, Jitter};
use crate::model::{Model, Models};
use crate::prompt;
use crate::report;
use crate::run::{self, FromUser, Invoked, Main, Prompts, Resumed, Run, Signal};
use crate::session::{Blobs, SessionLog, SessionName, Spill};
use crate::skill::Skills;
use crate::tool::files::Files;
use crate::tool::roots::Roots;
use crate::tool::{Registry, Workspace, registry};
use reporters::Asker;

/// Everything a run needs, before its prompt is known.
pub(super) struct Start {
    pub(super) flags: RunFlags,
    pub(super) root: PathBuf,
    pub(super) skills: Arc<Skills>,
    config: Config,
    environment: Environment,
    choice: ModelChoice,
    /// What to say once it is certain that there is something to run.
    note: Option<&'static str>,
    pub(super) model: Arc<dyn Model>,
    /// What goes on where that is overloaded.
    fallbacks: Vec<Arc<dyn Model>>,
    pub(super) models: Arc<Models>,
    pub(super) definitions: Definitions,
    policy: Policy,
    /// What our own calls of git run.
    pub(super) git: git::Program,
    sandbox: Arc<Sandbox>,
    instructions: String,
    /// The facts of the moment.
    facts: String,
    pub(super) session: SessionId,
    name: Option<SessionName>,
    directory: PathBuf,
    /// Where texts go if the session is not to be kept; removed with this value.
    scratch: Option<tempfile::TempDir>,
    resume: Option<Resume>,
}

/// What reaches a run from outside.
pub(super) struct Outside {
    pub(super) signals: mpsc::Receiver<Signal>,
    /// A program that speaks for a person, if it is one that asked for the run.
    pub(super) client: Option<Client>,
}

/// A program that speaks for a person.
pub(super) struct Client {
    /// Where it answers; `None` if it no longer does.
    pub(super) answers: Option<mpsc::Receiver<FromUser>>,
    /// Whether it has not been answered before.
    pub(super) is_first: bool,
}

impl Start {
    /// Reads everything that can be wrong, so that nothing fails later.
    pub(super) fn new(
        environment: &Environment,
        flags: RunFlags,
        default_model: DefaultModel,
    ) -> Result<Self, Refusal> {
        Self::with(environment, flags, default_model, None)
    }

    /// The same in a process that has asked these models before: what their
    /// providers have said of their limits still holds, and a recording goes on.
    pub(super) fn again(
        environment: &Environment,
        flags: RunFlags,
        models: Arc<Models>,
    ) -> Result<Self, Refusal> {
        Self::with(environment, flags, DefaultModel::None, Some(models))
    }

    fn with(
        environment: &Environment,
        flags: RunFlags,
        default_model: DefaultModel,
        models: Option<Arc<Models>>,
    ) -> Result<Self, Refusal> {
        let name = flags.name.as_deref().map(parse_name).transpose()?;
        let root = working_directory()?;
        let (config, trusted) = project::config(environment, &flags, Manner::MayAsk)?;
        let Place { session, directory, scratch, resume } =
            Place::find(environment, &config, &flags, &root)?;
        let repository = repository_root(&root);
        let top = repository.as_deref();
        let facts = facts(&root, top);
        let surroundings = recordings::Surroundings {
            environment,
            secret_variables: &config.secret_variables(),
            facts: &facts,
            root: &root,
            repository: top,
            session: &directory,
        };
        let models = match models {
            Some(models) => models,
            None => Arc::new(Models::new(recordings::exchanges(&flags, &surroundings)?)),
        };
        let before = resume.as_ref().and_then(|resume| resume.past.model());
        let (flag, effort) = (flags.model.as_deref(), flags.effort.as_ref());
        let wanted = Wanted { flag, before, default_model, effort };
        let Chosen { choice, model, note } = choose(environment, &config, &wanted, &models)?;
        let fallbacks = fallbacks(environment, &config, &flags, &models)?;
        for model in std::iter::once(&model).chain(&fallbacks) {
            check_price(&flags, &**model)?;
        }
        let sandbox = Arc::new(sandbox::of(environment, &config));
        let (policy, git) = rules::policy(environment, &config, &flags, (&root, &sandbox))?;
        let (skills, mut problems) =
            Skills::load(&dirs::skill_directories(&root, top, environment));
        let agents = dirs::agent_directories(&root, top, environment);
        let (definitions, more) =
            Definitions::load(&agents, |path, text| trusted.covers(path, text));
        problems.extend(more);
        problems.iter().for_each(|problem| super::say(&format!("warning: {problem}")));
        Ok(Self {
            instructions: prompt::instructions(&config::instructions(&root, top, environment)),
            skills: Arc::new(skills),
            environment: environment.clone(),
            flags,
            root,
            config,
            choice,
            note,
            model,
            fallbacks,
            models,
            definitions,
            policy,
            git,
            sandbox,
            facts,
            session,
            name,
            directory,
            scratch,
            resume,
        })
    }

    /// Tells whether the fixed rules answer.
    pub(super) fn is_offline(&self) -> bool {
        matches!(self.choice, ModelChoice::Offline)
    }

    /// Tells whether the session is kept.
    pub(super) fn is_kept(&self) -> bool {
        self.scratch.is_none()
    }

    /// Changes how much runs without a rule.
    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), Refusal> {
        (self.flags.permission_mode, self.flags.dangerously_skip_permissions) = (Some(mode), false);
        let around = (self.root.as_path(), &self.sandbox);
        (self.policy, _) = rules::policy(&self.environment, &self.config, &self.flags, around)?;
        Ok(())
    }

    /// Returns where texts go that are too long for a context.
    pub(super) fn spill(&self) -> &Path {
        &self.directory
    }

    /// Builds the run. The directory that comes with it must live as long.
    pub(super) fn run(
        mut self,
        typed: String,
        opening: Opening,
        outside: Outside,
    ) -> Result<(Run, Option<tempfile::TempDir>), Refusal> {
        let tools = self.tools()?;
        let head = self.head();
        let (resumed, log) = self.begin(&head)?;
        let goes_on = matches!(&outside.client, Some(Client { is_first: false, .. }));
        // A client knows what it has just been told.
        let resumed =
            resumed.map(|before| Resumed { note: before.note.filter(|_| !goes_on), ..before });
        name_session(self.name.as_ref(), &self.directory, self.scratch.is_none());
        if let Err(error) = self.sandbox.clean_up() {
            super::say(&format!("warning: cannot clean up after sandboxes: {error}"));
        }
        if log.is_some() {
            age_out(&self.environment, self.config.session.max_age);
        }
        // Whoever is not there cannot be asked.
        let Outside { signals, client } = outside;
        let (asker, answers) = match client {
            Some(Client { answers, is_first }) => (Asker::Client { is_first }, answers),
            None => match asking::on_terminal().filter(|_| !self.environment.ci) {
                Some((prompter, answers)) => (Asker::Terminal(prompter), Some(answers)),
                None => (Asker::Nobody, None),
            },
        };
        let reporters = self.reporters(&tools, asker)?;
        let system = self.system_prompt()?;
        self.note.iter().for_each(super::say);
        let (max_turns, budget) = (self.flags.max_turns, self.budget());
        let model = Arc::clone(&self.model);
        let policy = Arc::new(self.policy.clone());
        let scratch = self.scratch.take();
        let keep_rule = rules::keep(&self.environment);
        let typed = typed.as_str().into();
        let main = Main::Conversation(opening);
        let invoked = Invoked { typed, main, model, tools, policy, system };
        let run = Run {
            prompts: Prompts::One(Box::new(invoked)),
            fanout: Arc::new(self.fanout()?),
            head,
            resumed,
            max_turns,
            budget,
            log,
            reporters,
            signals,
            answers,
            keep_rule,
        };
        Ok((run, scratch))
    }

    /// Returns how a new session would begin.
    fn head(&self) -> SessionHead {
        SessionHead {
            session: self.session.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            cwd: self.root.to_string_lossy().into(),
            model: Arc::clone(self.model.name()),
            mode: self.policy.mode().as_str().into(),
            forked_from: self.resume.as_ref().map(Resume::id),
            sandbox: Some(self.sandbox.head()),
        }
    }

    /// Opens the log, and brings to its end what an earlier process left open.
    fn begin(
        &mut self,
        head: &SessionHead,
    ) -> Result<(Option<Resumed>, Option<SessionLog>), Refusal> {
        let Some(resume) = self.resume.take() else {
            let log = match &self.scratch {
                Some(_) => None,
                None => Some(create_log(&self.directory)?),
            };
            return Ok((None, log));
        };
        let from = resume.from.clone();
        let (past, log) = resume.begin(head, &self.directory)?;
        // A log in which nothing was written yet is begun as a new one is.
        if past.is_empty() {
            return Ok((None, log));
        }
        let called = resume::called(&self.session, &self.directory);
        let note = report::resumed(&called, past.account()).map(Into::into);
        Ok((Some(Resumed { from, past, note }), log))
    }

    fn tools(&self) -> Result<Registry, Refusal> {
        let offered: Vec<(&str, &str)> = self
            .definitions
            .iter()
            .map(|definition| (definition.name.as_str(), definition.description.as_str()))
            .collect();
        let all = Registry::all(offered);
        let wanted = rules::split(&self.flags.tools);
        if wanted.is_empty() {
            return Ok(all);
        }
        if let Some(unknown) = wanted.iter().find(|name| all.find(name).is_none()) {
            let names: Vec<&str> = all.names().collect();
            return Err(Refusal::new(Exit::Usage, format!("there is no tool `{unknown}`"))
                .hint(format!("there are: {}", names.join(", "))));
        }
        Ok(all.filtered(|name| {
            wanted.iter().any(|wanted| registry::canonical(wanted).eq_ignore_ascii_case(name))
        }))
    }

    fn system_prompt(&self) -> Result<String, Refusal> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| {
                Refusal::new(Exit::BadInput, format!("cannot read `{}`: {error}", path.display()))
            })
        };
        let flags = &self.flags;
        let mut system = match (&flags.system_prompt, &flags.system_prompt_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => read(path)?,
            (None, None) => prompt::main().to_owned(),
        };
        let added = match (&flags.append_system_prompt, &flags.append_system_prompt_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(read(path)?),
            (None, None) => None,
        };
        if let Some(added) = added {
            system.push_str("\n\n");
            system.push_str(&added);
        }
        Ok(system)
    }

    /// Returns what all units of the run may use together.
    fn budget(&self) -> Budget {
        let RunFlags { max_budget_usd, max_tool_calls, .. } = self.flags;
        Budget { usd: max_budget_usd, tokens: None, tool_calls: max_tool_calls }
    }

    fn fanout(self) -> Result<Fanout, Refusal> {
        let (agents, retry) = (&self.config.agents, &self.config.retry);
        let (prime, base) = match self.models.exchanges() {
            Exchanges::Live | Exchanges::Record(_) => (agents.prime, retry.base),
            // There is no cache to wait for, and nobody to be spared.
            Exchanges::Replay(player) => match player.pace() {
                Pace::Recorded => (Duration::ZERO, retry.base),
                Pace::AtOnce => (Duration::ZERO, Duration::ZERO),
            },
        };
        let limits = Limits {
            max_turns: agents.max_turns,
            timeout: agents.timeout,
            max_depth: self.flags.max_subagent_depth.unwrap_or(agents.max_depth),
            background_wait: self.config.background.wait,
            prime,
            confirm_above: match self.flags.allow_large_batches {
                true => None,
                false => agents.confirm_above,
            },
            needs_price: self.flags.max_budget_usd.is_some(),
            compact_at: self.config.session.compact_at,
            retries: retry::Policy { most: retry.most, base },
        };
        let pool = Pool::new(agents.max_concurrent);
        let roots =
            Roots::open(self.policy.roots().iter().map(PathBuf::as_path)).map_err(|error| {
                Refusal::new(
                    Exit::BadInput,
                    format!("cannot open the working directories: {error}"),
                )
            })?;
        let worktrees_root = dirs::worktrees_root(&self.environment).ok();
        let worktrees =
            Worktrees::new(worktrees_root.as_deref(), &self.root, &self.session.0, agents.worktree);
        let workspace = Workspace {
            roots,
            added: self.policy.roots().iter().skip(1).cloned().collect(),
            before: Blobs::of(&self.directory),
            spill: Spill { directory: self.directory },
            files: Files::default(),
            searches: self.policy.searches(),
            sandbox: Arc::clone(&self.sandbox),
            git: self.git,
            root: self.root,
        };
        let surroundings =
            Surroundings { instructions: self.instructions, environment: self.facts };
        let (config, environment) = (self.config, self.environment);
        Ok(Fanout {
            definitions: self.definitions,
            skills: self.skills,
            workspace: Arc::new(workspace),
            pool,
            limits,
            find_model: Box::new(find_model(config, environment, self.flags.effort, self.models)),
            surroundings,
            parking: Parking::default(),
            fallbacks: self.fallbacks,
            jitter: Jitter::new(seed()),
            worktrees,
        })
    }
}

/// Returns the facts of the moment as every unit reads them.
fn facts(root: &Path, repository: Option<&Path>) -> String {
    let today = jiff::Zoned::now().date().to_string();
    prompt::environment(&prompt::Environment {
        cwd: root,
        is_repository: repository.is_some(),
        date: &today,
    })
}

/// Returns what another process is not likely to begin with at the same moment.
fn seed() -> u64 {
    run::now().0 ^ u64::from(std::process::id()).rotate_left(32)
}

/// Refuses to promise that a run costs no more than so much if nobody has said
/// what its model costs.
fn check_price(flags: &RunFlags, model: &dyn Model) -> Result<(), Refusal> {
    if flags.max_budget_usd.is_none() || model.facts().price.is_some() {
        return Ok(());
    }
    let name = model.name();
    let message = format!("the price of `{name}` is not known, so `--max-budget-usd` cannot hold");
    let hint = format!("set `models.{name}.price` in `config.toml`; see `config.example.toml`");
    Err(Refusal::new(Exit::BadConfig, message).hint(hint))
}

/// Returns the working directory as the kernel knows it.
pub(super) fn working_directory() -> Result<PathBuf, Refusal> {
    std::env::current_dir().map_err(|error| {
        Refusal::new(Exit::BadInput, format!("the working directory is gone: {error}"))
            .hint("change to another directory, or name one with `-C DIR`")
    })
}

/// Returns the top of the repository that holds `root`, by looking for `.git`
/// only: starting git would cost more than the rest of the start.
pub(super) fn repository_root(root: &Path) -> Option<PathBuf> {
    root.ancestors().find(|directory| directory.join(".git").exists()).map(Path::to_owned)
}

/// Returns the git that our own calls run: one that neither these directories
/// nor the repository around the first of them have brought along.
pub(super) fn git(environment: &Environment, roots: &[PathBuf]) -> git::Program {
    let top = roots.first().and_then(|root| repository_root(root));
    let workspace: Vec<PathBuf> = roots.iter().cloned().chain(top).collect();
    git::Program::find(environment.inherited.all(), &workspace)
}

/// The same where there is no run, and so no other directory than this one.
/// Without it there is no workspace that could have brought a git along.
pub(super) fn git_here(environment: &Environment) -> git::Program {
    git(environment, working_directory().ok().as_slice())
}

/// Says that there is no place for sessions.
pub(super) fn no_home() -> Refusal {
    Refusal::new(Exit::BadConfig, "there is no place for sessions: HOME is not set")
        .hint("set HOME, XDG_STATE_HOME or TINE_HOME, or run with `--no-session-persistence`")
}
