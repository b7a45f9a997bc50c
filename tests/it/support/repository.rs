//! Small git repositories.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tine::git::Program;

use super::tine::Place;

/// The git of whoever runs the tests.
pub(crate) fn program() -> Program {
    let variables: Vec<_> = std::env::vars_os().collect();
    Program::find(variables.iter().map(|(name, value)| (&**name, &**value)), &[])
}

/// A place whose working directory is a repository with the branch `main`.
pub(crate) struct Repository {
    pub(crate) place: Place,
}

impl Repository {
    /// A repository without a commit.
    pub(crate) fn new() -> Self {
        let repository = Self { place: Place::new() };
        // Without the examples of hooks, which are a dozen files of each repository.
        repository.git(&["init", "--quiet", "--template=", "--initial-branch=main"]);
        repository
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.place.write(name, text)
    }

    /// Commits everything and returns the commit's name.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs git with nothing of the user's settings.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.place.work(), arguments)
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@localhost"])
        .args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .output()
        .expect("git is there");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?}: {words}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
