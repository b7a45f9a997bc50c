//! What a slot works in on a worker: a tree of its own, lent until it ends.
//!
//! A tree that nobody touched is lent again as it is. One that was touched is thrown
//! away, whatever is in it: ignored files, a bent `.git`, locked directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::room::Disk;
use super::runs::RunHold;
use super::{GroundError, PATCH_CAP, StateNames, beside, io_error};
use crate::git::worktree::{self, Linked, Snapshot, SnapshotGaps, make_place, remove_directory};
use crate::git::{Program, bundle};

/// Where lanes are put, for all grounds of a worker.
#[derive(Debug)]
pub(super) struct Yard {
    /// What all of it is on.
    pub(super) disk: Disk,
    /// The lanes, each in a directory that has its number.
    pub(super) lanes: PathBuf,
    /// What could not be read or sent.
    pub(super) kept: PathBuf,
    /// How many lanes were made.
    pub(super) made: AtomicU64,
}

impl Yard {
    /// Makes a directory for what a person has to look at.
    fn shelf(&self) -> Result<PathBuf, GroundError> {
        let shelf = self.kept.join(Uuid::now_v7().to_string());
        make_place(&shelf).map_err(io_error(&shelf)).map(|()| shelf)
    }

    /// Puts a patch where nobody removes it.
    pub(super) fn keep(&self, patch: &[u8]) -> Result<PathBuf, GroundError> {
        let file = self.shelf()?.join("changes.patch");
        fs::write(&file, patch).map_err(io_error(&file)).map(|()| file)
    }
}

/// A repository that was made of bundles, and its lanes.
#[derive(Debug)]
pub(super) struct Repository {
    pub(super) program: Program,
    pub(super) path: PathBuf,
    /// The commit that holds its state.
    pub(super) base: String,
    /// Whose objects it borrows: kept as long as it is.
    pub(super) history: Option<Arc<Repository>>,
    /// Those that nobody has touched, and where their slots stood.
    pub(super) free: Mutex<Vec<(Linked, PathBuf)>>,
    /// Those whose slots came to no end. They go before the next one is made.
    pub(super) spent: Mutex<Vec<Linked>>,
    /// Git trips over one worktree that comes or goes while another does.
    pub(super) turn: Mutex<()>,
    /// How many of its lanes slots have.
    pub(super) lent: AtomicUsize,
    /// Whether slots that had some may have made names, which all lanes share: the
    /// stash of one run is none of the next one's.
    pub(super) may_have_names: AtomicBool,
}

/// A workspace as slots find it, on a worker.
#[derive(Debug)]
pub struct Ground {
    pub(super) yard: Arc<Yard>,
    pub(super) origin: Origin,
}

#[derive(Debug)]
pub(super) enum Origin {
    /// An empty directory.
    Nothing {
        /// Those that are empty.
        free: Mutex<Vec<PathBuf>>,
        /// Those that may not be: their slots came to no end.
        spent: Mutex<Vec<PathBuf>>,
    },
    /// A state of a repository.
    State { repository: Arc<Repository>, snapshot: Snapshot },
}

/// A tree of a slot's own. One that is dropped is thrown away.
#[derive(Debug)]
#[must_use = "what was changed in a lane that is dropped is lost"]
pub struct Lane {
    ground: Arc<Ground>,
    /// `None` once it is given back.
    plot: Option<Plot>,
    root: PathBuf,
    /// Whose slot works there, once that is said.
    run: Option<RunHold>,
    // Goes after all else.
    _stay: Option<Stay>,
}

/// A lane of a repository that somebody has.
#[derive(Debug)]
struct Stay(Arc<Repository>);

#[derive(Debug)]
enum Plot {
    Directory(PathBuf),
    Linked(Linked),
}

/// What became of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// Nothing was changed.
    Unchanged,
    /// The whole change against the state, as a binary patch of git's.
    Changed(Vec<u8>),
    /// Files were left where no change can come from; they are gone.
    Dropped,
}

impl Finished {
    /// Returns the change, if there is one.
    #[must_use]
    pub fn patch(self) -> Option<Vec<u8>> {
        match self {
            Self::Changed(patch) => Some(patch),
            Self::Unchanged | Self::Dropped => None,
        }
    }
}

impl Ground {
    pub(super) fn nothing(yard: Arc<Yard>) -> Self {
        Self { yard, origin: Origin::Nothing { free: Mutex::default(), spent: Mutex::default() } }
    }

    pub(super) fn of(yard: Arc<Yard>, repository: Arc<Repository>, names: &StateNames) -> Self {
        let snapshot = Snapshot {
            top: names.name.clone(),
            below: names.below.clone(),
            repository: repository.path.clone(),
            base: repository.base.clone(),
            program: repository.program.clone(),
            // Those are the coordinator's, and not in what it has sent.
            gaps: SnapshotGaps::default(),
        };
        Self { yard, origin: Origin::State { repository, snapshot } }
    }

