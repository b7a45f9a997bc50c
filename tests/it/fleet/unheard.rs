//! Slots of which nobody can hear what they do, or what they came to: they end, once and
//! with the reason.

use serde_json::Value;
use tine::fleet::engine::Won;
use tokio::runtime::Runtime;

use super::late::takes_one;
use super::refused::engine;
use super::{LONG, SESSION, SHORT, logged, map, row, table};
use crate::support::fleet::Fleet;
use crate::support::nats::NatsServer;
use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::{Finished, Place};

const KEPT: [&str; 2] = ["--session-id", SESSION];

/// Returns why the only row failed. It was given to a worker once.
fn failed(place: &Place, finished: Finished) -> String {
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
    let conf = "jetstream { store_dir: STORE, max_file_store: 300KB }";
    let Some(server) = NatsServer::start_with(conf) else { return };
    let mut fleet = Fleet::at(server, LONG);
    // Streams are compressed, so it repeats nothing.
    let words = (0..100_000_u32).map(|it| format!("{:08x}", it.wrapping_mul(2_654_435_761)));
    let long = words.collect::<String>();
    let model = serve(move |talk| Reaction::text_reply(&format!("{} {long}", row(talk))));
    let place = table(1);
    fleet.work(1, Some(&model));
    let why = failed(&place, map(&fleet, &place, &model, &KEPT).run());
    assert!(why.contains("cannot be sent: the NATS server has no room left"), "{why}");
    assert!(why.contains("free storage on the server"), "{why}");
    assert_eq!(model.finish().len(), 1);
}
