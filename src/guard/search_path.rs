//! The `PATH` by which tine finds the programs that it starts itself: git, the shells of
//! hooks and of commands, servers of tools, the editor.
//!
//! An agent may write into the workspace, so no directory in there may provide such a
//! program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::real_path;

/// Directories of a `PATH` that has no others. Without any, the system would look in
/// the working directory.
const USUAL: &str = "/usr/bin:/bin";

/// The directories of a `PATH`, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPath {
    /// The directories outside of the workspace.
    pub outside: Vec<PathBuf>,
    /// The directories in the workspace, and those that depend on the working directory.
    pub inside: Vec<PathBuf>,
}

impl SearchPath {
    /// Splits a `PATH` by whether a directory is in one of the roots of the workspace.
    /// Links are followed; a directory need not exist, because an agent may make it.
    #[must_use]
    pub fn split(path: &OsStr, workspace: &[PathBuf]) -> Self {
        let real = |path: &Path| real_path::locate(path).unwrap_or_else(|_| path.to_owned());
        let roots: Vec<PathBuf> = workspace.iter().map(|root| real(root)).collect();
        let is_inside = |directory: &PathBuf| {
            let real = real(directory);
            !directory.is_absolute() || roots.iter().any(|root| real.starts_with(root))
        };
        let (inside, outside) = std::env::split_paths(path).partition(is_inside);
        Self { outside, inside }
    }

    /// Returns the `PATH` without the workspace.
    #[must_use]
    pub fn without_workspace(&self) -> OsString {
        if self.outside.is_empty() {
            return USUAL.into();
        }
        std::env::join_paths(&self.outside).expect("these came out of a `PATH`")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_directory_of_the_workspace_provides_a_program() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let work = root.join("work");
        fs::create_dir_all(work.join("bin")).unwrap();
        fs::create_dir_all(root.join("work-tools")).unwrap();
        symlink(&work, root.join("alias")).unwrap();
        symlink(work.join("bin"), root.join("link")).unwrap();
        symlink(work.join("later"), root.join("soft")).unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        for (entry, is_inside) in [
            (at("work"), true),
            (at("work/bin"), true),
            (at("work/bin/"), true),
            (at("work/node_modules/.bin"), true),
            (at("work-tools/../work/bin"), true),
            (at("alias/bin"), true),
            (at("alias/later"), true),
            (at("link"), true),
            (at("soft"), true),
            (".".into(), true),
            ("node_modules/.bin".into(), true),
            (String::new(), true),
            ("../work-tools".into(), true),
            (at("work-tools"), false),
            (at("absent"), false),
            ("/usr/bin".into(), false),
        ] {
            let path = format!("{entry}:/bin");
            let found = SearchPath::split(OsStr::new(&path), &[at("alias").into()]);
            let expected = if is_inside { "/bin".into() } else { path };
            assert_eq!(found.without_workspace(), OsString::from(expected), "{entry}");
        }
        let nothing = SearchPath::split(OsStr::new("."), std::slice::from_ref(&work));
        assert_eq!(nothing.without_workspace(), OsStr::new(USUAL));
    }
}
