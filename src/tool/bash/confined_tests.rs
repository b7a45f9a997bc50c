//! Commands in a sandbox: how they end, what ends with them, what is told.
//!
//! Where a backend is missing its tests pass, unless `REQUIRE_SANDBOX=1`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use super::*;
use crate::event::{Access, Backend, Confinement, NetworkAccess};
use crate::git::tests::program;
use crate::guard::Script;
use crate::guard::shell::Machine;
use crate::tool::Granted;
use crate::tool::testing::{Place, granted};

/// The backends that are here.
fn backends(place: &Place) -> Vec<Backend> {
    let sandbox = &place.workspace.sandbox;
    let (bwrap, landlock) = (sandbox.bwrap(), sandbox.landlock());
    let required = std::env::var("REQUIRE_SANDBOX").is_ok_and(|value| value == "1");
    assert!(!required || bwrap.is_ok() && landlock.is_ok(), "{bwrap:?}, {landlock:?}");
    let bwrap = bwrap.as_ref().map(|()| Backend::Bwrap).ok();
    let landlock = landlock.as_ref().map(|_| Backend::Landlock).ok();
    bwrap.into_iter().chain(landlock).collect()
}

async fn call(place: &Place, backend: Backend, arguments: Value) -> Result<String, String> {
    let (access, network) = (Access::WorkspaceWrite, NetworkAccess::None);
    let confinement = Confinement { backend, access, network };
    let call = Granted { confinement, ..granted(&Bash, &place.context, &arguments) };
    match Bash.run(&place.context, &call, arguments).await {
        Ok(Output { text, is_error: false, images: _ }) => Ok(text),
        Ok(Output { text, is_error: true, images: _ }) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}

async fn check(command: &str, expected: impl Fn(Backend) -> Result<String, String>) {
    let place = Place::new();
    for backend in backends(&place) {
        let result = call(&place, backend, json!({"command": command})).await;
        assert_eq!(result, expected(backend), "{backend:?}: {command}");
    }
}

#[tokio::test]
async fn output_and_exit_codes_are_as_without_a_sandbox() {
    check("echo out; echo err >&2; cat", |_| Ok("out\nerr\n".to_owned())).await;
    check("echo a; exit 3", |_| Err("a\nexit code 3".to_owned())).await;
    check("kill -9 $$", |backend| {
        Err(match backend {
            Backend::Bwrap => "exit code 137, as by signal 9".to_owned(),
            Backend::Landlock | Backend::None => "killed by signal 9".to_owned(),
        })
    })
    .await;
}

#[tokio::test]
async fn what_the_guard_has_written_out_anew_is_what_runs() {
    let place = Place::new();
    let arguments = json!({"command": "echo written"});
    let call = granted(&Bash, &place.context, &arguments);
    let machine = Machine::new("/usr/bin:/bin".as_ref(), None, &[], program());
    let script = Script {
        text: "echo judged; echo \"$CARGO_MANIFEST_DIR $PATH\"".into(),
        machine: Arc::new(machine),
    };
    let call = Granted { script: Some(script), ..call };
    let output = Bash.run(&place.context, &call, arguments).await.unwrap();
    // And nothing of the environment that the gate does not know.
    assert_eq!(output.text, "judged\n /usr/bin:/bin\n");
}

#[tokio::test]
async fn what_was_changed_although_it_must_not_is_told_and_put_back() {
    let place = Place::new();
    for backend in backends(&place) {
        place.put(".git/config", "safe");
        let command = "echo evil >.git/config; echo done";
        let result = call(&place, backend, json!({"command": command})).await;
        let expected = match backend {
            Backend::Bwrap | Backend::None => {
                Ok("bash: line 1: .git/config: Read-only file system\ndone\n".to_owned())
            }
            Backend::Landlock => Err("done\n[`.git/config` was changed while the command ran, \
                                      which no command may. It is as it was again; what stood \
                                      there is in `"
                .to_owned()),
        };
        let cut = |text: String| match text.split_once("set-aside") {
            Some((before, _)) => before.split_inclusive(" in `").next().unwrap_or("").to_owned(),
            None => text,
        };
        assert_eq!(result.map_err(cut), expected);
        assert_eq!(place.bytes(".git/config"), b"safe");
    }
}

/// A pipe that everything a command starts holds open.
struct Life {
    place: Arc<Place>,
    reader: BufReader<File>,
}

impl Life {
    /// Starts a command with the pipe in place, and waits until it says so.
    async fn of(backend: Backend, command: &str) -> (Self, JoinHandle<Result<String, String>>) {
        let place = Arc::new(Place::new());
        let pipe: PathBuf = place.path("life");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let arguments = json!({"command": format!("exec 9>life; {command}")});
        let caller = Arc::clone(&place);
        let result = tokio::spawn(async move { call(&caller, backend, arguments).await });
        let reader = spawn_blocking(move || BufReader::new(File::open(pipe).unwrap()));
        let mut life = Self { place, reader: reader.await.unwrap() };
        assert_eq!(life.line().await, "ready\n");
        (life, result)
    }

    async fn line(&mut self) -> String {
        let mut reader =
            std::mem::replace(&mut self.reader, BufReader::new(File::open("/dev/null").unwrap()));
        let read = spawn_blocking(move || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            (reader, line)
        });
        let (reader, line) = read.await.unwrap();
        self.reader = reader;
        line
    }

    /// Returns once every process is gone.
    async fn ends(mut self) {
        let end = spawn_blocking(move || self.reader.read_to_end(&mut Vec::new()));
        end.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_cancelled_command_may_clean_up_and_then_all_it_started_ends() {
    let command = "trap 'echo bye >&9; exit' TERM; sleep 1000 & echo ready >&9; wait";
    for backend in backends(&Place::new()) {
        let (mut life, result) = Life::of(backend, command).await;
        life.place.context.cancel.cancel();
        let refused = result.await.unwrap().unwrap_err();
        assert!(refused.starts_with("cancelled after "), "{refused}");
        assert_eq!(life.line().await, "bye\n");
        life.ends().await;
    }
}

#[tokio::test]
async fn a_command_that_does_not_want_to_end_is_ended() {
    for backend in backends(&Place::new()) {
        for command in [
            "trap '' TERM; sleep 1000 & echo ready >&9; while :; do sleep 1000; done",
            "echo ready >&9; kill -STOP $$",
        ] {
            let (life, result) = Life::of(backend, command).await;
            life.place.context.cancel.cancel();
            result.await.unwrap().unwrap_err();
            life.ends().await;
        }
    }
}

#[tokio::test]
async fn a_dropped_call_ends_the_command_and_all_it_started() {
    for backend in backends(&Place::new()) {
        let (life, result) = Life::of(backend, "sleep 1000 & echo ready >&9; sleep 1000").await;
        result.abort();
        assert!(result.await.unwrap_err().is_cancelled());
        life.ends().await;
    }
}

#[tokio::test]
async fn what_a_command_left_in_the_background_ends_with_it() {
    for backend in backends(&Place::new()) {
        let background = match backend {
            // It alone finds those that have left their session.
            Backend::Bwrap => "setsid sleep 1000",
            Backend::Landlock | Backend::None => "sleep 1000",
        };
        let command = format!("{background} >/dev/null 2>&1 & echo ready >&9; echo done");
        let (life, result) = Life::of(backend, &command).await;
        assert_eq!(result.await.unwrap(), Ok("done\n".to_owned()));
        life.ends().await;
    }
}

#[tokio::test]
async fn nothing_is_left_in_the_workspace_or_beside_it_after_a_run() {
    for backend in backends(&Place::new()) {
        let place = Place::new();
        place.put("file", "");
        assert_eq!(call(&place, backend, json!({"command": "true"})).await.unwrap(), "(no output)");
        let root = place.root().to_owned();
        let _directory = place.end();
        let names = |directory: &std::path::Path| {
            let entries = std::fs::read_dir(directory).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&root), ["file"]);
        let beside = names(root.parent().unwrap());
        assert!(beside == ["work"] || beside == ["stubs", "work"], "{beside:?}");
    }
}
