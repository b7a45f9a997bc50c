//! What the gate knows of the machine it judges for, and the environment in
//! which what it passes must run.
//!
//! A program is the one that the user's own `PATH` finds first, and only if it
//! stands where neither the workspace nor a stranger can put one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::unistd::geteuid;

use crate::git;
use crate::guard::paths::{self, Link};

/// How long git may take to list its settings. It takes some milliseconds; a
/// configuration that has it wait for something is none to go by.
const FILTERS_LIMIT: Duration = Duration::from_secs(2);

/// Time that git has to list the files that its configuration names. Without the list each
/// edit is asked about, so a busy machine gets more of it.
const NAMED_LIMIT: Duration = Duration::from_secs(5);

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

    /// Returns what a path says of itself.
    fn link(&self, path: &Path) -> Link;

    /// Returns the filter drivers that git's configuration in a directory
    /// names; `None` if that cannot be told.
    fn git_filters(&self, directory: &Path) -> Option<Vec<String>>;

    /// Returns the files that git's configuration in a directory has `git blame` read;
    /// `None` if that cannot be told.
    fn files_of_blame(&self, _: &Path) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    /// Returns the home directory that `~` means; `None` if that is not known.
    fn home(&self) -> Option<&Path> {
        None
    }
}

/// The world as it was when one judgement first asked. What is asked again, once
/// for each part of a command, may start a process, and the same directories
/// are on the way to most of what is named.
pub(super) struct Remembered<'a> {
    look: &'a dyn Look,
    filters: RefCell<BTreeMap<PathBuf, Option<Vec<String>>>>,
    // By the text of a path, which is compared sooner than its components.
    links: RefCell<HashMap<OsString, Link>>,
}

impl<'a> Remembered<'a> {
    pub(super) fn new(look: &'a dyn Look) -> Self {
        Self { look, filters: RefCell::default(), links: RefCell::default() }
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

    fn link(&self, path: &Path) -> Link {
        let mut links = self.links.borrow_mut();
        if let Some(known) = links.get(path.as_os_str()) {
            return known.clone();
        }
        let asked = self.look.link(path);
        links.insert(path.into(), asked.clone());
        asked
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

    fn files_of_blame(&self, directory: &Path) -> Option<Vec<PathBuf>> {
        self.look.files_of_blame(directory)
    }

    fn home(&self) -> Option<&Path> {
        self.look.home()
    }
}

/// This machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The user's `PATH`, each directory with whether it is trusted.
    path: Vec<(PathBuf, bool)>,
    roots: Vec<PathBuf>,
    home: Option<PathBuf>,
    git: git::Program,
    found: Found,
}

/// The programs that were found where they may be.
///
/// Looking a name up costs as much as parsing the command. Forgetting that one
/// was there is no danger: what runs is found on the trusted part of the `PATH`
/// only, whatever has come before it since. A name that was not found is looked
/// up again each time. Only names of the table are asked for, so they are few.
#[derive(Debug, Clone, Default)]
struct Found(Arc<Mutex<HashSet<String>>>);

/// What was looked up is no part of what a machine is.
impl PartialEq for Found {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Found {}

impl Found {
    fn names(&self) -> MutexGuard<'_, HashSet<String>> {
        // Each name is put in whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let home = home.map(Path::to_owned);
        Self { path, roots, home, git, found: Found::default() }
    }

    /// Returns the same machine, seen from another workspace.
    #[must_use]
    pub fn with_roots(&self, roots: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
        let roots: Vec<PathBuf> = roots.iter().map(real).collect();
        let path = self.path.iter().map(|(directory, is_trusted)| {
            (directory.clone(), *is_trusted && is_closed(directory, &roots))
        });
        // What was found may stand in this workspace.
        let (git, home) = (self.git.clone(), self.home.clone());
        Self { path: path.collect(), roots, home, git, found: Found::default() }
    }

    /// Returns the files that git's configuration in a directory names as something
    /// that runs or is obeyed, and whether that may not be all of them.
    pub(in crate::guard) fn files_named_by_git(&self, directory: &Path) -> git::NamedFiles {
        git::named_files(&self.git, directory, NAMED_LIMIT)
    }

