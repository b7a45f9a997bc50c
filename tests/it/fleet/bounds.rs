//! What slots on workers may do, and their commands reach: no more than the run lets
//! them, however free the worker is, and no more than the worker lets them.

use serde_json::{Value, json};

use super::batches::repository;
use super::{LONG, both, call, logged, script, task, write};
use crate::approvals::has_sandbox;
use crate::support::fleet::Fleet;

#[test]
fn commands_are_kept_in_what_the_run_asks_for_though_the_worker_asks_for_nothing() {
    both(|side| {
        side.work(&[1], None);
        let place = repository().place;
        let command = json!({"command": "ls"});
        let agents = json!({"looks": [{"calls": [call("Bash", command)]}, {"text": "seen"}]});
        let flags = ["--config", "sandbox.mode=\"best\""];
        side.play(&place, &script(&[task("looks")], agents), &flags).run().exits(0);
        let started = logged(&place, "tool_started");
        started.iter().map(|line| line["body"]["confinement"].clone()).collect::<Vec<_>>()
    });
}

/// What the calls came to of a slot whose run allows everything, on a worker with these
/// flags: whether both files are there, what was said of them, and how commands were
/// kept in something.
struct Bounded {
    is_there: [bool; 2],
    outputs: Vec<String>,
    confined: Vec<Value>,
}

/// Has a slot write a file and run a command that makes another one.
fn bounded(flags: &[&str]) -> Option<Bounded> {
    let mut fleet = Fleet::start(LONG)?;
    fleet.work_as(1, flags, "", |tine| tine);
    let place = repository().place;
    let makes = json!({"calls": [call("Bash", json!({"command": "touch touched.txt"}))]});
    let agents = json!({"works": [write("written.txt", "w\n"), makes, {"text": "done"}]});
    let model = place.script("script.json", &script(&[task("works")], agents));
    place.configure(&format!("{}[sandbox]\nmode = \"off\"\n", fleet.configuration()));
    let asked = ["-p", "go", "-m", &model, "--executor", "nats", "--allowed-tools", "Bash"];
    let free = ["--permission-mode", "bypassPermissions"];
    place.tine(asked.iter().chain(&free)).run().exits(0);
    let of_slot = |kind: &str| {
        let lines = logged(&place, kind).into_iter();
        lines.filter(|line| line["unit"] != "main").map(|line| line["body"].clone())
    };
    let text = |body: Value| body["text"].as_str().expect("an output has a text").to_owned();
    Some(Bounded {
        is_there: ["written.txt", "touched.txt"].map(|name| place.read(name).is_some()),
        outputs: of_slot("tool_finished").map(text).collect(),
        confined: of_slot("tool_started").map(|body| body["confinement"].clone()).collect(),
    })
}

#[test]
fn a_worker_with_a_lower_mode_than_its_run_denies_what_that_mode_does_not_let_through() {
    let Some(free) = bounded(&[]) else { return };
    assert_eq!(free.is_there, [true; 2], "{:?}", free.outputs);
    for (mode, why) in [("plan", "plan mode only reads"), ("default", "no rule allows this edit")] {
        let Some(kept) = bounded(&["--permission-mode", mode]) else { return };
        assert!(!kept.is_there[0], "{mode}: {:?}", kept.outputs);
        let denied = format!("Permission to use Write denied: {why}");
        assert!(kept.outputs[0].starts_with(&denied), "{:?}", kept.outputs);
    }
}

#[test]
fn a_command_that_a_worker_denies_is_denied_though_its_run_allows_it() {
    let Some(kept) = bounded(&["--disallowed-tools", "Bash(touch *)"]) else { return };
    let denied = "Permission to use Bash denied: denied by the rule `Bash(touch *)`";
    assert_eq!((kept.is_there, kept.outputs[1].as_str()), ([true, false], denied));
}

#[test]
fn a_worker_that_wants_a_sandbox_keeps_commands_in_one_though_their_run_wants_none() {
    if !has_sandbox(&repository()) {
        return;
    }
    let Some([free, kept]) = bounded(&[]).zip(bounded(&["--sandbox"])).map(<[_; 2]>::from) else {
        return;
    };
    let access = [free, kept].map(|bounded| {
        assert_eq!(bounded.is_there, [true; 2], "{:?}", bounded.outputs);
        bounded.confined.into_iter().map(|it| it["access"].clone()).collect::<Vec<_>>()
    });
    let of_both = ["off", "workspace-write"].map(|access| vec![Value::Null, access.into()]);
    assert_eq!(access, of_both);
}
