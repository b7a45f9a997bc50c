//! Definitions and skills of a repository behind links that lead out of it.

use std::path::Path;

use super::Problem;

/// Returns whether a file that is listed in `bounds`, the root of a repository, leads out
/// of it: such a link would send a private file to a provider. A file that is
/// listed elsewhere is the user's own.
pub fn leads_out(path: &Path, bounds: Option<&Path>) -> bool {
    let Some(bounds) = bounds.filter(|bounds| path.starts_with(bounds)) else { return false };
    match (path.canonicalize(), bounds.canonicalize()) {
        (Ok(real), Ok(bounds)) => !real.starts_with(bounds),
        // A file that is not there cannot be read.
        (Err(_), _) | (_, Err(_)) => false,
    }
}

impl Problem {
    /// The problem of a file that leads out of the repository.
    pub fn of_link_outside(path: &Path) -> Self {
        Self::new(path, "is or is behind a link that leads out of the repository; it is left out")
    }
}
