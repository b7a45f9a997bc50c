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

    /// Returns the copy's path for a path into an original, and whether that
    /// original is on this machine; `None` for any other path.
    pub(super) fn counterpart(&self, path: &Path) -> Option<(PathBuf, bool)> {
        let (mut at, mut found) = (path.to_owned(), None);
        let all = self.elsewhere.iter().map(|copy| (copy, false));
        for (Copy { original, copy }, is_here) in
            all.chain(self.here.iter().map(|copy| (copy, true)))
        {
            let Ok(below) = at.strip_prefix(original) else { continue };
            if at.starts_with(copy) {
                continue;
            }
            at = if below.as_os_str().is_empty() { copy.clone() } else { copy.join(below) };
            found = Some(found.unwrap_or(true) && is_here);
        }
        found.map(|is_here| (at, is_here))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_into_an_original_means_the_innermost_copy() {
        let copies = Copies::default().and(Path::new("/w"), Path::new("/c/one"));
        let nested = copies.and(Path::new("/c/one"), Path::new("/c/two"));
        let check = |copies: &Copies, path: &str, expected: Option<&str>| {
            let found = copies.counterpart(Path::new(path));
            assert_eq!(found, expected.map(|path| (PathBuf::from(path), true)), "{path}");
        };
        check(&copies, "/w/a", Some("/c/one/a"));
        check(&copies, "/w", Some("/c/one"));
        check(&copies, "/c/one/a", None);
        check(&copies, "/work", None);
        for path in ["/w/a", "/c/one/a"] {
            check(&nested, path, Some("/c/two/a"));
        }
        check(&nested, "/c/two/a", None);
        let far = Copies::default().and_elsewhere(&[], (Path::new("/far"), Path::new("/c/one")));
        let expected = Some((PathBuf::from("/c/one/a"), false));
        assert_eq!(far.counterpart(Path::new("/far/a")), expected);
    }
}
