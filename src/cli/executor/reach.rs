//! Reaching workers: the connection, and what a run has them know.

use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use crate::cli::exit::{Exit, Refusal};
use crate::cli::kit::Kit;
use crate::cli::say;
use crate::cli::start::repository_root;
use crate::config::{Meeting, Nats};
use crate::fanout::{Limits, SlotExecutor};
use crate::fleet::engine::{Engine, EngineError, Settings, Tls};
use crate::fleet::packet::{Bounds, Packet};
use crate::fleet::{Fleet, Load};
use crate::git::worktree::remove_directory;

/// The file beside a session's log that says what its run was last called where
/// workers are met.
const CALLED: &str = "workers-run";

/// Meets workers for a run. It must be called on one of the runtime's threads.
pub(super) fn reach(kit: &Kit, limits: Limits) -> Result<Arc<dyn SlotExecutor>, Refusal> {
    refuse_hooks(kit)?;
    let meeting = super::meeting(&kit.environment, &kit.config, &[])?;
    let run: Arc<str> = called(kit).into();
    let bundles = kit.directory.join("bundles");
    // What a process that was killed has left of this session. What cannot be removed is
    // in nobody's way.
    let _ = remove_directory(&bundles);
    let load = Load::new(packet(kit, limits), &*kit.model, &bundles);
    let opening = async {
        let engine = connect(&meeting, &format!("tine {}", kit.session)).await?;
        let before = kit.directory.join(CALLED);
        if kit.is_kept {
            forget(&engine, &before).await;
            keep(&before, &run)?;
        }
        let Nats { label, max_concurrent: most, .. } = &kit.config.executor.nats;
        let run = (run, label.as_deref().map(Into::into));
        let fleet = Fleet::open(engine, run, load, Arc::clone(&kit.models), *most).await;
        fleet.map_err(|error| refusal(&error))
    };
    let fleet =
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(opening))?;
    warn(kit);
    Ok(Arc::new(fleet))
}

/// Says what agents on workers will not have.
fn warn(kit: &Kit) {
    if repository_root(&kit.root).is_none() {
        say(&"warning: this is no repository, so agents on workers see no files of it, and what \
              they write is dropped");
    }
    if !kit.servers.is_empty() {
        say(&"warning: agents on workers have none of the tools of servers");
    }
}

/// Connects to where runs and workers meet.
pub(in crate::cli) async fn connect(meeting: &Meeting, name: &str) -> Result<Engine, Refusal> {
    Engine::connect(&settings(meeting), name).await.map_err(|error| refusal(&error))
}

/// Says what is wrong where runs and workers meet.
pub(in crate::cli) fn refusal(error: &EngineError) -> Refusal {
    let text = error.to_string();
    match text.split_once("\nhint: ") {
        Some((message, hint)) => Refusal::new(Exit::BadConfig, message).hint(hint),
        None => Refusal::new(Exit::BadConfig, text),
    }
}

fn settings(meeting: &Meeting) -> Settings {
    let Meeting { servers, prefix, credentials, ca, identity, lease, replicas } = meeting;
    let (certificate, key) = identity.clone().unzip();
    let has_tls = ca.is_some() || identity.is_some();
    Settings {
        servers: servers.iter().map(|it| it.with_secrets().to_owned()).collect(),
        prefix: prefix.clone(),
        credentials: credentials.clone(),
        tls: has_tls.then(|| Tls { ca: ca.clone(), certificate, key }),
        lease: *lease,
        replicas: replicas.map(|count| usize::from(count.get())),
    }
}

/// A hook that denies a call here would not be asked there.
fn refuse_hooks(kit: &Kit) -> Result<(), Refusal> {
    if kit.hooks.is_empty() {
        return Ok(());
    }
    let message = "hooks are set, and workers ask none: what they forbid would be done there";
    Err(Refusal::new(Exit::BadConfig, message)
        .hint("pass `--executor local`, or take the hooks out of the settings"))
}

/// Returns what a run is called where workers are met: another process of the same
/// session is another run.
fn called(kit: &Kit) -> String {
    let random = Uuid::new_v4().simple().to_string();
    format!("{}-{}", kit.session, &random[..8])
}

/// Takes what an earlier process of the session left from the queue, and stops what
/// is still at work for it.
async fn forget(engine: &Engine, before: &Path) {
    let Ok(run) = std::fs::read_to_string(before) else { return };
    let gone = async { tokio::try_join!(engine.stop(&run, None), engine.withdraw_run(&run)) };
    if let Err(error) = gone.await {
        // Workers find by themselves that nobody wants it.
        tracing::warn!("what an earlier process left cannot be withdrawn: {error}");
    }
}

fn keep(file: &Path, run: &str) -> Result<(), Refusal> {
    std::fs::write(file, run).map_err(|error| {
        Refusal::new(Exit::Error, format!("cannot write `{}`: {error}", file.display()))
    })
}

/// Returns what all slots of a run share.
fn packet(kit: &Kit, limits: Limits) -> Packet {
    let root = kit.root.canonicalize().unwrap_or_else(|_| kit.root.clone());
    Packet {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        session: kit.session.clone(),
        root,
        definitions: kit.definitions.clone(),
        skills: (*kit.skills).clone(),
        instructions: kit.instructions.to_string(),
        limits,
        bounds: Bounds::of(&kit.config),
        workspace: None,
        model: kit.model.name().to_string(),
        effort: kit.flags.effort.clone(),
        fallbacks: kit.flags.fallback_model.clone(),
        is_money_limited: kit.flags.max_budget_usd.is_some(),
    }
}
