//! Putting a run together from flags, configuration and surroundings.

pub(super) mod ground;
pub(super) mod parts;
mod process;
mod reporters;
mod runs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::{mpsc, watch};

use super::args::{Format, RunFlags};
use super::executor;
use super::exit::{Exit, Refusal};
use super::hooks;
use super::kit::Kit;
use super::model::{Chosen, DefaultModel, Wanted, choose, fallbacks, find_model};
use super::place::{Place, create_log, name_session};
use super::project::{self, Manner};
use super::recordings;
use super::resume::{self, Resume};
use super::rules;
use super::sandbox;
use super::sessions::{age_out, parse_name};
use crate::config::{Config, Environment, dirs};
use crate::event::SessionHead;
use crate::fanout::{Fanout, Parking, Surroundings, Worktrees};
use crate::git;
use crate::guard::sandbox::Sandbox;
use crate::hook::Source;
use crate::line::Budget;
use crate::model::Model;
use crate::model::retry::Jitter;
use crate::report;
use crate::run::{Asked, FromUser, Reporter, Resumed, Signal};
use crate::session::Past;
use crate::session::{Account, SessionLog, SessionName};
pub(super) use ground::web;
use ground::{Ground, facts, seed, workspace};
use parts::{agent, answering, found, given, instructions, limits, narrowed, system_prompt, tools};
use process::Process;

pub(super) use process::{Brought, Kept};

/// Everything a run needs, before its prompt is known.
pub(super) struct Start {
    pub(super) kit: Kit,
    /// What to say once it is certain that there is something to run.
    note: Option<String>,
    /// What goes on where the model is overloaded.
    fallbacks: Vec<Arc<dyn Model>>,
    /// The facts of the moment.
    facts: String,
    name: Option<SessionName>,
    /// Where texts go if the session is not to be kept; removed with this value.
    scratch: Option<TempDir>,
    resume: Option<Resume>,
    later: Later,
}

/// What is known of a run only after its start.
#[derive(Default)]
struct Later {
    /// The tools of servers that the conversation had before, by name.
    had: Vec<String>,
    /// Whether there is a log also of a session that is not kept, where its texts
    /// go and until its end: steps of a flow may look at what happened in it.
    logs_anyway: bool,
}

/// A session that was opened.
struct Begun {
    head: SessionHead,
    resumed: Option<Resumed>,
    log: Option<SessionLog>,
}

/// What reaches a run from whoever sits at it.
pub(super) struct Sitting {
    pub(super) signals: mpsc::Receiver<Signal>,
    pub(super) answers: mpsc::Receiver<FromUser>,
    /// What the run is asked to do, one thing after the other.
    pub(super) asking: mpsc::Receiver<Asked>,
    pub(super) sitter: Sitter,
    /// Whether another session was left for it.
    pub(super) follows: bool,
}

/// Who sits at a run, and is shown it.
pub(super) enum Sitter {
    /// A person at a chat, or at an editor: nobody else is shown anything.
    Chat(Box<dyn Reporter>),
    /// A program that speaks for a person. It is sent records; whoever feeds
    /// the run with its messages is shown it behind them.
    Client(Box<dyn Reporter>),
}

impl Start {
    /// Reads everything that can be wrong, so that nothing fails later.
    pub(super) fn new(
        environment: &Environment,
        flags: RunFlags,
        default_model: DefaultModel,
    ) -> Result<Self, Refusal> {
        Self::with(environment, flags, default_model, Process::default())
    }

    /// The same in a process that has asked these models before: what their
    /// providers have said of their limits still holds, and a recording goes on.
    pub(super) fn again(
        environment: &Environment,
        flags: RunFlags,
        kept: Kept,
    ) -> Result<Self, Refusal> {
        let process = Process { kept: Some(kept), ..Process::default() };
        Self::with(environment, flags, DefaultModel::None, process)
    }

    /// The same for a program that brings something along, and may name other
    /// servers than before: those are not started yet.
    pub(super) fn bringing(
        environment: &Environment,
        flags: RunFlags,
        kept: Kept,
        brought: Brought,
    ) -> Result<Self, Refusal> {
        let aliases = brought.aliases.clone();
        let (kept, brought) = (Some(kept), Some(brought));
        let process = Process { kept, brought, ..Process::default() };
        let mut start = Self::with(environment, flags, DefaultModel::None, process)?;
        start.kit.tools = start.kit.tools.standing_in(aliases);
        Ok(start)
    }

    /// The same for one of several runs side by side, each with servers of its
    /// own, in a process whose terminal, if it has one, is not there to ask on.
    pub(super) fn beside_others(
        environment: &Environment,
        flags: RunFlags,
        kept: Option<Kept>,
    ) -> Result<Self, Refusal> {
        let process = Process { kept, brought: Some(Brought::default()), manner: Manner::Tell };
        Self::with(environment, flags, DefaultModel::None, process)
    }

