//! Slow consumers: a coordinator and a worker that stand still until the server has
//! dropped them, and then go on.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{LONG, SESSION, logged, map, row, table};
use crate::support::fleet::Fleet;
use crate::support::nats::NatsServer;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::Place;

const KEPT: [&str; 2] = ["--session-id", SESSION];

/// How many bytes each slot's answer has. So many of them are more than the memory of
/// the system holds for a client that does not read.
const LENGTH: usize = 800_000;

const SLOTS: usize = 16;

/// What the server says when it drops a client.
const DROPPED: &str = "Slow Consumer Detected";

/// A fleet whose server waits for nobody.
fn hasty() -> Option<Fleet> {
    let store = "jetstream { store_dir: STORE, sync_interval: always }";
    let bounds = "max_pending: 1048576\nwrite_deadline: \"100ms\"";
    let server = NatsServer::start_with(&format!("{store}\n{bounds}"))?;
    Some(Fleet::at(server, LONG))
}

/// A long text that is another one for each row.
fn long_text(row: &str) -> String {
    format!("saw {row} ").repeat(LENGTH / (row.len() + 5))
}

/// A server that answers with long texts when the gate is open.
fn long_winded(gate: &Gate) -> Server {
    let gate = gate.clone();
    serve(move |talk| Reaction::text_reply(&long_text(row(talk))).behind(&gate))
}

/// Checks that each row has its whole text, and that none was begun twice.
#[track_caller]
fn check_whole(place: &Place, model: Server, count: usize) {
    let text = place.read("out.jsonl").expect("it was written");
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(rows.len(), count);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["status"], "completed");
        let text = row["result"].as_str().expect("it is a text");
        let expected = long_text(&format!("r{index}"));
        assert!(text == expected.trim_end(), "row {index} has {} bytes", text.len());
    }
    assert_eq!(logged(place, "lost"), [json!(null); 0]);
    assert_eq!(logged(place, "unit_ended").len(), count);
    assert_eq!(model.finish().len(), count, "no row is asked twice");
}

#[test]
fn a_coordinator_that_the_server_drops_reads_on_where_it_was() {
    let Some(mut fleet) = hasty() else { return };
    let gate = Gate::closed();
    let (place, model) = (table(SLOTS), long_winded(&gate));
    fleet.work(SLOTS / 2, Some(&model));
    fleet.work(SLOTS / 2, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(SLOTS);
    running.signal(Signal::SIGSTOP);
    gate.open();
    fleet.nats.wait_until_says(DROPPED);
    running.signal(Signal::SIGCONT);
    running.wait().exits(0);
    check_whole(&place, model, SLOTS);
}

#[test]
fn a_worker_that_the_server_drops_goes_on_with_what_it_has() {
    let Some(mut fleet) = hasty() else { return };
    let gate = Gate::closed();
    let (place, model) = (table(2 * SLOTS), long_winded(&gate));
    fleet.work(SLOTS, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(SLOTS);
    fleet.workers[0].signal(Signal::SIGSTOP);
    gate.open();
    // Whatever is said to it.
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let inbox = format!("tine.to.{}", fleet.workers[0].name);
        for _ in 0..SLOTS {
            let noise = vec![b' '; LENGTH];
            client.publish(inbox.clone(), noise.into()).await.expect("it is connected");
        }
        client.flush().await.expect("it is connected");
    });
    fleet.nats.wait_until_says(DROPPED);
    fleet.workers[0].signal(Signal::SIGCONT);
    running.wait().exits(0);
    check_whole(&place, model, 2 * SLOTS);
}
