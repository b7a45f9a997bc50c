//! Keeps the commands that a model runs in bounds.
//!
//! The guard says what a command may write; this finds what can hold it to
//! that on this machine, once and not before the first command, and turns a
//! command into one that runs within. `layout` is what a command sees, whoever
//! holds it; `bubblewrap` and `ruleset` are the two that do. Starting and ending
//! processes is left to whoever runs the command.

mod bubblewrap;
mod child;
mod detect;
mod filter;
mod kept;
mod layout;
mod namespace;
mod network;
pub mod proxy;
mod ruleset;
mod scratch;
pub(super) mod secrets;
mod start;
mod stubs;
mod variables;
mod warnings;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use thiserror::Error;

use crate::event::{Access, Backend, Confinement, NetworkAccess, SandboxHead};

use super::CommandBounds;

pub use detect::{NoBwrap, NoLandlock};
pub use namespace::Namespace;
pub use network::{Handover, NOT_STARTED, ran_as_starter};
pub use start::{Awaited, Ready, Running, Streams};
pub use variables::Variables;

pub use crate::event::Insistence;
pub use watch::{Tampered, What};

use child::Duties;
use filter::{Leave, Metadata};
use kept::{Hold, Kept};
use layout::Layout;
use network::StarterCommand;
use start::VariablesBy;
use warnings::WarningsGiven;
use watch::Watch;

/// What a run's commands are kept in bounds by.
#[derive(Debug, Default)]
pub struct Settings {
    /// How much a sandbox is insisted on.
    pub insistence: Insistence,
    /// Network access of commands that may write.
    pub network: NetworkAccess,
    /// More directories that may be written where the workspace may.
    pub write: Vec<PathBuf>,
    /// The user's home, some of which no command sees.
    pub home: Option<PathBuf>,
    /// Our own configuration, which no command sees or changes.
    pub own_files: Vec<PathBuf>,
    /// Where it is kept which stubs were made.
    pub stubs: PathBuf,
    /// Directories for the temporary directory of a command, if it needs one. The first one that
    /// can be written is used; if none can, tine's own next to `stubs`.
    pub scratch: Vec<PathBuf>,
    /// The environment.
    pub variables: Variables,
}

/// Where a command runs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Its working directory.
    pub directory: &'a Path,
    /// The directories that are the workspace.
    pub roots: &'a [PathBuf],
    /// Files that this command must not see or change, in addition to the usual ones.
    pub bounds: &'a CommandBounds,
}

impl Place<'_> {
    /// Returns the directories that may not provide a program which tine starts itself: the
    /// workspace, and the repositories around it.
    fn whole_workspace(&self) -> Vec<PathBuf> {
        let top = |root: &PathBuf| {
            let mut around = root.ancestors().map(Path::to_owned);
            around.find(|directory| directory.join(".git").symlink_metadata().is_ok())
        };
        self.roots.iter().cloned().chain(self.roots.iter().filter_map(top)).collect()
    }
}

/// What keeps the commands of a run in bounds.
#[derive(Debug, Default)]
pub struct Sandbox {
    settings: Settings,
    bwrap: Arc<OnceLock<Result<(), NoBwrap>>>,
    landlock: Arc<OnceLock<Result<i64, NoLandlock>>>,
    /// The result of trying a network namespace with the proxy.
    own_network: Arc<OnceLock<Result<(), String>>>,
    stubs: Kept,
    told: WarningsGiven,
}

/// Why a command cannot be run.
#[derive(Debug, Error)]
pub enum NotPrepared {
    /// There must be a sandbox, and there is none.
    #[error(
        "`sandbox.mode` is `required`, and there is no sandbox: {bwrap}; {landlock}. Install \
         `bubblewrap`, and see `tine doctor`"
    )]
    NoSandbox {
        /// Why not bubblewrap.
        bwrap: NoBwrap,
        /// Why not Landlock.
        landlock: NoLandlock,
    },
    /// What it needs could not be made.
    #[error("the sandbox could not be set up: {0}")]
    Failed(#[from] io::Error),
}

/// A command that is ready to be started.
#[derive(Debug)]
pub struct Prepared {
    /// What to start.
    pub ready: Ready,
    /// What it needs as long as it runs.
    pub held: Held,
}