    fn with(
        environment: &Environment,
        flags: RunFlags,
        default_model: DefaultModel,
        process: Process,
    ) -> Result<Self, Refusal> {
        let name = flags.name.as_deref().map(parse_name).transpose()?;
        let root = working_directory(environment)?;
        let (config, trusted) = project::config(environment, &flags, process.manner)?;
        let environment = &project::surroundings(environment, &flags)?;
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
        let (Kept { models, servers, pool, exporter }, called) =
            process.parts(&surroundings, &config, &flags, &trusted)?;
        let (skills, definitions) = found((&root, top), environment, &flags, &trusted);
        let definitions = definitions.with(given(&flags)?);
        let agent = agent(&flags, &definitions)?;
        let before = resume.as_ref().and_then(|resume| resume.past.chosen());
        let wanted = Wanted::by(&flags, agent).or(before.as_ref(), default_model);
        let Chosen { choice, model, note } = choose(environment, &config, &wanted, &models)?;
        let fallbacks = fallbacks(environment, &config, &flags, &models)?;
        warn_of_prices(&flags, std::iter::once(&model).chain(&fallbacks));
        let sandbox = sandbox_of(environment, &config, &flags);
        let (policy, git) = rules::policy(environment, &config, &flags, (&root, &sandbox))?;
        let policy = narrowed(policy, agent).naming(servers.other_names().clone());
        let system = system_prompt(&flags, agent, &skills)?;
        let tools = answering(tools(&flags, &definitions, agent)?, &flags)?;
        let hooks = hooks::load(environment, &config, &flags, (&trusted, called))?;
        let instructions = instructions((&root, top), environment, &flags, &policy);
        let kit = Kit {
            skills: Arc::new(skills),
            environment: environment.clone(),
            flags,
            config,
            models,
            definitions,
            sandbox,
            git,
            root,
            session,
            directory,
            is_kept: scratch.is_none(),
            answers: watch::Sender::new(choice.clone()),
            choice,
            model,
            tools,
            servers,
            pool,
            exporter,
            policy,
            hooks,
            system,
            instructions: instructions.into(),
        };
        Ok(Self { kit, note, fallbacks, facts, name, scratch, resume, later: Later::default() })
    }

    /// Returns how the session begins.
    fn begins(&self) -> Source {
        if self.is_new() { Source::Startup } else { Source::Resume }
    }

    /// Tells whether nothing was said in the session before.
    pub(super) fn is_new(&self) -> bool {
        self.resume.as_ref().is_none_or(|resume| resume.past.is_empty())
    }

    /// Returns where a session stands that goes on.
    pub(super) fn account(&self) -> Option<&Account> {
        self.past().map(Past::account)
    }

    /// Returns what is known of a session that goes on.
    pub(super) fn past(&self) -> Option<&Past> {
        self.resume.as_ref().map(|resume| &resume.past)
    }

    /// Returns the directory of the session that goes on; `None` of a new one.
    pub(super) fn goes_on_from(&self) -> Option<&Path> {
        self.resume.as_ref().map(|resume| &*resume.from)
    }

    /// Returns how a new session would begin.
    fn head(&self) -> SessionHead {
        let kit = &self.kit;
        SessionHead {
            session: kit.session.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            cwd: kit.root.to_string_lossy().into(),
            model: Arc::clone(kit.model.name()),
            mode: kit.policy.mode().as_str().into(),
            forked_from: self.resume.as_ref().map(Resume::id),
            sandbox: Some(kit.sandbox.head()),
        }
    }

    /// Opens the session and looks after what others left behind.
    fn begin(&mut self) -> Result<Begun, Refusal> {
        let head = self.head();
        let (resumed, log) = self.open_log(&head)?;
        let kit = &self.kit;
        parts::warn_of_path(kit);
        name_session(self.name.as_ref(), &kit.directory, kit.is_kept);
        if let Err(error) = kit.sandbox.clean_up() {
            super::say(&format!("warning: cannot clean up after sandboxes: {error}"));
        }
        if log.is_some() {
            age_out(&kit.environment, kit.config.session.max_age);
        }
        Ok(Begun { head, resumed, log })
    }

