//! The worker's half: the repositories that it has made of states, a few of them, each
//! once.
//!
//! A worker's directory is its alone while it lives. In it `repositories/ID` is the
//! state of one commit, made under another name and renamed once it is whole;
//! `lanes/N` is what a slot works in; `runs/SESSION` has what the slots of a run leave
//! beside that; `kept` has what a person must look at.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use uuid::Uuid;

use super::lane::{Ground, Repository, Yard, locked};
use super::pack::hash;
use super::room::Disk;
use super::runs::{KEPT_FOR, RUNS, RunHold, Runs};
use super::{GroundError, ID_LENGTHS, PackedNames, StateNames, beside, io_error};
use crate::event::SessionId;
use crate::git::worktree::remove_directory;
use crate::git::{Program, bundle};

/// Most repositories that are kept for the next slots: a few projects, in a few states
/// each.
const KEPT_CAP: usize = 8;

/// How the names of repositories begin that are made or removed just now.
const PASSING: &str = "new-";

/// The file in a worker's directory that says whose it is, and that its worker locks.
const LOCK: &str = "tine-worker.lock";

/// What a worker has of the workspaces that it was told of.
#[derive(Debug)]
pub struct Grounds {
    program: Program,
    repositories: PathBuf,
    yard: Arc<Yard>,
    nothing: Arc<Ground>,
    runs: Arc<Runs>,
    /// The least recently used first.
    known: Mutex<Vec<Known>>,
    // The kernel gives it back when the process ends, however it ends.
    _lock: Flock<File>,
}

/// A repository that is there, or is being made.
#[derive(Debug)]
struct Known {
    base: String,
    cell: Arc<Cell>,
}

type Cell = OnceCell<Arc<Repository>>;

impl Known {
    fn is_idle(&self) -> bool {
        let is_held = |repository: &Arc<Repository>| Arc::strong_count(repository) > 1;
        Arc::strong_count(&self.cell) == 1 && !self.cell.get().is_some_and(is_held)
    }
}

impl Grounds {
    /// Takes a directory, makes it if it is missing, and removes what a worker left
    /// there that did not come to its end. It blocks as long as that takes.
    ///
    /// # Errors
    ///
    /// Another worker has it, it has somebody else's files in it, or it cannot be
    /// written.
    pub fn new(program: &Program, work_dir: &Path) -> Result<Self, GroundError> {
        make_private(work_dir)?;
        check_is_ours(work_dir)?;
        let work_dir = &work_dir.canonicalize().map_err(io_error(work_dir))?;
        let lock = lock(work_dir)?;
        let [repositories, lanes, kept] =
            ["repositories", "lanes", "kept"].map(|name| work_dir.join(name));
        remove_directory(&lanes).map_err(io_error(&lanes))?;
        for directory in [&repositories, &lanes, &kept] {
            make_private(directory)?;
        }
        let known = left_over(&repositories)?.into_iter();
        let known = known.map(|base| Known { base, cell: Arc::default() }).collect();
        let yard = Yard { disk: Disk::of(work_dir), lanes, kept, made: AtomicU64::new(0) };
        let yard = Arc::new(yard);
        Ok(Self {
            program: program.clone(),
            repositories,
            nothing: Arc::new(Ground::nothing(Arc::clone(&yard))),
            yard,
            runs: Arc::new(Runs::new(work_dir.join(RUNS))?),
            known: Mutex::new(known),
            _lock: lock,
        })
    }

