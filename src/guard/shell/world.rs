//! What the gate knows of the machine it judges for, and the environment in
//! which what it passes must run.
//!
//! A program is the one that the user's own `PATH` finds first, and only if it
//! stands where neither the workspace nor a stranger can put one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::git;
use crate::guard::paths;

/// How long git may take to list its settings. It takes some milliseconds; a
/// configuration that has it wait for something is none to go by.
const FILTERS_LIMIT: Duration = Duration::from_secs(2);

/// Directories of programs that a system or its owner installs.
const DIRECTORIES: [&str; 10] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/local/go/bin",
    "/opt/homebrew/bin",
    "/run/current-system/sw/bin",
    "/nix/var/nix/profiles/default/bin",
];

/// And those in the home directory. Shims are not among them: what they run, a
/// file of the project says.
const HOME_DIRECTORIES: [&str; 3] = [".cargo/bin", ".local/bin", ".nix-profile/bin"];

/// Variables that a command may inherit; whatever else there is may name a
/// program, an option or a file to write.
const INHERITED: [&str; 17] = [
    "CARGO_HOME",
    "COLORTERM",
    "COLUMNS",
    "HOME",
    "LANG",
    "LINES",
    "LOGNAME",
    "NO_COLOR",
    "PWD",
    "RUSTUP_HOME",
    "TERM",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Variables that are set.
const SET: [(&str, &str); 10] = [
    ("CARGO_NET_OFFLINE", "true"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // go would fetch and run the version that `go.mod` names.
    ("GOTOOLCHAIN", "local"),
    ("PAGER", "cat"),
    ("RUSTUP_AUTO_INSTALL", "0"),
    ("SHELL", "/bin/sh"),
];

/// Where a command would run.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The directory in which it starts.
    pub directory: &'a Path,
    /// What is to be seen from there.
    pub look: &'a dyn Look,
}

/// What a judgement asks of the world.
pub trait Look {
    /// Tells whether a bare name is a program that neither the workspace nor a
    /// stranger could have put there.
    fn has_program(&self, name: &str) -> bool;

    /// Tells whether a path leads into the workspace.
    fn is_inside(&self, path: &Path) -> bool;

    /// Tells whether there is anything at a path.
    fn is_there(&self, path: &Path) -> bool;

    /// Returns where a path leads, every link followed.
    fn real(&self, path: &Path) -> PathBuf;

    /// Tells whether a path, from a directory without links, may lead elsewhere
    /// for a command than for us.
    fn is_elusive(&self, directory: &Path, path: &Path) -> bool;

    /// Returns the filter drivers that git's configuration in a directory
    /// names; `None` if that cannot be told.
    fn git_filters(&self, directory: &Path) -> Option<Vec<String>>;
}

/// The world as it was when one judgement first asked. What is asked again, once
/// for each part of a command, may start a process.
pub(super) struct Remembered<'a> {
    look: &'a dyn Look,
    filters: RefCell<BTreeMap<PathBuf, Option<Vec<String>>>>,
}

impl<'a> Remembered<'a> {
    pub(super) fn new(look: &'a dyn Look) -> Self {
        Self { look, filters: RefCell::default() }
    }
}

impl Look for Remembered<'_> {
    fn has_program(&self, name: &str) -> bool {
        self.look.has_program(name)
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.look.is_inside(path)
    }

    fn is_there(&self, path: &Path) -> bool {
        self.look.is_there(path)
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.look.real(path)
    }

    fn is_elusive(&self, directory: &Path, path: &Path) -> bool {
        self.look.is_elusive(directory, path)
    }

    fn git_filters(&self, directory: &Path) -> Option<Vec<String>> {
        let mut filters = self.filters.borrow_mut();
        if let Some(known) = filters.get(directory) {
            return known.clone();
        }
        let asked = self.look.git_filters(directory);
        filters.insert(directory.to_owned(), asked.clone());
        asked
    }
}

/// This machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The user's `PATH`, each directory with whether it is trusted.
    path: Vec<(PathBuf, bool)>,
    roots: Vec<PathBuf>,
    git: git::Program,
}

