//! `tine worker`: runs agents for others, who tell of them over NATS.

#[cfg(feature = "nats")]
pub mod kit;
#[cfg(feature = "nats")]
mod serving;

use super::args::{RunFlags, WorkerFlags};
use super::executor;
use super::exit::{Exit, Refusal};
#[cfg(feature = "nats")]
use super::print;
use crate::config::Environment;

/// Runs agents for others until it is told to end.
pub(super) fn run(
    environment: &Environment,
    flags: &RunFlags,
    wanted: &WorkerFlags,
) -> Result<Exit, Refusal> {
    executor::check_built("`tine worker`")?;
    serve(environment, flags, wanted)
}

#[cfg(feature = "nats")]
fn serve(
    environment: &Environment,
    flags: &RunFlags,
    wanted: &WorkerFlags,
) -> Result<Exit, Refusal> {
    let footing = kit::Footing::new(environment, flags, wanted)?;
    let runtime = print::runtime()?;
    let served = runtime.block_on(serving::serve(footing));
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    served
}

#[cfg(not(feature = "nats"))]
fn serve(_: &Environment, _: &RunFlags, _: &WorkerFlags) -> Result<Exit, Refusal> {
    executor::check_built("`tine worker`").map(|()| Exit::Done)
}
