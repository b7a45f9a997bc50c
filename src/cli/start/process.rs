//! What a run is given by its process: what goes on from one run to the next or
//! serves several side by side, and what a program that drives it brings along.

use std::sync::Arc;

use crate::cli::args::RunFlags;
use crate::cli::debug;
use crate::cli::exit::Refusal;
use crate::cli::project::{Manner, Trusted};
use crate::cli::recordings;
use crate::cli::servers::{self, Carried};
use crate::cli::telemetry;
use crate::config::{Config, Environment, dirs};
use crate::fanout::Pool;
use crate::hook::Hook;
use crate::mcp::Servers;
use crate::model::Models;
use crate::model::http::exchange::Exchanges;
use crate::telemetry::Exporter;
use crate::tool::Aliases;

/// What goes on from one run of a process to the next.
#[derive(Clone)]
pub(in crate::cli) struct Kept {
    /// Those that were asked.
    pub(in crate::cli) models: Arc<Models>,
    /// Those that were started.
    pub(in crate::cli) servers: Arc<Servers>,
    /// Who runs of all their agents.
    pub(in crate::cli) pool: Pool,
    /// What sends spans away, if anything does.
    pub(in crate::cli) exporter: Option<Exporter>,
}

/// What a program that drives a run brings along that no flag could say.
#[derive(Clone, Default)]
pub(in crate::cli) struct Brought {
    /// Callbacks that it wants to be asked.
    pub(in crate::cli) hooks: Vec<Hook>,
    /// The servers of tools that it carries.
    pub(in crate::cli) servers: Vec<Carried>,
    /// Which tools run in place of others.
    pub(in crate::cli) aliases: Aliases,
}

/// What a run is given by its process.
pub(super) struct Process {
    pub(super) kept: Option<Kept>,
    pub(super) brought: Option<Brought>,
    pub(super) manner: Manner,
}

impl Default for Process {
    fn default() -> Self {
        Self { kept: None, brought: None, manner: Manner::MayAsk }
    }
}

impl Process {
    /// Returns what goes on from one run of the process to the next, and the
    /// hooks of a program that drives it.
    pub(super) fn parts(
        self,
        surroundings: &recordings::Surroundings<'_>,
        config: &Config,
        flags: &RunFlags,
        trusted: &Trusted,
    ) -> Result<(Kept, Vec<Hook>), Refusal> {
        let Self { kept, brought, manner: _ } = self;
        let recordings::Surroundings { environment, root, .. } = *surroundings;
        debug::hide_environment(environment);
        debug::hide_configured(config, environment);
        let is_new = kept.is_none() || brought.is_some();
        let Brought { hooks, servers: carried, aliases: _ } = brought.unwrap_or_default();
        let servers = || {
            let servers = servers::servers((environment, config), flags, (trusted, root), &carried);
            servers.map(Arc::new)
        };
        let kept = match kept {
            Some(kept) if is_new => Kept { servers: servers()?, ..kept },
            Some(kept) => kept,
            None => Kept {
                models: Arc::new(models(
                    recordings::exchanges(flags, surroundings)?,
                    config,
                    environment,
                )),
                servers: servers()?,
                pool: Pool::new(config.agents.max_concurrent),
                exporter: telemetry::exporter(environment),
            },
        };
        Ok((kept, hooks))
    }
}

/// Returns the models of a process, which remember what their servers refuse
/// unless nothing of a session is to be kept.
fn models(exchanges: Exchanges, config: &Config, environment: &Environment) -> Models {
    let models = Models::new(exchanges);
    let file = dirs::adaptations_file(environment).ok().filter(|_| config.session.persist);
    match file {
        Some(file) => models.remembering(&file),
        None => models,
    }
}
