//! Maps of many rows in which somebody is killed or cut off: each row has its one line,
//! and nothing is asked twice of which the log does not say why.

use futures_util::StreamExt as _;
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{
    LONG, SESSION, SHORT, check_each_row_once, held, held_by, logged, lost_of, map, mapping,
    results, row, table,
};
use crate::support::fleet::Fleet;
use crate::support::relay::Relay;
use crate::support::server::{Gate, Server};
use crate::support::tine::{HANG_LIMIT, Place, Running};
use crate::support::wait::until;

const KEPT: [&str; 2] = ["--session-id", SESSION];

const ROWS: usize = 1_000;

/// How many of them are answered at once.
const EARLY: usize = 500;

/// How many slots there are at once, on both workers together.
const PLACES: usize = 16;

/// A model that answers so many rows at once, and the others when the gate is open.
fn early(count: usize, gate: &Gate) -> Server {
    let (open, gate) = (Gate::closed(), gate.clone());
    open.open();
    held(move |talk| {
        let number: usize = row(talk)[1..].parse().expect("rows are numbered");
        if number < count { open.clone() } else { gate.clone() }
    })
}

/// A map of a thousand rows over two workers, in its middle: half of the rows are
/// answered, and each place has one that is not until the gate opens.
struct Middle {
    fleet: Fleet,
    /// The way of one process to the server, if it has one of its own.
    relay: Relay,
    place: Place,
    model: Server,
    gate: Gate,
    running: Running,
}

/// Who reaches the server over a relay.
enum Apart {
    Nobody,
    TheFirstWorker,
    TheCoordinator,
}

/// Begins such a map; `None` where there is no server.
fn middle(lease_s: u32, apart: Apart) -> Option<Middle> {
    let mut fleet = Fleet::start(lease_s)?;
    let relay = Relay::to(fleet.nats.port());
    let gate = Gate::closed();
    let (place, model) = (table(ROWS), early(EARLY, &gate));
    let most = PLACES / 2;
    match apart {
        Apart::TheFirstWorker => fleet.work_over(&relay.url(), most, Some(&model)),
        Apart::Nobody | Apart::TheCoordinator => fleet.work(most, Some(&model)),
    };
    fleet.work(most, Some(&model));
    place.configure(&match apart {
        Apart::TheCoordinator => fleet.configuration_over(&relay.url()),
        Apart::Nobody | Apart::TheFirstWorker => fleet.configuration(),
    });
    let running = mapping(&place, &model, &KEPT).start();
    model.wait_until_came(EARLY + PLACES);
    Some(Middle { fleet, relay, place, model, gate, running })
}

/// Checks that of a thousand rows each has ended once, and that none was asked for more
/// often than it was lost.
#[track_caller]
fn check_once(fleet: &Fleet, place: &Place, model: Server) {
    check_each_row_once(place, ROWS);
    assert_eq!(logged(place, "unit_ended").len(), ROWS);
    assert_eq!(results(fleet), [1; ROWS]);
    let (asked, lost) = (model.finish().len(), logged(place, "lost").len());
    assert!((ROWS..=ROWS + lost).contains(&asked), "{asked} requests, {lost} lost");
}

/// Waits for as long as a worker takes to say this often that it lives: a quarter of a
/// lease each time, and half a lease if nobody answers.
fn beats(fleet: &Fleet, worker: usize, count: usize) {
    let name = fleet.workers[worker].name.as_bytes();
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let beats = client.subscribe("tine.beat.>").await.expect("it can be heard");
        let own = beats.filter(|beat| {
            let is_own = beat.payload.windows(name.len()).any(|it| it == name);
            std::future::ready(is_own)
        });
        let all = own.take(count).count();
        timeout(HANG_LIMIT * 2, all).await.expect("it lives");
    });
}

