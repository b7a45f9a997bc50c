//! Runs and workers that share a server and nothing else: labels and prefixes, and a
//! worker that is told of the server as it starts.

use async_nats::jetstream;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::refused::meeting_at;
use super::{LONG, SESSION, check_each_row_once, echo, map, mapping, table};
use crate::support::fleet::Fleet;
use crate::support::tine::Place;
use crate::support::wait::until;

/// How many tickets are in the queue.
fn queued(fleet: &Fleet) -> u64 {
    Runtime::new().expect("a runtime").block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        let jobs = jetstream::new(client).get_stream("tine-jobs").await;
        jobs.expect("whoever came first has made it").cached_info().state.messages
    })
}

#[test]
fn slots_of_a_run_with_a_label_are_taken_by_workers_that_have_it_and_by_no_others() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (labelled, other) = (table(6), table(5));
    let (plain, gpu) = (echo(), echo());
    fleet.work(3, Some(&plain));
    labelled.configure(&format!("{}label = \"gpu\"\n", fleet.configuration()));
    let running = mapping(&labelled, &gpu, &[]).start();
    until("all tickets of the run with a label wait", || queued(&fleet) == 6);
    // It takes what it may, and all of that came later.
    map(&fleet, &other, &plain, &[]).run().exits(0);
    check_each_row_once(&other, 5);
    assert_eq!((plain.count(), gpu.count()), (5, 0));
    until("those of the other run are gone, and no others", || queued(&fleet) == 6);
    fleet.work_as(3, &["--label", "gpu"], "", |tine| tine.server(&gpu));
    running.wait().exits(0);
    check_each_row_once(&labelled, 6);
    assert_eq!((plain.count(), gpu.count()), (5, 6));
    // One with a label takes what asks for none, too.
    fleet.workers[0].signal(Signal::SIGTERM);
    assert_eq!(fleet.workers[0].ends().0, Some(0));
    let third = table(4);
    map(&fleet, &third, &plain, &[]).run().exits(0);
    check_each_row_once(&third, 4);
    assert_eq!((plain.finish().len(), gpu.finish().len()), (5, 10));
}

/// The names of the workers that are listed.
fn listed(place: &Place) -> Vec<String> {
    let listed = place.tine(["workers", "-o", "json"]).run().exits(0).result();
    let workers = listed["workers"].as_array().expect("it is a list");
    let name = |worker: &Value| worker["worker"].as_str().expect("it is a text").to_owned();
    workers.iter().map(name).collect()
}

#[test]
fn two_prefixes_on_one_server_know_nothing_of_each_other() {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let (places, models) = ([(); 2].map(|()| table(6)), [(); 2].map(|()| echo()));
    let prefixes = ["prefix = \"one\"\n", "prefix = \"two\"\n"];
    let mut fleet = fleet;
    for ((prefix, place), model) in prefixes.into_iter().zip(&places).zip(&models) {
        fleet = fleet.with(prefix);
        fleet.work(2, Some(model));
        place.configure(&fleet.configuration());
    }
    for (place, worker) in places.iter().zip(&fleet.workers) {
        until("it is listed", || !listed(place).is_empty());
        assert_eq!(listed(place), [worker.name.as_str()]);
    }
    // Even a session of the same name is another one.
    let flags = ["--session-id", SESSION];
    let running = [0, 1].map(|side| mapping(&places[side], &models[side], &flags).start());
    for running in running {
        running.wait().exits(0);
    }
    for place in &places {
        check_each_row_once(place, 6);
    }
    assert_eq!(models.map(|model| model.finish().len()), [6; 2]);
}

#[test]
fn a_worker_goes_to_the_server_that_its_flag_names_and_not_to_that_of_its_configuration() {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    drop(listener);
    let (own, place, here, there) =
        (meeting_at(&format!("nats://{address}")), table(3), echo(), echo());
    let worker = own.tine(["worker", "--connect", &fleet.nats.url()]).server(&there).start();
    map(&fleet, &place, &here, &[]).run().exits(0);
    check_each_row_once(&place, 3);
    worker.signal(Signal::SIGTERM);
    worker.wait().exits(0);
    assert_eq!((here.finish().len(), there.finish().len()), (0, 3));
}
