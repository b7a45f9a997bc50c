//! Partitions: no packet passes between a worker and the server, or between the
//! coordinator and the server, and no connection is closed.

use std::collections::BTreeSet;

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
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::{HANG_LIMIT, Place, Tine};
use crate::support::wait::until;

const KEPT: [&str; 2] = ["--session-id", SESSION];

/// A map whose coordinator reaches the server over a relay.
fn map_over(relay: &Relay, fleet: &Fleet, place: &Place, model: &Server) -> Tine {
    place.configure(&fleet.configuration_over(&relay.url()));
    mapping(place, model, &KEPT)
}

/// Checks that a map of twelve rows went as if there had been no partition.
#[track_caller]
fn check_nothing_was_lost(fleet: &Fleet, place: &Place, model: Server) {
    check_each_row_once(place, 12);
    assert_eq!(logged(place, "lost"), [json!(null); 0]);
    assert_eq!(results(fleet), [1; 12]);
    assert_eq!(model.finish().len(), 12, "no row is asked twice");
}

/// Waits until a worker has nothing more to do, and checks that it ended well.
#[track_caller]
fn ends_well(fleet: &mut Fleet, worker: usize) {
    fleet.workers[worker].signal(Signal::SIGTERM);
    assert_eq!(fleet.workers[worker].ends().0, Some(0));
}

#[test]
fn slots_of_a_worker_that_is_cut_off_are_run_by_another_and_end_once() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let relay = Relay::to(fleet.nats.port());
    let gate = Gate::closed();
    let (place, model) = (table(4), held_by(&gate));
    fleet.work_over(&relay.url(), 4, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(4);
    relay.cut();
    fleet.work(4, Some(&model));
    // The other one has them all.
    model.wait_until_came(8);
    gate.open();
    running.wait().exits(0);
    check_each_row_once(&place, 4);
    // Whatever had come of it by then.
    assert!(lost_of(&place, &fleet.workers[0].name) >= 4);
    assert_eq!(logged(&place, "unit_ended").len(), 4);
    relay.mend();
    ends_well(&mut fleet, 1);
    // It is of use still; and what it brings late comes before that.
    let next = table(5);
    map(&fleet, &next, &model, &[]).run().exits(0);
    check_each_row_once(&next, 5);
    ends_well(&mut fleet, 0);
    assert_eq!(results(&fleet), [1; 9]);
    assert!(model.finish().len() >= 8 + 5);
}

#[test]
fn what_a_worker_brings_while_another_runs_the_same_counts_once() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let relay = Relay::to(fleet.nats.port());
    let (early, late) = (Gate::closed(), Gate::closed());
    let gates = [early.clone(), late.clone()];
    let came = std::sync::atomic::AtomicUsize::new(0);
    let model = held(move |_| {
        let is_late = came.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= 4;
        gates[usize::from(is_late)].clone()
    });
    let place = table(4);
    fleet.work_over(&relay.url(), 4, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(4);
    relay.cut();
    fleet.work(4, Some(&model));
    model.wait_until_came(8);
    early.open();
    relay.mend();
    late.open();
    running.wait().exits(0);
    check_each_row_once(&place, 4);
    assert_eq!(logged(&place, "unit_ended").len(), 4);
    ends_well(&mut fleet, 0);
    ends_well(&mut fleet, 1);
    assert_eq!(results(&fleet), [1; 4]);
}

#[test]
fn slots_of_the_only_worker_end_once_it_is_reached_again() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let relay = Relay::to(fleet.nats.port());
    let gate = Gate::closed();
    let (place, model) = (table(6), held_by(&gate));
    fleet.work_over(&relay.url(), 3, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(3);
    relay.cut();
    until("three slots are lost", || logged(&place, "lost").len() >= 3);
    gate.open();
    relay.mend();
    running.wait().exits(0);
    check_each_row_once(&place, 6);
    assert_eq!(logged(&place, "unit_ended").len(), 6);
    ends_well(&mut fleet, 0);
    assert_eq!(results(&fleet), [1; 6]);
}

