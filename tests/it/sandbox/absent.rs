//! A sandbox that cannot be set up: each step fails in turn, and the user is told before the
//! first command that runs without one.

use std::fs;

use serde_json::{Value, json};

use crate::support::faults::Fault;
use crate::support::mounts::{HIDE_BWRAP, can_mount};
use crate::support::records::Records;
use crate::support::tine::{Place, Tine};

/// The beginning of every warning.
const WARNING: &str = "no sandbox confines commands that rules allow: ";

/// Says whether a filter holds the command.
const ASKS: &str = "grep -o 'Seccomp:.*' /proc/self/status";

/// Two such commands that a rule allows.
fn script() -> Value {
    let call = json!({ "calls": [{ "name": "Bash", "arguments": { "command": ASKS } }] });
    json!({ "units": { "main": [call, call, { "text": "done" }] } })
}

fn run(place: &Place, flags: &[&str]) -> Tine {
    let model = place.script("script.json", &script());
    let always = ["-p", "go", "-m", &model, "--allowed-tools", "Bash"];
    place.tine(always.iter().chain(flags))
}

/// Checks what a run says of the sandbox: `bwrap`, `landlock`, or `none` and why.
#[track_caller]
fn check(tine: Tine, expected: &str, why: &[&str]) {
    let finished = tine.run().exits(0);
    let records = finished.records();
    let init = records.system("init");
    assert_eq!(init[0]["sandbox"]["installed"], expected, "{}", init[0]);
    let mode = if expected == "none" { "0" } else { "2" };
    let outputs: Vec<String> = records.outputs().into_iter().map(|output| output.text).collect();
    assert_eq!(outputs, [format!("Seccomp:\t{mode}\n"), format!("Seccomp:\t{mode}\n")]);
    check_warning(&records, expected == "none", why);
}

/// Checks that there is one warning before the first output, or none at all.
#[track_caller]
fn check_warning(records: &Records, is_expected: bool, why: &[&str]) {
    let is_warning = |record: &Value| {
        record["content"].as_str().is_some_and(|content| content.starts_with(WARNING))
    };
    let warnings: Vec<usize> =
        (0..records.0.len()).filter(|at| is_warning(&records.0[*at])).collect();
    if !is_expected {
        assert!(warnings.is_empty(), "{records:?}");
        return;
    }
    let first_output = records.0.iter().position(|record| record["type"] == "user");
    let [at] = warnings[..] else { panic!("{} warnings: {records:?}", warnings.len()) };
    assert!(Some(at) < first_output, "{records:?}");
    for why in why {
        let content = records.0[at]["content"].as_str().expect("it is text");
        assert!(content.contains(why), "{content} does not say {why}");
    }
}

const JSON: [&str; 2] = ["-o", "stream-json"];

#[test]
fn whatever_step_fails_the_next_best_holds_or_the_user_is_told_that_nothing_does() {
    // bubblewrap needs `mount`; each of the other calls is a step of Landlock's set-up.
    let check = |calls: &'static str, expected, why: &[&str]| {
        let place = Place::new();
        let fault = Fault::Fails(calls, "EPERM", 1);
        check(run(&place, &JSON).with_fault_anywhere(fault), expected, why);
    };
    check("mount", "landlock", &[]);
    check("pivot_root", "landlock", &[]);
    for step in [
        "mount,landlock_create_ruleset",
        "mount,landlock_add_rule",
        "mount,landlock_restrict_self",
        "mount,capset",
        "mount,seccomp",
    ] {
        check(step, "none", &["bubblewrap", "Landlock"]);
    }
}

#[test]
fn a_place_that_cannot_be_written_is_not_the_end_of_landlock() {
    if !can_mount() {
        return;
    }
    let check = |temporary: &str, script: &str, expected, why: &[&str]| {
        let place = Place::new();
        let root = place.root();
        let root = root.to_str().expect("temporary directories have plain names");
        place.write("file", "");
        let script = format!("{HIDE_BWRAP}; {}", script.replace("ROOT", root));
        let tine = run(&place, &JSON).env("TMPDIR", &temporary.replace("ROOT", root));
        check(tine.mounting(&script), expected, why);
    };
    let read_only = |places: &str| {
        format!(
            "mount --bind ROOT ROOT; for place in {places}; do mount --rbind $place $place; \
             mount -o remount,ro,bind $place; done"
        )
    };
    let none = "mkdir -p ROOT/home/.local/state/tine; touch ROOT/home/.local/state/tine/scratch";
    check("/nonexistent", ":", "landlock", &[]);
    check("ROOT/work/file", ":", "landlock", &[]);
    check("/proc", ":", "landlock", &[]);
    check("/nonexistent", &read_only("/tmp"), "landlock", &[]);
    check("/tmp", &read_only("/tmp /var/tmp"), "landlock", &[]);
    check("/tmp", &read_only("/tmp /var/tmp /dev/shm"), "landlock", &[]);
    // A disk without room for a file: its directory is of no use.
    let full = "mount -t tmpfs -o size=4k tmpfs ROOT/full; dd if=/dev/zero of=ROOT/full/file 2>/dev/null || :";
    check("ROOT/full", &format!("mkdir ROOT/full; {full}"), "landlock", &[]);
    let nowhere = format!("{}; {none}", read_only("/tmp /var/tmp /dev/shm"));
    let why = ["bubblewrap is not installed", "no place for a temporary directory", "/nonexistent"];
    check("/nonexistent", &nowhere, "none", &why);
}

#[test]
fn without_a_sandbox_text_says_so_once_on_standard_error_and_only_if_it_matters() {
    let nothing = Fault::Fails("mount,landlock_create_ruleset", "EPERM", 1);
    let said = |flags: &[&str]| {
        let place = Place::new();
        let finished = run(&place, flags).with_fault_anywhere(nothing).run().exits(0);
        finished.stderr.matches(WARNING).count()
    };
    assert_eq!(said(&[]), 1);
    for silent in [
        &["--config", "sandbox.mode=\"off\""] as &[&str],
        &["--sandbox"],
        // Without a sandbox by the user's own word.
        &["--permission-mode", "bypassPermissions"],
        &["--disallowed-tools", "Bash"],
    ] {
        assert_eq!(said(silent), 0, "{silent:?}");
    }
}

#[test]
fn a_required_sandbox_that_cannot_be_set_up_runs_nothing() {
    let place = Place::new();
    let nothing = Fault::Fails("mount,landlock_restrict_self", "EPERM", 1);
    let flags = [&JSON[..], &["--sandbox"]].concat();
    let finished = run(&place, &flags).with_fault_anywhere(nothing).run().exits(0);
    let records = finished.records();
    assert_eq!(records.system("init")[0]["sandbox"]["installed"], "none");
    for output in records.outputs() {
        assert!(output.is_error && output.text.contains("there is no sandbox"), "{output:?}");
    }
    assert!(fs::read_dir(place.work()).expect("it is ours").next().is_none());
}
