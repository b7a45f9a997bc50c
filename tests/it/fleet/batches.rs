//! Batches on workers: order, failures, nesting, the cap, and slots that never start.

use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::stories::{most_at_work, of_log, of_records};
use super::{LONG, SESSION, batch, both, call, echo, map, script, table, task, task_with};
use crate::support::fleet::Fleet;
use crate::support::life::Life;
use crate::support::repository::Repository;
use crate::support::server::{Gate, Reaction};
use crate::support::talk::serve_calls;
use crate::support::tine::Place;

/// A workspace that workers can have copies of.
pub(super) fn repository() -> Repository {
    let repository = Repository::new();
    repository.write("here.txt", "here\n");
    repository.commit("Begin");
    repository
}

/// A schema of one whole number.
fn schema() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]})
}

/// Slots that end in every way, some of them after calls.
fn ends() -> Value {
    let look = call("Glob", json!({"pattern": "*"}));
    let gives = |size: Value| call("StructuredOutput", json!({ "size": size }));
    let tasks = [
        task("good"),
        task("error"),
        task("panics"),
        task_with("long", "max_turns", 2),
        task_with("sized", "schema", schema()),
        task_with("unsized", "schema", schema()),
        task_with("elsewhere", "model", "scripted:/none"),
        task_with("cut", "subagent_type", "explore"),
    ];
    let refused = json!({"error": {"status": 400, "message": "too hot"}});
    let agents = json!({
        "good": [{"calls": [look]}, {"text": "All good.", "usage": {"input": 7, "output": 2}}],
        "error": [{"text": "half", "calls": [look]}, {"text": "an answ", "fault": refused}],
        "panics": [{"text": "so far", "fault": "panic"}],
        "long": [{"text": "and on", "calls": [look], "repeat": true}],
        "sized": [{"calls": [gives(json!(3))]}],
        "unsized": [{"text": "no", "calls": [gives(json!("three"))], "repeat": true}],
        "cut": [{"text": "cut off", "thinking": "Hm", "chunk": 2, "fault": "cut"}],
    });
    script(&tasks, agents)
}

#[test]
fn slots_that_end_in_every_way_are_told_and_logged_alike() {
    both(|side| {
        side.work(&[8, 8], None);
        let place = repository().place;
        let flags = ["-o", "stream-json", "--config", "retry.most=0"];
        let records = side.play(&place, &ends(), &flags).run().exits(0).records();
        let declared: Vec<Value> =
            records.system("task_started").iter().map(|it| it["description"].clone()).collect();
        (declared, of_log(side, &place), of_records(side, &place, &records))
    });
}

#[test]
fn results_stand_in_declared_order_though_the_last_is_there_first() {
    both(|side| {
        let gates = [(); 3].map(|()| Gate::closed());
        let opened = gates.clone();
        let tasks = ["0", "1", "2"].map(task);
        let calls = [("Agent", json!({ "tasks": tasks }))];
        let came = AtomicUsize::new(0);
        let server = serve_calls(&calls, move |talk| {
            if came.fetch_add(1, Ordering::SeqCst) == 2 {
                opened[2].open();
            }
            let slot: usize = talk.task().parse().expect("slots are numbered");
            Reaction::text_reply(&format!("I am {slot}.")).behind(&opened[slot])
        });
        side.work(&[2, 1], Some(&server));
        let place = Place::new();
        let asked = ["-p", "go", "-m", "m", "-o", "stream-json"];
        let mut running = side.tine(&place, &asked).server(&server).start();
        for ended in (0..3).rev() {
            gates[ended].open();
            let unit = format!("agent-{}", ended + 1);
            running.read_until(|record| {
                record["subtype"] == "task_notification" && record["task_id"] == *unit
            });
        }
        let records = running.wait().exits(0).records();
        let [output] = <[_; 1]>::try_from(records.outputs()).expect("one call, one output");
        let texts: Vec<&str> = output.text.lines().filter(|it| it.starts_with("I am")).collect();
        assert_eq!(texts, ["I am 0.", "I am 1.", "I am 2."]);
        output
    });
}

#[test]
fn as_many_slots_run_as_workers_take_and_never_more() {
    both(|side| {
        let tasks: Vec<Value> = (0..30).map(|number| task(&number.to_string())).collect();
        let (gate, came) = (Gate::closed(), AtomicUsize::new(0));
        let server = serve_calls(&[("Agent", json!({ "tasks": tasks }))], move |_| {
            if came.fetch_add(1, Ordering::SeqCst) + 1 == 3 {
                gate.open();
            }
            Reaction::text_reply("ok").behind(&gate)
        });
        side.work(&[2, 1], Some(&server));
        let place = Place::new();
        let asked = ["-p", "go", "-m", "m", "-o", "stream-json"];
        let records = side.tine(&place, &asked).server(&server).run().exits(0).records();
        assert_eq!(server.most_open(), 3);
        let states = records.system("task_started").into_iter().map(|slot| {
            let unit = slot["task_id"].as_str().expect("it is a text");
            records.states(unit).join(" ")
        });
        let states: Vec<String> = states.collect();
        assert_eq!(states, ["pending running completed"; 30]);
        server.finish().len()
    });
}

