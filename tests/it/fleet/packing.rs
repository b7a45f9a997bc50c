//! A workspace that takes longer to pack than workers wait for their answers.

use std::fs;

use async_nats::jetstream;
use tokio::runtime::Runtime;

use super::stories::most_at_work;
use super::{SESSION, check_each_row_once, echo, logged, map, write_table};
use crate::support::fleet::Fleet;
use crate::support::repository::Repository;
use crate::support::tine::git_that;
use crate::support::wait::until;

/// Two of them pass in a test, and no worker is silent for two.
const LEASE: u32 = 4;

/// How often tickets were given out, to whomever.
fn deliveries(fleet: &Fleet, runtime: &Runtime) -> u64 {
    let consumer = format!("{}_any", env!("CARGO_PKG_VERSION").replace('.', "-"));
    runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let jobs = jetstream::new(client).get_stream("tine-jobs").await.expect("it is laid out");
        let info = jobs.consumer_info(consumer).await;
        info.map_or(0, |info| info.delivered.consumer_sequence)
    })
}

#[test]
fn no_more_slots_start_than_there_are_places_when_packing_takes_longer_than_a_lease() {
    let Some(mut fleet) = Fleet::start(LEASE) else { return };
    let (repository, model) = (Repository::new(), echo());
    let place = &repository.place;
    write_table(place, 3);
    repository.commit("Begin");
    // Git, which makes no bundle before it may, and then not before the last claim that
    // has just gone back is old for the coordinator, too.
    let may = place.root().join("may");
    let waits = format!("until [ -e '{}' ]; do sleep 0.05; done; sleep 1", may.display());
    let path = git_that(place, "bundle create", &waits);
    fleet.work(1, Some(&model));
    let running = map(&fleet, place, &model, &["--session-id", SESSION]).env("PATH", &path).start();
    let runtime = Runtime::new().expect("a runtime");
    // By then its worker has asked for two, each for a lease.
    until("two tickets went back", || deliveries(&fleet, &runtime) >= 4);
    fs::write(&may, "").expect("it is ours");
    running.wait().exits(0);
    check_each_row_once(place, 3);
    assert_eq!((most_at_work(place), logged(place, "lost").len()), (1, 0));
}
