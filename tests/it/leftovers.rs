//! Whatever ends tine, no process that it has started lives on.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::mounts::{HIDE_BWRAP, can_mount};
use crate::support::tine::{Place, Running, Tine, git_that};
use crate::support::wait::found;

/// Starts four processes: in the group of the shell, in a session of its own, a daemon without
/// environment and parent, and one that ignores every polite signal. Their command lines name the
/// place. They write nowhere: `tail` ends by itself when its output has no reader.
const LEAVES: &str = "exec >/dev/null 2>&1; f=\"$PWD/watched\"; tail -f \"$f\" & setsid tail -f \"$f\" & \
    (setsid env -i \"$(command -v tail)\" -f \"$f\" &); \
    trap '' TERM HUP INT QUIT; tail -f \"$f\"";

/// Number of processes that `LEAVES` starts.
const LEFT: usize = 4;

/// A backend of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bounds {
    Bwrap,
    Landlock,
    None,
}

impl Bounds {
    const ALL: [Self; 3] = [Self::Bwrap, Self::Landlock, Self::None];

    /// A run in these bounds; `None` if this machine cannot have them.
    fn tine(self, place: &Place, script: &Value) -> Option<Tine> {
        let model = place.script("script.json", script);
        place.write("watched", "");
        let run = ["-p", "go", "-m", &model];
        let rule = ["--allowed-tools", "Bash"];
        let tine = match self {
            Self::Bwrap => Some(place.tine(run.iter().chain(&rule))),
            Self::Landlock => {
                can_mount().then(|| place.tine(run.iter().chain(&rule)).mounting(HIDE_BWRAP))
            }
            Self::None => {
                let free = ["--permission-mode", "bypassPermissions"];
                Some(place.tine(run.iter().chain(&free)))
            }
        };
        tine.map(|tine| tine.hangups(true))
    }
}

/// A script whose calls run these commands, one a turn.
fn commands(commands: &[&str]) -> Value {
    let turn = |command: &&str| json!({ "calls": [{ "name": "Bash", "arguments": { "command": command } }] });
    let mut turns: Vec<Value> = commands.iter().map(turn).collect();
    turns.push(json!({ "text": "done" }));
    json!({ "units": { "main": turns } })
}

/// Returns the processes whose command lines name the place, but for one.
fn processes(place: &Path, but: u32) -> Vec<(i32, String)> {
    processes_of(place.to_str().expect("temporary directories have plain names"), but)
}

/// Returns the processes whose command lines have this text, but for one.
fn processes_of(text: &str, but: u32) -> Vec<(i32, String)> {
    let entries = fs::read_dir("/proc").expect("there is a table of processes");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| u32::try_from(*id) != Ok(but))
        .filter_map(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(text).then_some((id, line))
        })
        .collect()
}

/// Waits until all four run.
#[track_caller]
fn wait_for_all(place: &Place, running: &Running) {
    let is_one = |(_, line): &(i32, String)| {
        line.trim_end().ends_with("/watched")
            && !line.contains("env -i")
            && !line.contains("setsid")
    };
    found("processes that may be left", || {
        let all = processes(&place.root(), running.id());
        (all.iter().filter(|process| is_one(process)).count() == LEFT).then_some(())
    });
}

/// Waits until none runs.
#[track_caller]
fn wait_for_none(place: &Place) {
    found("the end of all processes", || processes(&place.root(), 0).is_empty().then_some(()));
}

#[track_caller]
fn check(place: &Place, tine: Tine, signal: Signal) {
    let running = tine.start();
    wait_for_all(place, &running);
    running.signal(signal);
    running.wait();
    wait_for_none(place);
}

#[test]
fn no_process_of_a_command_lives_on_whatever_ends_tine() {
    let deadly = [Signal::SIGKILL, Signal::SIGABRT, Signal::SIGILL, Signal::SIGQUIT];
    let polite = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    for bounds in Bounds::ALL {
        for signal in deadly.into_iter().chain(polite) {
            let place = Place::new();
            if let Some(tine) = bounds.tine(&place, &commands(&[LEAVES])) {
                check(&place, tine, signal);
            }
        }
    }
}

/// bubblewrap's inner process waits for the outer one before it does anything else, and waits for
/// ever if that one is killed meanwhile.
#[test]
fn no_process_lives_on_when_tine_is_killed_while_a_sandbox_is_set_up() {
    for bounds in Bounds::ALL {
        for _ in 0..5 {
            let place = Place::new();
            let Some(tine) = bounds.tine(&place, &commands(&[LEAVES])) else { continue };
            let running = tine.start();
            found("the first process", || {
                (!processes(&place.root(), running.id()).is_empty()).then_some(())
            });
            running.signal(Signal::SIGKILL);
            running.wait();
            wait_for_none(&place);
        }
    }
}

