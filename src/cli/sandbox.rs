//! `tine sandbox`: a command, run in what an agent's commands run in.
//!
//! For people who want to see what a command can still do there, and for tests.
//! Also where the settings of a run's own sandbox come from.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::args::{RunFlags, SandboxFlags};
use super::exit::{Exit, Refusal};
use super::project::{self, Manner};
use super::{rules, signals, start};
use crate::config::{Config, Environment, dirs};
use crate::event::{Access, Confinement, NetworkAccess};
use crate::guard::sandbox::proxy::{self, Gatekeeper, NoConnection, Target};
use crate::guard::sandbox::{
    Awaited, Handover, NotPrepared, Place, Prepared, Ready, Sandbox, Settings, Tampered, What,
};
use crate::guard::{HostDecision, Policy};
use crate::reaper;
use crate::web::Web;

/// Maximum number of warnings about connections.
const WARNINGS_CAP: usize = 20;

/// Directories for temporary files if `TMPDIR` cannot be used, in order of preference.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Returns what the commands of a run are kept in.
pub(super) fn of(environment: &Environment, config: &Config) -> Sandbox {
    Sandbox::new(settings(environment, config))
}

/// Returns what the configuration says of it, for this machine.
pub(super) fn settings(environment: &Environment, config: &Config) -> Settings {
    let temporary = environment.temporary.clone();
    let scratch: Vec<PathBuf> = temporary.into_iter().chain(TEMPORARY.map(PathBuf::from)).collect();
    let home = environment.home.clone();
    let written = |path: &String| match (path.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => Some(home.join(rest)),
        (Some(_), None) => None,
        (None, _) => Some(PathBuf::from(path)),
    };
    let inherited = environment.inherited.without(&config.secret_variables());
    Settings {
        insistence: config.sandbox.mode,
        network: config.sandbox.network_access(),
        write: config.sandbox.write.iter().filter_map(written).collect(),
        own_files: dirs::config_file(environment)
            .into_iter()
            .chain(dirs::trust_file(environment).ok())
            .collect(),
        stubs: dirs::sandbox_root(environment)
            .unwrap_or_else(|_| scratch[0].join(format!("tine-sandbox-{}", nix::unistd::getuid()))),
        scratch,
        variables: inherited,
        home,
    }
}

