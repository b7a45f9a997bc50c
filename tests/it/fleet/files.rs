//! What slots on workers change: it comes into the workspace, or is kept.

use std::fs;

use serde_json::{Value, json};

use super::{LONG, Side, both, call, logged, script, task, task_with, write};
use crate::support::fleet::Fleet;
use crate::support::repository::Repository;
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve;
use crate::support::tine::Place;

/// A repository with something that is committed and something that is not.
fn repository() -> Repository {
    let repository = Repository::new();
    repository.write("lines.txt", "one\n--\ntwo\n--\nthree\n");
    repository.commit("Begin");
    repository.write("lines.txt", "one\n--\ntwo\n--\nthree, not committed\n");
    repository.write("new.txt", "not added\n");
    repository
}

fn edit(old: &str, new: &str) -> Value {
    let arguments = json!({"file_path": "lines.txt", "old_string": old, "new_string": new});
    json!({"calls": [call("Edit", arguments)]})
}

fn bash(command: &str) -> Value {
    json!({"calls": [call("Bash", json!({ "command": command }))]})
}

/// Plays a script in which nobody has to be asked, and returns main's last output.
#[track_caller]
fn play(side: &Side, repository: &Repository, playing: &Value) -> String {
    let flags = ["-o", "stream-json", "--permission-mode", "acceptEdits", "--config"];
    let flags = [&flags[..], &["sandbox.mode=\"off\"", "--allowedTools", "Bash"]].concat();
    let records = side.play(&repository.place, playing, &flags).run().exits(0).records();
    let [output] = <[_; 1]>::try_from(records.outputs()).expect("one call, one output");
    output.text
}

/// What became of each slot, in the order in which they ended.
fn states(place: &Place) -> Vec<Value> {
    let ended = logged(place, "unit_ended").into_iter();
    ended.map(|line| line["body"]["outcome"]["state"].clone()).collect()
}

fn apart(name: &str) -> Value {
    task_with(name, "isolation", "worktree")
}

#[test]
fn what_slots_write_is_in_the_workspace_whether_they_are_apart_or_not() {
    both(|side| {
        side.work(&[2, 2], None);
        let repository = repository();
        let agents = json!({
            "plain": [write("deep/plain.txt", "plain\n"), edit("one", "1"), {"text": "P"}],
            "apart": [write("apart.txt", "apart\n"), edit("two", "2"), {"text": "A"}],
            "looks": [{"calls": [call("Read", json!({"file_path": "new.txt"}))]},
                {"text": "L", "expect": {"contains": ["not added"]}}],
        });
        play(side, &repository, &script(&[task("plain"), apart("apart"), task("looks")], agents));
        let read = |name: &str| repository.place.read(name);
        assert_eq!(read("deep/plain.txt").as_deref(), Some("plain\n"));
        assert_eq!(read("apart.txt").as_deref(), Some("apart\n"));
        let lines = read("lines.txt");
        assert_eq!(lines.as_deref(), Some("1\n--\n2\n--\nthree, not committed\n"));
        let states = states(&repository.place);
        (repository.git(&["status", "--short"]), repository.git(&["for-each-ref"]).len(), states)
    });
}

#[test]
fn a_slot_that_starts_behind_another_sees_what_that_one_has_changed() {
    both(|side| {
        side.work(&[1], None);
        let repository = repository();
        let main = json!([
            {"calls": [super::batch(&[task("first")])]},
            {"calls": [super::batch(&[task("second")])]},
            {"text": "done"},
        ]);
        let units = json!({
            "main": main,
            "first": [write("made.txt", "of the first\n"), edit("one", "1"), {"text": "F"}],
            "second": [bash("cat made.txt lines.txt"),
                {"text": "S", "expect": {"contains": ["of the first\n1\n--\ntwo"]}}],
        });
        let flags = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash"];
        let playing = json!({ "units": units });
        let place = &repository.place;
        let finished = side.play(place, &playing, &flags).run().exits(0);
        let states = states(place);
        assert_eq!(states, ["done", "done"], "{}", finished.stderr);
        (finished.stdout, place.read("made.txt"), place.read("lines.txt"))
    });
}

#[test]
fn a_slot_sees_what_main_has_changed_before_it_started() {
    both(|side| {
        side.work(&[1], None);
        let repository = repository();
        let look = |name: &str, seen: &str| {
            let end = json!({"text": name, "expect": {"contains": [seen]}});
            json!([bash("cat -- *.txt"), end])
        };
        let main = json!([
            {"calls": [super::batch(&[task("first")])]},
            write("written.txt", "written by main\n"),
            {"calls": [super::batch(&[task("second")])]},
            bash("echo said by main >run.txt"),
            {"calls": [super::batch(&[task("third")])]},
            {"text": "done"},
        ]);
        let units = json!({
            "main": main,
            "first": look("first", "not added"),
            "second": look("second", "written by main"),
            "third": look("third", "said by main"),
        });
        let flags = ["--permission-mode", "acceptEdits", "--config", "sandbox.mode=\"off\""];
        let flags = [&flags[..], &["--allowedTools", "Bash"]].concat();
        let place = &repository.place;
        let finished = side.play(place, &json!({ "units": units }), &flags).run().exits(0);
        let states = states(place);
        assert_eq!(states, ["done", "done", "done"], "{}", finished.stderr);
        finished.stdout
    });
}

