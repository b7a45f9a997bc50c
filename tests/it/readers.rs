//! Readers that are slow, gone, or never there: the answer is not lost, the
//! result comes once, and the process ends when it is told to.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::tine::Place;

/// More than any pipe holds.
const LONG: usize = 300_000;

fn place_with_long_answer() -> (Place, String) {
    let place = Place::new();
    let script = json!({"units": {}, "then": {"text": "x".repeat(LONG)}});
    let model = place.script("long.json", &script);
    (place, model)
}

#[test]
fn a_closed_standard_error_costs_no_answer() {
    let (place, model) = place_with_long_answer();
    let mut command = place.tine(["-p", "x", "-m", &model]).into_command();
    let full = OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
    let output =
        command.stdin(Stdio::null()).stderr(full).output().expect("cargo has built the binary");
    assert_eq!((output.stdout.len(), output.status.code()), (LONG + 1, Some(0)));
}

#[test]
fn a_second_place_that_is_full_does_not_silence_the_first() {
    let (place, model) = place_with_long_answer();
    let finished = place.tine(["-p", "x", "-m", &model, "--json-file", "/dev/full"]).run().exits(1);
    assert_eq!(finished.stdout.len(), LONG + 1);
    assert!(finished.stderr.contains("error: cannot write the output: "), "{}", finished.stderr);
}

#[test]
fn a_last_message_that_cannot_be_written_is_one_refusal_before_anything_runs() {
    let (place, model) = place_with_long_answer();
    let flags = ["-p", "x", "-m", &model, "-o", "json", "--output-last-message", "/none/x"];
    let finished = place.tine(flags).run().exits(42);
    assert_eq!(finished.stdout.lines().count(), 1);
    assert_eq!(finished.result()["subtype"], "error_during_execution");
}

#[test]
fn a_reader_that_never_reads_does_not_keep_a_terminated_run_alive() {
    let (place, model) = place_with_long_answer();
    let mut command = place.tine(["-p", "x", "-m", &model, "-o", "stream-json"]).into_command();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("cargo has built the binary");
    // One byte tells that the run has begun and signals are listened to.
    let stdout = child.stdout.as_mut().expect("it was piped");
    stdout.read_exact(&mut [0]).expect("the first record is written at once");
    let id = i32::try_from(child.id()).expect("a process id fits its own type");
    kill(Pid::from_raw(id), Signal::SIGTERM).expect("the child is alive");
    let status = child.wait().expect("the child is ours");
    assert_eq!(status.code(), Some(143));
}
