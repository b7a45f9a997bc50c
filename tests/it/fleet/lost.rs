//! Slots whose worker, server or coordinator is gone: each is run to its one end.

use nix::sys::signal::Signal;
use serde_json::json;

use super::{
    LONG, SESSION, SHORT, check_each_row_once, held, held_by, logged, lost_of, map, row, table,
};
use crate::support::fleet::Fleet;
use crate::support::life::Life;
use crate::support::repository::Repository;
use crate::support::server::{Gate, Reaction};
use crate::support::talk::{serve, serve_calls};
use crate::support::tine::Place;
use crate::support::wait::until;

const KEPT: [&str; 2] = ["--session-id", SESSION];

#[test]
fn slots_of_a_worker_that_is_killed_are_run_by_another() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(12), held_by(&gate));
    fleet.work(4, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(4);
    fleet.workers[0].kill9();
    gate.open();
    let killed = fleet.workers[0].name.clone();
    fleet.work(4, Some(&model));
    running.wait().exits(0);
    check_each_row_once(&place, 12);
    // None of those that had come had ended.
    assert!(lost_of(&place, &killed) >= 4, "{:?}", logged(&place, "lost"));
}

#[test]
fn a_slot_whose_only_worker_stood_still_ends_all_the_same() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(2), held_by(&gate));
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(2);
    fleet.workers[0].signal(Signal::SIGSTOP);
    until("both slots are lost", || logged(&place, "lost").len() >= 2);
    gate.open();
    fleet.workers[0].signal(Signal::SIGCONT);
    running.wait().exits(0);
    check_each_row_once(&place, 2);
    assert_eq!(logged(&place, "unit_ended").len(), 2);
}

#[test]
fn a_worker_that_stood_still_and_goes_on_disturbs_nobody() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(3), held_by(&gate));
    fleet.work(3, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(3);
    fleet.workers[0].signal(Signal::SIGSTOP);
    fleet.work(3, Some(&model));
    // The other one has them all.
    model.wait_until_came(6);
    fleet.workers[0].signal(Signal::SIGCONT);
    gate.open();
    running.wait().exits(0);
    check_each_row_once(&place, 3);
    assert_eq!(logged(&place, "unit_ended").len(), 3);
    // It is of use still.
    fleet.workers[1].signal(Signal::SIGTERM);
    assert_eq!(fleet.workers[1].ends().0, Some(0));
    let place = table(5);
    map(&fleet, &place, &model, &[]).run().exits(0);
    check_each_row_once(&place, 5);
}

#[test]
fn a_slot_that_takes_three_workers_with_it_fails_and_says_so() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let (place, model) = (table(1), serve(|_| Reaction::Hang));
    fleet.work(1, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(1);
    for attempt in 0..3 {
        until("another worker has it, or it is over", || {
            model.count() > attempt || !logged(&place, "unit_ended").is_empty()
        });
        fleet.workers[attempt].kill9();
        if attempt < 2 {
            fleet.work(1, Some(&model));
        }
    }
    let finished = running.wait().exits(1);
    let said = "it was lost with its worker, 3 times";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    assert_eq!(logged(&place, "lost").len(), 3);
}

#[test]
fn a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(40), held_by(&gate));
    fleet.work(3, Some(&model));
    fleet.work(3, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(6);
    fleet.nats.kill9();
    // Now they have something to say, and nobody hears it.
    gate.open();
    fleet.nats.restart();
    running.wait().exits(0);
    check_each_row_once(&place, 40);
    assert_eq!(logged(&place, "lost"), [json!(null); 0]);
    assert_eq!(model.finish().len(), 40, "no row is asked twice");
}

#[test]
fn a_coordinator_that_is_killed_goes_on_where_it_was() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (open, gate) = (Gate::closed(), Gate::closed());
    open.open();
    let held_back = gate.clone();
    let place = table(12);
    let model = held(move |talk| {
        let number: usize = row(talk)[1..].parse().expect("rows are numbered");
        if number < 5 { open.clone() } else { held_back.clone() }
    });
    fleet.work(4, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    // Each row beyond the first four has a place because another one has ended.
    model.wait_until_came(9);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let before = logged(&place, "unit_ended").len();
    assert!(before <= 5, "{before}");
    gate.open();
    map(&fleet, &place, &model, &["--resume", SESSION]).run().exits(0);
    check_each_row_once(&place, 12);
    // Those at work run again, and those whose ends were on their way.
    let most = 12 + 4 + (5 - before);
    let asked = model.finish().len();
    assert!((12..=most).contains(&asked), "{asked} of at most {most}");
}

#[test]
fn what_a_lost_worker_had_changed_is_nowhere_and_its_successors_work_lands_once() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let repository = Repository::new();
    repository.write("lines.txt", "one\n");
    repository.commit("Begin");
    let task = json!({"description": "t", "prompt": "t", "subagent_type": "general-purpose"});
    let append =
        json!({"file_path": "lines.txt", "old_string": "one\n", "new_string": "one\ntwo\n"});
    let gate = Gate::closed();
    let held = gate.clone();
    let model = serve_calls(&[("Agent", task)], move |talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Edit", append.clone())]),
        _ => Reaction::text_reply("It is two lines now.").behind(&held),
    });
    let place = &repository.place;
    place.configure(&fleet.configuration());
    fleet.work(1, Some(&model));
    let asked = ["-p", "go", "-m", "m", "--executor", "nats", "--permission-mode", "acceptEdits"];
    let running = place.tine(asked).server(&model).start();
    // It has changed the file, there.
    model.wait_until_came(3);
    fleet.workers[0].kill9();
    gate.open();
    fleet.work(1, Some(&model));
    running.wait().exits(0);
    assert_eq!(place.read("lines.txt").as_deref(), Some("one\ntwo\n"));
    let worktrees = logged(place, "worktree");
    let applied = worktrees.iter().filter(|line| !line["body"]["applied"].is_null()).count();
    assert_eq!((applied, repository.git(&["status", "--short"])), (1, "M lines.txt".to_owned()));
}

#[test]
fn a_worker_ends_what_it_runs_for_a_coordinator_that_is_gone() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    fleet.work(1, None);
    let (place, aside) = (Place::new(), Place::new());
    place.configure(&fleet.configuration());
    let life = Life::new(&aside);
    let command = format!("cd {}; {}", aside.work().display(), Life::held_by("sleep 1000"));
    let bash = json!({"name": "Bash", "arguments": {"command": command}});
    let task = json!({"description": "t", "prompt": "t", "subagent_type": "general-purpose"});
    let agent = json!({"name": "Agent", "arguments": task});
    let units = json!({"main": [{"calls": [agent]}], "t": [{"calls": [bash]}]});
    let model = place.script("script.json", &json!({ "units": units }));
    let asked = ["-p", "go", "-m", &model, "--executor", "nats", "--allowedTools", "Bash"];
    let running = place.tine(asked.iter().chain(&["--config", "sandbox.mode=\"off\""])).start();
    let begun = life.begun();
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    begun.ended();
    fleet.workers[0].signal(Signal::SIGTERM);
    assert_eq!(fleet.workers[0].ends().0, Some(0));
}