/// What a command needs as long as it runs.
#[derive(Debug, Default)]
#[must_use = "what is dropped unfinished hides what a command did"]
pub struct Held {
    news: Option<PipeReader>,
    handover: Option<Handover>,
    stubs: Vec<Hold>,
    scratch: Option<tempfile::TempDir>,
    watch: Option<Watch>,
}

impl Held {
    /// Returns what [`Namespace`] is read from, if the command gets one.
    pub fn take_news(&mut self) -> Option<PipeReader> {
        self.news.take()
    }

    /// Returns the socket for the listener of the command's proxy, if it has one.
    pub fn take_handover(&mut self) -> Option<Handover> {
        self.handover.take()
    }

    /// Clears up after the command and everything that it started. Returns
    /// what it has changed although it must not.
    #[must_use = "somebody has to be told"]
    pub fn finish(self) -> Vec<Tampered> {
        let Self { news: _, handover: _, stubs, scratch, watch } = self;
        let tampered = watch.map(Watch::finish).unwrap_or_default();
        drop(stubs);
        drop(scratch);
        tampered
    }
}

impl Sandbox {
    /// A sandbox that is looked for when it is first needed.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Returns one with other settings on the same machine: what can be used here is
    /// tried out once.
    #[must_use]
    pub fn with(&self, settings: Settings) -> Self {
        let (bwrap, landlock) = (Arc::clone(&self.bwrap), Arc::clone(&self.landlock));
        let own_network = Arc::clone(&self.own_network);
        Self { settings, bwrap, landlock, own_network, ..Self::default() }
    }

    /// Removes what the commands of killed processes have left in workspaces.
    ///
    /// # Errors
    ///
    /// A file cannot be read or removed.
    pub fn clean_up(&self) -> io::Result<()> {
        stubs::clean_up(&self.settings.stubs)
    }

