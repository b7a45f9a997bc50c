//! `tine sandbox`: a command, run in what an agent's commands run in.
//!
//! For people who want to see what a command can still do there, and for tests.
//! Also where the settings of a run's own sandbox come from.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::args::{RunFlags, SandboxFlags};
use super::exit::{Exit, Refusal};
use super::project::{self, Manner};
use super::{signals, start};
use crate::config::{Config, Environment, dirs};
use crate::event::{Access, Confinement};
use crate::guard::sandbox::{NotPrepared, Place, Prepared, Sandbox, Settings, What};

/// Where temporary files are if nobody says otherwise.
const TEMPORARY: &str = "/tmp";

/// Returns what the commands of a run are kept in.
pub(super) fn of(environment: &Environment, config: &Config) -> Sandbox {
    let scratch = environment.temporary.clone().unwrap_or_else(|| TEMPORARY.into());
    let home = environment.home.clone();
    let written = |path: &String| match (path.strip_prefix("~/"), &home) {
        (Some(rest), Some(home)) => Some(home.join(rest)),
        (Some(_), None) => None,
        (None, _) => Some(PathBuf::from(path)),
    };
    let inherited = environment.inherited.without(&config.secret_variables());
    Sandbox::new(Settings {
        insistence: config.sandbox.mode,
        network: config.sandbox.network,
        write: config.sandbox.write.iter().filter_map(written).collect(),
        own_files: dirs::config_file(environment)
            .into_iter()
            .chain(dirs::trust_file(environment).ok())
            .collect(),
        stubs: dirs::sandbox_root(environment)
            .unwrap_or_else(|_| scratch.join(format!("tine-sandbox-{}", nix::unistd::getuid()))),
        scratch,
        variables: inherited,
        home,
    })
}

/// Runs the command and ends as it did.
pub(super) fn run(
    environment: &Environment,
    flags: &RunFlags,
    wanted: &SandboxFlags,
) -> Result<Exit, Refusal> {
    let (config, _) = project::config(environment, flags, Manner::Tell)?;
    let sandbox = of(environment, &config);
    let directory = start::working_directory()?;
    let mut roots = vec![directory.clone()];
    roots.extend(flags.add_dir.iter().cloned());
    let place = Place { directory: &directory, roots: &roots };
    let prepared = sandbox
        .prepare(confinement(&sandbox, wanted), &place, &wanted.command)
        .map_err(|error| not_prepared(&error))?;
    let cannot = |error: std::io::Error| {
        let name = wanted.command[0].display();
        Refusal::new(Exit::Error, format!("cannot run `{name}`: {error}"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Prepared { command, held } = prepared;
    let status = runtime.and_then(|runtime| runtime.block_on(to_the_end(command)));
    for tampered in held.finish() {
        let did = match tampered.what {
            What::Made => "made",
            What::Changed => "changed",
            What::Removed => "removed",
        };
        let now = if tampered.is_undone { "it is as it was again" } else { "look at it" };
        super::say(&format!("warning: the command {did} `{}`; {now}", tampered.path.display()));
    }
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

/// Runs a command to its end. It is asked to end when we are, and told to when
/// we are asked again.
async fn to_the_end(command: std::process::Command) -> std::io::Result<ExitStatus> {
    let mut asked = signals::listen()?;
    let mut child = tokio::process::Command::from(command).spawn()?;
    let mut signal = Signal::SIGTERM;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            Some(_) = asked.recv() => {
                if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
                    // It may have just ended.
                    let _ = kill(Pid::from_raw(id), signal);
                }
                signal = Signal::SIGKILL;
            }
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    Exit::Command(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
