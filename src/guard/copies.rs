//! Copies of the workspace, and what each path in them is a copy of.
//!
//! A rule that names a file by its whole path means the file, wherever a unit
//! works on a copy of it: what is denied or asked about there is so here. What
//! is allowed there is not: a copy gives nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::paths;

/// Copies that stand in each other's place, the innermost last.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies(Arc<[Copy]>);

#[derive(Debug, Clone)]
struct Copy {
    original: PathBuf,
    copy: PathBuf,
}

impl Copies {
    /// Returns the same, and one of `original` at `copy`.
    pub(super) fn and(&self, original: &Path, copy: &Path) -> Self {
        let real = |path: &Path| paths::resolved(path, Path::new("."));
        let last = Copy { original: real(original), copy: real(copy) };
        Self(self.0.iter().cloned().chain([last]).collect())
    }

    /// Returns what a path that was followed is a copy of: the original, and
    /// what that is a copy of in turn.
    pub(super) fn originals(&self, path: &Path) -> Vec<PathBuf> {
        let (mut originals, mut path) = (Vec::new(), path.to_owned());
        for Copy { original, copy } in self.0.iter().rev() {
            let Ok(below) = path.strip_prefix(copy) else { continue };
            // Joining nothing would add a slash.
            path =
                if below.as_os_str().is_empty() { original.clone() } else { original.join(below) };
            originals.push(path.clone());
        }
        originals
    }
}