    /// Returns what holds commands here. The first time this tries it out,
    /// which takes some milliseconds.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.settings.insistence {
            Insistence::Off => Backend::None,
            Insistence::Required | Insistence::Best => self.best(),
        }
    }

    /// Tells whether bubblewrap can be used, and why not. The first time this
    /// tries it out.
    pub fn bwrap(&self) -> &Result<(), NoBwrap> {
        self.bwrap.get_or_init(|| detect::try_bwrap(&self.settings))
    }

    /// Returns the version of Landlock that can be used, and why none. The
    /// first time this tries it out.
    pub fn landlock(&self) -> &Result<i64, NoLandlock> {
        self.landlock.get_or_init(|| detect::try_landlock(&self.settings))
    }

    /// Returns whether commands here can have a network namespace with the proxy; the error is the
    /// reason if not. The first call tries it.
    pub fn own_network(&self) -> &Result<(), String> {
        self.own_network.get_or_init(|| match self.best() {
            Backend::None => Err("there is no sandbox".to_owned()),
            backend @ (Backend::Bwrap | Backend::Landlock) => {
                detect::try_own_network(&self.settings, backend)
            }
        })
    }

    /// Returns the best that there is here, wanted or not.
    #[must_use]
    pub fn best(&self) -> Backend {
        // What is not needed is not tried.
        if self.bwrap().is_ok() {
            Backend::Bwrap
        } else if self.landlock().is_ok() {
            Backend::Landlock
        } else {
            Backend::None
        }
    }

    /// Returns what is wanted and what is installed, for the log.
    ///
    /// No command is tried out: that would take longer than the rest of a start.
    #[must_use]
    pub fn head(&self) -> SandboxHead {
        let Settings { insistence: mode, network, .. } = self.settings;
        SandboxHead { mode, network, installed: detect::installed(&self.settings) }
    }

    /// Begins to try out what holds commands, on a thread of its own.
    pub fn try_ahead(self: &Arc<Self>) {
        let sandbox = Arc::clone(self);
        // Without a thread it is tried out when it is needed.
        let _ = std::thread::Builder::new().spawn(move || sandbox.backend());
    }

    /// Returns what is wanted and what holds commands, for the first record. The first time
    /// this tries it out.
    #[must_use]
    pub fn tried_head(&self) -> SandboxHead {
        match self.settings.insistence {
            Insistence::Off => self.head(),
            Insistence::Required | Insistence::Best => {
                SandboxHead { installed: self.best(), ..self.head() }
            }
        }
    }

    fn no_sandbox(&self) -> NotPrepared {
        match (self.bwrap(), self.landlock()) {
            (Err(bwrap), Err(landlock)) => {
                NotPrepared::NoSandbox { bwrap: bwrap.clone(), landlock: landlock.clone() }
            }
            (Ok(()), _) | (_, Ok(_)) => {
                let changed = "what was decided about the command holds no longer";
                NotPrepared::Failed(io::Error::other(changed))
            }
        }
    }

    /// Returns what holds a command that may write this much.
    ///
    /// [`Access::Off`] is for what a person has approved or told us not to ask
    /// about. Where a sandbox is required, it runs in the widest one.
    #[must_use]
    pub fn confinement(&self, access: Access) -> Confinement {
        let (access, network) = match (self.settings.insistence, access) {
            (Insistence::Off, _) | (Insistence::Best, Access::Off) => return Confinement::NONE,
            (Insistence::Required, Access::Off) => (Access::WorkspaceWrite, NetworkAccess::Shared),
            (_, Access::ReadOnly) => (Access::ReadOnly, NetworkAccess::None),
            (_, Access::WorkspaceWrite) => (Access::WorkspaceWrite, self.network()),
        };
        match (self.backend(), self.settings.insistence) {
            (Backend::None, Insistence::Best | Insistence::Off) => Confinement::NONE,
            // It is refused when it is about to run.
            (Backend::None, Insistence::Required) => {
                Confinement { backend: Backend::None, access, network }
            }
            (backend @ (Backend::Bwrap | Backend::Landlock), _) => {
                Confinement { backend, access, network }
            }
        }
    }

    /// Returns the network access of commands that may write: none if the proxy is configured and
    /// does not work here.
    fn network(&self) -> NetworkAccess {
        let network = self.settings.network;
        if network.is_proxied() && self.backend() != Backend::None && self.own_network().is_err() {
            return NetworkAccess::None;
        }
        network
    }

    /// Returns the shell that commands are written for: `bash`, or `sh` where
    /// there is none.
    #[must_use]
    pub fn shell(&self) -> &'static str {
        let usual = [Path::new("/bin"), Path::new("/usr/bin")].map(Path::to_owned);
        let path = self.settings.variables.path().unwrap_or_default();
        let mut directories = usual.into_iter().chain(std::env::split_paths(path));
        if directories.any(|directory| directory.join("bash").is_file()) { "bash" } else { "sh" }
    }

    /// Makes a command of a program and its arguments that runs as confined as
    /// this says.
    ///
    /// # Errors
    ///
    /// There is no sandbox although one is required, or it cannot be set up.
    pub fn prepare(
        &self,
        confinement: Confinement,
        place: &Place<'_>,
        program: &[OsString],
    ) -> Result<Prepared, NotPrepared> {
        let Confinement { backend, access, network } = confinement;
        let mut prepared = match (backend, access) {
            (Backend::Bwrap, _) => self.bubblewrapped(confinement, place, program)?,
            (Backend::Landlock, _) => self.landlocked(confinement, place, program)?,
            (Backend::None, Access::Off) => self.unconfined(place, program),
            (Backend::None, Access::ReadOnly | Access::WorkspaceWrite) => {
                return Err(self.no_sandbox());
            }
        };
        if backend != Backend::None {
            self.set_variables(&mut prepared, access, network, place);
        }
        Ok(prepared)
    }

    fn unconfined(&self, place: &Place<'_>, program: &[OsString]) -> Prepared {
        let ready = Ready::new(program, place.directory, Duties::default());
        let mut ready = ready.found_outside(&place.whole_workspace());
        ready.set_variables(self.settings.variables.all());
        Prepared { ready, held: Held::default() }
    }

    fn bubblewrapped(
        &self,
        Confinement { backend: _, access, network }: Confinement,
        place: &Place<'_>,
        program: &[OsString],
    ) -> Result<Prepared, NotPrepared> {
        let bwrap = bubblewrap::program()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, NoBwrap::NotInstalled))?;
        let mut layout = Layout::new(access, place, &self.settings);
        let stubs = self.stubs.hold(&self.settings.stubs, &layout.protected)?;
        layout.mask(stubs.iter().flat_map(Hold::directories));
        // Now that they are there, the others are mounted like everything else.
        layout.close_protected();
        let watch = Watch::unmountable(&layout, self.aside());
        let (filter_end, mut filter) = io::pipe()?;
        let sockets = network != NetworkAccess::None;
        let leave = Leave { network: sockets, metadata: Metadata::Any };
        // A pipe holds all of it.
        filter.write_all(&filter::bytes(&filter::program(leave)))?;
        let (news, news_end) = io::pipe()?;
        let handed =
            bubblewrap::Handed { filter: filter_end.as_raw_fd(), news: news_end.as_raw_fd() };
        let mut words = vec![OsString::from(bwrap)];
        words.extend(bubblewrap::arguments(&layout, place.directory, network, handed));
        let mut handed_on = vec![OwnedFd::from(filter_end), OwnedFd::from(news_end)];
        let mut handover = None;
        if network.is_proxied() {
            let start = StarterCommand::in_namespace()?;
            words.extend(start.words);
            handed_on.extend(start.handed_on);
            handover = Some(start.handover);
        }
        words.extend(program.iter().cloned());
        let duties = Duties { handed_on, ..Duties::default() };
        let held = Held { news: Some(news), handover, stubs, scratch: None, watch: Some(watch) };
        let ready = Ready::new(&words, place.directory, duties);
        let ready = ready.with_variables_by(VariablesBy::BubblewrapOptions);
        Ok(Prepared { ready, held })
    }

    fn landlocked(
        &self,
        Confinement { backend: _, access, network }: Confinement,
        place: &Place<'_>,
        program: &[OsString],
    ) -> Result<Prepared, NotPrepared> {
        let layout = Layout::new(access, place, &self.settings);
        let scratch = scratch::make(&self.settings)?;
        let sockets = network != NetworkAccess::None;
        let ruleset = ruleset::make(&layout, scratch.path(), sockets)?;
        let (metadata, watch) = match access {
            Access::ReadOnly | Access::Off => (Metadata::Nothing, None),
            Access::WorkspaceWrite => {
                let watch = Watch::everything(&layout, &self.settings.own_files, self.aside());
                (Metadata::ModesAndTimes, Some(watch))
            }
        };
        let filter = filter::program(Leave { network: sockets, metadata });
        let (mut words, duties, handover, by) = if network.is_proxied() {
            let start = StarterCommand::with_namespace(ruleset, &filter)?;
            let duties = Duties { handed_on: start.handed_on, ..Duties::default() };
            (start.words, duties, Some(start.handover), VariablesBy::Starter)
        } else {
            let duties = Duties { handed_on: Vec::new(), ruleset: Some(ruleset), filter };
            (Vec::new(), duties, None, VariablesBy::Environment)
        };
        words.extend(program.iter().cloned());
        let held = Held { news: None, handover, stubs: Vec::new(), scratch: Some(scratch), watch };
        // As bubblewrap does: a ruleset keeps no terminal away from those that have it.
        let ready = Ready::new(&words, place.directory, duties).with_variables_by(by);
        let ready = ready.leading_a_session();
        Ok(Prepared { ready, held })
    }

    /// Where that goes which no command may leave in a protected place.
    fn aside(&self) -> PathBuf {
        self.settings.stubs.with_file_name("set-aside")
    }

    fn set_variables(
        &self,
        prepared: &mut Prepared,
        access: Access,
        network: NetworkAccess,
        place: &Place<'_>,
    ) {
        let Prepared { ready, held } = prepared;
        let passed = self.settings.variables.passed(network == NetworkAccess::Shared);
        let mut variables: Vec<(OsString, OsString)> =
            passed.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let scratch = held.scratch.as_ref().map(tempfile::TempDir::path);
        let scratch = scratch.unwrap_or(Path::new(bubblewrap::SCRATCH));
        variables.retain(|(name, _)| name != "TMPDIR");
        variables.push(("TMPDIR".into(), scratch.into()));
        if network.is_proxied() {
            let proxy = network::variables().map(|(name, value)| (name.into(), value.into()));
            variables.extend(proxy);
        }
        // What runs unasked was judged by its name, so that name must not be
        // one of the workspace's own programs.
        if access == Access::ReadOnly
            && let Some((_, path)) = variables.iter_mut().find(|(name, _)| name == "PATH")
        {
            *path = outside(path, place.roots);
        }
        ready.set_variables(variables);
    }
}

/// Returns what of a search path is outside the workspace.
fn outside(path: &OsStr, roots: &[PathBuf]) -> OsString {
    let is_outside = |directory: &PathBuf| {
        directory.is_absolute() && !roots.iter().any(|root| directory.starts_with(root))
    };
    // Nothing that came out of a search path fails to go into one.
    std::env::join_paths(std::env::split_paths(path).filter(is_outside)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