    /// Returns the worker's directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.yard.disk.directory()
    }

    /// Returns how many bytes are free there; `None` if nobody can tell.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        self.yard.disk.free()
    }

    /// Makes a directory for the files of a workspace, which goes with its value or
    /// when the next worker starts.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn scratch(&self) -> Result<TempDir, GroundError> {
        let made = tempfile::Builder::new().prefix(PASSING).tempdir_in(&self.repositories);
        let made = made.map_err(io_error(&self.repositories));
        made.map_err(|error| self.yard.disk.explained(error))
    }

    /// Keeps what the slots of a run leave beside their copies where it is, in the
    /// directory [`RUNS`], by the session's name.
    pub fn hold_run(&self, session: &SessionId) -> RunHold {
        self.runs.hold(session)
    }

    /// Returns the workspace that a coordinator names, as slots find it.
    ///
    /// `fetch` is asked for the files that are missing, by their hashes; they are only
    /// read. Whoever asks for the same state meanwhile waits for the one that makes it.
    ///
    /// # Errors
    ///
    /// A file is missing or damaged, or no repository can be made of it.
    pub async fn open<F, E>(
        &self,
        names: &PackedNames,
        mut fetch: impl FnMut(Hash) -> F,
    ) -> Result<Arc<Ground>, GroundError>
    where
        F: Future<Output = Result<PathBuf, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let names = match names {
            PackedNames::Nothing => return Ok(Arc::clone(&self.nothing)),
            PackedNames::State(names) => names,
        };
        names.check()?;
        let StateNames { commit, base, bundles, name: _, below: _ } = names;
        let (mut repository, mut at) = (None, commit);
        for hash in bundles {
            let cell = self.cell(at);
            let history = repository.clone();
            let made = cell.get_or_try_init(|| self.make(at, history, *hash, &mut fetch)).await?;
            (repository, at) = (Some(Arc::clone(made)), base);
        }
        let repository = repository.expect("the names were checked, so there is a file");
        let ground = Arc::new(Ground::of(Arc::clone(&self.yard), repository, names));
        if let Err(error) = self.trim(KEPT_CAP).await {
            // That is no fault of this one.
            tracing::warn!("a repository cannot be removed: {}", crate::fleet::spelt(&error));
        }
        Ok(ground)
    }

    /// Returns the cell of a repository, which is now the most recently used one.
    fn cell(&self, base: &str) -> Arc<Cell> {
        let mut known = locked(&self.known);
        let found = known.iter().position(|known| known.base == base);
        let found = found.map(|at| known.remove(at));
        let found = found.unwrap_or_else(|| Known { base: base.to_owned(), cell: Arc::default() });
        let cell = Arc::clone(&found.cell);
        known.push(found);
        cell
    }

    /// Takes the repository that an earlier worker left, or makes it.
    async fn make<F, E>(
        &self,
        base: &str,
        history: Option<Arc<Repository>>,
        expected: Hash,
        fetch: &mut impl FnMut(Hash) -> F,
    ) -> Result<Arc<Repository>, GroundError>
    where
        F: Future<Output = Result<PathBuf, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let repository = Repository {
            program: self.program.clone(),
            path: self.repositories.join(base),
            base: base.to_owned(),
            history,
            free: Mutex::default(),
            spent: Mutex::default(),
            turn: Mutex::default(),
            lent: AtomicUsize::new(0),
            // An earlier worker may have left some.
            may_have_names: AtomicBool::new(true),
        };
        let taking = beside(move || take(&repository).map(|is_whole| (repository, is_whole)));
        let (repository, is_whole) = taking.await?;
        if is_whole {
            return Ok(Arc::new(repository));
        }
        let yard = Arc::clone(&self.yard);
        let file = fetch(expected).await.map_err(|error| {
            let error = GroundError::Fetch { hash: expected, source: error.into() };
            yard.disk.explained(error)
        })?;
        let new = self.repositories.join(format!("{PASSING}{}", Uuid::now_v7()));
        let making = beside(move || {
            if hash(&file)? != expected {
                return Err(GroundError::Damaged { hash: expected });
            }
            make(&repository, &new, &file).map_err(|error| {
                let error = yard.disk.explained(error);
                // The next worker removes what is left of it.
                let _ = remove_directory(&new);
                error
            })?;
            Ok(Arc::new(repository))
        });
        making.await
    }

    /// Keeps a patch where a person has to look at it, and returns its file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub async fn keep(&self, patch: Vec<u8>) -> Result<PathBuf, GroundError> {
        let yard = Arc::clone(&self.yard);
        beside(move || yard.keep(&patch).map_err(|error| yard.disk.explained(error))).await
    }

    /// Removes all that nobody uses at present: there is no room.
    ///
    /// # Errors
    ///
    /// Something cannot be removed.
    pub async fn shed(&self) -> Result<(), GroundError> {
        let nothing = Arc::clone(&self.nothing);
        beside(move || nothing.clear()).await;
        let left = self.clear_runs(Duration::ZERO).await;
        self.trim(0).await.and(left)
    }

    /// Removes what runs have left that have had no slot here for long.
    ///
    /// # Errors
    ///
    /// Something cannot be removed.
    pub async fn tidy(&self) -> Result<(), GroundError> {
        self.clear_runs(KEPT_FOR).await
    }

    async fn clear_runs(&self, idle: Duration) -> Result<(), GroundError> {
        let aside = self.runs.put_aside(idle);
        if aside.is_empty() {
            return Ok(());
        }
        let remove = |at: &PathBuf| remove_directory(at).map_err(io_error(at));
        // One that cannot be removed keeps none of the others.
        beside(move || aside.iter().map(remove).fold(Ok(()), Result::and)).await
    }

    /// Removes the repositories that were not used for the longest time, as long as
    /// there are more than `most` and nobody has them.
    async fn trim(&self, most: usize) -> Result<(), GroundError> {
        let (removed, renamed) = {
            let mut known = locked(&self.known);
            let (mut removed, mut all) = (Vec::new(), Ok(()));
            while known.len() > most {
                let Some(at) = known.iter().position(Known::is_idle) else { break };
                let Known { base, cell } = known.remove(at);
                let from = self.repositories.join(&base);
                let to = self.repositories.join(format!("{PASSING}{}", Uuid::now_v7()));
                // Under the lock: somebody may ask for it at once.
                match fs::rename(&from, &to) {
                    Ok(()) => removed.push((cell, to)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => all = Err(io_error(&from)(error)),
                }
            }
            (removed, all)
        };
        if removed.is_empty() {
            return renamed;
        }
        // One that cannot be removed keeps none of the others.
        let remove = |(cell, at): &(Arc<Cell>, PathBuf)| match cell.get() {
            Some(repository) => repository.discard(at),
            None => remove_directory(at).map_err(io_error(at)),
        };
        let removed = beside(move || removed.iter().map(remove).fold(Ok(()), Result::and)).await;
        renamed.and(removed)
    }
}

