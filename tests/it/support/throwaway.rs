//! A directory to run anything in, and bash to run it.
//!
//! What runs is meant to do harm, so bubblewrap keeps the rest of the machine
//! read-only where it is there; with `REQUIRE_SANDBOX=1` it has to be.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, LazyLock};

use serde_json::json;
use tempfile::TempDir;
use tine::guard::shell::{Judged, Link, Look, Machine, World, judge};
use tine::guard::{Decision, Effect, Gate, Mode, Policy, Rules, SandboxIsThere, Source, Sourced};

/// What is in the files that are denied.
const DENIED: &str = "DENIED";

use super::repository::program;
use super::tine::executable;

/// How long one command may run, in seconds: none hangs, but machines are busy.
const PATIENCE: &str = "120";

/// A workspace with a program in it, `evil`, that leaves a canary.
pub(crate) struct Throwaway {
    root: TempDir,
    machine: Machine,
}

/// The machine, on which every program is installed: what a gate says must not
/// hang on what is missing here.
struct Equipped<'a>(&'a Machine);

impl Look for Equipped<'_> {
    fn has_program(&self, name: &str) -> bool {
        !name.contains('/')
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.0.is_inside(path)
    }

    fn is_there(&self, path: &Path) -> bool {
        self.0.is_there(path)
    }

    fn real(&self, path: &Path) -> PathBuf {
        self.0.real(path)
    }

    fn link(&self, path: &Path) -> Link {
        self.0.link(path)
    }

    fn git_filters(&self, directory: &Path) -> Option<Vec<String>> {
        self.0.git_filters(directory)
    }
}

impl Throwaway {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("there is a temporary directory");
        let work = root.path().join("work");
        fs::create_dir(&work).expect("it is empty");
        let machine = Machine::new(path().as_ref(), None, std::slice::from_ref(&work), program());
        let home = root.path().join("home");
        fs::create_dir(&home).expect("it is empty");
        fs::write(home.join(".gitconfig"), "[init]\ndefaultBranch = main\n").expect("it is empty");
        let evil = work.join("evil");
        executable(&evil, &format!("#!/bin/sh\n: > {}/CANARY\n", work.display()));
        let denied = root.path().join("denied");
        fs::create_dir(&denied).expect("it is empty");
        fs::write(denied.join("text"), DENIED).expect("it is empty");
        Self { root, machine }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// What commands inherit.
    pub(crate) fn variables(&self) -> BTreeMap<OsString, OsString> {
        let home = self.root.path().join("home");
        let name = ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "Ada"));
        let mail = ["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@localhost"));
        let ours = name.into_iter().chain(mail).map(|(name, value)| (name.into(), value.into()));
        let home = [("HOME".into(), home.into()), ("PATH".into(), path().into())];
        ours.chain(home).chain([("LC_ALL".into(), "C.UTF-8".into())]).collect()
    }

    /// Runs a script that must succeed.
    pub(crate) fn set_up(&self, script: &str) {
        if script.is_empty() {
            return;
        }
        let output = self.run(script, &self.variables());
        assert!(output.status.success(), "{script}: {output:?}");
    }

    /// Runs a command by bash with these variables and no others.
    pub(crate) fn run(&self, command: &str, variables: &BTreeMap<OsString, OsString>) -> Output {
        let mut words = if *HAS_BUBBLEWRAP { bubblewrap(self.root.path()) } else { Vec::new() };
        words.extend(["timeout", PATIENCE, "bash", "-c", "--", command].map(OsString::from));
        Command::new(&words[0])
            .args(&words[1..])
            .current_dir(self.work())
            .env_clear()
            .envs(variables)
            .stdin(Stdio::null())
            .output()
            .expect("bash is there")
    }

    pub(crate) fn judge(&self, command: &str) -> Judged {
        judge(command, World { directory: &self.work(), look: &Equipped(&self.machine) })
    }

    /// Decides about a command under rules that deny two files.
    pub(crate) fn decide(&self, command: &str) -> Decision {
        let rule = |text: &str| Sourced {
            rule: self.spelt(text).parse().expect("it is a rule"),
            source: Source::User,
        };
        let deny = vec![rule("Read(secret.txt)"), rule("Read(/ROOT/denied/**)")];
        let gate =
            Gate { machine: Arc::new(self.machine.clone()), sandbox: SandboxIsThere::new(|| true) };
        let policy = Policy::new(Mode::Default, [self.work()]);
        let policy = policy.with_rules(Rules { deny, ..Rules::default() }).with_gate(gate);
        policy.decide("Bash", Effect::Executes, &json!({ "command": command }))
    }

    /// Returns a text in which `ROOT` stands for the directory above the one
    /// that commands run in.
    pub(crate) fn spelt(&self, text: &str) -> String {
        text.replace("ROOT", self.root.path().to_str().expect("it was made with plain letters"))
    }

    /// Runs a script of the gate, as it must be run.
    pub(crate) fn run_reading(
        &self,
        script: &str,
        inherited: BTreeMap<OsString, OsString>,
    ) -> Output {
        let mut variables: BTreeMap<_, _> =
            self.machine.environment(inherited).into_iter().collect();
        // Where cargo is here, is no place for programs elsewhere.
        variables.insert("PATH".into(), path().into());
        self.run(script, &variables)
    }

    /// Tells whether there is a file with a canary's name, at any depth.
    pub(crate) fn has_canary(&self) -> bool {
        let mut directories = vec![self.work()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("it can be listed") {
                let entry = entry.expect("it can be listed");
                if entry.file_name().to_string_lossy().contains("CANARY") {
                    return true;
                }
                if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                    directories.push(entry.path());
                }
            }
        }
        false
    }
}

