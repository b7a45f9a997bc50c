//! Copies of the workspace, and what each path in them is a copy of.
//!
//! A rule that names a file by its whole path means the file, wherever a unit
//! works on a copy of it: what is denied or asked about there is so here. What
//! is allowed there is not: a copy gives nothing. The original may be on
//! another machine; then its path is compared as it is, since links here say
//! nothing about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::paths;

/// Copies that stand in each other's place, the innermost last.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    here: Arc<[Copy]>,
    /// Those whose originals are on another machine.
    elsewhere: Arc<[Copy]>,
}

#[derive(Debug, Clone)]
struct Copy {
    original: PathBuf,
    copy: PathBuf,
}

impl Copies {
    /// Returns the same, and one of `original` at `copy`.
    pub(super) fn and(&self, original: &Path, copy: &Path) -> Self {
        let last = Copy { original: real(original), copy: real(copy) };
        Self { here: self.here.iter().cloned().chain([last]).collect(), ..self.clone() }
    }

    /// Returns the same, and one of another machine's `original` at `copy`, which
    /// was a copy there itself: of these, the innermost last. Their paths have
    /// been followed there.
    pub(super) fn and_elsewhere(
        &self,
        theirs: &[(PathBuf, PathBuf)],
        (original, copy): (&Path, &Path),
    ) -> Self {
        let theirs = theirs.iter().map(|(original, copy)| (original.clone(), copy.clone()));
        let last = (original.to_owned(), real(copy));
        let copy = |(original, copy)| Copy { original, copy };
        // What is at one place over there stands for what it is a copy of.
        let all = theirs.map(copy).chain(self.elsewhere.iter().cloned());
        Self { elsewhere: all.chain([copy(last)]).collect(), ..self.clone() }
    }

    /// Returns each original and its copy, the innermost last.
    pub(super) fn pairs(&self) -> Vec<(PathBuf, PathBuf)> {
        let all = self.elsewhere.iter().chain(&*self.here);
        all.map(|Copy { original, copy }| (original.clone(), copy.clone())).collect()
    }

    /// Returns what a path that was followed is a copy of: the original, and
    /// what that is a copy of in turn.
    pub(super) fn originals(&self, path: &Path) -> Vec<PathBuf> {
        originals(&self.here, path)
    }

    /// The same on another machine, where nobody can follow them from here.
    pub(super) fn elsewhere(&self, path: &Path) -> Vec<PathBuf> {
        if self.elsewhere.is_empty() {
            return Vec::new();
        }
        let here = [path.to_owned()].into_iter().chain(self.originals(path));
        here.flat_map(|path| originals(&self.elsewhere, &path)).collect()
    }

    /// Tells whether a path that was followed is a copy of anything.
    pub(super) fn hold(&self, path: &Path) -> bool {
        !self.originals(path).is_empty() || !self.elsewhere(path).is_empty()
    }
}

fn originals(copies: &[Copy], path: &Path) -> Vec<PathBuf> {
    let (mut originals, mut path) = (Vec::new(), path.to_owned());
    for Copy { original, copy } in copies.iter().rev() {
        let Ok(below) = path.strip_prefix(copy) else { continue };
        // Joining nothing would add a slash.
        path = if below.as_os_str().is_empty() { original.clone() } else { original.join(below) };
        originals.push(path.clone());
    }
    originals
}

fn real(path: &Path) -> PathBuf {
    paths::resolved(path, Path::new("."))
}
