//! What the prompts of a session are made with: a model, tools, rules and a
//! system prompt, which a person may change from one prompt to the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::flow::{self, Beside};
use super::model::{Chosen, DefaultModel, Wanted, choose, reopened};
use super::review;
use super::slash::{self, Meant, Typed};
use super::start::Kept;
use crate::agent::Opening;
use crate::config::{Config, Effort, Environment, ModelChoice};
use crate::definition::Definitions;
use crate::event::SessionId;
use crate::fanout::Pool;
use crate::git;
use crate::guard::sandbox::Sandbox;
use crate::guard::{Mode, Policy};
use crate::hook::Hook;
use crate::mcp::Servers;
use crate::mcp::name::PREFIX;
use crate::message::{Placed, Prompt};
use crate::model::{Model, Models, offline};
use crate::run::{Invoked, Main};
use crate::skill::{Context, REVIEW, Skill, Skills};
use crate::telemetry::Exporter;
use crate::tool::{Registry, Task};

/// What the prompts of a session are made with.
#[derive(Clone)]
pub struct Kit {
    pub(super) flags: RunFlags,
    pub(super) config: Config,
    pub(super) environment: Environment,
    pub(super) models: Arc<Models>,
    pub(super) skills: Arc<Skills>,
    pub(super) definitions: Definitions,
    pub(super) sandbox: Arc<Sandbox>,
    /// What our own calls of git run.
    pub(super) git: git::Program,
    pub(super) root: PathBuf,
    pub(super) session: SessionId,
    /// Where the session is kept, or where texts go that are too long for a
    /// context.
    pub(super) directory: PathBuf,
    /// Whether the session is kept.
    pub(super) is_kept: bool,
    /// Which model answers, as hard as it thinks where no flag says anything.
    pub(super) choice: ModelChoice,
    /// The same for whoever has to know what answers by then.
    pub(super) answers: watch::Sender<ModelChoice>,
    pub(super) model: Arc<dyn Model>,
    pub(super) tools: Registry,
    /// The servers of more tools.
    pub(super) servers: Arc<Servers>,
    /// Who runs of the agents.
    pub(super) pool: Pool,
    /// What sends spans away.
    pub(super) exporter: Option<Exporter>,
    pub(super) policy: Policy,
    /// What is asked at certain moments.
    pub(super) hooks: Vec<Hook>,
    pub(super) system: String,
    /// The user's and the project's instructions, for every system prompt.
    pub(super) instructions: Arc<str>,
}

impl Kit {
    /// Returns what goes on in the next run of this process.
    pub(super) fn goes_on(&self) -> Kept {
        let (models, servers) = (Arc::clone(&self.models), Arc::clone(&self.servers));
        Kept { models, servers, pool: self.pool.clone(), exporter: self.exporter.clone() }
    }

    /// Returns what main is asked to do, with all of this from now on.
    pub(super) fn invoked(&self, typed: &str, main: impl Into<Main>) -> Invoked {
        self.answers.send_replace(self.choice.clone());
        Invoked {
            typed: typed.into(),
            message: None,
            main: main.into(),
            model: Arc::clone(&self.model),
            tools: self.tools.clone(),
            policy: Arc::new(self.policy.clone()),
            system: self.system.clone(),
        }
    }

