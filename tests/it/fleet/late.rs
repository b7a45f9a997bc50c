//! What comes late: a result when its slot is lost already, and a ticket when the one
//! before it is gone.

use std::sync::Arc;

use async_nats::jetstream;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tine::event::{Outcome, Replied, UnitId};
use tine::fleet::engine::{Engine, Won};
use tine::fleet::wire::{Claim, Claimed, FarEnd, Word};
use tine::message::{StopReason, Usage};
use tokio::runtime::Runtime;

use super::refused::engine;
use super::{SESSION, SHORT, check_each_row_once, echo, logged, map, table, write_table};
use crate::support::fleet::Fleet;
use crate::support::repository::Repository;
use crate::support::tine::Place;
use crate::support::wait::{found, until};

const KEPT: [&str; 2] = ["--session-id", SESSION];

const PATCH: &str = "diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+two
";

/// What a slot says and comes to that asked its model once.
fn end(changes: Arc<str>) -> FarEnd {
    let replied = Replied {
        reply: Arc::default(),
        model: "m".into(),
        usage: Usage { input: 30, output: 4, ..Usage::default() },
        stop: StopReason::EndTurn,
        took_ms: 1,
    };
    let outcome = Outcome::Done { text: "saw r0".into() };
    let words = |unit| vec![(unit, Word::TurnStarted { turn: 1 }), (unit, Word::Replied(replied))];
    let words = words(UnitId(1));
    FarEnd { attempt: 1, after: 0, words, outcome, changes: Some(changes), left: None }
}

/// Takes the first slot, as a worker does, and returns its run and which it is.
pub(super) fn takes_one(runtime: &Runtime, engine: &Engine) -> (Arc<str>, UnitId) {
    let ticket = runtime.block_on(async {
        let mut tickets = engine.pull(&[]).await.expect("there are tickets");
        tickets.next().await.expect("there is one")
    });
    let (run, unit) = (Arc::clone(&ticket.job.run), UnitId(ticket.job.unit));
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let claim = Claim { version, worker: "silent".into(), unit, ended: Vec::new(), had: None };
    // It may take its time to pack what the slot is given.
    let answer = found("the slot is given", || {
        runtime.block_on(engine.claim(&run, claim.encode().into())).ok()
    });
    let claimed = Claimed::decode(&answer).expect("it can be read");
    assert!(matches!(claimed, Claimed::Granted(_)), "{claimed:?}");
    (run, unit)
}

/// Takes the only slot, says nothing until it is lost, and brings its result then.
fn works_in_silence(fleet: &Fleet, place: &Place) -> Won {
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(engine(fleet));
    let (run, unit) = takes_one(&runtime, &engine);
    until("the slot is lost", || !logged(place, "lost").is_empty());
    runtime.block_on(async {
        let patch = engine.put_blob(PATCH.as_bytes()).await.expect("there is room");
        let end = end(patch.to_string().into()).encode();
        engine.result(&run, unit.0, end.into()).await.expect("it is stored")
    })
}

#[test]
fn a_result_that_comes_when_its_slot_is_lost_lands_its_change_and_counts_what_it_used() {
    let Some(fleet) = Fleet::start(SHORT) else { return };
    let repository = Repository::new();
    let place = &repository.place;
    write_table(place, 1);
    repository.write("a.txt", "one\n");
    repository.commit("Begin");
    let model = echo();
    let running = map(&fleet, place, &model, &KEPT).start();
    assert_eq!(works_in_silence(&fleet, place), Won::First);
    running.wait().exits(0);
    let line = place.read("out.jsonl").expect("it was written");
    let line: Value = serde_json::from_str(&line).expect("it is one line");
    assert_eq!(line["status"], "completed");
    assert!(line["result"].as_str().is_some_and(|text| text.ends_with("saw r0")), "{line}");
    assert_eq!(place.read("a.txt").as_deref(), Some("two\n"));
    let [ended] = &logged(place, "unit_ended")[..] else { panic!("it has one end") };
    let used = &ended["body"]["usage"];
    assert_eq!(json!([used["input"], used["output"], ended["body"]["turns"]]), json!([30, 4, 1]));
    let changed: Vec<Value> = logged(place, "file_changed");
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(model.finish().len(), 0);
}

#[test]
fn a_ticket_that_is_gone_is_given_out_anew() {
    let Some(mut fleet) = Fleet::start(SHORT) else { return };
    let (place, model) = (table(3), echo());
    let running = map(&fleet, &place, &model, &KEPT).start();
    let runtime = Runtime::new().expect("a runtime");
    // One of them has been lost before, and waits as the others do.
    takes_one(&runtime, &runtime.block_on(engine(&fleet)));
    until("a slot is lost", || !logged(&place, "lost").is_empty());
    let context = runtime.block_on(async {
        let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
        jetstream::new(client)
    });
    // As the server does with what has waited for a day.
    let mut purged = 0;
    until("all tickets were there", || {
        runtime.block_on(async {
            if let Ok(stream) = context.get_stream("tine-jobs").await {
                purged += stream.purge().await.expect("it may be purged").purged;
            }
        });
        purged >= 3
    });
    let jobs = runtime.block_on(context.get_stream("tine-jobs")).expect("it is there");
    let again = found("all tickets are there again", || {
        runtime.block_on(async {
            let state = jobs.get_info().await.expect("the server is there").state;
            let each =
                (state.first_sequence..=state.last_sequence).map(|it| jobs.get_raw_message(it));
            if state.messages == 3 { Some(join_all(each).await) } else { None }
        })
    });
    for ticket in again {
        let ticket = ticket.expect("it is there");
        let job: Vec<&str> = ticket.subject.rsplit('.').take(2).collect();
        let id = format!("{}/{}", job[1], job[0]);
        assert_eq!(ticket.headers.get("Nats-Msg-Id").map(|it| it.as_str()), Some(&*id));
    }
    fleet.work(3, Some(&model));
    running.wait().exits(0);
    check_each_row_once(&place, 3);
}