/// Runs the command and ends as it did.
pub(super) fn run(
    environment: &Environment,
    flags: &RunFlags,
    wanted: &SandboxFlags,
) -> Result<Exit, Refusal> {
    let (config, _) = project::config(environment, flags, Manner::Tell)?;
    let sandbox = Arc::new(of(environment, &config));
    let directory = start::working_directory(environment)?;
    let (policy, _) = rules::policy(environment, &config, flags, (&directory, &sandbox))?;
    let bounds = policy.command_bounds();
    let mut roots = vec![directory.clone()];
    roots.extend(flags.add_dir.iter().cloned());
    let place = Place { directory: &directory, roots: &roots, bounds: &bounds };
    if wanted.policy == Access::Off {
        if wanted.network.is_proxied() {
            let message = "`--policy off` runs the command without a sandbox, so `--network` \
                           cannot limit its network";
            return Err(Refusal::new(Exit::Usage, message));
        }
        reaper::start_for_sandbox();
    }
    let prepared = sandbox
        .prepare(confinement(&sandbox, wanted), &place, &wanted.command)
        .map_err(|error| not_prepared(&error))?;
    let cannot = |error: io::Error| {
        let name = wanted.command[0].display();
        Refusal::new(Exit::Error, format!("cannot run `{name}`: {error}"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Prepared { ready, mut held } = prepared;
    let ended = CancellationToken::new();
    let web = start::web(&config, environment);
    let hosts = RuleGatekeeper {
        policy,
        network: wanted.network,
        ended: ended.clone(),
        web,
        told: Mutex::default(),
    };
    let handover = held.take_handover();
    let running = async {
        let to_the_end = async {
            let status = to_the_end(ready).await;
            ended.cancel();
            status
        };
        tokio::join!(to_the_end, serve(handover, &hosts, &ended)).0
    };
    let status = runtime.and_then(|runtime| {
        let status = runtime.block_on(running);
        // A name that is still being resolved is not waited for.
        runtime.shutdown_background();
        status
    });
    held.finish().iter().for_each(tell_tampered);
    status.map(exit).map_err(cannot)
}

/// Returns what was asked for, in the best there is.
fn confinement(sandbox: &Sandbox, wanted: &SandboxFlags) -> Confinement {
    let SandboxFlags { policy: access, network, backend, command: _ } = wanted;
    if *access == Access::Off {
        return Confinement::NONE;
    }
    let backend = backend.unwrap_or_else(|| sandbox.best());
    Confinement { backend, access: *access, network: *network }
}

fn not_prepared(error: &NotPrepared) -> Refusal {
    let refusal = |words: String| Refusal::new(Exit::Error, words);
    match error {
        NotPrepared::NoSandbox { bwrap, landlock } => {
            refusal(format!("there is no sandbox: {bwrap}; {landlock}"))
                .hint("install `bubblewrap`; `tine doctor` says more")
        }
        NotPrepared::Failed(error) => refusal(format!("the sandbox cannot be set up: {error}")),
    }
}

/// Warns of a change that no command may make.
fn tell_tampered(tampered: &Tampered) {
    let did = match tampered.what {
        What::Made => "made",
        What::Changed => "changed",
        What::Removed => "removed",
    };
    let now = if tampered.is_undone { "it is as it was again" } else { "look at it" };
    let kept =
        tampered.kept.as_ref().map(|kept| format!("; what stood there is in `{}`", kept.display()));
    super::say(&format!(
        "warning: `{}` was {did} while the command ran; {now}{}",
        tampered.path.display(),
        kept.unwrap_or_default(),
    ));
}

/// Decides about connections by the rules, without asking anyone.
struct RuleGatekeeper {
    policy: Policy,
    network: NetworkAccess,
    /// Fires when the command has ended.
    ended: CancellationToken,
    web: Web,
    /// Warnings so far about connections that were not made.
    told: Mutex<Vec<String>>,
}

impl RuleGatekeeper {
    async fn open(&self, Target { host, port }: Target) -> Result<TcpStream, NoConnection> {
        let refusal = match self.policy.decide_host(&host, self.network) {
            HostDecision::Allow => None,
            HostDecision::Ask(ask) => Some(ask.refusal()),
            HostDecision::Deny(reason) => Some(reason),
        };
        if let Some(why) = refusal {
            let why = format!("no connection to {host}: {why}");
            self.tell(&why);
            return Err(NoConnection::Refused(why));
        }
        let connected = tokio::select! {
            connected = self.web.connect(&host, port) => connected,
            () = self.ended.cancelled() => {
                return Err(NoConnection::Failed("the command has ended".to_owned()));
            }
        };
        connected.map_err(|error| {
            self.tell(&error.to_string());
            NoConnection::Failed(error.to_string())
        })
    }

    /// Tells each sentence once.
    fn tell(&self, why: &str) {
        let Ok(mut told) = self.told.lock() else { return };
        if told.len() < WARNINGS_CAP && !told.iter().any(|earlier| earlier == why) {
            super::say(&format!("warning: {why}"));
            told.push(why.to_owned());
        }
    }
}

impl Gatekeeper for RuleGatekeeper {
    fn connect(&self, target: Target) -> BoxFuture<'_, Result<TcpStream, NoConnection>> {
        Box::pin(self.open(target))
    }
}

/// Serves the command's connections until it has ended.
async fn serve(handover: Option<Handover>, hosts: &RuleGatekeeper, ended: &CancellationToken) {
    let Some(handover) = handover else { return };
    let listener = tokio::select! {
        () = ended.cancelled() => return,
        listener = handover.listener() => listener,
    };
    // Without a listener the command did not start, and has printed the reason.
    if let Ok(Some(listener)) = listener {
        proxy::serve(listener, hosts, ended).await;
    }
}

/// Runs a command to its end. It is asked to end when we are, and told to when
/// we are asked again.
async fn to_the_end(ready: Ready) -> io::Result<ExitStatus> {
    let mut asked = signals::listen()?;
    let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
    let running = ready.start([input.as_fd(), output.as_fd(), error.as_fd()])?;
    let mut command = Awaited::new(running)?;
    let mut signal = Signal::SIGTERM;
    loop {
        tokio::select! {
            status = command.wait() => return status,
            Some(_) = asked.recv() => {
                command.get_mut().signal(signal);
                signal = Signal::SIGKILL;
            }
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Exit::Command(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