impl Machine {
    /// Looks at the directories of `path`, the user's `PATH`. `git` tells what
    /// a repository's configuration names.
    #[must_use]
    pub fn new(path: &OsStr, home: Option<&Path>, roots: &[PathBuf], git: git::Program) -> Self {
        let fixed = DIRECTORIES.iter().map(PathBuf::from);
        let own = home.into_iter().flat_map(|home| HOME_DIRECTORIES.map(|name| home.join(name)));
        let known: Vec<PathBuf> = fixed.chain(own).collect();
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = roots.iter().map(real).collect();
        let path = std::env::split_paths(path)
            .map(|directory| {
                let is_trusted = known.contains(&directory) && is_closed(&directory, &roots);
                (directory, is_trusted)
            })
            .collect();
        Self { path, roots, git }
    }

    /// Returns the same machine, seen from another workspace.
    #[must_use]
    pub fn with_roots(&self, roots: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = roots.iter().map(real).collect();
        let path = self.path.iter().map(|(directory, is_trusted)| {
            (directory.clone(), *is_trusted && is_closed(directory, &roots))
        });
        Self { path: path.collect(), roots, git: self.git.clone() }
    }

    /// Returns the environment in which a script of the gate must run, and
    /// nothing else: what is not in it may name a program to run instead.
    #[must_use]
    pub fn environment(
        &self,
        inherited: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let is_inherited = |name: &OsStr| {
            name.to_str().is_some_and(|name| INHERITED.contains(&name) || name.starts_with("LC_"))
        };
        let mut environment: Vec<(OsString, OsString)> =
            inherited.into_iter().filter(|(name, _)| is_inherited(name)).collect();
        environment.extend(SET.iter().map(|&(name, value)| (name.into(), value.into())));
        let trusted = self.path.iter().filter(|(_, is_trusted)| *is_trusted);
        let path = std::env::join_paths(trusted.map(|(directory, _)| directory));
        environment.push(("PATH".into(), path.expect("these came out of a `PATH`")));
        environment
    }
}

impl Look for Machine {
    fn has_program(&self, name: &str) -> bool {
        // The first one counts: a name must mean what it means to the user.
        let found = self.path.iter().find_map(|(directory, is_trusted)| {
            let file = directory.join(name);
            is_executable(&file).then_some((file, *is_trusted))
        });
        found.is_some_and(|(file, is_trusted)| {
            is_trusted
                && file
                    .canonicalize()
                    .is_ok_and(|file| !self.roots.iter().any(|root| file.starts_with(root)))
        })
    }

    fn is_inside(&self, path: &Path) -> bool {
        paths::place(Path::new("/"), path, &self.roots).is_some()
    }

    fn is_there(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn real(&self, path: &Path) -> PathBuf {
        paths::resolved(Path::new("/"), path)
    }

    fn is_elusive(&self, directory: &Path, path: &Path) -> bool {
        paths::is_elusive(directory, path)
    }

    fn git_filters(&self, directory: &Path) -> Option<Vec<String>> {
        git::filter_drivers(&self.git, directory, FILTERS_LIMIT).ok()
    }
}

/// Tells whether there is a file that can be run.
pub(crate) fn is_executable(file: &Path) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Tells whether nobody but its owner and root can put a program into a
/// directory, and the workspace does not hold it.
pub(crate) fn is_closed(directory: &Path, roots: &[PathBuf]) -> bool {
    let Ok(real) = directory.canonicalize() else { return false };
    let is_outside = !roots.iter().any(|root| real.starts_with(root));
    is_outside
        && real.ancestors().all(|part| {
            part.metadata().is_ok_and(|metadata| {
                // A sticky directory lets only owners replace what is in it.
                let mode = metadata.mode();
                mode & 0o002 == 0 || mode & 0o1000 != 0 && part != real
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::program;

    #[test]
    fn a_configuration_that_has_git_wait_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let git = place.path().join(".git");
        for directory in ["objects", "refs"] {
            std::fs::create_dir_all(git.join(directory)).unwrap();
        }
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(git.join("config"), "[filter \"x\"]\nclean = y\n").unwrap();
        let listed = git::filter_drivers(&program(), place.path(), FILTERS_LIMIT);
        assert_eq!(listed, Ok(vec!["x".to_owned()]));
        let mode = nix::sys::stat::Mode::from_bits_truncate(0o600);
        nix::unistd::mkfifo(&git.join("pipe"), mode).unwrap();
        std::fs::write(git.join("config"), "[include]\npath = pipe\n").unwrap();
        assert!(git::filter_drivers(&program(), place.path(), Duration::from_millis(50)).is_err());
    }
}
