//! Slots that wait and that no worker takes, and tickets that nobody wants any more.

use async_nats::jetstream;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{
    LONG, SESSION, SHORT, batch, check_each_row_once, echo, held_by, logged, map, table, task,
};
use crate::support::fleet::Fleet;
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve;
use crate::support::tine::Place;
use crate::support::wait::until;

const KEPT: [&str; 2] = ["--session-id", SESSION];

/// Returns how many tickets are in the queue, if that is there: whoever comes first makes
/// it.
async fn tickets(context: &jetstream::Context) -> Option<u64> {
    let stream = context.get_stream("tine-jobs").await.ok()?;
    Some(stream.cached_info().state.messages)
}

#[test]
fn a_run_that_no_worker_takes_says_which_is_missing_and_goes_on_when_one_comes() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let (place, model) = (table(2), echo());
    let running = map(&fleet, &place, &model, &KEPT).start();
    let said = "agents wait: no worker is there; start one with `tine worker`";
    until("it is said", || {
        let has_log = place.sessions().iter().any(|it| it.join("log.jsonl").is_file());
        has_log && !logged(&place, "notice").is_empty()
    });
    fleet.work(2, Some(&model));
    let finished = running.wait().exits(0);
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    check_each_row_once(&place, 2);
    assert_eq!(logged(&place, "notice").len(), 1);
}

#[test]
fn a_server_that_is_away_is_told_of_on_both_sides_and_that_it_is_back() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let (place, model) = (table(2), held_by(&gate));
    fleet.work(2, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    // Both are at work: nobody waits for a worker.
    model.wait_until_came(2);
    let server = fleet.nats.url();
    let server = server.trim_start_matches("nats://");
    fleet.nats.kill9();
    let said = fleet.workers[0].says();
    let lost = format!("there is no connection to NATS at {server}: ");
    assert!(said.starts_with(&lost) && said.ends_with("; waiting for it"), "{said}");
    until("the run says it, too", || !logged(&place, "notice").is_empty());
    fleet.nats.restart();
    assert_eq!(fleet.workers[0].says(), "there is a connection to NATS again");
    until("the run says it, too", || logged(&place, "notice").len() > 1);
    gate.open();
    let finished = running.wait().exits(0);
    assert!(finished.stderr.contains(&format!("agents wait: {lost}")), "{}", finished.stderr);
    assert!(finished.stderr.contains("there is a connection to NATS again"));
    check_each_row_once(&place, 2);
    assert_eq!(logged(&place, "notice").len(), 2);
}

#[test]
fn tickets_of_a_run_that_was_killed_do_not_go_round_for_ever() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let gate = Gate::closed();
    let model = serve(move |_| Reaction::text_reply("held").behind(&gate));
    let place = table(20);
    fleet.work(1, Some(&model));
    let running = map(&fleet, &place, &model, &KEPT).start();
    model.wait_until_came(1);
    running.signal(Signal::SIGKILL);
    let runtime = Runtime::new().expect("a runtime");
    let context = runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        jetstream::new(client)
    });
    until("no ticket is left", || runtime.block_on(tickets(&context)) == Some(0));
}

#[test]
fn a_run_that_hears_no_worker_any_more_has_none_work_in_vain() {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let place = Place::new();
    place.configure(&fleet.configuration());
    let calls = |name| json!({"calls": [batch(&[task(name)])]});
    let script = json!({"units": {"main": [calls("first"), calls("second"), {"text": "done"}]}});
    let model = place.script("script.json", &script);
    let run = ["-p", "go", "-m", &model, "--executor", "nats"];
    let running = place.tine(run.iter().chain(&KEPT)).start();
    let runtime = Runtime::new().expect("a runtime");
    let context = runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        jetstream::new(client)
    });
    until("a ticket is there", || runtime.block_on(tickets(&context)) == Some(1));
    for shard in 0..4 {
        let deleting = context.delete_stream(format!("tine-events-{shard}"));
        runtime.block_on(deleting).unwrap();
    }
    running.wait().exits(0);
    let ended = logged(&place, "unit_ended");
    let why = |line: &Value| line["body"]["outcome"]["message"].to_string();
    let why: Vec<String> = ended.iter().map(why).collect();
    assert_eq!(why.len(), 2, "{ended:?}");
    assert!(why.iter().all(|why| why.contains("reading a stream failed")), "{ended:?}");
}
