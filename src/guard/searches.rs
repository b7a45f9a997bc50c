//! What deny rules keep out of searches.
//!
//! A search names one place and looks at all that is below it. A rule about a
//! path in there cannot refuse the call; it takes what it matches out of the
//! result instead.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;

use super::paths;
use super::rules::Rule;

/// The deny rules of a run, for its searches.
#[derive(Debug, Clone, Default)]
pub struct Searches {
    pub(super) deny: Vec<Rule>,
    pub(super) root: PathBuf,
}

impl Searches {
    /// Returns what a search of `tool` that starts at `base` leaves out.
    #[must_use]
    pub fn left_out<'a>(&'a self, tool: &str, base: &'a Path) -> LeftOut<'a> {
        let matchers: Vec<_> =
            self.deny.iter().filter_map(|rule| rule.matchers(tool)).flatten().collect();
        // Looked up once: a search may see a million files.
        let (root, real_base) = if matchers.is_empty() {
            Default::default()
        } else {
            let resolved = |path| paths::resolved(&self.root, path);
            (resolved(Path::new(".")), resolved(base))
        };
        LeftOut { matchers, root, base, real_base }
    }
}

/// What one search leaves out.
#[derive(Debug)]
pub struct LeftOut<'a> {
    matchers: Vec<&'a GlobMatcher>,
    root: PathBuf,
    base: &'a Path,
    /// Where `base` really leads.
    real_base: PathBuf,
}

impl LeftOut<'_> {
    /// Tells whether a rule denies a path below the search's base. No link is
    /// followed: a search follows none either.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        if self.matchers.is_empty() {
            return false;
        }
        let below = path.strip_prefix(self.base).unwrap_or(path);
        // Joining nothing would add a slash to the base.
        let real = if below.as_os_str().is_empty() {
            self.real_base.clone()
        } else {
            self.real_base.join(below)
        };
        let relative = real.strip_prefix(&self.root).ok();
        self.matchers.iter().any(|matcher| {
            matcher.is_match(&real) || relative.is_some_and(|path| matcher.is_match(path))
        })
    }
}
