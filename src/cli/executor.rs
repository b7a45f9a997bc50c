//! Who runs agents: what flags and configuration say together, and whether this
//! tine can do it.

#[cfg(feature = "nats")]
pub(super) mod reach;

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};

use super::args::RunFlags;
use super::exit::{Exit, Refusal};
use super::kit::Kit;
use crate::config::{Config, Environment, ExecutorKind, Meeting};
use crate::fanout::{Limits, Local, SlotExecutor};

/// Whether there is a client of NATS in this tine.
const HAS_NATS: bool = cfg!(feature = "nats");

/// Finds out who runs the agents of a run.
pub(super) fn kind(flags: &RunFlags, config: &Config) -> Result<ExecutorKind, Refusal> {
    let kind = flags.fleet.executor.unwrap_or(config.executor.kind);
    match kind {
        ExecutorKind::Local => {}
        ExecutorKind::Nats => check_built("the executor `nats`")?,
    }
    Ok(kind)
}

/// Returns what runs the agents of a run.
pub(super) fn open(kit: &Kit, limits: Limits) -> Result<Arc<dyn SlotExecutor>, Refusal> {
    match kind(&kit.flags, &kit.config)? {
        ExecutorKind::Local => Ok(Arc::new(Local)),
        ExecutorKind::Nats => reach(kit, limits),
    }
}

#[cfg(not(feature = "nats"))]
fn reach(_: &Kit, _: Limits) -> Result<Arc<dyn SlotExecutor>, Refusal> {
    check_built("the executor `nats`").map(|()| Arc::new(Local) as Arc<dyn SlotExecutor>)
}

#[cfg(feature = "nats")]
use reach::reach;

/// Refuses what needs NATS where tine was built without it.
pub(super) fn check_built(what: &str) -> Result<(), Refusal> {
    if HAS_NATS {
        return Ok(());
    }
    let message = format!("this tine was built without the `nats` feature, which {what} needs");
    Err(Refusal::new(Exit::Usage, message)
        .hint("build it with `cargo install --path . --locked`, without `--no-default-features`"))
}

/// Finds out where runs and workers meet. What must not be shown of it is in no
/// line from now on.
pub(super) fn meeting(
    environment: &Environment,
    config: &Config,
    connect: &[SecretString],
) -> Result<Meeting, Refusal> {
    let servers: Vec<&str> = connect.iter().map(SecretString::expose_secret).collect();
    let meeting = Meeting::new(&config.executor.nats, &servers, environment.home.as_deref());
    let meeting = meeting.map_err(|error| Refusal::new(Exit::Usage, error.to_string()))?;
    super::debug::hide_servers(&meeting.servers);
    Ok(meeting)
}
