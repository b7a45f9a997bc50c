//! A cluster of servers: what is stored is there as often as there are nodes, and one
//! of them may go.

use std::future::ready;
use std::time::Duration;

use async_nats::jetstream::{
    self,
    stream::{Config, Placement},
};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use tine::fleet::engine::{Engine, Frame, Said, Settings};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::{LONG, SESSION, check_each_row_once, echo, held, held_by, logged, map, row, table};
use crate::support::fleet::Fleet;
use crate::support::nats::{self, NatsServer};
use crate::support::server::Gate;
use crate::support::tine::HANG_LIMIT;
use crate::support::wait::until;

const KEPT: [&str; 2] = ["--session-id", SESSION];

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
    let running = map(&fleet, &place, &model, &KEPT).start();
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
    assert_eq!(logged(&place, "unit_ended").len(), 12);
    // Nothing is asked again but for what was lost.
    let lost = logged(&place, "lost").len();
    let asked = model.finish().len();
    assert!(asked <= 12 + lost, "{asked} requests, {lost} lost");
}

#[test]
fn a_cluster_of_which_too_few_run_is_told_of_on_both_sides_and_that_it_is_back() {
    let Some(mut fleet) = Fleet::start_cluster(LONG) else { return };
    let (first, other) = (Gate::closed(), Gate::closed());
    let gates = (first.clone(), other.clone());
    let held = held(move |talk| if row(talk) == "r0" { &gates.0 } else { &gates.1 }.clone());
    let (place, model) = (table(2), held);
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(2);
    fleet.others.iter_mut().for_each(NatsServer::kill9);
    // What it comes to waits as long as all else.
    first.open();
    let (mute, back) = (" does not answer: ", "JetStream answers again");
    // Whoever was connected to one of these finds the other first, which may take longer
    // than a lease on a busy machine.
    let says = |part: &str| while !fleet.workers[0].says().contains(part) {};
    says(mute);
    let notices = || logged(&place, "notice").iter().map(Value::to_string).collect::<String>();
    until("the run says it, too", || notices().contains(mute));
    fleet.others.iter_mut().for_each(NatsServer::restart);
    says(back);
    until("the run says it, too", || notices().contains(back));
    // Only now: a run that is over says nothing.
    other.open();
    let finished = running.wait().exits(0);
    assert!(finished.stderr.contains("agents wait: JetStream at "), "{}", finished.stderr);
    check_each_row_once(&place, 2);
}

/// Hears whatever is asked of JetStream about a stream that has no server for now.
async fn offline(server: &NatsServer, stream: &str) -> impl Stream<Item = ()> + use<> {
    let client = async_nats::connect(server.url()).await.expect("the server is there");
    let told = client.subscribe("$JS.EVENT.ADVISORY.API").await.expect("they may be heard");
    client.flush().await.expect("the server is there");
    let subject = format!("$JS.API.STREAM.INFO.{stream}");
    told.filter_map(move |told| {
        // Whoever is subscribed goes with the client.
        let _ = &client;
        let told: Value = serde_json::from_slice(&told.payload).expect("it is JSON");
        let answer = told["response"].as_str().unwrap_or_default();
        let is_it = told["subject"] == subject.as_str() && answer.contains("10118");
        ready(is_it.then_some(()))
    })
}

#[test]
fn a_stream_whose_only_server_is_down_is_waited_for() {
    let Some(servers) = NatsServer::start_cluster() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let waited = async { timeout(HANG_LIMIT * 3, is_waited_for_without_its_server(servers)).await };
    runtime.block_on(waited).expect("all is heard");
}

async fn is_waited_for_without_its_server(mut servers: [NatsServer; 3]) {
    let settings =
        |url| Settings { replicas: Some(1), ..nats::settings(url, Duration::from_secs(1)) };
    let [first, ..] = &servers;
    let laid_out = Engine::connect(&settings(first.url()), "test").await.expect("it is there");
    let context = jetstream::new(async_nats::connect(first.url()).await.expect("it is there"));
    let jobs = context.get_stream("tine-jobs").await.expect("it was laid out");
    let leader = jobs.cached_info().cluster.as_ref().and_then(|cluster| cluster.leader.clone());
    let leads = ["n0", "n1", "n2"].iter().position(|&name| leader.as_deref() == Some(name));
    let leads = leads.unwrap_or_else(|| panic!("{leader:?} leads"));
    // The queue is somewhere else; others may be here, too.
    let home = (leads + 1) % 3;
    let frames = context.get_stream("tine-events-1").await.expect("it was laid out");
    let tags = vec![format!("n{home}")];
    let placement = Some(Placement { cluster: None, tags });
    let moved = Config { placement, ..frames.cached_info().config.clone() };
    context.delete_stream("tine-events-1").await.expect("it is there");
    context.create_stream(moved).await.expect("the server is there");
    drop(laid_out);
    let other = &servers[(home + 1) % 3];
    let engine = Engine::connect(&settings(other.url()), "test").await.expect("it is there");
    let mut heard = engine.listen(SESSION).await.expect("it may be read");
    let mut offline = std::pin::pin!(offline(other, "tine-events-1").await);
    servers[home].stop();
    let mut begins = std::pin::pin!(engine.listen(SESSION));
    // Both have been told, one of them again and again.
    for _ in 0..10 {
        tokio::select! {
            frame = heard.next() => panic!("{frame:?}"),
            begun = &mut begins => panic!("{:?}", begun.map(drop)),
            told = offline.next() => assert_eq!(told, Some(())),
        }
    }
    let lost = engine.is_lost(Duration::from_secs(1)).await;
    assert!(lost.why.contains("error code 10118"), "{}", lost.why);
    servers[home].restart();
    engine.is_back(&lost).await;
    let mut begun = begins.await.expect("it is there again");
    let said = Said { run: SESSION, unit: 1, attempt: 1, seq: 1 };
    engine.say(said, "said".into()).await.expect("it is there again");
    let frame = Frame { unit: 1, is_result: false, attempt: Some(1), payload: "said".into() };
    assert_eq!(begun.next().await.expect("it is there again"), frame);
    assert_eq!(heard.next().await.expect("it is there again"), frame);
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