#[test]
fn a_partition_of_a_worker_shorter_than_the_lease_costs_nothing() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let relay = Relay::to(fleet.nats.port());
    let gates = [(); 3].map(|()| Gate::closed());
    let opened = gates.clone();
    let place = table(12);
    // As many as there are slots, for each gate.
    let model = held(move |talk| {
        let number: usize = row(talk)[1..].parse().expect("rows are numbered");
        gates[number / 4].clone()
    });
    fleet.work_over(&relay.url(), 4, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    for (round, gate) in opened.iter().enumerate() {
        model.wait_until_came(4 * (round + 1));
        relay.cut();
        gate.open();
        // Now it has something to say that is to be stored, and nobody hears it.
        relay.wait_until_held("HPUB tine.");
        relay.mend();
    }
    running.wait().exits(0);
    check_nothing_was_lost(&fleet, &place, model);
}

#[test]
fn a_partition_of_the_coordinator_shorter_than_the_lease_costs_nothing() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let relay = Relay::to(fleet.nats.port());
    let gate = Gate::closed();
    let (place, model) = (table(12), held_by(&gate));
    fleet.work(2, Some(&model));
    fleet.work(2, Some(&model));
    let runtime = Runtime::new().expect("a runtime");
    let (_client, mut heard) = runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let heard = client.subscribe("tine.results.>").await.expect("it is connected");
        client.flush().await.expect("it is connected");
        (client, heard)
    });
    let running = map_over(&relay, &fleet, &place, &model).start();
    model.wait_until_came(4);
    relay.cut();
    gate.open();
    // They have answers, and the coordinator does not hear of them.
    let mut answered = BTreeSet::new();
    while answered.len() < 4 {
        let next = async { timeout(HANG_LIMIT, heard.next()).await };
        let said = runtime.block_on(next).expect("they answer");
        let said = said.expect("the connection stands");
        if String::from_utf8_lossy(&said.payload).contains("saw r") {
            // The slot, whether it is a frame of it or its end.
            answered.insert(said.subject.rsplit('.').next().map(str::to_owned));
        }
    }
    assert_eq!(logged(&place, "replied"), [json!(null); 0]);
    relay.mend();
    running.wait().exits(0);
    check_nothing_was_lost(&fleet, &place, model);
}

#[test]
fn workers_stop_what_they_have_of_a_coordinator_that_is_cut_off_and_begin_again() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let relay = Relay::to(fleet.nats.port());
    let gate = Gate::closed();
    let (place, model) = (table(6), held_by(&gate));
    fleet.work(2, Some(&model));
    fleet.work(1, Some(&model));
    let running = map_over(&relay, &fleet, &place, &model).start();
    model.wait_until_came(3);
    relay.cut();
    // Two leases later.
    model.wait_until_hung_up(3);
    gate.open();
    relay.mend();
    running.wait().exits(0);
    check_each_row_once(&place, 6);
    assert_eq!(logged(&place, "unit_ended").len(), 6);
    ends_well(&mut fleet, 0);
    ends_well(&mut fleet, 1);
    assert_eq!(results(&fleet), [1; 6]);
    assert!(model.finish().len() >= 6 + 3, "what was at work is asked again");
}

#[test]
fn a_cancel_waits_for_no_worker_that_is_cut_off_and_reaches_it_later() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let relay = Relay::to(fleet.nats.port());
    let (place, model) = (table(4), serve(|_| Reaction::Hang));
    fleet.work_over(&relay.url(), 2, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(2);
    relay.cut();
    running.signal(Signal::SIGINT);
    running.wait().exits(130);
    assert_eq!(logged(&place, "unit_ended").len(), 4);
    relay.mend();
    model.wait_until_hung_up(2);
    ends_well(&mut fleet, 0);
    assert_eq!(model.finish().len(), 2);
}

#[test]
fn a_coordinator_that_is_cut_off_ends_when_it_is_told_to() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let relay = Relay::to(fleet.nats.port());
    let (place, model) = (table(4), serve(|_| Reaction::Hang));
    fleet.work(2, Some(&model));
    let running = map_over(&relay, &fleet, &place, &model).start();
    model.wait_until_came(2);
    relay.cut();
    running.signal(Signal::SIGINT);
    running.wait().exits(130);
    assert_eq!(logged(&place, "unit_ended").len(), 4);
    // Its workers find out by themselves.
    model.wait_until_hung_up(2);
    ends_well(&mut fleet, 0);
    model.finish();
}