    /// Lends a tree: one that nobody has touched, without a call of git, or a new one.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub async fn lane(self: &Arc<Self>) -> Result<Lane, GroundError> {
        if !self.may_have_names()
            && let Some(plot) = self.untouched()
        {
            return Ok(self.lend(plot));
        }
        let ground = Arc::clone(self);
        // As a lane at once: one whose caller has gone meanwhile is given back.
        let making = move || {
            if let Err(error) = ground.clear_names() {
                // A lock that a killed git has left, say. Slots work beside them all the same.
                tracing::warn!("names that slots have made stay: {error}");
            }
            let plot = ground.untouched().map_or_else(|| ground.make(), Ok)?;
            Ok(ground.lend(plot))
        };
        beside(making).await
    }

    /// Tells whether slots may have made names where the next one would find them.
    fn may_have_names(&self) -> bool {
        match &self.origin {
            Origin::Nothing { .. } => false,
            Origin::State { repository, snapshot: _ } => {
                repository.may_have_names.load(Ordering::Relaxed)
            }
        }
    }

    /// Removes the names that slots have made, if none is at work with them.
    fn clear_names(&self) -> Result<(), GroundError> {
        let Origin::State { repository, snapshot: _ } = &self.origin else { return Ok(()) };
        let _turn = locked(&repository.turn);
        // Whoever had a lane has said before what may be there.
        let is_idle = repository.lent.load(Ordering::Acquire) == 0;
        if is_idle && repository.may_have_names.load(Ordering::Relaxed) {
            let cleared = bundle::clear_names(&repository.program, &repository.path);
            cleared.map_err(|error| self.failed(error))?;
            repository.may_have_names.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn lend(self: &Arc<Self>, plot: Plot) -> Lane {
        let root = match (&plot, &self.origin) {
            (Plot::Directory(path), _) => path.clone(),
            (Plot::Linked(linked), Origin::Nothing { .. }) => linked.tree.clone(),
            (Plot::Linked(linked), Origin::State { repository: _, snapshot }) => {
                // Without a slash at its end where nothing is below.
                linked.tree.components().chain(snapshot.below.components()).collect()
            }
        };
        let stay = match &self.origin {
            Origin::Nothing { .. } => None,
            Origin::State { repository, snapshot: _ } => Some(Stay::new(repository)),
        };
        Lane { ground: Arc::clone(self), plot: Some(plot), root, run: None, _stay: stay }
    }

    fn untouched(&self) -> Option<Plot> {
        match &self.origin {
            Origin::Nothing { free, spent: _ } => locked(free).pop().map(Plot::Directory),
            Origin::State { repository, snapshot } => {
                let mut free = locked(&repository.free);
                let name = worktree::tree_name(&snapshot.top);
                let fits = |(linked, below): &(Linked, PathBuf)| {
                    linked.tree.file_name() == Some(name) && *below == snapshot.below
                };
                let at = free.iter().position(fits)?;
                Some(Plot::Linked(free.swap_remove(at).0))
            }
        }
    }

    /// Removes empty directories that are not, since their slots came to no end.
    pub(super) fn clear(&self) {
        if let Origin::Nothing { free: _, spent } = &self.origin {
            for path in std::mem::take(&mut *locked(spent)) {
                // A new one comes in its place, so what is left of it is in nobody's way.
                let _ = remove_directory(&path);
            }
        }
    }

    /// Returns an error, and whether it is that of a full disk.
    fn failed(&self, error: impl Into<GroundError>) -> GroundError {
        self.yard.disk.explained(error.into())
    }

    fn make(&self) -> Result<Plot, GroundError> {
        self.clear();
        let number = self.yard.made.fetch_add(1, Ordering::Relaxed) + 1;
        let place = self.yard.lanes.join(number.to_string());
        let made = make_place(&place).map_err(io_error(&place));
        made.map_err(|error| self.failed(error))?;
        let Origin::State { repository, snapshot } = &self.origin else {
            return Ok(Plot::Directory(place));
        };
        let linked = {
            let _turn = locked(&repository.turn);
            repository.clear();
            worktree::link_bare(snapshot, &place, "a slot of tine works here").map_err(|error| {
                let error = self.failed(error);
                // As in `remove`.
                let _ = remove_directory(&place);
                error
            })?
        };
        let writing = self.yard.disk.writing();
        match linked.fill(snapshot) {
            Ok(()) => Ok(Plot::Linked(linked)),
            Err(error) => {
                let error = writing.explained(error.into());
                repository.remove(linked);
                Err(error)
            }
        }
    }
}

impl Lane {
    /// The same for a slot of this run, whose other files stay as long as it does.
    pub fn of_run(mut self, run: RunHold) -> Self {
        self.run = Some(run);
        self
    }

    /// Returns where its slot stands.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Tells whether the workspace is in it.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.ground.origin, Origin::State { .. })
    }

    /// Gives it back. `touched` tells whether anything may have been changed in it:
    /// if so, what differs from the state is looked for and the tree thrown away; if
    /// not, it is lent again as it is.
    ///
    /// # Errors
    ///
    /// What was changed cannot be read or is too much; the error tells where it is kept.
    pub async fn finish(mut self, touched: bool) -> Result<Finished, GroundError> {
        if !touched {
            self.give_back();
            return Ok(Finished::Unchanged);
        }
        beside(move || self.end()).await
    }

    fn give_back(&mut self) {
        match (self.plot.take(), &self.ground.origin) {
            (Some(Plot::Directory(path)), Origin::Nothing { free, spent: _ }) => {
                locked(free).push(path);
            }
            (Some(Plot::Linked(linked)), Origin::State { repository, snapshot }) => {
                locked(&repository.free).push((linked, snapshot.below.clone()));
            }
            (Some(Plot::Directory(_) | Plot::Linked(_)) | None, _) => {}
        }
    }

    fn end(mut self) -> Result<Finished, GroundError> {
        match (self.plot.take(), &self.ground.origin) {
            (Some(Plot::Linked(linked)), Origin::State { repository, snapshot: _ }) => {
                repository.may_have_names.store(true, Ordering::Relaxed);
                let read = self.read(&linked);
                // What is kept has been moved away by now, unless that failed.
                if !matches!(read, Err(GroundError::Io { .. })) {
                    repository.remove(linked);
                }
                read.map_err(|error| self.ground.failed(error))
            }
            (Some(Plot::Directory(path)), _) => {
                let is_empty = fs::read_dir(&path).is_ok_and(|mut found| found.next().is_none());
                // A new one comes in its place, so what is left of it is in nobody's way.
                let _ = remove_directory(&path);
                Ok(if is_empty { Finished::Unchanged } else { Finished::Dropped })
            }
            (Some(Plot::Linked(_)), Origin::Nothing { .. }) | (None, _) => Ok(Finished::Unchanged),
        }
    }

    /// Returns what was changed in a tree. If that cannot be told, the files are moved
    /// to where nobody removes them.
    fn read(&self, linked: &Linked) -> Result<Finished, GroundError> {
        let file = linked.place.with_extension("patch");
        let changes = linked.changes(&file);
        let size = fs::metadata(&file).map_or(0, |found| found.len());
        let read = match changes {
            Ok(changes) if changes.files.is_empty() => Ok(Finished::Unchanged),
            Ok(_) if size > PATCH_CAP => {
                self.keep(linked).and_then(|kept| Err(GroundError::LargePatch { kept }))
            }
            Ok(_) => fs::read(&file).map(Finished::Changed).map_err(io_error(&file)),
            Err(source) => {
                self.keep(linked).and_then(|kept| Err(GroundError::Unread { kept, source }))
            }
        };
        // There is none where nothing was changed.
        let _ = fs::remove_file(&file);
        read
    }

    fn keep(&self, linked: &Linked) -> Result<PathBuf, GroundError> {
        let shelf = self.ground.yard.shelf()?;
        let kept = shelf.join(linked.tree.file_name().unwrap_or_default());
        fs::rename(&linked.tree, &kept).map_err(io_error(&kept))?;
        Ok(kept)
    }
}

