//! `tine demo`: a review of a small change made for the purpose.

use std::path::Path;
use std::process::Stdio;

use super::args::{ReviewFlags, RunFlags};
use super::exit::{Exit, Refusal};
use super::{review, start};
use crate::config::Environment;
use crate::git::Program;

/// The files of the example as they are committed, and as they are changed.
const FILES: [(&str, &str, &str); 3] = [
    ("src/orders.py", include_str!("demo/before/orders.py"), include_str!("demo/after/orders.py")),
    ("src/report.js", include_str!("demo/before/report.js"), include_str!("demo/after/report.js")),
    ("src/totals.rs", include_str!("demo/before/totals.rs"), include_str!("demo/after/totals.rs")),
];

/// Makes a repository with a change in it, and reviews that.
pub(super) fn run(environment: &Environment, flags: RunFlags) -> Result<Exit, Refusal> {
    let directory = tempfile::Builder::new().prefix("tine-demo-").tempdir().map_err(|error| {
        Refusal::new(Exit::Error, format!("cannot make a temporary directory: {error}"))
    })?;
    let root = directory.path();
    let program = start::git_here(environment);
    make(&program, root).map_err(|message| {
        Refusal::new(Exit::Error, format!("cannot make the example: {message}"))
    })?;
    super::say(&format!("note: the example is in {}; it is removed at the end", root.display()));
    std::env::set_current_dir(root)
        .map_err(|error| Refusal::new(Exit::Error, format!("cannot enter the example: {error}")))?;
    let uncommitted = ReviewFlags { uncommitted: true, ..ReviewFlags::default() };
    // What is left behind must not have brought its own programs along.
    let inherited = environment.inherited.with_path(program.path());
    let mut environment = environment.clone();
    environment.inherited = inherited;
    review::run(&environment, flags, &uncommitted)
}

fn make(program: &Program, root: &Path) -> Result<(), String> {
    std::fs::create_dir_all(root.join("src")).map_err(|error| error.to_string())?;
    let write = |name: &str, text: &str| {
        std::fs::write(root.join(name), text).map_err(|error| error.to_string())
    };
    git(program, root, &["init", "--quiet"])?;
    for (name, before, _) in FILES {
        write(name, before)?;
    }
    git(program, root, &["add", "."])?;
    git(program, root, &["commit", "--quiet", "--no-verify", "--message", "Begin the example"])?;
    for (name, _, after) in FILES {
        write(name, after)?;
    }
    Ok(())
}

/// Runs git with an identity of its own and nothing of the user's settings.
fn git(program: &Program, root: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = program.command().map_err(|error| error.to_string())?;
    let output = command
        .args(["-c", "user.name=tine", "-c", "user.email=tine@localhost"])
        .args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"])
        .args(["-c", "init.templateDir="])
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