#[test]
fn no_process_of_a_hook_a_server_or_git_lives_on() {
    let hooks = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [
        { "type": "command", "command": LEAVES, "timeout": 60 },
    ] }] } });
    let unawaited = json!({ "hooks": { "PreToolUse": [{ "hooks": [
        { "type": "command", "command": LEAVES, "timeout": 60, "async": true },
    ] }] } });
    let server = json!({ "mcpServers": { "left": { "command": "sh", "args": ["-c", LEAVES] } } });
    let (hooks, unawaited, server) = (hooks.to_string(), unawaited.to_string(), server.to_string());
    for flags in [["--settings", &hooks], ["--settings", &unawaited], ["--mcp-config", &server]] {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let place = Place::new();
            place.write("watched", "");
            place.configure("[mcp]\nstartup_ms = 60000\n");
            let model = place.script("script.json", &commands(&["sleep 1000"]));
            let run = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
            check(&place, place.tine(run.iter().chain(&flags)), signal);
        }
    }
}

/// Starts four processes in sessions of their own, and waits until all have left.
const DAEMONS: &str = "f=\"$PWD/watched\"; for i in 1 2 3 4; do setsid tail -f \"$f\" >/dev/null 2>&1 & done; \
    while test \"$(pgrep -cf \"^tail -f $f\")\" -lt 4; do :; done";

#[test]
fn what_hooks_and_servers_put_into_sessions_of_their_own_ends_with_tine() {
    let hook = json!({ "type": "command", "command": DAEMONS, "timeout": 60 });
    let hooks = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [hook] }] } }).to_string();
    let server = format!("{DAEMONS}; cat >/dev/null");
    let server = json!({ "command": "sh", "args": ["-c", server] });
    let servers = json!({ "mcpServers": { "left": server } }).to_string();
    for flags in [["--settings", &hooks], ["--mcp-config", &servers]] {
        let place = Place::new();
        place.write("watched", "");
        place.configure("[mcp]\nstartup_ms = 2000\n");
        // The run does not end before all of them run.
        let runs = "while test \"$(pgrep -cf \"^tail -f $PWD/watched\")\" -lt 4; do :; done";
        let model = place.script("script.json", &commands(&[runs]));
        let run = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
        place.tine(run.iter().chain(&flags)).run().exits(0);
        wait_for_none(&place);
    }
}

#[test]
fn no_process_of_a_call_of_git_lives_on() {
    let place = Place::new();
    place.write("watched", "");
    let model = place.script("script.json", &commands(&[]));
    let path = git_that(&place, "rev-parse", LEAVES);
    let running = place.tine(["review", "-m", &model]).env("PATH", &path).start();
    wait_for_all(&place, &running);
    // The reaper starts only when a call of git takes long.
    found("the reaper", || {
        let all = processes_of("tine-reaper --reap", 0);
        all.iter().any(|(id, _)| is_child(*id, running.id())).then_some(())
    });
    running.signal(Signal::SIGKILL);
    running.wait();
    wait_for_none(&place);
}

/// Returns whether a process was started by another one.
fn is_child(id: i32, parent: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.lines().any(|line| line == format!("PPid:\t{parent}"))
}

/// A command that leaves processes in the background.
const BACKGROUND: &str =
    "f=\"$PWD/watched\"; for i in 1 2 3 4; do setsid tail -f \"$f\" >/dev/null 2>&1 & done";

#[test]
fn the_background_of_commands_without_a_sandbox_ends_with_tine_unless_that_ends_by_itself() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let place = Place::new();
        let script = commands(&[BACKGROUND, "sleep 1000"]);
        let tine = Bounds::None.tine(&place, &script).expect("no bounds are needed");
        check(&place, tine, signal);
    }
    let place = Place::new();
    let script = commands(&[BACKGROUND]);
    Bounds::None.tine(&place, &script).expect("no bounds are needed").run().exits(0);
    let left = processes(&place.root(), 0);
    assert_eq!(left.len(), LEFT, "{left:?}");
    end_all(&left);
    wait_for_none(&place);
}

/// Leaves processes in sessions of their own, whose environments tell nothing of where they
/// come from.
const STRANGERS: &str = "f=\"$PWD/watched\"; t=\"$(command -v tail)\"; \
    for i in 1 2; do (setsid env -i A=b \"$t\" -f \"$f\" >/dev/null 2>&1 &); done; \
    for i in 1 2; do (setsid env -i \"$t\" -f \"$f\" >/dev/null 2>&1 &); done; \
    while test \"$(pgrep -cf \"tail -f $f\")\" -lt 4; do :; done";

