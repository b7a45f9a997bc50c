//! What rules keep out of searches.
//!
//! A search names one place and looks at all that is below it. A rule about a
//! path in there cannot refuse the call or have it asked; it takes what it
//! matches out of the result instead. So does the table of secrets, unless the
//! place that was named, and asked about, is one of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copies::Copies;
use super::path_pattern::{PathDenial, PathPattern};
use super::paths;
use super::policy::Policy;
use super::rules::Rule;
use super::sensitive::Secrets;

/// The rules of a unit, for its searches and for nothing else.
#[derive(Debug, Clone)]
pub struct Searches(Arc<Policy>);

/// What a policy says to searches.
pub(super) struct ForSearches<'a> {
    /// Whatever these match is left out.
    pub(super) denied: Vec<&'a Rule>,
    /// So is what these match, unless the search begins there.
    pub(super) asked: Vec<&'a Rule>,
    /// Secrets that these match are not.
    pub(super) shown: Vec<&'a Rule>,
    /// So are these; `None` if the mode allows to read them.
    pub(super) secrets: Option<&'a Secrets>,
    pub(super) root: &'a Path,
    pub(super) copies: &'a Copies,
}

impl Searches {
    /// The searches of units that go by a policy.
    #[must_use]
    pub fn by(policy: &Arc<Policy>) -> Self {
        Self(Arc::clone(policy))
    }

    /// Returns what a search of `tool` that starts at `base` leaves out.
    /// [`LeftOut::place`] of the base is what was judged now: it may be another
    /// than when the call was.
    #[must_use]
    pub fn left_out<'a>(&'a self, tool: &str, base: &'a Path) -> LeftOut<'a> {
        let ForSearches { denied, asked, shown, secrets, root, copies } = self.0.for_searches();
        let of = |rules: &[&'a Rule]| -> Vec<&'a PathPattern> {
            rules.iter().filter_map(|rule| rule.path_pattern(tool)).collect()
        };
        // Looked up once: a search may see a million files.
        let resolved = |path| paths::resolved(root, path);
        let (root, real_base) = (resolved(Path::new(".")), resolved(base));
        let mut left_out = LeftOut {
            hidden: of(&denied).iter().map(|pattern| pattern.denial(&root)).collect(),
            shown: of(&shown),
            secrets,
            root,
            copies,
            base,
            real_base,
        };
        for pattern in of(&asked) {
            let denial = [pattern.denial(&left_out.root)];
            if !left_out.matches_any(&denial, &left_out.real_base) {
                left_out.hidden.extend(denial);
            }
        }
        let is_shown = shown.iter().any(|rule| rule.is_about_all(tool));
        // Whoever may search there has been asked, or a rule says so.
        if is_shown || left_out.is_secret(&left_out.real_base) {
            left_out.secrets = None;
        }
        left_out
    }
}

/// What one search leaves out.
#[derive(Debug)]
pub struct LeftOut<'a> {
    hidden: Vec<PathDenial<'a>>,
    shown: Vec<&'a PathPattern>,
    secrets: Option<&'a Secrets>,
    root: PathBuf,
    copies: &'a Copies,
    base: &'a Path,
    /// Where `base` really leads.
    real_base: PathBuf,
}

impl LeftOut<'_> {
    /// Tells whether a path below the search's base is left out. No link is
    /// followed: a search follows none either.
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        if self.hidden.is_empty() && self.secrets.is_none() {
            return false;
        }
        let real = self.place(path);
        self.matches_any(&self.hidden, &real) || self.is_secret(&real)
    }

    /// Returns the file that [`LeftOut::covers`] judges: whoever opens it, and
    /// follows no link there, reads no other one.
    #[must_use]
    pub fn place(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(self.base).unwrap_or(path);
        // Joining nothing would add a slash to the base.
        if below.as_os_str().is_empty() {
            return self.real_base.clone();
        }
        self.real_base.join(below)
    }

    fn is_secret(&self, real: &Path) -> bool {
        self.secrets.is_some_and(|secrets| secrets.within(real).is_some())
            && !self.shown.iter().any(|pattern| pattern.shows(real, &self.root))
    }

    /// Returns whether a path is denied, or the original that it is a copy of.
    fn matches_any(&self, denials: &[PathDenial<'_>], real: &Path) -> bool {
        let (here, elsewhere) = (self.copies.originals(real), self.copies.elsewhere(real));
        let mut paths = std::iter::once(real).chain(here.iter().chain(&elsewhere).map(|it| &**it));
        paths.any(|path| denials.iter().any(|denial| denial.covers(path)))
    }
}
