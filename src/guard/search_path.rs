//! The `PATH` by which tine finds the programs that it starts itself: git, the shells of
//! hooks and of commands, servers of tools, the editor.
//!
//! An agent may write into the workspace, so no directory in there may provide such a
//! program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::shell::is_executable;
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

    /// Returns a program of this name that only a directory in the workspace has.
    #[must_use]
    pub fn only_inside(&self, program: &str) -> Option<PathBuf> {
        let find = |directories: &[PathBuf]| {
            let files = directories.iter().map(|directory| directory.join(program));
            files.filter(|file| is_executable(file)).find(|file| file.is_absolute())
        };
        let is_name = !program.is_empty() && !program.contains('/');
        let inside = find(&self.inside).filter(|_| is_name)?;
        find(&self.outside).is_none().then_some(inside)
    }

    /// Returns what to say of a program that only the workspace has, and how to name it
    /// there, for example "as `command`".
    #[must_use]
    pub fn explain(&self, program: &str, how: &str) -> Option<String> {
        let file = self.only_inside(program)?;
        let entry = file.parent().unwrap_or(&file).display().to_string();
        Some(format!(
            "`{program}` is only in `{entry}`, an entry of `PATH` in the workspace, where tine does \
             not look for programs; give its absolute path, `{}`, {how}",
            file.display()
        ))
    }

    /// Returns the existing directories that are left out.
    #[must_use]
    pub fn left_out(&self) -> Vec<&Path> {
        let exists = |directory: &&Path| directory.is_absolute() && directory.is_dir();
        self.inside.iter().map(PathBuf::as_path).filter(exists).collect()
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
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
        let path = format!("{}:{}", at("work/bin"), at("work-tools"));
        let search = SearchPath::split(OsStr::new(&path), &[at("work").into()]);
        assert_eq!(search.left_out(), [root.join("work/bin")]);
        for (directory, name) in
            [("work/bin", "here"), ("work/bin", "both"), ("work-tools", "both")]
        {
            let file = root.join(directory).join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(search.only_inside("here"), Some(root.join("work/bin/here")));
        for name in ["both", "nowhere", "", "work/bin/here", "../bin/here"] {
            assert_eq!(search.only_inside(name), None, "{name}");
        }
        let said = search.explain("here", "as `command`").unwrap();
        assert!(said.contains(&format!("`{}`, an entry of `PATH`", at("work/bin"))), "{said}");
        assert!(said.ends_with(&format!("`{}`, as `command`", at("work/bin/here"))), "{said}");
        let nothing = SearchPath::split(OsStr::new("."), std::slice::from_ref(&work));
        assert_eq!(nothing.without_workspace(), OsStr::new(USUAL));
    }
}