#[test]
fn what_commands_leave_goes_on_whatever_it_does_to_its_environment() {
    let place = Place::new();
    let script = commands(&[STRANGERS]);
    Bounds::None.tine(&place, &script).expect("no bounds are needed").run().exits(0);
    let left = processes(&place.root(), 0);
    assert_eq!(left.len(), LEFT, "{left:?}");
    end_all(&left);
    wait_for_none(&place);
    // What hooks leave ends.
    let hook = json!({ "type": "command", "command": STRANGERS, "timeout": 60 });
    let hooks = json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [hook] }] } }).to_string();
    let place = Place::new();
    place.write("watched", "");
    let model = place.script("script.json", &commands(&[]));
    let run = ["-p", "go", "-m", &model, "--permission-mode", "bypassPermissions"];
    place.tine(run.iter().chain(&["--settings", &hooks])).run().exits(0);
    wait_for_none(&place);
}

fn end_all(processes: &[(i32, String)]) {
    for (id, _) in processes {
        kill(Pid::from_raw(*id), Signal::SIGKILL).expect("it runs");
    }
}

/// Returns a command that runs a tine whose commands are these, and writes down its id.
fn nested(place: &Place, name: &str, inner: &[&str]) -> String {
    let model = place.script(&format!("{name}.json"), &commands(inner));
    format!(
        "'{}' -p go -m '{model}' --permission-mode bypassPermissions & inner=$!; \
         echo $inner > {name}; wait",
        env!("CARGO_BIN_EXE_tine")
    )
}

fn id_of(place: &Place, name: &str) -> Pid {
    let id = place.read(name).expect("it has started");
    Pid::from_raw(id.trim().parse().expect("it is an id"))
}

#[test]
fn of_tines_within_each_other_all_within_the_killed_one_end_and_no_other() {
    for killed in ["outer", "1", "2", "3"] {
        let place = Place::new();
        let innermost = nested(&place, "3", &[LEAVES]);
        let inner = nested(&place, "2", &[&innermost]);
        let script = commands(&[&nested(&place, "1", &[&inner]), "tail -f \"$PWD/watched\""]);
        let running = Bounds::None.tine(&place, &script).expect("no bounds are needed").start();
        wait_for_all(&place, &running);
        if killed == "outer" {
            running.signal(Signal::SIGKILL);
        } else {
            kill(id_of(&place, killed), Signal::SIGKILL).expect("it runs");
            // Those around it go on; the outermost one to its next command.
            found("the next command", || {
                let all = processes(&place.root(), running.id());
                let watching = |(_, line): &&(i32, String)| line.trim_end().ends_with("/watched");
                (all.iter().filter(watching).count() == 1).then_some(())
            });
            running.signal(Signal::SIGTERM);
        }
        running.wait();
        wait_for_none(&place);
    }
}

#[test]
fn what_tines_within_each_other_leave_goes_on_if_commands_have_left_it() {
    let place = Place::new();
    let innermost = nested(&place, "2", &[STRANGERS]);
    let script = commands(&[&nested(&place, "1", &[&innermost])]);
    Bounds::None.tine(&place, &script).expect("no bounds are needed").run().exits(0);
    let left = processes(&place.root(), 0);
    assert_eq!(left.len(), LEFT, "{left:?}");
    end_all(&left);
    wait_for_none(&place);
}

#[test]
fn a_tine_that_another_one_has_started_ends_with_it_and_alone() {
    let script =
        |place: &Place| commands(&[&nested(place, "inner", &[LEAVES]), "tail -f \"$PWD/watched\""]);
    for is_outer in [true, false] {
        let place = Place::new();
        let tine = Bounds::None.tine(&place, &script(&place)).expect("no bounds are needed");
        let running = tine.start();
        wait_for_all(&place, &running);
        if is_outer {
            running.signal(Signal::SIGKILL);
        } else {
            kill(id_of(&place, "inner"), Signal::SIGKILL).expect("it runs");
            // Nothing of the outer one has ended: it goes on to its next command.
            found("the next command", || {
                let all = processes(&place.root(), running.id());
                let watching = |(_, line): &&(i32, String)| line.trim_end().ends_with("/watched");
                (all.iter().filter(watching).count() == 1).then_some(())
            });
            running.signal(Signal::SIGTERM);
        }
        running.wait();
        wait_for_none(&place);
    }
}
