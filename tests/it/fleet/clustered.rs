//! A cluster of servers: what is stored is there as often as there are nodes, and one
//! of them may go.

use async_nats::jetstream;
use futures_util::TryStreamExt as _;
use tokio::runtime::Runtime;

use super::{LONG, check_each_row_once, echo, held_by, map, table};
use crate::support::fleet::Fleet;
use crate::support::server::Gate;

/// What each stream of a server is called, how many copies it has, and who leads it.
fn streams(fleet: &Fleet) -> Vec<(String, usize, String)> {
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let streams = jetstream::new(client).streams().try_collect::<Vec<_>>().await;
        let streams = streams.expect("it has a list").into_iter().map(|found| {
            let leader = found.cluster.and_then(|cluster| cluster.leader);
            (found.config.name, found.config.num_replicas, leader.unwrap_or_default())
        });
        streams.collect()
    })
}

#[test]
fn all_is_there_three_times_and_a_run_goes_on_when_the_server_is_killed_that_leads() {
    let Some(mut fleet) = Fleet::start_cluster(LONG) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(12), held_by(&gate));
    fleet.work(2, Some(&model));
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &[]).start();
    model.wait_until_came(4);
    let streams = streams(&fleet);
    let three = streams.iter().filter(|(.., copies, _)| *copies == 3).count();
    assert_eq!((streams.len(), three), (8, 8), "{streams:?}");
    let jobs = streams.iter().find(|(name, ..)| name == "tine-jobs");
    let (_, _, leader) = jobs.expect("the queue is there");
    match leader.as_str() {
        "n0" => fleet.nats.kill9(),
        "n1" => fleet.others[0].kill9(),
        "n2" => fleet.others[1].kill9(),
        other => panic!("{other} leads"),
    }
    gate.open();
    running.wait().exits(0);
    check_each_row_once(&place, 12);
}

#[test]
fn a_cluster_that_lacks_servers_is_not_laid_out_with_fewer_copies_for_ever() {
    let Some(fleet) = Fleet::start_cluster(LONG) else { return };
    let fleet = fleet.with("replicas = 5");
    let finished = map(&fleet, &table(1), &echo(), &[]).run().exits(52);
    let said = "error: there are too few NATS servers for 5 copies of what is stored: ";
    assert!(finished.stderr.starts_with(said), "{}", finished.stderr);
    let hint = "\nhint: start the other servers of the cluster (once more, if one runs and is left \
                out), or set `replicas = 1` ";
    assert!(finished.stderr.contains(hint), "{}", finished.stderr);
    assert_eq!(streams(&fleet), []);
}
