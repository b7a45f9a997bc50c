//! Where the tools of units work, and what every unit is told of it: the same
//! for a run and for a worker.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cli::exit::{Exit, Refusal};
use crate::config::{Config, Environment};
use crate::git;
use crate::guard::sandbox::Sandbox;
use crate::prompt;
use crate::run;
use crate::session::{Blobs, Spill};
use crate::tool::Workspace;
use crate::tool::files::Files;
use crate::tool::roots::Roots;
use crate::web::{Reach, Web};

/// What a workspace is made of.
pub(in crate::cli) struct Ground<'a> {
    /// The working directory, and others whose files may be edited.
    pub(in crate::cli) roots: &'a [PathBuf],
    /// Where texts go that are too long, and files as they were.
    pub(in crate::cli) directory: PathBuf,
    /// What commands are kept in.
    pub(in crate::cli) sandbox: Arc<Sandbox>,
    /// What our own calls of git run.
    pub(in crate::cli) git: git::Program,
}

/// Opens the directories in which tools work.
pub(in crate::cli) fn workspace(
    ground: Ground<'_>,
    config: &Config,
    environment: &Environment,
) -> Result<Workspace, Refusal> {
    let Ground { roots, directory, sandbox, git } = ground;
    let cannot = |error| {
        let message = format!("cannot open the working directories: {error}");
        Refusal::new(Exit::BadInput, message)
    };
    let (root, added) = roots.split_first().expect("a policy always has a working directory");
    Ok(Workspace {
        roots: Roots::open(roots.iter().map(PathBuf::as_path)).map_err(cannot)?,
        added: added.to_vec(),
        before: Blobs::of(&directory),
        spill: Spill { directory },
        files: Files::default(),
        sandbox,
        git,
        web: Arc::new(web(config, environment)),
        original: None,
        root: root.clone(),
    })
}

/// Returns what fetches pages.
pub(in crate::cli) fn web(config: &Config, environment: &Environment) -> Web {
    Web::new(Reach {
        allowed: config.web.allow_hosts.clone(),
        proxy: environment.proxy.clone(),
        no_proxy: environment.no_proxy.clone(),
    })
}

/// Returns the facts of the moment as every unit reads them.
pub(in crate::cli) fn facts(root: &Path, repository: Option<&Path>) -> String {
    let today = jiff::Zoned::now().date().to_string();
    prompt::environment(&prompt::Environment {
        cwd: root,
        is_repository: repository.is_some(),
        date: &today,
    })
}

/// Returns what another process is not likely to begin with at the same moment.
pub(in crate::cli) fn seed() -> u64 {
    run::now().0 ^ u64::from(std::process::id()).rotate_left(32)
}