#[test]
fn what_was_sent_to_workers_is_not_kept_beside_the_log() {
    let Some(fleet) = Fleet::start(LONG) else { return };
    let mut side = Side { fleet: Some(fleet), most: 0 };
    side.work(&[1], None);
    let repository = repository();
    let names = ["first", "second", "third"];
    let mut main = names.map(|name| json!({"calls": [super::batch(&[task(name)])]})).to_vec();
    main.push(json!({"text": "done"}));
    let mut units = json!({ "main": main });
    for name in names {
        units[name] = json!([write(&format!("{name}.txt"), "made\n"), {"text": name}]);
    }
    let (place, playing) = (&repository.place, json!({ "units": units }));
    side.play(place, &playing, &["--permission-mode", "acceptEdits"]).run().exits(0);
    for name in names {
        assert_eq!(place.read(&format!("{name}.txt")).as_deref(), Some("made\n"));
    }
    let [session] = &place.sessions()[..] else { panic!("one session was kept") };
    let left: Vec<_> = fs::read_dir(session.join("bundles")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_a_slot_has_changed_that_is_cancelled_is_kept() {
    both(|side| {
        let edit = json!({"file_path": "lines.txt", "old_string": "two", "new_string": "2"});
        let mut agent = apart("apart");
        agent["run_in_background"] = json!(true);
        let stop = json!({"task_id": "agent-1"});
        let gate = Gate::closed();
        let model = serve(move |talk| match (talk.task(), talk.turn()) {
            ("go", 1) => Reaction::call_reply(&[("Agent", agent.clone())]),
            ("go", 2) => Reaction::call_reply(&[("TaskStop", stop.clone())]).behind(&gate),
            ("go", _) => Reaction::text_reply("done"),
            (_, 1) => Reaction::call_reply(&[("Edit", edit.clone())]),
            _ => {
                // It has changed the file.
                gate.open();
                Reaction::Hang
            }
        });
        side.work(&[1], Some(&model));
        let repository = repository();
        let place = &repository.place;
        let asked = ["-p", "go", "-m", "m", "--permission-mode", "acceptEdits"];
        side.tine(place, &asked).server(&model).run().exits(0);
        let worktrees = logged(place, "worktree");
        let kept: Vec<&Value> =
            worktrees.iter().map(|it| &it["body"]["kept"]).filter(|it| !it.is_null()).collect();
        let [kept] = kept[..] else { panic!("it is kept: {worktrees:?}") };
        let patch = fs::read_to_string(kept["patch"].as_str().expect("it is a text"));
        assert!(patch.expect("it is kept").contains("+2\n"));
        let ended = logged(place, "unit_ended");
        (place.read("lines.txt"), ended[0]["body"]["outcome"].clone())
    });
}

/// The later one goes on only when the earlier one's change is in the workspace.
fn late(repository: &Repository) -> Value {
    let there = repository.place.work().join("lines.txt");
    bash(&format!("while ! grep -q mine {}; do :; done", there.display()))
}

#[test]
fn of_two_that_change_one_place_the_later_is_kept() {
    both(|side| {
        side.work(&[2], None);
        let repository = repository();
        let agents = json!({
            "early": [edit("two", "mine"), {"text": "E"}],
            "late": [edit("two", "theirs"), late(&repository), {"text": "L"}],
        });
        let output = play(side, &repository, &script(&[apart("early"), apart("late")], agents));
        assert!(output.contains("None of it is in the workspace"), "{output}");
        let lines = repository.place.read("lines.txt");
        assert_eq!(lines.as_deref(), Some("one\n--\nmine\n--\nthree, not committed\n"));
        let worktrees = logged(&repository.place, "worktree");
        let kept: Vec<&Value> =
            worktrees.iter().map(|it| &it["body"]["kept"]).filter(|it| !it.is_null()).collect();
        let [kept] = kept[..] else { panic!("one is kept: {worktrees:?}") };
        let patch = fs::read_to_string(kept["patch"].as_str().expect("it is a text"));
        assert!(patch.expect("it is kept").contains("+theirs\n"));
        let (_, told) = output.split_once("lines.txt: both changed it").expect("it is told");
        (kept["conflicts"].clone(), told.to_owned(), repository.git(&["status", "--short"]))
    });
}

#[test]
fn a_slot_that_ends_badly_leaves_the_workspace_as_it_was() {
    both(|side| {
        side.work(&[2], None);
        let repository = repository();
        let fault = json!({"error": {"status": 400, "message": "no more"}});
        let agents = json!({"busy": [edit("one", "changed"), {"text": "", "fault": fault}]});
        let output = play(side, &repository, &script(&[apart("busy")], agents));
        assert!(output.contains("because it did not come to its end"), "{output}");
        (repository.place.read("lines.txt"), repository.git(&["status", "--short"]))
    });
}
