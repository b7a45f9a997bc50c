//! Workers that are asked to end, and the list of those that there are.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{LONG, SHORT, check_each_row_once, held_by, map, table};
use crate::support::fleet::Fleet;
use crate::support::server::Gate;
use crate::support::tine::Place;
use crate::support::wait::{found, until};

#[test]
fn a_worker_that_is_asked_to_end_ends_what_it_runs_and_draws_no_more() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(6), held_by(&gate));
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &[]).start();
    model.wait_until_came(2);
    fleet.workers[0].signal(Signal::SIGTERM);
    let said = fleet.workers[0].says();
    assert_eq!(said, "taking no more agents; a second signal ends those at work, too");
    gate.open();
    assert_eq!(fleet.workers[0].ends(), (Some(0), vec![]));
    assert_eq!(model.count(), 2, "it drew no more");
    fleet.work(2, Some(&model));
    running.wait().exits(0);
    check_each_row_once(&place, 6);
    assert_eq!(model.finish().len(), 6, "no row is asked twice");
}

#[test]
fn what_a_worker_is_made_to_drop_is_run_by_another() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(4), held_by(&gate));
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &[]).start();
    model.wait_until_came(2);
    fleet.workers[0].signal(Signal::SIGTERM);
    fleet.workers[0].says();
    fleet.workers[0].signal(Signal::SIGTERM);
    assert_eq!(fleet.workers[0].ends().0, Some(0));
    gate.open();
    fleet.work(2, Some(&model));
    running.wait().exits(0);
    check_each_row_once(&place, 4);
}

#[test]
fn workers_are_listed_as_text_and_as_json() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let place = Place::new();
    place.configure(&fleet.configuration());
    let none = place.tine(["workers"]).run().exits(0);
    assert_eq!(none.stdout, "no worker is there; start one with `tine worker`\n");
    let none = place.tine(["workers", "-o", "json"]).run().exits(0);
    assert_eq!(none.result(), json!({ "workers": [] }));
    let mut names = [3, 5].map(|most| (fleet.work(most, None).name.clone(), most));
    names.sort();
    // Each tells of itself once it takes slots.
    let listed = found("both are listed", || {
        let listed = place.tine(["workers", "-o", "json"]).run().exits(0).result();
        let workers = listed["workers"].as_array().expect("it is a list");
        (workers.len() == 2).then_some(listed)
    });
    let version = env!("CARGO_PKG_VERSION");
    let expected: Vec<Value> = names
        .iter()
        .map(|(name, most)| {
            json!({"worker": name, "version": version, "labels": [], "max_concurrent": most,
                "running": 0, "draining": false})
        })
        .collect();
    assert_eq!(listed["workers"], json!(expected));
    let text = place.tine(["workers"]).run().exits(0).stdout;
    let expected: Vec<String> =
        names.iter().map(|(name, most)| format!("{name}  0 of {most}  tine {version}\n")).collect();
    assert_eq!(text, expected.concat());
    place.tine(["workers", "-o", "stream-json"]).run().exits(2);
}

/// What `tine workers` says of a worker at work, as JSON and as text.
fn at_work(worker: &str, labels: &[&str], running: usize, is_drained: bool) -> (Value, String) {
    let version = env!("CARGO_PKG_VERSION");
    let object = json!({"worker": worker, "version": version, "labels": labels,
        "max_concurrent": 2, "running": running, "draining": is_drained});
    let labels: String =
        if labels.is_empty() { String::new() } else { format!("  {}", labels.join(", ")) };
    let drains = if is_drained { "  takes no more" } else { "" };
    (object, format!("{worker}  {running} of 2  tine {version}{labels}{drains}\n"))
}

#[test]
fn workers_at_work_are_listed_with_their_load_their_labels_and_whether_they_take_more() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(3), held_by(&gate));
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &[]).start();
    model.wait_until_came(2);
    fleet.workers[0].signal(Signal::SIGTERM);
    fleet.workers[0].says();
    let labels = ["--label", "gpu", "--label", "big"];
    fleet.work_as(2, &labels, "", |tine| tine.server(&model));
    model.wait_until_came(3);
    let [drained, labelled] = [0, 1].map(|worker| fleet.workers[worker].name.clone());
    let mut expected =
        [at_work(&drained, &[], 2, true), at_work(&labelled, &["gpu", "big"], 1, false)];
    expected.sort_by_key(|(object, _)| object["worker"].to_string());
    let [one, other] = expected;
    let expected = json!({"workers": [one.0, other.0]});
    let list = |format: &str| place.tine(["workers", "--output-format", format]).run().exits(0);
    // They tell of themselves every few seconds.
    until("both have told how they stand", || list("json").result() == expected);
    assert_eq!(list("text").stdout, one.1 + &other.1);
    gate.open();
    running.wait().exits(0);
    assert_eq!(fleet.workers[0].ends(), (Some(0), vec![]));
    check_each_row_once(&place, 3);
}