static HAS_BUBBLEWRAP: LazyLock<bool> = LazyLock::new(|| {
    let words = bubblewrap(Path::new("/tmp"));
    let output = Command::new(&words[0]).args(&words[1..]).arg("true").output();
    let is_there = output.as_ref().is_ok_and(|output| output.status.success());
    let is_required = std::env::var("REQUIRE_SANDBOX").is_ok_and(|value| value == "1");
    assert!(is_there || !is_required, "{output:?}");
    is_there
});

/// What stands in front of a command that may write in one directory only, sees
/// no process but its own and reaches nothing.
fn bubblewrap(writable: &Path) -> Vec<OsString> {
    let words =
        ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"];
    let more = ["--tmpfs", "/tmp", "--die-with-parent", "--bind"].map(OsString::from);
    let more = more.into_iter().chain([writable.into(), writable.into()]);
    words.map(OsString::from).into_iter().chain(more).collect()
}

/// Tells whether the text that is denied was printed.
pub(crate) fn shows_denied(output: &Output) -> bool {
    [&output.stdout, &output.stderr]
        .into_iter()
        .any(|printed| printed.windows(DENIED.len()).any(|part| part == DENIED.as_bytes()))
}

/// Where programs are; cargo is where the one is that runs the tests.
fn path() -> String {
    let cargo = Path::new(env!("CARGO")).parent().expect("a program is in a directory");
    format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", cargo.display())
}

/// Does something for each of many things, on all processors, and returns what
/// went wrong.
pub(crate) fn for_each<T: Sync>(
    things: &[T],
    each: impl Fn(&T) -> Result<(), String> + Sync,
) -> Vec<String> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2) * 2;
    let wrong = |chunk: &[T]| -> Vec<String> {
        chunk.iter().filter_map(|thing| each(thing).err()).collect()
    };
    std::thread::scope(|scope| {
        let chunks = things.chunks(things.len().div_ceil(threads).max(1));
        let started: Vec<_> = chunks.map(|chunk| scope.spawn(|| wrong(chunk))).collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.flat_map(|wrong| wrong.expect("what is wrong is said, not thrown")).collect()
    })
}
