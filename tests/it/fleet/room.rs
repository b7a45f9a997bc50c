//! Workers whose disks are full.

use std::fs;

use serde_json::{Value, json};

use super::{LONG, SESSION, check_each_row_once, logged, map, row, write_table};
use crate::support::fleet::Fleet;
use crate::support::repository::Repository;
use crate::support::server::Reaction;
use crate::support::talk::serve;
use crate::support::tine::Place;

const MIB: u64 = 1024 * 1024;

/// The lines of the output.
fn lines(place: &Place) -> Vec<Value> {
    let text = place.read("out.jsonl").expect("it was written");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// A workspace with a table of so many rows.
fn workspace(rows: usize) -> Repository {
    let repository = Repository::new();
    write_table(&repository.place, rows);
    repository
}

#[test]
fn a_workspace_that_does_not_fit_fails_with_words_and_the_rest_is_left_to_others() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let repository = workspace(8);
    // Packed it is small.
    repository.write("large.txt", &"as long as it is\n".repeat(4_000_000));
    repository.commit("Begin");
    let place = &repository.place;
    let model = serve(|talk| Reaction::text_reply(&format!("saw {}", row(talk))));
    fleet.work_on_disk(48 * MIB, 2, Some(&model));
    let running = map(&fleet, place, &model, &["--session-id", SESSION]).start();
    let said = fleet.workers[0].says();
    assert!(said.starts_with("the workspace of 0199a000-"), "{said}");
    let copies = fleet.workers[0].directory();
    let leaves = format!(
        "does not fit into {}: leaving its agents to others until there is more room",
        copies.display()
    );
    assert!(said.ends_with(&leaves), "{said}");
    fleet.work(4, Some(&model));
    running.wait().exits(1);
    let (done, failed): (Vec<Value>, Vec<Value>) =
        lines(place).into_iter().partition(|line| line["status"] == "completed");
    // No more than it had places for.
    assert!((1..=2).contains(&failed.len()), "{failed:?}");
    let why = format!(
        "there is no room in {} on its worker; make some, or start it with another `--work-dir`: ",
        copies.display()
    );
    for line in &failed {
        let error = line["error"].as_str().expect("it says why");
        assert!(error.contains(&why), "{error}");
    }
    assert_eq!(done.len() + failed.len(), 8);
    assert_eq!(model.finish().len(), done.len());
    assert_eq!(logged(place, "lost"), [json!(null); 0]);
}

#[test]
fn a_disk_that_a_slot_fills_up_keeps_its_worker_from_more_until_there_is_room() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let repository = workspace(3);
    repository.commit("Begin");
    let place = &repository.place;
    let fill = json!({"command": "yes | head -c 100000000 > filler"});
    let model = serve(move |talk| match (row(talk), talk.turn()) {
        ("r0", 1) => Reaction::call_reply(&[("Bash", fill.clone())]),
        ("r0", _) => {
            let output = talk.outputs().concat();
            assert!(output.contains("No space left on device"), "{output}");
            Reaction::text_reply("The disk is full.")
        }
        (row, _) => Reaction::text_reply(&format!("saw {row}")),
    });
    fleet.work_on_disk(48 * MIB, 1, Some(&model));
    let flags = ["--session-id", SESSION, "--allowedTools", "Bash"];
    let running = map(&fleet, place, &model, &flags).start();
    let copies = fleet.workers[0].directory().display().to_string();
    assert_eq!(
        fleet.workers[0].says(),
        format!("less than 32 MiB are free in {copies}: taking no more agents until there is room")
    );
    // What the slot has written was kept, for a person to look at.
    let kept = fleet.workers[0].disk().join("kept");
    for entry in fs::read_dir(kept).expect("it is there") {
        fs::remove_dir_all(entry.expect("it can be read").path()).expect("it is ours");
    }
    assert_eq!(fleet.workers[0].says(), format!("there is room in {copies} again: taking agents"));
    running.wait().exits(1);
    let lines = lines(place);
    let status: Vec<&Value> = lines.iter().map(|line| &line["status"]).collect();
    assert_eq!(status, ["failed", "completed", "completed"]);
    let error = lines[0]["error"].as_str().expect("it says why");
    let why =
        format!("what it changed could not be sent back: there is no room in {copies} on its");
    assert!(error.contains(&why), "{error}");
    assert!(error.contains(&format!("its files are kept in {copies}/kept/")), "{error}");
    assert_eq!(model.finish().len(), 2 + 2);
}

#[test]
fn what_slots_that_have_ended_left_beside_their_copies_makes_room_for_the_next_one() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let repository = workspace(2);
    repository.commit("Begin");
    let place = &repository.place;
    // All of it goes into a file, since it is too long for a request.
    let speak = json!({"command": "yes | head -c 24000000"});
    let model = serve(move |talk| match (row(talk), talk.turn()) {
        ("r0", 1) => Reaction::call_reply(&[("Bash", speak.clone())]),
        (row, _) => Reaction::text_reply(&format!("saw {row}")),
    });
    fleet.work_on_disk(48 * MIB, 1, Some(&model));
    let flags = ["--session-id", SESSION, "--allowedTools", "Bash"];
    map(&fleet, place, &model, &flags).run().exits(0);
    check_each_row_once(place, 2);
    let left = fs::read_dir(fleet.workers[0].disk().join("runs")).expect("it is there");
    assert_eq!(left.count(), 0);
    let requests = model.finish();
    let outputs = requests[1].json()["messages"].to_string();
    assert!(outputs.contains("/runs/"), "{outputs}");
}
