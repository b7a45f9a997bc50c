//! The coordinator's half: the state of its workspace, in files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blake3::{Hash, Hasher};

use super::stored::{Content, Stored};
use super::{
    BUNDLE_CAP, GroundError, Packed, PackedFile, PackedState, StateNames, beside, io_error,
};
use crate::git::bundle::{NotBundled, Settled, bundle, settle};
use crate::git::worktree::{snapshot, tree_name};
use crate::git::{GitError, Program};

/// Packs the state of the workspace at `root` into files in `scratch`: HEAD with its
/// history, and what is not committed, untracked files too. Ignored files, submodules
/// and what filters put in place of a file (as of LFS) stay behind, as they do for a
/// local worktree. No file is made of what is stored; the others go with what this
/// returns.
///
/// The same state has the same names whenever it is packed, and the history of the
/// same commit the same file.
///
/// # Errors
///
/// The workspace is too large for workers, or its state cannot be read. Being in no
/// repository is [`Packed::Nothing`].
pub async fn pack(
    program: &Program,
    root: &Path,
    scratch: &Path,
    stored: &Stored,
) -> Result<Packed, GroundError> {
    let (program, root, scratch) = (program.clone(), root.to_owned(), scratch.to_owned());
    let stored = stored.clone();
    beside(move || pack_now(&program, &root, &scratch, &stored)).await
}

fn pack_now(
    program: &Program,
    root: &Path,
    scratch: &Path,
    stored: &Stored,
) -> Result<Packed, GroundError> {
    fs::create_dir_all(scratch).map_err(io_error(scratch))?;
    let scratch = &scratch.canonicalize().map_err(io_error(scratch))?;
    let place = tempfile::tempdir_in(scratch).map_err(io_error(scratch))?;
    let state = match snapshot(program, root, place.path()) {
        Err(GitError::NotARepository { path: _ }) => return Ok(Packed::Nothing),
        state => settle(state?)?,
    };
    let (mut files, mut bundles) = (Vec::new(), Vec::new());
    // The history last, so that it is not made in vain where the rest is too large.
    for (part, tip) in state.parts().into_iter().rev() {
        let content = Content { part, tip: tip.to_owned() };
        if let Some(hash) = stored.hash(&content) {
            bundles.push(hash);
            continue;
        }
        let path = bundle(&state, part, place.path(), BUNDLE_CAP).map_err(|error| match error {
            NotBundled::LongHistory { commit: _ } => GroundError::LongHistory,
            NotBundled::LargeChange => GroundError::LargeChange,
            NotBundled::Git(error) => error.into(),
        })?;
        let hash = hash(&path)?;
        files.push(PackedFile { content, hash, path });
        bundles.push(hash);
    }
    bundles.reverse();
    let Settled { snapshot, commit } = state;
    let names = StateNames {
        commit,
        base: snapshot.base.clone(),
        name: PathBuf::from(tree_name(&snapshot.top)),
        below: snapshot.below.clone(),
        bundles,
    };
    let (snapshot, place) = (Arc::new(snapshot), Arc::new(place));
    Ok(Packed::State(PackedState { names, files, snapshot, _place: place }))
}

/// Returns the hash of a file.
pub(super) fn hash(file: &Path) -> Result<Hash, GroundError> {
    let mut hasher = Hasher::new();
    let read = File::open(file).and_then(|file| hasher.update_reader(file).map(drop));
    read.map_err(io_error(file))?;
    Ok(hasher.finalize())
}