#[test]
fn of_a_thousand_rows_those_of_a_killed_worker_run_again_and_no_others() {
    let Some(middle) = middle(SHORT, Apart::Nobody) else { return };
    let Middle { mut fleet, relay: _, place, model, gate, running } = middle;
    fleet.workers[0].kill9();
    gate.open();
    running.wait().exits(0);
    assert!(lost_of(&place, &fleet.workers[0].name) > 0);
    check_once(&fleet, &place, model);
}

#[test]
fn a_thousand_rows_lose_and_double_nothing_when_the_server_is_killed() {
    let Some(middle) = middle(LONG, Apart::Nobody) else { return };
    let Middle { mut fleet, relay: _, place, model, gate, running } = middle;
    fleet.nats.kill9();
    // Now they have something to say, and nobody hears it.
    gate.open();
    fleet.nats.restart();
    running.wait().exits(0);
    assert_eq!(logged(&place, "lost"), [json!(null); 0]);
    check_once(&fleet, &place, model);
}

#[test]
fn of_a_thousand_rows_those_run_again_that_a_killed_coordinator_had_not_heard_of() {
    let Some(middle) = middle(LONG, Apart::Nobody) else { return };
    let Middle { fleet, relay: _, place, model, gate, running } = middle;
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let (came, before) = (model.count(), logged(&place, "unit_ended").len());
    assert!(before <= EARLY, "{before}");
    gate.open();
    map(&fleet, &place, &model, &["--resume", SESSION]).run().exits(0);
    check_each_row_once(&place, ROWS);
    let asked = model.finish().len();
    assert!((ROWS..=ROWS + came - before).contains(&asked), "{asked}, {came}, {before}");
}

#[test]
fn a_thousand_rows_end_once_though_a_worker_is_cut_off_for_ten_seconds() {
    let Some(middle) = middle(LONG, Apart::TheFirstWorker) else { return };
    let Middle { fleet, relay, place, model, gate, running } = middle;
    relay.cut();
    // As long as the lease: its slots may be given to the other one, or not yet.
    beats(&fleet, 1, 5);
    gate.open();
    relay.mend();
    running.wait().exits(0);
    check_once(&fleet, &place, model);
}

#[test]
fn a_thousand_rows_lose_nothing_though_the_coordinator_is_cut_off_for_ten_seconds() {
    let Some(middle) = middle(LONG, Apart::TheCoordinator) else { return };
    let Middle { fleet, relay, place, model, gate, running } = middle;
    relay.cut();
    beats(&fleet, 1, 3);
    gate.open();
    relay.mend();
    running.wait().exits(0);
    assert_eq!(logged(&place, "lost"), [json!(null); 0]);
    check_once(&fleet, &place, model);
}

#[test]
fn two_thousand_rows_survive_the_death_of_a_worker_the_server_and_the_coordinator() {
    const ALL: usize = 2 * ROWS;
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(ALL), early(ALL - EARLY, &gate));
    // Whoever is killed has all places full.
    let silent = held_by(&Gate::closed());
    fleet.work(PLACES / 2, Some(&silent));
    fleet.work(PLACES / 2, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(300);
    silent.wait_until_came(PLACES / 2);
    fleet.workers[0].kill9();
    fleet.work(PLACES / 2, Some(&model));
    model.wait_until_came(700);
    fleet.nats.kill9();
    fleet.nats.restart();
    // Its rows may be behind those that have all places now.
    model.wait_until_came(ALL - EARLY - PLACES / 2 + PLACES);
    // Nobody else takes them for lost than the process that is about to be killed.
    let name = &fleet.workers[0].name;
    until("slots of the worker are lost", || lost_of(&place, name) == PLACES / 2);
    running.signal(Signal::SIGKILL);
    drop(running.wait());
    let (came, before) = (model.count(), logged(&place, "unit_ended").len());
    gate.open();
    map(&fleet, &place, &model, &["--resume", SESSION]).run().exits(0);
    check_each_row_once(&place, ALL);
    let (asked, lost) = (model.finish().len(), logged(&place, "lost").len());
    // What had come and not ended, and what the second process has lost.
    assert!((ALL..=ALL + came - before + lost).contains(&asked), "{asked}, {came}, {before}");
}
