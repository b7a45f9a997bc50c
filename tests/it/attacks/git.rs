//! Our own calls of git: which git they run, and what it gets to see.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::repository::Repository;
use crate::support::tine::{Tine, executable};

const KEY: &str = "sk-canary-77b1c0de";

/// A repository with something to review.
fn changed() -> Repository {
    let repository = Repository::new();
    repository.write("src/a.rs", "fn a() {}\n");
    repository.commit("Begin");
    repository.write("src/a.rs", "fn a() {\n    x.unwrap();\n}\n");
    repository
}

/// Where the tests find git.
fn own_git() -> PathBuf {
    let path = std::env::var_os("PATH").expect("the tests have a PATH");
    let files = std::env::split_paths(&path).map(|directory| directory.join("git"));
    files.into_iter().find(|file| file.is_file()).expect("git is installed")
}

/// Puts a git into a directory that writes its environment down and goes on as
/// the other.
fn plant(directory: &Path, seen: &Path) {
    let text = format!(
        "#!/bin/sh\n/usr/bin/env >> '{}'\nexec '{}' \"$@\"\n",
        seen.display(),
        own_git().display()
    );
    executable(&directory.join("git"), &text);
}

fn path_with(first: &Path) -> String {
    let path = std::env::var("PATH").expect("the tests have a PATH");
    format!("{}:{path}", first.display())
}

/// Everything that runs git itself.
fn runs(repository: &Repository) -> Vec<Tine> {
    let place = &repository.place;
    ["review", "doctor", "demo"].map(|command| place.tine([command])).into()
}

#[test]
fn git_is_given_no_key_and_nothing_that_redirects_it() {
    let repository = changed();
    let (bin, seen) = ["bin", "seen"].map(|name| repository.place.root().join(name)).into();
    plant(&bin, &seen);
    let variables = [
        ("OPENAI_API_KEY", KEY),
        ("ANTHROPIC_API_KEY", KEY),
        ("MY_TOKEN", KEY),
        ("GIT_EXEC_PATH", "/nowhere"),
        ("GIT_TRACE", "/dev/stderr"),
    ];
    // Whatever becomes of it: it has written its environment down.
    Command::new(bin.join("git")).arg("--version").envs(variables).output().unwrap();
    assert!(fs::read_to_string(&seen).unwrap().contains(KEY), "a program sees its environment");
    for run in runs(&repository) {
        fs::remove_file(&seen).unwrap();
        let run = variables.iter().fold(run, |run, (name, value)| run.env(name, value));
        // What it says of itself is none of this test's business.
        let finished = run.env("PATH", &path_with(&bin)).run();
        let seen = fs::read_to_string(&seen).unwrap_or_else(|_| panic!("no git: {finished:?}"));
        assert!(seen.lines().any(|line| line.starts_with("HOME=")), "{seen}");
        for name in ["canary", "MY_TOKEN", "GIT_EXEC_PATH", "GIT_TRACE"] {
            assert!(!seen.contains(name), "{name} is in it: {seen}");
        }
    }
}

#[test]
fn a_git_of_the_workspace_is_not_run() {
    let repository = changed();
    let seen = repository.place.root().join("seen");
    let bin = repository.place.work().join("node_modules/.bin");
    plant(&bin, &seen);
    Command::new("git").arg("--version").env("PATH", path_with(&bin)).output().unwrap();
    assert!(seen.exists(), "the first one on the PATH is run");
    fs::remove_file(&seen).unwrap();
    // From below, too: the repository is around what one works in.
    let below = repository.place.work().join("src");
    let judged = repository.place.tine(["permissions", "check", "Bash(git status)"]);
    let more = [repository.place.tine(["review"]).at(&below), judged];
    for run in runs(&repository).into_iter().chain(more) {
        let finished = run.env("PATH", &path_with(&bin)).run();
        assert!(!seen.exists(), "it was run: {finished:?}");
    }
    let refused = repository.place.tine(["review"]).env("PATH", &bin.display().to_string()).run();
    let words = format!(
        "error: `{}/git` is not run, because its directory, an entry of PATH, is in the workspace; \
         put a git that is elsewhere on the PATH\n",
        bin.display()
    );
    assert!(refused.exits(42).stderr.contains(&words));
    assert!(!seen.exists());
}