/// Tells whether a repository is there already. What is half a one goes.
fn take(repository: &Repository) -> Result<bool, GroundError> {
    let Repository { program, path, base, .. } = repository;
    if !path.is_dir() {
        return Ok(false);
    }
    if !bundle::holds(program, path, base) {
        remove_directory(path).map_err(io_error(path))?;
        return Ok(false);
    }
    // So that the next worker keeps it before others.
    let touched = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
    touched.map_err(io_error(path)).map(|()| true)
}

fn make(repository: &Repository, new: &Path, file: &Path) -> Result<(), GroundError> {
    let Repository { program, path, base, history, .. } = repository;
    let history = history.as_ref().map(|history| (&*history.path, &*history.base));
    bundle::unbundle(program, new, (file, base), history)?;
    match fs::rename(new, path) {
        // One whose slot went away meanwhile was made to its end, too.
        Err(_) if bundle::holds(program, path, base) => {
            remove_directory(new).map_err(io_error(new))
        }
        renamed => renamed.map_err(io_error(path)),
    }
}

/// Removes what is no whole repository, and what is known in the others of worktrees
/// that are gone. Returns the others' names, the least recently used first.
fn left_over(repositories: &Path) -> Result<Vec<String>, GroundError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(repositories).map_err(io_error(repositories))? {
        let path = entry.map_err(io_error(repositories))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(PASSING) {
            remove_directory(&path).map_err(io_error(&path))?;
        } else if ID_LENGTHS.contains(&name.len()) {
            let worktrees = path.join("worktrees");
            remove_directory(&worktrees).map_err(io_error(&worktrees))?;
            let used = fs::metadata(&path).and_then(|found| found.modified());
            found.push((used.map_err(io_error(&path))?, name));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

/// Refuses a directory that has things in it and in which no worker has worked: what
/// is called as our own directories are would be removed there.
fn check_is_ours(work_dir: &Path) -> Result<(), GroundError> {
    // An empty disk has that at its top.
    let is_thing = |name: &OsStr| name != "lost+found";
    let mut entries = fs::read_dir(work_dir).map_err(io_error(work_dir))?.flatten();
    let has_things = entries.any(|entry| is_thing(&entry.file_name()));
    match has_things && !work_dir.join(LOCK).is_file() {
        true => Err(GroundError::NotOurs { directory: work_dir.to_owned() }),
        false => Ok(()),
    }
}

fn lock(work_dir: &Path) -> Result<Flock<File>, GroundError> {
    let path = work_dir.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(io_error(&path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| GroundError::InUse { directory: work_dir.to_owned() })
}

pub(super) fn make_private(directory: &Path) -> Result<(), GroundError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(io_error(directory))
}