    /// Opens the log, and brings to its end what an earlier process left open.
    fn open_log(
        &mut self,
        head: &SessionHead,
    ) -> Result<(Option<Resumed>, Option<SessionLog>), Refusal> {
        let (session, directory) = (&self.kit.session, &self.kit.directory);
        let Some(resume) = self.resume.take() else {
            let is_wanted = self.kit.is_kept || self.later.logs_anyway;
            let log = is_wanted.then(|| create_log(directory)).transpose()?;
            return Ok((None, log));
        };
        let resume = match self.later.logs_anyway && !self.kit.is_kept {
            true => resume.logged(),
            false => resume,
        };
        let from = resume.from.clone();
        let (past, log) = resume.begin(head, directory)?;
        let offered = past.offered().into_iter().flat_map(|tools| tools.iter());
        let kept = offered.filter(|tool| self.kit.servers.find(&tool.server).is_some());
        self.later.had = kept.map(|tool| tool.name.to_string()).collect();
        // A log in which nothing was written yet is begun as a new one is.
        if past.is_empty() {
            return Ok((None, log));
        }
        let called = resume::called(session, directory);
        let note = report::resumed(&called, past.account()).map(Into::into);
        Ok((Some(Resumed { from, past, note }), log))
    }

    /// Returns what all units of the run may use together.
    fn budget(&self) -> Budget {
        let flags = &self.kit.flags;
        let (usd, tool_calls) = (flags.max_budget_usd, flags.call_limit());
        Budget { usd, tokens: None, tool_calls }
    }

    fn fanout(self, has_people: bool, log: Option<PathBuf>) -> Result<Fanout, Refusal> {
        let kit = self.kit;
        let hooks = parts::hooks(&kit, has_people);
        let limits = limits(&kit);
        let executor = executor::open(&kit, limits)?;
        let agents = &kit.config.agents;
        let worktrees_root = dirs::worktrees_root(&kit.environment).ok();
        let worktrees =
            Worktrees::new(worktrees_root.as_deref(), &kit.root, &kit.session.0, agents.worktree);
        let ground = Ground {
            roots: kit.policy.roots(),
            directory: kit.directory,
            sandbox: kit.sandbox,
            git: kit.git,
        };
        let workspace = workspace(ground, &kit.config, &kit.environment)?;
        let instructions = kit.instructions.to_string();
        let surroundings = Surroundings { instructions, environment: self.facts };
        let given = (kit.config, kit.environment);
        Ok(Fanout {
            definitions: kit.definitions,
            skills: kit.skills,
            workspace: Arc::new(workspace),
            pool: kit.pool,
            executor,
            limits,
            find_model: Box::new(find_model(
                given,
                kit.answers.subscribe(),
                kit.flags.effort,
                kit.models,
            )),
            surroundings,
            parking: log.map_or_else(Parking::default, Parking::with_log),
            fallbacks: self.fallbacks,
            jitter: Jitter::new(seed()),
            worktrees,
            hooks: Arc::new(hooks),
            servers: kit.servers,
        })
    }
}

fn warn_of_prices<'a>(flags: &RunFlags, models: impl Iterator<Item = &'a Arc<dyn Model>>) {
    models.filter_map(|it| price_warning(flags, &**it)).for_each(|it| super::say(&it));
}

/// Returns what to say of a limit that cannot hold, since nobody has said what
/// the model costs. Scripts set one with whatever model they have, so the run
/// goes on, and what is known is counted.
pub(super) fn price_warning(flags: &RunFlags, model: &dyn Model) -> Option<String> {
    if flags.max_budget_usd.is_none() || model.facts().price.is_some() {
        return None;
    }
    let name = model.name();
    Some(format!(
        "warning: the price of `{name}` is not known, so `--max-budget-usd` does not count it\n\
         hint: set `models.{name}.price` in `config.toml`; see `config.example.toml`"
    ))
}

/// Returns the sandbox of a run.
fn sandbox_of(environment: &Environment, config: &Config, flags: &RunFlags) -> Arc<Sandbox> {
    let sandbox = Arc::new(sandbox::of(environment, config));
    if flags.output_format() == Format::StreamJson {
        // The first record says what holds.
        sandbox.try_ahead();
    }
    sandbox
}

/// Returns the working directory as the kernel knows it, or the one that a session
/// has of its own.
pub(super) fn working_directory(environment: &Environment) -> Result<PathBuf, Refusal> {
    if let Some(cwd) = &environment.cwd {
        return Ok(cwd.clone());
    }
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
    git::Program::find(environment.inherited.all(), &whole_workspace(roots))
}

/// Returns the directories that may not provide a program which tine starts itself:
/// these, and the repository around the first of them.
pub(super) fn whole_workspace(roots: &[PathBuf]) -> Vec<PathBuf> {
    let top = roots.first().and_then(|root| repository_root(root));
    roots.iter().cloned().chain(top).collect()
}

/// The same where there is no run, and so no other directory than this one.
/// Without it there is no workspace that could have brought a git along.
pub(super) fn git_here(environment: &Environment) -> git::Program {
    git(environment, working_directory(environment).ok().as_slice())
}

/// Says that there is no place for sessions.
pub(super) fn no_home() -> Refusal {
    Refusal::new(Exit::BadConfig, "there is no place for sessions: HOME is not set")
        .hint("set HOME, XDG_STATE_HOME or TINE_HOME, or run with `--no-session-persistence`")
}
