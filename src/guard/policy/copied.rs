//! What paths mean to a unit that works in a copy of the workspace.
//!
//! Callers name files by their absolute paths in the workspace. For a unit with a
//! copy such a path means the file of the copy: otherwise it would read changes that
//! other units make at the same time, and change files that it must not touch. This
//! module only finds the path; the policy then decides whether the unit may use it.

use std::path::{Path, PathBuf};

use super::Policy;
use crate::guard::copies::Copies;
use crate::guard::paths;
use crate::path_text;

/// Maximum number of links that lead from a copy into its original.
const LINK_CAP: usize = 8;

/// The way in which a call uses a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// The name itself, even if it is a link: to delete it, for one.
    Name,
    /// The file that the name leads to.
    Target,
    /// The same, to read it: a file that the copy lacks may be read in the original.
    Source,
}

/// The meaning of a path into the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMeaning {
    /// This path, which is in the copy.
    Copy(PathBuf),
    /// The workspace's own file, which the copy does not have.
    Original,
}

impl Policy {
    /// Returns whether a unit of it works in a copy of another directory.
    #[must_use]
    pub fn has_copies(&self) -> bool {
        !self.copies.pairs().is_empty()
    }

    /// Returns the same policy for a unit whose conversation names files of `former`
    /// copies: there they mean those of `copy`.
    #[must_use]
    pub fn replacing(&self, former: &[PathBuf], copy: &Path) -> Self {
        let all = |copies: Copies, former: &PathBuf| copies.and(former, copy);
        Self { copies: former.iter().fold(self.copies.clone(), all), ..self.clone() }
    }

    /// Returns the path in the copy for a path into an original, no link followed.
    #[must_use]
    pub fn counterpart(&self, path: &Path) -> Option<PathBuf> {
        self.copies.counterpart(path).map(|(path, _)| path)
    }

    /// Returns what a path means to a unit that works in a copy; `None` for a path
    /// that leads into no original.
    #[must_use]
    pub fn path_meaning(&self, text: &str, named: PathUse) -> Option<PathMeaning> {
        // The tool itself refuses a path such as `~/x`.
        let path = path_text::resolve(self.root(), text).ok()?;
        // The directory decides where a name is, whatever the name is.
        let place = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => paths::resolved(self.root(), parent).join(name),
            (Some(_) | None, _) => paths::resolved(self.root(), &path),
        };
        let (mut at, mut is_here) = (place, true);
        let mut is_moved = false;
        for _ in 0..LINK_CAP {
            let found = self.copies.counterpart(&at).or_else(|| match named {
                PathUse::Name => None,
                PathUse::Target | PathUse::Source => {
                    self.copies.counterpart(&paths::resolved(self.root(), &at))
                }
            });
            let Some((copy, is_of_here)) = found else { break };
            (at, is_here, is_moved) = (copy, is_here && is_of_here, true);
        }
        if !is_moved {
            return None;
        }
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let is_read = named == PathUse::Source && is_here;
        match is_read && !is_there(&at) && is_there(&path) {
            true => Some(PathMeaning::Original),
            false => Some(PathMeaning::Copy(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::guard::Mode;

    #[test]
    fn paths_into_the_workspace_mean_the_copy_whichever_way_they_lead_there() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (work, copy) = (top.join("work"), top.join("copy"));
        for name in ["work/sub", "copy/sub", "other"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in ["work/a", "copy/a", "work/ignored", "other/x"] {
            std::fs::write(top.join(name), name).unwrap();
        }
        symlink(&work, top.join("link")).unwrap();
        symlink(work.join("a"), copy.join("back")).unwrap();
        symlink(work.join("sub"), copy.join("in")).unwrap();
        let root = copy.join("sub");
        let policy = Policy::new(Mode::Default, [work.clone()]);
        let policy = policy.at(std::slice::from_ref(&root), (&work, &copy));
        let work = work.display().to_string();
        let meant = |text: &str, named| match policy.path_meaning(text, named) {
            Some(PathMeaning::Copy(path)) => path.strip_prefix(&top).unwrap().display().to_string(),
            Some(PathMeaning::Original) => "the original".to_owned(),
            None => "itself".to_owned(),
        };
        for (text, expected) in [
            (format!("{work}/a"), "copy/a"),
            (format!("{work}/new/er"), "copy/new/er"),
            (format!("{work}/sub/../a"), "copy/a"),
            (work.clone(), "copy"),
            (format!("{work}/"), "copy"),
            ("../../work/a".to_owned(), "copy/a"),
            (top.join("link/a").display().to_string(), "copy/a"),
            (top.join("link").display().to_string(), "copy"),
            ("../back".to_owned(), "copy/a"),
            ("../in/x".to_owned(), "copy/sub/x"),
            ("../a".to_owned(), "itself"),
            (top.join("other/x").display().to_string(), "itself"),
            (format!("{work}er/a"), "itself"),
        ] {
            assert_eq!(meant(&text, PathUse::Target), expected, "{text}");
        }
        assert_eq!(meant("../back", PathUse::Name), "itself");
        assert_eq!(meant(&format!("{work}/ignored"), PathUse::Source), "the original");
        assert_eq!(meant(&format!("{work}/ignored"), PathUse::Target), "copy/ignored");
        assert_eq!(meant(&format!("{work}/none"), PathUse::Source), "copy/none");
        let apart = Policy::new(Mode::Default, [PathBuf::from(&work)]);
        assert_eq!(apart.path_meaning(&format!("{work}/a"), PathUse::Target), None);
    }

    #[test]
    fn a_unit_that_goes_on_works_in_its_new_copy_alone() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let (work, new) = (top.join("work"), top.join("new"));
        let former = ["one", "two"].map(|name| top.join(name));
        for path in [&work, &new] {
            std::fs::create_dir_all(path).unwrap();
            std::fs::write(path.join("a"), "a").unwrap();
        }
        let caller = Policy::new(Mode::Default, [work.clone()]);
        let ended = caller.at(&former[..1], (&work, &former[0]));
        let continued = ended.within(&caller);
        assert_eq!(continued.roots(), std::slice::from_ref(&work));
        assert!(!continued.has_copies());
        let continued = continued.replacing(&former, &new);
        let continued = continued.at(std::slice::from_ref(&new), (&work, &new));
        for of in [&work, &former[0], &former[1]] {
            let meant =
                continued.path_meaning(&of.join("a").display().to_string(), PathUse::Target);
            assert_eq!(meant, Some(PathMeaning::Copy(new.join("a"))), "{}", of.display());
            assert_eq!(continued.counterpart(&of.join("b")), Some(new.join("b")));
        }
        // A rule about the workspace's file means the new copy's.
        assert_eq!(continued.copies.originals(&new.join("a")), [work.join("a")]);
    }
}