impl Stay {
    fn new(repository: &Arc<Repository>) -> Self {
        repository.lent.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(repository))
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.lent.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        match (self.plot.take(), &self.ground.origin) {
            (Some(Plot::Linked(linked)), Origin::State { repository, snapshot: _ }) => {
                repository.may_have_names.store(true, Ordering::Relaxed);
                // Removing it would block whoever drops this.
                locked(&repository.spent).push(linked);
            }
            (Some(Plot::Directory(path)), Origin::Nothing { free: _, spent }) => {
                locked(spent).push(path);
            }
            (Some(Plot::Directory(_) | Plot::Linked(_)) | None, _) => {}
        }
    }
}

impl Repository {
    /// Removes those whose slots came to no end. Only in turn.
    fn clear(&self) {
        let spent = std::mem::take(&mut *locked(&self.spent));
        for linked in spent {
            // As below.
            let _ = linked.remove();
        }
    }

    fn remove(&self, linked: Linked) {
        let _turn = locked(&self.turn);
        // Its number is not used again; what is left of it goes when the worker starts
        // anew.
        let _ = linked.remove();
    }

    /// Removes it with all lanes that nobody has.
    pub(super) fn discard(&self, from: &Path) -> Result<(), GroundError> {
        let free = std::mem::take(&mut *locked(&self.free)).into_iter().map(|(linked, _)| linked);
        let spent = std::mem::take(&mut *locked(&self.spent));
        for linked in free.chain(spent) {
            remove_directory(&linked.place).map_err(io_error(&linked.place))?;
        }
        remove_directory(from).map_err(io_error(from))
    }
}

/// What a lock holds is whole whenever anybody gets it.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