#[test]
fn no_moment_of_the_log_has_more_slots_at_work_than_there_are_places() {
    let Some(mut fleet) = Fleet::start(LONG) else { return };
    let (place, model) = (table(200), echo());
    fleet.work(2, Some(&model));
    fleet.work(3, Some(&model));
    map(&fleet, &place, &model, &["--session-id", SESSION]).run().exits(0);
    assert_eq!(most_at_work(&place), 5);
}

#[test]
fn slots_that_still_queue_at_a_cancel_are_never_started() {
    both(|side| {
        let tasks: Vec<Value> = (0..5).map(|number| task(&number.to_string())).collect();
        let server = serve_calls(&[("Agent", json!({ "tasks": tasks }))], |_| Reaction::Hang);
        side.work(&[1, 1], Some(&server));
        let place = Place::new();
        let asked = ["-p", "go", "-m", "m", "-o", "stream-json"];
        let running = side.tine(&place, &asked).server(&server).start();
        server.wait_until_came(3);
        running.signal(Signal::SIGINT);
        let records = running.wait().exits(130).records();
        let states = |unit: &str| records.states(unit).join(" ");
        let mut all = ["agent-1", "agent-2", "agent-3", "agent-4", "agent-5"].map(states);
        // Of workers that wait, whichever asks first is the one that is answered.
        all.sort();
        let requests = server.finish().len();
        assert_eq!(requests, 3, "nobody else was started");
        (all, records.result()["subtype"].clone(), records.system("task_notification").len())
    });
}

#[test]
fn a_slot_starts_agents_of_its_own_where_it_runs() {
    both(|side| {
        // With one place each: who waits for others leaves its own to them.
        side.work(&[1, 1], None);
        let place = repository().place;
        let inner = [task("a"), task_with("b", "subagent_type", "explore"), task("c")];
        let agents = json!({
            "outer": [{"calls": [batch(&inner)]}, {"text": "both of mine are done"}],
            "a": [{"calls": [batch(&[task("deep")])]}, {"text": "A"}],
            "b": [{"text": "B"}],
            "c": [{"text": "", "fault": "panic"}],
            "deep": [{"text": "D"}],
        });
        let playing = script(&[task("outer")], agents);
        let flags = ["-o", "stream-json", "--config", "agents.max_depth=3"];
        let records = side.play(&place, &playing, &flags).run().exits(0).records();
        assert_eq!(records.system("task_started").len(), 5);
        (of_log(side, &place), records.outputs())
    });
}

#[test]
fn slots_of_one_batch_after_another_have_their_branches_and_see_no_less() {
    both(|side| {
        side.work(&[4], None);
        let place = repository().place;
        let pair = |one: &str, other: &str| json!({"calls": [batch(&[task(one), task(other)])]});
        let units = json!({
            "main": [pair("a", "b"), pair("c", "d"), {"text": "done"}],
            "a": [pair("a1", "a2"), {"text": "A"}], "*": [{"text": "fine"}],
        });
        side.play(&place, &json!({ "units": units }), &[]).run().exits(0);
        let tokens =
            |line: Value| (line["path"].clone(), line["kind"].clone(), line["branch"].clone());
        let mut tokens: Vec<_> = place.log().into_iter().map(tokens).collect();
        // Those of one batch are at work at once.
        tokens.sort_by_key(|(path, ..)| path.to_string());
        tokens
    });
}

#[test]
fn what_a_slot_runs_ends_with_the_run() {
    both(|side| {
        side.work(&[1], None);
        let (place, aside) = (repository().place, Place::new());
        let life = Life::new(&aside);
        let command = format!("cd {}; {}", aside.work().display(), Life::held_by("sleep 1000"));
        let agents = json!({"busy": [{"calls": [call("Bash", json!({"command": command}))]}]});
        let flags = ["--allowedTools", "Bash", "--config", "sandbox.mode=\"off\""];
        let running = side.play(&place, &script(&[task("busy")], agents), &flags).start();
        let begun = life.begun();
        running.signal(Signal::SIGINT);
        running.wait().exits(130);
        begun.ended();
        of_log(side, &place)["main.busy"].last().map(|line| line["body"]["outcome"].clone())
    });
}

#[test]
fn agents_in_the_background_are_waited_for_and_stopped() {
    both(|side| {
        side.work(&[2, 2], None);
        let place = repository().place;
        let beside = |name: &str| {
            let mut task = task(name);
            task["run_in_background"] = json!(true);
            call("Agent", task)
        };
        let wait = json!({"task_ids": ["agent-1"], "until": "any"});
        let units = json!({
            "main": [
                {"calls": [beside("ends"), beside("hangs")]},
                {"calls": [call("TaskWait", wait)]},
                {"calls": [call("TaskStop", json!({"task_id": "agent-2"}))]},
                {"text": "done"},
            ],
            "ends": [{"text": "It is done."}],
            "hangs": [{"text": "half", "fault": "hang"}],
        });
        // What is told of the one that was stopped may need a turn of its own.
        let playing = json!({"units": units, "then": {"text": "done"}});
        let flags = ["-o", "stream-json"];
        let records = side.play(&place, &playing, &flags).run().exits(0).records();
        let last = |unit: &str| records.states(unit).last().map(|state| (*state).to_owned());
        let answer = &records.outputs()[2];
        assert!(answer.text.contains("It is done."), "{answer:?}");
        (last("agent-1"), last("agent-2"), records.result()["result"].clone())
    });
}
