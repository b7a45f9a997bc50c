//! Slots of which nobody can hear what they do, or what they came to: they end, once and
//! with the reason.

use std::fs;
use std::path::Path;

use async_nats::Message;
use futures_util::StreamExt as _;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tine::fleet::engine::Won;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::late::takes_one;
use super::refused::engine;
use super::{LONG, SESSION, SHORT, logged, map, row, table, write_table};
use crate::support::fleet::Fleet;
use crate::support::nats::NatsServer;
use crate::support::repository::Repository;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::{Finished, HANG_LIMIT, Place};

const KEPT: [&str; 2] = ["--session-id", SESSION];

/// A server without room for what [`wordy`] says.
pub(super) fn small(lease_s: u32) -> Option<Fleet> {
    let conf = "jetstream { store_dir: STORE, max_file_store: 300KB }";
    NatsServer::start_with(conf).map(|server| Fleet::at(server, lease_s))
}

/// A model that says more than a small server has room for, once the gate is open.
fn wordy(gate: Gate) -> Server {
    // Still one message: what is larger is a blob.
    let long = "and on, ".repeat(100_000);
    serve(move |talk| Reaction::text_reply(&format!("{} {long}", row(talk))).behind(&gate))
}

/// Returns why the only row failed. It was given to a worker once.
pub(super) fn failed(place: &Place, finished: Finished) -> String {
    finished.exits(1);
    assert_eq!(logged(place, "lost").len(), 0);
    let line = place.read("out.jsonl").expect("it was written");
    let line: Value = serde_json::from_str(&line).expect("it is one line");
    line["error"].as_str().expect("it says why").to_owned()
}

#[test]
fn a_result_that_cannot_be_read_fails_its_slot_and_says_so() {
    let Some(fleet) = Fleet::start(SHORT) else { return };
    let (place, model) = (table(1), super::echo());
    let running = map(&fleet, &place, &model, &KEPT).start();
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(engine(&fleet));
    let (run, unit) = takes_one(&runtime, &engine);
    let won = runtime.block_on(engine.result(&run, unit.0, "garbage".into())).unwrap();
    assert_eq!(won, Won::First);
    let why = failed(&place, running.wait());
    assert!(why.contains("what it came to cannot be read: "), "{why}");
}

#[test]
fn what_finds_no_room_on_the_server_fails_and_is_not_asked_for_again() {
    let Some(mut fleet) = small(LONG) else { return };
    let gate = Gate::closed();
    gate.open();
    let model = wordy(gate);
    let place = table(1);
    fleet.work(1, Some(&model));
    let why = failed(&place, map(&fleet, &place, &model, &KEPT).run());
    assert!(why.contains("cannot be sent: the NATS server has no room left"), "{why}");
    assert!(why.contains("free storage on the server"), "{why}");
    assert_eq!(model.finish().len(), 1);
}

/// The end of a patch with a file that was made.
const MADE: &str = "+++ b/made.txt\n@@ -0,0 +1 @@\n+made\n";

/// Has a slot run a command in a workspace and then be answered so, which fails for want
/// of room, and returns the patch that stays with the worker.
fn kept(
    mut fleet: Fleet,
    command: &str,
    model: impl Fn() -> Reaction + Send + Sync + 'static,
) -> String {
    let repository = Repository::new();
    write_table(&repository.place, 1);
    repository.commit("Begin");
    let call = json!({ "command": command });
    let model = serve(move |talk| match talk.turn() {
        1 => Reaction::call_reply(&[("Bash", call.clone())]),
        _ => model(),
    });
    fleet.work(1, Some(&model));
    let flags = [&KEPT[..], &["--allowedTools", "Bash"]].concat();
    let place = &repository.place;
    let why = failed(place, map(&fleet, place, &model, &flags).run());
    assert!(why.contains("the NATS server has no room left"), "{why}");
    let copies = fleet.workers[0].directory();
    let (_, kept) = why.split_once(" kept in ").expect("it says where its change is");
    let (kept, _) = kept.split_once(" on its worker").expect("and with whom");
    assert!(Path::new(kept).starts_with(copies.join("kept")), "{why}");
    fs::read_to_string(kept).expect("it is there")
}

#[test]
fn a_change_that_finds_no_room_on_the_server_stays_on_its_worker() {
    let Some(fleet) = small(LONG) else { return };
    let write = "seq 100000 > made.txt";
    let patch = kept(fleet, write, || Reaction::text_reply("It is made."));
    assert!(patch.contains("+++ b/made.txt\n") && patch.contains("\n+99999\n"), "{patch:.200}");
}

#[test]
fn what_was_changed_stays_on_the_worker_if_nobody_can_hear_of_its_slot() {
    let Some(fleet) = small(LONG) else { return };
    let long = "and on, ".repeat(100_000);
    let patch = kept(fleet, "echo made > made.txt", move || Reaction::text_reply(&long));
    assert!(patch.ends_with(MADE), "{patch:.200}");
}

#[test]
fn it_stays_there_too_if_the_slot_waits_for_an_answer_that_never_comes() {
    let Some(fleet) = small(LONG) else { return };
    let long = "and on, ".repeat(100_000);
    let more = json!({ "command": "echo more > more.txt" });
    let asks = move || Reaction::reply(Some(&long), &[("Bash", more.clone())]);
    let patch = kept(fleet, "echo made > made.txt", asks);
    assert!(patch.contains(MADE), "{patch:.200}");
}

#[test]
fn a_task_that_finds_no_room_on_its_way_fails_its_slot_and_says_so() {
    let Some(mut fleet) = small(LONG) else { return };
    let (place, model) = (Place::new(), super::echo());
    place.write("p.md", "Look at {{ path }}");
    // More than a message may be.
    place.write("items.csv", format!("path\n{}\n", "x".repeat(1_200_000)));
    fleet.work(1, Some(&model));
    let why = failed(&place, map(&fleet, &place, &model, &KEPT).run());
    assert!(why.contains("cannot be sent: the NATS server has no room left"), "{why}");
    assert!(model.finish().is_empty());
}

#[test]
fn a_coordinator_that_sleeps_is_told_again_of_what_finds_no_room() {
    // Longer than its coordinator sleeps here: that is for as long as one request waits.
    let Some(mut fleet) = small(2 * SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(1), wordy(gate.clone()));
    fleet.work(1, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(1);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let beats = client.subscribe("tine.beat.>").await.expect("it can be heard");
        let says = |beat: &Message| String::from_utf8_lossy(&beat.payload).contains("no room left");
        let mut beats = beats.filter(|beat| std::future::ready(says(beat)));
        client.flush().await.expect("the server is there");
        running.signal(Signal::SIGSTOP);
        gate.open();
        for _ in 0..2 {
            let said = timeout(HANG_LIMIT, beats.next()).await.expect("it is said twice");
            assert!(said.is_some(), "the server is there");
        }
        running.signal(Signal::SIGCONT);
    });
    let why = failed(&place, running.wait());
    assert!(why.contains("cannot be sent: the NATS server has no room left"), "{why}");
    assert_eq!(model.finish().len(), 1);
}