    /// Returns the versions of what has these names in a directory that branches have.
    pub(in crate::guard) fn versions_in_git(
        &self,
        directory: &Path,
        names: &[&str],
    ) -> git::KnownVersions {
        git::KnownVersions::list(&self.git, directory, names)
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

impl Machine {
    fn finds(&self, name: &str) -> bool {
        // The first one counts: a name must mean what it means to the user.
        let found = self.path.iter().find_map(|(directory, is_trusted)| {
            let file = directory.join(name);
            let itself = file.symlink_metadata().ok()?;
            let metadata = if itself.is_symlink() { file.metadata().ok()? } else { itself.clone() };
            let runs = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
            runs.then_some((file, itself.is_symlink(), *is_trusted))
        });
        let is_outside = |file: PathBuf| !self.roots.iter().any(|root| file.starts_with(root));
        // A directory that is trusted is outside the workspace, and so is what is
        // in it, unless it is a link.
        found.is_some_and(|(file, is_link, is_trusted)| {
            is_trusted && (!is_link || file.canonicalize().is_ok_and(is_outside))
        })
    }
}

impl Look for Machine {
    fn has_program(&self, name: &str) -> bool {
        if self.found.names().contains(name) {
            return true;
        }
        let is_there = self.finds(name);
        if is_there {
            self.found.names().insert(name.to_owned());
        }
        is_there
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

    fn link(&self, path: &Path) -> Link {
        Link::at(path)
    }

    fn git_filters(&self, directory: &Path) -> Option<Vec<String>> {
        git::filter_drivers(&self.git, directory, FILTERS_LIMIT).ok()
    }

    fn files_of_blame(&self, directory: &Path) -> Option<Vec<PathBuf>> {
        git::files_of_blame(&self.git, directory, FILTERS_LIMIT).ok()
    }

    fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }
}

/// Tells whether there is a file that can be run.
pub(crate) fn is_executable(file: &Path) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Tells whether nobody but the user, root, and whom root lets can put a program
/// into a directory, and the workspace does not hold it.
pub(crate) fn is_closed(directory: &Path, roots: &[PathBuf]) -> bool {
    let Ok(real) = directory.canonicalize() else { return false };
    let is_outside = !roots.iter().any(|root| real.starts_with(root));
    let own = geteuid().as_raw();
    is_outside
        && real.ancestors().all(|part| {
            part.metadata().is_ok_and(|metadata| {
                let access =
                    Access { mode: metadata.mode(), owner: metadata.uid(), group: metadata.gid() };
                access.keeps_strangers_out(own, part == real)
            })
        })
}

/// Who may change a directory.
#[derive(Debug, Clone, Copy)]
struct Access {
    mode: u32,
    owner: u32,
    group: u32,
}

impl Access {
    /// Tells whether that is nobody but `own`, root, and whom root lets. A program
    /// is put into the last directory of a path; the others can have theirs
    /// replaced.
    fn keeps_strangers_out(self, own: u32, is_last: bool) -> bool {
        let Self { mode, owner, group } = self;
        // A sticky directory lets only owners replace what is in it.
        let is_sticky = mode & 0o1000 != 0 && !is_last;
        // By custom a user's private group has the user's number. A group that
        // root lets write into a directory of root's, as Debian lets `staff` write
        // into /usr/local, may install programs for root as well: whoever is in it
        // need not come through here.
        let is_private = owner == 0 || group == 0 || group == owner;
        (owner == 0 || owner == own)
            && (mode & 0o002 == 0 || is_sticky)
            && (mode & 0o020 == 0 || is_sticky || is_private)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::program;

    #[track_caller]
    fn check(mode: u32, (owner, group): (u32, u32), is_last: bool, expected: bool) {
        let access = Access { mode, owner, group };
        assert_eq!(access.keeps_strangers_out(1000, is_last), expected, "{mode:o} {owner}:{group}");
    }

    #[test]
    fn a_directory_that_a_stranger_may_write_is_not_trusted() {
        for (mode, owners, is_trusted) in [
            (0o755, (0, 0), true),
            (0o755, (1000, 1000), true),
            // Somebody else's, whatever its mode.
            (0o755, (1001, 1001), false),
            // Debian's /usr/local/bin.
            (0o2775, (0, 50), true),
            (0o775, (1000, 0), true),
            // The user's private group, and one with others in it.
            (0o775, (1000, 1000), true),
            (0o775, (1000, 100), false),
            (0o757, (0, 0), false),
            (0o1777, (0, 0), false),
        ] {
            check(mode, owners, true, is_trusted);
        }
        check(0o1777, (0, 0), false, true);
        check(0o1775, (1000, 100), false, true);
        check(0o1777, (1001, 0), false, false);
    }

    #[test]
    fn a_program_is_looked_for_until_it_is_found_and_then_remembered() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let bin = place.join(".cargo/bin");
        std::fs::create_dir_all(&bin).unwrap();
        let work = [place.join("work")];
        // The temporary directory may be anybody's, so it is not asked about.
        let path = vec![(bin.clone(), true)];
        let machine = Machine {
            path,
            roots: work.to_vec(),
            home: None,
            git: program(),
            found: Found::default(),
        };
        assert!(!machine.has_program("rg"));
        let put = |file: &Path| {
            std::fs::write(file, "").unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        put(&bin.join("rg"));
        let same = machine.clone();
        assert!(machine.has_program("rg"));
        std::fs::remove_file(bin.join("rg")).unwrap();
        assert!(same.has_program("rg") && machine == same);
        let elsewhere = Machine { found: Found::default(), ..machine.clone() };
        assert!(!elsewhere.has_program("rg") && elsewhere == machine);
        // A link into the workspace is as good as being there.
        std::fs::create_dir_all(&work[0]).unwrap();
        put(&work[0].join("fd"));
        std::os::unix::fs::symlink(work[0].join("fd"), bin.join("fd")).unwrap();
        assert!(!machine.has_program("fd"));
        std::fs::remove_file(bin.join("fd")).unwrap();
        put(&place.join("fd"));
        std::os::unix::fs::symlink(place.join("fd"), bin.join("fd")).unwrap();
        assert!(machine.has_program("fd"));
    }

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
