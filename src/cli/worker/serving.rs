//! A worker at work, until a signal ends it.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::kit::{Footing, SlotKit};
use crate::cli::executor::reach::{connect, refusal};
use crate::cli::exit::{Exit, Refusal};
use crate::cli::start::git_here;
use crate::cli::{say, signals};
use crate::fanout::Pool;
use crate::fleet::ground::Grounds;
use crate::fleet::packet::Packet;
use crate::fleet::permits::Permits;
use crate::fleet::worker::{Outfit, Outfitted, Worker};
use crate::run::Signal;

/// Most characters of a machine's name in that of a worker.
const HOST_CAP: usize = 40;

/// Works for others until a signal says that it is enough.
pub(super) async fn serve(footing: Footing) -> Result<Exit, Refusal> {
    let mut signals = signals::listen()
        .map_err(|error| Refusal::new(Exit::Error, format!("cannot listen to signals: {error}")))?;
    let grounds = Grounds::new(&git_here(footing.environment()), &footing.work_dir);
    let grounds = grounds.map_err(|error| {
        let place = footing.work_dir.display();
        Refusal::new(Exit::BadInput, format!("cannot work in `{place}`: {error}"))
    })?;
    let name: Arc<str> = called().into();
    let engine = connect(&footing.meeting, &format!("tine worker {name}")).await?;
    let servers: Vec<String> = footing.meeting.servers.iter().map(ToString::to_string).collect();
    let most = footing.max_concurrent;
    say(&format!("worker {name} takes {most} agents at once from {}", servers.join(", ")));
    let labels = footing.labels.iter().map(|label| label.as_str().into()).collect();
    let footing = footing.permitted_by(Permits::new(engine.clone(), Arc::clone(&name)));
    let worker = Worker {
        engine,
        name,
        labels,
        pool: Pool::new(most),
        most: most.get(),
        grounds,
        outfit: Arc::new(Wardrobe(footing)),
        say: |text| say(&text),
    };
    let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
    let mut working = Box::pin(worker.work(drain.clone(), stop.clone()));
    let mut last = None;
    loop {
        tokio::select! {
            worked = &mut working => {
                worked.map_err(|error| refusal(&error))?;
                return Ok(last.map_or(Exit::Done, ended_by));
            }
            Some(signal) = signals.recv() => {
                if last.replace(signal).is_none() {
                    say(&"taking no more agents; a second signal ends those at work, too");
                    drain.cancel();
                } else {
                    stop.cancel();
                }
            }
        }
    }
}

/// A worker that was asked to end has done as it should.
fn ended_by(signal: Signal) -> Exit {
    match signal {
        Signal::Interrupt | Signal::Terminate | Signal::Hangup | Signal::OutputGone => Exit::Done,
    }
}

/// Returns what no other worker is called.
fn called() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let host: String = host.to_string_lossy().chars().filter(is_plain).take(HOST_CAP).collect();
    let random = Uuid::new_v4().simple().to_string();
    let host = if host.is_empty() { "worker" } else { &host };
    format!("{host}-{}", &random[..6])
}

/// What slots are run with on this machine.
struct Wardrobe(Footing);

impl Outfit for Wardrobe {
    fn outfit(&self, packet: &Packet, root: &Path, pool: &Pool) -> Result<Outfitted, String> {
        let kit = self.0.kit(packet, root, pool.clone()).map_err(|refusal| {
            // It is said of a slot, behind the name of the worker.
            let said = refusal.to_string();
            said.strip_prefix("error: ").unwrap_or(&said).to_owned()
        })?;
        let SlotKit { fanout, policy, tools, model: _ } = kit;
        Ok(Outfitted { fanout: Arc::new(fanout), tools, policy })
    }
}
