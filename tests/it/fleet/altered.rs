//! Blobs that somebody else has written over: no slot begins with them, or ends.

use std::collections::HashMap;
use std::fs;

use async_nats::jetstream::{self, object_store::ObjectStore};
use futures_util::StreamExt as _;
use serde_json::Value;
use tine::event::Outcome;
use tine::fleet::engine::Won;
use tine::fleet::packet::Packet;
use tine::fleet::wire::FarEnd;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;

use super::late::takes_one;
use super::refused::engine;
use super::unheard::failed as only_failed;
use super::{LONG, SESSION, check_each_row_once, echo, logged, map, mapping, write_table};
use crate::support::fleet::Fleet;
use crate::support::repository::Repository;
use crate::support::tine::Place;

const HINT: &str =
    "somebody else wrote to the bucket of blobs: see who may; the next run sends it again";

async fn store(fleet: &Fleet) -> ObjectStore {
    let client = async_nats::connect(fleet.nats.url()).await.expect("the server is there");
    let store = jetstream::new(client).get_object_store("tine-blobs").await;
    store.expect("the bucket is there")
}

/// Returns all blobs by their names.
async fn blobs(store: &ObjectStore) -> HashMap<String, Vec<u8>> {
    let mut blobs = HashMap::new();
    let mut all = store.list().await.expect("it has a list");
    while let Some(info) = all.next().await {
        let (name, mut bytes) = (info.expect("it can be listed").name, Vec::new());
        let mut blob = store.get(&name).await.expect("it is there");
        blob.read_to_end(&mut bytes).await.expect("it can be read");
        blobs.insert(name, bytes);
    }
    blobs
}

/// Writes over those blobs, and returns their names.
async fn alter(fleet: &Fleet, is_meant: fn(&[u8]) -> bool) -> Vec<String> {
    let store = store(fleet).await;
    let mut names = Vec::new();
    for (name, mut bytes) in blobs(&store).await {
        if is_meant(&bytes) {
            bytes.reverse();
            store.put(&*name, &mut &*bytes).await.expect("there is room");
            names.push(name);
        }
    }
    names
}

fn is_packet(bytes: &[u8]) -> bool {
    Packet::decode(bytes).is_ok()
}

fn is_of_workspace(bytes: &[u8]) -> bool {
    !is_packet(bytes)
}

/// The end of a slot that has changed this.
fn end(changes: Option<&str>) -> FarEnd {
    let outcome = Outcome::Done { text: "done".into() };
    let changes = changes.map(Into::into);
    FarEnd { attempt: 1, after: 0, words: Vec::new(), outcome, changes, left: None }
}

/// Checks that a slot which is given such a blob fails and says so, and that the next run
/// has what it needs.
#[track_caller]
fn check_altered(is_meant: fn(&[u8]) -> bool) {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (repository, model) = (Repository::new(), echo());
    let place = &repository.place;
    write_table(place, 2);
    // So the workspace stays as it is.
    repository.write(".gitignore", "out.jsonl\n");
    repository.commit("Begin");
    let running = map(&fleet, place, &model, &["--session-id", SESSION]).start();
    let runtime = Runtime::new().expect("a runtime");
    // All of it is there once a slot is given.
    let engine = runtime.block_on(engine(&fleet));
    let (run, unit) = takes_one(&runtime, &engine);
    let altered = runtime.block_on(alter(&fleet, is_meant));
    assert!(!altered.is_empty(), "there is none");
    let won = runtime.block_on(engine.result(&run, unit.0, end(None).encode().into()));
    assert_eq!(won.expect("it is stored"), Won::First);
    fleet.work(1, Some(&model));
    running.wait().exits(1);
    let error = failed(place);
    let says = |name: &String| {
        let why = format!("blob {name} is not what its name says\nhint: {HINT}");
        error.contains(&why)
    };
    assert!(altered.iter().any(says), "{error}");
    assert_eq!((logged(place, "lost").len(), model.count()), (0, 0));
    fs::remove_file(place.work().join("out.jsonl")).expect("it is ours");
    mapping(place, &model, &[]).run().exits(0);
    check_each_row_once(place, 2);
    assert_eq!(model.finish().len(), 2);
}

/// Returns why one of two rows failed.
#[track_caller]
fn failed(place: &Place) -> String {
    let text = place.read("out.jsonl").expect("it was written");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON"));
    let (done, failed): (Vec<Value>, Vec<Value>) =
        lines.partition(|line: &Value| line["status"] == "completed");
    let ([_], [failed]) = (&done[..], &failed[..]) else { panic!("one has failed: {text}") };
    failed["error"].as_str().expect("it says why").to_owned()
}

#[test]
fn a_slot_does_not_begin_with_what_another_has_put_in_the_place_of_what_its_run_shares() {
    check_altered(is_packet);
}

#[test]
fn a_slot_does_not_begin_with_what_another_has_put_in_the_place_of_its_workspace() {
    check_altered(is_of_workspace);
}

/// Checks that a slot fails whose worker names such a blob in what it brings, and says so.
#[track_caller]
fn check_brought(brought: fn(&str) -> Vec<u8>, what: &str) {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let (repository, model) = (Repository::new(), echo());
    let place = &repository.place;
    write_table(place, 1);
    repository.commit("Begin");
    let running = map(&fleet, place, &model, &["--session-id", SESSION]).start();
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(engine(&fleet));
    let (run, unit) = takes_one(&runtime, &engine);
    let name = runtime.block_on(async {
        let name = engine.put_blob(b"as it was").await.expect("there is room").to_string();
        let other = store(&fleet).await.put(&*name, &mut &b"as it is"[..]).await;
        other.expect("there is room");
        name
    });
    let won = runtime.block_on(engine.result(&run, unit.0, brought(&name).into()));
    assert_eq!(won.expect("it is stored"), Won::First);
    let error = only_failed(place, running.wait());
    let why = format!("{what}: blob {name} is not what its name says\nhint: {HINT}");
    assert!(error.contains(&why), "{error}");
    assert_eq!(model.finish().len(), 0);
}

#[test]
fn a_slot_does_not_end_with_what_another_has_put_in_the_place_of_what_it_came_to() {
    check_brought(|name| format!("blob {name}").into_bytes(), "what it came to cannot be read");
}

#[test]
fn a_slot_does_not_end_with_what_another_has_put_in_the_place_of_what_it_changed() {
    check_brought(|name| end(Some(name)).encode(), "what it changed did not come back");
}
