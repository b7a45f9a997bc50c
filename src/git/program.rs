//! Which git our own calls run, and what it gets of the environment.
//!
//! A repository may bring a program named `git` along, and a `PATH` that some
//! tool put together may find it first. So it is looked for once, where the
//! workspace can put nothing, and run by its path. It inherits what is listed
//! here and nothing else: keys are in the environment that we were given.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::GitError;
use crate::guard::SearchPath;
use crate::guard::shell::{is_closed, is_executable};

const NAME: &str = "git";

/// Variables that git inherits: where the user and its files are, and how the
/// user has set git up. None of them names a program, a repository or a
/// password. What else a call needs, the call sets.
const PASSED: [&str; 15] = [
    "HOME",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_CONFIG_HOME",
    // Whose repositories root may use, as git sees it.
    "SUDO_UID",
    "GIT_ATTR_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
];

/// The git that is installed here, and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    file: Result<PathBuf, GitError>,
    environment: Vec<(OsString, OsString)>,
    path: OsString,
}

impl Program {
    /// Looks for git on the `PATH` of `variables`, outside of `workspace`.
    ///
    /// The first one counts that stands where no stranger can put a program;
    /// if there is none, the first. If there is no git at all, the calls say
    /// so.
    #[must_use]
    pub fn find<'a>(
        variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
        workspace: &[PathBuf],
    ) -> Self {
        let mut environment: Vec<(OsString, OsString)> = Vec::new();
        let mut path = OsString::new();
        for (name, value) in variables {
            if name == OsStr::new("PATH") {
                value.clone_into(&mut path);
            } else if PASSED.iter().any(|passed| name == OsStr::new(passed)) {
                environment.push((name.to_owned(), value.to_owned()));
            }
        }
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let roots: Vec<PathBuf> = workspace.iter().map(|root| real(root)).collect();
        let is_inside = |path: &Path| roots.iter().any(|root| real(path).starts_with(root));
        let search = SearchPath::split(&path, workspace);
        let programs = |directories: &[PathBuf]| -> Vec<PathBuf> {
            let files = directories.iter().map(|directory| directory.join(NAME));
            files.filter(|file| is_executable(file)).collect()
        };
        let (found, refused): (Vec<PathBuf>, Vec<PathBuf>) =
            programs(&search.outside).into_iter().partition(|file| !is_inside(file));
        let is_trusted =
            |file: &&PathBuf| file.parent().is_some_and(|directory| is_closed(directory, &roots));
        let chosen = found.iter().find(is_trusted).or(found.first()).cloned();
        let file = chosen.ok_or_else(|| {
            match programs(&search.inside).into_iter().chain(refused).next() {
                Some(path) => GitError::GitOfWorkspace { path },
                None => GitError::GitMissing,
            }
        });
        Self { file, environment, path: search.without_workspace() }
    }

    /// Returns the `PATH` without what leads into the workspace.
    #[must_use]
    pub fn path(&self) -> &OsStr {
        &self.path
    }

    /// Returns a variable that its calls inherit.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        let mut inherited = self.environment.iter();
        inherited.find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    /// Returns a call of it that inherits nothing else.
    ///
    /// # Errors
    ///
    /// [`GitError::GitMissing`], or [`GitError::GitOfWorkspace`] if there is
    /// only one that cannot be trusted.
    pub fn command(&self) -> Result<Command, GitError> {
        let mut command = Command::new(self.file.as_ref().map_err(Clone::clone)?);
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.env_clear().envs(environment).env("PATH", &self.path);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Directories with programs and links in them.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new(programs: &[&str]) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for name in programs {
                let file = place.path(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, "").unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            }
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn find(&self, path: &[&str]) -> Result<PathBuf, GitError> {
            let path = path.iter().map(|part| match part.strip_prefix("./") {
                Some(relative) => PathBuf::from(relative),
                None => self.path(part),
            });
            let path = std::env::join_paths(path).unwrap();
            let variables = [(OsStr::new("PATH"), &*path)];
            Program::find(variables, &[self.path("work")]).file
        }
    }

    #[test]
    fn the_first_git_outside_the_workspace_is_the_one() {
        let place = Place::new(&["work/bin/git", "one/git", "two/git", "none/got"]);
        let path = ["work/bin", "./bin", "none", "one", "two"];
        assert_eq!(place.find(&path), Ok(place.path("one/git")));
        assert_eq!(place.find(&["two", "one"]), Ok(place.path("two/git")));
        assert_eq!(place.find(&["none", "absent"]), Err(GitError::GitMissing));
        let inside = place.path("work/bin/git");
        assert_eq!(
            place.find(&["none", "work/bin"]),
            Err(GitError::GitOfWorkspace { path: inside })
        );
    }

    #[test]
    fn a_link_into_the_workspace_is_no_way_out_of_it() {
        let place = Place::new(&["work/bin/git", "one/git", "two/git"]);
        symlink(place.path("work/bin"), place.path("link")).unwrap();
        fs::create_dir(place.path("links")).unwrap();
        symlink(place.path("work/bin/git"), place.path("links/git")).unwrap();
        assert_eq!(place.find(&["link", "links", "one"]), Ok(place.path("one/git")));
        let refused = place.path("links/git");
        assert_eq!(place.find(&["links"]), Err(GitError::GitOfWorkspace { path: refused }));
    }

    #[test]
    fn one_that_a_stranger_could_replace_is_the_last_choice() {
        let place = Place::new(&["open/git", "closed/git"]);
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(place.path("open"), open).unwrap();
        assert_eq!(place.find(&["open", "closed"]), Ok(place.path("closed/git")));
        assert_eq!(place.find(&["open"]), Ok(place.path("open/git")));
    }

    #[test]
    fn git_inherits_what_is_listed_and_the_path_without_the_workspace() {
        let place = Place::new(&["bin/git"]);
        let path =
            std::env::join_paths([place.path("work/bin"), place.path("bin")].iter()).unwrap();
        let variables = [
            ("OPENAI_API_KEY", "sk-secret".as_ref()),
            ("MY_TOKEN", "secret".as_ref()),
            ("PATH", &*path),
            ("HOME", "/home/ada".as_ref()),
            ("GIT_DIR", "/elsewhere".as_ref()),
            ("GIT_EXEC_PATH", "/evil".as_ref()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            ("LD_PRELOAD", "/evil.so".as_ref()),
        ];
        let variables = variables.map(|(name, value): (&str, &OsStr)| (OsStr::new(name), value));
        let git = Program::find(variables, &[place.path("work")]);
        let expected =
            [("HOME".into(), "/home/ada".into()), ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into())];
        assert_eq!((&*git.environment, git.path()), (&expected[..], place.path("bin").as_os_str()));
    }
}
