//! `tine workers`: who there is to run agents for others.

use super::args::{Format, RunFlags, WorkersFlags};
use super::executor;
use super::exit::{Exit, Refusal};
use super::project::{self, Manner};
use crate::config::{Environment, Meeting};

/// Lists the workers, for people or as one JSON object.
pub(super) fn run(
    environment: &Environment,
    flags: &RunFlags,
    wanted: &WorkersFlags,
) -> Result<Exit, Refusal> {
    executor::check_built("`tine workers`")?;
    let is_json = match flags.output_format() {
        Format::Text => false,
        Format::Json => true,
        Format::StreamJson => {
            return Err(Refusal::new(Exit::Usage, "workers are listed as text or as JSON")
                .hint("pass `--output-format json`"));
        }
    };
    let (config, _) = project::config(environment, flags, Manner::Tell)?;
    let meeting = executor::meeting(environment, &config, &wanted.connect)?;
    list(&meeting, is_json)
}

#[cfg(not(feature = "nats"))]
fn list(_: &Meeting, _: bool) -> Result<Exit, Refusal> {
    executor::check_built("`tine workers`").map(|()| Exit::Done)
}

#[cfg(feature = "nats")]
fn list(meeting: &Meeting, is_json: bool) -> Result<Exit, Refusal> {
    use super::executor::reach::{connect, refusal};
    use super::{print, session};
    use crate::fleet::worker::State;

    let runtime = print::runtime()?;
    let asked = runtime.block_on(async {
        let engine = connect(meeting, "tine workers").await?;
        engine.workers().await.map_err(|error| refusal(&error))
    });
    runtime.shutdown_timeout(print::SHUTDOWN_GRACE);
    let mut workers: Vec<(String, State)> = asked?
        .into_iter()
        .filter_map(|(name, state)| Some((name, State::decode(&state)?)))
        .collect();
    workers.sort_by(|one, other| one.0.cmp(&other.0));
    let text = if is_json { json(&workers) } else { text(&workers) };
    session::print_out(text.as_bytes(), is_json)?;
    Ok(Exit::Done)
}

#[cfg(feature = "nats")]
fn text(workers: &[(String, crate::fleet::worker::State)]) -> String {
    if workers.is_empty() {
        return "no worker is there; start one with `tine worker`\n".to_owned();
    }
    let longest = workers.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, state): &(String, crate::fleet::worker::State)| {
        let labels: Vec<&str> = state.labels.iter().map(|label| &**label).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("  {}", labels.join(", ")) };
        let drains = if state.is_draining { "  takes no more" } else { "" };
        let (running, most, version) = (state.running, state.most, &state.version);
        format!("{name:longest$}  {running} of {most}  tine {version}{labels}{drains}\n")
    };
    workers.iter().map(line).collect()
}

#[cfg(feature = "nats")]
fn json(workers: &[(String, crate::fleet::worker::State)]) -> String {
    let worker = |(name, state): &(String, crate::fleet::worker::State)| {
        serde_json::json!({
            "worker": name,
            "version": state.version,
            "labels": state.labels.iter().map(|label| &**label).collect::<Vec<_>>(),
            "max_concurrent": state.most,
            "running": state.running,
            "draining": state.is_draining,
        })
    };
    let workers: Vec<_> = workers.iter().map(worker).collect();
    format!("{}\n", serde_json::json!({ "workers": workers }))
}