    /// Finds out what a prompt means. A skill that is given a change runs git,
    /// which may take its time.
    pub(super) fn meaning(&self, prompt: &str, typed: Typed) -> Result<Main, Refusal> {
        // What servers offer is known only once they have answered.
        let is_served = |rest: &str| {
            let start = rest.get(..PREFIX.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
        };
        if prompt.strip_prefix('/').is_some_and(is_served) && !self.servers.is_empty() {
            return Ok(Opening::Prompt(prompt.into()).into());
        }
        let meant =
            slash::expand(prompt, typed, &self.skills, &self.directory, (&self.git, &self.root))?;
        let is_own = match &meant {
            Meant::Skill { skill, text } => {
                skill.name == REVIEW && !text.contains(offline::REVIEWERS)
            }
            Meant::Flow { skill, flow, words: _ } => {
                skill.name == REVIEW && *flow != Beside::Review
            }
            Meant::Typed | Meant::Command(_) => false,
        };
        if is_own && self.is_offline() {
            return Err(Refusal::new(
                Exit::BadInput,
                "the offline rules cannot follow this project's own `review` skill",
            )
            .hint("choose a model with `-m MODEL`; `tine doctor` says how to get one"));
        }
        Ok(match meant {
            Meant::Typed => Opening::Prompt(prompt.into()).into(),
            Meant::Skill { skill, text } => self.opening_of(skill, prompt, &text)?.into(),
            Meant::Flow { skill, flow: Beside::Review, words } if self.is_offline() => {
                review::by_rules(self, words)?;
                let around = (&self.git, &*self.root);
                let text = skill.expand(words, &self.directory, around);
                let text = text.map_err(|error| slash::refusal(&error))?;
                self.opening_of(skill, prompt, &text)?.into()
            }
            Meant::Flow { skill, flow, words } => flow::main_of(self, (skill, &flow), words)?,
            Meant::Command(opening) => opening.into(),
        })
    }

    /// Tells whether fixed rules answer, and no model.
    pub(super) fn is_offline(&self) -> bool {
        matches!(self.choice, ModelChoice::Offline)
    }

    /// Puts images into what a prompt begins with, where they stand in it. A
    /// skill's own words have no place for them: there they come last.
    pub(super) fn showing(&self, main: Main, images: Arc<[Placed]>) -> Result<Main, Refusal> {
        if images.is_empty() {
            return Ok(main);
        }
        if !self.model.facts().takes_images {
            let name = self.model.name();
            return Err(Refusal::new(
                Exit::BadInput,
                format!("the model `{name}` takes no images, and the message has one"),
            )
            .hint("choose another with `-m MODEL`; `images = true` beside a model in `config.toml` says that it takes them"));
        }
        let Main::Conversation(opening) = main else { return Err(takes_no_images()) };
        match opening {
            Opening::Prompt(prompt) => Ok(Opening::Prompt(Prompt { images, ..prompt }).into()),
            Opening::Skill { prompt, followed } => {
                let shown = images.iter().map(|placed| placed.image.clone().into());
                let prompt = Prompt::joined([prompt].into_iter().chain(shown));
                Ok(Opening::Skill { prompt, followed }.into())
            }
            Opening::Agent { .. }
            | Opening::Fork { .. }
            | Opening::Batch { .. }
            | Opening::Compact { hint: _ }
            | Opening::News => Err(takes_no_images()),
        }
    }

    /// Returns what using a skill begins with: `text` is what it says now.
    fn opening_of(&self, skill: &Skill, prompt: &str, text: &str) -> Result<Opening, Refusal> {
        let agent = match &skill.context {
            Context::Inline => {
                return Ok(Opening::Skill {
                    prompt: text.into(),
                    followed: Arc::clone(&skill.followed),
                });
            }
            Context::Fork { agent, is_background: _ } => agent,
        };
        let definition = self.definitions.find(agent).ok_or_else(|| {
            let message = format!("the skill `{}` names no agent there is: `{agent}`", skill.name);
            Refusal::new(Exit::BadInput, message)
                .hint(format!("there are: {}", self.definitions.names().join(", ")))
        })?;
        let mut task = Task::of_skill(skill, &definition.name, text);
        task.is_background |= definition.is_background;
        Ok(Opening::Agent { task, request: prompt.into() })
    }

    /// Has another model answer from the next prompt on; without a name, the one
    /// that is configured.
    pub(super) fn set_model(&mut self, name: Option<&str>) -> Result<(), Refusal> {
        self.set_model_and_effort(name, self.flags.effort.clone())
    }

    /// The same for a model that is to think as hard as this; without a word for
    /// that, as it does by itself.
    pub(super) fn set_model_and_effort(
        &mut self,
        name: Option<&str>,
        effort: Option<Effort>,
    ) -> Result<(), Refusal> {
        let wanted = Wanted {
            flag: name,
            agent: None,
            before: None,
            default_model: DefaultModel::None,
            effort: effort.as_ref(),
        };
        let chosen = choose(&self.environment, &self.config, &wanted, &self.models)?;
        let Chosen { choice, model, note: _ } = chosen;
        (self.flags.model, self.flags.effort) = (name.map(str::to_owned), effort);
        (self.choice, self.model) = (choice, model);
        Ok(())
    }

    /// Returns what to say of a limit of money that cannot hold with this model.
    pub(super) fn price_warning(&self) -> Option<String> {
        super::start::price_warning(&self.flags, &*self.model)
    }

    /// Has models think as hard as this from the next prompt on; without a word
    /// for that, as each does by itself.
    pub(super) fn set_effort(&mut self, effort: Option<Effort>) -> Result<(), Refusal> {
        let choice = self.choice.clone().with_effort(effort.as_ref());
        (self.model, self.flags.effort) = (reopened(&choice, &self.models)?, effort);
        Ok(())
    }

    /// Returns where the model's key comes from, in a word.
    pub(super) fn key_source(&self) -> &str {
        match &self.choice {
            ModelChoice::Offline | ModelChoice::Scripted(_) => "none",
            ModelChoice::Server(server) => server.key_source.as_str(),
        }
    }

    /// Changes how much runs without a rule, from the next call on of whatever
    /// unit works.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        (self.flags.permission_mode, self.flags.dangerously_skip_permissions) = (Some(mode), false);
        self.policy.set_mode(mode);
    }

    /// Tells whether rows of the terminal may change once they are written. What
    /// `--debug` writes would tear them.
    pub(super) fn has_screen(&self) -> bool {
        !self.environment.is_dumb_terminal
            && self.flags.debug.is_none()
            && !self.flags.ax_screen_reader
            && !self.config.chat.screen_reader
    }

    /// Returns where the session is kept.
    pub(super) fn kept(&self) -> Result<&Path, Refusal> {
        match self.is_kept {
            true => Ok(&self.directory),
            false => Err(Refusal::new(Exit::BadInput, "this session is not kept")
                .hint("it is without `--no-session-persistence` and `session.persist = false`")),
        }
    }
}

fn takes_no_images() -> Refusal {
    let message = "images are for the conversation itself, and this command takes none";
    Refusal::new(Exit::BadInput, message).hint("send the image in a message of its own first")
}
