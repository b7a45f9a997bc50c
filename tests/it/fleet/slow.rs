//! Slow consumers: a coordinator and a worker that stand still until the server has
//! dropped them, and then go on.

use async_nats::jetstream;
use futures_util::TryStreamExt as _;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{LONG, SESSION, check_each_row_once, held_by, logged, map, row, table};
use crate::support::fleet::Fleet;
use crate::support::nats::NatsServer;
use crate::support::server::{Gate, Reaction, Server};
use crate::support::talk::serve;
use crate::support::tine::Place;
use crate::support::wait::found;

const KEPT: [&str; 2] = ["--session-id", SESSION];

/// How many bytes a long text has: two of them fit into one message.
const LENGTH: usize = 400_000;

/// How many slots there are at once. Their long texts are more than the server keeps.
const SLOTS: usize = 48;

/// How many bytes the server keeps for a client that does not read, beside what is in
/// the system's memory.
const PENDING: u64 = 16 * 1024 * 1024;

/// What the server says when it drops a client.
const DROPPED: &str = "Slow Consumer Detected";

/// A fleet whose server keeps little for those who do not read.
fn strict() -> Option<Fleet> {
    let store = "jetstream { store_dir: STORE, sync_interval: always }";
    let server = NatsServer::start_with(&format!("{store}\nmax_pending: {PENDING}"))?;
    Some(Fleet::at(server, LONG))
}

/// Somebody else at the server.
struct Other {
    runtime: Runtime,
    client: async_nats::Client,
}

impl Other {
    fn at(fleet: &Fleet) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async_nats::connect(fleet.nats.url()));
        Self { client: client.expect("the server is there"), runtime }
    }

    /// Tells whoever listens more than the server keeps for one that does not read.
    fn drown(&self, subject: &str) {
        self.runtime.block_on(async {
            for _ in 0..SLOTS {
                let noise = vec![b' '; 2 * LENGTH];
                let told = self.client.publish(subject.to_owned(), noise.into()).await;
                told.expect("it is connected");
            }
            self.client.flush().await.expect("it is connected");
        });
    }

    /// Waits until the server has more of what slots say than it keeps for a client, and
    /// returns what their run is called.
    fn stores_much(&self) -> String {
        found("the server has more than it keeps for a client", || {
            let (stored, subjects) = self.runtime.block_on(self.stored());
            let run = subjects.first()?.split('.').nth(3);
            let run = run.expect("a subject names the run").to_owned();
            (stored > PENDING + PENDING / 16).then_some(run)
        })
    }

    /// Returns how many bytes the server has of what slots say, and under which subjects.
    async fn stored(&self) -> (u64, Vec<String>) {
        let context = jetstream::new(self.client.clone());
        let (mut stored, mut subjects) = (0, Vec::new());
        for shard in 0..4 {
            let stream = context.get_stream(format!("tine-events-{shard}")).await;
            let stream = stream.expect("whoever came first has made it");
            stored += stream.cached_info().state.bytes;
            let found = stream.info_with_subjects(">").await.expect("it can be asked");
            let found: Vec<(String, usize)> = found.try_collect().await.expect("as above");
            subjects.extend(found.into_iter().map(|(subject, _)| subject));
        }
        (stored, subjects)
    }
}

/// A long text that is another one for each row.
fn long_text(row: &str) -> String {
    format!("saw {row} ").repeat(LENGTH / (row.len() + 5))
}

/// Checks that nothing was lost or begun twice.
#[track_caller]
fn check_once(place: &Place, model: Server, count: usize) {
    assert_eq!(logged(place, "lost"), [json!(null); 0]);
    assert_eq!(logged(place, "unit_ended").len(), count);
    assert_eq!(model.finish().len(), count, "no row is asked twice");
}

/// Checks that each row has its whole text.
#[track_caller]
fn check_whole(place: &Place, count: usize) {
    let text = place.read("out.jsonl").expect("it was written");
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!(rows.len(), count);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["status"], "completed");
        let text = row["result"].as_str().expect("it is a text");
        assert!(text == long_text(&format!("r{index}")), "row {index} has {} bytes", text.len());
    }
}

#[test]
fn a_coordinator_that_the_server_drops_reads_on_where_it_was() {
    let Some(mut fleet) = strict() else { return };
    let gate = Gate::closed();
    let (place, held) = (table(SLOTS), gate.clone());
    let model = serve(move |talk| Reaction::text_reply(&long_text(row(talk))).behind(&held));
    fleet.work(SLOTS / 2, Some(&model));
    fleet.work(SLOTS / 2, Some(&model));
    let other = Other::at(&fleet);
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(SLOTS);
    running.signal(Signal::SIGSTOP);
    gate.open();
    let run = other.stores_much();
    other.drown(&format!("tine.beat.{run}"));
    fleet.nats.wait_until_says(DROPPED);
    running.signal(Signal::SIGCONT);
    running.wait().exits(0);
    check_whole(&place, SLOTS);
    check_once(&place, model, SLOTS);
    assert!(!fleet.nats.has_said(DROPPED), "it is not sent more than it can take");
}

#[test]
fn a_worker_that_the_server_drops_goes_on_with_what_it_has() {
    let Some(mut fleet) = strict() else { return };
    let gate = Gate::closed();
    let (place, model) = (table(2 * SLOTS), held_by(&gate));
    fleet.work(SLOTS, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(SLOTS);
    fleet.workers[0].signal(Signal::SIGSTOP);
    gate.open();
    Other::at(&fleet).drown(&format!("tine.to.{}", fleet.workers[0].name));
    fleet.nats.wait_until_says(DROPPED);
    fleet.workers[0].signal(Signal::SIGCONT);
    running.wait().exits(0);
    check_each_row_once(&place, 2 * SLOTS);
    check_once(&place, model, 2 * SLOTS);
}
